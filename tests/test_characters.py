"""The characters of some inputs as a vocabulary, and builds that use it."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import hostile_texts
import tokenriver as tr
from golden_data import golden
from small_builds import corpus_files, files_of, write_rows
from source_cases import gz, zst
from tokenriver import commit, feeding
from tokenriver.tokenizers import char

pytestmark = pytest.mark.usefixtures("quick_disk")
TEXTS = ["to be, or not", "\u00e9t\u00e9 \u4e2d\n", "x\U0001f600", "to be"]
LETTERS = "".join(sorted(set("".join(TEXTS))))


@settings(max_examples=25)
@given(hostile_texts.batches)
def test_the_characters_of_any_texts(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    folder = tmp_path_factory.mktemp("any")
    report = tr.write_characters(write_rows(folder / "rows.jsonl", [*texts, "q"]), folder / "meta.pkl")
    assert report.characters == "".join(sorted({*"".join(texts), "q"}))
    assert report.documents == sum(map(bool, texts)) + 1
    assert tr.load_tokenizer(folder / "meta.pkl").vocab_size == len(report.characters)


def test_every_kind_of_input_gives_the_same_file(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", TEXTS)
    (tmp_path / "rows.jsonl.gz").write_bytes(gz(rows.read_bytes()))
    (tmp_path / "rows.jsonl.zst").write_bytes(zst(rows.read_bytes()))
    (tmp_path / "all.txt").write_text("".join(TEXTS), encoding="utf-8")
    made = set()
    for name in ("rows.jsonl", "rows.jsonl.gz", "rows.jsonl.zst", "all.txt"):
        seen: list[tuple[int, int]] = []
        tr.write_characters(tmp_path / name, tmp_path / "meta.pkl", progress=lambda *at, seen=seen: seen.append(at))
        made.add((tmp_path / "meta.pkl").read_bytes())
        size = (tmp_path / name).stat().st_size
        assert seen[-1] == (size, size)
        assert seen == sorted(seen)
    assert len(made) == 1


def test_inputs_without_a_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"text": ""}\nno json\n')
    with pytest.raises(tr.InputError, match="got 0 texts and 1 bad rows, expected some with a character"):
        tr.write_characters(tmp_path / "rows.jsonl", tmp_path / "meta.pkl")
    assert not (tmp_path / "meta.pkl").exists()


@pytest.mark.parametrize(
    ("format", "workers"), [("native", 2), ("native", None), ("nanogpt", None), ("megatron", None), ("olmo", None)]
)
def test_a_build_reads_its_characters_first(tmp_path: Path, format: str, workers: int | None) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", TEXTS * 40)
    out = tmp_path / "out"
    tr.build(rows, out, tokenizer="char", framing="none", format=format, unit_bytes=1024, workers=workers)
    corpus = tr.open_corpus(out)
    assert corpus.tokenizer is not None
    assert (corpus.tokenizer.name, corpus.vocab_size) == ("char", len(LETTERS))
    ids = corpus.read(0, corpus.num_tokens)
    assert ids.tolist() == [LETTERS.index(letter) for letter in "".join(TEXTS * 40)]
    assert [corpus.decode(corpus.document(i)) for i in range(4)] == TEXTS
    assert (out / "meta.pkl").read_bytes() == _pickled(tmp_path)
    assert tr.verify(out, against_inputs=True, inputs_root=tmp_path) == []
    assert tr.build(rows, out, tokenizer="char", framing="none", format=format, unit_bytes=1024).complete_before, (
        "the same command again"
    )


def _pickled(folder: Path) -> bytes:
    char.make(LETTERS).write_beside(folder)
    return (folder / "meta.pkl").read_bytes()


def test_a_damaged_or_missing_vocabulary_of_a_corpus(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", TEXTS)
    out = tmp_path / "out"
    tr.build(rows, out, tokenizer="char", framing="none")
    char.make("ab").write_beside(out)
    assert any(finding.path.endswith("meta.pkl") for finding in tr.verify(out))
    with pytest.raises(tr.MismatchError, match="fingerprint"):
        _ = tr.open_corpus(out).tokenizer
    (out / "meta.pkl").unlink()
    corpus = tr.open_corpus(out)
    with pytest.warns(UserWarning, match="got 'char' without its vocabulary"):
        assert corpus.decode(np.array([3])) == "⟨3⟩"


def test_appending_keeps_the_vocabulary(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", TEXTS)
    more = write_rows(tmp_path / "more.jsonl", ["be to"])
    new = write_rows(tmp_path / "new.jsonl", ["ok", "be q"])
    tr.build(rows, tmp_path / "out", tokenizer="char", framing="none")
    tr.build(more, tmp_path / "out", tokenizer="char", framing="none", append=True)
    corpus = tr.open_corpus(tmp_path / "out")
    assert corpus.decode(corpus.document(4)) == "be to"
    assert tr.verify(tmp_path / "out") == []
    with pytest.raises(tr.InputError, match=r"new\.jsonl: record 0: text 0: character 1: got 'k' \(U\+006B\)"):
        tr.build(new, tmp_path / "out", tokenizer="char", framing="none", append=True)


@pytest.mark.parametrize("workers", [None, 1])
def test_a_character_outside_names_its_document(tmp_path: Path, workers: int | None) -> None:
    char.make(LETTERS).write_beside(tmp_path)
    rows = write_rows(tmp_path / "rows.jsonl", [*TEXTS, "", "to q"])
    with pytest.raises(
        tr.InputError, match=r"rows\.jsonl: record 5: text 0: character 3: got 'q' \(U\+0071\) in 'to q'"
    ):
        tr.build(rows, tmp_path / "out", tokenizer=tmp_path / "meta.pkl", framing="none", workers=workers)


def test_framing_needs_an_id_and_files_of_others_stay(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", TEXTS)
    with pytest.raises(
        tr.InputError, match="framing: got 'eos-after', but tokenizer 'char' has no eos id; use framing"
    ):
        tr.build(rows, tmp_path / "out", tokenizer="char")
    tr.build(rows, tmp_path / "out")
    assert sorted(corpus_files(tmp_path / "out")) == sorted(files_of(tmp_path / "out"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "meta.pkl").write_bytes(b"theirs")
    with pytest.raises(tr.InputError, match=r"meta\.pkl: belongs to no corpus"):
        tr.build(rows, tmp_path / "full", tokenizer="char", like="nanogpt")
    assert (tmp_path / "full" / "meta.pkl").read_bytes() == b"theirs"
    tr.build(rows, tmp_path / "gpt2")
    with pytest.raises(tr.MismatchError, match="built with another tokenizer than 'char'"):
        tr.build(rows, tmp_path / "gpt2", tokenizer="char")


@pytest.mark.parametrize("at", ["receipt", "vocabulary", "manifest"])
def test_a_build_that_died_comes_out_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", TEXTS * 40)
    options: dict[str, Any] = {"tokenizer": "char", "like": "nanogpt", "unit_bytes": 1024}
    tr.build(rows, tmp_path / "whole", **options)

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if at == "receipt":
            patch.setattr(feeding.Feeder, "raise_failures", die)
        elif at == "vocabulary":
            patch.setattr(commit, "vocabulary_files", die)
        else:
            patch.setattr(commit, "write_manifest", die)
        with pytest.raises(KeyboardInterrupt):
            tr.build(rows, tmp_path / "out", **options)
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert tr.build(rows, tmp_path / "out", **options).resumed > 1
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")


def test_inputs_that_changed_since_a_build_died_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", TEXTS)

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(commit, "write_manifest", die)
        with pytest.raises(KeyboardInterrupt):
            tr.build(rows, tmp_path / "out", tokenizer="char", framing="none")
    write_rows(rows, [*TEXTS, "Q"])
    with pytest.raises(tr.MismatchError, match="an unfinished build lies here: tokenizer: got"):
        tr.build(rows, tmp_path / "out", tokenizer="char", framing="none")


def test_converting_takes_the_vocabulary_along(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", TEXTS)
    tr.build(rows, tmp_path / "a", tokenizer="char", framing="none")
    tr.convert(tmp_path / "a", tmp_path / "b", format="nanogpt")
    assert (tmp_path / "b" / "meta.pkl").read_bytes() == (tmp_path / "a" / "meta.pkl").read_bytes()
    corpus = tr.open_corpus(tmp_path / "b")
    assert corpus.decode(corpus.read(0, corpus.num_tokens)) == "".join(TEXTS)
    assert tr.verify(tmp_path / "b") == []


def test_nanogpt_folders_of_others_decode(tmp_path: Path) -> None:
    char.make(LETTERS).write_beside(tmp_path)
    np.array([LETTERS.index(letter) for letter in "to be"], np.uint16).tofile(tmp_path / "train.bin")
    corpus = tr.open_corpus(tmp_path)
    assert corpus.decode(corpus.read(0, 5)) == "to be"
    assert not any("gpt2" in assumption for assumption in corpus.assumptions)


def test_nanogpt_shakespeare_char(tmp_path: Path) -> None:
    """nanoGPT's script takes the characters of the whole text, and cuts it at nine tenths of them."""
    text = golden("inputs/tinyshakespeare.txt").read_text(encoding="utf-8")
    cut = int(len(text) * 0.9)
    halves = [tmp_path / "val.txt", tmp_path / "train.txt"]
    halves[0].write_text(text[cut:], encoding="utf-8")
    halves[1].write_text(text[:cut], encoding="utf-8")
    # the leading document, which is val.txt as a whole, is for validation
    tr.build(halves, tmp_path / "out", tokenizer="char", like="nanogpt", val_tokens=1)
    expected = json.loads(golden("tinyshakespeare_outputs.json").read_text(encoding="utf-8"))["nanogpt"]
    made = corpus_files(tmp_path / "out")
    for name in ("train.bin", "val.bin", "meta.pkl"):
        wanted = expected[f"shakespeare_char/{name}"]
        assert [len(made[name]), hashlib.sha256(made[name]).hexdigest()] == [wanted["bytes"], wanted["sha256"]]
