"""Tables with a column of ids as pyarrow writes them into Arrow and Parquet files."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq

from tokenriver.formats import arrow, parquet

Write = Callable[[Path, pa.Table, int], None]
Rows = Sequence[Sequence[int | None] | None]


def to_stream(path: Path, table: pa.Table, rows: int) -> None:
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)


def to_file(path: Path, table: pa.Table, rows: int) -> None:
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)


def to_zstd_stream(path: Path, table: pa.Table, rows: int) -> None:
    with pa.ipc.new_stream(path, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table, max_chunksize=rows)


def to_lz4_file(path: Path, table: pa.Table, rows: int) -> None:
    with pa.ipc.new_file(path, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table, max_chunksize=rows)


def to_parquet(path: Path, table: pa.Table, rows: int) -> None:
    pq.write_table(table, path, row_group_size=rows, write_page_checksum=True)


def to_plain_parquet(path: Path, table: pa.Table, rows: int) -> None:
    """Without dictionary, compression, statistics and checksums."""
    pq.write_table(table, path, row_group_size=rows, write_statistics=False, use_dictionary=False, compression="none")


LAYOUTS: dict[str, tuple[ModuleType, Write]] = {
    "stream": (arrow, to_stream),
    "file": (arrow, to_file),
    "zstd-stream": (arrow, to_zstd_stream),
    "lz4-file": (arrow, to_lz4_file),
    "parquet": (parquet, to_parquet),
    "plain-parquet": (parquet, to_plain_parquet),
}


def ids_table(rows: Rows, kind: pa.DataType, name: str = "input_ids", **others: object) -> pa.Table:
    """A table of these rows of ids and other columns before them."""
    return pa.table({**others, name: pa.array(rows, kind)})
