"""Files of ids damaged at random, opened in a process of its own: a crash of a library would be its death."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import id_mutations
from id_tables import ids_table, to_file, to_lz4_file, to_plain_parquet, to_stream, to_zstd_stream
from made_contents import made_content, made_target
from tokenriver import registry

ENDS = [0, 10, 10, 100, 250, 600]
IDS = [at * 97 % 50257 for at in range(600)]
ROWS = [IDS[a:b] for a, b in zip([0, *ENDS], ENDS, strict=False)]
SEEDS = {
    "safetensors": "safetensors",
    "own-arrow": "arrow",
    "stream": "arrow",
    "file": "arrow",
    "zstd": "arrow",
    "lz4": "arrow",
    "fixed": "arrow",
    "own-parquet": "parquet",
    "plain": "parquet",
    "pages-2": "parquet",
    "delta": "parquet",
}


def make(kind: str, path: Path) -> None:
    table = ids_table(ROWS, pa.large_list(pa.int32()), text=pa.array(["a", "b"] * 3).dictionary_encode())
    if kind in ("safetensors", "own-arrow", "own-parquet"):
        registry.load("formats", SEEDS[kind]).write(path, made_content(IDS, ENDS), made_target())
    elif kind == "fixed":
        to_file(path, pa.table({"ids": pa.FixedSizeListArray.from_arrays(pa.array(IDS, pa.uint16()), 50)}), 5)
    elif kind == "pages-2":
        pq.write_table(table, path, data_page_version="2.0", compression="gzip", row_group_size=4)
    elif kind == "delta":
        flat = pa.table({"input_ids": pa.array(np.array(IDS, np.uint16))})
        pq.write_table(flat, path, use_dictionary=False, column_encoding={"input_ids": "DELTA_BINARY_PACKED"})
    else:
        writers = {"stream": to_stream, "file": to_file, "zstd": to_zstd_stream, "lz4": to_lz4_file}
        {**writers, "plain": to_plain_parquet}[kind](path, table, 2)


def run(kind: str, folder: Path, count: int, seed: int) -> int:
    """How many of the damaged files were refused; fails with what the process said before it died."""
    make(kind, folder / kind)
    program = [sys.executable, id_mutations.__file__, SEEDS[kind], str(folder / kind), str(count), str(seed)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.fullmatch(rf"(\d+) of {count} refused\n", done.stdout)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("kind", SEEDS)
def test_damaged_files_are_refused_or_read(kind: str, tmp_path: Path) -> None:
    assert 20 < run(kind, tmp_path, 100, 0) <= 100


@pytest.mark.slow
@pytest.mark.parametrize("kind", SEEDS)
def test_many_damaged_files_are_refused_or_read(kind: str, tmp_path: Path) -> None:
    assert 600 < run(kind, tmp_path, 3000, 1) <= 3000
