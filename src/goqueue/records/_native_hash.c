/* Which partition a key belongs to: the compiled twin of `partitioning.py`. */
#include "_native.h"

typedef uint32_t (*hash_function)(span key);

static inline uint32_t load_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* The one to three bytes after the last whole word. */
static inline uint32_t load_rest(const uint8_t *at, int32_t length)
{
    uint32_t rest = 0;
    for (int32_t i = length; i > 0; i--)
        rest = rest << 8 | at[i - 1];
    return rest;
}

static inline uint32_t rotate(uint32_t number, int bits)
{
    return number << bits | number >> (32 - bits);
}

static inline uint32_t mmh3_mix(uint32_t part)
{
    return rotate(part * 0xCC9E2D51u, 15) * 0x1B873593u;
}

static uint32_t mmh3(span key)
{
    const int32_t whole = key.length & ~3;
    uint32_t hash = 0;
    for (int32_t at = 0; at < whole; at += 4)
        hash = rotate(hash ^ mmh3_mix(load_u32(key.data + at)), 13) * 5 + 0xE6546B64u;
    if (whole < key.length)
        hash ^= mmh3_mix(load_rest(key.data + whole, key.length - whole));
    hash ^= (uint32_t)key.length;
    hash = (hash ^ hash >> 16) * 0x85EBCA6Bu;
    hash = (hash ^ hash >> 13) * 0xC2B2AE35u;
    return hash ^ hash >> 16;
}

static uint32_t murmur2(span key)
{
    const uint32_t m = 0x5BD1E995u;
    const int32_t whole = key.length & ~3;
    uint32_t hash = 0x9747B28Cu ^ (uint32_t)key.length;
    for (int32_t at = 0; at < whole; at += 4) {
        uint32_t part = load_u32(key.data + at) * m;
        hash = hash * m ^ (part ^ part >> 24) * m;
    }
    if (whole < key.length)
        hash = (hash ^ load_rest(key.data + whole, key.length - whole)) * m;
    hash = (hash ^ hash >> 13) * m;
    return (hash ^ hash >> 15) & 0x7FFFFFFFu;
}

PyObject *native_key_hash(PyObject *module, PyObject *object)
{
    content key = {0};
    PyObject *hash = NULL;
    if (object == Py_None)
        PyErr_SetString(PyExc_TypeError, "a key must be bytes or str to have a hash, not None");
    else if (take_content(state_of(module), object, "key", &key))
        hash = PyLong_FromUnsignedLong(mmh3(key.bytes));
    release_content(&key);
    return hash;
}

/* --- Rows by partition --------------------------------------------------------------------- */

typedef struct {
    Py_ssize_t partitions, unkeyed;
    hash_function hash;
    Py_ssize_t rows;
    int32_t *of_row;   /* the partition of each row */
    int32_t *per_part; /* how many rows each partition has */
} split;

static bool find_partitions(native_state *state, const source *keys, split *to)
{
    for (Py_ssize_t row = 0; row < to->rows; row++) {
        content key = {0};
        if (!source_entry(state, keys, row, "key", &key)) {
            release_content(&key);
            return false;
        }
        Py_ssize_t partition = key.bytes.data == NULL
                                   ? to->unkeyed
                                   : (Py_ssize_t)(to->hash(key.bytes) % (uint32_t)to->partitions);
        release_content(&key);
        to->of_row[row] = (int32_t)partition;
        to->per_part[partition]++;
    }
    return true;
}

/* `per_part` becomes how many rows of each partition were written. */
static PyObject *new_rows(split *to)
{
    PyObject *lists = PyList_New(to->partitions);
    for (Py_ssize_t i = 0; lists != NULL && i < to->partitions; i++) {
        PyObject *rows = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)to->per_part[i] * 4);
        if (rows == NULL)
            Py_CLEAR(lists);
        else
            PyList_SET_ITEM(lists, i, rows);
        to->per_part[i] = 0;
    }
    if (lists == NULL)
        return NULL;
    for (Py_ssize_t row = 0; row < to->rows; row++) {
        int32_t partition = to->of_row[row], number = (int32_t)row;
        char *rows = PyBytes_AS_STRING(PyList_GET_ITEM(lists, partition));
        memcpy(rows + (Py_ssize_t)to->per_part[partition]++ * 4, &number, 4);
    }
    return lists;
}

static bool is_text(PyObject *object, const char *text)
{
    return PyUnicode_Check(object) && PyUnicode_CompareWithASCIIString(object, text) == 0;
}

static bool take_split(PyObject *const *args, Py_ssize_t arg_count, split *to)
{
    to->partitions = PyLong_AsSsize_t(args[1]);
    to->unkeyed = PyLong_AsSsize_t(args[2]);
    if (PyErr_Occurred())
        return false;
    if (to->partitions < 1 || to->partitions > INT32_MAX || to->unkeyed < 0
        || to->unkeyed >= to->partitions) {
        PyErr_Format(PyExc_ValueError, "there is no partition %zd of %zd", to->unkeyed,
                     to->partitions);
        return false;
    }
    to->hash = mmh3;
    if (arg_count < 4 || is_text(args[3], "mmh3"))
        return true;
    to->hash = murmur2;
    if (is_text(args[3], "murmur2"))
        return true;
    PyErr_Format(PyExc_ValueError, "there is no partitioner %R; known are mmh3 and murmur2",
                 args[3]);
    return false;
}

PyObject *native_split_rows(PyObject *module, PyObject *const *args, Py_ssize_t arg_count)
{
    native_state *state = state_of(module);
    split to = {0};
    source keys = {0};
    PyObject *lists = NULL;
    if (arg_count < 3 || arg_count > 4) {
        PyErr_SetString(PyExc_TypeError, "split_rows takes 3 or 4 arguments");
        return NULL;
    }
    if (!take_split(args, arg_count, &to) || !open_source(state, args[0], "key", &keys)) {
        close_source(&keys);
        return NULL;
    }
    to.rows = source_count(&keys);
    if (to.rows > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "more than 2**31 rows at a time");
    } else {
        to.of_row = PyMem_New(int32_t, to.rows ? to.rows : 1);
        to.per_part = PyMem_Calloc((size_t)to.partitions, sizeof(int32_t));
        if (to.of_row == NULL || to.per_part == NULL)
            PyErr_NoMemory();
        else if (find_partitions(state, &keys, &to))
            lists = new_rows(&to);
    }
    PyMem_Free(to.of_row);
    PyMem_Free(to.per_part);
    close_source(&keys);
    return lists;
}
