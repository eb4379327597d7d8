"""minimind's fine-tuning and preference rows, made by its own code: conversations rendered, encoded, trained."""

import json
import random
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from golden_data import golden
from tokenriver.chat import Chat, load_chat
from tokenriver.messages import Message, Rendered
from tokenriver.tokenizer import load_tokenizer

EMPTY = "<think>\n\n</think>\n\n"


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Chat:
    folder = tmp_path_factory.mktemp("minimind")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(golden("inputs") / f"minimind_{name}", folder / name)
    return load_chat("minimind", load_tokenizer(folder))


def _lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (golden("minimind") / name).read_text(encoding="utf-8").splitlines()]


def _messages(turns: list[dict[str, Any]], keep_empty: Callable[[], bool]) -> tuple[list[Message], list[Any]]:
    """Messages and tools; an empty block of reasoning is written into turns without any if it is to stay."""
    missing = any(t["role"] == "assistant" and "reasoning_content" not in t for t in turns)
    empty = "" if missing and keep_empty() else None
    messages = [
        Message(
            turn["role"],
            turn["content"],
            turn.get("reasoning_content", empty) if turn["role"] == "assistant" else None,
            json.loads(turn.get("tool_calls", "[]")),
        )
        for turn in turns
    ]
    return messages, json.loads(turns[0].get("tools", "[]"))


def _row(chat: Chat, rendered: Rendered, length: int) -> tuple[list[int], list[bool]]:
    """Ids and mask cut to a length, and filled up."""
    batch = chat.encode([rendered])
    assert batch.loss_mask is not None
    fill = max(0, length - len(batch.ids))
    return [*batch.ids[:length].tolist(), *[0] * fill], [*batch.loss_mask[:length].tolist(), *[False] * fill]


@pytest.mark.parametrize("seed", [0, 1, 5])
@pytest.mark.parametrize("length", [48, 96])
def test_every_row_of_its_fine_tuning(chat: Chat, length: int, seed: int) -> None:
    cases = json.loads((golden("minimind") / "sft_cases.json").read_bytes())
    case = cases[f"sft_T{length}_seed{seed}"]
    rows = np.load(golden("minimind") / case["npz"])
    draws = random.Random(seed)
    for number, record in enumerate(_lines("sft.jsonl")):
        turns, expected = record["conversations"], case["rendered"][number]
        if turns[0]["role"] != "system" and draws.random() < 0.2:
            draws.choice(range(10))
            said = expected.removeprefix("<|im_start|>system\n").partition("<|im_end|>")[0]
            turns = [{"role": "system", "content": said}, *turns]
        messages, tools = _messages(turns, lambda: draws.random() <= 0.2)
        rendered = chat.render(messages, tools=tools)
        assert chat.text(rendered) == expected
        ids, mask = _row(chat, rendered, length)
        assert ids == rows["input_ids"][number].tolist()
        assert np.where(mask, ids, -100).tolist() == rows["labels"][number].tolist()


@pytest.mark.parametrize("name", ["dpo_T40_seed0", "dpo_T40_seed3", "dpo_T64_seed0", "dpo_T64_seed3"])
def test_every_pair_of_its_preferences(chat: Chat, name: str) -> None:
    case = json.loads((golden("minimind") / "dpo_cases.json").read_bytes())[name]
    rows = np.load(golden("minimind") / case["npz"])
    draws = random.Random(case["python_random_seed"])
    for number, record in enumerate(_lines("dpo.jsonl")):
        for side in ("chosen", "rejected"):
            messages, _ = _messages(record[side], lambda: draws.random() <= 0.2)
            ids, mask = _row(chat, chat.render(messages), case["max_length"])
            assert ids[:-1] == rows[f"x_{side}"][number].tolist()
            assert ids[1:] == rows[f"y_{side}"][number].tolist()
            assert mask[1:] == rows[f"mask_{side}"][number].tolist()


def test_the_prompt_is_that_of_its_template(chat: Chat) -> None:
    rendered = chat.render([Message("user", "hi")], generate=True)
    assert chat.text(rendered) == f"<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n{EMPTY}"
    ids = chat.encode([rendered]).ids.tolist()
    assert ids[ids.index(1, 1) :][:6] == [1, 1388, 570, 811, 234, 25]
