"""Prompts for reinforcement learning: questions with a number as their answer -> JSON lines of prompt and gold."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from tokenriver import registry
from tokenriver.arithmetic import Level, problems, problems_of_hdf5
from tokenriver.errors import InputError
from tokenriver.examplefile import (
    FIELD_MISSING,
    ExampleReport,
    Tally,
    dump,
    each_record,
    find_records,
    missing,
    write_rows,
)
from tokenriver.inputs import InputFile
from tokenriver.limits import BadRows
from tokenriver.reading import Progress
from tokenriver.types import Json

LIKE = "pile-hdf5"


def rl_prompts(
    inputs: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    prompt_field: str | None = None,
    answer_field: str | None = None,
    like: str | None = None,
    max_rows: int | None = None,
    arithmetic: int = 0,
    seed: int = 0,
    level: int | Level = 2,
    repeats: bool = False,
    include: Sequence[str] = (),
    on_bad: str = "skip",
    max_bad: float = 0.01,
    progress: Progress | None = None,
) -> ExampleReport:
    """Write `{"prompt": ..., "gold": 72.0}` for each row of `inputs` (JSON lines, JSON arrays, Parquet) that has a
    question and a number as its answer, at most `max_rows` of them, and behind them `arithmetic` problems of a level
    (see `arithmetic`), to the file `out`. The fields are question, prompt or problem and answer, gold or solution,
    unless named. `like` "pile-hdf5" reads answers and draws problems as the HDF5 project does. Rows without a prompt
    are counted by reason and listed in a side file. InputError for inputs without any, or more bad rows than `max_bad`
    (of at least 10)."""
    if like not in (None, LIKE):
        raise InputError(f"like: got {like!r}, expected {LIKE}; leave it out for the rules of this library")
    if arithmetic < 0 or (max_rows is not None and max_rows < 1):
        raise InputError(f"arithmetic, max_rows: got {arithmetic}, {max_rows}, expected 0 or more, 1 or more")
    limits = BadRows(on_bad, max_bad)
    limits.check()
    given = [inputs] if isinstance(inputs, str | Path) else list(inputs)
    if not given and not arithmetic:
        raise InputError("inputs: got none, expected files of questions, or arithmetic=N")
    if like:
        made = problems_of_hdf5(arithmetic, seed=seed)
    else:
        made = problems(arithmetic, seed=seed, level=level, repeats=repeats)
    files = find_records(given, include) if given else []
    tally = Tally(limits)
    asked = _Asked(prompt_field, answer_field, like or "", max_rows)
    lines = chain(_lines(asked, each_record(files, tally, progress), tally), (_line(*problem) for problem in made))
    return write_rows(Path(out), files, tally, ((line, False) for line in lines), lambda: {"arithmetic": arithmetic})


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a row is asked for."""

    prompt: str | None
    answer: str | None
    like: str
    max_rows: int | None


def _lines(asked: _Asked, found: Iterable[tuple[InputFile, int, Json]], tally: Tally) -> Iterator[bytes]:
    module, kept = registry.load("examples", "rl"), 0
    for file, line, record in found:
        names = module.fields(record, asked.prompt, asked.answer)
        fault = _fault(record, names)
        if fault:
            tally.refuse(file, line, fault)
            continue
        made = module.example(*(record[name] for name in names), asked.like)
        if isinstance(made, str):
            tally.drop(file, line, made)
        elif kept == asked.max_rows:
            tally.pass_over()
        else:
            kept += 1
            tally.unused.update(record.keys() - names)
            yield _line(*made)


def _fault(record: Json, names: tuple[str, str] | None) -> str:
    if names is None:
        return FIELD_MISSING
    prompt, answer = names
    return missing(record, [prompt]) or missing(record, [answer], (str, int, float))


def _line(prompt: str, gold: float) -> bytes:
    return dump({"prompt": prompt, "gold": gold})
