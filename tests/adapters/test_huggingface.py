"""What Hugging Face's models are given: every target once, by either convention, and never one for the other."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rivers import ArrayRiver
from tokenriver.adapters.huggingface import attention_mask, check_labels, to_huggingface, unshifted_labels
from tokenriver.batch import Batch
from tokenriver.errors import InputError, MismatchError
from tokenriver.loader import Loader
from tokenriver.types import IGNORE

PACKINGS = ["concat", "document", "best_fit", "bos_aligned", "minimind"]


def make(packing: str, seq_len: int = 6) -> Batch:
    """Three rows, the last one filler or not as the packing has it."""
    sizes = [4, 9, 2, 7, 3, 5]
    loader = Loader(ArrayRiver(sum(sizes), sizes), seq_len=seq_len, global_batch=3, packing=packing, prefetch=0)
    return loader.batch(loader.steps_per_epoch - 1)


@pytest.mark.parametrize("packing", PACKINGS)
def test_shift_labels_are_the_targets(packing: str) -> None:
    batch = make(packing)
    inputs = to_huggingface(batch)
    assert list(inputs) == ["input_ids", "position_ids", "shift_labels"]
    assert np.array_equal(inputs["shift_labels"], batch.targets)
    assert np.array_equal(inputs["position_ids"], batch.position_ids)
    check_labels(inputs)


@pytest.mark.parametrize("packing", PACKINGS)
def test_labels_for_a_model_that_shifts_them(packing: str) -> None:
    batch = make(packing)
    labels, lost = unshifted_labels(batch)
    # what such a model does: the prediction at i is compared with the label at i + 1
    compared = labels[:, 1:]
    assert compared.tolist() == batch.targets[:, :-1].tolist()
    assert (labels[:, 0] == IGNORE).all()
    assert int((compared != IGNORE).sum()) + lost == batch.num_targets
    check_labels({"input_ids": batch.input_ids, "position_ids": batch.position_ids, "labels": labels})


@pytest.mark.parametrize("packing", PACKINGS)
def test_one_convention_for_the_other_is_refused(packing: str) -> None:
    batch = make(packing)
    common = {"input_ids": batch.input_ids, "position_ids": batch.position_ids}
    with pytest.raises(MismatchError, match=r"labels\[\d, \d\]: got \d+, expected \d+, .*made as shift_labels\?"):
        check_labels({**common, "labels": batch.targets})
    for labels in (batch.input_ids, unshifted_labels(batch)[0]):
        with pytest.raises(MismatchError, match=r"shift_labels\[\d, \d\]: got \d+, expected \d+, .*made as labels\?"):
            check_labels({**common, "shift_labels": labels})


def test_what_check_labels_cannot_judge() -> None:
    batch = make("concat")
    inputs: dict[str, Any] = to_huggingface(batch)
    with pytest.raises(InputError, match=r"labels: got \[\], expected one of shift_labels or labels"):
        check_labels({key: inputs[key] for key in ("input_ids", "position_ids")})
    with pytest.raises(InputError, match=r"labels: got .'shift_labels', 'labels'., expected one"):
        check_labels({**inputs, "labels": batch.input_ids})
    with pytest.raises(InputError, match=r"shift_labels: got shapes .* expected one \(B, T\)"):
        check_labels({**inputs, "shift_labels": batch.targets[:, 1:]})


def test_tensors_need_their_positions() -> None:
    without = SimpleNamespace(input_ids=1, targets=2, position_ids=None)
    with pytest.raises(InputError, match=r"to_torch\(..., sequences=True\)"):
        to_huggingface(without)
    assert to_huggingface(SimpleNamespace(input_ids=1, targets=2, position_ids=3))["shift_labels"] == 2


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 8), min_size=1, max_size=8),
    seq_len=st.integers(2, 6),
    packing=st.sampled_from(PACKINGS),
)
def test_the_matrix_is_causal_inside_each_sequence(sizes: list[int], seq_len: int, packing: str) -> None:
    sizes = [*sizes, 9]
    loader = Loader(ArrayRiver(sum(sizes), sizes), seq_len=seq_len, global_batch=1, micro_batch=2, packing=packing)
    batch = loader.batch(0)
    mask = attention_mask(batch)
    assert mask.shape == (2, seq_len, seq_len)
    edges = batch.cu_seqlens.tolist()
    for line in range(2):
        of = [next(n for n, edge in enumerate(edges) if edge > line * seq_len + at) for at in range(seq_len)]
        wanted = [[j <= i and of[i] == of[j] for j in range(seq_len)] for i in range(seq_len)]
        assert mask[line].tolist() == wanted
    assert (mask.sum(axis=2) == batch.position_ids + 1).all()
