"""Mask files: one bit an id, in a stated order, refused where they are not the mask of their shard."""

from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tokenriver import lossmask
from tokenriver.errors import FormatError, InputError
from tokenriver.lossmask import JoinedMask, LossMask, Trained, mask_bytes, mask_name, pack


def _written(folder: Path, shards: list[list[bool]]) -> LossMask:
    paths = [folder / f"{number}.mask" for number in range(len(shards))]
    for path, bits in zip(paths, shards, strict=True):
        path.write_bytes(b"".join(pack([np.array(bits, np.bool_)])))
    return LossMask(paths, [len(bits) for bits in shards])


def test_the_order_of_the_bits() -> None:
    assert mask_name("train/tokens_train_000000.bin") == "train/tokens_train_000000.mask"
    assert b"".join(pack([np.array([1, 0, 0, 0, 0, 0, 0, 0, 0, 1], np.bool_)])) == b"\x01\x02"
    assert [mask_bytes(count) for count in (1, 8, 9)] == [1, 1, 2]


@settings(max_examples=30)
@given(blocks=st.lists(st.lists(st.booleans(), max_size=20), max_size=8))
def test_blocks_of_any_length_give_the_same_bytes(blocks: list[list[bool]]) -> None:
    whole = [bit for block in blocks for bit in block]
    packed = b"".join(pack([np.array(block, np.bool_) for block in blocks]))
    assert packed == bytes(sum(bit << i for i, bit in enumerate(whole[at : at + 8])) for at in range(0, len(whole), 8))


def test_bits_of_several_shards(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    shards = [(generator.random(size) < 0.5).tolist() for size in (1, 8, 23, 64, 5)]
    mask, whole = _written(tmp_path, shards), np.array([bit for bits in shards for bit in bits], np.bool_)
    positions = generator.integers(0, len(whole), (7, 9))
    assert np.array_equal(mask.at(positions), whole[positions])
    assert mask.at(np.empty(0, np.int64)).shape == (0,)
    for start, stop in ((0, len(whole)), (3, 4), (8, 9), (9, 32), (31, 100), (5, 5)):
        found = np.concatenate([np.empty(0, np.bool_), *mask.blocks(start, stop)])
        assert np.array_equal(found, whole[start:stop])


RUNS = st.lists(st.tuples(st.booleans(), st.integers(0, 10**6), st.integers(0, 40)), max_size=12)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=9), runs=RUNS, data=st.data(), mapped=st.integers(1, 3))
@pytest.mark.parametrize("joined", [False, True])
def test_runs_of_several_shards(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    joined: bool,
    sizes: list[int],
    runs: list[tuple[bool, int, int]],
    data: st.DataObject,
    mapped: int,
) -> None:
    """Any runs, those across shards, empty ones and padding among them, some of them at a time, against a list. Joined:
    the shards are sources of a mixture, every second without a mask, and no run lies in two."""
    monkeypatch.setattr(lossmask, "MAPPED", mapped)
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    shards = [(generator.random(size) < 0.5).tolist() for size in sizes]
    ends = np.cumsum(sizes)
    whole, total = [bit for bits in shards for bit in bits], int(ends[-1])
    mask: Trained = _written(tmp_path_factory.mktemp("masks"), shards)
    if joined:
        rivers = [
            SimpleNamespace(loss_mask=_written(tmp_path_factory.mktemp("masks"), [bits]) if number % 2 else None)
            for number, bits in enumerate(shards)
        ]
        whole = [bit or not number % 2 for number, bits in enumerate(shards) for bit in bits]
        mask = JoinedMask(rivers, ends)
    starts, lengths = np.zeros(len(runs), np.int64), np.zeros(len(runs), np.int64)
    expected: list[list[bool]] = []
    for place, (padding, number, length) in enumerate(runs):
        start = number % total
        end = int(ends[np.searchsorted(ends, start, "right")]) if joined else total
        starts[place] = -1 if padding else start
        lengths[place] = length if padding else min(length, end - start)
        expected.append([False] * length if padding else whole[start : start + int(lengths[place])])
    trains = mask.cut(starts, lengths)
    first = data.draw(st.integers(0, len(runs)))
    last = data.draw(st.integers(first, len(runs)))
    for low, high in ((0, len(runs)), (first, last)):
        assert trains(low, high).tolist() == [bit for bits in expected[low:high] for bit in bits]


@pytest.mark.parametrize("sizes", [(61,), (64,), (8, 23, 64, 5), (1, 40)])
@pytest.mark.parametrize("length", [1, 7, 8, 9, 25, 56, 57, 61, 64])
def test_windows_wherever_they_lie(tmp_path: Path, sizes: tuple[int, ...], length: int) -> None:
    """Runs of one length at every start, all of them and some at a time, and with padding between them."""
    generator = np.random.default_rng(length)
    shards = [(generator.random(size) < 0.5).tolist() for size in sizes]
    mask, whole = _written(tmp_path, shards), [bit for bits in shards for bit in bits]
    starts = generator.permutation(np.arange(max(0, len(whole) - length + 1)))
    windows = [whole[start : start + length] for start in starts.tolist()]
    trains = mask.cut(starts, np.full(len(starts), length))
    for first, last in ((0, len(starts)), (len(starts) // 3, len(starts) // 2), (0, 0)):
        assert trains(first, last).tolist() == list(chain.from_iterable(windows[first:last]))
    some = np.where(starts % 3 == 0, -1, starts)
    expected = [[False] * length if start < 0 else window for start, window in zip(some, windows, strict=True)]
    assert mask.cut(some, np.full(len(some), length))(0, len(some)).tolist() == list(chain.from_iterable(expected))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\x01", "size: got 1 bytes, expected 2, one bit for each of 9 ids"),
        (b"\x01\x01\x00", "size: got 3 bytes, expected 2"),
        (b"", "size: got 0 bytes, expected 2"),
        (b"\x01\x02", "got bits behind the last of 9 ids, expected none"),
    ],
)
def test_a_file_that_is_not_the_mask_is_refused(tmp_path: Path, data: bytes, says: str) -> None:
    (tmp_path / "a.mask").write_bytes(data)
    with pytest.raises(FormatError, match=says):
        LossMask([tmp_path / "a.mask"], [9]).at(np.array([0]))


def test_an_absent_file_and_a_link(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.mask: cannot read"):
        LossMask([tmp_path / "a.mask"], [9]).at(np.array([0]))
    (tmp_path / "b.mask").write_bytes(b"\x01\x01")
    (tmp_path / "a.mask").symlink_to(tmp_path / "b.mask")
    with pytest.raises(FormatError, match="got a link"):
        LossMask([tmp_path / "a.mask"], [9]).at(np.array([0]))
