"""How long a run will be: steps, epochs and hours, from what a corpus has and a rate that was measured.

A token here is a position of a row, with loss or without, as trainers count them for their rate: a step has
global_batch * seq_len of them. Rows, steps and epochs are those of the Loader with the same arguments.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tokenriver.corpus import Corpus
from tokenriver.errors import InputError, LimitError
from tokenriver.estimate import TextEstimate
from tokenriver.joining import JoinedPacking
from tokenriver.layout import lay_out, whole
from tokenriver.mixing import MixedSampler, Mixture
from tokenriver.types import Packing, River

LONG_HOURS = 48
"""A run that nobody limited and that takes longer is warned of."""
ENOUGH_STEPS = 50
"""Of a measured rate: the first steps compile, fill caches and wait for disks."""
FEW = "the first steps of a run are not like the others"


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """What a run takes from one source of a mixture, or from the one corpus."""

    name: str
    """"" for a corpus that is no mixture."""
    num_tokens: int
    rows_per_epoch: int
    rows: int
    """Rows of the run."""
    share: float
    """Of all rows of the run."""
    epochs: float
    """How often the source is served."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A run in numbers."""

    tokens_per_step: int
    """Positions of all ranks: global_batch * seq_len."""
    micro_batch: int
    """Rows of one array on one rank."""
    rows_per_epoch: int
    """Of a mixture that repeats its sources: all their rows."""
    steps_per_epoch: int
    padding_share: float
    """Of the positions of an epoch, those without a target."""
    steps: int
    tokens: int
    """Positions of the run: steps * tokens_per_step."""
    epochs: float
    hours: float
    read_bytes_per_second: float | None
    """What a disk must give all ranks together; None for a river that is no corpus."""
    sources: tuple[SourcePlan, ...]
    interval: Mapping[str, tuple[float, float]]
    """For text that was sampled: 95 % bounds of rows_per_epoch, steps_per_epoch, steps, epochs and hours."""
    warnings: tuple[str, ...]
    trained_share: float | None = None
    """Of the ids of a corpus with a loss mask, those that are trained: what else has a target has no loss."""

    def as_dict(self) -> dict[str, Any]:
        """What --json prints."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Run:
    """What was asked for."""

    seq_len: int
    global_batch: int
    rate: float
    ranks: tuple[int, int]
    """(world_size, grad_accum)"""
    limit: tuple[str, int] | None
    """("epochs" | "steps" | "token_budget", how many)."""
    rate_steps: int | None

    @property
    def tokens_per_step(self) -> int:
        return self.global_batch * self.seq_len

    @property
    def micro_batch(self) -> int:
        return _up(_up(self.global_batch, self.ranks[0]), self.ranks[1])

    def length(self, rows_per_epoch: int) -> tuple[int, int]:
        """(steps, rows) of the run."""
        name, number = self.limit or ("epochs", 1)
        if name == "epochs":
            rows = number * rows_per_epoch
            return _up(rows, self.global_batch), rows
        steps = number if name == "steps" else _up(number, self.tokens_per_step)
        return steps, steps * self.global_batch

    def hours(self, steps: int) -> float:
        return steps * self.tokens_per_step / self.rate / 3600


def _up(number: int, by: int) -> int:
    """A quotient, rounded up."""
    return -(-number // by)


def plan(
    corpus: River | Mixture | TextEstimate,
    *,
    seq_len: int,
    global_batch: int,
    tokens_per_second: float,
    world_size: int = 1,
    grad_accum: int = 1,
    packing: str = "concat",
    overflow: str = "split",
    epochs: int | None = None,
    steps: int | None = None,
    token_budget: int | None = None,
    rate_steps: int | None = None,
) -> Plan:
    """Plan a run over a corpus, a mixture, or text that was sampled by `estimate`.

    `tokens_per_second` is that of all ranks together, measured over `rate_steps` steps if that is given. The run is
    `epochs`, `steps` or `token_budget` positions (rounded up to a step) long; without one of them, one epoch. Raises
    InputError for options that make no sense, LimitError for too few rows, FormatError where a packing needs document
    bounds that are not there."""
    sizes = {"seq_len": seq_len, "global_batch": global_batch, "world_size": world_size, "grad_accum": grad_accum}
    limits = {"epochs": epochs, "steps": steps, "token_budget": token_budget}
    given = [(name, number) for name, number in limits.items() if number is not None]
    for name, number in [*sizes.items(), *given, ("rate_steps", 1 if rate_steps is None else rate_steps)]:
        whole(name, number, 1)
    if len(given) > 1:
        raise InputError(f"{' and '.join(name for name, _ in given)}: got both, expected one length of the run")
    if not (isinstance(tokens_per_second, int | float) and 0 < tokens_per_second < math.inf):
        raise InputError(f"tokens_per_second: got {tokens_per_second!r}, expected a number above 0, as measured")
    run = _Run(
        seq_len, global_batch, tokens_per_second, (world_size, grad_accum), given[0] if given else None, rate_steps
    )
    if isinstance(corpus, TextEstimate):
        if packing != "concat" or overflow != "split":
            raise InputError(f"packing: got {packing!r} for sampled text, expected 'concat'; build a corpus first")
        return _plan_text(corpus, run)
    return _plan(corpus, run, (packing, overflow))


def _plan(corpus: River | Mixture, run: _Run, packed: tuple[str, str]) -> Plan:
    options = {"overflow": packed[1], "phase_shift": False, "seed": 0}
    _, rows, sampler = lay_out(corpus, (packed[0], run.seq_len, options), "sequential", (run.global_batch, None, 1))
    if not sampler.num_rows and run.limit is None:
        raise InputError("steps: got a mixture that repeats its sources for ever and no length; give steps or tokens")
    if not sampler.num_rows and run.limit is not None and run.limit[0] == "epochs":
        raise InputError("epochs: got a mixture that repeats its sources for ever; give steps or token_budget")
    num_rows = sampler.num_rows or len(rows)
    steps, served = run.length(num_rows)
    if isinstance(corpus, Mixture) and isinstance(rows, JoinedPacking) and isinstance(sampler, MixedSampler):
        counts = _served(sampler, served)
        parts = list(zip(corpus.names, corpus.rivers, rows.packings, counts, strict=True))
    else:
        assert not isinstance(corpus, Mixture), "lay_out joins the packings of a mixture"
        parts = [("", corpus, rows, served)]
    hours = run.hours(steps)
    return Plan(
        run.tokens_per_step,
        run.micro_batch,
        num_rows,
        _up(num_rows, run.global_batch),
        1 - rows.num_targets / (len(rows) * run.seq_len),
        steps,
        steps * run.tokens_per_step,
        served / num_rows,
        hours,
        _read_rate(parts, hours),
        tuple(
            SourcePlan(name, river.num_tokens, len(packing), count, count / served, count / len(packing))
            for name, river, packing, count in parts
        ),
        {},
        _warnings(run, hours),
        _trained_share(corpus),
    )


def _trained_share(corpus: River | Mixture) -> float | None:
    if not isinstance(corpus, Corpus) or corpus.loss_mask is None:
        return None
    return corpus.loss_mask.count() / corpus.num_tokens


def _served(sampler: MixedSampler, rows: int) -> list[int]:
    """Rows of each source among the first `rows` of the run."""
    turns, rest = divmod(rows, sampler.num_rows) if sampler.num_rows else (0, rows)
    counts = sampler.served(rest)
    if turns:
        counts = counts + turns * sampler.served(sampler.num_rows)
    found: list[int] = counts.tolist()
    return found


def _read_rate(parts: list[tuple[str, River, Packing, int]], hours: float) -> float | None:
    """Bytes of ids a second over the run; padding is not read."""
    total = 0.0
    for _, river, packing, count in parts:
        if not isinstance(river, Corpus):
            return None
        ids = packing.seq_len + 1 if packing.windows else packing.balance["served"] / len(packing)
        total += count * ids * river.dtype.itemsize
    return total / (hours * 3600)


def _plan_text(text: TextEstimate, run: _Run) -> Plan:
    """The same for the ids that a sample tells of, between the bounds of its interval."""
    found = []
    for ids in (text.ids.mid, text.ids.low, text.ids.high):
        if text.ids.mid <= run.seq_len:
            raise LimitError(
                f"seq_len: got {run.seq_len}, and the text has about {round(ids)} ids, expected more; take a smaller "
                "seq_len or more text"
            )
        rows = max(1, (round(ids) - 1) // run.seq_len)
        steps, served = run.length(rows)
        found.append((rows, _up(rows, run.global_batch), steps, served / rows, run.hours(steps)))
    (rows, per_epoch, steps, epochs, hours), low, high = found
    names = ("rows_per_epoch", "steps_per_epoch", "steps", "epochs", "hours")
    interval = {name: (min(a, b), max(a, b)) for name, a, b in zip(names, low, high, strict=True)}
    served = run.length(rows)[1]
    reads = run.rate * (run.seq_len + 1) / run.seq_len * text.id_bytes
    source = SourcePlan("", round(text.ids.mid), rows, served, 1.0, epochs)
    tokens = steps * run.tokens_per_step
    return Plan(
        run.tokens_per_step,
        run.micro_batch,
        rows,
        per_epoch,
        0.0,
        steps,
        tokens,
        epochs,
        hours,
        reads,
        (source,),
        interval,
        _warnings(run, hours),
    )


def _warnings(run: _Run, hours: float) -> tuple[str, ...]:
    out = []
    if run.limit is None and hours > LONG_HOURS:
        out.append(
            f"no length was given, and one epoch takes {hours / 24:.1f} days; give steps, epochs or token_budget"
        )
    if run.rate_steps is not None and run.rate_steps < ENOUGH_STEPS:
        out.append(f"tokens_per_second: measured over {run.rate_steps} steps, expected at least {ENOUGH_STEPS}: {FEW}")
    world_size, grad_accum = run.ranks
    cells = _up(_up(run.global_batch, world_size), run.micro_batch) * run.micro_batch * world_size
    if cells != run.global_batch:
        out.append(
            f"global_batch: {run.global_batch} rows do not divide by {world_size} ranks x {grad_accum} micro-batches; "
            f"up to {cells - run.global_batch} of {cells} rows of a step are filler"
        )
    return tuple(out)
