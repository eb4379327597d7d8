"""Law 1 of a build: every row that was read is a document, skipped by a rule, bad, or dropped by a filter; every id
that was made is in a split, beyond max_tokens, or dropped by a filter. What does not add up is an error.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tokenriver.assembly import Plan
from tokenriver.errors import RiverError
from tokenriver.parts import Receipt

SKIPPED = ("blank", "empty", "no-ids")
"""Notes of rows that gave no document and are no fault."""

Filtered = Mapping[str, tuple[int, int]]
"""(documents, ids) that filters dropped, by reason; ids are of what was encoded."""


def bad_reasons(used: Sequence[Receipt]) -> Counter[str]:
    """Bad rows by reason."""
    return Counter(reason for receipt in used for *_, reason in receipt.bad)


def rows_of(used: Sequence[Receipt]) -> int:
    """Raw rows that were read."""
    return sum(piece.rows for receipt in used for piece in receipt.pieces)


def filtered_by(used: Sequence[Receipt]) -> Filtered:
    """What filters dropped, reasons sorted."""
    out: dict[str, tuple[int, int]] = {}
    for receipt in used:
        for reason, (documents, ids) in receipt.dropped.items():
            before = out.get(reason, (0, 0))
            out[reason] = (before[0] + documents, before[1] + ids)
    return dict(sorted(out.items()))


def balance_of(used: Sequence[Receipt], plan: Plan, framing: int) -> dict[str, Any]:
    """The balance of the units that were used, as the manifest has it; `framing` is the framing ids of a document."""
    bad, filtered, notes = bad_reasons(used), filtered_by(used), _notes(used)
    kept = {s: sum(g.last - g.first for shard in shards for g in shard) for s, shards in plan.splits.items()}
    ids = {s: sum(g.stop - g.start for shard in shards for g in shard) for s, shards in plan.splits.items()}
    documents = sum(receipt.num_documents for receipt in used)
    text = sum(receipt.num_ids for receipt in used) - framing * documents
    _check(used, plan, (sum(kept.values()), sum(ids.values())), filtered)
    return {
        "bad_rows": dict(sorted(bad.items())),
        "documents": {
            "beyond_max_tokens": plan.dropped[0],
            "cut_in_two": plan.cut_documents,
            "filtered": {reason: counts[0] for reason, counts in filtered.items()},
            "kept": kept,
        },
        "ids": {
            "beyond_max_tokens": plan.dropped[1],
            "filtered": {reason: counts[1] for reason, counts in filtered.items()},
            "framing": framing * documents,
            "kept": ids,
            "text": text,
        },
        "notes": dict(sorted(notes.items())),
        "rows": rows_of(used),
        "text_bytes": sum(receipt.text_bytes for receipt in used),
    }


def _notes(used: Sequence[Receipt]) -> Counter[str]:
    notes: Counter[str] = Counter()
    for receipt in used:
        notes.update(receipt.notes)
    return notes


def _check(used: Sequence[Receipt], plan: Plan, kept: tuple[int, int], filtered: Filtered) -> None:
    """RiverError if rows, documents or ids were lost or came from nowhere; `kept` has documents and ids."""
    rows, bad, notes = rows_of(used), sum(bad_reasons(used).values()), _notes(used)
    skipped = sum(notes[reason] for reason in SKIPPED)
    documents = sum(receipt.num_documents for receipt in used)
    encoded = sum(receipt.encoded_ids for receipt in used)
    gone, gone_ids = (sum(counts[i] for counts in filtered.values()) for i in (0, 1))
    same = (
        rows == documents + gone + skipped + bad
        and documents + plan.cut_documents == kept[0] + plan.dropped[0]
        and encoded == kept[1] + plan.dropped[1] + gone_ids
    )
    if not same:
        raise RiverError(
            f"balance: {rows} rows gave {documents} documents, {gone} filtered, {skipped} skipped, {bad} bad; "
            f"{encoded} ids gave {kept[1]}, {gone_ids} filtered, {plan.dropped[1]} beyond max_tokens: these do not add "
            f"up; please report it"
        )
