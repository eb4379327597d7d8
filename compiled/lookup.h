/* Rows of a table of spans looked up as runs: which ids fill each row, one run after another, and the padding behind
 * them. Rows come in any order, from tables beyond any cache: what is read soon is asked of memory beforehand.
 */
#pragma once

#include "checked.h"

enum { SOON = 6 };

typedef struct {
    Py_buffer row_ends, starts, sizes, rows;
    int held;
} Table;

static void release_table(Table *table)
{
    Py_buffer *columns[] = {&table->row_ends, &table->starts, &table->sizes, &table->rows};
    while (table->held)
        PyBuffer_Release(columns[--table->held]);
}

/* Hold the columns of a table, which may be strided, and the numbers of some rows, all inside. */
static int hold_table(Table *table, PyObject *row_ends, PyObject *starts, PyObject *sizes, PyObject *rows)
{
    PyObject *objects[] = {row_ends, starts, sizes, rows};
    Py_buffer *columns[] = {&table->row_ends, &table->starts, &table->sizes, &table->rows};
    for (; table->held < 4; table->held++) {
        int strided = table->held == 1 || table->held == 2;
        if (hold(objects[table->held], columns[table->held], table->held == 2 ? 0 : 8, 1,
                 strided ? PyBUF_STRIDED_RO : PyBUF_C_CONTIGUOUS))
            return -1;
    }
    const int64_t *numbers = table->rows.buf, known = table->row_ends.shape[0];
    for (Py_ssize_t i = 0; i < table->rows.shape[0]; i++)
        if (numbers[i] < 0 || numbers[i] >= known) {
            PyErr_Format(PyExc_IndexError, "rows: got %lld, expected 0 to %lld", (long long)numbers[i],
                         (long long)known - 1);
            return -1;
        }
    return 0;
}

/* The spans [begin, end) of a row; -1 if the table has no such spans. */
INLINE int spans_of(const Table *table, int64_t row, int64_t *begin, int64_t *end)
{
    const int64_t *ends = table->row_ends.buf;
    *begin = row ? ends[row - 1] : 0;
    *end = ends[row];
    return *begin < 0 || *end < *begin || *end > table->starts.shape[0] || *end > table->sizes.shape[0] ? -1 : 0;
}

INLINE int64_t item(const Py_buffer *column, int64_t number)
{
    const char *at = (const char *)column->buf + number * column->strides[0];
    int64_t whole;
    int32_t half;
    if (column->itemsize == 8) {
        memcpy(&whole, at, 8);
        return whole;
    }
    memcpy(&half, at, 4);
    return half;
}

static int count_runs(const Table *table, int64_t *out)
{
    const int64_t *rows = table->rows.buf, *ends = table->row_ends.buf, count = table->rows.shape[0];
    int64_t begin, end, total = 0;
    for (int64_t i = 0; i < count; i++) {
        if (i + SOON < count)
            PREFETCH(ends + rows[i + SOON]);
        if (spans_of(table, rows[i], &begin, &end))
            return -1;
        total += end - begin + 1;
        out[i] = total;
    }
    return 0;
}

/* Ask memory for the first spans of a row. */
INLINE void ask_row(const Table *table, int64_t row)
{
    int64_t begin, end;
    if (spans_of(table, row, &begin, &end) || begin == end)
        return;
    for (int64_t number = begin; number < end && number < begin + 64; number += 8) {
        PREFETCH((const char *)table->starts.buf + number * table->starts.strides[0]);
        PREFETCH((const char *)table->sizes.buf + number * table->sizes.strides[0]);
    }
}

static int fill_runs(const Table *table, int64_t width, int tail, const Py_buffer *starts, const Py_buffer *sizes)
{
    const int64_t *rows = table->rows.buf, count = table->rows.shape[0], room = starts->shape[0];
    int64_t *out_starts = starts->buf, *out_sizes = sizes->buf, begin, end, at = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t left = width;
        if (i + SOON < count)
            ask_row(table, rows[i + SOON]);
        if (spans_of(table, rows[i], &begin, &end) || end - begin >= room - at)
            return -1;
        for (; begin < end; begin++, at++) {
            out_starts[at] = item(&table->starts, begin);
            int64_t ids = item(&table->sizes, begin);
            if (ids < tail || ids - tail > left)
                return -1;
            out_sizes[at] = ids - tail;
            left -= out_sizes[at];
        }
        out_starts[at] = PADDING;
        out_sizes[at++] = left;
    }
    return at == room ? 0 : -1;
}

static const char *const WRONG_TABLE = "table: spans in order expected, which fit their rows and the columns to fill";

/* count_runs(row_ends, starts, sizes, rows, out): the running counts of runs, a run of padding a row among them */
static PyObject *py_count_runs(PyObject *module, PyObject *args)
{
    PyObject *row_ends, *starts, *sizes, *rows, *out;
    Table table = {.held = 0};
    Py_buffer to;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOOO:count_runs", &row_ends, &starts, &sizes, &rows, &out))
        return NULL;
    int failed = hold_table(&table, row_ends, starts, sizes, rows) || hold(out, &to, 8, 1, WRITABLE);
    if (!failed) {
        failed = to.shape[0] != table.rows.shape[0] || count_runs(&table, to.buf);
        PyBuffer_Release(&to);
        if (failed)
            PyErr_SetString(PyExc_ValueError, WRONG_TABLE);
    }
    release_table(&table);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

/* fill_runs(row_ends, starts, sizes, rows, width, tail, out_starts, out_sizes): see _compiled.pyi */
static PyObject *py_fill_runs(PyObject *module, PyObject *args)
{
    PyObject *row_ends, *starts, *sizes, *rows, *out_starts, *out_sizes;
    Table table = {.held = 0};
    Py_buffer to_starts, to_sizes;
    long long width;
    int tail;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOOLpOO:fill_runs", &row_ends, &starts, &sizes, &rows, &width, &tail, &out_starts,
                          &out_sizes))
        return NULL;
    int failed = hold_table(&table, row_ends, starts, sizes, rows) || hold(out_starts, &to_starts, 8, 1, WRITABLE);
    if (!failed) {
        failed = hold(out_sizes, &to_sizes, 8, 1, WRITABLE);
        if (!failed) {
            failed = to_starts.shape[0] != to_sizes.shape[0] || fill_runs(&table, width, tail, &to_starts, &to_sizes);
            PyBuffer_Release(&to_sizes);
            if (failed)
                PyErr_SetString(PyExc_ValueError, WRONG_TABLE);
        }
        PyBuffer_Release(&to_starts);
    }
    release_table(&table);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}
