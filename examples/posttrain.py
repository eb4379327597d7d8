"""After pretraining: fine-tuning, then preferences, and multiple choice before and after each, on one small model.

    python -m examples.posttrain -o FOLDER

The data are made here: which of three digits is the smallest, the middle or the largest. FOLDER gets the records and
what tokenriver builds of them. The model has learnt nothing yet, so it begins near chance. Fine-tuning packs whole
conversations into rows, attention and positions inside each, loss on the answers alone; preferences are taught against
a frozen copy of the fine-tuned model. All that the table shows is of questions that were not trained on.
"""

import argparse
import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from examples.aligning import Judgement, align, judge, pair_loader
from examples.gpt import GPT, Shape, losses
from examples.pretrain import vocabulary
from examples.questions import Data, make
from examples.training import Run, begin, mean_loss, train
from tokenriver import ChoiceExamples, ChoiceScores, Corpus, EvalLoader, Loader, choice_accuracy, validation

SEQ_LEN, ROWS = 96, 8
CHOICE_LEN, CHOICE_ROWS = 64, 48
RATE = 5e-3


@dataclass(frozen=True, slots=True)
class Stage:
    """A model at one point, by what it was not trained on."""

    name: str
    loss: float
    """Mean loss of an id of an answer."""
    right: float
    """Share of the multiple-choice questions that it answers rightly."""
    pairs: Judgement


@dataclass(frozen=True, slots=True)
class Outcome:
    """Both trainings, and the model before, between and after them."""

    stages: list[Stage]
    fine_tuned: Run
    margins: list[float]
    """Of the pairs of each step of the second training."""
    reference: GPT
    """The model between both, as it stays."""


def post_train(data: Data, shape: Shape, steps: int, more: int) -> Outcome:
    """So many steps of fine-tuning, and so many more with pairs."""
    run = begin(GPT(shape), rate=RATE, documents_apart=True)
    untrained = frozen(run.model)
    train(run, lambda rank, ranks: answer_loader(data.answers, rank, ranks), 1, steps)
    reference = frozen(run.model)
    gained = align(run.model, reference, pair_loader(data.pairs), more)
    named = (("before", untrained), ("fine-tuned", reference), ("aligned", run.model))
    stages = [stage(name, model, reference, data) for name, model in named]
    return Outcome(stages, run, gained, reference)


def frozen(model: GPT) -> GPT:
    """A copy that no training changes."""
    other = copy.deepcopy(model)
    other.requires_grad_(False)
    return other


def answer_loader(corpus: Corpus, rank: int = 0, world_size: int = 1) -> Loader:
    """Rows of whole conversations; of their targets only the answers are not IGNORE."""
    return Loader(
        corpus,
        seq_len=SEQ_LEN,
        global_batch=ROWS,
        packing="best_fit",
        overflow="drop",
        seed=1,
        rank=rank,
        world_size=world_size,
        epochs=None,
        prefetch=0,
    )


def stage(name: str, model: GPT, reference: GPT, data: Data) -> Stage:
    """All that is shown of a model."""
    held_out = validation(
        data.held_out, seq_len=SEQ_LEN, micro_batch=ROWS, packing="best_fit", overflow="drop", prefetch=0
    )
    loss = mean_loss(model, held_out, documents_apart=True)
    return Stage(name, loss, accuracy(model, data.choices), judge(model, reference, data.judged))


def accuracy(model: GPT, examples: ChoiceExamples) -> float:
    """Share of the examples whose right choice is the most likely one."""
    loader = EvalLoader(examples, batch_rows=CHOICE_ROWS, seq_len=CHOICE_LEN)
    scores = ChoiceScores(loader)
    with torch.no_grad():
        for batch in loader:
            targets = torch.from_numpy(batch.targets)
            scores.add(batch, losses(model(torch.from_numpy(batch.input_ids)), targets).numpy())
    return float(choice_accuracy([scores.totals])["acc"])


def table(stages: Sequence[Stage], chance: float) -> str:
    """A line a figure, a column a model."""
    rows = [
        ("", [one.name for one in stages]),
        ("loss of an id of an answer", [f"{one.loss:.3f}" for one in stages]),
        (f"right choices (chance {chance:.0%})", [f"{one.right:.0%}" for one in stages]),
        ("chosen answer preferred (chance 50%)", [f"{one.pairs.preferred:.0%}" for one in stages]),
        ("margin against the fine-tuned model", [f"{one.pairs.margin:.2f}" for one in stages]),
    ]
    return "\n".join(f"{name:36}" + "".join(f"{cell:>12}" for cell in cells) for name, cells in rows)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-o", "--out", type=Path, default=Path("example-posttrain"), help="a folder for all data")
    parser.add_argument("--steps", type=int, default=120, help="of fine-tuning; half as many follow with pairs")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)  # for so small a model more of them only wait for each other
    data = make(given.out)
    shape, more = Shape(vocabulary(data.answers), SEQ_LEN, layers=2, width=32), max(1, given.steps // 2)
    print(
        f"{data.answers.num_documents:,} conversations, {pair_loader(data.pairs).num_pairs} pairs, {len(data.choices)} "
        f"questions of multiple choice; {given.steps} steps of fine-tuning, {more} with pairs"
    )
    done = post_train(data, shape, given.steps, more)
    print(f"loss, first and last step: {done.fine_tuned.curve[0]:.3f}, {done.fine_tuned.curve[-1]:.3f}")
    print(f"margin, first and last step: {done.margins[0]:.3f}, {done.margins[-1]:.3f}\n")
    print(table(done.stages, len(data.choices) / data.choices.num_choices))


if __name__ == "__main__":
    main()
