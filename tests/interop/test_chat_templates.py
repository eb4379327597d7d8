"""transformers' own rendering and ids of the same templates, wherever no content spells a special token."""

import json
import random
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from chat_cases import CALM, talk, toy_file, toy_tokenizer
from chat_templates import CHATML, LLAMA3, THINKER, model
from tokenriver.chat import load_chat
from tokenriver.messages import Message

pytestmark = pytest.mark.interop

TOY = toy_tokenizer()
TEMPLATES = {**CHATML, "llama3": LLAMA3, "thinker": THINKER}
TOOL = {"type": "function", "function": {"name": "add", "description": "\u4e2d <b>", "parameters": {"a": [1, None]}}}


def _theirs(template: str) -> PreTrainedTokenizerFast:
    names = {"bos_token": "<|begin_of_text|>", "eos_token": "<|endoftext|>"}
    return PreTrainedTokenizerFast(tokenizer_file=str(toy_file()), chat_template=template, **names)


def _given(messages: list[Message]) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in messages]


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_text_ids_and_mask(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    theirs, draw = _theirs(TEMPLATES[name]), random.Random(1)
    chat = load_chat(model(tmp_path_factory.mktemp("model"), TEMPLATES[name]), TOY)
    masked: dict[str, Any] = {"return_dict": True, "return_assistant_tokens_mask": name == "blocks"}
    for _ in range(30):
        messages = [Message("user", "a")]
        messages += [m for m in talk(draw, ("system", "user", "assistant"), CALM) if m.content == m.content.strip()]
        generate = draw.random() < 0.5
        rendered = chat.render(messages, generate=generate)
        batch = chat.encode([rendered])
        options: dict[str, Any] = {"add_generation_prompt": generate}
        found = theirs.apply_chat_template(_given(messages), tokenize=True, **options, **masked)
        assert chat.text(rendered) == theirs.apply_chat_template(_given(messages), tokenize=False, **options)
        assert batch.ids.tolist() == found["input_ids"]
        if name == "blocks":
            assert batch.loss_mask is not None
            assert batch.loss_mask.astype(int).tolist() == found["assistant_masks"]


def test_tools(tmp_path_factory: pytest.TempPathFactory) -> None:
    shown = "{{ tool | tojson }}{{ tool | tojson(indent=2) }}"
    template = "{{ messages[0].content }}{% for tool in tools %}" + shown + "{% endfor %}<|im_end|>"
    chat = load_chat(model(tmp_path_factory.mktemp("model"), template), TOY)
    rendered = chat.render([Message("user", "a")], tools=[TOOL])
    assert chat.text(rendered) == _theirs(template).apply_chat_template(
        _given([Message("user", "a")]), tools=[TOOL], tokenize=False
    )
    assert json.dumps(TOOL, ensure_ascii=False) in chat.text(rendered)
