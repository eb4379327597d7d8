"""Prompts with gold answers in, batches of them out, ready for a model to answer: exactly once over ranks and resumes.

    chat = tr.load_chat("chatml", tokenizer)
    loader = PromptLoader("prompts.jsonl", chat, global_batch=64, micro_batch=8, max_length=512, seed=1)
    for batch in loader:
        ...                       # batch.input_ids: (8, L) int64, filled up on the left; batch.gold: (8,) float64

A prompt is rendered by the chat template with what opens the answer. One that is too long is left out and counted, or
refused; none is ever cut.
"""

import hashlib
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenriver.chat import Chat
from tokenriver.digests import sha256_file
from tokenriver.errors import InputError, LimitError
from tokenriver.examplefile import Tally, each_record, find_records
from tokenriver.limits import BadRows
from tokenriver.messages import Message
from tokenriver.roles import padding_id
from tokenriver.rounds import Round, Rounds, Sizes
from tokenriver.types import Bools, Int64

TOO_LONG = ("drop", "fail")
Floats = NDArray[np.float64]


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
    """(B,) the texts; empty for filler."""
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
        before every prompt as the system's message. Prompts of more than max_length ids are left out (`dropped` counts
        them), or refused with `too_long` "fail". `pad_id` None: the tokenizer's, else its end of text, else 0.
        `prefetch` batches are made ahead by a thread (0: none). InputError for a file of another kind, LimitError for
        too few prompts."""
        if too_long not in TOO_LONG:
            raise InputError(f"too_long: got {too_long!r}, expected one of {', '.join(TOO_LONG)}; choose one")
        self._pad_id = padding_id(chat.tokenizer, pad_id)
        self._prompts = _read(Path(path))
        before = [] if system is None else [Message("system", system)]
        talks = [chat.render([*before, Message("user", text)], generate=True) for text in self._prompts.texts]
        encoded = chat.encode(talks)
        self._ids, self._lengths = encoded.ids, encoded.lengths
        self._starts: Int64 = np.cumsum(encoded.lengths) - encoded.lengths
        fits = encoded.lengths <= (max_length or np.iinfo(np.int64).max)
        if too_long == "fail" and not fits.all():
            at = int(np.flatnonzero(~fits)[0])
            raise LimitError(
                f"{path}: prompt {at}: got {int(encoded.lengths[at])} ids, expected at most {max_length}; "
                "raise max_length, or drop what is too long"
            )
        self._kept = np.flatnonzero(fits)
        self.dropped: int = int(np.count_nonzero(~fits))
        """Prompts that are too long."""
        if not len(self._kept):
            raise LimitError(f"max_length: got {max_length}, which no prompt of {path} fits into; raise it")
        content = "\0".join((self._prompts.sha256, chat.fingerprint, repr(system)))
        names = {"corpus": hashlib.sha256(content.encode()).hexdigest(), "packing": f"prompts T={max_length}"}
        sizes = Sizes(global_batch, micro_batch, rank, world_size, epochs, prefetch)
        self._rounds = Rounds(len(self._kept), names, (order, seed), sizes)

    @property
    def num_prompts(self) -> int:
        """N: prompts of one epoch, over all ranks."""
        return len(self._kept)

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
        differs of corpus (file, template, tokenizer), order, packing (max_length) and seed, unless `allow` has it."""
        self._rounds.load(state, allow)

    def _make(self, place: Round) -> PromptBatch:
        samples = np.where(place.samples >= 0, self._kept[place.samples], -1)
        lengths = np.where(samples >= 0, self._lengths[samples], 0)
        width = int(lengths.max(initial=1))
        ids = np.full((len(samples), width), self._pad_id, np.int64)
        mask = np.arange(width) >= (width - lengths)[:, None]
        places = self._starts[samples][:, None] + np.arange(width) - (width - lengths)[:, None]
        ids[mask] = self._ids[places[mask]]
        gold = np.where(samples >= 0, self._prompts.gold[samples], math.nan)
        texts = [self._prompts.texts[sample] if sample >= 0 else "" for sample in samples.tolist()]
        return PromptBatch(ids, mask, lengths, gold, texts, samples, place)


@dataclass(frozen=True, slots=True)
class _Prompts:
    """The rows of a file."""

    texts: list[str]
    gold: Floats
    sha256: str


def _read(path: Path) -> _Prompts:
    """All prompts of a file, each row of which must be one."""
    texts: list[str] = []
    gold: list[Any] = []
    files = find_records(path)
    for file, line, record in each_record(files, Tally(BadRows(on_bad="fail"))):
        text, answer = record.get("prompt"), record.get("gold")
        number = isinstance(answer, float | int) and not isinstance(answer, bool) and math.isfinite(answer)
        if not isinstance(text, str) or not number:
            raise InputError(f"{file.path}: line {line}: got no prompt with a gold number; make the file anew")
        texts.append(text)
        gold.append(answer)
    if not texts:
        raise InputError(f"{path}: got no prompt, expected some; make the file anew")
    return _Prompts(texts, np.array(gold, np.float64), sha256_file(path))
