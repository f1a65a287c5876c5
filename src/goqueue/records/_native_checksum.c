/* CRC32C by the instruction that processors have for it; without one there is no `crc32c` here, and
 * `checksum.py` takes the package of that name.
 *
 * The instruction takes three cycles and one can start in each, so three blocks are worked on at a
 * time. What the first two contribute is then moved past the zeros that stand for what follows. */
#include "_native.h"

#if defined(__x86_64__)

#define WITH_CRC __attribute__((target("sse4.2")))

static inline WITH_CRC uint64_t step_word(uint64_t crc, uint64_t word)
{
    return __builtin_ia32_crc32di(crc, word);
}

static inline WITH_CRC uint64_t step_byte(uint64_t crc, uint8_t byte)
{
    return __builtin_ia32_crc32qi((uint32_t)crc, byte);
}

static bool has_instruction(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2");
}

#elif defined(__ARM_FEATURE_CRC32) && defined(__aarch64__) && !defined(__AARCH64EB__)

#include <arm_acle.h>

#define WITH_CRC

static inline uint64_t step_word(uint64_t crc, uint64_t word)
{
    return __crc32cd((uint32_t)crc, word);
}

static inline uint64_t step_byte(uint64_t crc, uint8_t byte)
{
    return __crc32cb((uint32_t)crc, byte);
}

static bool has_instruction(void)
{
    return true;
}

#else

#define WITH_CRC

static inline uint64_t step_word(uint64_t crc, uint64_t word)
{
    return crc ^ word; /* never called */
}

static inline uint64_t step_byte(uint64_t crc, uint8_t byte)
{
    return crc ^ byte; /* never called */
}

static bool has_instruction(void)
{
    return false;
}

#endif

enum { BLOCK_BYTES = 512, LONG_BYTES = 1 << 20 };

/* What each byte of a checksum becomes after `BLOCK_BYTES` zeros. Filled when the module loads. */
static uint32_t after_block[4][256];

static inline uint64_t load_word(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, 8); /* little-endian, as the instruction takes it */
    return word;
}

static WITH_CRC uint64_t step_block(uint64_t crc, const uint8_t *at, ptrdiff_t length)
{
    for (; length >= 8; length -= 8, at += 8)
        crc = step_word(crc, load_word(at));
    for (; length > 0; length--, at++)
        crc = step_byte(crc, *at);
    return crc;
}

static void fill_after_block(void)
{
    static const uint8_t zeros[BLOCK_BYTES];
    for (int byte = 0; byte < 4; byte++) {
        uint32_t *table = after_block[byte];
        for (uint32_t bit = 1; bit < 256; bit <<= 1)
            table[bit] = (uint32_t)step_block((uint64_t)bit << (8 * byte), zeros, BLOCK_BYTES);
        for (uint32_t i = 1; i < 256; i++)
            table[i] = table[i & (i - 1)] ^ table[i & -i];
    }
}

static inline uint64_t move_block(uint64_t crc)
{
    return after_block[0][crc & 0xFF] ^ after_block[1][crc >> 8 & 0xFF]
           ^ after_block[2][crc >> 16 & 0xFF] ^ after_block[3][crc >> 24 & 0xFF];
}

WITH_CRC uint32_t crc32c(uint32_t before, const uint8_t *at, ptrdiff_t length)
{
    uint64_t crc = (uint32_t)~before;
    for (; length >= 3 * BLOCK_BYTES; length -= 3 * BLOCK_BYTES, at += 3 * BLOCK_BYTES) {
        uint64_t second = 0, third = 0;
        for (int i = 0; i < BLOCK_BYTES; i += 8) {
            crc = step_word(crc, load_word(at + i));
            second = step_word(second, load_word(at + BLOCK_BYTES + i));
            third = step_word(third, load_word(at + 2 * BLOCK_BYTES + i));
        }
        crc = move_block(move_block(crc) ^ second) ^ third;
    }
    return ~(uint32_t)step_block(crc, at, length);
}

static PyObject *native_crc32c(PyObject *module, PyObject *const *args, Py_ssize_t arg_count)
{
    (void)module;
    Py_buffer data;
    unsigned long before = 0;
    if (arg_count < 1 || arg_count > 2) {
        PyErr_SetString(PyExc_TypeError, "crc32c takes bytes, and the checksum of those before");
        return NULL;
    }
    if (arg_count == 2) {
        before = PyLong_AsUnsignedLongMask(args[1]);
        if (PyErr_Occurred())
            return NULL;
    }
    if (PyObject_GetBuffer(args[0], &data, PyBUF_SIMPLE) < 0)
        return NULL;
    uint32_t crc;
    if (data.len > LONG_BYTES) {
        Py_BEGIN_ALLOW_THREADS
        crc = crc32c((uint32_t)before, data.buf, data.len);
        Py_END_ALLOW_THREADS
    } else {
        crc = crc32c((uint32_t)before, data.buf, data.len);
    }
    PyBuffer_Release(&data);
    return PyLong_FromUnsignedLong(crc);
}

static PyMethodDef checksum_methods[] = {
    {"crc32c", (PyCFunction)(void (*)(void))native_crc32c, METH_FASTCALL,
     "See goqueue.records.checksum."},
    {"plain_header", native_plain_header, METH_O, "See goqueue.records.produced."},
    {"single_batch", native_single_batch, METH_O, "See goqueue.records.produced."},
    {NULL, NULL, 0, NULL},
};

bool add_checksum(PyObject *module)
{
    native_state *state = state_of(module);
    state->has_checksum = has_instruction();
    if (!state->has_checksum)
        return true;
    fill_after_block();
    return PyModule_AddFunctions(module, checksum_methods) == 0;
}
