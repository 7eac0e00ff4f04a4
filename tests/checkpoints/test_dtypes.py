"""Weights in other numbers than float32: mapped from their file, quantised as stored, under float32 frequencies."""

import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from ropewalk import RopewalkError, YaRN, from_config
from ropewalk.checkpoints.load import load
from ropewalk.checkpoints.patch import read_frequencies, rotary_modules, scaled
from ropewalk.checkpoints.verify import verify
from ropewalk.checkpoints.weights import elements, stored_dtype, width
from ropewalk.checkpoints.write import write_checkpoint
from ropewalk.extend import plan
from ropewalk.extend.placing import device_for


def saved(tiny, folder, change):
    """A copy of the tiny model with other tensors."""
    shutil.copytree(tiny, folder)
    file = folder / "model.safetensors"
    save_file(change(load_file(file)), folder / "other", metadata={"format": "pt"})
    (folder / "other").replace(file)  # and not over it: it may be mapped
    return folder


@pytest.fixture(scope="module")
def half(tiny, tmp_path_factory):
    """The tiny model in bfloat16."""
    folder = tmp_path_factory.mktemp("half") / "half"
    return saved(tiny, folder, lambda tensors: {name: tensor.bfloat16() for name, tensor in tensors.items()})


def mapped(file: Path) -> list[range]:
    """The addresses at which this process sees `file`."""
    lines = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    spans = [line[0].split("-") for line in lines if line[-1] == str(file.resolve())]
    return [range(int(start, 16), int(end, 16)) for start, end in spans]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc says what is mapped")
def test_weights_in_their_stored_dtype_are_pages_of_the_file(half):
    model = load(half, dtype=torch.bfloat16).model
    pages = mapped(half / "model.safetensors")
    assert all(any(p.data_ptr() in page for page in pages) for p in model.parameters())
    assert not any(p.data_ptr() in page for p in load(half).model.parameters() for page in pages)


def test_what_is_stored_is_read_from_the_headers(half, tiny):
    parameters = sum(p.numel() for p in load(tiny).model.parameters())
    assert (stored_dtype(half), elements(half)) == (torch.bfloat16, {"BF16": parameters})
    assert (stored_dtype(tiny), elements(tiny)) == (torch.float32, {"F32": parameters})
    assert [width(name) for name in ("F32", "BF16", "F8_E4M3", "U8", "I64", "BOOL")] == [4, 2, 1, 1, 8, 1]


def test_frequencies_and_angles_stay_float32(half):
    """In bfloat16 position 257 would be 256: all angles past it would be those of others."""
    checkpoint, scaling = load(half, dtype=torch.bfloat16), YaRN(4.0, 64)
    wanted = from_config(half).extended(scaling, 256).layers[0].rotary(numerics="float32").frequencies(256)
    with scaled(checkpoint.model, wanted):
        assert all(torch.equal(got.inv_freq, wanted.inv_freq) for got in read_frequencies(checkpoint.model, 256))
        (rotary,) = rotary_modules(checkpoint.model)
        cos, _ = rotary(torch.zeros(1, 1, 1, dtype=torch.bfloat16), torch.arange(256)[None])
    angles = torch.arange(256).double()[:, None] * wanted.inv_freq.double()
    exact = (angles.cos() * wanted.attention_factor).bfloat16().float()
    assert cos.dtype == torch.bfloat16
    torch.testing.assert_close(cos[0, :, :8].float(), exact, rtol=2**-7, atol=1e-5)


def test_a_change_of_slow_pairs_alone_is_seen_in_low_precision(half, tmp_path):
    """Within 16 tokens this pair turns by a ten-thousandth of a radian, which bfloat16 cannot tell from none."""
    folder = configured(shutil.copytree(half, tmp_path / "slow"), rope_theta=1e6, max_position_embeddings=2**16)
    checkpoint = load(folder, dtype=torch.bfloat16)
    (own,) = read_frequencies(checkpoint.model, 16)
    own.inv_freq[-1] /= 4
    with scaled(checkpoint.model, own):
        pass


def test_an_extended_checkpoint_keeps_its_bits_and_is_verified_in_its_dtype(half, tmp_path):
    checkpoint = load(half, dtype=torch.bfloat16)
    planned = checkpoint.spec.extended(YaRN(4.0, 64), 256)
    out = tmp_path / "out"
    out.mkdir()
    write_checkpoint(checkpoint, planned, out)
    assert verify(out, checkpoint, planned)["logits_max_error"] == 0
    assert (out / "model.safetensors").read_bytes() == (half / "model.safetensors").read_bytes()


def packed(weight: torch.Tensor) -> torch.Tensor:
    """BitNet's four signs a byte: row r of the byte's first two bits, row r + rows/4 of the next two."""
    quarters = (weight.sign() + 1).to(torch.uint8).reshape(4, -1, weight.shape[1])
    return sum(quarter << 2 * i for i, quarter in enumerate(quarters))


@pytest.fixture
def bitnet(tiny, tmp_path, monkeypatch):
    """The tiny model, quantised by a method that transformers reads without a package of its own."""
    monkeypatch.setattr("torch._dynamo.config.disable", True)

    def quantised(tensors):
        linear = {name: tensor for name, tensor in tensors.items() if "proj" in name}
        scales = {f"{name}_scale": torch.ones(1) for name in linear}
        return {**tensors, **{name: packed(tensor) for name, tensor in linear.items()}, **scales}

    folder = saved(tiny, tmp_path / "bitnet", quantised)
    return configured(folder, quantization_config={"quant_method": "bitnet", "modules_to_not_convert": ["lm_head"]})


def configured(folder, **keys):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **keys}))
    return folder


def test_a_quantised_checkpoint_is_measured_as_stored_and_written_bit_for_bit(bitnet, prose, tmp_path):
    planned = plan(bitnet, (prose,), 128, ("yarn",))
    assert planned.weights_dtype == "float32, quantised by bitnet"
    checkpoint = load(bitnet, dtype=planned.dtype, device=planned.device)
    stored = load_file(bitnet / "model.safetensors")
    name = "model.layers.0.mlp.up_proj.weight"
    assert stored[name].dtype == torch.uint8
    assert torch.equal(checkpoint.model.state_dict()[name], stored[name])
    out, spec = tmp_path / "out", planned.spec.extended(planned.methods["yarn"], 128)
    out.mkdir()
    write_checkpoint(checkpoint, spec, out)
    assert verify(out, checkpoint, spec)["logits_max_error"] == 0
    assert (out / "model.safetensors").read_bytes() == (bitnet / "model.safetensors").read_bytes()


def test_a_quantisation_that_cannot_be_loaded_is_named(tiny, tmp_path):
    folder = configured(shutil.copytree(tiny, tmp_path / "other"), quantization_config={"quant_method": "aqlm"})
    with pytest.raises(RopewalkError, match="transformers cannot use a checkpoint quantised by aqlm"):
        load(folder)


def test_the_dtype_is_float32_on_the_cpu_unless_another_is_given(half, prose):
    def dtype(**more):
        return plan(half, (prose,), 128, ("yarn",), device="cpu", **more).weights_dtype

    assert [dtype(), dtype(dtype="bfloat16"), dtype(dtype="float16")] == ["float32", "bfloat16", "float16"]
    with pytest.raises(RopewalkError, match="dtype='int8' is not one of 'auto', 'float32'"):
        dtype(dtype="int8")


def test_on_a_gpu_it_is_the_stored_one(half, prose, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    planned = plan(half, (prose,), 128, ("yarn",))
    assert (planned.device, planned.weights_dtype) == ("cuda:0", "bfloat16")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert (device_for("auto"), device_for("cuda"), device_for("cpu")) == ("cuda:1", "cuda:1", "cpu")
    with pytest.raises(RopewalkError, match="give cuda, and each takes its own"):
        device_for("cuda:0")
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(RopewalkError, match="CUDA device 2 is asked for, and 2 are there"):
        device_for("cuda")


@pytest.mark.parametrize("name", ["gpu", "cpu:0", "cuda:x", "cuda:-1", ""])
def test_another_device_is_refused(name):
    with pytest.raises(RopewalkError, match="is not auto, cpu, cuda, cuda:N or mps"):
        device_for(name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without one")
@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_a_device_that_is_not_there(name):
    with pytest.raises(RopewalkError, match="which torch does not find here; give cpu"):
        device_for(name)
