"""safetensors files of ids: by their names or alone, with bounds or without, and headers that lie."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from made_contents import made_content, made_target, write_shards
from tokenriver.errors import FormatError
from tokenriver.formats import safetensors

# the bytes that safetensors 0.8 writes for doc_ends (int64) [2, 2, 3] and input_ids (uint16) [7, 8, 65535]
SAVED = (
    b"\x80\0\0\0\0\0\0\0"
    b'{"doc_ends":{"dtype":"I64","shape":[3],"data_offsets":[0,24]},'
    b'"input_ids":{"dtype":"U16","shape":[3],"data_offsets":[24,30]}}   '
    b"\x02\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x07\0\x08\0\xff\xff"
)


def stored(header: object, data: bytes = b"", *, text: bytes | None = None) -> bytes:
    """A file with this header, in one line."""
    text = json.dumps(header).encode() if text is None else text
    return struct.pack("<Q", len(text)) + text + data


def tensor(dtype: str, shape: list[int], start: int, stop: int) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


def put(folder: Path, data: bytes) -> Path:
    path = folder / "a.safetensors"
    path.write_bytes(data)
    return path


def test_written_is_what_the_package_writes(tmp_path: Path) -> None:
    [written] = write_shards(safetensors, tmp_path, [made_content([7, 8, 65535], [2, 2, 3])])
    assert written.path.name == "tokens_train.safetensors"
    assert written.path.read_bytes() == SAVED


def test_what_the_package_wrote_is_read(tmp_path: Path) -> None:
    path = put(tmp_path, SAVED)
    reader = safetensors.open_reader(path)
    assert safetensors.sniff(path)
    assert safetensors.sniff(tmp_path)
    assert (reader.num_tokens, reader.dtype, reader.origins) == (3, np.dtype("uint16"), None)
    assert reader.ids is not None
    assert reader.ids.tolist() == [7, 8, 65535]
    assert reader.doc_ends is not None
    assert reader.doc_ends.tolist() == [2, 2, 3]


@pytest.mark.parametrize("name", ["input_ids", "tokens", "ids", "anything"])
@pytest.mark.parametrize(("code", "dtype"), [("U8", "uint8"), ("I16", "int16"), ("I32", "int32"), ("U64", "uint64")])
def test_a_tensor_alone_needs_no_name(tmp_path: Path, name: str, code: str, dtype: str) -> None:
    data = np.array([1, 2, 3, 100], dtype).tobytes()
    reader = safetensors.open_reader(put(tmp_path, stored({name: tensor(code, [4], 0, len(data))}, data)))
    assert reader.read(0, 4).tolist() == [1, 2, 3, 100]
    assert (reader.dtype, reader.doc_ends) == (np.dtype(dtype), None)


def test_beside_others_the_name_decides(tmp_path: Path) -> None:
    header = {
        "__metadata__": {"made": "by hand"},
        "mask": tensor("BOOL", [3], 0, 3),
        "ids": tensor("U8", [3], 3, 6),
        "tokens": tensor("U8", [3], 6, 9),
        "weights": tensor("F4", [2], 9, 10),
    }
    path = put(tmp_path, stored(header, b"\0\1\0" + bytes([1, 2, 3, 4, 5, 6]) + b"\0"))
    assert safetensors.open_reader(path).read(0, 3).tolist() == [4, 5, 6]


def test_rows_are_documents(tmp_path: Path) -> None:
    path = put(tmp_path, stored({"input_ids": tensor("U8", [3, 2], 0, 6)}, bytes(range(6))))
    reader = safetensors.open_reader(path)
    assert reader.read(0, 6).tolist() == list(range(6))
    assert reader.doc_ends is not None
    assert reader.doc_ends.tolist() == [2, 4, 6]


def test_weights_of_a_model_are_no_ids(tmp_path: Path) -> None:
    header = {"w": tensor("F32", [2], 0, 8), "position_ids": tensor("I64", [1, 2], 8, 24)}
    path = put(tmp_path, stored(header, bytes(24)))
    assert not safetensors.sniff(path)
    with pytest.raises(
        FormatError, match=r"a.safetensors: tensors: got w F32 \[2\], position_ids I64 .*, expected int"
    ):
        safetensors.open_reader(path)


GOOD = {"ids": tensor("U16", [4], 0, 8)}
LIES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "header length at byte 0: got 0"),
    "a header longer than the file": (struct.pack("<Q", 100) + b"{}", "got 100, expected at most 2"),
    "a header of 2^63": (struct.pack("<Q", 2**63) + b"{}", "header length at byte 0: got 9223372036854775808"),
    "no brace": (stored(None, text=b" {}"), "header at byte 8: got b' '"),
    "a list": (stored(["ids"]), "header at byte 8"),
    "half": (stored(GOOD, text=b'{"ids":'), "got what is no JSON"),
    "deep": (stored(None, text=b'{"a":' + b"[" * 100_000), "got what is no JSON"),
    "a key twice": (
        stored(None, bytes(2), text=b'{"ids":{"dtype":"U8","dtype":"U8","shape":[2],"data_offsets":[0,2]}}'),
        "'dtype' appears twice",
    ),
    "NaN": (stored(None, text=b'{"ids":NaN}'), "NaN"),
    "metadata that is no text": (stored({"__metadata__": {"a": 1}, **GOOD}, bytes(8)), "__metadata__: got {'a': 1}"),
    "an unknown dtype": (stored({"ids": tensor("I128", [1], 0, 16)}, bytes(16)), "dtype: got 'I128'"),
    "an unknown key": (stored({"ids": {**GOOD["ids"], "x": 1}}, bytes(8)), "expected the keys data_offsets, dtype"),
    "a negative shape": (stored({"ids": tensor("U16", [-4], 0, 8)}, bytes(8)), "shape: got [-4]"),
    "a shape of floats": (stored({"ids": {**GOOD["ids"], "shape": [4.0]}}, bytes(8)), "shape: got [4.0]"),
    "a shape of too many": (stored({"ids": tensor("U16", [2**62] * 65, 0, 8)}, bytes(8)), "a list of at most 64"),
    "a product over 2^64": (
        stored({"ids": tensor("U16", [2**62, 8], 0, 8)}, bytes(8)),
        "got [0, 8], expected [0, 7378",
    ),
    "one offset": (stored({"ids": {**GOOD["ids"], "data_offsets": [8]}}, bytes(8)), "two offsets"),
    "a hole before": (stored({"ids": tensor("U16", [4], 2, 10)}, bytes(10)), "got [2, 10], expected [0, 8]"),
    "a hole between": (
        stored({"ids": tensor("U16", [4], 0, 8), "b": tensor("U8", [1], 9, 10)}, bytes(10)),
        "data_offsets of 'b': got [9, 10], expected [8, 9]",
    ),
    "an overlap": (
        stored({"ids": tensor("U16", [4], 0, 8), "b": tensor("U8", [4], 4, 8)}, bytes(8)),
        "data_offsets of 'b': got [4, 8], expected [8, 12]",
    ),
    "a size that is not the shape's": (stored({"ids": tensor("U32", [4], 0, 8)}, bytes(8)), "expected [0, 16]"),
    "half a byte": (stored({"ids": tensor("F4", [3], 0, 2)}, bytes(2)), "got 12 bits of F4, expected whole bytes"),
    "a byte too few": (stored(GOOD, bytes(7)), "bytes, expected"),
    "a byte too many": (stored(GOOD, bytes(9)), "bytes, expected"),
    "no ids": (stored({"ids": tensor("U16", [0], 0, 0)}), "shape of ids: got [0], expected at least 1 id"),
    "three dimensions": (stored({"ids": tensor("U16", [2, 1, 2], 0, 8)}, bytes(8)), "ids U16 [2, 1, 2], expected int"),
    "ends of another dtype": (
        stored({"doc_ends": tensor("I32", [1], 0, 4), "ids": tensor("U8", [2], 4, 6)}, b"\2\0\0\0\1\1"),
        "doc_ends: got I32 [1], expected I64",
    ),
}


@pytest.mark.parametrize("name", LIES)
def test_a_lying_file_is_refused(tmp_path: Path, name: str) -> None:
    data, words = LIES[name]
    path = put(tmp_path, data)
    assert not safetensors.sniff(path) or name in ("no ids", "ends of another dtype")
    with pytest.raises(FormatError) as caught:
        safetensors.open_reader(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ([3, 2, 4], "end of document 1: got 2, expected at least 3"),
        ([-1, 4], "end of document 0: got -1, expected at least 0"),
        ([1, 3], "end of the last document: got 3, expected 4"),
        ([1, 5], "end of the last document: got 5, expected 4"),
        ([2**63 - 1, -(2**63), 4], "end of document 1: got -9223372036854775808"),
        ([], "end of the last document: got 0, expected 4"),
    ],
)
def test_ends_are_checked_before_they_are_used(tmp_path: Path, ends: list[int], words: str) -> None:
    size = 8 * len(ends)
    header = {"doc_ends": tensor("I64", [len(ends)], 0, size), "ids": tensor("U8", [4], size, size + 4)}
    reader = safetensors.open_reader(put(tmp_path, stored(header, np.array(ends, "<i8").tobytes() + b"\1\2\3\4")))
    assert reader.read(0, 4).tolist() == [1, 2, 3, 4]
    with pytest.raises(FormatError, match=words):
        _ = reader.doc_ends


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    for size in range(len(SAVED)):
        with pytest.raises(FormatError):
            safetensors.open_reader(put(tmp_path, SAVED[:size]))


def test_a_dtype_that_is_not_the_tensors_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path, SAVED)
    assert safetensors.open_reader(path, dtype="uint16").num_tokens == 3
    with pytest.raises(FormatError, match="dtype of input_ids: got uint16, expected int32; leave dtype out"):
        safetensors.open_reader(path, dtype="int32")


@pytest.mark.parametrize("dtype", safetensors.DTYPES)
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_tensors_are_aligned(tmp_path: Path, dtype: str, count: int) -> None:
    content = made_content(list(range(count)), list(range(1, count + 1)), dtype)
    safetensors.write(tmp_path / "a.safetensors", content, made_target(dtype))
    data = (tmp_path / "a.safetensors").read_bytes()
    assert int.from_bytes(data[:8], "little") % 8 == 0
    assert safetensors.open_reader(tmp_path / "a.safetensors").read(0, count).tolist() == list(range(count))
