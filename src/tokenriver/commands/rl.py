"""Turn questions with a number as their answer into prompts for reinforcement learning."""

from pathlib import Path
from typing import Annotated, Literal

import typer

import tokenriver
from tokenriver.arithmetic import LEVELS
from tokenriver.commands import _examples, _output
from tokenriver.commands import _options as option

Inputs = Annotated[
    list[str] | None,
    typer.Argument(metavar="[INPUT...]", help="JSON lines, JSON arrays, Parquet.", show_default=False),
]
Out = Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="JSON lines to write.", show_default=False)]
PromptField = Annotated[
    str | None, typer.Option("--prompt-field", metavar="NAME", help="(default: question, prompt or problem)")
]
AnswerField = Annotated[
    str | None, typer.Option("--answer-field", metavar="NAME", help="(default: answer, gold or solution)")
]
Like = Annotated[
    Literal["pile-hdf5"] | None,
    typer.Option("--like", help="Read answers and draw problems as the HDF5 project does."),
]
MaxRows = Annotated[
    int | None, typer.Option("--max-rows", parser=_output.count, metavar="N", help="Prompts of the inputs at most.")
]
Arithmetic = Annotated[
    int, typer.Option("--arithmetic", parser=_output.count, metavar="N", help="Problems to make, behind the others.")
]
Seed = Annotated[int, typer.Option("--seed", help="The one integer that fixes the problems.")]
Level = Annotated[int, typer.Option("--level", metavar="L", help=f"Of the problems, {min(LEVELS)} to {max(LEVELS)}.")]
Repeats = Annotated[bool, typer.Option("--repeats", help="Problems may come again when all have come.")]


def run(
    out: Out,
    inputs: Inputs = None,
    prompt_field: PromptField = None,
    answer_field: AnswerField = None,
    arithmetic: Arithmetic = 0,
    seed: Seed = 0,
    level: Level = 2,
    repeats: Repeats = False,
    like: Like = None,
    max_rows: MaxRows = None,
    json: option.Json = False,
    include: option.Include = None,
    on_bad: option.OnBad = "skip",
    max_bad: option.MaxBad = 0.01,
) -> None:
    """Turn questions with a number as their answer into prompts for reinforcement learning.

    Each row becomes {"prompt": ..., "gold": 72.0}; the gold answer is the number
    behind ####, or the only one. --arithmetic makes problems of its own.

    Example:  tokenriver rl gsm8k_train.jsonl -o prompts.jsonl
    """
    with _output.progress(f"writing {out}") as report:
        made = tokenriver.rl_prompts(
            inputs or [],
            out,
            prompt_field=prompt_field,
            answer_field=answer_field,
            like=like,
            max_rows=max_rows,
            arithmetic=arithmetic,
            seed=seed,
            level=level,
            repeats=repeats,
            include=include or (),
            on_bad=on_bad,
            max_bad=max_bad,
            progress=report,
        )
    if json:
        _output.emit_json(made.as_dict())
        return
    _examples.show(made, [("problems made", arithmetic)] if arithmetic else [])
