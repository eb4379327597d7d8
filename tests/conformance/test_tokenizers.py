"""What every tokenizer of the registry must do; a new one needs a line in GIVEN only if it reads a file."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from hostile_texts import SPELLED
from tokenriver import registry
from tokenriver.errors import LimitError
from tokenriver.tokenizer import load_tokenizer, stream_decoder
from tokenriver.tokenizers import _gate
from tokenriver.types import Tokenizer
from toy_tokenizers import added, byte_level, few_ranks, rank_file, whole_model, write


def _table(folder: Path) -> Path:
    path = folder / "toy.cl100k_base.tiktoken"
    path.write_bytes(rank_file(few_ranks()))
    return path


def _json(folder: Path) -> Path:
    return write(folder, byte_level(added_tokens=[added(267, "<|endoftext|>", special=True)]))


def _llmc(folder: Path) -> Path:
    path = folder / "gpt2_tokenizer.bin"
    registry.load("tokenizers", "llmc").write(path, load_tokenizer("gpt2"))
    return path


def _characters(folder: Path) -> Path:
    letters = set(b"".join(TEXTS).decode()) | set("".join(SPELLED)) | set("\ufffd\U0001f44d")
    registry.load("formats", "nanogpt").write_characters(folder / "meta.pkl", "".join(sorted(letters)))
    return folder / "meta.pkl"


def _sentencepiece(folder: Path) -> Path:
    path = folder / "toy.model"
    path.write_bytes(whole_model(["the cat's hat in the house", "x = [1, 2]  # \u4e2d\u6587"]))
    return path


GIVEN: dict[str, Callable[[Path], Path]] = {
    "tiktoken": _table,
    "huggingface": _json,
    "llmc": _llmc,
    "char": _characters,
    "sentencepiece": _sentencepiece,
}
TEXTS = [text for text in _gate.hostile_texts() if text]


@pytest.fixture(params=registry.names("tokenizers"))
def tokenizer(request: pytest.FixtureRequest, tmp_path: Path) -> Tokenizer:
    make = GIVEN.get(request.param)
    return load_tokenizer(request.param if make is None else make(tmp_path))


def test_round_trip_and_range(tokenizer: Tokenizer) -> None:
    ids, lengths = tokenizer.encode_batch(TEXTS)
    assert ids.dtype == np.uint32
    assert lengths.dtype == np.int64
    assert lengths.shape == (len(TEXTS),)
    assert int(lengths.sum()) == len(ids)
    assert int(ids.max()) < tokenizer.vocab_size
    assert tokenizer.decode_bytes(ids) == b"".join(TEXTS)
    tokenizer.check(TEXTS, ids, lengths)


def test_other_threads_may_run_meanwhile(tokenizer: Tokenizer) -> None:
    """The native tokenizer has another entry for that; several threads may be in it at once."""
    let = getattr(tokenizer, "letting_threads_run", None)
    if let is None or let() is tokenizer:
        return
    beside = let()
    assert beside.fingerprint == tokenizer.fingerprint
    assert beside.self_check() == tokenizer.self_check() > 0
    expected = [tokenizer.encode_framed(TEXTS[at::3], None, 0) for at in range(3)]
    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(lambda at: beside.encode_framed(TEXTS[at::3], None, 0), range(3)))
    for ours, theirs in zip(found, expected, strict=True):
        assert [column.tolist() for column in ours] == [column.tolist() for column in theirs]
        assert [column.dtype for column in ours] == [column.dtype for column in theirs]
    assert [len(column) for column in beside.encode_batch([b""])] == [0, 1]
    for texts in (TEXTS, [TEXTS[0]], [b""], []):
        foreign = [i for i, text in enumerate(texts) if not text.isascii()]
        ours = beside.in_steps(texts, foreign, 7).run()
        theirs = tokenizer.encode_framed(texts, None, 7)
        assert [column.tolist() for column in ours] == [column.tolist() for column in theirs]


def test_a_batch_is_its_texts_one_by_one(tokenizer: Tokenizer) -> None:
    texts = [text.decode() for text in TEXTS[:200]]
    ids, lengths = tokenizer.encode_batch(texts)
    alone = [tokenizer.encode(text) for text in texts]
    assert ids.tolist() == np.concatenate(alone).tolist()
    assert lengths.tolist() == [len(row) for row in alone]


def test_framing(tokenizer: Tokenizer) -> None:
    eos = tokenizer.vocab_size - 1 if tokenizer.eos_id is None else tokenizer.eos_id
    texts = [b"a", b"", b"the end", "\u0cdc's".encode()]
    for before, after in ((None, eos), (eos, None), (eos, eos), (None, None)):
        ids, lengths = tokenizer.encode_framed(texts, before, after)
        rows = np.split(ids, np.cumsum(lengths)[:-1])
        front, back = [before] * (before is not None), [after] * (after is not None)
        for text, row in zip(texts, rows, strict=True):
            assert row.tolist() == front + tokenizer.encode(text.decode()).tolist() + back


def test_special_looking_text_is_text(tokenizer: Tokenizer) -> None:
    special = {tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id} - {None}
    for text in SPELLED:
        assert not special & set(tokenizer.encode(f"{text} x{text}").tolist())


def test_lone_surrogates_become_the_replacement_character(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode(tokenizer.encode("a\ud83db")) == "a\ufffdb"
    assert tokenizer.decode(tokenizer.encode("\ud83d\udc4d")) == "\U0001f44d"


def test_the_fingerprint_is_a_digest_and_stays(tokenizer: Tokenizer) -> None:
    assert re.fullmatch(r"[0-9a-f]{64}", tokenizer.fingerprint)
    assert not tokenizer.name.startswith("/")
    assert tokenizer.encoder in ("fast", "reference")


def test_ids_outside_are_refused(tokenizer: Tokenizer) -> None:
    for wrong in (tokenizer.vocab_size, -1):
        with pytest.raises(LimitError, match=f"got {wrong} at position 0"):
            tokenizer.decode_bytes([wrong])


def test_self_check_passes(tokenizer: Tokenizer) -> None:
    assert (tokenizer.self_check() > 0) == (tokenizer.encoder == "fast")


def test_a_stream_of_ids_gives_the_text_of_all(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode_batch(TEXTS)[0]
    for some in (ids[:1500], ids[1:300], ids[:0]):  # the second may begin within a character
        for sizes in (1, 7):
            stream = stream_decoder(tokenizer)
            parts = [stream.feed(some[at : at + sizes]) for at in range(0, len(some), sizes)]
            assert "".join([*parts, stream.finish()]) == tokenizer.decode(some)
    stream = stream_decoder(tokenizer)
    smile = "a\U0001f44db".encode()
    ids = tokenizer.encode_batch([smile])[0]
    assert "".join(map(stream.feed, ids)) == smile.decode()
    assert stream.feed(int(ids[0])) + stream.feed(ids[1:2]) + stream.finish() == tokenizer.decode(ids[:2])
    assert stream.finish() == "" == stream.feed([])
    with pytest.raises(LimitError):
        stream.feed(tokenizer.vocab_size)
