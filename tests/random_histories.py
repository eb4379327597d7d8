"""Runs drawn at random: corpora, packing, mixture, schedule, and what becomes of the machines that they are on."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from naive_loader import Mixed, Packing, Run, Text

NAMES = ("a", "bb", "c c", "ö")
ORDERS = ("shuffled", "shuffled", "sequential")
PERIODS = (16, 60, 128)
"""Rows over which quotas of a mixture are whole numbers."""


@dataclass(frozen=True)
class Pace:
    """The sizes of the steps from `step` on; micro: rows of a micro-batch, or None for a rank's share."""

    step: int
    global_batch: int
    seq_len: int
    micro: int | None


@dataclass
class Leg:
    """A stretch of the run on one set of machines."""

    world_size: int
    paces: list[Pace]
    epochs: int | None
    steps: int | None
    prefetch: int
    workers: int
    """Parts into which each rank's batches are divided; 0 for the loader's own loop."""
    repeat: int | None
    """The step whose rows are served at every step, while the run's stand still."""
    events: list[tuple[str, int]]
    """("serve" | "skip", steps), ("again", 0) for another loop, ("torn", micro-batches) of a step that is not ended."""


@dataclass
class History:
    """A run and what became of it; both limits None: it has no end."""

    run: Run
    fixed: list[Pace]
    """The paces up to the begin of the last length, whose sizes belong to the run."""
    epochs: int | None
    steps: int | None
    legs: list[Leg] = field(default_factory=list)


def draw_text(dice: random.Random) -> list[list[int]]:
    """Lengths of the documents of each shard: most of a few ids, some of one or none, some of a hundred."""
    longest, shards = dice.choice((1, 4, 10, 25)), []
    for _ in range(dice.choice((1, 1, 2, 3))):
        lengths = [
            dice.randint(1, longest),
            *(dice.choice((1, 2, dice.randint(0, longest))) for _ in range(dice.randrange(6))),
        ]
        if not dice.randrange(8):
            lengths.insert(dice.randrange(len(lengths) + 1), dice.randint(40, 100))
        shards.append(lengths)
    return shards


def draw_packing(dice: random.Random, longest: int) -> Packing:
    name = dice.choice(("concat", "concat", "sliding", "document", "best_fit", "best_fit", "bos_aligned", "minimind"))
    overflow, own = dice.choice(("split", "truncate", "drop")), {}
    if name == "sliding" and dice.randrange(3):
        own["stride"] = dice.randint(1, longest)
    if name == "best_fit" and dice.randrange(2):
        own["block_documents"] = dice.randint(1, 9)
    if name == "bos_aligned" and dice.randrange(3):
        own = {"buffer_documents": dice.randint(1, 6), "fetch_documents": dice.randint(1, 5)}
    cuts = name not in ("document", "best_fit")
    return Packing(name, "split" if cuts else overflow, name == "concat" and dice.random() < 0.5, tuple(own.items()))


def draw_mixed(dice: random.Random, sources: int, one_length: bool) -> Mixed:
    exhausted = dice.choice(("repeat", "repeat", "stop", "renormalise"))
    firsts = [0]
    if exhausted == "repeat" and one_length and dice.randrange(2):
        firsts += sorted(dice.sample(range(1, 60), dice.randint(1, 3)))
    weights = (1, 2, 0.3, 0.5, 7, 1e-3 if not dice.randrange(30) else 3)
    stages = tuple((first, tuple(dice.choice(weights) for _ in range(sources))) for first in firsts)
    return Mixed(stages, dice.choice(("tokens", "rows", "documents")), exhausted, dice.choice(PERIODS))


def draw_run(dice: random.Random, pool: Sequence[Text]) -> Run:
    """A run of one length, or of some: from which rows on is decided by draw_lengths."""
    run = _draw_run(dice, pool)
    while run.impossible and dice.randrange(8):
        run = _draw_run(dice, pool)
    return run


def _draw_run(dice: random.Random, pool: Sequence[Text]) -> Run:
    count = dice.choice((0, 0, 1, 2, 2, 3, 4))
    texts = dice.sample(pool, count or 1)
    sources = dict(zip(NAMES, texts, strict=False)) if count else {"": texts[0]}
    several = dice.random() < 0.5
    longest = dice.choice((4, 6, 8, 12)) if several else dice.choice((1, 2, 3, 4, 5, 7, 9, 12))
    mixed = draw_mixed(dice, count, not several) if count else None
    packing = draw_packing(dice, longest)
    if several and (packing.name == "concat" or mixed is None or mixed.exhausted != "repeat"):
        lengths = [n for n in range(2, longest + 1) if longest % n == 0 and n >= _least(packing)]
    else:
        lengths = [max(longest, _least(packing))]
    chosen = [dice.choice(lengths) for _ in range(dice.randint(1, 3))] if len(lengths) > 1 else []
    # the row numbers at which they begin are drawn with the steps
    return Run(
        sources, packing, dice.choice(ORDERS), dice.randrange(4), mixed, [(0, n) for n in [*chosen, lengths[-1]]]
    )


def _least(packing: Packing) -> int:
    return 2 if packing.name == "minimind" else dict(packing.own).get("stride", 1)


def split(dice: random.Random, rows: int, largest: int) -> list[int]:
    """Step sizes that sum to so many rows, in runs of equal ones."""
    sizes: list[int] = []
    while rows:
        size = dice.randint(1, min(rows, largest))
        count = dice.randint(1, min(3, rows // size))
        sizes += [size] * count
        rows -= size * count
    return sizes


def draw_lengths(dice: random.Random, run: Run) -> list[Pace]:
    """The paces of a run up to the begin of its last length, and the run's lengths by row number."""
    chosen = [seq_len for _, seq_len in run.lengths]
    dice.shuffle(chosen)
    chosen = [seq_len for seq_len, before in zip(chosen, [0, *chosen], strict=False) if seq_len != before]
    longest, steps = max(chosen), [(0, 0)]
    rows = []
    for seq_len in chosen[:-1]:
        parts, epoch = longest // seq_len, run.epoch(longest if run.cuts else seq_len)
        unit, most = (parts, epoch * parts) if run.cuts else (epoch, epoch)
        sizes = split(dice, unit * dice.randint(1, max(1, 20 // unit)), min(most, dice.choice((3, 9, 30))))
        steps += [(seq_len, size) for size in sizes]
        rows.append(sum(sizes))
    run.lengths = list(zip(accumulate(rows, initial=0), chosen, strict=True))
    steps = steps[1:]
    return [
        Pace(step, size, seq_len, None)
        for step, (seq_len, size) in enumerate(steps)
        if not step or steps[step - 1] != (seq_len, size)
    ] + [Pace(len(steps), 0, chosen[-1], None)]


def draw_history(dice: random.Random, run: Run) -> History:
    """How a run goes: legs are drawn one after another."""
    fixed, kind = draw_lengths(dice, run), dice.choice(("steps", "endless", "epochs", "epochs", "epochs"))
    if kind == "steps" or (run.repeats and kind == "epochs"):
        return History(run, fixed, None, dice.randint(1, fixed[-1].step + 8))
    if kind == "endless":
        return History(run, fixed, None, None)
    epochs = dice.randint(1, 3 if run.end(1) < 30 else 1)
    while len(run.rows(epochs)) <= run.lengths[-1][0]:
        epochs += 1
    return History(run, fixed, epochs, None)


def draw_leg(dice: random.Random, history: History, step: int, last: bool) -> Leg:
    """The next leg, from a step on."""
    if len(history.run.lengths) == 1 and not dice.randrange(4):
        # a run may be made longer
        history.epochs = history.epochs and history.epochs + 1
        history.steps = history.steps and history.steps + dice.randint(1, 5)
    endless = history.epochs is None and history.steps is None
    events = draw_events(dice, (dice.randint(2, 5) if endless else 1 << 30) if last else dice.randint(0, 3))
    if not last and dice.randrange(2):
        events.append(("torn", dice.randint(1, 3)))
    world_size = dice.choice((1, 1, 1, 1, 2, 2, 3, 5))
    leg = Leg(
        world_size,
        draw_paces(dice, history, (step, last), world_size),
        history.epochs,
        history.steps,
        dice.randint(1, 3) if not dice.randrange(12) else 0,
        dice.choice((0, 0, 0, 0, 0, 0, 1, 3)),
        None,
        events,
    )
    if len(history.run.lengths) == 1 and not last and not dice.randrange(8):
        more = dice.randint(1, 4)
        history.steps = history.steps and history.steps + more
        leg = replace(leg, paces=leg.paces[:1], epochs=None, steps=step + more, repeat=dice.randint(0, 5))
    history.legs.append(leg)
    return leg


def draw_events(dice: random.Random, steps: int) -> list[tuple[str, int]]:
    """What becomes of a leg; in the end it serves so many steps."""
    events: list[tuple[str, int]] = []
    for _ in range(dice.randint(0, 3)):
        kind = dice.choice(("serve", "serve", "skip", "torn", "again"))
        if kind == "torn":
            # what was begun is passed over, or begun again
            events += [(kind, dice.randint(1, 3)), ("skip", dice.randint(0, 2))]
        else:
            events.append((kind, dice.randint(0, 3)))
    return [*events, ("serve", steps)]


def draw_paces(dice: random.Random, history: History, place: tuple[int, bool], world_size: int) -> list[Pace]:
    """The paces of a leg: batch sizes are its own where those of the run leave it free, a last leg's are large."""
    run, fixed, (step, last) = history.run, history.fixed, place
    begin, seq_len = fixed[-1].step, fixed[-1].seq_len
    most = run.epoch(run.longest) * (run.longest // seq_len) if run.cuts else run.epoch(seq_len)
    if run.repeats and len(run.lengths) == 1:
        most *= dice.choice((1, 2))  # an epoch of such a run is no bound
    if history.epochs is None:
        most = min(most, 40)
    paces, micros = list[Pace](), dice.choice((0, 0, 1, 2, 3, 4))
    sizes = [dice.randint(1 + most // 4 if last else 1, most) for _ in range(dice.choice((1, 1, 2, 3)))]
    later = accumulate((dice.randint(1, 4) for _ in sizes[1:]), initial=max(begin, step))
    free = [Pace(at, size, seq_len, None) for at, size in zip([begin, *list(later)[1:]], sizes, strict=True)]
    for pace in [*fixed[:-1], *free]:
        if paces and not dice.randrange(3):
            micros = dice.randint(1, 4)
        share = -(-pace.global_batch // world_size)
        paces.append(replace(pace, micro=-(-share // micros) if micros else None))
    return paces
