"""Losses of choices -> which one a model prefers, by each rule, and counts that add up over ranks."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenriver.choiceloader import EvalBatch, EvalLoader
from tokenriver.errors import InputError, MismatchError
from tokenriver.types import Int64

Floats = NDArray[np.floating[Any]]
RULES = ("acc", "acc_norm_tokens", "acc_norm_bytes", "llmc")
"""The choice with the smallest: sum of losses; sum by ids; sum by UTF-8 bytes of its text; mean in float32, added up
from the left, as llm.c has it. The first one of equal choices."""


class ChoiceScores:
    """What a model made of the batches of one EvalLoader."""

    def __init__(self, loader: EvalLoader) -> None:
        self._loader = loader
        self._examples = examples = loader.examples
        known = examples.choice_bytes is not None
        self._rules = [rule for rule in RULES if known or rule != "acc_norm_bytes"]
        self._picked = {rule: np.full(len(examples), -1, np.int64) for rule in self._rules}

    def add(self, batch: EvalBatch, losses: Floats) -> None:
        """The losses of one batch, (B, T) of any float dtype: the cross entropy at each position, looked at only where
        `batch.loss_mask` is. InputError for another shape or dtype and for a loss that is not finite, with its example;
        MismatchError for an example that was added before."""
        values = np.asarray(losses)
        if values.shape != batch.targets.shape or values.dtype.kind != "f":
            raise InputError(
                f"losses: got {values.dtype} of shape {values.shape}, expected floats of shape {batch.targets.shape}"
            )
        mask = batch.loss_mask
        lost = mask & ~np.isfinite(values)
        if lost.any():
            line, column = np.argwhere(lost)[0].tolist()
            where = f"{self._examples.name(int(batch.example_ids[line]))}, choice {batch.choice_ids[line]}"
            raise InputError(
                f"losses: {where}: got {values[line, column]} at position {column}, expected a finite number"
            )
        used = batch.example_ids >= 0
        if used.any():
            self._pick(batch, np.where(mask, values, 0)[used], mask[used].sum(axis=1), used)

    def _pick(self, batch: EvalBatch, values: Floats, counts: Int64, used: NDArray[np.bool_]) -> None:
        owners, choices = batch.example_ids[used], batch.choice_ids[used]
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        examples = owners[starts]
        again = self._picked["acc"][examples] >= 0
        if again.any():
            name = self._examples.name(int(examples[again.argmax()]))
            raise MismatchError(f"{name}: got its losses twice, expected once; use a new ChoiceScores for another pass")
        sums = _from_the_left(values, np.float64)
        with np.errstate(over="ignore"):
            means = np.divide(_from_the_left(values, np.float32), counts, dtype=np.float32)
        by_rule: dict[str, Floats] = {"acc": sums, "acc_norm_tokens": sums / counts, "llmc": means}
        if self._examples.choice_bytes is not None:
            numbers = self._examples.choice_ends[owners] - self._examples.counts[owners] + choices
            by_rule["acc_norm_bytes"] = sums / self._examples.choice_bytes[numbers]
        for rule in self._rules:
            self._picked[rule][examples] = choices[_first_smallest(by_rule[rule], starts)]

    def picked(self, rule: str = "acc") -> Int64:
        """(N,) int64: the choice that the model prefers by a rule; -1 where this rank has seen no losses."""
        if rule not in self._picked:
            raise InputError(f"rule: got {rule!r}, expected one of {', '.join(self._picked)}")
        return self._picked[rule].copy()

    @property
    def totals(self) -> dict[str, int]:
        """Counts of this rank, to be added up over ranks key by key: `scored` and, by rule, how many of them are right.
        All `examples` and those that are `unscorable` are counted on rank 0."""
        first = self._loader.rank == 0
        scored = self._picked["acc"] >= 0
        right = {
            rule: int((picked[scored] == self._examples.labels[scored]).sum()) for rule, picked in self._picked.items()
        }
        return {
            "examples": len(self._examples) if first else 0,
            "unscorable": len(self._loader.unscorable) if first else 0,
            "scored": int(scored.sum()),
            **right,
        }


def choice_accuracy(totals: Iterable[Mapping[str, int]]) -> dict[str, Any]:
    """The totals of all ranks as shares of the scored examples: {"examples", "unscorable", "scored", and each rule of
    RULES that is known}. MismatchError unless every example is scored or unscorable."""
    added: Counter[str] = Counter()
    for one in totals:
        added.update(one)
    found, expected = added["scored"] + added["unscorable"], added["examples"]
    if found != expected or not added["scored"]:
        raise MismatchError(
            f"totals: got {added['scored']} scored and {added['unscorable']} unscorable examples, expected {expected} "
            "together; add every batch on every rank, and the totals of all ranks"
        )
    shares = {rule: added[rule] / added["scored"] for rule in RULES if rule in added}
    return {**{name: added[name] for name in ("examples", "unscorable", "scored")}, **shares}


def _from_the_left(values: Floats, dtype: type[np.floating[Any]]) -> Floats:
    """(rows,) the sum of each row, one value after another: numpy's own order depends on where a value stands, so the
    same losses in rows of another length would differ in their last bit."""
    sums: Floats = np.add.accumulate(values.astype(dtype), axis=1)[:, -1]
    return sums


def _first_smallest(values: Floats, starts: Int64) -> Int64:
    """Index of the first smallest value of each group; groups begin at `starts`."""
    sizes = np.diff(starts, append=len(values))
    smallest = np.flatnonzero(values == np.repeat(np.minimum.reduceat(values, starts), sizes))
    groups = np.repeat(np.arange(len(starts)), sizes)[smallest]
    found: Int64 = smallest[np.unique(groups, return_index=True)[1]]
    return found
