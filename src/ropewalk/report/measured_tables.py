"""The numbers behind an extension's charts: by position, by distance, by depth and by pair."""

from collections.abc import Callable
from typing import Any

from ropewalk.report.spectrum_charts import frequencies_of, unseen, wavelength
from ropewalk.report.table import MISSING, Table

Cell = Callable[[dict[str, Any]], str]


def bucket_tables(report: dict[str, Any]) -> dict[str, Table]:
    """Excess with its band, loss and perplexity: a row a bucket, a column a method."""
    note = "In brackets the 95 % interval of the difference to crop."
    return {
        "excess": _by_position(report, "Loss above crop's by position, nats a token", _excess, note),
        "loss": _by_position(report, "Loss by position, nats a token", lambda b: f"{b['nll']:.3f}"),
        "perplexity": _by_position(report, "Perplexity by position", lambda b: f"{b['perplexity']:,.2f}"),
    }


def _excess(bucket: dict[str, Any]) -> str:
    if bucket.get("low") is None:
        return f"{bucket['excess']:+.3f}"
    return f"{bucket['excess']:+.3f} ({bucket['low']:+.3f} to {bucket['high']:+.3f})"


def _by_position(report: dict[str, Any], title: str, cell: Cell, note: str = "") -> Table:
    measured = [method for method in report["methods"] if method.get("buckets")]
    header = ("positions", "tokens", *(method["method"] for method in measured))
    columns = [method["buckets"] for method in measured]
    rows = tuple(
        (f"{row[0]['start']:,}–{row[0]['end'] - 1:,}", f"{row[0]['tokens']:,}", *map(cell, row))
        for row in zip(*columns, strict=True)
    )
    return Table(title, header, rows, note)


def reading_table(report: dict[str, Any]) -> Table:
    """A row a distance, a column a method; a method that failed was asked no farther."""
    measured = [method for method in report["methods"] if method.get("reading")]
    gains = [{reading["distance"]: reading for reading in method["reading"]} for method in measured]
    rows = tuple(
        (f"{distance:,}", *(f"{found[distance]['gain']:+.2f}" if distance in found else MISSING for found in gains))
        for distance in sorted({distance for found in gains for distance in found})
    )
    header = ("distance", *(method["method"] for method in measured))
    return Table("Gain of a copy by distance, nats a token", header, rows)


def retrieval_table(report: dict[str, Any]) -> Table:
    """A row a length and depth."""
    rows = tuple(
        (m["method"], f"{r['needles']:,}", f"{r['length']:,}", f"{r['depth']:.0%}", f"{r['gain']:+.2f}", exact(r))
        for m in report["methods"]
        for r in m.get("retrieval") or []
    )
    header = ("method", "keys", "length", "depth", "gain, nats a key", "exact")
    return Table("Retrieval by length and depth", header, rows)


def exact(found: dict[str, Any]) -> str:
    """The share of keys that greedy decoding writes."""
    return MISSING if found["exact"] is None else f"{float(found['exact']):.0%}"


def wavelength_table(report: dict[str, Any]) -> Table:
    """A row a pair, a column a method."""
    scaled = {m["method"]: f for m in report["methods"] if (f := frequencies_of(report, m))}
    rows = tuple(
        (str(pair), *(_tokens(values[pair]) for values in scaled.values())) for pair in range(len(report["inv_freq"]))
    )
    note = "none is the model as it is. A pair without a number stands still."
    return Table("Wavelength of each pair, tokens a turn", ("pair", *scaled), rows if scaled else (), note)


def _tokens(inv_freq: float) -> str:
    tokens = wavelength(inv_freq)
    return MISSING if tokens is None else f"{tokens:,.4g}" if tokens < 1000 else f"{tokens:,.0f}"


def arc_table(report: dict[str, Any]) -> Table:
    """A row a method: how many pairs meet angles at the target that training never showed, and how much of a turn."""
    rows = []
    for method in report["methods"]:
        inv_freq = frequencies_of(report, method)
        if inv_freq:
            new = unseen(report, inv_freq)
            met = [pair for pair, arc in enumerate(new) if arc]
            rows.append((method["method"], f"{len(met)} of {len(new)}", _ranges(met), f"{max(new):.1%}"))
    header = ("method", "pairs that meet unseen angles", "which", "most of a turn unseen")
    return Table("Unseen angles at the target", header, tuple(rows))


def _ranges(pairs: list[int]) -> str:
    """`20–27`; the pairs that do not follow one another, apart."""
    runs: list[list[int]] = []
    for pair in pairs:
        if runs and runs[-1][-1] == pair - 1:
            runs[-1].append(pair)
        else:
            runs.append([pair])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs) or MISSING
