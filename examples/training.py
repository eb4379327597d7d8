"""The training loop: all ranks of a step one after another in one process, as their sum would be on a cluster."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from examples.gpt import GPT, losses
from tokenriver import Batch, Loader
from tokenriver.adapters.torch import to_torch

LoadRank = Callable[[int, int], Loader]
"""(rank, world size) -> that rank's loader."""
BETAS, CLIP = (0.9, 0.95), 1.0


@dataclass(slots=True)
class Run:
    """A model, what it has learnt so far, and where its loaders stand."""

    model: GPT
    optimizer: torch.optim.Optimizer
    documents_apart: bool = False
    """Does attention stay inside documents?"""
    state: dict[str, Any] | None = None
    curve: list[float] = field(default_factory=list)
    """Mean loss of each step's targets."""
    targets: int = 0
    """Positions trained so far."""


def begin(model: GPT, *, rate: float = 3e-3, documents_apart: bool = False) -> Run:
    """A run that has taken no step."""
    return Run(model, torch.optim.AdamW(model.parameters(), lr=rate, betas=BETAS), documents_apart)


def train(run: Run, load: LoadRank, world_size: int, steps: int) -> None:
    """Take `steps` steps with so many ranks, from where the run stands. A step's gradient is that of the sum of all
    losses over all ranks, divided by all their targets: so it does not depend on how rows are dealt to ranks."""
    loaders = [load(rank, world_size) for rank in range(world_size)]
    for loader in loaders:
        if run.state is not None:
            loader.load_state_dict(run.state)
    streams = [iter(loader) for loader in loaders]
    for _ in range(steps):
        step = [next(stream) for stream in streams for _ in range(loaders[0].micros_per_step)]
        _take_step(run, step)
        run.state = step[-1].state


def copied(run: Run, loader: Loader, steps: int) -> None:
    """The mistake to know: train on targets that equal the inputs. Nothing has to be foretold, so nothing is learnt."""
    for batch, _ in zip(loader, range(steps), strict=False):
        ids = to_torch(batch).input_ids
        loss = losses(run.model(ids), ids).mean()
        run.optimizer.zero_grad()
        loss.backward()
        run.optimizer.step()
        run.curve.append(loss.item())
        run.targets += ids.numel()


def mean_loss(model: GPT, batches: Iterable[Batch], *, documents_apart: bool = False) -> float:
    """Mean loss over the targets of some batches."""
    total, count = 0.0, 0
    with torch.no_grad():
        for batch in batches:
            total += float(_sum(model, batch, documents_apart))
            count += batch.num_targets
    return total / count


def _take_step(run: Run, batches: Sequence[Batch]) -> None:
    count = sum(batch.num_targets for batch in batches)
    total = 0.0
    run.optimizer.zero_grad()
    for batch in batches:
        loss = _sum(run.model, batch, run.documents_apart)
        (loss / count).backward()
        total += loss.item()
    torch.nn.utils.clip_grad_norm_(run.model.parameters(), CLIP)
    run.optimizer.step()
    run.curve.append(total / count)
    run.targets += count


def _sum(model: GPT, batch: Batch, documents_apart: bool) -> torch.Tensor:
    tensors = to_torch(batch, sequences=documents_apart)
    return losses(model(tensors.input_ids, tensors.position_ids), tensors.targets).sum()
