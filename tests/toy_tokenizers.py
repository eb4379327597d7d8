"""Small tokenizers made on the spot: rank tables and tokenizer.json files with chosen options."""

import base64
import io
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sentencepiece import SentencePieceTrainer

from tokenriver.types import Json

GPT2_SPLIT = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
LLAMA_SPLIT = QWEN_SPLIT.replace(r"|\p{N}|", r"|\p{N}{1,3}|")


def pair_ranks(seed: int) -> dict[bytes, int]:
    """All bytes, and all pairs of bytes in random order: any boundary that a split adds or lacks changes the ids."""
    pairs = [bytes([a, b]) for a in range(256) for b in range(256)]
    random.Random(seed).shuffle(pairs)
    return {piece: rank for rank, piece in enumerate([*(bytes([i]) for i in range(256)), *pairs])}


def few_ranks() -> dict[bytes, int]:
    """A vocabulary of 260: bytes and four merges."""
    pieces = [*(bytes([i]) for i in range(256)), b"th", b"the", b" t", b"in"]
    return {piece: rank for rank, piece in enumerate(pieces)}


def rank_file(ranks: Mapping[bytes, int]) -> bytes:
    return b"".join(base64.b64encode(piece) + b" %d\n" % rank for piece, rank in ranks.items())


def byte_letters() -> list[str]:
    """GPT-2's printable letter of each byte, written the way GPT-2's release describes it."""
    shown = [*range(ord("!"), ord("~") + 1), *range(ord("\xa1"), ord("\xac") + 1), *range(ord("\xae"), ord("\xff") + 1)]
    letters = {byte: chr(byte) for byte in shown}
    for byte in range(256):
        letters.setdefault(byte, chr(256 + byte - sum(b in shown for b in range(byte))))
    return [letters[byte] for byte in range(256)]


def added(i: int, content: str, **options: bool) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return {"id": i, "content": content} | flags | options


def byte_level(*, split: str | None = None, model: Json | None = None, **parts: object) -> dict[str, Any]:
    """A byte-level BPE of 270-odd tokens; `model` replaces fields of the model, `parts` whole sections."""
    letters = byte_letters()
    merges = [
        "t h",
        "th e",
        "\u0120 t",
        "\u0120 the",
        "i n",
        "\u0120 in",
        "1 2",
        "12 3",
        "' s",
        "\u0120 \u0120",
        "\u010a \u010a",
    ]
    vocab = {letter: byte for byte, letter in enumerate(letters)}
    for merge in merges:
        vocab.setdefault(merge.replace(" ", ""), len(vocab))
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": split is None}
    cut = {"type": "Split", "pattern": {"Regex": split}, "behavior": "Isolated", "invert": False}
    empty = dict.fromkeys(("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"))
    flags = dict.fromkeys(("fuse_unk", "byte_fallback", "ignore_merges"), False)
    whole_model = {"type": "BPE", "vocab": vocab, "merges": merges} | empty | flags | dict(model or {})
    sections = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor"))
    splitter = {"type": "Sequence", "pretokenizers": [cut, level]} if split else level
    config: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": splitter,
        "decoder": level | {"use_regex": True},
    }
    return config | sections | {"model": whole_model} | parts


def write(folder: Path, config: Json, name: str = "tokenizer.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


def sentencepiece_model(texts: Sequence[str], **options: object) -> bytes:
    """A SentencePiece model trained on the spot, of as many pieces as the texts give, but for `options` as usual."""
    out = io.BytesIO()
    usual: dict[str, Any] = {"vocab_size": 400, "hard_vocab_limit": False, "num_threads": 1, "minloglevel": 2}
    SentencePieceTrainer.train(sentence_iterator=iter(texts), model_writer=out, **{**usual, **options})
    return out.getvalue()


def whole_model(texts: Sequence[str]) -> bytes:
    """One that gives back any text: byte fallback, nothing replaced, trimmed or added."""
    kept = {"normalization_rule_name": "identity", "add_dummy_prefix": False, "remove_extra_whitespaces": False}
    return sentencepiece_model(texts, model_type="bpe", byte_fallback=True, **kept)
