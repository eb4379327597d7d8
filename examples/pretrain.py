"""Pretraining, stopped and gone on with another number of ranks: the loss of every step is the same.

    python -m examples.pretrain shakespeare.txt --separator blank-line

INPUT is anything that `tokenriver build` reads; the corpus is built beside the output, of bytes unless --tokenizer says
otherwise. Two runs of the same steps follow: one with one rank to the end; one that stops half way, forgets everything
but its weights and the last batch's state, and goes on with three ranks in smaller micro-batches.
"""

import argparse
import copy
from collections.abc import Sequence
from pathlib import Path

from examples.gpt import GPT, Shape
from examples.training import LoadRank, Run, begin, mean_loss, train
from tokenriver import Corpus, Loader, build, open_corpus, validation

GLOBAL_BATCH, SHOWN = 12, 10
RANKS, FEWER_ROWS = 3, 2
VALIDATED = 64


def loaders(corpus: Corpus, seq_len: int, *, packing: str = "concat", micro_batch: int | None = None) -> LoadRank:
    """The loaders of any number of ranks, all of the same global batches."""

    def load(rank: int, world_size: int) -> Loader:
        return Loader(
            corpus,
            seq_len=seq_len,
            global_batch=GLOBAL_BATCH,
            micro_batch=micro_batch,
            packing=packing,
            seed=1,
            rank=rank,
            world_size=world_size,
            epochs=None,
            prefetch=0,
        )

    return load


def straight(corpus: Corpus, shape: Shape, steps: int) -> Run:
    """All steps with one rank."""
    run = begin(GPT(shape))
    train(run, loaders(corpus, shape.seq_len), 1, steps)
    return run


def stopped(corpus: Corpus, shape: Shape, steps: int) -> Run:
    """The same steps, stopped half way and gone on with more ranks."""
    first = begin(GPT(shape))
    train(first, loaders(corpus, shape.seq_len), 1, steps // 2)
    # what a checkpoint holds: weights, the optimizer's, and the few integers of the data
    weights, moments, state = copy.deepcopy((first.model.state_dict(), first.optimizer.state_dict(), first.state))
    second = begin(GPT(shape, seed=1))
    second.model.load_state_dict(weights)
    second.optimizer.load_state_dict(moments)
    second.state, second.curve, second.targets = state, first.curve, first.targets
    train(second, loaders(corpus, shape.seq_len, micro_batch=FEWER_ROWS), RANKS, steps - steps // 2)
    return second


def validate(model: GPT, corpus: Corpus) -> float:
    """Mean loss over the first rows of the held-out documents, the same at each call."""
    loader = validation(corpus, seq_len=model.shape.seq_len, micro_batch=GLOBAL_BATCH, prefetch=0)
    return mean_loss(model, (batch for batch, _ in zip(loader, range(VALIDATED), strict=False)))


def corpora(inputs: Sequence[str], out: Path, tokenizer: str, separator: str | None) -> tuple[Corpus, Corpus]:
    """The corpus of the inputs and its held-out documents, built if it is not there."""
    build(inputs, out, tokenizer=tokenizer, separator=separator, val_fraction=0.05)
    return open_corpus(out), open_corpus(out, split="val")


def vocabulary(corpus: Corpus) -> int:
    """How many ids the model needs."""
    if corpus.tokenizer is None:
        raise SystemExit(f"{corpus}: its tokenizer is not known, so its vocabulary is not; build it again")
    return corpus.tokenizer.vocab_size


def options(text: str) -> argparse.ArgumentParser:
    """What all examples are given."""
    parser = argparse.ArgumentParser(description=text.partition("\n")[0])
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help="text, as tokenriver build takes it")
    parser.add_argument("-o", "--out", type=Path, default=Path("example-corpus"), help="the corpus that is built")
    parser.add_argument("--tokenizer", default="byte")
    parser.add_argument("--separator", help="of plain text: what parts its documents, such as blank-line")
    parser.add_argument("--steps", type=int, default=300)
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--seq-len", type=int, default=128)
    given = parser.parse_args(arguments)
    corpus, held_out = corpora(given.inputs, given.out, given.tokenizer, given.separator)
    shape = Shape(vocabulary(corpus), given.seq_len)
    print(f"{corpus.num_tokens:,} ids in {corpus.num_documents:,} documents; {shape}")
    print(f"held-out loss before: {validate(GPT(shape), held_out):.3f}")
    whole, parts = straight(corpus, shape, given.steps), stopped(corpus, shape, given.steps)
    print(f"\n step   1 rank   1 rank, from step {given.steps // 2} on {RANKS} ranks")
    for step in range(0, given.steps, max(1, given.steps // SHOWN)):
        print(f"{step:5}   {whole.curve[step]:.4f}   {parts.curve[step]:.4f}")
    apart = max(abs(a - b) for a, b in zip(whole.curve, parts.curve, strict=True))
    print(
        f"\nlargest difference of a step's loss: {apart:.1e}; targets trained: {whole.targets:,} and {parts.targets:,}"
    )
    print(f"held-out loss after: {validate(whole.model, held_out):.3f} and {validate(parts.model, held_out):.3f}")


if __name__ == "__main__":
    main()
