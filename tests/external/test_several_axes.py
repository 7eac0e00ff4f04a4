"""xPos against x-transformers; M-RoPE, vision towers and their positions against transformers."""

import math
from types import SimpleNamespace

import pytest
import torch
from external_peers import TOKENS, assert_same, joined, randomized, sample, split, weights
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from transformers import DINOv3ViTConfig, PixtralVisionConfig, Qwen2VLTextConfig, Qwen3VLTextConfig
from transformers.models.dinov3_vit import modeling_dinov3_vit as dinov3
from transformers.models.pixtral import modeling_pixtral as pixtral
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLModel
from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen2
from transformers.models.qwen2_vl.configuration_qwen2_vl import Qwen2VLVisionConfig
from transformers.models.qwen3_vl import modeling_qwen3_vl as qwen3
from x_transformers.x_transformers import Attention, RotaryEmbedding
from x_transformers.x_transformers import apply_rotary_pos_emb as x_rotary

from ropewalk import Axial, Linear, MRoPE, XPos, attend, positions

DIM, WIDTH = 48, 16


@pytest.mark.parametrize(("scale_base", "offset"), [(512, 0), (512, 500), (20, 0)])
def test_xpos_attention(scale_base, offset):
    """Their centre is half of the largest position + 1, ours half of it and the smallest: the scores are the same."""
    peer, x = randomized(Attention(DIM, dim_head=WIDTH, heads=3, causal=True)), sample(2, TOKENS, DIM)
    where = positions.arange(TOKENS, offset)
    theirs = peer(x, rotary_pos_emb=RotaryEmbedding(WIDTH, use_xpos=True, scale_base=scale_base)(where))
    rope = XPos(WIDTH, scale_base=scale_base, layout="interleaved")
    q, k, v = (split(projection(x), WIDTH) for projection in (peer.to_q, peer.to_k, peer.to_v))
    ours = peer.to_out(joined(attend(q, k, v, causal=True, encoding=rope, q_positions=where, k_positions=where)))
    assert_same(ours, theirs, [x, *weights(peer)], tolerance=2e-4 if offset else 2e-5)  # theirs: float32 angles


def test_xpos_scores_of_both_directions():
    q, k, where = sample(2, 4, 33, 64), sample(2, 4, 33, 64, seed=2), torch.arange(0, 660, 20)
    freqs, scale = RotaryEmbedding(64, use_xpos=True, scale_base=200)(where)
    theirs = x_rotary(q, freqs, scale) @ x_rotary(k, freqs, scale**-1).mT
    one, other = XPos(64, scale_base=200, layout="interleaved")(q, k, where)
    torch.testing.assert_close(one @ other.mT, theirs, rtol=0, atol=3e-4 * theirs.abs().max().item())


QWEN2 = Qwen2VLTextConfig(
    hidden_size=256, num_attention_heads=2, rope_parameters={"rope_type": "default", "rope_theta": 1e6,
                                                             "mrope_section": [16, 24, 24]},
)  # fmt: skip
QWEN3 = Qwen3VLTextConfig(
    head_dim=128, rope_parameters={"rope_type": "default", "rope_theta": 5e6, "mrope_section": [24, 20, 20]}
)
MODELS = {
    "qwen2-vl": (qwen2.Qwen2VLRotaryEmbedding(QWEN2), MRoPE(128, [16, 24, 24], base=1e6, numerics="float32")),
    "qwen3-vl": (
        qwen3.Qwen3VLTextRotaryEmbedding(QWEN3),
        MRoPE(128, [24, 20, 20], interleaved=True, base=5e6, numerics="float32"),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_mrope_of_qwen(name):
    """Tables bit for bit, the rotation and its gradients with their own function, one row of positions a sequence."""
    peer, rope = MODELS[name]
    where = torch.stack([positions.mrope([5, (3, 8, 12), 7]), positions.mrope([40, (1, 8, 4), 36])], dim=1)
    cos, sin = peer(torch.zeros(1), where)
    assert torch.equal(torch.cat(rope.tables(where), -1), torch.cat((cos[..., :64], sin[..., :64]), -1))
    q, k = sample(2, 4, 84, 128), sample(2, 2, 84, 128, seed=2)
    rotated = qwen2.apply_rotary_pos_emb(q, k, cos, sin)
    for ours, theirs, x in zip(rope(q, k, where), rotated, (q, k), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-6)
        got, want = (
            torch.autograd.grad(y.square().sum() + y[..., 0].sum(), x, retain_graph=True)[0] for y in (ours, theirs)
        )
        torch.testing.assert_close(got, want, rtol=0, atol=5e-6)


def tower(name: str) -> tuple[Tensor, Tensor]:
    """cos and sin of a grid of 5 x 7 patches, [T, P], as the tower computes them."""
    where = positions.grid(5, 7)
    rope_parameters = {"rope_type": "axial", "rope_theta": 10_000.0}
    if name == "pixtral":
        config = PixtralVisionConfig(head_dim=64, rope_parameters=rope_parameters)
        found = pixtral.PixtralVisionRotaryEmbedding(config)(torch.zeros(1), where[None])
    else:
        config = Qwen2VLVisionConfig(embed_dim=128, num_heads=2, rope_parameters=rope_parameters)
        found = qwen2.Qwen2VLVisionRotaryEmbedding(config)(torch.zeros(1), where[None])
    return tuple(table.reshape(35, 64)[:, :32] for table in found)


@pytest.mark.parametrize(("name", "order"), [("qwen2-vl", "blocks"), ("pixtral", "pixtral")])
def test_vision_towers(name, order):
    ours = Axial(64, order=order, numerics="float32").tables(positions.grid(5, 7))
    assert all(torch.equal(one, other) for one, other in zip(ours, tower(name), strict=True))


texts, sides = st.integers(1, 9), st.integers(1, 6)
images = st.tuples(st.just(1), sides, sides)
videos = st.tuples(st.integers(2, 9), sides, sides)
spaced = st.tuples(st.integers(2, 9), sides, sides, st.sampled_from([0.5, 1.0, 1.7, 4.0, 50.0]))


def asked(model: type, parts: list, merge: int, pad: int = 0, **config: object) -> Tensor:
    """`get_rope_index` of one sequence, padded on its left, and the position that it would decode next."""
    vision = SimpleNamespace(spatial_merge_size=merge, **config)
    self = SimpleNamespace(config=SimpleNamespace(vision_config=vision))
    self.get_vision_position_ids = lambda *a, **o: model.get_vision_position_ids(self, *a, **o)
    kinds, grids, seconds = [0] * pad, {1: [], 2: []}, []
    for part in parts:
        if isinstance(part, int):
            kinds += [0] * part
            continue
        kind = 1 if part[0] == 1 else 2
        kinds += [kind] * (part[0] * (part[1] // merge) * (part[2] // merge))
        grids[kind].append(list(part[:3]))
        if kind == 2 and len(part) == 4:
            seconds.append(part[3] / config["tokens_per_second"])
    kinds = torch.tensor([kinds])
    mask = (torch.arange(kinds.shape[1]) >= pad)[None].long()
    image, video = (torch.tensor(grids[kind]) if grids[kind] else None for kind in (1, 2))
    more = {"second_per_grid_ts": torch.tensor(seconds)} if seconds else {}
    ids, delta = model.get_rope_index(self, torch.zeros_like(kinds), kinds, image, video, attention_mask=mask, **more)
    return ids[:, 0, pad:], int(delta) + kinds.shape[1] - pad


@st.composite
def sequences(draw, picture: st.SearchStrategy) -> tuple[list, int]:
    """Text, then pictures each followed by text, in patches of which `merge` x `merge` are one token."""
    merge = draw(st.sampled_from([1, 2, 3]))
    parts = [draw(texts)]
    for t, h, w, *interval in draw(st.lists(picture, max_size=4)):
        parts += [(t, h * merge, w * merge, *interval), draw(texts)]
    return parts, merge


def test_dinov3():
    """Its coordinates run from -1 to 1 whatever the image's size: a scaling for each axis, and a shift that scores do
    not see."""
    height, width = 16, 24
    config = DINOv3ViTConfig(hidden_size=128, num_attention_heads=2, patch_size=16, rope_theta=100.0)
    image = torch.zeros(1, 3, 16 * height, 16 * width)
    q, k = sample(1, 2, height * width, 64).requires_grad_(), sample(1, 2, height * width, 64, seed=1).requires_grad_()
    tables = dinov3.DINOv3ViTRopePositionEmbedding(config).eval()(image)
    theirs = dinov3.apply_rotary_pos_emb(q, k, *tables)
    rope = Axial(64, base=100.0, scaling=[Linear(factor=size / (4 * math.pi)) for size in (height, width)])
    ours = rope(q, k, positions.grid(height, width))
    assert_same(ours[0] @ ours[1].mT, theirs[0] @ theirs[1].mT, [q, k])


@given(drawn=sequences(st.one_of(images, videos)), pad=st.integers(0, 3))
def test_positions_of_qwen2_vl(drawn, pad):
    parts, merge = drawn
    ids, following = asked(qwen2.Qwen2VLModel, parts, merge, pad)
    ours = positions.mrope(parts, merge=merge)
    assert torch.equal(ours, ids)
    assert int(ours.max()) + 1 == following


@given(drawn=sequences(st.one_of(images, spaced)))
def test_positions_of_qwen2_5_vl(drawn):
    parts, merge = drawn
    ids, _ = asked(Qwen2_5_VLModel, parts, merge, tokens_per_second=2)
    assert torch.equal(positions.mrope(parts, merge=merge), ids)


@given(frames=st.integers(2, 5), height=sides, width=sides, stamp=texts, merge=st.sampled_from([1, 2]))
def test_positions_of_qwen3_vl(frames, height, width, stamp, merge):
    """A video is its frames, a time stamp in text before each."""
    frame = (1, height * merge, width * merge)
    parts = [3, *[stamp, frame] * frames, 4]
    vision = SimpleNamespace(spatial_merge_size=merge)
    self = SimpleNamespace(config=SimpleNamespace(vision_config=vision))
    self.get_vision_position_ids = lambda *a, **o: qwen3.Qwen3VLModel.get_vision_position_ids(self, *a, **o)
    kinds = torch.tensor([[0] * 3 + ([0] * stamp + [2] * (height * width)) * frames + [0] * 4])
    video = torch.tensor([[frames, *frame[1:]]])
    ids, _ = qwen3.Qwen3VLModel.get_rope_index(self, torch.zeros_like(kinds), kinds, None, video)
    assert torch.equal(positions.mrope(parts, merge=merge), ids[:, 0])
