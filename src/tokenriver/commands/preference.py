"""Turn comparisons of two answers into pairs: JSON lines, or a corpus of chosen and rejected rows."""

from pathlib import Path
from typing import Annotated, Literal

import typer

import tokenriver
from tokenriver.commands import _environment, _examples, _output
from tokenriver.commands import _options as option
from tokenriver.defaults import TOKENIZER

Inputs = Annotated[
    list[str], typer.Argument(metavar="INPUT...", help="JSON lines, JSON arrays, Parquet.", show_default=False)
]
Out = Annotated[
    Path,
    typer.Option("--out", "-o", metavar="OUT", help="A .jsonl file, or the folder of a corpus.", show_default=False),
]
Dataset = Annotated[
    Literal["auto", "hh", "ultrafeedback", "both"],
    typer.Option("--dataset", help="Which rows are taken; auto takes every form of a pair."),
]
MaxPerDataset = Annotated[
    int | None,
    typer.Option("--max-per-dataset", parser=_output.count, metavar="N", help="Pairs of each data set at most."),
]
Template = Annotated[str, typer.Option("--template", metavar="NAME", help="Chat template of a corpus.")]
Train = Annotated[Literal["last", "all"], typer.Option("--train", help="Which answers of a corpus are trained.")]
KeepDiffering = Annotated[
    bool, typer.Option("--keep-differing", help="Keep pairs of different prompts, with that of the chosen side.")
]
Turns = Annotated[bool, typer.Option("--turns", help="Make the prompts of transcripts into messages.")]
Like = Annotated[Literal["pile-hdf5"] | None, typer.Option("--like", help="Split rows as the HDF5 project does.")]
Shuffle = Annotated[
    int | None, typer.Option("--shuffle", metavar="SEED", help="Shuffle the lines as Python's own generator does.")
]
ValFraction = Annotated[
    float,
    typer.Option(
        "--val-fraction", metavar="F", help="Share of prompts, with all their pairs, for validation, by hash."
    ),
]


def run(
    inputs: Inputs,
    out: Out,
    dataset: Dataset = "auto",
    max_per_dataset: MaxPerDataset = None,
    tokenizer: option.Tokenizer = None,
    template: Template = "plain",
    template_option: option.TemplateOption = None,
    train: Train = "last",
    keep_differing: KeepDiffering = False,
    turns: Turns = False,
    like: Like = None,
    shuffle: Shuffle = None,
    val_fraction: ValFraction = 0.0,
    json: option.Json = False,
    include: option.Include = None,
    on_bad: option.OnBad = "skip",
    max_bad: option.MaxBad = 0.01,
) -> None:
    """Turn comparisons of two answers into pairs: JSON lines, or a corpus of chosen and rejected rows.

    Rows of HH-RLHF, UltraFeedback, lists of messages, and prompts with two texts
    are told apart by their content. PairLoader reads the corpus.

    Example:  tokenriver preference train.jsonl.gz -o pairs --template plain --tokenizer gpt2 --val-fraction 0.05
    """
    given = tokenizer or TOKENIZER
    encodes = out.suffix != ".jsonl"
    with _output.progress(f"writing {out}") as report:
        made = tokenriver.preference(
            inputs,
            out,
            dataset=dataset,
            max_per_dataset=max_per_dataset,
            like=like,
            keep_differing=keep_differing,
            turns=turns,
            shuffle=shuffle,
            val_fraction=val_fraction,
            tokenizer=tokenriver.load_tokenizer(given, search=_environment.tokenizer_folders()) if encodes else given,
            template=template,
            template_options=_examples.template_options(template_option),
            train=train,
            include=include or (),
            on_bad=on_bad,
            max_bad=max_bad,
            progress=report,
        )
    if json:
        _output.emit_json(made.as_dict())
        return
    facts = made.facts
    rows: list[tuple[str, object]] = [(f"of {name}", count) for name, count in facts["datasets"].items()]
    if val_fraction:
        rows += [(f"pairs of {split}", count) for split, count in facts["splits"].items()]
    if "ids" in facts:
        rows += [("ids", facts["ids"]), ("ids of a row, mean", facts["mean"]), ("longest row", facts["longest"])]
        rows.append(("trained", f"{facts['trained']:,} ids, {facts['trained'] / facts['ids']:.1%}"))
    _examples.show(made, rows)
