"""Parts and receipts: what proves that a unit is done, and what does not."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest

from hand_made_parts import PLAN, hand_made, hand_made_unit
from tokenriver.errors import FormatError
from tokenriver.parts import (
    PieceReceipt,
    Receipt,
    part_path,
    read_documents,
    read_receipt,
    receipt_path,
    write_receipt,
)

pytestmark = pytest.mark.usefixtures("quick_disk")


KEY = (3, 7)


@pytest.fixture
def receipt(tmp_path: Path) -> Receipt:
    return hand_made_unit(tmp_path, KEY, 0, [3, 4, 5], [False, True, False])


def test_a_receipt_comes_back_as_it_was(tmp_path: Path, receipt: Receipt) -> None:
    full = replace(
        receipt,
        bad=((0, 4, 99, "not-json"), (1, 0, -1, "null")),
        notes={"blank": 2},
        pieces=(PieceReceipt(5, 12, ("ab", "cd")), PieceReceipt(6, 0, ())),
        prefix="ff",
        encoded_ids=15,
        once=True,
        dropped={"max_chars": (1, 0), "max_ids": (2, 3)},
        offset=17,
    )
    write_receipt(tmp_path, full)
    assert read_receipt(tmp_path, KEY, PLAN, 2) == full


def test_a_finished_unit_needs_receipt_part_plan_and_size(tmp_path: Path, receipt: Receipt) -> None:
    assert read_receipt(tmp_path, KEY, PLAN, 2) == receipt
    assert read_receipt(tmp_path, KEY, "another plan", 2) is None
    assert read_receipt(tmp_path, (3, 8), PLAN, 2) is None
    assert read_receipt(tmp_path, KEY, PLAN, 4) is None
    part = part_path(tmp_path, KEY)
    whole = part.read_bytes()
    for other in (whole[:-1], whole + b"\0", b""):
        part.write_bytes(other)
        assert read_receipt(tmp_path, KEY, PLAN, 2) is None
    part.unlink()
    assert read_receipt(tmp_path, KEY, PLAN, 2) is None


def test_a_part_that_holds_something_else_is_not_done(tmp_path: Path, receipt: Receipt) -> None:
    """As after a loss of power: nobody waits until a part is on the disk."""
    part = part_path(tmp_path, KEY)
    whole = part.read_bytes()
    for at in range(len(whole)):
        part.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert read_receipt(tmp_path, KEY, PLAN, 2) is None
    part.write_bytes(bytes(len(whole)))
    assert read_receipt(tmp_path, KEY, PLAN, 2) is None
    part.write_bytes(whole)
    assert read_receipt(tmp_path, KEY, PLAN, 2) == receipt


def test_a_receipt_under_another_name_is_none(tmp_path: Path, receipt: Receipt) -> None:
    receipt_path(tmp_path, KEY).rename(receipt_path(tmp_path, (3, 8)))
    part_path(tmp_path, KEY).rename(part_path(tmp_path, (3, 8)))
    assert read_receipt(tmp_path, (3, 8), PLAN, 2) is None


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"3", b'"text"', b"{}", b'{"pieces": 3}', b'{"key": [1]}', b"\xff"])
def test_a_damaged_receipt_is_none(tmp_path: Path, receipt: Receipt, data: bytes) -> None:
    receipt_path(tmp_path, KEY).write_bytes(data)
    assert read_receipt(tmp_path, KEY, PLAN, 2) is None


@pytest.mark.parametrize("name", sorted(Receipt.__slots__))
def test_a_receipt_without_one_of_its_fields_is_none(tmp_path: Path, receipt: Receipt, name: str) -> None:
    data = receipt.as_dict()
    del data[name]
    receipt_path(tmp_path, KEY).write_bytes(orjson.dumps(data))
    assert read_receipt(tmp_path, KEY, PLAN, 2) is None


def test_documents_come_back(tmp_path: Path, receipt: Receipt) -> None:
    found = read_documents(tmp_path, receipt, 2)
    assert found.ends.tolist() == [3, 7, 12]
    assert found.records.tolist() == [0, 2, 4]
    assert found.pieces.tolist() == [0, 0, 0]
    assert found.held_out.tolist() == [False, True, False]
    assert [str(column.dtype) for column in (found.ends, found.records, found.pieces)] == ["int64", "int64", "int32"]
    assert found.held_out.dtype == np.bool_


def test_every_changed_byte_of_the_documents_is_found_and_the_unit_is_done_again(
    tmp_path: Path, receipt: Receipt
) -> None:
    part = part_path(tmp_path, KEY)
    whole = part.read_bytes()
    for at in range(receipt.num_ids * 2, len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 1
        part.write_bytes(changed)
        write_receipt(tmp_path, receipt)
        with pytest.raises(FormatError, match="run the same command again"):
            read_documents(tmp_path, receipt, 2)
        assert read_receipt(tmp_path, KEY, PLAN, 2) is None


def test_a_unit_without_documents(tmp_path: Path) -> None:
    parts = hand_made(tmp_path, [[], [2]])
    assert [len(parts.documents(unit).ends) for unit in (0, 1, 0)] == [0, 1, 0]
    assert read_receipt(tmp_path, (0, 0), PLAN, 2) == parts.receipts[0]
