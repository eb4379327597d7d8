"""Who does the work of one build: this process or a pool of workers, and beside them the gate.

The gate compares the fast encoder with the reference library on built-in hostile texts and on some of the build's own
documents, in a thread of its own, and the first difference stops the build.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from tokenriver.engines._unit import Outcome, Sample, Unreadable
from tokenriver.engines.local import Pool, TokenizerName, run_here
from tokenriver.feeding import Feeder
from tokenriver.inputs import InputFile
from tokenriver.parts import Receipt
from tokenriver.tokenizer import load_tokenizer

SMALL_INPUT = 64 << 20
"""Inputs of less text than this are built in the calling process: workers would cost more than they save."""
TEXT_PER_STORED_BYTE = 4
"""Of a compressed input, for that decision alone."""

OnReceipt = Callable[[Receipt], None]


class Crew:
    """Workers, tokenizer and gate of one build; a context manager, since it owns processes and a thread.

    `workers` is the number of worker processes; 0 does the units in the calling process."""

    def __init__(self, name: TokenizerName, workers: int, *, check: bool) -> None:
        self._pool = Pool(workers, name) if workers else None
        self._gate = ThreadPoolExecutor(1)
        self._checks: list[Future[object]] = []
        self.checked_bytes = 0
        try:
            self.tokenizer = load_tokenizer(name.name, search=[Path(p) for p in name.search], encoder=name.encoder)
            self._check = check and self.tokenizer.encoder == "fast"
            if self._check:
                self._checks.append(self._gate.submit(self.tokenizer.self_check))
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise

    def run(self, feeder: Feeder, seen: OnReceipt) -> None:
        """Do all units of the feeder, then wait for the gate; `seen` is called with each receipt as it arrives."""

        def finished(outcome: Outcome) -> None:
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

    def _compare(self, sample: Sample) -> None:
        if self._check and sample.texts:
            self.checked_bytes += sum(map(len, sample.texts))
            ids = sample.ids.astype("uint32")
            self._checks.append(self._gate.submit(self.tokenizer.check, sample.texts, ids, sample.lengths))

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
