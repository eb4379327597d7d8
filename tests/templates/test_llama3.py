"""The turns of Llama 3: their text, what is trained, what is refused."""

import pytest

from chat_cases import toy_tokenizer
from tokenriver.chat import load_chat
from tokenriver.errors import InputError
from tokenriver.messages import Message

TOY = toy_tokenizer()
CALL = {"name": "add", "arguments": {"a": 1}}
TALK = [
    Message("system", " S\n"),
    Message("user", "2+2?"),
    Message("assistant", "", tool_calls=(CALL,)),
    Message("tool", "4"),
    Message("assistant", " 4 "),
]
SHOWN = (
    "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\n2+2?<|eot_id|>"
    '<|start_header_id|>assistant<|end_header_id|>\n\n{"name": "add", "parameters": {"a": 1}}<|eot_id|>'
    "<|start_header_id|>ipython<|end_header_id|>\n\n4<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n4<|eot_id|>"
)


@pytest.mark.parametrize("generate", [False, True])
def test_the_text(generate: bool) -> None:
    chat = load_chat("llama3", TOY, roles=["user", "tool"])
    rendered = chat.render(TALK, generate=generate)
    opening = "<|start_header_id|>assistant<|end_header_id|>\n\n" if generate else ""
    assert chat.text(rendered) == SHOWN + opening
    batch = chat.encode([rendered])
    assert TOY.decode(batch.ids) == SHOWN + opening
    assert TOY.decode(batch.ids[batch.loss_mask]) == "2+2?<|eot_id|>4<|eot_id|>"


def test_it_begins_once() -> None:
    chat = load_chat("llama3", TOY)
    assert chat.text(chat.render([])) == ""
    assert chat.text(chat.render(TALK)).count("<|begin_of_text|>") == 1
    assert chat.text(chat.render([], generate=True)).startswith("<|begin_of_text|><|start_header_id|>assistant")


@pytest.mark.parametrize(
    ("message", "named"),
    [
        (Message("assistant", "x", tool_calls=(CALL,)), "got 1 tool calls and 1 characters beside"),
        (Message("assistant", "", tool_calls=(CALL, CALL)), "got 2 tool calls"),
        (Message("assistant", "x", reasoning="y"), "got reasoning"),
    ],
)
def test_what_has_no_form_is_refused(message: Message, named: str) -> None:
    with pytest.raises(InputError, match=named):
        load_chat("llama3", TOY).render([message])


def test_tools_are_refused() -> None:
    with pytest.raises(InputError, match="got 1 tools, expected none"):
        load_chat("llama3", TOY).render(TALK, tools=[CALL])
