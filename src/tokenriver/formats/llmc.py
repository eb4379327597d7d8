"""llm.c training shards: 256 int32 of header, then ids. uint16 (GPT-2 flavour) or uint32 (Llama 3 flavour).

Short and long files are both refused, as llm.c's own reader does; offsets are 64-bit throughout, which its reader's
are not (formats.md, sections 1, 2 and 5.4).
"""

from pathlib import Path

from tokenriver.formats._bin import (
    LLMC_HEADER_BYTES,
    BinReader,
    BinWriter,
    has_llmc_magic,
    id_dtype,
    llmc_header,
    map_llmc,
)

SUFFIX = ".bin"
STORES = frozenset({"dtype", "count"})
HEADER_BYTES = LLMC_HEADER_BYTES

header = llmc_header
sniff = has_llmc_magic


def open_reader(path: Path, *, dtype: str | None = None) -> BinReader:
    """Open one shard; FormatError with path, offset, value and expectation, also when `dtype` is not the file's."""
    return BinReader(open_reader, path, map_llmc(path, dtype), asked=dtype)


def open_writer(path: Path, *, dtype: str, num_tokens: int) -> BinWriter:
    """Write one shard of exactly num_tokens ids; LimitError for none or for 2^31 and more."""
    return BinWriter(path, dtype, num_tokens, llmc_header(num_tokens, id_dtype(dtype).name))
