"""Arrays and bounds that dolma's own writer and OLMo-core made, read exactly and written byte for byte; their facts
again without the files."""

import csv
import gzip
import hashlib
import io
import json
from pathlib import Path

import numpy as np
import pytest

from golden_data import golden
from made_contents import made_content, write_shards
from open_shards import all_ends, all_ids
from tokenriver.errors import FormatError
from tokenriver.formats import olmo

FIRST = [35977, 16349, 11726, 49363, 8802, 50256, 15936, 32131, 39427, 50256]
FIRST_SHA256 = "5d824bdc0361211f8606bbc3c415733705a8491ff7436117732175ca12dfc8f2"
ROWS = b'0,6,id-0,source/a.json.gz,1\r\n6,10,"id,1",source/a.json.gz,2\r\n'


def test_the_originals_bytes_are_ours(tmp_path: Path) -> None:
    (written,) = write_shards(olmo, tmp_path, [made_content(FIRST, [6, 10])])
    assert written.sha256 == FIRST_SHA256


def test_the_originals_rows_are_read(tmp_path: Path) -> None:
    path = tmp_path / "part-0-00000.npy"
    path.write_bytes(np.array(FIRST, "<u2").tobytes())
    for rows in (ROWS, b"0,6\n6,10\n"):
        (tmp_path / "part-0-00000.csv.gz").write_bytes(gzip.compress(rows))
        (shard,) = olmo.find(tmp_path)
        reader = olmo.open_reader(path, dtype=shard.dtype)
        assert (all_ids(reader), all_ends(reader), shard.dtype) == (FIRST, [6, 10], "uint16")


@pytest.mark.parametrize("part", ["part-0", "part-1"])
def test_the_original_arrays_are_read(part: str) -> None:
    case = json.loads(golden("olmo_dolma/olmo_dolma_cases.json").read_text())[part]
    for file in case["files"]:
        path = golden(f"olmo_dolma/{file['npy']}")
        assert olmo.sniff(path)
        (shard,) = olmo.find(path)
        reader = olmo.open_reader(path, dtype=shard.dtype)
        assert shard.dtype == case["dtype"]
        assert all_ids(reader) == file["tokens"]
        assert all_ends(reader) == [int(row[1]) for row in file["csv_rows"]]


def test_what_they_hold_is_written_as_it_is(tmp_path: Path) -> None:
    """Arrays byte for byte; rows but for the documents' ids, sources and lines, which the test has not."""
    for name, dtype in (("part-0-00001", "uint16"), ("part-1-00000", "uint32")):
        reader = olmo.open_reader(golden(f"olmo_dolma/{name}.npy"), dtype=dtype)
        folder = tmp_path / name
        folder.mkdir()
        (written,) = write_shards(olmo, folder, [made_content(all_ids(reader), all_ends(reader), dtype)], dtype)
        original = golden(f"olmo_dolma/{name}.npy").read_bytes()
        assert written.sha256 == hashlib.sha256(original).hexdigest()
        texts = [
            gzip.decompress(path.read_bytes()).decode()
            for path in (written.path.with_suffix(".csv.gz"), golden(f"olmo_dolma/{name}.csv.gz"))
        ]
        ours, theirs = (list(csv.reader(io.StringIO(text, newline=""))) for text in texts)
        assert [row[:2] for row in ours] == [row[:2] for row in theirs]
        assert [len(row) for row in ours] == [len(row) for row in theirs]


def test_bounds_that_olmo_core_derived_are_read() -> None:
    reader = olmo.open_reader(golden("olmo_dolma/derived.npy"))
    assert (all_ids(reader), all_ends(reader)) == (FIRST, [6, 10])


def test_an_array_without_bounds_has_no_documents() -> None:
    path = golden("olmo_dolma/no_final_eos.npy")
    reader = olmo.open_reader(path)
    assert (reader.num_tokens, reader.doc_ends) == (13, None)
    assert not olmo.sniff(path)


def test_the_wrong_dtype_is_found_by_the_bounds() -> None:
    reader = olmo.open_reader(golden("olmo_dolma/part-1-00000.npy"), dtype="uint16")
    with pytest.raises(FormatError, match="got 14, expected 28, by the array's size; if its ids are wider"):
        all_ends(reader)
