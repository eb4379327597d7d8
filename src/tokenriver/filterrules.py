"""What a filter of documents is: rules that say which of them stay."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tokenriver.types import Bools, Int64, UInt64

Parameters = Mapping[str, int | float | str]
"""What stands behind the name of a filter: `length:min_chars=20` has {"min_chars": 20}."""


@dataclass(frozen=True, slots=True)
class FilterRule:
    """Which documents of a batch stay, by their texts or by their lengths in ids, a pure function of each document; or
    which is the first of its kind in the whole build."""

    reason: str
    """Under which the balance counts what is dropped."""
    keep_texts: Callable[[list[bytes]], Bools] | None = None
    """k texts -> (k,); asked before anything is encoded."""
    keep_lengths: Callable[[Int64], Bools] | None = None
    """(k,) ids of each document, framing included -> (k,)."""
    digest: Callable[[list[bytes]], UInt64] | None = None
    """k texts -> (k, 2): of documents of one digest the first in input order stays, which is decided at the end."""


class Filter(Protocol):
    """What a module of filters/ offers."""

    def rules(self, parameters: Parameters) -> Sequence[FilterRule]:
        """The rules that the parameters ask for; InputError for parameters that cannot be meant."""
