"""The cells of a batch filled with ids: windows, rows of spans, chained rows; cells that no row fills are filler."""

import numpy as np

from tokenriver.course import Course, Runs
from tokenriver.types import IGNORE, Int64, River

FILLER_ID = 0


def fill_windows(river: River, starts: Int64, buffer: Int64, targets: Int64) -> None:
    """Fill the first rows with ids and the rest with filler, where inputs and targets no longer share ids."""
    filled = len(starts)
    if filled:
        river.gather(starts, buffer.shape[1], buffer[:filled])
    np.copyto(targets[:filled], buffer[:filled])
    buffer[filled:] = FILLER_ID
    targets[filled:] = IGNORE


def fill_rows(course: Course, runs: Runs, buffer: Int64, targets: Int64) -> None:
    """Fill the rows of runs, and the rest with filler: inputs without the last column, targets without the first."""
    river, masks, filled, length = course.river, course.masks, len(runs.ends), buffer.shape[1]
    if filled:
        if runs.chained:
            river.take(runs.starts, runs.sizes, buffer[:filled])
            targets[:filled] = buffer[:filled]
        else:
            _fill_spans(river, runs, buffer[:filled, :-1], targets[:filled, 1:])
        padding = runs.sizes[runs.ends - 1]
        for line in np.flatnonzero(padding).tolist():
            targets[line, length - padding[line] :] = IGNORE
        if masks is not None:
            masks.on_runs(runs.starts, runs.sizes, targets[:filled], chained=runs.chained)
    buffer[filled:] = FILLER_ID
    targets[filled:] = IGNORE


def _fill_spans(river: River, runs: Runs, inputs: Int64, targets: Int64) -> None:
    river.take(runs.starts, runs.sizes, inputs)
    targets[:, :-1] = inputs[:, 1:]
    # a run's last target is no input; all of them are looked up at once
    spans = runs.starts >= 0
    followers = np.empty((int(np.count_nonzero(spans)), 1), np.int64)
    river.gather((runs.starts + runs.sizes)[spans], 1, followers)
    lines, places = np.divmod(np.cumsum(runs.sizes)[spans] - 1, inputs.shape[1])
    targets[lines, places] = followers[:, 0]
