"""The prompts of a file as ids: rendered by a chat template with what opens the answer, none longer than a limit.

A prompt that is too long is left out, refused, or loses characters at one end of its own text. What the template puts
around that stays whole, and ids are those of the shorter text: nothing is cut inside of a character or a token.
"""

import math
from collections.abc import Mapping, Sequence
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
from tokenriver.types import Ids, Int64, TokenBatch

CUTS = ("cut_left", "cut_right")
TOO_LONG = ("drop", "fail", *CUTS)
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Prompts:
    """N prompts of a file, of which n are served."""

    texts: Sequence[str]
    """(N,) each as it is served, if it is."""
    gold: Floats
    """(N,)"""
    ids: Ids
    starts: Int64
    """(N,) where each begins in ids."""
    lengths: Int64
    """(N,)"""
    served: Int64
    """(n,) which of them, ascending."""
    balance: Mapping[str, int]
    """prompts = served + too-long; prompts_cut of those served, and the ids_cut that these lost."""
    sha256: str
    """Of the file."""


@dataclass(frozen=True, slots=True)
class Asking:
    """How a prompt is asked: rendered by what, and how long it may be."""

    chat: Chat
    system: str | None
    max_length: int | None
    too_long: str

    def check(self) -> None:
        """InputError for a rule or a length that makes no sense."""
        if self.too_long not in TOO_LONG:
            raise InputError(f"too_long: got {self.too_long!r}, expected one of {', '.join(TOO_LONG)}; choose one")
        if self.max_length is not None and self.max_length < 1:
            raise InputError(
                f"max_length: got {self.max_length}, expected at least 1; give more, or None for prompts of any length"
            )

    @property
    def most(self) -> int:
        """Ids of the longest prompt that may be."""
        return np.iinfo(np.int64).max if self.max_length is None else self.max_length

    def encode(self, texts: Sequence[str]) -> TokenBatch:
        """The ids of prompts."""
        before = [] if self.system is None else [Message("system", self.system)]
        return self.chat.encode([self.chat.render([*before, Message("user", text)], generate=True) for text in texts])

    def shorten(self, texts: Sequence[str]) -> list[str]:
        """Of each text that is too long the end, or for cut_right the beginning, to which one character more would be
        too long again; empty if none fits, or what fits is blank."""
        low, high = np.zeros(len(texts), np.int64), np.array([len(text) for text in texts], np.int64)
        while (places := np.flatnonzero(high - low > 1)).size:
            middle = (low + high)[places] // 2
            tried = [self._part(texts[at], size) for at, size in zip(places.tolist(), middle.tolist(), strict=True)]
            fits = self._sizes(tried) <= self.most
            low[places[fits]], high[places[~fits]] = middle[fits], middle[~fits]
        parts = [self._part(text, size) for text, size in zip(texts, low.tolist(), strict=True)]
        return [part if part.strip() else "" for part in parts]

    def _part(self, text: str, size: int) -> str:
        return text[len(text) - size :] if self.too_long == "cut_left" else text[:size]

    def _sizes(self, texts: Sequence[str]) -> Int64:
        """(k,) ids of prompts; 0 for blank ones, which a template may refuse."""
        said = [not text.isspace() for text in texts]
        sizes = np.zeros(len(texts), np.int64)
        if any(said):
            sizes[said] = self.encode([text for text, is_said in zip(texts, said, strict=True) if is_said]).lengths
        return sizes


def read_prompts(path: Path, asking: Asking) -> Prompts:
    """All prompts of a file, each row of which must be one. LimitError for one that is too long, if it is to be
    neither left out nor cut, and where none is left."""
    asking.check()
    texts, gold = _rows(path)
    made = asking.encode(texts)
    ids, lengths = made.ids, made.lengths.copy()
    starts: Int64 = np.cumsum(lengths) - lengths
    long = np.flatnonzero(lengths > asking.most)
    if len(long) and asking.too_long == "fail":
        raise LimitError(
            f"{path}: prompt {long[0]}: got {lengths[long[0]]} ids, expected at most {asking.max_length}; raise "
            "max_length, or choose another rule for what is too_long: drop, cut_left, cut_right"
        )
    cut = long[:0]
    if len(long) and asking.too_long in CUTS:
        parts = asking.shorten([texts[at] for at in long.tolist()])
        cut = long[[bool(part) for part in parts]]
        for at, part in zip(long.tolist(), parts, strict=True):
            texts[at] = part or texts[at]
    lost = 0
    if len(cut):
        made = asking.encode([texts[at] for at in cut.tolist()])
        starts[cut] = len(ids) + np.cumsum(made.lengths) - made.lengths
        lost = int((lengths[cut] - made.lengths).sum())
        ids, lengths[cut] = np.append(ids, made.ids), made.lengths
    served = np.flatnonzero(lengths <= asking.most)
    if not len(served):
        raise LimitError(f"max_length: got {asking.max_length}, which no prompt of {path} fits into; raise it")
    balance = {"prompts": len(texts), "served": len(served), "too-long": len(texts) - len(served)}
    balance |= {"prompts_cut": len(cut), "ids_cut": lost}
    return Prompts(texts, gold, ids, starts, lengths, served, balance, sha256_file(path))


def _rows(path: Path) -> tuple[list[str], Floats]:
    """The texts and the gold answers of all rows."""
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
    return texts, np.array(gold, np.float64)
