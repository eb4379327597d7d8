"""Control tokens by name: which a tokenizer has, and which of them begin and end a build's documents."""

from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from typing import Any, Protocol

from tokenriver.errors import InputError
from tokenriver.types import Tokenizer

USED = {"none": (), "eos-after": ("eos",), "eos-before": ("eos",), "bos-eos": ("bos", "eos")}
"""The roles that a framing puts around a document."""
_NAMED = 12


def special_tokens(tokenizer: Tokenizer) -> dict[str, int]:
    """Id by name of the tokens that no text becomes, by id; those of bos, eos and pad where a tokenizer does not list
    its own."""
    listed = getattr(tokenizer, "special_ids", None)
    if not listed:
        ids = {number for number in role_ids(tokenizer).values() if number is not None}
        listed = {tokenizer.decode([number]): number for number in ids}
    return dict(sorted(listed.items(), key=lambda row: (row[1], row[0])))


class HasRoles(Protocol):
    """A tokenizer, or what a manifest says of one."""

    @property
    def bos_id(self) -> int | None: ...
    @property
    def eos_id(self) -> int | None: ...
    @property
    def pad_id(self) -> int | None: ...


def role_ids(made_by: HasRoles) -> dict[str, int | None]:
    """Ids by role."""
    return {"bos": made_by.bos_id, "eos": made_by.eos_id, "pad": made_by.pad_id}


def padding_id(made_by: HasRoles | None, given: int | None) -> int:
    """The id that fills rows up: the given one, else the tokenizer's own, else its end of text, else 0."""
    own = () if made_by is None else (made_by.pad_id, made_by.eos_id)
    return next((number for number in (given, *own) if number is not None), 0)


def choose(tokenizer: Tokenizer, framing: str, *, bos: str | None, eos: str | None) -> Tokenizer:
    """The tokenizer with other tokens of its own as bos and eos, by name; itself where none is named. InputError for a
    name that it does not have, with the nearest, and for one that the framing has no use for."""
    changed: dict[str, int] = {}
    for role, name in (("bos", bos), ("eos", eos)):
        if name is None:
            continue
        if role not in USED.get(framing, (role,)):
            raise InputError(
                f"{role}: got {name!r} with framing {framing!r}, which puts none around documents; leave it out, or "
                "choose another framing"
            )
        number = _find(tokenizer, role, name)
        if role_ids(tokenizer)[role] != number:
            changed[f"{role}_id"] = number
    if not changed:
        return tokenizer
    if not changed.keys() <= _columns(tokenizer):
        raise InputError(f"bos, eos: got others, but those of tokenizer {tokenizer.name!r} are fixed; leave them out")
    given: Any = tokenizer
    chosen: Tokenizer = replace(given, **changed)
    return chosen


def _columns(value: object) -> set[str]:
    """Fields of a dataclass's value; none of anything else."""
    return {column.name for column in fields(value)} if is_dataclass(value) and not isinstance(value, type) else set()


def _find(tokenizer: Tokenizer, role: str, name: str) -> int:
    known = special_tokens(tokenizer)
    if name in known:
        return known[name]
    near = get_close_matches(name, known, n=3, cutoff=0.4)
    if near:
        expected = " or ".join(near)
    else:
        expected = "one of " + ", ".join(list(known)[:_NAMED]) + (", ..." if len(known) > _NAMED else "")
    if not known:
        expected = "none, since it has no control tokens"
    raise InputError(
        f"{role}: got {name!r}, which is no control token of {tokenizer.name!r}, expected {expected}; see tokenriver "
        "tokenizer show --special"
    )
