"""Preferences, by direct preference optimization: what a model would rather answer than the model that it was."""

from dataclasses import dataclass

import torch
from torch.nn import functional

from examples.gpt import GPT, losses
from examples.training import BETAS, CLIP
from tokenriver import Corpus, PairBatch, PairLoader

MAX_LENGTH = 64
PAIRS_A_STEP = 16
BETA, RATE = 0.5, 5e-4


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a model makes of some pairs."""

    margin: float
    """How much more the chosen answer has gained over the reference than the rejected one: a mean, in nats."""
    preferred: float
    """Share of the pairs whose chosen answer is the more likely one."""


def pair_loader(corpus: Corpus, *, order: str = "shuffled", epochs: int | None = None) -> PairLoader:
    """Batches of pairs; in file order and once for a judgement."""
    return PairLoader(
        corpus, max_length=MAX_LENGTH, global_batch=PAIRS_A_STEP, order=order, seed=1, epochs=epochs, cut="drop"
    )


def log_probs(model: GPT, batch: PairBatch) -> torch.Tensor:
    """(2, B): the log-probability of each answer, chosen and rejected, given its prompt; 0 for filler. Rows are filled
    up on the right, which nothing before it sees."""
    targets = torch.from_numpy(batch.targets)
    found = -losses(model(torch.from_numpy(batch.input_ids)), targets).sum(1)
    return found.view(2, -1)


def margins(now: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
    """(B,) of the log-probs (2, B) of a model and of its reference."""
    chosen, rejected = now - before
    return chosen - rejected


def align(model: GPT, reference: GPT, loader: PairLoader, steps: int) -> list[float]:
    """Take so many steps; the mean margin of each step's pairs before it is taken."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=BETAS)
    curve = []
    for batch, _ in zip(loader, range(steps), strict=False):
        filled = torch.from_numpy(batch.sample_ids >= 0)
        with torch.no_grad():
            before = log_probs(reference, batch)
        gained = margins(log_probs(model, batch), before)[filled]
        optimizer.zero_grad()
        (-functional.logsigmoid(BETA * gained).mean()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        curve.append(gained.mean().item())
    return curve


def judge(model: GPT, reference: GPT, corpus: Corpus) -> Judgement:
    """Every pair of a corpus once."""
    gained, preferred, count = 0.0, 0, 0
    with torch.no_grad():
        for batch in pair_loader(corpus, order="sequential", epochs=1):
            filled = torch.from_numpy(batch.sample_ids >= 0)
            now = log_probs(model, batch)[:, filled]
            gained += float(margins(now, log_probs(reference, batch)[:, filled]).sum())
            preferred += int((now[0] > now[1]).sum())
            count += int(filled.sum())
    return Judgement(gained / count, preferred / count)
