"""litdata chunks: bytes as litdata has them, the index as the only place that knows the dtype."""

import json
import os
import pickle
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_contents import made_content, made_target, write_shards
from open_shards import all_ends, all_ids
from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.formats import litdata

CONFIG = {"compression": None, "data_format": ["no_header_numpy:5"], "encryption": None, "something_new": [1]}


def _chunk(docs: Sequence[Sequence[int]], letter: str = "H") -> bytes:
    bodies = [struct.pack(f"<{len(doc)}{letter}", *doc) for doc in docs]
    begin = 4 * (len(docs) + 2)
    offsets = [begin + sum(map(len, bodies[:i])) for i in range(len(docs) + 1)]
    return struct.pack(f"<{len(docs) + 2}I", len(docs), *offsets) + b"".join(bodies)


def _folder(folder: Path, chunks: Sequence[Sequence[Sequence[int]]], **config: object) -> list[dict[str, Any]]:
    rows = []
    for number, docs in enumerate(chunks):
        data = _chunk(docs)
        (folder / f"chunk-0-{number}.bin").write_bytes(data)
        name = f"chunk-0-{number}.bin"
        rows.append({"chunk_bytes": len(data), "chunk_size": len(docs), "dim": sum(map(len, docs)), "filename": name})
    _index(folder, rows, **config)
    return rows


def _index(folder: Path, rows: Sequence[dict[str, Any]], **config: object) -> None:
    content = {"chunks": list(rows), "config": {**CONFIG, **config}, "updated_at": "1.5"}
    (folder / "index.json").write_text(json.dumps(content, sort_keys=True))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    lengths=st.lists(st.integers(0, 300), min_size=1, max_size=20).filter(any),
    block=st.sampled_from([1, 100, 10**6]),
)
def test_a_chunk_is_what_a_naive_writer_makes(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], block: int
) -> None:
    folder = tmp_path_factory.mktemp("litdata")
    ids, ends = list(range(sum(lengths))), np.cumsum(lengths).tolist()
    (written,) = write_shards(litdata, folder, [made_content(ids, ends, block=block)])
    docs = [ids[end - length : end] for end, length in zip(ends, lengths, strict=True)]
    assert written.path.read_bytes() == _chunk(docs)
    reader = litdata.open_reader(written.path)
    assert (all_ids(reader), all_ends(reader), reader.dtype) == (ids, ends, np.dtype("uint16"))


def test_the_index_is_litdatas(tmp_path: Path) -> None:
    contents = [made_content([1, 2, 3], [1, 3], "int32"), made_content([4], [1], "int32")]
    write_shards(litdata, tmp_path, contents, "int32", layout="tensor")
    spec = '[1, {\\"type\\": null, \\"context\\": null, \\"children_spec\\": []}]'
    assert (tmp_path / "index.json").read_text() == (
        '{"chunks": [{"chunk_bytes": 28, "chunk_size": 2, "dim": 3, "filename": "chunk-0-0.bin"}, '
        '{"chunk_bytes": 16, "chunk_size": 1, "dim": 1, "filename": "chunk-0-1.bin"}], '
        '"config": {"chunk_bytes": null, "chunk_size": 3, "compression": null, "compression_batch_size": null, '
        '"compression_level": null, "data_format": ["no_header_tensor:16"], '
        f'"data_spec": "{spec}", "encryption": null, "ipc_compression": null, '
        '"item_loader": "TokensLoader", "types": "tensor"}, "updated_at": "0.0"}'
    )


@pytest.mark.parametrize(
    ("layout", "dtype", "code"),
    [
        ("", "uint16", "numpy:5"),
        ("", "uint32", "numpy:6"),
        ("", "int32", "numpy:2"),
        ("", "int64", "numpy:3"),
        ("tensor", "uint16", "tensor:20"),
        ("tensor", "int32", "tensor:16"),
        ("tensor", "int64", "tensor:18"),
    ],
)
def test_every_dtype_has_its_code(tmp_path: Path, layout: str, dtype: str, code: str) -> None:
    (written,) = write_shards(litdata, tmp_path, [made_content([1, 65535], None, dtype)], dtype, layout=layout)
    assert f'"no_header_{code}"' in (tmp_path / "index.json").read_text()
    (found,) = litdata.find(tmp_path)
    assert (found.path, found.dtype, found.num_tokens, found.num_documents) == (written.path, dtype, 2, 1)
    assert all_ids(litdata.open_reader(written.path)) == [1, 65535]


@pytest.mark.parametrize("code", [*litdata.NUMPY, *litdata.TENSOR])
def test_every_code_is_read(tmp_path: Path, code: int) -> None:
    table = litdata.NUMPY | litdata.TENSOR
    dtype = np.dtype(table[code])
    data = _chunk([[1, 2], [3]], {"l": "q", "L": "Q"}.get(dtype.char, dtype.char))
    (tmp_path / "chunk-0-0.bin").write_bytes(data)
    kind = f"no_header_{'numpy' if code in litdata.NUMPY else 'tensor'}:{code}"
    row = {"chunk_bytes": len(data), "chunk_size": 2, "dim": 3, "filename": "chunk-0-0.bin"}
    _index(tmp_path, [row], data_format=[kind])
    reader = litdata.open_reader(litdata.find(tmp_path)[0].path)
    assert (all_ids(reader), reader.dtype, all_ends(reader)) == ([1, 2, 3], dtype, [2, 3])


def test_what_it_cannot_hold_is_refused_with_the_number_and_the_cure() -> None:
    content = made_content([1])
    with pytest.raises(LimitError, match=r"dtype: got uint32, expected what torch's tensors have here.*write int32"):
        litdata.check(made_target("uint32", layout="tensor"), [content])
    with pytest.raises(InputError, match="layout: got 'x', expected one of '', 'tensor'"):
        litdata.check(made_target(layout="x"), [content])
    object.__setattr__(content, "num_tokens", 2**31)
    with pytest.raises(LimitError, match="got 4294967308 bytes, expected at most 4294967295; cut shards of fewer"):
        litdata.check(made_target(), [content])


# ---------------------------------------------------------------------------------------------- reading


def test_chunks_are_in_the_order_of_the_index(tmp_path: Path) -> None:
    rows = _folder(tmp_path, [[[1]], [[2, 3], []], []])
    assert [found.num_tokens for found in litdata.find(tmp_path)] == [1, 2]
    _index(tmp_path, rows[::-1])
    assert [all_ids(litdata.open_reader(found.path)) for found in litdata.find(tmp_path)] == [[2, 3], [1]]


def test_a_chunk_alone_needs_a_dtype(tmp_path: Path) -> None:
    path = tmp_path / "chunk.bin"
    path.write_bytes(_chunk([[1, 2]]))
    with pytest.raises(FormatError, match=r"got no index\.json beside it, expected one with the dtype; say it with"):
        litdata.open_reader(path)
    reader = pickle.loads(pickle.dumps(litdata.open_reader(path, dtype="uint16")))
    assert all_ids(reader) == [1, 2]


def test_another_dtype_than_the_indexs_is_refused(tmp_path: Path) -> None:
    _folder(tmp_path, [[[1, 2]]])
    with pytest.raises(FormatError, match=r"dtype: got uint16 by index\.json, expected uint32; leave dtype out"):
        litdata.open_reader(tmp_path / "chunk-0-0.bin", dtype="uint32")
    with pytest.raises(InputError, match="dtype: got 'x'"):
        litdata.open_reader(tmp_path / "chunk-0-0.bin", dtype="x")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"compression": "zstd"}, "got compression 'zstd' and encryption 'None', expected neither"),
        ({"encryption": {"algorithm": "fernet"}}, "and encryption \"{'algorithm': 'fernet'}\", expected neither"),
        ({"data_format": ["pickle"]}, "config.data_format: got ['pickle'], expected one no_header_numpy"),
        ({"data_format": ["no_header_numpy:9"]}, "config.data_format: got ['no_header_numpy:9']"),
        ({"data_format": ["no_header_tensor:1"]}, "config.data_format: got ['no_header_tensor:1']"),
        ({"data_format": ["no_header_numpy:5", "int"]}, "config.data_format: got ['no_header_numpy:5', 'int']"),
        ({"data_format": [["x"]]}, "config.data_format: got"),
        ({"data_format": 5}, "config.data_format: got 5, expected a list"),
    ],
)
def test_what_are_no_plain_ids_is_refused(tmp_path: Path, config: dict[str, object], words: str) -> None:
    _folder(tmp_path, [[[1]]], **config)
    with pytest.raises(FormatError) as caught:
        litdata.find(tmp_path)
    assert words in str(caught.value)
    if "compression" not in config and "encryption" not in config:
        assert not litdata.sniff(tmp_path)
        with pytest.raises(FormatError) as caught:
            litdata.open_reader(tmp_path / "chunk-0-0.bin", dtype="uint16")
        assert words in str(caught.value)


def test_a_set_for_another_loader_is_refused(tmp_path: Path) -> None:
    (row,) = _folder(tmp_path, [[[1]]])
    _index(tmp_path, [{**row, "dim": None}])
    with pytest.raises(FormatError, match=r"chunks\[0\]\.dim: got null.*not written for TokensLoader"):
        litdata.find(tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dim": 4}, "chunks[0].chunk_bytes: got 16, expected 20 for 1 items and 4 uint16 ids"),
        ({"chunk_size": 2}, "expected 20 for 2 items"),
        ({"chunk_size": -1}, "chunk_size: got -1"),
        ({"dim": True}, "dim: got True"),
        ({"dim": 2**40}, "dim: got 1099511627776"),
        ({"filename": "../x"}, "filename: got '../x', expected a relative path"),
        ({"filename": "/x"}, "filename: got '/x'"),
        ({"filename": "none.bin"}, "got no file 'none.bin' beside it, expected one of 16 bytes"),
    ],
)
def test_the_index_is_held_to_the_files(tmp_path: Path, change: dict[str, object], words: str) -> None:
    (row,) = _folder(tmp_path, [[[1, 2]]])
    _index(tmp_path, [{**row, **change}])
    with pytest.raises(FormatError) as caught:
        litdata.find(tmp_path)
    assert words in str(caught.value)


def test_the_table_is_held_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "chunk-0-0.bin"
    _folder(tmp_path, [[[1, 2], [3]]])
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(FormatError):
            litdata.open_reader(path)
        with pytest.raises(FormatError):
            litdata.find(tmp_path)
    path.write_bytes(data + b"\0")
    with pytest.raises(FormatError, match=r"offsets at byte 4 and 12: got 16 and 22, expected 16 and 23"):
        litdata.open_reader(path)
    for at, value, words in (
        (0, 2**32 - 1, "items at byte 0: got 4294967295, expected what 22 bytes hold"),
        (4, 12, "offsets at byte 4 and 12: got 12 and 22"),
    ):
        path.write_bytes(data[:at] + struct.pack("<I", value) + data[at + 4 :])
        with pytest.raises(FormatError, match=words):
            litdata.open_reader(path)
    for value, words in (
        (19, "offset 1 at byte 8: got 19, expected 16 and a multiple of 2"),
        (24, "end of document 1"),
    ):
        path.write_bytes(data[:8] + struct.pack("<I", value) + data[12:])
        reader = litdata.open_reader(path)
        assert all_ids(reader) == [1, 2, 3]
        with pytest.raises(FormatError, match=words):
            all_ends(reader)


def test_ids_that_do_not_divide_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "chunk.bin"
    path.write_bytes(struct.pack("<3I", 1, 12, 15) + b"abc")
    with pytest.raises(FormatError, match="size: got 3 bytes of ids, expected a multiple of 2"):
        litdata.open_reader(path, dtype="uint16")


def test_a_chunk_without_ids_opens(tmp_path: Path) -> None:
    _folder(tmp_path, [[[], []]])
    reader = litdata.open_reader(litdata.find(tmp_path)[0].path)
    assert (reader.num_tokens, all_ends(reader)) == (0, [0, 0])


def test_sniffing_never_fails(tmp_path: Path) -> None:
    assert not litdata.sniff(tmp_path)
    assert not litdata.sniff(tmp_path / "absent.bin")
    (tmp_path / "index.json").write_text('{"shards": [], "data_format": ["no_header_numpy:5"]}')
    assert not litdata.sniff(tmp_path)
    _folder(tmp_path, [[[1]]])
    assert litdata.sniff(tmp_path)
    assert litdata.sniff(tmp_path / "chunk-0-0.bin")
    for data in (b"", b"\xff" * 7, b"\xff" * 16):
        (tmp_path / "x.bin").write_bytes(data)
        assert not litdata.sniff(tmp_path / "x.bin")
    os.mkfifo(tmp_path / "pipe.bin")
    assert not litdata.sniff(tmp_path / "pipe.bin")
    assert not litdata.sniff(tmp_path / "index.json")
    index = json.loads((tmp_path / "index.json").read_text())
    index["more"] = {"data_format": ["no_header_numpy:6"]}
    (tmp_path / "index.json").write_text(json.dumps(index))
    assert not litdata.sniff(tmp_path)


def test_a_text_that_looks_like_the_dtype_is_not_it(tmp_path: Path) -> None:
    _folder(tmp_path, [[[1]]], data_spec='"data_format": ["no_header_numpy:6"]')
    assert litdata.open_reader(tmp_path / "chunk-0-0.bin").dtype == np.dtype("uint16")
