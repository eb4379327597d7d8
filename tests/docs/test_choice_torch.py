"""A model scored end to end, as docs/choice.md says, equals one example at a time without batching."""

import re
from pathlib import Path

import pytest
import torch

import tokenriver as tr
from choice_cases import HELLASWAG, MMLU, write_lines

pytestmark = pytest.mark.torch
TEXT = (Path(__file__).resolve().parents[2] / "docs" / "choice.md").read_text(encoding="utf-8")
VOCABULARY, WIDTH, LONGEST = 257, 16, 200


class Model:
    """Each logit depends on the mean of all ids up to it, and on their positions."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        sizes = ((VOCABULARY, WIDTH), (LONGEST, WIDTH), (WIDTH, VOCABULARY))
        self.ids, self.places, self.head = (torch.randn(size, generator=generator) for size in sizes)

    def __call__(self, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        seen = self.ids[ids] + self.places[positions]
        return torch.tanh(seen.cumsum(1) / (positions[..., None] + 1)) @ self.head


def one_by_one(model: Model, examples: tr.ChoiceExamples) -> dict[str, float]:
    """Shares of right choices, without a batch, a loader or a mask."""
    right = {"acc": 0, "acc_norm_tokens": 0, "acc_norm_bytes": 0}
    sizes = iter([] if examples.choice_bytes is None else examples.choice_bytes.tolist())
    for number in range(len(examples)):
        context, *choices = (piece.tolist() for piece in examples.pieces(number))
        weights: dict[str, list[float]] = {rule: [] for rule in right}
        for choice in choices:
            ids = torch.tensor([context + choice])
            logits = model(ids[:, :-1], torch.arange(ids.shape[1] - 1)[None])
            logs = torch.log_softmax(logits[0], -1)
            loss = -sum(logs[len(context) - 1 + at, target].item() for at, target in enumerate(choice))
            for rule, size in (("acc", 1), ("acc_norm_tokens", len(choice)), ("acc_norm_bytes", next(sizes))):
                weights[rule].append(loss / size)
        for rule, losses in weights.items():
            right[rule] += losses.index(min(losses)) == examples.labels[number]
    return {rule: count / len(examples) for rule, count in right.items()}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[Model, tr.ChoiceExamples, dict[str, float]]:
    folder = tmp_path_factory.mktemp("choice")
    plain = [{"context": f"item {n}", "choices": [f"{n * d}" for d in range(2, 5)], "label": n % 3} for n in range(20)]
    tr.build_choices(write_lines(folder / "in.jsonl", [*HELLASWAG, MMLU, *plain]), folder / "f", tokenizer="byte")
    examples, model = tr.open_choices(folder / "f"), Model(1)
    return model, examples, one_by_one(model, examples)


@pytest.mark.parametrize(("batch_rows", "world_size"), [(4, 1), (13, 1), (8, 3), (32, 2)])
def test_accuracy_is_that_of_one_example_at_a_time(
    batch_rows: int, world_size: int, expected: tuple[Model, tr.ChoiceExamples, dict[str, float]]
) -> None:
    model, examples, shares = expected
    (expression,) = re.findall(r"`torch\.nn\.functional\.(.*)`, then", TEXT)
    totals = []
    for rank in range(world_size):
        loader = tr.EvalLoader(examples, batch_rows=batch_rows, seq_len=LONGEST, rank=rank, world_size=world_size)
        scores = tr.ChoiceScores(loader)
        for batch in loader:
            inputs, targets, positions = map(torch.from_numpy, (batch.input_ids, batch.targets, batch.position_ids))
            names = {"logits": model(inputs, positions), "targets": targets}
            losses = eval(f"torch.nn.functional.{expression}", {"torch": torch}, names)
            scores.add(batch, losses.numpy())
        totals.append(scores.totals)
    found = tr.choice_accuracy(totals)
    assert {rule: found[rule] for rule in shares} == shares
    assert 0 < found["acc"] < 1
