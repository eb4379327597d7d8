"""Pairs, prompts and multiple choice as tensors, and the first two under torch's own loaders."""

import json
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

import tokenriver as tr
from choice_cases import HELLASWAG, write_lines
from tokenriver.adapters.torch import TokenDataset, to_torch
from tokenriver.errors import InputError, MismatchError
from tokenriver.pairloader import PairLoader
from tokenriver.promptloader import PromptLoader
from tokenriver.types import IGNORE

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*use of fork.. may lead to deadlocks:DeprecationWarning"),
]
KINDS = ("pairs", "prompts")
DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
PAIR = (
    *("ids", "mask", "lengths", "sample_ids", "row_numbers", "input_ids", "targets", "chosen_ids", "rejected_ids"),
    *("chosen_mask", "rejected_mask", "chosen_lengths", "rejected_lengths"),
)
NAMES = {
    "pairs": PAIR,
    "prompts": ("input_ids", "attention_mask", "lengths", "gold", "sample_ids", "row_numbers"),
    "choices": ("input_ids", "targets", "example_ids", "choice_ids", "labels", "cut"),
}


SIZES = {"global_batch": 6, "micro_batch": 2, "rank": 1, "world_size": 2, "seed": 3, "epochs": 2}
"""Rank 1 of 2 has three of six samples a step: two micro-batches of two places."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of 13 pairs and a file of 13 prompts, no two of one length."""
    folder = tmp_path_factory.mktemp("samples")
    rows = [{"prompt": "a" * n, "chosen": f"{n}+", "rejected": f"{n}-", "gold": n / 2} for n in range(1, 14)]
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tr.preference(folder / "in.jsonl", folder / "pairs", tokenizer="byte")
    return folder


def pairs(made: Path, **options: object) -> PairLoader:
    given: dict[str, Any] = SIZES | {"max_length": 60, **options}
    return PairLoader(tr.open_corpus(made / "pairs"), **given)


def make(made: Path, kind: str, **options: object) -> PairLoader | PromptLoader:
    if kind == "pairs":
        return pairs(made, **options)
    given: dict[str, Any] = SIZES | options
    return PromptLoader(made / "in.jsonl", tr.load_chat("plain", tr.load_tokenizer("byte")), **given)


def assert_same(kind: str, got: Iterable[Any], expected: Iterable[Any]) -> None:
    for tensors, batch in zip(got, expected, strict=True):
        for name in NAMES[kind]:
            values, array = getattr(tensors, name).numpy(), getattr(batch, name)
            assert values.dtype == array.dtype, name
            assert np.array_equal(values, array, equal_nan=name == "gold"), name
        if kind != "choices":
            assert (tensors.state, tensors.step) == (batch.state, batch.step)
        if kind == "prompts":
            assert tensors.prompts == batch.prompts
        else:
            assert tensors.num_targets == batch.num_targets


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workers", [0, 1, 4])
def test_any_number_of_workers_gives_the_loaders_own_sequence(made: Path, kind: str, workers: int) -> None:
    data = DataLoader(TokenDataset(make(made, kind)), batch_size=None, num_workers=workers)
    assert_same(kind, data, make(made, kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("before", "after"), [(0, 4), (4, 1)])
def test_saved_with_some_workers_and_restored_with_others(made: Path, kind: str, before: int, after: int) -> None:
    first = DataLoader(TokenDataset(make(made, kind)), batch_size=None, num_workers=before)
    taken = [batch for _, batch in zip(range(5), first, strict=False)]
    loader = make(made, kind)
    loader.load_state_dict(json.loads(json.dumps(taken[-1].state)))
    data = DataLoader(TokenDataset(loader), batch_size=None, num_workers=after)
    # a state within a step is the step's start
    assert_same(kind, data, list(make(made, kind))[4:])
    assert loader.state_dict() == taken[-1].state


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workers", [0, 1, 4])
def test_stateful_dataloader_goes_on_with_as_many_workers(made: Path, kind: str, workers: int) -> None:
    first = StatefulDataLoader(TokenDataset(make(made, kind)), batch_size=None, num_workers=workers)
    taken = [batch for _, batch in zip(range(5), first, strict=False)]
    second = StatefulDataLoader(TokenDataset(make(made, kind)), batch_size=None, num_workers=workers)
    second.load_state_dict(first.state_dict())
    assert_same(kind, [*taken, *second], make(made, kind))


@pytest.mark.parametrize("kind", KINDS)
def test_what_workers_that_start_afresh_are_given(made: Path, kind: str) -> None:
    there = pickle.loads(pickle.dumps(TokenDataset(make(made, kind))))
    assert_same(kind, there, make(made, kind))


@pytest.mark.parametrize("kind", KINDS)
def test_a_workers_place_is_refused_by_another_number_of_workers_or_another_seed(made: Path, kind: str) -> None:
    state = iter(TokenDataset(make(made, kind))).state_dict()
    with pytest.raises(MismatchError, match="num_workers: got 1, expected 4"):
        iter(TokenDataset(make(made, kind))).load_state_dict({**state, "workers": 4})
    with pytest.raises(MismatchError, match=r"^state: seed"):
        iter(TokenDataset(make(made, kind, seed=6))).load_state_dict(state)


@pytest.mark.parametrize("kind", KINDS)
def test_where_an_iteration_began_it_stays_whatever_the_loader_does(made: Path, kind: str) -> None:
    loader = make(made, kind)
    data = iter(TokenDataset(loader))
    first = next(data)
    for _ in loader:
        pass
    assert_same(kind, [first, *data], make(made, kind))


@pytest.mark.parametrize("device", DEVICES)
def test_a_batch_of_each_loader_by_the_same_call(made: Path, device: str) -> None:
    tr.build_choices(write_lines(made / "choices.jsonl", HELLASWAG), made / "f", tokenizer="byte")
    loaders: dict[str, Any] = {kind: make(made, kind) for kind in KINDS}
    loaders["choices"] = tr.EvalLoader(tr.open_choices(made / "f"), batch_rows=9, seq_len=70)
    for kind, loader in loaders.items():
        for batch in loader:
            there = to_torch(batch, device)
            where = there.ids if kind == "pairs" else there.input_ids
            assert where.device.type == device
            assert_same(kind, [there.to("cpu", non_blocking=False)], [batch])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("packing", ["concat", "best_fit"])
def test_masked_targets_by_the_same_call(made: Path, packing: str, device: str) -> None:
    if not (made / "masked").exists():
        rows = [{"prompt": "a" * n, "completion": "b" * (n % 5 + 1)} for n in range(1, 20)]
        tr.sft(write_lines(made / "sft.jsonl", rows), made / "masked", template="plain", tokenizer="byte")
    corpus = tr.open_corpus(made / "masked")
    loader = tr.Loader(corpus, seq_len=48, global_batch=4, packing=packing, prefetch=0)
    for batch, (there, *_) in zip(loader, zip(DataLoader(TokenDataset(loader), batch_size=None)), strict=True):
        for tensors in (there, to_torch(batch, device)):
            assert 0 < tensors.num_targets == int((tensors.targets != IGNORE).sum()) < 4 * 48
            back = tensors.to("cpu", non_blocking=False)
            assert np.array_equal(back.input_ids.numpy(), batch.input_ids)
            assert np.array_equal(back.targets.numpy(), batch.targets)


def test_on_the_cpu_tensors_share_the_batchs_memory(made: Path) -> None:
    batch = pairs(made).batch(0)
    assert to_torch(batch).ids.data_ptr() == batch.ids.ctypes.data


def test_a_loss_takes_the_targets_of_pairs_as_they_are(made: Path) -> None:
    batch = pairs(made, global_batch=3, micro_batch=4, rank=0).batch(0)
    tensors = to_torch(batch)
    assert (tensors.targets != IGNORE).sum() == tensors.num_targets > 0
    logits = torch.zeros(*tensors.input_ids.shape, 257)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tensors.targets.flatten(), reduction="sum")
    assert torch.isclose(loss, tensors.num_targets * torch.log(torch.tensor(257.0)))


def test_what_is_no_batch_or_has_no_sequences_is_refused(made: Path) -> None:
    with pytest.raises(InputError, match="batch: got PairBatch with sequences, expected a batch of a loader"):
        next(iter(TokenDataset(make(made, "pairs"), sequences=True)))
    wrong: Any = pairs(made).batch(0).ids
    with pytest.raises(InputError, match="batch: got ndarray, expected a batch of a loader"):
        to_torch(wrong)
