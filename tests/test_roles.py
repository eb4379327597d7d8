"""Control tokens by name: listed, chosen for a build, and refused where they cannot be meant."""

from pathlib import Path
from typing import Any

import pytest

import tokenriver as tr
from command_line import tokenriver
from small_builds import write_rows
from tokenriver.roles import choose, role_ids, special_tokens
from toy_tokenizers import added, byte_level, sentencepiece_model, write

pytestmark = pytest.mark.usefixtures("quick_disk")
SIZE = len(byte_level()["model"]["vocab"])
BEGIN, END, TURN, THINK = range(SIZE, SIZE + 4)
NAMES = {"<|begin_of_text|>": BEGIN, "<|end_of_text|>": END, "<|eot_id|>": TURN}
TEXTS = ["in the", "<|eot_id|>the<|begin_of_text|>", "\u4e2d"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    tokens = [added(number, name, special=True) for name, number in NAMES.items()]
    return write(tmp_path, byte_level(added_tokens=[*tokens, added(THINK, "<think>")]))


def test_names_of_every_kind(tmp_path: Path, file: Path) -> None:
    assert special_tokens(tr.load_tokenizer("gpt2")) == {"<|endoftext|>": 50256}
    assert special_tokens(tr.load_tokenizer("byte")) == {"<|endoftext|>": 256}
    assert special_tokens(tr.load_tokenizer(file)) == NAMES
    (tmp_path / "x.model").write_bytes(sentencepiece_model(["the cat"], vocab_size=20, control_symbols=["<c>"]))
    assert special_tokens(tr.load_tokenizer(tmp_path / "x.model")) == {"<s>": 1, "</s>": 2, "<c>": 3}


def test_a_build_framed_by_another_token(tmp_path: Path, file: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", TEXTS)
    tr.build(rows, tmp_path / "usual", tokenizer=file, framing="bos-eos")
    tr.build(rows, tmp_path / "turns", tokenizer=file, framing="bos-eos", eos="<|eot_id|>")
    usual, turns = (tr.open_corpus(tmp_path / name, tokenizer=file) for name in ("usual", "turns"))
    assert usual.manifest is not None
    assert turns.manifest is not None
    assert "eos" not in usual.manifest.options
    assert (turns.manifest.options["eos"], turns.eos_id, usual.eos_id) == ("<|eot_id|>", TURN, END)
    tokenizer = tr.load_tokenizer(file)
    for number, text in enumerate(TEXTS):
        ids = tokenizer.encode(text).tolist()  # what a text spells is text, so no id stands twice
        assert usual.document(number).tolist() == [BEGIN, *ids, END]
        assert turns.document(number).tolist() == [BEGIN, *ids, TURN]
    assert not tr.verify(tmp_path / "turns", against_inputs=True, inputs_root=tmp_path, tokenizer=file)
    again: dict[str, Any] = {"tokenizer": file, "framing": "bos-eos"}
    assert tr.build(rows, tmp_path / "turns", eos="<|eot_id|>", **again).complete_before
    with pytest.raises(tr.MismatchError, match=r"eos: got None, expected '<\|eot_id\|>'"):
        tr.build(rows, tmp_path / "turns", append=True, **again)
    with pytest.raises(tr.MismatchError, match=r"'eos': 26\d.* in the sources, expected one choice"):
        tr.convert([tmp_path / "usual", tmp_path / "turns"], tmp_path / "both", format="native")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eos": "<|eot|>"}, r"eos: got '<\|eot\|>'.*expected <\|eot_id\|>.*show --special"),
        ({"eos": "?"}, r"expected one of <\|begin_of_text\|>, <\|end_of_text\|>, <\|eot_id\|>"),
        ({"eos": "<think>"}, "which is no control token"),  # texts may spell it
        ({"bos": "<|eot_id|>"}, "bos: got .* with framing 'eos-after', which puts none"),
        ({"eos": "<|eot_id|>", "framing": "none"}, "eos: got .* with framing 'none'"),
        ({"bos": "<|end_of_text|>", "framing": "bos-eos"}, "has one id, .* for both"),
        ({"eos": "x", "tokenizer": "byte"}, r"expected one of <\|endoftext\|>"),
    ],
)
def test_refusals(tmp_path: Path, file: Path, options: dict[str, Any], message: str) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", TEXTS)
    with pytest.raises(tr.InputError, match=message):
        tr.build(rows, tmp_path / "out", **{"tokenizer": file, **options})
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_the_usual_token_by_its_name_is_no_other_tokenizer() -> None:
    tokenizer = tr.load_tokenizer("byte")
    assert choose(tokenizer, "eos-after", bos=None, eos="<|endoftext|>") is tokenizer
    assert role_ids(tokenizer) == {"bos": 256, "eos": 256, "pad": None}


def test_commands(tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = tokenriver(capsys, "tokenizer", "show", "--special", "--tokenizer", file, "--json").json()
    assert found["special"][1] == {"id": END, "token": "<|end_of_text|>", "roles": ["eos"]}
    assert (found["bos"], found["pad"]) == (BEGIN, None)
    assert "<|eot_id|>" in tokenriver(capsys, "tokenizer", "show", "--special", "--tokenizer", file).out
    assert tokenriver(capsys, "tokenizer", "show").code == 2
    assert tokenriver(capsys, "tokenizer", "show", "a", "--special").code == 2
    rows = write_rows(tmp_path / "rows.jsonl", TEXTS)
    out = tmp_path / "corpus"
    assert tokenriver(capsys, "build", rows, "-o", out, "--tokenizer", file, "--eos", "<|eot_id|>").code == 0
    special = tokenriver(capsys, "info", out, "--json").json()["special"]
    assert special == {"bos": {"id": BEGIN, "token": None}, "eos": {"id": TURN, "token": "<|eot_id|>"}}
    assert f"{TURN} <|eot_id|>" in tokenriver(capsys, "info", out).out
    tr.build(rows, tmp_path / "bytes", tokenizer="byte")
    special = tokenriver(capsys, "info", tmp_path / "bytes", "--json").json()["special"]
    assert special["eos"] == {"id": 256, "token": "<|endoftext|>"}
