/* What the parts of the compiled codec share. `section.py` describes what each function promises. */
#ifndef GOQUEUE_NATIVE_H
#define GOQUEUE_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_native_wire.h"

/* Must be `section.INTERFACE`. */
enum { INTERFACE = 6 };

typedef struct {
    PyTypeObject *record_type;
    PyObject *malformed_record;
    PyObject *malformed_headers;
    PyObject *too_large;
    PyObject *no_headers;
    PyTypeObject *view_type;
    PyObject *builder_type;
    PyTypeObject *row_type;
    PyObject *messages_type;
    Py_ssize_t max_batch_bytes;
    Py_ssize_t max_batch_items;
    Py_ssize_t stored_bytes_per_item;
    PyTypeObject *section_type;
    PyTypeObject *info_type; /* NULL until it is first used */
    bool has_checksum;
} native_state;

extern struct PyModuleDef native_definition;

static inline native_state *state_of(PyObject *module)
{
    return (native_state *)PyModule_GetState(module);
}

/* What a Python module has under a name, or NULL with an error. */
PyObject *import_name(const char *module_name, const char *name);

/* Raise what `reference.py` would raise; always returns NULL. */
PyObject *raise_verdict(native_state *state, Py_ssize_t record, verdict bad);

/* Open a Python `Section`. The view is good until the buffer is released; false raises. */
bool open_section(native_state *state, PyObject *object, Py_buffer *buffer, section_view *section);

/* --- Bytes on their way out ---------------------------------------------------------------- */

typedef struct {
    PyObject *bytearray;
    Py_ssize_t used;
    Py_ssize_t capacity;
    Py_ssize_t most; /* the capacity is not doubled past it */
} output;

/* Where `bytes` more may be written, or NULL with an error. */
static inline uint8_t *reserve(output *out, Py_ssize_t bytes)
{
    if (bytes > out->capacity - out->used) {
        if (out->used > PY_SSIZE_T_MAX / 2 - bytes) {
            PyErr_NoMemory();
            return NULL;
        }
        Py_ssize_t needed = out->used + bytes, capacity = 2 * needed;
        if (capacity > out->most)
            capacity = needed > out->most ? needed : out->most;
        if (PyByteArray_Resize(out->bytearray, capacity) < 0)
            return NULL;
        out->capacity = capacity;
    }
    return (uint8_t *)PyByteArray_AS_STRING(out->bytearray) + out->used;
}

/* --- What users give ----------------------------------------------------------------------- */

/* The bytes of a key, a value or a name, for as long as `holder` is held. */
typedef struct {
    span bytes;
    PyObject *holder;
} content;

enum { FEW_HEADERS = 8 };

typedef struct {
    content name, value;
} header_content;

typedef struct {
    header_content few[FEW_HEADERS];
    header_content *all; /* `few`, or allocated */
    Py_ssize_t count;    /* of those that are held */
    Py_ssize_t size;     /* as they are written, with their count */
} header_list;

/* A `BinaryView`, opened. */
typedef struct {
    Py_buffer ends, data, validity;
    bool has_validity, is_large;
    int64_t first, count;
} column_view;

/* Keys or values: a list or tuple of contents, or a column. */
typedef struct {
    PyObject *objects; /* NULL for a column */
    column_view column;
} source;

/* Contents and sources are zeroed before and released after, also after a failure; headers after
 * they were taken. */
bool take_name(native_state *state, PyObject *name, content *taken);
bool take_content(native_state *state, PyObject *object, const char *what, content *taken);
bool take_headers(native_state *state, PyObject *object, header_list *headers);
void release_headers(header_list *headers);
bool open_source(native_state *state, PyObject *object, const char *what, source *opened);
void close_source(source *opened);
Py_ssize_t source_count(const source *from);
bool source_entry(native_state *state, const source *from, Py_ssize_t row, const char *what,
                  content *taken);

static inline void release_content(content *taken)
{
    Py_CLEAR(taken->holder);
}

/* --- What readers get ---------------------------------------------------------------------- */

typedef struct {
    int64_t offset;
    int64_t timestamp;
    uint32_t section;
    uint32_t content; /* where its key, value and headers start in the section */
} row_place;

/* `Messages`. Neither it nor a row takes part in garbage collection: what they refer to are
 * numbers, text, bytes and types, which form no cycles. */
typedef struct {
    PyObject_HEAD
    native_state *state;
    PyObject *topic, *partition, *next_offset;
    PyTypeObject *row_type;
    Py_ssize_t remainder_bytes, size_bytes;
    Py_ssize_t section_count, count;
    Py_buffer *sections;
    row_place *rows;
} messages;

typedef enum { TOPIC, PARTITION, OFFSET, TIMESTAMP, KEY, VALUE, HEADERS, FIELD_COUNT } field;

/* A named tuple of items that are given away; NULL among them raised before. */
PyObject *new_named_tuple(PyTypeObject *type, PyObject *const *items, Py_ssize_t count);
PyObject *new_bytes(span bytes); /* None of null */
PyObject *new_headers(native_state *state, cursor headers, int32_t count);
PyObject *read_field(const messages *from, Py_ssize_t row, field wanted);
PyObject *new_row(PyTypeObject *type, messages *from, Py_ssize_t row);

PyObject *new_builder_type(PyObject *module);
PyObject *new_messages_type(PyObject *module);
PyObject *new_row_type(PyObject *module);

/* Adds `crc32c`, and what checks batches with it, where the processor has an instruction for it:
 * `has_checksum`. */
bool add_checksum(PyObject *module);
uint32_t crc32c(uint32_t before, const uint8_t *at, ptrdiff_t length);

PyObject *native_find_records(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *native_open_plain(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *native_plain_header(PyObject *module, PyObject *batch);
PyObject *native_single_batch(PyObject *module, PyObject *frame);
PyObject *native_key_hash(PyObject *module, PyObject *key);
PyObject *native_split_rows(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *native_encode_records(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *native_decode_records(PyObject *module, PyObject *section);
PyObject *native_check_records(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *native_fill_columns(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
