"""JSON rows in, JSON rows of one kind of example out: each row is kept, dropped by a rule, or bad, with file and line.

What is written is what the HDF5 project writes, to the byte: one object a line, ASCII, a space behind comma and colon.
Rows that gave nothing stand in a side file, which is there only if there are any.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from tokenriver.errors import InputError
from tokenriver.files import AtomicFile, remove
from tokenriver.inputs import InputFile, find_inputs
from tokenriver.limits import BadRows, Fates
from tokenriver.reading import Progress, refuse_input
from tokenriver.records import BLANK, LONE_SURROGATE, Fault, read_all

KINDS = ("jsonl", "parquet")
AT_ONCE = 1024
"""Lines that are written together."""
FIELD_MISSING, NULL, NOT_A_STRING = "field-missing", "null", "not-a-string"
BEYOND = "beyond-max-rows"


@dataclass(frozen=True, slots=True)
class ExampleReport:
    """What became of some rows; rows = kept + dropped + bad + blank ones. `as_dict` is what --json prints."""

    path: Path
    rows: int
    """Rows of the inputs; made examples are none."""
    kept: int
    dropped: Mapping[str, int]
    """Sound rows that a rule leaves out, by its reason."""
    bad: Mapping[str, int]
    """Rows that are not what they should be, by reason."""
    notes: Mapping[str, int]
    """Rows treated by a rule that is no fault."""
    unused_fields: Mapping[str, int]
    """Fields of kept rows that no example takes, and in how many rows."""
    side_file: Path | None
    """Where dropped and bad rows are listed."""
    sha256: str
    num_bytes: int
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What else is to be said of this kind of example."""

    def as_dict(self) -> dict[str, Any]:
        value = {**asdict(self), "path": str(self.path), "side_file": self.side_file and str(self.side_file)}
        return {**{key: item for key, item in value.items() if key != "facts"}, **self.facts}


@dataclass(slots=True)
class Tally:
    """Rows by their fate, while they are read."""

    limits: BadRows
    rows: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    bad: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    unused: Counter[str] = field(default_factory=Counter)
    by_file: Counter[str] = field(default_factory=Counter)
    """Rows read, by the input's name."""
    kinds: Counter[str] = field(default_factory=Counter)
    """Examples by the form of their rows."""
    first_bad: str = ""
    side: list[tuple[str, int, str]] = field(default_factory=list)
    """(file, line, reason) of rows without an example."""

    def refuse(self, file: InputFile, line: int, reason: str) -> None:
        """A bad row."""
        self.limits.meet(file, line, reason)
        self.bad[reason] += 1
        self.first_bad = self.first_bad or f"{file.name} line {line}: {reason}"
        self._list(file, line, reason)

    def drop(self, file: InputFile, line: int, reason: str) -> None:
        """A sound row that a rule leaves out."""
        self.dropped[reason] += 1
        self._list(file, line, reason)

    def pass_over(self, reason: str = BEYOND) -> None:
        """A sound row that nobody asked for: counted, not listed."""
        self.dropped[reason] += 1

    def _list(self, file: InputFile, line: int, reason: str) -> None:
        self.side.append((file.name, line, reason))

    def counts(self) -> dict[str, Any]:
        """The fates of all rows but the kept ones, as an `ExampleReport` names them."""
        names = {"dropped": self.dropped, "bad": self.bad, "notes": self.notes, "unused_fields": self.unused}
        return {"rows": self.rows, **{name: dict(sorted(counter.items())) for name, counter in names.items()}}

    def listed(self, files: Sequence[InputFile], reasons: Collection[str] | None = None) -> Iterator[bytes]:
        """A line for each row without an example, in the order of the rows; those of some reasons alone, if given."""
        order = {file.name: place for place, file in enumerate(files)}
        for name, line, reason in sorted(self.side, key=lambda row: (order[row[0]], row[1])):
            if reasons is None or reason in reasons:
                yield dump({"file": name, "line": line, "reason": reason})

    def check(self, files: Sequence[InputFile], kept: int) -> None:
        """InputError if nothing is kept, or too many rows are bad."""
        if files:
            Fates(self.rows, kept, self.bad, self.dropped, self.first_bad).check(self.limits, files)


def find_records(inputs: str | Path | Sequence[str | Path], include: Sequence[str] = ()) -> list[InputFile]:
    """The files behind some inputs, in order: JSON lines, JSON arrays, Parquet. InputError for one of another kind."""
    given = [inputs] if isinstance(inputs, str | Path) else list(inputs)
    files = find_inputs(given, include=include, arrays=True)
    for file in files:
        if file.kind not in KINDS:
            raise InputError(f"{file.path}: kind: got {file.kind}, expected records ({' or '.join(KINDS)}); convert it")
    return files


def each_record(
    files: Sequence[InputFile], tally: Tally, progress: Progress | None = None
) -> Iterator[tuple[InputFile, int, dict[str, Any]]]:
    """(file, line from 1, object) of all rows of some files, in order; the tally is told of those that are none."""
    for source, found in read_all(files, progress):
        file = files[source]
        tally.rows += len(found.rows)
        tally.by_file[file.name] += len(found.rows)
        if found.mended:
            tally.notes[LONE_SURROGATE] += found.mended
        for line, row in enumerate(found.rows, found.first + 1):
            if not isinstance(row, Fault):
                yield file, line, row
            elif row.reason == BLANK:
                tally.notes[BLANK] += 1
            else:
                tally.refuse(file, line, row.reason)


def missing(record: Mapping[str, Any], names: Iterable[str], kinds: type | tuple[type, ...] = str) -> str:
    """Why some fields are not what they should be; empty if they are."""
    for name in names:
        if name not in record:
            return FIELD_MISSING
        if record[name] is None:
            return NULL
        if not isinstance(record[name], kinds) or isinstance(record[name], bool):
            return NOT_A_STRING
    return ""


def dump(row: Mapping[str, Any]) -> bytes:
    """One line of JSON, as Python's own module writes it."""
    return (json.dumps(row) + "\n").encode()


def write_rows(
    out: Path,
    files: Sequence[InputFile],
    tally: Tally,
    lines: Iterable[tuple[bytes, bool]],
    facts: Callable[[], Mapping[str, Any]],
    *,
    val: bool = False,
) -> ExampleReport:
    """Write examples as they come, each with whether it is held out, while the tally fills; with `val` those that are
    go into a file of their own, which is committed before `out`. Then the side file. InputError for an output that is
    an input, for no example left for `out` and for too many bad rows, and then nothing is written."""
    side, other, counts = side_file(out), val_file(out), Counter[bool]()
    for path in (out, side, *([other] if val else [])):
        refuse_input(path, files)
    with ExitStack() as opened:
        written = [opened.enter_context(AtomicFile(path)) for path in ((out, other) if val else (out,))]
        rest = iter(lines)
        while some := list(islice(rest, AT_ONCE)):
            for held, file in zip((False, True), written, strict=False):
                file.write(b"".join(line for line, apart in some if apart == held))
            counts.update(apart for _, apart in some)
        kept = counts.total()
        tally.check(files, kept)
        if val:
            check_left(counts[False], kept)
        write_side(side, list(tally.listed(files)))
    own = {"splits": {"train": counts[False], "val": counts[True]}, "val_sha256": written[-1].sha256} if val else {}
    digest, size = written[0].sha256, written[0].num_bytes
    listed = side if tally.side else None
    done = {"path": out, "kept": kept, "side_file": listed, "sha256": digest, "num_bytes": size}
    return ExampleReport(**{**tally.counts(), **done}, facts={**facts(), **own})


def check_left(train: int, kept: int) -> None:
    """InputError where all examples went to validation."""
    if kept and not train:
        raise InputError(
            f"val_fraction: got one that leaves none of {kept} examples for train; give a smaller one, or more inputs"
        )


def write_side(side: Path, lines: Sequence[bytes]) -> None:
    """The side file; none, and not that of an earlier run either, where there is nothing to list."""
    if not lines:
        remove(side)
        return
    with AtomicFile(side) as file:
        file.write(b"".join(lines))


def val_file(out: Path) -> Path:
    """Where examples that are held out stand: `pairs.jsonl` has `pairs.val.jsonl`."""
    return out.with_name(f"{out.name.removesuffix('.jsonl')}.val.jsonl")


def side_file(out: Path) -> Path:
    """Where the rows without an example are listed: `prompts.jsonl` has `prompts.dropped.jsonl`."""
    return out.with_name(f"{out.name.removesuffix('.jsonl')}.dropped.jsonl")
