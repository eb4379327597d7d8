"""The balance of a build as one table: every row that was read and every id that was made, and where it went."""

from collections.abc import Mapping
from typing import Any

from tokenriver.commands import _output

SPELLED = "spells-control-token"
NO_DOCUMENT = ("blank", "empty")
"""Notes of rows that gave no document; but for SPELLED, the others are of rows that were mended."""

Values = Mapping[str, Any]


def built(values: Values, seconds: float) -> None:
    """What a build did, for people; `values` is BuildReport.as_dict()."""
    if values["complete_before"]:
        print(f"{values['path']} was complete already, from the same inputs and options")
    balance(values["balance"], {name: split["shards"] for name, split in values["splits"].items()})
    if values["bad_rows"]:
        print(f"  bad rows are listed in {values['bad_rows']}")
    if not values["complete_before"]:
        taken = f", {values['resumed']:,} of them taken over from an earlier run" if values["resumed"] else ""
        checked = _output.size(values["checked_bytes"])
        checks = f"; {checked} compared with the reference encoder" if values["checked_bytes"] else ""
        text = _output.size(values["balance"]["text_bytes"])
        print(f"  {text} of text in {values['units']:,} units{taken}; {seconds:.1f} s{checks}")


def examples(balance: Values, splits: Mapping[str, Mapping[str, int]]) -> None:
    """The balance of a corpus of examples; `splits` have "examples", "ids" and "trained"."""
    notes = balance.get("notes", {})
    rows: list[tuple[object, ...]] = [("rows read", balance.get("rows"), "", "")]
    rows += [(f"  bad: {reason}", count, "", "") for reason, count in balance["bad_rows"].items()]
    dropped = balance["documents"].get("dropped", {})
    rows += [(f"  dropped: {reason}", count, "", "") for reason, count in dropped.items()]
    rows += [(f"  skipped: {reason}", notes[reason], "", "") for reason in NO_DOCUMENT if notes.get(reason)]
    rows += [(f"  {split}", c["examples"], c["ids"], f"{c['trained'] / c['ids']:.1%}") for split, c in splits.items()]
    _output.columns(["", "examples", "ids", "trained"], rows)
    for reason, count in notes.items():
        if reason not in NO_DOCUMENT:
            print(f"  {count:,} {reason}")


def balance(values: Values, shards: Mapping[str, int]) -> None:
    """Print the balance of a manifest; `shards` are counted by split."""
    documents, ids, notes = values["documents"], values["ids"], values["notes"]
    rows: list[tuple[object, ...]] = [("rows read", values["rows"], "", "")]
    rows += [(f"  bad: {reason}", count, "", "") for reason, count in values["bad_rows"].items()]
    rows += [(f"  skipped: {reason}", notes[reason], "", "") for reason in NO_DOCUMENT if notes.get(reason)]
    gone = documents.get("filtered", {})  # a corpus may be older than filters
    rows += [(f"  filtered: {reason}", count, ids["filtered"][reason] or "", "") for reason, count in gone.items()]
    made = sum(documents["kept"].values()) + documents["beyond_max_tokens"] - documents["cut_in_two"]
    rows.append(("documents that stay" if gone else "documents encoded", made, ids["text"] + ids["framing"], ""))
    rows += [(f"  {split}", count, ids["kept"][split], shards[split]) for split, count in documents["kept"].items()]
    if documents["beyond_max_tokens"]:
        rows.append(("  beyond max_tokens", documents["beyond_max_tokens"], ids["beyond_max_tokens"], ""))
    if documents["cut_in_two"]:
        rows.append(("  (cut in two)", documents["cut_in_two"], "", ""))
    _output.columns(["", "documents", "ids", "shards"], rows)
    plain = (*NO_DOCUMENT, SPELLED)
    mended = ", ".join(f"{count:,} {reason}" for reason, count in notes.items() if reason not in plain)
    print(f"  {ids['framing']:,} of the ids are framing{f'; mended: {mended}' if mended else ''}")
    if notes.get(SPELLED):
        print(f"  {notes[SPELLED]:,} documents spell a control token, which is text in them")
    if values["unread_inputs"]:
        print(f"  not read, since max_tokens was reached: {values['unread_inputs']}")
