/* The inner loops of paoswarm/core/fused.py, each in one pass over memory. They do the same operations in the same
 * order as the equivalent NumPy code, and the compiler must not merge any (-ffp-contract=off), so the results are
 * identical to the bit.
 *
 * A function returns False, without writing anything, if it does not support its arrays. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef _MSC_VER
#define restrict __restrict
#endif

#if FLT_EVAL_METHOD != 0
#error "this compiler computes with more digits than double precision has, so the bits would differ from NumPy's"
#endif

enum { COUNT = 10 }; /* arrays that each function takes */

typedef struct {
    Py_buffer view[COUNT];
    int count;
} Arrays;

static void release(Arrays *arrays)
{
    while (arrays->count > 0)
        PyBuffer_Release(&arrays->view[--arrays->count]);
}

static int is_of(const Py_buffer *view, char kind)
{
    return view->format != NULL && view->format[0] == kind && view->format[1] == '\0';
}

static Py_ssize_t length(const Py_buffer *view)
{
    return view->len / view->itemsize;
}

/* Open contiguous, aligned arrays in double precision; the one at `may_be_single` may be in single precision. Those
 * from `first_out` on must be writable. Returns 0 if an array does not qualify. */
static int open_arrays(Arrays *arrays, PyObject *const *given, Py_ssize_t n, int first_out, int may_be_single)
{
    arrays->count = 0;
    if (n != COUNT) {
        PyErr_Format(PyExc_TypeError, "expected %d arrays, got %zd", COUNT, n);
        return 0;
    }
    for (int i = 0; i < COUNT; i++) {
        Py_buffer *view = &arrays->view[i];
        int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (i >= first_out ? PyBUF_WRITABLE : 0);
        if (PyObject_GetBuffer(given[i], view, flags) < 0) {
            PyErr_Clear();
            return 0;
        }
        arrays->count++;
        if (!(is_of(view, 'd') || (i == may_be_single && is_of(view, 'f'))) ||
            (uintptr_t)view->buf % (uintptr_t)view->itemsize != 0)
            return 0;
    }
    return 1;
}

static int are_long(const Py_buffer *view, const Py_ssize_t *lengths)
{
    for (int i = 0; i < COUNT; i++)
        if (length(&view[i]) != lengths[i])
            return 0;
    return 1;
}

/* Return False, or NULL if an error is set. */
static PyObject *refused(Arrays *arrays)
{
    release(arrays);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_FALSE;
}

/* Equations (3) and (12) for springs to the particle's best and to the leader, with the distance between the two as the
 * scale of the noise; then the clipping wall. Deviates may be in single precision. */
#define DEFINE_MOVE(name, real)                                                                                        \
    static void name(Py_ssize_t n, const double *by, const double *restrict x, const double *restrict v,               \
                     const double *restrict best, const double *restrict leader, const real *restrict e1,              \
                     const real *restrict e2, const double *restrict lower, const double *restrict upper,              \
                     double *restrict new_x, double *restrict new_v)                                                   \
    {                                                                                                                  \
        const double w1 = by[0], w2 = by[1], a11 = by[2], a12 = by[3], a21 = by[4], a22 = by[5];                       \
        const double h11 = by[6], h21 = by[7], h22 = by[8], back = -by[9];                                             \
        for (Py_ssize_t i = 0; i < n; i++) {                                                                           \
            double centre = w1 * best[i] + w2 * leader[i];                                                             \
            double scale = fabs(best[i] - leader[i]);                                                                  \
            double y = x[i] - centre;                                                                                  \
            double d1 = scale * (double)e1[i], d2 = scale * (double)e2[i];                                             \
            double moved = ((a11 * y + a12 * v[i]) + centre) + h11 * d1;                                               \
            double speed = ((a21 * y + a22 * v[i]) + h21 * d1) + h22 * d2;                                             \
            double inside = moved < lower[i] ? lower[i] : moved;                                                       \
            inside = inside > upper[i] ? upper[i] : inside;                                                            \
            new_x[i] = inside;                                                                                         \
            new_v[i] = (moved - inside) * speed > 0.0 ? back * speed : speed;                                          \
        }                                                                                                              \
    }

DEFINE_MOVE(move, double)
DEFINE_MOVE(move_single, float)

static PyObject *step(PyObject *self, PyObject *const *given, Py_ssize_t n)
{
    Arrays arrays;
    (void)self;
    if (!open_arrays(&arrays, given, n, 8, 4))
        return refused(&arrays);
    const Py_buffer *view = arrays.view;
    const Py_ssize_t all = length(&view[0]), box = length(&view[5]);
    const Py_ssize_t lengths[] = {all, all, all, all, 2 * all, box, box, 10, all, all};
    if (box == 0 || all % box != 0 || !are_long(view, lengths))
        return refused(&arrays);
    const double *x = view[0].buf, *v = view[1].buf, *best = view[2].buf, *leader = view[3].buf;
    const double *lower = view[5].buf, *upper = view[6].buf, *by = view[7].buf;
    double *new_x = view[8].buf, *new_v = view[9].buf;
    for (Py_ssize_t at = 0; at < all; at += box) {  /* one run after the other */
        if (is_of(&view[4], 'd')) {
            const double *e = (const double *)view[4].buf + 2 * at;
            move(box, by, x + at, v + at, best + at, leader + at, e, e + box, lower, upper, new_x + at, new_v + at);
        } else {
            const float *e = (const float *)view[4].buf + 2 * at;
            move_single(box, by, x + at, v + at, best + at, leader + at, e, e + box, lower, upper, new_x + at,
                        new_v + at);
        }
    }
    release(&arrays);
    Py_RETURN_TRUE;
}

/* Update the bests after a generation; only a strictly better value replaces one. */
static PyObject *record(PyObject *self, PyObject *const *given, Py_ssize_t n)
{
    Arrays arrays;
    (void)self;
    if (!open_arrays(&arrays, given, n, 5, -1))
        return refused(&arrays);
    const Py_buffer *view = arrays.view;
    const Py_ssize_t all = length(&view[0]), runs = length(&view[9]);
    if (all == 0 || runs == 0 || all % runs != 0 || length(&view[3]) % all != 0)
        return refused(&arrays);
    const Py_ssize_t particles = all / runs, d = length(&view[3]) / all;
    const Py_ssize_t lengths[] = {all, all, all, all * d, all * d, all, all, all * d, all * d, runs};
    if (!are_long(view, lengths))
        return refused(&arrays);
    const double *value = view[0].buf, *best_value = view[1].buf, *age = view[2].buf;
    const double *x = view[3].buf, *best = view[4].buf;
    double *new_value = view[5].buf, *new_age = view[6].buf, *new_best = view[7].buf, *leader = view[8].buf;
    double *leader_value = view[9].buf;
    const size_t row = (size_t)d * sizeof(double);
    for (Py_ssize_t run = 0; run < runs; run++) {
        const Py_ssize_t first = run * particles, end = first + particles;
        Py_ssize_t leading = first;
        for (Py_ssize_t i = first; i < end; i++) {
            const int better = value[i] < best_value[i];
            new_value[i] = better ? value[i] : best_value[i];
            new_age[i] = better ? 0.0 : age[i] + 1.0;
            memcpy(new_best + i * d, (better ? x : best) + i * d, row);
            if (new_value[i] < new_value[leading])
                leading = i;
        }
        for (Py_ssize_t i = first; i < end; i++)
            memcpy(leader + i * d, new_best + leading * d, row);
        leader_value[run] = new_value[leading];
    }
    release(&arrays);
    Py_RETURN_TRUE;
}

static PyMethodDef functions[] = {
    {"step", (PyCFunction)(void (*)(void))step, METH_FASTCALL,
     "step(x, v, best, leader, normal, lower, upper, by, new_x, new_v) -> whether it was done"},
    {"record", (PyCFunction)(void (*)(void))record, METH_FASTCALL,
     "record(value, best_value, age, x, best, new_value, new_age, new_best, leader, leader_value) -> whether it was done"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_fused", NULL, 0, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__fused(void)
{
    return PyModuleDef_Init(&module);
}
