/* Rows to the bytes of a records section.
 *
 * Only immutable objects are read (tuples, bytes, str; lists are copied into tuples first), so what
 * was measured is what is written, whatever other code the interpreter runs in between. */
#include "_native.h"

typedef struct {
    int64_t offset;
    int64_t timestamp;
    span key;
    span value;
    PyObject *headers; /* a tuple, owned; NULL without headers */
} row_view;

/* --- One row ------------------------------------------------------------------------------- */

static bool take_number(native_state *state, PyObject *object, int64_t *number)
{
    int overflow;
    if (!PyLong_Check(object)) {
        PyErr_Format(PyExc_TypeError, "an offset or timestamp must be an int, not %.100s",
                     Py_TYPE(object)->tp_name);
        return false;
    }
    *number = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow)
        PyErr_Format(state->malformed_record, "%R does not fit an offset or timestamp", object);
    return !overflow;
}

static bool take_bytes(native_state *state, PyObject *object, span *bytes)
{
    *bytes = (span){NULL, 0};
    if (object == Py_None)
        return true;
    if (!PyBytes_Check(object)) {
        PyErr_Format(PyExc_TypeError, "keys and values must be bytes or None, not %.100s",
                     Py_TYPE(object)->tp_name);
        return false;
    }
    if (PyBytes_GET_SIZE(object) > INT32_MAX) {
        PyErr_SetString(state->too_large, "a key or value of more than 2 GiB");
        return false;
    }
    *bytes = (span){(const uint8_t *)PyBytes_AS_STRING(object), (int32_t)PyBytes_GET_SIZE(object)};
    return true;
}

static bool take_row(native_state *state, PyObject *object, row_view *row)
{
    row->headers = NULL;
    if (!PyTuple_Check(object) || PyTuple_GET_SIZE(object) != 5) {
        PyErr_Format(PyExc_TypeError, "a Record is needed, not %.100s", Py_TYPE(object)->tp_name);
        return false;
    }
    PyObject *headers = PyTuple_GET_ITEM(object, 4);
    if (!take_number(state, PyTuple_GET_ITEM(object, 0), &row->offset)
        || !take_number(state, PyTuple_GET_ITEM(object, 1), &row->timestamp)
        || !take_bytes(state, PyTuple_GET_ITEM(object, 2), &row->key)
        || !take_bytes(state, PyTuple_GET_ITEM(object, 3), &row->value))
        return false;
    if (headers == state->no_headers)
        return true;
    row->headers = PySequence_Tuple(headers);
    return row->headers != NULL;
}

/* --- Headers ------------------------------------------------------------------------------- */

/* Count and headers, appended to `out`: what they take up, or -1. */
static Py_ssize_t append_headers(native_state *state, output *out, PyObject *headers)
{
    Py_ssize_t start = out->used, count = PyTuple_GET_SIZE(headers);
    uint8_t *to = reserve(out, (Py_ssize_t)varint_size(count));
    if (to == NULL)
        return -1;
    out->used += write_varint(to, count) - to;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *pair = PyTuple_GET_ITEM(headers, i);
        content name = {0};
        span value;
        if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2) {
            PyErr_SetString(PyExc_TypeError, "a header must be a tuple of name and value");
            return -1;
        }
        if (!take_bytes(state, PyTuple_GET_ITEM(pair, 1), &value)
            || !take_name(state, PyTuple_GET_ITEM(pair, 0), &name))
            return -1;
        to = reserve(out, span_size(name.bytes) + span_size(value));
        if (to != NULL)
            out->used += write_span(write_span(to, name.bytes), value) - to;
        release_content(&name);
        if (to == NULL)
            return -1;
    }
    return out->used - start;
}

/* --- One record ---------------------------------------------------------------------------- */

enum { MOST_LENGTH_BYTES = 10 };

/* The headers are written first, at a distance that leaves room for what comes before them. */
static bool append_record(native_state *state, output *out, const row_view *row,
                          int64_t timestamp_delta, int32_t offset_delta)
{
    Py_ssize_t start = out->used, headers_size = 1;
    Py_ssize_t front = 1 + (Py_ssize_t)varint_size(timestamp_delta)
                       + (Py_ssize_t)varint_size(offset_delta) + span_size(row->key)
                       + span_size(row->value);
    uint8_t *to = reserve(out, MOST_LENGTH_BYTES + front + 1);
    if (to == NULL)
        return false;
    if (row->headers != NULL) {
        out->used += MOST_LENGTH_BYTES + front;
        headers_size = append_headers(state, out, row->headers);
        if (headers_size < 0)
            return false;
        to = (uint8_t *)PyByteArray_AS_STRING(out->bytearray) + start;
    }
    uint8_t *headers_from = to + MOST_LENGTH_BYTES + front;
    to = write_varint(to, front + headers_size);
    *to++ = 0; /* attributes: none are defined */
    to = write_varint(to, timestamp_delta);
    to = write_varint(to, offset_delta);
    to = write_span(to, row->key);
    to = write_span(to, row->value);
    if (row->headers != NULL)
        memmove(to, headers_from, (size_t)headers_size);
    else
        *to = 0;
    out->used = to + headers_size - (uint8_t *)PyByteArray_AS_STRING(out->bytearray);
    return true;
}

static bool encode_all(native_state *state, output *out, PyObject *records, int64_t base_offset,
                       int64_t base_timestamp, int64_t *max_timestamp)
{
    int64_t last_delta = -1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(records); i++) {
        row_view row;
        int64_t timestamp_delta, offset_delta;
        if (!take_row(state, PyTuple_GET_ITEM(records, i), &row))
            return false;
        bool good = true;
        if (__builtin_sub_overflow(row.timestamp, base_timestamp, &timestamp_delta)
            || __builtin_sub_overflow(row.offset, base_offset, &offset_delta)
            || offset_delta <= last_delta || offset_delta > INT32_MAX) {
            PyErr_Format(state->malformed_record,
                         "record %zd: offset %lld or timestamp %lld does not fit a batch based at "
                         "%lld and %lld",
                         i, (long long)row.offset, (long long)row.timestamp,
                         (long long)base_offset, (long long)base_timestamp);
            good = false;
        }
        good = good && append_record(state, out, &row, timestamp_delta, (int32_t)offset_delta);
        Py_XDECREF(row.headers);
        if (!good)
            return false;
        last_delta = offset_delta;
        if (i == 0 || row.timestamp > *max_timestamp)
            *max_timestamp = row.timestamp;
    }
    return true;
}

PyObject *native_encode_records(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    native_state *state = state_of(module);
    if (count != 4) {
        PyErr_SetString(PyExc_TypeError, "encode_records takes 4 arguments");
        return NULL;
    }
    int64_t base_offset = PyLong_AsLongLong(args[1]);
    int64_t base_timestamp = PyLong_AsLongLong(args[2]);
    Py_ssize_t room = PyLong_AsSsize_t(args[3]);
    if (PyErr_Occurred())
        return NULL;
    if (room < 0) {
        PyErr_SetString(PyExc_ValueError, "the room must not be negative");
        return NULL;
    }
    PyObject *records = PySequence_Tuple(args[0]);
    output out = {PyByteArray_FromStringAndSize(NULL, 0), 0, 0, PY_SSIZE_T_MAX};
    int64_t max_timestamp = base_timestamp;
    PyObject *result = NULL;
    uint8_t *front = records && out.bytearray ? reserve(&out, room) : NULL;
    if (front != NULL) {
        memset(front, 0, (size_t)room);
        out.used = room;
        if (encode_all(state, &out, records, base_offset, base_timestamp, &max_timestamp)
            && PyByteArray_Resize(out.bytearray, out.used) == 0)
            result = Py_BuildValue("(OL)", out.bytearray, (long long)max_timestamp);
    }
    Py_XDECREF(records);
    Py_XDECREF(out.bytearray);
    return result;
}
