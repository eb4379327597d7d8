/* tokenriver._compiled: the loops over the cells of packed rows, compiled.
 *
 * Optional: where no compiler was found numpy does the same, and the same tests hold.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

#include "lookup.h"

/* spread(views, which, shift, ends, kind, tail, starts, sizes, first, last, inputs, targets): see _compiled.pyi */
static PyObject *spread(PyObject *module, PyObject *args)
{
    Job job = {0};
    PyObject *views, *columns[COLUMNS];
    int negative, failed;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOOipOOLLOO:spread", &views, &columns[WHICH], &columns[SHIFT], &columns[EXTENT_ENDS],
                          &job.kind, &job.tail, &columns[STARTS], &columns[SIZES], &job.first, &job.last,
                          &columns[INPUTS], &columns[TARGETS]))
        return NULL;
    job.shifts = job.kind == 2 ? 1 : job.kind == 4 || job.kind == -4 ? 2 : 3;
    if (job.shifts == 3 && job.kind != 8 && job.kind != -8)
        return PyErr_Format(PyExc_ValueError, "kind: got %d, expected 2, 4, -4, 8 or -8", job.kind);
    failed = hold_columns(&job, columns) || hold_runs(&job, views);
    if (!failed) {
        Py_BEGIN_ALLOW_THREADS
        negative = spread_all(&job);
        Py_END_ALLOW_THREADS
    }
    release(&job);
    return failed ? NULL : PyBool_FromLong(!negative);
}

WIDE static void number(int64_t *restrict cells, int64_t count)
{
    for (int64_t j = 0; j < count; j++)
        cells[j] = j;
}

/* 0, 1, 2, ... from each edge to the next one; -1 unless the edges go from 0 to the number of cells. */
static int count_up(const Py_buffer *edges, const Py_buffer *out)
{
    const int64_t *at = edges->buf, count = edges->shape[0], cells = out->shape[0];
    if (count < 1 || at[0] != 0 || at[count - 1] != cells)
        return -1;
    for (int64_t i = 1; i < count; i++) {
        if (at[i] < at[i - 1] || at[i] > cells)
            return -1;
        number((int64_t *)out->buf + at[i - 1], at[i] - at[i - 1]);
    }
    return 0;
}

/* Running sums from 0 of the sizes that are not 0; their number, or -1 for a negative size or too little room. */
static int64_t add_up(const Py_buffer *sizes, const Py_buffer *out)
{
    const int64_t *size = sizes->buf;
    int64_t *edges = out->buf, count = 0, sum = 0;
    if (out->shape[0] <= sizes->shape[0])
        return -1;
    edges[0] = 0;
    for (Py_ssize_t i = 0; i < sizes->shape[0]; i++) {
        if (size[i] < 0 || size[i] > FAR)
            return -1;
        sum += size[i];
        count += size[i] > 0;
        edges[count] = sum;
    }
    return count;
}

/* Hold two columns of int64, one to read and one to write. */
static int hold_two(PyObject *args, Py_buffer *from, Py_buffer *to)
{
    PyObject *first, *second;
    if (!PyArg_ParseTuple(args, "OO", &first, &second) || hold(first, from, 8, 1, PyBUF_C_CONTIGUOUS))
        return -1;
    if (!hold(second, to, 8, 1, WRITABLE))
        return 0;
    PyBuffer_Release(from);
    return -1;
}

static PyObject *py_count_up(PyObject *module, PyObject *args)
{
    Py_buffer from, to;
    (void)module;
    if (hold_two(args, &from, &to))
        return NULL;
    int failed = count_up(&from, &to);
    PyBuffer_Release(&from);
    PyBuffer_Release(&to);
    if (!failed)
        Py_RETURN_NONE;
    PyErr_SetString(PyExc_ValueError, "edges: from 0 to the number of cells expected, in order");
    return NULL;
}

static PyObject *py_add_up(PyObject *module, PyObject *args)
{
    Py_buffer from, to;
    (void)module;
    if (hold_two(args, &from, &to))
        return NULL;
    int64_t count = add_up(&from, &to);
    PyBuffer_Release(&from);
    PyBuffer_Release(&to);
    if (count >= 0)
        return PyLong_FromLongLong(count);
    PyErr_SetString(PyExc_ValueError, "sizes: none below 0 expected, and room for their sums");
    return NULL;
}

static PyMethodDef methods[] = {
    {"spread", spread, METH_VARARGS, NULL},
    {"add_up", py_add_up, METH_VARARGS, NULL},
    {"count_up", py_count_up, METH_VARARGS, NULL},
    {"count_runs", py_count_runs, METH_VARARGS, NULL},
    {"fill_runs", py_fill_runs, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef module = {.m_base = PyModuleDef_HEAD_INIT, .m_name = "tokenriver._compiled", .m_methods = methods};

PyMODINIT_FUNC PyInit__compiled(void)
{
    return PyModuleDef_Init(&module);
}
