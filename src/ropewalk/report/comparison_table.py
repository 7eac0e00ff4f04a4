"""A comparison as plain tables: what the page, the Markdown and the CSV have in common."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ropewalk.report.claims_table import claims_table, decay_table, frequency_table
from ropewalk.report.table import MISSING, Table, escaped, estimate, markdown_table

TITLE = "Position encodings read past their training length"
PICTURES = ("comparison.svg", "comparison-scalings.svg")  # of the encodings and of the scalings
SHOWN = (1, 2, 4)  # times the training length that the main table shows, beside the farthest
COPIES = 0.5  # accuracy from which a distance counts as copied
FAILED = "did not learn more than bigrams"
MEASURES = ("mean", "last_quarter", "crop")


def reach(length: Mapping[str, Any]) -> str:
    """The median seed's length, with the shortest and the longest where seeds differ: "96 (80–96)"."""
    text = f"{length['value']:,}"
    if length["low"] is None or length["low"] == length["high"]:
        return text
    return f"{text} ({length['low']:,}–{length['high']:,})"


def listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def copies_to(encoding: Mapping[str, Any]) -> int | None:
    """The farthest distance, counted on from the shortest, that is copied in at least half of the trials."""
    reached = None
    for copy in sorted(encoding["copy"], key=lambda copy: copy["distance"]):
        if not copy["accuracy"]["value"] >= COPIES:  # so that a NaN ends it too
            break
        reached = copy["distance"]
    return reached


def verdict(result: Mapping[str, Any]) -> str:
    """The result in words, of the encodings that passed the gate."""
    passed = [encoding for encoding in result["encodings"] if encoding["passed"]]
    failed = [encoding["name"] for encoding in result["encodings"] if not encoding["passed"]]
    if not passed:
        return f"No encoding learned more than bigrams ({_bigrams(result)}): this comparison says nothing about them."
    said = [*_holding(passed, result["protocol"]["length"]), _lowest(passed), _copying(passed)]
    if failed:
        said.append(f"Left out: {listed(failed)}, which {FAILED}.")
    return " ".join(said)


def _bigrams(result: Mapping[str, Any]) -> str:
    return f"{result['text']['bigram_bits']:.2f} bits a byte"


def _holding(passed: list[dict[str, Any]], length: int) -> Iterable[str]:
    """Who holds to the end, who breaks on the way and where, who breaks at once."""
    end = _farthest(passed)["length"]
    whole = [e["name"] for e in passed if e["holds_to"]["value"] >= end]
    on_the_way = [e for e in passed if length < e["holds_to"]["value"] < end]
    at_once = [e["name"] for e in passed if e["holds_to"]["value"] <= min(length, end - 1)]
    hold = f"{listed(whole)} {_verb(whole, 'hold')}" if whole else "no encoding holds"
    yield f"Trained on {length:,} bytes and read to {end:,}: {hold} to the end."
    if on_the_way:
        breaks = [
            f"{e['name']} at {e['holds_to']['value']:,} ({e['holds_to']['value'] / length:g}x)" for e in on_the_way
        ]
        yield f"Breaking on the way: {listed(breaks)}."
    if at_once:
        yield f"Breaking at once past the training length: {listed(at_once)}."


def _verb(names: Sequence[str], verb: str) -> str:
    return f"{verb}s" if len(names) == 1 else verb


def _farthest(encodings: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    farthest: dict[str, Any] = max((row for e in encodings for row in e["bits"]), key=lambda row: row["times"])
    return farthest


def _lowest(passed: list[dict[str, Any]]) -> str:
    """The best at the farthest length, with what crop gets from the same bytes."""
    times = _farthest(passed)["times"]
    read = [(row, e["name"]) for e in passed for row in e["bits"] if row["times"] == times]
    row, name = min(read, key=lambda pair: pair[0]["last_quarter"]["value"])
    return (
        f"Fewest bits a byte at {times:g}x: {name}, {estimate(row['last_quarter'])} "
        f"(cropped to the training length, {estimate(row['crop'])})."
    )


def _copying(passed: list[dict[str, Any]]) -> str:
    reached = {e["name"]: distance for e in passed if (distance := copies_to(e)) is not None}
    if not reached:
        return "None copies half of the bytes from any distance."
    far = max(reached.values())
    names = [name for name, distance in reached.items() if distance == far]
    return f"Copying reaches farthest with {listed(names)}: {far:,} bytes."


def tables(result: Mapping[str, Any], literature: Mapping[str, Any]) -> dict[str, Table]:
    """Every table of the page, by a short name, in the order in which they stand on it."""
    made = {
        "main": main_table(result),
        "lengths": _lengths(result),
        "copying": _copy_table(result),
        "scalings": _scalings(result),
        "claims": claims_table(result),
        "decay": decay_table(result),
        "frequencies": frequency_table(result),
        "literature": _literature(result, literature),
        "choosing": _choosing(result, literature),
        "protocol": _protocol(result),
    }
    return {name: table for name, table in made.items() if table.rows}


def main_table(result: Mapping[str, Any]) -> Table:
    """One row an encoding: what it reads, how far, and what it costs."""
    encodings, protocol = result["encodings"], result["protocol"]
    times = sorted({row["times"] for e in encodings for row in e["bits"]})
    shown = [t for t in times if t in SHOWN or t == times[-1]]
    bits = [f"bits/byte at {t:g}x" for t in shown]
    costs = ("tokens/s", "peak memory, MB", "parameters added", "gate")
    note = _main_note(protocol, _bigrams(result))
    rows = tuple(_main_row(encoding, shown) for encoding in encodings)
    return Table("The encodings", ("encoding", *bits, "holds to", "copies to", *costs), rows, note, _greyed(result))


def _main_note(protocol: Mapping[str, Any], bigrams: str) -> str:
    length, tolerance = f"{protocol['length']:,} bytes", f"{protocol['tolerance_bits']:.2g} bits a byte"
    return (
        "bits/byte: of the last quarter of the bytes read, ± half the 95 % interval over seeds. holds to: how far, "
        f"counted on from the training length, the loss is at most {tolerance} above crop, the same bytes read with "
        f"the last {length} of context only; in brackets the shortest and the longest where seeds differ. copies to: "
        f"the farthest distance, counted on from the shortest, copied with an accuracy of {COPIES:g} or more. "
        "tokens/s: in training, one thread, each encoding in turn and nothing beside it, ± half the 95 % interval over "
        "turns. peak memory: what training added to the process. "
        f"gate: passed where the model learned more than bigrams ({bigrams}). A row in brackets is of an encoding that "
        f"{FAILED}: it says nothing about it."
    )


def _main_row(encoding: Mapping[str, Any], shown: Sequence[float]) -> tuple[str, ...]:
    by_times = {row["times"]: row["last_quarter"] for row in encoding["bits"]}
    numbers = [
        *(estimate(by_times.get(times)) for times in shown),
        reach(encoding["holds_to"]),
        _copied(encoding),
        estimate(encoding["tokens_per_second"], 0),
        estimate(encoding["peak_memory_mb"], 0),
        f"{encoding['parameters_added']:,}",
    ]
    return (encoding["name"], *_doubted(encoding, numbers), "passed" if encoding["passed"] else "not passed")


def _copied(encoding: Mapping[str, Any]) -> str:
    if not encoding["copy"]:
        return MISSING
    reached = copies_to(encoding)
    return "none" if reached is None else f"{reached:,}"


def _doubted(encoding: Mapping[str, Any], numbers: Iterable[str]) -> list[str]:
    """In brackets where the encoding failed the gate."""
    return [text if encoding["passed"] or text == MISSING else f"({text})" for text in numbers]


def _greyed(result: Mapping[str, Any]) -> frozenset[int]:
    return frozenset(row for row, encoding in enumerate(result["encodings"]) if not encoding["passed"])


def _lengths(result: Mapping[str, Any]) -> Table:
    """Last quarter and crop at every length: the first picture's numbers."""
    times = sorted({row["times"] for encoding in result["encodings"] for row in encoding["bits"]})
    rows = []
    for encoding in result["encodings"]:
        found = {row["times"]: row for row in encoding["bits"]}
        cells = [
            f"{estimate(found[t]['last_quarter'])} / {estimate(found[t]['crop'])}" if t in found else MISSING
            for t in times
        ]
        rows.append((encoding["name"], *_doubted(encoding, cells)))
    note = "Bits per byte of the last quarter / of crop on the same bytes."
    return Table("At every length", ("encoding", *(f"{t:g}x" for t in times)), tuple(rows), note, _greyed(result))


def _copy_table(result: Mapping[str, Any]) -> Table:
    """Accuracy at every distance: the second picture's numbers."""
    distances = sorted({copy["distance"] for encoding in result["encodings"] for copy in encoding["copy"]})
    rows = []
    for encoding in result["encodings"]:
        found = {copy["distance"]: copy["accuracy"] for copy in encoding["copy"]}
        rows.append((encoding["name"], *_doubted(encoding, [estimate(found.get(distance)) for distance in distances])))
    header = ("encoding", *(f"{distance:,}" for distance in distances))
    return Table("Copy accuracy by distance, bytes", header, tuple(rows), "", _greyed(result))


def _scalings(result: Mapping[str, Any]) -> Table:
    measures = ("last_quarter", "within", "copy")
    rows = tuple(
        (f"{at['factor']:g}x", f"{at['length']:,}", method["method"], *(estimate(method[m]) for m in measures))
        for at in result["scalings"]
        for method in at["methods"]
    )
    note = (
        "The same trained RoPE, not trained further. last quarter: bits per byte at that length; within: bits per byte "
        "within the first training length, what the scaling costs on short text; copy: accuracy of copying from half "
        "that length."
    )
    return Table("Scalings of RoPE", ("factor", "length", "method", "last quarter", "within", "copy"), rows, note)


def _cited(result: Mapping[str, Any], literature: Mapping[str, Any], fields: Sequence[str]) -> Iterable[list[str]]:
    """The fields of each encoding; one that is not in the literature, a user's own, has none."""
    for encoding in result["encodings"]:
        known = literature.get(encoding["name"])
        yield [getattr(known, field, "") or MISSING for field in fields]


def _literature(result: Mapping[str, Any], literature: Mapping[str, Any]) -> Table:
    fields = ("title", "paper", "acts", "learnable", "used_by")
    cells = zip(result["encodings"], _cited(result, literature, fields), strict=True)
    rows = tuple((encoding["name"], *cited) for encoding, cited in cells)
    header = ("encoding", "name", "paper", "where it acts", "learned", "used by")
    return Table("What the literature says", header, rows, prose=True)


def _choosing(result: Mapping[str, Any], literature: Mapping[str, Any]) -> Table:
    """What was reported beside what was measured."""
    cells = zip(result["encodings"], _cited(result, literature, ("reported", "pros", "cons", "choose")), strict=True)
    rows = tuple((e["name"], reported, _measured(e), *rest) for e, (reported, *rest) in cells)
    header = ("encoding", "reported", "measured here", "for it", "against it", "choose it for")
    return Table("Reported and measured", header, rows, "", _greyed(result), prose=True)


def _measured(encoding: Mapping[str, Any]) -> str:
    if not encoding["passed"]:
        return f"nothing: the model {FAILED}"
    return f"holds to {reach(encoding['holds_to'])}, copies to {_copied(encoding)}"


def _protocol(result: Mapping[str, Any]) -> Table:
    p, text = result["protocol"], result["text"]
    how = {
        "model": f"decoder of {p['layers']} layers, {p['heads']} heads, width {p['dim']}, on bytes",
        "training": f"{p['steps']:,} steps of {p['batch']} x {p['length']:,} bytes, rate {p['rate']:g}",
        "copies": f"{p['copies']:.0%} of the rows trained on repeat a random string",
        "seeds": ", ".join(map(str, p["seeds"])),
        "interval": "95 % over seeds" if len(p["seeds"]) > 1 else "none: one seed",
        "reading": f"{p['stretches']} stretches of held-out text, to {p['reach']:g} times the training length",
        "tolerance": f"{p['tolerance_bits']:.2g} bits a byte above crop",
        "trained on": f"{', '.join(text['train'])}: {text['train_bytes']:,} bytes",
        "held out": f"{', '.join(text['held_out'])}: {text['held_out_bytes']:,} bytes",
        "the text itself": f"unigrams {text['unigram_bits']:.2f}, bigrams {text['bigram_bits']:.2f} bits a byte",
        "versions": ", ".join(f"{name} {version}" for name, version in result["versions"].items()),
        "time of all runs, added up": f"{result['seconds']:,.0f} s",
    }
    return Table("Protocol and versions", ("what", "how"), tuple(how.items()), prose=True)


def markdown(result: Mapping[str, Any], literature: Mapping[str, Any]) -> str:
    """The page as Markdown, to stand beside its pictures.

    Args:
        result: the content of comparison.json.
        literature: what is published on each encoding, by name.
    """
    pictures = dict(zip(("main", "scalings"), PICTURES, strict=True))
    parts = [f"# {TITLE}", escaped(verdict(result))]
    for name, table in tables(result, literature).items():
        parts += [f"## {table.title}", markdown_table(table), *filter(None, [escaped(table.note)])]
        parts += [f"![{table.title}]({pictures[name]})"] if name in pictures else []
    return "\n\n".join(parts) + "\n"


def csv_rows(result: Mapping[str, Any]) -> list[list[str]]:
    """Long format, the header first; of a `copy_accuracy` the length is the distance copied from."""
    rows = [["encoding", "times", "length", "measure", "value", "low", "high"]]
    for encoding in result["encodings"]:
        name, trained = encoding["name"], result["protocol"]["length"]
        for at in encoding["bits"]:
            rows += [_csv_row(name, at["times"], at["length"], measure, at[measure]) for measure in MEASURES]
        for copy in encoding["copy"]:
            times, distance = copy["distance"] / trained, copy["distance"]
            rows.append(_csv_row(name, times, distance, "copy_accuracy", copy["accuracy"]))
    return rows


def _csv_row(name: str, times: float, length: int, measure: str, value: Mapping[str, Any]) -> list[str]:
    """Numbers in full; what was not estimated stays empty."""
    numbers = ["" if value[key] is None else str(value[key]) for key in ("value", "low", "high")]
    return [name, f"{times:g}", str(length), measure, *numbers]
