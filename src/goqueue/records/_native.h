/* What the parts of the compiled codec share. `section.py` describes what each function promises. */
#ifndef GOQUEUE_NATIVE_H
#define GOQUEUE_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_native_wire.h"

/* Must be `section.INTERFACE`. */
enum { INTERFACE = 2 };

typedef struct {
    PyTypeObject *record_type;
    PyObject *malformed_record;
    PyObject *malformed_headers;
    PyObject *too_large;
    PyObject *no_headers;
} native_state;

static inline native_state *state_of(PyObject *module)
{
    return (native_state *)PyModule_GetState(module);
}

/* Raise what `reference.py` would raise; always returns NULL. */
PyObject *raise_verdict(native_state *state, Py_ssize_t record, verdict bad);

/* Open a Python `Section`. The view is good until the buffer is released; false raises. */
bool open_section(native_state *state, PyObject *object, Py_buffer *buffer, section_view *section);

PyObject *native_encode_records(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *native_decode_records(PyObject *module, PyObject *section);
PyObject *native_check_records(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *native_fill_columns(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
