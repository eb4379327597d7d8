"""A known dataset as data: which files it has, where they lie, and what becomes of them.

A recipe is a TOML file, one of recipes/ or a user's own. Nothing in it is used before it is checked: an unknown key, a
wrong type, a path that leaves the folder and a file that is named twice are errors that name the key.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenriver import rules
from tokenriver.errors import FormatError, InputError
from tokenriver.files import list_folder, naming
from tokenriver.rules import Rule

FOLDER = Path(__file__).with_name("recipes")
LARGEST_RECIPE = 1 << 20
TRAIN = "train"
_SPAN = re.compile(r"\{(\d+)\.\.(\d+)\}")
_HUB = re.compile(r"hf://datasets/([A-Za-z0-9_.-]{1,96}/[A-Za-z0-9_.-]{1,96})(?:@([A-Za-z0-9_.-]{1,100}))?/(.+)")
_WORD = r"(?![.-])[A-Za-z0-9._=+*?{}-]{1,100}"
_URL = rules.matching(r"(https?|file|s3|gs|gcs)://[^\s?#@]{1,1000}", "an address such as https://host/folder/")
_TEXT: Rule = ("a text of 1 to 2000 characters", lambda value: isinstance(value, str) and 0 < len(value) <= 2000)
_SHARE: Rule = ("a number above 0 and below 1", lambda value: isinstance(value, float) and 0 < value < 1)
_TEXTS: Rule = ("a list of texts", lambda value: isinstance(value, list) and all(isinstance(v, str) for v in value))

_TOP: dict[str, Rule] = {
    "title": _TEXT,
    "licence": _TEXT,
    "about": _TEXT,
    "size": rules.POSITIVE,
    "tokens": rules.POSITIVE,
    "base": _URL,
    "hub": rules.matching(r"[A-Za-z0-9_.-]{1,96}/[A-Za-z0-9_.-]{1,96}", "OWNER/NAME of a dataset on the Hub"),
    "revision": rules.matching(r"[A-Za-z0-9_./-]{1,100}", "a branch, tag or commit"),
    "mirrors": ("a table of addresses", lambda value: isinstance(value, dict)),
    "files": ("a list of tables", lambda value: isinstance(value, list) and len(value) > 0),
    "command": _TEXTS,
    "train_characters": _SHARE,
    "build": rules.OBJECT,
}
_FILE: dict[str, Rule] = {
    "path": rules.matching(f"{_WORD}(/{_WORD}){{0,9}}", "a path inside the folder, of letters, digits and ._=+-"),
    "url": _URL,
    "size": rules.POSITIVE,
    "sha256": rules.SHA256,
    "split": rules.matching(r"[a-z][a-z0-9_]{0,30}", "a word"),
    "use": rules.matching("tokenizer", '"tokenizer"'),
}
_BUILD: dict[str, Rule] = {
    **dict.fromkeys(("tokenizer", "like", "format", "layout", "framing", "source", "text_field", "separator"), _TEXT),
    **dict.fromkeys(("name", "on_bad"), _TEXT),
    **dict.fromkeys(("val_tokens", "max_tokens", "max_document_tokens", "shard_tokens", "unit_bytes"), rules.POSITIVE),
    **dict.fromkeys(("val_fraction", "max_bad"), _SHARE),
    "filter": _TEXTS,
}
_OUT = "{out}/"
_PLACE: Rule = (
    f"{{files}}, or {_OUT} and a name behind it",
    lambda word: word == "{files}" or rules.PLAIN[1](str(word).removeprefix(_OUT)),
)


@dataclass(frozen=True, slots=True)
class RecipeFile:
    """One file, or a pattern of some in a repository of the Hub."""

    path: str
    url: str | None = None
    """Where it lies, if not below the recipe's base."""
    size: int | None = None
    sha256: str | None = None
    split: str = TRAIN
    use: str = ""
    """ "tokenizer": it is no text, but what encodes them; the build gets the first such file, others lie beside."""

    @property
    def is_pattern(self) -> bool:
        return "*" in self.path or "?" in self.path


@dataclass(frozen=True, slots=True)
class Recipe:
    """A known dataset."""

    name: str
    title: str
    licence: str
    files: tuple[RecipeFile, ...]
    about: str = ""
    """What a user should know: above all, where the result differs from somebody else's."""
    size: int | None = None
    """Bytes to download for the default split, all shards; about."""
    tokens: int | None = None
    """Ids that come out of it; about."""
    base: str = ""
    hub: str = ""
    revision: str = "main"
    mirrors: Mapping[str, str] = field(default_factory=dict)
    train_characters: float | None = None
    """The text is cut after this share of its characters: what is behind it is the validation split."""
    build: Mapping[str, Any] = field(default_factory=dict)
    """Options of the build."""
    command: tuple[str, ...] = ()
    """What makes something of the files, where that is not the build; {files} stands for them, {out} for the folder."""

    @property
    def splits(self) -> list[str]:
        """Names of the splits, the one that is taken unless another is asked for first."""
        return list(dict.fromkeys(file.split for file in self.files if not file.use))

    @property
    def becomes(self) -> str:
        """What comes out, in some words."""
        if self.command:
            return f"files for `{self.command[0]}`"
        tokenizer = "its own tokenizer" if any(file.use for file in self.files) else self.build.get("tokenizer", "gpt2")
        return f"{self.build.get('like') or self.build.get('format', 'native')}, {tokenizer}"


def recipe_names() -> list[str]:
    """The recipes of this package, sorted."""
    return sorted(name.removesuffix(".toml") for name in list_folder(FOLDER) if name.endswith(".toml"))


def read_recipe(name: str | Path) -> Recipe:
    """The recipe of that name, or in that .toml file. InputError for one that is not there, FormatError for a file that
    is no recipe."""
    if str(name).endswith(".toml"):
        path = Path(name)
    elif name in recipe_names():
        path = FOLDER / f"{name}.toml"
    else:
        known = ", ".join(recipe_names())
        raise InputError(f"recipe: got {str(name)!r}, expected one of {known}, or the path of a .toml file")
    with naming(path, "read"), path.open("rb") as file:
        data = file.read(LARGEST_RECIPE + 1)
    if len(data) > LARGEST_RECIPE:
        raise FormatError(f"{path}: got more than {LARGEST_RECIPE} bytes, expected a recipe")
    try:
        values = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: got no TOML ({error}), expected a recipe; correct it") from error
    return _recipe(path, values)


def hub_files(url: str) -> Recipe:
    """The files of a dataset on the Hub at hf://datasets/OWNER/NAME[@REVISION]/PATH, where PATH may have a *."""
    found = _HUB.fullmatch(url)
    if found is None or not _FILE["path"][1](found[3]) or "{" in found[3]:
        kind = (
            "" if url.startswith("hf://datasets/") else " (this is a model: datasets have datasets/ before the owner)"
        )
        raise InputError(f"{url}: got no address of files{kind}, expected hf://datasets/OWNER/NAME[@REVISION]/PATH")
    return Recipe("inputs", url, "", (RecipeFile(found[3]),), hub=found[1], revision=found[2] or "main")


def _recipe(path: Path, values: dict[str, Any]) -> Recipe:
    top = _checked(path, "", values, _TOP, ("title", "licence", "files"))
    name = path.name.removesuffix(".toml")
    if not rules.PLAIN[1](name):
        raise FormatError(f"{path}: name: got {name!r}, expected {rules.PLAIN[0]}; rename the file")
    files = tuple(file for row in top["files"] for file in _files(path, row))
    twice = {file.path for file in files if sum(other.path == file.path for other in files) > 1}
    if twice:
        raise FormatError(f"{path}: files.path: got {min(twice)!r} twice, expected each file once")
    for mirror, url in top.get("mirrors", {}).items():
        _check_value(path, f"mirrors.{mirror}", url, _URL)
    build = _checked(path, "build.", top.get("build", {}), _BUILD, ())
    words = tuple(top.get("command", ()))
    recipe = Recipe(**{**top, "name": name, "files": files, "build": build, "command": words})
    _check_whole(path, recipe, top)
    return recipe


def _files(path: Path, row: object) -> list[RecipeFile]:
    """A row of the list; {00..29} in its path makes a file of each number."""
    if not isinstance(row, dict):
        raise FormatError(f"{path}: files: got {type(row).__name__}, expected tables such as {{path = ...}}")
    values = _checked(path, "files.", row, _FILE, ("path",))
    word = values["path"]
    span = _SPAN.search(word)
    if span is None:
        names = [word]
    else:
        first, last = int(span[1]), int(span[2])
        if not first <= last < first + 100_000:
            raise FormatError(f"{path}: files.path: got {span[0]}, expected numbers in order, 100,000 at most")
        names = [f"{word[: span.start()]}{n:0{len(span[1])}}{word[span.end() :]}" for n in range(first, last + 1)]
    if any(mark in name for name in names for mark in "{}"):
        raise FormatError(f"{path}: files.path: got {word!r}, expected one {{00..29}} at most")
    if len(names) > 1 and values.keys() & {"size", "sha256", "url"}:
        raise FormatError(
            f"{path}: files.path: got {word!r} with size, sha256 or url, expected a single file with them"
        )
    return [RecipeFile(**{**values, "path": name}) for name in names]


def _check_whole(path: Path, recipe: Recipe, top: dict[str, Any]) -> None:
    """What no single key says."""
    if ("build" in top) == ("command" in top):
        raise FormatError(f"{path}: got {'both' if recipe.command else 'neither'} of build and command, expected one")
    if bool(recipe.base) == bool(recipe.hub) and not all(file.url for file in recipe.files):
        raise FormatError(f"{path}: got {'both' if recipe.base else 'neither'} of base and hub, expected one")
    if "revision" in top and not recipe.hub:
        raise FormatError(f"{path}: revision: got it without hub; leave it out")
    for file in recipe.files:
        if file.is_pattern and (not recipe.hub or file.url or file.size or file.sha256 or file.use):
            raise FormatError(
                f"{path}: files.path: got the pattern {file.path!r}, expected a name; only a hub can list its files"
            )
    if not recipe.splits:
        raise FormatError(f"{path}: files: got tokenizers alone, expected a text")
    if recipe.train_characters is not None and (recipe.command or len(recipe.files) != 1):
        raise FormatError(f"{path}: train_characters: expected a build of one file; leave it out")
    if recipe.command and (recipe.command.count("{files}") != 1 or "{" in recipe.command[0]):
        raise FormatError(f"{path}: command: got {list(recipe.command)}, expected a name and {{files}} once")
    for word in recipe.command:
        if "{" in word or "}" in word:
            _check_value(path, "command", word, _PLACE)


def _checked(
    path: Path, where: str, values: dict[str, Any], known: dict[str, Rule], needed: tuple[str, ...]
) -> dict[str, Any]:
    """The values, each known and by its rule."""
    for key, value in values.items():
        if key not in known:
            raise FormatError(f"{path}: {where}{key}: got an unknown key, expected some of {', '.join(sorted(known))}")
        _check_value(path, f"{where}{key}", value, known[key])
    for key in needed:
        if key not in values:
            raise FormatError(f"{path}: {where}{key}: got none, expected {known[key][0]}")
    return values


def _check_value(path: Path, key: str, value: object, rule: Rule) -> None:
    if not rule[1](value):
        raise FormatError(f"{path}: {key}: got {repr(value)[:200]}, expected {rule[0]}")
