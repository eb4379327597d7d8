"""Rows of every packing, whatever the corpus, ranks and micro-batches: the loader's cells are those of a naive one."""

from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_order
import naive_packing
from rivers import ArrayRiver
from small_corpora import make_corpus
from tokenriver.batch import Batch
from tokenriver.corpus import open_corpus
from tokenriver.errors import LimitError
from tokenriver.loader import Loader
from tokenriver.packing import _lengths, best_fit
from tokenriver.types import IGNORE

lengths = st.lists(st.integers(0, 12), min_size=1, max_size=14)


@pytest.mark.parametrize("name", ["concat", "sliding", "document", "best_fit"])
@settings(max_examples=120)
@given(
    sizes=lengths,
    seq_len=st.integers(1, 7),
    overflow=st.sampled_from(["split", "truncate", "drop"]),
    world_size=st.integers(1, 3),
    batch=st.integers(1, 4),
    micro=st.integers(1, 3),
    seed=st.integers(0, 3),
)
def test_cells(
    name: str, sizes: list[int], seq_len: int, overflow: str, world_size: int, batch: int, micro: int, seed: int
) -> None:
    if name in ("concat", "sliding"):
        overflow = "split"
    river = ArrayRiver(sum(sizes), sizes)
    rows = naive_packing.rows_of(name, sizes, seq_len, overflow)
    options: dict[str, Any] = {
        "seq_len": seq_len,
        "packing": name,
        "overflow": overflow,
        "seed": seed,
        "micro_batch": micro,
    }
    if not rows:
        with pytest.raises(LimitError):
            Loader(river, global_batch=1, **options)
        return
    batch = min(batch, len(rows))
    seen: list[int] = []
    edges = {start for start, length in zip(np.cumsum(sizes) - sizes, sizes, strict=True) if length}
    for rank in range(world_size):
        loader = Loader(river, global_batch=batch, rank=rank, world_size=world_size, prefetch=0, **options)
        assert loader.num_rows == len(rows)
        for made in loader:
            for line, number in enumerate(made.row_numbers.tolist()):
                spans = [] if number < 0 else rows[naive_order.row(number, len(rows), seed)]
                seen += [at for start, stop in spans for at in range(start + 1, stop)]
                _check_line(made, line, naive_packing.cells(spans, seq_len, edges), river)
    expected = [at for spans in rows for start, stop in spans for at in range(start + 1, stop)]
    assert sorted(seen) == sorted(expected), "every target of the epoch once, over all ranks"


def _check_line(made: Batch, line: int, wanted: list[tuple[int, int]], river: ArrayRiver) -> None:
    inputs, targets = made.input_ids[line].tolist(), made.targets[line].tolist()
    assert targets == [at + 1 if at >= 0 else IGNORE for at, _ in wanted]
    assert [i for i, (at, _) in zip(inputs, wanted, strict=True) if at >= 0] == [at for at, _ in wanted if at >= 0]
    assert made.loss_mask[line].tolist() == [at >= 0 for at, _ in wanted]
    assert made.document_ids[line].tolist() == [river.document_at(at) if at >= 0 else -1 for at, _ in wanted]
    positions = made.position_ids[line].tolist()
    assert [p for p, (at, _) in zip(positions, wanted, strict=True) if at >= 0] == [p for at, p in wanted if at >= 0]


@pytest.mark.parametrize("name", ["document", "best_fit"])
@settings(max_examples=60)
@given(sizes=lengths, seq_len=st.integers(1, 7))
def test_nothing_is_lost_when_long_documents_are_split(name: str, sizes: list[int], seq_len: int) -> None:
    """No target crosses a document, and every id but a document's first is a target exactly once."""
    if max(sizes) < 2:
        return
    river = ArrayRiver(sum(sizes), sizes)
    loader = Loader(river, seq_len=seq_len, global_batch=1, packing=name, order="sequential", prefetch=0)
    targets = [t for made in loader for t in made.targets.ravel().tolist() if t != IGNORE]
    firsts = {int(end - size) for end, size in zip(np.cumsum(sizes), sizes, strict=True) if size}
    assert sorted(targets) == [at for at in range(sum(sizes)) if at not in firsts]


@settings(max_examples=200)
@given(
    sizes=st.lists(st.integers(1, 20), min_size=1, max_size=60),
    seq_len=st.integers(1, 20),
    together=st.sampled_from([1, 3, 1 << 20]),
)
def test_best_fit_places_item_by_item(sizes: list[int], seq_len: int, together: int) -> None:
    """Whole runs of equal sizes move at once, and are sorted some at a time; the rows are those of placing one document
    after another."""
    river = ArrayRiver(sum(sizes), sizes)
    rows = naive_packing.rows_of("best_fit", sizes, seq_len)
    if not rows:
        return
    with patch.object(best_fit, "_SORTED", together):
        loader = Loader(river, seq_len=seq_len, global_batch=len(rows), packing="best_fit", order="sequential")
    made = loader.batch(0)
    wanted = [[at for at, _ in naive_packing.cells(spans, seq_len, ())] for spans in rows]
    found = [
        [at if ok else -1 for at, ok in zip(line, mask, strict=True)]
        for line, mask in zip(made.input_ids.tolist(), made.loss_mask.tolist(), strict=True)
    ]
    assert found == wanted


@settings(max_examples=60)
@given(
    sizes=lengths,
    seq_len=st.integers(1, 7),
    overflow=st.sampled_from(["split", "truncate", "drop"]),
    block=st.integers(1, 5),
    far=st.booleans(),
)
def test_best_fit_block_by_block_and_of_far_positions(
    sizes: list[int], seq_len: int, overflow: str, block: int, far: bool
) -> None:
    """Lengths are looked at some thousands at a time; behind an endless document positions leave no bits for sizes."""
    sizes = [2**61 if far and overflow != "split" else 1, *sizes, 2]
    river = Mock(num_documents=len(sizes), num_tokens=sum(sizes), plan_folder=None)
    river.doc_ends.return_value = np.cumsum(sizes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_lengths, "_BLOCK", block)
        rows = best_fit.pack(river, seq_len=seq_len, overflow=overflow)
    wanted = naive_packing.rows_of("best_fit", sizes, seq_len, overflow)
    which, starts, stops = rows.spans(np.arange(len(wanted)), 0)
    assert len(rows) == len(wanted)
    found = list(zip(which.tolist(), starts.tolist(), stops.tolist(), strict=True))
    assert found == [(row, *span) for row, spans in enumerate(wanted) for span in spans]


@pytest.mark.parametrize("name", ["concat", "sliding", "document", "best_fit", "minimind", "bos_aligned"])
@settings(max_examples=15, deadline=None)
@given(
    shards=st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=5), min_size=1, max_size=3),
    micro=st.integers(1, 3),
    masked=st.booleans(),
    longer=st.sampled_from([1, 40]),
)
def test_a_corpus_in_shards_serves_what_an_array_does(
    tmp_path_factory: pytest.TempPathFactory, name: str, shards: list[list[int]], micro: int, masked: bool, longer: int
) -> None:
    """Of a corpus many rows are looked up beforehand, of another river each batch by itself."""
    shards = [[size * longer for size in shard] for shard in shards]
    sizes = [size for shard in shards for size in shard]
    ids = np.arange(1, sum(sizes) + 1)
    documents = iter(np.split(ids, np.cumsum(sizes)[:-1]))
    folder = tmp_path_factory.mktemp("c")
    make_corpus(folder, {"train": [[next(documents).tolist() for _ in shard] for shard in shards]})
    array = ArrayRiver(ids.tolist(), sizes)
    options: dict[str, Any] = {"seq_len": 4 * longer, "packing": name, "order": "sequential", "prefetch": 0}
    options |= {"global_batch": 3, "micro_batch": micro, "mask_first": masked}
    try:
        wanted = list(Loader(array, **options))
    except LimitError:
        return
    found = list(Loader(open_corpus(folder), **options))
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        for column in ("input_ids", "targets", "cu_seqlens", "position_ids", "loss_mask", "sample_ids"):
            assert np.array_equal(getattr(ours, column), getattr(theirs, column)), column
