"""Positions added at the input, learned and sinusoidal, as the models of transformers add them."""

import pytest
import torch
import transformers as hf
from external_peers import LEFT_PADDED, RIGHT_PADDED, TOKENS, assert_same, by_projections, overhear, randomized, sample
from external_peers import weights as of
from torch import Tensor, nn
from transformers.models.bart.modeling_bart import BartLearnedPositionalEmbedding
from transformers.models.bert.modeling_bert import BertEmbeddings
from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding
from transformers.models.musicgen.modeling_musicgen import MusicgenSinusoidalPositionalEmbedding
from transformers.models.opt.modeling_opt import OPTLearnedPositionalEmbedding
from transformers.models.roberta.modeling_roberta import RobertaEmbeddings
from transformers.models.whisper.modeling_whisper import sinusoids
from transformers.models.xlm.modeling_xlm import create_sinusoidal_embeddings

from ropewalk import Learned, RopewalkError, Sinusoidal, positions

TOKEN_IDS = torch.arange(2 * TOKENS).reshape(2, TOKENS) * 7 % 37 + 3
BERT = ("query", "key", "value")


def learned_from(table: Tensor, offset: int = 0) -> Learned:
    encoding = Learned(len(table) - offset, table.shape[1], offset=offset)
    encoding.weight.data = table.data.clone()
    return encoding


def bert(**sizes: int) -> hf.BertConfig:
    return hf.BertConfig(
        vocab_size=40, hidden_size=48, num_hidden_layers=1, num_attention_heads=3, intermediate_size=32,
        max_position_embeddings=30, attn_implementation="eager", **sizes,
    )  # fmt: skip


@pytest.mark.parametrize("mask", [LEFT_PADDED, RIGHT_PADDED])
def test_bert_attention_sees_positions(mask):
    """From the word vectors through the sum, the norm and attention, in one gradient."""
    model, x = randomized(hf.BertModel(bert())), sample(2, TOKENS, 48)
    [heard] = overhear(model, "BertSelfAttention", inputs_embeds=x, attention_mask=mask)
    embeddings = model.embeddings
    table = embeddings.position_embeddings.weight
    encoding = learned_from(table)
    hidden = embeddings.LayerNorm(encoding(x + embeddings.token_type_embeddings.weight[0]))
    ours = by_projections(heard.module, hidden, 16, nn.Identity(), BERT, causal=False, key_mask=mask)
    assert_same(ours, heard.out, [x, *of(heard.module)], pairs=[(encoding.weight, table)], real=mask)


def test_bert_embeddings_at_given_positions():
    peer, x = randomized(BertEmbeddings(bert())), sample(2, TOKENS, 48)
    where = torch.stack((torch.arange(TOKENS) // 2, torch.arange(29, 29 - TOKENS, -1)))
    encoding = learned_from(peer.position_embeddings.weight)
    ours = peer.LayerNorm(encoding(x + peer.token_type_embeddings.weight[0], where))
    theirs = peer(inputs_embeds=x, position_ids=where)
    assert_same(ours, theirs, [x], pairs=[(encoding.weight, peer.position_embeddings.weight)])


@pytest.mark.parametrize("mask", [LEFT_PADDED, RIGHT_PADDED])
def test_opt_counts_from_the_mask(mask):
    """Padding reads the row before that of position 0."""
    peer, x = randomized(OPTLearnedPositionalEmbedding(30, 48)), sample(2, TOKENS, 48)
    encoding = learned_from(peer.weight, offset=2)
    where = positions.from_attention_mask(mask).masked_fill(mask == 0, -1)
    assert_same(encoding(x, where), x + peer(mask), [x], pairs=[(encoding.weight, peer.weight)])


def test_opt_attention_sees_positions():
    config = hf.OPTConfig(
        vocab_size=40, hidden_size=48, num_hidden_layers=1, num_attention_heads=3, ffn_dim=32,
        max_position_embeddings=30, word_embed_proj_dim=48, attn_implementation="eager",
    )  # fmt: skip
    model, x = randomized(hf.OPTModel(config)), sample(2, TOKENS, 48)
    [heard] = overhear(model, "OPTAttention", inputs_embeds=x, attention_mask=LEFT_PADDED)
    table = model.decoder.embed_positions.weight
    encoding = learned_from(table, offset=2)
    hidden = encoding(x, positions.from_attention_mask(LEFT_PADDED).masked_fill(LEFT_PADDED == 0, -1))
    hidden = model.decoder.layers[0].self_attn_layer_norm(hidden)
    ours = by_projections(heard.module, hidden, 16, heard.module.out_proj, causal=True, key_mask=LEFT_PADDED)
    inputs = [x, *of(heard.module)]
    assert_same(ours, heard.out, inputs, pairs=[(encoding.weight, table)], real=LEFT_PADDED)


@pytest.mark.parametrize("past", [0, 6])
def test_bart_counts_padding_too(past):
    peer, x = randomized(BartLearnedPositionalEmbedding(30, 48)), sample(2, TOKENS, 48)
    encoding = learned_from(peer.weight, offset=2)
    theirs = x + peer(TOKEN_IDS, past_key_values_length=past)
    assert_same(encoding(x, positions.arange(TOKENS, past)), theirs, [x], pairs=[(encoding.weight, peer.weight)])


def test_bart_attention_sees_positions():
    config = hf.BartConfig(
        vocab_size=40, d_model=48, encoder_layers=1, decoder_layers=1, encoder_attention_heads=3,
        decoder_attention_heads=3, encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=30, pad_token_id=1,
        attn_implementation="eager",
    )  # fmt: skip
    encoder, x = randomized(hf.BartModel(config)).encoder, sample(2, TOKENS, 48)
    [heard] = overhear(encoder, "BartAttention", inputs_embeds=x, attention_mask=LEFT_PADDED)
    table = encoder.embed_positions.weight
    encoding = learned_from(table, offset=2)
    hidden = encoder.layernorm_embedding(encoding(x))
    ours = by_projections(heard.module, hidden, 16, heard.module.out_proj, causal=False, key_mask=LEFT_PADDED)
    inputs = [x, *of(heard.module)]
    assert_same(ours, heard.out, inputs, pairs=[(encoding.weight, table)], real=LEFT_PADDED)


def roberta() -> RobertaEmbeddings:
    config = hf.RobertaConfig(
        vocab_size=40, hidden_size=48, num_attention_heads=3, max_position_embeddings=514, type_vocab_size=1,
        pad_token_id=1, hidden_dropout_prob=0.0,
    )  # fmt: skip
    return randomized(RobertaEmbeddings(config))


@pytest.mark.parametrize("mask", [LEFT_PADDED, RIGHT_PADDED])
def test_roberta_counts_from_the_tokens(mask):
    """Its row for padding is kept from learning (padding_idx), so gradients are those of real tokens."""
    peer, ids = roberta(), TOKEN_IDS.masked_fill(mask == 0, 1)
    table = peer.position_embeddings.weight
    encoding = learned_from(table, offset=2)
    words = peer.word_embeddings(ids)
    where = positions.from_attention_mask(mask).masked_fill(mask == 0, -1)
    ours = peer.LayerNorm(encoding(words + peer.token_type_embeddings.weight[0], where))
    theirs = peer(input_ids=ids)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-6)  # padding included
    assert_same(ours, theirs, [peer.word_embeddings.weight], pairs=[(encoding.weight, table)], real=mask)


def test_robertas_514_rows_are_512_positions():
    peer = roberta()
    encoding = learned_from(peer.position_embeddings.weight, offset=2)
    assert encoding.max_length == 512
    ids = torch.full((1, 512), 5)
    words = peer.word_embeddings(ids) + peer.token_type_embeddings.weight[0]
    torch.testing.assert_close(peer.LayerNorm(encoding(words)), peer(input_ids=ids), rtol=0, atol=2e-6)
    with pytest.raises(RuntimeError, match="out of bounds"):
        peer(input_ids=torch.full((1, 513), 5))
    with pytest.raises(RopewalkError, match="position 512 has no row"):
        encoding(torch.zeros(1, 513, 48))


def check_table(encoding: Sinusoidal, table: Tensor, atol: float) -> None:
    x = sample(1, len(table), table.shape[1])
    ours = encoding(x)
    torch.testing.assert_close(ours - x, table[None], rtol=0, atol=atol)
    [got] = torch.autograd.grad(ours.sum(), x)
    assert torch.equal(got, torch.ones_like(x))


@pytest.mark.parametrize("dim", [1, 2, 5, 15, 64])
def test_marian_has_sines_first(dim):
    peer = MarianSinusoidalPositionalEmbedding(300, dim)
    peer.weight.data = peer.create_weight()
    table = peer(torch.Size((1, 200)), past_key_values_length=100)
    ours = Sinusoidal(dim, "sin_cos").rows(positions.arange(200, 100))
    torch.testing.assert_close(ours, table, rtol=0, atol=6e-7)
    check_table(Sinusoidal(dim, "sin_cos"), peer.weight.data, atol=6e-7)  # ours + x - x: a rounding of values up to 5


@pytest.mark.parametrize("dim", [1, 2, 5, 15, 64])
def test_xlm_interleaves(dim):
    check_table(Sinusoidal(dim), create_sinusoidal_embeddings(300, dim, torch.empty(300, dim)), atol=6e-7)


# The peers on tensor2tensor's grid make angles of up to 300 radians in float32: off by 300 x 6e-8 and the powers' own.
FLOAT32_ANGLES = 1e-4


@pytest.mark.parametrize("dim", [4, 5, 15, 64])
def test_m2m100_and_musicgen_have_tensor2tensors_grid(dim):
    sines_first = M2M100SinusoidalPositionalEmbedding.get_embedding(300, dim)
    check_table(Sinusoidal(dim, "sin_cos", grid="tensor2tensor"), sines_first, FLOAT32_ANGLES)
    cosines_first = MusicgenSinusoidalPositionalEmbedding.get_embedding(300, dim)
    check_table(Sinusoidal(dim, "cos_sin", grid="tensor2tensor"), cosines_first, FLOAT32_ANGLES)


def test_whisper_has_tensor2tensors_grid():
    check_table(Sinusoidal(64, "sin_cos", grid="tensor2tensor"), sinusoids(300, 64), FLOAT32_ANGLES)


def test_m2m100_starts_at_2_and_zeroes_padding():
    """Its positions are token numbers + 2, its padding row is zero; here padding is the caller's to mask."""
    peer, ids = M2M100SinusoidalPositionalEmbedding(60, 16, padding_idx=1), TOKEN_IDS.masked_fill(LEFT_PADDED == 0, 1)
    rows = Sinusoidal(16, "sin_cos", grid="tensor2tensor").rows(positions.from_attention_mask(LEFT_PADDED) + 2)
    torch.testing.assert_close(rows * LEFT_PADDED[..., None], peer(ids), rtol=0, atol=FLOAT32_ANGLES)


def test_marian_encoder_attention_sees_positions():
    config = hf.MarianConfig(
        vocab_size=40, d_model=48, encoder_layers=1, decoder_layers=1, encoder_attention_heads=3,
        decoder_attention_heads=3, encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=30, pad_token_id=1,
        attn_implementation="eager",
    )  # fmt: skip
    model = hf.MarianModel(config)
    sines = model.encoder.embed_positions.create_weight()
    encoder, x = randomized(model).encoder, sample(2, TOKENS, 48)
    encoder.embed_positions.weight.data = sines
    [heard] = overhear(encoder, "MarianAttention", inputs_embeds=x, attention_mask=LEFT_PADDED)
    ours = by_projections(
        heard.module, Sinusoidal(48, "sin_cos")(x), 16, heard.module.out_proj, causal=False, key_mask=LEFT_PADDED
    )
    assert_same(ours, heard.out, [x, *of(heard.module)], real=LEFT_PADDED)
