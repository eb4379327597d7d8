"""A known dataset from its recipe to a corpus: list its files, fetch them, cut them if they are to be cut, build.

What is fetched stays in a cache folder, below a name made of the recipe's and of where the files come from; so a rerun
after any interruption goes on, and the paths that the corpus records are the same on every machine.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tokenriver import registry, rules
from tokenriver.build import BuildReport, build
from tokenriver.downloading import DownloadReport, Note, Progress, Sleep, fetch
from tokenriver.errors import FormatError, InputError
from tokenriver.files import make_folder, naming, write_atomic
from tokenriver.recipe import TRAIN, Recipe, RecipeFile, hub_files, read_recipe
from tokenriver.wire import Access, Download, scheme, shown

LIST = ".files.json"
"""The hub's list of files as it was when a download began: what a rerun keeps to."""
HUB = "datasets"
_ROWS: rules.Table = {"path": rules.INSIDE, "size": rules.or_none(rules.COUNT), "sha256": rules.or_none(rules.SHA256)}


@dataclass(frozen=True, slots=True)
class GetReport:
    """What was fetched and made; `as_dict` is what --json prints."""

    recipe: Recipe
    split: str
    files: tuple[Path, ...]
    """The texts, as they were fetched."""
    download: DownloadReport
    build: BuildReport | None
    """None where a command of the recipe makes something of the files."""
    command: tuple[str, ...]
    """That command, as words; empty where the build was it."""

    def as_dict(self) -> dict[str, Any]:
        fetched = self.download
        return {
            "recipe": self.recipe.name,
            "split": self.split,
            "files": [str(path) for path in self.files],
            "fetched_files": fetched.fetched_files,
            "fetched_bytes": fetched.fetched_bytes,
            "tries_again": fetched.tries_again,
            "build": self.build.as_dict() if self.build is not None else None,
            "command": list(self.command),
        }


def get(
    recipe: str | Path | Recipe,
    out: str | Path | None = None,
    *,
    cache_dir: str | Path,
    sleep: Sleep,
    access: Access | None = None,
    base_url: str | None = None,
    shards: int | None = None,
    split: str | None = None,
    workers: int | None = None,
    search: Sequence[str | Path] = (),
    progress: Progress | None = None,
    building: Progress | None = None,
    note: Note | None = None,
) -> GetReport:
    """Fetch the files of a recipe (a name of `recipe_names()`, or a .toml file) and build the corpus `out` of them
    (./NAME, with a split other than the first ./NAME-SPLIT); files for another command go to `out` itself.

    `base_url`: a mirror to fetch from, by address or by its name in the recipe; `shards`: the first files alone;
    `sleep(seconds)`: waits between tries; `progress` and `building` get (done, total) in bytes. Raises RiverError's
    children; what is unfinished stays resumable."""
    found = recipe if isinstance(recipe, Recipe) else read_recipe(recipe)
    reach = access or Access()
    part = split or found.splits[0]
    folder = Path(out) if out is not None else Path(found.name if part == found.splits[0] else f"{found.name}-{part}")
    place = folder if found.command else Path(cache_dir) / _place(found, base_url, reach)
    wanted = _downloads(found, part, place, _where(found, base_url, reach))
    texts = [item for item, use in wanted if not use][: _shards(shards)]
    tools = [item for item, use in wanted if use]
    report = fetch([*texts, *tools], access=reach, sleep=sleep, progress=progress, note=note)
    paths = tuple(item.path for item in texts)
    if found.command:
        return GetReport(found, part, paths, report, None, _command(found, paths, folder))
    inputs, options = list(paths), dict(found.build)
    if found.train_characters is not None:
        inputs = _cut(paths[0], found.train_characters)
        options["val_tokens"] = 1  # the leading document, whole: the one behind the cut
    if tools:
        options["tokenizer"] = tools[0].path
    made = build(inputs, folder, workers=workers, search=search, progress=building, **options)
    return GetReport(found, part, paths, report, made, ())


@dataclass(frozen=True, slots=True)
class _Where:
    """Where the files of a recipe come from."""

    base: str
    """An address that ends in /; "" for a hub."""
    access: Access
    """Of the hub."""


def _where(recipe: Recipe, base_url: str | None, access: Access) -> _Where:
    base = recipe.mirrors.get(base_url, base_url) if base_url is not None else None
    if base is not None and not scheme(base):
        known = f"one of {', '.join(recipe.mirrors)} or " if recipe.mirrors else ""
        raise InputError(f"base_url: got {base_url!r}, expected {known}an address such as https://host/folder")
    if recipe.hub and base is not None and base_url not in recipe.mirrors:
        # a mirror of the whole hub; whoever runs it is not told the token
        return _Where("", replace(access, endpoint=base.rstrip("/"), token=None))
    if recipe.hub and base is None:
        return _Where("", replace(access, endpoint=access.endpoint.rstrip("/")))
    return _Where((base or recipe.base).rstrip("/") + "/", replace(access, token=None))


def _place(recipe: Recipe, base_url: str | None, access: Access) -> str:
    """Name of a recipe's folder in the cache: files from elsewhere lie elsewhere."""
    where = _where(recipe, base_url, access)
    source = f"{where.access.endpoint}/{recipe.hub}@{recipe.revision}" if not where.base else where.base
    return f"{recipe.name}-{hashlib.sha256(source.encode()).hexdigest()[:12]}"


def _shards(count: int | None) -> int | None:
    if count is not None and count < 1:
        raise InputError(f"shards: got {count}, expected at least 1")
    return count


def _downloads(recipe: Recipe, split: str, place: Path, where: _Where) -> list[tuple[Download, str]]:
    """(what to fetch, what it is used for) of one split, patterns resolved."""
    if split not in recipe.splits:
        raise InputError(f"split: got {split!r}, expected one of {', '.join(recipe.splits)}")
    rows = [file for file in recipe.files if file.use or file.split == split]
    if any(file.is_pattern for file in rows):
        rows = _resolved(recipe, rows, place, where)
    return [(_download(recipe, file, place, where), file.use) for file in rows]


def _download(recipe: Recipe, file: RecipeFile, place: Path, where: _Where) -> Download:
    if file.url is not None:
        url, token = file.url, None
    elif where.base:
        url, token = where.base + file.path, None
    else:
        url = f"{where.access.endpoint}/{HUB}/{recipe.hub}/resolve/{recipe.revision}/{file.path}"
        token = where.access.token
    return Download(url, place / file.path, file.size, file.sha256, token)


def _resolved(recipe: Recipe, rows: list[RecipeFile], place: Path, where: _Where) -> list[RecipeFile]:
    """Patterns replaced by the files that match; the list is kept, so that a rerun has the same."""
    if where.base:
        raise InputError(
            f"base_url: got {shown(where.base)!r} for {recipe.name!r}, whose files only a hub can list; give the "
            "address of a mirror of the hub"
        )
    known = _read_list(place / LIST)
    out: list[RecipeFile] = []
    for file in rows:
        if not file.is_pattern:
            out.append(file)
            continue
        if file.path not in known:
            list_files = registry.load("remotes", "hub").list_files
            listed = list_files(recipe.hub, recipe.revision, file.path, where.access)
            known[file.path] = [{"path": path, "size": size, "sha256": sha256} for path, size, sha256 in listed]
            for row in known[file.path]:
                _check_row(place / LIST, row)
            make_folder(place)
            write_atomic(place / LIST, json.dumps(known, indent=1).encode())
        out.extend(replace(file, **row) for row in known[file.path])
    return out


def _read_list(path: Path) -> dict[str, list[dict[str, Any]]]:
    if not path.exists():
        return {}
    with naming(path, "read"):
        data = path.read_bytes()
    try:
        lists = json.loads(data)
    except ValueError as error:
        raise FormatError(f"{path}: got no JSON ({error}), expected lists of files; remove it and run again") from error
    if not isinstance(lists, dict) or not all(isinstance(rows, list) for rows in lists.values()):
        raise FormatError(f"{path}: got something else than lists of files; remove it and run again")
    for pattern, rows in lists.items():
        for row in rows:
            _check_row(path, row)
            if not fnmatchcase(row["path"], pattern):
                raise FormatError(f"{path}: got {row['path']!r} for {pattern!r}; remove it and run again")
    return lists


def _check_row(path: Path, row: dict[str, Any]) -> None:
    """A name that a server gave never leads out of the folder."""
    rules.check(path, "file", row, _ROWS)
    if any(word.startswith(".") for word in row["path"].split("/")):
        raise FormatError(f"{path}: file.path: got {row['path']!r}, expected no hidden file")


def _command(recipe: Recipe, paths: Sequence[Path], out: Path) -> tuple[str, ...]:
    words: list[str] = ["tokenriver"]
    for word in recipe.command:
        words += [str(path) for path in paths] if word == "{files}" else [word.replace("{out}", str(out))]
    return tuple(words)


def _cut(path: Path, share: float) -> list[Path]:
    """The text in two files: what is behind `share` of its characters, and what is before."""
    with naming(path, "read"):
        data = path.read_bytes()
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start}: got no UTF-8, expected a text; fetch it again") from error
    at = int(len(text) * share)
    if not 0 < at < len(text):
        raise InputError(f"{path}: got {len(text)} characters, expected enough to cut them in two")
    folder = path.with_name(f"{path.name}-cut")
    make_folder(folder)
    halves = {folder / "val.txt": text[at:], folder / "train.txt": text[:at]}
    for half, words in halves.items():
        if not half.is_file() or half.read_bytes() != words.encode():
            write_atomic(half, words.encode())
    return list(halves)


def fetch_inputs(
    inputs: Sequence[str], cache_dir: str | Path, access: Access, fetcher: Callable[[list[Download]], DownloadReport]
) -> list[str]:
    """Inputs of a build, each address replaced by the files that it was fetched to."""
    wanted = {word: _input(word, Path(cache_dir) / "inputs", access) for word in inputs if scheme(word)}
    if wanted:
        fetcher([item for found in wanted.values() for item in found])
    return [path for word in inputs for path in ([str(item.path) for item in wanted[word]] if scheme(word) else [word])]


def _input(url: str, folder: Path, access: Access) -> list[Download]:
    """One folder an address, its name from the address alone, so that corpora do not depend on the cache's place."""
    place = folder / hashlib.sha256(url.encode()).hexdigest()[:12]
    if scheme(url) == "hf":
        recipe = hub_files(url)
        return [item for item, _ in _downloads(recipe, TRAIN, place, _where(recipe, None, access))]
    name = shown(url).rpartition("/")[2]
    if not rules.PLAIN[1](name):
        raise InputError(f"{shown(url)}: name: got {name!r}, expected {rules.PLAIN[0]}; download it under such a name")
    return [Download(url, place / name)]
