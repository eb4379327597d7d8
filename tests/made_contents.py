"""What a writer of a format is given, made from lists."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np

from tokenriver.storage import Content, Target, WrittenFile
from tokenriver.types import Ids, Int32, Int64


def made_target(dtype: str = "uint16", *, split: str = "train", shards: int = 1, layout: str = "") -> Target:
    """A target with facts about GPT-2's tokenizer and two sources."""
    return Target("tokens", split, dtype, shards, "gpt2", 50257, 50256, 50256, ("a.jsonl", "b/c.jsonl"), layout)


def made_content(
    ids: Sequence[int] | Ids, ends: Sequence[int] | None = None, dtype: str = "uint16", *, block: int = 1000
) -> Content:
    """A shard of these ids, with documents that end where `ends` says (one document if None), in blocks of `block`
    values; document i is record 10 i of source i % 2."""
    data = np.array(ids, np.dtype(dtype).newbyteorder("<"))
    stops = np.array([len(data)] if ends is None else ends, np.int64)

    def blocks() -> Iterator[Ids]:
        for at in range(0, len(data), block):
            yield data[at : at + block]

    def end_blocks() -> Iterator[Int64]:
        for at in range(0, len(stops), block):
            yield stops[at : at + block]

    def origins() -> Iterator[tuple[Int64, Int32]]:
        for at in range(0, len(stops), block):
            numbers = np.arange(at, min(at + block, len(stops)))
            yield (numbers * 10).astype(np.int64), (numbers % 2).astype(np.int32)

    return Content(len(data), len(stops), blocks, end_blocks, origins)


def write_shards(
    module: ModuleType, folder: Path, contents: Sequence[Content], dtype: str = "uint16", *, layout: str = ""
) -> list[WrittenFile]:
    """Write one split's shards as a converter does; the shards' own files in order."""
    target = made_target(dtype, shards=len(contents), layout=layout)
    module.check(target, contents)
    written = [
        module.write(folder / module.file_name(target, i), content, target)[0] for i, content in enumerate(contents)
    ]
    module.finish(folder, target, list(zip(written, contents, strict=True)))
    return written
