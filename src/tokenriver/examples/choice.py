"""Multiple choice: a context, k choices, one of them right. A record becomes k rows, each the context and one choice,
with loss on the choice alone.

    records: _choice_records.py        HellaSwag, MMLU, and any {context, choices, label}
    files:   _choice_native.py         our own, for any k and any id
             _choice_llmc.py           llm.c's evaluation file: four choices, 16 bits
"""

import hashlib
import mmap
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenriver import files
from tokenriver.choicedata import ChoiceExamples, Rendering
from tokenriver.errors import FormatError, InputError
from tokenriver.examples import _choice_llmc, _choice_native
from tokenriver.examples._choice_records import (
    ANSWERS,
    EQUAL_CHOICES,
    MOVED_SPACE,
    STYLES,
    Record,
    Texts,
    apart,
    read_record,
)
from tokenriver.types import Int64, Tokenizer

FORMATS = ("native", "llmc")
_MAGICS = {_choice_native.MAGIC: "native", _choice_llmc.MAGIC.to_bytes(4, "little"): "llmc"}
_KINDS = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
NO_IDS = "no-ids"
CHECKED_BYTES = 1 << 16
"""Of the texts that are encoded together, so many are compared with the reference encoder."""

refuse_llmc = _choice_llmc.refuse
llmc_record_bytes = _choice_llmc.record_bytes
LLMC_CHOICES = _choice_llmc.CHOICES


# ------------------------------------------------------------------------------------------------ records


def check_rendering(rendering: Rendering) -> None:
    """InputError for what cannot be meant."""
    if rendering.style not in ("auto", *STYLES):
        raise InputError(f"style: got {rendering.style!r}, expected auto, {', '.join(STYLES)}")
    if rendering.answers not in ANSWERS:
        raise InputError(f"answers: got {rendering.answers!r}, expected {' or '.join(ANSWERS)}")
    if rendering.turns and rendering.join != Rendering().join:
        raise InputError(f"join: got {rendering.join!r} with a template, which says what joins; leave it out")
    if rendering.join.strip():
        raise InputError(f"join: got {rendering.join!r}, expected white space, or nothing")


@dataclass(frozen=True, slots=True)
class Example:
    """A record as texts, with its label."""

    shape: str
    texts: Texts
    label: int


def example(row: Record, rendering: Rendering) -> Example | str:
    """A record as texts, or the reason why it gives none."""
    parts = read_record(row)
    if isinstance(parts, str):
        return parts
    style = parts.shape if rendering.style == "auto" else rendering.style
    if rendering.turns:
        texts = apart(parts, style, rendering.answers)
    else:
        texts = STYLES[style](parts, rendering.answers, rendering.join)
    return texts if isinstance(texts, str) else Example(parts.shape, texts, parts.label)


def answered(found: Example, choices: Sequence[str]) -> Example:
    """The same with its choices as a chat template writes them."""
    sizes = [len(text.encode("utf-8", "surrogatepass")) for text in choices]
    return replace(found, texts=replace(found.texts, choices=list(choices), choice_bytes=sizes))


def notes(found: Example) -> list[str]:
    """Rules that were applied to a record."""
    out = [MOVED_SPACE] if found.texts.moved else []
    return [*out, EQUAL_CHOICES] if len(set(found.texts.choices)) < len(found.texts.choices) else out


def encode(found: Sequence[Example], tokenizer: Tokenizer) -> tuple[NDArray[np.uint32], Int64]:
    """(ids of all pieces, where each ends); the first texts are compared with the reference encoder."""
    texts = [text for one in found for text in (one.texts.context, *one.texts.choices)]
    ids, lengths = tokenizer.encode_batch(texts)
    count = _first(texts)
    checked = [text.encode("utf-8", "replace") for text in texts[:count]]
    tokenizer.check(checked, ids[: int(lengths[:count].sum())], lengths[:count])
    return ids.astype(np.uint32, copy=False), np.cumsum(lengths)


def check(texts: Sequence[str], tokenizer: Tokenizer) -> None:
    """Compare the first texts with the reference encoder, as `encode` does."""
    first = texts[: _first(texts)]
    tokenizer.check([text.encode("utf-8", "replace") for text in first], *tokenizer.encode_batch(first))


def _first(texts: Sequence[str]) -> int:
    """How many texts are compared."""
    return int(np.searchsorted(np.cumsum([len(text) for text in texts]), CHECKED_BYTES, "right"))


# -------------------------------------------------------------------------------------------------- files


def sniff(path: Path) -> str:
    """`native` or `llmc` by the first bytes; "" for anything else, never an error."""
    try:
        fd = _open(path)
    except (FormatError, InputError):
        return ""
    try:
        head = os.pread(fd, 8, 0)
    finally:
        os.close(fd)
    return next((name for magic, name in _MAGICS.items() if head.startswith(magic)), "")


def read(path: Path) -> ChoiceExamples:
    """The examples of a file of either format, mapped and checked; FormatError for a damaged or foreign one."""
    data = _map(path)
    head = data[:8].tobytes()
    format = next((name for magic, name in _MAGICS.items() if head.startswith(magic)), "")
    if not format:
        raise FormatError(
            f"{path}: magic at byte 0: got {head!r}, expected a file of examples, "
            f"{' or '.join(repr(magic) for magic in _MAGICS)}; make one with tokenriver choice"
        )
    return _choice_native.unpack(path, data) if format == "native" else _choice_llmc.unpack(path, data)


def write(path: Path, examples: ChoiceExamples, format: str) -> None:
    """Write a file by the commit protocol; LimitError, before anything is written, for what the format cannot hold."""
    if format not in FORMATS:
        raise InputError(f"format: got {format!r}, expected {' or '.join(FORMATS)}")
    pieces = list(_choice_llmc.pack(examples) if format == "llmc" else _choice_native.pack(examples))
    digest = hashlib.sha256()
    with files.AtomicFile(path) as file:
        for piece in pieces:
            data = memoryview(piece if isinstance(piece, bytes) else np.ascontiguousarray(piece).data).cast("B")
            digest.update(data)
            file.write(data)
        if format == "native":
            file.write(digest.digest())


def _open(path: Path) -> int:
    """A regular file, opened; FormatError for anything else (a pipe is not waited for)."""
    with files.naming(path, "open"):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        kind = next((name for test, name in _KINDS if test(mode)), "a device")
        raise FormatError(f"{path}: got {kind}, expected a regular file")
    return fd


def _map(path: Path) -> NDArray[np.uint8]:
    fd = _open(path)
    try:
        size = os.fstat(fd).st_size
        data: Any = mmap.mmap(fd, size, access=mmap.ACCESS_READ) if size else b""
        return np.frombuffer(data, np.uint8)
    finally:
        os.close(fd)
