"""Which documents are the first of their digest: the external sort against a set, whatever the bound of memory."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from small_builds import QuickDisk
from tokenriver import duplicates, files
from tokenriver.errors import InputError, MismatchError
from tokenriver.filters.exact_dedup import digests, rules
from tokenriver.types import UInt64


@pytest.fixture(autouse=True)
def _quick_disk() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "system", QuickDisk())
        yield


def found(units: list[list[tuple[int, int]]], bound: int, folder: Path) -> list[bool]:
    """Which documents are later ones of their digest, with runs of `bound` documents."""
    total = sum(map(len, units))
    arrays = (np.array(unit, np.uint64).reshape(-1, 2) for unit in units)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicates, "RUN_DOCUMENTS", bound)
        bits = duplicates.later_ones(arrays, total, folder)
    return [bool(bit) for bit in np.unpackbits(bits, bitorder="little")[:total]]


def later(units: list[list[tuple[int, int]]]) -> list[bool]:
    seen: set[tuple[int, int]] = set()
    out = []
    for digest in (digest for unit in units for digest in unit):
        out.append(digest in seen)
        seen.add(digest)
    return out


WORDS = st.sampled_from([0, 1, 5, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1])


@given(st.lists(st.lists(st.tuples(WORDS, WORDS), max_size=12), max_size=8), st.integers(1, 40))
def test_the_first_stays(
    tmp_path_factory: pytest.TempPathFactory, units: list[list[tuple[int, int]]], bound: int
) -> None:
    folder = tmp_path_factory.mktemp("scratch")
    assert found(units, bound, folder) == later(units)
    assert list(folder.iterdir()) == []


def test_many_of_one_digest_never_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A range holds at most one row of a digest from each run."""
    sizes: list[int] = []
    first_ones = duplicates._first_ones

    def counted(rows: UInt64, bits: NDArray[np.uint8]) -> UInt64:
        sizes.append(len(rows))
        return first_ones(rows, bits)

    monkeypatch.setattr(duplicates, "_first_ones", counted)
    units = [[(7, 7)] * 100] * 10
    assert found(units, 50, tmp_path) == [False] + [True] * 999
    assert max(sizes) == 50


def test_random_digests_spread_over_the_ranges(tmp_path: Path) -> None:
    texts = [b"%d" % (i * i % 701) for i in range(3000)]
    rows = digests(texts)
    assert rows.dtype == np.uint64
    assert rows.shape == (3000, 2)
    units = [[(int(a), int(b)) for a, b in rows[i : i + 117]] for i in range(0, 3000, 117)]
    expected = [text in texts[:at] for at, text in enumerate(texts)]
    for bound in (64, 1000, 2999, 3000, 5000):
        assert found(units, bound, tmp_path) == expected


def test_a_disk_that_gives_back_something_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicates, "sha256_file", lambda path: "0" * 64)
    with pytest.raises(MismatchError, match="run the same command again"):
        found([[(1, 1), (1, 1)]], 1, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_it_has_no_parameters() -> None:
    (rule,) = rules({})
    assert rule.reason == "duplicate"
    assert rule.digest is digests
    with pytest.raises(InputError, match="got fuzzy, expected no parameters"):
        rules({"fuzzy": 1})
