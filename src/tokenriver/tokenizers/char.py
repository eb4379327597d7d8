"""Characters as ids, as nanoGPT has them: the sorted characters of a text, each with its place as its id.

The vocabulary is that of one text and lies in a file of its own, nanoGPT's `meta.pkl` (formats.md, section 6), which a
corpus keeps beside its shards. There are no control ids. A character outside the vocabulary is an error, never an id.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tokenriver import registry
from tokenriver.defaults import CHARACTERS, CHARACTERS_FILE
from tokenriver.errors import InputError
from tokenriver.storage import WrittenFile
from tokenriver.tokenizers import _pieces, _text
from tokenriver.types import Ids, Int32, Int64
from tokenriver.utf8 import as_bytes

SUFFIXES = (".pkl",)
ASCII = 128
STRETCH = 1 << 15
"""Characters looked up at once, so that all of it stays in the cache."""


@dataclass(frozen=True, slots=True)
class CharTokenizer:
    """types.Tokenizer over a set of characters in id order; it is its own reference."""

    letters: str
    table: Int32
    """Id by code point, -1 for what is no character of the vocabulary; the last entry stands for all beyond."""
    pieces: tuple[bytes, ...]
    fingerprint: str
    name: str = CHARACTERS
    bos_id: int | None = None
    eos_id: int | None = None
    pad_id: int | None = None
    encoder: str = "reference"

    @property
    def vocab_size(self) -> int:
        return len(self.letters)

    def encode(self, text: str) -> Ids:
        """Ids of one text, uint32 (n,), one a character; lone surrogates become U+FFFD. InputError for a character
        outside the vocabulary."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[bytes] | Sequence[str]) -> tuple[Ids, Int64]:
        """Flat uint32 ids of k texts and their lengths in characters, int64 (k,). InputError names the first character
        outside the vocabulary, and where it stands."""
        rows = [_text.as_text(text) for text in as_bytes(texts)]
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        joined = "".join(rows)
        ids = np.empty(len(joined), np.int32)
        for start in range(0, len(joined), STRETCH):
            points = _points(joined[start : start + STRETCH])
            self.table.take(points, mode="clip", out=ids[start : start + STRETCH])
        if len(ids) and int(ids.min()) < 0:
            raise self._unknown(int(np.argmin(ids)), joined, lengths)
        return ids.view(np.uint32), lengths

    def encode_framed(
        self, texts: Sequence[bytes] | Sequence[str], before: int | None, after: int | None
    ) -> tuple[Ids, Int64]:
        """encode_batch with an id before and/or after every text; lengths count them."""
        return _text.frame(*self.encode_batch(texts), before, after)

    def check(self, texts: Sequence[bytes], ids: Ids, lengths: Int64) -> None:
        """Nothing to compare: there is no second encoder."""

    def self_check(self) -> int:
        """No texts compared: there is no second encoder."""
        return 0

    def decode(self, ids: Sequence[int] | Ids) -> str:
        """The text."""
        return self.decode_bytes(ids).decode()

    def decode_bytes(self, ids: Sequence[int] | Ids) -> bytes:
        """The UTF-8 bytes of the text; LimitError for an id outside the vocabulary."""
        return _pieces.join(self.pieces, ids)

    def write_beside(self, folder: Path) -> WrittenFile:
        """Write the vocabulary as nanoGPT's meta.pkl into a folder, by the commit protocol."""
        written: WrittenFile = registry.load("formats", "nanogpt").write_characters(
            folder / CHARACTERS_FILE, self.letters
        )
        return written

    def _unknown(self, place: int, joined: str, lengths: Int64) -> InputError:
        """About the first character that has no id, at `place` of all texts end to end."""
        ends = np.cumsum(lengths)
        text = int(np.searchsorted(ends, place, "right"))
        at = place - int(ends[text] - lengths[text])
        letter = joined[place]
        around = joined[place - min(at, 20) : place + 20]
        return InputError(
            f"text {text}: character {at}: got {letter!r} (U+{ord(letter):04X}) in {around!r}, expected one of the "
            f"{len(self.letters)} characters of the vocabulary; make the vocabulary from all texts, or mend this one"
        )


def _points(text: str) -> NDArray[np.integer]:
    """Code points of a text."""
    if text.isascii():
        return np.frombuffer(text.encode(), np.uint8)
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def make(letters: str) -> CharTokenizer:
    """The tokenizer of these characters, in id order, each once."""
    points = np.fromiter(map(ord, letters), np.int64, len(letters))
    table = np.full(max(int(points.max(initial=0)) + 2, ASCII + 1), -1, np.int32)
    table[points] = np.arange(len(letters))
    table.flags.writeable = False
    fingerprint = hashlib.sha256(b"characters by id\n" + letters.encode()).hexdigest()
    return CharTokenizer(letters, table, tuple(letter.encode() for letter in letters), fingerprint)


def load(name: str, *, search: Sequence[Path] = (), encoder: str = "fast") -> CharTokenizer:
    """The vocabulary in the file of that path, or the meta.pkl of the first folder of `search` that has one; there is
    one encoder only. FormatError for what is no meta.pkl."""
    path = Path(name) if name != CHARACTERS else _searched(search)
    return make(registry.load("formats", "nanogpt").read_characters(path))


def _searched(search: Sequence[Path]) -> Path:
    for folder in search:
        if (folder / CHARACTERS_FILE).is_file():
            return folder / CHARACTERS_FILE
    looked = ", ".join(str(folder / CHARACTERS_FILE) for folder in search) or "nowhere"
    raise InputError(
        f"tokenizer: got 'char' without its vocabulary, looked for {looked}; give the path of a meta.pkl "
        "(tokenriver tokenizer characters INPUT... -o meta.pkl makes one)"
    )
