/* The compiled twin of `reference.py`: the module, and records to and from rows.
 * Columns are in `_native_columns.c`, the wire format in `_native_wire.h`. */
#include "_native.h"

/* --- Shared with the other parts ----------------------------------------------------------- */

PyObject *raise_verdict(native_state *state, Py_ssize_t record, verdict bad)
{
    PyObject *class = bad.kind == BAD_HEADERS ? state->malformed_headers
                      : bad.kind == TOO_LARGE ? state->too_large
                                              : state->malformed_record;
    PyObject *text = PyUnicode_FromFormat("record %zd does not parse: %s", record, bad.what);
    PyObject *number = PyLong_FromSsize_t(record);
    PyObject *refused = PyDict_New();
    PyObject *error = text ? PyObject_CallOneArg(class, text) : NULL;
    if (number && refused && error && PyDict_SetItem(refused, number, text) == 0
        && PyObject_SetAttrString(error, "refused", refused) == 0)
        PyErr_SetObject(class, error);
    Py_XDECREF(text);
    Py_XDECREF(number);
    Py_XDECREF(refused);
    Py_XDECREF(error);
    return NULL;
}

static bool read_section_numbers(PyObject *object, section_view *section)
{
    PyObject *append_time = PyTuple_GET_ITEM(object, 5);
    section->record_count = PyLong_AsSsize_t(PyTuple_GET_ITEM(object, 1));
    section->base_offset = PyLong_AsLongLong(PyTuple_GET_ITEM(object, 2));
    long long last_offset_delta = PyLong_AsLongLong(PyTuple_GET_ITEM(object, 3));
    section->base_timestamp = PyLong_AsLongLong(PyTuple_GET_ITEM(object, 4));
    section->has_append_time = append_time != Py_None;
    section->append_time = section->has_append_time ? PyLong_AsLongLong(append_time) : 0;
    section->max_headers = PyLong_AsLongLong(PyTuple_GET_ITEM(object, 6));
    if (PyErr_Occurred())
        return false;
    int64_t last_offset;
    if (section->record_count < 0 || last_offset_delta < 0 || last_offset_delta > INT32_MAX
        || __builtin_add_overflow(section->base_offset, (int64_t)last_offset_delta, &last_offset)) {
        PyErr_SetString(PyExc_ValueError, "the numbers of the section contradict each other");
        return false;
    }
    section->last_offset_delta = (int32_t)last_offset_delta;
    return true;
}

bool open_section(native_state *state, PyObject *object, Py_buffer *buffer, section_view *section)
{
    if (!PyTuple_Check(object) || PyTuple_GET_SIZE(object) != 7) {
        PyErr_SetString(PyExc_TypeError, "a Section is needed");
        return false;
    }
    if (!read_section_numbers(object, section)
        || PyObject_GetBuffer(PyTuple_GET_ITEM(object, 0), buffer, PyBUF_SIMPLE) < 0)
        return false;
    section->data = buffer->buf;
    section->length = buffer->len;
    if (section->record_count > section->length / LEAST_RECORD_BYTES) {
        PyBuffer_Release(buffer);
        raise_verdict(state, 0, refuse(BAD_RECORD, "there are more records than fit"));
        return false;
    }
    return true;
}

/* --- Decoding to rows ---------------------------------------------------------------------- */

PyObject *new_bytes(span bytes)
{
    if (bytes.data == NULL)
        return Py_NewRef(Py_None);
    return PyBytes_FromStringAndSize((const char *)bytes.data, bytes.length);
}

static PyObject *new_header(const header_view *header)
{
    PyObject *pair = PyTuple_New(2);
    if (pair == NULL)
        return NULL;
    PyObject *name = PyUnicode_DecodeUTF8(
        (const char *)header->name.data, header->name.length, "surrogateescape");
    PyObject *value = new_bytes(header->value);
    PyTuple_SET_ITEM(pair, 0, name);
    PyTuple_SET_ITEM(pair, 1, value);
    if (name == NULL || value == NULL)
        Py_CLEAR(pair);
    return pair;
}

PyObject *new_headers(native_state *state, cursor headers, int32_t count)
{
    if (count == 0)
        return Py_NewRef(state->no_headers);
    PyObject *tuple = PyTuple_New(count);
    for (int32_t i = 0; tuple != NULL && i < count; i++) {
        header_view header;
        verdict found = next_header(&headers, &header);
        PyObject *pair = found.kind == FINE ? new_header(&header) : raise_verdict(state, 0, found);
        if (pair == NULL)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, i, pair);
    }
    return tuple;
}

PyObject *new_named_tuple(PyTypeObject *type, PyObject *const *items, Py_ssize_t count)
{
    PyObject *tuple = NULL;
    bool is_whole = true;
    for (Py_ssize_t i = 0; i < count; i++)
        is_whole = is_whole && items[i] != NULL;
#if PY_VERSION_HEX < 0x030E0000
    if (is_whole)
        tuple = type->tp_alloc(type, count);
    for (Py_ssize_t i = 0; i < count; i++) {
        if (tuple != NULL)
            PyTuple_SET_ITEM(tuple, i, items[i]);
        else
            Py_XDECREF(items[i]);
    }
    /* Numbers, bytes and tuples of them form no cycles; the collector need not visit them. */
    if (tuple != NULL)
        PyObject_GC_UnTrack(tuple);
#else
    /* Tuples cache their hash from 3.14 on, which only their own constructor prepares. */
    if (is_whole)
        tuple = PyObject_Vectorcall((PyObject *)type, items, (size_t)count, NULL);
    for (Py_ssize_t i = 0; i < count; i++)
        Py_XDECREF(items[i]);
#endif
    return tuple;
}

static PyObject *decode_row(native_state *state, Py_ssize_t index, walker *walk)
{
    record_view record = {0};
    verdict found = next_record(walk, &record);
    if (found.kind == FINE)
        found = check_headers(&record);
    if (found.kind != FINE)
        return raise_verdict(state, index, found);
    PyObject *headers = new_headers(state, record.headers, record.header_count);
    if (headers == NULL)
        return NULL;
    PyObject *const items[5]
        = {PyLong_FromLongLong(record.offset), PyLong_FromLongLong(record.timestamp),
           new_bytes(record.key), new_bytes(record.value), headers};
    return new_named_tuple(state->record_type, items, 5);
}

/* Rows after which another thread may run: making them needs the GIL, and takes a second for a
 * batch of millions. */
enum { ROWS_A_TURN = 4096 };

static PyObject *decode_rows(native_state *state, const section_view *section)
{
    PyObject *rows = PyList_New(section->record_count);
    if (rows == NULL)
        return NULL;
    walker walk = walk_section(section);
    for (Py_ssize_t i = 0; i < section->record_count; i++) {
        PyObject *row = decode_row(state, i, &walk);
        if (row == NULL) {
            Py_DECREF(rows);
            return NULL;
        }
        PyList_SET_ITEM(rows, i, row);
        if (i % ROWS_A_TURN == ROWS_A_TURN - 1) {
            Py_BEGIN_ALLOW_THREADS
            Py_END_ALLOW_THREADS
        }
    }
    verdict end = end_section(&walk);
    if (end.kind != FINE) {
        Py_DECREF(rows);
        return raise_verdict(state, section->record_count, end);
    }
    return rows;
}

PyObject *native_decode_records(PyObject *module, PyObject *argument)
{
    Py_buffer buffer;
    section_view section;
    native_state *state = state_of(module);
    if (!open_section(state, argument, &buffer, &section))
        return NULL;
    PyObject *rows = decode_rows(state, &section);
    PyBuffer_Release(&buffer);
    return rows;
}

/* --- The module ---------------------------------------------------------------------------- */

PyObject *import_name(const char *module_name, const char *name)
{
    PyObject *module = PyImport_ImportModule(module_name);
    if (module == NULL)
        return NULL;
    PyObject *object = PyObject_GetAttrString(module, name);
    Py_DECREF(module);
    return object;
}

static Py_ssize_t import_limit(const char *name)
{
    PyObject *limit = import_name("goqueue.model.limits", name);
    Py_ssize_t number = limit == NULL ? -1 : PyLong_AsSsize_t(limit);
    Py_XDECREF(limit);
    return number;
}

static bool is_tuple_type(PyTypeObject *type)
{
    return PyType_Check(type) && PyType_IsSubtype(type, &PyTuple_Type);
}

static int execute_module(PyObject *module)
{
    native_state *state = state_of(module);
    const char *errors = "goqueue.model.errors";
    state->record_type = (PyTypeObject *)import_name("goqueue.records.record", "Record");
    state->malformed_record = import_name(errors, "MalformedRecordError");
    state->malformed_headers = import_name(errors, "MalformedHeadersError");
    state->too_large = import_name(errors, "BatchTooLargeError");
    state->no_headers = PyTuple_New(0);
    state->view_type = (PyTypeObject *)import_name("goqueue.records.columns", "BinaryView");
    state->max_batch_bytes = import_limit("MAX_BATCH_BYTES");
    state->max_batch_items = import_limit("FREE_BATCH_ITEMS");
    state->stored_bytes_per_item = import_limit("STORED_BYTES_PER_ITEM");
    state->section_type = (PyTypeObject *)import_name("goqueue.records.section", "Section");
    if (PyErr_Occurred())
        return -1;
    if (!is_tuple_type(state->record_type) || !is_tuple_type(state->view_type)
        || !is_tuple_type(state->section_type)) {
        PyErr_SetString(PyExc_TypeError, "Record, BinaryView and Section must be tuples");
        return -1;
    }
    state->builder_type = new_builder_type(module);
    state->row_type = (PyTypeObject *)new_row_type(module);
    state->messages_type = new_messages_type(module);
    if (PyErr_Occurred() || PyModule_AddObjectRef(module, "SectionBuilder", state->builder_type) < 0
        || PyModule_AddObjectRef(module, "Row", (PyObject *)state->row_type) < 0
        || PyModule_AddObjectRef(module, "Messages", state->messages_type) < 0
        || !add_checksum(module))
        return -1;
    return PyModule_AddIntConstant(module, "INTERFACE", INTERFACE);
}

static int traverse_module(PyObject *module, visitproc visit, void *arg)
{
    native_state *state = state_of(module);
    Py_VISIT(state->record_type);
    Py_VISIT(state->malformed_record);
    Py_VISIT(state->malformed_headers);
    Py_VISIT(state->too_large);
    Py_VISIT(state->view_type);
    Py_VISIT(state->section_type);
    Py_VISIT(state->info_type);
    Py_VISIT(state->builder_type);
    Py_VISIT(state->row_type);
    Py_VISIT(state->messages_type);
    return 0;
}

static int clear_module(PyObject *module)
{
    native_state *state = state_of(module);
    Py_CLEAR(state->record_type);
    Py_CLEAR(state->malformed_record);
    Py_CLEAR(state->malformed_headers);
    Py_CLEAR(state->too_large);
    Py_CLEAR(state->no_headers);
    Py_CLEAR(state->view_type);
    Py_CLEAR(state->section_type);
    Py_CLEAR(state->info_type);
    Py_CLEAR(state->builder_type);
    Py_CLEAR(state->row_type);
    Py_CLEAR(state->messages_type);
    return 0;
}

#define FASTCALL(function) (PyCFunction)(void (*)(void))(function)

static PyMethodDef methods[] = {
    {"encode_records", FASTCALL(native_encode_records), METH_FASTCALL,
     "See goqueue.records.section."},
    {"decode_records", native_decode_records, METH_O, "See goqueue.records.section."},
    {"check_records", FASTCALL(native_check_records), METH_FASTCALL,
     "See goqueue.records.section."},
    {"fill_columns", FASTCALL(native_fill_columns), METH_FASTCALL,
     "See goqueue.records.section."},
    {"find_records", FASTCALL(native_find_records), METH_FASTCALL,
     "See goqueue.records.section."},
    {"open_plain", FASTCALL(native_open_plain), METH_FASTCALL, "See goqueue.records.fetched."},
    {"key_hash", native_key_hash, METH_O, "See goqueue.records.partitioning."},
    {"split_rows", FASTCALL(native_split_rows), METH_FASTCALL,
     "See goqueue.records.partitioning."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)execute_module}, {0, NULL}};

struct PyModuleDef native_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_native",
    .m_doc = "The compiled twin of goqueue.records.reference.",
    .m_size = sizeof(native_state),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = traverse_module,
    .m_clear = clear_module,
};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&native_definition);
}
