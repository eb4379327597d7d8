"""tokenriver's own corpus: a folder with manifest.json whose shards are llm.c files with a document index beside each.

The folder is opened by `open_corpus`; here is one shard. It is an llm.c file to every other reader.
"""

from pathlib import Path

from tokenriver.formats import _docindex, _files
from tokenriver.formats._bin import LLMC_MAX_TOKENS, has_llmc_magic, llmc_header, map_llmc
from tokenriver.formats._reader import Opened, Reader
from tokenriver.storage import Content, ShardFile, Target, WrittenFile

SUFFIX = ".bin"
STORES = frozenset({"doc_ends", "dtype", "count"})
DTYPES = ("uint16", "uint32")
SHARD_TOKENS = 100_000_000
MAX_SHARD_TOKENS = LLMC_MAX_TOKENS
SPLIT_FOLDERS = False
LOSS_MASKS = True

check = _files.no_limits
finish = _files.nothing_more


def sniff(path: Path) -> bool:
    """An llm.c shard with a document index beside it, or a folder that begins with one."""
    return _files.any_by_name(path, SUFFIX, _has_index)


def _has_index(path: Path) -> bool:
    return _docindex.index_path(path).is_file() and has_llmc_magic(path)


def find(path: Path) -> list[ShardFile]:
    """A shard, or the shards of a folder by name."""
    return _files.find_by_name(path, SUFFIX, _has_index)


def open_reader(path: Path, *, dtype: str | None = None) -> Reader:
    """Open a shard; FormatError where it is damaged, and when its documents are first asked for, where its index is
    or the two do not belong together."""
    return Reader(Opened(open_reader, path, dtype), map_llmc(path, dtype))


def passed_over(path: Path) -> str | None:
    """A mask beside a shard, which only a manifest can say to be the shard's."""
    return "the loss mask beside it" if path.with_suffix(".mask").is_file() else None


def file_name(target: Target, number: int) -> str:
    return _files.numbered(target, number, SUFFIX)


def write(path: Path, content: Content, target: Target) -> list[WrittenFile]:
    """The llm.c file alone: the index beside it is written for shards of every format by whoever writes the corpus."""
    return [_files.write_flat(path, llmc_header(content.num_tokens, target.dtype), content)]
