"""Cutting inputs into units: everything is covered once, in order, by inputs and options alone."""

import gzip
import hashlib
import json
from itertools import pairwise
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from small_builds import some_texts
from tokenriver.errors import InputError
from tokenriver.inputs import InputFile
from tokenriver.types import SourceOptions
from tokenriver.units import (
    TreeDigest,
    block_digests,
    file_edges,
    join_digests,
    make_lots,
    stream_blocks,
    unit_name,
)

OPTIONS = SourceOptions()
LINES = SourceOptions(separator=b"|")


def an_input(path: Path, kind: str = "jsonl", compression: str = "") -> InputFile:
    return InputFile(path, path.name, path.stat().st_size, kind, compression)


def a_file(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def test_names_sort_in_plan_order() -> None:
    keys = [(0, 0), (0, 9), (0, 10), (2, 0), (10, 3), (99999, 1)]
    assert sorted(unit_name(key) for key in keys) == [unit_name(key) for key in keys]


def test_small_files_share_a_lot_and_large_ones_are_cut(tmp_path: Path) -> None:
    small = [an_input(a_file(tmp_path, f"{i}.jsonl", b'{"text":"a"}\n' * 20)) for i in range(5)]
    large = an_input(a_file(tmp_path, "large.jsonl", b'{"text":"a"}\n' * 300))
    lots = make_lots([*small[:4], large, small[4]], OPTIONS, 1024)
    assert [lot.index for lot in lots] == list(range(len(lots)))
    assert [[piece.source for piece in lot.pieces] for lot in lots] == [[0, 1, 2], [3], [4], [4], [4], [4], [5]]
    ranges = [(piece.start, piece.stop) for lot in lots for piece in lot.pieces if piece.source == 4]
    assert ranges[0][0] == 0
    assert ranges[-1][1] == 3900
    assert all(a[1] == b[0] for a, b in pairwise(ranges))
    assert sum(lot.num_bytes for lot in lots) == sum(file.size for file in [*small, large])


def test_kinds_do_not_share_a_lot(tmp_path: Path) -> None:
    rows = an_input(a_file(tmp_path, "a.jsonl", b'{"text":"a"}\n'))
    text = an_input(a_file(tmp_path, "b.txt", b"text"), "text")
    assert [lot.kind for lot in make_lots([rows, text, rows], OPTIONS, 1024)] == ["jsonl", "text", "jsonl"]


def test_only_large_archives_and_parted_text_are_streams(tmp_path: Path) -> None:
    rows = b"".join(json.dumps({"text": text}).encode() + b"\n" for text in some_texts(200))
    small = an_input(a_file(tmp_path, "s.zst", zstandard.compress(b'{"text":"a"}\n')), compression="zstd")
    large = an_input(a_file(tmp_path, "l.zst", zstandard.compress(rows)), compression="zstd")
    parted = an_input(a_file(tmp_path, "t.txt", b"piece|" * 400), "text")
    lots = make_lots([small, large, parted, parted], LINES, 1024)
    assert [(lot.stream, lot.pieces[0].source) for lot in lots] == [(False, 0), (True, 1), (True, 2), (True, 3)]
    whole = make_lots([parted], OPTIONS, 1024)
    assert [(lot.stream, len(lot.pieces)) for lot in whole] == [(False, 1)]


def test_digest_blocks_of_a_cut_file_are_each_hashed_once(tmp_path: Path) -> None:
    data = b'{"text":"a"}\n' * 1000
    file = an_input(a_file(tmp_path, "a.jsonl", data))
    lots = make_lots([file], OPTIONS, 1024)
    digests = [d for lot in lots for d in block_digests(file.path, *lot.blocks[0], 1024)]
    expected = [hashlib.sha256(data[i : i + 1024]).hexdigest() for i in range(0, len(data), 1024)]
    assert digests == expected
    assert join_digests(digests) == hashlib.sha256(b"".join(map(bytes.fromhex, expected))).hexdigest()


def blocks_of(path: Path, kind: str, compression: str, options: SourceOptions, unit_bytes: int) -> list[bytes]:
    lots = make_lots([an_input(path, kind, compression)], options, unit_bytes)
    assert [lot.stream for lot in lots] == [True]
    found = list(stream_blocks(lots[0], options, unit_bytes, TreeDigest(0)))
    offset = 0
    for k, block in enumerate(found):
        assert (block.k, block.offset) == (k, offset)
        offset += block.size
    return [b"".join(block.data) for block in found]


@given(st.lists(st.integers(0, 900), min_size=60, max_size=120), st.sampled_from([1024, 1500, 4000]))
def test_units_of_a_stream_are_the_longest_runs_of_whole_records(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], unit_bytes: int
) -> None:
    folder = tmp_path_factory.mktemp("stream")
    rows = [b'{"text":"' + bytes([97 + i % 26]) * size + b'"}\n' for i, size in enumerate(sizes)]
    data = b"".join(rows) + b"".join(b'{"text":"%d"}\n' % i for i in range(400))
    path = a_file(folder, "a.jsonl.zst", zstandard.compress(data, 1))
    lots = make_lots([an_input(path, "jsonl", "zstd")], OPTIONS, unit_bytes)
    if not lots[0].stream:
        return
    units = blocks_of(path, "jsonl", "zstd", OPTIONS, unit_bytes)
    assert b"".join(units) == data
    for unit, after in pairwise(units):
        assert unit.endswith(b"\n")
        assert len(unit) <= unit_bytes < len(unit) + after.index(b"\n") + 1


def test_a_record_longer_than_a_unit_widens_the_window(tmp_path: Path) -> None:
    data = b"short|" + b"x" * 5000 + b"|" + b"y" * 100 + b"|" + b"z" * 6000
    path = a_file(tmp_path, "a.txt", data)
    units = blocks_of(path, "text", "", LINES, 1024)
    assert units == [b"short|", b"x" * 5000 + b"|" + b"y" * 100 + b"|", b"z" * 6000]


def test_a_cut_archive_gives_what_it_has_and_then_fails(tmp_path: Path) -> None:
    rows = b"".join(json.dumps({"text": text}).encode() + b"\n" for text in some_texts(300))
    data = gzip.compress(rows)
    path = a_file(tmp_path, "a.jsonl.gz", data[: len(data) * 2 // 3])
    (lot,) = make_lots([an_input(path, "jsonl", "gzip")], OPTIONS, 1024)
    found: list[bytes] = []
    with pytest.raises(InputError, match=r"a\.jsonl\.gz.*truncated"):
        found.extend(b"".join(block.data) for block in stream_blocks(lot, OPTIONS, 1024, TreeDigest(0)))
    assert rows.startswith(b"".join(found))
    assert len(found) > 3


@given(st.lists(st.binary(max_size=50)), st.integers(1, 40))
def test_a_tree_digest_does_not_depend_on_the_reads(chunks: list[bytes], block: int) -> None:
    data = b"".join(chunks)
    for block_bytes in (0, block):
        digest = TreeDigest(block_bytes)
        for chunk in chunks:
            digest.update(chunk)
        step = block_bytes or max(1, len(data))
        blocks = [data[i : i + step] for i in range(0, max(1, len(data)), step)]
        assert digest.hexdigest() == join_digests(hashlib.sha256(part).hexdigest() for part in blocks)


def test_edges_see_size_and_both_ends(tmp_path: Path) -> None:
    data = bytearray(300_000)
    path = a_file(tmp_path, "a", bytes(data))
    first = file_edges(path, len(data))
    for at in (0, 65535, len(data) - 65536, len(data) - 1):
        changed = bytearray(data)
        changed[at] = 1
        assert file_edges(a_file(tmp_path, "b", bytes(changed)), len(data)) != first
    with pytest.raises(InputError, match="cannot read"):
        file_edges(tmp_path / "missing", 1)


def test_no_digests_of_nothing() -> None:
    with pytest.raises(InputError, match="no blocks"):
        join_digests([])
