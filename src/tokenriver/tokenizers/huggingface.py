"""tokenizer.json files of Hugging Face, whatever model they hold: the `tokenizers` package is the reference.

Byte-level BPE with a split pattern that `_risk` knows runs on the fast encoder; every other model on the reference.
Text is encoded as the reference does it with `encode_special_tokens`: what spells a special token is text, while added
tokens that are not special (<think>, <tool_call>) are still found. The ids of bos, eos and pad come from the files
beside tokenizer.json, or from names that models commonly give them.
"""

import hashlib
import importlib
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Library

from tokenriver import files
from tokenriver.errors import FormatError
from tokenriver.tokenizers import _fast_training, _pieces, _text, _training
from tokenriver.tokenizers._bpe import BpeTokenizer, Fast, Reference, known_encoder
from tokenriver.types import Ids

SUFFIXES = (".json",)
train = _training.train
train_fast = _fast_training.train

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPLITS = frozenset(
    {
        rf"{_CONTRACTIONS}|{_WORD}|\p{{N}}{{1,3}}|{_REST}",
        rf"{_CONTRACTIONS}|{_WORD}|\p{{N}}|{_REST}",
    }
)
"""Split patterns of Llama 3 (cl100k's too) and of Qwen 2: like GPT-2's own, `_risk` may cut texts split by one."""

# a file without a config beside it: the first of these special tokens that it has
_ROLES = {
    "bos": ("<s>", "<|begin_of_text|>", "<bos>", "<|startoftext|>", "<|endoftext|>"),
    "eos": ("</s>", "<|end_of_text|>", "<eos>", "<|endoftext|>", "<|im_end|>"),
    "pad": ("<pad>", "<|pad|>", "[PAD]"),
}


UNFINISHED = "\ufffd".encode()


def load(name: str, *, search: Sequence[Path] = (), encoder: str = "fast") -> BpeTokenizer:
    """The tokenizer of the tokenizer.json at that path; FormatError if it is none."""
    path = Path(name)
    with files.naming(path, "read"):
        data = path.read_bytes()
    config, library = _parse(path, data)
    names: dict[str, int] = library.get_vocab(with_added_tokens=True)
    size = max(names.values(), default=-1) + 1
    special = _special_ids(path, library)
    names_of_special = {t.content: i for i, t in library.get_added_tokens_decoder().items() if t.special}
    reference = _reference(library)
    to_bytes, exact = _decoder(config, library, names)
    return BpeTokenizer(
        name=path.name,
        vocab_size=size,
        bos_id=special["bos"],
        eos_id=special["eos"],
        pad_id=special["pad"],
        fingerprint=_fingerprint(data, special),
        reference=reference,
        to_bytes=to_bytes,
        fast=_fast(config, library, size, reference) if known_encoder(encoder) == "fast" else None,
        special_ids=names_of_special,
        follow=None if exact else partial(_follow, to_bytes),
    )


def _parse(path: Path, data: bytes) -> tuple[dict[str, Any], Library]:
    try:
        config = json.loads(data)
        library = Library.from_buffer(data)
    except Exception as error:  # the package raises bare Exception for a file that it cannot read
        raise FormatError(f"{path}: got {str(error)[:200]}, expected a tokenizer.json; get the file again") from error
    library.no_truncation()
    library.no_padding()
    library.encode_special_tokens = True
    return config, library


def _reference(library: Library) -> Reference:
    def encode(texts: Sequence[bytes]) -> list[list[int]]:
        rows = library.encode_batch_fast([_text.as_text(text) for text in texts], add_special_tokens=False)
        return [row.ids for row in rows]

    return encode


def _special_ids(path: Path, library: Library) -> dict[str, int | None]:
    """bos, eos and pad: named by special_tokens_map.json or NAME_config.json beside NAME.json, else by common names."""
    named: dict[str, str] = {}
    for file in ("special_tokens_map.json", f"{path.stem}_config.json"):
        content = _read_json(path.parent / file)
        for role in _ROLES:
            token = content.get(f"{role}_token")
            token = token.get("content") if isinstance(token, dict) else token
            if isinstance(token, str):
                named[role] = token
    if not named:
        known = {token.content for token in library.get_added_tokens_decoder().values() if token.special}
        named = {role: next((name for name in names if name in known), "") for role, names in _ROLES.items()}
    return {role: library.token_to_id(named[role]) if named.get(role) else None for role in _ROLES}


def _read_json(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        return {}
    with files.naming(path, "read"):
        data = path.read_bytes()
    try:
        content = json.loads(data)
    except ValueError as error:
        raise FormatError(f"{path}: got {error}, expected JSON; mend or remove the file") from error
    return content if isinstance(content, dict) else {}


def _fingerprint(data: bytes, roles: Mapping[str, int | None]) -> str:
    content = {"kind": "tokenizer.json", "file": hashlib.sha256(data).hexdigest(), "special": dict(roles)}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


# ---------------------------------------------------------------------------------------------- ids to bytes


def _decoder(
    config: Mapping[str, Any], library: Library, names: Mapping[str, int]
) -> tuple[Callable[[Sequence[int] | Ids], bytes], bool]:
    """Exact bytes for byte-level models (True); for the others what the reference's own decoder makes of the ids."""
    added = {i: token.content.encode() for i, token in library.get_added_tokens_decoder().items()}
    plain = {i: name for name, i in names.items() if i not in added}
    letters = _byte_letters()
    exact = _is_byte_level(config) and all(letters.keys() >= set(name) for name in plain.values())
    spelled = {i: bytes(letters[c] for c in name) if exact else name.encode() for i, name in plain.items()}
    pieces = _pieces.table(spelled | added)

    def decode(ids: Sequence[int] | Ids) -> bytes:
        spelling = _pieces.join(pieces, ids)
        if exact:
            return spelling
        return str(library.decode([int(i) for i in ids], skip_special_tokens=False)).encode()

    return decode, exact


def _follow(
    decode: Callable[[Sequence[int]], bytes], ids: Sequence[int] | Ids, state: object, *, last: bool
) -> tuple[bytes, object]:
    """The bytes of ids behind others, by a decoder that looks at the ids before. The state is the ids up to the first
    that gave a text, before which the next ones are decoded, and ids whose text may be unfinished."""
    head, held = state if isinstance(state, tuple) else ((), ())
    held = (*held, *map(int, ids))
    text = decode(head + held)
    if not held or (text.endswith(UNFINISHED) and not last):
        return b"", (head, held)
    before = decode(head)
    return text[len(before) :], ((head if before else head + held), ())


def _is_byte_level(config: Mapping[str, Any]) -> bool:
    decoder = config.get("decoder") or {}
    return config["model"].get("type") == "BPE" and decoder.get("type") == "ByteLevel"


def _byte_letters() -> dict[str, int]:
    """The printable stand-in of each byte in byte-level vocabularies: itself, or 256 and up in byte order."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {chr(256 + i): byte for i, byte in enumerate(hidden)}


# ------------------------------------------------------------------------------------------ the fast encoder


def _fast(config: Mapping[str, Any], library: Library, size: int, reference: Reference) -> Fast | None:
    """The fast encoder where it surely gives the reference's ids, else None."""
    kept = [token for token in config.get("added_tokens") or [] if not token["special"]]
    if not (_plain_model(config) and _known_split(config) and _plain_tokens(config, kept)):
        return None
    try:
        helper = importlib.import_module("tokenriver.tokenizers._fast")
    except ImportError as error:
        warnings.warn(f"gigatoken is not usable here ({error}); encoding with tokenizers, much slower", stacklevel=2)
        return None
    # the reference numbers added tokens itself where the file's numbers have gaps
    numbered = [{**token, "id": library.token_to_id(token["content"])} for token in kept]
    make = partial(helper.from_json, {**config, "added_tokens": numbered}, size)
    native = make()
    if native is None:
        return None
    encoder: Fast = helper.FastEncoder(helper.Renewed(make, native), size, reference, whole=bool(kept))
    return encoder


def _plain_model(config: Mapping[str, Any]) -> bool:
    """Byte-level BPE over all 256 bytes, with no options beyond ranks?"""
    model = config["model"]
    options = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback")
    return (
        model.get("type") == "BPE"
        and config.get("normalizer") is None
        and not any(model.get(option) for option in options)
        and all(letter in model["vocab"] for letter in _byte_letters())
    )


def _known_split(config: Mapping[str, Any]) -> bool:
    """Is the text split as GPT-2, Llama 3 or Qwen 2 split it?"""
    step = config.get("pre_tokenizer") or {}
    if step.get("type") == "ByteLevel":
        return not step.get("add_prefix_space", True) and bool(step.get("use_regex", True))
    steps = step.get("pretokenizers") or []
    if step.get("type") != "Sequence" or [s.get("type") for s in steps] != ["Split", "ByteLevel"]:
        return False
    split, level = steps
    return (
        split.get("pattern", {}).get("Regex") in SPLITS
        and split.get("behavior") == "Isolated"
        and not split.get("invert")
        and not level.get("add_prefix_space", True)
        and not level.get("use_regex", True)
    )


def _plain_tokens(config: Mapping[str, Any], kept: Sequence[Mapping[str, Any]]) -> bool:
    """Are the added tokens that stay plain strings, which no special token can hide from the reference?"""
    special = [token["content"] for token in config.get("added_tokens") or [] if token["special"]]
    options = ("single_word", "lstrip", "rstrip")
    plain = not any(token.get(option) for token in kept for option in options)
    alike = len({bool(token.get("normalized")) for token in kept}) < 2
    return plain and alike and not any(_hides(s, token["content"]) for s in special for token in kept)


def _hides(special: str, other: str) -> bool:
    """Can a match of `special`, which the reference finds and drops, cover the start of `other`?"""
    tails = range(1, len(special))
    return other in special or any(other.startswith(special[i:]) for i in tails)
