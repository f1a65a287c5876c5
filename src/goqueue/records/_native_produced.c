/* The batches of Produce requests, checked in one pass: the compiled twin of `produced.py`. */
#include "_native.h"

enum {
    LAST_CODEC = 4, /* attributes up to this are a codec, and nothing else */
    CLIENT_ID_AT = 8,
    FLEXIBLE_FROM = 9,
    TOPIC_IDS_FROM = 13,
    ID_BYTES = 16,
    START_BYTES = 9, /* tagged fields, transaction, acks, timeout, and how many topics */
    ONE = 2,         /* as compact arrays count */
    NO_CLIENT_ID = 0xFFFF,
    MAX_SHIFT = 21, /* a varint of more bytes is larger than any frame */
    TAGS_BYTES = 3,
};

static bool is_plain(const native_state *state, const uint8_t *at, Py_ssize_t size)
{
    if (size < HEADER_BYTES || (int32_t)load_big(at + 8, 4) != size - PREFIX_BYTES
        || at[16] != MAGIC)
        return false;
    const uint64_t attributes = load_big(at + 21, 2);
    const int64_t last_delta = (int32_t)load_big(at + 23, 4);
    const int64_t count = (int32_t)load_big(at + 57, 4);
    return attributes <= LAST_CODEC && count > 0 && count <= state->max_batch_items
           && count == last_delta + 1
           && (attributes != 0 || count * LEAST_RECORD_BYTES <= size - HEADER_BYTES)
           && crc32c(0, at + CRC_START, size - CRC_START) == load_big(at + 17, 4);
}

/* A `BatchInfo`. Its module takes the checksum from this one, so it is not there when this loads. */
static PyObject *new_info(native_state *state, const uint8_t *at)
{
    if (state->info_type == NULL) {
        PyObject *type = import_name("goqueue.records.batch", "BatchInfo");
        if (type == NULL)
            return NULL;
        state->info_type = (PyTypeObject *)type;
    }
    PyObject *const items[13] = {
        PyLong_FromLongLong((int64_t)load_big(at, 8)),
        PyLong_FromLong((int32_t)load_big(at + 8, 4)),
        PyLong_FromLong((int32_t)load_big(at + 12, 4)),
        PyLong_FromLong((int8_t)at[16]),
        PyLong_FromUnsignedLong((uint32_t)load_big(at + 17, 4)),
        PyLong_FromLong((int16_t)load_big(at + 21, 2)),
        PyLong_FromLong((int32_t)load_big(at + 23, 4)),
        PyLong_FromLongLong((int64_t)load_big(at + 27, 8)),
        PyLong_FromLongLong((int64_t)load_big(at + 35, 8)),
        PyLong_FromLongLong((int64_t)load_big(at + 43, 8)),
        PyLong_FromLong((int16_t)load_big(at + 51, 2)),
        PyLong_FromLong((int32_t)load_big(at + 53, 4)),
        PyLong_FromLong((int32_t)load_big(at + 57, 4)),
    };
    return new_named_tuple(state->info_type, items, 13);
}

PyObject *native_plain_header(PyObject *module, PyObject *batch)
{
    Py_buffer buffer;
    native_state *state = state_of(module);
    if (PyObject_GetBuffer(batch, &buffer, PyBUF_SIMPLE) < 0)
        return NULL;
    PyObject *info = is_plain(state, buffer.buf, buffer.len) ? new_info(state, buffer.buf)
                                                            : Py_NewRef(Py_None);
    PyBuffer_Release(&buffer);
    return info;
}

/* Where things are in a request. */
typedef struct {
    Py_ssize_t alike_end; /* of what requests to the same partition have in common */
    Py_ssize_t start, stop;
} single_place;

static bool find_single(const uint8_t *frame, Py_ssize_t size, single_place *place)
{
    if (size < CLIENT_ID_AT + 2)
        return false;
    const int version = (int16_t)load_big(frame + 2, 2);
    const Py_ssize_t client = (Py_ssize_t)load_big(frame + CLIENT_ID_AT, 2);
    Py_ssize_t at = CLIENT_ID_AT + 2 + (client == NO_CLIENT_ID ? 0 : client) + START_BYTES;
    if (version < FLEXIBLE_FROM || at >= size || frame[at - 1] != ONE)
        return false;
    at += version >= TOPIC_IDS_FROM ? ID_BYTES : frame[at];
    if (at >= size || frame[at] != ONE)
        return false;
    at += 5;
    place->alike_end = at;
    Py_ssize_t length = 0;
    for (int shift = 0;; shift += 7, at++) {
        if (at >= size || shift > MAX_SHIFT)
            return false;
        length |= (Py_ssize_t)(frame[at] & 0x7F) << shift;
        if (frame[at] < 0x80)
            break;
    }
    place->start = at + 1;
    place->stop = at + length;
    return length > 0 && place->stop + TAGS_BYTES <= size
           && load_big(frame + place->stop, TAGS_BYTES) == 0;
}

static PyObject *new_alike(const uint8_t *frame, Py_ssize_t end)
{
    PyObject *alike = PyBytes_FromStringAndSize(NULL, end - 4);
    if (alike != NULL) {
        memcpy(PyBytes_AS_STRING(alike), frame, 4);
        memcpy(PyBytes_AS_STRING(alike) + 4, frame + CLIENT_ID_AT, (size_t)(end - CLIENT_ID_AT));
    }
    return alike;
}

PyObject *native_single_batch(PyObject *module, PyObject *frame)
{
    Py_buffer buffer;
    single_place place;
    native_state *state = state_of(module);
    if (PyObject_GetBuffer(frame, &buffer, PyBUF_SIMPLE) < 0)
        return NULL;
    PyObject *found = NULL;
    const uint8_t *start = buffer.buf;
    if (!find_single(start, buffer.len, &place)
        || !is_plain(state, start + place.start, place.stop - place.start)) {
        found = Py_NewRef(Py_None);
    } else {
        PyObject *alike = new_alike(start, place.alike_end);
        PyObject *batch = PySequence_GetSlice(frame, place.start, place.stop);
        PyObject *info = new_info(state, start + place.start);
        if (alike != NULL && batch != NULL && info != NULL)
            found = PyTuple_Pack(3, alike, batch, info);
        Py_XDECREF(alike);
        Py_XDECREF(batch);
        Py_XDECREF(info);
    }
    PyBuffer_Release(&buffer);
    return found;
}
