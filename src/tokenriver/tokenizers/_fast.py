"""The one file that knows gigatoken: any number of texts, one native call.

The texts are joined by a marker, the only special token that the native tokenizer has, and the marker's ids tell the
texts apart again. The marker is two noncharacters and its id lies outside the vocabulary, so nothing that a text says
is parsed as special. A text can hold neither character when it comes here: both are risky (see `_risk`), and risky
characters go to the reference encoder with the words around them.
"""

import importlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gigatoken.gigatoken_rs import (
    BPETokenizer,
    BytesSource,
    PadTruncate,
    SentencePieceTokenizer,
    TextFileSource,
    load_hf_json,
    pretokenizer,
    train_bpe,
)

from tokenriver.errors import MismatchError
from tokenriver.steps import Steps
from tokenriver.tokenizers import _risk, _text
from tokenriver.types import Ids, Int64

MARKER = "\U0010ffff\U0010fffe"
_MARKER = MARKER.encode()
_NONE = np.empty(0, dtype=np.int64)
_AS_IT_IS = PadTruncate(0)
RENEWED_BYTES = 768 << 20
"""Text after which a native tokenizer is made anew."""
Reference = Callable[[Sequence[bytes]], list[list[int]]]
Native = BPETokenizer | SentencePieceTokenizer


def from_ranks(ranks: bytes, pattern: str, vocab_size: int) -> BPETokenizer:
    """The native tokenizer of a .tiktoken file's content; its id `vocab_size` is the marker."""
    with _named(ranks) as path:
        return BPETokenizer.from_tiktoken(path, pattern, {MARKER: vocab_size})


def from_json(config: Mapping[str, Any], vocab_size: int) -> BPETokenizer | None:
    """The native tokenizer of a tokenizer.json; its id `vocab_size` is the marker, added to the tokens of the file.
    None for a file that this version of gigatoken does not know."""
    added = [*config["added_tokens"], _marker(vocab_size)]
    try:
        native = load_hf_json(json.dumps(dict(config) | {"added_tokens": added}))
    except (RuntimeError, ValueError):
        return None
    return native if isinstance(native, BPETokenizer) else None


def from_sentencepiece(config: Mapping[str, Any], vocab_size: int) -> SentencePieceTokenizer:
    """The native tokenizer of a BPE over characters with byte fallback, in the terms of a tokenizer.json; its id
    `vocab_size` is the marker, on either side of which a text begins anew."""
    native = load_hf_json(json.dumps(dict(config) | {"added_tokens": [_marker(vocab_size)]}))
    if not isinstance(native, SentencePieceTokenizer):
        raise MismatchError("fast encoder: got no SentencePiece tokenizer back; use the reference encoder")
    return native


def words(text: bytes) -> list[bytes]:
    """The words of a text, as GPT-2 splits it."""
    return list(pretokenizer(text))


def merges(path: str, size: int) -> list[tuple[bytes, bytes]]:
    """Train on the texts of a file, parted by 0xff: the merges of a vocabulary of `size` ids, 256 of them bytes. The
    native trainer says on both outputs what it does."""
    made: list[tuple[bytes, bytes]] = train_bpe(TextFileSource([path], separator=b"\xff"), size, [])[1]
    return made


def print_merges(path: str, size: int) -> None:
    """Print `merges` as JSON, and nothing else; for a process of its own."""
    answer = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with open(answer, "w", encoding="ascii") as file:
        json.dump([(left.hex(), right.hex()) for left, right in merges(path, size)], file)


def _marker(number: int) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": MARKER, "special": True} | flags


@contextmanager
def _named(data: bytes) -> Iterator[str]:
    """A path whose file holds data: gigatoken reads rank tables from paths alone. In memory where the system can."""
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():
        with open(os.memfd_create("ranks"), "wb") as file:
            file.write(data)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
        return
    with importlib.import_module("tempfile").TemporaryDirectory(prefix="tokenriver-") as folder:
        path = Path(folder, "ranks.tiktoken")
        path.write_bytes(data)
        yield str(path)


class Renewed:
    """A native tokenizer, made at its first use and anew after RENEWED_BYTES of text: it keeps every word that it meets
    (a byte of memory for each byte of text whose words are all new) and would never stop growing."""

    __slots__ = ("_make", "_native", "_seen")

    def __init__(self, make: Callable[[], Native], first: Native | None = None) -> None:
        self._make, self._native, self._seen = make, first, 0

    def __call__(self, size: int) -> Native:
        """The tokenizer for the next `size` bytes."""
        native = self._native
        if native is None or self._seen > RENEWED_BYTES:
            self._native = None  # its memory is free for the new one
            del native
            self._native = native = self._make()
            self._seen = 0
        self._seen += size
        return native


class FastEncoder(NamedTuple):
    """A native tokenizer for the next bytes, its marker's id, and the encoder that reads what is risky."""

    native: Callable[[int], Native]
    marker: int
    reference: Reference
    whole: bool = False
    """Give risky texts to the reference whole: what is merged or found could lie across a cut."""
    turn: AbstractContextManager[object] | None = None
    """Let other threads run meanwhile, this being held: the native call for one text keeps the interpreter's lock, that
    for a matrix of texts does not. A matrix of one row is never padded."""

    def encode_framed(self, texts: list[bytes], before: int | None, after: int | None) -> tuple[Ids, Int64]:
        """Flat uint32 ids of k valid UTF-8 texts, each between the ids `before` and `after`; lengths count those.

        The markers become the framing ids where they stand, so framing costs nothing."""
        risky = _risky_spots(texts)
        if not risky and before is not None and after is not None:
            ids, marks = self._marked(_around(texts))
            ids[marks[0::2]], ids[marks[1::2]] = before, after
            return ids, marks[1::2] - marks[0::2] + 1
        if not risky and before is not None:
            ids, marks = self._marked([b"", *texts])
            ids[marks] = before
            return ids, np.diff(marks, append=len(ids))
        if before is None and after is not None:
            return self._ended(texts, risky, after)
        ids, lengths = self._ended(texts, risky, 0)
        keep = np.ones(len(ids), dtype=np.bool_)
        keep[np.cumsum(lengths) - 1] = False
        return _text.frame(ids[keep], lengths - 1, before, after)

    def letting_threads_run(self) -> "FastEncoder":
        """Several threads may share it: the native tokenizer, whose memory of words is worth more than a second one,
        serves one at a time, and the others prepare their texts."""
        return self._replace(turn=threading.Lock())

    def in_steps(self, texts: list[bytes], foreign: list[int], after: int) -> Steps[tuple[Ids, Int64]]:
        """What `encode_framed(texts, None, after)` does: the native call, and the rest. `foreign` are the numbers of
        the texts that are not ASCII."""
        pieces, owners, windows = _cut(texts, _spots_among(texts, foreign), self.whole)
        joined = _MARKER.join([*pieces, b""])
        return Steps((partial(self._encoded, joined), partial(self._parted, owners, windows, after)))

    def _ended(self, texts: list[bytes], risky: dict[int, list[int]], after: int) -> tuple[Ids, Int64]:
        """Ids and lengths of texts with the id `after` behind each. A risky text becomes several pieces for the native
        call; the reference's ids for the window between two pieces take the place of the marker there."""
        pieces, owners, windows = _cut(texts, risky, self.whole)
        return self._parted(owners, windows, after, self._encoded(_MARKER.join([*pieces, b""])))

    def _parted(self, owners: Int64, windows: dict[int, bytes], after: int, ids: Ids) -> tuple[Ids, Int64]:
        marks = self._marks(ids, len(owners))
        lengths = np.diff(marks, prepend=-1)
        ids[marks] = after
        if not windows:
            return ids, lengths
        behind = np.fromiter(windows, dtype=np.int64, count=len(windows))
        parts, start = [], 0
        for place, row in zip(marks[behind].tolist(), self.reference(list(windows.values())), strict=True):
            parts += [ids[start:place], np.asarray(row, np.uint32)]
            start = place + 1
        lengths[behind] += np.fromiter(map(len, parts[1::2]), np.int64, len(behind)) - 1
        first = np.searchsorted(owners, np.arange(owners[-1] + 1))
        return np.concatenate([*parts, ids[start:]]), np.add.reduceat(lengths, first)

    def _marked(self, parts: list[bytes]) -> tuple[Ids, Int64]:
        """Ids of the parts with a marker's id between each two, and where those are."""
        ids = self._encoded(_MARKER.join(parts))
        return ids, self._marks(ids, len(parts) - 1)

    def _encoded(self, joined: bytes) -> Ids:
        if self.turn is None:
            ids: Ids = self.native(len(joined)).encode(joined)
        else:
            source = BytesSource([joined])  # given a list, it imports a large package to see if it is one of its arrays
            with self.turn:
                ids = self.native(len(joined)).encode_batch_padded(source, _AS_IT_IS, parallel=False)[0][0]
        return ids

    def _marks(self, ids: Ids, expected: int) -> Int64:
        marks = np.flatnonzero(ids == self.marker)
        if len(marks) != expected:
            raise MismatchError(
                f"fast encoder: got {len(marks)} markers back, expected {expected}; use the reference encoder"
            )
        return marks


def _around(texts: list[bytes]) -> list[bytes]:
    """Parts that, joined by one marker, have a marker on either side of every text."""
    parts = [b""] * (2 * len(texts) + 1)
    parts[1::2] = texts
    return parts


def _risky_spots(texts: list[bytes]) -> dict[int, list[int]]:
    """Offsets of risky characters by number of the text; ASCII texts, which are most, cost one look."""
    return _spots_among(texts, [i for i, plain in enumerate(map(bytes.isascii, texts)) if not plain])


def _spots_among(texts: list[bytes], foreign: list[int]) -> dict[int, list[int]]:
    """The same, where it is known which texts are not ASCII."""
    spots = _risk.find(b"".join([texts[i] for i in foreign])) if foreign else _NONE
    if not len(spots):
        return {}
    ends = np.cumsum([len(texts[i]) for i in foreign])
    owners = np.searchsorted(ends, spots, side="right")
    found: dict[int, list[int]] = {}
    for owner, spot in zip(owners.tolist(), spots.tolist(), strict=True):
        i = foreign[owner]
        found.setdefault(i, []).append(spot - int(ends[owner]) + len(texts[i]))
    return found


def _cut(texts: list[bytes], risky: dict[int, list[int]], whole: bool) -> tuple[list[bytes], Int64, dict[int, bytes]]:
    """Pieces for the native call, the text each one belongs to, and the risky windows by the piece they follow."""
    pieces: list[bytes] = []
    counts = np.ones(len(texts), np.int64)
    windows: dict[int, bytes] = {}
    calm = 0  # texts before this one are in pieces
    for i, spots in risky.items():
        pieces += texts[calm:i]
        text, done, calm = texts[i], 0, i + 1
        cuts = [(0, len(text))] if whole else _risk.windows(text, spots)
        for start, stop in cuts:
            windows[len(pieces)] = text[start:stop]
            pieces.append(text[done:start])
            done = stop
        pieces.append(text[done:])
        counts[i] += len(cuts)
    return pieces + texts[calm:], np.repeat(np.arange(len(texts)), counts), windows
