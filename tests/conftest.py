"""What every test gets: hypothesis that repeats itself, a process that no test has left changed, and a first line that
names what is not installed here."""

import ast
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from small_builds import QuickDisk
from tokenriver import files

settings.register_profile(
    "tokenriver", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tokenriver")

# only `make test-all` installs these; a test file that imports one at its top cannot even be collected without it
ABSENT = [name for name in ("torch", "torchdata", "datasets", "transformers") if importlib.util.find_spec(name) is None]


def pytest_report_header() -> str:
    return f"not installed, so their files are left out: {', '.join(ABSENT)} (make test-all has them)" if ABSENT else ""


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    if not ABSENT or collection_path.suffix != ".py":
        return None
    tops: set[str] = set()
    for node in ast.parse(collection_path.read_bytes()).body:
        if isinstance(node, ast.Import):
            tops.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            tops.add((node.module or "").partition(".")[0])
            tops.update({"torch"} if node.module == "tokenriver.adapters" else ())
            tops.update({"torch"} if node.module == "tokenriver.adapters.torch" else ())
    return True if tops & set(ABSENT) else None


LONGEST = ("somewhere_at_length", "a_second_fault_during_the_rerun", "tests/trained/", "twenty_five_kills")
"""In names of tests of many seconds each."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests first, so that in the end the short ones are shared out and no process waits for another."""
    items.sort(key=lambda item: next((i for i, name in enumerate(LONGEST) if name in item.nodeid), len(LONGEST)))


@pytest.fixture(autouse=True)
def _clean_process() -> Iterator[None]:
    """A test that changes the working folder or the environment, and leaves it so, fails at once."""
    before = os.getcwd(), {**os.environ, "PYTEST_CURRENT_TEST": ""}
    yield
    assert (os.getcwd(), {**os.environ, "PYTEST_CURRENT_TEST": ""}) == before


@pytest.fixture
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that never waits: what a test is not about costs nothing."""
    monkeypatch.setattr(files, "system", QuickDisk())


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory, where there is one: thousands of small files are made and removed."""
    shared = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=shared if shared.is_dir() else None))
    yield folder
    shutil.rmtree(folder)
