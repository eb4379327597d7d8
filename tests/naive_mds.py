"""MDS shards made value by value, for tests to compare with."""

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SIZE_LIMIT = 67108864


def columns(*parts: tuple[str, str, int | None], **more: object) -> dict[str, Any]:
    """The columns' table of (name, encoding, size) parts."""
    table = {
        "column_encodings": [encoding for _, encoding, _ in parts],
        "column_names": [name for name, _, _ in parts],
        "column_sizes": [size for _, _, size in parts],
        "compression": None,
        "format": "mds",
        "hashes": [],
        "size_limit": SIZE_LIMIT,
        "version": 2,
    }
    return {**table, **more}


def shard(table: dict[str, Any], samples: Sequence[Sequence[bytes]]) -> bytes:
    """A shard's bytes: samples are values in the order of the columns."""
    text = json.dumps(table, sort_keys=True).encode()
    bodies = []
    for values in samples:
        sizes = [len(value) for value, size in zip(values, table["column_sizes"], strict=True) if size is None]
        bodies.append(struct.pack(f"<{len(sizes)}I", *sizes) + b"".join(values))
    at = 4 + 4 * (len(samples) + 1) + len(text)
    offsets = [at + sum(map(len, bodies[:i])) for i in range(len(samples) + 1)]
    return struct.pack(f"<{len(samples) + 2}I", len(samples), *offsets) + text + b"".join(bodies)


def array(ids: Sequence[int], dtype: str = "H") -> bytes:
    """A value of `ndarray:DTYPE`, ids packed by struct's letter."""
    width = 0 if len(ids) < 256 else 1 if len(ids) < 65536 else 2
    head = bytes([4 | width]) + len(ids).to_bytes(1 << width, "little")
    return head + struct.pack(f"<{len(ids)}{dtype}", *ids)


def row(name: str, table: dict[str, Any], samples: int, size: int, **more: object) -> dict[str, Any]:
    """An entry of index.json."""
    raw = {"basename": name, "bytes": size, "hashes": {}}
    return {**table, "raw_data": raw, "samples": samples, "zip_data": None, **more}


def write_folder(folder: Path, table: dict[str, Any], shards: Sequence[Sequence[Sequence[bytes]]]) -> None:
    """A whole set: index.json and raw shards."""
    rows = []
    for number, samples in enumerate(shards):
        data = shard(table, samples)
        (folder / f"shard.{number:05d}.mds").write_bytes(data)
        rows.append(row(f"shard.{number:05d}.mds", table, len(samples), len(data)))
    write_index(folder, rows)


def write_index(folder: Path, rows: Sequence[dict[str, Any]]) -> None:
    (folder / "index.json").write_text(json.dumps({"shards": list(rows), "version": 2}, sort_keys=True))
