"""Thrift's compact protocol, in which the footer of a Parquet file is written: structs of numbered fields, all integers
as varints. Every count is checked against the bytes that are left before anything is made of it.
"""

MAX_DEPTH = 16
Struct = dict[int, object]
"""Fields by number: an int, a bool, bytes (of doubles, too), a list, or another struct; None for a map."""

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = 1, 2, 3, 7, 8, 9, 10, 11, 12, 13
_SIZES = {_TRUE: 1, _FALSE: 1, _BYTE: 1, _DOUBLE: 8, _UUID: 16}


def read_struct(data: bytes) -> Struct:
    """The struct at the start of data; ValueError or IndexError where it is damaged."""
    return _Thrift(data).struct(0)


class _Thrift:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError(f"a number of more than 64 bits at its byte {self._at}")

    def _integer(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _take(self, count: int) -> bytes:
        if count > len(self._data) - self._at:
            raise ValueError(f"{count} bytes at its byte {self._at}, which has {len(self._data) - self._at}")
        self._at += count
        return self._data[self._at - count : self._at]

    def struct(self, depth: int) -> Struct:
        fields: Struct = {}
        number = 0
        while True:
            head = self._data[self._at]
            self._at += 1
            if head == 0:
                return fields
            number = number + (head >> 4) if head >> 4 else self._integer()
            kind = head & 15
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)

    def _value(self, kind: int, depth: int) -> object:
        if _BYTE < kind < _DOUBLE:
            return self._integer()
        if kind == _BINARY:
            return self._take(self._varint())
        if depth > MAX_DEPTH:
            raise ValueError(f"structs deeper than {MAX_DEPTH}")
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in (_LIST, _SET):
            return self._list(depth + 1)
        if kind == _MAP:
            self._pass_map(depth + 1)
            return None
        if kind not in _SIZES:
            raise ValueError(f"type {kind} at its byte {self._at}")
        return self._take(_SIZES[kind])

    def _list(self, depth: int) -> list[object]:
        head = self._take(1)[0]
        count = head >> 4 if head >> 4 < 15 else self._varint()
        self._check_count(count)
        return [self._value(head & 15, depth) for _ in range(count)]

    def _pass_map(self, depth: int) -> None:
        count = self._varint()
        self._check_count(count)
        kinds = self._take(1)[0] if count else 0
        for _ in range(count):
            self._value(kinds >> 4, depth)
            self._value(kinds & 15, depth)

    def _check_count(self, count: int) -> None:
        if count > len(self._data) - self._at:  # each takes a byte at least
            raise ValueError(f"{count} entries at its byte {self._at}, which has {len(self._data) - self._at} bytes")
