"""The ids of an HDF5 dataset as a reader serves them: mapped where they lie as ids, else decoded."""

from typing import Any

import numpy as np

from tokenriver.errors import FormatError
from tokenriver.formats import _hdf5_filters
from tokenriver.formats._hdf5_dataset import Dataset
from tokenriver.formats._hdf5_open import File
from tokenriver.formats._reader import Blocks, Body, Flat, Pieces
from tokenriver.types import Ids, Int64

KEEP_BYTES = 32 << 20
"""Decoded chunks that a reader keeps, at least two."""
STEP = 1 << 20
"""Ids that are turned at once where they are not chunked."""


def make_body(file: File, dataset: Dataset) -> Body:
    """The first `count` ids of a dataset of the open file, row by row, in little-endian order."""
    flat, stored = dataset.flat, dataset.dtype
    dtype = stored.newbyteorder("<")
    if isinstance(flat, np.ndarray):
        ids = np.ascontiguousarray(flat[: dataset.count], dtype)
        ids.flags.writeable = False
        return Blocks(dtype, np.array([len(ids)], np.int64), lambda number: ids)
    if flat is not None:
        return Flat(file.fd, dtype, flat, dataset.count) if stored == dtype else _turned(file.view, dataset, flat)
    whole_rows = dataset.chunk[1] == dataset.columns
    if stored == dtype and whole_rows and not dataset.filters:
        return _mapped(file, dataset)
    loader = _Loader(file, dataset)
    band = dataset.chunk[0] * dataset.columns
    ends = np.minimum(np.arange(1, loader.bands + 1) * band, dataset.count)
    return Blocks(dtype, ends, loader.load, max(2, KEEP_BYTES // (band * dtype.itemsize)))


def _turned(view: memoryview, dataset: Dataset, offset: int) -> Blocks:
    """Big-endian ids in one run."""
    ids = np.frombuffer(view, dataset.dtype, dataset.count, offset)
    ends = np.minimum(np.arange(1, -(-dataset.count // STEP) + 1) * STEP, dataset.count)
    dtype = dataset.dtype.newbyteorder("<")
    return Blocks(dtype, ends, lambda number: ids[number * STEP : (number + 1) * STEP].astype(dtype), keep=8)


def _mapped(file: File, dataset: Dataset) -> Flat | Pieces:
    """Chunks as they lie in the file, those that touch joined to one run."""
    item = dataset.dtype.itemsize
    band = dataset.chunk[0] * dataset.columns
    counts = np.full(len(dataset.offsets), band, np.int64)
    counts[-1] = dataset.count - band * (len(counts) - 1)  # the rest of the last chunk is filling
    starts = np.flatnonzero(np.r_[True, np.diff(dataset.offsets) != band * item])
    offsets: Int64 = dataset.offsets[starts]
    runs: Int64 = np.add.reduceat(counts, starts)
    if len(runs) == 1:
        return Flat(file.fd, dataset.dtype, int(offsets[0]), dataset.count)
    return Pieces(file.fd, len(file.view), dataset.dtype, offsets, runs)


class _Loader:
    """Decodes bands of chunks: all chunks that hold the same rows."""

    def __init__(self, file: File, dataset: Dataset) -> None:
        self._path, self._view, self._dataset = file.path, file.view, dataset
        self._across = -(-dataset.columns // dataset.chunk[1])
        self.bands = len(dataset.offsets) // self._across

    def load(self, band: int) -> Ids:
        """The ids of a band that count, contiguous."""
        first, (high, wide) = band * self._across, self._dataset.chunk
        rows = self._chunk(first)
        if wide != self._dataset.columns:
            rows = np.empty((high, self._dataset.columns), rows.dtype)
            for number in range(self._across):
                left = number * wide
                rows[:, left : left + wide] = self._chunk(first + number)[:, : self._dataset.columns - left]
        start = band * rows.size
        ids = np.ascontiguousarray(rows).reshape(-1)[: self._dataset.count - start]
        ids.flags.writeable = False
        return ids

    def _chunk(self, number: int) -> np.ndarray[Any, Any]:
        dataset = self._dataset
        at, size = int(dataset.offsets[number]), int(dataset.sizes[number])
        num_bytes = dataset.chunk[0] * dataset.chunk[1] * dataset.dtype.itemsize
        stored = self._view[at : at + size]
        try:
            data = _hdf5_filters.decode(
                stored, dataset.filters, int(dataset.masks[number]), num_bytes, dataset.dtype.itemsize
            )
        except _hdf5_filters.BadChunkError as error:
            raise FormatError(f"{self._path}: chunk {number} at byte {at}: {error}; the file is damaged") from error
        values = np.frombuffer(data, dataset.dtype).reshape(dataset.chunk)
        return values.astype(dataset.dtype.newbyteorder("<"), copy=False)
