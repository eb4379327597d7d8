"""`tokenriver tokenizer show`."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

import tokenriver
from tokenriver.commands import _environment, _output
from tokenriver.commands import _options as option
from tokenriver.defaults import TOKENIZER
from tokenriver.errors import InputError
from tokenriver.files import naming
from tokenriver.roles import role_ids, special_tokens
from tokenriver.tokenizer import piece_bytes
from tokenriver.types import Tokenizer

COLORS = ("cyan", "green", "magenta", "yellow")
MOST_BYTES = 16 << 20

Given = Annotated[
    str | None, typer.Argument(metavar="[TEXT|FILE]", help="A text, or a file that holds one.", show_default=False)
]
Special = Annotated[bool, typer.Option("--special", help="List the control tokens instead: ids, names, roles.")]
Ids = Annotated[
    int, typer.Option("--ids", parser=_output.count, metavar="N", help="How many ids to list (--json: all).")
]


def run(
    given: Given = None,
    tokenizer: option.Tokenizer = TOKENIZER,
    ids: Ids = 100,
    special: Special = False,
    json: option.Json = False,
) -> None:
    """Show the ids of a text: the bytes of each, and the text in coloured pieces.

    An existing file is read as one text; anything else is the text itself.
    Control tokens that the text spells are text, as in a build.

    Example:  tokenriver tokenizer show "Hello world" --tokenizer gpt2
    """
    loaded = tokenriver.load_tokenizer(tokenizer or TOKENIZER, search=_environment.tokenizer_folders())
    if special == (given is not None):
        raise typer.BadParameter("got both or none of them, expected a text, or --special", param_hint="TEXT|FILE")
    if given is None:
        _show_special(loaded, json)
        return
    path = _file(given)
    name = "the text given" if path is None else str(path)
    text = _utf8(name, given.encode("utf-8", "surrogateescape") if path is None else _read(path))
    facts = _facts(loaded, text)
    if json:
        _output.emit_json(facts)
    else:
        _show(name, facts, ids)


def _show_special(tokenizer: Tokenizer, json: bool) -> None:
    roles: dict[int | None, list[str]] = {}
    for role, number in role_ids(tokenizer).items():
        roles.setdefault(number, []).append(role)
    found: list[dict[str, Any]] = [
        {"id": number, "token": token, "roles": roles.get(number, [])}
        for token, number in special_tokens(tokenizer).items()
    ]
    if json:
        size = {"tokenizer": tokenizer.name, "vocab_size": tokenizer.vocab_size}
        _output.emit_json({**size, **role_ids(tokenizer), "special": found})
        return
    _output.heading(f"{tokenizer.name}: {len(found)} control tokens of {tokenizer.vocab_size:,} ids")
    rows = [(row["id"], _output.visible(row["token"]), ", ".join(row["roles"])) for row in found]
    _output.columns(["id", "token", "role"], rows)


def _file(given: str) -> Path | None:
    try:
        return Path(given) if Path(given).is_file() else None
    except (OSError, ValueError):  # too long, or with a character that no path has
        return None


def _read(path: Path) -> bytes:
    with naming(path, "read"), path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise InputError(f"{path}: size: got more than {MOST_BYTES} bytes, expected less to look at; cut the file")
    return data


def _utf8(name: str, text: bytes) -> bytes:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name}: byte {error.start}: got 0x{text[error.start]:02x}, expected UTF-8; convert the text"
        ) from error
    return text


def _facts(tokenizer: Tokenizer, text: bytes) -> dict[str, Any]:
    """Everything that `show` says, as plain values."""
    ids = tokenizer.encode_batch([text])[0]
    pieces = [piece_bytes(tokenizer, number) for number in ids.tolist()]
    return {
        "tokenizer": tokenizer.name,
        "vocab_size": tokenizer.vocab_size,
        "bytes": len(text),
        "round_trip": tokenizer.decode_bytes(ids) == text,
        "ids": ids.tolist(),
        "hex": [piece.hex() for piece in pieces],
        "pieces": [piece.decode("utf-8", "backslashreplace") for piece in pieces],
    }


def _show(name: str, facts: dict[str, Any], most: int) -> None:
    count, size = len(facts["ids"]), facts["bytes"]
    each = f", {size / count:.2f} bytes an id" if count else ""
    _output.heading(f"{name} by {facts['tokenizer']}: {count:,} ids, {size:,} bytes{each}")
    line = Text("  ")
    for place, piece in enumerate(facts["pieces"][:most]):
        line.append(_output.visible(piece), style=f"{COLORS[place % len(COLORS)]} underline")
    if count:
        _output.console().print(line, soft_wrap=True)
    rows = [
        (place, number, _spaced(code), f"'{_output.visible(piece)}'")
        for place, (number, code, piece) in enumerate(zip(facts["ids"], facts["hex"], facts["pieces"], strict=True))
        if place < most
    ]
    _output.columns(["place", "id", "bytes", "piece"], rows)
    if count > most:
        print(f"  and {count - most:,} ids more")
    if not facts["round_trip"]:
        print("  the ids do not decode to the very bytes of the text")


def _spaced(code: str) -> str:
    return " ".join(code[i : i + 2] for i in range(0, len(code), 2))
