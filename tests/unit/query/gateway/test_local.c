/* A gateway with a worker in the same process: no hop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "query/client.h"
#include "query/gateway.h"
#include "unit/query/client/script_server.h"

#define ENDLESS "SELECT count(*) FROM range(10000000000) a, range(1000) b WHERE a.range + b.range = -1"

typedef struct {
    od_engine *engine;
    od_worker *worker;
    od_gateway *gateway;
    od_rpc_server *rpc;
    char address[32];
} house;

static void house_start(house *h, unsigned max_in_flight)
{
    static const od_engine_database databases[] = {{"one", ":memory:"}, {"two", ":memory:"}};
    const od_engine_options engine = {.databases = databases, .database_count = 2, .threads = 2};
    od_worker_options worker = {0};
    od_gateway_options gateway = {.max_in_flight = max_in_flight, .queue_timeout_ms = 10000};
    od_rpc_server_options rpc = {.listen = "127.0.0.1:0"};

    assert_int_equal(od_engine_open(&engine, &h->engine, NULL), OD_OK);
    worker.engine = gateway.engine = h->engine;
    assert_int_equal(od_worker_create(&worker, &h->worker, NULL), OD_OK);
    gateway.worker = h->worker;
    assert_int_equal(od_gateway_create(&gateway, &h->gateway, NULL), OD_OK);
    rpc.methods = od_gateway_methods(&rpc.method_count);
    rpc.service = h->gateway;
    assert_int_equal(od_rpc_server_start(&rpc, &h->rpc, NULL), OD_OK);
    snprintf(h->address, sizeof h->address, "127.0.0.1:%u", (unsigned)od_rpc_server_port(h->rpc));
}

static void house_stop(house *h)
{
    ASSERT_EVENTUALLY(od_gateway_executions(h->gateway) == 0);
    assert_int_equal(od_gateway_in_flight(h->gateway), 0);
    assert_int_equal(od_gateway_queued(h->gateway), 0);
    assert_int_equal(od_worker_in_flight(h->worker), 0);
    assert_true(od_rpc_server_drain(h->rpc, od_deadline_in_ms(5000)));
    od_rpc_server_free(h->rpc);
    od_worker_free(h->worker);
    od_gateway_free(h->gateway);
    od_engine_close(h->engine);
}

static od_remote *connect_to(const house *h, const char *database)
{
    char name[64];
    od_remote_options options = {.execute_timeout_ms = 20000, .database = name};
    od_remote *remote = NULL;

    snprintf(name, sizeof name, "%s", database);
    assert_int_equal(od_endpoint_parse(od_slice_str(h->address), &options.endpoint, NULL), OD_OK);
    assert_int_equal(od_remote_create(&options, &remote, NULL), OD_OK);
    return remote;
}

static od_result *start(od_remote *remote, const char *sql, const char *id)
{
    const od_remote_query query = {.sql = od_slice_str(sql), .execution_id = id};
    od_result *result = NULL;

    assert_int_equal(od_remote_execute(remote, &query, &result, NULL), OD_OK);
    return result;
}

static od_code finish(od_result *result, int *payloads, od_error *err)
{
    od_msg *owner;
    od_slice payload;
    od_code rc;

    for (*payloads = 0;; (*payloads)++) {
        rc = od_result_next(result, &owner, &payload, err);
        if (rc != OD_OK || !owner)
            break;
        od_msg_unref(owner);
    }
    od_result_free(result);
    return rc;
}

static void test_results_and_errors(void **state)
{
    static const struct {
        const char *database, *sql;
        od_code rc;
        int payloads;
    } rows[] = {
        {"one", "SELECT 42", OD_OK, 1},
        {"", "SELECT 42 WHERE false", OD_OK, 1},
        {"two", "CREATE TABLE t(i INTEGER)", OD_OK, 1},
        {"two", "FROM t", OD_OK, 1},
        {"one", "FROM t", OD_E_CATALOG, 0},
        {"one", "SELEC", OD_E_PARSER, 0},
        {"one", "SELECT 'x'::INTEGER", OD_E_CONVERSION, 0},
        {"three", "SELECT 1", OD_E_NOT_FOUND, 0},
    };
    house h;

    (void)state;
    house_start(&h, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        od_remote *remote = connect_to(&h, rows[i].database);
        od_error err = {0};
        int payloads;
        od_code rc = finish(start(remote, rows[i].sql, NULL), &payloads, &err);

        if (rc != rows[i].rc || payloads != rows[i].payloads)
            fail_msg("'%s': %s, %d payloads: %s", rows[i].sql, od_code_name(rc), payloads, err.message);
        od_remote_unref(remote);
    }
    house_stop(&h);
}

static void test_an_id_is_free_when_its_end_is_known(void **state)
{
    od_remote *remote;
    int payloads;
    od_error err;
    house h;

    (void)state;
    house_start(&h, 0);
    remote = connect_to(&h, "one");
    for (int i = 0; i < 300; i++) {
        assert_int_equal(finish(start(remote, "SELECT 42", "again"), &payloads, &err), OD_OK);
        assert_int_equal(finish(start(remote, "SELEC", "again"), &payloads, &err), OD_E_PARSER);
    }
    od_remote_unref(remote);
    house_stop(&h);
}

static void test_cancel_stops_the_work(void **state)
{
    od_remote *remote;
    od_result *result;
    int payloads;
    od_error err;
    bool flag;
    house h;

    (void)state;
    house_start(&h, 1);
    remote = connect_to(&h, "one");
    /* By id. */
    result = start(remote, ENDLESS, "endless");
    ASSERT_EVENTUALLY(od_worker_in_flight(h.worker) == 1);
    assert_int_equal(od_remote_cancel(remote, "endless", &flag, NULL), OD_OK);
    assert_true(flag);
    assert_int_equal(finish(result, &payloads, &err), OD_E_CANCELLED);
    ASSERT_EVENTUALLY(od_gateway_in_flight(h.gateway) == 0);
    /* By going away. */
    result = start(remote, ENDLESS, "endless");
    ASSERT_EVENTUALLY(od_worker_in_flight(h.worker) == 1);
    od_result_free(result);
    ASSERT_EVENTUALLY(od_gateway_in_flight(h.gateway) == 0);
    assert_int_equal(od_worker_in_flight(h.worker), 0);
    /* All of them. */
    result = start(remote, ENDLESS, "endless");
    ASSERT_EVENTUALLY(od_worker_in_flight(h.worker) == 1);
    od_gateway_cancel_all(h.gateway, OD_E_CANCELLED, "the server is shutting down");
    assert_int_equal(finish(result, &payloads, &err), OD_E_CANCELLED);
    od_remote_unref(remote);
    house_stop(&h);
}

typedef struct {
    const house *house;
    unsigned seed;
    atomic_int *left;
} storm;

static void *storm_main(void *arg)
{
    static const char *const plans[] = {"SELECT 1", ENDLESS,        "FROM range(300000)",
                                        "SELEC",    "FROM nothing", "FROM range(3000)"};
    storm *s = arg;
    od_remote *remote = connect_to(s->house, "one");

    while (atomic_fetch_sub(s->left, 1) > 0) {
        unsigned dice = s->seed = s->seed * 1103515245U + 12345U;
        od_result *result = start(remote, plans[(dice >> 16) % 6], NULL);
        od_slice payload;
        od_msg *owner = NULL;
        bool flag;

        nanosleep(&(struct timespec){.tv_nsec = (dice >> 12) % 3000000}, NULL);
        if ((dice >> 20) % 3 == 0)
            (void)!od_remote_cancel(remote, od_result_execution_id(result), &flag, NULL);
        if (od_result_ready(result) && od_result_next(result, &owner, &payload, NULL) == OD_OK)
            od_msg_unref(owner);
        od_result_free(result);
    }
    od_remote_unref(remote);
    return NULL;
}

static void test_random_cancels_leave_no_slot(void **state)
{
    atomic_int left = 400;
    pthread_t threads[4];
    storm storms[4];
    house h;

    (void)state;
    house_start(&h, 2);
    for (unsigned i = 0; i < 4; i++) {
        storms[i] = (storm){&h, i * 77 + 5, &left};
        assert_int_equal(pthread_create(&threads[i], NULL, storm_main, &storms[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    house_stop(&h);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results_and_errors),
        cmocka_unit_test(test_an_id_is_free_when_its_end_is_known),
        cmocka_unit_test(test_cancel_stops_the_work),
        cmocka_unit_test(test_random_cancels_leave_no_slot),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
