"""How commands speak: short tables for people, one JSON object for machines, progress on standard error."""

import importlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

# C0, DEL and C1: what a terminal may obey; line breaks and tabs are handled by who calls
CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}


def count(text: str | int) -> int:
    """An option's number: 1000000, 1_000_000, 1M or 16MiB (k, M, G: powers of 1000; KiB, MiB, GiB: of 1024)."""
    units = {"k": 10**3, "m": 10**6, "g": 10**9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
    word = str(text).strip().lower()
    unit = next((name for name in sorted(units, key=len, reverse=True) if word.endswith(name)), "")
    digits = word.removesuffix(unit).replace("_", "").replace(",", "")
    if not digits.isdecimal():
        raise typer.BadParameter(f"got {text!r}, expected a number such as 1000000, 1M or 16MiB")
    return int(digits) * units.get(unit, 1)


def size(num_bytes: float) -> str:
    """Bytes for people, powers of 1000: "1.2 GB"."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(num_bytes) < 999.5 or unit == "TB":
            return f"{num_bytes:,.0f} {unit}" if unit == "B" or num_bytes >= 100 else f"{num_bytes:.3g} {unit}"
        num_bytes /= 1000
    raise AssertionError("unreachable: TB takes all")


def visible(text: str, line_break: str = "\\n") -> str:
    """Text of a corpus made safe for a terminal: control characters are shown, not obeyed."""
    return text.replace("\n", "\0").translate({**CONTROLS, 0: line_break, 9: "\t"})


def emit_json(value: Mapping[str, Any]) -> None:
    """The one JSON object of --json, on standard output."""
    print(json.dumps(value, indent=1, ensure_ascii=False))


def heading(text: str) -> None:
    """A bold line, where a terminal shows it as one."""
    if not sys.stdout.isatty():
        print(text)  # without rich, which takes longer to import than all the rest of a summary
        return
    console().print(text, style="bold", markup=False, highlight=False, soft_wrap=True)


def pairs(rows: Sequence[tuple[str, object]]) -> None:
    """Aligned `label  value` lines; numbers get thousands separators, nothing is ever cut."""
    width = max((len(label) for label, _ in rows), default=0)
    for label, value in rows:
        print(f"  {label:<{width}}  {cell(value)}")


def columns(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table with its numbers to the right and its texts to the left; nothing is ever cut."""
    texts = [[cell(value) for value in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(head), *texts]) for i in range(len(head))]
    right = [any(isinstance(row[i], int | float) for row in rows) for i in range(len(head))]
    for line in [list(head), ["-" * width for width in widths], *texts]:
        parts = [f"{text:>{w}}" if r else f"{text:<{w}}" for text, w, r in zip(line, widths, right, strict=True)]
        print(f"  {'  '.join(parts)}".rstrip())


def cell(value: object) -> str:
    """One value for people."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def console() -> "Console":
    """Standard output as it is now (tests replace it)."""
    made: Console = importlib.import_module("rich.console").Console(file=sys.stdout)
    return made


@contextmanager
def progress(what: str, unit: str = "bytes") -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error, on a terminal only, that moves to and fro until it knows better; gives the function to
    call with (done, total) in bytes or another unit."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    rich = importlib.import_module("rich.progress")  # only where it is seen: it is a tenth of a second
    bar = rich.Progress(
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.TaskProgressColumn(),
        rich.TextColumn("{task.fields[amount]}"),
        rich.TimeElapsedColumn(),
        console=rich.Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=None, amount="")

        def report(done: int, total: int) -> None:
            amount = f"{size(done)} of {size(total)}" if unit == "bytes" else f"{done:,} of {total:,} {unit}"
            bar.update(task, completed=done, total=total, amount=amount)

        yield report
