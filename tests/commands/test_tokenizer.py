"""`tokenriver tokenizer`: its actions, for people and for machines."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import tokenriver as tr
from command_line import tokenriver
from small_builds import write_rows
from tokenriver import comparing
from tokenriver.commands.tokenizer import ACTIONS
from tokenriver.steps import Steps
from tokenriver.tokenizers._bpe import BpeTokenizer
from tokenriver.types import Ids, Int64


@pytest.mark.parametrize("action", ACTIONS)
def test_every_action_has_help_with_one_example(action: str, capsys: pytest.CaptureFixture[str]) -> None:
    ran = tokenriver(capsys, "tokenizer", action, "--help")
    assert ran.code == 0
    assert ran.out.count("Example:") == 1
    assert f"tokenriver tokenizer {action}" in ran.out.partition("Example:")[2]


@pytest.mark.parametrize("words", [[], ["chars"]])
def test_an_action_is_needed(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert tokenriver(capsys, "tokenizer", *words).code == 2


def test_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("to be\n\x1b[31m", encoding="utf-8")
    words = ["tokenizer", "characters", tmp_path / "a.txt", "-o", tmp_path / "meta.pkl"]
    ran = tokenriver(capsys, *words)
    assert (ran.code, ran.err) == (0, "")
    assert "\\n\\x1b 13[bemot" in ran.out
    value = tokenriver(capsys, *words, "--json").json()
    assert value["characters"] == "\n\x1b 13[bemot"
    assert (value["vocab_size"], value["documents"], value["bad_rows"]) == (11, 1, 0)
    assert tr.load_tokenizer(tmp_path / "meta.pkl").encode("to be").tolist() == [10, 9, 2, 6, 7]
    ran = tokenriver(capsys, *words[:2], tmp_path / "none", "-o", tmp_path / "x.pkl")
    assert (ran.code, ran.out) == (1, "")
    assert "no such file" in ran.err


def test_a_build_by_command_finds_its_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("to be\n", encoding="utf-8")
    words = ["build", tmp_path / "a.txt", "-o", tmp_path / "c", "--tokenizer", "char", "--like", "nanogpt"]
    ran = tokenriver(capsys, *words, "--workers", "1", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == [
        "manifest.json",
        "meta.pkl",
        "train.bin",
        "train.docs",
    ]


def test_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = tokenriver(capsys, "tokenizer", "show", "hello \U0001f9ff<|endoftext|>", "--json").json()
    ids = tr.load_tokenizer("gpt2").encode("hello \U0001f9ff<|endoftext|>").tolist()
    assert (value["tokenizer"], value["ids"], value["bytes"], value["round_trip"]) == ("gpt2", ids, 23, True)
    assert b"".join(map(bytes.fromhex, value["hex"])).decode() == "hello \U0001f9ff<|endoftext|>"
    assert value["pieces"][0] == "hello"
    assert value["pieces"][1].startswith(" \\xf0")
    (tmp_path / "a.txt").write_text("ab\x1b[31m\n" * 60, encoding="utf-8")
    ran = tokenriver(capsys, "tokenizer", "show", tmp_path / "a.txt", "--tokenizer", "byte", "--ids", "3")
    assert (ran.code, ran.err) == (0, "")
    assert f"{tmp_path / 'a.txt'} by byte: 480 ids, 480 bytes, 1.00 bytes an id" in ran.out
    assert "ab\\x1b\n" in ran.out
    assert "\x1b" not in ran.out
    lines = [line.split() for line in ran.out.splitlines()]
    assert ["1", "98", "62", "'b'"] in lines
    assert lines[-1] == ["and", "477", "ids", "more"]
    assert tokenriver(capsys, "tokenizer", "show", "").code == 0


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["a\udcff"], "the text given: byte 1: got 0xff, expected UTF-8"),
        (["a", "--tokenizer", "no_such"], "no_such"),
        (["a", "--tokenizer", "char"], "got 'char' without its vocabulary"),
    ],
)
def test_show_refuses(words: list[str], what: str, capsys: pytest.CaptureFixture[str]) -> None:
    ran = tokenriver(capsys, "tokenizer", "show", *words)
    assert (ran.code, ran.out) == (1, "")
    assert what in ran.err


def test_check(small_input: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = tokenriver(capsys, "tokenizer", "check", small_input)
    assert (ran.code, ran.err) == (0, "")
    assert "gpt2: the fast encoder gives the reference's ids" in ran.out
    value = tokenriver(capsys, "tokenizer", "check", small_input, "--json").json()
    assert value["documents"] == 200
    assert value["hostile_texts"] > 300
    assert (value["differences"], value["first"]) == (0, None)
    ran = tokenriver(capsys, "tokenizer", "check", "--tokenizer", "byte")
    assert ran.code == 0
    assert "has no fast encoder here" in ran.out


def test_check_finds_differences(
    small_input: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good = tr.load_tokenizer("gpt2")

    class Wrong:
        """Its last id of the texts whose length in bytes is odd is one too high."""

        def encode_framed(self, texts: list[bytes], before: int | None, after: int | None) -> tuple[Ids, Int64]:
            ids, lengths = good.encode_framed(texts, before, after)
            odd = np.array([len(text) % 2 == 1 for text in texts])
            ids[np.cumsum(lengths)[odd] - 1] += 1
            return ids, lengths

        def letting_threads_run(self) -> "Wrong":
            return self

        def in_steps(self, texts: list[bytes], foreign: list[int], after: int) -> Steps[tuple[Ids, Int64]]:
            return Steps((partial(self.encode_framed, texts, None, after),))

    assert isinstance(good, BpeTokenizer)
    monkeypatch.setattr(comparing, "load_tokenizer", lambda *_, **__: replace(good, fast=Wrong()))
    ran = tokenriver(capsys, "tokenizer", "check", small_input, "--json")
    assert ran.code == 1
    texts = [json.loads(line)["text"].encode() for line in small_input.read_text(encoding="utf-8").splitlines()]
    odd = [number for number, text in enumerate(texts) if len(text) % 2]
    value = ran.json()
    assert value["differences"] == len(odd) + 1
    assert value["first"].startswith("built-in texts: encoder check: ids differ")
    ran = tokenriver(capsys, "tokenizer", "check", small_input)
    assert ran.code == 1
    assert "gpt2: the encoders differ" in ran.out
    monkeypatch.setattr(BpeTokenizer, "self_check", lambda self: 0)
    first = tokenriver(capsys, "tokenizer", "check", small_input, "--json").json()["first"]
    assert first.startswith(f"{small_input}: record {odd[0]}: encoder check: ids differ")


def test_train(small_input: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "tokenizer.json"
    words = [
        "tokenizer",
        "train",
        small_input,
        "-o",
        out,
        "--vocab-size",
        "270",
        "--special",
        "<s>",
        "--special",
        "</s>",
    ]
    ran = tokenriver(capsys, *words)
    assert (ran.code, ran.err) == (0, "")
    assert "byte-level BPE of 270 ids" in ran.out
    value = tokenriver(capsys, *words, "--json").json()
    assert (value["vocab_size"], value["documents"], value["special"]) == (270, 200, {"<s>": 0, "</s>": 1})
    tokenizer = tr.load_tokenizer(out)
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.vocab_size) == (0, 1, 270)
    young = write_rows(tmp_path / "young.jsonl", ["\u0cdc's"])
    ran = tokenriver(capsys, *words, young)
    assert "split by the reference  1 documents" in ran.out
    ran = tokenriver(capsys, *words[:5], "--vocab-size", "100k")
    assert (ran.code, ran.out) == (1, "")
    assert "which is all that 200 texts" in ran.err
