"""A small corpus for the commands to look at."""

import json
from pathlib import Path

import pytest

import tokenriver


def write_rows(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def small_input(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = [f"document {n}\nhas \x1b[31m{'x' * (n % 7)} two lines" for n in range(200)]
    return write_rows(tmp_path_factory.mktemp("input") / "small.jsonl", texts)


@pytest.fixture(scope="session")
def small_corpus(small_input: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built") / "corpus"
    tokenriver.build(small_input, out, tokenizer="byte", val_fraction=0.2)
    return out
