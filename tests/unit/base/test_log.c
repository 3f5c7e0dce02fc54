#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit/base/check.h"

typedef struct {
    char line[8192];
    char comp[32];
    od_log_level level;
    int count;
} seen_lines;

static void keep(void *arg, od_log_level level, const char *comp, const char *line)
{
    seen_lines *seen = arg;

    snprintf(seen->line, sizeof seen->line, "%s", line);
    snprintf(seen->comp, sizeof seen->comp, "%s", comp);
    seen->level = level;
    seen->count++;
}

static int reset(void **state)
{
    (void)state;
    od_log_set_sink(NULL, NULL);
    return od_log_configure("info", NULL) == OD_OK ? 0 : -1;
}

static void test_levels_are_set_for_each_component(void **state)
{
    static const struct {
        const char *spec;
        const char *comp;
        od_log_level most; /* the highest level that is on */
    } cases[] = {
        {"info", "rpc", OD_LOG_INFO},
        {"error", "rpc", OD_LOG_ERROR},
        {"debug", "rpc", OD_LOG_DEBUG},
        {"info,rpc=debug", "rpc", OD_LOG_DEBUG},
        {"info,rpc=debug", "gateway", OD_LOG_INFO},
        {"info,rpc=debug", "rp", OD_LOG_INFO},
        {"info,rpc=debug", "rpcx", OD_LOG_INFO},
        {"rpc=error", "rpc", OD_LOG_ERROR},
        {"rpc=error", "gateway", OD_LOG_INFO},
        {"rpc=error,debug", "gateway", OD_LOG_DEBUG},
        {" warn , rpc = info ", "rpc", OD_LOG_INFO},
        {" warn , rpc = info ", "gateway", OD_LOG_WARN},
        {"rpc=error,rpc=debug", "rpc", OD_LOG_DEBUG},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(od_log_configure(cases[i].spec, NULL), OD_OK);
        for (int level = OD_LOG_ERROR; level <= OD_LOG_DEBUG; level++)
            assert_int_equal(od_log_enabled((od_log_level)level, cases[i].comp), level <= (int)cases[i].most);
    }
}

static void test_bad_specification_is_named_and_changes_nothing(void **state)
{
    static const char *const cases[][2] = {
        {"loud", "'loud'"},           {"", "''"},           {"info,", "''"},
        {"info,rpc=", "''"},          {"=info", "''"},      {"info,r/c=debug", "'r/c'"},
        {"debug,rpc=INFO", "'INFO'"}, {"info,,warn", "''"},
    };
    char many[4000] = "info";

    (void)state;
    assert_int_equal(od_log_configure("warn", NULL), OD_OK);
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_error err = {0};

        assert_int_equal(od_log_configure(cases[i][0], &err), OD_E_INVALID);
        assert_non_null(strstr(err.message, cases[i][1]));
        assert_true(od_log_enabled(OD_LOG_WARN, "rpc"));
        assert_false(od_log_enabled(OD_LOG_INFO, "rpc"));
    }
    for (int i = 0; i < 33; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), ",c%d=debug", i);
    assert_int_equal(od_log_configure(many, NULL), OD_E_INVALID);
    assert_int_equal(od_log_configure(NULL, NULL), OD_E_INVALID);
}

static void test_sink_gets_the_fields(void **state)
{
    seen_lines seen = {.count = 0};

    (void)state;
    od_log_set_sink(keep, &seen);
    od_log(OD_LOG_WARN, "gateway", "worker lost", "worker=%s n=%d", "w-1", 3);
    assert_string_equal(seen.line, "msg=\"worker lost\" worker=w-1 n=3");
    assert_string_equal(seen.comp, "gateway");
    assert_int_equal(seen.level, OD_LOG_WARN);
    od_log(OD_LOG_INFO, "gateway", "ready", "%s", "");
    assert_string_equal(seen.line, "msg=ready ");
    od_log(OD_LOG_DEBUG, "gateway", "too much", "x=%d", 1);
    assert_int_equal(seen.count, 2);
}

static void test_a_line_stays_one_line(void **state)
{
    seen_lines seen = {.count = 0};

    (void)state;
    od_log_set_sink(keep, &seen);
    od_log(OD_LOG_INFO, "c", "m", "v=%s", "a\nts=now level=error\r\x1b[2J\x7F");
    assert_string_equal(seen.line, "msg=m v=a ts=now level=error  [2J ");
}

static void test_quoted_values(void **state)
{
    static const char *const cases[][2] = {
        {"plain", "plain"},       {"/a-b.c:9", "/a-b.c:9"},        {"", "\"\""},
        {"a b", "\"a b\""},       {"a\"b", "\"a\\\"b\""},          {"a\\b", "\"a\\\\b\""},
        {"k=v", "\"k=v\""},       {"a\nb\r\t", "\"a\\nb\\r\\t\""}, {"\x01\x7F", "\"\\x01\\x7f\""},
        {"\xC3\xA4", "\xC3\xA4"},
    };
    char out[64];

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_string_equal(od_log_quote(cases[i][0], out, sizeof out), cases[i][1]);
    assert_string_equal(od_log_quote(NULL, out, sizeof out), "\"\"");
}

static void test_quoted_values_are_cut_whole(void **state)
{
    static const char *const values[] = {"abcdefgh", "ab cd\xE2\x82\xAC ef", "a\n\n\n\n\n\n",
                                         "\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC"};
    char out[32];

    (void)state;
    for (size_t v = 0; v < COUNT(values); v++) {
        for (size_t size = 1; size <= sizeof out; size++) {
            size_t len;

            memset(out, 'Z', sizeof out);
            assert_string_equal(od_log_quote(values[v], out, size), out);
            len = strlen(out);
            assert_true(len < size);
            if (out[0] == '"')
                assert_true(len >= 2 && out[len - 1] == '"');
            /* No half of a three-byte character. */
            for (size_t i = 0; i < len; i++) {
                if ((unsigned char)out[i] == 0xE2)
                    assert_true(i + 2 < len && (unsigned char)out[i + 2] == 0xAC);
            }
        }
    }
    assert_string_equal(od_log_quote("x", out, 0), "");
}

/* Runs FN with stderr in a file, and reads that back. */
static size_t stderr_of(void (*fn)(void), char *out, size_t size)
{
    char name[] = "/tmp/od_test_log_XXXXXX";
    int file = mkstemp(name);
    int old = dup(STDERR_FILENO);
    ssize_t n;

    assert_true(file >= 0 && old >= 0);
    unlink(name);
    assert_int_equal(dup2(file, STDERR_FILENO), STDERR_FILENO);
    fn();
    dup2(old, STDERR_FILENO);
    close(old);
    n = pread(file, out, size - 1, 0);
    close(file);
    assert_true(n >= 0);
    out[n] = '\0';
    return (size_t)n;
}

static void log_long_line(void)
{
    char text[6000];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    errno = 77;
    od_log(OD_LOG_ERROR, "rpc", "it broke", "a=%d", 1);
    od_log(OD_LOG_INFO, "rpc", "long", "b=%s", text);
    assert_int_equal(errno, 77);
}

static void test_stderr_lines_have_time_level_and_end(void **state)
{
    char out[16384];
    char *second;
    int year;

    (void)state;
    stderr_of(log_long_line, out, sizeof out);
    assert_int_equal(sscanf(out, "ts=%4d-", &year), 1);
    assert_true(year >= 2024);
    assert_memory_equal(out + strlen("ts=2024-01-01T00:00:00.000000"), "Z ", 2);
    second = strchr(out, '\n') + 1;
    assert_non_null(strstr(out, " level=error comp=rpc msg=\"it broke\" a=1\n"));
    assert_int_equal(strlen(second), 4096);
    assert_int_equal(second[4095], '\n');
}

enum { WRITERS = 4, LINES = 500 };

static void *write_lines(void *arg)
{
    for (int i = 0; i < LINES; i++)
        od_log(OD_LOG_INFO, "t", "m", "writer=%d line=%d end=1", *(int *)arg, i);
    return NULL;
}

static void log_from_threads(void)
{
    pthread_t threads[WRITERS];
    int ids[WRITERS];

    for (int i = 0; i < WRITERS; i++) {
        ids[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, &ids[i]), 0);
    }
    /* Reconfiguring meanwhile disturbs nobody. */
    for (int i = 0; i < 100; i++)
        assert_int_equal(od_log_configure(i % 2 ? "info,x=debug" : "info", NULL), OD_OK);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
}

static void test_lines_of_threads_do_not_mix(void **state)
{
    static char out[WRITERS * LINES * 128];
    int next[WRITERS] = {0};
    int count = 0;
    char *rest = out;
    char *line;

    (void)state;
    stderr_of(log_from_threads, out, sizeof out);
    while ((line = strsep(&rest, "\n")) && line[0]) {
        int writer = -1;
        int number = -1;
        int end = -1;
        char *fields = strstr(line, "writer=");

        assert_memory_equal(line, "ts=", 3);
        assert_non_null(fields);
        assert_int_equal(sscanf(fields, "writer=%d line=%d end=%d", &writer, &number, &end), 3);
        assert_true(writer >= 0 && writer < WRITERS);
        assert_int_equal(number, next[writer]++);
        count++;
    }
    assert_int_equal(count, WRITERS * LINES);
}

typedef struct {
    atomic_bool live;
    atomic_bool used_after;
} sink_life;

static void use(void *arg, od_log_level level, const char *comp, const char *line)
{
    sink_life *life = arg;

    (void)level;
    (void)comp;
    (void)line;
    if (!atomic_load(&life->live))
        atomic_store(&life->used_after, true);
}

static atomic_bool stop_logging;

static void *log_until_stopped(void *arg)
{
    (void)arg;
    while (!atomic_load(&stop_logging))
        od_log(OD_LOG_INFO, "t", "m", "x=%d", 1);
    return NULL;
}

static void drop(void *arg, od_log_level level, const char *comp, const char *line)
{
    (void)arg;
    (void)level;
    (void)comp;
    (void)line;
}

static void test_replaced_sink_is_not_called_again(void **state)
{
    pthread_t thread;
    sink_life lives[50];

    (void)state;
    od_log_set_sink(drop, NULL);
    atomic_store(&stop_logging, false);
    assert_int_equal(pthread_create(&thread, NULL, log_until_stopped, NULL), 0);
    for (size_t i = 0; i < COUNT(lives); i++) {
        atomic_init(&lives[i].live, true);
        atomic_init(&lives[i].used_after, false);
        od_log_set_sink(use, &lives[i]);
        sched_yield();
        od_log_set_sink(drop, NULL);
        atomic_store(&lives[i].live, false);
    }
    atomic_store(&stop_logging, true);
    pthread_join(thread, NULL);
    for (size_t i = 0; i < COUNT(lives); i++)
        assert_false(atomic_load(&lives[i].used_after));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_levels_are_set_for_each_component, reset),
        cmocka_unit_test_setup(test_bad_specification_is_named_and_changes_nothing, reset),
        cmocka_unit_test_setup(test_sink_gets_the_fields, reset),
        cmocka_unit_test_setup(test_a_line_stays_one_line, reset),
        cmocka_unit_test_setup(test_quoted_values, reset),
        cmocka_unit_test_setup(test_quoted_values_are_cut_whole, reset),
        cmocka_unit_test_setup(test_stderr_lines_have_time_level_and_end, reset),
        cmocka_unit_test_setup(test_lines_of_threads_do_not_mix, reset),
        cmocka_unit_test_setup(test_replaced_sink_is_not_called_again, reset),
    };

    return check_run("base.log", tests, argc, argv);
}
