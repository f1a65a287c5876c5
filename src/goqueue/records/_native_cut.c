/* Where some of the records of a section are, so that they can be sent without the others. */
#include "_native.h"

/* The start of a record: how long it is, and its offset. */
static verdict read_place(cursor *rest, int32_t *offset_delta)
{
    int32_t length;
    int64_t timestamp_delta;
    if (!read_varint(rest, &length) || length < 1 || length > rest->end - rest->at)
        return refuse(BAD_RECORD, "its length is not within the batch");
    cursor body = {rest->at + 1, rest->at + length};
    rest->at += length;
    if (!read_varlong(&body, &timestamp_delta) || !read_varint(&body, offset_delta))
        return refuse(BAD_RECORD, "its timestamp or offset does not parse");
    return ALL_FINE;
}

PyObject *native_find_records(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    native_state *state = state_of(module);
    if (count != 4) {
        PyErr_SetString(PyExc_TypeError, "find_records takes 4 arguments");
        return NULL;
    }
    Py_ssize_t records = PyLong_AsSsize_t(args[1]);
    int64_t first = PyLong_AsLongLong(args[2]), end = PyLong_AsLongLong(args[3]);
    Py_buffer buffer;
    if (PyErr_Occurred() || PyObject_GetBuffer(args[0], &buffer, PyBUF_SIMPLE) < 0)
        return NULL;
    const uint8_t *data = buffer.buf;
    cursor rest = {data, data + buffer.len};
    Py_ssize_t start = 0, stop = 0, found = 0;
    verdict seen = ALL_FINE;
    for (Py_ssize_t i = 0; i < records && seen.kind == FINE; i++) {
        int32_t delta = 0;
        Py_ssize_t at = rest.at - data;
        seen = read_place(&rest, &delta);
        if (seen.kind != FINE) {
            raise_verdict(state, i, seen);
        } else if (delta >= end) {
            break;
        } else if (delta >= first) {
            start = found++ ? start : at;
            stop = rest.at - data;
        }
    }
    PyBuffer_Release(&buffer);
    return seen.kind == FINE ? Py_BuildValue("(nnn)", start, stop, found) : NULL;
}
