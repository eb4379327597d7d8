"""Conversations of four turns of about 200 ids to ids and masks, beside transformers' apply_chat_template if installed.

python -m benchmarks.chat FOLDER COUNT     one run: seconds, ids and bytes of each way, as JSON
"""

import importlib
import importlib.util
import json
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import tokenriver
from benchmarks import measure
from benchmarks.build import Place
from benchmarks.measure import MB, Figure, at_least, python
from tokenriver.chat import Chat, load_chat
from tokenriver.messages import Message
from tokenriver.tokenizer import load_tokenizer

COUNT, TURNS, WORDS = 4000, 4, 78
BATCH = 500
SPECIAL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
_HEAD, _FOOT = "{{ '<|im_start|>' + m.role + '\n' }}", "{{ '\n' }}"
PLAIN = f"{{% for m in messages %}}{_HEAD}{{{{ m.content + '<|im_end|>' }}}}{_FOOT}{{% endfor %}}"
_TURN = "{{ m.content + '<|im_end|>' }}"
_ANSWER = f"{{% generation %}}{_TURN}{{% endgeneration %}}"
BLOCKS = (
    f"{{% for m in messages %}}{_HEAD}{{% if m.role == 'assistant' %}}{_ANSWER}{{% else %}}{_TURN}{{% endif %}}{_FOOT}"
    "{% endfor %}"
)
OPENING = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
TEMPLATES = {"blocks": BLOCKS + OPENING, "prefixes": PLAIN + OPENING}


def run(place: Place) -> list[Figure]:
    """Our templates, a model's own, transformers."""
    folder = _prepare(place.work / "chat")
    runs = [measure.answer(python("-m", "benchmarks.chat", folder, COUNT)) for _ in range(place.rounds)]
    middle = {name: measure.median([one["seconds"][name] for one in runs]) for name in runs[0]["seconds"]}
    size = runs[0]["bytes"] / MB
    turns = f"{runs[0]['ids'] / COUNT / TURNS:.0f} ids a turn"
    figures = [at_least(f"chatml, {turns}: MB/s of one core", size / middle["chatml"], 25, data=runs)]
    for name in ("chatml", *TEMPLATES):
        share = middle[f"{name}, rendering"] / middle[name]
        figures.append(Figure(f"{name}: MB/s of one core", f"{size / middle[name]:.1f}, {share:.0%} of it rendering"))
    for name in TEMPLATES:
        if f"{name}, transformers" in middle:
            theirs = middle[f"{name}, transformers"]
            figures.append(at_least(f"{name}: x transformers", theirs / middle[name], 2))
    return figures


def _prepare(folder: Path) -> Path:
    """A tokenizer trained on such text, and a folder for each template."""
    if not (folder / "tokenizer.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "text.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in _texts(2000, 1)))
        tokenriver.train_tokenizer(folder / "text.jsonl", folder / "tokenizer.json", vocab_size=8000, special=SPECIAL)
    for name, template in TEMPLATES.items():
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "chat_template.jinja").write_text(template)
    return folder


def _texts(count: int, seed: int) -> list[str]:
    """Texts of made-up words, few of them often and many seldom."""
    draw = random.Random(seed)
    words = ["".join(draw.choices("etaoinshrdlucmfwyp", k=draw.randint(1, 9))) for _ in range(20_000)]
    return [" ".join(words[int(20_000 * draw.random() ** 4)] for _ in range(WORDS)) + "." for _ in range(count)]


def _measure(folder: Path, count: int) -> dict[str, object]:
    texts = _texts(count * TURNS, 2)
    roles = ("user", "assistant")
    talks = [[Message(roles[i % 2], texts[n + i]) for i in range(TURNS)] for n in range(0, len(texts), TURNS)]
    tokenizer = load_tokenizer(folder / "tokenizer.json")
    chats = {"chatml": load_chat("chatml", tokenizer)} | {
        name: load_chat(folder / name, tokenizer) for name in TEMPLATES
    }
    seconds: dict[str, float] = {}
    ids = 0
    for name, chat in chats.items():
        _ours(chat, talks[: count // 10])
        seconds[f"{name}, rendering"], seconds[name], ids = _ours(chat, talks)
    if importlib.util.find_spec("transformers"):
        few = talks[: count // 10]
        seconds |= {name: taken * len(talks) / len(few) for name, taken in _theirs(folder, few).items()}
    return {"seconds": seconds, "ids": ids, "bytes": sum(map(len, texts))}


def _ours(chat: Chat, talks: Sequence[Sequence[Message]]) -> tuple[float, float, int]:
    """CPU seconds of rendering, and of all; how many ids."""
    begin, rendering, ids = time.process_time(), 0.0, 0
    for place in range(0, len(talks), BATCH):
        start = time.process_time()
        rendered = [chat.render(talk) for talk in talks[place : place + BATCH]]
        rendering += time.process_time() - start
        ids += len(chat.encode(rendered).ids)
    return rendering, time.process_time() - begin, ids


def _theirs(folder: Path, talks: Sequence[Sequence[Message]]) -> dict[str, float]:
    """CPU seconds of transformers: with its mask where the template has blocks, else the ids alone."""
    library = importlib.import_module("transformers")
    tokenizer = library.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    given = [[{"role": message.role, "content": message.content} for message in talk] for talk in talks]
    seconds = {}
    for name, template in TEMPLATES.items():
        options = {"chat_template": template, "tokenize": True, "return_dict": True}
        options |= {"return_assistant_tokens_mask": True} if name == "blocks" else {}
        call: Callable[..., object] = tokenizer.apply_chat_template
        call(given[0], **options)
        start = time.process_time()
        for talk in given:
            call(talk, **options)
        seconds[f"{name}, transformers"] = time.process_time() - start
    return seconds


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    print(json.dumps(_measure(Path(sys.argv[1]), int(sys.argv[2]))))
