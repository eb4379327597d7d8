"""A safetensors file that holds token ids: a tensor `input_ids`, `tokens` or `ids`, or the file's only tensor.

The file is 8 bytes of header length, a JSON header, and the tensors end to end. We read and write it ourselves, by the
rules of the safetensors package: the header is bounded and starts with `{`, no key comes twice, and the tensors tile
the rest of the file, without a hole, an overlap or a byte too many. Document bounds are a tensor of ours, `doc_ends`.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from math import prod
from pathlib import Path

from tokenriver import rules
from tokenriver.errors import FormatError, RiverError
from tokenriver.formats import _ends, _files, _json_index
from tokenriver.formats._mapping import DTYPES as ID_DTYPES
from tokenriver.formats._mapping import id_dtype, map_array, open_regular
from tokenriver.formats._reader import Documents, Flat, Opened, Reader
from tokenriver.storage import Content, ShardFile, Target, WrittenFile

SUFFIX = ".safetensors"
STORES = frozenset({"doc_ends", "dtype", "count"})
DTYPES = ("uint16", "uint32", "int32", "int64")
SHARD_TOKENS = None
MAX_SHARD_TOKENS = _files.UNLIMITED
SPLIT_FOLDERS = False

NAMES = ("input_ids", "tokens", "ids")
ENDS = "doc_ends"
MAX_HEADER_BYTES = 1 << 24
"""Upstream stops at 100 MB, which holds a million tensors; ids lie in one."""

_INTEGERS = {
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "U32": "uint32",
    "I32": "int32",
    "U64": "uint64",
    "I64": "int64",
}
_BITS = {
    **{name: 8 * ID_DTYPES[dtype].itemsize for name, dtype in _INTEGERS.items()},
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "BOOL": 8,
    "F8_E5M2FNUZ": 8,
    "F16": 16,
    "BF16": 16,
    "F32": 32,
    "F64": 64,
    "C64": 64,
}
_MAX_DIMENSIONS = 64  # a product of a million numbers takes for ever
_TENSOR = {
    "dtype": ("a dtype of safetensors", lambda value: isinstance(value, str) and value in _BITS),
    "shape": (f"a list of at most {_MAX_DIMENSIONS} counts", lambda v: _are_counts(v) and len(v) <= _MAX_DIMENSIONS),
    "data_offsets": ("two offsets", lambda value: _are_counts(value) and len(value) == 2),
}

check = _files.no_limits
finish = _files.nothing_more


@dataclass(frozen=True, slots=True)
class _Tensor:
    name: str
    dtype: str
    """As safetensors calls it: U16, F32."""
    shape: tuple[int, ...]
    start: int
    """Byte of the file."""
    stop: int


def sniff(path: Path) -> bool:
    """A `.safetensors` file, or a folder that begins with one, whose header is sound and names a tensor of ids."""
    return _files.any_by_name(path, SUFFIX, _holds_ids)


def find(path: Path) -> list[ShardFile]:
    """A file, or the `.safetensors` files of a folder by name."""
    return _files.find_by_name(path, SUFFIX, _holds_ids)


def _holds_ids(path: Path) -> bool:
    try:
        fd, size = open_regular(path)
    except RiverError:
        return False
    try:
        return _ids_of(path, _tensors(path, fd, size)) is not None
    except FormatError:
        return False
    finally:
        os.close(fd)


def open_reader(path: Path, *, dtype: str | None = None) -> Reader:
    """Open one file; FormatError with path, offset, value and expectation, also when `dtype` is not the tensor's.
    Rows of a 2-D tensor are documents where the file has no `doc_ends`."""
    fd, size = open_regular(path)
    try:
        tensors = _tensors(path, fd, size)
        ids = _ids_of(path, tensors)
        if ids is None:
            raise FormatError(
                f"{path}: tensors: got {_listing(tensors)}, expected integers of one or two dimensions called "
                f"{', '.join(NAMES)}, or no other tensor beside the ids"
            )
        kind = ID_DTYPES[_INTEGERS[ids.dtype]]
        if dtype is not None and id_dtype(dtype) != kind:
            raise FormatError(f"{path}: dtype of {ids.name}: got {kind.name}, expected {dtype}; leave dtype out")
        count = prod(ids.shape)
        if count == 0:
            raise FormatError(f"{path}: shape of {ids.name}: got {list(ids.shape)}, expected at least 1 id")
        body = Flat(fd, kind, ids.start, count)
    finally:
        os.close(fd)
    ends = next((tensor for tensor in tensors if tensor.name == ENDS and tensor is not ids), None)
    if ends is not None:
        _check_ends_tensor(path, ends)
    elif len(ids.shape) == 1:
        return Reader(Opened(open_reader, path, dtype), body)
    return Reader(Opened(open_reader, path, dtype), body, lambda: _documents(path, size, ids, ends))


def _check_ends_tensor(path: Path, ends: _Tensor) -> None:
    if ends.dtype != "I64" or len(ends.shape) != 1:
        got = f"{ends.dtype} {list(ends.shape)}"
        raise FormatError(f"{path}: {ENDS}: got {got}, expected I64 of one dimension")


def _documents(path: Path, size: int, ids: _Tensor, ends: _Tensor | None) -> Documents:
    count = prod(ids.shape)
    if ends is None:
        return _ends.of_rows(*ids.shape), None
    fd, now = open_regular(path)
    try:
        if now != size:
            raise FormatError(f"{path}: size: got {now} bytes, expected {size}; the file was replaced")
        found = map_array(fd, ID_DTYPES["int64"], ends.start, ends.shape[0])
    finally:
        os.close(fd)
    _ends.check(path, found, count)
    return found, None


def _tensors(path: Path, fd: int, size: int) -> list[_Tensor]:
    """All tensors in the order of their bytes, checked against each other and the file's size."""
    head = os.pread(fd, 8, 0)
    length = int.from_bytes(head, "little")
    if len(head) < 8 or size < 8 + length:
        raise FormatError(f"{path}: header length at byte 0: got {length}, expected at most {max(0, size - 8)}")
    if length > MAX_HEADER_BYTES:
        raise FormatError(f"{path}: header length at byte 0: got {length}, expected at most {MAX_HEADER_BYTES}")
    begin = 8 + length
    tensors = sorted(_parse(path, os.pread(fd, length, 8), begin), key=lambda tensor: (tensor.start, tensor.stop))
    at = begin
    for tensor in tensors:
        expected = _num_bytes(path, tensor)
        if tensor.start != at or tensor.stop != at + expected:
            got = f"[{tensor.start - begin}, {tensor.stop - begin}]"
            raise FormatError(
                f"{path}: data_offsets of {tensor.name[:100]!r}: got {got}, expected "
                f"[{at - begin}, {at - begin + expected}] by its shape and the tensors before it"
            )
        at = tensor.stop
    if at != size:
        raise FormatError(f"{path}: size: got {size} bytes, expected {at} by the header")
    return tensors


def _parse(path: Path, data: bytes, begin: int) -> Iterable[_Tensor]:
    if data[:1] != b"{":
        raise FormatError(f"{path}: header at byte 8: got {data[:1]!r}, expected {{; this is no safetensors file")
    header = _json_index.parse(path, data)
    assert isinstance(header, dict), "it starts with {"
    _check_metadata(path, header.pop("__metadata__", {}))
    for name, row in header.items():
        tensor = rules.check(path, repr(name)[:100], row, _TENSOR)
        start, stop = tensor["data_offsets"]
        yield _Tensor(name, tensor["dtype"], tuple(tensor["shape"]), begin + start, begin + stop)


def _check_metadata(path: Path, metadata: object) -> None:
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise FormatError(f"{path}: __metadata__: got {repr(metadata)[:100]}, expected an object of texts")


def _are_counts(value: object) -> bool:
    return isinstance(value, list) and all(type(item) is int and 0 <= item <= rules.MAX_COUNT for item in value)


def _num_bytes(path: Path, tensor: _Tensor) -> int:
    bits = prod(tensor.shape) * _BITS[tensor.dtype]
    if bits % 8:
        raise FormatError(
            f"{path}: shape of {tensor.name[:100]!r}: got {bits} bits of {tensor.dtype}, expected whole bytes"
        )
    return bits // 8


def _ids_of(path: Path, tensors: list[_Tensor]) -> _Tensor | None:
    """The tensor of ids: by its name, or because there is no other (a model's weights have many)."""
    fit = {t.name: t for t in tensors if t.dtype in _INTEGERS and len(t.shape) in (1, 2)}
    named = next((fit[name] for name in NAMES if name in fit), None)
    others = [tensor for tensor in tensors if tensor.name != ENDS]
    return named or (others[0] if len(others) == 1 and others[0].name in fit else None)


def _listing(tensors: list[_Tensor]) -> str:
    return ", ".join(f"{t.name[:40]} {t.dtype} {list(t.shape)}"[:80] for t in tensors[:10]) or "none"


def header(content: Content, dtype: str) -> bytes:
    """What lies before the tensors: as the safetensors package writes it, the wider dtype first, padded to 8 bytes."""
    code = next(code for code, name in _INTEGERS.items() if name == dtype)
    ends, ids = 8 * content.num_documents, ID_DTYPES[dtype].itemsize * content.num_tokens
    text = json.dumps(
        {
            ENDS: {"dtype": "I64", "shape": [content.num_documents], "data_offsets": [0, ends]},
            NAMES[0]: {"dtype": code, "shape": [content.num_tokens], "data_offsets": [ends, ends + ids]},
        },
        separators=(",", ":"),
    ).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def file_name(target: Target, number: int) -> str:
    return _files.named(target, number, SUFFIX)


def write(path: Path, content: Content, target: Target) -> list[WrittenFile]:
    """The header, `doc_ends` (int64), then `input_ids`, all aligned."""
    ends = (block.astype("<i8", copy=False) for block in content.ends())
    return [_files.write_file(path, chain([header(content, target.dtype)], ends, content.ids()))]
