/* The buffers of a call held, and nothing in them believed: every offset is compared with the buffer that it points
 * into before the first cell is written.
 */
#pragma once

#include "spread.h"

enum { WRITABLE = PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE };

static void release(Job *job)
{
    for (Py_ssize_t i = 0; i < job->num_held; i++)
        PyBuffer_Release(&job->held[i]);
    for (Py_ssize_t i = 0; i < job->num_views; i++)
        if (job->views[i].obj)
            PyBuffer_Release(&job->views[i]);
    PyMem_Free(job->views);
}

/* Hold a buffer of items of so many bytes (0: 4 or 8); -1 with an error set if it is none. */
static int hold(PyObject *object, Py_buffer *buffer, Py_ssize_t itemsize, int ndim, int flags)
{
    if (PyObject_GetBuffer(object, buffer, flags))
        return -1;
    Py_ssize_t got = buffer->itemsize;
    if (buffer->ndim == ndim && (got == itemsize || (!itemsize && (got == 4 || got == 8))))
        return 0;
    PyErr_Format(PyExc_TypeError, "buffer: got %d dimensions of %zd bytes, expected %d of %zd", buffer->ndim, got, ndim,
                 itemsize);
    PyBuffer_Release(buffer);
    return -1;
}

static int hold_columns(Job *job, PyObject *const *args)
{
    Py_buffer *held = job->held;
    for (; job->num_held < COLUMNS; job->num_held++) {
        int number = (int)job->num_held, cells = number >= INPUTS;
        if (hold(args[number], held + number, number == WHICH ? 4 : 8, 1 + cells, cells ? WRITABLE : PyBUF_C_CONTIGUOUS))
            return -1;
    }
    job->which = held[WHICH].buf;
    job->shift = held[SHIFT].buf;
    job->ends = held[EXTENT_ENDS].buf;
    job->starts = held[STARTS].buf;
    job->sizes = held[SIZES].buf;
    job->inputs = held[INPUTS].buf;
    job->targets = held[TARGETS].buf;
    job->extents = held[WHICH].len / 4;
    job->rows = held[INPUTS].shape[0];
    job->width = held[INPUTS].shape[1] - job->tail;
    int fits = job->extents > 0 && held[SHIFT].len / 8 == job->extents && held[EXTENT_ENDS].len / 8 == job->extents;
    fits = fits && held[SIZES].len == held[STARTS].len && job->width > 0;
    fits = fits && 0 <= job->first && job->first <= job->last && job->last <= held[STARTS].len / 8;
    fits = fits && held[TARGETS].shape[0] == job->rows && held[TARGETS].shape[1] == held[INPUTS].shape[1];
    if (!fits)
        PyErr_SetString(PyExc_ValueError, "columns: lengths and shapes do not fit together");
    return fits ? 0 : -1;
}

/* Hold the view of an extent, of which the ids from a position on lie in it as a whole; -1 with an error set if not. */
static int hold_extent(Job *job, PyObject *views, int64_t extent, int64_t position, int64_t count)
{
    int32_t which = job->which[extent];
    PyObject *view = PyList_GetItem(views, which);
    if (!view || (!job->views[which].obj && hold(view, job->views + which, 1, 1, PyBUF_C_CONTIGUOUS)))
        return -1;
    int64_t shift = job->shift[extent];
    if (-FAR * 8 < shift && shift < FAR * 8) {
        int64_t from = shift + position * (1 << job->shifts);
        if (from >= 0 && from + (count << job->shifts) <= job->views[which].len)
            return 0;
    }
    PyErr_SetString(PyExc_ValueError, "shift: ids inside the view expected");
    return -1;
}

/* Hold the views that a run lies in. */
static int hold_run(Job *job, PyObject *views, int64_t run)
{
    int64_t position = job->starts[run], ids = job->sizes[run] + job->tail;
    if (position < 0)
        return 0;
    for (int64_t extent = find(job, position); ids > 0 && position < FAR && extent < job->extents; extent++) {
        int64_t count = inside(job, extent, position, ids);
        if (!count)
            continue;
        if (hold_extent(job, views, extent, position, count))
            return -1;
        position += count;
        ids -= count;
    }
    if (ids)
        PyErr_SetString(PyExc_ValueError, "starts: runs inside the extents expected");
    return ids ? -1 : 0;
}

/* Hold what all runs lie in; they fill the rows, none across the end of one. */
static int hold_runs(Job *job, PyObject *views)
{
    int64_t row = 0, column = 0;
    Py_ssize_t count = PyList_Size(views);
    if (count < 0)
        return -1;
    job->views = PyMem_Calloc((size_t)count + 1, sizeof *job->views);
    if (!job->views) {
        PyErr_NoMemory();
        return -1;
    }
    job->num_views = count;
    int64_t run = job->first;
    for (; run < job->last; run++) {
        int64_t n = job->sizes[run];
        if (n < 0 || n > job->width - column)
            break;
        if (hold_run(job, views, run))
            return -1;
        column += n;
        if (column == job->width) {
            row++;
            column = 0;
        }
    }
    if (run == job->last && row == job->rows && !column)
        return 0;
    PyErr_SetString(PyExc_ValueError, "sizes: as many cells as the rows have expected, no run across their ends");
    return -1;
}
