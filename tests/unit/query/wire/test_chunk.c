/* Chunks both ways, against what protobuf-c makes of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "openduck/v1/execution.pb-c.h"
#include "query/wire.h"

/* The bytes of OUT as they would go out; the caller frees. */
static uint8_t *flatten(const od_rpc_out *out, size_t *len)
{
    uint8_t *bytes = malloc(out->head_len + out->len + out->tail_len + 1);

    assert_non_null(bytes);
    memcpy(bytes, out->head, out->head_len);
    if (out->body)
        memcpy(bytes + out->head_len, od_msg_data(out->body) + out->offset, out->len);
    memcpy(bytes + out->head_len + out->len, out->tail, out->tail_len);
    *len = out->head_len + out->len + out->tail_len;
    return bytes;
}

static od_msg *msg_of(size_t len)
{
    od_msg *msg = NULL;

    assert_int_equal(od_msg_create(len, 0, &msg, NULL), OD_OK);
    for (size_t i = 0; i < len; i++)
        od_msg_data(msg)[i] = (uint8_t)(i * 7 + 1);
    return msg;
}

static void test_batch_head_is_ten_bytes_and_decodes_everywhere(void **state)
{
    static const struct {
        size_t message, offset, len;
        uint64_t version, place;
    } rows[] = {{100, 0, 100, 0, 0},         {100, 10, 20, 7, 0},  {0, 0, 0, 0, 1},
                {1, 1, 0, 1, 300},           {200, 64, 127, 3, 2}, {70000, 0, 70000, UINT64_MAX, UINT64_MAX},
                {5 << 20, 64, 4 << 20, 1, 7}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        od_msg *body = msg_of(rows[i].message);
        Openduck__V1__ExecuteFragmentChunk *pb;
        const od_chunk_told told = {rows[i].version, rows[i].place};
        od_rpc_out out;
        od_chunk chunk;
        uint8_t *bytes;
        size_t len;

        assert_int_equal(od_chunk_batch(body, rows[i].offset, rows[i].len, &told, &out, NULL), OD_OK);
        assert_int_equal(out.head_len, OD_CHUNK_HEAD);
        bytes = flatten(&out, &len);
        assert_int_equal(od_chunk_decode(od_slice_of(bytes, len), &chunk, NULL), OD_OK);
        assert_int_equal(chunk.kind, OD_CHUNK_BATCH);
        assert_int_equal(chunk.payload.len, rows[i].len);
        assert_ptr_equal(chunk.payload.data, bytes + OD_CHUNK_HEAD);
        assert_true(chunk.catalog_version == rows[i].version);
        assert_true(chunk.place == rows[i].place);
        pb = openduck__v1__execute_fragment_chunk__unpack(NULL, len, bytes);
        assert_non_null(pb);
        assert_int_equal(pb->payload_case, OPENDUCK__V1__EXECUTE_FRAGMENT_CHUNK__PAYLOAD_ARROW_BATCH);
        assert_int_equal(pb->arrow_batch->ipc_stream_payload.len, rows[i].len);
        assert_memory_equal(pb->arrow_batch->ipc_stream_payload.data, od_msg_data(body) + rows[i].offset, rows[i].len);
        assert_true(pb->catalog_version == rows[i].version);
        assert_true(pb->place == rows[i].place);
        openduck__v1__execute_fragment_chunk__free_unpacked(pb, NULL);
        free(bytes);
        od_msg_unref(body);
    }
}

static void test_batch_outside_of_its_message_or_too_large_is_refused(void **state)
{
    const od_chunk_told told = {0};
    od_msg *body = msg_of(10);
    od_rpc_out out;

    (void)state;
    assert_int_equal(od_chunk_batch(body, 5, 6, &told, &out, NULL), OD_E_INVALID);
    assert_int_equal(od_chunk_batch(body, 11, 0, &told, &out, NULL), OD_E_INVALID);
    assert_int_equal(od_chunk_batch(body, SIZE_MAX, 2, &told, &out, NULL), OD_E_INVALID);
    assert_int_equal(od_chunk_batch(body, 0, OD_RPC_MAX_MESSAGE, &told, &out, NULL), OD_E_TOO_LARGE);
    od_msg_unref(body);
}

static void test_finished_both_ways(void **state)
{
    static const uint64_t versions[] = {0, 1, UINT64_MAX}, payloads[] = {0, UINT64_MAX, 3};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        Openduck__V1__ExecuteFragmentChunk *pb;
        od_rpc_out out;
        od_chunk chunk;

        od_chunk_finished(versions[i], payloads[i], &out);
        assert_null(out.body);
        assert_int_equal(od_chunk_decode(od_slice_of(out.head, out.head_len), &chunk, NULL), OD_OK);
        assert_int_equal(chunk.kind, OD_CHUNK_FINISHED);
        assert_true(chunk.catalog_version == versions[i]);
        assert_true(chunk.payloads == payloads[i]);
        pb = openduck__v1__execute_fragment_chunk__unpack(NULL, out.head_len, out.head);
        assert_non_null(pb);
        assert_int_equal(pb->payload_case, OPENDUCK__V1__EXECUTE_FRAGMENT_CHUNK__PAYLOAD_FINISHED);
        assert_true(pb->finished);
        assert_true(pb->payloads == payloads[i]);
        openduck__v1__execute_fragment_chunk__free_unpacked(pb, NULL);
    }
}

static void test_a_layout_comes_in_a_chunk_of_its_own(void **state)
{
    static const uint8_t layout[] = {0x0a, 0x03, 0x0a, 0x01, 'a'}; /* a companion 'a' */
    Openduck__V1__ExecuteFragmentChunk *pb;
    od_msg *msg = NULL;
    od_chunk chunk;

    (void)state;
    assert_int_equal(od_chunk_layout(od_slice_of(layout, sizeof layout), &msg, NULL), OD_OK);
    assert_int_equal(od_chunk_decode(od_slice_of(od_msg_data(msg), od_msg_len(msg)), &chunk, NULL), OD_OK);
    assert_int_equal(chunk.kind, OD_CHUNK_NONE);
    assert_true(od_slice_equal(chunk.layout, od_slice_of(layout, sizeof layout)));
    pb = openduck__v1__execute_fragment_chunk__unpack(NULL, od_msg_len(msg), od_msg_data(msg));
    assert_non_null(pb);
    assert_int_equal(pb->payload_case, OPENDUCK__V1__EXECUTE_FRAGMENT_CHUNK__PAYLOAD__NOT_SET);
    assert_int_equal(pb->layout->n_companions, 1);
    assert_string_equal(pb->layout->companions[0]->alias, "a");
    openduck__v1__execute_fragment_chunk__free_unpacked(pb, NULL);
    od_msg_unref(msg);
}

static void test_every_code_survives_the_wire(void **state)
{
    (void)state;
    for (int code = 1; code < OD_CODE_COUNT; code++) {
        od_error what;
        od_chunk chunk;
        od_msg *msg = NULL;

        od_fail(&what, (od_code)code, "the %s of 'x' \xc3\xa4", od_code_name((od_code)code));
        assert_int_equal(od_chunk_error(&what, "exec-1", 9, &msg, NULL), OD_OK);
        assert_int_equal(od_chunk_decode(od_slice_of(od_msg_data(msg), od_msg_len(msg)), &chunk, NULL), OD_OK);
        assert_int_equal(chunk.kind, OD_CHUNK_ERROR);
        assert_int_equal(chunk.error.code, code);
        assert_int_equal(chunk.error.kind, what.kind);
        assert_string_equal(chunk.error.sqlstate, what.sqlstate);
        assert_string_equal(chunk.error.message, what.message);
        assert_int_equal(chunk.error.retriable, what.retriable);
        assert_string_equal(chunk.execution_id, "exec-1");
        assert_int_equal(chunk.catalog_version, 9);
        od_msg_unref(msg);
    }
}

static void test_error_chunk_is_what_protobuf_reads(void **state)
{
    Openduck__V1__ExecuteFragmentChunk *pb;
    od_error what;
    od_msg *msg = NULL;

    (void)state;
    od_fail(&what, OD_E_STALE_CATALOG, "changed");
    assert_int_equal(od_chunk_error(&what, "e", 3, &msg, NULL), OD_OK);
    pb = openduck__v1__execute_fragment_chunk__unpack(NULL, od_msg_len(msg), od_msg_data(msg));
    assert_non_null(pb);
    assert_int_equal(pb->payload_case, OPENDUCK__V1__EXECUTE_FRAGMENT_CHUNK__PAYLOAD_ERROR);
    assert_string_equal(pb->error, "changed");
    assert_string_equal(pb->error_detail->message, "changed");
    assert_string_equal(pb->error_detail->sql_state, "55006");
    assert_string_equal(pb->error_detail->execution_id, "e");
    assert_string_equal(pb->error_detail->code, "STALE_CATALOG");
    assert_int_equal(pb->error_detail->kind, OPENDUCK__V1__ERROR_KIND__ERROR_KIND_CATALOG);
    openduck__v1__execute_fragment_chunk__free_unpacked(pb, NULL);
    od_msg_unref(msg);
}

static void test_error_text_becomes_utf8(void **state)
{
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"ok \xc3\xa4", "ok \xc3\xa4"},           {"\xff\xfe x", "?? x"}, {"a\xc3", "a?"}, {"\xed\xa0\x80", "???"},
        {"\xf0\x9f\xa6\x86", "\xf0\x9f\xa6\x86"}, {"\xc0\x80", "??"}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        od_error what;
        od_chunk chunk;
        od_msg *msg = NULL;

        od_fail(&what, OD_E_IO, "x");
        memcpy(what.message, rows[i].in, strlen(rows[i].in) + 1);
        assert_int_equal(od_chunk_error(&what, NULL, 0, &msg, NULL), OD_OK);
        assert_int_equal(od_chunk_decode(od_slice_of(od_msg_data(msg), od_msg_len(msg)), &chunk, NULL), OD_OK);
        assert_int_equal(chunk.kind, OD_CHUNK_ERROR);
        assert_string_equal(chunk.error.message, rows[i].out);
        od_msg_unref(msg);
    }
}

/* Hand-made bytes, as other encoders or hostile peers may send them. */
static void test_odd_messages(void **state)
{
#define BYTES(text) text, sizeof(text) - 1
    static const struct {
        const char *name, *bytes;
        size_t len;
        od_code rc;
        od_chunk_kind kind;
        const char *text; /* payload or message */
    } rows[] = {
        {"empty", BYTES(""), OD_OK, OD_CHUNK_NONE, NULL},
        {"short lengths", BYTES("\x0a\x04\x0a\x02hi"), OD_OK, OD_CHUNK_BATCH, "hi"},
        {"batch without a payload", BYTES("\x0a\x00"), OD_OK, OD_CHUNK_BATCH, ""},
        {"unknown fields",
         BYTES("\xf8\x06\x05\xfa\x06\x02zz\x0a\x04\x0a\x02hi\xf9\x06"
               "12345678\xfd\x06"
               "1234"),
         OD_OK, OD_CHUNK_BATCH, "hi"},
        {"unknown field in the batch", BYTES("\x0a\x07\x12\x01x\x0a\x02hi"), OD_OK, OD_CHUNK_BATCH, "hi"},
        {"the last member wins",
         BYTES("\x0a\x04\x0a\x02hi\x12\x03"
               "bad"),
         OD_OK, OD_CHUNK_ERROR, "bad"},
        {"an error, then a batch",
         BYTES("\x12\x03"
               "bad\x0a\x04\x0a\x02hi"),
         OD_OK, OD_CHUNK_BATCH, "hi"},
        {"two batches", BYTES("\x0a\x04\x0a\x02hi\x0a\x04\x0a\x02ho"), OD_OK, OD_CHUNK_BATCH, "ho"},
        {"two batches, the second empty: merged", BYTES("\x0a\x04\x0a\x02hi\x0a\x00"), OD_OK, OD_CHUNK_BATCH, "hi"},
        {"another member between them", BYTES("\x0a\x04\x0a\x02hi\x18\x01\x0a\x00"), OD_OK, OD_CHUNK_BATCH, ""},
        {"legacy error",
         BYTES("\x12\x03"
               "bad"),
         OD_OK, OD_CHUNK_ERROR, "bad"},
        {"detail without the legacy text",
         BYTES("\x22\x05\x12\x03"
               "bad"),
         OD_OK, OD_CHUNK_ERROR, "bad"},
        {"unknown kind",
         BYTES("\x22\x08\x08\xff\x01\x12\x03"
               "bad"),
         OD_OK, OD_CHUNK_ERROR, "bad"},
        {"finished false", BYTES("\x18\x00"), OD_OK, OD_CHUNK_NONE, NULL},
        {"finished as bytes is unknown", BYTES("\x1a\x01x"), OD_OK, OD_CHUNK_NONE, NULL},
        {"length past the end", BYTES("\x0a\x05\x0a\x02hi"), OD_E_PROTOCOL, OD_CHUNK_NONE, NULL},
        {"inner length past the end", BYTES("\x0a\x04\x0a\x03hi"), OD_E_PROTOCOL, OD_CHUNK_NONE, NULL},
        {"huge length", BYTES("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), OD_E_PROTOCOL, OD_CHUNK_NONE, NULL},
        {"endless varint", BYTES("\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), OD_E_PROTOCOL, OD_CHUNK_NONE,
         NULL},
        {"field zero", BYTES("\x02\x00"), OD_E_PROTOCOL, OD_CHUNK_NONE, NULL},
        {"group", BYTES("\x0b\x0c"), OD_E_PROTOCOL, OD_CHUNK_NONE, NULL},
        {"wire type seven", BYTES("\x0f\x00"), OD_E_PROTOCOL, OD_CHUNK_NONE, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        od_chunk chunk;
        od_code rc = od_chunk_decode(od_slice_of(rows[i].bytes, rows[i].len), &chunk, NULL);

        if (rc != rows[i].rc || chunk.kind != rows[i].kind)
            fail_msg("%s: code %d, kind %d", rows[i].name, (int)rc, (int)chunk.kind);
        if (chunk.kind == OD_CHUNK_BATCH)
            assert_true(od_slice_equal(chunk.payload, od_slice_str(rows[i].text)));
        if (chunk.kind == OD_CHUNK_ERROR) {
            assert_string_equal(chunk.error.message, rows[i].text);
            assert_int_equal(chunk.error.kind, OD_KIND_IO);
        }
    }
}

/* Each prefix is read from memory of exactly its size, so that a checker sees a read past it. */
static void test_truncated_at_every_byte(void **state)
{
    od_error what;
    od_msg *error = NULL, *body = msg_of(40);
    od_rpc_out out;
    uint8_t *batch;
    size_t len;

    (void)state;
    od_fail(&what, OD_E_PARSER, "near 'x'");
    assert_int_equal(od_chunk_error(&what, "id", 77, &error, NULL), OD_OK);
    assert_int_equal(od_chunk_batch(body, 0, 40, &(od_chunk_told){5, 9}, &out, NULL), OD_OK);
    batch = flatten(&out, &len);
    for (int which = 0; which < 2; which++) {
        size_t whole = which ? len : od_msg_len(error);
        const uint8_t *from = which ? batch : od_msg_data(error);

        for (size_t cut = 0; cut < whole; cut++) {
            uint8_t *part = malloc(cut ? cut : 1);
            od_chunk chunk;
            od_code rc;

            assert_non_null(part);
            memcpy(part, from, cut);
            rc = od_chunk_decode(od_slice_of(part, cut), &chunk, NULL);
            assert_true(rc == OD_OK || rc == OD_E_PROTOCOL);
            if (which && cut > 0 && cut < OD_CHUNK_HEAD + 40)
                assert_int_equal(rc, OD_E_PROTOCOL);
            free(part);
        }
    }
    free(batch);
    od_msg_unref(error);
    od_msg_unref(body);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batch_head_is_ten_bytes_and_decodes_everywhere),
        cmocka_unit_test(test_batch_outside_of_its_message_or_too_large_is_refused),
        cmocka_unit_test(test_finished_both_ways),
        cmocka_unit_test(test_a_layout_comes_in_a_chunk_of_its_own),
        cmocka_unit_test(test_every_code_survives_the_wire),
        cmocka_unit_test(test_error_chunk_is_what_protobuf_reads),
        cmocka_unit_test(test_error_text_becomes_utf8),
        cmocka_unit_test(test_odd_messages),
        cmocka_unit_test(test_truncated_at_every_byte),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
