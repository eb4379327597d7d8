"""The public names are there, sorted, and stay what they are; importing the package loads nothing."""

import importlib
import subprocess
import sys
from types import ModuleType

import pytest

import tokenriver


def _modules_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sorted(sys.modules))"
    return set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        .stdout.splitlines()[-1]
        .split()
    )


def test_all_is_sorted_and_every_name_is_there() -> None:
    constants = [name for name in tokenriver.__all__ if name.isupper()]
    assert tokenriver.__all__ == constants + sorted(set(tokenriver.__all__) - set(constants), key=_upper_first)
    for name in tokenriver.__all__:
        assert not isinstance(getattr(tokenriver, name), ModuleType)


def _upper_first(name: str) -> tuple[bool, str]:
    return name.islower() or "_" in name, name


@pytest.mark.parametrize("name", ["build", "leaks", "validation", "verify"])
def test_a_function_is_not_hidden_by_the_module_of_its_name(name: str) -> None:
    module = importlib.import_module(f"tokenriver.{name}")
    assert getattr(tokenriver, name) is getattr(module, name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'bulid'"):
        importlib.import_module("tokenriver").__getattribute__("bulid")


def test_importing_the_package_loads_no_dependency() -> None:
    extra = _modules_after("import tokenriver") - _modules_after("import numpy")
    assert {name for name in extra if not name.startswith("tokenriver")} == set()


def test_public_functions_load_no_heavy_package() -> None:
    loaded = _modules_after("import tokenriver as tr; tr.build, tr.open_corpus, tr.Loader, tr.verify")
    assert loaded.isdisjoint({"awkward", "gigatoken", "tiktoken", "torch", "pyarrow", "tokenizers", "typer", "rich"})
    assert "numpy" in loaded


def test_help_needs_no_numpy() -> None:
    loaded = _modules_after("import tokenriver.cli as c\ntry: c.main(['--help'])\nexcept SystemExit: pass")
    assert "typer" in loaded
    assert "numpy" not in loaded
