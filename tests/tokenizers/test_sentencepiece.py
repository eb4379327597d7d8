"""SentencePiece models: ids equal to the sentencepiece package's, fast where that is sure."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor as Library

import tokenriver as tr
from command_line import tokenriver
from hostile_texts import SPELLED, batches
from small_builds import some_texts, write_rows
from tokenriver import registry
from tokenriver.errors import FormatError, InputError, MismatchError
from tokenriver.tokenizers import _canonical, sentencepiece
from tokenriver.tokenizers._bpe import BpeTokenizer
from tokenriver.tokenizers._sentencepiece_file import byte_of
from toy_tokenizers import few_ranks, rank_file, sentencepiece_model, whole_model

TEXTS = ["the cat's hat; the  dog in the house", "\u4e2d\u6587 the the 123", "aaaa abab ==== baba", *some_texts(40)]
PLAIN = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}
BPE = {"model_type": "bpe", "byte_fallback": True}
FAST = {"llama": BPE | PLAIN, "no space before": BPE | PLAIN | {"add_dummy_prefix": False}}
FAST["across words"] = BPE | PLAIN | {"split_by_whitespace": False, "control_symbols": ["<c>", "Q"]}
SLOW: dict[str, Mapping[str, object]] = {
    "unigram": {"model_type": "unigram", "vocab_size": 110},
    "unigram with bytes": {"model_type": "unigram", "byte_fallback": True} | PLAIN,
    "without bytes": {"model_type": "bpe", "vocab_size": 110} | PLAIN,
    "replacing": BPE | {"remove_extra_whitespaces": False},
    "trimming": BPE | {"normalization_rule_name": "identity"},
    "spaces behind": BPE | PLAIN | {"treat_whitespace_as_suffix": True},
    "own symbols": BPE | PLAIN | {"user_defined_symbols": ["<u>", "<v w>", "ZZ"], "control_symbols": ["<c>", "Q"]},
    "characters": {"model_type": "char", "vocab_size": 110},
    "words": {"model_type": "word", "vocab_size": 110},
}
Loaded = tuple[BpeTokenizer, Library]


def _load(folder: Path, data: bytes, encoder: str = "fast") -> Loaded:
    path = folder / "toy.model"
    path.write_bytes(data)
    return sentencepiece.load(str(path), encoder=encoder), Library(model_proto=data)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Loaded]:
    folder = tmp_path_factory.mktemp("models")
    return {kind: _load(folder, sentencepiece_model(TEXTS, **options)) for kind, options in (FAST | SLOW).items()}


def _same(tokenizer: BpeTokenizer, library: Library, texts: Sequence[str]) -> None:
    ids, lengths = tokenizer.encode_batch(texts)
    rows = np.split(ids, np.cumsum(lengths)[:-1])
    assert [row.tolist() for row in rows] == library.encode(list(texts), num_threads=1)


def test_fast_where_it_is_sure(models: dict[str, Loaded]) -> None:
    assert {kind for kind, (tokenizer, _) in models.items() if tokenizer.encoder == "fast"} == set(FAST)
    for kind in FAST:
        assert models[kind][0].self_check() > 300


@given(batch=batches)
@settings(max_examples=12)
def test_ids_are_those_of_the_package(models: dict[str, Loaded], batch: list[str]) -> None:
    for tokenizer, library in models.values():
        _same(tokenizer, library, batch)


@given(batch=st.lists(st.text("ab =\u2581_\n", max_size=40), min_size=1, max_size=8))
@settings(max_examples=12)
def test_runs_and_periods(models: dict[str, Loaded], batch: list[str]) -> None:
    for kind in FAST:
        _same(*models[kind], batch)


def test_the_reference_can_be_asked_for(tmp_path: Path, models: dict[str, Loaded]) -> None:
    tokenizer, _ = _load(tmp_path, whole_model(TEXTS), encoder="reference")
    assert tokenizer.encoder == "reference"
    fast, _ = _load(tmp_path, whole_model(TEXTS))
    texts = [*TEXTS, "", " "]
    for one, other in zip(fast.encode_framed(texts, 1, 2), tokenizer.encode_framed(texts, 1, 2), strict=True):
        assert one.tolist() == other.tolist()
    assert fast.fingerprint == tokenizer.fingerprint != models["llama"][0].fingerprint


# ---------------------------------------------------------------------------------- which pair makes which piece


def _by_score(text: str, scores: Mapping[str, float]) -> list[str]:
    """SentencePiece's rule: the adjacent pair of the highest score, of equal ones the leftmost."""
    symbols = list(text)
    while True:
        pairs = [(-scores[a + b], i) for i, (a, b) in enumerate(pairwise(symbols)) if a + b in scores]
        if not pairs:
            return symbols
        at = min(pairs)[1]
        symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]


def _by_rank(text: str, merges: Sequence[tuple[str, str]]) -> list[str]:
    """Everybody else's: the adjacent pair of the lowest rank, of equal ones the leftmost."""
    symbols = list(text)
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    while True:
        pairs = [(ranks[p], i) for i, p in enumerate(pairwise(symbols)) if p in ranks]
        if not pairs:
            return symbols
        at = min(pairs)[1]
        symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]


@given(
    pieces=st.lists(st.text("abc", min_size=2, max_size=6), unique=True, max_size=30),
    texts=st.lists(st.text("abc", max_size=30), min_size=1, max_size=5),
)
@settings(max_examples=60)
def test_one_pair_makes_each_piece(pieces: list[str], texts: list[str]) -> None:
    scores = {"a": 0.0, "b": 0.0, "c": 0.0} | {piece: -float(i) for i, piece in enumerate(pieces)}
    assert _canonical.is_sure(scores)
    merges = _canonical.merges(scores)
    for text in [*texts, "abc" * 8, "a" * 17]:
        assert _by_rank(text, merges) == _by_score(text, scores)


def test_pieces_whose_rank_is_not_sure() -> None:
    assert not _canonical.is_sure({"a": 0, "b": 0, "ab": -1, "ba": -1})
    assert not _canonical.is_sure({"a": 0, "ab": -1})
    assert not _canonical.is_sure({"a": 0, "a" * 257: -1})
    assert _canonical.merges({"a": 0, "b": 0, "abab": -1}) == []


# ------------------------------------------------------------------------------------------- control, own symbols


def test_control_symbols_are_text_and_own_symbols_are_not(models: dict[str, Loaded]) -> None:
    tokenizer, library = models["own symbols"]
    spelled = "".join(SPELLED) + "<c> Q <unk>"
    ids = tokenizer.encode(f"a{spelled}b").tolist()
    assert not any(library.is_control(i) or library.is_unknown(i) for i in ids)
    assert tokenizer.decode(ids) == f"a{spelled}b"
    assert tokenizer.encode("ZZ<u>").tolist()[-2:] == library.piece_to_id(["ZZ", "<u>"])
    assert set(tokenizer.control_tokens) == {b"<s>", b"</s>", b"<c>", b"Q"}


def test_special_ids_are_the_models(tmp_path: Path) -> None:
    named, _ = _load(tmp_path, sentencepiece_model(TEXTS, bos_id=-1, eos_id=2, pad_id=1, unk_id=0, eos_piece="<end>"))
    assert (named.bos_id, named.eos_id, named.pad_id) == (None, 2, 1)
    assert named.decode([2, 1]) == "<end><pad>"
    usual, _ = _load(tmp_path, sentencepiece_model(TEXTS))
    assert (usual.bos_id, usual.eos_id, usual.pad_id) == (1, 2, None)


# --------------------------------------------------------------------------------------------------- decoding


@given(batch=batches)
@settings(max_examples=12)
def test_decoding_is_the_packages(models: dict[str, Loaded], batch: list[str]) -> None:
    for tokenizer, library in models.values():
        for text in batch:
            ids = tokenizer.encode(text)
            assert tokenizer.decode(ids) == library.decode(ids.tolist())
        for kind in FAST:
            texts = [text.replace("\u2581", " ") for text in batch]  # which no model can tell from a space
            ids, _ = models[kind][0].encode_framed(texts, 1, 2)
            assert models[kind][0].decode(ids) == "".join(f"<s>{text}</s>" for text in texts)


@given(batch=batches, size=st.integers(1, 5))
@settings(max_examples=12)
def test_a_stream_gives_the_text_of_all(models: dict[str, Loaded], batch: list[str], size: int) -> None:
    for tokenizer, _ in models.values():
        ids, _ = tokenizer.encode_framed([*batch, "  a  b", " "], 1, 2)
        stream = tr.stream_decoder(tokenizer)
        parts = [stream.feed(ids[at : at + size]) for at in range(0, len(ids), size)]
        assert "".join([*parts, stream.finish()]) == tokenizer.decode(ids)


# ------------------------------------------------------------------------------------------------- hostile files


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    plain = sentencepiece_model(TEXTS, vocab_size=110, model_type="unigram", **PLAIN)
    replacing = sentencepiece_model(TEXTS, vocab_size=110, model_type="unigram")
    path = tmp_path / "toy.model"
    refused = 0
    for whole, step in ((plain, 61), (replacing, len(replacing) // 8)):
        for size in range(0, len(whole), step):
            for data in (whole[:size], whole[:size] + bytes([whole[size] ^ 0xFF]) + whole[size + 1 :]):
                path.write_bytes(data)
                try:
                    tokenizer = sentencepiece.load(str(path))
                except FormatError as error:
                    refused += str(error).startswith(str(path))
                else:
                    tokenizer.decode(tokenizer.encode("the cat"))
    assert refused > len(plain) // 61


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "pieces: got none"),
        (b"\x0a\xff\xff\xff\xff\x0f", r"length of the field at byte 6: got 4294967295, expected at most 0"),
        (b"\x0a" + b"\xff" * 11, "number at byte 11: got no end"),
        (b"\x0b", "got wire type 3"),
        (b"\x08\x01", "field 1 at byte 2: got a number"),
        (b"\x0a\x00", "got text ''"),
        (b"\x0a\x03\x0a\x01a\x0a\x03\x0a\x01a", "got one twice"),
        (b"\x0a\x03\x0a\x01a", "got 0 for unknown text"),
        (b"\x0a\x03\x0a\x01\xff", "expected UTF-8"),
        (b"\x0a\x08\x0a\x01a\x15\x00\x00\xc0\x7f", "got score nan"),
        (b"\x0a\x05\x0a\x01a\x18\x06", "got 'a' for a byte"),
        (b"\x0a\x05\x0a\x01a\x18\x02", "expected a SentencePiece model"),
        (b"\x0a\x05\x0a\x01a\x18\x02\x12\x02\x18\x07", "kind of the model: got 7"),
        (rank_file(few_ranks()), "got a rank file of tiktoken"),
    ],
)
def test_what_is_no_model_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "x.model"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=rf"x\.model: .*{message}"):
        tr.load_tokenizer(path)


def test_bytes_by_name() -> None:
    assert [byte_of(text) for text in ("<0x00>", "<0xFF>", "<0xff>", "<0x1>", "a", "<0x+1>", "<0x000>")] == [
        0,
        255,
        *[None] * 5,
    ]


# ------------------------------------------------------------------------------------------------------ corpora


@pytest.mark.usefixtures("quick_disk")
@pytest.mark.parametrize("kind", ["llama", "unigram"])
def test_a_corpus(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "toy.model"
    path.write_bytes(sentencepiece_model(TEXTS, **(FAST | SLOW)[kind]))
    rows = write_rows(tmp_path / "rows.jsonl", TEXTS)
    tr.build(rows, tmp_path / "corpus", tokenizer=path, framing="bos-eos")
    corpus = tr.open_corpus(tmp_path / "corpus", tokenizer=path)
    tokenizer = tr.load_tokenizer(path)
    assert corpus.tokenizer_fingerprint == tokenizer.fingerprint
    assert corpus.document(3).tolist() == [1, *tokenizer.encode(TEXTS[3]).tolist(), 2]
    if kind == "llama":
        assert corpus.decode(corpus.read(0, corpus.num_tokens)) == "".join(f"<s>{text}</s>" for text in TEXTS)
    assert not tr.verify(tmp_path / "corpus", against_inputs=True, inputs_root=tmp_path, tokenizer=path)
    assert tr.build(rows, tmp_path / "corpus", tokenizer=path, framing="bos-eos").complete_before
    (tmp_path / "other.model").write_bytes(whole_model(TEXTS))
    with pytest.raises(MismatchError, match="fingerprint"):
        tr.open_corpus(tmp_path / "corpus", tokenizer=tmp_path / "other.model").load_tokenizer()


def test_pieces_are_shown_with_their_spaces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "toy.model"
    path.write_bytes(sentencepiece_model(TEXTS, **FAST["llama"]))
    shown = tokenriver(capsys, "tokenizer", "show", "the cat", "--tokenizer", path, "--json").json()
    assert "".join(shown["pieces"]) == " the cat"  # the model puts a space before a text
    assert shown["round_trip"]
    assert (
        tokenriver(capsys, "tokenizer", "show", "a\u2581b", "--tokenizer", path, "--json").json()["round_trip"] is False
    )
    tokenizer = tr.load_tokenizer(path)
    registry.load("tokenizers", "llmc").write(tmp_path / "x.bin", tokenizer)
    theirs = tr.load_tokenizer(tmp_path / "x.bin")
    assert theirs.decode(tokenizer.encode("the cat")) == " the cat"


def test_without_the_package_its_extra_is_named(tmp_path: Path) -> None:
    path = tmp_path / "toy.model"
    path.write_bytes(whole_model(TEXTS))
    program = (
        "import sys; sys.modules['sentencepiece'] = None\n"
        "import tokenriver\n"
        "try: tokenriver.load_tokenizer(sys.argv[1])\n"
        "except tokenriver.MissingPackageError as error: print(error)"
    )
    out = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True).stdout
    assert "pip install 'tokenriver[sentencepiece]'" in out


def test_a_folder_with_a_model(tmp_path: Path) -> None:
    data = whole_model(TEXTS)
    (tmp_path / "tokenizer.model").write_bytes(data)
    assert tr.load_tokenizer(tmp_path).name == "tokenizer.model"
    (tmp_path / "other.model").write_bytes(data)
    with pytest.raises(InputError, match=r"2 \.tiktoken or \.model files"):
        tr.load_tokenizer(tmp_path)
