"""`.model` files of SentencePiece, whatever model they hold: the `sentencepiece` package is the reference.

Its encoder never finds a control symbol in a text; a user-defined symbol is a piece of the model like any other and is
found wherever a text spells it. BPE with byte fallback and no changes to the text runs on the fast encoder (see
`_canonical` for why its ids are the same), all else on the reference.
"""

import hashlib
import importlib
import json
import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sentencepiece import SentencePieceProcessor as Library

from tokenriver import files
from tokenriver.errors import FormatError
from tokenriver.tokenizers import _canonical, _pieces, _sentencepiece_file, _text
from tokenriver.tokenizers._bpe import BpeTokenizer, Fast, Reference, known_encoder
from tokenriver.tokenizers._sentencepiece_file import BPE, BYTE, CONTROL, NORMAL, SPACE, UNKNOWN, Model
from tokenriver.types import Ids

SUFFIXES = (".model",)
MAX_BYTES = 1 << 28
_RANKS = re.compile(rb"[A-Za-z0-9+/]+={0,2} [0-9]{1,9}\n")


def load(name: str, *, search: Sequence[Path] = (), encoder: str = "fast") -> BpeTokenizer:
    """The tokenizer of the .model file at that path; FormatError if it is none."""
    path = Path(name)
    data = _read(path)
    model = _sentencepiece_file.parse(path, data)
    library = _library(path, data, model)
    special = {role: _special(library, role) for role in ("bos", "eos", "pad")}
    reference = _reference(library)
    spelling = _Spelling(model)
    return BpeTokenizer(
        name=path.name,
        vocab_size=len(model.pieces),
        bos_id=special["bos"],
        eos_id=special["eos"],
        pad_id=special["pad"],
        fingerprint=_fingerprint(data, special),
        reference=reference,
        to_bytes=spelling.join,
        fast=_fast(model, reference) if known_encoder(encoder) == "fast" else None,
        special_ids={piece.text: i for i, piece in enumerate(model.pieces) if piece.kind == CONTROL},
        follow=spelling.follow if spelling.strips else None,
        within=spelling.within if spelling.strips else None,
        # a model that trims may make nothing of a text, not even the space before it
        lead=None if model.space_behind or model.trims else int(model.adds_space),
    )


def _read(path: Path) -> bytes:
    with files.naming(path, "read"), path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(min(size, MAX_BYTES) + 1)
    if len(data) > MAX_BYTES:
        raise FormatError(f"{path}: size: got {size} bytes, expected at most {MAX_BYTES} of a SentencePiece model")
    if _RANKS.match(data):
        raise FormatError(
            f"{path}: got a rank file of tiktoken, expected a SentencePiece model; name it NAME.ENCODING.tiktoken"
        )
    return data


def _library(path: Path, data: bytes, model: Model) -> Library:
    try:
        library = Library(model_proto=data)
        if library.piece_size() != len(model.pieces):
            raise ValueError(f"{library.piece_size()} pieces, and {len(model.pieces)} in the file")
    except Exception as error:  # the package raises several kinds for a file that it cannot use
        raise FormatError(
            f"{path}: got {str(error)[:200]}, expected a SentencePiece model; get the file again"
        ) from error
    return library


def _special(library: Library, role: str) -> int | None:
    number = int(getattr(library, f"{role}_id")())
    return number if number >= 0 else None


def _reference(library: Library) -> Reference:
    def encode(texts: Sequence[bytes]) -> list[list[int]]:
        rows: list[list[int]] = library.encode(
            [_text.as_text(text) for text in texts], out_type=int, add_bos=False, add_eos=False, num_threads=1
        )
        return rows

    return encode


def _fingerprint(data: bytes, roles: dict[str, int | None]) -> str:
    content = {"kind": "sentencepiece", "file": hashlib.sha256(data).hexdigest(), "special": roles}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


# ---------------------------------------------------------------------------------------------- ids to bytes


class _Spelling:
    """Ids -> bytes as SentencePiece decodes them, but control symbols by their content and bytes as they are.

    The space that the model puts before a text is dropped at the start and behind a control symbol, where a text
    begins; a model that trims texts has none there at all. What a model may replace after decoding is not replaced."""

    def __init__(self, model: Model) -> None:
        self.strips = model.adds_space or model.trims
        self._trims = model.trims
        self._control = frozenset(i for i, piece in enumerate(model.pieces) if piece.kind == CONTROL)
        self._spaced = frozenset(
            i for i, p in enumerate(model.pieces) if p.text[0] == SPACE and p.kind not in (BYTE, CONTROL, UNKNOWN)
        )
        self._pieces: list[bytes | None] = [_bytes_of(piece, model.unknown_text) for piece in model.pieces]

    def join(self, ids: Sequence[int] | Ids) -> bytes:
        """The bytes of ids, the first of which begins a text."""
        return self.follow(ids, None, last=True)[0] if self.strips else self.within(ids)

    def within(self, ids: Sequence[int] | Ids) -> bytes:
        """The bytes of ids none of which begins a text."""
        return _pieces.join(self._pieces, ids)

    def follow(self, ids: Sequence[int] | Ids, state: object, *, last: bool) -> tuple[bytes, bool]:
        """The bytes of ids behind others; the state is whether a text begins there."""
        rows = _pieces.pick(self._pieces, ids)
        fresh = state is not False
        for place, number in enumerate(map(int, ids)):
            if number in self._control:
                fresh = True
            elif fresh:
                if number in self._spaced:
                    rows[place] = rows[place][1:]
                fresh = self._trims and not rows[place]
        return b"".join(rows), fresh


def _bytes_of(piece: _sentencepiece_file.Piece, unknown: str) -> bytes:
    if piece.kind == BYTE:
        return bytes([_sentencepiece_file.byte_of(piece.text) or 0])
    if piece.kind == UNKNOWN:
        return unknown.encode()
    return piece.text.encode() if piece.kind == CONTROL else piece.text.replace(SPACE, " ").encode()


# ------------------------------------------------------------------------------------------ the fast encoder


def _fast(model: Model, reference: Reference) -> Fast | None:
    """The fast encoder where it surely gives the reference's ids, else None."""
    scores = {piece.text: piece.score for piece in model.pieces if piece.kind == NORMAL}
    if not (_plain(model) and _canonical.is_sure(scores)):
        return None
    try:
        helper = importlib.import_module("tokenriver.tokenizers._fast")
    except ImportError as error:
        warnings.warn(f"gigatoken is not usable here ({error}); encoding with sentencepiece, much slower", stacklevel=2)
        return None
    size = len(model.pieces)
    native = helper.Renewed(lambda: helper.from_sentencepiece(_config(model, _canonical.merges(scores)), size))
    encoder: Fast = helper.FastEncoder(native, size, reference, whole=True)
    return encoder


def _plain(model: Model) -> bool:
    """BPE over characters with a way to spell every byte, that takes a text as it is but for a space before it?"""
    kinds = {piece.kind for piece in model.pieces}
    return (
        model.kind == BPE
        and model.byte_fallback
        and model.spells_space
        and not (model.has_map or model.trims or model.space_behind)
        and kinds <= {NORMAL, UNKNOWN, CONTROL, BYTE}
        and sum(piece.kind == BYTE for piece in model.pieces) == 256
    )


def _config(model: Model, merges: list[tuple[str, str]]) -> dict[str, Any]:
    """The model in the terms of a tokenizer.json; what no text may become has a name there that no text has."""
    names = [p.text if p.kind in (NORMAL, BYTE) else f"<no text {i}>" for i, p in enumerate(model.pieces)]
    unknown = next(i for i, piece in enumerate(model.pieces) if piece.kind == UNKNOWN)
    front = [{"type": "Prepend", "prepend": SPACE}] if model.adds_space else []
    spaces = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    empty = dict.fromkeys(("dropout", "continuing_subword_prefix", "end_of_word_suffix"))
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": [*front, spaces]},
        "model": {
            "type": "BPE",
            "unk_token": names[unknown],
            "fuse_unk": True,
            "byte_fallback": True,
            "ignore_merges": False,
            "vocab": {name: i for i, name in enumerate(names)},
            "merges": [list(pair) for pair in merges],
        }
        | empty,
    } | dict.fromkeys(("truncation", "padding", "pre_tokenizer", "post_processor", "decoder"))
