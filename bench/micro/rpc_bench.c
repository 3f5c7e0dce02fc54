/* Measures query/rpc over loopback TCP. usage: rpc_bench [--tls] [unary|stream|ingest|relay]...   (default: all)
 *
 * Server and gateway are processes of their own, so that CPU time is told apart. Messages carry 'x' bytes: what is measured
 * is the transport. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/rpc_service.h"
#include "base/banned.h"

static const od_interrupt NONE = {0};

typedef struct {
    pid_t pid;
    uint16_t port;
} process;

static process start(uint16_t upstream)
{
    process p = {0};
    int pipes[2];

    if (pipe(pipes) != 0)
        abort();
    p.pid = fork();
    if (p.pid == 0) {
        rpc_service service;
        od_rpc_server *server;
        rpc_service_init(&service);
        if (upstream) {
            char text[64];
            rpc_service_url("127.0.0.1", upstream, text);
            if (od_endpoint_parse(od_slice_str(text), &service.upstream, NULL) != OD_OK)
                abort();
        }
        server = rpc_service_start(&service, NULL);
        p.port = od_rpc_server_port(server);
        if (write(pipes[1], &p.port, sizeof p.port) != sizeof p.port)
            abort();
        for (;;)
            pause();
    }
    if (read(pipes[0], &p.port, sizeof p.port) != sizeof p.port)
        abort();
    close(pipes[0]);
    close(pipes[1]);
    return p;
}

static double cpu_of(pid_t pid)
{
    char path[64], text[1024], *at;
    unsigned long user = 0, sys = 0;
    FILE *file;
    size_t n;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    file = fopen(path, "r");
    if (!file)
        return 0;
    n = fread(text, 1, sizeof text - 1, file);
    text[n] = '\0';
    fclose(file);
    at = strrchr(text, ')');
    if (at)
        sscanf(at + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &sys);
    return (double)(user + sys) / (double)sysconf(_SC_CLK_TCK);
}

static long peak_mb(pid_t pid)
{
    char path[64], line[256];
    long kb = 0;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %ld", &kb) == 1)
            break;
    if (file)
        fclose(file);
    return kb / 1024;
}

static void check(od_code rc, const od_error *err)
{
    if (rc == OD_OK)
        return;
    fprintf(stderr, "rpc_bench: %s\n", err->message);
    exit(1);
}

static od_call *begin(od_channel *channel, const char *path, const char *request)
{
    od_rpc_out out = rpc_out_text(request);
    od_call *call;
    od_error err;

    check(od_call_open(channel, path, od_deadline_in_ms(600000), 0, NONE, &call, &err), &err);
    check(od_call_send(call, &out, true, OD_DEADLINE_NEVER, &err), &err);
    return call;
}

static uint64_t drain(od_call *call)
{
    uint64_t bytes = 0;
    od_msg *msg;
    od_error err;

    for (;;) {
        check(od_call_recv(call, &msg, OD_DEADLINE_NEVER, &err), &err);
        if (!msg)
            break;
        bytes += od_msg_len(msg);
        od_msg_unref(msg);
    }
    od_call_free(call);
    return bytes;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void unary(const char *name, const char *path, const char *request, uint16_t port, process *parts, int count)
{
    enum { CALLS = 20000, WARM = 500 };
    static double us[CALLS];
    od_channel *channel = rpc_channel_to(port);
    double cpu[3] = {0}, me = 0, began = 0;

    for (int i = -WARM; i < CALLS; i++) {
        int64_t at;
        if (i == 0) {
            me = cpu_of(getpid());
            for (int k = 0; k < count; k++)
                cpu[k] = cpu_of(parts[k].pid);
            began = (double)od_clock_ns();
        }
        at = od_clock_ns();
        drain(begin(channel, path, request));
        if (i >= 0)
            us[i] = (double)(od_clock_ns() - at) / 1e3;
    }
    began = ((double)od_clock_ns() - began) / 1e9;
    qsort(us, CALLS, sizeof *us, compare);
    printf("%-22s p50 %5.1f us  p99 %6.1f us  %6.0f calls/s  cpu us/call client %.1f", name, us[CALLS / 2],
           us[CALLS * 99 / 100], CALLS / began, (cpu_of(getpid()) - me) * 1e6 / CALLS);
    for (int k = 0; k < count; k++)
        printf("  %s %.1f", k ? "relay" : "server", (cpu_of(parts[k].pid) - cpu[k]) * 1e6 / CALLS);
    printf("\n");
    od_channel_unref(channel);
}

static void stream(const char *name, const char *path, const char *request, uint16_t port, process *parts, int count)
{
    od_channel *channel = rpc_channel_to(port);
    double cpu[3] = {0}, me = cpu_of(getpid()), seconds, gb;
    int64_t at = od_clock_ns();

    for (int k = 0; k < count; k++)
        cpu[k] = cpu_of(parts[k].pid);
    gb = (double)drain(begin(channel, path, request)) / 1e9;
    seconds = (double)(od_clock_ns() - at) / 1e9;
    printf("%-22s %.2f GB/s  cpu s/GB client %.3f (%ld MB)", name, gb / seconds, (cpu_of(getpid()) - me) / gb,
           peak_mb(getpid()));
    for (int k = 0; k < count; k++)
        printf("  %s %.3f (%ld MB)", k ? "relay" : "server", (cpu_of(parts[k].pid) - cpu[k]) / gb,
               peak_mb(parts[k].pid));
    printf("\n");
    od_channel_unref(channel);
}

static void ingest(uint16_t port, process *server)
{
    enum { COUNT = 2048 };
    od_channel *channel = rpc_channel_to(port);
    od_msg *body = rpc_message(1 << 20, 'x');
    od_rpc_out out = rpc_out(body);
    double me = cpu_of(getpid()), cpu = cpu_of(server->pid), seconds, gb = COUNT * (double)(1 << 20) / 1e9;
    int64_t at = od_clock_ns();
    od_call *call;
    od_error err;

    check(od_call_open(channel, "/test.Rpc/Collect", OD_DEADLINE_NEVER, 0, NONE, &call, &err), &err);
    for (int i = 0; i < COUNT; i++)
        check(od_call_send(call, &out, i + 1 == COUNT, OD_DEADLINE_NEVER, &err), &err);
    drain(call);
    seconds = (double)(od_clock_ns() - at) / 1e9;
    printf("%-22s %.2f GB/s  cpu s/GB client %.3f  server %.3f (%ld MB)\n", "ingest 1 MiB", gb / seconds,
           (cpu_of(getpid()) - me) / gb, (cpu_of(server->pid) - cpu) / gb, peak_mb(server->pid));
    od_msg_unref(body);
    od_channel_unref(channel);
}

static bool wanted(int argc, char **argv, const char *what)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], what) == 0)
            return true;
    return argc < 2;
}

int main(int argc, char **argv)
{
    process parts[2];

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1 && strcmp(argv[1], "--tls") == 0) {
        rpc_service_use_tls(true);
        argc--, argv++;
    }
    parts[0] = start(0);
    parts[1] = start(parts[0].port);
    if (wanted(argc, argv, "unary")) {
        unary("unary, loop", "/test.Rpc/Echo", "hello", parts[0].port, parts, 1);
        unary("unary, other thread", "/test.Rpc/Threaded", "1 5", parts[0].port, parts, 1);
    }
    if (wanted(argc, argv, "stream")) {
        stream("stream 1 MiB", "/test.Rpc/Stream", "4096 1048576", parts[0].port, parts, 1);
        stream("stream 1 MiB, thread", "/test.Rpc/Threaded", "4096 1048576", parts[0].port, parts, 1);
        stream("stream 64 KiB", "/test.Rpc/Stream", "32768 65536", parts[0].port, parts, 1);
        stream("stream 1 KiB", "/test.Rpc/Stream", "1000000 1024", parts[0].port, parts, 1);
    }
    if (wanted(argc, argv, "ingest"))
        ingest(parts[0].port, parts);
    if (wanted(argc, argv, "relay")) {
        unary("unary relay", "/test.Rpc/Relay/Echo", "hello", parts[1].port, parts, 2);
        stream("relay 1 MiB", "/test.Rpc/Relay/Stream", "2048 1048576", parts[1].port, parts, 2);
    }
    for (int i = 0; i < 2; i++) {
        kill(parts[i].pid, SIGTERM);
        waitpid(parts[i].pid, NULL, 0);
    }
    return 0;
}
