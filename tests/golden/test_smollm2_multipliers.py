"""Multipliers theta'/theta of SmolLM2 (head 64, base 1e5, native 8192) at factor 4, worked out apart from the code.

Sources of the formulas: YaRN (arXiv 2309.00071) equations 18 to 21 and its code, NTK-aware, Llama 3.1's bands,
MrRoPE-Pro (arXiv 2601.22181) with bounds of 20 and 10 turns.
"""

import pytest
import torch

from ropewalk.functional import inv_freq
from ropewalk.scaling import NTK, Llama3, MrRoPE, YaRN

SCALINGS = [YaRN(4, 8192, ramp="paper"), YaRN(4, 8192), NTK(4), Llama3(4, 8192)]
TABLE = {  # pair: turns, then a multiplier for each of yarn-paper, yarn-code, NTK, llama3
    10: (35.70, 1.000, 1.000, 0.639, 1.000),
    11: (24.91, 0.829, 0.925, 0.611, 1.000),
    12: (17.39, 0.646, 0.850, 0.585, 1.000),
    13: (12.13, 0.519, 0.775, 0.559, 1.000),
    14: (8.47, 0.431, 0.700, 0.535, 1.000),
    15: (5.91, 0.369, 0.625, 0.511, 1.000),
    16: (4.12, 0.326, 0.550, 0.489, 1.000),
    17: (2.88, 0.295, 0.475, 0.468, 0.719),
    18: (2.01, 0.274, 0.400, 0.447, 0.502),
    19: (1.40, 0.260, 0.325, 0.428, 0.350),
    20: (0.98, 0.250, 0.250, 0.409, 0.250),
    31: (0.02, 0.250, 0.250, 0.250, 0.250),
}
# "bounds 10, 20" of the source's last column are pair indices: the last kept and the first interpolated.
MRROPE = {10: 1.000, 11: 0.975, 12: 0.927, 13: 0.860, 14: 0.777, 15: 0.685, 16: 0.589, 17: 0.494, 18: 0.404, 19: 0.322,
          20: 0.250, 31: 0.250}  # fmt: skip


@pytest.mark.parametrize("pair", TABLE)
def test_multipliers(pair):
    plain = inv_freq(64, 1e5)
    turns, *multipliers = TABLE[pair]
    assert (8192 * plain[pair] / (2 * torch.pi)).item() == pytest.approx(turns, abs=0.005)
    for scaling, multiplier in zip(SCALINGS, multipliers, strict=True):
        ratio = scaling.apply(plain, base=1e5).inv_freq[pair] / plain[pair]
        assert ratio.item() == pytest.approx(multiplier, abs=0.0006), scaling


@pytest.mark.parametrize("pair", MRROPE)
def test_mrrope(pair):
    plain = inv_freq(64, 1e5)
    ratio = MrRoPE(4, 8192).apply(plain, base=1e5).inv_freq[pair] / plain[pair]
    assert ratio.item() == pytest.approx(MRROPE[pair], abs=0.0006)
