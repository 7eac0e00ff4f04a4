"""GGUF files made here with the format's own writer."""

import pytest
from gguf import GGUFWriter

from ropewalk import RopewalkError, from_config


def write(path, **scaling):
    writer = GGUFWriter(path, "llama")
    for add, value in (
        (writer.add_context_length, 2048), (writer.add_embedding_length, 128), (writer.add_block_count, 2),
        (writer.add_feed_forward_length, 256), (writer.add_head_count, 4), (writer.add_head_count_kv, 2),
        (writer.add_rope_freq_base, 100_000.0), (writer.add_layer_norm_rms_eps, 1e-5), (writer.add_vocab_size, 100),
    ):  # fmt: skip
        add(value)
    for key, value in scaling.items():
        (writer.add_string if isinstance(value, str) else writer.add_float32)(f"llama.rope.scaling.{key}", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def test_reads_what_the_metadata_states(tmp_path):
    spec = from_config(write(tmp_path / "plain.gguf"))
    assert (spec.native_length, spec.layers[0].base, spec.layers[0].head_dim) == (2048, 100_000.0, 32)
    assert len(spec.layers) == 2


def test_a_scaling_that_transformers_would_drop_is_an_error(tmp_path):
    with pytest.raises(RopewalkError, match=r"llama.rope.scaling.type.*which transformers drops"):
        from_config(write(tmp_path / "scaled.gguf", type="yarn", factor=4.0))


def test_a_truncated_file(tmp_path):
    whole = write(tmp_path / "whole.gguf").read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RopewalkError, match=r"cut.gguf"):
        from_config(tmp_path / "cut.gguf")
