"""How commands fetch: retries are told on standard error, waits are real."""

import sys
import time
from collections.abc import Sequence
from functools import partial

from tokenriver import downloading, getting
from tokenriver.commands import _environment, _output
from tokenriver.downloading import DownloadReport
from tokenriver.wire import Download


def note(text: str) -> None:
    """One line about a new try."""
    print(f"note: {text}", file=sys.stderr)


def local(inputs: Sequence[str]) -> list[str]:
    """Inputs of a build, addresses replaced by files in the cache, fetched now if they are not there."""
    return getting.fetch_inputs(inputs, _environment.cache_folder(), _environment.access(), _fetch)


def _fetch(downloads: list[Download]) -> DownloadReport:
    with _output.progress("fetching") as report:
        reach = partial(downloading.fetch, access=_environment.access(), sleep=time.sleep)
        return reach(downloads, progress=report, note=note)
