"""A corpus of pairs in, batches of chosen and rejected rows out; both rows of a pair are always in one batch.

    loader = PairLoader(tr.open_corpus("pairs"), max_length=1024, global_batch=64, micro_batch=8, seed=1)
    for batch in loader:
        ...                                      # batch.chosen_ids, batch.rejected_ids: (8, L) int64, and masks
    loader.load_state_dict(batch.state)          # in another process, on any rank of any world size

A pair that is too long loses the beginning of its prompt, never a part of an answer; where an answer alone does not
fit, the pair is left out and counted.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenriver.corpus import Corpus
from tokenriver.errors import FormatError, InputError, LimitError, refuse_name
from tokenriver.paircorpus import ROWS
from tokenriver.roles import padding_id
from tokenriver.rounds import Round, Rounds, Sizes, rows_per_sample
from tokenriver.types import IGNORE, Bools, Int64

CUTS = ("prompt", "drop", "right")
PADS = ("batch", "max_length")
BLOCK_IDS = 1 << 20
"""Ids whose masks are looked at together."""


@dataclass(frozen=True, slots=True)
class PairBatch:
    """B pairs, both rows of each filled up on the right to one length L, at least 1."""

    ids: Int64
    """(2, B, L) int64: chosen, rejected."""
    mask: Bools
    """(2, B, L): is the id part of the answer, and trained?"""
    lengths: Int64
    """(2, B): ids of each row without its padding; 0 in filler."""
    sample_ids: Int64
    """(B,): which pair of the corpus, -1 for filler."""
    place: Round
    """Where in the run it is."""

    @property
    def chosen_ids(self) -> Int64:
        """(B, L) int64, a view, as the five that follow; masks are bool, lengths (B,)."""
        found: Int64 = self.ids[0]
        return found

    @property
    def rejected_ids(self) -> Int64:
        found: Int64 = self.ids[1]
        return found

    @property
    def chosen_mask(self) -> Bools:
        found: Bools = self.mask[0]
        return found

    @property
    def rejected_mask(self) -> Bools:
        found: Bools = self.mask[1]
        return found

    @property
    def chosen_lengths(self) -> Int64:
        found: Int64 = self.lengths[0]
        return found

    @property
    def rejected_lengths(self) -> Int64:
        found: Int64 = self.lengths[1]
        return found

    @property
    def input_ids(self) -> Int64:
        """(2 B, L - 1): line i is the chosen row of pair i, line B + i its rejected one, without the last id."""
        return self.ids.reshape(-1, self.ids.shape[2])[:, :-1]

    @property
    def targets(self) -> Int64:
        """(2 B, L - 1): the id that follows each of input_ids; IGNORE (-100) outside of answers."""
        shape = (-1, self.ids.shape[2])
        found: Int64 = np.where(self.mask.reshape(shape), self.ids.reshape(shape), IGNORE)[:, 1:]
        return found

    @property
    def num_targets(self) -> int:
        """Positions with loss."""
        return int(np.count_nonzero(self.mask[:, :, 1:]))

    @property
    def row_numbers(self) -> Int64:
        """(B,): the number of each pair in the run; both of its rows have it. -1 for filler."""
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


class PairLoader:
    """Iterating yields PairBatch after PairBatch; the order is that of `Loader`, pairs in the place of rows."""

    def __init__(
        self,
        corpus: Corpus,
        *,
        max_length: int,
        global_batch: int,
        micro_batch: int | None = None,
        cut: str = "prompt",
        pad: str = "batch",
        pad_id: int | None = None,
        order: str = "shuffled",
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        epochs: int | None = 1,
        prefetch: int = 2,
    ) -> None:
        """A step is global_batch pairs over world_size ranks. A row of more than max_length ids loses the beginning of
        its prompt (`cut` "prompt"), leaves its pair out ("drop"), or loses its end ("right": the HDF5 project's rule,
        which may lose the answer). `pad`: rows are filled up to the longest of their batch, or to max_length, with
        `pad_id` (None: the tokenizer's, else its end of text, else 0). `prefetch` batches are made ahead by a thread
        (0: none). InputError for a corpus of other samples, LimitError for too few pairs."""
        refuse_name("corpus", corpus, "what open_corpus makes of it")
        options = {} if corpus.manifest is None else corpus.manifest.options
        if rows_per_sample(options) != ROWS or corpus.manifest is None or corpus.loss_mask is None:
            raise InputError(f"{corpus.path}: got no corpus of pairs, expected one of `tokenriver preference`")
        for name, value, known in (("cut", cut, CUTS), ("pad", pad, PADS)):
            if value not in known:
                raise InputError(f"{name}: got {value!r}, expected one of {', '.join(known)}; choose one")
        if max_length < 2:
            raise InputError(f"max_length: got {max_length}, expected at least 2: an answer follows a prompt")
        self._pad_id = padding_id(corpus.manifest.tokenizer, pad_id)
        self._corpus, self._max_length, self._whole = corpus, max_length, pad == "max_length"
        self._rows = lay_pairs(corpus, max_length, cut)
        self.balance: Mapping[str, int] = self._rows.balance
        if not len(self._rows.pairs):
            raise LimitError(
                f"max_length: got {max_length}, which no pair fits into; the longest row that must stay "
                f"whole has {self._rows.needed} ids"
            )
        names = {"corpus": corpus.fingerprint, "packing": f"pairs T={max_length} {cut}"}
        sizes = Sizes(global_batch, micro_batch, rank, world_size, epochs, prefetch)
        self._rounds = Rounds(len(self._rows.pairs), names, (order, seed), sizes)

    @property
    def num_pairs(self) -> int:
        """N: pairs of one epoch, over all ranks."""
        return len(self._rows.pairs)

    @property
    def num_steps(self) -> int | None:
        """The step at which this run ends; None for an endless run."""
        return self._rounds.leg.num_steps

    @property
    def micros_per_step(self) -> int:
        """Micro-batches of a step, the same on all ranks."""
        return self._rounds.sizes.micros

    def __iter__(self) -> Iterator[PairBatch]:
        """Batches from where the loader stands to the end of the run; a loop over a run that has ended serves its
        length once more."""
        return self._rounds.loop(self._make)

    def batch(self, step: int, micro: int = 0) -> PairBatch:
        """A micro-batch of any step from the last state on; the loader does not move."""
        return self._make(self._rounds.leg.at(step, micro))

    def strided(self, first: int, stride: int, state: Mapping[str, Any] | None = None) -> Iterator[PairBatch]:
        """Every stride-th micro-batch, beginning with the first-th, from a state (None: the loader's own, the start of
        the unfinished step) to the run's end; the loader does not move."""
        return self._rounds.strided(self._make, first, stride, state)

    def state_dict(self) -> dict[str, Any]:
        """The state of the last batch given out: under 256 bytes as JSON, the same on all ranks."""
        return self._rounds.state()

    def load_state_dict(self, state: Mapping[str, Any], *, allow: Collection[str] = ()) -> None:
        """Stand where the state was taken, by any rank of any world size and batch size. MismatchError names what
        differs of corpus, order, packing (max_length and cut) and seed, unless `allow` has it."""
        self._rounds.load(state, allow)

    def _make(self, place: Round) -> PairBatch:
        rows, filled = self._rows, place.samples >= 0
        pairs = np.where(filled, rows.pairs[place.samples], -1)
        documents = (ROWS * pairs + np.arange(ROWS)[:, None]).ravel()
        lengths = np.where(documents >= 0, rows.sizes[documents], 0)
        starts = rows.starts[documents]
        width = self._max_length if self._whole else int(lengths.max(initial=1))
        ids = np.empty((len(documents), width), np.int64)
        runs = np.stack([np.where(lengths > 0, starts, -1), np.full_like(starts, -1)], 1).ravel()
        sizes = np.stack([lengths, width - lengths], 1).ravel()
        self._corpus.take(runs, sizes, ids)
        ids[np.arange(width) >= lengths[:, None]] = self._pad_id
        assert self._corpus.loss_mask is not None, "refused in the beginning"
        mask = self._corpus.loss_mask.cut(runs, sizes)(0, len(runs)).copy()
        shape = (ROWS, len(pairs))
        return PairBatch(ids.reshape(*shape, width), mask.reshape(*shape, width), lengths.reshape(shape), pairs, place)


@dataclass(frozen=True, slots=True)
class PairRows:
    """What of each document is served, and which pairs are."""

    starts: Int64
    """(2 N,) river position of the first id that is served."""
    sizes: Int64
    """(2 N,) ids that are served."""
    pairs: Int64
    """(n,) numbers of the pairs that are served, ascending."""
    balance: Mapping[str, int]
    needed: int
    """Ids of the shortest row that would let another pair in."""


def lay_pairs(corpus: Corpus, max_length: int, cut: str) -> PairRows:
    """Where the rows of all pairs lie when none is longer than max_length."""
    ends = corpus.doc_ends()
    if len(ends) % ROWS:
        raise FormatError(f"{corpus.path}: documents: got {len(ends)}, expected {ROWS} for each pair; make it anew")
    starts = np.append(0, ends[:-1])
    lengths = ends - starts
    sizes = np.minimum(lengths, max_length)
    least = _least(corpus, starts, ends, cut)
    fits: Bools = least.reshape(-1, ROWS).max(1) <= max_length
    kept = np.repeat(fits, ROWS)
    if cut == "prompt":
        starts = ends - sizes
    lost = (lengths - sizes)[kept]
    balance = {
        "pairs": len(fits),
        "served": int(np.count_nonzero(fits)),
        "too-long": int(np.count_nonzero(~fits)),
        "rows_cut": int(np.count_nonzero(lost)),
        "ids_cut": int(lost.sum()),
    }
    needed = int(least.reshape(-1, ROWS).max(1).min(initial=1 << 62)) if len(least) else 0
    return PairRows(starts, sizes, np.flatnonzero(fits), balance, needed)


def _least(corpus: Corpus, starts: Int64, ends: Int64, cut: str) -> Int64:
    """Ids that must stay of each document, (2 N,): the answer and the id before it, which predicts its first; all; or
    any."""
    if cut == "prompt":
        return ends - answer_starts(corpus, starts, ends) + 1
    return ends - starts if cut == "drop" else np.zeros_like(ends)


def answer_starts(corpus: Corpus, starts: Int64, ends: Int64) -> Int64:
    """Where the answer of each document begins: the last run of trained ids in it."""
    assert corpus.loss_mask is not None, "asked of corpora of pairs alone"
    found = np.empty_like(starts)
    first = 0
    while first < len(starts):
        last = max(first + 1, int(np.searchsorted(ends, starts[first] + BLOCK_IDS, "right")))
        begin, end = int(starts[first]), int(ends[last - 1])
        trained = np.concatenate(list(corpus.loss_mask.blocks(begin, end)))
        here, places = starts[first:last] - begin, np.arange(end - begin)
        final = np.maximum.reduceat(np.where(trained, places, -1), here)
        before = np.where(trained | (places > np.repeat(final, ends[first:last] - starts[first:last])), -1, places)
        found[first:last] = begin + np.maximum(np.maximum.reduceat(before, here) + 1, here)
        first = last
    return found
