"""What each input gave: sums over the document index, and over ids where they are read, as lists have them."""

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tokenriver as tr
from command_line import tokenriver
from rivers import ArrayRiver
from small_builds import small_build, some_texts, write_rows
from small_corpora import make_corpus
from tokenriver import fertility
from tokenriver.errors import FormatError, InputError
from tokenriver.vocabulary import ByteSizes
from toy_tokenizers import sentencepiece_model

pytestmark = pytest.mark.usefixtures("quick_disk")
PATHS = ("de/a.jsonl", "de/more/b.jsonl", "en/c.jsonl", "d.jsonl")


def _inputs(folder: Path, many: int = 12) -> dict[str, list[str]]:
    texts = {path: some_texts(many + number, start=100 * number) for number, path in enumerate(PATHS)}
    texts["en/c.jsonl"] += ["\u4e2d\u6587"] * 3
    for path, rows in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        write_rows(folder / path, rows)
    return texts


def test_sums_by_source_and_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fertility, "CHUNK", 5)
    monkeypatch.setattr(fertility, "STRETCH", 7)
    texts = _inputs(tmp_path / "in")
    tr.build(tmp_path / "in", tmp_path / "c", shard_tokens=300, val_fraction=0.2, unit_bytes=1024)
    for split in ("train", "val"):
        corpus = tr.open_corpus(tmp_path / "c", split=split)
        wanted: dict[str, list[int]] = {}
        for number in range(corpus.num_documents or 0):
            path, record = corpus.source(number)
            row = wanted.setdefault(path, [0, 0, 0, 0])
            size = len(corpus.document(number))
            for at, count in enumerate((1, size, size - 1, len(texts[path][record].encode()))):
                row[at] += count
        found = tr.stats(corpus, by="source", ids=True).sources
        got = {row.name: [row.documents, row.ids, row.text_ids, row.text_bytes] for row in found if row.documents}
        assert got == wanted
        assert [row.stored_bytes for row in found] == [(tmp_path / "in" / row.name).stat().st_size for row in found]
        assert sum(row.ids for row in found) == corpus.num_tokens
        folders = {row.name: row for row in tr.stats(corpus, by="folder", ids=True).sources}
        assert set(folders) == {".", "de", "en"}
        assert folders["de"].ids == sum(row.ids for row in found if row.name.startswith("de/"))
        chinese = folders["en"]
        assert chinese.text_bytes is not None
        assert chinese.text_ids is not None
        assert chinese.bytes_per_token == chinese.text_bytes / chinese.text_ids
        assert chinese.ids_per_byte == chinese.text_ids / chinese.text_bytes


def test_without_ids_bytes_are_not_guessed(tmp_path: Path) -> None:
    _inputs(tmp_path / "in")
    small_build(tmp_path / "in", tmp_path / "c")
    found = tr.stats(tmp_path / "c", by="folder")
    assert {row.text_bytes for row in found.sources} == {None}
    assert any("bytes a token of each folder" in note for note in found.notes)
    assert tr.stats(tmp_path / "c").sources == ()
    assert found.as_dict()["sources"][0]["ids_per_document"] == found.sources[0].ids / found.sources[0].documents


@pytest.mark.parametrize("trims", [False, True])
def test_the_space_before_a_text_is_no_byte_of_it(tmp_path: Path, trims: bool) -> None:
    texts = _inputs(tmp_path / "in")
    every = [text for rows in texts.values() for text in rows]
    options = {"normalization_rule_name": "identity", "remove_extra_whitespaces": trims, "byte_fallback": True}
    (tmp_path / "x.model").write_bytes(sentencepiece_model(every, model_type="bpe", **options))
    tokenizer = tr.load_tokenizer(tmp_path / "x.model")
    tr.build(tmp_path / "in", tmp_path / "c", tokenizer=tmp_path / "x.model", framing="bos-eos")
    found = tr.stats(tr.open_corpus(tmp_path / "c", tokenizer=tokenizer), by="source", ids=True)
    if trims:  # it makes nothing at all of some texts
        assert {row.text_bytes for row in found.sources} == {None}
        assert any("other bytes together" in note for note in found.notes)
        return
    sizes = {path: len("".join(rows).encode()) for path, rows in texts.items()}
    assert {row.name: row.text_bytes for row in found.sources} == sizes
    assert found.vocabulary is not None
    text_ids = sum(row.text_ids or 0 for row in found.sources)
    assert found.vocabulary.bytes_per_token == sum(row.text_bytes or 0 for row in found.sources) / text_ids
    assert not found.notes


@given(
    documents=st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=6), min_size=1, max_size=12),
    chunk=st.integers(1, 5),
    stretch=st.integers(1, 9),
)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_stretches_make_no_difference(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
    documents: list[list[int]],
    chunk: int,
    stretch: int,
) -> None:
    monkeypatch.setattr(fertility, "CHUNK", chunk)
    monkeypatch.setattr(fertility, "STRETCH", stretch)
    folder, half = tmp_path_factory.mktemp("c"), len(documents) // 2
    make_corpus(folder, {"train": [part for part in (documents[:half], documents[half:]) if part]})
    sizes = [0, *range(1, 10)]
    (row, *rest) = fertility.count_sources(tr.open_corpus(folder), "source", ByteSizes(np.array(sizes), 0))
    ids = [number for document in documents for number in document]
    assert (row.documents, row.ids) == (len(documents), len(ids))
    assert (row.text_ids, row.text_bytes) == (sum(n > 0 for n in ids), sum(sizes[n] for n in ids))
    assert not any(other.documents for other in rest)


def test_what_cannot_be_told_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="where its documents came from"):
        tr.stats(ArrayRiver(10, [4, 6]), by="source")
    small_build(write_rows(tmp_path / "a.jsonl", some_texts(5)), tmp_path / "c")
    with pytest.raises(InputError, match="by: got 'record', expected source or folder"):
        tr.stats(tmp_path / "c", by="record")
    index = tmp_path / "c" / "tokens_train_000000.docs"
    index.write_bytes(index.read_bytes()[:-4] + struct.pack("<i", 77))
    with pytest.raises(FormatError, match="source: got 77 or 0, expected one of the 1"):
        tr.stats(tmp_path / "c", by="source")


def test_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _inputs(tmp_path / "in")
    small_build(tmp_path / "in", tmp_path / "c")
    ran = tokenriver(capsys, "stats", tmp_path / "c", "--by", "folder", "--ids", "--seq-len", "8")
    (line,) = [line.split() for line in ran.out.splitlines() if line.startswith("  de ")]
    assert line[4:6] == ["1.000", "1.000"]  # the tokenizer is bytes
    shown = tokenriver(capsys, "stats", tmp_path / "c", "--by-source", "--json").json()["sources"]
    assert [row["name"] for row in shown] == sorted(PATHS)
