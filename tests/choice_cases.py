"""Multiple-choice examples for tests; what a loader and a scorer do with them, one by one in plain lists."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tokenriver.choicedata import ChoiceExamples

Example = tuple[list[int], list[list[int]], int]
"""Ids of the context and of the choices, and which is right."""

LLMC_SHA256 = "92690a3f2f66f30fecd82015bc567e13726b085e4d10b4921815e770bd9989ea"
"""Of the file that llm.c's own writer makes of HELLASWAG."""
HELLASWAG: list[dict[str, Any]] = [
    {
        "ctx": "The baker opened the oven and",
        "endings": [
            "took out a tray of warm bread.",
            "painted the ceiling with a violin.",
            "swam to the other side of the lake.",
            "asked the moon for a loan.",
        ],
        "label": 0,
    },
    {
        "ctx": "A child is holding a kite on a windy beach. The child",
        "endings": [
            "reads the tax code aloud.",
            "runs forward and lets the kite rise into the air.",
            "turns into a teapot.",
            "sleeps.",
        ],
        "label": 1,
    },
    {
        "ctx": "To fix a flat tyre you first",
        "endings": [
            "sing to the wheel.",
            "eat the rubber.",
            "remove the wheel from the bicycle and find the hole.",
            "sell the bicycle for two coins and a map of an unknown island far away.",
        ],
        "label": 2,
    },
    {
        "ctx": "Water boils",
        "endings": [
            "at one hundred degrees Celsius at sea level.",
            "when it is bored.",
            "never.",
            "on Tuesdays only, by law.",
        ],
        "label": 0,
    },
    {
        "ctx": "The café's naïve owner said:",
        "endings": ["“Ça va?” 你好", "nothing", "goodbye now", "12345 67890"],
        "label": 3,
    },
    {"ctx": "x", "endings": ["y", "z", "w", "v"], "label": 2},
    {
        "ctx": "Nine ladders leaned against the old stone wall of the library while the rain",
        "endings": [
            "fell softly on the roof.",
            "became a librarian and sorted the cards.",
            "was sold.",
            "counted to ten in three languages before breakfast, then again after it.",
        ],
        "label": 0,
    },
]
MMLU: dict[str, Any] = {"question": "2 + 2?", "choices": ["3", "four", "5", "22"], "answer": 1}


def write_lines(path: Path, rows: Sequence[Any]) -> Path:
    """JSON lines; a row that is bytes is written as it is."""
    lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def made(examples: Sequence[Example], **columns: object) -> ChoiceExamples:
    """Examples from lists of ids; each choice has as many bytes as three times its ids, and one more for its number."""
    pieces = [piece for context, choices, _ in examples for piece in (context, *choices)]
    sizes = [3 * len(choice) + at for _, choices, _ in examples for at, choice in enumerate(choices)]
    given: dict[str, Any] = {
        "labels": np.array([label for *_, label in examples], np.int64),
        "choice_ends": np.cumsum([len(choices) for _, choices, _ in examples], dtype=np.int64),
        "piece_ends": np.cumsum([len(piece) for piece in pieces], dtype=np.int64),
        "ids": np.array([number for piece in pieces for number in piece], np.uint32),
        "records": np.arange(len(examples)),
        "sources": np.zeros(len(examples), np.int32),
        "choice_bytes": np.array(sizes, np.int64),
    }
    return ChoiceExamples(**{**given, **columns})


def as_lists(examples: ChoiceExamples) -> list[Example]:
    out: list[Example] = []
    for number in range(len(examples)):
        context, *choices = (piece.tolist() for piece in examples.pieces(number))
        out.append((context, choices, int(examples.labels[number])))
    return out


def drawn(max_choices: int = 5, max_id: int = 2**32 - 1, least_choices: int = 2) -> st.SearchStrategy[list[Example]]:
    """A few short examples."""
    piece = st.lists(st.integers(0, max_id), min_size=1, max_size=7)
    choices = st.lists(piece, min_size=least_choices, max_size=max_choices)
    one = choices.flatmap(lambda some: st.tuples(piece, st.just(some), st.integers(0, len(some) - 1)))
    return st.lists(one, min_size=1, max_size=12)


def naive_row(example: Example, choice: int, seq_len: int) -> tuple[list[int], list[int], int] | None:
    """(inputs, targets, context ids cut) of one line of the native layout; None if the example does not fit."""
    context, choices, _ = example
    room = seq_len + 1 - max(map(len, choices))
    if room < 1:
        return None
    kept = context[-room:]
    ids = kept + choices[choice]
    inputs, targets = ids[:-1], [-100] * (len(kept) - 1) + choices[choice]
    rest = seq_len - len(inputs)
    return inputs + [0] * rest, targets + [-100] * rest, len(context) - len(kept)


def naive_pick(losses: list[list[float]], weigh: Callable[[int, list[float]], float]) -> int:
    """The first choice with the smallest weight."""
    weights = [weigh(choice, some) for choice, some in enumerate(losses)]
    return weights.index(min(weights))
