"""What commands that make examples share: the options of a chat template, the summary of rows by their fate."""

import json
from collections.abc import Sequence
from typing import Any, NoReturn

import typer

from tokenriver.commands import _output
from tokenriver.examplefile import ExampleReport


def template_options(given: Sequence[str] | None) -> dict[str, Any]:
    """The values of --template-option by their names: JSON, or what is none as text."""
    found: dict[str, Any] = {}
    for one in given or ():
        name, equals, value = one.partition("=")
        if not name or not equals or name in found:
            what = f"{name} twice" if name in found else repr(one)
            raise typer.BadParameter(f"got {what}, expected NAME=VALUE, each name once", param_hint="--template-option")
        try:
            found[name] = json.loads(value, parse_constant=_refuse)
        except ValueError:
            found[name] = value
    return found


def _refuse(constant: str) -> NoReturn:
    """NaN and Infinity are Python's, and not of JSON."""
    raise ValueError(constant)


def show(report: ExampleReport, rows: list[tuple[str, object]]) -> None:
    """A table for people; `rows` are what this kind of example has to say."""
    _output.heading(f"{report.path}: {report.kept:,} examples of {report.rows:,} rows")
    for what, counts in (("dropped", report.dropped), ("bad", report.bad), ("noted", report.notes)):
        rows = [*rows, *((f"{what}, {reason}", count) for reason, count in counts.items())]
    unused = ", ".join(f"{_output.visible(name)} ({count:,})" for name, count in report.unused_fields.items())
    if unused:
        rows.append(("fields not taken", unused))
    if report.side_file is not None:
        rows.append(("listed in", report.side_file))
    _output.pairs([*rows, ("bytes", report.num_bytes), ("sha256", report.sha256)])
