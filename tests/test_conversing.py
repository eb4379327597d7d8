"""Chunks of records in columns and in a thread: nothing but the speed may depend on how a conversation was read."""

import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenriver as tr
from small_builds import files_of
from tokenriver import chat, records, registry
from tokenriver.errors import InputError, MismatchError


def write(path: Path, rows: Sequence[object]) -> Path:
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows) + "\n")
    return path


def pair(prompt: str, completion: str) -> dict[str, str]:
    return {"prompt": prompt, "completion": completion}


TURN = st.tuples(st.sampled_from(["user", "assistant", "system", "judge"]), st.text(max_size=3), st.booleans())


@settings(max_examples=5)
@given(st.lists(st.lists(TURN, max_size=5), min_size=1, max_size=8), st.sampled_from(["all", "last"]))
def test_columns_give_what_messages_give(
    tmp_path_factory: pytest.TempPathFactory, talks: list[list[tuple[str, str, bool]]], train: str
) -> None:
    rows = [
        {"messages": [{"role": r, "content": c} | ({"name": "x"} if more else {}) for r, c, more in turns]}
        for turns in [[("user", "Q", False), ("assistant", "A", False)], *talks]
    ]
    folder = tmp_path_factory.mktemp("columns")
    path = write(folder / "a.jsonl", [*rows, rows[0]])
    options: dict[str, Any] = {"tokenizer": "byte", "train": train, "max_bad": 1.0, "val_fraction": 0.0}
    found = tr.sft(path, folder / "columns", **options)
    with pytest.MonkeyPatch.context() as patch:
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


def test_the_thread_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_disk: None) -> None:
    rows: list[object] = [pair(f"Q{i} \u00e9", "<|endoftext|> A" * (i % 5)) for i in range(60)]
    path = write(tmp_path / "a.jsonl", [*rows, "{", {"prompt": 1}])
    options: dict[str, Any] = {"tokenizer": "gpt2", "max_length": 40, "max_bad": 1.0}
    found = tr.sft(path, tmp_path / "whole", **options)
    monkeypatch.setattr(records, "LINES", 3)
    cut = tr.sft(path, tmp_path / "cut", **options)
    monkeypatch.setattr(chat.Chat, "threaded", False)
    alone = tr.sft(path, tmp_path / "alone", **options)
    assert found.balance == cut.balance == alone.balance
    assert files_of(tmp_path / "whole") == files_of(tmp_path / "cut") == files_of(tmp_path / "alone")


@pytest.mark.parametrize("tokenizer", ["byte", "gpt2"])
def test_the_first_failure_is_the_one_that_is_told(
    tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_disk: None
) -> None:
    monkeypatch.setattr(records, "LINES", 1)
    good, other = pair("Q", "A"), {"question": "Q", "answer": "A"}
    options: dict[str, Any] = {"tokenizer": tokenizer, "on_bad": "fail"}
    with pytest.raises(InputError, match="line 2: got not-json"):
        tr.sft(write(tmp_path / "a.jsonl", [good, "{", other]), tmp_path / "a", **options)
    with pytest.raises(InputError, match="of shape gsm8k among records of shape prompt-completion"):
        tr.sft(write(tmp_path / "b.jsonl", [good, other, "{"]), tmp_path / "b", **options)


def test_an_encoder_that_fails_in_its_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_disk: None) -> None:
    def fail(whose: object, conversations: object) -> None:
        raise MismatchError("encoder: got other ids")

    monkeypatch.setattr(chat.Chat, "encode", fail)
    with pytest.raises(MismatchError, match="got other ids"):
        tr.sft(write(tmp_path / "a.jsonl", [pair("Q", "A")] * 3), tmp_path / "c", tokenizer="gpt2")
