"""The one object with state: a corpus in, batches of one rank out, for a run that may stop and go on anywhere.

    loader = Loader(corpus, seq_len=1024, global_batch=512, micro_batch=32, seed=1, rank=0, world_size=8)
    for batch in loader:
        ...                                      # batch.input_ids, batch.targets: (32, 1024) int64
    loader.load_state_dict(batch.state)          # in another process, on any rank of any world size

A loop goes on where the loader stands and ends where the run ends. Looping again over a run that a loop has ended
serves the run's length once more, with the epochs that follow: in file order those are the same rows, so that one
loader does for every validation pass.
"""

from collections.abc import Collection, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

from tokenriver.ahead import in_turn
from tokenriver.batch import Batch, single
from tokenriver.bucketrun import BucketLegs
from tokenriver.buckets import Bucket
from tokenriver.course import LARGEST, Course, compare_plans, read_state, tag
from tokenriver.errors import InputError, LimitError
from tokenriver.layout import lay_out, masks_of, only_for, own_options, rows_a_step, whole
from tokenriver.ledger import Ledger
from tokenriver.legs import Legs
from tokenriver.mixing import Mixture
from tokenriver.replaying import Replayed
from tokenriver.runlog import Places, append_to_log
from tokenriver.sampler import check_rank
from tokenriver.schedule import Changes, Pace, lay_run
from tokenriver.trace import Origin, Trail
from tokenriver.types import Int64, River


class Loader:
    """Iterating yields Batch after Batch of micro_batch rows and seq_len positions (of a bucket, of its own)."""

    _legs: Legs | BucketLegs
    """The run from where the state stands."""
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
        global_batch: int | None = None,
        micro_batch: int | None = None,
        packing: str = "concat",
        overflow: str = "split",
        phase_shift: bool = False,
        stride: int | None = None,
        packing_options: Mapping[str, Any] | None = None,
        mask_first: bool = False,
        mask_eos: bool = False,
        order: str = "shuffled",
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        epochs: int | None = 1,
        steps: int | None = None,
        prefetch: int = 2,
        schedule: Changes | None = None,
        repeat_batch: int | None = None,
        ledger: str | Path | None = None,
    ) -> None:
        """A step is global_batch rows over world_size ranks (in buckets at most; None: what their budget allows), each
        rank's in micro-batches (None: one a step). The run is `epochs` long (None: endless), or exactly `steps` steps
        if that is given. `prefetch` batches are made ahead by a thread (0: none). `schedule` changes sizes from some
        steps on: [(step, {"global_batch": G, "seq_len": T, "micro_batch": B}), ...]. `repeat_batch` serves that step's
        rows at every step. `ledger`, a folder, gets sums of what each step of a loop served (docs/trace.md). `order`
        may be that of another loader (docs/other-loaders.md), which never ends but by `steps`. `packing_options` are
        those that only this packing has, by name. `mask_first` ignores targets that begin a document, `mask_eos` those
        that are the id that ends texts. Raises InputError for an option that makes no sense, LimitError, naming N, for
        too few rows."""
        rank, ranks = check_rank(rank, world_size)
        batch_size = rows_a_step(global_batch, packing_options or {})
        whole("seed", seed, -LARGEST)
        numbers = ("micro_batch", micro_batch, 1), ("epochs", epochs, 1), ("steps", steps, 1), ("prefetch", prefetch, 0)
        for name, given, least in (*numbers, ("repeat_batch", repeat_batch, 0)):
            whole(name, least if given is None else given, least)
        options: dict[str, Any] = {"overflow": overflow, "phase_shift": phase_shift, "seed": int(seed)}
        options |= own_options(packing, packing_options or {})
        if stride is not None:
            only_for("stride", packing, "sliding")
            options["stride"] = int(stride)
        first = Pace(0, batch_size, whole("seq_len", seq_len, 1), None if micro_batch is None else int(micro_batch))
        self._schedule, (river, rows, sampler) = lay_run(
            first,
            schedule or (),
            lambda size, batch: lay_out(corpus, (packing, size, options), order, (batch, first.micro_batch, ranks)),
            order,
            (packing == "concat", int(seed)),
        )
        if repeat_batch is not None and self._schedule.varies:
            raise InputError("repeat_batch: got it beside a schedule, expected one alone; leave the other out")
        if isinstance(sampler, Replayed):
            sampler.check_epochs(epochs)
            epochs = None
        if not sampler.num_rows and steps is None and epochs is not None:
            raise InputError("epochs: got a mixture that repeats its sources for ever; give steps, or epochs=None")
        if not self._schedule.one_order and isinstance(corpus, Mixture) and len(corpus.stages) > 1:
            raise InputError("curriculum: got one, which counts rows, beside changes of seq_len; leave one of them out")
        if repeat_batch is not None and steps is None and epochs is not None:
            # row numbers stand still in such a run, so its length is counted in steps
            steps = epochs * self.steps_per_epoch
        if ledger is not None and not self._schedule.one_order:
            raise InputError("ledger: got one beside changes of seq_len, expected one length; leave it out")
        self._trail = Trail(corpus, river, rows, sampler) if self._schedule.one_order else None
        self._epochs, self._steps, self._prefetch = epochs, steps, int(prefetch)
        mixture = corpus.tag if isinstance(corpus, Mixture) else ""
        told = "" if isinstance(sampler, Replayed) and sampler.seed is None else str(int(seed))
        self._names = (corpus.fingerprint, sampler.order, self._schedule.tag, mixture, told)
        self._course = Course(
            *(river, rows, sampler, rank, ranks, first.global_batch, 1),
            repeat=None if repeat_batch is None else self._schedule.row(int(repeat_batch)),
            plan=(tag(corpus.fingerprint, 8), *(tag(name, 4) for name in self._names[1:])),
            masks=masks_of(corpus, river, mask_first, mask_eos),
        )
        self._ledger = None if ledger is None else Ledger(Path(ledger), rows.seq_len, rank, ranks)
        self._stand(0, 0)

    def __repr__(self) -> str:
        course = self._course
        return (
            f"<Loader {self._schedule.tag}, {course.sampler.order}, rank {course.rank} of {course.world_size}: "
            f"{self.num_rows:,} rows an epoch, {self.num_steps if self.num_steps is not None else 'endless'} steps>"
        )

    # ------------------------------------------------------------------------------------------ sizes

    @property
    def num_rows(self) -> int:
        """N: rows of the first epoch, over all ranks; of a mixture that repeats its sources, all their rows."""
        return self._schedule.epoch_row(1)

    @property
    def steps_per_epoch(self) -> int:
        """Steps that serve the first epoch, the last one filled up: ceil(N / global_batch)."""
        return self._schedule.steps_upto(self.num_rows)

    @property
    def micros_per_step(self) -> int:
        """Micro-batches of the step that comes next, the same on all ranks: ceil(ceil(global_batch / world_size) /
        micro_batch)."""
        return self._legs.find(self._next)[0].micros

    @property
    def num_steps(self) -> int | None:
        """The step at which this run ends, counted from 0; None for an endless run."""
        return self._legs.end_step

    @property
    def balance(self) -> Mapping[str, int]:
        """Ids of one epoch by fate, at the seq_len that comes next; river = served + unused."""
        return self._legs.find(self._next)[0].packing.balance

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        """Width, rows and steps of each bucket, the narrowest first; none for rows of one width."""
        return self._schedule.buckets

    # ---------------------------------------------------------------------------------------- batches

    def __iter__(self) -> Iterator[Batch]:
        """Batches from where the loader stands to the end of the run; the loader stands behind each as it is given
        out. A loop left early may be taken up by another; the older one may then not be used any more."""
        if self._ended:
            state = self.state_dict()
            self._stand(state["row"], state["step"], again=True)
        turn = self._turn = object()
        batches = self._serve(self._legs, self._next, 1)
        yield from in_turn(batches, self._prefetch, lambda: self._turn is turn, self._pass)
        self._ended = True

    def _pass(self, batch: Batch) -> None:
        self._next += 1
        if self._ledger is not None:
            self._ledger.take(batch, self._legs.find(self._next - 1)[0].micros)

    def strided(self, first: int, stride: int, state: Mapping[str, Any] | None = None) -> Iterator[Batch]:
        """Every stride-th micro-batch, beginning with the first-th, from a state (None: the loader's own, the start of
        the unfinished step) to the run's end; the loader does not move. So the workers of one rank divide its
        batches."""
        if self._ledger is not None:
            raise InputError("ledger: got one for batches that workers divide, expected the loader's own loop alone")
        if state is not None:
            return self._serve(self._legs_at(*self._read(state, ())), first, stride)
        return self._serve(self._legs, self._legs.begin(self._legs.step(self._next)) + first, stride)

    def _serve(self, legs: Legs | BucketLegs, first: int, stride: int) -> Generator[Batch, None, None]:
        return legs.serve(first, stride, 2 * (self._prefetch + 3))

    def batch(self, step: int, micro: int = 0) -> Batch:
        """Micro-batch `micro` of any step, at once, in fresh buffers; the loader does not move."""
        legs, last = self._legs, self.num_steps
        whole("step", step, 0)
        if last is not None and step >= last:
            raise LimitError(
                f"step: got {step}, expected 0 to {last - 1}, the last step of this run; give epochs or steps"
            )
        stand = legs.find(0)[0]
        if step < stand.step and stand.repeat is not None:
            legs = self._schedule.legs(self._course, (stand.row, 0), (None, None))
        elif step < stand.step:
            if stand.row != self._schedule.row(stand.step):
                raise InputError(
                    f"step: got {step}, expected {stand.step} or more; the loaded state took {stand.row} rows in "
                    f"{stand.step} steps, so earlier steps had other batch sizes: use a loader without the state"
                )
            legs = self._schedule.legs(self._course, (0, 0), (stand.row, None))
        course = legs.course_at(step)
        if not 0 <= micro < course.micros:
            raise LimitError(f"micro: got {micro}, expected 0 to {course.micros - 1}, the micro-batches of a step")
        return single(course, (step - course.step) * course.micros + micro)

    # ------------------------------------------------------------------------------------------ trace

    @property
    def trail(self) -> Trail:
        """From many rows to their documents and back; InputError for a run whose seq_len changes."""
        if self._trail is None:
            raise InputError("trace: got a run whose seq_len changes, expected one length; trace its stretches alone")
        return self._trail

    def trace(self, row_number: int) -> list[Origin]:
        """The documents that a row of the run shows, in order, and where it cuts them; `trail.shown` takes many rows.
        LimitError for a row outside the run, FormatError for a corpus without document bounds."""
        whole("row_number", row_number, 0)
        return self.trail.origins(int(row_number), self._legs.rows)

    def when(self, document: int, *, source: str | None = None, stop: int | None = None) -> Int64:
        """(k,) int64, ascending: all row numbers of the run (below `stop`, if given) that show a document, by its
        number in the corpus; in a mixture the number in all sources, or in `source`. `trail.rows` takes many."""
        for name, value in (("document", document), ("stop", 0 if stop is None else stop)):
            whole(name, value, 0)
        return self.trail.when(int(document), source, self._legs.rows, stop)

    @property
    def places(self) -> Places:
        """From row numbers to (step, rank, index) and back; behind a state of other batch sizes, from its step on.
        InputError for a run with repeat_batch."""
        stand = self._legs.find(0)[0]
        return self._schedule.places(self._course, (stand.row, stand.step))

    def log_start(self, path: str | Path) -> None:
        """Add lines to the run's log (see `RunLog`) for the step at which the loader stands and for what its schedule
        changes later: once on one rank, when the run begins and each time that it goes on."""
        for start in self._legs.starts(self._next):
            append_to_log(Path(path), start)

    # ------------------------------------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """The state of the last batch given out (see Batch.state): under 256 bytes as JSON, the same on all ranks."""
        return self._legs.state(self._next)

    def load_state_dict(self, state: Mapping[str, Any], *, allow: Collection[str] = ()) -> None:
        """Stand where the state was taken. MismatchError names what differs of corpus, order, packing, mixture and
        seed; those in `allow` may, with a warning. World size, micro batch, batch size, prefetch and run length are
        free; to the order of another loader the first three belong."""
        self._stand(*self._read(state, allow))

    def _read(self, state: Mapping[str, Any], allow: Collection[str]) -> tuple[int, int]:
        """(row, step) of a state of this run."""
        row, step, plan = read_state(state)
        compare_plans(plan, self._course.plan, self._names, allow, depth=3)
        if isinstance(self._course.sampler, Replayed):
            self._course.sampler.check_row(row)
        return row, step

    def skip(self, steps: int) -> None:
        """Pass over so many steps, the one begun included, as if they had been served; the state remembers it."""
        whole("steps", steps, 0)
        step = self._legs.step(self._next)
        last = self.num_steps
        if last is not None and steps > last - step:
            raise LimitError(f"steps: got {steps}, expected at most {last - step}, the steps left of this run")
        self._next, self._ended, self._turn = self._legs.begin(step + steps), False, object()

    def _stand(self, row: int, step: int, *, again: bool = False) -> None:
        self._legs = self._legs_at(row, step, again=again)
        self._next, self._ended, self._turn = 0, False, object()

    def _legs_at(self, row: int, step: int, *, again: bool = False) -> Legs | BucketLegs:
        """The run from a row and step, which ends with the length that holds it. A place between two lengths belongs to
        the first, so that a finished run stays finished, unless it is to go on `again`."""
        end_row, end_step = None, None
        if self._steps is not None:
            end_step = self._steps * max(1, -(-(step + again) // self._steps))
        elif self._epochs is not None:
            begun = self._schedule.epochs_upto(row + again)
            end_row = self._schedule.epoch_row(self._epochs * max(1, -(-begun // self._epochs)))
        return self._schedule.legs(self._course, (row, step), (end_row, end_step))
