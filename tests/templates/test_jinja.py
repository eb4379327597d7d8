"""Chat templates of files: they give what our own give, and what cannot be told is refused."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat_cases import talk, toy_tokenizer
from chat_templates import CHATML, ENDED, LLAMA3, THINKER, model
from tokenriver.chat import Chat, load_chat
from tokenriver.errors import FormatError, InputError
from tokenriver.messages import Message

TOY = toy_tokenizer()
DRAW = st.integers(0, 2**32).map(random.Random)
ROLES = ("system", "user", "assistant")
TALK = [Message("user", "a"), Message("assistant", "b"), Message("user", "c"), Message("assistant", "d")]
ENDS = "{{ m.role }}{{ m.content }}<|im_end|>"


def _chat(folder: Path, template: str, reasoning: bool = True, **variables: object) -> Chat:
    return load_chat(model(folder, template), TOY, reasoning=reasoning, variables=variables or None)


def _trained(chat: Chat, messages: list[Message]) -> str:
    batch = chat.encode([chat.render(messages)])
    return TOY.decode(batch.ids[batch.loss_mask])


@pytest.fixture(scope="module", params=sorted(CHATML))
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Chat:
    return _chat(tmp_path_factory.mktemp("model"), CHATML[request.param])


@settings(max_examples=8)
@given(draw=DRAW)
def test_however_it_is_written_it_gives_what_chatml_gives(written: Chat, draw: random.Random) -> None:
    own, messages, generate = load_chat("chatml", TOY), talk(draw, ROLES), draw.random() < 0.5
    rendered = [chat.render(messages, generate=generate) for chat in (written, own)]
    assert written.text(rendered[0]) == own.text(rendered[1])
    found, expected = written.encode(rendered[:1]), own.encode(rendered[1:])
    assert found.ids.tolist() == expected.ids.tolist()
    assert found.loss_mask is not None
    assert expected.loss_mask is not None
    assert found.loss_mask.tolist() == expected.loss_mask.tolist()


@settings(max_examples=10)
@given(draw=DRAW)
def test_llama3(tmp_path_factory: pytest.TempPathFactory, draw: random.Random) -> None:
    written, own = _chat(tmp_path_factory.mktemp("model"), LLAMA3), load_chat("llama3", TOY)
    messages = [Message("system", "S"), *talk(draw, ROLES)]
    found, expected = (chat.encode([chat.render(messages)]) for chat in (written, own))
    assert TOY.decode(found.ids) == TOY.decode(expected.ids)
    assert found.ids.tolist() == expected.ids.tolist()
    assert str(found.loss_mask) == str(expected.loss_mask)


def test_a_template_that_leaves_out_what_was_thought_before(tmp_path: Path) -> None:
    chat = _chat(tmp_path, THINKER)
    thought = [Message(m.role, m.content, "why" if m.role == "assistant" else None) for m in TALK]
    shown = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n"
    assert chat.text(chat.render(thought)) == f"{shown}<|im_start|>assistant\n<think>\nwhy\n</think>\n\nd<|im_end|>\n"
    assert _trained(chat, thought) == "b<|im_end|><think>\nwhy\n</think>\n\nd<|im_end|>"
    assert _trained(_chat(tmp_path, THINKER, reasoning=False), thought) == "b<|im_end|>d<|im_end|>"
    empty = [*thought[:3], Message("assistant", "", "why")]
    assert _trained(_chat(tmp_path, THINKER, reasoning=False), empty) == "b<|im_end|><|im_end|>"
    calls = [*thought[:3], Message("assistant", "", "why", ({"name": "f", "arguments": {"a": 1}},))]
    call = '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call><|im_end|>'
    assert _trained(chat, calls) == f"b<|im_end|><think>\nwhy\n</think>\n\n{call}"
    with pytest.raises(InputError, match="reasoning=False cannot tell where it ends"):
        _chat(tmp_path, THINKER, reasoning=False).render(calls)


def test_a_template_that_ends_a_whole_conversation(tmp_path: Path) -> None:
    chat = _chat(tmp_path, ENDED)
    assert _trained(chat, TALK) == "b<|im_end|>d<|im_end|>\n<|endoftext|>"
    assert _trained(chat, TALK[:3]) == "b<|im_end|>"
    assert chat.text(chat.render(TALK[:3])).endswith("c<|im_end|>\n<|endoftext|>")
    prompt = chat.render(TALK[:3], generate=True)
    assert chat.text(prompt).endswith("c<|im_end|>\n<|im_start|>assistant\n")
    own = load_chat("chatml", TOY)
    expected = own.encode([own.render(TALK[:3], generate=True)])
    assert chat.encode([prompt]).ids.tolist() == expected.ids.tolist()
    with pytest.raises(InputError, match="got other text at the end once the next turn is opened"):
        chat.render(TALK, generate=True)


def test_an_opening_that_rewrites_the_end_is_refused(tmp_path: Path) -> None:
    turns = "{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}"
    chat = _chat(tmp_path, turns + "{% if not add_generation_prompt %}nothing follows{% endif %}")
    with pytest.raises(InputError, match="got other text at the end once the next turn is opened"):
        chat.render(TALK[:1], generate=True)


@pytest.mark.parametrize(
    ("template", "named"),
    [
        (
            "{% for m in messages %}{{ m.role }}{% if m.role == 'user' or loop.last %}{{ m.content }}<|im_end|>"
            "{% else %}<|im_start|>{{ m.content }}{% endif %}{% endfor %}",
            "got other text before message 1 once others follow",
        ),
        (
            "{% for m in messages %}{{ m.role }}{% if m.role == 'user' %}{{ m.content }}{% elif loop.last %}"
            "<|im_start|>{{ m.content }}<|im_end|>{% else %}<|im_start|>x{{ m.content }}{% endif %}{% endfor %}",
            "got other text before message 1 once others follow",
        ),
        (
            "{% for m in messages %}{{ m.role }}{{ m.content }}{% if loop.last %}<|im_end|>{% endif %}{% endfor %}",
            "got other text before message 1 once more follows",
        ),
        (
            "{% for m in messages %}{{ m.content }}{% if m.role == 'user' or loop.last %}<|im_end|>{% endif %}"
            "{% endfor %}",
            "got other text before message 1 once others follow",
        ),
        (
            "{% for m in messages %}{% if m.role == 'assistant' %}<|im_start|>{% endif %}{{ m.content }}<|im_end|>"
            "{% endfor %}{% if add_generation_prompt %}<|im_{% endif %}",
            "got a special token across the edge of a turn",
        ),
        ("{% for m in messages %}" + ENDS + "{{ loop.length }}{% endfor %}", "got other text before message 1"),
        ("{{ messages | length }}{% for m in messages %}" + ENDS + "{% endfor %}", "got other text before message 1"),
        (
            "{% for m in messages %}" + ENDS + "{% endfor %}{% if add_generation_prompt %}>>{% endif %}",
            "where message 1 begins, expected what opens a turn, '>>'",
        ),
        ("{% for m in messages %}{{ m.role }}{{ m.content }}{% endfor %}", "no special token at the end of message 1"),
        ("{% for m in messages if m.role == 'user' %}" + ENDS + "{% endfor %}", "got nothing of message 1"),
        (
            "{% for m in messages %}{% generation %}" + ENDS + "{% endgeneration %}{% endfor %}",
            "got generation block 1, which is not that of one message",
        ),
        (
            "{% for m in messages %}{{ m.role }}{% if m.role == 'user' %}{{ m.content }}{% else %}{% generation %}"
            "{{ m.content }}{% endgeneration %}{% endif %}<|im_end|>{% endfor %}",
            "without the token that ends the turn of message 1",
        ),
        (
            "{% for m in messages %}{{ m.content }}{% if loop.last %}{% generation %}<|im_end|>{% endgeneration %}"
            "{% endif %}{% endfor %}",
            "got generation block 1",
        ),
        (
            "{% for m in messages %}{{ m.content }}{{ 'x|im_end|>' | replace('x', '<') }}{% endfor %}",
            r"got the special token '<|im_end|>' made by a method or filter",
        ),
        ("{{ raise_exception('roles must ' + 'alternate') }}", "got 'roles must alternate', expected a text"),
        ("{{ strftime_now('%Y') }}", "'strftime_now' is undefined"),
        ("{{ nobody.knows }}", "'nobody' is undefined"),
    ],
)
def test_what_cannot_be_told_is_refused(template: str, named: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        _chat(tmp_path, template).render(TALK)
    assert named in str(caught.value)


@pytest.mark.parametrize(
    ("message", "named"),
    [
        (Message("wizard", "x"), "role: got 'wizard'"),
        (Message("assistant", "x", "y"), "got reasoning, which it has no form for"),
        (Message("assistant", "x", None, ({"name": "f"},)), "got tool calls, which it has no form for"),
        (Message("user", "x", train=True), "train: got a message of user"),
    ],
)
def test_parts_without_a_form_are_refused(message: Message, named: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=named):
        _chat(tmp_path, CHATML["plus"]).render([message])


def test_what_a_filter_makes_of_a_content_is_no_special_token(tmp_path: Path) -> None:
    chat = _chat(tmp_path, "{% for m in messages %}{{ m.content | lower }}<|im_end|>{% endfor %}")
    batch = chat.encode([chat.render([Message("user", "A<|im_end|>")])])
    assert TOY.decode(batch.ids) == "a<|im_end|><|im_end|>"
    assert batch.ids.tolist().count(269) == 1
    with pytest.raises(InputError, match="made by a method or filter"):
        chat.render([Message("user", "A<|IM_END|>")])


def test_a_content_that_the_template_completes_is_no_special_token(tmp_path: Path) -> None:
    chat = _chat(tmp_path, "{% for m in messages %}<|im_{{ m.content }}|><|im_end|>{% endfor %}")
    batch = chat.encode([chat.render([Message("user", "end")])])
    assert TOY.decode(batch.ids) == "<|im_end|><|im_end|>"
    assert batch.ids.tolist().count(269) == 1


def test_tools_and_roles_without_a_form_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="got tools, which it has no form for"):
        _chat(tmp_path, CHATML["plus"]).render(TALK, tools=[{"name": "f"}])
    with pytest.raises(InputError, match="roles: got user, expected only assistant"):
        load_chat(tmp_path, TOY, roles=["user"])
    for name, variables in (("jinja", None), ("chatml", {"a": 1})):
        with pytest.raises(InputError, match="expected the path of a template's file"):
            load_chat(name, TOY, variables=variables)


def test_one_of_several_templates_is_for_tools(tmp_path: Path) -> None:
    two = [{"name": "tool_use", "template": "{{ tools | tojson }}"}, {"name": "default", "template": CHATML["plus"]}]
    chat = load_chat(model(tmp_path, "", chat_template=two), TOY)
    assert chat.text(chat.render([], tools=[{"name": "f<|im_end|>"}])) == '[{"name": "f<|im_end|>"}]'
    assert chat.encode([chat.render([], tools=[{"name": "<|im_end|>"}])]).ids.max() < 267
    assert chat.text(chat.render(TALK[:1])) == "<|im_start|>user\na<|im_end|>\n"


def test_variables(tmp_path: Path) -> None:
    chat = _chat(tmp_path, "{{ strftime_now('%d') }}{{ n + 1 }}{{ tag }}", strftime_now="1 May", n=1, tag="<|im_end|>")
    assert chat.text(chat.render([])) == "1 May2<|im_end|>"
    assert chat.encode([chat.render([])]).ids[-1] == 269


def test_variables_that_no_template_takes_are_refused(tmp_path: Path) -> None:
    """The names that it reads are those of all its templates, without what it makes and what the sandbox has."""
    own = "{% set own = 1 %}{% if not date is defined %}{% set date = 'x' %}{% endif %}{{ own }}{{ date }}"
    own += "{% for m in messages %}{{ m.thinking }}{{ raise_exception }}{% endfor %}{{ bos_token }}"
    two = [{"name": "tool_use", "template": "{{ tools }}{{ depth }}"}, {"name": "default", "template": own}]
    folder = model(tmp_path, "", chat_template=two)
    for name in ("depth", "date", "bos_token"):
        load_chat(folder, TOY, variables={name: "1"})
    reads = "expected one of bos_token, date, depth; leave it out"
    for name in ("own", "m", "thinking", "raise_exception", "Date"):
        with pytest.raises(
            InputError, match=f"template option: got '{name}', which the template does not read, {reads}"
        ):
            load_chat(folder, TOY, variables={"date": 1, name: 1})
    for name in ("messages", "tools", "documents", "add_generation_prompt"):
        with pytest.raises(InputError, match=f"got '{name}', which each conversation sets by itself, {reads}"):
            load_chat(folder, TOY, variables={name: True})
    with pytest.raises(InputError, match="expected none; leave it out"):
        _chat(tmp_path / "b", CHATML["plus"], x=1)


@pytest.mark.parametrize("key", ["added_tokens_decoder", "added_tokens"])
def test_a_token_that_takes_blanks_away_is_refused(key: str, tmp_path: Path) -> None:
    row = {"content": "<|im_end|>", "special": True, "rstrip": True}
    model(tmp_path, CHATML["plus"], **({key: {"1": row}} if key == "added_tokens_decoder" else {}))
    (tmp_path / "tokenizer.json").write_text(json.dumps({"added_tokens": [row | {"rstrip": key == "added_tokens"}]}))
    with pytest.raises(InputError, match=r"got the special token '<\|im_end\|>', which changes the text beside it"):
        load_chat(tmp_path, TOY).render(TALK)


def test_a_folder_without_a_slash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model(tmp_path / "mine", CHATML["plus"])
    monkeypatch.chdir(tmp_path)
    assert load_chat("mine", TOY).fingerprint == load_chat(Path("mine"), TOY).fingerprint


def test_the_fingerprint_is_that_of_the_text(tmp_path: Path) -> None:
    text = CHATML["plus"] + "{% if x %}{% endif %}"
    chats = [_chat(tmp_path / "a", text), _chat(tmp_path / "b", text)]
    file = tmp_path / "b" / "chat_template.jinja"
    file.write_text(CHATML["tilde"], encoding="utf-8")
    chats += [load_chat(tmp_path / "b", TOY), load_chat(file, TOY), _chat(tmp_path / "a", text, x=1)]
    prints = [chat.fingerprint for chat in chats]
    assert prints[0] == prints[1]
    assert prints[2] == prints[3]
    assert len(set(prints)) == 3


def test_files_that_have_none_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"got a folder without chat_template\.jinja"):
        load_chat(tmp_path, TOY)
    with pytest.raises(InputError, match="got no such file"):
        load_chat(tmp_path / "none.jinja", TOY)
    config = tmp_path / "tokenizer_config.json"
    for content in ({}, {"chat_template": 5}, {"chat_template": [{"name": "default"}]}):
        config.write_text(json.dumps(content), encoding="utf-8")
        with pytest.raises(InputError, match="chat_template: got none"):
            load_chat(f"{tmp_path}/", TOY)
    for text in ("{", "[]", "[" * 100_000):
        config.write_text(text, encoding="utf-8")
        with pytest.raises(FormatError, match=r"tokenizer_config\.json"):
            load_chat(tmp_path, TOY)
