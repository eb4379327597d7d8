"""One unit: what it writes and what its receipt says, with tokenizers that misbehave."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xxhash

from small_builds import EOS, framed, some_texts, write_rows
from tokenriver.engines._unit import Done, Job, Unreadable, Work, run_unit
from tokenriver.errors import LimitError
from tokenriver.hashing import held_out
from tokenriver.parts import part_path, read_documents, read_receipt
from tokenriver.tokenizers._bytes import ByteTokenizer
from tokenriver.tokenizers.byte import BYTE
from tokenriver.types import Ids, Int64, Piece, SourceOptions, Tokenizer
from tokenriver.units import Lot

pytestmark = pytest.mark.usefixtures("quick_disk")


def work(folder: Path, before: int | None = None, after: int | None = EOS, val_fraction: float = 0.0) -> Work:
    return Work(folder, "uint16", before, after, val_fraction, 1024, SourceOptions())


def a_lot(*paths: Path) -> Lot:
    pieces = tuple(Piece(source, path, 0, path.stat().st_size) for source, path in enumerate(paths))
    return Lot(0, "jsonl", pieces, ("",) * len(paths), ((0, 1),) * len(paths), False, 1, "tag")


def done(job: Job, work: Work, tokenizer: Tokenizer | None = None) -> Done:
    unit = run_unit(job, work, tokenizer or BYTE)
    assert isinstance(unit, Done)
    return unit


def test_part_and_receipt(tmp_path: Path) -> None:
    texts = some_texts(7)
    one = write_rows(tmp_path / "a.jsonl", texts[:3])
    two = write_rows(tmp_path / "b.jsonl", texts[3:])
    two.write_bytes(b"bad\n\n" + two.read_bytes())
    receipt = done(Job((0, 0), a_lot(one, two)), work(tmp_path)).receipt
    ids = framed(texts)
    data = part_path(tmp_path, (0, 0)).read_bytes()
    assert np.frombuffer(data, "<u2", receipt.num_ids).tolist() == [i for document in ids for i in document]
    assert receipt.num_documents == 7
    assert receipt.text_bytes == sum(len(text.encode()) for text in texts)
    assert receipt.ids_xxh3 == xxhash.xxh3_128_hexdigest(data[: 2 * receipt.num_ids])
    assert receipt.docs_xxh3 == xxhash.xxh3_128_hexdigest(data[2 * receipt.num_ids :])
    assert [(p.source, p.rows) for p in receipt.pieces] == [(0, 3), (1, 6)]
    assert [p.digests for p in receipt.pieces] == [(hashlib.sha256(p.read_bytes()).hexdigest(),) for p in (one, two)]
    assert receipt.bad == ((1, 0, 0, "not-json"),)
    assert receipt.notes == {"blank": 1}
    assert read_receipt(tmp_path, (0, 0), "tag", 2) == receipt
    documents = read_documents(tmp_path, receipt, 2)
    assert np.diff(documents.ends, prepend=0).tolist() == [len(document) for document in ids]
    assert documents.records.tolist() == [0, 1, 2, 2, 3, 4, 5]
    assert documents.pieces.tolist() == [0, 0, 0, 1, 1, 1, 1]


def test_recorded_lengths_count_the_boundary(tmp_path: Path) -> None:
    """R017: three documents of 2, 3 and 4 ids with a boundary behind have the lengths 3, 4 and 5."""
    path = write_rows(tmp_path / "a.jsonl", ["ab", "cde", "fghi"])
    receipt = done(Job((0, 0), a_lot(path)), work(tmp_path)).receipt
    assert read_documents(tmp_path, receipt, 2).ends.tolist() == [3, 7, 12]
    assert receipt.num_ids == 12


def test_small_native_calls_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_rows(tmp_path / "a.jsonl", some_texts(40))
    first = done(Job((0, 0), a_lot(path)), work(tmp_path, val_fraction=0.5)).receipt
    data = part_path(tmp_path, (0, 0)).read_bytes()
    monkeypatch.setattr("tokenriver.engines._unit.ENCODE_BYTES", 1)
    assert done(Job((0, 0), a_lot(path)), work(tmp_path, val_fraction=0.5)).receipt == first
    assert part_path(tmp_path, (0, 0)).read_bytes() == data


def test_a_unit_without_documents(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", ["", ""])
    receipt = done(Job((0, 0), a_lot(path)), work(tmp_path)).receipt
    assert (receipt.num_ids, receipt.num_documents, receipt.notes) == (0, 0, {"empty": 2})
    assert part_path(tmp_path, (0, 0)).read_bytes() == b""
    assert read_receipt(tmp_path, (0, 0), "tag", 2) == receipt


def test_a_damaged_input_names_each_and_leaves_nothing(tmp_path: Path) -> None:
    good = write_rows(tmp_path / "a.jsonl", ["text"])
    bad = tmp_path / "b.gz"
    bad.write_bytes(b"\x1f\x8b\x08\0\0\0\0\0\0\3" + b"\xff" * 9)
    missing = tmp_path / "c.jsonl"
    lot = replace(a_lot(good, bad), compressions=("", "gzip", ""))
    lot = replace(lot, pieces=(*lot.pieces, Piece(2, missing, 0, 5)), blocks=((0, 1),) * 3)
    unit = run_unit(Job((4, 2), lot), work(tmp_path), BYTE)
    assert isinstance(unit, Unreadable)
    assert unit.key == (4, 2)
    assert [source for source, _ in unit.errors] == [1, 2]
    assert "damaged gzip data" in unit.errors[0][1]
    assert f"{missing}: cannot read" in unit.errors[1][1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "b.gz"]


def mistreat(monkeypatch: pytest.MonkeyPatch, shift: int = 0) -> None:
    """Make `byte` drop spaces, so that a text of spaces has no ids, and add something to each id."""
    encode = ByteTokenizer.encode_framed

    def odd(self: ByteTokenizer, texts: list[bytes], before: int | None, after: int | None) -> tuple[Ids, Int64]:
        ids, lengths = encode(self, [text.replace(b" ", b"") for text in texts], before, after)
        return ids + np.uint32(shift), lengths

    monkeypatch.setattr(ByteTokenizer, "encode_framed", odd)


def test_texts_without_ids_are_noted_and_no_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mistreat(monkeypatch)
    path = write_rows(tmp_path / "a.jsonl", [" ", "ab", "  ", "c d", " "])
    receipt = done(Job((0, 0), a_lot(path)), work(tmp_path, after=None)).receipt
    documents = read_documents(tmp_path, receipt, 2)
    assert documents.ends.tolist() == [2, 4]
    assert documents.records.tolist() == [1, 3]
    assert receipt.notes == {"no-ids": 3}
    framed_ones = done(Job((0, 1), a_lot(path)), work(tmp_path)).receipt
    assert read_documents(tmp_path, framed_ones, 2).ends.tolist() == [1, 4, 5, 8, 9]
    only = write_rows(tmp_path / "b.jsonl", [" "])
    assert done(Job((0, 2), a_lot(only)), work(tmp_path, after=None)).receipt.num_documents == 0


def test_an_id_outside_the_vocabulary_is_refused_before_it_is_narrowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law 8: 65,536 + 97 would be stored as 97."""
    mistreat(monkeypatch, shift=65536)
    path = write_rows(tmp_path / "a.jsonl", ["a"])
    with pytest.raises(LimitError, match="tokenizer 'byte': got id 65792, expected at most 256"):
        run_unit(Job((0, 0), a_lot(path)), work(tmp_path), BYTE)
    assert [file.name for file in tmp_path.iterdir()] == ["a.jsonl"]


def test_the_validation_side_is_a_property_of_the_text_alone() -> None:
    texts = [text.encode() for text in some_texts(2000)]
    for fraction in (0.1, 0.5):
        sides = held_out(texts, fraction)
        assert abs(int(sides.sum()) - 2000 * fraction) < 100
        assert held_out(texts[::-1], fraction).tolist() == sides[::-1].tolist()
        assert [held_out([text], fraction).item() for text in texts[:50]] == sides[:50].tolist()
    few, many = held_out(texts, 0.1), held_out(texts, 0.5)
    assert (many | ~few).all()
    assert held_out([], 0.5).tolist() == []


def test_samples_are_the_documents_own_texts_and_ids(tmp_path: Path) -> None:
    texts = [f"text {i} " + "x" * i for i in range(300)]
    path = write_rows(tmp_path / "a.jsonl", texts)
    for before, after in ((None, EOS), (EOS, None), (None, None)):
        unit = run_unit(Job((0, 0), a_lot(path), sample_bytes=2000), work(tmp_path, before, after), BYTE)
        assert isinstance(unit, Done)
        sample = unit.sample
        assert 3 <= len(sample.texts) < 300
        assert 0 < sum(map(len, sample.texts)) <= 2000
        assert {text.decode() for text in sample.texts} <= set(texts)
        assert sample.ids.tolist() == list(b"".join(sample.texts))
        assert sample.lengths.tolist() == [len(text) for text in sample.texts]


def test_texts_that_a_reference_encoder_would_choke_on_are_no_sample(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", ["x" * 200_000, "word " * 2000])
    unit = run_unit(Job((0, 0), a_lot(path), sample_bytes=10**6), work(tmp_path), BYTE)
    assert isinstance(unit, Done)
    assert [len(text) for text in unit.sample.texts] == [10_000]
