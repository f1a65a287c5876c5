/* Records to Arrow buffers, and the check of records that are not kept.
 *
 * Two walks without the GIL: the first validates and measures, the second fills buffers of exactly
 * that size. Another thread may write into a mutable source meanwhile, so the second walk trusts
 * no measure: it checks each write against the room there is. */
#include "_native.h"

/* --- Measuring ----------------------------------------------------------------------------- */

typedef struct {
    int64_t rows;
    int64_t headers;
    int64_t key_bytes;
    int64_t value_bytes;
    int64_t name_bytes;
    int64_t header_value_bytes;
} measure;

typedef struct {
    int64_t from_offset;
    int64_t until_offset;
} range;

static bool is_within(range wanted, const record_view *record)
{
    return record->offset >= wanted.from_offset && record->offset < wanted.until_offset;
}

static verdict measure_record(measure *sum, const record_view *record, bool counts)
{
    cursor rest = record->headers;
    for (int32_t i = 0; i < record->header_count; i++) {
        header_view header;
        verdict found = next_header(&rest, &header);
        if (found.kind != FINE)
            return found;
        if (counts) {
            sum->name_bytes += utf8_size(header.name);
            sum->header_value_bytes += header.value.length;
        }
    }
    if (counts) {
        sum->rows++;
        sum->headers += record->header_count;
        sum->key_bytes += record->key.length;
        sum->value_bytes += record->value.length;
    }
    return end_record(&rest);
}

static verdict measure_section(measure *sum, const section_view *section, range wanted,
                               Py_ssize_t *index)
{
    walker walk = walk_section(section);
    for (*index = 0; *index < section->record_count; ++*index) {
        record_view record;
        verdict found = next_record(&walk, &record);
        if (found.kind == FINE)
            found = measure_record(sum, &record, is_within(wanted, &record));
        if (found.kind != FINE)
            return found;
    }
    return end_section(&walk);
}

static bool fits(const measure *sum)
{
    return sum->rows < INT32_MAX && sum->headers < INT32_MAX && sum->key_bytes <= INT32_MAX
           && sum->value_bytes <= INT32_MAX && sum->name_bytes <= INT32_MAX
           && sum->header_value_bytes <= INT32_MAX;
}

static verdict measure_all(measure *sum, const section_view *sections, Py_ssize_t count,
                           range wanted, Py_ssize_t *index)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        verdict found = measure_section(sum, &sections[i], wanted, index);
        if (found.kind != FINE)
            return found;
    }
    if (!fits(sum))
        return refuse(TOO_LARGE, "a column of more than 2 GiB; decode fewer batches at a time");
    return ALL_FINE;
}

/* --- Filling ------------------------------------------------------------------------------- */

typedef struct {
    PyObject *ends_object, *data_object, *validity_object;
    uint8_t *ends, *data, *validity; /* validity is NULL for a column without nulls */
    int64_t entries, entry_room;
    int64_t used, room;
    int64_t nulls;
} binary_column;

typedef struct {
    PyObject *offsets_object, *timestamps_object, *header_ends_object;
    uint8_t *offsets, *timestamps, *header_ends;
    int64_t rows, row_room;
    binary_column keys, values, names, header_values;
} columns;

static void put_i32(uint8_t *buffer, int64_t index, int64_t number)
{
    int32_t narrow = (int32_t)number;
    memcpy(buffer + index * 4, &narrow, 4);
}

static void put_i64(uint8_t *buffer, int64_t index, int64_t number)
{
    memcpy(buffer + index * 8, &number, 8);
}

static void end_entry(binary_column *column, int64_t bytes)
{
    column->used += bytes;
    column->entries++;
    put_i32(column->ends, column->entries, column->used);
}

static bool put_bytes(binary_column *column, span bytes)
{
    if (column->entries == column->entry_room || bytes.length > column->room - column->used)
        return false;
    if (bytes.data == NULL) {
        column->nulls++;
    } else {
        memcpy(column->data + column->used, bytes.data, (size_t)bytes.length);
        column->validity[column->entries >> 3] |= (uint8_t)(1 << (column->entries & 7));
    }
    end_entry(column, bytes.length);
    return true;
}

static bool put_name(binary_column *column, span name)
{
    if (column->entries == column->entry_room)
        return false;
    uint8_t *from = column->data + column->used;
    uint8_t *to = write_utf8(from, column->data + column->room, name);
    if (to == NULL)
        return false;
    end_entry(column, to - from);
    return true;
}

static bool fill_record(columns *to, const record_view *record)
{
    if (to->rows == to->row_room || !put_bytes(&to->keys, record->key)
        || !put_bytes(&to->values, record->value))
        return false;
    put_i64(to->offsets, to->rows, record->offset);
    put_i64(to->timestamps, to->rows, record->timestamp);
    cursor rest = record->headers;
    for (int32_t i = 0; i < record->header_count; i++) {
        header_view header;
        if (next_header(&rest, &header).kind != FINE || !put_name(&to->names, header.name)
            || !put_bytes(&to->header_values, header.value))
            return false;
    }
    to->rows++;
    put_i32(to->header_ends, to->rows, to->names.entries);
    return true;
}

static bool is_full(const binary_column *column)
{
    return column->entries == column->entry_room && column->used == column->room;
}

static bool fill_all(columns *to, const section_view *sections, Py_ssize_t count, range wanted)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        walker walk = walk_section(&sections[i]);
        for (ptrdiff_t j = 0; j < sections[i].record_count; j++) {
            record_view record;
            if (next_record(&walk, &record).kind != FINE)
                return false;
            if (is_within(wanted, &record) && !fill_record(to, &record))
                return false;
        }
    }
    return to->rows == to->row_room && is_full(&to->keys) && is_full(&to->values)
           && is_full(&to->names) && is_full(&to->header_values);
}

/* --- Buffers ------------------------------------------------------------------------------- */

static uint8_t *new_buffer(PyObject **object, int64_t size)
{
    *object = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    return *object == NULL ? NULL : (uint8_t *)PyBytes_AS_STRING(*object);
}

static bool new_column(binary_column *column, int64_t entries, int64_t bytes, bool is_nullable)
{
    int64_t validity_bytes = is_nullable ? (entries + 7) / 8 : 0;
    column->ends = new_buffer(&column->ends_object, (entries + 1) * 4);
    column->data = new_buffer(&column->data_object, bytes);
    column->validity = new_buffer(&column->validity_object, validity_bytes);
    column->entry_room = entries;
    column->room = bytes;
    if (column->ends == NULL || column->data == NULL || column->validity == NULL)
        return false;
    put_i32(column->ends, 0, 0);
    memset(column->validity, 0, (size_t)validity_bytes);
    return true;
}

static bool new_columns(columns *to, const measure *sum)
{
    to->row_room = sum->rows;
    to->offsets = new_buffer(&to->offsets_object, sum->rows * 8);
    to->timestamps = new_buffer(&to->timestamps_object, sum->rows * 8);
    to->header_ends = new_buffer(&to->header_ends_object, (sum->rows + 1) * 4);
    if (to->offsets == NULL || to->timestamps == NULL || to->header_ends == NULL)
        return false;
    put_i32(to->header_ends, 0, 0);
    return new_column(&to->keys, sum->rows, sum->key_bytes, true)
           && new_column(&to->values, sum->rows, sum->value_bytes, true)
           && new_column(&to->names, sum->headers, sum->name_bytes, false)
           && new_column(&to->header_values, sum->headers, sum->header_value_bytes, true);
}

static void free_column(binary_column *column)
{
    Py_CLEAR(column->ends_object);
    Py_CLEAR(column->data_object);
    Py_CLEAR(column->validity_object);
}

static void free_columns(columns *of)
{
    Py_CLEAR(of->offsets_object);
    Py_CLEAR(of->timestamps_object);
    Py_CLEAR(of->header_ends_object);
    free_column(&of->keys);
    free_column(&of->values);
    free_column(&of->names);
    free_column(&of->header_values);
}

/* `section.ColumnBuffers`. */
static PyObject *as_tuple(const columns *of)
{
    return Py_BuildValue(
        "(LLLLLOOOOOOOOOOOOOO)", (long long)of->rows, (long long)of->keys.nulls,
        (long long)of->values.nulls, (long long)of->names.entries,
        (long long)of->header_values.nulls, of->offsets_object, of->timestamps_object,
        of->keys.ends_object, of->keys.data_object, of->keys.validity_object,
        of->values.ends_object, of->values.data_object, of->values.validity_object,
        of->header_ends_object, of->names.ends_object, of->names.data_object,
        of->header_values.ends_object, of->header_values.data_object,
        of->header_values.validity_object);
}

static PyObject *columns_of(native_state *state, const section_view *sections, Py_ssize_t count,
                            range wanted)
{
    measure sum = {0};
    columns to = {0};
    verdict found;
    Py_ssize_t index = 0;
    PyObject *result = NULL;
    Py_BEGIN_ALLOW_THREADS
    found = measure_all(&sum, sections, count, wanted, &index);
    Py_END_ALLOW_THREADS
    if (found.kind != FINE)
        return raise_verdict(state, index, found);
    if (new_columns(&to, &sum)) {
        bool filled;
        Py_BEGIN_ALLOW_THREADS
        filled = fill_all(&to, sections, count, wanted);
        Py_END_ALLOW_THREADS
        if (filled)
            result = as_tuple(&to);
        else
            PyErr_SetString(state->malformed_record, "the bytes changed while they were decoded");
    }
    free_columns(&to);
    return result;
}

PyObject *native_fill_columns(PyObject *module, PyObject *const *args, Py_ssize_t arg_count)
{
    native_state *state = state_of(module);
    if (arg_count != 3) {
        PyErr_SetString(PyExc_TypeError, "fill_columns takes 3 arguments");
        return NULL;
    }
    range wanted = {PyLong_AsLongLong(args[1]), PyLong_AsLongLong(args[2])};
    if (PyErr_Occurred())
        return NULL;
    PyObject *tuple = PySequence_Tuple(args[0]), *result = NULL;
    if (tuple == NULL)
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(tuple), opened = 0;
    Py_buffer *buffers = PyMem_New(Py_buffer, count ? count : 1);
    section_view *sections = PyMem_New(section_view, count ? count : 1);
    if (buffers == NULL || sections == NULL) {
        PyErr_NoMemory();
    } else {
        while (opened < count
               && open_section(state, PyTuple_GET_ITEM(tuple, opened), &buffers[opened],
                               &sections[opened]))
            opened++;
        if (opened == count)
            result = columns_of(state, sections, count, wanted);
    }
    while (opened > 0)
        PyBuffer_Release(&buffers[--opened]);
    PyMem_Free(sections);
    PyMem_Free(buffers);
    Py_DECREF(tuple);
    return result;
}

/* --- Checking only ------------------------------------------------------------------------- */

/* What the headers take up as this codec writes them, once they are known to parse. */
static int64_t headers_bytes(const record_view *record)
{
    int64_t total = (int64_t)varint_size(record->header_count);
    cursor rest = record->headers;
    header_view header;
    for (int32_t i = 0; i < record->header_count && next_header(&rest, &header).kind == FINE; i++)
        total += span_size(header.name) + span_size(header.value);
    return total;
}

static verdict check_limits(const record_view *record, int64_t max_value, int64_t max_headers)
{
    if (record->value.length > max_value)
        return refuse(TOO_LARGE, "its value is larger than the limit");
    if (headers_bytes(record) > max_headers)
        return refuse(BAD_HEADERS, "its headers are larger than the limit");
    return ALL_FINE;
}

static verdict check_section(const section_view *section, int64_t max_value, int64_t max_headers,
                             Py_ssize_t *index)
{
    measure ignored = {0};
    const range everything = {INT64_MIN, INT64_MAX};
    verdict found = measure_section(&ignored, section, everything, index);
    if (found.kind != FINE)
        return found;
    walker walk = walk_section(section);
    for (*index = 0; *index < section->record_count; ++*index) {
        record_view record;
        found = next_record(&walk, &record);
        if (found.kind == FINE)
            found = check_limits(&record, max_value, max_headers);
        if (found.kind != FINE)
            return found;
    }
    return ALL_FINE;
}

PyObject *native_check_records(PyObject *module, PyObject *const *args, Py_ssize_t arg_count)
{
    native_state *state = state_of(module);
    if (arg_count != 3) {
        PyErr_SetString(PyExc_TypeError, "check_records takes 3 arguments");
        return NULL;
    }
    Py_buffer buffer;
    section_view section;
    Py_ssize_t index = 0;
    int64_t max_value = PyLong_AsLongLong(args[1]);
    int64_t max_headers = PyLong_AsLongLong(args[2]);
    if (PyErr_Occurred() || !open_section(state, args[0], &buffer, &section))
        return NULL;
    verdict found;
    Py_BEGIN_ALLOW_THREADS
    found = check_section(&section, max_value, max_headers, &index);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&buffer);
    if (found.kind != FINE)
        return raise_verdict(state, index, found);
    Py_RETURN_NONE;
}
