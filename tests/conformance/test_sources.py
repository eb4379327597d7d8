"""What every source must do, run over the registry: a new source needs one writer here and passes all of this."""

import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from source_cases import Collected, blocks_of, collect, read_pieces
from tokenriver import registry
from tokenriver.errors import InputError
from tokenriver.kinds import known_kinds
from tokenriver.streams import read_blocks
from tokenriver.types import Piece, SourceOptions


def jsonl(path: Path, texts: list[str]) -> SourceOptions:
    path.write_bytes(b"".join(orjson.dumps({"id": i, "text": text}) + b"\n" for i, text in enumerate(texts)))
    return SourceOptions()


def text(path: Path, texts: list[str]) -> SourceOptions:
    path.write_bytes("".join(text + "\0\0\n" for text in texts).encode())
    return SourceOptions(separator=b"\0\0\n")


def parquet(path: Path, texts: list[str]) -> SourceOptions:
    pq.write_table(pa.table({"text": texts}), path, row_group_size=7)
    return SourceOptions()


def arrow(path: Path, texts: list[str]) -> SourceOptions:
    table = pa.table({"text": pa.array(texts, pa.string())})
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)
    return SourceOptions()


WRITERS: dict[str, Callable[[Path, list[str]], SourceOptions]] = {
    "jsonl": jsonl,
    "text": text,
    "parquet": parquet,
    "arrow": arrow,
}
KINDS = registry.names("sources")
STREAMS = [kind for kind in KINDS if registry.load("sources", kind).STREAMS]
UNITS = [1, 100, 5_000, 1 << 30]


def some_texts(count: int, seed: int = 3) -> list[str]:
    """Texts of 0 to 300 characters; every ninth is empty, some hold line ends and any plane's characters."""
    draw = random.Random(seed)
    return [
        "" if i % 9 == 4 else "".join(draw.choices('abc \n\r\t"\\{}\u00e9\u4e2d\U0001f600', k=draw.randint(1, 300)))
        for i in range(count)
    ]


def write(kind: str, folder: Path, texts: list[str]) -> tuple[ModuleType, Path, SourceOptions]:
    path = folder / f"input{registry.load('sources', kind).SUFFIXES[0]}"
    assert kind in WRITERS, f"write a file of kind {kind!r} here"
    return registry.load("sources", kind), path, WRITERS[kind](path, texts)


def read(source: ModuleType, path: Path, options: SourceOptions, unit: int) -> Collected:
    """The whole input as a build reads it: pieces, or one stream cut into units from the start."""
    size = path.stat().st_size
    ranges = source.plan(path, size, options, unit)
    if ranges is not None:
        return read_pieces(source, path, ranges, options)
    out, data, offset = Collected(), b"".join(read_blocks(path, "")), 0
    while offset < size:
        stop = offset + unit
        while stop < size and source.cut(data[offset:stop], options) == 0:
            stop += unit
        stop = offset + source.cut(data[offset:stop], options) if stop < size else size
        out.add_piece(source.parse(iter([data[offset:stop]]), options, offset, first=offset == 0))
        offset = stop
    return out


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_text_comes_once_in_order_with_its_row(kind: str, unit: int, tmp_path: Path) -> None:
    texts = some_texts(100)
    source, path, options = write(kind, tmp_path, texts)
    got = read(source, path, options, unit)
    assert got.docs == [(i, text.encode()) for i, text in enumerate(texts) if text]
    assert got.bad == []
    assert got.notes == {"empty": 11}
    assert got.rows == 100


@pytest.mark.parametrize("kind", KINDS)
def test_the_plan_covers_the_input_without_gap(kind: str, tmp_path: Path) -> None:
    source, path, options = write(kind, tmp_path, some_texts(100))
    for unit in UNITS:
        ranges = source.plan(path, path.stat().st_size, options, unit)
        if ranges is not None:
            assert ranges[0][0] == 0
            assert all(start < stop for start, stop in ranges)
            assert [start for start, _ in ranges[1:]] == [stop for _, stop in ranges[:-1]]
            assert ranges == source.plan(path, path.stat().st_size, options, unit)


@pytest.mark.parametrize("kind", KINDS)
def test_batches_are_bounded(kind: str, tmp_path: Path) -> None:
    texts = ["word " * 2000] * 2000
    source, path, options = write(kind, tmp_path, texts)
    sizes, count = [], 0
    for start, stop in source.plan(path, path.stat().st_size, options, 1 << 30):
        for batch in source.read(Piece(0, path, start, stop), options):
            sizes.append(sum(map(len, batch.texts)))
            count += len(batch.texts)
    assert max(sizes) <= 5 << 20
    assert (sum(sizes), count) == (20_000_000, 2000)


@pytest.mark.parametrize("kind", KINDS)
def test_what_it_writes_is_what_it_recognises(kind: str, tmp_path: Path) -> None:
    source, path, _ = write(kind, tmp_path, some_texts(20))
    head = path.read_bytes()[: 1 << 16]
    sure = [known.name for known in known_kinds() if known.sniff(head)]
    assert sure == ([] if kind == "text" else [kind])
    assert all(suffix.startswith(".") and suffix == suffix.lower() for suffix in source.SUFFIXES)
    names = {known.name: (known.suffixes, known.is_stream) for known in known_kinds()}
    assert names[kind] == (source.SUFFIXES, source.STREAMS)


@pytest.mark.parametrize("kind", KINDS)
def test_fields_are_named(kind: str, tmp_path: Path) -> None:
    source, path, _ = write(kind, tmp_path, some_texts(20))
    expected = {"jsonl": ["id", "text"], "text": []}.get(kind, ["text"])
    assert source.fields(path, path.read_bytes()[: 1 << 16]) == expected


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("block", [1, 3, 64, 1000])
def test_blocks_may_end_anywhere(kind: str, block: int, tmp_path: Path) -> None:
    source, path, options = write(kind, tmp_path, some_texts(60))
    data = path.read_bytes()
    whole = collect(source.parse(iter([data]), options, 0, first=True))
    assert collect(source.parse(blocks_of(data, block), options, 0, first=True)) == whole
    with_empty = (part for some in blocks_of(data, block) for part in (b"", some))
    assert collect(source.parse(with_empty, options, 0, first=True)) == whole


@pytest.mark.parametrize("kind", STREAMS)
def test_a_cut_ends_a_record_and_is_the_longest(kind: str, tmp_path: Path) -> None:
    source, path, options = write(kind, tmp_path, some_texts(30))
    data = path.read_bytes()
    whole = read(source, path, options, 1 << 30).docs
    for stop in range(0, len(data), 37):
        cut = source.cut(data[:stop], options)
        ends = data[:cut]
        assert source.cut(data[cut:stop], options) == 0
        assert source.cut(ends, options) == cut
        before = collect(source.parse(iter([ends]), options, 0, first=True)).docs
        assert before == whole[: len(before)]


@pytest.mark.parametrize("kind", STREAMS)
def test_offsets_of_bad_rows_are_absolute(kind: str, tmp_path: Path) -> None:
    source, path, options = write(kind, tmp_path, ["good", "SPOIL", "fine", "SPOIL", "end"])
    data = path.read_bytes().replace(b"SPOIL", b"\xff\xfe\xfd")
    got = collect(source.parse(blocks_of(data, 5), options, 7000, first=False))
    assert got.texts == [b"good", b"fine", b"end"]
    assert [(record, reason) for record, _, reason in got.bad] == [(1, "invalid-utf8"), (3, "invalid-utf8")]
    for record, offset, _ in got.bad:
        before = collect(source.parse(iter([data[: offset - 7000]]), options, 0, first=True))
        assert before.rows == record


def hostile(source: ModuleType, path: Path, options: SourceOptions) -> str:
    """The InputError that reading gave, or "" when it gave texts that are texts; no other exception is caught."""
    try:
        texts = read(source, path, options, 2000).texts
    except InputError as error:
        return str(error)
    assert all(text.decode() for text in texts)
    return ""


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_files_give_input_errors_only(kind: str, tmp_path: Path) -> None:
    source, path, options = write(kind, tmp_path, some_texts(40))
    whole = path.read_bytes()
    draw = random.Random(11)
    failed = 0
    for _ in range(150):
        raw = bytearray(whole)
        for _ in range(draw.randint(1, 3)):
            raw[draw.randrange(len(raw))] = draw.randrange(256)
        path.write_bytes(bytes(raw[: draw.choice([len(raw), draw.randrange(len(raw))])]))
        error = hostile(source, path, options)
        assert not error or str(path) in error
        failed += bool(error)
    assert failed == 0 if source.STREAMS else failed > 50


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_file_is_an_input_error(kind: str, tmp_path: Path) -> None:
    source, path, options = write(kind, tmp_path, ["a"])
    path.unlink()
    with pytest.raises(InputError, match=path.name):
        list(source.read(Piece(0, path, 0, 1), options))
