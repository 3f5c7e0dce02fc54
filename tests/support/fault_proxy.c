#include "support/fault_proxy.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MESSAGE_MAX (16U << 20)

static void must(bool condition, const char *what)
{
    if (!condition) {
        perror(what);
        abort();
    }
}

static struct sockaddr_in loopback(int port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static bool send_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

        if (n <= 0)
            return false;
        data += n;
        len -= (size_t)n;
    }
    return true;
}

/* A whole request; its length, 0 if none came. The body of one that asks first is asked for. */
static size_t read_request(const fault_proxy *proxy, int fd, char *out)
{
    size_t have = 0;
    size_t want = 0;

    while (want == 0 || have < want) {
        struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = proxy->stop[0], .events = POLLIN}};
        char *head;
        ssize_t n;

        must(poll(fds, 2, -1) > 0, "poll");
        n = fds[1].revents != 0 ? 0 : read(fd, out + have, MESSAGE_MAX - have - 1);
        if (n <= 0)
            return 0;
        have += (size_t)n;
        out[have] = '\0';
        head = want == 0 ? strstr(out, "\r\n\r\n") : NULL;
        if (head != NULL) {
            const char *length = strcasestr(out, "\r\ncontent-length:");
            char *expect = strcasestr(out, "\r\nexpect:");

            want = (size_t)(head + 4 - out);
            if (length != NULL && length < head)
                want += (size_t)atol(length + 17);
            if (expect != NULL && expect < head) {
                memcpy(expect + 2, "X-none", 6);
                (void)send_all(fd, "HTTP/1.1 100 Continue\r\n\r\n", 25);
            }
        }
    }
    return have;
}

/* The server's whole answer to REQUEST. */
static size_t ask(const fault_proxy *proxy, const char *request, size_t len, char *out)
{
    static const char last[] = "\r\nConnection: close";
    struct sockaddr_in at = loopback(proxy->server_port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t head = (size_t)(strstr(request, "\r\n\r\n") - request);
    size_t have = 0;
    ssize_t n;

    must(connect(fd, (struct sockaddr *)&at, sizeof at) == 0, "connect");
    if (send_all(fd, request, head) && send_all(fd, last, sizeof last - 1) && send_all(fd, request + head, len - head))
        while ((n = read(fd, out + have, MESSAGE_MAX - have)) > 0)
            have += (size_t)n;
    close(fd);
    return have;
}

static fault_kind next_fault(fault_proxy *proxy)
{
    fault_kind fault = FAULT_NONE;

    pthread_mutex_lock(&proxy->lock);
    if (proxy->requests >= proxy->first && proxy->requests - proxy->first < proxy->count)
        fault = proxy->fault;
    proxy->requests++;
    pthread_mutex_unlock(&proxy->lock);
    return fault;
}

static void refuse(int fd, const char *status)
{
    char text[200];
    int len = snprintf(text, sizeof text, "HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status);

    (void)send_all(fd, text, (size_t)len);
}

/* Until the other side gives up, or MS have passed (-1: for ever). False: it gave up. */
static bool wait_for_end(const fault_proxy *proxy, int fd, int ms)
{
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = proxy->stop[0], .events = POLLIN}};
    int n = poll(fds, 2, ms);

    must(n >= 0, "poll");
    return n == 0;
}

static void drip(const fault_proxy *proxy, int fd, const char *data, size_t len)
{
    for (size_t i = 0; i < len && send_all(fd, data + i, 1) && wait_for_end(proxy, fd, 20); i++)
        ;
}

/* Asks for another range, or for all, without moving anything in REQUEST. */
static void change_range(fault_kind fault, char *request)
{
    char *header = strcasestr(request, "\r\nrange: bytes=");
    char *dash = header != NULL ? strchr(header, '-') : NULL;
    long from = header != NULL ? atol(header + 15) : 0;
    long to = dash != NULL ? atol(dash + 1) : 0;
    int width = dash != NULL ? (int)strspn(dash + 1, "0123456789") : 0;
    char text[80];

    if (dash == NULL || header + 15 > strstr(request, "\r\n\r\n"))
        return;
    if (fault == FAULT_CLIPPED && from + 9 < to)
        snprintf(text, sizeof text, "%0*ld-%0*ld", (int)(dash - header - 15), from, width, from + 9);
    else if (fault == FAULT_SHIFTED && from > 0)
        snprintf(text, sizeof text, "%0*ld-%0*ld", (int)(dash - header - 15), from - 1, width, to - 1);
    else if (fault != FAULT_CLIPPED)
        snprintf(text, sizeof text, "%s", "");
    else
        return;
    if (text[0] == '\0')
        memcpy(header + 2, "x-ran", 5);
    else
        memcpy(header + 15, text, strlen(text));
}

static void spoil(char *answer, size_t len)
{
    const char *body = memmem(answer, len, "\r\n\r\n", 4);

    for (size_t at = len; body != NULL && at > (size_t)(body + 4 - answer); at = at > 4096 ? at - 4096 : 0)
        answer[at - 1] ^= 1;
}

static void answer_badly(const fault_proxy *proxy, int fd, fault_kind fault, char *answer, size_t got)
{
    if (fault == FAULT_GARBAGE)
        spoil(answer, got);
    if (fault == FAULT_DRIP)
        drip(proxy, fd, answer, got);
    else
        (void)send_all(fd, answer, fault == FAULT_SHORT || fault == FAULT_HALF ? got / 2 : got);
    if (fault == FAULT_HALF)
        (void)wait_for_end(proxy, fd, -1);
}

static void serve(fault_proxy *proxy, int fd, char *request, char *answer)
{
    size_t len = read_request(proxy, fd, request);
    fault_kind fault = len > 0 ? next_fault(proxy) : FAULT_CUT;

    switch (fault) {
    case FAULT_500:
        refuse(fd, "500 Internal Server Error");
        break;
    case FAULT_503:
        refuse(fd, "503 Slow Down");
        break;
    case FAULT_403:
        refuse(fd, "403 Forbidden");
        break;
    case FAULT_CUT:
        break;
    case FAULT_STALL:
        (void)wait_for_end(proxy, fd, -1);
        break;
    default:
        if (fault == FAULT_CLIPPED || fault == FAULT_SHIFTED || fault == FAULT_WHOLE)
            change_range(fault, request);
        answer_badly(proxy, fd, fault, answer, ask(proxy, request, len, answer));
    }
}

static void *run(void *arg)
{
    fault_proxy *proxy = arg;
    char *request = malloc(MESSAGE_MAX);
    char *answer = malloc(MESSAGE_MAX);

    must(request != NULL && answer != NULL, "malloc");
    for (;;) {
        struct pollfd fds[] = {{.fd = proxy->listening, .events = POLLIN}, {.fd = proxy->stop[0], .events = POLLIN}};
        int fd;

        must(poll(fds, 2, -1) > 0, "poll");
        if (fds[1].revents != 0)
            break;
        fd = accept(proxy->listening, NULL, NULL);
        must(fd >= 0, "accept");
        serve(proxy, fd, request, answer);
        close(fd);
    }
    free(request);
    free(answer);
    return NULL;
}

void fault_proxy_begin(fault_proxy *proxy, const char *server)
{
    struct sockaddr_in at = loopback(0);
    socklen_t size = sizeof at;

    memset(proxy, 0, sizeof *proxy);
    proxy->server_port = atoi(strrchr(server, ':') + 1);
    proxy->listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(bind(proxy->listening, (struct sockaddr *)&at, sizeof at) == 0 && listen(proxy->listening, 16) == 0, "listen");
    must(getsockname(proxy->listening, (struct sockaddr *)&at, &size) == 0, "getsockname");
    snprintf(proxy->url, sizeof proxy->url, "http://127.0.0.1:%d", ntohs(at.sin_port));
    pthread_mutex_init(&proxy->lock, NULL);
    must(pipe(proxy->stop) == 0, "pipe");
    must(pthread_create(&proxy->thread, NULL, run, proxy) == 0, "pthread_create");
}

void fault_proxy_set(fault_proxy *proxy, fault_kind fault, int first, int count)
{
    pthread_mutex_lock(&proxy->lock);
    proxy->fault = fault;
    proxy->first = first;
    proxy->count = count;
    proxy->requests = 0;
    pthread_mutex_unlock(&proxy->lock);
}

int fault_proxy_requests(fault_proxy *proxy)
{
    int requests;

    pthread_mutex_lock(&proxy->lock);
    requests = proxy->requests;
    pthread_mutex_unlock(&proxy->lock);
    return requests;
}

void fault_proxy_end(fault_proxy *proxy)
{
    (void)!write(proxy->stop[1], "x", 1);
    pthread_join(proxy->thread, NULL);
    pthread_mutex_destroy(&proxy->lock);
    close(proxy->listening);
    close(proxy->stop[0]);
    close(proxy->stop[1]);
}
