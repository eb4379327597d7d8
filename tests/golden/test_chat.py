"""Conversations of the HDF5 project, rendered and encoded by its own code: ids, masks and prompts to the id."""

import json
from typing import Any

import pytest

from golden_data import golden
from tokenriver.chat import load_chat
from tokenriver.messages import SPECIAL, Message, Rendered
from tokenriver.tokenizer import load_tokenizer

END = "<|endoftext|>"
OPENING = "<|assistant|>\n"


def _shown(rendered: Rendered) -> str:
    return "".join(END if piece.kind == SPECIAL else piece.text for piece in rendered.pieces)


def test_every_conversation_is_encoded_as_the_original_does() -> None:
    cases: list[dict[str, Any]] = json.loads((golden("train_llm_from_scratch") / "encode_chat.json").read_bytes())
    chat = load_chat("plain", load_tokenizer("gpt2"))
    conversations = [[Message(m["role"], m["content"]) for m in case["messages"]] for case in cases]
    rendered = [chat.render(messages) for messages in conversations]
    batch = chat.encode(rendered)
    assert batch.loss_mask is not None
    start = 0
    for case, one, length in zip(cases, rendered, batch.lengths.tolist(), strict=True):
        # the last case was rendered with the opening of the next answer, and encoded without
        assert _shown(one) == case["rendered"].removesuffix(OPENING)
        assert batch.ids[start : start + length].tolist() == case["ids"]
        assert batch.loss_mask[start : start + length].astype(int).tolist() == case["loss_mask"]
        start += length
    assert start == len(batch.ids)


def test_every_prompt_is_encoded_as_the_original_does() -> None:
    cases: list[dict[str, Any]] = json.loads((golden("train_llm_from_scratch") / "encode_chat.json").read_bytes())
    chat = load_chat("plain", load_tokenizer("gpt2"))
    for case in cases[:-1]:
        messages = [Message(m["role"], m["content"]) for m in case["messages"] if m["role"] != "assistant"]
        batch = chat.encode([chat.render(messages, generate=True)])
        assert batch.ids.tolist() == case["prompt_ids"]


@pytest.mark.parametrize("count", [1, 2])
def test_a_prompt_ends_with_the_opening_of_the_answer(count: int) -> None:
    chat = load_chat("plain", load_tokenizer("gpt2"))
    question = Message("user", "Name the colour of a ripe banana.")
    batch = chat.encode([chat.render([question], generate=True)] * count)
    expected = [27, 91, 7220, 91, 29, 198, 5376, 262, 9568, 286, 257, 29036, 25996, 13, 50256]
    expected += [27, 91, 562, 10167, 91, 29, 198]
    assert batch.lengths.tolist() == [len(expected)] * count
    assert batch.ids.tolist() == expected * count
    assert batch.loss_mask is not None
    assert batch.loss_mask.tolist() == ([False] * 14 + [False] + [False] * 7) * count
