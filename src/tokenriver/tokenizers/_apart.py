"""Texts that the two trainers split differently, given to the fast one so that its merges are those of the reference.

A letter that one library knows and the other does not yet (see `_risk`) ends a word in one of them. Around it the
reference splits the text, and the fast trainer gets each word as a text of its own. That does for all words but those
that it would split even so: such a word it gets in parts, and sees all its pairs but the ones across a seam. A pair is
merged only when no other is more frequent. So the counts of all pairs that ever lie across a seam are followed
through the merges, in every word that has them, and compared with what each merge joined at the least. Where they stay
below, the whole words have the same merges, one after the other.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tokenriver.tokenizers import _risk, _training
from tokenriver.types import Bools, Ids, Int64

MAX_WORD = 1000
"""Bytes of a word whose merges are followed."""
MAX_WORDS = 200_000
_STRETCH = 1 << 16
Pair = tuple[bytes, bytes]
State = tuple[int, int, list[bytes]]
"""The tokens of a word while the merges [start, stop) are chosen."""


class Unproven(Exception):
    """The merges may be others; never leaves this package."""


@dataclass(slots=True)
class Apart:
    """What the reference split."""

    texts: int = 0
    words: Counter[bytes] = field(default_factory=Counter)
    """Those that the fast trainer gets in parts."""

    def pieces(self, text: bytes, split: _training.Splitter) -> list[bytes]:
        """Texts that the fast trainer splits into the reference's words of this one, but for those put into `words`."""
        spots = _risk.find(text).tolist()
        pieces: list[bytes] = []
        done = 0
        different = False
        for start, stop in _risk.windows(text, spots):
            words = _training.words(text[start:stop])
            if split(text[start:stop]) == words:
                continue
            different = True
            pieces.append(text[done:start])
            for word in words:
                if len(split(word)) == 1:
                    pieces.append(word)
                else:
                    self.words[word] += 1
            done = stop
        self.texts += different
        return [piece for piece in [*pieces, text[done:]] if piece] if different else [text]


def prove(
    merges: Sequence[Pair], parts: Mapping[bytes, list[bytes]], counts: Mapping[bytes, int], seen: "Seen"
) -> None:
    """Unproven unless words in parts have the merges of the words whole. counts: of these and of all other words with
    the two bytes at a seam."""
    least = least_counts(merges, seen.ids)
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    if len(ranks) < len(merges):
        raise Unproven
    across: dict[Pair, list[tuple[int, int]]] = defaultdict(list)
    for word in parts:
        seams = _seams(parts[word])
        for start, stop, tokens in _states(parts[word], ranks):
            ends = np.cumsum([len(token) for token in tokens]).tolist()
            for i, end in enumerate(ends):
                if end in seams:
                    across[tokens[i], tokens[i + 1]].append((start, stop))
    changes: dict[Pair, Counter[int]] = defaultdict(Counter)
    for word, count in counts.items():
        for start, stop, tokens in _states(parts.get(word, [word]), ranks):
            for pair in pairwise(tokens):
                if pair in across:
                    changes[pair][start] += count
                    changes[pair][stop] -= count
    for pair, spans in across.items():
        _stays_below(changes[pair], spans, least)


def _stays_below(changes: Mapping[int, int], spans: Iterable[tuple[int, int]], least: Int64) -> None:
    """Unproven if a pair, while it lies across a seam, may be as frequent as the one that is merged."""
    steps = np.array(sorted(changes), dtype=np.int64)
    counts = np.cumsum([changes[int(step)] for step in steps])
    for start, stop in spans:
        if start < stop:
            first, last = np.searchsorted(steps, [start, stop - 1], side="right")
            ends = np.minimum(np.append(steps[1:], stop)[first - 1 : last], stop)
            if (counts[first - 1 : last] >= least[ends - 1]).any():
                raise Unproven


def byte_pairs(parts: Iterable[list[bytes]]) -> set[bytes]:
    """The two bytes at each seam."""
    return {left[-1:] + right[:1] for each in parts for left, right in pairwise(each)}


def _seams(parts: Sequence[bytes]) -> set[int]:
    return set(np.cumsum([len(part) for part in parts])[:-1].tolist())


def _states(parts: Sequence[bytes], ranks: Mapping[Pair, int]) -> Iterator[State]:
    """What becomes of a word that is merged in parts."""
    seams, time = _seams(parts), 0
    tokens = [bytes([byte]) for part in parts for byte in part]
    if len(tokens) > MAX_WORD:
        raise Unproven
    while True:
        found = list(_ranked(tokens, seams, ranks))
        step = min(found, default=len(ranks))
        if step < time:
            raise Unproven  # the pair came back: it was merged before one of its tokens was
        yield time, min(step + 1, len(ranks)), tokens
        if step == len(ranks):
            return
        tokens, time = _merge(tokens, seams, ranks, step), step + 1


def _ranked(tokens: Sequence[bytes], seams: set[int], ranks: Mapping[Pair, int]) -> Iterator[int]:
    end = 0
    for pair in pairwise(tokens):
        end += len(pair[0])
        if pair in ranks and end not in seams:
            yield ranks[pair]


def _merge(tokens: Sequence[bytes], seams: set[int], ranks: Mapping[Pair, int], step: int) -> list[bytes]:
    merged: list[bytes] = []
    end, before = 0, b""
    for token in tokens:
        if before and end not in seams and ranks.get((before, token)) == step:
            merged[-1] += token
            before = b""
        else:
            merged.append(token)
            before = token
        end += len(token)
    return merged


def least_counts(merges: Sequence[Pair], ids: Mapping[bytes, int]) -> Int64:
    """How often each merge was made at the least, in texts that are encoded to these counts of tokens: as often as its
    token is left, or went into a later one. The most frequent pair is never more frequent than the one before."""
    made = Counter(left + right for left, right in merges)
    last = {left + right: rank for rank, (left, right) in enumerate(merges)}
    used = Counter(ids)
    least = np.zeros(len(merges), dtype=np.int64)
    for rank in range(len(merges) - 1, -1, -1):
        left, right = merges[rank]
        if any(made[token] > 1 and rank < last[token] for token in (left, right)):
            raise Unproven  # encoding may then join what training did not
        if made[left + right] == 1:
            least[rank] = used[left + right]
            used[left] += used[left + right]
            used[right] += used[left + right]
    found: Int64 = np.maximum.accumulate(least[::-1])[::-1]
    return found


@dataclass(slots=True)
class Seen:
    """What one pass over texts finds."""

    ids: dict[bytes, int]
    """How often each token is left."""
    words: Counter[bytes]
    """Those that have certain two bytes, and possibly others."""


def survey(
    texts: Iterable[list[bytes]],
    pairs: set[bytes],
    encode: Callable[[list[bytes]], Ids],
    spelled: Sequence[bytes],
    split: _training.Splitter,
) -> Seen:
    """Encode texts (in batches) to ids, of which `spelled` has the bytes, and find the words that have any of `pairs`;
    Unproven if there are too many."""
    wanted = np.zeros(65536, dtype=np.bool_)
    wanted[[pair[0] << 8 | pair[1] for pair in pairs]] = True
    counts = np.zeros(len(spelled), dtype=np.int64)
    words: Counter[bytes] = Counter()
    for batch in texts:
        counts += np.bincount(encode(batch), minlength=len(spelled))[: len(spelled)]
        for text in batch:
            if text.isascii():  # one of the two bytes is of the letter
                continue
            for start, stop in _risk.windows(text, _spots(text, wanted).tolist()):
                words.update(word for word in split(text[start:stop]) if len(_spots(word, wanted)))
        if len(words) > MAX_WORDS:
            raise Unproven
    return Seen({spelled[i]: int(counts[i]) for i in np.flatnonzero(counts).tolist()}, words)


def _spots(text: bytes, wanted: Bools) -> Int64:
    """Where two bytes begin that are wanted."""
    data = np.frombuffer(text, dtype=np.uint8)
    stretches = range(0, len(data), _STRETCH)
    found = [_spots_of(data[start : start + _STRETCH + 1], wanted) + start for start in stretches]
    return np.concatenate(found) if len(found) > 1 else found[0]


def _spots_of(data: NDArray[np.uint8], wanted: Bools) -> Int64:
    return np.flatnonzero(wanted[data[:-1].astype(np.uint16) << 8 | data[1:]])
