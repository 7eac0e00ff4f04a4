"""The bytes that are learnt from, and what n-grams make of them."""

import math

import numpy as np
import pytest

from ropewalk import RopewalkError
from ropewalk.compare.text import Text, ngram_bits


def test_bigrams_know_a_cycle_and_single_bytes_do_not():
    """abcabc...: a single byte is log2 3 bits, a pair nearly none."""
    cycle = np.tile(np.array([97, 98, 99]), 4000)
    unigram, bigram = ngram_bits(cycle, cycle[:900])
    assert unigram == pytest.approx(math.log2(3), abs=0.04)
    assert bigram < 0.01


def test_pairs_are_those_of_the_training_text_in_their_order():
    forward, backward = np.tile(np.array([97, 98, 99]), 4000), np.tile(np.array([99, 98, 97]), 300)
    assert ngram_bits(forward, backward)[1] > 8  # every pair of it is new


def test_text_that_was_learnt_from_is_refused(tmp_path):
    whole = bytes(np.random.default_rng(0).integers(97, 123, 4000, dtype=np.uint8))
    (tmp_path / "a").write_bytes(whole)
    (tmp_path / "b").write_bytes(whole[1000:3000])
    with pytest.raises(RopewalkError, match="stands in the training text"):
        Text.read([tmp_path / "a"], [tmp_path / "b"], 1024)


def test_too_little_and_unreadable_text_is_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"short")
    with pytest.raises(RopewalkError, match="5 bytes of training text; at least 1024"):
        Text.read([tmp_path / "a"], [tmp_path / "a"], 1024)
    with pytest.raises(RopewalkError, match="cannot be read"):
        Text.read([tmp_path / "none"], [tmp_path / "a"], 1024)
