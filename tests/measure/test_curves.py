import contextlib
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from models import recent

from ropewalk import RopewalkError
from ropewalk.measure.curves import bucket_edges, crop_curve, full_curve, per_length_curve
from ropewalk.measure.documents import Documents, batches
from ropewalk.measure.losses import LanguageModel

TOKENS = torch.arange(3 * 50).reshape(3, 50) % 64


@given(native=st.integers(1, 300), more=st.integers(1, 900))
def test_edges_cover_every_position_once(native, more):
    edges = bucket_edges(native, native + more)
    assert edges[0] == 0
    assert edges[-1] == native + more
    assert all(0 < b - a <= max(1, native // 8) for a, b in itertools.pairwise(edges))


def test_buckets_are_means_over_tokens():
    curve = full_curve(recent(1000), TOKENS, (0, 10, 50))
    want = [1 / np.arange(1, 10), 1 / np.arange(10, 50)]
    for bucket, losses, scored in zip(curve.buckets(), want, (27, 120), strict=True):
        assert bucket["nll"] == pytest.approx(losses.mean(), rel=1e-5)
        assert bucket["perplexity"] == pytest.approx(np.exp(losses.mean()), rel=1e-5)
        assert (bucket["tokens"], bucket["documents"]) == (scored, 3)


@pytest.mark.parametrize("native", [8, 16, 21])
def test_crop_scores_each_token_once_with_nearly_native_context(native):
    """A model without a limit shows the context that each token was given: its loss is 1 / context."""
    curve, mean_context = crop_curve(recent(1000), TOKENS, (0, 50), native)
    contexts = 1 / curve.losses[:, 1:]
    np.testing.assert_allclose(contexts[:, : native - 1], np.arange(1, native)[None].repeat(3, 0), rtol=1e-4)
    past = contexts[:, native - 1 :]
    assert (past <= native - 1 + 1e-3).all()
    assert (past >= native - max(1, native // 8) - 1e-3).all()
    assert mean_context == pytest.approx(past.mean(), rel=1e-4)


def test_a_model_that_looks_back_less_than_crop_has_no_excess():
    full, crop = full_curve(recent(5), TOKENS, (0, 50)), crop_curve(recent(5), TOKENS, (0, 50), 16)[0]
    np.testing.assert_allclose(full.losses, crop.losses, rtol=1e-6)


def test_a_pass_per_bucket_end_takes_each_bucket_from_its_own_length():
    asked, now = [], []

    @contextlib.contextmanager
    def at_length(length):
        asked.append(length)
        now.append(length)
        yield
        now.pop()

    def hidden(tokens, positions=None):
        assert tokens.shape[1] == now[-1]
        return recent(now[-1] // 10).hidden(tokens, positions)

    curve = per_length_curve(LanguageModel(hidden, lambda s: s), TOKENS, (0, 20, 40, 50), at_length)
    assert asked == [20, 40, 50]
    np.testing.assert_allclose(1 / curve.losses[0, [19, 39, 49]], [2, 4, 5], rtol=1e-4)


@given(rows=st.integers(0, 50), length=st.integers(1, 100), at_once=st.integers(1, 500))
def test_batches_hold_every_row_once(rows, length, at_once):
    taken = [i for part in batches(rows, length, at_once) for i in range(rows)[part]]
    assert taken == list(range(rows))


def test_documents_are_cut_whole_and_spread_evenly():
    texts = [("a", torch.arange(105)), ("b", torch.arange(1000, 1040))]
    cut = Documents.cut(texts, 20, 100)
    assert cut.sources == ("a@0", "a@20", "a@40", "a@60", "a@80", "b@0", "b@20")
    assert torch.equal(cut.tokens[-1], torch.arange(1020, 1040))
    assert Documents.cut(texts, 20, 3).sources == ("a@0", "a@40", "a@80")
    with pytest.raises(RopewalkError, match="b: 40 tokens, shorter than the 50 tokens"):
        Documents.cut(texts, 50, 3)
