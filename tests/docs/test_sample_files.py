"""docs/formats/mds.md, litdata.md and olmo.md against the code: readers made from their tables read what we write."""

import gzip
import json
import re
import struct
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from made_contents import made_content, write_shards
from tokenriver import registry
from tokenriver.formats import _mds_index, _npy, _olmo_bounds, litdata, mds, olmo

FOLDER = Path(__file__).resolve().parent.parent.parent / "docs" / "formats"
DOCS = [[7], list(range(300)), [9, 8, 7]]
IDS = [i for doc in DOCS for i in doc]
ENDS = [1, 301, 304]


def _table(name: str, after: str) -> list[list[str]]:
    """Cells of the first table after a line, without its two head lines."""
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    rows = re.search(r"(?:^\|.*\n)+", text[text.index(after) :], re.MULTILINE)
    assert rows is not None
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in rows[0].splitlines()[2:]]


def _eval(cell: str, **values: int) -> int:
    """The value of a cell such as `4 + 4·(n+1)` or `5 + 2^k`."""
    text = re.sub(r"\((\w)\+(\d)\)", lambda found: str(values[found[1]] + int(found[2])), cell)
    total = 0
    for term in text.split(" + "):
        product = 1
        for factor in term.split("·"):
            base, _, power = factor.partition("^")
            product *= int(base) ** values[power] if power else values.get(base) or int(base)
        total += product
    return total


def _offsets(data: bytes, rows: list[list[str]]) -> tuple[int, list[int]]:
    number = int.from_bytes(data[_eval(rows[0][0]) :][: _eval(rows[0][1])], "little")
    place, size = _eval(rows[1][0]), _eval(rows[1][1], n=number)
    return number, np.frombuffer(data[place : place + size], "<u4").tolist()


def test_a_shard_of_mds_is_read_by_its_table(tmp_path: Path) -> None:
    (written,) = write_shards(mds, tmp_path, [made_content(IDS, ENDS)])
    data = written.path.read_bytes()
    shard, sample = _table("mds", "## A shard"), _table("mds", "a sample is\n")
    number, offsets = _offsets(data, shard)
    assert json.loads(data[_eval(shard[2][0], n=number) : offsets[0]])["column_encodings"] == ["ndarray:uint16"]
    for doc, begin, end in zip(DOCS, offsets, offsets[1:], strict=False):
        size = int.from_bytes(data[begin : begin + _eval(sample[0][1])], "little")
        assert size == end - begin - 4
        k = data[begin + _eval(sample[1][0])] - 4
        place, width = begin + _eval(sample[2][0]), _eval(sample[2][1], k=k)
        assert int.from_bytes(data[place : place + width], "little") == len(doc)
        assert data[begin + _eval(sample[3][0], k=k) : end] == struct.pack(f"<{len(doc)}H", *doc)


def test_a_chunk_of_litdata_is_read_by_its_table(tmp_path: Path) -> None:
    (written,) = write_shards(litdata, tmp_path, [made_content(IDS, ENDS)])
    data, rows = written.path.read_bytes(), _table("litdata", "## A chunk")
    number, offsets = _offsets(data, rows)
    assert offsets[0] == _eval(rows[2][0], n=number)
    found = [np.frombuffer(data[a:b], "<u2").tolist() for a, b in pairwise(offsets)]
    assert found == DOCS


def test_an_array_of_olmo_is_read_by_its_table(tmp_path: Path) -> None:
    (written,) = write_shards(olmo, tmp_path, [made_content(IDS, ENDS)])
    data, ((offset, size, _),) = written.path.read_bytes(), _table("olmo", "## An array")
    assert len(data) == _eval(offset) + _eval(size, S=2, N=len(IDS))
    columns = _table("olmo", "## The bounds")
    rows = gzip.decompress(written.path.with_suffix(".csv.gz").read_bytes()).decode().splitlines()
    assert [row.split(",")[:2] for row in rows] == [["0", "1"], ["1", "301"], ["301", "304"]]
    assert {len(row.split(",")) for row in rows} == {len(columns)}
    text = (FOLDER / "olmo.md").read_text()
    assert _npy.MAGIC.hex(" ") in text
    assert f"at most {_olmo_bounds.MAX_EMPTY} more rows" in text


def test_litdatas_codes_are_the_codes() -> None:
    for row, codes in zip(_table("litdata", "| data_format"), (litdata.NUMPY, litdata.TENSOR), strict=True):
        assert row[1] == ", ".join(f"{code} {name}" for code, name in codes.items())


@pytest.mark.parametrize("name", ["mds", "litdata", "olmo"])
def test_layouts_and_dtypes_are_named(name: str) -> None:
    module = registry.load("formats", name)
    text = (FOLDER / f"{name}.md").read_text()
    assert all(f"`{layout}`" in text for layout in module.LAYOUTS if layout)
    assert all(dtype in text for dtype in module.DTYPES)


def test_mdss_layouts_are_as_the_table_says(tmp_path: Path) -> None:
    for layout, encoding, _ in _table("mds", "## What is written"):
        name = layout.strip("`") if layout != "(usual)" else ""
        folder = tmp_path / (name or "usual")
        folder.mkdir()
        write_shards(mds, folder, [made_content([1, 2, 3, 4], [2, 4])], layout=name)
        (entry,) = _mds_index.read_entries(folder / "index.json")
        expected = encoding.strip("`").replace("DTYPE", "uint16").replace("COUNT", "2")
        assert entry.row["column_encodings"] == [expected]
