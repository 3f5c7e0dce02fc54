/* Several readers of one result: each row comes once, places tell their order, and what fails for one fails. */
#include <pthread.h>

#include "engine_helper.h"

enum { FOLLOWERS = 3, MAX_PAYLOADS = 4096 };

/* What its readers got: by its place, the first value of a payload and how many rows it has. */
typedef struct {
    pthread_mutex_t lock;
    int64_t first[MAX_PAYLOADS];
    int64_t rows[MAX_PAYLOADS];
    uint64_t payloads;
} parts;

typedef struct {
    parts *all;
    od_follower *follower;
    uint64_t payloads;
} reader;

/* Payloads of one BIGINT column. */
static void keep(parts *all, uint64_t place, od_msg *msg)
{
    od_ipc_reader *ipc;
    const od_batch *batch;
    od_error why;
    assert_int_equal(od_ipc_reader_create(&ipc, &why), OD_OK);
    assert_int_equal(od_ipc_reader_start(ipc, od_slice_of(od_msg_data(msg), od_msg_len(msg)), NULL, &why), OD_OK);
    assert_int_equal(od_ipc_reader_next(ipc, &batch, &why), OD_OK);
    assert_in_range(place, 1, MAX_PAYLOADS);
    (void)pthread_mutex_lock(&all->lock);
    assert_int_equal(all->rows[place - 1], 0);
    all->rows[place - 1] = batch->rows;
    memcpy(&all->first[place - 1], batch->columns[0].data, sizeof(int64_t));
    all->payloads++;
    (void)pthread_mutex_unlock(&all->lock);
    od_ipc_reader_free(ipc);
    od_msg_unref(msg);
}

static void *follow(void *arg)
{
    reader *r = arg;
    uint64_t place, last = 0;
    od_msg *msg;
    while ((msg = od_follower_next(r->follower, &place)) != NULL) {
        assert_true(place > last);
        last = place;
        keep(r->all, place, msg);
        r->payloads++;
    }
    return NULL;
}

static od_execution *start(od_engine *engine, const char *sql)
{
    od_execution *execution;
    od_execution_request request = {.sql = od_slice_str(sql), .format = OD_FORMAT_NATIVE, .divides = true};
    assert_ok(od_execution_start(engine, &request, &execution, &err));
    return execution;
}

/* Reads EXECUTION to its end, while followers do. */
static od_code read_all(od_execution *execution, parts *all, uint64_t *followed)
{
    reader readers[FOLLOWERS];
    pthread_t threads[FOLLOWERS];
    od_msg *msg;
    od_code rc = od_execution_next(execution, &msg, &err);
    assert_int_equal(rc, OD_OK);
    assert_int_equal(od_execution_place(execution), 1);
    keep(all, 1, msg);
    for (size_t i = 0; i < FOLLOWERS; i++) {
        readers[i] = (reader){.all = all};
        assert_ok(od_follower_open(execution, &readers[i].follower, &err));
        assert_non_null(readers[i].follower);
        assert_int_equal(pthread_create(&threads[i], NULL, follow, &readers[i]), 0);
    }
    while ((rc = od_execution_next(execution, &msg, &err)) == OD_OK && msg != NULL)
        keep(all, od_execution_place(execution), msg);
    *followed = 0;
    for (size_t i = 0; i < FOLLOWERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        *followed += readers[i].payloads;
        od_follower_free(readers[i].follower);
    }
    return rc;
}

static parts *make_parts(void)
{
    parts *all = calloc(1, sizeof *all);
    assert_non_null(all);
    assert_int_equal(pthread_mutex_init(&all->lock, NULL), 0);
    return all;
}

static void free_parts(parts *all)
{
    (void)pthread_mutex_destroy(&all->lock);
    free(all);
}

static void test_each_row_comes_once_and_places_tell_their_order(void **state)
{
    (void)state;
    od_engine *engine = memory_engine();
    assert_ok(run(engine, "CREATE TABLE t AS SELECT range AS i, repeat('x', 100) AS s FROM range(1000000)"));
    uint64_t followed = 0;
    for (int round = 0; round < 5; round++) {
        parts *all = make_parts();
        uint64_t by_followers;
        od_execution *execution = start(engine, "SELECT i, s FROM t");
        assert_ok(read_all(execution, all, &by_followers));
        assert_int_equal(od_execution_payloads(execution), all->payloads);
        int64_t next = 0;
        for (uint64_t i = 0; i < all->payloads; i++) {
            assert_int_equal(all->first[i], next);
            next += all->rows[i];
        }
        assert_int_equal(next, 1000000);
        od_execution_end(execution);
        free_parts(all);
        followed += by_followers;
    }
    assert_true(followed > 0);
    od_engine_close(engine);
}

static void test_an_error_in_the_middle_is_the_executions(void **state)
{
    (void)state;
    od_engine *engine = memory_engine();
    parts *all = make_parts();
    uint64_t followed;
    od_execution *execution = start(
        engine, "SELECT CASE WHEN range < 3000000 THEN range ELSE error('no further')::BIGINT END FROM range(5000000)");
    assert_int_not_equal(read_all(execution, all, &followed), OD_OK);
    od_execution_end(execution);
    free_parts(all);
    od_engine_close(engine);
}

/* A row that only a follower sees is too large. */
static void test_what_a_follower_cannot_encode_fails_the_execution(void **state)
{
    (void)state;
    od_engine *engine = open_engine(&(od_engine_options){.threads = 2, .max_payload = 100000});
    od_execution *execution =
        start(engine, "SELECT CASE WHEN range = 3000 THEN repeat('x', 200000) ELSE 'y' END FROM range(1000000)");
    od_msg *msg;
    od_follower *follower;
    uint64_t place;
    assert_ok(od_execution_next(execution, &msg, &err));
    od_msg_unref(msg);
    assert_ok(od_follower_open(execution, &follower, &err));
    while ((msg = od_follower_next(follower, &place)) != NULL)
        od_msg_unref(msg);
    assert_int_equal(od_execution_next(execution, &msg, &err), OD_E_TOO_LARGE);
    assert_null(msg);
    assert_int_equal(od_execution_payloads(execution), 0);
    od_follower_free(follower);
    od_execution_end(execution);
    od_engine_close(engine);
}

static void test_a_follower_may_outlive_its_execution(void **state)
{
    (void)state;
    od_engine *engine = memory_engine();
    od_execution *execution = start(engine, "SELECT range FROM range(10000000)");
    od_follower *early, *late;
    od_msg *msg;
    uint64_t place;
    assert_ok(od_follower_open(execution, &early, &err));
    /* Its reader has not had the first payload. */
    assert_null(od_follower_next(early, &place));
    assert_ok(od_execution_next(execution, &msg, &err));
    od_msg_unref(msg);
    assert_ok(od_follower_open(execution, &late, &err));
    msg = od_follower_next(late, &place);
    assert_non_null(msg);
    assert_int_equal(place, 2);
    od_execution_end(execution);
    assert_null(od_follower_next(early, &place));
    assert_null(od_follower_next(late, &place));
    od_follower_free(early);
    od_follower_free(late);
    od_engine_close(engine);
    od_msg_unref(msg);
}

static void *read_on(void *arg)
{
    uint64_t place;
    od_msg *msg;
    while ((msg = od_follower_next(arg, &place)) != NULL)
        od_msg_unref(msg);
    return NULL;
}

/* A follower that waits for rows which take forever ends with the execution. */
static void test_the_end_of_an_execution_does_not_wait_for_rows(void **state)
{
    (void)state;
    od_engine *engine = memory_engine();
    od_execution *execution =
        start(engine, "SELECT range FROM range(1000000000000) WHERE range < 1000000 OR hash(range) = 0");
    od_follower *follower;
    pthread_t thread;
    od_msg *msg;
    assert_ok(od_execution_next(execution, &msg, &err));
    od_msg_unref(msg);
    assert_ok(od_follower_open(execution, &follower, &err));
    assert_int_equal(pthread_create(&thread, NULL, read_on, follower), 0);
    (void)nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    od_execution_end(execution);
    assert_int_equal(pthread_join(thread, NULL), 0);
    od_follower_free(follower);
    od_engine_close(engine);
}

static void assert_not_divided(od_engine *engine, const od_execution_request *request)
{
    od_execution *execution;
    od_follower *follower;
    od_msg *msg;
    assert_ok(od_execution_start(engine, request, &execution, &err));
    assert_ok(od_execution_next(execution, &msg, &err));
    od_msg_unref(msg);
    assert_int_equal(od_execution_place(execution), 0);
    assert_ok(od_follower_open(execution, &follower, &err));
    assert_null(follower);
    od_execution_end(execution);
}

static void test_what_is_not_divided(void **state)
{
    (void)state;
    od_engine *engine = memory_engine();
    od_txn *txn;
    assert_ok(run(engine, "CREATE TABLE w(i INTEGER)"));
    const char *rows = "SELECT range FROM range(100000)";
    assert_not_divided(engine, &(od_execution_request){.sql = od_slice_str(rows), .format = OD_FORMAT_NATIVE});
    assert_not_divided(engine,
                       &(od_execution_request){.sql = od_slice_str(rows), .format = OD_FORMAT_PLAIN, .divides = true});
    assert_not_divided(
        engine, &(od_execution_request){.sql = od_slice_str("INSERT INTO w SELECT range FROM range(9) RETURNING i"),
                                        .format = OD_FORMAT_NATIVE,
                                        .divides = true});
    assert_ok(od_txn_begin(engine, od_slice_str(""), NULL, &txn, &err));
    assert_not_divided(engine, &(od_execution_request){
                                   .sql = od_slice_str(rows), .format = OD_FORMAT_NATIVE, .divides = true, .txn = txn});
    od_txn_unref(txn);
    od_engine_close(engine);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_row_comes_once_and_places_tell_their_order),
        cmocka_unit_test(test_an_error_in_the_middle_is_the_executions),
        cmocka_unit_test(test_what_a_follower_cannot_encode_fails_the_execution),
        cmocka_unit_test(test_a_follower_may_outlive_its_execution),
        cmocka_unit_test(test_the_end_of_an_execution_does_not_wait_for_rows),
        cmocka_unit_test(test_what_is_not_divided),
    };
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
