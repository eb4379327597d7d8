"""A file of multiple-choice examples as a person reads it: lengths, and rows with the scored part in colour."""

import importlib
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenriver
from tokenriver.choices import choice_format
from tokenriver.commands import _environment, _output
from tokenriver.types import Ids, Tokenizer

RIGHT, WRONG = "green", "cyan"
BREAK = "⏎"


def facts(path: Path, examples: tokenriver.ChoiceExamples) -> dict[str, Any]:
    """Everything that is known of a file, as plain values."""
    return {
        "path": str(path),
        "format": choice_format(path),
        "lengths": examples.describe(),
        **{name: examples.about.get(name) for name in ("tokenizer", "options", "sources", "balance")},
    }


def lines_of(examples: tokenriver.ChoiceExamples, seq_len: int) -> tokenriver.EvalLoader:
    """The examples in lines of seq_len positions."""
    return tokenriver.EvalLoader(examples, batch_rows=int(examples.counts.max()), seq_len=seq_len)


def rows(
    examples: tokenriver.ChoiceExamples, count: int, tokenizer: Tokenizer | None, lines: tokenriver.EvalLoader | None
) -> list[dict[str, Any]]:
    """The first examples as plain values, contexts cut as in those lines; texts are None without the tokenizer."""
    out = []
    for number in range(min(count, len(examples))):
        source, record = examples.origin(number)
        context, *choices = examples.pieces(number)
        cut = 0 if lines is None else int(lines.cut[number])
        out.append(
            {
                "example": number,
                "source": source or None,
                "line": record + 1 if source else None,
                "label": int(examples.labels[number]),
                "cut": cut,
                "unscorable": lines is not None and number in lines.unscorable,
                "context": _piece(context[cut:], tokenizer),
                "choices": [_piece(choice, tokenizer) for choice in choices],
            }
        )
    return out


def _piece(ids: Ids, tokenizer: Tokenizer | None) -> dict[str, Any]:
    return {"ids": ids.tolist(), "text": None if tokenizer is None else tokenizer.decode(ids)}


def tokenizer_of(examples: tokenriver.ChoiceExamples, given: str | None) -> Tokenizer | None:
    """What made the ids: as the file says, else as the user does, else llm.c's, which is GPT-2's. None, with a warning,
    if it is not there or is another."""
    known: Mapping[str, Any] = examples.about.get("tokenizer") or {}
    name = given or known.get("name", "gpt2")
    try:
        found = tokenriver.load_tokenizer(name, search=_environment.tokenizer_folders())
    except tokenriver.RiverError as error:
        warnings.warn(f"ids are shown instead of text: {error}", stacklevel=2)
        return None
    if (known and known["fingerprint"] != found.fingerprint) or int(examples.ids.max()) >= found.vocab_size:
        warnings.warn(f"ids are shown instead of text: {name} is not the tokenizer that made them", stacklevel=2)
        return None
    return found


# ------------------------------------------------------------------------------------------------ printing


def show_lengths(lengths: Mapping[str, Any]) -> None:
    """Counts and lengths as a table."""
    kinds = ("choices_an_example", "context_ids", "choice_ids", "row_ids")
    table = [[kind.replace("_", " "), *(lengths[kind][name] for name in ("min", "median", "max"))] for kind in kinds]
    _output.columns(["", "min", "median", "max"], table)
    share = f"{lengths['scored_ids']:,} ids are scored, {lengths['scored_share']:.1%} of the ids of all rows"
    print(f"  {lengths['choices']:,} rows of {lengths['examples']:,} examples; {share}")


def show_balance(balance: Mapping[str, Any]) -> None:
    """Where each record went."""
    table: list[Sequence[object]] = [["rows read", balance["rows"]]]
    table += [[f"  {shape} examples", count] for shape, count in balance["examples"].items()]
    table += [[f"  bad: {reason}", count] for reason, count in balance["bad_rows"].items()]
    table += [[f"  note: {name}", count] for name, count in balance["notes"].items()]
    _output.columns(["", "records"], table)


def show_lines(seq_len: int, found: Mapping[str, Any]) -> None:
    """What lines of some length cut."""
    scored = f"{found['scored']:,} examples scored, {found['unscorable']:,} unscorable"
    cut = f"{found['contexts_cut']:,} contexts lose {found['context_ids_cut']:,} ids on their left"
    print(f"  lines of {seq_len:,}: {scored}; {cut}")


def show_row(row: Mapping[str, Any], characters: int) -> None:
    """One example: a line for each choice, the end of the context dim, the scored part in colour."""
    where = f" ({row['source']} line {row['line']})" if row["source"] else ""
    length = f"{len(row['context']['ids']):,} ids of context"
    length += f", {row['cut']:,} more are cut" if row["cut"] else ""
    length += ", UNSCORABLE: a choice alone is too long" if row["unscorable"] else ""
    print(f"example {row['example']:,}{where}: {length}; choice {row['label']} is right")
    context = _shown(row["context"])
    if characters and len(context) > characters:
        context = f"… {context[-characters:]}"
    text = importlib.import_module("rich.text").Text  # it is slow to import, and lengths are shown without it
    for number, choice in enumerate(row["choices"]):
        right = number == row["label"]
        line = text(f"  {'*' if right else ' '} {number:>2}  {len(choice['ids']):>5,} ids  ")
        line.append(context, style="dim")
        line.append(f"|{_shown(choice)}|", style=f"bold {RIGHT if right else WRONG}")
        _output.console().print(line, soft_wrap=True)


def _shown(piece: Mapping[str, Any]) -> str:
    text = " ".join(map(str, piece["ids"])) if piece["text"] is None else piece["text"]
    return _output.visible(text, BREAK)
