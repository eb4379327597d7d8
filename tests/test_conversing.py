"""Chunks of records in columns and in a thread: nothing but the speed may depend on how a conversation was read."""

import gzip
import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenriver as tr
from small_builds import files_of
from tokenriver import chat, conversing, records, registry, streams
from tokenriver.errors import InputError, MismatchError
from tokenriver.steps import Steps
from tokenriver.types import TokenBatch, Tokenizer


def write(path: Path, rows: Sequence[object]) -> Path:
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows) + "\n")
    return path


def pair(prompt: str, completion: str) -> dict[str, str]:
    return {"prompt": prompt, "completion": completion}


QUESTION, ANSWER = {"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}
TEXT = st.text(max_size=3)
TURN: st.SearchStrategy[dict[str, Any]] = st.builds(
    lambda role, text: {"role": role, "content": text}, st.sampled_from(["user", "assistant", "system"]), TEXT
)
SPOKEN = st.builds(
    lambda speaker, text: {"from": speaker, "value": text}, st.sampled_from(["human", "gpt", "gpt", "eve", 3]), TEXT
)
ODD_TURN = st.one_of(
    TURN,
    SPOKEN,
    st.builds(lambda turn, field: turn | field, TURN, st.sampled_from([{"name": "x"}, {"train": False}, {"z": 1}])),
    st.sampled_from([{"role": "judge", "content": "!"}, {"role": "user", "content": None}, {"content": "c"}, "x", {}]),
)
PLAIN = st.one_of(*(st.lists(turn, min_size=1, max_size=5) for turn in (TURN, SPOKEN))).map(lambda t: {"messages": t})
ODD = st.one_of(
    st.lists(ODD_TURN, max_size=4).map(lambda talk: {"messages": talk}),
    PLAIN.map(lambda row: row | {"more": 1}),
    PLAIN.map(lambda row: row | {"system": "S"}),
    st.sampled_from(["{", "", "[]", "7", {"messages": None}, {"messages": "m"}, {"other": []}]),
)


@settings(max_examples=12, deadline=None)
@given(st.lists(PLAIN | PLAIN | ODD, max_size=12), st.sampled_from(["all", "last"]))
def test_columns_give_what_messages_give(
    tmp_path_factory: pytest.TempPathFactory, talks: list[object], train: str
) -> None:
    rows: list[object] = [{"messages": [QUESTION, ANSWER]}, *talks, {"messages": [QUESTION, ANSWER]}]
    folder = tmp_path_factory.mktemp("columns")
    path = write(folder / "a.jsonl", rows)
    options: dict[str, Any] = {"tokenizer": "byte", "train": train, "max_bad": 1.0, "val_fraction": 0.2}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tokenriver.files.system.fsync", lambda fd: None)
        found = tr.sft(path, folder / "columns", **options)
        patch.setattr(registry.load("examples", "sft").Reader, "talks", lambda reader, records: None)
        expected = tr.sft(path, folder / "messages", **options)
    assert found.balance == expected.balance
    assert files_of(folder / "columns") == files_of(folder / "messages")


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = threading.enumerate()
    yield
    assert set(threading.enumerate()) <= set(before)


def test_the_split_is_that_of_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    talks = [[{"role": "user", "content": f"{i}"}, {"role": "assistant", "content": "\u00e9\n"}] for i in range(40)]
    path = write(tmp_path / "a.jsonl", [{"messages": talk} for talk in talks])
    options: dict[str, Any] = {"tokenizer": "byte", "val_fraction": 0.5}
    report = tr.sft(path, tmp_path / "columns", **options)
    monkeypatch.setattr(registry.load("examples", "sft").Reader, "talks", lambda reader, records: None)
    tr.sft(path, tmp_path / "messages", **options)
    assert sorted(report.splits) == ["train", "val"]
    assert files_of(tmp_path / "columns") == files_of(tmp_path / "messages")


def test_threads_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_disk: None) -> None:
    strange = "\u0cdc\u088f\U000e0455"  # younger than some tables, so the reference reads it
    answers = ["", "<|endoftext|> A" * 3, f"A {strange} of", strange, "A" * 50]
    rows: list[object] = [pair(f"Q{i} {strange * (i % 3)} and", answers[i % 5]) for i in range(60)]
    path = write(tmp_path / "a.jsonl", [*rows, "{", {"prompt": 1}])
    options: dict[str, Any] = {"tokenizer": "gpt2", "max_length": 40, "max_bad": 1.0, "val_fraction": 0.2}
    found = tr.sft(path, tmp_path / "whole", **options)
    monkeypatch.setattr(records, "LINES", 3)
    monkeypatch.setattr(conversing, "TOGETHER", 200)
    cut = tr.sft(path, tmp_path / "cut", workers=3, **options)
    alone = tr.sft(path, tmp_path / "alone", workers=0, **options)
    assert found.balance == cut.balance == alone.balance
    assert sorted(found.splits) == ["train", "val"]
    assert files_of(tmp_path / "whole") == files_of(tmp_path / "cut") == files_of(tmp_path / "alone")


@pytest.mark.parametrize("tokenizer", ["byte", "gpt2"])
def test_the_first_failure_is_the_one_that_is_told(
    tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_disk: None
) -> None:
    monkeypatch.setattr(records, "LINES", 1)
    monkeypatch.setattr(conversing, "TOGETHER", 1)
    good, other = pair("Q", "A"), {"question": "Q", "answer": "A"}
    options: dict[str, Any] = {"tokenizer": tokenizer, "on_bad": "fail"}
    with pytest.raises(InputError, match="line 2: got not-json"):
        tr.sft(write(tmp_path / "a.jsonl", [good, "{", other]), tmp_path / "a", **options)
    with pytest.raises(InputError, match="of shape gsm8k among records of shape prompt-completion"):
        tr.sft(write(tmp_path / "b.jsonl", [good, other, "{"]), tmp_path / "b", **options)


def test_an_encoder_that_fails_in_its_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_disk: None) -> None:
    def fail() -> None:
        raise MismatchError("encoder: got other ids")

    monkeypatch.setattr(chat.Chat, "in_steps", lambda whose, conversations: Steps((fail, TokenBatch)))
    with pytest.raises(MismatchError, match="got other ids"):
        tr.sft(write(tmp_path / "a.jsonl", [pair("Q", "A")] * 3), tmp_path / "c", tokenizer="gpt2")


OWN = """{% for m in messages %}{% if m.role == "assistant" %}A: {% generation %}{{ m.content }}<|endoftext|>\
{% endgeneration %}{% else %}Q: {{ m.content }}
{% endif %}{% endfor %}"""


@pytest.fixture(scope="module")
def gpt2() -> Tokenizer:
    return tr.load_tokenizer("gpt2")


def test_inputs_are_read_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_disk: None, gpt2: Tokenizer
) -> None:
    """Plain, packed and cut ones, by a thread and without: the same bytes, digests, bad rows and errors."""
    monkeypatch.setattr(conversing, "TOGETHER", 500)
    monkeypatch.setattr(streams.read_blocks, "__kwdefaults__", {"on_raw": None, "block_bytes": 100})
    texts = [json.dumps(pair(f"Q{i}", "A" * (i % 9))) + "\n{" * (i % 20 == 7) for i in range(90)]
    rows, folder = "\n".join(texts).encode(), tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(rows)
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(rows))
    (folder / "c.jsonl.zst").write_bytes(zstandard.compress(rows))
    options: dict[str, Any] = {"tokenizer": gpt2, "max_bad": 1.0}
    found = tr.sft(folder, tmp_path / "ahead", **options)
    assert found.balance["rows"] == 3 * 95
    assert found.balance["bad_rows"] == {"not-json": 15}
    tr.sft(folder, tmp_path / "alone", workers=0, **options)
    assert files_of(tmp_path / "ahead") == files_of(tmp_path / "alone")
    (tmp_path / "own.jinja").write_text(OWN)
    for workers in (None, 0):
        tr.sft(folder, tmp_path / f"own-{workers}", workers=workers, template=str(tmp_path / "own.jinja"), **options)
    assert files_of(tmp_path / "own-None") == files_of(tmp_path / "own-0")
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(rows)[:-40])
    said = []
    for workers in (None, 0):
        with pytest.raises(InputError, match="the gzip file ends inside a member") as error:
            tr.sft(cut, tmp_path / f"cut-{workers}", workers=workers, **options)
        said.append((str(error.value), files_of(tmp_path / f"cut-{workers}")))
    assert said[0] == said[1]
    assert any(name.endswith("bad_rows.jsonl") for name in said[0][1])


def test_who_stops_it_leaves_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpt2: Tokenizer) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(conversing, "TOGETHER", 100)
    monkeypatch.setattr(conversing, "_ended", stop)
    path = write(tmp_path / "a.jsonl", [pair("Q", "A")] * 100)
    with pytest.raises(KeyboardInterrupt):
        tr.sft(path, tmp_path / "c", tokenizer=gpt2)
    assert not any(thread.name.startswith(("tokenriver", "ThreadPool")) for thread in threading.enumerate())
