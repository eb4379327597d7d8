"""The attributes of an HDF5 file that we read: a few integers, and a digest. What they are is checked first."""

import math
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from h5py import h5a, h5d, h5f, h5t

from tokenriver.errors import FormatError

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


def digest(path: Path, places: Sequence[h5d.DatasetID | h5f.FileID]) -> str | None:
    """The attribute `sha256` of the first of the places that has one; None if none has."""
    place = next((place for place in places if h5a.exists(place, b"sha256")), None)
    return None if place is None else _text(path, h5a.open(place, b"sha256"))


def _text(path: Path, found: h5a.AttrID) -> str:
    """64 hex digits, stored as text of a fixed length or of any."""
    kind = found.get_type()
    if kind.get_class() != h5t.STRING or found.shape != () or kind.get_size() > _MAX_TEXT:
        raise FormatError(f"{path}: attribute sha256: got another value, expected 64 hex digits")
    value = np.empty((), found.dtype)
    found.read(value)
    stored: object = value.item()
    text = stored.decode("latin-1") if isinstance(stored, bytes) else str(stored)
    if re.fullmatch("[0-9a-f]{64}", text) is None:
        raise FormatError(f"{path}: attribute sha256: got {text[:100]!r}, expected 64 hex digits")
    return text
