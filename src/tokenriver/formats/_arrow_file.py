"""An Arrow IPC file or stream, mapped: the column of ids of its batches, all in order or one. Needs pyarrow.

A batch that is not compressed is a view of the map. Readers are made anew for each call, so that none is shared by
threads or lives on in a fork.
"""

import mmap
from collections.abc import Iterator

import pyarrow as pa

from tokenriver.formats._arrow_messages import batch_places, check_message

Key = tuple[int, int]
"""Where a batch is: (first byte, last byte + 1) of its messages in a stream, (number, 0) in a file."""

_END = b"\xff\xff\xff\xff\0\0\0\0"


class ArrowFile:
    """An open file of `size` bytes. What pyarrow raises is for the caller to name."""

    def __init__(self, fd: int, size: int) -> None:
        self._size = size
        self._buffer = pa.py_buffer(mmap.mmap(fd, size, access=mmap.ACCESS_READ))
        self._is_file = self._bytes(0, 6) == b"ARROW1"
        self.schema: pa.Schema = self._reader(None).schema

    def _bytes(self, start: int, stop: int) -> bytes:
        return bytes(memoryview(self._buffer)[start:stop])

    def _reader(self, column: int | None) -> pa.RecordBatchReader | pa.RecordBatchFileReader:
        fields = None if column is None else [column]
        options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        return (pa.ipc.open_file if self._is_file else pa.ipc.open_stream)(
            pa.BufferReader(self._buffer), options=options
        )

    def place(self, buffer: pa.Buffer) -> int | None:
        """The byte of the file at which a buffer begins; None if it lies elsewhere, decompressed."""
        at: int = buffer.address - self._buffer.address
        return at if at >= 0 and at + buffer.size <= self._size else None

    def check(self) -> None:
        """Look at what all messages claim, before a batch is read; ValueError."""
        source = pa.BufferReader(self._buffer)
        if self._is_file:
            for place in batch_places(memoryview(self._buffer)):
                source.seek(place)
                check_message(pa.ipc.read_message(source))
            return
        while (message := _next_message(source)) is not None:
            check_message(message)

    def columns(self, column: int) -> Iterator[tuple[Key, pa.Array]]:
        """The column of each batch, in order."""
        return self._file_columns(column) if self._is_file else self._stream_columns(column)

    def load(self, column: int, key: Key) -> pa.Array:
        """The column of one batch, by its key."""
        if self._is_file:
            return self._reader(column).get_batch(key[0]).column(0)
        data = self._preamble(key) + self._bytes(*key) + _END
        options = pa.ipc.IpcReadOptions(included_fields=[column], use_threads=False)
        return pa.ipc.open_stream(pa.BufferReader(data), options=options).read_next_batch().column(0)

    def _file_columns(self, column: int) -> Iterator[tuple[Key, pa.Array]]:
        # a reader of one column copies what it reads, one of all columns decompresses them all
        reader, at = self._reader(None), column
        if reader.num_record_batches and not self._is_view(reader.get_batch(0).column(column)):
            reader, at = self._reader(column), 0
        for number in range(reader.num_record_batches):
            yield (number, 0), reader.get_batch(number).column(at)

    def _is_view(self, array: pa.Array) -> bool:
        return all(buffer is None or self.place(buffer) is not None for buffer in array.buffers())

    def _stream_columns(self, column: int) -> Iterator[tuple[Key, pa.Array]]:
        source = pa.BufferReader(self._buffer)
        options = pa.ipc.IpcReadOptions(included_fields=[column], use_threads=False)
        reader = pa.ipc.open_stream(source, options=options)
        while True:
            begin = source.tell()
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                break
            yield (begin, source.tell()), batch.column(0)
        # a stream that was cut between two messages looks like a shorter one, but for its end mark
        if self._bytes(source.tell() - len(_END), source.tell()) != _END:
            raise ValueError(f"no end mark at byte {source.tell()} of a stream: truncated")
        if source.tell() != self._size:
            raise ValueError(f"{self._size} bytes of a stream that ends at byte {source.tell()}")

    def _preamble(self, key: Key) -> bytes:
        """The schema, and the dictionaries of other columns that must come before any batch but the first."""
        source = pa.BufferReader(self._buffer)
        pa.ipc.open_stream(source)
        begin = stop = source.tell()
        while begin < key[0] and pa.ipc.read_message(source).type == "dictionary":
            stop = source.tell()
        return self._bytes(0, stop)


def _next_message(source: pa.BufferReader) -> pa.Message | None:
    try:
        return pa.ipc.read_message(source)
    except EOFError:
        return None
