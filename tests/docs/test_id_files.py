"""docs/formats/safetensors.md, arrow.md and parquet.md against the code: tables, numbers, names."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

from made_contents import made_content, made_target
from tokenriver.formats import (
    _arrow_messages,
    _id_batches,
    _id_columns,
    _parquet_footer,
    arrow,
    parquet,
    safetensors,
)

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "formats"
TEXTS = {name: " ".join((FOLDER / f"{name}.md").read_text().split()) for name in ("safetensors", "arrow", "parquet")}


def table(name: str) -> list[list[str]]:
    """Cells of a document's only table, without its two head lines."""
    lines = [line for line in (FOLDER / f"{name}.md").read_text().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_a_safetensors_file_is_read_by_its_table(tmp_path: Path) -> None:
    safetensors.write(tmp_path / "a", made_content([7, 8, 9], [1, 3]), made_target())
    data = (tmp_path / "a").read_bytes()
    first, second, third = table("safetensors")
    assert first[:3] == ["0", "8", "uint64"]
    length = int.from_bytes(data[:8], "little")
    assert second[:3] == ["8", "H", "text"]
    header = json.loads(data[8 : 8 + length])
    assert [*header] == ["doc_ends", "input_ids"]
    for key in ("dtype", "shape", "data_offsets"):
        assert f'"{key}"' in second[3]
        assert key in header["input_ids"]
    assert third[0] == "8 + H"
    begin, end = header["input_ids"]["data_offsets"]
    assert data[8 + length + begin : 8 + length + end] == b"\7\0\x08\0\x09\0"
    assert len(data) == 8 + length + end


@pytest.mark.parametrize("name", ["arrow", "parquet"])
def test_columns_are_those_of_the_table(name: str) -> None:
    rows = {row[0].strip("`"): row[1] for row in table(name)}
    for dtype in _id_batches.DTYPES:
        schema = _id_batches.schema(made_target(dtype), made_content([1], None, dtype))
        assert schema.names == list(rows)
        assert f"{dtype}" in rows["input_ids"]
        assert schema.field("input_ids").type == pa.list_(pa.type_for_alias(dtype))
    assert [str(schema.field(column).type) for column in ("source", "record")] == [rows["source"], rows["record"]]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("safetensors", f"against {safetensors.MAX_HEADER_BYTES} "),
        (
            "arrow",
            f"than {_arrow_messages.MAX_GROWTH} times the bytes of their batch, or {_arrow_messages.SMALL_BATCH};",
        ),
        ("arrow", f"batches of at most {arrow.BATCH_IDS} ids"),
        ("parquet", f"more than {parquet.WHOLE_GROUP_IDS} ids is decoded in blocks of {parquet.BLOCK_IDS} "),
        ("parquet", f"(at most {_parquet_footer.MAX_FOOTER_BYTES} bytes)"),
        (
            "parquet",
            f"more than {parquet.WHOLE_GROUP_IDS} values, at most {parquet.MAX_IDS_PER_BYTE} of them a stored byte",
        ),
        ("parquet", f"row groups of at most {parquet.GROUP_IDS} ids"),
        *((name, f"at most {_id_batches.MAX_ROW_IDS} ids") for name in ("arrow", "parquet")),
        *((name, f"Shards have {_id_batches.SHARD_TOKENS} ids") for name in ("arrow", "parquet")),
    ],
)
def test_numbers_are_those_of_the_code(name: str, words: str) -> None:
    assert words in TEXTS[name]


def test_names_are_those_of_the_code() -> None:
    names = "`{}`, `{}` or `{}`".format(*_id_columns.NAMES)
    assert safetensors.NAMES == _id_columns.NAMES
    assert all(names in TEXTS[name] for name in ("safetensors", "arrow"))
    for name, module in (("safetensors", safetensors), ("arrow", arrow), ("parquet", parquet)):
        assert f"Suffix `{module.SUFFIX}`" in TEXTS[name]
    written = re.search(r"dtypes: (.*?)\. One", TEXTS["safetensors"])
    assert written is not None
    assert [word.split(" ")[0] for word in written[1].split(", ")] == list(safetensors.DTYPES)
    assert f"`{arrow.file_name(made_target(shards=2), 0)}`" in TEXTS["arrow"]
