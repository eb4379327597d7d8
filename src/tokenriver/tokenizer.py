"""One door to every tokenizer: a name, or a file, or a folder with one.

A name is a key of the registry (`byte`), a dotted module of someone else's, or else an encoding of tiktoken's (`gpt2`).
Nothing is ever downloaded: what is missing is named, with the folders that were searched.
"""

import codecs
import importlib
from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING

from tokenriver import registry
from tokenriver.defaults import CHARACTERS, CHARACTERS_FILE
from tokenriver.errors import InputError

if TYPE_CHECKING:
    from tokenriver.types import Ids, Tokenizer

# which module reads a file, by the end of its name
FILES = {".tiktoken": "tiktoken", ".json": "huggingface", ".model": "sentencepiece", ".bin": "llmc", ".pkl": "char"}
FROM_FILES = frozenset(FILES.values()) - {"char"}
"""Modules that have no tokenizer without a file; `char` is a name too, of the meta.pkl in a folder of `search`."""


def load_tokenizer(name_or_path: str | Path, *, search: Sequence[Path] = (), encoder: str = "fast") -> "Tokenizer":
    """The tokenizer of that name, or in that file or folder; encoder is "fast" or "reference" (same ids).

    `search`: folders in which a named encoding's rank file, or a bare file name, is looked for. Raises InputError for
    what cannot be found, FormatError for a damaged file, MissingPackageError for an absent extra."""
    module, name = _resolve(name_or_path, search)
    tokenizer: Tokenizer = registry.load("tokenizers", module).load(name, search=search, encoder=encoder)
    return tokenizer


class StreamDecoder:
    """Text of ids that come one after another, as a model makes them; what it gave and what `finish` gives are
    together what `decode` makes of all ids. A character whose bytes are not all there is held back."""

    def __init__(self, tokenizer: "Tokenizer") -> None:
        self._tokenizer = tokenizer
        # a tokenizer whose ids have other bytes behind others says so (see tokenizers/_bpe.py)
        self._follow = getattr(tokenizer, "follow", None)
        self._state: object = None
        self._characters = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, ids: "Integral | int | Sequence[int] | Ids") -> str:
        """The text that one more id, or some, completes; LimitError for an id outside the vocabulary."""
        return self._text([int(ids)] if isinstance(ids, int | Integral) else ids, last=False)

    def finish(self) -> str:
        """What was held back, bytes that are no character as U+FFFD; the next id begins a new text."""
        text = self._text([], last=True)
        self._state = None
        return text

    def _text(self, ids: "Sequence[int] | Ids", *, last: bool) -> str:
        if self._follow is None:
            data = self._tokenizer.decode_bytes(ids)
        else:
            data, self._state = self._follow(ids, self._state, last=last)
        return self._characters.decode(data, last)


def stream_decoder(tokenizer: "Tokenizer") -> StreamDecoder:
    """A decoder for ids that come one by one."""
    return StreamDecoder(tokenizer)


def piece_bytes(tokenizer: "Tokenizer", number: int) -> bytes:
    """The bytes of an id within a text; at its start a tokenizer may drop a space."""
    decode = getattr(tokenizer, "within", None) or tokenizer.decode_bytes
    return bytes(decode([number]))


def is_foreign(name: str) -> bool:
    """Is it the dotted name of a module of someone else's?"""
    return (
        not (Path(name) / "tokenizer.json").is_file()
        and Path(name).suffix not in FILES
        and "/" not in name
        and "." in name
    )


def _resolve(name_or_path: str | Path, search: Sequence[Path]) -> tuple[str, str]:
    """The registry module, and what its `load` gets."""
    name = str(name_or_path)
    path = Path(name_or_path)
    if isinstance(name_or_path, str) and name in set(registry.names("tokenizers")) - FROM_FILES:
        return name, name
    if path.is_dir() and (isinstance(name_or_path, Path) or "/" in name or (path / "tokenizer.json").is_file()):
        return _in_folder(path)
    if path.suffix in FILES:
        return FILES[path.suffix], str(_existing(path, search))
    if isinstance(name_or_path, Path) or "/" in name:
        raise InputError(
            f"{name}: tokenizer: got {'a file of no known kind' if path.exists() else 'no such file'}, expected "
            f"tokenizer.json, a .tiktoken or .model file, a folder with one of them, llm.c's .bin file or nanoGPT's "
            f"meta.pkl; "
            "check the path"
        )
    if "." in name:
        return name, name
    return "tiktoken", name


def _existing(path: Path, search: Sequence[Path]) -> Path:
    """The file itself; a bare file name is also looked for in the folders of `search`."""
    places = [path, *(folder / path for folder in search)] if path.name == str(path) else [path]
    for place in places:
        if place.is_file():
            return place
    looked = ", ".join(str(place.absolute()) for place in places)
    raise InputError(f"{path}: tokenizer: got no such file, looked for {looked}; check the path")


def _in_folder(folder: Path) -> tuple[str, str]:
    """The tokenizer of a folder: its tokenizer.json, else its only .tiktoken or .model file, else the characters of
    its meta.pkl."""
    file = folder / "tokenizer.json"
    if file.is_file():
        return "huggingface", str(file)
    tables = sorted(folder.glob("*.tiktoken")) or sorted(folder.glob("*.model"))
    if not tables and (folder / CHARACTERS_FILE).is_file():
        return CHARACTERS, str(folder / CHARACTERS_FILE)
    if len(tables) != 1:
        raise InputError(
            f"{folder}: tokenizer: got no tokenizer.json and {len(tables)} .tiktoken or .model files, expected one; "
            "give the file"
        )
    return FILES[tables[0].suffix], str(tables[0])


def cache_folders(environ: Mapping[str, str]) -> list[Path]:
    """Where tiktoken keeps downloaded rank files under this environment, most specific first."""
    named = [environ[key] for key in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR") if environ.get(key)]
    if named:
        return [Path(folder) for folder in named]
    usual = importlib.import_module("tempfile").gettempdir()  # a large import for one name
    return [Path(usual, "data-gym-cache")]
