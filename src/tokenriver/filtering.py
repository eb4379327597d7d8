"""From the names of filters to rules: `length:min_chars=20,max_ids=4096` is a file of filters/ and its parameters, a
dotted name a function of the user's own.

A name comes from the call or the command line alone. What a manifest says about filters is data, and is never imported.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

from tokenriver import registry
from tokenriver.errors import FormatError, InputError
from tokenriver.filterrules import Filter, FilterRule, Parameters
from tokenriver.ownfilter import own_rule, own_version
from tokenriver.types import Bools, Int64

TOO_LONG = "max_document_tokens"
"""The reason of documents with more ids than the option of that name lets in."""
_WHOLE = re.compile(r"[+-]?[0-9]+(_[0-9]+)*")
_REAL = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.?[0-9]+)([eE][+-]?[0-9]+)?")


@dataclass(frozen=True, slots=True)
class FilterSpec:
    """One filter that was asked for."""

    name: str
    parameters: Parameters = field(default_factory=dict)
    version: str | None = None
    """Of a filter of the user's own, if it has one."""

    def as_dict(self) -> dict[str, Any]:
        """As the manifest records it."""
        data = {"name": self.name, "parameters": dict(sorted(self.parameters.items()))}
        return data if self.version is None else {**data, "version": self.version}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        return cls(data["name"], data["parameters"], data.get("version"))


@dataclass(frozen=True, slots=True)
class Filters:
    """All that decides which documents of a build stay, before they are put together."""

    specs: tuple[FilterSpec, ...] = ()
    max_document_tokens: int | None = None

    def rules(self) -> list[FilterRule]:
        """Their rules, in the order in which a document is asked about them; the first that drops it counts it."""
        out = [rule for spec in self.specs for rule in _rules(spec)]
        if self.max_document_tokens is not None:
            out.append(FilterRule(TOO_LONG, keep_lengths=partial(_at_most, self.max_document_tokens)))
        return out

    @property
    def once(self) -> str | None:
        """The reason of what is dropped because its like came before; None if nothing is."""
        return next((rule.reason for rule in self.rules() if rule.digest is not None), None)


NO_FILTERS = Filters()


def _at_most(bound: int, lengths: Int64) -> Bools:
    return lengths <= bound


def _is_own(name: str) -> bool:
    return "." in name


def _rules(spec: FilterSpec) -> Sequence[FilterRule]:
    if _is_own(spec.name):
        return [own_rule(spec.name, spec.parameters)]
    module: Filter = registry.load("filters", spec.name)
    return module.rules(spec.parameters)


def parse_filters(given: str | Iterable[str], max_document_tokens: int | None) -> Filters:
    """The filters that were named, checked; InputError for a name that is not known or parameters that cannot be
    meant."""
    specs = tuple(_parse(text) for text in ([given] if isinstance(given, str) else given))
    names = [spec.name for spec in specs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"filter: got {twice} twice, expected each once; put its parameters together")
    if max_document_tokens is not None and max_document_tokens < 1:
        raise InputError(f"{TOO_LONG}: got {max_document_tokens}, expected at least 1")
    found = Filters(specs, max_document_tokens)
    found.rules()
    return found


def recorded_rules(options: Mapping[str, Any]) -> tuple[list[FilterRule], set[str]]:
    """The rules of a manifest's options that can be asked again of a document alone, and the reasons of those that
    cannot: filters of others' making, which a file must not have imported, and what looks at all documents. FormatError
    for options of another form."""
    given, bound = options.get("filters") or [], options.get(TOO_LONG)
    if not isinstance(given, list) or not isinstance(bound, int | None):
        raise FormatError(f"options: got filters {given!r} and {TOO_LONG} {bound!r}, expected a list and a number")
    rules, others = list(Filters((), bound).rules()), set[str]()
    for entry in given:
        name, parameters = (entry.get(key) if isinstance(entry, dict) else None for key in ("name", "parameters"))
        if not isinstance(name, str) or not isinstance(parameters, dict):
            raise FormatError(f"options: filters: got {entry!r}, expected a name and parameters")
        if name in registry.names("filters"):
            found = _rules(FilterSpec(name, parameters))
            rules += [rule for rule in found if rule.digest is None]
            others |= {rule.reason for rule in found if rule.digest is not None}
        else:
            others.add(name)
    return rules, others


def _parse(text: str) -> FilterSpec:
    name, behind, rest = text.strip().partition(":")
    parameters: dict[str, int | float | str] = {}
    for pair in rest.split(",") if behind else ():
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not key.isidentifier() or key in parameters:
            raise InputError(
                f"filter: got {text!r}, expected NAME or NAME:KEY=VALUE,KEY=VALUE with each key once, as in "
                f"length:min_chars=20,max_ids=4096"
            )
        parameters[key] = _value(value)
    if _is_own(name):
        return FilterSpec(name, parameters, own_version(name))
    return FilterSpec(name.replace("_", "-"), parameters)


def _value(text: str) -> int | float | str:
    if _WHOLE.fullmatch(text):
        return int(text) if len(text) <= 18 else text
    return float(text) if _REAL.fullmatch(text) else text
