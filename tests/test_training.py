"""A tokenizer of one's own text: what Hugging Face's trainer makes of the same texts, whatever they come in."""

import errno
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import tokenriver as tr
from golden_data import golden
from hostile_texts import batches
from small_builds import some_texts, write_rows
from source_cases import gz
from tokenriver import files
from tokenriver.tokenizers import _fast, _fast_training, _training

pytestmark = pytest.mark.usefixtures("quick_disk")
TEXTS = ["the cat's hat; the  dog\u00e9", "<|endoftext|> is text", "\u4e2d\u6587 the the 123", *some_texts(60)]


def theirs(texts: list[str], vocab_size: int, special: list[str]) -> str:
    """Hugging Face's trainer, called as its own documentation does."""
    library = Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    library.train_from_iterator(texts, trainer)
    return str(library.to_str(pretty=True))


def test_equals_the_library(tmp_path: Path) -> None:
    out = tmp_path / "made" / "here" / "tokenizer.json"
    seen: list[tuple[int, int]] = []
    rows = write_rows(tmp_path / "rows.jsonl", TEXTS)
    report = tr.train_tokenizer(rows, out, vocab_size=330, progress=lambda *at: seen.append(at))
    assert out.read_text(encoding="utf-8") == theirs(TEXTS, 330, ["<|endoftext|>"])
    assert (report.vocab_size, report.special, report.documents) == (330, {"<|endoftext|>": 0}, len(TEXTS))
    assert report.bytes == sum(len(text.encode()) for text in TEXTS)
    assert seen[-1] == (rows.stat().st_size,) * 2
    tokenizer = tr.load_tokenizer(out)
    assert (tokenizer.vocab_size, tokenizer.eos_id, tokenizer.encoder) == (330, 0, "fast")
    assert tokenizer.fingerprint == report.fingerprint
    assert tokenizer.self_check() > 0
    ids, _ = tokenizer.encode_batch(TEXTS)
    assert tokenizer.decode_bytes(ids) == "".join(TEXTS).encode()
    assert 0 not in ids
    assert len(ids) < report.bytes
    tr.build(rows, tmp_path / "corpus", tokenizer=out)
    assert tr.open_corpus(tmp_path / "corpus", tokenizer=out).num_documents == len(TEXTS)


def test_the_same_file_from_any_kind_and_order_of_inputs(tmp_path: Path) -> None:
    first, second = write_rows(tmp_path / "a.jsonl", TEXTS[:30]), write_rows(tmp_path / "b.jsonl", TEXTS[30:])
    (tmp_path / "all.jsonl.gz").write_bytes(gz(first.read_bytes() + second.read_bytes()))
    made = set()
    for inputs in ([first, second], [second, first], [tmp_path / "all.jsonl.gz"]):
        tr.train_tokenizer(inputs, tmp_path / "t.json", vocab_size=320, special=["<s>", "</s>"])
        made.add((tmp_path / "t.json").read_text(encoding="utf-8"))
    assert made == {theirs(TEXTS, 320, ["<s>", "</s>"])}


@pytest.mark.parametrize("threads", ["1", "3"])
def test_the_same_file_from_any_number_of_threads(tmp_path: Path, threads: str) -> None:
    rows, out = write_rows(tmp_path / "rows.jsonl", TEXTS), tmp_path / "t.json"
    code = f"import tokenriver as tr; tr.train_tokenizer({str(rows)!r}, {str(out)!r}, vocab_size=330)"
    environment = {**os.environ, "RAYON_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "true"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    assert out.read_text(encoding="utf-8") == theirs(TEXTS, 330, ["<|endoftext|>"])


@given(batch=batches, more=st.integers(0, 60), special=st.sampled_from([[], ["<s>", "<|endoftext|>"]]))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_both_trainers_write_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: list[str], more: int, special: list[str]
) -> None:
    def here(scratch: _fast_training.Scratch, size: int) -> list[tuple[bytes, bytes]]:
        return _fast.merges(str(scratch.path), size)

    monkeypatch.setattr(_fast_training, "_merges", here)
    texts, size = [text.encode() for text in [*batch, *TEXTS[:5]]], 257 + len(special) + more
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says when a letter is too young
        made = _fast_training.train([texts[:3], [], texts[3:]], size, special, tmp_path / "t.json")
    assert (made.config, made.num_ids) == _training.train([texts], size, special)
    assert made.reason or made.num_ids == size
    assert list(tmp_path.iterdir()) == []


young = st.lists(
    st.sampled_from(
        ["\u0cdc", "\u0c9c\u0cbe", "\U00033479", "\u4e2d", "\u3002", '"', '"),', "'s", "a", "the", " ", "12", "\n"]
    ),
    min_size=1,
    max_size=12,
).map("".join)


@given(
    some=st.lists(young, min_size=1, max_size=5),
    times=st.integers(1, 3),
    common=st.integers(0, 60),
    more=st.integers(0, 12),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_young_letters_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, some: list[str], times: int, common: int, more: int
) -> None:
    def here(scratch: _fast_training.Scratch, size: int) -> list[tuple[bytes, bytes]]:
        return _fast.merges(str(scratch.path), size)

    monkeypatch.setattr(_fast_training, "_merges", here)
    texts = [text.encode() for text in [*some * times, " ".join(["the others thought there"] * common), "other words"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = _fast_training.train([texts], 257 + more, ["<s>"], tmp_path / "t.json")
    assert (made.config, made.num_ids) == _training.train([texts], 257 + more, ["<s>"])
    differ = [text for text in texts if list(_fast.words(text)) != _training.words(text)]
    assert made.apart == len(differ)


@pytest.mark.parametrize(
    ("texts", "vocab_size", "reason"),
    [
        ([*TEXTS, "new letter \u0cdc's"], 270, ""),
        ([*TEXTS, "new emoji \U0001fae8's"], 330, ""),
        ([*TEXTS, "new letter \u0cdc's and more"], 330, "letters that only one of the two trainers knows, in 1 texts"),
        (["ab ab abc", "\u4e2d\u4e2d"], 263, "the texts give hardly more tokens"),
    ],
)
def test_when_the_reference_trains(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], texts: list[str], vocab_size: int, reason: str
) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", texts)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = tr.train_tokenizer(rows, tmp_path / "t.json", vocab_size=vocab_size)
    assert [str(each.message) for each in caught] == [
        f"training with tokenizers, slower: {report.reason}" for _ in range("letter" in reason)
    ]
    assert (tmp_path / "t.json").read_text(encoding="utf-8") == theirs(texts, vocab_size, ["<|endoftext|>"])
    assert report.reason.startswith(reason)
    assert report.split_by_reference == sum("\u0cdc" in text for text in texts)
    assert report.trainer == ("reference" if report.reason else "fast")
    tr.train_tokenizer(rows, tmp_path / "r.json", vocab_size=vocab_size, trainer="reference")
    assert (tmp_path / "r.json").read_bytes() == (tmp_path / "t.json").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.json", "rows.jsonl", "t.json"]
    assert capfd.readouterr() == ("", "")


def test_a_trainer_that_dies_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fast_training, "BOOT", "import sys; print('no memory', file=sys.stderr); sys.exit(3)")
    monkeypatch.setattr(_fast_training, "_OPEN_FILES", tmp_path / "none")  # a system without /proc
    with pytest.raises(tr.InputError, match="got exit status 3 of the fast one 'no memory'"):
        tr.train_tokenizer(write_rows(tmp_path / "rows.jsonl", TEXTS), tmp_path / "t.json", vocab_size=300)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


class FullDisk(files.System):
    """One without room for anything."""

    def write(self, fd: int, data: memoryview) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", TEXTS)
    monkeypatch.setattr(files, "system", FullDisk())
    with pytest.raises(tr.LimitError, match=r"\.t\.json\.texts\.tmp: cannot write: No space left"):
        tr.train_tokenizer(rows, tmp_path / "t.json", vocab_size=300)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


def test_texts_in_the_scratch_file_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fast_training, "READ_BYTES", 7)
    texts = [text.encode() for text in TEXTS]
    with _fast_training._scratch(tmp_path / "t.json") as scratch:
        assert list(scratch.texts()) == []
        scratch.write(texts[:10])
        scratch.write([])
        scratch.write(texts[10:])
        assert list(scratch.texts()) == texts


@pytest.mark.parametrize("part_bytes", [1, 7, 64])
def test_long_texts_are_cut_where_words_end(part_bytes: int) -> None:
    texts = [" ".join(TEXTS), "it's  a b", "ab  c d\n e f 's g", "\u4e2d a b\u4e2d"]
    data = [text.encode() for text in texts]
    parts = list(_training.parts(data, part_bytes))
    assert "".join(parts) == "".join(texts)
    assert len(parts) > len(texts)
    splitter = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words = [word for text in texts for word, _ in splitter.pre_tokenize_str(text)]
    assert [word for part in parts for word, _ in splitter.pre_tokenize_str(part)] == words


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vocab_size": 256}, r"vocab_size: got 256, expected 257 \(256 bytes and the special tokens\) to"),
        ({"vocab_size": 5000}, r"vocab_size: got 5000, expected at most \d+, which is all that 63 texts"),
        ({"vocab_size": 300, "special": ["<s>", "<s>"]}, "expected each token once"),
        ({"vocab_size": 300, "trainer": "best"}, "trainer: got 'best', expected fast or reference"),
        ({"vocab_size": 300, "special": ["a"]}, "special: got 'a', expected at least two"),
        ({"vocab_size": 300, "special": ["<\n>"]}, "printable"),
    ],
)
def test_refusals(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", TEXTS)
    with pytest.raises(tr.InputError, match=message):
        tr.train_tokenizer(rows, tmp_path / "t.json", **options)
    assert not (tmp_path / "t.json").exists()


def test_refusals_of_files(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.json", TEXTS)
    with pytest.raises(tr.InputError, match=r"rows\.json: is one of the inputs, which are never written"):
        tr.train_tokenizer(rows, rows, vocab_size=300, source="jsonl")
    with pytest.raises(tr.InputError, match=r"t\.model: name: got '\.model', expected \.json"):
        tr.train_tokenizer(rows, tmp_path / "t.model", vocab_size=300)
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gz(rows.read_bytes())[:-20])
    with pytest.raises(tr.InputError, match=r"cut\.jsonl\.gz"):
        tr.train_tokenizer(cut, tmp_path / "t.json", vocab_size=300)
    assert not (tmp_path / "t.json").exists()


def test_prose_in_one_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_training, "PART_BYTES", 5000)
    text = golden("inputs/tinyshakespeare.txt").read_text(encoding="utf-8")[:100_000]
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    tr.train_tokenizer(tmp_path / "a.txt", tmp_path / "t.json", vocab_size=350)
    assert (tmp_path / "t.json").read_text(encoding="utf-8") == theirs([text], 350, ["<|endoftext|>"])
    tokenizer = tr.load_tokenizer(tmp_path / "t.json")
    assert tokenizer.decode(tokenizer.encode(text)) == text
