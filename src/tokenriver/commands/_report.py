"""The balance of a build as a table: every id and document that went in, and where it went."""

from collections.abc import Iterator, Mapping
from typing import Any

from tokenriver.commands import _output


def built(values: Mapping[str, Any], seconds: float) -> None:
    """What a build did, for people; `values` is BuildReport.as_dict()."""
    if values["complete_before"]:
        print(f"  {values['path']} was complete already: the same inputs and options; nothing to do")
    _output.columns(
        ["split", "ids", "documents", "shards"],
        [[name, split["ids"], split["documents"], split["shards"]] for name, split in values["splits"].items()],
    )
    balance(values["balance"])
    taken = f", {values['resumed']:,} of them taken over from an earlier run" if values["resumed"] else ""
    print(f"  {values['units']:,} units{taken}; {seconds:.1f} s")
    if values["bad_rows"]:
        print(f"  bad rows are listed in {values['bad_rows']}")


def balance(values: Mapping[str, Any]) -> None:
    """Print the balance of a manifest; nested groups are named by their path."""
    print()
    _output.heading("balance")
    _output.pairs(list(_flat("", values)))


def _flat(prefix: str, values: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for key, value in values.items():
        label = f"{prefix} {key}".strip().replace("_", " ")
        if isinstance(value, Mapping):
            yield from _flat(label, value)
        else:
            yield label, value
