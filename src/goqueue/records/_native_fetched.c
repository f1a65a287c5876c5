/* The plain batches of a fetch, opened in a row.
 *
 * Only what is whole, not compressed and in order is taken here. The first batch that is not ends
 * the run, and `fetched.py` decides about it: what is wrong, it says. */
#include "_native.h"

typedef struct {
    int64_t size_bytes;
    int64_t base_offset, last_offset;
    int64_t base_timestamp, max_timestamp;
    int32_t last_offset_delta, count;
    uint32_t crc, attributes;
} batch_header;

typedef struct {
    int64_t from_offset, until_offset;
    int64_t bytes_left;
    bool check_crc;
} wanted_batches;

/* False for whatever `batch.peek` would raise for, and for offsets that do not fit. */
static bool read_header(native_state *state, const uint8_t *at, int64_t left, batch_header *header)
{
    if (left < HEADER_BYTES || at[16] != MAGIC)
        return false;
    const int32_t length = (int32_t)load_big(at + 8, 4);
    header->size_bytes = (int64_t)length + PREFIX_BYTES;
    header->base_offset = (int64_t)load_big(at, 8);
    header->crc = (uint32_t)load_big(at + 17, 4);
    header->attributes = (uint32_t)load_big(at + 21, 2);
    header->last_offset_delta = (int32_t)load_big(at + 23, 4);
    header->base_timestamp = (int64_t)load_big(at + 27, 8);
    header->max_timestamp = (int64_t)load_big(at + 35, 8);
    header->count = (int32_t)load_big(at + 57, 4);
    return header->size_bytes >= HEADER_BYTES && length <= state->max_batch_bytes
           && header->size_bytes <= left && header->last_offset_delta >= 0 && header->count >= 0
           && header->count <= (int64_t)header->last_offset_delta + 1
           && header->base_offset < INT64_MAX - header->last_offset_delta
           && !__builtin_add_overflow(header->base_offset, (int64_t)header->last_offset_delta,
                                      &header->last_offset);
}

/* As many records and headers as `opening.room_for` gives room for. */
static int64_t items_of(native_state *state, int64_t size_bytes)
{
    const int64_t items = size_bytes / state->stored_bytes_per_item;
    return items > state->max_batch_items ? items : state->max_batch_items;
}

static bool is_plain(native_state *state, const uint8_t *at, const batch_header *header,
                     const wanted_batches *wanted)
{
    const int64_t section_bytes = header->size_bytes - HEADER_BYTES;
    return !(header->attributes & COMPRESSION_MASK)
           && (int64_t)header->count * LEAST_RECORD_BYTES <= section_bytes
           && header->count <= items_of(state, header->size_bytes)
           && section_bytes <= wanted->bytes_left
           && (!wanted->check_crc
               || (state->has_checksum
                   && crc32c(0, at + CRC_START, header->size_bytes - CRC_START) == header->crc));
}

/* A `Section`. */
static PyObject *new_section(native_state *state, PyObject *view, Py_ssize_t position,
                             const batch_header *header)
{
    PyObject *const items[7] = {
        PySequence_GetSlice(view, position + HEADER_BYTES,
                            position + (Py_ssize_t)header->size_bytes),
        PyLong_FromLong(header->count),
        PyLong_FromLongLong(header->base_offset),
        PyLong_FromLong(header->last_offset_delta),
        PyLong_FromLongLong(header->base_timestamp),
        header->attributes & LOG_APPEND_TIME ? PyLong_FromLongLong(header->max_timestamp)
                                             : Py_NewRef(Py_None),
        PyLong_FromLongLong(items_of(state, header->size_bytes) - header->count),
    };
    return new_named_tuple(state->section_type, items, 7);
}

typedef struct {
    PyObject *sections;
    int64_t size_bytes; /* of the records */
    Py_ssize_t position;
    int64_t next_offset;
    bool has_any;
} plain_run;

static bool open_run(native_state *state, PyObject *view, const Py_buffer *buffer,
                     wanted_batches *wanted, plain_run *run)
{
    batch_header header;
    const uint8_t *start = buffer->buf;
    while (read_header(state, start + run->position, buffer->len - run->position, &header)) {
        if (!(header.attributes & CONTROL) && header.last_offset >= wanted->from_offset
            && header.base_offset < wanted->until_offset) {
            if (!is_plain(state, start + run->position, &header, wanted))
                break;
            PyObject *section = new_section(state, view, run->position, &header);
            int failed = section == NULL ? -1 : PyList_Append(run->sections, section);
            Py_XDECREF(section);
            if (failed)
                return false;
            wanted->bytes_left -= header.size_bytes - HEADER_BYTES;
            run->size_bytes += header.size_bytes - HEADER_BYTES;
        }
        run->position += (Py_ssize_t)header.size_bytes;
        run->next_offset = header.last_offset + 1;
        run->has_any = true;
    }
    return true;
}

PyObject *native_open_plain(PyObject *module, PyObject *const *args, Py_ssize_t arg_count)
{
    native_state *state = state_of(module);
    if (arg_count != 6) {
        PyErr_SetString(PyExc_TypeError, "open_plain takes 6 arguments");
        return NULL;
    }
    plain_run run = {.position = PyLong_AsSsize_t(args[1])};
    wanted_batches wanted = {PyLong_AsLongLong(args[2]), PyLong_AsLongLong(args[3]),
                             PyLong_AsLongLong(args[4]), PyObject_IsTrue(args[5]) == 1};
    if (PyErr_Occurred())
        return NULL;
    PyObject *view = PyMemoryView_FromObject(args[0]), *result = NULL;
    if (view == NULL)
        return NULL;
    Py_buffer buffer;
    if (PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE) == 0) {
        run.sections = PyList_New(0);
        if (run.position < 0 || run.position > buffer.len)
            PyErr_SetString(PyExc_ValueError, "the position is outside of the buffer");
        else if (run.sections != NULL && open_run(state, view, &buffer, &wanted, &run))
            result = run.has_any ? Py_BuildValue("(nLOL)", run.position, (long long)run.next_offset,
                                                 run.sections, (long long)run.size_bytes)
                                 : Py_NewRef(Py_None);
        Py_CLEAR(run.sections);
        PyBuffer_Release(&buffer);
    }
    Py_DECREF(view);
    return result;
}
