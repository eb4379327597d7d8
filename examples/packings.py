"""What a way of filling rows costs and teaches: windows across documents, whole documents packed, documents padded.

    python -m examples.packings shakespeare.txt --separator blank-line

The same small model is trained three times at each row length, with as many cells a step: on windows of the river, in
which attention crosses documents; on best-fit rows, attention and positions inside documents; on one document a row,
padded. All are judged by the same thing: the loss of held-out documents, each on its own. At last the mistake that
every such project makes once: targets that equal the inputs. The loss falls to nothing, and nothing is learnt.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from examples.gpt import GPT, Shape
from examples.pretrain import VALIDATED, corpora, options, vocabulary
from examples.training import Run, begin, copied, mean_loss, train
from tokenriver import Corpus, Loader, validation
from tokenriver.batch import Batch

LENGTHS = (340, 1024)
CELLS = 4096
"""Cells of a step, whatever the length of its rows."""
SHOWN = 6
WAYS = (("concat", False), ("best_fit", True), ("document", True))
"""(packing, does attention stay inside documents?)"""


@dataclass(frozen=True, slots=True)
class Result:
    """One way, trained."""

    way: str
    seq_len: int
    run: Run
    held_out: list[float]
    """Loss of held-out documents before the first step and at some equal distances."""
    rate: float
    """Targets trained a second."""

    @property
    def padding(self) -> float:
        """Share of the cells that had no target."""
        cells = max(1, CELLS // self.seq_len) * self.seq_len * len(self.run.curve)
        return 1 - self.run.targets / cells


def compare(corpus: Corpus, held_out: Corpus, seq_len: int, steps: int) -> list[Result]:
    """Each way for so many steps."""
    return [one_way(corpus, held_out, seq_len, steps, way) for way in WAYS]


def copying(corpus: Corpus, held_out: Corpus, seq_len: int, steps: int) -> tuple[float, float]:
    """A model trained with targets equal to inputs: (its own loss at the end, its loss on held-out documents)."""
    model = GPT(Shape(vocabulary(corpus), seq_len))
    run = begin(model)
    copied(run, _loader(corpus, seq_len, "concat"), steps)
    return run.curve[-1], _judge(model, held_out)


def one_way(corpus: Corpus, held_out: Corpus, seq_len: int, steps: int, way: tuple[str, bool]) -> Result:
    """One of WAYS for so many steps."""
    packing, apart = way
    model = GPT(Shape(vocabulary(corpus), seq_len))
    run, seconds, judged = begin(model, documents_apart=apart), 0.0, [_judge(model, held_out)]
    for stop in range(1, SHOWN):
        begun = time.perf_counter()
        train(run, lambda rank, ranks: _loader(corpus, seq_len, packing), 1, steps * stop // 5 - len(run.curve))
        seconds += time.perf_counter() - begun
        judged.append(_judge(model, held_out))
    return Result(packing, seq_len, run, judged, run.targets / seconds)


def _loader(corpus: Corpus, seq_len: int, packing: str) -> Loader:
    rows = max(1, CELLS // seq_len)
    return Loader(corpus, seq_len=seq_len, global_batch=rows, packing=packing, epochs=None, seed=1, prefetch=0)


def _judge(model: GPT, held_out: Corpus) -> float:
    return mean_loss(model, _documents(held_out, model.shape.seq_len), documents_apart=True)


def _documents(held_out: Corpus, seq_len: int) -> Iterator[Batch]:
    """Held-out documents, one a row."""
    loader = validation(held_out, seq_len=seq_len, micro_batch=4, packing="document", prefetch=0)
    return (batch for batch, _ in zip(loader, range(VALIDATED), strict=False))


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__).parse_args(arguments)
    corpus, held_out = corpora(given.inputs, given.out, given.tokenizer, given.separator)
    print(
        f"{corpus.num_tokens:,} ids in {corpus.num_documents:,} documents, {CELLS:,} cells a step, {given.steps} steps"
    )
    for seq_len in LENGTHS:
        print(f"\nT = {seq_len:5}      targets   padding  targets/s   loss of held-out documents, step by step")
        for result in compare(corpus, held_out, seq_len, given.steps):
            curve = "  ".join(f"{loss:.3f}" for loss in result.held_out)
            print(f"  {result.way:10} {result.run.targets:11,}   {result.padding:6.1%}  {result.rate:9,.0f}   {curve}")
    own, real = copying(corpus, held_out, LENGTHS[0], given.steps)
    print(f"\ntargets equal to inputs: their own loss falls to {own:.3f}, that of held-out documents is {real:.3f}")


if __name__ == "__main__":
    main()
