"""Small questions with one right answer, as the three kinds of data that follow pretraining, and what is built of them.

No question is in two places: what is judged was never trained on.
"""

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path

import numpy as np

from tokenriver import (
    Chat,
    ChoiceExamples,
    Corpus,
    Message,
    build_choices,
    load_chat,
    load_tokenizer,
    open_choices,
    open_corpus,
    preference,
    sft,
)

TOKENIZER, TEMPLATE = "byte", "plain"
CHOICES, JUDGED, PAIRS = 150, 100, 300
"""Questions for the evaluation, for judging preferences, and for training on them; the rest is for fine-tuning."""
VAL_FRACTION = 0.1
SEED = 1
WORDS = ("smallest", "middle", "largest")


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and three answers of which one is right."""

    text: str
    right: str
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Data:
    """What is trained on and judged by."""

    answers: Corpus
    """Conversations with a loss mask: the answers are trained."""
    held_out: Corpus
    """More of them, which are not trained on."""
    pairs: Corpus
    """A chosen and a rejected answer to each question."""
    judged: Corpus
    """More of them, which are not trained on."""
    choices: ChoiceExamples
    """Multiple choice, asked as the conversations are."""
    chat: Chat


def questions() -> list[Question]:
    """All questions, in an order that is always the same."""
    out = []
    for digits in permutations("0123456789", 3):
        shown, ranked = " ".join(digits), sorted(digits)
        out += [Question(f"{word} of {shown}?", right, digits) for word, right in zip(WORDS, ranked, strict=True)]
    random.Random(SEED).shuffle(out)
    return out


def make(folder: Path) -> Data:
    """Write the questions as files of records, build what trainers read of them, and open that. What a former call
    has built of the same questions is there already, and stays."""
    rest = questions()
    parts = []
    for size in (CHOICES, JUDGED, PAIRS):
        parts.append(rest[:size])
        rest = rest[size:]
    choices, judged, pairs = parts
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "answers.jsonl", ({"instruction": q.text, "output": q.right} for q in rest))
    sft(
        folder / "answers.jsonl",
        folder / "answers",
        template=TEMPLATE,
        tokenizer=TOKENIZER,
        val_fraction=VAL_FRACTION,
    )
    chat = load_chat(TEMPLATE, load_tokenizer(TOKENIZER))
    return Data(
        answers=open_corpus(folder / "answers"),
        held_out=open_corpus(folder / "answers", split="val"),
        pairs=_pairs(folder / "pairs", pairs),
        judged=_pairs(folder / "judged", judged),
        choices=as_chat(_choices(folder / "choices", choices), chat),
        chat=chat,
    )


def as_chat(examples: ChoiceExamples, chat: Chat) -> ChoiceExamples:
    """The same examples as a conversation has them: the context is a user's turn and what opens the answer, a choice
    is an answer with the id that ends it. A model that learnt conversations is asked in no other way."""
    end = np.array([chat.tokenizer.eos_id], np.uint32)
    pieces = []
    for number in range(len(examples)):
        context, *choices = examples.pieces(number)
        asked = [Message("user", chat.tokenizer.decode(context))]
        pieces.append(chat.encode([chat.render(asked, generate=True)]).ids)
        pieces += [np.append(choice, end) for choice in choices]
    ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
    return replace(examples, ids=np.concatenate(pieces), piece_ends=ends)


def _pairs(out: Path, asked: Sequence[Question]) -> Corpus:
    """The right answer and a wrong one to each question."""
    records = []
    for question in asked:
        wrong = question.choices[question.choices.index(question.right) - 1]
        records.append({"prompt": question.text, "chosen": question.right, "rejected": wrong})
    _write(out.with_suffix(".jsonl"), records)
    preference(out.with_suffix(".jsonl"), out, template=TEMPLATE, tokenizer=TOKENIZER)
    return open_corpus(out)


def _choices(out: Path, asked: Sequence[Question]) -> ChoiceExamples:
    records = ({"context": q.text, "choices": q.choices, "label": q.choices.index(q.right)} for q in asked)
    _write(out.with_suffix(".jsonl"), records)
    # the join is the chat's, so there is none between a context and a choice
    build_choices(out.with_suffix(".jsonl"), out.with_suffix(".choice"), tokenizer=TOKENIZER, style="plain", join="")
    return open_choices(out.with_suffix(".choice"))


def _write(path: Path, records: Iterable[object]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
