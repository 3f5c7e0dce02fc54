/* The client against a server that does as it is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "query/client.h"
#include "unit/query/client/script_server.h"

static script_server server;

static od_remote *connect_to(const char *address, int64_t execute_ms)
{
    od_remote_options options = {.database = NULL, .execute_timeout_ms = execute_ms, .connect_timeout_ms = 2000};
    od_remote *remote = NULL;

    assert_int_equal(od_endpoint_parse(od_slice_str(address), &options.endpoint, NULL), OD_OK);
    assert_int_equal(od_secret_set(&options.token, od_slice_str("token-1"), NULL), OD_OK);
    assert_int_equal(od_remote_create(&options, &remote, NULL), OD_OK);
    od_remote_options_release(&options);
    return remote;
}

/* Runs PLAN to its end. *payloads: how many came. */
static od_code run(od_remote *remote, const char *plan, int *payloads, od_error *err)
{
    const od_remote_query query = {.sql = od_slice_str(plan), .execution_id = "exec-7"};
    od_result *result = NULL;
    od_msg *owner;
    od_slice payload;
    od_code rc;

    *payloads = 0;
    rc = od_remote_execute(remote, &query, &result, err);
    if (rc != OD_OK)
        return rc;
    for (;;) {
        rc = od_result_next(result, &owner, &payload, err);
        if (rc != OD_OK || !owner)
            break;
        (*payloads)++;
        assert_int_equal((uintptr_t)payload.data % 64, 0);
        od_msg_unref(owner);
    }
    if (rc != OD_OK) {
        od_error again;

        assert_int_equal(od_result_next(result, &owner, &payload, &again), rc);
        assert_string_equal(again.message, err->message);
    }
    od_result_free(result);
    return rc;
}

static void test_streams(void **state)
{
    static const struct {
        const char *plan;
        int payloads;
        od_code rc;
        const char *text; /* what the message begins with */
    } rows[] = {
        {"b10 f o", 1, OD_OK, NULL},
        {"b10 b70000 b0 f o", 3, OD_OK, NULL},
        {"f o", 0, OD_OK, NULL},
        {"n b5 n f o", 1, OD_OK, NULL},
        {"b10 o", 1, OD_E_CONNECTION_LOST, "the stream ended without 'finished'"},
        {"o", 0, OD_E_CONNECTION_LOST, "the stream ended without 'finished'"},
        {"ePARSER f o", 0, OD_E_PARSER, "scripted PARSER"},
        {"b10 eTRANSACTION f o", 1, OD_E_TRANSACTION, "scripted TRANSACTION"},
        {"eSTALE_CATALOG", 0, OD_E_STALE_CATALOG, "scripted STALE_CATALOG"},
        {"s16", 0, OD_E_UNAUTHENTICATED, "scripted status"},
        {"b10 s14", 1, OD_E_UNAVAILABLE, "scripted status"},
        {"x", 0, OD_E_PROTOCOL, "a message is not valid protobuf"},
    };
    od_remote *remote = connect_to(server.address, 5000);
    char suffix[100];

    (void)state;
    snprintf(suffix, sizeof suffix, " (openduck %s, execution exec-7)", server.address);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        od_error err = {0};
        int payloads;
        od_code rc = run(remote, rows[i].plan, &payloads, &err);

        if (rc != rows[i].rc || payloads != rows[i].payloads)
            fail_msg("'%s': %s, %d payloads: %s", rows[i].plan, od_code_name(rc), payloads, err.message);
        if (rc == OD_OK)
            continue;
        assert_int_equal(strncmp(err.message, rows[i].text, strlen(rows[i].text)), 0);
        assert_string_equal(err.message + strlen(err.message) - strlen(suffix), suffix);
    }
    assert_string_equal(server.last_token, "token-1");
    ASSERT_EVENTUALLY(atomic_load(&server.gone) == atomic_load(&server.opened));
    od_remote_unref(remote);
}

static void test_a_finished_stream_is_not_reset(void **state)
{
    od_remote *remote = connect_to(server.address, 5000);
    int payloads, before = atomic_load(&server.reset), gone = atomic_load(&server.gone);
    od_error err;

    (void)state;
    for (int i = 0; i < 20; i++)
        assert_int_equal(run(remote, i % 2 ? "b10 f o" : "ePARSER f o", &payloads, &err), i % 2 ? OD_OK : OD_E_PARSER);
    ASSERT_EVENTUALLY(atomic_load(&server.gone) == gone + 20);
    assert_int_equal(atomic_load(&server.reset), before);
    od_remote_unref(remote);
}

static void test_silence_is_a_timeout_and_resets_the_stream(void **state)
{
    od_remote *remote = connect_to(server.address, 100);
    int payloads, before = atomic_load(&server.reset);
    od_error err;

    (void)state;
    assert_int_equal(run(remote, "b10", &payloads, &err), OD_E_TIMEOUT);
    assert_int_equal(payloads, 1);
    assert_non_null(strstr(err.message, "no answer within 100 ms"));
    ASSERT_EVENTUALLY(atomic_load(&server.reset) == before + 1);
    od_remote_unref(remote);
}

static void test_a_wait_in_pieces_has_one_limit(void **state)
{
    const od_remote_query query = {.sql = od_slice_str("b10")};
    od_remote *remote = connect_to(server.address, 300);
    int before = atomic_load(&server.reset), waits = 0;
    od_result *result = NULL;
    od_slice payload;
    od_msg *owner;
    bool again;
    od_error err;
    od_code rc;

    (void)state;
    assert_int_equal(od_remote_execute(remote, &query, &result, NULL), OD_OK);
    do {
        assert_int_equal(od_result_next_within(result, 20, &owner, &payload, &again, NULL), OD_OK);
    } while (again);
    assert_int_equal(payload.len, 10);
    od_msg_unref(owner);
    /* The time that the reader takes for itself is not the server's. */
    assert_int_equal(od_result_next_within(result, 20, &owner, &payload, &again, &err), OD_OK);
    assert_true(again && !owner);
    nanosleep(&(struct timespec){.tv_nsec = 400000000}, NULL);
    for (;;) {
        rc = od_result_next_within(result, 20, &owner, &payload, &again, &err);
        if (rc != OD_OK)
            break;
        assert_true(again && !owner);
        waits++;
    }
    assert_int_equal(rc, OD_E_TIMEOUT);
    assert_false(again);
    assert_non_null(strstr(err.message, "no answer within 300 ms"));
    assert_in_range(waits, 3, 14);
    od_result_free(result);
    ASSERT_EVENTUALLY(atomic_load(&server.reset) == before + 1);
    od_remote_unref(remote);
}

static void test_an_unread_result_is_cancelled_at_the_server(void **state)
{
    const od_remote_query query = {.sql = od_slice_str("flood")};
    od_remote *remote = connect_to(server.address, 5000);
    int before = atomic_load(&server.reset);
    od_result *result = NULL;
    od_slice payload;
    od_msg *owner;

    (void)state;
    assert_int_equal(od_remote_execute(remote, &query, &result, NULL), OD_OK);
    assert_int_equal(strlen(od_result_execution_id(result)), 36);
    assert_int_equal(od_result_next(result, &owner, &payload, NULL), OD_OK);
    assert_int_equal(payload.len, 1 << 20);
    assert_int_equal(od_result_catalog_version(result), 42);
    assert_true(od_result_bytes(result) >= payload.len);
    od_msg_unref(owner);
    od_result_free(result);
    ASSERT_EVENTUALLY(atomic_load(&server.reset) == before + 1);
    od_remote_unref(remote);
}

static void *cancel_soon(void *arg)
{
    nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
    od_result_cancel(arg);
    return NULL;
}

static void test_cancel_ends_a_blocked_next(void **state)
{
    const od_remote_query query = {.sql = od_slice_str("n")};
    od_remote *remote = connect_to(server.address, 5000);
    int before = atomic_load(&server.reset);
    od_result *result = NULL;
    pthread_t thread;
    od_slice payload;
    od_msg *owner;
    od_error err;

    (void)state;
    assert_int_equal(od_remote_execute(remote, &query, &result, NULL), OD_OK);
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, result), 0);
    assert_int_equal(od_result_next(result, &owner, &payload, &err), OD_E_CANCELLED);
    pthread_join(thread, NULL);
    od_result_free(result);
    ASSERT_EVENTUALLY(atomic_load(&server.reset) == before + 1);
    od_remote_unref(remote);
}

static bool interrupted(void *arg)
{
    return ++*(int *)arg > 1;
}

static void test_the_interrupt_ends_a_blocked_next(void **state)
{
    int asked = 0;
    const od_remote_query query = {.sql = od_slice_str("n"), .interrupt = {interrupted, &asked}};
    od_remote *remote = connect_to(server.address, 5000);
    od_result *result = NULL;
    od_slice payload;
    od_msg *owner;
    od_error err;

    (void)state;
    assert_int_equal(od_remote_execute(remote, &query, &result, NULL), OD_OK);
    assert_int_equal(od_result_next(result, &owner, &payload, &err), OD_E_CANCELLED);
    od_result_free(result);
    od_remote_unref(remote);
}

static void test_remote_cancel_tells_whether_it_was_known(void **state)
{
    od_remote *remote = connect_to(server.address, 5000);
    bool acknowledged;

    (void)state;
    for (int known = 0; known < 2; known++) {
        atomic_store(&server.acknowledge, known != 0);
        assert_int_equal(od_remote_cancel(remote, "e", &acknowledged, NULL), OD_OK);
        assert_int_equal(acknowledged, known);
    }
    atomic_store(&server.acknowledge, false);
    od_remote_unref(remote);
}

static void test_nobody_there_names_the_endpoint(void **state)
{
    script_server other;
    od_remote *remote;
    int payloads;
    od_error err;
    od_status status;

    (void)state;
    assert_true(script_start(&other, NULL));
    script_stop(&other);
    remote = connect_to(other.address, 5000);
    assert_int_equal(run(remote, "f o", &payloads, &err), OD_E_UNAVAILABLE);
    assert_non_null(strstr(err.message, other.address));
    assert_int_equal(od_remote_status(remote, 1000, (od_interrupt){0}, &status, &err), OD_E_UNAVAILABLE);
    assert_non_null(strstr(err.message, other.address));
    od_remote_unref(remote);
}

static void test_a_long_error_keeps_its_suffix(void **state)
{
    char id[OD_EXECUTION_ID_SIZE + 1];
    od_remote *remote = connect_to(server.address, 5000);
    od_remote_query query = {.sql = od_slice_str("f o"), .execution_id = id};
    od_result *result = NULL;
    od_error err;

    (void)state;
    memset(id, 'i', sizeof id);
    id[OD_EXECUTION_ID_SIZE] = '\0';
    assert_int_equal(od_remote_execute(remote, &query, &result, &err), OD_E_INVALID);
    id[OD_EXECUTION_ID_SIZE - 1] = '\0';
    assert_int_equal(od_remote_execute(remote, &query, &result, &err), OD_OK);
    od_result_free(result);
    od_remote_unref(remote);
}

static int start(void **state)
{
    (void)state;
    return script_start(&server, NULL) ? 0 : -1;
}

static int stop(void **state)
{
    (void)state;
    script_stop(&server);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_a_finished_stream_is_not_reset),
        cmocka_unit_test(test_silence_is_a_timeout_and_resets_the_stream),
        cmocka_unit_test(test_a_wait_in_pieces_has_one_limit),
        cmocka_unit_test(test_an_unread_result_is_cancelled_at_the_server),
        cmocka_unit_test(test_cancel_ends_a_blocked_next),
        cmocka_unit_test(test_the_interrupt_ends_a_blocked_next),
        cmocka_unit_test(test_remote_cancel_tells_whether_it_was_known),
        cmocka_unit_test(test_nobody_there_names_the_endpoint),
        cmocka_unit_test(test_a_long_error_keeps_its_suffix),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, start, stop);
}
