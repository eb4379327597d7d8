"""Records -> a file of multiple-choice examples; every record is an example, or is counted with its reason."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson

from tokenriver import files, registry
from tokenriver.choicecolumns import Collector
from tokenriver.choicedata import ChoiceExamples, Rendering
from tokenriver.choicerecords import read_rows
from tokenriver.errors import FormatError, InputError, RiverError
from tokenriver.inputs import InputFile, find_inputs
from tokenriver.reading import Progress, refuse_input
from tokenriver.tokenizer import load_tokenizer
from tokenriver.types import Tokenizer

BAD_ROWS_SUFFIX = ".bad_rows.jsonl"
MANY_BAD = 10


@dataclass(frozen=True, slots=True)
class ChoiceReport:
    """What was made of some records; `as_dict` is what --json prints."""

    path: Path
    format: str
    tokenizer: dict[str, Any]
    """name, fingerprint, vocab_size."""
    balance: dict[str, Any]
    """rows read, examples by the shape of their records, bad rows and notes by reason."""
    lengths: dict[str, Any]
    """Counts and lengths of what was kept."""
    bad_rows: Path | None
    """The side file with source, line and reason of each bad row; None if there are none."""

    def as_dict(self) -> dict[str, Any]:
        bad_rows = None if self.bad_rows is None else str(self.bad_rows)
        return {**asdict(self), "path": str(self.path), "bad_rows": bad_rows}


def build_choices(
    inputs: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    tokenizer: str | Path | Tokenizer = "gpt2",
    style: str = "auto",
    answers: str = "letters",
    join: str = " ",
    format: str = "native",
    include: Sequence[str] = (),
    on_bad: str = "skip",
    max_bad: float = 0.01,
    search: Sequence[Path] = (),
    progress: Progress | None = None,
) -> ChoiceReport:
    """Write the examples of some records (JSON lines, plain or compressed, or Parquet) to the file `out`.

    `style` says how records become text: hellaswag, mmlu, plain, or auto for each record's own; `answers` is letters or
    full (mmlu); `join` stands between context and choice (plain). `format` is native, or llmc for llm.c's evaluation
    file. Bad rows are counted and listed beside `out`; on_bad="fail" stops at the first, and more than max_bad of all
    rows (and at least 10) are a failure. Everything is held in memory until it is written. InputError for inputs and
    options that cannot be used, LimitError for what the format cannot hold."""
    path = Path(out)
    module = registry.load("examples", "choice")
    rendering = Rendering(style, answers, join)
    module.check_rendering(rendering)
    _check_limits(on_bad, max_bad, format, module)
    sources = find_inputs([inputs] if isinstance(inputs, str | Path) else list(inputs), include=include, arrays=True)
    _refuse_target(path, sources, module)
    made_by = load_tokenizer(tokenizer, search=search) if isinstance(tokenizer, str | Path) else tokenizer
    found = Collector(made_by, rendering, sources)
    for rows in read_rows(sources, progress):
        found.add(rows)
        if found.bad and on_bad == "fail":
            source, record, reason = found.bad[0]
            raise InputError(
                f"{sources[source].path}: line {record + 1}: bad row: {reason} (on_bad is fail); mend it or use "
                "on_bad skip"
            )
    _check_usable(found, sources, max_bad)
    examples = found.examples({"style": style, "answers": answers, "join": join})
    if format == "llmc":
        module.refuse_llmc(examples)
    listed = _write_bad_rows(path, found, sources)
    module.write(path, examples, format)
    return ChoiceReport(
        path, format, examples.about["tokenizer"], examples.about["balance"], examples.describe(), listed
    )


def open_choices(path: str | Path) -> ChoiceExamples:
    """The examples of a file that `build_choices` wrote, or of llm.c's evaluation file: columns, mapped, all of them
    checked, the checksum too. FormatError for a damaged or foreign file."""
    examples: ChoiceExamples = registry.load("examples", "choice").read(Path(path))
    return examples


def write_choices(examples: ChoiceExamples, out: str | Path, *, format: str = "native") -> None:
    """Write examples that are there already in a format: native, or llmc, which knows neither the bytes of the choices
    nor where an example comes from. LimitError, before anything is written, for what it cannot hold; InputError if
    `out` is there and is no file of examples."""
    module = registry.load("examples", "choice")
    _refuse_strangers(Path(out), module)
    module.write(Path(out), examples, format)


def choice_format(path: Path) -> str:
    """`native` or `llmc` if a file holds multiple-choice examples, by its first bytes; else ""."""
    found: str = registry.load("examples", "choice").sniff(path)
    return found


def choice_faults(path: Path) -> Iterator[RiverError]:
    """What is wrong with a file of examples."""
    try:
        open_choices(path)
    except FormatError as error:
        yield error


# ----------------------------------------------------------------------------------------------- checks


def _check_limits(on_bad: str, max_bad: float, format: str, module: ModuleType) -> None:
    if on_bad not in ("skip", "fail"):
        raise InputError(f"on_bad: got {on_bad!r}, expected skip or fail")
    if not 0 <= max_bad <= 1:
        raise InputError(f"max_bad: got {max_bad}, expected 0 to 1, a share of the rows")
    if format not in module.FORMATS:
        raise InputError(f"format: got {format!r}, expected {' or '.join(module.FORMATS)}")


def _refuse_target(path: Path, sources: Sequence[InputFile], module: ModuleType) -> None:
    refuse_input(path, sources)
    refuse_input(_side_file(path), sources)
    _refuse_strangers(path, module)


def _refuse_strangers(path: Path, module: ModuleType) -> None:
    """Only a file of examples is ever replaced."""
    if path.exists() and not module.sniff(path):
        raise InputError(f"{path}: got something that is no file of examples, expected a new name; choose another")


def _check_usable(found: Collector, sources: Sequence[InputFile], max_bad: float) -> None:
    """Too many bad rows, or none that is good, is a failure that says what was found."""
    rows, bad = found.num_rows, len(found.bad)
    where = str(sources[0].path) if len(sources) == 1 else f"{sources[0].path} and {len(sources) - 1} more inputs"
    reasons = Counter(reason for *_, reason in found.bad)
    what = ", ".join(f"{number} {reason}" for reason, number in sorted(reasons.items()))
    first = ""
    if bad:
        source, record, reason = found.bad[0]
        first = f"; the first is {sources[source].name} line {record + 1}: {reason}"
    if not found.num_examples:
        raise InputError(
            f"{where}: got {rows} rows, none with an example ({what or 'all blank'}), expected some{first}"
        )
    if bad >= MANY_BAD and bad > max_bad * rows:
        raise InputError(
            f"{where}: got {bad} bad rows of {rows} ({what}), expected at most {max_bad:.2%}; mend them, or raise "
            f"max_bad{first}"
        )


# --------------------------------------------------------------------------------------------- bad rows


def _side_file(path: Path) -> Path:
    return path.with_name(path.name + BAD_ROWS_SUFFIX)


def _write_bad_rows(path: Path, found: Collector, sources: Sequence[InputFile]) -> Path | None:
    """The side file of bad rows; one of an earlier run goes where there are none now."""
    side = _side_file(path)
    if not found.bad:
        files.remove(side)
        return None
    with files.AtomicFile(side) as file:
        for line in _lines(found.bad, sources):
            file.write(line)
    return side


def _lines(bad: Iterable[tuple[int, int, str]], sources: Sequence[InputFile]) -> Iterator[bytes]:
    for source, record, reason in bad:
        row = {"file": sources[source].name, "line": record + 1, "reason": reason}
        yield orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
