"""A corpus with a loss mask: of every packing, order and world size the served targets are those of the same ids
without one, and ignored exactly where the target's own bit is 0."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rivers import ArrayRiver
from tokenriver import masks, registry
from tokenriver.errors import LimitError
from tokenriver.loader import Loader
from tokenriver.lossmask import Trains
from tokenriver.mixing import Mixture
from tokenriver.types import IGNORE, Bools, Int64, River


class Bits:
    """A loss mask in memory."""

    def __init__(self, bits: list[bool]) -> None:
        self._bits = np.array(bits, np.bool_)

    def cut(self, starts: Int64, sizes: Int64) -> Trains:
        def of(first: int, last: int) -> Bools:
            runs = zip(starts[first:last].tolist(), sizes[first:last].tolist(), strict=True)
            bits = [bit for s, n in runs for bit in (self._bits[s : s + n].tolist() if s >= 0 else [False] * n)]
            return np.array(bits, np.bool_)

        return of


class MaskedRiver(ArrayRiver):
    """Ids that say where they are, with a bit for each."""

    def __init__(self, lengths: list[int], bits: list[bool], first: int = 0) -> None:
        super().__init__([first + at for at in range(sum(lengths))], lengths)
        self.loss_mask = Bits(bits)


@st.composite
def documents(draw: st.DrawFn) -> tuple[list[int], list[bool]]:
    lengths = draw(st.lists(st.integers(0, 9), min_size=1, max_size=12))
    return lengths, draw(st.lists(st.booleans(), min_size=sum(lengths), max_size=sum(lengths)))


def _expected(targets: Int64, bits: dict[int, bool]) -> list[list[int]]:
    return [[i if i != IGNORE and bits[i] else IGNORE for i in row] for row in targets.tolist()]


@pytest.mark.parametrize("name", registry.names("packing"))
@settings(max_examples=20, deadline=None)
@given(made=documents(), seq_len=st.integers(2, 7), shape=st.tuples(*[st.integers(1, 3)] * 3), block=st.integers(1, 40))
def test_targets_are_ignored_by_their_own_bit(
    name: str, made: tuple[list[int], list[bool]], seq_len: int, shape: tuple[int, int, int], block: int
) -> None:
    """However many batches of windows have their mask unpacked together."""
    lengths, bits = made
    batch, micro, world_size = shape
    options: dict[str, Any] = {"seq_len": seq_len, "packing": name, "micro_batch": micro, "prefetch": 0}
    options |= {"rank": world_size - 1, "world_size": world_size, "global_batch": batch}
    try:
        plain = Loader(ArrayRiver(sum(lengths), lengths), **options)
    except LimitError:
        return
    by_id = dict(enumerate(bits))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(masks, "BLOCK_CELLS", block)
        for found, before in zip(Loader(MaskedRiver(lengths, bits), **options), plain, strict=True):
            assert np.array_equal(found.input_ids, before.input_ids)
            assert found.targets.tolist() == _expected(before.targets, by_id)
            assert found.num_targets == int(found.loss_mask.sum())


@settings(max_examples=15, deadline=None)
@given(a=documents(), b=documents(), name=st.sampled_from(["concat", "document", "best_fit"]), masked=st.booleans())
def test_sources_with_and_without_a_mask(
    a: tuple[list[int], list[bool]], b: tuple[list[int], list[bool]], name: str, masked: bool
) -> None:
    def mixture(of_a: River, of_b: River) -> Mixture:
        return Mixture({"a": (of_a, 1.0), "b": (of_b, 1.0)}, unit="rows")

    plain_b = ArrayRiver([1000 + at for at in range(sum(b[0]))], b[0])
    bits = dict(enumerate(a[1])) | {1000 + at: bit or not masked for at, bit in enumerate(b[1])}
    options: dict[str, Any] = {"seq_len": 4, "packing": name, "global_batch": 3, "prefetch": 0, "steps": 3}
    try:
        plain = Loader(mixture(ArrayRiver(sum(a[0]), a[0]), plain_b), **options)
    except LimitError:
        return
    other = MaskedRiver(b[0], b[1], 1000) if masked else plain_b
    for found, before in zip(Loader(mixture(MaskedRiver(*a), other), **options), plain, strict=True):
        assert np.array_equal(found.input_ids, before.input_ids)
        assert found.targets.tolist() == _expected(before.targets, bits)


def test_choices_and_the_mask_add_up() -> None:
    river = MaskedRiver([4, 5], [False, True, True, True, True, True, False, True, True])
    options: dict[str, Any] = {"seq_len": 8, "global_batch": 1, "prefetch": 0}
    assert Loader(river, **options).batch(0).targets.tolist() == [[1, 2, 3, 4, 5, IGNORE, 7, 8]]
    assert Loader(river, mask_first=True, **options).batch(0).targets.tolist() == [[1, 2, 3, IGNORE, 5, IGNORE, 7, 8]]
