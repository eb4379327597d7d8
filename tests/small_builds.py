"""What the tests of the build share: tiny inputs, builds of them, and readers that know nothing of units and parts."""

import json
import os
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tokenriver
from tokenriver import files
from tokenriver.build import BuildReport

EOS = 256
"""The boundary of the tokenizer `byte`; every other id of it is a byte of the text."""


class QuickDisk(files.System):
    """The real disk, which is not waited for: no test that uses it loses power."""

    def fsync(self, fd: int) -> None:
        os.fstat(fd)


def write_rows(path: Path, texts: Iterable[str]) -> Path:
    """JSON lines with the texts."""
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return path


def some_texts(count: int, start: int = 0) -> list[str]:
    """Texts of very different lengths, none like another, some not ASCII."""
    return [f"{i} é{chr(0x4E00 + i)} " + "abc de " * (i * 7 % 23) for i in range(start, start + count)]


def small_build(inputs: Sequence[str | Path] | Path, out: Path, **options: object) -> BuildReport:
    """A build with the tokenizer `byte` and units of 1 KiB, unless other options are given."""
    given: dict[str, Any] = {"tokenizer": "byte", "unit_bytes": 1024, **options}
    return tokenriver.build(inputs, out, **given)


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, hidden ones too, by its path there."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def corpus_files(folder: Path) -> dict[str, bytes]:
    """The files of a corpus without the hidden ones."""
    return {name: data for name, data in files_of(folder).items() if not name.startswith(".")}


def framed(texts: Iterable[str | bytes], before: int | None = None, after: int | None = EOS) -> list[list[int]]:
    """The ids of each document as the tokenizer `byte` has them."""
    edges = ([] if before is None else [before], [] if after is None else [after])
    return [[*edges[0], *(text.encode() if isinstance(text, str) else text), *edges[1]] for text in texts]


def shard_ids(path: Path) -> list[int]:
    """The ids of an llm.c shard, read by its description alone."""
    data = path.read_bytes()
    magic, version, count = struct.unpack("<3i", data[:12])
    dtype = {(20240520, 1): "<u2", (20240801, 7): "<u4"}[magic, version]
    assert data[12:1024] == bytes(1012)
    ids = np.frombuffer(data, dtype, offset=1024)
    assert len(ids) == count
    return [int(i) for i in ids]


def shard_documents(path: Path) -> list[tuple[list[int], int, int]]:
    """(ids, record, source) of each document of a shard, by the description of its index alone."""
    data, ids = path.with_suffix(".docs").read_bytes(), shard_ids(path)
    assert data[:8] == b"TRDOCS01"
    (k,) = struct.unpack("<q", data[8:16])
    assert len(data) == 24 + 20 * k
    assert data[16:24] == bytes(8)
    ends = struct.unpack(f"<{k}q", data[24 : 24 + 8 * k])
    records = struct.unpack(f"<{k}q", data[24 + 8 * k : 24 + 16 * k])
    sources = struct.unpack(f"<{k}i", data[24 + 16 * k :])
    starts = (0, *ends[:-1])
    assert ends[-1] == len(ids)
    return [(ids[a:b], record, source) for a, b, record, source in zip(starts, ends, records, sources, strict=True)]


def documents(folder: Path, split: str = "train", name: str = "tokens") -> list[tuple[list[int], int, int]]:
    """(ids, record, source) of each document of a split, in order."""
    return [row for path in sorted(folder.glob(f"{name}_{split}_*.bin")) for row in shard_documents(path)]


def river(folder: Path, split: str = "train", name: str = "tokens") -> list[int]:
    """All ids of a split."""
    return [i for path in sorted(folder.glob(f"{name}_{split}_*.bin")) for i in shard_ids(path)]


def manifest_of(folder: Path) -> dict[str, Any]:
    found = json.loads((folder / "manifest.json").read_bytes())
    assert isinstance(found, dict)
    return found


def must_equal(found: Sequence[object], expected: Sequence[object], what: str) -> None:
    """AssertionError at the first difference. A plain assert would show a diff of everything, which takes minutes for
    long lists where a test runner shows diffs in full, as it does under continuous integration."""
    if found != expected:
        at = next((i for i, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b), len(expected))
        shown = [repr(rows[at : at + 1])[:300] for rows in (found, expected)]
        raise AssertionError(
            f"{what}: got {shown[0]} at {at}, expected {shown[1]}; lengths {len(found)}, {len(expected)}"
        )
