"""llm.c training shards: 256 int32 of header, then ids. uint16 (GPT-2 flavour) or uint32 (Llama 3 flavour).

Short and long files are both refused, as llm.c's own reader does; offsets are 64-bit throughout, which its reader's
are not: it cannot reach a byte behind 2^31, which 10^8 ids, the usual size, stay far below (formats.md, sections 1, 2
and 5.4).
"""

from pathlib import Path

from tokenriver.formats import _files
from tokenriver.formats._bin import LLMC_HEADER_BYTES, LLMC_MAX_TOKENS, has_llmc_magic, llmc_header, map_llmc
from tokenriver.formats._reader import Opened, Reader
from tokenriver.storage import Content, ShardFile, Target, WrittenFile

SUFFIX = ".bin"
STORES = frozenset({"dtype", "count"})
HEADER_BYTES = LLMC_HEADER_BYTES
DTYPES = ("uint16", "uint32")
SHARD_TOKENS = 100_000_000
MAX_SHARD_TOKENS = LLMC_MAX_TOKENS
SPLIT_FOLDERS = False

header = llmc_header
check = _files.no_limits
finish = _files.nothing_more


def sniff(path: Path) -> bool:
    """By the magic of the file, or of the first `.bin` file of a folder."""
    return _files.any_by_name(path, SUFFIX, has_llmc_magic)


def find(path: Path) -> list[ShardFile]:
    """A shard, or the shards of a folder by name."""
    return _files.find_by_name(path, SUFFIX, has_llmc_magic)


def open_reader(path: Path, *, dtype: str | None = None) -> Reader:
    """Open one shard; FormatError with path, offset, value and expectation, also when `dtype` is not the file's."""
    return Reader(Opened(open_reader, path, dtype), map_llmc(path, dtype))


def file_name(target: Target, number: int) -> str:
    return _files.numbered(target, number, SUFFIX)


def write(path: Path, content: Content, target: Target) -> list[WrittenFile]:
    """The header, then the ids; LimitError for 2^31 ids and more."""
    return [_files.write_flat(path, llmc_header(content.num_tokens, target.dtype), content)]
