"""Pieces with scores -> merges with ranks: SentencePiece's BPE in the terms of every other.

SentencePiece merges the adjacent pair whose joined text has the highest score, of equal ones the leftmost; other
engines merge the pair of the lowest rank. A text may be joined from several pairs, so ranks by score alone would not
say which. But only one of them ever is: while a stretch of text becomes one piece, no merge crosses its ends (what
crossed could not be parted again), so the merges inside it are those of the stretch alone, in the same order. Each
piece is thus made by one pair, the one that encoding the piece by itself ends with, or never. Ranked by score, where no
two scores are equal, these pairs make SentencePiece's merges step by step.
"""

from collections.abc import Mapping
from itertools import pairwise
from math import inf

LONGEST = 256
WORST = -inf


def is_sure(scores: Mapping[str, float]) -> bool:
    """Has every piece of two characters or more a score of its own, and is each of its characters a piece? Otherwise
    ranks could not say what scores say. A very long piece, which nobody trains, would cost its length squared."""
    made = [text for text in scores if len(text) > 1]
    if max(map(len, made), default=0) > LONGEST:
        return False
    return len({scores[text] for text in made}) == len(made) and set("".join(made)) <= scores.keys()


def merges(scores: Mapping[str, float]) -> list[tuple[str, str]]:
    """The pair that makes each piece of two characters or more that is ever made, best first."""
    found = [(-score, pair) for text, score in scores.items() if len(text) > 1 and (pair := _last_pair(text, scores))]
    return [pair for _, pair in sorted(found)]


def _last_pair(text: str, scores: Mapping[str, float]) -> tuple[str, str] | None:
    """The two symbols that are left when a piece's own text is encoded, before the last merge; None if more are."""
    symbols = list(text)
    while len(symbols) > 2:
        found = [scores.get(left + right, WORST) for left, right in pairwise(symbols)]
        best = max(found)
        if best == WORST:
            return None
        at = found.index(best)
        symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
    return symbols[0], symbols[1]
