/* Requests both ways, against what protobuf-c makes of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "openduck/v1/execution.pb-c.h"
#include "query/wire.h"

static od_slice bytes_of(od_msg *msg)
{
    return od_slice_of(od_msg_data(msg), od_msg_len(msg));
}

static const od_execute_request full = {
    .plan = {(const uint8_t *)"SELECT 1", 8},
    .database = {(const uint8_t *)"db", 2},
    .snapshot_id = {(const uint8_t *)"s", 1},
    .access_token = {(const uint8_t *)"token", 5},
    .execution_id = {(const uint8_t *)"exec", 4},
    .compute_context = {(const uint8_t *)"region", 6},
    .transaction_id = {(const uint8_t *)"txn", 3},
    .format = OD_FORMAT_NATIVE,
    .describe_only = true,
    .expected_catalog_version = UINT64_MAX - 3,
    .statement_id = {(const uint8_t *)"stmt", 4},
    .parameters = {(const uint8_t *)"\xff\0p", 3},
    .wants_layout = true,
    .divides = true,
    .follows = {(const uint8_t *)"led", 3},
};

static void assert_same(const od_execute_request *a, const od_execute_request *b)
{
    assert_true(od_slice_equal(a->plan, b->plan));
    assert_true(od_slice_equal(a->database, b->database));
    assert_true(od_slice_equal(a->snapshot_id, b->snapshot_id));
    assert_int_equal(a->snapshot_id.data != NULL, b->snapshot_id.data != NULL);
    assert_true(od_slice_equal(a->access_token, b->access_token));
    assert_true(od_slice_equal(a->execution_id, b->execution_id));
    assert_true(od_slice_equal(a->compute_context, b->compute_context));
    assert_true(od_slice_equal(a->transaction_id, b->transaction_id));
    assert_true(od_slice_equal(a->statement_id, b->statement_id));
    assert_true(od_slice_equal(a->parameters, b->parameters));
    assert_int_equal(a->format, b->format);
    assert_int_equal(a->describe_only, b->describe_only);
    assert_int_equal(a->wants_layout, b->wants_layout);
    assert_int_equal(a->divides, b->divides);
    assert_true(od_slice_equal(a->follows, b->follows));
    assert_true(a->expected_catalog_version == b->expected_catalog_version);
}

static void test_request_there_and_back(void **state)
{
    const od_execute_request none = {0}, snapshot_of_nothing = {.snapshot_id = {(const uint8_t *)"", 0}};
    const od_execute_request *rows[] = {&full, &none, &snapshot_of_nothing};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        od_execute_request back;
        od_msg *msg = NULL;

        assert_int_equal(od_execute_request_encode(rows[i], &msg, NULL), OD_OK);
        assert_int_equal(od_execute_request_decode(bytes_of(msg), &back, NULL), OD_OK);
        assert_same(rows[i], &back);
        od_msg_unref(msg);
    }
}

static void test_request_is_byte_for_byte_protobufs(void **state)
{
    Openduck__V1__ExecuteFragmentRequest pb = OPENDUCK__V1__EXECUTE_FRAGMENT_REQUEST__INIT;
    uint8_t packed[256];
    od_msg *msg = NULL;
    size_t len;

    (void)state;
    pb.plan.data = (uint8_t *)(uintptr_t)full.plan.data;
    pb.plan.len = full.plan.len;
    pb.database = "db";
    pb.snapshot_case = OPENDUCK__V1__EXECUTE_FRAGMENT_REQUEST__SNAPSHOT_SNAPSHOT_ID;
    pb.snapshot_id = "s";
    pb.access_token = "token";
    pb.execution_id = "exec";
    pb.compute_context = "region";
    pb.transaction_id = "txn";
    pb.result_format = OPENDUCK__V1__RESULT_FORMAT__RESULT_FORMAT_NATIVE;
    pb.describe_only = 1;
    pb.expected_catalog_version = UINT64_MAX - 3;
    pb.statement_id = "stmt";
    pb.parameters.data = (uint8_t *)(uintptr_t)full.parameters.data;
    pb.parameters.len = full.parameters.len;
    pb.wants_layout = 1;
    pb.divides = 1;
    pb.follows = "led";
    len = openduck__v1__execute_fragment_request__pack(&pb, packed);
    assert_int_equal(od_execute_request_encode(&full, &msg, NULL), OD_OK);
    assert_int_equal(od_msg_len(msg), len);
    assert_memory_equal(od_msg_data(msg), packed, len);
    od_msg_unref(msg);
}

static void test_request_refusals(void **state)
{
    static const struct {
        const char *name, *bytes;
        size_t len;
        od_code rc;
    } rows[] = {
        {"unknown format", "\x40\x03", 2, OD_E_INVALID},
        {"text that is not UTF-8", "\x12\x01\xff", 3, OD_E_PROTOCOL},
        {"plan that is not UTF-8 passes", "\x0a\x01\xff", 3, OD_OK},
        {"format of a wrong wire type is unknown", "\x42\x01\x09", 3, OD_OK},
        {"unknown field", "\xfa\x7f\x01z", 4, OD_OK},
        {"cut", "\x0a\x05z", 3, OD_E_PROTOCOL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        od_execute_request out;
        od_code rc = od_execute_request_decode(od_slice_of(rows[i].bytes, rows[i].len), &out, NULL);

        if (rc != rows[i].rc)
            fail_msg("%s: code %d", rows[i].name, (int)rc);
    }
}

static void test_request_truncated_at_every_byte(void **state)
{
    od_msg *msg = NULL;

    (void)state;
    assert_int_equal(od_execute_request_encode(&full, &msg, NULL), OD_OK);
    for (size_t cut = 0; cut < od_msg_len(msg); cut++) {
        uint8_t *part = malloc(cut ? cut : 1);
        od_execute_request out;
        od_code rc;

        assert_non_null(part);
        memcpy(part, od_msg_data(msg), cut);
        rc = od_execute_request_decode(od_slice_of(part, cut), &out, NULL);
        assert_true(rc == OD_OK || rc == OD_E_PROTOCOL);
        free(part);
    }
    od_msg_unref(msg);
}

static void test_request_above_the_limit_is_refused(void **state)
{
    od_execute_request request = {.plan = {(const uint8_t *)"", OD_RPC_MAX_MESSAGE}};
    od_msg *msg = NULL;

    (void)state;
    assert_int_equal(od_execute_request_encode(&request, &msg, NULL), OD_E_TOO_LARGE);
    assert_null(msg);
    request.plan.len = SIZE_MAX;
    assert_int_equal(od_execute_request_encode(&request, &msg, NULL), OD_E_TOO_LARGE);
}

static void test_identify_puts_the_id_in(void **state)
{
    static const char id[] = "0a0b0c0d-0000-4000-8000-000000000001";
    /* An id left out, an empty one written out, and a field that this version does not know. */
    static const char *const rows[] = {"\x0a\x01q\x9a\x06\x01z", "\x0a\x01q\x2a\x00"};
    static const size_t lens[] = {7, 5};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        od_msg *msg = NULL, *owner = NULL;
        od_execute_request request, back;
        uint8_t flat[256];
        od_rpc_out out;

        assert_int_equal(od_msg_create(lens[i], 0, &msg, NULL), OD_OK);
        memcpy(od_msg_data(msg), rows[i], lens[i]);
        assert_int_equal(od_execute_request_decode(bytes_of(msg), &request, NULL), OD_OK);
        assert_int_equal(od_execute_request_identify(msg, &request, id, &owner, &out, NULL), OD_OK);
        memcpy(flat, out.head, out.head_len);
        memcpy(flat + out.head_len, od_msg_data(out.body) + out.offset, out.len);
        assert_int_equal(od_execute_request_decode(od_slice_of(flat, out.head_len + out.len), &back, NULL), OD_OK);
        assert_true(od_slice_equal(back.execution_id, od_slice_str(id)));
        assert_true(od_slice_equal(back.plan, od_slice_str("q")));
        od_msg_unref(owner);
        od_msg_unref(msg);
    }
}

static void test_cancel_both_ways(void **state)
{
    const od_cancel_request request = {od_slice_str("exec"), od_slice_str("token")};
    Openduck__V1__CancelRequest *pb;
    od_cancel_request back;
    od_msg *msg = NULL;
    bool acknowledged;

    (void)state;
    assert_int_equal(od_cancel_request_encode(&request, &msg, NULL), OD_OK);
    assert_int_equal(od_cancel_request_decode(bytes_of(msg), &back, NULL), OD_OK);
    assert_true(od_slice_equal(back.execution_id, request.execution_id));
    assert_true(od_slice_equal(back.access_token, request.access_token));
    pb = openduck__v1__cancel_request__unpack(NULL, od_msg_len(msg), od_msg_data(msg));
    assert_non_null(pb);
    assert_string_equal(pb->execution_id, "exec");
    assert_string_equal(pb->access_token, "token");
    openduck__v1__cancel_request__free_unpacked(pb, NULL);
    od_msg_unref(msg);
    for (int flag = 0; flag < 2; flag++) {
        assert_int_equal(od_cancel_reply_encode(flag != 0, &msg, NULL), OD_OK);
        assert_int_equal(od_msg_len(msg), flag ? 2 : 0);
        assert_int_equal(od_cancel_reply_decode(bytes_of(msg), &acknowledged, NULL), OD_OK);
        assert_int_equal(acknowledged, flag);
        od_msg_unref(msg);
    }
    assert_int_equal(od_cancel_reply_decode(od_slice_of("\x08", 1), &acknowledged, NULL), OD_E_PROTOCOL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request_there_and_back),
        cmocka_unit_test(test_request_is_byte_for_byte_protobufs),
        cmocka_unit_test(test_request_refusals),
        cmocka_unit_test(test_request_truncated_at_every_byte),
        cmocka_unit_test(test_request_above_the_limit_is_refused),
        cmocka_unit_test(test_identify_puts_the_id_in),
        cmocka_unit_test(test_cancel_both_ways),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
