"""Compiled code and numpy fill the same cells, whatever the corpus, its storage, the packing and the mixture.

What numpy fills is held against naive loaders by the other laws.
"""

from collections.abc import Iterator, Mapping
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rivers import MappedRiver
from tokenriver import compiled
from tokenriver.batch import Batch
from tokenriver.errors import FormatError, LimitError
from tokenriver.loader import Loader
from tokenriver.mixing import Mixture

DTYPES = ("uint16", "uint32", "int32", "int64", "uint64")
COLUMNS = ("input_ids", "targets", "loss_mask", "position_ids", "cu_seqlens", "document_ids")
lengths = st.lists(st.integers(0, 12), min_size=1, max_size=14)
cuts = st.lists(st.integers(1, 100), max_size=6)


def test_there_is_compiled_code_where_there_is_a_compiler() -> None:
    """Else this file would compare numpy with itself."""
    assert compiled.COMPILED is not None, (
        "no compiled code: install a C compiler (Debian: gcc), then run make clean test"
    )


def both_ways(river: MappedRiver | Mixture, options: Mapping[str, Any]) -> Iterator[tuple[Batch, Batch]]:
    """The batches of a loader by compiled code, each with that of one without it."""
    with patch.object(compiled, "COMPILED", None):
        slow = list(Loader(river, prefetch=0, **options))
    fast = Loader(river, prefetch=0, **options)
    yield from zip(fast, slow, strict=True)


def same(fast: Batch, slow: Batch) -> None:
    with patch.object(compiled, "COMPILED", None):
        wanted = {name: getattr(slow, name) for name in COLUMNS}
    for name, column in wanted.items():
        found = getattr(fast, name)
        assert found.dtype == column.dtype
        assert np.array_equal(found, column), name


@pytest.mark.parametrize("packing", ["document", "best_fit", "bos_aligned"])
@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=25)
@given(
    sizes=lengths,
    cuts=cuts,
    shift=st.integers(0, 3),
    seq_len=st.integers(1, 7),
    batch=st.integers(1, 4),
    micro=st.integers(1, 3),
    seed=st.integers(0, 3),
)
def test_rows_of_spans(
    packing: str,
    dtype: str,
    sizes: list[int],
    cuts: list[int],
    shift: int,
    seq_len: int,
    batch: int,
    micro: int,
    seed: int,
) -> None:
    """Documents in one view or several, at even and odd bytes, in rows of spans and chained rows; epochs end within a
    step, so that some cells are filler."""
    if not sum(sizes):
        return
    ids = np.random.default_rng(seed).integers(0, 50_000, sum(sizes)).tolist()
    river = MappedRiver(ids, sizes, cuts, dtype, shift)
    options: dict[str, Any] = {
        "seq_len": seq_len,
        "global_batch": batch,
        "micro_batch": micro,
        "packing": packing,
        "seed": seed,
    }
    try:
        Loader(river, **options)
    except LimitError:
        return  # fewer rows than a batch
    for fast, slow in both_ways(river, options):
        same(fast, slow)


@settings(max_examples=60)
@given(sizes=st.lists(lengths, min_size=2, max_size=3), cuts=cuts, seed=st.integers(0, 3), alike=st.booleans())
def test_mixtures(sizes: list[list[int]], cuts: list[int], seed: int, alike: bool) -> None:
    if not all(map(sum, sizes)):
        return
    generator = np.random.default_rng(seed)
    rivers = [
        MappedRiver(
            generator.integers(0, 50_000, sum(each)).tolist(), each, cuts, "uint16" if alike else DTYPES[number], 1
        )
        for number, each in enumerate(sizes)
    ]
    try:
        mixture = Mixture({f"s{number}": (river, 1 + number) for number, river in enumerate(rivers)})
        options: dict[str, Any] = {
            "seq_len": 3,
            "global_batch": 2,
            "packing": "best_fit",
            "epochs": None,
            "steps": 4,
            "seed": seed,
        }
        Loader(mixture, **options)
    except LimitError:
        return
    for fast, slow in both_ways(mixture, options):
        same(fast, slow)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("at", [0, 3, 5, 11])
def test_a_negative_id_is_refused_in_words(dtype: str, at: int) -> None:
    """As without compiled code: the numbers of such a file are no ids."""
    ids = list(range(12))
    ids[at] = -7
    river = MappedRiver(ids, [4, 8], [5], dtype, 1)
    loader = Loader(river, seq_len=11, global_batch=1, packing="best_fit", order="sequential", prefetch=0)
    with pytest.raises(FormatError, match=r"id: got -7, expected at least 0"):
        list(loader)
