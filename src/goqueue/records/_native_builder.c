/* Messages to the bytes of a records section, as they come: the compiled twin of `builder.py`.
 *
 * What is given is measured first and held; from then on no other code runs until it is written. */
#include "_native.h"

enum { FIRST_BYTES = 512 };

static const header_list NO_HEADERS = {.size = 1};

typedef struct {
    PyObject_HEAD
    native_state *state;
    output out;  /* `bytearray` is NULL once it was taken */
    Py_ssize_t limit_bytes;
    Py_ssize_t items; /* records and headers */
    int32_t count;
    bool is_full;
    int64_t base_timestamp, max_timestamp;
} builder;

/* --- One record ---------------------------------------------------------------------------- */

typedef enum { FAILED = -1, FULL, TAKEN } outcome;

static uint8_t *write_headers(uint8_t *to, const header_list *headers)
{
    to = write_varint(to, headers->count);
    for (Py_ssize_t i = 0; i < headers->count; i++)
        to = write_span(write_span(to, headers->all[i].name.bytes), headers->all[i].value.bytes);
    return to;
}

static outcome append(builder *self, span key, span value, const header_list *headers,
                      int64_t timestamp)
{
    native_state *state = self->state;
    int64_t delta = 0;
    if (self->out.bytearray == NULL)
        return FULL;
    if (self->count && __builtin_sub_overflow(timestamp, self->base_timestamp, &delta)) {
        PyErr_Format(state->malformed_record, "timestamp %lld does not fit a batch based at %lld",
                     (long long)timestamp, (long long)self->base_timestamp);
        return FAILED;
    }
    Py_ssize_t body = 1 + (Py_ssize_t)varint_size(delta) + (Py_ssize_t)varint_size(self->count)
                      + span_size(key) + span_size(value) + headers->size;
    Py_ssize_t size = (Py_ssize_t)varint_size(body) + body;
    if (self->count
        && (size > self->limit_bytes - self->out.used
            || 1 + headers->count > state->max_batch_items - self->items)) {
        self->is_full = true;
        return FULL;
    }
    if (size > state->max_batch_bytes - self->out.used) {
        PyErr_Format(state->too_large,
                     "a batch of %zd bytes; at most %zd are allowed, before compression and after",
                     self->out.used + size, state->max_batch_bytes);
        return FAILED;
    }
    uint8_t *to = reserve(&self->out, size);
    if (to == NULL)
        return FAILED;
    to = write_varint(to, body);
    *to++ = 0; /* attributes: none are defined */
    to = write_varint(to, delta);
    to = write_varint(to, self->count);
    to = write_span(write_span(to, key), value);
    write_headers(to, headers);
    if (self->count == 0)
        self->base_timestamp = self->max_timestamp = timestamp;
    else if (timestamp > self->max_timestamp)
        self->max_timestamp = timestamp;
    self->out.used += size;
    self->count++;
    self->items += 1 + headers->count;
    return TAKEN;
}

static bool take_timestamp(native_state *state, PyObject *object, int64_t *timestamp)
{
    int overflow;
    if (!PyLong_Check(object)) {
        PyErr_Format(PyExc_TypeError, "a timestamp must be an int of milliseconds, not %.100s",
                     Py_TYPE(object)->tp_name);
        return false;
    }
    *timestamp = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow)
        PyErr_Format(state->malformed_record, "timestamp %R does not fit 64 bits", object);
    return !overflow;
}

static PyObject *builder_add(PyObject *object, PyObject *const *args, Py_ssize_t arg_count)
{
    builder *self = (builder *)object;
    native_state *state = self->state;
    content value = {0}, key = {0};
    header_list headers;
    int64_t timestamp;
    outcome added = FAILED;
    if (arg_count != 4) {
        PyErr_SetString(PyExc_TypeError, "add takes a value, a key, headers and a timestamp");
        return NULL;
    }
    if (take_timestamp(state, args[3], &timestamp) && take_content(state, args[0], "value", &value)
        && take_content(state, args[1], "key", &key) && take_headers(state, args[2], &headers)) {
        added = append(self, key.bytes, value.bytes, &headers, timestamp);
        release_headers(&headers);
    }
    release_content(&value);
    release_content(&key);
    if (added == FAILED)
        return NULL;
    return PyLong_FromLong(added == FULL ? -1 : self->count - 1);
}

/* --- Many records -------------------------------------------------------------------------- */

typedef struct {
    source values, keys;
    bool has_keys;
    Py_buffer timestamps; /* `obj` is NULL where all have one */
    int64_t timestamp;
    Py_buffer rows; /* `obj` is NULL where all rows are meant */
    Py_ssize_t count;
} batch_input;

static bool open_timestamps(native_state *state, PyObject *object, batch_input *input)
{
    if (PyLong_Check(object))
        return take_timestamp(state, object, &input->timestamp);
    if (!PyObject_CheckBuffer(object)) {
        PyErr_Format(PyExc_TypeError, "timestamps must be an int or a buffer of int64, not %.100s",
                     Py_TYPE(object)->tp_name);
        return false;
    }
    if (PyObject_GetBuffer(object, &input->timestamps, PyBUF_SIMPLE) < 0)
        return false;
    if (input->timestamps.len / 8 < source_count(&input->values)) {
        PyErr_SetString(PyExc_ValueError, "there are fewer timestamps than values");
        return false;
    }
    return true;
}

static bool open_input(native_state *state, PyObject *const *args, Py_ssize_t arg_count,
                       batch_input *input)
{
    if (!open_source(state, args[0], "value", &input->values))
        return false;
    input->has_keys = args[1] != Py_None;
    if (input->has_keys && !open_source(state, args[1], "key", &input->keys))
        return false;
    input->count = source_count(&input->values);
    if (input->has_keys && source_count(&input->keys) != input->count) {
        PyErr_Format(PyExc_ValueError, "%zd keys for %zd values", source_count(&input->keys),
                     input->count);
        return false;
    }
    if (!open_timestamps(state, args[2], input))
        return false;
    if (arg_count > 3 && args[3] != Py_None) {
        if (PyObject_GetBuffer(args[3], &input->rows, PyBUF_SIMPLE) < 0)
            return false;
        if (input->rows.len % 4) {
            PyErr_SetString(PyExc_ValueError, "rows must be whole numbers of 32 bits");
            return false;
        }
        input->count = input->rows.len / 4;
    }
    return true;
}

static void close_input(batch_input *input)
{
    close_source(&input->values);
    close_source(&input->keys);
    PyBuffer_Release(&input->timestamps);
    PyBuffer_Release(&input->rows);
}

static outcome append_row(builder *self, const batch_input *input, Py_ssize_t at)
{
    content value = {0}, key = {0};
    int64_t timestamp = input->timestamp;
    int32_t number;
    outcome added = FAILED;
    Py_ssize_t row = at;
    if (input->rows.obj != NULL) {
        memcpy(&number, (const uint8_t *)input->rows.buf + at * 4, 4);
        row = number;
    }
    if (source_entry(self->state, &input->values, row, "value", &value)
        && (!input->has_keys || source_entry(self->state, &input->keys, row, "key", &key))) {
        if (input->timestamps.obj != NULL)
            memcpy(&timestamp, (const uint8_t *)input->timestamps.buf + row * 8, 8);
        added = append(self, key.bytes, value.bytes, &NO_HEADERS, timestamp);
    }
    release_content(&value);
    release_content(&key);
    return added;
}

static PyObject *builder_add_many(PyObject *object, PyObject *const *args, Py_ssize_t arg_count)
{
    builder *self = (builder *)object;
    batch_input input = {0};
    if (arg_count < 3 || arg_count > 5) {
        PyErr_SetString(PyExc_TypeError, "add_many takes values, keys, timestamps, rows and start");
        return NULL;
    }
    Py_ssize_t start = arg_count > 4 ? PyLong_AsSsize_t(args[4]) : 0, at = start;
    if (start == -1 && PyErr_Occurred())
        return NULL;
    outcome added = FAILED;
    if (start < 0)
        PyErr_SetString(PyExc_ValueError, "the start must not be negative");
    else if (open_input(self->state, args, arg_count, &input))
        for (added = TAKEN; at < input.count; at++)
            if ((added = append_row(self, &input, at)) != TAKEN)
                break;
    close_input(&input);
    return added == FAILED ? NULL : PyLong_FromSsize_t(at - start);
}

/* --- The object ---------------------------------------------------------------------------- */

static PyObject *builder_take(PyObject *object, PyObject *ignored)
{
    (void)ignored;
    builder *self = (builder *)object;
    if (self->out.bytearray == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the batch was finished before");
        return NULL;
    }
    if (PyByteArray_Resize(self->out.bytearray, self->out.used) < 0)
        return NULL;
    self->out.capacity = self->out.used;
    PyObject *taken = Py_BuildValue("(OLL)", self->out.bytearray, (long long)self->base_timestamp,
                                    (long long)self->max_timestamp);
    if (taken != NULL) {
        Py_CLEAR(self->out.bytearray);
        self->is_full = true;
    }
    return taken;
}

static PyObject *builder_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"limit_bytes", NULL};
    Py_ssize_t limit_bytes;
    PyObject *module = PyType_GetModuleByDef(type, &native_definition);
    if (module == NULL || !PyArg_ParseTupleAndKeywords(args, keywords, "n", names, &limit_bytes))
        return NULL;
    builder *self = (builder *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->state = state_of(module);
    self->limit_bytes = limit_bytes < self->state->max_batch_bytes ? limit_bytes
                                                                   : self->state->max_batch_bytes;
    self->out.most = self->limit_bytes;
    self->out.bytearray = PyByteArray_FromStringAndSize(NULL, 0);
    uint8_t *front = self->out.bytearray ? reserve(&self->out, FIRST_BYTES) : NULL;
    if (front == NULL) {
        Py_DECREF(self);
        return NULL;
    }
    memset(front, 0, HEADER_BYTES);
    self->out.used = HEADER_BYTES;
    return (PyObject *)self;
}

static void builder_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Py_CLEAR(((builder *)object)->out.bytearray);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *builder_count(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromLong(((builder *)self)->count);
}

static PyObject *builder_size(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromSsize_t(((builder *)self)->out.used);
}

static PyObject *builder_is_full(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(((builder *)self)->is_full);
}

#define FASTCALL(function) (PyCFunction)(void (*)(void))(function)

static PyMethodDef builder_methods[] = {
    {"add", FASTCALL(builder_add), METH_FASTCALL, "See goqueue.records.builder."},
    {"add_many", FASTCALL(builder_add_many), METH_FASTCALL, "See goqueue.records.builder."},
    {"take", builder_take, METH_NOARGS, "See goqueue.records.builder."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef builder_properties[] = {
    {"count", builder_count, NULL, "See goqueue.records.builder.", NULL},
    {"size_bytes", builder_size, NULL, "See goqueue.records.builder.", NULL},
    {"is_full", builder_is_full, NULL, "See goqueue.records.builder.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot builder_slots[] = {
    {Py_tp_new, (void *)builder_new},
    {Py_tp_dealloc, (void *)builder_dealloc},
    {Py_tp_methods, builder_methods},
    {Py_tp_getset, builder_properties},
    {0, NULL},
};

static PyType_Spec builder_spec = {
    .name = "goqueue.records._native.SectionBuilder",
    .basicsize = sizeof(builder),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = builder_slots,
};

PyObject *new_builder_type(PyObject *module)
{
    return PyType_FromModuleAndSpec(module, &builder_spec, NULL);
}
