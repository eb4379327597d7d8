"""Rows and documents, both ways: a row shows a document if and only if the document's rows hold it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rivers import ArrayRiver, HugeRiver
from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.loader import Loader
from tokenriver.mixing import Mixture
from tokenriver.types import River

lengths = st.lists(st.integers(0, 12), min_size=1, max_size=14)
SHAPES: tuple[dict[str, Any], ...] = (
    {"packing": "concat"},
    {"packing": "concat", "phase_shift": True},
    {"packing": "sliding"},
    {"packing": "sliding", "stride": 1},
    {"packing": "document", "overflow": "split"},
    {"packing": "document", "overflow": "truncate"},
    {"packing": "document", "overflow": "drop"},
    {"packing": "best_fit", "overflow": "split"},
    {"packing": "best_fit", "overflow": "truncate"},
    {"packing": "best_fit", "overflow": "drop"},
    {"packing": "minimind"},
    {"packing": "bos_aligned", "packing_options": {"buffer_documents": 3}},
)
shapes = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(map(str, shape.values())))


def river(sizes: Sequence[int], base: int = 0) -> ArrayRiver:
    """Ids that are their own places, so that a batch says what it shows."""
    return ArrayRiver((np.arange(sum(sizes)) + base).tolist(), sizes)


def make(corpus: River | Mixture, options: dict[str, Any]) -> Loader | None:
    """A loader, or None where the options leave no row."""
    try:
        return Loader(corpus, prefetch=0, **options)
    except LimitError:
        return None


def check(loader: Loader, sizes: Sequence[int]) -> None:
    """Everything that the batches of a run show, beside trace and when; ids are places in the joined river."""
    edges = np.cumsum([0, *sizes]).tolist()
    documents = np.repeat(np.arange(len(sizes)), sizes).tolist()
    shown: dict[int, set[int]] = {document: set() for document in range(len(sizes))}
    served: set[int] = set()
    for batch in loader:
        for line, number in enumerate(batch.row_numbers.tolist()):
            if number < 0:
                continue
            served.add(number)
            origins = loader.trace(number)
            mask = batch.loss_mask[line]
            inputs, targets = batch.input_ids[line], batch.targets[line]
            seen = set(inputs[mask].tolist()) | set(targets[mask].tolist())
            wanted = {place: documents[place] for place in seen}
            given = {edges[o.document] + at: o.document for o in origins for at in range(o.start, o.stop)}
            assert given == wanted
            for origin in origins:
                assert origin.length == sizes[origin.document]
                assert (origin.cut_start, origin.cut_end) == (origin.start > 0, origin.stop < origin.length)
                assert origin.stop - origin.start - (origin.row_stop - origin.row_start) in (0, 1)
                here = inputs[origin.row_start : origin.row_stop].tolist()
                first = edges[origin.document] + origin.start
                assert here == list(range(first, first + len(here)))
                shown[origin.document].add(number)
            assert [o.row_start for o in origins] == sorted(o.row_start for o in origins)
    for document, numbers in shown.items():
        assert loader.when(document).tolist() == sorted(numbers), document
    many = np.array([*range(len(sizes)), 0], np.int64)
    which, found = loader.trail.rows(many, 0, max(served) + 1)
    for at, document in enumerate(many.tolist()):
        assert found[which == at].tolist() == sorted(shown[document])
    columns = loader.trail.shown(np.array(sorted(served), np.int64))
    pairs = {
        (sorted(served)[line], d) for line, d in zip(columns.lines.tolist(), columns.documents.tolist(), strict=True)
    }
    assert pairs == {(number, document) for document, numbers in shown.items() for number in numbers}


@shapes
@settings(max_examples=30)
@given(
    sizes=lengths,
    seq_len=st.integers(1, 7),
    order=st.sampled_from(["shuffled", "sequential"]),
    batch=st.integers(1, 4),
    seed=st.integers(0, 3),
    epochs=st.integers(1, 3),
)
def test_a_corpus(
    shape: dict[str, Any], sizes: list[int], seq_len: int, order: str, batch: int, seed: int, epochs: int
) -> None:
    options = {"seq_len": seq_len, "order": order, "global_batch": batch, "seed": seed, "epochs": epochs, **shape}
    if shape.get("stride", 1) <= seq_len and (loader := make(river(sizes), options)):
        check(loader, sizes)


@shapes
@settings(max_examples=25)
@given(
    first=lengths,
    second=lengths,
    seq_len=st.integers(1, 5),
    weight=st.integers(1, 7),
    exhausted=st.sampled_from(["repeat", "stop", "renormalise", "curriculum"]),
    seed=st.integers(0, 3),
    epochs=st.integers(1, 3),
)
def test_a_mixture(
    shape: dict[str, Any],
    first: list[int],
    second: list[int],
    seq_len: int,
    weight: int,
    exhausted: str,
    seed: int,
    epochs: int,
) -> None:
    sources: dict[str, tuple[River, float]] = {
        "a": (river(first), weight),
        "b": (river(second, sum(first)), 8 - weight),
    }
    rule: dict[str, Any] = {"exhausted": exhausted, "unit": "rows"}
    if exhausted == "curriculum":
        rule = {"unit": "rows", "curriculum": [(3, {"a": 3, "b": 1}), (4, {"a": 1, "b": 7}), (15, {"a": 1, "b": 1})]}
    length = {"epochs": epochs} if exhausted in ("stop", "renormalise") else {"steps": 9 * epochs}
    options: dict[str, Any] = {"seq_len": seq_len, "global_batch": 2, "seed": seed, **length, **shape}
    if shape.get("stride", 1) <= seq_len and (loader := make(Mixture(sources, **rule), options)):
        check(loader, [*first, *second])


def test_documents_of_a_source_by_its_name() -> None:
    a, b = [5, 9, 4], [8, 3, 6]
    mixture = Mixture({"a": (river(a), 1), "b": (river(b, sum(a)), 1)}, unit="rows")
    loader = Loader(mixture, seq_len=3, global_batch=2, steps=20)
    assert loader.when(1, source="b").tolist() == loader.when(4).tolist() != loader.when(1).tolist()
    origins = [origin for number in loader.when(4).tolist() for origin in loader.trace(number) if origin.document == 4]
    assert {(origin.source, origin.number, origin.path, origin.record) for origin in origins} == {("b", 1, None, None)}
    with pytest.raises(InputError, match="source: got 'c', expected one of a, b"):
        loader.when(0, source="c")
    with pytest.raises(LimitError, match="document: got 3, expected 0 to 2"):
        loader.when(3, source="b")


@pytest.mark.parametrize("shape", [{"epochs": 2}, {"steps": 7}])
def test_after_a_resume_with_another_batch_size(shape: dict[str, Any]) -> None:
    sizes = [3, 1, 8, 12, 2, 5] * 3
    begun = Loader(river(sizes), seq_len=4, global_batch=3, prefetch=0, **shape)
    state = begun.batch(1).state
    loader = Loader(river(sizes), seq_len=4, global_batch=5, prefetch=0, **shape)
    loader.load_state_dict(state)
    rows = [number for step in range(2) for number in begun.batch(step).row_numbers.tolist()]
    rows += [number for batch in loader for number in batch.row_numbers.tolist() if number >= 0]
    for document in range(len(sizes)):
        shown = [n for n in rows if document in {origin.document for origin in loader.trace(n)}]
        assert loader.when(document).tolist() == shown


def test_a_batch_that_is_repeated() -> None:
    loader = Loader(river([7, 9, 5, 30]), seq_len=4, global_batch=3, repeat_batch=2)
    numbers = set(loader.batch(0).row_numbers.tolist())
    assert numbers == {6, 7, 8}
    assert set(np.concatenate([loader.when(document) for document in range(4)]).tolist()) == numbers
    with pytest.raises(LimitError, match="row_number: got 5, expected 6 to 8"):
        loader.trace(5)


def test_huge_epochs_and_bounds() -> None:
    sizes = [40_000, 1, 0, 70_000, 2]
    loader = Loader(river(sizes), seq_len=1, global_batch=8, seed=9, epochs=None)
    with pytest.raises(InputError, match="stop: got none for a run without an end"):
        loader.when(1)
    found = loader.when(1, stop=3 * loader.num_rows)
    assert len(found) == 2 * 3
    assert all(1 in {origin.document for origin in loader.trace(number)} for number in found.tolist())
    assert loader.when(2, stop=10**6).tolist() == []
    assert loader.when(1, stop=int(found[3])).tolist() == found[:3].tolist()


def test_outside_the_run_and_without_documents() -> None:
    loader = Loader(river([7, 9, 5]), seq_len=4, global_batch=2, epochs=2)
    for number in (10, -1):
        with pytest.raises((LimitError, InputError), match=f"row_number: got {number}"):
            loader.trace(number)
    with pytest.raises(LimitError, match="document: got 3, expected 0 to 2"):
        loader.when(3)
    with pytest.raises(InputError, match="document: got True"):
        loader.when(True)
    unbounded = Loader(HugeRiver(1000), seq_len=4, global_batch=2)
    with pytest.raises(FormatError, match="without document bounds"):
        unbounded.trace(0)
    with pytest.raises(FormatError, match="without document bounds"):
        unbounded.when(0)
