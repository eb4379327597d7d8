"""Training by gigatoken, where its vocabulary is surely Hugging Face's: the same split, the same order of equal counts.

It reads a file and prints, so texts go to a scratch file, parted by a byte that no UTF-8 has, and the trainer runs in
a process of its own. Around a letter or number that only one of the two knows yet the reference splits the text (see
`_apart`). Three things would make a difference, and then the reference trains, from the same file:

- a word that gigatoken would split even so, if it may decide a merge;
- texts in which every word is one token before the vocabulary is full: Hugging Face stops, gigatoken merges on;
- a vocabulary of another size than was asked for.
"""

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from tokenizers import Tokenizer as Library

from tokenriver import files
from tokenriver.errors import InputError
from tokenriver.tokenizers import _apart, _training

BETWEEN = b"\xff"
READ_BYTES = 1 << 22
LOOK_BYTES = 1 << 14
BOOT = (
    "import sys; path, size, *sys.path[:] = sys.argv[1:]; "
    "from tokenriver.tokenizers._fast import print_merges; print_merges(path, int(size))"
)
"""Run with `python -I -B -c`: the same search path as the parent, its script not imported again."""
_OPEN_FILES = Path("/proc/self/fd")


class Trained(NamedTuple):
    """A tokenizer.json, its number of ids, and why the reference made it ("" where the fast trainer did)."""

    config: bytes
    num_ids: int
    reason: str
    apart: int = 0
    """Texts that the two would split differently."""


def train(batches: Iterable[Sequence[bytes]], vocab_size: int, special: Sequence[str], out: Path) -> Trained:
    """What `_training.train` gives of the same texts, sooner; the scratch file lies in the folder of `out`."""
    with _scratch(out) as scratch:
        try:
            fast = import_module("tokenriver.tokenizers._fast")
        except ImportError as error:
            warnings.warn(f"gigatoken is not usable here ({error}); training with tokenizers, slower", stacklevel=3)
            return Trained(*_training.train(batches, vocab_size, special), "gigatoken is not usable here")
        found = _write(scratch, batches, fast.words)
        reason = ""
        if scratch.size:
            merges = _merges(scratch, vocab_size - len(special))
            library = _training.spell(merges, special)
            if library.get_vocab_size() != vocab_size or not _unfinished(library, scratch.texts()):
                reason = "the texts give hardly more tokens than were asked for"
            elif found.words and not _proven(merges, library, found, scratch, fast):
                reason = f"letters that only one of the two trainers knows, in {found.texts} texts, may decide a merge"
                warnings.warn(f"training with tokenizers, slower: {reason}", stacklevel=3)
            else:
                return Trained(_training.dump(library), vocab_size, "", found.texts)
        texts = chain(scratch.texts(), found.words.elements())
        return Trained(*_training.train(([text] for text in texts), vocab_size, special), reason, found.texts)


class Scratch:
    """Texts in a file that nobody else sees; where the system can, it has no name, so that nothing is left of it."""

    def __init__(self, fd: int, path: Path, name: Path) -> None:
        self.fd = fd
        self.path = path
        self._name = name
        self.size = 0
        self.stop: int | None = None
        """Where texts end, if something else lies behind them."""

    def write(self, texts: Sequence[bytes]) -> None:
        """Append texts, each with BETWEEN behind it."""
        view = memoryview(BETWEEN.join([*texts, b""]))
        with files.naming(self._name, "write"):
            while len(view):
                done = files.system.write(self.fd, view)
                self.size, view = self.size + done, view[done:]

    def texts(self) -> Iterator[bytes]:
        """The texts, one in memory at a time."""
        for batch in self.batches():
            yield from batch

    def batches(self) -> Iterator[list[bytes]]:
        """The texts, those at once that end in one stretch of the file."""
        rest: list[bytes] = []
        stop = self.size if self.stop is None else self.stop
        for at in range(0, stop, READ_BYTES):
            first, *others = os.pread(self.fd, min(READ_BYTES, stop - at), at).split(BETWEEN)
            rest.append(first)
            done: list[bytes] = []
            for text in others:
                done.append(b"".join(rest))
                rest = [text]
            yield done


@contextmanager
def _scratch(out: Path) -> Iterator[Scratch]:
    name = out.with_name(f".{out.name}.texts.tmp")
    with files.naming(name, "create"):
        fd = files.system.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    path = _OPEN_FILES / str(fd) if _OPEN_FILES.is_dir() else name
    try:
        if path != name:
            files.remove(name)
        yield Scratch(fd, path, name)
    finally:
        files.system.close(fd)
        with suppress(InputError):
            files.remove(name)


def _write(scratch: Scratch, batches: Iterable[Sequence[bytes]], words: _training.Splitter) -> _apart.Apart:
    """Write all texts, and behind them parts of the words that gigatoken would split."""
    found = _apart.Apart()
    for batch in batches:
        plain = [[text] if text.isascii() else found.pieces(text, words) for text in batch]
        scratch.write(list(chain.from_iterable(plain)))
    scratch.stop = scratch.size
    for word, count in found.words.items():
        scratch.write(words(word) * count)
    return found


def _proven(
    merges: Sequence[_apart.Pair], library: Library, found: _apart.Apart, scratch: Scratch, fast: ModuleType
) -> bool:
    """Are the merges of words in parts those of the words whole?"""
    size = library.get_vocab_size()
    native = fast.from_json({**json.loads(_training.dump(library)), "added_tokens": []}, size)
    if native is None:
        return False
    encoder = fast.FastEncoder(lambda _: native, size, lambda texts: [native.encode(text).tolist() for text in texts])
    parts = {word: fast.words(word) for word in found.words}
    try:
        seen = _apart.survey(
            scratch.batches(),
            _apart.byte_pairs(parts.values()),
            lambda texts: encoder.encode_framed(texts, None, None)[0],
            _training.spelled(library),
            fast.words,
        )
        _apart.prove(merges, parts, found.words + seen.words, seen)
    except _apart.Unproven:
        return False
    return True


def _merges(scratch: Scratch, size: int) -> list[tuple[bytes, bytes]]:
    """The merges of a vocabulary of so many ids, the 256 bytes among them, by a process that may print what it
    likes."""
    where = [str(Path(entry or ".").absolute()) for entry in sys.path]
    done = subprocess.run(
        [sys.executable, "-I", "-B", "-W", "ignore", "-c", BOOT, str(scratch.path), str(size), *where],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        pass_fds=[scratch.fd],
        check=False,
    )
    try:
        rows = json.loads(done.stdout)
    except ValueError:
        tail = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise InputError(
            f"trainer: got exit status {done.returncode} of the fast one {' '.join(tail)[:200]!r}, expected merges; "
            "give it more memory, or use trainer reference"
        ) from None
    return [(bytes.fromhex(left), bytes.fromhex(right)) for left, right in rows]


def _unfinished(library: Library, texts: Iterator[bytes]) -> bool:
    """Is any word of the texts still more than one token? Then the last merge was of a pair that the texts have."""
    for text in texts:
        for part in _training.parts([text], LOOK_BYTES):
            if len(library.encode(part, add_special_tokens=False)) > len(_training.word_sizes(part.encode())):
                return True
    return False
