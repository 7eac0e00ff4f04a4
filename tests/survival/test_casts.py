"""Casts, autocast and other default dtypes: the encodings answer as if none of these had happened."""

import contextlib
from collections.abc import Iterator

import pytest
import torch
from every_encoding import COMPUTED, ENCODINGS, answers, attended, built, decoder, forget_tables, sample, tokens

from ropewalk import ALiBi, Rotary, functional, positions

LOW = [torch.bfloat16, torch.float16]


def far(name: str, length: int = 6) -> torch.Tensor:
    """Where low precision could not tell neighbours apart; the learned table ends sooner."""
    return positions.arange(length, offset=110 if name == "learned" else 1_000_000)


def rounded(name: str, dtype: torch.dtype) -> torch.nn.Module:
    """The untouched float32 encoding with the parameters that a cast leaves."""
    encoding = built(name)
    with torch.no_grad():
        for parameter in encoding.parameters():
            parameter.copy_(parameter.to(dtype).float())
    return encoding


def assert_same_bits(found: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one.float(), other)


def assert_close(found: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.float(), other, rtol=1e-5, atol=1e-6)


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    forget_tables()  # what is kept from before must not hide what is made here, nor this what is made later
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
        forget_tables()


@pytest.mark.parametrize("dtype", [*LOW, torch.float64], ids=str)
@pytest.mark.parametrize("name", ENCODINGS)
def test_a_cast_module_answers_as_before(name, dtype):
    cast = built(name).to(dtype)
    assert {parameter.dtype for parameter in cast.parameters()} <= {dtype}
    same = assert_close if dtype == torch.float64 and name.startswith(COMPUTED) else assert_same_bits
    same(answers(cast, far(name)), answers(rounded(name, dtype), far(name)))
    assert all(found.dtype == torch.float32 for found in answers(cast, far(name))[:3])
    assert all(found.dtype.itemsize >= 4 for found in answers(cast, far(name))), "what enters logits is never rounded"


@pytest.mark.parametrize("name", ENCODINGS)
def test_half_and_back_answers_as_before(name):
    encoding = built(name).half().float()
    assert_same_bits(answers(encoding, far(name)), answers(rounded(name, torch.float16), far(name)))


@pytest.mark.parametrize("dtype", LOW, ids=str)
@pytest.mark.parametrize("name", ENCODINGS)
def test_low_precision_vectors_are_summed_and_turned_exactly_and_rounded_once(name, dtype):
    x, q, k = sample(2, 6, 64, dtype=dtype), sample(2, 4, 6, 16, seed=1, dtype=dtype), sample(2, 4, 6, 16, dtype=dtype)
    where, exact, cast = far(name), rounded(name, dtype), built(name).to(dtype)
    found = [cast.embed(x, where), *cast.rotate(q, k, where, where)]
    expected = [exact.embed(x.float(), where), *exact.rotate(q.float(), k.float(), where, where)]
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == dtype
        assert torch.equal(one, other.to(dtype))


@pytest.mark.parametrize("name", ENCODINGS)
def test_autocast_leaves_the_answers_alone(name):
    encoding = built(name)
    expected = answers(encoding, far(name))
    with torch.autocast("cpu", torch.bfloat16):
        found = answers(encoding, far(name))
    assert_same_bits(found, expected)
    assert all(one.dtype == torch.float32 for one in found)


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("name", ENCODINGS)
def test_autocast_leaves_attention_alone(name, backend):
    encoding, x, where = built(name), sample(2, 6, 64), far(name)
    expected = attended(encoding, x, where, backend=backend)
    with torch.autocast("cpu", torch.bfloat16):
        found = attended(encoding, x, where, backend=backend)
    assert found.dtype == torch.float32
    assert torch.equal(found, expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ENCODINGS)
def test_built_under_another_default_dtype(name, dtype):
    with default_dtype(dtype):
        encoding = ENCODINGS[name]()
        encoding.load_state_dict(built(name).state_dict())
        found = answers(encoding, far(name))
        output = attended(encoding, sample(2, 6, 64), far(name), window=4)
    plain = rounded(name, dtype)
    same = assert_close if dtype == torch.float64 and name.startswith(COMPUTED) else assert_same_bits
    same(found, answers(plain, far(name)))
    assert all(one.dtype == torch.float32 for one in (*found[:3], output))
    same([output], [attended(plain, sample(2, 6, 64), far(name), window=4)])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ENCODINGS)
def test_called_under_another_default_dtype(name, dtype):
    encoding, model = built(name), decoder(built(name))
    expected = answers(encoding, far(name)), attended(encoding, sample(2, 6, 64), far(name)), model(tokens(2, 9))
    with default_dtype(dtype):
        found = answers(encoding, far(name)), attended(encoding, sample(2, 6, 64), far(name)), model(tokens(2, 9))
    assert_same_bits(found[0], expected[0])
    for one, other in zip(found[1:], expected[1:], strict=True):
        assert one.dtype == torch.float32
        assert torch.equal(one, other)


def test_tables_and_slopes_under_another_default_dtype():
    where = positions.arange(5, 16_000_000)

    def made() -> list[torch.Tensor]:
        tables = Rotary(16).tables(where)
        return [*tables, functional.sinusoidal(where, 64), functional.alibi_slopes(12), ALiBi(4).slopes]

    expected = made()
    for dtype in (torch.float64, torch.bfloat16):
        with default_dtype(dtype):
            found = made()
        assert all(one.dtype == torch.float32 for one in found)
        assert_same_bits(found, expected)


@pytest.mark.parametrize("how", ["bfloat16", "half", "autocast"])
@pytest.mark.parametrize("name", ENCODINGS)
def test_a_decoder_in_low_precision_says_what_it_said(name, how):
    """Far out, where a position that was rounded would turn every head to somewhere else."""
    where, said = far(name, 12), tokens(2, 12)
    expected = decoder(built(name))(said, where)
    model = decoder(built(name))
    if how == "autocast":
        with torch.autocast("cpu", torch.bfloat16):
            found = model(said, where)
    else:
        found = (model.half() if how == "half" else model.to(torch.bfloat16))(said, where)
    assert found.dtype == (torch.float16 if how == "half" else torch.bfloat16)
    wrong = (found.float() - expected).std() / expected.std()
    assert wrong < 0.05, f"{wrong:.3f} of the logits' spread"


@pytest.mark.parametrize("name", [name for name in ENCODINGS if name not in ("nope", "cope")])  # see the order alone
def test_that_spread_tells_positions_apart(name):
    model, said = decoder(built(name)), tokens(2, 12)
    one, other = model(said, positions.arange(12)), model(said, 3 * positions.arange(12))
    least = 0.001 if name.startswith(COMPUTED) else 0.05  # parameters of the decoder's size are small in a kernel
    assert (one - other).std() / one.std() > least
