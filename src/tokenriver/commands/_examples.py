"""What commands that make examples share: the summary of rows by their fate."""

from tokenriver.commands import _output
from tokenriver.examplefile import ExampleReport


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
