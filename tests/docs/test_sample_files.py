"""docs/formats/mds.md, litdata.md and olmo.md against the code: readers made from their tables read what we write."""

import gzip
import json
import struct
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from doc_tables import cells, value
from made_contents import made_content, write_shards
from tokenriver import registry
from tokenriver.formats import _mds_index, _npy, _olmo_bounds, litdata, mds, olmo

FOLDER = Path(__file__).resolve().parent.parent.parent / "docs" / "formats"
DOCS = [[7], list(range(300)), [9, 8, 7]]
IDS = [i for doc in DOCS for i in doc]
ENDS = [1, 301, 304]


def _page(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def _offsets(data: bytes, rows: list[list[str]]) -> tuple[int, list[int]]:
    number = int.from_bytes(data[value(rows[0][0]) :][: value(rows[0][1])], "little")
    place, size = value(rows[1][0]), value(rows[1][1], n=number)
    return number, np.frombuffer(data[place : place + size], "<u4").tolist()


def test_a_shard_of_mds_is_read_by_its_table(tmp_path: Path) -> None:
    (written,) = write_shards(mds, tmp_path, [made_content(IDS, ENDS)])
    data = written.path.read_bytes()
    shard, sample = cells(_page("mds"), "## A shard"), cells(_page("mds"), "a sample is\n")
    number, offsets = _offsets(data, shard)
    assert json.loads(data[value(shard[2][0], n=number) : offsets[0]])["column_encodings"] == ["ndarray:uint16"]
    for doc, begin, end in zip(DOCS, offsets, offsets[1:], strict=False):
        size = int.from_bytes(data[begin : begin + value(sample[0][1])], "little")
        assert size == end - begin - 4
        k = data[begin + value(sample[1][0])] - 4
        place, width = begin + value(sample[2][0]), value(sample[2][1], k=k)
        assert int.from_bytes(data[place : place + width], "little") == len(doc)
        assert data[begin + value(sample[3][0], k=k) : end] == struct.pack(f"<{len(doc)}H", *doc)


def test_a_chunk_of_litdata_is_read_by_its_table(tmp_path: Path) -> None:
    (written,) = write_shards(litdata, tmp_path, [made_content(IDS, ENDS)])
    data, rows = written.path.read_bytes(), cells(_page("litdata"), "## A chunk")
    number, offsets = _offsets(data, rows)
    assert offsets[0] == value(rows[2][0], n=number)
    found = [np.frombuffer(data[a:b], "<u2").tolist() for a, b in pairwise(offsets)]
    assert found == DOCS


def test_an_array_of_olmo_is_read_by_its_table(tmp_path: Path) -> None:
    (written,) = write_shards(olmo, tmp_path, [made_content(IDS, ENDS)])
    data, ((offset, size, _),) = written.path.read_bytes(), cells(_page("olmo"), "## An array")
    assert len(data) == value(offset) + value(size, S=2, N=len(IDS))
    columns = cells(_page("olmo"), "## The bounds")
    rows = gzip.decompress(written.path.with_suffix(".csv.gz").read_bytes()).decode().splitlines()
    assert [row.split(",")[:2] for row in rows] == [["0", "1"], ["1", "301"], ["301", "304"]]
    assert {len(row.split(",")) for row in rows} == {len(columns)}
    text = (FOLDER / "olmo.md").read_text()
    assert _npy.MAGIC.hex(" ") in text
    assert f"at most {_olmo_bounds.MAX_EMPTY} more rows" in text


def test_litdatas_codes_are_the_codes() -> None:
    for row, codes in zip(cells(_page("litdata"), "| data_format"), (litdata.NUMPY, litdata.TENSOR), strict=True):
        assert row[1] == ", ".join(f"{code} {name}" for code, name in codes.items())


@pytest.mark.parametrize("name", ["mds", "litdata", "olmo"])
def test_layouts_and_dtypes_are_named(name: str) -> None:
    module = registry.load("formats", name)
    text = (FOLDER / f"{name}.md").read_text()
    assert all(f"`{layout}`" in text for layout in module.LAYOUTS if layout)
    assert all(dtype in text for dtype in module.DTYPES)


def test_mdss_layouts_are_as_the_table_says(tmp_path: Path) -> None:
    for layout, encoding, _ in cells(_page("mds"), "## What is written"):
        name = layout.strip("`") if layout != "(usual)" else ""
        folder = tmp_path / (name or "usual")
        folder.mkdir()
        write_shards(mds, folder, [made_content([1, 2, 3, 4], [2, 4])], layout=name)
        (entry,) = _mds_index.read_entries(folder / "index.json")
        expected = encoding.strip("`").replace("DTYPE", "uint16").replace("COUNT", "2")
        assert entry.row["column_encodings"] == [expected]
