"""minimind's fine-tuning and preference rows, made by its own code: conversations rendered, encoded, trained."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden_data import golden
from tokenriver.chat import Chat, load_chat
from tokenriver.errors import InputError
from tokenriver.messages import Message, Rendered
from tokenriver.templates import minimind
from tokenriver.tokenizer import load_tokenizer

EMPTY = "<think>\n\n</think>\n\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("minimind")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(golden("inputs") / f"minimind_{name}", folder / name)
    return folder


@pytest.fixture(scope="module")
def chat(folder: Path) -> Chat:
    return load_chat("minimind", load_tokenizer(folder))


def _lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (golden("minimind") / name).read_text(encoding="utf-8").splitlines()]


def _messages(turns: list[dict[str, Any]]) -> tuple[list[Message], list[Any]]:
    """Messages and tools."""
    messages = [
        Message(t["role"], t["content"], t.get("reasoning_content"), json.loads(t.get("tool_calls", "[]")))
        for t in turns
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
    chances = minimind.draws(seed)
    for number, record in enumerate(_lines("sft.jsonl")):
        messages, tools = _messages(record["conversations"])
        expected = case["rendered"][number]
        said = expected.removeprefix("<|im_start|>system\n").partition("<|im_end|>")[0]
        messages = minimind.as_drawn(messages, tools, chances, [said] * 10)
        rendered = chat.render(messages, tools=tools)
        assert chat.text(rendered) == expected
        ids, mask = _row(chat, rendered, length)
        assert ids == rows["input_ids"][number].tolist()
        assert np.where(mask, ids, -100).tolist() == rows["labels"][number].tolist()


@pytest.mark.parametrize("name", ["dpo_T40_seed0", "dpo_T40_seed3", "dpo_T64_seed0", "dpo_T64_seed3"])
def test_every_pair_of_its_preferences(chat: Chat, name: str) -> None:
    case = json.loads((golden("minimind") / "dpo_cases.json").read_bytes())[name]
    rows = np.load(golden("minimind") / case["npz"])
    chances = minimind.draws(case["python_random_seed"])
    for number, record in enumerate(_lines("dpo.jsonl")):
        for side in ("chosen", "rejected"):
            messages = minimind.as_drawn(_messages(record[side])[0], (), chances, ())
            ids, mask = _row(chat, chat.render(messages), case["max_length"])
            assert ids[:-1] == rows[f"x_{side}"][number].tolist()
            assert ids[1:] == rows[f"y_{side}"][number].tolist()
            assert mask[1:] == rows[f"mask_{side}"][number].tolist()


def test_the_prompt_is_that_of_its_template(chat: Chat) -> None:
    rendered = chat.render([Message("user", "hi")], generate=True)
    assert chat.text(rendered) == f"<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n{EMPTY}"
    ids = chat.encode([rendered]).ids.tolist()
    assert ids[ids.index(1, 1) :][:6] == [1, 1388, 570, 811, 234, 25]


def test_its_own_template_writes_what_ours_writes(chat: Chat, folder: Path) -> None:
    own = load_chat(folder, chat.tokenizer, variables={"open_thinking": True})
    for record in [*_lines("sft.jsonl"), *({"conversations": row["chosen"]} for row in _lines("dpo.jsonl"))]:
        messages, tools = _messages(record["conversations"])
        messages = [replace(m, reasoning=m.reasoning or "") if m.role == "assistant" else m for m in messages]
        rendered = [one.render(messages, tools=tools) for one in (own, chat)]
        assert own.text(rendered[0]) == chat.text(rendered[1])
        found, expected = (one.encode([pieces]) for one, pieces in zip((own, chat), rendered, strict=True))
        assert found.ids.tolist() == expected.ids.tolist()
        assert found.loss_mask is not None
        assert expected.loss_mask is not None
        # the mark of reasoning stands in what opens a turn there, and a turn ends with its stop token
        beside = expected.loss_mask & ~found.loss_mask
        assert set(chat.tokenizer.decode(expected.ids[beside]).split()) <= {"<think>"}
        assert not (found.loss_mask & ~expected.loss_mask).any()


def test_its_own_template_without_reasoning_is_refused(chat: Chat, folder: Path) -> None:
    """A turn would be opened by an empty block of reasoning, and have another in it."""
    with pytest.raises(InputError, match=r"expected what opens a turn, \'<\|im_start\|>assistant"):
        load_chat(folder, chat.tokenizer).render([Message("user", "a"), Message("assistant", "b", "why")])
