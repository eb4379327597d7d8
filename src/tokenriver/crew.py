"""Who does the work of one build: this process or a pool of workers, and beside them the gate.

The gate compares the fast encoder with the reference library on built-in hostile texts and on some of the build's own
documents, beside the units, and the first difference stops the build.
"""

import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from tokenriver.defaults import SMALL_INPUT
from tokenriver.engines._sampling import Sample
from tokenriver.engines._unit import Outcome, Unreadable
from tokenriver.engines.local import Pool, run_here
from tokenriver.engines.nursery import Nursery, TokenizerName
from tokenriver.feeding import Feeder
from tokenriver.inputs import InputFile
from tokenriver.parts import Receipt
from tokenriver.tokenizer import load_tokenizer

TEXT_PER_STORED_BYTE = 4
"""Of a compressed input, for that decision alone."""

OnReceipt = Callable[[Receipt], None]


class Crew:
    """Workers, tokenizer and gate of one build; a context manager, since it owns processes and a thread.

    Without a nursery the units are done in the calling process. With one this process encodes nothing: its tokenizer
    is the reference one, which loads least, and hostile texts and samples are compared in a process of their own."""

    def __init__(self, name: TokenizerName, nursery: Nursery | None, *, check: bool) -> None:
        self._pool = Pool(nursery) if nursery is not None else None
        self._gate = ThreadPoolExecutor(1)
        self._checks: list[Future[object]] = []
        self._check = check
        self._warned = False
        self.checked_bytes = 0
        try:
            encoder = name.encoder if self._pool is None else "reference"
            self.tokenizer = load_tokenizer(name.name, search=[Path(p) for p in name.search], encoder=encoder)
            if self._check and self._pool is not None:
                self._checks.append(self._gate.submit(self._pool.gate.self_check))
            elif self._check and self.tokenizer.encoder == "fast":
                self._checks.append(self._gate.submit(self.tokenizer.self_check))
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise

    @property
    def encoder(self) -> str:
        """ "fast" or "reference": what the units are encoded with."""
        found = self._pool.born().encoder if self._pool is not None else None
        return found or self.tokenizer.encoder

    def run(self, feeder: Feeder, seen: OnReceipt) -> None:
        """Do all units of the feeder, then wait for the gate; `seen` is called with each receipt as it arrives."""

        def finished(outcome: Outcome) -> None:
            self._warn()
            if isinstance(outcome, Unreadable):
                feeder.fail(outcome)
                return
            feeder.receipts[outcome.receipt.key] = outcome.receipt
            seen(outcome.receipt)
            self._compare(outcome.sample)
            self._raise_checks(wait=False)

        if self._pool is None:
            self._raise_checks(wait=True)  # the native encoder serves one thread at a time
            run_here(feeder.jobs(), feeder.work, self.tokenizer, finished)
        else:
            self._pool.run(feeder.jobs(), feeder.work, finished)
        self._raise_checks(wait=True)
        if self._pool is not None:
            self._pool.dismiss()

    def _warn(self) -> None:
        """Pass on what the workers were warned of when they loaded the tokenizer."""
        if self._pool is not None and not self._warned:
            self._warned = True
            for text in self._pool.born().warnings:
                warnings.warn(text, stacklevel=2)

    def _compare(self, sample: Sample) -> None:
        if self._check and sample.texts and self.encoder == "fast":
            self.checked_bytes += sum(map(len, sample.texts))
            self._checks.append(self._gate.submit(self._compared, sample))

    def _compared(self, sample: Sample) -> None:
        if self._pool is not None:
            self._pool.gate.check(sample)
        else:
            self.tokenizer.check(sample.texts, sample.ids.astype(np.uint32), sample.lengths)

    def _raise_checks(self, *, wait: bool) -> None:
        for check in list(self._checks):
            if wait or check.done():
                check.result()
                self._checks.remove(check)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.__exit__(kind, error, trace)
        self._gate.shutdown(cancel_futures=True)


def choose_workers(asked: int | None, files: Sequence[InputFile], cores: int) -> int:
    """Worker processes for these inputs: what was asked for, none for small inputs, else one a core."""
    if asked is not None:
        return asked
    text = sum(file.size * (TEXT_PER_STORED_BYTE if file.compression else 1) for file in files)
    return 0 if text < SMALL_INPUT else cores


def open_nursery(asked: int | Nursery | None, name: TokenizerName, files: Sequence[InputFile]) -> Nursery | None:
    """The nursery that was asked for, or a new one if these inputs are worth it."""
    if isinstance(asked, Nursery) and asked.name is None:
        asked.call(name)
    if isinstance(asked, Nursery) and asked.name == name:
        return asked
    wanted = asked.count if isinstance(asked, Nursery) else asked
    count = choose_workers(wanted, files, os.cpu_count() or 1)
    return Nursery(count, name) if count else None
