/* Links to workers: processes of a shell stand in for them. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "vgi/transport.h"

static const od_vgi_wait patient = {.deadline = {INT64_MAX}};

static od_vgi_link *start(const char *command)
{
    od_vgi_location location;
    od_vgi_link *link;
    od_error err = {0};

    assert_int_equal(od_vgi_location_parse(command, &location, &err), OD_OK);
    assert_int_equal(od_vgi_link_open(&location, &patient, &link, &err), OD_OK);
    od_vgi_location_release(&location);
    return link;
}

static void test_locations_are_told_apart(void **state)
{
    static const struct {
        const char *text;
        int scheme; /* -1: refused */
        const char *target;
        int port;
    } cases[] = {
        {"python worker.py --x", OD_VGI_SUBPROCESS, "python worker.py --x", 0},
        {"  ./worker", OD_VGI_SUBPROCESS, "./worker", 0},
        {"unix:///run/w.sock", OD_VGI_UNIX, "/run/w.sock", 0},
        {"UNIX:///run/w.sock", OD_VGI_UNIX, "/run/w.sock", 0},
        {"unix://run/w.sock", -1, NULL, 0},
        {"tcp://host:80", OD_VGI_TCP, "host", 80},
        {"Tcp://[::1]:80", OD_VGI_TCP, "::1", 80},
        {"tcp://host", -1, NULL, 0},
        {"tcp://:80", -1, NULL, 0},
        {"tcp://host:0", -1, NULL, 0},
        {"tcp://host:65536", -1, NULL, 0},
        {"tcp://host:80x", -1, NULL, 0},
        {"http://host/base/", OD_VGI_HTTP, "http://host/base", 0},
        {"HTTPS://host", OD_VGI_HTTP, "HTTPS://host", 0},
        {"launch:worker", -1, NULL, 0},
        {"oci://image", -1, NULL, 0},
        {"docker://image", -1, NULL, 0},
        {"worker:thing", -1, NULL, 0},
        {"", -1, NULL, 0},
        {"  ", -1, NULL, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        od_vgi_location location;
        od_code rc = od_vgi_location_parse(cases[i].text, &location, NULL);

        assert_int_equal(rc, cases[i].scheme < 0 ? OD_E_INVALID : OD_OK);
        if (rc == OD_OK) {
            assert_int_equal(location.scheme, cases[i].scheme);
            assert_string_equal(location.target, cases[i].target);
            assert_int_equal(location.port, cases[i].port);
        }
        od_vgi_location_release(&location);
    }
}

static void test_bytes_go_there_and_back(void **state)
{
    od_vgi_link *link = start("cat");
    size_t len = 4 << 20; /* more than pipes hold */
    uint8_t *sent = malloc(65536), *back = malloc(65536);

    (void)state;
    for (size_t at = 0; at < len; at += 65536) {
        memset(sent, (int)(at >> 16), 65536);
        assert_int_equal(od_vgi_link_write(link, od_slice_of(sent, 65536), &patient, NULL), OD_OK);
        assert_int_equal(od_vgi_link_read(link, back, 65536, &patient, NULL), OD_OK);
        assert_memory_equal(sent, back, 65536);
    }
    assert_true(od_vgi_link_usable(link));
    od_vgi_link_end(link);
    assert_true(od_vgi_link_gone(link, 10000));
    od_vgi_link_free(link);
    free(sent);
    free(back);
}

static void test_a_worker_that_ends_is_told_with_its_last_words(void **state)
{
    od_vgi_link *link = start("head -c 3 >&2 </dev/zero; echo 'no module named x' >&2; exit 7");
    od_error err = {0};
    char byte;

    (void)state;
    assert_int_equal(od_vgi_link_read(link, &byte, 1, &patient, &err), OD_E_CONNECTION_LOST);
    assert_non_null(strstr(err.message, "exit code 7"));
    assert_non_null(strstr(err.message, "no module named x"));
    od_vgi_link_free(link);
}

static void test_a_killed_worker_is_told_too(void **state)
{
    od_vgi_link *link = start("kill -9 $$");
    od_error err = {0};
    char byte;

    (void)state;
    assert_int_equal(od_vgi_link_read(link, &byte, 1, &patient, &err), OD_E_CONNECTION_LOST);
    assert_non_null(strstr(err.message, "signal 9"));
    od_vgi_link_free(link);
}

static void test_much_on_stderr_stops_nobody_and_its_end_is_kept(void **state)
{
    od_vgi_link *link = start("head -c 1000000 /dev/zero | tr '\\0' x >&2; echo the end >&2; echo; cat");
    char tail[64], byte;

    (void)state;
    assert_int_equal(od_vgi_link_read(link, &byte, 1, &patient, NULL), OD_OK);
    od_vgi_link_stderr(link, tail, sizeof tail);
    assert_int_equal(strlen(tail), sizeof tail - 1);
    assert_non_null(strstr(tail, "xxthe end"));
    od_vgi_link_free(link);
}

/* A worker that reads nothing: the write fills the pipe, then breaks. No SIGPIPE comes of it. */
static void test_a_broken_pipe_is_an_error_and_no_signal(void **state)
{
    static const uint8_t bytes[1 << 20];
    od_vgi_link *link = start("exec <&-; exec >&-; sleep 0.1");
    od_code rc = OD_OK;

    (void)state;
    signal(SIGPIPE, SIG_DFL);
    for (int i = 0; i < 8 && rc == OD_OK; i++)
        rc = od_vgi_link_write(link, od_slice_of(bytes, sizeof bytes), &patient, NULL);
    assert_int_equal(rc, OD_E_CONNECTION_LOST);
    od_vgi_link_free(link);
}

static bool yes(void *arg)
{
    ++*(int *)arg;
    return true;
}

static void test_waiting_ends_with_the_deadline_or_when_it_is_given_up(void **state)
{
    od_vgi_link *link = start("sleep 100");
    int asked = 0;
    od_vgi_wait soon = {.deadline = od_deadline_in_ms(20)},
                stopped = {.deadline = {INT64_MAX}, .interrupt = {yes, &asked}};
    char byte;

    (void)state;
    assert_int_equal(od_vgi_link_read(link, &byte, 1, &soon, NULL), OD_E_TIMEOUT);
    assert_int_equal(od_vgi_link_read(link, &byte, 1, &stopped, NULL), OD_E_CANCELLED);
    assert_true(asked > 0);
    assert_int_equal(kill((pid_t)-od_vgi_link_pid(link), SIGKILL), 0); /* it does not end by itself */
    assert_true(od_vgi_link_gone(link, 10000));
    od_vgi_link_free(link);
}

/* A wait for bytes lets some gather first. */
static void test_a_wait_for_bytes_lets_them_gather(void **state)
{
    enum { GATHER_NS = 200000000 };
    od_vgi_link *link = start("sleep 100");
    const od_vgi_wait soon = {.deadline = od_deadline_in_ms(1), .gather_ns = GATHER_NS};
    int64_t begun = od_clock_ns();
    char byte;

    (void)state;
    assert_int_equal(od_vgi_link_read(link, &byte, 1, &soon, NULL), OD_E_TIMEOUT);
    assert_true(od_clock_ns() - begun >= GATHER_NS);
    (void)kill((pid_t)-od_vgi_link_pid(link), SIGKILL);
    od_vgi_link_free(link);
}

/* What came whole behind its head is lent without a copy, and stays as it is while more is read. */
static void test_bytes_that_came_whole_are_lent(void **state)
{
    od_vgi_link *link =
        start("printf 'head-is8body-of-16-bytesoddhead-is8too'; sleep 0.3; printf -- '-short'; exec cat");
    char got[8];
    od_slice message, none;
    od_msg *owner, *nobody;

    (void)state;
    assert_int_equal(od_vgi_link_read(link, got, 8, &patient, NULL), OD_OK);
    assert_memory_equal(got, "head-is8", 8);
    assert_true(od_vgi_link_available(link, 16) >= 16);
    assert_false(od_vgi_link_lend(link, 9, 16, &none, &nobody)); /* more than was read before it */
    assert_true(od_vgi_link_lend(link, 8, 16, &message, &owner));
    assert_int_equal(message.len, 24);
    assert_int_equal((uintptr_t)(message.data + 8) % 8, 0);
    assert_int_equal(od_vgi_link_read(link, got, 3, &patient, NULL), OD_OK);
    assert_memory_equal(got, "odd", 3);
    assert_int_equal(od_vgi_link_read(link, got, 8, &patient, NULL), OD_OK);
    assert_false(od_vgi_link_lend(link, 8, 3, &none, &nobody)); /* it lies askew */
    assert_false(od_vgi_link_lend(link, 8, 9, &none, &nobody)); /* not all of it is there */
    assert_int_equal(od_vgi_link_read(link, got, 3, &patient, NULL), OD_OK);
    assert_memory_equal(got, "too", 3);
    assert_int_equal(od_vgi_link_read(link, got, 6, &patient, NULL), OD_OK);
    assert_memory_equal(got, "-short", 6);
    assert_memory_equal(message.data, "head-is8body-of-16-bytes", 24);
    od_vgi_link_free(link);
    assert_memory_equal(message.data, "head-is8body-of-16-bytes", 24);
    od_msg_unref(owner);
}

/* Of the worker's group nobody is left, also where it has children. */
static void test_a_worker_that_ignores_its_end_is_killed_with_its_children(void **state)
{
    od_vgi_link *link = start("trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & while :; do sleep 1; done");
    pid_t group = (pid_t)od_vgi_link_pid(link);

    (void)state;
    assert_false(od_vgi_link_gone(link, 0));
    od_vgi_link_end(link);
    assert_true(od_vgi_link_gone(link, 20000));
    for (int i = 0; i < 2000 && kill(-group, 0) == 0; i++)
        usleep(5000); /* its children are reaped by init */
    assert_int_not_equal(kill(-group, 0), 0);
    od_vgi_link_free(link);
}

/* Started by a child that is then killed: stdout of the worker's, a pipe of ours, sees its end. */
static void test_no_worker_outlives_a_killed_client(void **state)
{
    int alive[2];
    char byte;

    (void)state;
    assert_int_equal(pipe(alive), 0);
    pid_t client = fork();
    if (client == 0) {
        char command[64];

        /* The descriptor is lost to the worker, which has 0, 1 and 2 alone: by name, then. */
        snprintf(command, sizeof command, "exec 9>/proc/%d/fd/%d; while :; do sleep 1; done", (int)getpid(), alive[1]);
        od_vgi_link *link = start(command);
        od_vgi_wait soon = {.deadline = od_deadline_in_ms(300)};
        if (od_vgi_link_read(link, &byte, 1, &soon, NULL) == OD_E_TIMEOUT)
            kill(getpid(), SIGKILL);
        _exit(1);
    }
    close(alive[1]);
    assert_int_equal(waitpid(client, NULL, 0), client);
    ssize_t n = read(alive[0], &byte, 1);
    assert_int_equal(n, 0);
    close(alive[0]);
}

/* The worker has the three descriptors that it needs and no other of ours. */
static void test_a_worker_inherits_nothing_else(void **state)
{
    int leaked = open("/dev/null", O_RDONLY); /* not close-on-exec */
    od_vgi_link *link = start("ls /proc/self/fd | tr '\\n' ' '; echo; cat");
    char text[64] = "";

    (void)state;
    assert_true(leaked >= 0);
    for (size_t i = 0; i < sizeof text - 1 && (i == 0 || text[i - 1] != '\n'); i++)
        assert_int_equal(od_vgi_link_read(link, &text[i], 1, &patient, NULL), OD_OK);
    assert_string_equal(text, "0 1 2 3 \n"); /* 3: the folder that ls reads */
    od_vgi_link_free(link);
    close(leaked);
}

static void test_a_socket_is_a_link_too(void **state)
{
    char path[] = "/tmp/vgi-transport-XXXXXX", location_text[128];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    od_vgi_location location;
    od_vgi_link *link;
    od_error err = {0};
    char byte = 'x';
    int fd = mkstemp(path);

    (void)state;
    close(fd);
    unlink(path);
    memcpy(address.sun_path, path, sizeof path);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 4), 0);
    snprintf(location_text, sizeof location_text, "unix://%s", path);
    assert_int_equal(od_vgi_location_parse(location_text, &location, NULL), OD_OK);
    assert_int_equal(od_vgi_link_open(&location, &patient, &link, NULL), OD_OK);
    int peer = accept(listener, NULL, NULL);
    assert_int_equal(od_vgi_link_write(link, od_slice_of(&byte, 1), &patient, NULL), OD_OK);
    assert_int_equal(read(peer, &byte, 1), 1);
    assert_true(od_vgi_link_usable(link));
    close(peer);
    assert_false(od_vgi_link_usable(link));
    assert_int_equal(od_vgi_link_read(link, &byte, 1, &patient, &err), OD_E_CONNECTION_LOST);
    od_vgi_link_free(link);
    close(listener);
    unlink(path);
    assert_int_equal(od_vgi_link_open(&location, &patient, &link, &err), OD_E_UNAVAILABLE);
    assert_non_null(strstr(err.message, path));
    od_vgi_location_release(&location);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_locations_are_told_apart),
        cmocka_unit_test(test_bytes_go_there_and_back),
        cmocka_unit_test(test_a_worker_that_ends_is_told_with_its_last_words),
        cmocka_unit_test(test_a_killed_worker_is_told_too),
        cmocka_unit_test(test_much_on_stderr_stops_nobody_and_its_end_is_kept),
        cmocka_unit_test(test_a_broken_pipe_is_an_error_and_no_signal),
        cmocka_unit_test(test_waiting_ends_with_the_deadline_or_when_it_is_given_up),
        cmocka_unit_test(test_a_wait_for_bytes_lets_them_gather),
        cmocka_unit_test(test_bytes_that_came_whole_are_lent),
        cmocka_unit_test(test_a_worker_that_ignores_its_end_is_killed_with_its_children),
        cmocka_unit_test(test_no_worker_outlives_a_killed_client),
        cmocka_unit_test(test_a_worker_inherits_nothing_else),
        cmocka_unit_test(test_a_socket_is_a_link_too),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
