"""Rank tables as the tiktoken package publishes them: by the name of an encoding, or a .tiktoken file.

`gpt2` is shipped; the other encodings are read from the folders where tiktoken keeps what it has downloaded, never from
the network. A .tiktoken file holds ranks alone, so its split pattern and special tokens are those of the encoding that
the file is, told by its digest; a table of one's own says in its name how it splits text: NAME.cl100k_base.tiktoken.
"""

import binascii
import hashlib
import importlib
import json
import re
import threading
import warnings
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path

import zstandard

from tokenriver import files
from tokenriver.errors import FormatError, InputError
from tokenriver.tokenizers import _pieces
from tokenriver.tokenizers._bpe import BpeTokenizer, Fast, Reference, known_encoder
from tokenriver.tokenizers._encodings import ENCODINGS, END, START, Encoding, Pattern
from tokenriver.types import Ids

SUFFIXES = (".tiktoken",)
SHIPPED = Path(__file__).with_name("data") / "r50k_base.tiktoken.zst"
_LINES = re.compile(rb"(?:[A-Za-z0-9+/]+={0,2} [0-9]{1,9}(?:\n|\Z))+")


class Ranks:
    """A rank table: the file's bytes, parsed when they are needed."""

    def __init__(self, origin: str, data: bytes, specials: Mapping[str, int], *, published: bool = False) -> None:
        self.origin = origin
        self.data = data
        self.specials = specials
        self._published = published
        """Its digest is known: there is nothing to be found wrong with it, and looking takes as long as parsing."""

    @cached_property
    def by_piece(self) -> dict[bytes, int]:
        """Rank of every piece; FormatError says what is wrong with the file."""
        if not self._published and _LINES.fullmatch(self.data) is None:
            raise FormatError(f"{self.origin}: {_bad_line(self.data)}")
        words = self.data.split()
        try:
            pieces = list(map(binascii.a2b_base64, words[0::2]))
        except binascii.Error as error:
            raise FormatError(f"{self.origin}: base64: {error}; get the file again") from error
        ranks = dict(zip(pieces, map(int, words[1::2]), strict=True))
        if not self._published:
            self._check(ranks, len(pieces))
        return ranks

    def _check(self, ranks: Mapping[bytes, int], lines: int) -> None:
        if len(set(ranks.values())) != lines:
            raise FormatError(
                f"{self.origin}: ranks: got a piece or rank twice, expected each once; get the file again"
            )
        if max(ranks.values()) > 2 * len(self.data):
            raise FormatError(f"{self.origin}: ranks: got {max(ranks.values())}, expected few gaps; get the file again")
        missing = next((i for i in range(256) if bytes([i]) not in ranks), None)
        if missing is not None:
            raise FormatError(
                f"{self.origin}: ranks: byte 0x{missing:02x} is missing, expected all 256; get the file again"
            )

    @cached_property
    def pieces(self) -> list[bytes | None]:
        """Bytes by id, special tokens by their content."""
        names = {i: name.encode() for name, i in self.specials.items()}
        return _pieces.table({rank: piece for piece, rank in self.by_piece.items()} | names)

    def join(self, ids: Sequence[int] | Ids) -> bytes:
        """The bytes of ids."""
        return _pieces.join(self.pieces, ids)


def _bad_line(data: bytes) -> str:
    lines = enumerate(data.split(b"\n"), 1)
    number, line = next((n, line) for n, line in lines if _LINES.fullmatch(line + b"\n") is None)
    return f"line {number}: got {line[:40]!r}, expected a base64 piece, a space and a rank; get the file again"


def load(name: str, *, search: Sequence[Path] = (), encoder: str = "fast") -> BpeTokenizer:
    """The encoding of that name, or of the .tiktoken file of that path."""
    path = Path(name)
    if path.suffix == ".tiktoken":
        return _of_file(path, known_encoder(encoder))
    encoding = ENCODINGS.get(name)
    if encoding is None:
        raise InputError(f"tokenizer: got {name!r}, expected a file or one of {', '.join(ENCODINGS)}; check the name")
    return _assemble(name, encoding, _ranks_of(name, encoding, search), known_encoder(encoder))


def _ranks_of(name: str, encoding: Encoding, search: Sequence[Path]) -> bytes:
    """The published rank file: shipped, or found in a folder of `search` under its own or its cache name."""
    if encoding.digest == ENCODINGS["gpt2"].digest:
        packed = SHIPPED.read_bytes()
        return zstandard.ZstdDecompressor().decompress(packed)
    own = f"{'p50k_base' if name == 'p50k_edit' else 'o200k_base' if name == 'o200k_harmony' else name}.tiktoken"
    places = [folder / file for folder in search for file in (own, encoding.cache_name)]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        folders = ", ".join(str(folder) for folder in search) or "no folder was given"
        raise InputError(
            f"tokenizer {name!r}: {own} (in tiktoken's cache: {encoding.cache_name}) was not found, "
            f"looked in: {folders}; put the file into one of these folders or give its path"
        )
    data = _read(found)
    digest = hashlib.sha256(data).hexdigest()
    if digest != encoding.digest:
        raise FormatError(f"{found}: sha256: got {digest}, expected {encoding.digest} of {own}; get the file again")
    return data


def _read(path: Path) -> bytes:
    with files.naming(path, "read"):
        return path.read_bytes()


def _of_file(path: Path, encoder: str) -> BpeTokenizer:
    """The encoding that a rank file is by its digest; or NAME.ENCODING.tiktoken, a table of one's own for text split as
    ENCODING splits it, with one special token behind its last rank."""
    data = _read(path)
    digest = hashlib.sha256(data).hexdigest()
    known = next((encoding for encoding in ENCODINGS.values() if encoding.digest == digest), None)
    if known is not None:
        return _assemble(path.name, known, data, encoder)
    if path.stem in ENCODINGS:
        raise FormatError(
            f"{path}: sha256: got {digest}, expected {ENCODINGS[path.stem].digest} of the published file; "
            f"get it again, or name a table of your own NAME.{path.stem}.tiktoken"
        )
    like = ENCODINGS.get(path.stem.rpartition(".")[2])
    if like is None:
        raise InputError(
            f"{path}: split pattern: got a table that is none of the published, expected its name to say how it "
            f"splits text; name it NAME.ENCODING.tiktoken with one of {', '.join(ENCODINGS)}"
        )
    ranks = Ranks(str(path), data, {})
    own = like._replace(digest=digest, specials={END: 1 + max(ranks.by_piece.values())})
    return _assemble(path.name, own, data, encoder)


def _assemble(name: str, encoding: Encoding, data: bytes, encoder: str) -> BpeTokenizer:
    published = any(encoding.digest == other.digest for other in ENCODINGS.values())
    ranks = Ranks(name, data, encoding.specials, published=published)
    # a published table need not be parsed to know that its last line has its highest rank; an own one's end is higher
    size = 1 + max(int(data[data.rindex(b" ") :]), *encoding.specials.values())
    end = encoding.specials[END]
    reference = _lazy_reference(ranks, encoding.pattern)
    return BpeTokenizer(
        name=name,
        vocab_size=size,
        bos_id=encoding.specials.get(START, end),
        eos_id=end,
        pad_id=None,
        fingerprint=_fingerprint(encoding),
        reference=reference,
        to_bytes=ranks.join,
        fast=_fast(data, encoding.pattern, size, reference) if encoder == "fast" else None,
        special_ids=encoding.specials,
    )


def _fingerprint(encoding: Encoding) -> str:
    content = {
        "kind": "ranks",
        "ranks": encoding.digest,
        "split": encoding.pattern.expression,
        "special": dict(encoding.specials),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _lazy_reference(ranks: Ranks, pattern: Pattern) -> Reference:
    @cache
    def made() -> Reference:
        helper = importlib.import_module("tokenriver.tokenizers._reference")
        encode: Reference = helper.encoder(ranks.by_piece, pattern.expression)
        return encode

    def encode(texts: Sequence[bytes]) -> list[list[int]]:
        with making:  # threads that ask at once get one
            reference = made()
        return reference(texts)

    making = threading.Lock()
    return encode


def _fast(data: bytes, pattern: Pattern, size: int, reference: Reference) -> Fast | None:
    """The fast encoder, or None with one line of warning where its package has no wheel."""
    try:
        helper = importlib.import_module("tokenriver.tokenizers._fast")
    except ImportError as error:
        warnings.warn(
            f"gigatoken is not usable here ({error}); encoding with tiktoken, about 15 times slower", stacklevel=2
        )
        return None
    native = helper.Renewed(lambda: helper.from_ranks(data, pattern.fast, size))
    encoder: Fast = helper.FastEncoder(native, size, reference)
    return encoder
