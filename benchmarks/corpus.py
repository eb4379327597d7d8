"""Real text found on this machine, mixed and without repeats: the input of the build benchmarks.

English (documentation, manual pages), code and markup are mixed 40 : 40 : 20 by bytes for as long as each lasts. No
text comes twice, and a text most of whose lines came before (the same module of two Python versions) is passed over:
an encoder keeps what it has seen, so repeats would flatter it. The order depends on the files' paths alone.
"""

import gzip
import hashlib
import json
import os
import random
import string
import sysconfig
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import zstandard

LEVEL = 3
PARTS = 8
LEAST, MOST = 200, 2_000_000
SHARES = {"english": 0.4, "code": 0.4, "markup": 0.2}
ENDS = {
    "english": {".md", ".rst", ".txt", ".pod", ".texi"},
    "code": {".py", ".pyi", ".js", ".ts", ".c", ".h", ".cc", ".cpp", ".hpp", ".java", ".pm", ".pl", ".rb", ".tcl"}
    | {".sh", ".go", ".rs", ".lua", ".vim", ".el", ".cmake", ".sql", ".m4", ".cu", ".cuh"},
    "markup": {".html", ".htm", ".xml", ".json", ".css", ".svg", ".yaml", ".yml", ".xsl", ".tex"},
}
# manual and info pages of the system, compressed; those in English
MANUALS = ("/man/man", "/share/info/")
PASSED_OVER = {"__pycache__", ".git"}


@dataclass(frozen=True, slots=True)
class Texts:
    """The same documents in the same order as plain JSON lines, as one .zst file, and as a folder of eight."""

    jsonl: Path
    one: Path
    eight: Path
    documents: int
    text_bytes: int
    shares: dict[str, int]
    """Text bytes by class."""

    @property
    def parts(self) -> list[Path]:
        return sorted(self.eight.iterdir())


def texts(work: Path, megabytes: int) -> Texts:
    """Make (or find, from an earlier run) a corpus of at least `megabytes` of text, if the machine has as much."""
    folder = work / f"text-{megabytes}"
    note = folder / "info.json"
    if not note.exists():
        _write(folder, megabytes * 1_000_000)
    info = json.loads(note.read_text())
    return Texts(folder / "corpus.jsonl", folder / "corpus.jsonl.zst", folder / "eight", **info)


def transformed(work: Path, base: Texts, megabytes: int) -> Path:
    """A .jsonl.zst of `megabytes` that never repeats, made from real text: each round over it puts other letters for
    the letters (vowels for vowels, consonants for consonants, a key for each round), so that words and texts are new
    to the encoder while lengths and layout stay real. The first round is the text itself."""
    path = work / f"transformed-{megabytes}.jsonl.zst"
    if path.exists():
        return path
    temporary = path.with_suffix(".part")
    left = megabytes * 1_000_000
    with temporary.open("wb") as file, zstandard.ZstdCompressor(level=LEVEL).stream_writer(file) as packed:
        for key in range(1000):
            for text in _documents(base.jsonl):
                new = text.translate(_letters(key)) if key else text
                packed.write(_row(new))
                left -= len(new)
                if left <= 0:
                    break
            if left <= 0:
                break
    temporary.rename(path)
    return path


def _letters(key: int) -> bytes:
    table = bytearray(range(256))
    generator = random.Random(key)
    for group in ("aeiou", "".join(sorted(set(string.ascii_lowercase) - set("aeiou")))):
        new = "".join(generator.sample(group, len(group)))
        for old_letters, new_letters in ((group, new), (group.upper(), new.upper())):
            for old, letter in zip(old_letters.encode(), new_letters.encode(), strict=True):
                table[old] = letter
    return bytes(table)


def _documents(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        for line in file:
            yield orjson.loads(line)["text"].encode()


def _row(text: bytes) -> bytes:
    return orjson.dumps({"text": text.decode()}, option=orjson.OPT_APPEND_NEWLINE)


def _write(folder: Path, size: int) -> None:
    eight = folder / "eight"
    eight.mkdir(parents=True, exist_ok=True)
    rows: list[bytes] = []
    shares = dict.fromkeys(SHARES, 0)
    for kind, text in _mixed(size):
        rows.append(_row(text))
        shares[kind] += len(text)
    (folder / "corpus.jsonl").write_bytes(b"".join(rows))
    _pack(folder / "corpus.jsonl.zst", rows)
    for number, part in enumerate(_cut(rows)):
        _pack(eight / f"part-{number}.jsonl.zst", part)
    info = {"documents": len(rows), "text_bytes": sum(shares.values()), "shares": shares}
    (folder / "info.json").write_text(json.dumps(info))


def _pack(path: Path, rows: Iterable[bytes]) -> None:
    with path.open("wb") as file, zstandard.ZstdCompressor(level=LEVEL).stream_writer(file) as packed:
        for row in rows:
            packed.write(row)


def _cut(rows: list[bytes]) -> list[list[bytes]]:
    """Eight stretches of about equal bytes: the order of the documents stays that of the one file."""
    total, done = sum(map(len, rows)), 0
    parts: list[list[bytes]] = [[] for _ in range(PARTS)]
    for row in rows:
        parts[done * PARTS // total].append(row)
        done += len(row)
    return parts


def _mixed(size: int) -> Iterator[tuple[str, bytes]]:
    """Texts with their class, always of the class that is furthest behind its share; then of what is left."""
    waiting = {kind: _fresh(_files(kind)) for kind in SHARES}
    taken = dict.fromkeys(SHARES, 0)
    seen: set[int] = set()
    while waiting and sum(taken.values()) < size:
        kind = min(waiting, key=lambda name: taken[name] / SHARES[name])
        text = next(waiting[kind], None)
        if text is None:
            del waiting[kind]
        elif not _repeats(text, seen):
            taken[kind] += len(text)
            yield kind, text


def _fresh(files: list[Path]) -> Iterator[bytes]:
    for path in files:
        try:
            data = path.read_bytes()
            data = gzip.decompress(data) if path.suffix == ".gz" else data
            data.decode("utf-8")
        except (OSError, EOFError, UnicodeDecodeError, zlib.error):
            continue
        if len(data) >= LEAST:
            yield data


def _repeats(text: bytes, seen: set[int]) -> bool:
    """Did more than half of a sample of this text's lines come before? Remembers them. One line in eight is looked at,
    chosen by its content, so that copies are recognised wherever they lie."""
    marks = {mark for line in text.split(b"\n") if len(line) >= 16 and (mark := zlib.crc32(line)) % 8 == 0}
    marks.add(int.from_bytes(hashlib.sha256(text).digest()[:8], "little"))
    known = len(marks & seen)
    seen |= marks
    return known * 2 > len(marks) or (len(marks) == 1 and known == 1)


def _files(kind: str) -> list[Path]:
    """The machine's files of a class, in an order that mixes folders and depends on paths alone."""
    found = [path for root in roots() for path in _walk(root, kind)]
    return sorted(dict.fromkeys(found), key=lambda path: (zlib.crc32(os.fsencode(path)), path))


def _walk(root: Path, kind: str) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = set(folders) - PASSED_OVER
        manuals = kind == "english" and any(part in f"{folder}/" for part in MANUALS)
        for name in names:
            path = Path(folder, name)
            if path.suffix not in ENDS[kind] and not (manuals and name.endswith(".gz")):
                continue
            if path.is_file() and not path.is_symlink() and LEAST <= path.stat().st_size <= MOST:
                yield path


def roots() -> list[Path]:
    """The standard library of this Python, the packages installed for it, and what the system shares."""
    paths = sysconfig.get_paths()
    folders = [paths["stdlib"], paths["purelib"], "/usr/share", "/usr/lib", "/usr/include", "/usr/local"]
    real = [Path(folder).resolve() for folder in folders]
    kept = [one for one in dict.fromkeys(real) if not any(other in one.parents for other in real)]
    return [one for one in kept if one.is_dir()]
