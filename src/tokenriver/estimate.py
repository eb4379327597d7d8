"""What a build of some text would come to, from a sample of it: ids, disk and time, each with a 95 % interval.

Totals are ratios: what the stretches hold by byte on disk, times all bytes on disk, one ratio for each kind of input.
The interval is Student's, from how much the stretches differ from one ratio; what is read whole adds nothing to it.
Nothing is drawn at random: the same inputs give the same numbers.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tokenriver import buildplan
from tokenriver.defaults import TOKENIZER
from tokenriver.errors import InputError
from tokenriver.inputs import InputFile, find_inputs, seen_fields
from tokenriver.sampling import Clock, Group, Reader, Stretch, sample
from tokenriver.tokenizer import load_tokenizer

SAMPLE_BYTES = 8 << 20
INDEX_BYTES = 20
"""Of each document, in the index beside a shard."""
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131)
"""The 97.5 % point of Student's distribution, by degrees of freedom from 1; beyond, 1.96 + 2.6 / d is close."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and its 95 % bounds."""

    low: float
    mid: float
    high: float


@dataclass(frozen=True, slots=True)
class TextEstimate:
    """What a build of some inputs would come to."""

    files: int
    input_bytes: int
    """On disk."""
    sampled_bytes: int
    """Of input_bytes, those that were read and encoded."""
    stretches: int
    tokenizer: str
    ids: Interval
    """Framing included."""
    documents: Interval
    text_bytes: Interval
    bytes_per_token: Interval
    """Text bytes by id, framing left out."""
    id_bytes: int
    """Bytes of a stored id."""
    disk_bytes: Interval
    """Shards and document indexes."""
    build_seconds: Interval | None
    """Reading and encoding in one process; None without a clock."""
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """What --json prints."""
        return asdict(self)


def estimate(
    inputs: str | Path | Sequence[str | Path],
    *,
    tokenizer: str | Path = TOKENIZER,
    framing: str = "eos-after",
    source: str = "auto",
    text_field: str = "text",
    separator: str | None = None,
    include: Sequence[str] = (),
    search: Sequence[Path] = (),
    sample_bytes: int = SAMPLE_BYTES,
    clock: Clock | None = None,
) -> TextEstimate:
    """Estimate a build of `inputs` with these options (those of `build`) from about `sample_bytes` of them; `clock`
    gives seconds, for the time of the build. Raises InputError for inputs that cannot be sampled or hold no text."""
    if not isinstance(sample_bytes, int) or sample_bytes < 1:
        raise InputError(f"sample_bytes: got {sample_bytes!r}, expected at least 1")
    if framing not in buildplan.FRAMINGS:
        raise InputError(f"framing: got {framing!r}, expected one of {', '.join(buildplan.FRAMINGS)}")
    given = [inputs] if isinstance(inputs, str | Path) else list(inputs)
    files = find_inputs(given, source=source, include=include)
    found = load_tokenizer(tokenizer, search=search)
    frame = sum(number is not None for number in buildplan.framing_ids(framing, found))
    id_bytes = 2 if buildplan.stored_dtype(found.vocab_size) == "uint16" else 4
    options = buildplan.source_options(text_field, separator)
    groups = _sample(files, Reader(found, options, clock), sample_bytes)

    def total(value: Callable[[Stretch], float]) -> Interval:
        return _total(groups, value)

    return TextEstimate(
        files=len(files),
        input_bytes=sum(file.size for file in files),
        sampled_bytes=round(sum(group.stored for group in groups)),
        stretches=sum(len(group.stretches) for group in groups),
        tokenizer=found.name,
        ids=total(lambda s: s.text_ids + frame * s.documents),
        documents=total(lambda s: s.documents),
        text_bytes=total(lambda s: s.text_bytes),
        bytes_per_token=_ratio(groups),
        id_bytes=id_bytes,
        disk_bytes=total(lambda s: id_bytes * (s.text_ids + frame * s.documents) + INDEX_BYTES * s.documents),
        build_seconds=total(lambda s: s.seconds) if clock is not None else None,
        notes=_notes(groups),
    )


def _sample(files: list[InputFile], reader: Reader, sample_bytes: int) -> list[Group]:
    """A sample with text in it: a larger one where rows are longer than the stretches."""
    while True:
        groups = sample(files, reader, sample_bytes)
        if any(stretch.text_ids for group in groups for stretch in group.stretches):
            return groups
        if sample_bytes >= sum(file.size for file in files):
            break
        sample_bytes *= 8
    first, where = files[0], ""
    if first.kind == "jsonl":
        fields = ", ".join(seen_fields(first)) or "none"
        where = f" in the field {reader.options.text_field!r}; the first rows have the fields {fields}"
    raise InputError(f"{first.path}: text: got none in the sample, expected some{where}")


def _total(groups: Sequence[Group], value: Callable[[Stretch], float]) -> Interval:
    """The sum of a value over all inputs."""
    mid, variance = _sum(groups, value)
    return _interval(groups, mid, variance)


def _ratio(groups: Sequence[Group]) -> Interval:
    """Bytes of text by id: a ratio of two sums, with the variance of its linear part."""
    text, ids = (_sum(groups, value)[0] for value in (lambda s: s.text_bytes, lambda s: s.text_ids))
    ratio = text / ids
    _, variance = _sum(groups, lambda s: s.text_bytes - ratio * s.text_ids)
    return _interval(groups, ratio, variance / ids**2)


def _sum(groups: Sequence[Group], value: Callable[[Stretch], float]) -> tuple[float, float]:
    """(estimated sum, its variance) by a ratio to bytes on disk in each group."""
    mid = variance = 0.0
    for group in groups:
        stored, size, count = group.stored, group.size, len(group.stretches)
        if not stored:
            continue
        ratio = sum(value(stretch) for stretch in group.stretches) / stored
        mid += size * ratio
        unread = max(0.0, 1 - stored / size)
        if count == 1:
            variance += unread * (size * ratio) ** 2  # nothing is known of how stretches differ
            continue
        squares = sum((value(stretch) - ratio * stretch.stored) ** 2 for stretch in group.stretches)
        variance += unread * (size / stored) ** 2 * squares * count / (count - 1)
    return mid, variance


def _interval(groups: Sequence[Group], mid: float, variance: float) -> Interval:
    free = max(1, sum(len(group.stretches) - 1 for group in groups))
    factor = STUDENT[free - 1] if free <= len(STUDENT) else 1.96 + 2.6 / free
    half = factor * math.sqrt(variance)
    return Interval(max(0.0, mid - half), mid, mid + half)


def _notes(groups: Sequence[Group]) -> tuple[str, ...]:
    out = []
    for group in groups:
        part = group.stored / group.size if group.size else 1.0
        if group.compression and part < 0.999:
            out.append(
                f"{group.compression}: only the first bytes of compressed files can be read ({part:.1%} of "
                f"{len(group.files)} files); the interval is of that part, and what comes later may differ"
            )
        if group.heads:
            out.append(
                f"{group.kind}: of large row groups only the first rows are read ({part:.1%} of {len(group.files)} "
                "files); what comes later in them may differ"
            )
        if group.bad:
            out.append(f"{group.bad} of {group.rows} rows in the sample are bad; a build counts and lists them")
        if group.invalid:
            out.append(f"{group.invalid} bytes in the sample are not UTF-8; a build refuses such documents")
    return tuple(out)
