"""What a field of a stored JSON file may hold. Nothing from a file is used before its rule holds.

A rule is (what is expected, in words; a test). `type(value) is int` keeps out the booleans that Python counts as ints.
"""

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tokenriver.errors import FormatError

MAX_COUNT = 2**63 - 1
_LONGEST_NAME, _LONGEST_PATH = 255, 4096
Rule = tuple[str, Callable[[object], bool]]
Table = dict[str, Rule]


def integer(low: int, high: int) -> Rule:
    """An integer of [low, high]."""
    return f"an integer from {low} to {high}", lambda value: type(value) is int and low <= value <= high


def matching(pattern: str, expected: str) -> Rule:
    """A text that the pattern matches as a whole."""
    whole = re.compile(pattern)
    return expected, lambda value: isinstance(value, str) and whole.fullmatch(value) is not None


def or_none(rule: Rule) -> Rule:
    """What the rule allows, or null."""
    expected, holds = rule
    return f"{expected}, or null", lambda value: value is None or holds(value)


def _is_inside(value: object) -> bool:
    try:
        parts = os.fsencode(value).split(b"/") if isinstance(value, str) else [b""]
    except UnicodeEncodeError:  # half of a surrogate pair, which no file name holds
        return False
    longest = max(map(len, parts)) <= _LONGEST_NAME and sum(map(len, parts)) + len(parts) <= _LONGEST_PATH
    return longest and not any(part in (b"", b".", b"..") or b"\0" in part for part in parts)


COUNT = integer(0, MAX_COUNT)
POSITIVE = integer(1, MAX_COUNT)
LIST: Rule = ("a list", lambda value: isinstance(value, list))
OBJECT: Rule = ("an object", lambda value: isinstance(value, dict))
TEXT: Rule = ("a text of 1 to 1000 characters", lambda value: isinstance(value, str) and 0 < len(value) <= 1000)
_PLAIN = r"(?!\.)[A-Za-z0-9._-]{1,200}"
PLAIN = matching(_PLAIN, "a file name of letters, digits, `.`, `_` and `-` with no leading dot")
FILE = matching(
    f"({_PLAIN}/)?{_PLAIN}",
    "a file name of letters, digits, `.`, `_` and `-` with no leading dot, below one folder or none",
)
SHA256 = matching("[0-9a-f]{64}", "64 hex digits")
INSIDE: Rule = (f"a relative path without `.` and `..`, names of at most {_LONGEST_NAME} bytes", _is_inside)


def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """For json.loads: ValueError for an object that has a key twice."""
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("an object has a key twice")
    return result


def no_constant(name: str) -> None:
    """For json.loads: ValueError for NaN and the infinities."""
    raise ValueError(f"{name} is no number")


def check(path: Path, what: str, row: object, table: Table) -> dict[str, Any]:
    """The object with exactly the table's keys, each value by its rule; FormatError names path, field and value."""
    if not isinstance(row, dict) or row.keys() != table.keys():
        got = sorted(map(str, row)) if isinstance(row, dict) else type(row).__name__
        raise FormatError(f"{path}: {what}: got {str(got)[:200]}, expected the keys {', '.join(sorted(table))}")
    for name, (expected, holds) in table.items():
        if not holds(row[name]):
            raise FormatError(f"{path}: {what}.{name}: got {repr(row[name])[:200]}, expected {expected}")
    return row


def check_columns(path: Path, what: str, columns: object, table: Table) -> Iterable[list[Any]]:
    """The columns of a stored table in the order of `table`, equally long, each value by its rule; FormatError."""
    checked = check(path, what, columns, dict.fromkeys(table, LIST))
    lengths = {len(column) for column in checked.values()}
    if len(lengths) != 1:
        raise FormatError(f"{path}: {what}: got columns of {sorted(lengths)} entries, expected one length")
    for name, (expected, holds) in table.items():
        bad = next((at for at, value in enumerate(checked[name]) if not holds(value)), None)
        if bad is not None:
            got = repr(checked[name][bad])[:200]
            raise FormatError(f"{path}: {what}.{name}[{bad}]: got {got}, expected {expected}")
    return [checked[name] for name in table]
