"""Mixtures: quotas never a whole row off, sources with their own epochs and order, the same for any ranks."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_order
from rivers import ArrayRiver
from tokenriver.batch import Batch
from tokenriver.errors import InputError, LimitError, MismatchError
from tokenriver.loader import Loader
from tokenriver.mixing import Mixture
from tokenriver.quotas import PERIOD, make_quotas


def river(base: int, documents: int) -> ArrayRiver:
    sizes = (np.arange(documents) * 7 % 23 + 2).tolist()
    return ArrayRiver((np.arange(sum(sizes)) + base).tolist(), sizes)


A, B, C = river(0, 30), river(10_000, 60), river(20_000, 9)


def loader(mixture: Mixture, **options: object) -> Loader:
    given: dict[str, Any] = {"seq_len": 6, "global_batch": 5, "seed": 2, "prefetch": 0, **options}
    return Loader(mixture, **given)


def served(made: Loader) -> list[tuple[int, int]]:
    """(source, sample) of every row in the order of the run."""
    return [
        (source, sample)
        for batch in made
        for source, sample in zip(batch.source_ids.tolist(), batch.sample_ids.tolist(), strict=True)
        if source >= 0
    ]


@settings(max_examples=12)
@given(weights=st.lists(st.integers(1, 1000), min_size=1, max_size=12))
def test_no_prefix_is_a_row_off_its_quota(weights: list[int]) -> None:
    quotas = make_quotas([Fraction(weight) for weight in weights], [str(i) for i in range(len(weights))])
    assert PERIOD % quotas.period == 0
    lengths = np.arange(1, quotas.period + 1)
    for source, count in enumerate(quotas.counts.tolist()):
        so_far = np.cumsum(quotas.sources == source)
        # in whole numbers: |so_far - count * length / period| < 1
        assert (np.abs(so_far * quotas.period - count * lengths) < quotas.period).all()
        assert abs(Fraction(count, quotas.period) - Fraction(weights[source], sum(weights))) < Fraction(1, PERIOD)


def test_a_thousand_sources() -> None:
    weights = [Fraction(i % 97 + 1) for i in range(1024)]
    quotas = make_quotas(weights, [f"{i:04}" for i in range(1024)])
    places = np.argsort(quotas.sources, kind="stable")
    counts = quotas.counts.tolist()
    for source, mine in enumerate(np.split(places, np.cumsum(quotas.counts)[:-1])):
        ideal, count = np.arange(counts[source]) * quotas.period, counts[source]
        assert (mine * count > ideal - count).all(), "not before its time"
        assert (mine * count < ideal + quotas.period + count).all(), "not after it"


def test_the_two_directions_of_the_table() -> None:
    quotas = make_quotas([Fraction(3), Fraction(4), Fraction(1)], ["a", "b", "c"])
    assert quotas.period == 8
    numbers = np.arange(5 * quotas.period)
    sources, rows = quotas.locate(numbers)
    for number, source, row in zip(numbers.tolist(), sources.tolist(), rows.tolist(), strict=True):
        assert quotas.number(source, row) == number
        assert quotas.served(number)[source] == row


def test_a_source_without_a_row_is_an_error() -> None:
    with pytest.raises(LimitError, match=r"source 'b': got a share of 1e-07 of the rows, expected at least"):
        make_quotas([Fraction(10**7), Fraction(1)], ["a", "b"])


@pytest.mark.parametrize("packing", ["concat", "document", "best_fit"])
def test_each_source_keeps_its_own_order_and_epochs(packing: str) -> None:
    mixture = Mixture({"web": (A, 3.0), "code": (B, 2.0), "books": (C, 1.0)}, unit="rows")
    made = loader(mixture, packing=packing, steps=80)
    run = served(made)
    assert len(run) == 400
    for place, (name, one) in enumerate([("books", C), ("code", B), ("web", A)]):
        rows = len(Loader(one, seq_len=6, global_batch=1, packing=packing)._course.packing)
        mine = [sample for source, sample in run if source == place]
        assert mine == [naive_order.row(g, rows, 2, name) for g in range(len(mine))]


def test_the_order_of_the_list_and_another_source_leave_the_others_alone() -> None:
    one = Mixture({"a": (A, 0.5), "b": (B, 0.5)}, unit="rows")
    turned = Mixture({"b": (B, 0.5), "a": (A, 0.5)}, unit="rows")
    assert (one.tag, one.fingerprint) == (turned.tag, turned.fingerprint)
    assert served(loader(one, steps=20)) == served(loader(turned, steps=20))
    more = served(loader(Mixture({"a": (A, 0.4), "b": (B, 0.3), "c": (C, 0.3)}, unit="rows"), steps=20))
    for source in (0, 1):
        before = [s for at, s in served(loader(one, steps=20)) if at == source]
        after = [s for at, s in more if at == source]
        shorter = min(len(before), len(after))
        assert before[:shorter] == after[:shorter]


@pytest.mark.parametrize("exhausted", ["repeat", "stop", "renormalise"])
def test_any_ranks_and_a_resume_serve_the_same_run(exhausted: str) -> None:
    mixture = Mixture({"a": (A, 0.7), "b": (B, 0.1), "c": (C, 0.2)}, exhausted=exhausted)
    options: dict[str, object] = {"steps": 30} if exhausted == "repeat" else {}
    run = served(loader(mixture, **options))
    steps = [list(loader(mixture, rank=rank, world_size=3, **options)) for rank in range(3)]
    by_ranks = [pair for made in zip(*steps, strict=True) for batch in made for pair in _pairs(batch)]
    assert by_ranks == run
    first = loader(mixture, **options)
    state = [batch.state for _, batch in zip(range(4), first, strict=False)][-1]
    again = loader(mixture, rank=0, world_size=1, **options)
    again.load_state_dict(state)
    assert served(again) == run[20:]
    counts = np.sum([batch.source_counts for batch in loader(mixture, **options)], axis=0)
    assert counts.tolist() == [sum(1 for source, _ in run if source == place) for place in range(3)]


def _pairs(batch: Batch) -> list[tuple[int, int]]:
    both = zip(batch.source_ids.tolist(), batch.sample_ids.tolist(), strict=True)
    return [pair for pair in both if pair[0] >= 0]


def test_stop_and_renormalise_end_where_they_say() -> None:
    sources = {"a": (A, 0.7), "b": (B, 0.1), "c": (C, 0.2)}
    rows = {n: Loader(one, seq_len=6, global_batch=1).num_rows for n, (one, _) in sources.items()}
    stopped = served(loader(Mixture(sources, unit="rows", exhausted="stop")))
    counts = [sum(1 for source, _ in stopped if source == place) for place in range(3)]
    assert any(count == rows[name] for count, name in zip(counts, "abc", strict=True))
    assert stopped[-1][0] == next(p for p, name in enumerate("abc") if counts[p] == rows[name])
    whole = served(loader(Mixture(sources, unit="rows", exhausted="renormalise")))
    assert len(whole) == len(set(whole)) == sum(rows.values())


def test_a_curriculum_changes_the_shares_and_nothing_else() -> None:
    weights = [(40, {"a": 0.1, "b": 0.9}), (80, {"a": 0.5, "b": 0.5})]
    mixture = Mixture({"a": (A, 0.9), "b": (B, 0.1)}, unit="rows", curriculum=weights)
    run = served(loader(mixture, global_batch=10, steps=12))
    shares = [sum(source == 0 for source, _ in run[at : at + 40]) for at in (0, 40, 80)]
    assert shares == [36, 4, 20]
    mine = [sample for source, sample in run if source == 0]
    assert mine == [naive_order.row(g, Loader(A, seq_len=6, global_batch=1).num_rows, 2, "a") for g in range(len(mine))]


def test_what_makes_no_mixture_is_refused() -> None:
    with pytest.raises(InputError, match="mixture: got no source"):
        Mixture({})
    with pytest.raises(InputError, match="unit: got 'bytes', expected one of tokens, rows, documents"):
        Mixture({"a": (A, 1.0)}, unit="bytes")
    with pytest.raises(InputError, match="weight of 'a': got 0, expected a number above 0"):
        Mixture({"a": (A, 0)})
    with pytest.raises(InputError, match="curriculum: got one with exhausted 'stop'"):
        Mixture({"a": (A, 1.0)}, exhausted="stop", curriculum=[(5, {"a": 1.0})])
    with pytest.raises(InputError, match="give steps, or epochs=None"):
        loader(Mixture({"a": (A, 1.0)}))
    other = river(0, 5)
    for one, name in ((A, "x"), (other, "y")):
        one.tokenizer_fingerprint = name
    with pytest.raises(MismatchError, match="got 'a' and 'b' with different tokenizers"):
        Mixture({"a": (A, 1.0), "b": (other, 1.0)})
    A.tokenizer_fingerprint = None
