/* The worker over its own service, on a loopback port, asked by our client and by single calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "arrow/ipc_read.h"
#include "query/client.h"
#include "query/worker.h"

static od_error err;

#define assert_ok(expr)                             \
    do {                                            \
        err.message[0] = '\0';                      \
        od_code code_ = (expr);                     \
        if (code_ != OD_OK)                         \
            fail_msg("%s: %s", #expr, err.message); \
    } while (0)

typedef struct {
    od_engine *engine;
    od_worker *worker;
    od_rpc_server *server;
    od_remote *remote;
    od_channel *channel;
    od_secret token;
} stand;

typedef struct {
    const char *token;
    unsigned concurrency;
    int64_t timeout_ms;
    unsigned threads; /* of DuckDB; 0: 2 */
} setup;

static stand *open_stand(const setup *how)
{
    stand *s = calloc(1, sizeof *s);
    size_t count;
    od_remote_options remote = {.execute_timeout_ms = 20000};
    if (how->token != NULL)
        assert_ok(od_secret_set(&s->token, od_slice_str(how->token), &err));
    assert_ok(od_engine_open(&(od_engine_options){.threads = how->threads > 0 ? how->threads : 2}, &s->engine, &err));
    od_worker_options options = {.engine = s->engine,
                                 .token = &s->token,
                                 .max_concurrency = how->concurrency,
                                 .execute_timeout_ms = how->timeout_ms,
                                 .version = "0.1.0"};
    assert_ok(od_worker_create(&options, &s->worker, &err));
    od_rpc_server_options server = {.listen = "127.0.0.1:0", .threads = 1, .service = s->worker};
    server.methods = od_worker_methods(&count);
    server.method_count = count;
    assert_ok(od_rpc_server_start(&server, &s->server, &err));
    char endpoint[32];
    (void)snprintf(endpoint, sizeof endpoint, "127.0.0.1:%u", od_rpc_server_port(s->server));
    assert_ok(od_endpoint_parse(od_slice_str(endpoint), &remote.endpoint, &err));
    od_channel_options channel = {.endpoint = remote.endpoint};
    assert_ok(od_channel_create(&channel, &s->channel, &err));
    if (how->token != NULL)
        assert_ok(od_secret_set(&remote.token, od_slice_str(how->token), &err));
    assert_ok(od_remote_create(&remote, &s->remote, &err));
    od_remote_options_release(&remote);
    return s;
}

static void close_stand(stand *s)
{
    od_remote_unref(s->remote);
    od_channel_unref(s->channel);
    (void)od_rpc_server_drain(s->server, od_deadline_in_ms(5000));
    od_rpc_server_free(s->server);
    od_worker_free(s->worker);
    od_engine_close(s->engine);
    od_secret_release(&s->token);
    free(s);
}

static int64_t now_ms(void)
{
    return od_clock_ns() / 1000000;
}

static bool idle_within(const stand *s, int64_t ms)
{
    int64_t until = now_ms() + ms;
    while (od_worker_in_flight(s->worker) > 0 && now_ms() < until)
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return od_worker_in_flight(s->worker) == 0;
}

static od_code drain(od_result *result, size_t *payloads, size_t *bytes)
{
    for (;;) {
        od_msg *owner;
        od_slice payload;
        od_code rc = od_result_next(result, &owner, &payload, &err);
        if (rc != OD_OK || owner == NULL)
            return rc;
        *payloads += 1;
        *bytes += payload.len;
        od_msg_unref(owner);
    }
}

static od_code query(const stand *s, const od_remote_query *what, size_t *payloads, size_t *bytes)
{
    od_result *result;
    *payloads = *bytes = 0;
    od_code rc = od_remote_execute(s->remote, what, &result, &err);
    if (rc != OD_OK)
        return rc;
    rc = drain(result, payloads, bytes);
    od_result_free(result);
    return rc;
}

static od_code sql(const stand *s, const char *text)
{
    size_t payloads, bytes;
    return query(s, &(od_remote_query){.sql = od_slice_str(text), .format = OD_FORMAT_NATIVE}, &payloads, &bytes);
}

/* One call of PATH; the code that its status means. */
static od_code call(const stand *s, const char *path, od_msg *request, od_msg **answer)
{
    od_call *c;
    od_rpc_out out;
    assert_ok(od_call_open(s->channel, path, OD_DEADLINE_NEVER, 0, (od_interrupt){0}, &c, &err));
    od_rpc_out_whole(request, &out);
    od_code rc = od_call_send(c, &out, true, od_deadline_in_ms(5000), &err);
    if (rc == OD_OK)
        rc = od_call_recv(c, answer, od_deadline_in_ms(5000), &err);
    od_call_free(c);
    od_msg_unref(request);
    return rc;
}

static od_code call_execute(const stand *s, const od_execute_request *request)
{
    od_msg *msg, *answer = NULL;
    assert_ok(od_execute_request_encode(request, &msg, &err));
    od_code rc = call(s, OD_PATH_EXECUTE, msg, &answer);
    od_msg_unref(answer);
    return rc;
}

/* ---- tests ---- */

static void test_results_are_streamed(void **state)
{
    (void)state;
    stand *s = open_stand(&(setup){0});
    size_t payloads, bytes;
    od_remote_query what = {.sql = od_slice_str("SELECT i, i::VARCHAR AS t FROM range(500000) r(i)"),
                            .format = OD_FORMAT_NATIVE};
    assert_ok(query(s, &what, &payloads, &bytes));
    assert_true(payloads > 5);
    assert_true(bytes > 8000000);
    what.format = OD_FORMAT_PLAIN;
    assert_ok(query(s, &what, &payloads, &bytes));
    what.sql = od_slice_str("SELECT 1 WHERE false");
    assert_ok(query(s, &what, &payloads, &bytes));
    assert_int_equal(payloads, 1);
    close_stand(s);
}

static void test_errors_keep_their_kind(void **state)
{
    (void)state;
    /* Of a slow reader's rows that fail, DuckDB may tell only that its other threads were interrupted. */
    stand *s = open_stand(&(setup){.threads = 1});
    assert_int_equal(sql(s, "SELECT * FROM missing"), OD_E_CATALOG);
    assert_int_equal(err.kind, OD_KIND_CATALOG);
    assert_int_equal(strncmp(err.message, "Table with name missing does not exist!", 30), 0);
    assert_int_equal(sql(s, "SELEC 1"), OD_E_PARSER);
    assert_int_equal(sql(s, "SELECT 'x'::INT"), OD_E_CONVERSION);
    /* after rows have gone out */
    assert_int_equal(
        sql(s, "SELECT CASE WHEN i = 400000 THEN error('late') ELSE i::VARCHAR END FROM range(500000) t(i)"),
        OD_E_INVALID);
    assert_ok(sql(s, "SELECT 1"));
    close_stand(s);
}

static void test_what_is_not_supported_is_said(void **state)
{
    (void)state;
    stand *s = open_stand(&(setup){0});
    od_msg *msg, *answer;
    od_chunk chunk;
    od_execute_request request = {.plan = od_slice_str("SELECT 1"), .transaction_id = od_slice_str("t")};
    for (int i = 0; i < 2; i++) {
        assert_ok(od_execute_request_encode(&request, &msg, &err));
        assert_ok(call(s, OD_PATH_EXECUTE, msg, &answer));
        assert_ok(od_chunk_decode(od_slice_of(od_msg_data(answer), od_msg_len(answer)), &chunk, &err));
        assert_int_equal(chunk.kind, OD_CHUNK_ERROR);
        assert_int_equal(chunk.error.code, i == 0 ? OD_E_NO_TRANSACTION : OD_E_NOT_IMPLEMENTED);
        od_msg_unref(answer);
        request = (od_execute_request){.plan = od_slice_str("SELECT 1"), .snapshot_id = od_slice_str("s")};
    }
    request = (od_execute_request){.plan = od_slice_str("SELECT '\xff'")};
    assert_int_equal(call_execute(s, &request), od_code_from_grpc_status(OD_GRPC_INVALID_ARGUMENT));
    assert_non_null(strstr(err.message, "plan must be UTF-8 SQL for this worker build"));
    close_stand(s);
}

static void test_tokens(void **state)
{
    (void)state;
    stand *s = open_stand(&(setup){.token = "secret"});
    od_execute_request request = {.plan = od_slice_str("SELECT 1")};
    assert_int_equal(call_execute(s, &request), OD_E_UNAUTHENTICATED);
    assert_non_null(strstr(err.message, "access_token required when OPENDUCK_TOKEN is set"));
    request.access_token = od_slice_str("wrong");
    assert_int_equal(call_execute(s, &request), OD_E_UNAUTHENTICATED);
    assert_non_null(strstr(err.message, "invalid access_token"));
    request.access_token = od_slice_str("secret");
    assert_ok(call_execute(s, &request));
    assert_ok(sql(s, "SELECT 1"));
    od_msg *msg, *answer = NULL;
    assert_ok(od_cancel_request_encode(&(od_cancel_request){.execution_id = od_slice_str("x")}, &msg, &err));
    assert_int_equal(call(s, OD_PATH_CANCEL, msg, &answer), OD_E_UNAUTHENTICATED);
    close_stand(s);
}

typedef struct {
    const stand *stand;
    const char *text, *id;
    od_code code;
    od_error error;
    int64_t took_ms;
} background;

static void *run_background(void *arg)
{
    background *b = arg;
    od_result *result;
    int64_t start = now_ms();
    od_remote_query what = {.sql = od_slice_str(b->text), .format = OD_FORMAT_NATIVE, .execution_id = b->id};
    b->code = od_remote_execute(b->stand->remote, &what, &result, &b->error);
    while (b->code == OD_OK) {
        od_msg *owner;
        od_slice payload;
        b->code = od_result_next(result, &owner, &payload, &b->error);
        if (b->code != OD_OK || owner == NULL)
            break;
        od_msg_unref(owner);
    }
    b->took_ms = now_ms() - start;
    od_result_free(result);
    return NULL;
}

#define ENDLESS "SELECT count(*) FROM range(10000000000) a(i), range(1000) b(j) WHERE (i * j) % 7 = 3"

static void wait_busy(const stand *s, unsigned n)
{
    int64_t until = now_ms() + 5000;
    while (od_worker_in_flight(s->worker) < n && now_ms() < until)
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_int_equal(od_worker_in_flight(s->worker), n);
    (void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
}

static void test_cancel_by_id(void **state)
{
    (void)state;
    stand *s = open_stand(&(setup){0});
    background b = {.stand = s, .text = ENDLESS, .id = "run-1"};
    pthread_t thread;
    bool known;
    assert_int_equal(pthread_create(&thread, NULL, run_background, &b), 0);
    wait_busy(s, 1);
    /* the same id again is refused, and does not disturb the first */
    od_execute_request twice = {.plan = od_slice_str("SELECT 1"), .execution_id = od_slice_str("run-1")};
    assert_int_equal(call_execute(s, &twice), OD_E_EXISTS);
    int64_t start = now_ms();
    assert_ok(od_remote_cancel(s->remote, "run-1", &known, &err));
    assert_true(known);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(now_ms() - start < 500);
    assert_int_equal(b.code, OD_E_CANCELLED);
    assert_non_null(strstr(b.error.message, "execution cancelled: run-1"));
    assert_ok(od_remote_cancel(s->remote, "run-1", &known, &err));
    assert_false(known);
    assert_ok(call_execute(s, &twice));
    close_stand(s);
}

static void test_client_gone_stops_the_work(void **state)
{
    (void)state;
    stand *s = open_stand(&(setup){0});
    od_result *result;
    od_remote_query what = {.sql = od_slice_str(ENDLESS), .format = OD_FORMAT_NATIVE};
    assert_ok(od_remote_execute(s->remote, &what, &result, &err));
    wait_busy(s, 1);
    od_result_free(result);
    assert_true(idle_within(s, 500));
    /* also while the result is being sent and nobody reads it */
    what.sql = od_slice_str("SELECT i, repeat('x', 1000) FROM range(100000000) t(i)");
    assert_ok(od_remote_execute(s->remote, &what, &result, &err));
    wait_busy(s, 1);
    od_result_free(result);
    assert_true(idle_within(s, 1000));
    close_stand(s);
}

static void test_no_progress_times_out(void **state)
{
    (void)state;
    stand *s = open_stand(&(setup){.timeout_ms = 300});
    background b = {.stand = s, .text = ENDLESS};
    (void)run_background(&b);
    assert_int_equal(b.code, OD_E_TIMEOUT);
    assert_true(b.took_ms >= 290 && b.took_ms < 2000);
    assert_int_equal(b.error.kind, OD_KIND_IO);
    close_stand(s);
}

static void test_slow_reader_is_not_timed_out(void **state)
{
    (void)state;
    stand *s = open_stand(&(setup){.timeout_ms = 3000});
    od_result *result;
    size_t payloads = 0, bytes = 0;
    od_remote_query what = {.sql = od_slice_str("SELECT i, repeat('x', 1000) FROM range(60000) t(i)"),
                            .format = OD_FORMAT_NATIVE};
    assert_ok(od_remote_execute(s->remote, &what, &result, &err));
    (void)nanosleep(&(struct timespec){.tv_sec = 4}, NULL);
    assert_ok(drain(result, &payloads, &bytes));
    assert_true(bytes > 60000000);
    od_result_free(result);
    close_stand(s);
}

static void test_slots_are_waited_for(void **state)
{
    (void)state;
    stand *s = open_stand(&(setup){.concurrency = 1});
    background b = {.stand = s, .text = ENDLESS, .id = "first"},
               second = {.stand = s, .text = "SELECT 1", .id = "second"};
    background third = {.stand = s, .text = "SELECT 1", .id = "third"};
    pthread_t threads[3];
    bool known;
    assert_int_equal(pthread_create(&threads[0], NULL, run_background, &b), 0);
    wait_busy(s, 1);
    assert_int_equal(pthread_create(&threads[1], NULL, run_background, &second), 0);
    assert_int_equal(pthread_create(&threads[2], NULL, run_background, &third), 0);
    wait_busy(s, 3);
    assert_ok(od_remote_cancel(s->remote, "third", &known, &err));
    assert_true(known);
    assert_ok(od_remote_cancel(s->remote, "first", &known, &err));
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(second.code, OD_OK);
    assert_int_equal(third.code, OD_E_CANCELLED);
    close_stand(s);
}

static void test_catalog_version_is_told(void **state)
{
    (void)state;
    stand *s = open_stand(&(setup){0});
    od_result *result;
    size_t payloads = 0, bytes = 0;
    od_remote_query what = {.sql = od_slice_str("SELECT 1"), .format = OD_FORMAT_NATIVE};
    assert_ok(od_remote_execute(s->remote, &what, &result, &err));
    assert_ok(drain(result, &payloads, &bytes));
    uint64_t before = od_result_catalog_version(result);
    od_result_free(result);
    assert_int_equal(before, od_engine_catalog_version(s->engine, (od_slice){0}));
    assert_ok(sql(s, "CREATE TABLE t(i INT)"));
    uint64_t after = od_engine_catalog_version(s->engine, (od_slice){0});
    assert_true(after != before);
    what.expected_catalog_version = before;
    what.sql = od_slice_str("SELECT * FROM t");
    assert_int_equal(query(s, &what, &payloads, &bytes), OD_E_STALE_CATALOG);
    what.expected_catalog_version = after;
    assert_ok(query(s, &what, &payloads, &bytes));
    close_stand(s);
}

static void test_status(void **state)
{
    (void)state;
    stand *s = open_stand(&(setup){.concurrency = 7});
    od_status status = {0};
    assert_ok(sql(s, "SELECT 1"));
    assert_ok(od_remote_status(s->remote, 5000, (od_interrupt){0}, &status, &err));
    assert_string_equal(status.role, "worker");
    assert_string_equal(status.duckdb_version, od_engine_version());
    assert_int_equal(status.max_in_flight, 7);
    assert_int_equal(status.executions_total, 1);
    assert_int_equal(status.database_count, 1);
    assert_string_equal(status.databases[0], "memory");
    od_status_release(&status);
    close_stand(s);
}

static void *many(void *arg)
{
    const stand *s = arg;
    char text[200];
    size_t payloads, bytes;
    od_error why;
    for (int i = 0; i < 40; i++) {
        (void)snprintf(text, sizeof text,
                       i % 3 ? "SELECT %d AS i" : "SELECT i + %d, repeat('x', 50) FROM range(50000) t(i)", i);
        od_result *result;
        od_remote_query what = {.sql = od_slice_str(text), .format = i % 2 ? OD_FORMAT_NATIVE : OD_FORMAT_PLAIN};
        if (od_remote_execute(s->remote, &what, &result, &why) != OD_OK)
            return "execute";
        payloads = bytes = 0;
        for (;;) {
            od_msg *owner;
            od_slice payload;
            if (od_result_next(result, &owner, &payload, &why) != OD_OK)
                return "next";
            if (owner == NULL)
                break;
            payloads++;
            bytes += payload.len;
            od_msg_unref(owner);
        }
        od_result_free(result);
        if (payloads == 0 || (i % 3 == 0 && bytes < 2900000))
            return "payloads";
    }
    return NULL;
}

static void test_eight_clients_at_once(void **state)
{
    (void)state;
    stand *s = open_stand(&(setup){.concurrency = 4});
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, many, s), 0);
    for (int i = 0; i < 8; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        if (failed != NULL)
            fail_msg("%s", (const char *)failed);
    }
    assert_true(idle_within(s, 1000));
    close_stand(s);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results_are_streamed),
        cmocka_unit_test(test_errors_keep_their_kind),
        cmocka_unit_test(test_what_is_not_supported_is_said),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_cancel_by_id),
        cmocka_unit_test(test_client_gone_stops_the_work),
        cmocka_unit_test(test_no_progress_times_out),
        cmocka_unit_test(test_slow_reader_is_not_timed_out),
        cmocka_unit_test(test_slots_are_waited_for),
        cmocka_unit_test(test_catalog_version_is_told),
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_eight_clients_at_once),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
