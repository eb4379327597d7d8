"""The documents of a unit on their way through its filters, as columns; what is dropped is counted by reason."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from tokenriver.filterrules import FilterRule
from tokenriver.types import Bools, Ids, Int64

NO_IDS = "no-ids"


@dataclass(frozen=True, slots=True)
class Group:
    """Some documents of a unit: k texts, and (k,) the record and the piece of each."""

    texts: list[bytes]
    records: Int64
    pieces: Int64

    def where(self, keep: Bools) -> "Group":
        return Group(list(compress(self.texts, keep.tolist())), self.records[keep], self.pieces[keep])


class Sieve:
    """Asks the rules in their order, those about texts first; the first rule that drops a document counts it."""

    def __init__(self, rules: Sequence[FilterRule]) -> None:
        self._texts = [(rule.reason, rule.keep_texts) for rule in rules if rule.keep_texts is not None]
        self._lengths = [(rule.reason, rule.keep_lengths) for rule in rules if rule.keep_lengths is not None]
        self.digest = next((rule.digest for rule in rules if rule.digest is not None), None)
        self.without_ids = 0
        """Documents that have no ids, which is a note and no filter's doing."""
        self._dropped: dict[str, tuple[int, int]] = {rule.reason: (0, 0) for rule in rules}

    @property
    def dropped(self) -> dict[str, tuple[int, int]]:
        """(documents, ids) that each rule dropped, rules that dropped none left out; ids of what was encoded."""
        return {reason: counts for reason, counts in sorted(self._dropped.items()) if counts[0]}

    def by_text(self, group: Group) -> Group:
        """The documents whose texts stay."""
        for reason, keep_texts in self._texts:
            if not group.texts:
                break
            keep = keep_texts(group.texts)
            if not keep.all():
                self._count(reason, int(np.count_nonzero(~keep)), 0)
                group = group.where(keep)
        return group

    def by_length(self, group: Group, ids: Ids, lengths: Int64) -> tuple[Group, Ids, Int64]:
        """The documents whose ids stay. Without framing a text may have no ids at all (a tokenizer that strips
        spaces): it is no document."""
        keep = lengths > 0
        self.without_ids += int(np.count_nonzero(~keep))
        for reason, keep_lengths in self._lengths:
            gone = keep & ~keep_lengths(lengths)
            if gone.any():
                self._count(reason, int(np.count_nonzero(gone)), int(lengths[gone].sum()))
                keep &= ~gone
        if keep.all():
            return group, ids, lengths
        return group.where(keep), ids[np.repeat(keep, lengths)], lengths[keep]

    def _count(self, reason: str, documents: int, ids: int) -> None:
        before = self._dropped[reason]
        self._dropped[reason] = (before[0] + documents, before[1] + ids)
