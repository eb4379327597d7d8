"""The attributes of an HDF5 file that we read: a few integers, and a digest. What they are is checked first."""

import math
import re
from pathlib import Path

import numpy as np
from h5py import h5a, h5d, h5f, h5t

from tokenriver.errors import FormatError
from tokenriver.formats import _hdf5_head, _hdf5_heap
from tokenriver.formats._hdf5_open import File

_MAX_TEXT = 1000


def integer(path: Path, place: h5d.DatasetID | h5f.FileID, name: bytes) -> int | None:
    """An attribute that is one integer; None if there is none of that name. FormatError for any other value."""
    if not h5a.exists(place, name):
        return None
    found = h5a.open(place, name)
    kind = found.get_type()
    if kind.get_class() != h5t.INTEGER or kind.get_size() > 8 or math.prod(found.shape) != 1 or found.shape is None:
        raise FormatError(f"{path}: attribute {name.decode()}: got another value, expected one integer")
    value = np.empty(found.shape, found.dtype)
    found.read(value)
    return int(value.reshape(())[()])


def digest(file: File, found: h5d.DatasetID, header: int) -> str | None:
    """The attribute `sha256` of a dataset (whose header is at byte `header`), or else of its file; None if there is
    none that can be read."""
    name = b"sha256"
    path, place = file.path, found
    if not h5a.exists(found, name):
        place, header = file.handle, _hdf5_head.root_of(file.view)
        if not h5a.exists(place, name):
            return None
    stored = h5a.open(place, name)
    kind = stored.get_type()
    if kind.get_class() != h5t.STRING or stored.shape != ():
        raise FormatError(f"{path}: attribute sha256: got another value, expected 64 hex digits")
    if kind.is_variable_str():
        text = _hdf5_heap.text_of(path, file.view, header, name)
    else:
        text = _fixed(stored) if kind.get_size() <= _MAX_TEXT else b"text of another length"
    if text is not None and re.fullmatch(b"[0-9a-f]{64}", text) is None:
        raise FormatError(f"{path}: attribute sha256: got {text[:100]!r}, expected 64 hex digits")
    return None if text is None else text.decode()


def _fixed(stored: h5a.AttrID) -> bytes:
    value = np.empty((), stored.dtype)
    stored.read(value)
    return bytes(value.item())
