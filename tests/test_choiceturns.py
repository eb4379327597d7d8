"""Multiple choice as a conversation: ids are those of the chat template's own rendering, the choice's alone scored."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenriver as tr
from chat_cases import CALM, HOSTILE, content, toy_file, toy_tokenizer
from chat_templates import CHATML, CHOOSER, LLAMA3, THINKER, model
from choice_cases import HELLASWAG, MMLU, write_lines
from tokenriver import registry
from tokenriver.chat import Chat, load_chat
from tokenriver.choiceturns import ask, check_template, encode
from tokenriver.errors import InputError, LimitError
from tokenriver.messages import ANSWER, FIXED, TEXT, Message, Piece
from tokenriver.types import IGNORE, Json

TOY = toy_tokenizer()
FILES = {name: model(toy_file().parent / f"choice-{name}", text) for name, text in (("plus", CHATML["plus"]),)}
FILES["llama3-file"] = model(toy_file().parent / "choice-llama3", LLAMA3)
CHATS = [load_chat(name, TOY) for name in registry.names("templates") if name != "jinja"]
CHATS += [load_chat(path, TOY) for path in FILES.values()]
DRAW = st.integers(0, 2**32).map(random.Random)


@pytest.mark.parametrize("chat", CHATS, ids=lambda chat: chat.name)
@settings(max_examples=20, deadline=None)
@given(draw=DRAW)
def test_ids_are_those_of_the_templates_own_rendering(chat: Chat, draw: random.Random) -> None:
    """Context and choice are what stands before the end of the turn in the whole conversation; exactly the choice is
    trained there, but for the end."""
    pool = draw.choice((CALM, HOSTILE))
    context, *choices = (f"q{content(draw, pool)}" for _ in range(4))
    try:
        asked = ask(chat, context, choices)
    except InputError:
        assert chat.name == "minimind"
        assert any("</think>" in choice for choice in choices)
        return
    ids, ends = encode([asked], chat)
    pieces = [part.tolist() for part in np.split(ids, ends[:-1])]
    user, batch = Message("user", context), chat.encode([chat.render([Message("user", context)], generate=True)])
    assert pieces[0] == batch.ids.tolist()
    for choice, piece in zip(choices, pieces[1:], strict=True):
        # minimind opens an answer with an empty block of reasoning
        reasoning = "" if chat.name == "minimind" else None
        whole = chat.encode([chat.render([user, Message("assistant", choice, reasoning)])])
        assert whole.loss_mask is not None
        text = TOY.decode([*pieces[0], *piece])
        assert TOY.decode(whole.ids.tolist()).startswith(text)
        if chat.name == "minimind":
            continue
        row = [*pieces[0], *piece]
        assert whole.ids.tolist()[: len(row)] == row
        trained = whole.loss_mask.tolist()
        assert trained[len(pieces[0]) : len(row)] == [True] * len(piece)
        # a template file trains what ends the turn of the user no more than ours do
        assert not any(trained[: len(pieces[0])])
        assert whole.ids.tolist()[len(row)] in set(getattr(TOY, "special_ids", {}).values())


def test_what_is_served_is_scored_on_the_choice_alone(tmp_path: Path) -> None:
    rows = [*HELLASWAG[:2], MMLU, {"context": "1 + 1 = ", "choices": ["2", " 3"], "label": 0}]
    report = tr.build_choices(
        write_lines(tmp_path / "in.jsonl", rows), tmp_path / "f", tokenizer=TOY, template="chatml", answers="full"
    )
    examples = tr.open_choices(tmp_path / "f")
    assert report.balance["examples"] == {"hellaswag": 2, "mmlu": 1, "plain": 1}
    assert examples.about["options"]["template"] == "chatml"
    assert "template_options" not in examples.about["options"]
    assert examples.about["options"]["chat"] == load_chat("chatml", TOY).fingerprint
    loader = tr.EvalLoader(examples, batch_rows=8, seq_len=400)
    for batch in loader:
        for line in np.flatnonzero(batch.example_ids >= 0).tolist():
            row, number = rows[int(batch.example_ids[line])], int(batch.choice_ids[line])
            choices: Any = row.get("endings") or row.get("choices")
            scored = batch.targets[line][batch.targets[line] != IGNORE]
            assert TOY.decode(scored) == choices[number]
            shown = TOY.decode(batch.input_ids[line])
            context = row.get("ctx") or row.get("context") or row["question"]
            assert shown.startswith(f"<|im_start|>user\n{context}")
            assert f"<|im_end|>\n<|im_start|>assistant\n{choices[number][:-1]}" in shown
    assert examples.choice_bytes is not None
    assert examples.choice_bytes.tolist()[-2:] == [1, 2]


def test_a_row_that_the_template_does_not_know_is_bad(tmp_path: Path) -> None:
    rows = [*HELLASWAG, {"context": "a", "choices": ["x</think>y</think>", "b"], "label": 0}]
    source = write_lines(tmp_path / "in.jsonl", rows)
    report = tr.build_choices(source, tmp_path / "f", tokenizer=TOY, template="minimind")
    assert report.balance["bad_rows"] == {"not-renderable": 1}
    (listed,) = (tmp_path / "f.bad_rows.jsonl").read_text().splitlines()
    assert json.loads(listed)["line"] == len(rows)


def test_templates_that_cannot_be_scored_are_refused(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "in.jsonl", HELLASWAG)
    strange = model(tmp_path / "strange", CHATML["plus"].replace("'<|im_start|>assistant\n'", "'<|im_start|>bot\n'"))
    refused: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"template": strange, "tokenizer": TOY}, InputError, "expected what opens a turn"),
        ({"template": "chatml", "tokenizer": "byte"}, InputError, "needs the special token '<|im_start|>'"),
        ({"template": "none-such", "tokenizer": TOY}, InputError, "none-such"),
        ({"template": "plain", "format": "llmc"}, InputError, "template: got plain with format 'llmc'"),
        ({"template": "plain", "join": ""}, InputError, "join: got '' with a template"),
    ]
    for options, kind, named in refused:
        with pytest.raises(kind, match=named.replace("|", r"\|")):
            tr.build_choices(source, tmp_path / "f", **options)
        assert not (tmp_path / "f").exists()
    tr.build_choices(source, tmp_path / "f", tokenizer="byte", template="plain")
    with pytest.raises(LimitError, match="template: got examples in the turns of plain, expected plain texts"):
        tr.write_choices(tr.open_choices(tmp_path / "f"), tmp_path / "g", format="llmc")
    # it writes reasoning before every answer, which its opening does not
    with pytest.raises(InputError, match="got no turn that opens as"):
        check_template(load_chat(model(tmp_path / "thinker", THINKER), TOY))


def test_a_template_gets_the_options_that_it_needs(tmp_path: Path) -> None:
    """An example is then scored behind what opens an answer by these options, which the file has on record."""
    source, template = write_lines(tmp_path / "in.jsonl", HELLASWAG[:1]), model(tmp_path / "m", CHOOSER)
    with pytest.raises(InputError, match="expected one; set the template's options"):
        tr.build_choices(source, tmp_path / "f", tokenizer=TOY, template=template)
    options = {"enable_thinking": False}
    tr.build_choices(source, tmp_path / "f", tokenizer=TOY, template=template, template_options=options)
    examples = tr.open_choices(tmp_path / "f")
    assert examples.about["options"]["template_options"] == options
    assert TOY.decode(examples.pieces(0)[0]).endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    refused: list[tuple[dict[str, Any], str]] = [
        ({"template": template, "template_options": {"enable_thinkin": False}}, "expected one of enable_thinking;"),
        ({"template": "plain", "template_options": options}, "template plain: got template options, expected the path"),
        ({"template_options": options}, "template_options: got some without a template"),
        ({"template": template, "template_options": {"enable_thinking": Path()}}, "expected values of JSON"),
    ]
    for asked, named in refused:
        with pytest.raises(InputError, match=named):
            tr.build_choices(source, tmp_path / "g", tokenizer=TOY, **asked)
        assert not (tmp_path / "g").exists()


class Louder:
    """A template that changes what is answered, or puts something in front of it."""

    ROLES = None

    def __init__(self, before: str) -> None:
        self._before = before

    def render(
        self, messages: Sequence[Message], *, tools: Sequence[Json], generate: bool, trained: Sequence[bool]
    ) -> list[Piece]:
        out = [Piece(messages[0].content, TEXT), Piece(">", FIXED)]
        said = [Piece(self._before, FIXED)] if self._before else []
        return out if generate else [*out, *said, Piece(messages[1].content.upper(), TEXT, ANSWER, 1)]


def test_an_answer_that_is_not_as_it_was_given_is_refused() -> None:
    for before in ("", " "):
        chat = Chat("loud", Louder(before), TOY, "all", True, frozenset({"assistant"}))
        with pytest.raises(
            InputError, match="template loud: got no turn that opens as 'a>' and goes on with the choice"
        ):
            check_template(chat)
    assert ask(Chat("loud", Louder(""), TOY, "all", True, frozenset()), "a", ["B"]).answers == ["B"]
