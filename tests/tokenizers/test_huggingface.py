"""tokenizer.json files: ids equal to the tokenizers package's, fast where that is sure."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from tokenizers import Tokenizer as Library

from golden_data import golden
from hostile_texts import SPELLED, batches
from tokenriver.errors import FormatError, LimitError
from tokenriver.tokenizer import StreamDecoder
from tokenriver.tokenizers import _fast, _risk, huggingface
from tokenriver.tokenizers._bpe import BpeTokenizer
from tokenriver.types import Json
from toy_tokenizers import LLAMA_SPLIT, QWEN_SPLIT, added, byte_level, pair_ranks, write

SIZE = len(byte_level()["model"]["vocab"])
END, START, THINK, THOUGHT = range(SIZE, SIZE + 4)
TOKENS = [
    added(END, "<|endoftext|>", special=True),
    added(START, "<s>", special=True),
    added(THINK, "<think>"),
    added(THOUGHT, "</think>"),
]


def _load(folder: Path, config: Json, encoder: str = "fast") -> tuple[BpeTokenizer, Library]:
    path = write(folder, config)
    library = Library.from_file(str(path))
    library.encode_special_tokens = True
    return huggingface.load(str(path), encoder=encoder), library


def _same(tokenizer: BpeTokenizer, library: Library, texts: list[str]) -> None:
    ids, lengths = tokenizer.encode_batch(texts)
    rows = np.split(ids, np.cumsum(lengths)[:-1])
    wanted = library.encode_batch(texts, add_special_tokens=False)
    assert [row.tolist() for row in rows] == [row.ids for row in wanted]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[BpeTokenizer, Library]]:
    """Every kind of file that the fast encoder takes."""
    configs: list[Json] = [
        byte_level(),
        byte_level(added_tokens=TOKENS),
        byte_level(split=QWEN_SPLIT, added_tokens=TOKENS),
        byte_level(split=LLAMA_SPLIT, model={"ignore_merges": True}),
    ]
    loaded = [_load(tmp_path_factory.mktemp("model"), config) for config in configs]
    assert all(tokenizer.encoder == "fast" for tokenizer, _ in loaded)
    return loaded


@given(batch=batches)
@settings(max_examples=80)
def test_ids_are_those_of_the_package(models: list[tuple[BpeTokenizer, Library]], batch: list[str]) -> None:
    for tokenizer, library in models:
        _same(tokenizer, library, batch)
        for text in batch:
            assert tokenizer.decode(tokenizer.encode(text)) == text


def test_self_check_passes_for_each(models: list[tuple[BpeTokenizer, Library]]) -> None:
    assert all(tokenizer.self_check() > 300 for tokenizer, _ in models)


def test_special_tokens_are_text_and_others_are_not(models: list[tuple[BpeTokenizer, Library]]) -> None:
    tokenizer = models[1][0]
    ids = tokenizer.encode("a<think>b</think><|endoftext|><s>").tolist()
    assert ids.count(THINK) == ids.count(THOUGHT) == 1
    assert not {END, START} & set(ids)
    assert tokenizer.decode([END, THINK]) == "<|endoftext|><think>"
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id) == (START, END, None)
    assert tokenizer.vocab_size == THOUGHT + 1


def test_added_tokens_are_numbered_as_the_package_does_it(tmp_path: Path) -> None:
    tokenizer, library = _load(tmp_path, byte_level(added_tokens=[added(SIZE + 9, "<a>"), added(SIZE + 5, "<b>")]))
    assert tokenizer.encoder == "fast"
    _same(tokenizer, library, ["x<a>y<b>"])
    assert tokenizer.vocab_size == SIZE + 2


def test_a_young_character_beside_an_added_token(models: list[tuple[BpeTokenizer, Library]]) -> None:
    for tokenizer, library in models:
        _same(tokenizer, library, ["x <think> y \u0cdc's z </think> w", "\u0cdc<think>\u0cdc", "a </thi\u0cdcnk> b"])


# ------------------------------------------------------------------------- models that only the reference reads


def _split(**options: object) -> dict[str, Any]:
    config = byte_level(split=QWEN_SPLIT)
    config["pre_tokenizer"]["pretokenizers"][0] |= options
    return config


SLOW: dict[str, Json] = {
    "normalizer": byte_level(normalizer={"type": "NFC"}),
    "another split": byte_level(split=r"\w+|\W+"),
    "merged split": _split(behavior="MergedWithNext"),
    "inverted split": _split(invert=True),
    "prefix space": byte_level(
        pre_tokenizer={"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    ),
    "no split": byte_level(pre_tokenizer=None),
    "whole words only": byte_level(added_tokens=[added(SIZE, "in", single_word=True)]),
    "stripping token": byte_level(added_tokens=[added(SIZE, "<think>", rstrip=True)]),
    "token inside a special one": byte_level(
        added_tokens=[added(SIZE, "<|x<think>|>", special=True), added(SIZE + 1, "<think>")]
    ),
    "token that begins in a special one": byte_level(
        added_tokens=[added(SIZE, "<a><b", special=True), added(SIZE + 1, "<b>c")]
    ),
    "two kinds of tokens": byte_level(added_tokens=[added(SIZE, "<a>", normalized=True), added(SIZE + 1, "<b>")]),
    "suffix": byte_level(model={"end_of_word_suffix": "</w>"}),
    "words": {
        "version": "1.0",
        "added_tokens": [added(4, "[PAD]", special=True)],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "the": 1, "in": 2, "word": 3}, "unk_token": "[UNK]"},
    },
}


@pytest.mark.parametrize("kind", SLOW)
def test_what_is_not_surely_equal_runs_on_the_reference(tmp_path: Path, kind: str) -> None:
    tokenizer, library = _load(tmp_path, SLOW[kind])
    assert tokenizer.encoder == "reference"
    assert tokenizer.self_check() == 0
    texts = ["in the word <think> x", "<|x<think>|> <a><b>c <b>c", "e\u0301 12 in</w>", "", *SPELLED]
    _same(tokenizer, library, texts)


def test_the_reference_can_be_asked_for(tmp_path: Path) -> None:
    tokenizer, library = _load(tmp_path, byte_level(added_tokens=TOKENS), encoder="reference")
    assert tokenizer.encoder == "reference"
    _same(tokenizer, library, ["in the <think>", "\u0cdc's"])
    ids, lengths = tokenizer.encode_framed(["in", ""], START, END)
    assert (ids.tolist(), lengths.tolist()) == ([START, 260, END, START, END], [3, 2])


def test_truncation_and_padding_of_the_file_are_off(tmp_path: Path) -> None:
    padding = {"strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0}
    padding = {**padding, "pad_type_id": 0, "pad_token": "x"}
    truncation = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    config = byte_level(padding=padding, truncation=truncation)
    for encoder in ("fast", "reference"):
        tokenizer, _ = _load(tmp_path, config, encoder)
        assert tokenizer.encode("abcdef").tolist() == list(b"abcdef")
        assert tokenizer.encode("a").tolist() == list(b"a")


def test_a_split_that_gigatoken_does_not_know_is_no_error() -> None:
    assert _fast.from_json(byte_level(split="x+"), 300) is None


# --------------------------------------------------------------------------------------- special ids, decoding


def test_special_ids_come_from_the_config_beside_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, byte_level(added_tokens=TOKENS))
    common = huggingface.load(str(path))
    assert (common.bos_id, common.eos_id, common.pad_id) == (START, END, None)
    write(
        tmp_path, {"bos_token": None, "eos_token": {"content": "<s>"}, "pad_token": "<think>"}, "tokenizer_config.json"
    )
    named = huggingface.load(str(path))
    assert (named.bos_id, named.eos_id, named.pad_id) == (None, START, THINK)
    assert named.fingerprint != common.fingerprint
    write(tmp_path, {"eos_token": "no such"}, "tokenizer_config.json")
    assert huggingface.load(str(path)).eos_id is None
    (tmp_path / "tokenizer_config.json").write_text("{", encoding="utf-8")
    with pytest.raises(FormatError, match=r"tokenizer_config\.json: got .*expected JSON"):
        huggingface.load(str(path))


def test_ids_outside_the_vocabulary_are_refused(tmp_path: Path) -> None:
    for config in (byte_level(), SLOW["words"]):
        tokenizer, _ = _load(tmp_path, config)
        with pytest.raises(LimitError, match="got 9999 at position 1"):
            tokenizer.decode_bytes([1, 9999])


def test_words_decode_as_the_package_does_it(tmp_path: Path) -> None:
    tokenizer, library = _load(tmp_path, SLOW["words"])
    assert tokenizer.decode(tokenizer.encode("the word")) == library.decode([1, 3]) == "the word"


def test_a_stream_of_what_the_package_decodes(tmp_path: Path) -> None:
    words, _ = _load(tmp_path, SLOW["words"])
    assert [words.decode([1]), words.decode([1, 3])] == ["the", "the word"]
    pieces = {"<unk>": 0, "\u2581a": 1, "b": 2} | {f"<0x{byte:02X}>": 3 + byte for byte in range(256)}
    model = {"type": "BPE", "vocab": pieces, "merges": [], "unk_token": "<unk>", "byte_fallback": True}
    decoders: list[Json] = [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}]
    decoders += [{"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]
    config = {"version": "1.0", "added_tokens": [], "model": model}
    llama, _ = _load(tmp_path, config | {"decoder": {"type": "Sequence", "decoders": decoders}})
    wide = [3 + byte for byte in "\u4e2d".encode()]
    for tokenizer, ids in ((words, [1, 3, 2, 1]), (llama, [1, 2, 1, *wide, *wide, 1, wide[0]]), (llama, wide[:2])):
        stream = StreamDecoder(tokenizer)
        parts = [stream.feed(number) for number in ids]
        assert "".join([*parts, stream.finish()]) == tokenizer.decode(ids)
    assert parts == ["", ""]


@pytest.mark.parametrize(
    "data", [b"", b"{", b"{}", b"[]", b'{"model": 1}', b"\xff", json.dumps({"version": "9"}).encode()]
)
def test_what_is_no_tokenizer_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=r"tokenizer\.json: got .*expected a tokenizer\.json"):
        huggingface.load(str(path))


# -------------------------------------------------------------------------------------------------- real files


def test_the_tokenizer_of_minimind() -> None:
    path = golden("inputs/minimind_tokenizer.json")
    tokenizer = huggingface.load(str(path))
    assert (tokenizer.encoder, tokenizer.vocab_size) == ("fast", 6400)
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id) == (1, 2, 0)
    library = Library.from_file(str(path))
    library.encode_special_tokens = True
    for case in json.loads(golden("tokenizer_cases.json").read_text(encoding="utf-8"))["cases"]:
        _same(tokenizer, library, [case["text"]])
        if "<|" not in case["text"]:
            assert tokenizer.encode(case["text"]).tolist() == case["minimind_no_special"]


@pytest.mark.slow
@pytest.mark.parametrize("split", [None, QWEN_SPLIT, LLAMA_SPLIT], ids=["gpt2", "qwen", "llama"])
def test_no_safe_character_is_read_differently(tmp_path: Path, split: str | None) -> None:
    letters = byte_level()["model"]["vocab"]
    spell = dict(zip(range(256), letters, strict=False))
    vocab = {"".join(spell[byte] for byte in piece): rank for piece, rank in pair_ranks(3).items()}
    merges = [" ".join(piece) for piece in vocab if len(piece) == 2]
    tokenizer, _ = _load(tmp_path, byte_level(split=split, model={"vocab": vocab, "merges": merges}))
    risky = _risk.tables().points
    safe = [chr(p) for p in range(0x110000) if not (0xD800 <= p < 0xE000 or risky[p])]
    context = "{0}'s 1{0}2 a{0}B!{0}\n {0}\n\n'{0}it'{0}"
    blocks = ["".join(context.format(c) for c in safe[i : i + 32]).encode() for i in range(0, len(safe), 32)]
    for i in range(0, len(blocks), 500):
        tokenizer.check(blocks[i : i + 500], *tokenizer.encode_batch(blocks[i : i + 500]))
