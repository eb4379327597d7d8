"""Training by gigatoken, where its vocabulary is surely Hugging Face's: the same split, the same order of equal counts.

It reads a file and prints, so texts go to a scratch file, parted by a byte that no UTF-8 has, and the trainer runs in
a process of its own. Three things would make a difference, and then the reference trains, from the same file:

- a text with a character that one of the two knows as a letter or number and the other does not yet (see `_risk`),
  where they split it differently;
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
from pathlib import Path
from typing import NamedTuple

from tokenizers import Tokenizer as Library

from tokenriver import files
from tokenriver.errors import InputError
from tokenriver.tokenizers import _risk, _training

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


def train(batches: Iterable[Sequence[bytes]], vocab_size: int, special: Sequence[str], out: Path) -> Trained:
    """What `_training.train` gives of the same texts, sooner; the scratch file lies in the folder of `out`."""
    with _scratch(out) as scratch:
        try:
            fast = import_module("tokenriver.tokenizers._fast")
        except ImportError as error:
            warnings.warn(f"gigatoken is not usable here ({error}); training with tokenizers, slower", stacklevel=3)
            return Trained(*_training.train(batches, vocab_size, special), "gigatoken is not usable here")
        reason = _write(scratch, batches, fast.words)
        if reason:
            warnings.warn(f"training with tokenizers, slower: {reason}", stacklevel=3)
        if not reason and scratch.size:
            merges = _merges(scratch, vocab_size - len(special))
            library = _training.spell(merges, special)
            if library.get_vocab_size() != vocab_size or not _unfinished(library, scratch.texts()):
                reason = "the texts give hardly more tokens than were asked for"
            else:
                return Trained(_training.dump(library), vocab_size, "")
        return Trained(*_training.train(([text] for text in scratch.texts()), vocab_size, special), reason)


class Scratch:
    """Texts in a file that nobody else sees; where the system can, it has no name, so that nothing is left of it."""

    def __init__(self, fd: int, path: Path, name: Path) -> None:
        self.fd = fd
        self.path = path
        self._name = name
        self.size = 0

    def write(self, texts: Sequence[bytes]) -> None:
        """Append texts, each with BETWEEN behind it."""
        view = memoryview(BETWEEN.join([*texts, b""]))
        with files.naming(self._name, "write"):
            while len(view):
                done = files.system.write(self.fd, view)
                self.size, view = self.size + done, view[done:]

    def texts(self) -> Iterator[bytes]:
        """The texts, one in memory at a time."""
        rest: list[bytes] = []
        for at in range(0, self.size, READ_BYTES):
            first, *others = os.pread(self.fd, READ_BYTES, at).split(BETWEEN)
            rest.append(first)
            for text in others:
                yield b"".join(rest)
                rest = [text]


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


def _write(scratch: Scratch, batches: Iterable[Sequence[bytes]], words: _training.Splitter) -> str:
    """Write all texts; why the fast trainer would not have the words of the reference, or nothing."""
    reason = ""
    for batch in batches:
        scratch.write(batch)
        for text in [] if reason else batch:
            if not text.isascii() and _split_differently(text, words):
                reason = "a text has a letter that only one of the two trainers knows"
                break
    return reason


def _split_differently(text: bytes, words: _training.Splitter) -> bool:
    spots = _risk.find(text)
    if not len(spots):
        return False
    around = [text[start:stop] for start, stop in _risk.windows(text, spots.tolist())]
    return any(list(map(len, words(window))) != _training.word_sizes(window) for window in around)


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
