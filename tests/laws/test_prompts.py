"""Each prompt is served once, whole or cut as asked, with its own gold answer, whatever stops, resumes and changes of
world size lie in between."""

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_order
import tokenriver as tr
from chat_cases import HOSTILE, content, toy_file, toy_tokenizer
from chat_templates import CHATML, model
from tokenriver.chat import load_chat
from tokenriver.errors import InputError, LimitError, MismatchError
from tokenriver.messages import Message
from tokenriver.promptloader import PromptBatch, PromptLoader
from tokenriver.prompts import Asking

CHAT = tr.load_chat("plain", tr.load_tokenizer("byte"))
PROMPTS = [("a" * (3 * n % 7 + 1) + f"\u00e9{n % 4}", n / 2) for n in range(13)]
"""Some are the same, with other gold answers."""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("prompts") / "p.jsonl", PROMPTS)


def write(path: Path, prompts: list[tuple[str, float]]) -> Path:
    path.write_text("".join(json.dumps({"prompt": text, "gold": gold}) + "\n" for text, gold in prompts))
    return path


def rendered(text: str) -> list[int]:
    return [*f"<|user|>\n{text}".encode(), 256, *b"<|assistant|>\n"]


def part(text: str, max_length: int | None, too_long: str) -> str:
    """What is served of a text; empty if nothing is."""
    parts = (
        [text]
        if too_long == "drop"
        else [text[n:] if too_long == "cut_left" else text[: -n or None] for n in range(len(text))]
    )
    return next((one for one in parts if len(rendered(one)) <= (max_length or 99)), "")


def shows(batch: PromptBatch, pad_id: int, texts: list[str]) -> list[int]:
    """The prompts of a batch, each as it should be; filler is empty."""
    width = batch.input_ids.shape[1]
    for place, number in enumerate(batch.sample_ids.tolist()):
        text, gold = (texts[number], PROMPTS[number][1]) if number >= 0 else ("", math.nan)
        ids = rendered(text) if number >= 0 else []
        gap = width - len(ids)
        assert batch.lengths[place] == len(ids)
        assert batch.input_ids[place].tolist() == [*[pad_id] * gap, *ids]
        assert batch.attention_mask[place].tolist() == [*[False] * gap, *[True] * len(ids)]
        assert batch.rows[place].tolist() == ids
        assert batch.prompts[place] == text
        assert np.array_equal(batch.gold[place], gold, equal_nan=True)
    assert width == max(1, batch.lengths.max())
    return [number for number in batch.sample_ids.tolist() if number >= 0]


def balance(texts: list[str]) -> dict[str, int]:
    """What becomes of the prompts when these are served of them."""
    lost = [len(rendered(whole)) - len(rendered(text)) for (whole, _), text in zip(PROMPTS, texts, strict=True) if text]
    counts = {"prompts": len(PROMPTS), "served": len(lost), "too-long": len(PROMPTS) - len(lost)}
    return {**counts, "prompts_cut": sum(map(bool, lost)), "ids_cut": sum(lost)}


@pytest.mark.parametrize("history", range(25))
def test_every_prompt_comes_once(path: Path, history: int) -> None:
    dice = random.Random(history)
    max_length, seed, epochs = dice.choice((None, 30, 33)), dice.randrange(3), dice.choice((1, 2))
    too_long = dice.choice(("drop", "cut_left", "cut_right"))
    texts = [part(text, max_length, too_long) for text, _ in PROMPTS]
    kept = [n for n, text in enumerate(texts) if text]
    seen: list[int] = []
    text, left = "", True
    while left:
        global_batch, world_size = dice.randint(1, len(kept)), dice.choice((1, 2, 3))
        loaders = [
            PromptLoader(
                path,
                CHAT,
                global_batch=global_batch,
                micro_batch=dice.choice((None, 1, 3)) if world_size == 1 else 2,
                max_length=max_length,
                too_long=too_long,
                seed=seed,
                rank=rank,
                world_size=world_size,
                epochs=epochs,
                prefetch=history % 3,
            )
            for rank in range(world_size)
        ]
        for loader in loaders:
            assert loader.dropped == len(PROMPTS) - len(kept)
            assert loader.balance == balance(texts)
            if text:
                loader.load_state_dict(json.loads(text))
        streams = [iter(loader) for loader in loaders]
        for _ in range(dice.randint(1, 3)):
            states = set()
            for stream in streams:
                batches = [batch for _, batch in zip(range(loaders[0].micros_per_step), stream, strict=False)]
                seen += [number for batch in batches for number in shows(batch, 256, texts)]
                states |= {json.dumps(batch.state) for batch in batches[-1:]}
            if not states:
                left = False
                break
            (text,) = states
            assert len(text) < 256
    assert seen == [kept[naive_order.row(g, len(kept), seed)] for g in range(epochs * len(kept))]


def test_templates_open_the_answer_and_a_system_may_speak_first(path: Path) -> None:
    tokenizer = toy_tokenizer()
    loader = PromptLoader(
        path, tr.load_chat("chatml", tokenizer), global_batch=2, system="Say <|im_end|>", order="sequential", pad_id=0
    )
    batch = loader.batch(0)
    expected = (
        "<|im_start|>system\nSay <|im_end|><|im_end|>\n<|im_start|>user\na\u00e90<|im_end|>\n<|im_start|>assistant\n"
    )
    assert tokenizer.decode(batch.rows[0]) == expected
    # what spells a token is text: three turns open, two of them close
    known: dict[str, int] = getattr(tokenizer, "special_ids", {})
    opening, closing = known["<|im_start|>"], known["<|im_end|>"]
    assert batch.rows[0].tolist().count(opening) == 3
    assert batch.rows[0].tolist().count(closing) == 2
    assert loader.batch(1).step == 1


def test_a_state_knows_file_template_and_length(path: Path, tmp_path: Path) -> None:
    state = PromptLoader(path, CHAT, global_batch=2).state_dict()
    other = write(tmp_path / "q.jsonl", [*PROMPTS[:-1], ("x", 1.0)])
    others: list[tuple[str, dict[str, Any]]] = [
        ("corpus", {"path": other}),
        ("corpus", {"system": ""}),
        ("corpus", {"chat": tr.load_chat("plain", tr.load_tokenizer("gpt2"))}),
        ("packing", {"max_length": 40}),
        ("packing", {"too_long": "cut_left"}),
        ("seed", {"seed": 2}),
        ("order", {"order": "sequential"}),
    ]
    for part, options in others:
        given: dict[str, Any] = {"path": path, "chat": CHAT, "global_batch": 2, **options}
        with pytest.raises(MismatchError, match=f"state: {part}"):
            PromptLoader(**given).load_state_dict(state)
    PromptLoader(path, CHAT, global_batch=7, micro_batch=2, rank=1, world_size=3).load_state_dict(state)


def test_too_long_prompts_may_be_refused(path: Path) -> None:
    assert PromptLoader(path, CHAT, global_batch=1, max_length=34, too_long="fail").num_prompts == len(PROMPTS)
    with pytest.raises(LimitError, match=r"prompt 2: got 34 ids, expected at most 33"):
        PromptLoader(path, CHAT, global_batch=1, max_length=33, too_long="fail")
    with pytest.raises(LimitError, match=r"max_length: got 10, which no prompt"):
        PromptLoader(path, CHAT, global_batch=1, max_length=10)
    with pytest.raises(InputError, match="max_length: got 0, expected at least 1"):
        PromptLoader(path, CHAT, global_batch=1, max_length=0)
    with pytest.raises(InputError, match="too_long: got 'cut'"):
        PromptLoader(path, CHAT, global_batch=1, too_long="cut")
    with pytest.raises(LimitError, match="global_batch: got 14, expected 1 to 13, the samples of one epoch"):
        PromptLoader(path, CHAT, global_batch=14)


TOY = toy_tokenizer()
CHATS = [load_chat(name, TOY) for name in ("chatml", "llama3")]
CHATS.append(load_chat(model(toy_file().parent / "prompts-plus", CHATML["plus"]), TOY))


@pytest.mark.parametrize("chat", CHATS, ids=lambda chat: chat.name)
@settings(max_examples=4, deadline=None)
@given(draw=st.integers(0, 2**32).map(random.Random), left=st.booleans())
def test_a_cut_takes_as_little_as_it_must(chat: tr.Chat, draw: random.Random, left: bool) -> None:
    asking = Asking(chat, "Be <|im_end|>brief", draw.randint(15, 50), "cut_left" if left else "cut_right")
    texts = [f"{content(draw, HOSTILE)}a{content(draw, HOSTILE)}" for _ in range(4)]
    texts = [text for text in texts if asking.encode([text]).lengths > asking.most]
    for text, kept in zip(texts, asking.shorten(texts), strict=True):
        parts = [text[len(text) - size :] if left else text[:size] for size in range(len(text) + 1)]
        fits = [not part.strip() or bool(asking.encode([part]).lengths <= asking.most) for part in parts]
        # one character more would be too long
        ends = [part for part, here, more in zip(parts, fits, fits[1:], strict=False) if here and not more]
        assert kept in (ends if kept else [part for part in ends if not part.strip()] and [""])


def test_a_cut_leaves_the_frame_and_the_gold_answer(tmp_path: Path) -> None:
    prompts = [("one two three four", 1.0), ("\u4e2d\u6587" * 9, 2.0), ("   x" + " " * 40, 3.0), ("five", 4.0)]
    path, chat = write(tmp_path / "p.jsonl", prompts), load_chat("chatml", TOY)
    frame = "<|im_start|>system\nBe brief<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
    size = len(chat.encode([chat.render([Message("system", "Be brief"), Message("user", "five")], generate=True)]).ids)
    expected = {
        "cut_left": ["four", "\u6587", "", "five"],
        "cut_right": ["one t", "\u4e2d", "   x  ", "five"],
    }
    for rule, texts in expected.items():
        loader = PromptLoader(
            path, chat, global_batch=1, max_length=size, too_long=rule, system="Be brief", order="sequential"
        )
        batches = list(loader)
        assert [batch.prompts[0] for batch in batches] == [text for text in texts if text]
        assert [TOY.decode(batch.rows[0]) for batch in batches] == [frame.format(text) for text in texts if text]
        golds = [gold for text, (_, gold) in zip(texts, prompts, strict=True) if text]
        assert [batch.gold[0] for batch in batches] == golds
        assert [batch.sample_ids[0] for batch in batches] == [gold - 1 for gold in golds]
        assert loader.balance["too-long"] == loader.dropped == texts.count("")
        assert loader.balance["prompts_cut"] == len(golds) - 1


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ('{"prompt": "a"}', "line 2: got no prompt with a gold number"),
        ('{"prompt": 1, "gold": 2}', "line 2: got no prompt"),
        ('{"prompt": "a", "gold": true}', "line 2: got no prompt"),
        ('{"prompt": "a", "gold": "1"}', "line 2: got no prompt"),
        ("[1]", "line 2: got not-an-object"),
        ('{"prompt": "a", "gold": 1', "line 2: got not-json"),
    ],
)
def test_a_row_that_is_no_prompt_is_refused(row: str, named: str, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"prompt": "a", "gold": 1.0}\n' + row + "\n")
    with pytest.raises(InputError, match=named):
        PromptLoader(tmp_path / "p.jsonl", CHAT, global_batch=1)
