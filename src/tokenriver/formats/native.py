"""tokenriver's own corpus: a folder with manifest.json whose shards are llm.c files with a document index beside each.

The folder is opened by `open_corpus`; here is one shard. It is an llm.c file to every other reader.
"""

from pathlib import Path

from tokenriver.formats import _docindex
from tokenriver.formats._bin import BinReader, has_llmc_magic, map_llmc
from tokenriver.types import Int32, Int64

SUFFIX = ".bin"
STORES = frozenset({"doc_ends", "dtype", "count"})


def sniff(path: Path) -> bool:
    """An llm.c shard with a document index beside it."""
    return _docindex.index_path(path).is_file() and has_llmc_magic(path)


def open_reader(path: Path, *, dtype: str | None = None) -> BinReader:
    """Open a shard; FormatError where it is damaged, and when its documents are first asked for, where its index is
    or the two do not belong together."""
    return BinReader(open_reader, path, map_llmc(path, dtype), _open_index, asked=dtype)


def _open_index(path: Path, num_tokens: int) -> tuple[Int64, Int64, Int32]:
    index = _docindex.open_index(_docindex.index_path(path), num_tokens)
    return index.ends, index.records, index.sources
