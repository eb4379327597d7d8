"""Corpora written by hand for tests, byte by byte: nothing here uses the writers or readers under test."""

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tokenriver.corpus import Corpus
from tokenriver.manifest import Manifest, ShardInfo, SourceInfo, TokenizerInfo, write_manifest
from tokenriver.storage import ShardReader

Documents = Sequence[Sequence[int]]
GPT2_FINGERPRINT = "e307582cd8917dff6b915273227f9f5fac5c424d61932bb8b8b6bee2acab8b9d"
TOKENIZER = TokenizerInfo("gpt2", GPT2_FINGERPRINT, 50257, 50304, 50256, 50256, None)


def shard_bytes(ids: Sequence[int], dtype: str = "uint16") -> bytes:
    """An llm.c shard: magic, version, count, zeros to byte 1024, ids."""
    magic, version, code = {"uint16": (20240520, 1, "H"), "uint32": (20240801, 7, "I")}[dtype]
    return struct.pack("<3i", magic, version, len(ids)).ljust(1024, b"\0") + struct.pack(f"<{len(ids)}{code}", *ids)


def index_bytes(lengths: Sequence[int], first_record: int = 0, source: int = 0, *, carried: int = 0) -> bytes:
    """A document index: magic, count, carried, ends, records, sources."""
    count = len(lengths)
    ends = [sum(lengths[: i + 1]) for i in range(count)]
    records = range(first_record, first_record + count)
    return b"TRDOCS01" + struct.pack(f"<2q{count}q{count}q{count}i", count, carried, *ends, *records, *[source] * count)


def ids_of(reader: ShardReader) -> list[int]:
    """All ids of a shard."""
    ids: list[int] = reader.read(0, reader.num_tokens).tolist()
    return ids


def make_corpus(folder: Path, splits: Mapping[str, Sequence[Documents]], dtype: str = "uint16") -> Manifest:
    """A native corpus of splits -> shards -> documents -> ids; records count through all of it, from one source."""
    folder.mkdir(parents=True, exist_ok=True)
    shards, record = [], 0
    kept: dict[str, dict[str, int]] = {"ids": {}, "documents": {}}
    for split, members in splits.items():
        for number, documents in enumerate(members):
            lengths = [len(document) for document in documents]
            data = shard_bytes([i for document in documents for i in document], dtype)
            index = index_bytes(lengths, record)
            name = f"tokens_{split}_{number:06d}"
            (folder / f"{name}.bin").write_bytes(data)
            (folder / f"{name}.docs").write_bytes(index)
            digests = [hashlib.sha256(part).hexdigest() for part in (data, index)]
            counts = sum(lengths), len(lengths)
            shards.append(ShardInfo(f"{name}.bin", split, *counts, len(data), digests[0], len(index), digests[1]))
            record += len(lengths)
        for what, column in (("ids", "num_tokens"), ("documents", "num_documents")):
            kept[what][split] = sum(getattr(shard, column) for shard in shards if shard.split == split)
    balance = {name: {"kept": counts} for name, counts in kept.items()}
    source = SourceInfo("a.jsonl", 10, None, "jsonl", "", record)
    manifest = Manifest("native", TOKENIZER, "eos-after", dtype, {}, (source,), tuple(shards), balance)
    write_manifest(folder, manifest)
    return manifest


def sign(content: object) -> bytes:
    """A manifest's bytes for any content, with the right digest: what a hostile writer could make."""
    if isinstance(content, dict):
        content = {**content, "digest": "0" * 64}
    data = json.dumps(content, sort_keys=True, indent=1).encode() + b"\n"
    digest = hashlib.sha256(data).hexdigest().encode()
    return data.replace(b"0" * 64, digest, 1)


def river_of(splits: Sequence[Documents]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """All ids of some shards, end to end."""
    return np.array([i for documents in splits for document in documents for i in document], np.int64)


def sums(corpus: Corpus) -> list[int]:
    """A few numbers that depend on ids and documents of a corpus of at least 15 ids."""
    out = np.empty((3, 5), np.int64)
    corpus.gather(np.array([0, 4, 10]), 5, out)
    return [int(out.sum()), corpus.document_at(7), int(corpus.document(3).sum())]


def send_sums(corpus: Corpus, path: Path) -> None:
    """For another process, which can import this file, whatever its working directory."""
    path.write_text(str(sums(corpus)))
