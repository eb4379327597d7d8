/* Rows of a batch filled with runs of ids that lie anywhere in mapped files; checked.h has looked at every offset.
 *
 * What makes the difference to numpy, which does the same in more passes (filling.py), is that the ids of runs to come
 * are asked of memory before they are needed: they lie at random in files far larger than any cache.
 */
#pragma once

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__gnu_linux__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif
#if defined(_MSC_VER)
#define restrict __restrict
#endif
#if defined(__GNUC__) || defined(__clang__)
/* inlined by force: gcc drops calls of a function that does nothing but prefetch */
#define INLINE static inline __attribute__((always_inline))
#define PREFETCH(address) __builtin_prefetch(address)
#else
#define INLINE static inline
#define PREFETCH(address) ((void)(address))
#endif

enum { IGNORE = -100, PADDING = -1, AHEAD = 4, LINE = 64, MOST_ASKED = 4096 };
enum { WHICH, SHIFT, EXTENT_ENDS, STARTS, SIZES, INPUTS, TARGETS, COLUMNS };
static const int64_t FAR = INT64_C(1) << 58;

typedef struct {
    Py_buffer held[COLUMNS], *views;
    Py_ssize_t num_held, num_views;
    /* extents: id p of extent e lies at byte shift[e] + p * item of views[which[e]] */
    const int32_t *which;
    const int64_t *shift, *ends;
    int64_t extents;
    /* runs: `sizes` cells each, filled from the id `starts` on; a start below 0 is padding */
    const int64_t *starts, *sizes;
    long long first, last;
    /* rows: (rows, width + tail) */
    int64_t *inputs, *targets, rows, width;
    int kind, shifts, tail; /* kind: bytes of an id, below 0 if signed; shifts: their logarithm */
} Job;

/* Ids as int64; is one negative, or above what int64 holds? */
WIDE static int widen(const char *from, int64_t count, int kind, int64_t *restrict to)
{
    int64_t found = 0, j;
    uint16_t two;
    uint32_t four;
    int32_t whole;
    switch (kind) {
    case 2:
        for (j = 0; j < count; j++) {
            memcpy(&two, from + 2 * j, 2);
            to[j] = two;
        }
        break;
    case 4:
        for (j = 0; j < count; j++) {
            memcpy(&four, from + 4 * j, 4);
            to[j] = four;
        }
        break;
    case -4:
        for (j = 0; j < count; j++) {
            memcpy(&whole, from + 4 * j, 4);
            to[j] = whole;
            found |= whole;
        }
        break;
    default: /* 8 or -8 */
        memcpy(to, from, 8 * (size_t)count);
        for (j = 0; j < count; j++)
            found |= to[j];
    }
    return found < 0;
}

/* The first extent that ends behind a position. */
INLINE int64_t find(const Job *job, int64_t position)
{
    int64_t low = 0, high = job->extents - 1;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (job->ends[middle] > position)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Ids of an extent from a position on, at most `most`. */
INLINE int64_t inside(const Job *job, int64_t extent, int64_t position, int64_t most)
{
    if (job->ends[extent] <= position)
        return 0;
    int64_t left = job->ends[extent] - position;
    return left < most ? left : most;
}

INLINE const char *place(const Job *job, int64_t extent, int64_t position)
{
    return (const char *)job->views[job->which[extent]].buf + job->shift[extent] + position * (1 << job->shifts);
}

/* Ask memory for the first ids of a run that will be read soon. */
INLINE void ask(const Job *job, int64_t run)
{
    if (run >= job->last || job->starts[run] < 0)
        return;
    int64_t extent = find(job, job->starts[run]);
    int64_t size = inside(job, extent, job->starts[run], job->sizes[run] + job->tail) << job->shifts;
    if (!size)
        return; /* its view is not held */
    const char *from = place(job, extent, job->starts[run]);
    for (int64_t at = 0; at < size && at < MOST_ASKED; at += LINE)
        PREFETCH(from + at);
}

/* The ids of one run: n inputs from a cell on, and n targets from `tail` cells further on. */
static int put(const Job *job, int64_t run, int64_t *inputs, int64_t *targets)
{
    int64_t n = job->sizes[run], ids = n + job->tail, position = job->starts[run], done = 0;
    int negative = 0;
    for (int64_t extent = find(job, position); done < ids; extent++) {
        int64_t count = inside(job, extent, position + done, ids - done);
        if (!count)
            continue;
        const char *from = place(job, extent, position + done);
        int64_t fed = count < n - done ? count : n - done; /* the last id of a span is no input */
        int64_t skip = done < job->tail ? job->tail : 0;   /* and its first one no target */
        negative |= widen(from, fed, job->kind, inputs + done);
        negative |= widen(from + (skip << job->shifts), count - skip, job->kind, targets + done + skip);
        done += count;
    }
    return negative;
}

static int spread_all(const Job *job)
{
    int64_t at = 0, column = 0;
    int negative = 0;
    for (int64_t run = job->first; run < job->first + AHEAD; run++)
        ask(job, run);
    for (int64_t run = job->first; run < job->last; run++) {
        int64_t n = job->sizes[run], *inputs = job->inputs + at, *targets = job->targets + at;
        ask(job, run + AHEAD);
        if (job->starts[run] >= 0)
            negative |= put(job, run, inputs, targets);
        else
            for (int64_t j = 0; j < n; j++) {
                inputs[j] = 0;
                targets[j + job->tail] = IGNORE;
            }
        at += n;
        column += n;
        if (column == job->width) {
            at += job->tail;
            column = 0;
        }
    }
    return negative;
}
