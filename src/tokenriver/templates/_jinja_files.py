"""Where the chat template of a model stands: chat_template.jinja or tokenizer_config.json in its folder, or a file."""

import json
from collections.abc import Mapping
from pathlib import Path

from tokenriver import files
from tokenriver.errors import FormatError, InputError

MOST_BYTES = 1 << 18
_JINJA, _CONFIG, _TOKENIZER = "chat_template.jinja", "tokenizer_config.json", "tokenizer.json"
_MOST_CONFIG_BYTES = 1 << 26


def sources(path: Path) -> dict[str, str]:
    """The texts of the templates at a path by their names; one without a name is "default"."""
    file = _in_folder(path) if path.is_dir() else path
    data = _bytes(file)
    if file.suffix != ".json":
        found: object = data.decode("utf-8", "replace")
    else:
        found = _json(file, data).get("chat_template")
    named = {"default": found} if isinstance(found, str) else _named(found)
    if not named:
        raise InputError(f"{file}: chat_template: got none, expected text; give a file that has one")
    for name, text in named.items():
        if len(text) > MOST_BYTES:
            raise InputError(
                f"{file}: chat template {name}: got {len(text):,} characters, expected at most {MOST_BYTES:,}"
            )
    return named


def tokens(path: Path) -> dict[str, str]:
    """The special tokens that templates know by name (bos_token, eos_token, ...), from the config beside a template."""
    file = (path if path.is_dir() else path.parent) / _CONFIG
    content = _json(file, _bytes(file)) if file.is_file() else {}
    found = {}
    for key, value in content.items():
        text = value.get("content") if isinstance(value, Mapping) else value
        if key.endswith("_token") and isinstance(text, str):
            found[key] = text
    return found


def greedy(path: Path) -> frozenset[str]:
    """The special tokens that take blanks or parts of words beside them away, told by the files beside a template."""
    folder = path if path.is_dir() else path.parent
    rows: list[object] = []
    for name, key in ((_CONFIG, "added_tokens_decoder"), (_TOKENIZER, "added_tokens")):
        if not rows and (folder / name).is_file():
            found = _json(folder / name, _bytes(folder / name)).get(key)
            rows = list(found.values()) if isinstance(found, dict) else found if isinstance(found, list) else []
    tokens = [row for row in rows if isinstance(row, dict) and row.get("special")]
    options = ("lstrip", "rstrip", "single_word")
    return frozenset(str(row.get("content")) for row in tokens if any(row.get(option) for option in options))


def _in_folder(folder: Path) -> Path:
    for name in (_JINJA, _CONFIG):
        if (folder / name).is_file():
            return folder / name
    raise InputError(f"{folder}: chat template: got a folder without {_JINJA} and {_CONFIG}; give the template's file")


def _named(found: object) -> dict[str, str]:
    """A list of {"name": ..., "template": ...} as one mapping."""
    rows = found if isinstance(found, list) else []
    pairs = [(row.get("name"), row.get("template")) for row in rows if isinstance(row, Mapping)]
    return {name: text for name, text in pairs if isinstance(name, str) and isinstance(text, str)}


def _bytes(file: Path) -> bytes:
    if not file.is_file():
        raise InputError(f"{file}: chat template: got no such file; check the path")
    with files.naming(file, "read"):
        if file.stat().st_size > _MOST_CONFIG_BYTES:
            raise FormatError(f"{file}: got {file.stat().st_size:,} bytes, expected a template; give its file")
        return file.read_bytes()


def _json(file: Path, data: bytes) -> Mapping[str, object]:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{file}: got {str(error)[:100]}, expected JSON; mend or remove the file") from error
    if not isinstance(content, dict):
        raise FormatError(f"{file}: got {type(content).__name__}, expected an object of JSON; mend or remove the file")
    return content
