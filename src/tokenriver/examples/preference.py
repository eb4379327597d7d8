r"""A comparison of two answers -> a prompt, the answer that was chosen and the one that was rejected.

Four forms, told by their content: HH-RLHF (two transcripts that end with "\n\nAssistant: ..."), UltraFeedback (a prompt
and two lists of messages), lists of messages alone, and a prompt with two texts. The rules of this library hold both
sides to one prompt and keep texts as they are, but for the white space around HH-RLHF's markers; those of the HDF5
project (`like`) take the first side's prompt, or the field's, whatever the other says, and strip everything.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from tokenriver.types import Json

MARKER = "\n\nAssistant:"
HH, ULTRAFEEDBACK, STRINGS = "hh", "ultrafeedback", "strings"
DATASETS = {"hh": (HH,), "ultrafeedback": (ULTRAFEEDBACK,), "both": (HH, ULTRAFEEDBACK)}
DATASETS["auto"] = (HH, ULTRAFEEDBACK, STRINGS)
"""Which forms a choice takes."""

NO_MARKER, NO_ANSWER = "no-marker", "no-answer"
EMPTY_PROMPT, EMPTY_ANSWER = "empty-prompt", "empty-answer"
IDENTICAL, DIFFERING, NO_TURNS = "identical-answers", "prompts-differ", "no-turns"
DROPS = (NO_MARKER, NO_ANSWER, EMPTY_PROMPT, EMPTY_ANSWER, IDENTICAL, DIFFERING, NO_TURNS)
"""Why a record that is as it should be gives no pair."""
FIELD_MISSING, NOT_A_STRING, NOT_MESSAGES = "field-missing", "not-a-string", "not-messages"
MESSAGE_FIELD, OTHER_DATASET = "message-field", "other-dataset"
FAULTS = (FIELD_MISSING, NOT_A_STRING, NOT_MESSAGES, MESSAGE_FIELD, OTHER_DATASET)

_SPEAKER = re.compile(r"\n\n(Human|Assistant):")
_ROLES = {"Human": "user", "Assistant": "assistant"}
Turns = list[dict[str, str]]


class Pair(NamedTuple):
    """Two answers to one prompt."""

    dataset: str
    prompt: str | Turns
    """The user's text, or the messages before the answer where they are more than that."""
    chosen: str
    rejected: str


class Rules(NamedTuple):
    """What is asked of records."""

    dataset: str = "auto"
    like: str = ""
    keep_differing: bool = False
    """Pairs whose sides have different prompts are kept, with the prompt of the chosen side."""
    turns: bool = False
    """The prompt of a transcript becomes messages."""


def example(record: Json, rules: Rules) -> Pair | str:
    """The pair of a record, or why it has none: one of DROPS or FAULTS."""
    if "chosen" not in record or "rejected" not in record:
        return FIELD_MISSING
    chosen, rejected = record["chosen"], record["rejected"]
    made: Pair | str = NOT_A_STRING
    if isinstance(chosen, str) and isinstance(rejected, str):
        made = _texts(record, rules) if "prompt" in record else _transcripts(chosen, rejected, rules)
    elif isinstance(chosen, list) and isinstance(rejected, list):
        made = _messages(record, rules)
    if isinstance(made, str):
        return made
    if made.dataset not in DATASETS[rules.dataset]:
        return OTHER_DATASET
    return _checked(made, bool(rules.like))


def _checked(pair: Pair, strip: bool) -> Pair | str:
    """The pair, unless a part of it is empty or both answers are the same but for white space around them."""
    prompt, chosen, rejected = pair.prompt, pair.chosen, pair.rejected
    if not prompt or (isinstance(prompt, str) and not prompt.strip()):
        return EMPTY_PROMPT
    if not chosen.strip() or not rejected.strip():
        return EMPTY_ANSWER
    if chosen.strip() == rejected.strip():
        return IDENTICAL
    if not strip:
        return pair
    prompt = prompt.strip() if isinstance(prompt, str) else prompt
    return Pair(pair.dataset, prompt, chosen.strip(), rejected.strip())


def _transcripts(chosen: str, rejected: str, rules: Rules) -> Pair | str:
    prompt, found, answer = chosen.rpartition(MARKER)
    other, also, worse = rejected.rpartition(MARKER)
    if not found or not also:
        return NO_MARKER
    prompt = prompt.strip()
    if other.strip() != prompt and not (rules.like or rules.keep_differing):
        return DIFFERING
    turns = _split(prompt) if rules.turns and prompt else prompt
    return Pair(HH, _shortest(turns), answer.strip(), worse.strip()) if turns or not prompt else NO_TURNS


def _split(prompt: str) -> Turns:
    """The messages of a transcript; none if it is not made of turns with something in each, a person's last."""
    before, *parts = _SPEAKER.split("\n\n" + prompt)
    speakers, contents = parts[::2], [content.strip() for content in parts[1::2]]
    if before.strip() or not all(contents) or speakers[-1:] != ["Human"]:
        return []
    pairs = zip(speakers, contents, strict=True)
    return [{"role": _ROLES[speaker], "content": content} for speaker, content in pairs]


def _texts(record: Json, rules: Rules) -> Pair | str:
    prompt = record["prompt"]
    if isinstance(prompt, list):
        turns = _turns(prompt)
        return turns if isinstance(turns, str) else Pair(STRINGS, turns, record["chosen"], record["rejected"])
    if not isinstance(prompt, str):
        return NOT_A_STRING
    return Pair(STRINGS, prompt, record["chosen"], record["rejected"])


def _messages(record: Json, rules: Rules) -> Pair | str:
    """The last message of each side, behind the messages before them."""
    field = record.get("prompt")
    if field is not None and not isinstance(field, str | list):
        return NOT_A_STRING
    ahead = _turns(field) if isinstance(field, list) else []
    chosen, rejected = _turns(record["chosen"]), _turns(record["rejected"])
    if isinstance(ahead, str) or isinstance(chosen, str) or isinstance(rejected, str):
        return next(fault for fault in (ahead, chosen, rejected) if isinstance(fault, str))
    if not chosen or not rejected:
        return NO_ANSWER
    if rules.like:
        return Pair(ULTRAFEEDBACK, field or "", chosen[-1]["content"], rejected[-1]["content"])
    if not chosen[-1]["role"] == rejected[-1]["role"] == "assistant":
        return NO_ANSWER
    before, other = _behind(ahead, chosen[:-1]), _behind(ahead, rejected[:-1])
    alone = isinstance(field, str) and before and before[-1] != {"role": "user", "content": field}
    if (before != other or alone) and not rules.keep_differing:
        return DIFFERING
    return Pair(ULTRAFEEDBACK, _shortest(before or field or ""), chosen[-1]["content"], rejected[-1]["content"])


def _behind(ahead: Turns, turns: Turns) -> Turns:
    """The turns of a side, which may begin with the prompt or leave it to its field."""
    return turns if turns[: len(ahead)] == ahead else [*ahead, *turns]


def _shortest(prompt: str | Turns) -> str | Turns:
    """The text of a user's only message, else the messages."""
    if isinstance(prompt, list) and len(prompt) == 1 and prompt[0]["role"] == "user":
        return prompt[0]["content"]
    return prompt


def _turns(given: Sequence[Any]) -> Turns | str:
    """Messages of role and content, or what is wrong with them; what else they may say is never left out in silence."""
    turns: Turns = []
    for message in given:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            return NOT_MESSAGES
        if not isinstance(message.get("content"), str):
            return NOT_A_STRING
        if any(value not in (None, [], {}, "") for name, value in message.items() if name not in ("role", "content")):
            return MESSAGE_FIELD
        turns.append({"role": message["role"], "content": message["content"]})
    return turns
