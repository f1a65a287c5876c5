/* Fetched records, validated once and decoded as they are asked for. The twin of `messages.Messages`.
 *
 * The sections are not copied. Another thread may write into a mutable one, so a read trusts
 * nothing that was found before: it checks each length against the end of the section. */
#include "_native.h"

#include <structmember.h>

/* --- Finding the rows ---------------------------------------------------------------------- */

enum { LONG_BYTES = 1 << 20 };
/* A walk over more than that lets other threads run. A shorter one is over before they could. */

typedef struct {
    int64_t from_offset, until_offset;
} range;

static verdict find_rows(messages *self, const section_view *section, uint32_t number,
                         range wanted, Py_ssize_t *index)
{
    walker walk = walk_section(section);
    for (*index = 0; *index < section->record_count; ++*index) {
        record_view record;
        verdict found = next_record(&walk, &record);
        if (found.kind == FINE)
            found = check_headers(&record);
        if (found.kind != FINE)
            return found;
        if (record.offset < wanted.from_offset || record.offset >= wanted.until_offset)
            continue;
        self->rows[self->count++] = (row_place){record.offset, record.timestamp, number,
                                                (uint32_t)(record.content - section->data)};
    }
    return end_section(&walk);
}

static verdict find_all(messages *self, const section_view *sections, range wanted,
                        Py_ssize_t *index)
{
    verdict found = ALL_FINE;
    for (Py_ssize_t i = 0; found.kind == FINE && i < self->section_count; i++)
        found = find_rows(self, &sections[i], (uint32_t)i, wanted, index);
    return found;
}

static bool new_rows(messages *self, const section_view *sections, range wanted)
{
    Py_ssize_t room = 0, index = 0;
    for (Py_ssize_t i = 0; i < self->section_count; i++) {
        if (sections[i].length > UINT32_MAX) {
            PyErr_SetString(self->state->too_large, "the records of a batch are over 4 GiB");
            return false;
        }
        room += sections[i].record_count;
        self->size_bytes += sections[i].length;
    }
    self->rows = PyMem_New(row_place, room ? room : 1);
    if (self->rows == NULL) {
        PyErr_NoMemory();
        return false;
    }
    verdict found;
    if (self->size_bytes > LONG_BYTES) {
        Py_BEGIN_ALLOW_THREADS
        found = find_all(self, sections, wanted, &index);
        Py_END_ALLOW_THREADS
    } else {
        found = find_all(self, sections, wanted, &index);
    }
    if (found.kind != FINE) {
        raise_verdict(self->state, index, found);
        return false;
    }
    if (self->count < room) {
        row_place *fewer = PyMem_Resize(self->rows, row_place, self->count ? self->count : 1);
        self->rows = fewer == NULL ? self->rows : fewer;
    }
    return true;
}

static bool open_sections(messages *self, PyObject *tuple, range wanted)
{
    const Py_ssize_t count = PyTuple_GET_SIZE(tuple);
    section_view *sections = PyMem_New(section_view, count ? count : 1);
    self->sections = PyMem_New(Py_buffer, count ? count : 1);
    bool opened = sections != NULL && self->sections != NULL;
    if (!opened)
        PyErr_NoMemory();
    while (opened && self->section_count < count) {
        const Py_ssize_t i = self->section_count;
        opened = open_section(self->state, PyTuple_GET_ITEM(tuple, i), &self->sections[i],
                              &sections[i]);
        self->section_count += opened;
    }
    opened = opened && new_rows(self, sections, wanted);
    PyMem_Free(sections);
    return opened;
}

static PyObject *messages_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *row_type, *topic, *partition, *sections, *next_offset;
    long long from_offset, until_offset;
    Py_ssize_t remainder_bytes;
    PyObject *module = PyType_GetModuleByDef(type, &native_definition);
    if (module == NULL)
        return NULL;
    native_state *state = state_of(module);
    if (keywords != NULL && PyDict_GET_SIZE(keywords)) {
        PyErr_SetString(PyExc_TypeError, "Messages takes no keywords");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!UOOLLOn:Messages", &PyType_Type, &row_type, &topic, &partition,
                          &sections, &from_offset, &until_offset, &next_offset, &remainder_bytes))
        return NULL;
    if (!PyType_IsSubtype((PyTypeObject *)row_type, state->row_type)) {
        PyErr_SetString(PyExc_TypeError, "messages must be of a type that is derived from Row");
        return NULL;
    }
    PyObject *tuple = PySequence_Tuple(sections);
    messages *self = tuple == NULL ? NULL : (messages *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->state = state;
        self->row_type = (PyTypeObject *)Py_NewRef(row_type);
        self->topic = Py_NewRef(topic);
        self->partition = Py_NewRef(partition);
        self->next_offset = Py_NewRef(next_offset);
        self->remainder_bytes = remainder_bytes;
        if (!open_sections(self, tuple, (range){from_offset, until_offset}))
            Py_CLEAR(self);
    }
    Py_XDECREF(tuple);
    return (PyObject *)self;
}

static void messages_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    messages *self = (messages *)object;
    while (self->section_count > 0)
        PyBuffer_Release(&self->sections[--self->section_count]);
    PyMem_Free(self->sections);
    PyMem_Free(self->rows);
    Py_CLEAR(self->row_type);
    Py_CLEAR(self->topic);
    Py_CLEAR(self->partition);
    Py_CLEAR(self->next_offset);
    type->tp_free(object);
    Py_DECREF(type);
}

/* --- Reading a row ------------------------------------------------------------------------- */

static PyObject *raise_changed(const messages *self)
{
    PyErr_SetString(self->state->malformed_record, "the bytes changed after they were fetched");
    return NULL;
}

static PyObject *read_headers(const messages *self, cursor rest)
{
    int32_t count;
    if (!read_varint(&rest, &count) || count < 0
        || count > (rest.end - rest.at) / LEAST_HEADER_BYTES)
        return raise_changed(self);
    return new_headers(self->state, rest, count);
}

PyObject *read_field(const messages *self, Py_ssize_t row, field wanted)
{
    const row_place place = self->rows[row];
    switch (wanted) {
    case TOPIC:
        return Py_NewRef(self->topic);
    case PARTITION:
        return Py_NewRef(self->partition);
    case OFFSET:
        return PyLong_FromLongLong(place.offset);
    case TIMESTAMP:
        return PyLong_FromLongLong(place.timestamp);
    default:
        break;
    }
    const Py_buffer *section = &self->sections[place.section];
    const uint8_t *start = section->buf;
    cursor rest = {start + place.content, start + section->len};
    span key, value;
    if (!read_span(&rest, &key))
        return raise_changed(self);
    if (wanted == KEY)
        return new_bytes(key);
    if (!read_span(&rest, &value))
        return raise_changed(self);
    return wanted == VALUE ? new_bytes(value) : read_headers(self, rest);
}

/* --- Rows and columns ---------------------------------------------------------------------- */

typedef struct {
    Py_ssize_t start, stop;
} slice;

static bool take_bound(PyObject *object, Py_ssize_t *bound)
{
    if (object != Py_None)
        *bound = PyNumber_AsSsize_t(object, NULL);
    return !(*bound == -1 && PyErr_Occurred());
}

/* `start` and `stop` among the arguments from `at` on, as slices have them. */
static bool take_slice(const messages *self, PyObject *const *args, Py_ssize_t arg_count,
                       Py_ssize_t at, slice *rows)
{
    *rows = (slice){0, self->count};
    if (arg_count < at || arg_count > at + 2) {
        PyErr_SetString(PyExc_TypeError, "a start and a stop may be given, and nothing more");
        return false;
    }
    if ((arg_count > at && !take_bound(args[at], &rows->start))
        || (arg_count > at + 1 && !take_bound(args[at + 1], &rows->stop)))
        return false;
    PySlice_AdjustIndices(self->count, &rows->start, &rows->stop, 1);
    return true;
}

static PyObject *list_column(messages *self, PyObject *const *args, Py_ssize_t arg_count,
                             field wanted)
{
    slice rows;
    if (!take_slice(self, args, arg_count, 0, &rows))
        return NULL;
    const Py_ssize_t count = rows.stop > rows.start ? rows.stop - rows.start : 0;
    PyObject *list = PyList_New(count);
    for (Py_ssize_t i = 0; list != NULL && i < count; i++) {
        PyObject *item = read_field(self, rows.start + i, wanted);
        if (item == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, item);
    }
    return list;
}

static PyObject *list_rows(messages *self, PyTypeObject *type, Py_ssize_t start, Py_ssize_t step,
                           Py_ssize_t count)
{
    PyObject *list = PyList_New(count);
    for (Py_ssize_t i = 0; list != NULL && i < count; i++) {
        PyObject *row = new_row(type, self, start + i * step);
        if (row == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, row);
    }
    return list;
}

static PyObject *messages_rows(PyObject *object, PyObject *const *args, Py_ssize_t arg_count)
{
    messages *self = (messages *)object;
    slice rows;
    if (arg_count < 1 || !PyType_Check(args[0])
        || !PyType_IsSubtype((PyTypeObject *)args[0], self->state->row_type)) {
        PyErr_SetString(PyExc_TypeError, "rows takes a class that is derived from Message");
        return NULL;
    }
    if (!take_slice(self, args, arg_count, 1, &rows))
        return NULL;
    return list_rows(self, (PyTypeObject *)args[0], rows.start, 1,
                     rows.stop > rows.start ? rows.stop - rows.start : 0);
}

static PyObject *messages_item(PyObject *object, Py_ssize_t index)
{
    messages *self = (messages *)object;
    if (index < 0 || index >= self->count) {
        PyErr_Format(PyExc_IndexError, "there is no message %zd among %zd", index, self->count);
        return NULL;
    }
    return new_row(self->row_type, self, index);
}

static Py_ssize_t messages_length(PyObject *self)
{
    return ((messages *)self)->count;
}

static bool take_index(const messages *self, PyObject *object, Py_ssize_t *index)
{
    *index = PyNumber_AsSsize_t(object, PyExc_IndexError);
    if (*index == -1 && PyErr_Occurred())
        return false;
    if (*index < 0)
        *index += self->count;
    if (*index >= 0 && *index < self->count)
        return true;
    PyErr_Format(PyExc_IndexError, "there is no message %R among %zd", object, self->count);
    return false;
}

static PyObject *messages_subscript(PyObject *object, PyObject *index)
{
    messages *self = (messages *)object;
    Py_ssize_t start, stop, step;
    if (!PySlice_Check(index))
        return take_index(self, index, &start) ? new_row(self->row_type, self, start) : NULL;
    if (PySlice_Unpack(index, &start, &stop, &step) < 0)
        return NULL;
    const Py_ssize_t count = PySlice_AdjustIndices(self->count, &start, &stop, step);
    return list_rows(self, self->row_type, start, step, count);
}

/* --- The object ---------------------------------------------------------------------------- */

#define COLUMN(name, wanted)                                                                       \
    static PyObject *messages_##name(PyObject *self, PyObject *const *args, Py_ssize_t count)      \
    {                                                                                              \
        return list_column((messages *)self, args, count, wanted);                                 \
    }

#define ENTRY(name, wanted)                                                                        \
    static PyObject *messages_##name(PyObject *self, PyObject *row)                                \
    {                                                                                              \
        Py_ssize_t index;                                                                          \
        return take_index((messages *)self, row, &index)                                           \
                   ? read_field((messages *)self, index, wanted)                                   \
                   : NULL;                                                                         \
    }

COLUMN(values, VALUE)
COLUMN(keys, KEY)
COLUMN(offsets, OFFSET)
COLUMN(timestamps_ms, TIMESTAMP)
ENTRY(value, VALUE)
ENTRY(key, KEY)
ENTRY(offset, OFFSET)
ENTRY(timestamp_ms, TIMESTAMP)
ENTRY(headers, HEADERS)

#define FASTCALL(function) (PyCFunction)(void (*)(void))(function)
#define SEE "See goqueue.records.messages."

static PyMethodDef messages_methods[] = {
    {"values", FASTCALL(messages_values), METH_FASTCALL, SEE},
    {"keys", FASTCALL(messages_keys), METH_FASTCALL, SEE},
    {"offsets", FASTCALL(messages_offsets), METH_FASTCALL, SEE},
    {"timestamps_ms", FASTCALL(messages_timestamps_ms), METH_FASTCALL, SEE},
    {"value", messages_value, METH_O, SEE},
    {"key", messages_key, METH_O, SEE},
    {"offset", messages_offset, METH_O, SEE},
    {"timestamp_ms", messages_timestamp_ms, METH_O, SEE},
    {"headers", messages_headers, METH_O, SEE},
    {"rows", FASTCALL(messages_rows), METH_FASTCALL, SEE},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef messages_members[] = {
    {"topic", T_OBJECT, offsetof(messages, topic), READONLY, SEE},
    {"partition", T_OBJECT, offsetof(messages, partition), READONLY, SEE},
    {"next_offset", T_OBJECT, offsetof(messages, next_offset), READONLY, SEE},
    {"size_bytes", T_PYSSIZET, offsetof(messages, size_bytes), READONLY, SEE},
    {"remainder_bytes", T_PYSSIZET, offsetof(messages, remainder_bytes), READONLY, SEE},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot messages_slots[] = {
    {Py_tp_new, (void *)messages_new},
    {Py_tp_dealloc, (void *)messages_dealloc},
    {Py_tp_methods, messages_methods},
    {Py_tp_members, messages_members},
    {Py_sq_length, (void *)messages_length},
    {Py_sq_item, (void *)messages_item},
    {Py_mp_length, (void *)messages_length},
    {Py_mp_subscript, (void *)messages_subscript},
    {0, NULL},
};

static PyType_Spec messages_spec = {
    .name = "goqueue.records._native.Messages",
    .basicsize = sizeof(messages),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = messages_slots,
};

PyObject *new_messages_type(PyObject *module)
{
    return PyType_FromModuleAndSpec(module, &messages_spec, NULL);
}
