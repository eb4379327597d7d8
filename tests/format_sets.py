"""Small sets of shards in any format and layout, written as a converter writes them and read as a corpus reads them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from types import ModuleType

import numpy as np

from made_contents import made_content, made_target, write_shards
from small_corpora import ids_of, index_bytes
from tokenriver import registry
from tokenriver.errors import LimitError
from tokenriver.storage import Content, ShardFile, ShardReader

Shards = Sequence[Sequence[Sequence[int]]]
"""Shards of documents of ids."""
Read = list[tuple[list[int], list[int] | None]]
"""Of each shard, its ids and the ends of its documents."""


@dataclass(frozen=True)
class Variant:
    """A format in one of its layouts."""

    name: str
    layout: str

    @property
    def module(self) -> ModuleType:
        return registry.load("formats", self.name)

    @property
    def dtypes(self) -> list[str]:
        """What the layout can store, the usual one first."""
        return [dtype for dtype in self.module.DTYPES if self.refusal([[[1]]], dtype) is None]

    @property
    def bounds(self) -> bool:
        """Do its own files say where documents end?"""
        return "doc_ends" in self.module.STORES

    @property
    def typed(self) -> bool:
        """Do its files say how wide an id is?"""
        return ("dtype" in self.module.STORES and self.layout != "bytes") or self.layout == "npy"

    def refusal(self, shards: Shards, dtype: str) -> str | None:
        """Why the format cannot hold these shards; None if it can."""
        target = made_target(dtype, shards=len(shards), layout=self.layout)
        try:
            self.module.check(target, [content_of(documents, dtype) for documents in shards])
        except LimitError as error:
            return str(error)
        return None

    def write(self, folder: Path, shards: Shards, dtype: str | None = None) -> list[Path]:
        """Write a set; the shards' own files. The native format's documents are in the index beside each."""
        dtype = dtype or self.dtypes[0]
        contents = [content_of(documents, dtype) for documents in shards]
        written = write_shards(self.module, folder, contents, dtype, layout=self.layout)
        for file, documents in zip(written, shards, strict=True):
            if self.name == "native":
                file.path.with_suffix(".docs").write_bytes(index_bytes([len(ids) for ids in documents]))
        return [file.path for file in written]

    def open(self, path: Path, dtype: str | None = None) -> ShardReader:
        """Open one shard; where the files do not say their dtype, the reader must be told."""
        reader: ShardReader = self.module.open_reader(path, dtype=None if self.typed else dtype or self.dtypes[0])
        return reader

    def find(self, path: Path) -> list[ShardFile]:
        found: list[ShardFile] = self.module.find(path)
        return found

    def read(self, path: Path, dtype: str | None = None) -> Read:
        """All of a file or folder, looked for as a corpus does."""
        out: Read = []
        for shard in self.find(path):
            reader = self.open(shard.path, dtype)
            ends = reader.doc_ends
            out.append((ids_of(reader), None if ends is None else ends.tolist()))
            reader.close()
        return out

    def expected(self, shards: Shards) -> Read:
        """What `read` must give for what was written."""
        return [
            ([i for ids in documents for i in ids], ends_of(documents) if self.bounds else None) for documents in shards
        ]


def _layouts(module: ModuleType) -> list[str]:
    return list(getattr(module, "LAYOUTS", None) or getattr(module, "STYLES", None) or [""])


VARIANTS = [
    Variant(name, layout) for name in registry.names("formats") for layout in _layouts(registry.load("formats", name))
]
USUAL = [variant for variant in VARIANTS if not variant.layout]


def name_of(variant: Variant) -> str:
    return f"{variant.name}-{variant.layout}" if variant.layout else variant.name


def ends_of(documents: Sequence[Sequence[int]]) -> list[int]:
    return list(accumulate(len(ids) for ids in documents))


def content_of(documents: Sequence[Sequence[int]], dtype: str) -> Content:
    return made_content([i for ids in documents for i in ids], ends_of(documents), dtype)


def largest(dtype: str) -> int:
    """The largest id of a dtype."""
    return int(np.iinfo(dtype).max)


def toy_documents(count: int, length: int, first: int = 1) -> list[list[int]]:
    """Documents of one length, so that every layout holds them; no id is like its neighbour, none over 250."""
    return [[(first + 7 * (d * length + i)) % 250 for i in range(length)] for d in range(count)]
