/* Schemas that are small and stand for much: a flatbuffer may refer to one table many times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "arrow/ipc_read.h"
#include "base/deadline.h"

enum { SIZE = 1 << 20 };

/* A message under construction; offsets count from the flatbuffer's start, 8 bytes into it. */
typedef struct {
    uint8_t *bytes;
    size_t at; /* the first free byte */
} builder;

static uint8_t *place(const builder *b, size_t at)
{
    assert_true(at + 8 <= SIZE);
    return b->bytes + 8 + at;
}

static void put16(const builder *b, size_t at, size_t value)
{
    uint16_t v = (uint16_t)value;
    memcpy(place(b, at), &v, sizeof v);
}

static void put32(const builder *b, size_t at, size_t value)
{
    uint32_t v = (uint32_t)value;
    memcpy(place(b, at), &v, sizeof v);
}

/* The word at AT refers to TO. */
static void refer(const builder *b, size_t at, size_t to)
{
    put32(b, at, to - at);
}

static size_t take(builder *b, size_t size)
{
    size_t at = b->at;
    b->at += (size + 3) / 4 * 4;
    assert_true(b->at + 8 <= SIZE);
    return at;
}

/* A table's layout of SIZE bytes, with the place of each member; 0: absent. */
static size_t vtable(builder *b, size_t size, const uint16_t *members, size_t count)
{
    size_t at = take(b, 4 + 2 * count);
    put16(b, at, 4 + 2 * count);
    put16(b, at + 2, size);
    for (size_t i = 0; i < count; i++)
        put16(b, at + 4 + 2 * i, members[i]);
    return at;
}

static size_t table(builder *b, size_t layout, size_t size)
{
    size_t at = take(b, size);
    put32(b, at, at - layout);
    return at;
}

/* COUNT references to one table that is to come at TO. */
static size_t vector(builder *b, size_t count, size_t to)
{
    size_t at = take(b, 4 + 4 * count);
    put32(b, at, count);
    for (size_t i = 0; i < count; i++)
        refer(b, at + 4 + 4 * i, to);
    return at;
}

typedef struct {
    size_t empty, field, coded, dictionary, pair;
} layouts;

enum { TYPE_NULL = 1, FIELD_SIZE = 24 };

/* A field of type NULL. CHILDREN, PAIRS, DICTIONARY: the words that refer to them are at 12, 16 and, if CODED, 20. */
static size_t field(builder *b, const layouts *l)
{
    size_t at = table(b, l->field, FIELD_SIZE);
    *place(b, at + 4) = TYPE_NULL;
    refer(b, at + 8, table(b, l->empty, 4));
    return at;
}

/* Message, schema and layouts; *fields is the word that has to refer to the vector of fields. */
static builder begin(layouts *l, size_t *fields)
{
    builder b = {.bytes = calloc(1, SIZE), .at = 4};
    size_t message = vtable(&b, 20, (const uint16_t[]){4, 6, 8, 12}, 4);
    size_t schema = vtable(&b, 8, (const uint16_t[]){0, 4}, 2);
    l->empty = vtable(&b, 4, NULL, 0);
    l->field = vtable(&b, FIELD_SIZE, (const uint16_t[]){0, 0, 4, 8, 0, 12, 16}, 7);
    l->coded = vtable(&b, FIELD_SIZE, (const uint16_t[]){0, 0, 4, 8, 20, 12, 16}, 7);
    l->dictionary = vtable(&b, 20, (const uint16_t[]){12, 4}, 2);
    l->pair = vtable(&b, 12, (const uint16_t[]){4, 8}, 2);
    b.at = (b.at + 7) / 8 * 8 + 4; /* the 64-bit body length is aligned */
    size_t root = table(&b, message, 20);
    refer(&b, 0, root);
    put16(&b, root + 4, 4);   /* V5 */
    *place(&b, root + 6) = 1; /* a schema */
    size_t s = table(&b, schema, 8);
    refer(&b, root + 8, s);
    *fields = s + 4;
    return b;
}

/* Reads it as a stream of its own: a second is what the largest may take. */
static od_code read_within_a_second(builder *b, char *why, size_t size)
{
    uint32_t head[2] = {UINT32_MAX, (uint32_t)((b->at + 7) / 8 * 8)};
    od_ipc_reader *reader;
    od_error err = {0};
    bool same;
    memcpy(b->bytes, head, sizeof head);
    assert_int_equal(od_ipc_reader_create(&reader, &err), OD_OK);
    int64_t begun = od_clock_ns();
    od_code rc = od_ipc_reader_start(reader, od_slice_of(b->bytes, SIZE), &same, &err);
    int64_t ms = (od_clock_ns() - begun) / 1000000;
    (void)snprintf(why, size, "%s", err.message);
    od_ipc_reader_free(reader);
    free(b->bytes);
    if (ms > 1000)
        fail_msg("it took %lld ms: %s", (long long)ms, why);
    return rc;
}

static void test_one_field_is_read(void **state)
{
    layouts l;
    size_t fields;
    char why[200];
    (void)state;
    builder b = begin(&l, &fields);
    size_t children = vector(&b, 1, b.at + 8);
    refer(&b, fields, children);
    size_t f = field(&b, &l);
    size_t none = vector(&b, 0, 0);
    refer(&b, f + 12, none);
    refer(&b, f + 16, none);
    if (read_within_a_second(&b, why, sizeof why) != OD_OK)
        fail_msg("%s", why);
}

static void test_children_that_are_one_table_are_refused_soon(void **state)
{
    enum { DEPTH = 12, WIDTH = 20000 };
    layouts l;
    size_t word;
    char why[200];
    (void)state;
    builder b = begin(&l, &word);
    size_t last = 0;
    for (int i = 0; i < DEPTH; i++) {
        size_t v = vector(&b, WIDTH, b.at + 4 + 4 * (size_t)WIDTH);
        refer(&b, word, v);
        size_t f = field(&b, &l);
        word = f + 12;
        last = f;
        if (i + 1 < DEPTH) {
            size_t none = vector(&b, 0, 0);
            refer(&b, f + 16, none);
        }
    }
    size_t none = vector(&b, 0, 0);
    refer(&b, last + 12, none);
    refer(&b, last + 16, none);
    assert_int_equal(read_within_a_second(&b, why, sizeof why), OD_E_CORRUPT);
    assert_non_null(strstr(why, "share"));
}

static void test_metadata_that_fields_share_is_refused_soon(void **state)
{
    enum { FIELDS = 20000, PAIRS = 100000 };
    layouts l;
    size_t word;
    char why[200];
    (void)state;
    builder b = begin(&l, &word);
    size_t v = vector(&b, FIELDS, 0);
    refer(&b, word, v);
    size_t first = b.at;
    for (size_t i = 0; i < FIELDS; i++)
        refer(&b, v + 4 + 4 * i, table(&b, l.field, FIELD_SIZE));
    size_t none = vector(&b, 0, 0), type = table(&b, l.empty, 4);
    size_t pairs = vector(&b, PAIRS, b.at + 4 + 4 * (size_t)PAIRS);
    size_t pair = table(&b, l.pair, 12), text = take(&b, 8); /* an empty string */
    refer(&b, pair + 4, text);
    refer(&b, pair + 8, text);
    for (size_t f = first, i = 0; i < FIELDS; i++, f += FIELD_SIZE) {
        *place(&b, f + 4) = TYPE_NULL;
        refer(&b, f + 8, type);
        refer(&b, f + 12, none);
        refer(&b, f + 16, pairs);
    }
    assert_int_equal(read_within_a_second(&b, why, sizeof why), OD_E_CORRUPT);
    assert_non_null(strstr(why, "share"));
}

static void test_many_dictionaries_are_refused_soon(void **state)
{
    enum { FIELDS = 12000 };
    layouts l;
    size_t word;
    char why[200];
    (void)state;
    builder b = begin(&l, &word);
    size_t v = vector(&b, FIELDS, 0);
    refer(&b, word, v);
    size_t first = b.at;
    for (size_t i = 0; i < FIELDS; i++)
        refer(&b, v + 4 + 4 * i, table(&b, l.coded, FIELD_SIZE));
    size_t none = vector(&b, 0, 0), type;
    for (size_t i = 0; i < FIELDS; i++) {
        size_t f = first + i * FIELD_SIZE, d;
        b.at = (b.at + 7) / 8 * 8 + 4; /* the 64-bit id is aligned */
        d = table(&b, l.dictionary, 20);
        type = table(&b, l.empty, 4);
        refer(&b, d + 4, type);
        put32(&b, d + 12, i);
        *place(&b, f + 4) = TYPE_NULL;
        refer(&b, f + 8, type);
        refer(&b, f + 12, none);
        refer(&b, f + 16, none);
        refer(&b, f + 20, d);
    }
    assert_int_equal(read_within_a_second(&b, why, sizeof why), OD_E_NOT_IMPLEMENTED);
    assert_non_null(strstr(why, "4096"));
}

static void test_metadata_above_its_limit_is_refused(void **state)
{
    enum { LARGE = (16 << 20) + 8 };
    uint8_t *bytes = calloc(1, LARGE + 8);
    const uint32_t head[2] = {UINT32_MAX, LARGE};
    od_ipc_reader *reader;
    od_error err;
    bool same;
    (void)state;
    memcpy(bytes, head, sizeof head);
    assert_int_equal(od_ipc_reader_create(&reader, &err), OD_OK);
    assert_int_equal(od_ipc_reader_start(reader, od_slice_of(bytes, LARGE + 8), &same, &err), OD_E_TOO_LARGE);
    assert_non_null(strstr(err.message, "16777216"));
    od_ipc_reader_free(reader);
    free(bytes);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_field_is_read),
        cmocka_unit_test(test_children_that_are_one_table_are_refused_soon),
        cmocka_unit_test(test_metadata_that_fields_share_is_refused_soon),
        cmocka_unit_test(test_many_dictionaries_are_refused_soon),
        cmocka_unit_test(test_metadata_above_its_limit_is_refused),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
