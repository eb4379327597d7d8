"""Prompts with gold answers in, batches of them out, ready for a model to answer: exactly once over ranks and resumes.

    chat = tr.load_chat("chatml", tokenizer)
    loader = PromptLoader("prompts.jsonl", chat, global_batch=64, micro_batch=8, max_length=512, seed=1)
    for batch in loader:
        ...                       # batch.input_ids: (8, L) int64, filled up on the left; batch.gold: (8,) float64

A prompt is rendered by the chat template with what opens the answer. One that is too long is left out and counted,
refused, or loses the beginning or the end of its text, as it is asked for.
"""

import hashlib
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tokenriver.chat import Chat
from tokenriver.prompts import CUTS, Asking, Floats, read_prompts
from tokenriver.roles import padding_id
from tokenriver.rounds import Round, Rounds, Sizes
from tokenriver.types import Bools, Int64


@dataclass(frozen=True, slots=True)
class PromptBatch:
    """B prompts, filled up on the left to the length L of the longest, at least 1."""

    input_ids: Int64
    """(B, L) int64; pad_id in front of each prompt and all over filler."""
    attention_mask: Bools
    """(B, L): is the id part of the prompt?"""
    lengths: Int64
    """(B,) ids of each prompt; 0 for filler."""
    gold: Floats
    """(B,) the gold answers; NaN for filler."""
    prompts: list[str]
    """(B,) the texts as they are shown; empty for filler."""
    sample_ids: Int64
    """(B,) which row of the file, from 0, however many are left out; -1 for filler."""
    place: Round
    """Where in the run it is."""

    @property
    def rows(self) -> list[Int64]:
        """The ids of each prompt without padding, views of input_ids."""
        return [row[len(row) - size :] for row, size in zip(self.input_ids, self.lengths.tolist(), strict=True)]

    @property
    def row_numbers(self) -> Int64:
        """(B,) the number of each prompt in the run, -1 for filler."""
        return self.place.row_numbers

    @property
    def step(self) -> int:
        return self.place.step

    @property
    def micro(self) -> int:
        """Which micro-batch of its step it is, from 0."""
        return self.place.micro

    @property
    def state(self) -> dict[str, Any]:
        """The run's state after this micro-batch, the step's start until it is the last one."""
        return self.place.state


class PromptLoader:
    """Iterating yields PromptBatch after PromptBatch; the order is that of `Loader`, prompts in the place of rows."""

    def __init__(
        self,
        path: str | Path,
        chat: Chat,
        *,
        global_batch: int,
        micro_batch: int | None = None,
        max_length: int | None = None,
        too_long: str = "drop",
        system: str | None = None,
        pad_id: int | None = None,
        order: str = "shuffled",
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        epochs: int | None = 1,
        prefetch: int = 2,
    ) -> None:
        """A step is global_batch prompts over world_size ranks. `path` is a file of `rl_prompts`; `system` stands
        before every prompt as the system's message. Prompts of more than max_length ids are left out (`too_long`
        "drop"), refused ("fail"), or lose as few characters as need be at the beginning ("cut_left") or the end
        ("cut_right") of their own text, never of what the template puts around it; those of which not even that fits
        are left out. `balance` counts all of them. `pad_id` None: the tokenizer's, else its end of text, else 0.
        `prefetch` batches are made ahead by a thread (0: none). InputError for a file of another kind, LimitError for
        too few prompts."""
        self._pad_id = padding_id(chat.tokenizer, pad_id)
        self._prompts = read_prompts(Path(path), Asking(chat, system, max_length, too_long))
        self.balance: Mapping[str, int] = self._prompts.balance
        """prompts = served + too-long; prompts_cut of those served, and the ids_cut that these lost."""
        self.dropped: int = self.balance["too-long"]
        """Prompts that are too long."""
        content = "\0".join((self._prompts.sha256, chat.fingerprint, repr(system)))
        rule = f" {too_long}" if too_long in CUTS else ""
        names = {"corpus": hashlib.sha256(content.encode()).hexdigest(), "packing": f"prompts T={max_length}{rule}"}
        sizes = Sizes(global_batch, micro_batch, rank, world_size, epochs, prefetch)
        self._rounds = Rounds(len(self._prompts.served), names, (order, seed), sizes)

    @property
    def num_prompts(self) -> int:
        """N: prompts of one epoch, over all ranks."""
        return len(self._prompts.served)

    @property
    def num_steps(self) -> int | None:
        """The step at which this run ends; None for an endless run."""
        return self._rounds.leg.num_steps

    @property
    def micros_per_step(self) -> int:
        """Micro-batches of a step, the same on all ranks."""
        return self._rounds.sizes.micros

    def __iter__(self) -> Iterator[PromptBatch]:
        """Batches from where the loader stands to the end of the run; a loop over a run that has ended serves its
        length once more."""
        return self._rounds.loop(self._make)

    def batch(self, step: int, micro: int = 0) -> PromptBatch:
        """A micro-batch of any step from the last state on; the loader does not move."""
        return self._make(self._rounds.leg.at(step, micro))

    def strided(self, first: int, stride: int, state: Mapping[str, Any] | None = None) -> Iterator[PromptBatch]:
        """Every stride-th micro-batch, beginning with the first-th, from a state (None: the loader's own, the start of
        the unfinished step) to the run's end; the loader does not move."""
        return self._rounds.strided(self._make, first, stride, state)

    def state_dict(self) -> dict[str, Any]:
        """The state of the last batch given out: under 256 bytes as JSON, the same on all ranks."""
        return self._rounds.state()

    def load_state_dict(self, state: Mapping[str, Any], *, allow: Collection[str] = ()) -> None:
        """Stand where the state was taken, by any rank of any world size and batch size. MismatchError names what
        differs of corpus (file, template, tokenizer), order, packing (max_length, cuts) and seed, unless `allow` has
        it."""
        self._rounds.load(state, allow)

    def _make(self, place: Round) -> PromptBatch:
        known = self._prompts
        samples = np.where(place.samples >= 0, known.served[place.samples], -1)
        lengths = np.where(samples >= 0, known.lengths[samples], 0)
        width = int(lengths.max(initial=1))
        ids = np.full((len(samples), width), self._pad_id, np.int64)
        mask = np.arange(width) >= (width - lengths)[:, None]
        places = known.starts[samples][:, None] + np.arange(width) - (width - lengths)[:, None]
        ids[mask] = known.ids[places[mask]]
        gold = np.where(samples >= 0, known.gold[samples], math.nan)
        texts = [known.texts[sample] if sample >= 0 else "" for sample in samples.tolist()]
        return PromptBatch(ids, mask, lengths, gold, texts, samples, place)
