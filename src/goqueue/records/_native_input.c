/* What users give: contents one by one, in lists, or in columns laid out as Arrow lays them out.
 *
 * A content is held while it is used, and copied where it could change meanwhile. */
#include "_native.h"

/* --- One content --------------------------------------------------------------------------- */

static bool hold(native_state *state, PyObject *holder, const void *data, Py_ssize_t length,
                 content *taken)
{
    taken->holder = holder;
    if (length > INT32_MAX) {
        PyErr_SetString(state->too_large, "a key, value or header of more than 2 GiB");
        return false;
    }
    taken->bytes = (span){data, (int32_t)length};
    return true;
}

static bool hold_bytes(native_state *state, PyObject *bytes, content *taken)
{
    return bytes != NULL
           && hold(state, bytes, PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes), taken);
}

static bool hold_ascii(native_state *state, PyObject *text, content *taken)
{
    return hold(state, Py_NewRef(text), PyUnicode_DATA(text), PyUnicode_GET_LENGTH(text), taken);
}

bool take_name(native_state *state, PyObject *name, content *taken)
{
    if (!PyUnicode_Check(name)) {
        PyErr_Format(PyExc_TypeError, "the name of a header must be a str, not %.100s",
                     Py_TYPE(name)->tp_name);
        return false;
    }
    if (PyUnicode_IS_COMPACT_ASCII(name))
        return hold_ascii(state, name, taken);
    return hold_bytes(state, PyUnicode_AsEncodedString(name, "utf-8", "surrogateescape"), taken);
}

bool take_content(native_state *state, PyObject *object, const char *what, content *taken)
{
    if (PyBytes_Check(object))
        return hold_bytes(state, Py_NewRef(object), taken);
    if (object == Py_None) {
        taken->bytes = (span){NULL, 0};
        return true;
    }
    if (PyUnicode_Check(object)) {
        if (PyUnicode_IS_COMPACT_ASCII(object))
            return hold_ascii(state, object, taken);
        return hold_bytes(state, PyUnicode_AsUTF8String(object), taken);
    }
    if (PyByteArray_Check(object) || PyMemoryView_Check(object)) {
        Py_INCREF(object); /* its buffer may be a method of a subclass, which may do anything */
        PyObject *copy = PyBytes_FromObject(object);
        Py_DECREF(object);
        return hold_bytes(state, copy, taken);
    }
    PyErr_Format(PyExc_TypeError, "a %s must be bytes, str or None, not %.100s", what,
                 Py_TYPE(object)->tp_name);
    return false;
}

/* --- Headers ------------------------------------------------------------------------------- */

void release_headers(header_list *headers)
{
    for (Py_ssize_t i = 0; i < headers->count; i++) {
        release_content(&headers->all[i].name);
        release_content(&headers->all[i].value);
    }
    if (headers->all != headers->few)
        PyMem_Free(headers->all);
}

static bool take_header(native_state *state, PyObject *pair, header_content *header)
{
    if (!(PyTuple_Check(pair) || PyList_Check(pair)) || PySequence_Fast_GET_SIZE(pair) != 2) {
        PyErr_Format(PyExc_TypeError, "a header must be a pair of name and value, not %.100R", pair);
        return false;
    }
    *header = (header_content){0};
    PyObject *value = Py_NewRef(PySequence_Fast_GET_ITEM(pair, 1));
    bool taken = take_name(state, PySequence_Fast_GET_ITEM(pair, 0), &header->name)
                 && take_content(state, value, "header value", &header->value);
    Py_DECREF(value);
    if (!taken) {
        release_content(&header->name);
        release_content(&header->value);
    }
    return taken;
}

/* The pairs of a sequence or a mapping, as a tuple that stays as it is; NULL raises. */
static PyObject *as_pairs(PyObject *headers)
{
    if (PyTuple_Check(headers))
        return Py_NewRef(headers);
    if (PyObject_HasAttrString(headers, "items")) {
        PyObject *items = PyMapping_Items(headers);
        PyObject *pairs = items == NULL ? NULL : PySequence_Tuple(items);
        Py_XDECREF(items);
        return pairs;
    }
    if (PySequence_Check(headers) && !PyUnicode_Check(headers) && !PyBytes_Check(headers))
        return PySequence_Tuple(headers);
    PyErr_Format(PyExc_TypeError, "headers must be a mapping or a sequence of pairs, not %.100s",
                 Py_TYPE(headers)->tp_name);
    return NULL;
}

bool take_headers(native_state *state, PyObject *object, header_list *headers)
{
    headers->all = headers->few;
    headers->count = 0;
    headers->size = 1;
    if (object == Py_None || object == state->no_headers)
        return true;
    PyObject *pairs = as_pairs(object);
    if (pairs == NULL)
        return false;
    Py_ssize_t count = PyTuple_GET_SIZE(pairs);
    bool taken = true;
    if (count > FEW_HEADERS) {
        headers->all = PyMem_New(header_content, count);
        if (headers->all == NULL) {
            headers->all = headers->few;
            PyErr_NoMemory();
            taken = false;
        }
    }
    headers->size = (Py_ssize_t)varint_size(count);
    while (taken && headers->count < count) {
        header_content *header = &headers->all[headers->count];
        taken = take_header(state, PyTuple_GET_ITEM(pairs, headers->count), header);
        if (taken) {
            headers->count++;
            headers->size += span_size(header->name.bytes) + span_size(header->value.bytes);
        }
    }
    Py_DECREF(pairs);
    if (!taken)
        release_headers(headers);
    return taken;
}

/* --- A column ------------------------------------------------------------------------------ */

static bool is_consistent(const column_view *column)
{
    const int64_t width = column->is_large ? 8 : 4;
    int64_t end;
    if (column->first < 0 || column->count < 0
        || __builtin_add_overflow(column->first, column->count, &end) || end > INT64_MAX / 16)
        return false;
    if (column->count == 0)
        return true;
    return (end + 1) * width <= column->ends.len
           && (!column->has_validity || (end + 7) / 8 <= column->validity.len);
}

static bool open_column(PyObject *view, column_view *column)
{
    PyObject *validity = PyTuple_GET_ITEM(view, 2);
    column->first = PyLong_AsLongLong(PyTuple_GET_ITEM(view, 3));
    column->count = PyLong_AsLongLong(PyTuple_GET_ITEM(view, 4));
    int is_large = PyObject_IsTrue(PyTuple_GET_ITEM(view, 5));
    if (PyErr_Occurred())
        return false;
    column->is_large = is_large == 1;
    column->has_validity = validity != Py_None;
    if (PyObject_GetBuffer(PyTuple_GET_ITEM(view, 0), &column->ends, PyBUF_SIMPLE) < 0
        || PyObject_GetBuffer(PyTuple_GET_ITEM(view, 1), &column->data, PyBUF_SIMPLE) < 0
        || (column->has_validity
            && PyObject_GetBuffer(validity, &column->validity, PyBUF_SIMPLE) < 0))
        return false;
    if (!is_consistent(column)) {
        PyErr_SetString(PyExc_ValueError, "the buffers of a column are smaller than its rows need");
        return false;
    }
    return true;
}

static int64_t end_at(const column_view *column, int64_t index)
{
    int64_t large;
    int32_t small;
    if (column->is_large) {
        memcpy(&large, (const uint8_t *)column->ends.buf + index * 8, 8);
        return large;
    }
    memcpy(&small, (const uint8_t *)column->ends.buf + index * 4, 4);
    return small;
}

static bool column_entry(native_state *state, const column_view *column, int64_t row,
                         content *taken)
{
    const int64_t index = column->first + row;
    if (column->has_validity
        && !(((const uint8_t *)column->validity.buf)[index >> 3] >> (index & 7) & 1)) {
        taken->bytes = (span){NULL, 0};
        return true;
    }
    const int64_t start = end_at(column, index), end = end_at(column, index + 1);
    if (start < 0 || end < start || end > column->data.len) {
        PyErr_Format(PyExc_ValueError, "row %lld of a column ends outside of its data",
                     (long long)row);
        return false;
    }
    if (start == end) {
        taken->bytes = (span){(const uint8_t *)"", 0};
        return true;
    }
    return hold(state, NULL, (const uint8_t *)column->data.buf + start, end - start, taken);
}

/* --- Many contents ------------------------------------------------------------------------- */

enum { VIEW_FIELDS = 6 };

bool open_source(native_state *state, PyObject *object, const char *what, source *opened)
{
    if (PyObject_TypeCheck(object, state->view_type)
        && PyTuple_GET_SIZE(object) == VIEW_FIELDS)
        return open_column(object, &opened->column);
    if (PyList_Check(object) || PyTuple_Check(object)) {
        opened->objects = Py_NewRef(object);
        return true;
    }
    PyErr_Format(PyExc_TypeError, "%ss must be a list, a tuple or a BinaryView, not %.100s", what,
                 Py_TYPE(object)->tp_name);
    return false;
}

void close_source(source *opened)
{
    Py_CLEAR(opened->objects);
    PyBuffer_Release(&opened->column.ends);
    PyBuffer_Release(&opened->column.data);
    PyBuffer_Release(&opened->column.validity);
}

Py_ssize_t source_count(const source *from)
{
    if (from->objects == NULL)
        return (Py_ssize_t)from->column.count;
    return PySequence_Fast_GET_SIZE(from->objects);
}

bool source_entry(native_state *state, const source *from, Py_ssize_t row, const char *what,
                  content *taken)
{
    if (row < 0 || row >= source_count(from)) {
        PyErr_Format(PyExc_IndexError, "there is no row %zd among %zd", row, source_count(from));
        return false;
    }
    if (from->objects == NULL)
        return column_entry(state, &from->column, row, taken);
    return take_content(state, PySequence_Fast_GET_ITEM(from->objects, row), what, taken);
}
