/* The bytes of a batch and of its records, parsed in place. No Python here, so it runs without the GIL.
 *
 * Every read is bounded by the end of its record, and every record by the end of its section: any
 * bytes at all are safe to hand in. What counts as which failure is what `reference.py` does.
 */
#ifndef GOQUEUE_NATIVE_WIRE_H
#define GOQUEUE_NATIVE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { LEAST_RECORD_BYTES = 7, LEAST_HEADER_BYTES = 2 };

/* The header of a batch, see `batch.py`. */
enum {
    HEADER_BYTES = 61,
    PREFIX_BYTES = 12,
    CRC_START = 21,
    MAGIC = 2,
    COMPRESSION_MASK = 0x07,
    LOG_APPEND_TIME = 0x08,
    CONTROL = 0x20,
};

static inline uint64_t load_big(const uint8_t *at, int bytes)
{
    uint64_t number = 0;
    for (int i = 0; i < bytes; i++)
        number = number << 8 | at[i];
    return number;
}

typedef enum { FINE, BAD_RECORD, BAD_HEADERS, TOO_LARGE } verdict_kind;

typedef struct {
    verdict_kind kind;
    const char *what; /* why, for people; always a literal */
} verdict;

static const verdict ALL_FINE = {FINE, ""};

typedef struct {
    const uint8_t *at;
    const uint8_t *end;
} cursor;

/* Nullable bytes inside the section; null where `data` is NULL. */
typedef struct {
    const uint8_t *data;
    int32_t length;
} span;

typedef struct {
    const uint8_t *data;
    ptrdiff_t length;
    ptrdiff_t record_count;
    int64_t base_offset;
    int32_t last_offset_delta;
    int64_t base_timestamp;
    bool has_append_time;
    int64_t append_time;
    int64_t max_headers; /* of all records together */
} section_view;

typedef struct {
    int64_t offset;
    int64_t timestamp;
    const uint8_t *content; /* where its key, value and headers start */
    span key;
    span value;
    int32_t header_count;
    cursor headers; /* up to the end of the record */
} record_view;

typedef struct {
    span name;
    span value;
} header_view;

/* Where a walk over the records of a section stands. */
typedef struct {
    const section_view *section;
    cursor rest;
    int32_t last_delta;
    int64_t headers_left;
} walker;

/* --- Varints ------------------------------------------------------------------------------- */

static inline bool read_raw_varint(cursor *from, int bits, uint64_t *raw)
{
    uint64_t value = 0;
    for (int shift = 0; shift < bits; shift += 7) {
        if (from->at == from->end)
            return false;
        uint64_t byte = *from->at++;
        uint64_t low = byte & 0x7F;
        /* The last byte of a long varint has room for fewer than seven bits. */
        if (bits - shift < 7 && low >> (bits - shift))
            return false;
        value |= low << shift;
        if (byte < 0x80) {
            *raw = value;
            return true;
        }
    }
    return false;
}

static inline bool read_varint(cursor *from, int32_t *number)
{
    uint64_t raw;
    if (from->at != from->end && *from->at < 0x80)
        raw = *from->at++;
    else if (!read_raw_varint(from, 32, &raw))
        return false;
    *number = (int32_t)((uint32_t)(raw >> 1) ^ -(uint32_t)(raw & 1));
    return true;
}

static inline bool read_varlong(cursor *from, int64_t *number)
{
    uint64_t raw;
    if (!read_raw_varint(from, 64, &raw))
        return false;
    *number = (int64_t)((raw >> 1) ^ -(raw & 1));
    return true;
}

static inline uint64_t zigzag(int64_t number)
{
    return ((uint64_t)number << 1) ^ (number < 0 ? UINT64_MAX : 0);
}

static inline size_t varint_size(int64_t number)
{
    size_t size = 1;
    for (uint64_t raw = zigzag(number); raw > 0x7F; raw >>= 7)
        size++;
    return size;
}

static inline uint8_t *write_varint(uint8_t *to, int64_t number)
{
    uint64_t raw = zigzag(number);
    while (raw > 0x7F) {
        *to++ = (uint8_t)(raw | 0x80);
        raw >>= 7;
    }
    *to++ = (uint8_t)raw;
    return to;
}

static inline uint8_t *write_span(uint8_t *to, span bytes)
{
    if (bytes.data == NULL)
        return write_varint(to, -1);
    to = write_varint(to, bytes.length);
    memcpy(to, bytes.data, (size_t)bytes.length);
    return to + bytes.length;
}

static inline ptrdiff_t span_size(span bytes)
{
    return (ptrdiff_t)varint_size(bytes.data == NULL ? -1 : bytes.length) + bytes.length;
}

/* --- Records ------------------------------------------------------------------------------- */

static inline verdict refuse(verdict_kind kind, const char *what)
{
    return (verdict){kind, what};
}

static inline bool read_span(cursor *from, span *bytes)
{
    int32_t length;
    if (!read_varint(from, &length) || length < -1)
        return false;
    if (length == -1) {
        *bytes = (span){NULL, 0};
        return true;
    }
    if (length > from->end - from->at)
        return false;
    *bytes = (span){from->at, length};
    from->at += length;
    return true;
}

static inline walker walk_section(const section_view *section)
{
    return (walker){
        section, {section->data, section->data + section->length}, -1, section->max_headers};
}

static inline verdict read_stamps(walker *walk, cursor *body, record_view *record)
{
    const section_view *section = walk->section;
    int64_t timestamp_delta;
    int32_t offset_delta;
    if (!read_varlong(body, &timestamp_delta) || !read_varint(body, &offset_delta))
        return refuse(BAD_RECORD, "its timestamp or offset does not parse");
    if (offset_delta <= walk->last_delta || offset_delta > section->last_offset_delta)
        return refuse(BAD_RECORD, "its offset is not after the last one and within the batch");
    if (__builtin_add_overflow(section->base_timestamp, timestamp_delta, &record->timestamp))
        return refuse(BAD_RECORD, "its timestamp is out of range");
    if (section->has_append_time)
        record->timestamp = section->append_time;
    walk->last_delta = offset_delta;
    record->offset = section->base_offset + offset_delta;
    return ALL_FINE;
}

/* The next record. Its headers are only counted: `next_header` reads them, `end_record` closes. */
static inline verdict next_record(walker *walk, record_view *record)
{
    int32_t length;
    if (!read_varint(&walk->rest, &length))
        return refuse(BAD_RECORD, "its length does not parse");
    if (length < 0 || length > walk->rest.end - walk->rest.at)
        return refuse(BAD_RECORD, "its length is not within the batch");
    cursor body = {walk->rest.at, walk->rest.at + length};
    walk->rest.at = body.end;
    if (body.at++ == body.end)
        return refuse(BAD_RECORD, "it is empty");
    verdict stamps = read_stamps(walk, &body, record);
    if (stamps.kind != FINE)
        return stamps;
    record->content = body.at;
    if (!read_span(&body, &record->key) || !read_span(&body, &record->value))
        return refuse(BAD_RECORD, "its key or value does not parse");
    if (!read_varint(&body, &record->header_count))
        return refuse(BAD_RECORD, "the count of its headers does not parse");
    if (record->header_count < 0)
        return refuse(BAD_HEADERS, "it has fewer than no headers");
    if (record->header_count > (body.end - body.at) / LEAST_HEADER_BYTES)
        return refuse(BAD_HEADERS, "it says it has more headers than fit");
    if (record->header_count > walk->headers_left)
        return refuse(TOO_LARGE, "the batch has more headers than may be opened");
    walk->headers_left -= record->header_count;
    record->headers = body;
    return ALL_FINE;
}

static inline verdict next_header(cursor *headers, header_view *header)
{
    if (!read_span(headers, &header->name) || header->name.data == NULL
        || !read_span(headers, &header->value))
        return refuse(BAD_HEADERS, "a header does not parse");
    return ALL_FINE;
}

static inline verdict end_record(const cursor *headers)
{
    if (headers->at != headers->end)
        return refuse(BAD_RECORD, "bytes are left after its headers");
    return ALL_FINE;
}

/* Headers are known to parse before anything is allocated for as many as they claim to be. */
static inline verdict check_headers(const record_view *record)
{
    header_view header;
    cursor rest = record->headers;
    for (int32_t i = 0; i < record->header_count; i++) {
        verdict found = next_header(&rest, &header);
        if (found.kind != FINE)
            return found;
    }
    return end_record(&rest);
}

static inline verdict end_section(const walker *walk)
{
    if (walk->rest.at != walk->rest.end)
        return refuse(BAD_RECORD, "bytes are there, and no record is expected");
    return ALL_FINE;
}

/* --- UTF-8 --------------------------------------------------------------------------------- */

/* How long the well-formed sequence at `at` is; or, negative, how many bytes stand for one
 * replacement character: the longest start of a sequence that could have been one. */
static inline int utf8_step(const uint8_t *at, const uint8_t *end)
{
    uint8_t first = *at, low = 0x80, high = 0xBF;
    int more;
    if (first < 0x80)
        return 1;
    if (first >= 0xC2 && first <= 0xDF) {
        more = 1;
    } else if ((first & 0xF0) == 0xE0) {
        more = 2;
        low = first == 0xE0 ? 0xA0 : 0x80;  /* no overlong forms */
        high = first == 0xED ? 0x9F : 0xBF; /* no surrogates */
    } else if (first >= 0xF0 && first <= 0xF4) {
        more = 3;
        low = first == 0xF0 ? 0x90 : 0x80;
        high = first == 0xF4 ? 0x8F : 0xBF; /* nothing after U+10FFFF */
    } else {
        return -1;
    }
    for (int i = 1; i <= more; i++) {
        if (at + i == end || at[i] < low || at[i] > high)
            return -i;
        low = 0x80;
        high = 0xBF;
    }
    return more + 1;
}

enum { REPLACEMENT_BYTES = 3 };

static inline int64_t utf8_size(span text)
{
    int64_t size = 0;
    const uint8_t *end = text.data + text.length;
    for (const uint8_t *at = text.data; at < end;) {
        int step = utf8_step(at, end);
        size += step > 0 ? step : REPLACEMENT_BYTES;
        at += step > 0 ? step : -step;
    }
    return size;
}

/* The end of what was written, or NULL where that would be past `limit`. */
static inline uint8_t *write_utf8(uint8_t *to, const uint8_t *limit, span text)
{
    const uint8_t *end = text.data + text.length;
    for (const uint8_t *at = text.data; at < end;) {
        int step = utf8_step(at, end);
        if (limit - to < (step > 0 ? step : REPLACEMENT_BYTES))
            return NULL;
        if (step > 0) {
            for (int i = 0; i < step; i++)
                *to++ = *at++;
        } else {
            *to++ = 0xEF;
            *to++ = 0xBF;
            *to++ = 0xBD;
            at -= step;
        }
    }
    return to;
}

#endif
