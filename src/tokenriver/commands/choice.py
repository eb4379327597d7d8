"""Make multiple-choice evaluation data of records, or show what a file of it holds."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import tokenriver
from tokenriver.choices import choice_format
from tokenriver.commands import _choice, _environment, _examples, _output
from tokenriver.commands import _options as option

Inputs = Annotated[
    list[Path],
    typer.Argument(
        metavar="INPUT...", help="Records: JSON lines or Parquet. Or a file of examples.", show_default=False
    ),
]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="FILE", help="File to write; without it INPUT is shown.")
]
Format = Annotated[
    Literal["native", "llmc"],
    typer.Option("--format", help="Our own, or llm.c's evaluation file (four choices, 16 bits)."),
]
Style = Annotated[
    Literal["auto", "hellaswag", "mmlu", "plain"],
    typer.Option("--style", help="How records become text; auto tells it by their fields."),
]
Answers = Annotated[
    Literal["letters", "full"], typer.Option("--answers", help="mmlu: choices are the letters, or the answers in full.")
]
Join = Annotated[
    Literal["space", "none"], typer.Option("--join", help="plain: what stands between context and choice.")
]
Template = Annotated[
    str | None,
    typer.Option("--template", metavar="NAME", help="Chat template: a user asks the context, choices are answers."),
]
Show = Annotated[
    int | None, typer.Option("--show", "-n", metavar="N", min=0, help="Examples to show (default: 2 without --out).")
]
SeqLen = Annotated[
    int | None, typer.Option("--seq-len", parser=_output.count, metavar="T", help="Say what lines of T positions cut.")
]
Characters = Annotated[
    int, typer.Option("--characters", metavar="N", help="Of each context; 0 shows everything.", min=0)
]


def run(
    inputs: Inputs,
    out: Out = None,
    format: Format = "native",
    tokenizer: option.Tokenizer = None,
    style: Style = "auto",
    answers: Answers = "letters",
    join: Join = "space",
    template: Template = None,
    template_option: option.TemplateOption = None,
    show: Show = None,
    seq_len: SeqLen = None,
    characters: Characters = 120,
    json: option.Json = False,
    include: option.Include = None,
    on_bad: option.OnBad = "skip",
    max_bad: option.MaxBad = 0.01,
) -> None:
    """Make multiple-choice evaluation data of records, or show what a file of it holds.

    Records are told by their fields: HellaSwag's, MMLU's, or any with context,
    choices and label. A file of examples is written in the other format, or,
    without --out, checked and shown.

    Example:  tokenriver choice mmlu.parquet -o mmlu.choice --template chatml --tokenizer tokenizer.json --show 2
    """
    made: dict[str, Any] = {}
    rendering = {"--style": style != "auto", "--answers": answers != "letters", "--join": join != "space"}
    rendering |= {"--template": bool(template), "--template-option": bool(template_option)}
    if out is None or choice_format(inputs[0]):
        for name, given in rendering.items():
            if given:
                raise typer.BadParameter("got it with nothing to render, expected records and --out", param_hint=name)
    if out is not None and len(inputs) == 1 and choice_format(inputs[0]):
        if out.exists() and out.samefile(inputs[0]):
            raise typer.BadParameter("got the input itself, which is never written", param_hint="-o")
        tokenriver.write_choices(tokenriver.open_choices(inputs[0]), out, format=format)
    elif out is not None:
        with _output.progress(f"writing {out}") as report:
            made = tokenriver.build_choices(
                inputs,
                out,
                tokenizer=tokenizer or "gpt2",
                style=style,
                answers=answers,
                join=" " if join == "space" else "",
                template=template,
                template_options=_examples.template_options(template_option),
                format=format,
                include=include or (),
                on_bad=on_bad,
                max_bad=max_bad,
                search=_environment.tokenizer_folders(),
                progress=report,
            ).as_dict()
    elif len(inputs) > 1:
        raise typer.BadParameter("got several files to show, expected one, or --out", param_hint="INPUT")
    path = inputs[0] if out is None else out
    look(path, made, (2 if out is None else 0) if show is None else show, (seq_len, characters, tokenizer), json=json)


def look(path: Path, made: dict[str, Any], count: int, how: tuple[int | None, int, str | None], *, json: bool) -> None:
    """Say what a file of examples holds, and show the first `count`; `made` is the report of a build, or {}; `how` is
    the length of a line, characters of a context and a tokenizer's name."""
    seq_len, characters, name = how
    examples = tokenriver.open_choices(path)
    facts = {**_choice.facts(path, examples), **made}
    lines = None if seq_len is None else _choice.lines_of(examples, seq_len)
    if lines is not None:
        facts["lines"] = {"seq_len": seq_len, **lines.summary()}
    shown = _choice.rows(examples, count, _choice.tokenizer_of(examples, name), lines) if count else []
    if json:
        _output.emit_json({**facts, "examples": shown})
        return
    _output.heading(f"{path}: {len(examples):,} multiple-choice examples, format {facts['format']}")
    if facts["balance"]:
        _choice.show_balance(facts["balance"])
    _choice.show_lengths(facts["lengths"])
    if facts.get("bad_rows"):
        print(f"  bad rows are listed in {facts['bad_rows']}")
    if seq_len is not None:
        _choice.show_lines(seq_len, facts["lines"])
    for row in shown:
        _choice.show_row(row, characters)
