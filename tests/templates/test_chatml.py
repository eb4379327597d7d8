"""ChatML and its kin: the text of each part, and what of it is trained."""

from collections.abc import Sequence

import pytest

from chat_cases import toy_tokenizer
from tokenriver.chat import load_chat
from tokenriver.errors import InputError
from tokenriver.messages import Message
from tokenriver.tokenizer import load_tokenizer

TOY = toy_tokenizer()
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": "\u4e2d"}}}
ADD = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
TALK = [
    Message("system", "S"),
    Message("user", "2+2?"),
    Message("assistant", "Let me see.", "So so.", (CALL, {"name": "f", "arguments": "{}"})),
    Message("tool", "4"),
    Message("tool", "5"),
    Message("assistant", "4"),
]
CALLS = (
    '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": "\u4e2d"}}\n</tool_call>\n'
    '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
)
SHOWN = (
    "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n"
    f"<think>\nSo so.\n</think>\n\nLet me see.\n{CALLS}<|im_end|>\n"
    "<|im_start|>user\n<tool_response>\n4\n</tool_response>\n<tool_response>\n5\n</tool_response><|im_end|>\n"
    "<|im_start|>assistant\n4<|im_end|>\n"
)


def _trained(name: str, messages: list[Message], reasoning: bool = True, roles: Sequence[str] = ()) -> str:
    chat = load_chat(name, TOY, reasoning=reasoning, roles=roles)
    batch = chat.encode([chat.render(messages)])
    assert TOY.decode(batch.ids) == chat.text(chat.render(messages))
    return TOY.decode(batch.ids[batch.loss_mask])


@pytest.mark.parametrize(("name", "newline"), [("chatml", ""), ("minimind", "\n")])
def test_calls_results_and_reasoning(name: str, newline: str) -> None:
    chat = load_chat(name, TOY)
    assert chat.text(chat.render(TALK)) == SHOWN
    thought, answer = "<think>\nSo so.\n</think>\n\n", f"Let me see.\n{CALLS}<|im_end|>{newline}"
    assert _trained(name, TALK) == f"{thought}{answer}4<|im_end|>{newline}"
    assert _trained(name, TALK, reasoning=False) == f"{answer}4<|im_end|>{newline}"
    assert _trained(name, TALK, roles=["tool", "system"]) == f"S<|im_end|>{newline}45<|im_end|>{newline}"


@pytest.mark.parametrize("name", ["chatml", "minimind"])
@pytest.mark.parametrize("system", [[], [Message("system", "Be brief.")]])
@pytest.mark.parametrize("trained", [False, True])
def test_tools_stand_in_the_system_message(name: str, system: list[Message], trained: bool) -> None:
    chat = load_chat(name, TOY, roles=["system"] if trained else [])
    rendered = chat.render([*system, Message("user", "x")], tools=[ADD, ADD])
    text = chat.text(rendered)
    assert text.startswith(
        "<|im_start|>system\nBe brief.\n\n# Tools\n\n" if system else "<|im_start|>system\n# Tools\n\n"
    )
    line = '\n{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}'
    assert f"<tools>{line}{line}\n</tools>" in text
    assert text.endswith("</tool_call><|im_end|>\n<|im_start|>user\nx<|im_end|>\n")
    batch = chat.encode([rendered])
    assert TOY.decode(batch.ids) == text
    expected = "Be brief.<|im_end|>" + "\n" * (name == "minimind") if system and trained else ""
    assert TOY.decode(batch.ids[batch.loss_mask]) == expected


def test_minimind_takes_reasoning_out_of_a_content() -> None:
    chat = load_chat("minimind", TOY)
    inside = [Message("assistant", "\n<think>\n\nwhy\n</think>\n\nyes"), Message("assistant", "why\n</think>yes")]
    expected = "<|im_start|>assistant\n<think>\nwhy\n</think>\n\nyes<|im_end|>\n"
    assert [chat.text(chat.render([one])) for one in inside] == [expected] * 2
    assert chat.text(chat.render([Message("assistant", "\n\nyes", "")])) == expected.replace("why", "")
    for lost in ("a<think>b</think>c", "<think>a</think>b</think>c"):
        with pytest.raises(InputError, match="expected one block of reasoning"):
            chat.render([Message("assistant", lost)])


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ({"name": "f"}, "expected name and arguments"),
        ({"function": "f"}, "expected name and arguments"),
        ({"name": "f", "arguments": {}, "when": 1}, "got the field 'when'"),
        ({"function": {"name": "f", "arguments": {}}, "index": 1}, "got the field 'index'"),
        ({"function": {"name": "f", "arguments": {}, "id": "x"}}, "got the field 'id'"),
        ({"name": "f", "arguments": {}, "type": "code"}, "got the type 'code'"),
        ({"name": "f", "arguments": {"a": float("nan")}}, "expected what JSON can hold"),
        ({"name": "f", "arguments": {"a": object()}}, "expected what JSON can hold"),
    ],
)
def test_calls_that_have_no_form_are_refused(call: dict[str, object], named: str) -> None:
    with pytest.raises(InputError, match=named):
        load_chat("chatml", TOY).render([Message("assistant", "", tool_calls=(call,))])


def test_a_tokenizer_without_the_tokens_is_named() -> None:
    chat = load_chat("chatml", load_tokenizer("gpt2"))
    with pytest.raises(InputError, match=r"needs the special token '<\|im_start\|>', which the tokenizer gpt2 has not"):
        chat.encode([chat.render([Message("user", "x")])])
