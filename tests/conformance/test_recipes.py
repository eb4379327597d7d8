"""What holds for every recipe: a new file in recipes/ is tested by being there."""

import inspect
from dataclasses import replace
from pathlib import Path

import pytest

from tokenriver import buildplan, recipe, registry
from tokenriver.build import build
from tokenriver.filtering import parse_filters
from tokenriver.getting import _downloads, _where
from tokenriver.recipe import FOLDER, read_recipe, recipe_names
from tokenriver.wire import Access

every = pytest.mark.parametrize("name", recipe_names())
WANTED = {
    *(
        "alpaca",
        "dolly",
        "fineweb",
        "fineweb-100bt",
        "fineweb-edu",
        "fineweb-edu-100bt",
        "gsm8k",
        "hellaswag",
        "hh-rlhf",
    ),
    *("minimind", "mmlu", "openwebtext", "pile-uncopyrighted", "redpajama-sample", "shakespeare", "shakespeare_char"),
    *("tinyshakespeare", "tinystories", "ultrafeedback"),
}
COMMANDS = {"sft", "preference", "rl", "choice"}


def test_the_datasets_that_everybody_asks_for_are_there() -> None:
    assert set(recipe_names()) >= WANTED
    assert {path.suffix for path in FOLDER.iterdir() if path.is_file()} <= {".toml", ".py"}


@every
def test_it_is_complete(name: str) -> None:
    found = read_recipe(name)
    assert found.name == name
    assert len(found.title) <= 80
    assert found.size is not None
    assert found.splits
    assert bool(found.build) != bool(found.command)
    assert not found.command or found.command[0] in COMMANDS
    assert len((FOLDER / f"{name}.toml").read_text().splitlines()) <= 30


@every
def test_its_options_are_those_of_the_build(name: str) -> None:
    found = read_recipe(name)
    options = dict(found.build)
    assert options.keys() <= inspect.signature(build).parameters.keys()
    assert set(recipe._BUILD) <= inspect.signature(build).parameters.keys()
    preset = buildplan.preset(options.get("like"))
    registry.load("formats", options.get("format") or preset.get("format", "native"))
    parse_filters(options.get("filter", ()), options.get("max_document_tokens"))
    buildplan.source_options(options.get("text_field", "text"), options.get("separator"))


@every
def test_each_split_has_files_that_are_reached_over_https(name: str, tmp_path: Path) -> None:
    found = read_recipe(name)
    for split in found.splits:
        rows = tuple(file for file in found.files if not file.is_pattern)
        plain = replace(found, files=rows) if rows and split in {file.split for file in rows} else None
        if plain is None:
            continue
        for wanted, _ in _downloads(plain, split, tmp_path, _where(plain, None, Access())):
            assert wanted.url.startswith("https://")
            assert wanted.path.is_relative_to(tmp_path)
            assert "/resolve/" not in wanted.url or "/datasets/" in wanted.url
    for mirror in found.mirrors.values():
        assert mirror.startswith("https://")
        assert "/datasets/" in mirror
