"""tokenriver's own corpus: a folder with manifest.json whose shards are llm.c files with a document index beside each.

The folder is opened by `open_corpus`; here is one shard. It is an llm.c file to every other reader.
"""

from pathlib import Path

from tokenriver.formats import _docindex
from tokenriver.formats._bin import BinReader, has_llmc_magic, map_llmc

SUFFIX = ".bin"
STORES = frozenset({"doc_ends", "dtype", "count"})


def sniff(path: Path) -> bool:
    """An llm.c shard with a document index beside it."""
    return _docindex.index_path(path).is_file() and has_llmc_magic(path)


def open_reader(path: Path, *, dtype: str | None = None) -> BinReader:
    """Open a shard and its index; FormatError where either is damaged or they do not belong together."""
    ids = map_llmc(path, dtype)
    index = _docindex.open_index(_docindex.index_path(path), len(ids))
    return BinReader(open_reader, path, ids, index.ends, asked=dtype)
