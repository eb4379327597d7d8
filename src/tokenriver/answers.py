"""Numbers in answers: the gold one of a worked solution, the one that a completion gives, and what that earns.

Two rules read gold answers. Ours never guesses: the number behind `####`, or the only one that there is. That of the
HDF5 project takes the first number of the text where none follows a `####`, and reads `.5` as 5.
"""

import math
import re
from collections import deque
from decimal import Decimal

from tokenriver.errors import InputError

NO_NUMBER = "no-number"
SEVERAL_NUMBERS = "several-numbers"
MALFORMED_NUMBER = "malformed-number"

MARK = "####"
OPENED, CLOSED = "<answer>", "</answer>"
CORRECT, FORM = 1.0, 0.2
"""What a right number earns, and what one answer between its tags does."""

_NUMBER = r"(-?)\$?([0-9][0-9,]*(?:\.[0-9]+)?)"
_LOOSE, _LOOSE_MARKED = re.compile(_NUMBER), re.compile(MARK + r"\s*" + _NUMBER)
# commas part groups of three; nothing before or behind makes another number of it: 12,5 1/2 3:30 5-7 2^10 1e9 10 000
_WHOLE_NUMBER = (
    r"(?<![0-9])(?<![0-9][.,/:^])[$\u20ac\u00a3]?((?<![0-9A-Za-z)])[-\u2212])?[$\u20ac\u00a3]?"
    r"([0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|\.[0-9]+)"
    r"(?![0-9]|[.,][0-9]|[ \u00a0\u202f']+\.?[0-9]|[eE][-+]?[0-9]|\s*[/^:\-\u2013\u2212]\s*\.?[0-9])"
)
_STRICT, _STRICT_MARKED = re.compile(_WHOLE_NUMBER), re.compile(MARK + r"\s*" + _WHOLE_NUMBER)


def gold_answer(text: str) -> float | str:
    """The number of a worked solution, or the reason why it has none: behind the first `####` that a number follows;
    without one, the only number behind the last `####`, or of a text that has no `####`."""
    found = _STRICT_MARKED.search(text)
    if found is None:
        last = text.rpartition(MARK)[2]
        runs = sum(1 for _ in _LOOSE.finditer(last))
        if runs != 1:
            return SEVERAL_NUMBERS if runs else NO_NUMBER
        found = _STRICT.search(last)
    if found is None:
        return MALFORMED_NUMBER
    value, digits = _value(found), found[2].replace(",", "")
    return value if math.isfinite(value) and ("." in digits or Decimal(digits) == abs(value)) else MALFORMED_NUMBER


def gold_answer_of_hdf5(text: str) -> float | str:
    """The same by the rule of the HDF5 project: else the first number of the text, whatever it is."""
    found = _LOOSE_MARKED.search(text) or _LOOSE.search(text)
    return NO_NUMBER if found is None else _value(found)


def extract_number(completion: str) -> float | None:
    """The number that a completion answers with: the first between `<answer>` and `</answer>`; without one, that behind
    `####`; without one, the last of the text. None if it has none, or one that no float can hold."""
    found = _LOOSE.search(_tagged(completion) or "")
    found = found or _LOOSE_MARKED.search(completion) or _last(completion)
    value = None if found is None else _value(found)
    return value if value is not None and math.isfinite(value) else None


def reward(completion: str, gold: float, *, correct: float = CORRECT, form: float = FORM) -> float:
    """What a completion earns: `correct` if its number is `gold` (up to 1e-6, or 1e-9 of it), and `form` if it has one
    `<answer>` and behind it one `</answer>`, and no more. InputError for a gold that is no finite number."""
    if not math.isfinite(gold):
        raise InputError(f"gold: got {gold}, expected a finite number; drop the prompt")
    found = extract_number(completion)
    right = found is not None and math.isclose(found, gold, rel_tol=1e-9, abs_tol=1e-6)
    once = completion.count(OPENED) == completion.count(CLOSED) == 1 and _tagged(completion) is not None
    return correct * right + form * once


def _tagged(text: str) -> str | None:
    """What stands between the first `<answer>` and the next `</answer>`."""
    start = text.find(OPENED) + len(OPENED)
    stop = text.find(CLOSED, start)
    return text[start:stop] if start >= len(OPENED) and stop >= 0 else None


def _last(text: str) -> re.Match[str] | None:
    kept = deque(_LOOSE.finditer(text), 1)
    return kept.pop() if kept else None


def _value(found: re.Match[str]) -> float:
    return (-1.0 if found[1] else 1.0) * float(found[2].replace(",", ""))
