"""A shard as batches of rows, one row a document, for the writers of Parquet and Arrow. Needs pyarrow."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tokenriver import files
from tokenriver.errors import LimitError
from tokenriver.formats._taker import Taker
from tokenriver.storage import UNKNOWN, Content, Target
from tokenriver.types import Int64

DTYPES = ("uint16", "uint32", "int32", "int64")
SHARD_TOKENS = 1 << 25
MAX_ROW_IDS = 1 << 28
"""A row is written and read in one piece."""

_ROWS = 1 << 16


class _Sink:
    """What pyarrow needs to know of a file that it writes to."""

    closed = False

    def __init__(self, file: files.AtomicFile) -> None:
        self._file = file

    def write(self, data: files.Buffer) -> int:
        view = memoryview(data)
        self._file.write(view)
        return view.nbytes

    def tell(self) -> int:
        return self._file.num_bytes

    def flush(self) -> None:
        """The commit does."""

    def close(self) -> None:
        """The commit does."""


def sink(file: files.AtomicFile) -> pa.NativeFile:
    """A file of ours as pyarrow writes to it."""
    return pa.PythonFile(_Sink(file), "w")


def check(target: Target, shards: Sequence[Content]) -> None:
    """LimitError for a document that is too long for a row."""
    for number, content in enumerate(shards):
        if content.num_tokens <= MAX_ROW_IDS:
            continue
        before = 0
        for ends in content.ends():
            longest = int(np.diff(ends, prepend=before).max(initial=0))
            if longest > MAX_ROW_IDS:
                raise LimitError(
                    f"{target.split} shard {number}: got a document of {longest} ids, expected at most {MAX_ROW_IDS} "
                    f"in one row; cut shards of that many ids (--shard-tokens {MAX_ROW_IDS})"
                )
            before = int(ends[-1]) if len(ends) else before


def schema(target: Target, content: Content) -> pa.Schema:
    """input_ids, and where the documents come from if that is known: source (a path) and record (its row there)."""
    fields = [pa.field("input_ids", pa.list_(pa.field("item", _value_type(target.dtype))))]
    if content.origins is not None:
        fields += [pa.field("source", pa.string()), pa.field("record", pa.int64())]
    return pa.schema(fields)


def _value_type(dtype: str) -> pa.DataType:
    return pa.from_numpy_dtype(np.dtype(dtype))


def batches(content: Content, target: Target, num_ids: int) -> Iterator[pa.RecordBatch]:
    """Batches of rows with at most num_ids ids, in order; a longer document has a batch of its own."""
    kind = schema(target, content)
    ids = Taker((block,) for block in content.ids())
    origins = Taker(content.origins()) if content.origins is not None else None
    names = pa.array([str(name) for name in target.sources], pa.string())
    before = 0
    for ends in _groups(content.ends(), num_ids):
        (values,) = ids.take(int(ends[-1]) - before)
        array = pa.Array.from_buffers(_value_type(target.dtype), len(values), [None, pa.py_buffer(values)])
        offsets = pa.array(np.concatenate([[0], ends - before]).astype("<i4"))
        columns = [pa.ListArray.from_arrays(offsets, array, type=kind.field(0).type)]
        if origins is not None:
            records, sources = origins.take(len(ends))
            columns += [names.take(pa.array(sources, mask=sources == UNKNOWN)), pa.array(records)]
        yield pa.record_batch(columns, schema=kind)
        before = int(ends[-1])


def _groups(blocks: Iterator[Int64], num_ids: int) -> Iterator[Int64]:
    """The ends of documents in runs of at most num_ids ids and _ROWS documents, but at least one document."""
    before, waiting = 0, np.empty(0, np.int64)
    for block in blocks:
        waiting = np.concatenate([waiting, block])
        while len(waiting):
            count = min(_ROWS, int(np.searchsorted(waiting, before + num_ids, "right")))
            if count == len(waiting):
                break  # the next block may have more
            count = max(1, count)
            yield waiting[:count]
            before, waiting = int(waiting[count - 1]), waiting[count:]
    if len(waiting):
        yield waiting
