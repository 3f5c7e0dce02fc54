/* A gateway between clients and scripted workers, all in this process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "query/client.h"
#include "query/gateway.h"
#include "unit/query/client/script_server.h"

typedef struct {
    od_gateway *gateway;
    od_rpc_server *rpc;
    char address[32];
} gate;

static script_server one, two;

static od_endpoint endpoint(const char *text)
{
    od_endpoint e;

    assert_int_equal(od_endpoint_parse(od_slice_str(text), &e, NULL), OD_OK);
    return e;
}

static void gate_start(gate *g, od_gateway_options options)
{
    od_rpc_server_options rpc = {.listen = "127.0.0.1:0", .connect_timeout_ms = 1000, .send_queue = 1 << 20};
    const od_endpoint workers[2] = {endpoint(one.address), endpoint(two.address)};

    if (!options.workers) {
        options.workers = workers;
        options.worker_count = 1;
    }
    if (options.probe_ms == 0)
        options.probe_ms = -1;
    assert_int_equal(od_gateway_create(&options, &g->gateway, NULL), OD_OK);
    rpc.methods = od_gateway_methods(&rpc.method_count);
    rpc.service = g->gateway;
    assert_int_equal(od_rpc_server_start(&rpc, &g->rpc, NULL), OD_OK);
    snprintf(g->address, sizeof g->address, "127.0.0.1:%u", (unsigned)od_rpc_server_port(g->rpc));
}

/* Every test ends with this: nothing may be left. */
static void gate_stop(gate *g)
{
    ASSERT_EVENTUALLY(od_gateway_executions(g->gateway) == 0);
    assert_int_equal(od_gateway_in_flight(g->gateway), 0);
    assert_int_equal(od_gateway_queued(g->gateway), 0);
    assert_true(od_rpc_server_drain(g->rpc, od_deadline_in_ms(5000)));
    od_rpc_server_free(g->rpc);
    od_gateway_free(g->gateway);
}

static od_remote *connect_to(const char *address, const char *token, const char *database)
{
    char name[64];
    od_remote_options options = {.endpoint = endpoint(address), .execute_timeout_ms = 20000};
    od_remote *remote = NULL;

    snprintf(name, sizeof name, "%s", database);
    options.database = name;
    assert_int_equal(od_secret_set(&options.token, od_slice_str(token), NULL), OD_OK);
    assert_int_equal(od_remote_create(&options, &remote, NULL), OD_OK);
    od_secret_release(&options.token);
    return remote;
}

static od_result *start(od_remote *remote, const char *plan, const char *id, const char *statement)
{
    const od_remote_query query = {.sql = od_slice_str(plan), .execution_id = id, .statement_id = statement};
    od_result *result = NULL;

    assert_int_equal(od_remote_execute(remote, &query, &result, NULL), OD_OK);
    return result;
}

/* Reads RESULT to its end and frees it. */
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

static od_code run(od_remote *remote, const char *plan, int *payloads, od_error *err)
{
    return finish(start(remote, plan, NULL, NULL), payloads, err);
}

static void test_relays_results_and_errors(void **state)
{
    static const struct {
        const char *plan;
        int payloads;
        od_code rc;
        const char *text;
    } rows[] = {
        {"b10 f o", 1, OD_OK, NULL},
        {"b10 b3000000 b0 b1 f o", 4, OD_OK, NULL},
        {"f o", 0, OD_OK, NULL},
        {"b10 o", 1, OD_E_CONNECTION_LOST, "without 'finished'"},
        {"b10 ePARSER f o", 1, OD_E_PARSER, "scripted PARSER"},
        {"eCONSTRAINT f o", 0, OD_E_CONSTRAINT, "scripted CONSTRAINT"},
        {"s3", 0, OD_E_INVALID, "scripted status"},
        {"s8", 0, OD_E_BUSY, "scripted status"},
        {"s14", 0, OD_E_UNAVAILABLE, "': scripted status"},
        {"b10 s14", 1, OD_E_CONNECTION_LOST, "was lost"},
    };
    od_remote *remote;
    gate g;

    (void)state;
    gate_start(&g, (od_gateway_options){0});
    remote = connect_to(g.address, "", "");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        od_error err = {0};
        int payloads;
        od_code rc = run(remote, rows[i].plan, &payloads, &err);

        if (rc != rows[i].rc || payloads != rows[i].payloads || (rc != OD_OK && !strstr(err.message, rows[i].text)))
            fail_msg("'%s': %s, %d payloads: %s", rows[i].plan, od_code_name(rc), payloads, err.message);
    }
    od_remote_unref(remote);
    gate_stop(&g);
}

static void test_every_code_comes_through(void **state)
{
    od_remote *remote;
    gate g;

    (void)state;
    gate_start(&g, (od_gateway_options){0});
    remote = connect_to(g.address, "", "");
    for (int code = 1; code < OD_CODE_COUNT; code++) {
        char plan[60];
        od_error err = {0};
        int payloads;

        snprintf(plan, sizeof plan, "e%s f o", od_code_name((od_code)code));
        assert_int_equal(run(remote, plan, &payloads, &err), code);
        assert_int_equal(err.kind, od_code_kind((od_code)code));
        assert_string_equal(err.sqlstate, od_code_sqlstate((od_code)code));
    }
    od_remote_unref(remote);
    gate_stop(&g);
}

static void test_token(void **state)
{
    static const struct {
        const char *given;
        od_code rc;
        const char *text;
    } rows[] = {{"right", OD_OK, NULL},
                {"", OD_E_UNAUTHENTICATED, "access_token required when OPENDUCK_TOKEN is set"},
                {"wrong", OD_E_UNAUTHENTICATED, "invalid access_token"}};
    od_secret token = {0};
    gate g;

    (void)state;
    assert_int_equal(od_secret_set(&token, od_slice_str("right"), NULL), OD_OK);
    gate_start(&g, (od_gateway_options){.token = &token});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        od_remote *remote = connect_to(g.address, rows[i].given, "");
        const od_registration w = {.worker_id = "w", .endpoint = one.address};
        od_status status;
        od_error err;
        int payloads;
        bool flag;

        assert_int_equal(run(remote, "f o", &payloads, &err), rows[i].rc);
        if (rows[i].text)
            assert_non_null(strstr(err.message, rows[i].text));
        assert_int_equal(od_remote_cancel(remote, "x", &flag, NULL), rows[i].rc);
        assert_int_equal(od_remote_status(remote, 1000, (od_interrupt){0}, &status, NULL), rows[i].rc);
        od_status_release(&status);
        assert_int_equal(od_remote_register(remote, &w, 1000, (od_interrupt){0}, &flag, NULL), rows[i].rc);
        assert_int_equal(flag, rows[i].rc == OD_OK);
        assert_int_equal(od_remote_heartbeat(remote, "w", 1000, (od_interrupt){0}, &flag, NULL), rows[i].rc);
        assert_int_equal(flag, rows[i].rc == OD_OK);
        od_remote_unref(remote);
    }
    od_secret_release(&token);
    gate_stop(&g);
}

static void test_a_dead_worker_is_passed_by(void **state)
{
    script_server dead;
    od_remote *remote;
    od_endpoint workers[2];
    int payloads;
    od_error err;
    gate g;

    (void)state;
    assert_true(script_start(&dead, NULL));
    script_stop(&dead);
    workers[0] = endpoint(dead.address);
    workers[1] = endpoint(one.address);
    gate_start(&g, (od_gateway_options){.workers = workers, .worker_count = 2});
    remote = connect_to(g.address, "", "");
    for (int i = 0; i < 10; i++)
        assert_int_equal(run(remote, "b1 f o", &payloads, &err), OD_OK);
    od_remote_unref(remote);
    gate_stop(&g);

    gate_start(&g, (od_gateway_options){.workers = workers, .worker_count = 1});
    remote = connect_to(g.address, "", "");
    assert_int_equal(run(remote, "b1 f o", &payloads, &err), OD_E_UNAVAILABLE);
    assert_non_null(strstr(err.message, dead.address));
    od_remote_unref(remote);
    gate_stop(&g);
}

static void test_no_worker_and_no_database(void **state)
{
    static const char *const sales[] = {"sales"};
    const od_registration w = {.worker_id = "w", .endpoint = one.address, .databases = sales, .database_count = 1};
    const od_endpoint nobody = endpoint("127.0.0.1:1");
    od_remote *remote, *stock;
    int payloads;
    od_error err;
    bool flag;
    gate g;

    (void)state;
    gate_start(&g, (od_gateway_options){.workers = &nobody, .worker_count = 0});
    remote = connect_to(g.address, "", "sales");
    stock = connect_to(g.address, "", "stock");
    assert_int_equal(run(remote, "b1 f o", &payloads, &err), OD_E_PRECONDITION);
    assert_non_null(strstr(err.message, "no workers available"));
    assert_int_equal(od_remote_register(remote, &w, 1000, (od_interrupt){0}, &flag, NULL), OD_OK);
    assert_int_equal(run(remote, "b1 f o", &payloads, &err), OD_OK);
    assert_int_equal(run(stock, "b1 f o", &payloads, &err), OD_E_NOT_FOUND);
    assert_non_null(strstr(err.message, "no worker serves database 'stock'"));
    od_remote_unref(remote);
    od_remote_unref(stock);
    gate_stop(&g);
}

static void test_a_worker_lost_in_mid_stream_is_an_error(void **state)
{
    script_server mortal;
    od_endpoint worker;
    od_result *result;
    od_remote *remote;
    od_slice payload;
    od_msg *owner;
    int payloads;
    od_error err;
    gate g;

    (void)state;
    assert_true(script_start(&mortal, NULL));
    worker = endpoint(mortal.address);
    gate_start(&g, (od_gateway_options){.workers = &worker, .worker_count = 1});
    remote = connect_to(g.address, "", "");
    result = start(remote, "b10", NULL, NULL);
    assert_int_equal(od_result_next(result, &owner, &payload, NULL), OD_OK);
    od_msg_unref(owner);
    script_stop(&mortal);
    assert_int_equal(finish(result, &payloads, &err), OD_E_CONNECTION_LOST);
    assert_int_equal(err.kind, OD_KIND_IO);
    assert_non_null(strstr(err.message, "worker '"));
    assert_non_null(strstr(err.message, "was lost"));
    od_remote_unref(remote);
    gate_stop(&g);
}

static void test_slots_and_queue(void **state)
{
    od_remote *remote;
    od_result *first, *second;
    int payloads;
    od_error err;
    gate g;

    (void)state;
    gate_start(&g, (od_gateway_options){.max_in_flight = 1, .max_queued = 1, .queue_timeout_ms = 1500});
    remote = connect_to(g.address, "", "");
    first = start(remote, "b1", "a", NULL);
    ASSERT_EVENTUALLY(od_gateway_in_flight(g.gateway) == 1);
    second = start(remote, "b1 f o", "b", NULL);
    ASSERT_EVENTUALLY(od_gateway_queued(g.gateway) == 1);
    assert_int_equal(run(remote, "f o", &payloads, &err), OD_E_BUSY);
    assert_non_null(strstr(err.message, "OPENDUCK_MAX_IN_FLIGHT"));
    /* The queue's time passes. */
    assert_int_equal(finish(second, &payloads, &err), OD_E_BUSY);
    assert_non_null(strstr(err.message, "timed out: no slot came free within 1500 ms"));
    /* The slot comes free. */
    second = start(remote, "b1 f o", "b", NULL);
    ASSERT_EVENTUALLY(od_gateway_queued(g.gateway) == 1);
    od_result_free(first);
    assert_int_equal(finish(second, &payloads, &err), OD_OK);
    od_remote_unref(remote);
    gate_stop(&g);
}

static void test_a_statement_shares_its_slot(void **state)
{
    od_remote *remote;
    od_result *results[5];
    int payloads;
    od_error err;
    gate g;

    (void)state;
    gate_start(&g, (od_gateway_options){.max_in_flight = 1, .max_queued = -1});
    remote = connect_to(g.address, "", "");
    results[0] = start(remote, "b1", NULL, "stmt");
    ASSERT_EVENTUALLY(od_gateway_in_flight(g.gateway) == 1);
    for (int i = 1; i < 5; i++)
        results[i] = start(remote, "b1 f o", NULL, "stmt");
    for (int i = 1; i < 5; i++)
        assert_int_equal(finish(results[i], &payloads, &err), OD_OK);
    assert_int_equal(run(remote, "f o", &payloads, &err), OD_E_BUSY);
    od_result_free(results[0]);
    ASSERT_EVENTUALLY(od_gateway_in_flight(g.gateway) == 0);
    assert_int_equal(run(remote, "f o", &payloads, &err), OD_OK);
    od_remote_unref(remote);
    gate_stop(&g);
}

/* A worker that runs as many as it can is given no more, but for further scans of a statement that it runs: these may be what
 * that one waits for. */
static void test_a_full_worker_is_given_no_more(void **state)
{
    const od_registration w = {.worker_id = "w", .endpoint = one.address, .max_concurrency = 1};
    const od_endpoint nobody = endpoint("127.0.0.1:1");
    od_result *first, *second, *third;
    od_remote *remote;
    int payloads;
    od_error err;
    bool flag;
    gate g;

    (void)state;
    gate_start(&g, (od_gateway_options){.workers = &nobody, .worker_count = 0, .queue_timeout_ms = 1500});
    remote = connect_to(g.address, "", "");
    assert_int_equal(od_remote_register(remote, &w, 1000, (od_interrupt){0}, &flag, NULL), OD_OK);
    first = start(remote, "b1", NULL, "stmt");
    ASSERT_EVENTUALLY(od_result_ready(first));
    assert_int_equal(finish(start(remote, "b1 f o", NULL, "stmt"), &payloads, &err), OD_OK);
    /* One whose time passes, one that is cancelled, one that goes, one that gets the room. */
    assert_int_equal(run(remote, "f o", &payloads, &err), OD_E_BUSY);
    assert_non_null(strstr(err.message, "full"));
    /* An end is told a moment before its slot is free. */
    ASSERT_EVENTUALLY(od_gateway_in_flight(g.gateway) == 1);
    second = start(remote, "b1 f o", "second", NULL);
    ASSERT_EVENTUALLY(od_gateway_in_flight(g.gateway) == 2);
    assert_int_equal(od_remote_cancel(remote, "second", &flag, NULL), OD_OK);
    assert_true(flag);
    assert_int_equal(finish(second, &payloads, &err), OD_E_CANCELLED);
    ASSERT_EVENTUALLY(od_gateway_in_flight(g.gateway) == 1);
    second = start(remote, "b1 f o", NULL, NULL);
    third = start(remote, "b1 f o", NULL, NULL);
    ASSERT_EVENTUALLY(od_gateway_in_flight(g.gateway) == 3);
    od_result_free(second);
    ASSERT_EVENTUALLY(od_gateway_in_flight(g.gateway) == 2);
    od_result_free(first);
    assert_int_equal(finish(third, &payloads, &err), OD_OK);
    od_remote_unref(remote);
    gate_stop(&g);
}

static void test_who_cannot_be_reached_is_not_registered(void **state)
{
    const od_endpoint nobody = endpoint("127.0.0.1:1");
    script_server dead;
    od_registration w;
    od_remote *remote;
    od_error err;
    bool flag;
    gate g;

    (void)state;
    assert_true(script_start(&dead, NULL));
    script_stop(&dead);
    w = (od_registration){.worker_id = "w", .endpoint = dead.address};
    gate_start(&g, (od_gateway_options){.workers = &nobody, .worker_count = 0});
    remote = connect_to(g.address, "", "");
    assert_int_equal(od_remote_register(remote, &w, 3000, (od_interrupt){0}, &flag, &err), OD_E_UNAVAILABLE);
    assert_non_null(strstr(err.message, dead.address));
    w.endpoint = "0.0.0.0:1";
    assert_int_equal(od_remote_register(remote, &w, 3000, (od_interrupt){0}, &flag, &err), OD_E_INVALID);
    assert_int_equal(od_remote_heartbeat(remote, "w", 3000, (od_interrupt){0}, &flag, NULL), OD_OK);
    assert_false(flag);
    od_remote_unref(remote);
    gate_stop(&g);
}

static void test_an_id_that_runs_is_refused(void **state)
{
    od_remote *remote;
    od_result *result;
    int payloads;
    od_error err;
    gate g;

    (void)state;
    gate_start(&g, (od_gateway_options){0});
    remote = connect_to(g.address, "", "");
    result = start(remote, "b1", "same", NULL);
    ASSERT_EVENTUALLY(od_gateway_in_flight(g.gateway) == 1);
    assert_int_equal(finish(start(remote, "f o", "same", NULL), &payloads, &err), OD_E_EXISTS);
    assert_int_equal(od_gateway_executions(g.gateway), 1);
    od_result_free(result);
    ASSERT_EVENTUALLY(od_gateway_executions(g.gateway) == 0);
    assert_int_equal(finish(start(remote, "f o", "same", NULL), &payloads, &err), OD_OK);
    od_remote_unref(remote);
    gate_stop(&g);
}

static void test_an_id_is_free_when_its_end_is_known(void **state)
{
    od_remote *remote;
    int payloads;
    od_error err;
    gate g;

    (void)state;
    gate_start(&g, (od_gateway_options){0});
    remote = connect_to(g.address, "", "");
    for (int i = 0; i < 300; i++) {
        assert_int_equal(finish(start(remote, "f o", "again", NULL), &payloads, &err), OD_OK);
        assert_int_equal(finish(start(remote, "eCONSTRAINT f o", "again", NULL), &payloads, &err), OD_E_CONSTRAINT);
    }
    od_remote_unref(remote);
    gate_stop(&g);
}

static void test_a_client_that_goes_takes_the_work_with_it(void **state)
{
    int before = atomic_load(&one.reset);
    od_remote *remote;
    od_result *result;
    gate g;

    (void)state;
    gate_start(&g, (od_gateway_options){0});
    remote = connect_to(g.address, "", "");
    result = start(remote, "flood", NULL, NULL);
    ASSERT_EVENTUALLY(od_result_ready(result));
    od_result_free(result);
    ASSERT_EVENTUALLY(atomic_load(&one.reset) == before + 1);
    od_remote_unref(remote);
    gate_stop(&g);
}

/* The worker knows it or not, or the execution waits still. */
static void test_cancel_by_id(void **state)
{
    od_remote *remote;
    od_result *result, *waiting;
    int payloads, resets, cancels;
    od_error err;
    bool flag;
    gate g;

    (void)state;
    gate_start(&g, (od_gateway_options){.max_in_flight = 1});
    remote = connect_to(g.address, "", "");
    assert_int_equal(od_remote_cancel(remote, "nobody", &flag, NULL), OD_OK);
    assert_false(flag);
    assert_int_equal(od_remote_cancel(remote, "", &flag, NULL), OD_OK);
    assert_false(flag);

    for (int known = 0; known < 2; known++) {
        atomic_store(&one.acknowledge, known != 0);
        resets = atomic_load(&one.reset);
        cancels = atomic_load(&one.cancels);
        result = start(remote, "b1", "mine", NULL);
        ASSERT_EVENTUALLY(od_result_ready(result));
        waiting = start(remote, "b1 f o", "waits", NULL);
        ASSERT_EVENTUALLY(od_gateway_queued(g.gateway) == 1);
        assert_int_equal(od_remote_cancel(remote, "waits", &flag, NULL), OD_OK);
        assert_true(flag);
        assert_int_equal(finish(waiting, &payloads, &err), OD_E_CANCELLED);
        assert_int_equal(od_remote_cancel(remote, "mine", &flag, NULL), OD_OK);
        assert_true(flag);
        assert_int_equal(finish(result, &payloads, &err), OD_E_CANCELLED);
        assert_int_equal(atomic_load(&one.cancels), cancels + 1);
        ASSERT_EVENTUALLY(od_gateway_executions(g.gateway) == 0);
        ASSERT_EVENTUALLY(atomic_load(&one.reset) == resets + !known);
    }
    atomic_store(&one.acknowledge, false);
    od_remote_unref(remote);
    gate_stop(&g);
}

static void test_a_silent_worker_is_a_timeout_but_a_slow_client_is_not(void **state)
{
    int resets = atomic_load(&one.reset);
    od_remote *remote;
    od_result *slow;
    od_slice payload;
    od_msg *owner;
    int payloads;
    od_error err;
    gate g;

    (void)state;
    gate_start(&g, (od_gateway_options){.execute_timeout_ms = 1500});
    remote = connect_to(g.address, "", "");
    slow = start(remote, "flood", NULL, NULL);
    ASSERT_EVENTUALLY(od_result_ready(slow));
    assert_int_equal(run(remote, "b1", &payloads, &err), OD_E_TIMEOUT);
    assert_int_equal(payloads, 1);
    assert_non_null(strstr(err.message, "no answer from worker"));
    ASSERT_EVENTUALLY(atomic_load(&one.reset) == resets + 1);
    nanosleep(&(struct timespec){.tv_sec = 2}, NULL);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(od_result_next(slow, &owner, &payload, &err), OD_OK);
        assert_non_null(owner);
        od_msg_unref(owner);
    }
    od_result_free(slow);
    od_remote_unref(remote);
    gate_stop(&g);
}

static void test_slow_clients_bound_what_the_worker_makes(void **state)
{
    enum { CLIENTS = 16 };
    unsigned long long before = atomic_load(&one.produced);
    od_result *results[CLIENTS];
    od_remote *remote;
    gate g;

    (void)state;
    gate_start(&g, (od_gateway_options){0});
    remote = connect_to(g.address, "", "");
    for (int i = 0; i < CLIENTS; i++)
        results[i] = start(remote, "flood", NULL, NULL);
    for (int i = 0; i < CLIENTS; i++)
        ASSERT_EVENTUALLY(od_result_ready(results[i]));
    nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
    /* Sockets, windows and queues of all three hold some; without a bound it would be gigabytes. */
    assert_true(atomic_load(&one.produced) - before < CLIENTS * (24ULL << 20));
    for (int i = 0; i < CLIENTS; i++)
        od_result_free(results[i]);
    od_remote_unref(remote);
    gate_stop(&g);
}

static void test_draining_refuses_new_work_and_finishes_old(void **state)
{
    od_remote *remote;
    od_result *result;
    int payloads;
    od_error err;
    gate g;

    (void)state;
    gate_start(&g, (od_gateway_options){0});
    remote = connect_to(g.address, "", "");
    result = start(remote, "b1", NULL, NULL);
    ASSERT_EVENTUALLY(od_result_ready(result));
    od_gateway_drain(g.gateway);
    assert_int_equal(run(remote, "f o", &payloads, &err), OD_E_UNAVAILABLE);
    assert_false(od_rpc_server_drain(g.rpc, od_deadline_in_ms(50)));
    od_gateway_cancel_all(g.gateway, OD_E_CANCELLED, "the server is shutting down");
    assert_int_equal(finish(result, &payloads, &err), OD_E_CANCELLED);
    assert_non_null(strstr(err.message, "shutting down"));
    od_remote_unref(remote);
    gate_stop(&g);
}

static void test_a_server_freed_at_work_leaves_nothing(void **state)
{
    od_remote *remote;
    od_result *results[8];
    int payloads;
    od_error err;
    gate g;

    (void)state;
    gate_start(&g, (od_gateway_options){.max_in_flight = 4});
    remote = connect_to(g.address, "", "");
    for (int i = 0; i < 8; i++)
        results[i] = start(remote, i % 2 ? "b1" : "flood", NULL, NULL);
    ASSERT_EVENTUALLY(od_gateway_executions(g.gateway) == 8);
    od_rpc_server_free(g.rpc);
    assert_int_equal(od_gateway_executions(g.gateway), 0);
    od_gateway_free(g.gateway);
    for (int i = 0; i < 8; i++)
        assert_int_not_equal(finish(results[i], &payloads, &err), OD_OK);
    od_remote_unref(remote);
}

static void test_status_lists_what_runs(void **state)
{
    od_remote *remote;
    od_result *result;
    od_status status;
    int payloads;
    od_error err;
    gate g;

    (void)state;
    gate_start(&g, (od_gateway_options){.version = "0.1", .max_in_flight = 5, .max_queued = 6});
    remote = connect_to(g.address, "", "sales");
    assert_int_equal(run(remote, "b1 f o", &payloads, &err), OD_OK);
    assert_int_equal(run(remote, "eIO f o", &payloads, &err), OD_E_IO);
    result = start(remote, "b1000", "mine", NULL);
    ASSERT_EVENTUALLY(od_result_ready(result) && od_gateway_executions(g.gateway) == 1);
    assert_int_equal(od_remote_status(remote, 1000, (od_interrupt){0}, &status, NULL), OD_OK);
    assert_string_equal(status.version, "0.1");
    assert_string_equal(status.role, "gateway");
    assert_int_equal(status.in_flight, 1);
    assert_int_equal(status.max_in_flight, 5);
    assert_int_equal(status.max_queued, 6);
    assert_int_equal(status.executions_total, 3);
    assert_int_equal(status.errors_total, 1);
    assert_int_equal(status.running_count, 1);
    assert_string_equal(status.running[0].execution_id, "mine");
    assert_string_equal(status.running[0].database, "sales");
    assert_true(status.running[0].bytes_sent >= 1000);
    assert_int_equal(status.worker_count, 1);
    assert_string_equal(status.workers[0].endpoint, one.address);
    assert_true(status.workers[0].healthy);
    assert_int_equal(status.workers[0].in_flight, 1);
    od_status_release(&status);
    od_result_free(result);
    ASSERT_EVENTUALLY(od_gateway_executions(g.gateway) == 0);
    assert_int_equal(od_remote_status(remote, 1000, (od_interrupt){0}, &status, NULL), OD_OK);
    assert_int_equal(status.cancelled_total, 1);
    assert_int_equal(status.workers[0].in_flight, 0);
    od_status_release(&status);
    od_remote_unref(remote);
    gate_stop(&g);
}

typedef struct {
    const char *address;
    unsigned seed;
    atomic_int *left;
} storm;

/* Executes, reads some, and goes away at any moment, or cancels by id. */
static void *storm_main(void *arg)
{
    static const char *const plans[] = {"b10 f o",        "flood", "b1",     "ePARSER f o",
                                        "b100000 b5 f o", "s3",    "b1 s14", "b1 b1"};
    storm *s = arg;
    od_remote *remote = connect_to(s->address, "", "");

    while (atomic_fetch_sub(s->left, 1) > 0) {
        unsigned dice = s->seed = s->seed * 1103515245U + 12345U;
        od_result *result = start(remote, plans[(dice >> 16) % 8], NULL, (dice >> 8) % 4 ? NULL : "s");
        od_slice payload;
        od_msg *owner = NULL;
        bool flag;

        nanosleep(&(struct timespec){.tv_nsec = (dice >> 12) % 3000000}, NULL);
        if ((dice >> 20) % 3 == 0)
            (void)!od_remote_cancel(remote, od_result_execution_id(result), &flag, NULL);
        if ((dice >> 22) % 2 == 0 && od_result_ready(result) && od_result_next(result, &owner, &payload, NULL) == OD_OK)
            od_msg_unref(owner);
        od_result_free(result);
    }
    od_remote_unref(remote);
    return NULL;
}

/* LIMIT: of each of two workers; 0: none. */
static void random_ends(unsigned limit)
{
    atomic_int left = 3000;
    pthread_t threads[6];
    storm storms[6];
    od_endpoint workers[2];
    od_remote *remote;
    gate g;

    workers[0] = endpoint(one.address);
    workers[1] = endpoint(two.address);
    gate_start(&g, (od_gateway_options){.workers = workers,
                                        .worker_count = 2,
                                        .max_in_flight = limit ? 8 : 3,
                                        .max_queued = 2,
                                        .queue_timeout_ms = 20});
    remote = connect_to(g.address, "", "");
    for (int i = 0; limit && i < 2; i++) {
        const od_registration w = {.endpoint = i ? two.address : one.address, .max_concurrency = limit};
        bool flag;

        assert_int_equal(od_remote_register(remote, &w, 3000, (od_interrupt){0}, &flag, NULL), OD_OK);
    }
    od_remote_unref(remote);
    for (unsigned i = 0; i < 6; i++) {
        storms[i] = (storm){g.address, i * 77 + 5, &left};
        assert_int_equal(pthread_create(&threads[i], NULL, storm_main, &storms[i]), 0);
    }
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
    gate_stop(&g);
}

static void test_random_ends_leave_no_slot(void **state)
{
    (void)state;
    random_ends(0);
}

static void test_random_ends_leave_no_room_taken(void **state)
{
    (void)state;
    random_ends(1);
}

static void test_listening_in_the_open_needs_a_token(void **state)
{
    static const struct {
        const char *listen;
        bool open; /* allowed without a token */
        bool valid;
    } rows[] = {{"127.0.0.1:7878", true, true}, {"127.9.9.9:0", true, true},    {"localhost:1", true, true},
                {"[::1]:7878", true, true},     {"0.0.0.0:7878", false, true},  {"[::]:7878", false, true},
                {"10.0.0.1:7878", false, true}, {"example.org:1", false, true}, {"7878", false, false},
                {":7878", false, false},        {"127.0.0.1:", false, false},   {"127.0.0.1", false, false}};
    od_secret token = {0};
    od_error err;

    (void)state;
    assert_int_equal(od_secret_set(&token, od_slice_str("t"), NULL), OD_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if ((od_listen_check(rows[i].listen, NULL, &err) == OD_OK) != rows[i].open)
            fail_msg("'%s' without a token: %s", rows[i].listen, err.message);
        if ((od_listen_check(rows[i].listen, &token, &err) == OD_OK) != rows[i].valid)
            fail_msg("'%s' with a token: %s", rows[i].listen, err.message);
    }
    od_secret_release(&token);
}

static int setup(void **state)
{
    (void)state;
    return script_start(&one, NULL) && script_start(&two, NULL) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    script_stop(&one);
    script_stop(&two);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_relays_results_and_errors),
        cmocka_unit_test(test_every_code_comes_through),
        cmocka_unit_test(test_token),
        cmocka_unit_test(test_a_dead_worker_is_passed_by),
        cmocka_unit_test(test_no_worker_and_no_database),
        cmocka_unit_test(test_a_worker_lost_in_mid_stream_is_an_error),
        cmocka_unit_test(test_slots_and_queue),
        cmocka_unit_test(test_a_statement_shares_its_slot),
        cmocka_unit_test(test_a_full_worker_is_given_no_more),
        cmocka_unit_test(test_who_cannot_be_reached_is_not_registered),
        cmocka_unit_test(test_an_id_that_runs_is_refused),
        cmocka_unit_test(test_an_id_is_free_when_its_end_is_known),
        cmocka_unit_test(test_a_client_that_goes_takes_the_work_with_it),
        cmocka_unit_test(test_cancel_by_id),
        cmocka_unit_test(test_a_silent_worker_is_a_timeout_but_a_slow_client_is_not),
        cmocka_unit_test(test_slow_clients_bound_what_the_worker_makes),
        cmocka_unit_test(test_draining_refuses_new_work_and_finishes_old),
        cmocka_unit_test(test_a_server_freed_at_work_leaves_nothing),
        cmocka_unit_test(test_status_lists_what_runs),
        cmocka_unit_test(test_random_ends_leave_no_slot),
        cmocka_unit_test(test_random_ends_leave_no_room_taken),
        cmocka_unit_test(test_listening_in_the_open_needs_a_token),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, setup, teardown);
}
