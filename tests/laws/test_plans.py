"""A plan is the arithmetic of the loader: its rows, steps, epochs and sources are those that a run has."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tokenriver as tr
from rivers import ArrayRiver
from tokenriver import quotas
from tokenriver.errors import LimitError

sizes = st.lists(st.integers(1, 30), min_size=1, max_size=12)


@settings(max_examples=40)
@given(
    lengths=sizes,
    seq_len=st.integers(1, 9),
    batch=st.integers(1, 6),
    packing=st.sampled_from(["concat", "sliding", "document", "best_fit"]),
    limit=st.sampled_from([{}, {"epochs": 2}, {"steps": 3}, {"token_budget": 40}]),
    ranks=st.tuples(st.integers(1, 3), st.integers(1, 3)),
)
def test_steps_are_those_of_the_loader(
    lengths: list[int], seq_len: int, batch: int, packing: str, limit: dict[str, int], ranks: tuple[int, int]
) -> None:
    river = ArrayRiver(sum(lengths), lengths)
    steps = limit.get("steps") or (-(-40 // (batch * seq_len)) if "token_budget" in limit else None)
    world_size, grad_accum = ranks
    made: dict[str, Any] = {"world_size": world_size, "grad_accum": grad_accum, "packing": packing, **limit}
    try:
        found = tr.plan(river, seq_len=seq_len, global_batch=batch, tokens_per_second=7, **made)
    except LimitError:
        assume(False)
    loader = tr.Loader(
        river,
        seq_len=seq_len,
        global_batch=batch,
        micro_batch=found.micro_batch,
        packing=packing,
        world_size=world_size,
        epochs=limit.get("epochs", 1),
        steps=steps,
        prefetch=0,
    )
    assert (found.rows_per_epoch, found.steps_per_epoch) == (loader.num_rows, loader.steps_per_epoch)
    assert found.steps == loader.num_steps
    assert loader.micros_per_step <= grad_accum
    batches = list(loader)
    assert found.tokens == found.steps * batch * seq_len
    assert found.hours * 3600 * 7 == pytest.approx(found.tokens)
    if world_size == 1:
        rows = sum(int((made.sample_ids >= 0).sum()) for made in batches)
        assert found.epochs * loader.num_rows == rows
        cells = sum(made.input_ids.size for made in batches)
        warned = any("global_batch" in text for text in found.warnings)
        assert warned == (loader.micros_per_step * found.micro_batch != batch)
        assert cells >= found.tokens


@pytest.fixture(scope="module")
def short_periods() -> Iterator[None]:
    """Quotas over fewer rows: placing them is most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quotas, "PERIOD", 1 << 10)
        yield


@pytest.mark.usefixtures("short_periods")
@settings(max_examples=40)
@given(
    first=st.integers(20, 200),
    second=st.integers(20, 200),
    weight=st.integers(1, 9),
    batch=st.integers(1, 4),
    steps=st.integers(1, 60),
    exhausted=st.sampled_from(["repeat", "stop", "renormalise"]),
)
def test_sources_of_a_mixture_are_served_as_planned(
    first: int, second: int, weight: int, batch: int, steps: int, exhausted: str
) -> None:
    mixture = tr.Mixture({"a": (ArrayRiver(first), weight), "b": (ArrayRiver(second), 1)}, exhausted=exhausted)
    try:
        found = tr.plan(mixture, seq_len=4, global_batch=batch, tokens_per_second=1, steps=steps)
    except LimitError:
        assume(False)
    loader = tr.Loader(mixture, seq_len=4, global_batch=batch, steps=steps, prefetch=0)
    counts = sum((made.source_counts for made in loader), start=np.zeros(2, np.int64))
    assert [source.name for source in found.sources] == ["a", "b"]
    for source, count, size in zip(found.sources, counts.tolist(), (first, second), strict=True):
        assert source.rows == count
        assert source.rows_per_epoch == (size - 1) // 4
        assert source.epochs == count / source.rows_per_epoch
        assert source.share == count / (steps * batch)
