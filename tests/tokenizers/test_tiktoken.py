"""Rank tables: what is shipped, what is found, and ids equal to tiktoken's."""

import hashlib
import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiktoken
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from golden_data import golden
from hostile_texts import SPELLED, YOUNG, batches, texts
from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.tokenizers import _encodings, _text
from tokenriver.tokenizers import tiktoken as ours
from tokenriver.types import Ids
from toy_tokenizers import byte_letters, few_ranks, rank_file

published = importlib.import_module("tiktoken_ext.openai_public")
GPT2 = ours.load("gpt2")
SLOW = ours.load("gpt2", encoder="reference")
SHIPPED = zstandard.ZstdDecompressor().decompress(ours.SHIPPED.read_bytes())
RANKS = ours.Ranks("shipped", SHIPPED, {}).by_piece
PEER = tiktoken.Encoding(
    "peer",
    pat_str=published.r50k_pat_str,
    mergeable_ranks=RANKS,
    special_tokens={"<|endoftext|>": 50256},
)


def _rows(ids: Ids, lengths: np.ndarray) -> list[list[int]]:
    return [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])] if len(lengths) else []


# ------------------------------------------------------------------------------------------ the shipped table


def test_the_shipped_table_is_the_published_file() -> None:
    assert hashlib.sha256(SHIPPED).hexdigest() == "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"


def test_the_shipped_table_gives_back_the_files_of_the_gpt2_release() -> None:
    letters = byte_letters()
    spell = {piece: "".join(letters[byte] for byte in piece) for piece in RANKS}
    by_rank = sorted(RANKS, key=RANKS.__getitem__)
    merges = [" ".join(spell[part] for part in _parts(piece)) for piece in by_rank[256:]]
    vocab_bpe = "#version: 0.2\n" + "\n".join(merges) + "\n"
    assert hashlib.sha256(vocab_bpe.encode()).hexdigest() == (
        "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"
    )
    encoder_json = json.dumps({spell[piece]: rank for piece, rank in RANKS.items()} | {"<|endoftext|>": 50256})
    assert hashlib.sha256(encoder_json.encode()).hexdigest() == (
        "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783"
    )


def _parts(piece: bytes) -> list[bytes]:
    """The two pieces whose merge made this one: merge the bytes in rank order until two are left."""
    parts = [piece[i : i + 1] for i in range(len(piece))]
    while len(parts) > 2:
        _, i = min((RANKS.get(parts[i] + parts[i + 1], 1 << 30), i) for i in range(len(parts) - 1))
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return parts


def test_what_gpt2_is() -> None:
    assert (GPT2.name, GPT2.vocab_size, GPT2.bos_id, GPT2.eos_id, GPT2.pad_id) == ("gpt2", 50257, 50256, 50256, None)
    assert (GPT2.encoder, SLOW.encoder) == ("fast", "reference")
    assert GPT2.fingerprint == SLOW.fingerprint == ours.load("r50k_base").fingerprint
    assert GPT2.fingerprint == "e307582cd8917dff6b915273227f9f5fac5c424d61932bb8b8b6bee2acab8b9d"


# ------------------------------------------------------------------------------------------------ exactness


def test_golden_cases() -> None:
    cases = json.loads(golden("tokenizer_cases.json").read_text(encoding="utf-8"))["cases"]
    assert len(cases) > 20
    for case in cases:
        assert GPT2.encode(case["text"]).tolist() == case["gpt2_encode_ordinary"]
        assert SLOW.encode(case["text"]).tolist() == case["gpt2_encode_ordinary"]
        assert GPT2.decode(case["gpt2_encode_ordinary"]) == case["text"]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("x<|endoftext|>y", [87, 27, 91, 437, 1659, 5239, 91, 29, 88]),
        ("I'm you're HE'LL don't", [40, 1101, 345, 821, 11179, 6, 3069, 836, 470]),
        ("\n\n", [628]),
        ("  ", [220, 220]),
        ("", []),
        ("\ud83d\udc4d", [41840, 235]),
        ("\ud83d", [4210]),
    ],
)
def test_a_few_ids_by_hand(text: str, ids: list[int]) -> None:
    assert GPT2.encode(text).tolist() == SLOW.encode(text).tolist() == ids


@pytest.mark.parametrize(("ids", "text"), [([764], " ."), ([837], " ,"), ([2644], " ...")])
def test_decoding_keeps_the_space(ids: list[int], text: str) -> None:
    assert GPT2.decode(ids) == text


@given(batches)
@settings(max_examples=400)
def test_ids_are_those_of_tiktoken(batch: list[str]) -> None:
    wanted = [PEER.encode_ordinary(text) for text in batch]
    assert _rows(*GPT2.encode_batch(batch)) == wanted
    assert _rows(*GPT2.encode_batch([text.encode() for text in batch])) == wanted
    assert [GPT2.decode_bytes(row) for row in wanted] == [text.encode() for text in batch]


@given(batches, st.sampled_from([None, 50256, 7]), st.sampled_from([None, 50256, 9]))
@settings(max_examples=100)
def test_framing_in_place_equals_framing_afterwards(batch: list[str], before: int | None, after: int | None) -> None:
    ids, lengths = GPT2.encode_framed(batch, before, after)
    wanted = _text.frame(*SLOW.encode_batch(batch), before, after)
    assert ids.tolist() == wanted[0].tolist()
    assert lengths.tolist() == wanted[1].tolist()
    assert ids.dtype == np.uint32
    assert lengths.dtype == np.int64


@pytest.mark.parametrize(
    "text", ["a" * 1000, " " * 1000 + "x", "\n" * 999, "\u0301" * 500, YOUNG * 40, "ab " * 2000 + YOUNG]
)
def test_long_runs(text: str) -> None:
    assert GPT2.encode(text).tolist() == PEER.encode_ordinary(text)


def test_a_run_of_megabytes_does_not_reach_the_reference() -> None:
    # older releases of tiktoken take time with the square of a run
    run = "a" * 1_000_000
    assert GPT2.decode(GPT2.encode(run)) == run


def test_combining_marks() -> None:
    marks = "".join(map(chr, range(0x300, 0x370)))
    assert GPT2.encode(marks).tolist() == PEER.encode_ordinary(marks)
    assert GPT2.encode("e\u0301").tolist() != GPT2.encode("\u00e9").tolist()


def test_special_looking_text_is_text() -> None:
    for text in SPELLED:
        ids = GPT2.encode(f"a{text}b")
        assert 50256 not in ids
        assert GPT2.decode(ids) == f"a{text}b"


def test_no_text_and_empty_texts() -> None:
    for tokenizer in (GPT2, SLOW):
        assert [a.tolist() for a in tokenizer.encode_batch([])] == [[], []]
        assert [a.tolist() for a in tokenizer.encode_framed([b"", b""], None, 50256)] == [[50256, 50256], [1, 1]]


@given(texts)
@settings(max_examples=50)
def test_check_accepts_what_encode_batch_gives(text: str) -> None:
    GPT2.check([text.encode()], *GPT2.encode_batch([text]))


# -------------------------------------------------------------------------------------- names, files, caches


def test_every_name_agrees_with_tiktoken(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def remember(address: str, expected_hash: str) -> dict[bytes, int]:
        asked.append((address, expected_hash))
        return few_ranks()

    monkeypatch.setattr(published, "load_tiktoken_bpe", remember)
    for name, encoding in _encodings.ENCODINGS.items():
        if name == "gpt2":
            continue
        theirs = published.ENCODING_CONSTRUCTORS[name]()
        address, digest = asked[-1]
        assert (hashlib.sha1(address.encode()).hexdigest(), digest) == (encoding.cache_name, encoding.digest)
        assert dict(theirs["special_tokens"]) == dict(encoding.specials)
        peer = tiktoken.Encoding(name, pat_str=theirs["pat_str"], mergeable_ranks=few_ranks(), special_tokens={})
        same = tiktoken.Encoding(
            name, pat_str=encoding.pattern.expression, mergeable_ranks=few_ranks(), special_tokens={}
        )
        for text in (
            " the thin''s 1234 the\n\n\t in  the",
            "HE'LL it\u2019s THE'lls 12/\n\n x  \r\n y ",
            YOUNG,
            "e\u0301th'S",
        ):
            assert same.encode_ordinary(text) == peer.encode_ordinary(text)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """cl100k_base with a rank file of 260 lines."""
    data = rank_file(few_ranks())
    encoding = _encodings.ENCODINGS["cl100k_base"]._replace(
        digest=hashlib.sha256(data).hexdigest(), specials={"<|endoftext|>": 270}
    )
    monkeypatch.setattr(ours, "ENCODINGS", {**_encodings.ENCODINGS, "cl100k_base": encoding})
    return data


@pytest.mark.parametrize("file", ["cl100k_base.tiktoken", "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"])
def test_an_encoding_is_found_in_a_cache(toy: bytes, tmp_path: Path, file: str) -> None:
    (tmp_path / file).write_bytes(toy)
    found = ours.load("cl100k_base", search=[tmp_path / "none", tmp_path])
    assert (found.name, found.vocab_size, found.eos_id) == ("cl100k_base", 271, 270)
    assert found.encode("the in").tolist() == [257, 32, 259]
    assert found.decode([257, 270]) == "the<|endoftext|>"
    with pytest.raises(LimitError, match="got 265 at position 1"):
        found.decode([257, 265])


def test_a_missing_encoding_is_named_with_the_places(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        ours.load("o200k_base", search=[tmp_path / "a", tmp_path / "b"])
    text = str(error.value)
    assert "\n" not in text
    for part in (
        "o200k_base.tiktoken",
        "fb374d419588a4632f3f557e76b4b70aebbca790",
        str(tmp_path / "a"),
        str(tmp_path / "b"),
    ):
        assert part in text


def test_a_damaged_cache_is_no_encoding(toy: bytes, tmp_path: Path) -> None:
    (tmp_path / "cl100k_base.tiktoken").write_bytes(toy[:-1])
    with pytest.raises(FormatError, match=r"cl100k_base\.tiktoken: sha256: got"):
        ours.load("cl100k_base", search=[tmp_path])


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(InputError, match=r"'gpt3'.*gpt2, r50k_base"):
        ours.load("gpt3")


def test_a_rank_file_is_known_by_its_digest_or_says_how_it_splits(tmp_path: Path) -> None:
    (tmp_path / "any.tiktoken").write_bytes(SHIPPED)
    found = ours.load(str(tmp_path / "any.tiktoken"))
    assert (found.name, found.fingerprint) == ("any.tiktoken", GPT2.fingerprint)
    own = tmp_path / "toy.cl100k_base.tiktoken"
    own.write_bytes(rank_file(few_ranks()))
    toy = ours.load(str(own))
    assert (toy.name, toy.vocab_size, toy.eos_id) == ("toy.cl100k_base.tiktoken", 261, 260)
    assert toy.encode("the in").tolist() == [257, 32, 259]
    assert toy.self_check() > 300
    assert toy.fingerprint not in {GPT2.fingerprint, ours.load("gpt2").fingerprint}


def test_a_rank_file_that_says_neither_is_refused(tmp_path: Path) -> None:
    data = rank_file(few_ranks())
    for name in ("mine.tiktoken", "mine.v2.tiktoken"):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(InputError, match=r"tiktoken: split pattern: .*name it NAME\.ENCODING\.tiktoken"):
            ours.load(str(tmp_path / name))
    # half of a published file is a smaller vocabulary, and would be taken for one
    (tmp_path / "gpt2.tiktoken").write_bytes(SHIPPED[: SHIPPED.index(b"\n", 400_000) + 1])
    with pytest.raises(FormatError, match=r"gpt2\.tiktoken: sha256: got"):
        ours.load(str(tmp_path / "gpt2.tiktoken"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "line 1: got b''"),
        (rank_file(few_ranks())[:-2], "a piece or rank twice"),
        (rank_file(few_ranks())[:-4], "line 260: got b'aW4= '"),
        (rank_file(few_ranks()) + b"!! 9\n", "line 261: got b'!! 9'"),
        (rank_file(few_ranks()) + b"YWJj 12\n", "a piece or rank twice"),
        (rank_file(few_ranks()) + b"YQ== 900\n", "a piece or rank twice"),
        (rank_file(dict(list(few_ranks().items())[1:])), "byte 0x00 is missing"),
        (rank_file(few_ranks()) + b"YWJj 999999999\n", "ranks: got 999999999"),
        (rank_file(few_ranks()) + b"YWJjZ 900\n", "base64"),
    ],
)
def test_a_damaged_rank_file_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "toy.p50k_base.tiktoken"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=message) as error:
        ours.load(str(path))
    assert str(error.value).startswith(str(path))


def test_a_rank_file_needs_no_last_newline(tmp_path: Path) -> None:
    path = tmp_path / "toy.p50k_base.tiktoken"
    path.write_bytes(rank_file(few_ranks())[:-1])
    assert ours.load(str(path)).encode("in").tolist() == [259]


def test_an_unknown_encoder_is_refused() -> None:
    with pytest.raises(InputError, match="encoder: got 'fastest'"):
        ours.load("gpt2", encoder="fastest")


# ------------------------------------------------------------------------------------------------- start-up


def test_encoding_ascii_loads_no_reference() -> None:
    code = (
        "import sys; from tokenriver.tokenizer import load_tokenizer; t = load_tokenizer('gpt2');"
        "t.encode_framed([b'plain text', 'caf\\u00e9'.encode()], None, 50256);"
        "print(*sorted(sys.modules))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "gigatoken" in loaded
    assert {"tiktoken", "regex", "awkward", "tokenizers", "requests"}.isdisjoint(loaded)


def test_without_gigatoken_the_reference_encodes_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenriver.tokenizers._fast", None)
    with pytest.warns(UserWarning, match="gigatoken is not usable here") as warned:
        fallen = ours.load("gpt2")
    assert len(warned) == 1
    assert fallen.encoder == "reference"
    assert fallen.self_check() == 0
    assert fallen.encode("a b").tolist() == GPT2.encode("a b").tolist()
    fallen.check([b"a"], np.array([5], dtype=np.uint32), np.array([1]))


def test_the_table_reaches_gigatoken_where_memory_has_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = sys.modules["tokenriver.tokenizers._fast"]
    monkeypatch.delattr(fast.os, "memfd_create", raising=False)
    assert ours.load("gpt2").encode("hello world").tolist() == [31373, 995]
