"""Records -> a file of multiple-choice examples; every record is an example, or is counted with its reason."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson

from tokenriver import registry
from tokenriver.chat import load_chat, template_facts
from tokenriver.choicecolumns import Collector
from tokenriver.choicedata import ChoiceExamples, Rendering
from tokenriver.choiceturns import check_template
from tokenriver.errors import FormatError, InputError, RiverError
from tokenriver.examplefile import find_records, write_side
from tokenriver.inputs import InputFile
from tokenriver.limits import BadRows, Fates
from tokenriver.reading import Progress, refuse_input
from tokenriver.records import read_all
from tokenriver.tokenizer import load_tokenizer
from tokenriver.types import Json, Tokenizer

BAD_ROWS_SUFFIX = ".bad_rows.jsonl"


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
    template: str | Path | None = None,
    template_options: Json | None = None,
    format: str = "native",
    include: Sequence[str] = (),
    on_bad: str = "skip",
    max_bad: float = 0.01,
    search: Sequence[Path] = (),
    progress: Progress | None = None,
) -> ChoiceReport:
    """Write the examples of some records (JSON lines, plain or compressed, or Parquet) to the file `out`.

    `style` says how records become text: hellaswag, mmlu, plain, or auto for each record's own; `answers` is letters or
    full (mmlu); `join` stands between context and choice (plain). `template`, a chat template by name or path, makes
    the context a user's turn and each choice the assistant's content, which alone is scored; `template_options` are
    what one of a file reads beside the conversation, values of JSON, as {"enable_thinking": False}. `format` is native,
    or llmc for llm.c's evaluation file, which knows no template. Bad rows are counted and listed beside `out`;
    on_bad="fail" stops at the first, and more than max_bad of all rows (and at least 10) are a failure. Everything is
    held in memory until it is written. InputError for inputs and options that cannot be used, LimitError for what the
    format cannot hold."""
    path = Path(out)
    module = registry.load("examples", "choice")
    rendering = Rendering(style, answers, join, template is not None)
    module.check_rendering(rendering)
    limits = BadRows(on_bad, max_bad)
    limits.check()
    if format not in module.FORMATS:
        raise InputError(f"format: got {format!r}, expected {' or '.join(module.FORMATS)}")
    if template is not None and format == "llmc":
        raise InputError(f"template: got {template} with format 'llmc', which knows no conversation; leave one out")
    if template_options and template is None:
        raise InputError("template_options: got some without a template, expected the template's path; give it")
    sources = find_records(inputs, include)
    _refuse_target(path, sources, module)
    made_by = load_tokenizer(tokenizer, search=search) if isinstance(tokenizer, str | Path) else tokenizer
    options: Json = {"style": style, "answers": answers, "join": join}
    chat = None
    if template is not None:
        chat = load_chat(template, made_by, variables=template_options)
        options = {"style": style, "answers": answers, **template_facts(chat, template, template_options)}
        check_template(chat)
    found = Collector(made_by, rendering, sources, chat)
    for source, rows in read_all(sources, progress):
        before = len(found.bad)
        found.add(source, rows)
        for _, record, reason in found.bad[before:]:
            limits.meet(sources[source], record + 1, reason)
    _fates(found, sources).check(limits, sources)
    examples = found.examples(options)
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


def _refuse_target(path: Path, sources: Sequence[InputFile], module: ModuleType) -> None:
    refuse_input(path, sources)
    refuse_input(_side_file(path), sources)
    _refuse_strangers(path, module)


def _refuse_strangers(path: Path, module: ModuleType) -> None:
    """Only a file of examples is ever replaced."""
    if path.exists() and not module.sniff(path):
        raise InputError(f"{path}: got something that is no file of examples, expected a new name; choose another")


def _fates(found: Collector, sources: Sequence[InputFile]) -> Fates:
    first = "".join(f"{sources[n].name} line {record + 1}: {reason}" for n, record, reason in found.bad[:1])
    reasons = Counter(reason for *_, reason in found.bad)
    return Fates(found.num_rows, found.num_examples, reasons, Counter(), first)


# --------------------------------------------------------------------------------------------- bad rows


def _side_file(path: Path) -> Path:
    return path.with_name(path.name + BAD_ROWS_SUFFIX)


def _write_bad_rows(path: Path, found: Collector, sources: Sequence[InputFile]) -> Path | None:
    side = _side_file(path)
    write_side(side, list(_lines(found.bad, sources)))
    return side if found.bad else None


def _lines(bad: Iterable[tuple[int, int, str]], sources: Sequence[InputFile]) -> Iterator[bytes]:
    for source, record, reason in bad:
        row = {"file": sources[source].name, "line": record + 1, "reason": reason}
        yield orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
