import pytest
import torch

from ropewalk import RopewalkError
from ropewalk.functional import alibi_slopes

# Press, Smith and Lewis's own code, run by hand: twelve heads are those of eight, then every other one of sixteen.
TWELVE = [2.0**-h for h in range(1, 9)] + [2.0**-0.5, 2.0**-1.5, 2.0**-2.5, 2.0**-3.5]


@pytest.mark.parametrize(("heads", "slopes"), [
    (1, [1 / 256]), (2, [1 / 16, 1 / 256]), (3, [1 / 16, 1 / 256, 1 / 4]), (8, [2.0**-h for h in range(1, 9)]),
    (6, [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]), (12, TWELVE),
])  # fmt: skip
def test_reference_slopes(heads, slopes):
    torch.testing.assert_close(alibi_slopes(heads), torch.tensor(slopes), rtol=1e-7, atol=0)


@pytest.mark.parametrize("heads", range(1, 65))
def test_equal_to_mpt_and_bloom_in_the_same_order(heads):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor
    from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

    bloom = build_alibi_tensor(torch.ones(1, 2), heads, torch.float32)[:, 0, 1]
    mpt = build_mpt_alibi_tensor(heads, 2)[:, 0, 1] - build_mpt_alibi_tensor(heads, 2)[:, 0, 0]
    torch.testing.assert_close(alibi_slopes(heads), bloom, rtol=3e-6, atol=0)  # theirs: powers of a rounded base
    torch.testing.assert_close(alibi_slopes(heads), mpt, rtol=3e-6, atol=0)


def test_the_paper_says_it_for_any_number_of_heads():
    assert alibi_slopes(12, rule="paper").tolist() == pytest.approx([2 ** (-8 * h / 12) for h in range(1, 13)])
    assert torch.equal(alibi_slopes(16, rule="paper"), alibi_slopes(16))


@pytest.mark.parametrize(("arguments", "message"), [((0,), "heads=0"), ((8, "mpt"), "rule='mpt'")])
def test_refusals(arguments, message):
    heads, *rule = arguments
    with pytest.raises(RopewalkError, match=message):
        alibi_slopes(heads, **({"rule": rule[0]} if rule else {}))
