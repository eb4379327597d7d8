"""A record of fine-tuning data -> one conversation, by its shape: which fields it has.

The exact wording of the instruction shapes is that of the HDF5 project: parts are stripped, an input that is not blank
follows the instruction behind a blank line, and a worked answer becomes `<think>..</think><answer>..</answer>`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from tokenriver.errors import InputError
from tokenriver.examples._messages import Refused, messages_of, optional_text, talks_of, text, tools_of
from tokenriver.forms import Talks
from tokenriver.messages import Message
from tokenriver.types import Json

__all__ = ["AUTO", "SHAPES", "Conversation", "Reader", "Refused"]

AUTO = "auto"
_CALCULATION = re.compile(r"<<.*?>>", re.DOTALL)
_BESIDE = frozenset({"system", "tools"})
"""Fields of a record that are rendered beside its messages."""
_KEPT = 1 << 10
"""Sets of fields whose shape is remembered."""


class Conversation(NamedTuple):
    """What a record says."""

    messages: list[Message]
    tools: Sequence[Json] = ()
    notes: Sequence[str] = ()
    """What was left out of it, by reason."""


class Shape(NamedTuple):
    """The fields that tell it, and how it is read."""

    fields: frozenset[str]
    read: Callable[[Json], Conversation]
    listed: str = ""
    """The field that holds a list of messages, and all that is said by a record of none but the shape's fields."""


def _listed(name: str) -> Callable[[Json], Conversation]:
    def read(record: Json) -> Conversation:
        notes: list[str] = []
        messages = messages_of(record.get(name), notes.append)
        if "system" in record and (system := optional_text(record, "system").strip()):
            messages.insert(0, Message("system", system))
        tools = record.get("tools") or record[name][0].get("tools")
        return Conversation(messages, tools_of(tools) if tools else (), notes)

    return read


def _instruction(question: str, more: str, answer: str) -> Callable[[Json], Conversation]:
    def read(record: Json) -> Conversation:
        if record.get("history"):
            raise Refused("unknown-field", "history")
        asked, extra = text(record, question).strip(), optional_text(record, more).strip()
        talk = [Message("user", f"{asked}\n\n{extra}" if extra else asked)]
        system = optional_text(record, "system").strip()
        if system:
            talk.insert(0, Message("system", system))
        return Conversation([*talk, Message("assistant", text(record, answer).strip())])

    return read


def _worked(record: Json) -> Conversation:
    """A question of GSM8K: calculations in angle brackets go, what is behind #### is the answer."""
    whole = _CALCULATION.sub("", text(record, "answer"))
    reasoning, mark, final = whole.rpartition("####")
    if not mark:
        reasoning = final = whole
    answer = f"<think>{reasoning.strip()}</think><answer>{final.strip()}</answer>"
    return Conversation([Message("user", text(record, "question").strip()), Message("assistant", answer)])


def _completion(answer: str) -> Callable[[Json], Conversation]:
    def read(record: Json) -> Conversation:
        return Conversation([Message("user", text(record, "prompt")), Message("assistant", text(record, answer))])

    return read


SHAPES: Mapping[str, Shape] = {
    "messages": Shape(frozenset({"messages"}), _listed("messages"), "messages"),
    "conversations": Shape(frozenset({"conversations"}), _listed("conversations"), "conversations"),
    "alpaca": Shape(frozenset({"instruction", "output"}), _instruction("instruction", "input", "output")),
    "dolly": Shape(frozenset({"instruction", "response"}), _instruction("instruction", "context", "response")),
    "gsm8k": Shape(frozenset({"question", "answer"}), _worked),
    "prompt-completion": Shape(frozenset({"prompt", "completion"}), _completion("completion")),
    "prompt-response": Shape(frozenset({"prompt", "response"}), _completion("response")),
}


@dataclass(slots=True)
class Reader:
    """Reads the records of one input, all of one shape: the one given, or that of the first record."""

    where: str
    shape: str = AUTO
    _looks: bool = field(init=False)
    _known: dict[tuple[str, ...], str] = field(default_factory=dict)
    _bare: dict[tuple[str, ...], bool] = field(default_factory=dict)
    """Is a record of these fields messages and nothing else that is rendered?"""

    def __post_init__(self) -> None:
        if self.shape not in (AUTO, *SHAPES):
            raise InputError(f"shape: got {self.shape!r}, expected one of {AUTO}, {', '.join(SHAPES)}; choose one")
        self._looks = self.shape == AUTO

    def read(self, record: Json) -> Conversation:
        """The conversation of a record. Refused for one that has none, InputError where shapes are mixed, or cannot be
        told apart."""
        if self._looks:
            self._look(record)
        return SHAPES[self.shape].read(record)

    def talks(self, records: Sequence[object]) -> Talks | None:
        """What `read` gives for records of the same fields whose messages have a role and a content each and nothing
        else, sooner; None if any is another, and as long as the shape is not known."""
        listed = SHAPES[self.shape].listed if self.shape != AUTO else ""
        if not listed or set(map(type, records)) != {dict}:
            return None
        rows = cast(Sequence[Json], records)
        first, *others = set(map(tuple, rows))
        if others:
            return None
        bare = self._bare.get(first)
        if bare is None:
            bare = self._is_bare(first)
            if len(self._bare) < _KEPT:
                self._bare[first] = bare
        return talks_of([row[listed] for row in rows]) if bare else None

    def _is_bare(self, names: Sequence[str]) -> bool:
        fits = SHAPES[self.shape].fields <= set(names) and _BESIDE.isdisjoint(names)
        return fits and (not self._looks or self._told(names) == self.shape)

    def _look(self, record: Json) -> None:
        names = tuple(record)
        found = self._known.get(names)
        if found is None:
            found = self._told(names)
            if len(self._known) < _KEPT:
                self._known[names] = found
        if self.shape == AUTO and found:
            self.shape = found
        if not found and self.shape == AUTO:
            raise InputError(f"{self._got(names)}, expected those of one shape ({_all()}); choose with --shape")
        if not found:
            missing = sorted(SHAPES[self.shape].fields - record.keys())
            raise Refused("field-missing", ", ".join(missing))
        if found != self.shape:
            raise InputError(
                f"{self._got(names)} of shape {found} among records of shape {self.shape}, expected one; "
                "choose with --shape, or put them in files of their own"
            )

    def _told(self, names: Sequence[str]) -> str:
        found = [name for name, shape in SHAPES.items() if shape.fields <= set(names)]
        if len(found) > 1:
            raise InputError(f"{self._got(names)} of the shapes {' and '.join(found)}, expected one; give --shape")
        return found[0] if found else ""

    def _got(self, names: Sequence[str]) -> str:
        return f"{self.where}: record: got the keys {', '.join(sorted(names))[:300] or 'none'}"


def _all() -> str:
    return "; ".join(f"{name}: {', '.join(sorted(shape.fields))}" for name, shape in SHAPES.items())
