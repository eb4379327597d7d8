"""Download a known dataset and build it; --list names them all."""

import shlex
import time
from pathlib import Path
from typing import Annotated

import typer

from tokenriver import getting, recipe
from tokenriver.commands import _environment, _fetch, _output, _report
from tokenriver.commands import _options as option

Name = Annotated[
    str | None, typer.Argument(metavar="RECIPE", help="A name of --list, or a .toml file.", show_default=False)
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", metavar="DIR", help="Folder to write (default: the recipe's name).", show_default=False
    ),
]
BaseUrl = Annotated[
    str | None, typer.Option("--base-url", metavar="URL", help="A mirror, by address or by its name in the recipe.")
]
Shards = Annotated[int | None, typer.Option("--shards", metavar="N", help="Only the first N files.")]
Split = Annotated[str | None, typer.Option("--split", metavar="S", help="Which split (default: the recipe's first).")]
CacheDir = Annotated[
    Path | None,
    typer.Option(
        "--cache-dir", metavar="D", help="Where downloads are kept (default: TOKENRIVER_CACHE).", show_default=False
    ),
]
List = Annotated[bool, typer.Option("--list", help="Show the known datasets.")]


def run(
    name: Name = None,
    out: Out = None,
    base_url: BaseUrl = None,
    shards: Shards = None,
    split: Split = None,
    cache_dir: CacheDir = None,
    workers: option.Workers = None,
    list_all: List = False,
    json: option.Json = False,
) -> None:
    """Download a known dataset and build it; --list names them all.

    Files are fetched side by side, each resumed where it stopped, and checked;
    then they are built as the recipe says, or the command that makes something
    of them is named. After any interruption run the same command again.

    Example:  tokenriver get tinyshakespeare -o tiny
    """
    if list_all:
        _list(json)
        return
    if name is None:
        raise typer.BadParameter("got no RECIPE, expected a name of --list or a .toml file")
    begin = time.perf_counter()
    asked = recipe.read_recipe(name)
    with _output.progress(f"getting {asked.name}") as report:
        found = getting.get(
            asked,
            out,
            cache_dir=_environment.cache_folder(cache_dir),
            sleep=time.sleep,
            access=_environment.access(),
            base_url=base_url,
            shards=shards,
            split=split,
            workers=workers,
            search=_environment.tokenizer_folders(),
            progress=report,
            building=report,
            note=_fetch.note,
        )
    if json:
        _output.emit_json(found.as_dict())
        return
    _output.heading(f"{asked.name}: {asked.title}")
    taken = f"{found.download.fetched_files:,} of {len(found.files):,} files"
    print(f"  {taken} fetched now, {_output.size(found.download.fetched_bytes)}; licence: {asked.licence}")
    if found.build is not None:
        print(f"  {found.build.path}")
        _report.built(found.build.as_dict(), time.perf_counter() - begin)
    else:
        print(f"  now run:  {shlex.join(found.command)}")


def _list(json: bool) -> None:
    known = [recipe.read_recipe(name) for name in recipe.recipe_names()]
    if json:
        rows = [
            {
                "name": found.name,
                "title": found.title,
                "size": found.size,
                "tokens": found.tokens,
                "licence": found.licence,
                "becomes": found.becomes,
                "splits": found.splits,
                "mirrors": dict(found.mirrors),
                "about": found.about,
            }
            for found in known
        ]
        _output.emit_json({"recipes": rows})
        return
    table = [
        [f.name, _output.size(f.size) if f.size else "-", f.tokens or "-", f.licence, f.becomes, f.title] for f in known
    ]
    _output.columns(["name", "size", "tokens", "licence", "becomes", "what it is"], table)
