"""A question with its answer -> a prompt and the number that a right completion ends with.

    {"question": "...", "answer": "... #### 72"}  ->  {"prompt": "...", "gold": 72.0}

The answer is a text (see `answers`) or a number already.
"""

import math

from tokenriver.answers import MALFORMED_NUMBER, NO_NUMBER, gold_answer, gold_answer_of_hdf5
from tokenriver.types import Json

PROMPTS = ("question", "prompt", "problem")
ANSWERS = ("answer", "gold", "solution")
"""Fields that are looked for if none is named; the first that a record has is taken."""

EMPTY_PROMPT = "empty-prompt"
DROPS = (EMPTY_PROMPT, NO_NUMBER, "several-numbers", MALFORMED_NUMBER)
"""Why a record that is as it should be gives no prompt."""


def fields(record: Json, prompt: str | None, answer: str | None) -> tuple[str, str] | None:
    """The fields of a record with prompt and answer, of which those given are insisted on; None if it has not both."""
    asked = next((name for name in (PROMPTS if prompt is None else (prompt,)) if name in record), None)
    answered = next((name for name in (ANSWERS if answer is None else (answer,)) if name in record), None)
    return None if asked is None or answered is None else (asked, answered)


def example(prompt: str, answer: str | int | float, like: str) -> tuple[str, float] | str:
    """(prompt, gold), or the reason why there is none. `like`: "" or "pile-hdf5", whose rule reads the answer."""
    prompt = prompt.strip()
    if isinstance(answer, str):
        gold = gold_answer_of_hdf5(answer) if like else gold_answer(answer)
    else:
        gold = _number(answer)
    if isinstance(gold, str):
        return gold
    return (prompt, gold) if prompt or like else EMPTY_PROMPT


def _number(answer: int | float) -> float | str:
    """A number of JSON as a float, which must hold it."""
    try:
        value = float(answer)
    except OverflowError:
        return MALFORMED_NUMBER
    return value if math.isfinite(value) and value == answer else MALFORMED_NUMBER
