/* The sessions of a client: used again, ended, asked by many threads. The worker is a loop of a shell that answers one question with
 * what a worker once answered. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "vgi/client/client_internal.h"

enum { THREADS = 8, CALLS = 20 };

typedef struct {
    char starts[64]; /* a file that grows by a byte with each worker that starts */
    char command[1024];
    od_vgi *vgi;
} fixture;

/* How long the one question is. */
static size_t question_len(void)
{
    const od_vgi_dialect newest = {.version = "2.2.0", .protocol = "vgi.v2"};
    od_row *row;
    od_msg *msg;

    assert_int_equal(od_row_create(&row, NULL), OD_OK);
    assert_int_equal(od_vgi_request_make(&newest, "catalog_catalogs", row, &msg, NULL), OD_OK);
    size_t len = od_msg_len(msg);
    od_msg_unref(msg);
    od_row_free(row);
    return len;
}

static void begin(fixture *f, od_vgi_options options)
{
    snprintf(f->starts, sizeof f->starts, "/tmp/vgi-pool-XXXXXX");
    close(mkstemp(f->starts));
    snprintf(f->command, sizeof f->command,
             "printf x >>%s; while dd bs=%zu count=1 iflag=fullblock of=/dev/null 2>/dev/null && "
             "tail -c +2 tests/fuzz/corpus/vgi_answers/2.2-companion-catalogs; do :; done",
             f->starts, question_len());
    options.location = f->command;
    assert_int_equal(od_vgi_open(&options, &f->vgi, NULL), OD_OK);
}

static int starts(const fixture *f)
{
    struct stat st;

    assert_int_equal(stat(f->starts, &st), 0);
    return (int)st.st_size;
}

static void finish(fixture *f)
{
    od_vgi_unref(f->vgi);
    unlink(f->starts);
}

static od_code ask(od_vgi *vgi)
{
    od_vgi_catalogs catalogs;
    od_code rc = od_vgi_list_catalogs(vgi, (od_vgi_interrupt){0}, &catalogs, NULL);

    if (rc == OD_OK && (catalogs.count != 1 || strcmp((const char *)catalogs.items[0].name.data, "companion") != 0))
        rc = OD_E_CORRUPT;
    od_vgi_answer_free(catalogs.answer);
    return rc;
}

static void test_a_session_in_order_is_used_again(void **state)
{
    fixture f;

    (void)state;
    begin(&f, (od_vgi_options){0});
    for (int i = 0; i < 4; i++)
        assert_int_equal(ask(f.vgi), OD_OK);
    assert_int_equal(starts(&f), 1);
    finish(&f);
}

static void test_without_a_pool_each_call_has_its_own(void **state)
{
    fixture f;

    (void)state;
    begin(&f, (od_vgi_options){.no_pool = true});
    assert_int_equal(ask(f.vgi), OD_OK); /* which also asks for the generation */
    assert_int_equal(ask(f.vgi), OD_OK);
    assert_int_equal(starts(&f), 3);
    finish(&f);
}

static void test_an_idle_worker_that_died_is_not_asked(void **state)
{
    fixture f;

    (void)state;
    begin(&f, (od_vgi_options){0});
    assert_int_equal(ask(f.vgi), OD_OK);
    pid_t pid = (pid_t)od_vgi_link_pid(f.vgi->idle->link);
    assert_int_equal(kill(-pid, SIGKILL), 0);
    while (od_vgi_link_usable(f.vgi->idle->link))
        usleep(1000);
    assert_int_equal(ask(f.vgi), OD_OK);
    assert_int_equal(starts(&f), 2);
    finish(&f);
}

static void test_what_has_been_idle_too_long_is_ended(void **state)
{
    fixture f;

    (void)state;
    begin(&f, (od_vgi_options){.pool_idle_ms = 1});
    assert_int_equal(ask(f.vgi), OD_OK);
    usleep(5000);
    assert_int_equal(ask(f.vgi), OD_OK);
    assert_true(starts(&f) >= 2);
    finish(&f);
}

static void *ask_often(void *arg)
{
    od_code rc = OD_OK;

    for (int i = 0; i < CALLS && rc == OD_OK; i++)
        rc = ask(arg);
    return rc == OD_OK ? arg : NULL;
}

static void test_many_threads_share_a_client(void **state)
{
    pthread_t threads[THREADS];
    fixture f;

    (void)state;
    begin(&f, (od_vgi_options){.pool_max = 4});
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_often, f.vgi), 0);
    for (int i = 0; i < THREADS; i++) {
        void *ok;

        pthread_join(threads[i], &ok);
        assert_non_null(ok);
    }
    assert_true(f.vgi->idle_count <= 4);
    finish(&f);
}

static void test_a_program_that_cannot_be_started_says_so(void **state)
{
    od_vgi_options options = {.location = "/no/such/worker --flag"};
    od_vgi_catalogs catalogs;
    od_error err = {0};
    od_vgi *vgi;

    (void)state;
    assert_int_equal(od_vgi_open(&options, &vgi, NULL), OD_OK);
    assert_int_equal(od_vgi_list_catalogs(vgi, (od_vgi_interrupt){0}, &catalogs, &err), OD_E_CONNECTION_LOST);
    assert_non_null(strstr(err.message, "exit code 127"));
    assert_non_null(strstr(err.message, "/no/such/worker"));
    od_vgi_unref(vgi);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_session_in_order_is_used_again),
        cmocka_unit_test(test_without_a_pool_each_call_has_its_own),
        cmocka_unit_test(test_an_idle_worker_that_died_is_not_asked),
        cmocka_unit_test(test_what_has_been_idle_too_long_is_ended),
        cmocka_unit_test(test_many_threads_share_a_client),
        cmocka_unit_test(test_a_program_that_cannot_be_started_says_so),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
