"""Every file of every format and layout, cut at many lengths and with bytes changed that are not an id's: it is
refused, or what is read is what was written. No other exception, no other ids. The slow tests take nearly every length
and byte."""

import os
from pathlib import Path

import numpy as np
import pytest

from format_sets import VARIANTS, Shards, Variant, name_of, toy_documents
from tokenriver.errors import RiverError

SHARDS: Shards = [toy_documents(3, 8), toy_documents(2, 8, 100)]
ENDS_UNSAID = {"nanogpt", "arrow"}
"""Files that say nowhere, or in one place only, where ids begin and end: some may seem to be missing at the ends."""
UNPROTECTED = {"hdf5-pile"}
"""Files that say everything once, with no checksum: the byte order, the count and the place of ids are believed."""
FEW, MANY = 160, 2000
MASKS = (0x01, 0x80, 0xFF)

every_variant = pytest.mark.parametrize("variant", VARIANTS, ids=name_of)
how_many = pytest.mark.parametrize("most", [FEW, pytest.param(MANY, marks=pytest.mark.slow)], ids=["some", "many"])


def _set(variant: Variant, folder: Path) -> list[list[int]]:
    """The ids of a set of two shards, or one where the format has no more."""
    shards = SHARDS if variant.refusal(SHARDS, variant.dtypes[0]) is None else SHARDS[:1]
    variant.write(folder, shards)
    assert variant.read(folder) == variant.expected(shards)
    return [ids for ids, _ in variant.expected(shards)]


def _read(variant: Variant, folder: Path) -> list[list[int]] | None:
    """The ids of a set, all its documents looked at; None if it is refused."""
    try:
        return [ids for ids, _ in variant.read(folder)]
    except RiverError as error:
        text = str(error)
    assert str(folder) in text
    assert len(text) < 2000
    return None


def _is_sound(variant: Variant, found: list[list[int]] | None, ids: list[list[int]]) -> bool:
    """Was the set refused, or are its ids those that were written?"""
    if found is None or name_of(variant) in UNPROTECTED:
        return True
    if variant.name not in ENDS_UNSAID:
        return found == ids
    pairs = [sorted(pair, key=len) for pair in zip(found, ids, strict=True)]
    return all(
        any(longer[at : at + len(shorter)] == shorter for at in range(len(longer) - len(shorter) + 1))
        for shorter, longer in pairs
    )


def _places(data: bytes, dtype: str, most: int) -> list[int]:
    """Bytes that are not an id's, about `most` of them: those that are not zero and their neighbours before others."""
    values = np.frombuffer(data, np.uint8)
    telling = values != 0
    for distance in (1, 2, 4):
        telling[distance:] |= values[:-distance] != 0
    free = np.ones(len(data), np.bool_)
    for documents in SHARDS:
        for ids in documents:
            pattern = np.array(ids, dtype).tobytes()
            at = data.find(pattern)
            while at >= 0:
                free[at : at + len(pattern)] = False
                at = data.find(pattern, at + 1)
    chosen = []
    for wanted, share in ((telling, 4), (~telling, 1)):
        places = np.flatnonzero(free & wanted)
        chosen += places[:: 1 + len(places) * 5 // (most * share)].tolist()
    return chosen


def _lengths(size: int, most: int) -> list[int]:
    """Lengths to cut a file at, about `most` of them, downwards: those near its ends before those between."""
    near = min(size, most // 3)
    between = range(near, max(near, size - near), 1 + 3 * size // most)
    return sorted({*range(near), *between, *range(max(0, size - near), size)}, reverse=True)


@every_variant
@how_many
def test_every_cut_is_refused(variant: Variant, most: int, memory: Path) -> None:
    ids = _set(variant, memory)
    for path in sorted(memory.iterdir()):
        data = path.read_bytes()
        for length in _lengths(len(data), most):
            os.truncate(path, length)
            assert _is_sound(variant, _read(variant, memory), ids), f"{path.name} cut to {length} bytes"
        path.write_bytes(data)


@every_variant
@how_many
def test_every_changed_byte_is_refused_or_harmless(variant: Variant, most: int, memory: Path) -> None:
    ids = _set(variant, memory)
    for path in sorted(memory.iterdir()):
        data = path.read_bytes()
        for number, place in enumerate(_places(data, variant.dtypes[0], most)):
            for mask in MASKS if most == MANY else MASKS[number % 3 :][:1]:
                _put(path, place, data[place] ^ mask)
                assert _is_sound(variant, _read(variant, memory), ids), f"byte {place} of {path.name} ^ {mask}"
            _put(path, place, data[place])


def _put(path: Path, place: int, value: int) -> None:
    with path.open("r+b", buffering=0) as file:
        os.pwrite(file.fileno(), bytes([value]), place)
