"""HDF5 files of ids: what is read, from chunks of what kind, and what is written."""

import hashlib
import json
import multiprocessing
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import tokenriver as tr
from made_contents import made_content, made_target, write_shards
from tokenriver.corpus import open_corpus
from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.formats import _hdf5_write, hdf5
from tokenriver.formats._reader import Blocks, Flat, Pieces, Reader
from tokenriver.types import Ids

IDS = np.arange(5000, dtype=np.int64) * 7919 % 60000
LAYOUTS = [
    ("", "uint16"),
    ("", "uint32"),
    ("", "int32"),
    ("pile", "int32"),
    ("lesson", "uint16"),
    ("lesson-list", "int32"),
]
FILTERS: list[dict[str, object]] = [
    {},
    {"compression": "gzip"},
    {"compression": "gzip", "shuffle": True, "fletcher32": True},
    {"compression": "lzf", "shuffle": True},
    {"compression": "lzf"},
    {"fletcher32": True},
]


def _made(path: Path, ids: NDArray[Any], how: dict[str, object], *, versions: object = "earliest") -> Path:
    """A file by h5py, with another dataset that grows in between, so that chunks lie scattered."""
    with h5py.File(path, "w", libver=versions) as file:
        if how.get("chunks") is None:
            file.create_dataset("tokens", data=ids)
            return path
        resizable = (None, *ids.shape[1:])
        found = file.create_dataset("tokens", shape=(0, *ids.shape[1:]), dtype=ids.dtype, maxshape=resizable, **how)
        other = file.create_dataset("lengths", shape=(0,), dtype="i4", maxshape=(None,), chunks=(3,))
        for at in range(0, len(ids), 700):
            found.resize(min(len(ids), at + 700), axis=0)
            found[at:] = ids[at : at + 700]
            other.resize((at // 100 + 1,))
            other[at // 100] = at
            file.flush()
    return path


def _ids(path: Path) -> list[int]:
    reader = hdf5.open_reader(path)
    ids: list[int] = reader.read(0, reader.num_tokens).tolist()
    return ids


def _windows(reader: Reader, starts: list[int], n: int) -> list[int]:
    ids: list[int] = np.frombuffer(b"".join(reader.windows(np.array(starts, np.int64), n)), reader.dtype).tolist()
    return ids


# ---------------------------------------------------------------------------------------------- reading


@settings(max_examples=100)
@given(
    dtype=st.sampled_from(["u1", "i1", "<u2", ">u2", "<i4", ">i4", "<u4", "<i8", ">u8"]),
    chunk=st.sampled_from([None, 1, 7, 512, 700, 4999, 5000, 9000]),
    filters=st.sampled_from(FILTERS),
    versions=st.sampled_from(["earliest", "latest", ("v108", "v108"), ("earliest", "v110")]),
    count=st.sampled_from([1, 6, 7, 513, 5000]),
)
def test_every_kind_of_file_is_read_as_h5py_reads_it(
    tmp_path_factory: pytest.TempPathFactory,
    dtype: str,
    chunk: int | None,
    filters: dict[str, object],
    versions: object,
    count: int,
) -> None:
    if chunk == 1:
        count = min(count, 513)
    ids = (IDS[:count] % 120).astype(dtype) if dtype[-1] == "1" else IDS[:count].astype(dtype)
    how = {} if chunk is None else {"chunks": (chunk,), **filters}
    path = _made(tmp_path_factory.mktemp("h") / "a.h5", ids, how, versions=versions)
    reader = hdf5.open_reader(path)
    assert reader.dtype == np.dtype(dtype).newbyteorder("<")
    assert reader.read(0, count).tolist() == ids.tolist()
    starts = [0, count // 2, count // 3, count - 1]
    assert _windows(reader, starts, 1) == ids[starts].tolist()
    assert _windows(reader, [0, count // 3], count // 2) == [*ids[: count // 2], *ids[count // 3 :][: count // 2]]


@pytest.mark.parametrize("chunks", [None, (8, 100), (8, 30), (50, 100), (64, 128), (1, 1)])
@pytest.mark.parametrize("filters", [{}, {"compression": "gzip"}])
@pytest.mark.parametrize("versions", ["earliest", "latest"])
def test_rows_are_read_end_to_end(tmp_path: Path, chunks: object, filters: dict[str, object], versions: str) -> None:
    rows = IDS.reshape(50, 100)[: 3 if chunks == (1, 1) else 50].astype("<i4")
    with h5py.File(tmp_path / "a.h5", "w", libver=versions) as file:
        how = {} if chunks is None else {"chunks": chunks, "maxshape": (None, 200), **filters}
        file.create_dataset("tokens", data=rows, **how)
    assert _ids(tmp_path / "a.h5") == rows.reshape(-1).tolist()


def test_what_is_not_filtered_is_mapped(tmp_path: Path) -> None:
    bodies = {}
    for name, ids, how in (
        ("run", IDS, {}),
        ("touching", IDS[:700], {"chunks": (700,)}),
        ("scattered", IDS, {"chunks": (512,)}),
        ("filtered", IDS, {"chunks": (512,), "compression": "gzip"}),
        ("turned", IDS.astype(">u4"), {}),
    ):
        reader = hdf5.open_reader(_made(tmp_path / f"{name}.h5", ids, dict(how)))
        bodies[name] = type(reader._body)
    assert bodies == {"run": Flat, "touching": Flat, "scattered": Pieces, "filtered": Blocks, "turned": Blocks}


def test_small_data_in_the_header_is_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((300,))
        found = h5py.h5d.create(file.id, b"tokens", h5py.h5t.STD_U16BE, space, creation)
        found.write(h5py.h5s.ALL, h5py.h5s.ALL, IDS[:300].astype(np.uint16))
    assert _ids(tmp_path / "a.h5") == IDS[:300].tolist()
    assert hdf5.open_reader(tmp_path / "a.h5").dtype == np.dtype("<u2")


@pytest.mark.parametrize("place", ["dataset", "file", "both"])
@pytest.mark.parametrize("count", [1, 511, 4097, 5000])
@pytest.mark.parametrize("how", [{"chunks": (512,)}, {"chunks": (512,), "compression": "gzip"}, {}])
def test_ids_are_cut_at_the_count(tmp_path: Path, place: str, count: int, how: dict[str, object]) -> None:
    path = _made(tmp_path / "a.h5", IDS, how)
    with h5py.File(path, "a") as file:
        for holder in {"dataset": [file["tokens"]], "file": [file], "both": [file, file["tokens"]]}[place]:
            holder.attrs["token_count"] = count
    assert _ids(path) == IDS[:count].tolist()


def test_files_of_two_dtypes_are_told_apart(tmp_path: Path) -> None:
    path = _made(tmp_path / "a.h5", IDS.astype("<u4"), {})
    assert hdf5.open_reader(path, dtype="uint32").dtype == np.dtype("uint32")
    with pytest.raises(FormatError, match="dtype: got uint32, expected uint16; leave dtype out"):
        hdf5.open_reader(path, dtype="uint16")


def test_a_mask_goes_with_its_ids(tmp_path: Path) -> None:
    mask = (IDS % 3 == 0).astype(np.int8).reshape(50, 100)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["tokens"], file["loss_mask"] = IDS.astype("<i4").reshape(50, 100), mask
    reader = hdf5.open_loss_mask(tmp_path / "a.h5")
    assert reader is not None
    assert reader.dtype == np.int8
    assert reader.read(0, 5000).tolist() == mask.reshape(-1).tolist()
    again = pickle.loads(pickle.dumps(reader))
    assert again.read(3, 9).tolist() == mask.reshape(-1)[3:9].tolist()
    assert hdf5.open_loss_mask(_made(tmp_path / "b.h5", IDS, {})) is None
    with h5py.File(tmp_path / "a.h5", "a") as file:
        del file["loss_mask"]
        file["loss_mask"] = mask[:3]
    with pytest.raises(FormatError, match="loss_mask: got 300 weights, expected 5000, one an id"):
        hdf5.open_loss_mask(tmp_path / "a.h5")


def test_a_mask_is_the_rivers(tmp_path: Path) -> None:
    """Rows of two files as one river; the mask is of the corpus, of its fingerprint and of what it is converted to."""
    mask = (IDS % 3 == 0).astype(np.int8).reshape(50, 100)

    def made(name: str, weights: np.ndarray[Any, Any] | None) -> Path:
        with h5py.File(tmp_path / name, "w") as file:
            file["tokens"] = IDS.astype("<i4").reshape(50, 100)
            if weights is not None:
                file["loss_mask"] = weights
        return tmp_path / name

    made("a.h5", mask), made("b.h5", mask[::-1])
    both = open_corpus(tmp_path)
    expected = np.concatenate([mask, mask[::-1]]).reshape(-1) == 1
    assert both.loss_mask is not None
    assert (both.row_length, both.loss_mask.count()) == (100, int(expected.sum()))
    places = np.random.default_rng(1).integers(0, 10_000, (7, 40))
    assert (both.loss_mask.at(places) == expected[places]).all()
    assert (np.concatenate(list(both.loss_mask.blocks(4990, 5020))) == expected[4990:5020]).all()
    trains = both.loss_mask.cut(np.array([4990, -1, 7, 9999]), np.array([30, 5, 0, 1]))
    assert trains(0, 4).tolist() == [*expected[4990:5020].tolist(), *[False] * 5, bool(expected[9999])]
    tr.convert(tmp_path / "a.h5", tmp_path / "native", format="native")
    there = open_corpus(tmp_path / "native").loss_mask
    assert there is not None
    assert (there.at(np.arange(5000)) == expected[:5000]).all()
    with pytest.raises(tr.LimitError, match="mask"):
        tr.convert(tmp_path / "a.h5", tmp_path / "out", format="megatron")
    one, other = open_corpus(tmp_path / "a.h5"), open_corpus(tmp_path / "b.h5")
    assert one.fingerprint != other.fingerprint
    loader = tr.Loader(other, seq_len=100, global_batch=5, order="hdf5-sft", steps=10)
    loader = pickle.loads(pickle.dumps(loader))
    assert sum(batch.num_targets for batch in loader) == int(mask[:, 1:].sum())
    made("b.h5", None)
    with pytest.raises(FormatError, match=r"b\.h5: loss_mask: got none, expected int8 weights"):
        open_corpus(tmp_path)
    wrong = open_corpus(made("c.h5", mask * 2)).loss_mask
    assert wrong is not None
    with pytest.raises(FormatError, match=r"c\.h5: loss_mask: got a weight of 2, expected 0 or 1"):
        wrong.count()


def _read_in_child(reader: Reader, ids: list[int]) -> None:
    os._exit(0 if _windows(reader, list(range(0, 4900, 7)), 100) == ids else 1)


@pytest.mark.parametrize("how", [{"chunks": (512,)}, {"chunks": (512,), "compression": "gzip"}])
def test_a_reader_that_has_read_works_in_forks_and_their_forks(tmp_path: Path, how: dict[str, object]) -> None:
    reader = hdf5.open_reader(_made(tmp_path / "a.h5", IDS, how))
    expected = _windows(reader, list(range(0, 4900, 7)), 100)
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=_read_in_child, args=(reader, expected)) for _ in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * 4


# ---------------------------------------------------------------------------------------------- folders


def test_a_folder_is_read_by_name_and_an_index_in_its_order(tmp_path: Path) -> None:
    for name, part in (("b", IDS[:100]), ("a", IDS[100:150])):
        _made(tmp_path / f"{name}.h5", part.astype("<u2"), {})
    assert [shard.path.name for shard in hdf5.find(tmp_path)] == ["a.h5", "b.h5"]
    (tmp_path / "shards.json").write_text(
        json.dumps([{"path": f"{n}.h5", "token_count": k} for n, k in (("b", 100), ("a", 50))])
    )
    for path in (tmp_path, tmp_path / "shards.json"):
        assert hdf5.sniff(path)
        assert [(shard.path.name, shard.dtype, shard.num_tokens) for shard in hdf5.find(path)] == [
            ("b.h5", "uint16", 100),
            ("a.h5", "uint16", 50),
        ]


def test_the_other_suffix_is_known(tmp_path: Path) -> None:
    _made(tmp_path / "a.hdf5", IDS, {})
    assert hdf5.sniff(tmp_path)
    assert hdf5.sniff(tmp_path / "a.hdf5")
    assert [shard.path.name for shard in hdf5.find(tmp_path)] == ["a.hdf5"]


def test_what_is_no_hdf5_is_not_sniffed(tmp_path: Path) -> None:
    (tmp_path / "a.h5").write_bytes(b"\x89HDF\r\n\x1a?")
    (tmp_path / "shards.json").write_text("[]")
    for path in (tmp_path / "a.h5", tmp_path, tmp_path / "shards.json", tmp_path / "none.h5"):
        assert not hdf5.sniff(path)


# ---------------------------------------------------------------------------------------------- writing


@pytest.mark.parametrize(("layout", "dtype"), LAYOUTS)
def test_each_layout_is_read_back_by_us_and_by_h5py(tmp_path: Path, layout: str, dtype: str) -> None:
    parts = [IDS] if layout == "pile" else [IDS, IDS[:1], np.tile(IDS, 4)]
    written = write_shards(hdf5, tmp_path, [made_content(part, None, dtype) for part in parts], dtype, layout=layout)
    found = hdf5.find(tmp_path)
    assert [shard.path for shard in found] == [file.path for file in written]
    for shard, file, part in zip(found, written, parts, strict=True):
        assert _ids(shard.path) == part.tolist()
        data = file.path.read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (file.num_bytes, file.sha256)
        with h5py.File(shard.path) as opened:
            tokens = opened["tokens"]
            assert (tokens.dtype, tokens.maxshape) == (np.dtype(dtype), (None,))
            assert tokens[:].tolist() == part.tolist()
            place = {"pile": None, "lesson-list": opened}.get(layout, tokens)
            assert place is None or place.attrs["token_count"] == len(part)
            counted = {"pile": {}, "lesson-list": {"doc_count": 1}}.get(layout, {"document_count": 1})
            assert counted.items() <= dict(place.attrs if place is not None else {}).items()
    stated = [hdf5.stored_sha256(file.path) for file in written]
    assert stated == [hdf5.sha256_of_ids(file.path) if layout in ("", "lesson") else None for file in written]
    assert list(hdf5.audit(tmp_path)) == []


def test_the_lesson_has_its_index(tmp_path: Path) -> None:
    contents = [made_content(IDS[:300], [7, 100, 300]), made_content(IDS[300:305])]
    write_shards(hdf5, tmp_path, contents, layout="lesson")
    text = (tmp_path / "shards.json").read_text()
    rows = [
        {
            "document_count": documents,
            "global_start": start,
            "path": f"shard-000{number}.h5",
            "sha256": hashlib.sha256(ids.astype("<u2").tobytes()).hexdigest(),
            "shard_id": f"shard-000{number}",
            "token_count": len(ids),
        }
        for number, (documents, start, ids) in enumerate([(3, 0, IDS[:300]), (1, 300, IDS[300:305])])
    ]
    expected = {"chunk_size": 8192, "shards": rows, "total_tokens": 305, "version": 1}
    assert text == json.dumps(expected, indent=2)


def test_the_list_that_the_lessons_text_describes(tmp_path: Path) -> None:
    write_shards(hdf5, tmp_path, [made_content(IDS[:9], None, "int32")], "int32", layout="lesson-list")
    assert json.loads((tmp_path / "shards.json").read_text()) == [{"path": "shard-0000.h5", "token_count": 9}]


@pytest.mark.parametrize(("layout", "dtype"), LAYOUTS)
@settings(max_examples=3)
@given(block=st.sampled_from([1, 7, 999, 8192, 20000]))
def test_blocks_do_not_show_in_the_bytes(
    tmp_path_factory: pytest.TempPathFactory, layout: str, dtype: str, block: int
) -> None:
    ids = IDS[: 900 if block == 1 else 5000]
    folder = tmp_path_factory.mktemp("w")
    target = made_target(dtype, layout=layout)
    files = [
        hdf5.write(folder / f"{number}.h5", made_content(ids, None, dtype, block=size), target)[0]
        for number, size in enumerate([block, 100_000])
    ]
    assert files[0].sha256 == files[1].sha256


def test_chunks_fit_the_shard() -> None:
    style = hdf5.STYLES[""]
    most = _hdf5_write.MOST_IN_CHUNK
    for count in (1, 5, most - 1, most, most + 1, 10 * most + 3):
        chunk = _hdf5_write.chunk_of(style, count)
        waste = -(-count // chunk) * chunk - count
        assert 0 < chunk <= most
        assert waste <= count // most


def test_appending_in_any_steps_costs_the_same(tmp_path: Path) -> None:
    """A dataset that begins tiny gets no tiny chunks, and no file over 1.05 times its ids."""
    ids = np.arange(200_000)
    for step in (1000, 100_000):
        content = made_content(ids, None, "uint32", block=step)
        (file,) = hdf5.write(tmp_path / "a.h5", content, made_target("uint32"))
        assert file.num_bytes <= 1.05 * 4 * len(ids)
        with h5py.File(file.path) as opened:
            assert opened["tokens"].chunks[0] >= 4096


def test_what_a_layout_cannot_hold_is_refused() -> None:
    content = made_content([1])
    for layout, dtype, shards, expected in (
        ("pile", "uint16", 1, "dtype: got uint16, expected int32"),
        ("lesson", "uint32", 1, "dtype: got uint32, expected uint16"),
        ("pile", "int32", 2, "shards: got 2 of train, expected 1; leave shard_tokens out"),
    ):
        with pytest.raises(LimitError, match=expected):
            hdf5.check(made_target(dtype, shards=shards, layout=layout), [content] * shards)
    with pytest.raises(InputError, match="layout: got 'piles', expected one of pile, lesson, lesson-list or none"):
        hdf5.check(made_target(layout="piles"), [content])


@pytest.mark.parametrize("layout", ["", "lesson"])
def test_an_audit_reads_what_opening_does_not(tmp_path: Path, layout: str) -> None:
    contents = [made_content(IDS[:300]), made_content(IDS[300:900])]
    first, second = (file.path for file in write_shards(hdf5, tmp_path, contents, layout=layout))
    data = second.read_bytes()
    at = data.index(IDS[300:900].astype("<u2").tobytes())
    second.write_bytes(data[:at] + b"\xff" + data[at + 1 :])
    changed = IDS[300:900].astype("<u2").tobytes()
    found = hashlib.sha256(b"\xff" + changed[1:]).hexdigest()
    expected = hashlib.sha256(changed).hexdigest()
    text = f"{second}: sha256 of the ids: got {found}, expected {expected} by "
    places = ["its attribute", *(["shards.json"] if layout == "lesson" else [])]
    assert [str(error) for error in hdf5.audit(tmp_path)] == [text + place for place in places]
    first.write_bytes(first.read_bytes()[:-1])
    assert [str(error).partition(": ")[0] for error in hdf5.audit(tmp_path)] == [
        str(first),
        *[str(second)] * len(places),
    ]


def test_names() -> None:
    for layout, split, shards, expected in (
        ("", "train", 1, "tokens_train.h5"),
        ("", "val", 2, "tokens_val_000003.h5"),
        ("pile", "train", 1, "pile_train.h5"),
        ("pile", "val", 1, "pile_dev.h5"),
        ("lesson", "train", 9, "shard-0003.h5"),
    ):
        assert hdf5.file_name(made_target(split=split, shards=shards, layout=layout), 3) == expected


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "a.h5").write_bytes(b"before")
    content = made_content(IDS)

    def failing() -> Iterator[Ids]:
        yield from list(content.ids())[:2]
        raise LimitError("no more")

    broken = type(content)(content.num_tokens, 1, failing, content.ends, None)
    with pytest.raises(LimitError, match="no more"):
        hdf5.write(tmp_path / "a.h5", broken, made_target())
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a.h5": b"before"}
