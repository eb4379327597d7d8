"""The one object with state: a corpus in, batches of one rank out, for a run that may stop and go on anywhere.

    loader = Loader(corpus, seq_len=1024, global_batch=512, micro_batch=32, seed=1, rank=0, world_size=8)
    for batch in loader:
        ...                                      # batch.input_ids, batch.targets: (32, 1024) int64
    loader.load_state_dict(batch.state)          # in another process, on any rank of any world size

A loop goes on where the loader stands and ends where the run ends. Looping again over a run that a loop has ended
serves the run's length once more, with the epochs that follow: in file order those are the same rows, so that one
loader does for every validation pass.
"""

import warnings
from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from tokenriver.ahead import run_ahead
from tokenriver.batch import Batch, Ring, serve, single
from tokenriver.course import LARGEST, PARTS, Course, read_state, tag
from tokenriver.errors import InputError, LimitError, MismatchError
from tokenriver.layout import lay_out, only_for, whole
from tokenriver.ledger import Ledger
from tokenriver.mixing import Mixture
from tokenriver.runlog import RunLog, Start, append_to_log
from tokenriver.sampler import check_rank
from tokenriver.trace import Origin, Trail
from tokenriver.types import Int64, River


class Loader:
    """Iterating yields Batch after Batch of micro_batch rows and seq_len positions."""

    trail: Trail
    """From many rows to their documents and back."""
    _course: Course
    _stop: int | None
    """Micro-batches of the course; None for an endless run."""
    _next: int
    """The micro-batch that comes next."""
    _ended: bool
    """Has a loop reached the end?"""
    _turn: object
    """Whose turn it is: the last loop's."""

    def __init__(
        self,
        corpus: River | Mixture,
        *,
        seq_len: int,
        global_batch: int,
        micro_batch: int | None = None,
        packing: str = "concat",
        overflow: str = "split",
        phase_shift: bool = False,
        stride: int | None = None,
        order: str = "shuffled",
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        epochs: int | None = 1,
        steps: int | None = None,
        prefetch: int = 2,
        repeat_batch: int | None = None,
        ledger: str | Path | None = None,
    ) -> None:
        """A step is global_batch rows over world_size ranks, each rank's in micro-batches (None: one a step). The run
        is `epochs` long (None: endless), or exactly `steps` steps if that is given, whatever the epochs. `prefetch`
        batches are made ahead by a thread (0: none). `repeat_batch` serves that step's rows at every step. `ledger`, a
        folder, gets sums of what each step of a loop served (docs/trace.md). Raises InputError for an option that makes
        no sense and LimitError, naming N, for too few rows."""
        rank, world_size = check_rank(rank, world_size)
        for name, value in (("seq_len", seq_len), ("global_batch", global_batch)):
            whole(name, value, 1)
        for name, given in (("micro_batch", micro_batch), ("epochs", epochs), ("steps", steps)):
            whole(name, 1 if given is None else given, 1)
        for name, given in (("prefetch", prefetch), ("repeat_batch", repeat_batch)):
            whole(name, 0 if given is None else given, 0)
        whole("seed", seed, -LARGEST)
        options: dict[str, Any] = {"overflow": overflow, "phase_shift": phase_shift, "seed": int(seed)}
        if stride is not None:
            only_for("stride", packing, "sliding")
            options["stride"] = int(stride)
        river, rows, sampler = lay_out(corpus, (packing, int(seq_len), options), order, int(global_batch))
        if not sampler.num_rows and steps is None and epochs is not None:
            raise InputError("epochs: got a mixture that repeats its sources for ever; give steps, or epochs=None")
        if repeat_batch is not None and steps is None and epochs is not None:
            # row numbers stand still in such a run, so its length is counted in steps
            steps = epochs * -(-sampler.num_rows // sampler.global_batch)
        self.trail = Trail(corpus, river, rows, sampler)
        self._epochs, self._steps, self._prefetch = epochs, steps, int(prefetch)
        mixture = corpus.tag if isinstance(corpus, Mixture) else ""
        self._names = (corpus.fingerprint, order, rows.tag, mixture, str(int(seed)))
        self._course = Course(
            river,
            rows,
            sampler,
            rank,
            world_size,
            -(-sampler.global_batch // world_size) if micro_batch is None else int(micro_batch),
            repeat=None if repeat_batch is None else int(repeat_batch) * sampler.global_batch,
            plan=(tag(corpus.fingerprint, 8), *(tag(name, 4) for name in self._names[1:])),
        )
        self._ledger = None if ledger is None else Ledger(Path(ledger), rows.seq_len, rank, world_size)
        self._stand(0, 0)

    def __repr__(self) -> str:
        course = self._course
        return (
            f"<Loader {course.packing.tag}, {course.sampler.order}, rank {course.rank} of {course.world_size}: "
            f"{self.num_rows:,} rows an epoch, {self.num_steps if self.num_steps is not None else 'endless'} steps>"
        )

    # ------------------------------------------------------------------------------------------ sizes

    @property
    def num_rows(self) -> int:
        """N: rows of one epoch, over all ranks; of a mixture that repeats its sources, all their rows."""
        return self._course.sampler.num_rows or len(self._course.packing)

    @property
    def steps_per_epoch(self) -> int:
        """Steps that serve one epoch, the last one filled up: ceil(N / global_batch)."""
        return -(-self.num_rows // self._course.sampler.global_batch)

    @property
    def micros_per_step(self) -> int:
        """Micro-batches of one step, the same on all ranks: ceil(ceil(global_batch / world_size) / micro_batch)."""
        return self._course.micros

    @property
    def num_steps(self) -> int | None:
        """The step at which this run ends, counted from 0; None for an endless run."""
        return None if self._stop is None else self._course.step + self._stop // self._course.micros

    @property
    def balance(self) -> Mapping[str, int]:
        """Ids of one epoch by fate; river = served + unused."""
        return self._course.packing.balance

    # ---------------------------------------------------------------------------------------- batches

    def __iter__(self) -> Iterator[Batch]:
        """Batches from where the loader stands to the end of the run; the loader stands behind each as it is given
        out. A loop left early may be taken up by another; the older one may then not be used any more."""
        if self._ended:
            state = self.state_dict()
            self._stand(state["row"], state["step"], again=True)
        turn = self._turn = object()
        batches = self._serve(self._next, 1)
        with closing(run_ahead(batches, self._prefetch) if self._prefetch else batches) as source:
            for batch in source:
                if self._turn is not turn:
                    raise InputError("loader: got another loop or state since this loop began; make a new iterator")
                self._next += 1
                if self._ledger is not None:
                    self._ledger.take(batch, self._course.micros)
                yield batch
        self._ended = True

    def strided(self, first: int, stride: int) -> Iterator[Batch]:
        """Every stride-th micro-batch, beginning with the first-th, from the state (the start of the unfinished step)
        to the end of the run; the loader does not move. So the workers of one rank divide its batches."""
        micros = self._course.micros
        if self._ledger is not None:
            raise InputError(
                "ledger: got one for batches that workers divide, expected the loader's own loop; leave it out"
            )
        return self._serve(self._next // micros * micros + first, stride)

    def _serve(self, first: int, stride: int) -> Generator[Batch, None, None]:
        course = self._course
        ring = Ring((course.micro_batch, course.packing.seq_len + 1), 2 * (self._prefetch + 3))
        return serve(course, first, stride, self._stop, ring)

    def batch(self, step: int, micro: int = 0) -> Batch:
        """Micro-batch `micro` of any step, at once, in fresh buffers; the loader does not move."""
        course, last = self._course, self.num_steps
        whole("step", step, 0)
        if last is not None and step >= last:
            raise LimitError(
                f"step: got {step}, expected 0 to {last - 1}, the last step of this run; give epochs or steps"
            )
        if not 0 <= micro < course.micros:
            raise LimitError(f"micro: got {micro}, expected 0 to {course.micros - 1}, the micro-batches of a step")
        if step < course.step:
            batch = course.sampler.global_batch
            if course.row != course.step * batch:
                raise InputError(
                    f"step: got {step}, expected {course.step} or more; the loaded state took {course.row} rows in "
                    f"{course.step} steps, so earlier steps had other batch sizes: use a loader without the state"
                )
            course = replace(course, row=step * batch, step=step)
        return single(course, (step - course.step) * course.micros + micro)

    # ------------------------------------------------------------------------------------------ trace

    def trace(self, row_number: int) -> list[Origin]:
        """The documents that a row of the run shows, in order, and where it cuts them; `trail.shown` takes many rows.
        LimitError for a row outside the run, FormatError for a corpus without document bounds."""
        whole("row_number", row_number, 0)
        return self.trail.origins(int(row_number), self._rows)

    def when(self, document: int, *, source: str | None = None, stop: int | None = None) -> Int64:
        """(k,) int64, ascending: all row numbers of the run (below `stop`, if given) that show a document, by its
        number in the corpus; in a mixture the number in all sources, or in `source`. `trail.rows` takes many."""
        for name, value in (("document", document), ("stop", 0 if stop is None else stop)):
            whole(name, value, 0)
        return self.trail.when(int(document), source, self._rows, stop)

    @property
    def places(self) -> RunLog:
        """From row numbers to (step, rank, index) and back, with this loader's batch and world size; behind a state
        that was taken with another batch size it begins at the state's step."""
        course, batch = self._course, self._course.sampler.global_batch
        from_zero = course.row == course.step * batch
        step, row = (0, 0) if from_zero else (course.step, course.row)
        return RunLog([Start(step, row, batch, course.world_size)])

    def log_start(self, path: str | Path) -> None:
        """Add a line to the run's log (see `RunLog`) for the step at which the loader stands: once on one rank, when
        the run begins and each time that it goes on."""
        state, course = self.state_dict(), self._course
        append_to_log(Path(path), Start(state["step"], state["row"], course.sampler.global_batch, course.world_size))

    @property
    def _rows(self) -> tuple[int, int | None]:
        """[first, end) row numbers of the run; None without an end."""
        course, last = self._course, self.num_steps
        if course.repeat is not None:
            return course.repeat, course.repeat + course.sampler.global_batch
        return 0, None if last is None else course.step_row(last)

    # ------------------------------------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """The state of the last batch given out (see Batch.state): under 256 bytes as JSON, the same on all ranks."""
        return self._course.state(self._next)

    def load_state_dict(self, state: Mapping[str, Any], *, allow: Collection[str] = ()) -> None:
        """Stand where the state was taken. MismatchError names what differs of corpus, order, packing, mixture and
        seed; those in `allow` may, with a warning. World size, micro batch, batch size, prefetch and run length are
        free."""
        row, step, plan = read_state(state)
        for place, (part, got, expected) in enumerate(zip(PARTS, plan, self._course.plan, strict=True)):
            if got == expected:
                continue
            what = f"state: {part}: got tag {got}, expected {expected} of {self._names[place]!r}"
            if part not in allow:
                raise MismatchError(f"{what}; load it with the {part} that it was saved with, or allow=[{part!r}]")
            warnings.warn(f"{what}; going on with this loader's {part}, as allowed", stacklevel=2)
        self._stand(row, step)

    def skip(self, steps: int) -> None:
        """Pass over so many steps, the one begun included, as if they had been served; the state remembers it."""
        whole("steps", steps, 0)
        course = self._course
        target = (self._next // course.micros + steps) * course.micros
        if self._stop is not None and target > self._stop:
            left = self._stop // course.micros - self._next // course.micros
            raise LimitError(f"steps: got {steps}, expected at most {left}, the steps left of this run")
        self._next, self._ended, self._turn = target, False, object()

    def _stand(self, row: int, step: int, *, again: bool = False) -> None:
        """Stand at a row and step; the run ends with the length that holds it. A place between two lengths belongs to
        the first, so that a finished run stays finished, unless it is to go on `again`."""
        batch, end_row, count = self._course.sampler.global_batch, None, None
        if self._steps is not None:
            count = self._steps * max(1, -(-(step + again) // self._steps)) - step
        elif self._epochs is not None:
            length = self._epochs * self.num_rows
            end_row = length * max(1, -(-(row + again) // length))
            count = -(-(end_row - row) // batch)
        self._course = replace(self._course, row=row, step=step, end_row=end_row)
        self._stop = None if count is None else count * self._course.micros
        self._next, self._ended, self._turn = 0, False, object()
