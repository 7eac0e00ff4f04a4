"""Hypothesis strategies that several tests share."""

from hypothesis import strategies as st

from ropewalk.scaling import (
    NTK,
    DynamicLinear,
    DynamicNTK,
    DynamicYaRN,
    Linear,
    Llama3,
    LongRoPE,
    MrRoPE,
    NTKCritical,
    Proportional,
    Tempered,
    YaRN,
)  # fmt: skip

PAIRS = 32  # of every drawn scaling: a head of 64
factors = st.floats(1.0, 64.0)
lengths = st.sampled_from([256, 2048, 4096, 8192, 131072])
bases = st.sampled_from([377.0, 10_000.0, 100_000.0, 500_000.0, 5e7])
layouts = st.sampled_from(["half", "interleaved"])
divisors = st.lists(st.floats(1.0, 64.0), min_size=PAIRS, max_size=PAIRS)

plain_scalings = (
    st.builds(Linear, factors),
    st.builds(NTK, factors),
    st.builds(NTKCritical, factors, lengths),
    st.builds(YaRN, factors, lengths, ramp=st.sampled_from(["code", "paper"]), truncate=st.booleans()),
    st.builds(Llama3, factors, lengths),
    st.builds(MrRoPE, factors, lengths),
    st.builds(Proportional, st.floats(0.1, 1.0), factors),
)
static_scalings = st.one_of(*plain_scalings, st.builds(Tempered, st.one_of(*plain_scalings[:-1]), st.floats(0.5, 2.0)))
scalings_by_row = st.one_of(
    st.builds(DynamicLinear, lengths),
    st.builds(DynamicNTK, st.floats(1.0, 8.0), lengths),
    st.builds(LongRoPE, divisors, divisors, lengths, factor=factors),
)
length_dependent_scalings = st.one_of(scalings_by_row, st.builds(DynamicYaRN, lengths))
scalings = st.one_of(static_scalings, length_dependent_scalings)
