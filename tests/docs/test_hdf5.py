"""docs/formats/hdf5.md against the code."""

import re
from pathlib import Path

import h5py
import pytest

from doc_tables import cells
from made_contents import made_content, made_target, write_shards
from tokenriver.formats import _hdf5_body, _hdf5_chunks, _hdf5_filters, _hdf5_head, _hdf5_write, hdf5

TEXT = (Path(__file__).resolve().parent.parent.parent / "docs" / "formats" / "hdf5.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("version", "layout", "column"), [(0, "pile", 0), (3, "lesson", 2), (3, "", 2)])
def test_the_first_bytes_are_as_the_table_says(tmp_path: Path, version: int, layout: str, column: int) -> None:
    dtype = "int32" if layout == "pile" else "uint16"
    (written,) = write_shards(hdf5, tmp_path, [made_content([1, 2, 3], None, dtype)], dtype, layout=layout)
    data = written.path.read_bytes()
    places = [row[column] for row in cells(TEXT, "## The first bytes")]
    sizes = [int(row[3]) for row in cells(TEXT, "## The first bytes")]
    values = [data[int(at) : int(at) + size] for at, size in zip(places, sizes, strict=True) if at != "-"]
    assert values[:3] == [b"\x89HDF\r\n\x1a\n", bytes([version]), b"\x08\x08"]
    numbers = [int.from_bytes(value, "little") for value in values[3:]]
    with h5py.File(written.path) as file:
        root = h5py.h5o.get_info(file.id).addr
    assert numbers == ([0, len(data), 2**64 - 1, root] if version == 0 else [0, 0, len(data), root])


def test_the_table_is_the_codes() -> None:
    rows = cells(TEXT, "## The first bytes")
    tables = (_hdf5_head.SIZES, None, _hdf5_head.BASE, _hdf5_head.END, _hdf5_head.DRIVER, _hdf5_head.ROOT)
    for row, table in zip(rows[2:], tables, strict=True):
        for column, version in ((0, 0), (1, 1), (2, 2), (2, 3)):
            expected = None if table is None else table.get(version)
            if table is None and version >= 2:
                expected = _hdf5_head.FLAGS
            assert row[column] == ("-" if expected is None else str(expected))


def test_the_layouts_are_the_codes(tmp_path: Path) -> None:
    rows = cells(TEXT, "## What is written")
    assert [row[0].strip("`").replace("(usual)", "") for row in rows] == list(hdf5.STYLES)
    for name, kinds, chunk, attributes, names in rows:
        layout = "" if name == "(usual)" else name.strip("`")
        dtype = re.split("[, ]", kinds)[0]
        folder = tmp_path / f"x{layout}"
        folder.mkdir()
        (written,) = write_shards(hdf5, folder, [made_content(range(9), None, dtype)], dtype, layout=layout)
        assert f"`{written.path.name.replace('tokens', 'NAME')}`" in names
        assert (
            hdf5.file_name(made_target(dtype, split="val", layout=layout), 0).replace("tokens_val", "NAME_train")
            in names
        )
        with h5py.File(written.path) as file:
            found = file["tokens"]
            assert found.chunks == (int(chunk) if layout else 9,)
            told = {"of the dataset": found, "of the file": file, "as the usual layout": found}
            place = told.get(attributes.split(":")[0])
            stated = sorted(found.attrs) + sorted(file.attrs)
            assert sorted(place.attrs if place is not None else []) == stated
            if layout in ("", "lesson-list"):
                assert sorted(re.findall("`(.*?)`", attributes)) == stated
        assert (folder / "shards.json").exists() == ("shards.json" in names)
    assert int(re.findall(r"\d+", rows[0][2])[0]) == _hdf5_write.MOST_IN_CHUNK


def test_what_it_says_of_limits() -> None:
    assert "Filters: gzip, lzf, shuffle, fletcher32" in TEXT
    assert set(_hdf5_filters.NAMES.values()) == {"gzip", "lzf", "shuffle", "fletcher32"}
    assert f"filtered chunks of over {_hdf5_chunks.MAX_DECODED >> 20} MiB" in TEXT
    assert f"the last {_hdf5_body.KEEP_BYTES >> 20} MiB of them kept" in TEXT
