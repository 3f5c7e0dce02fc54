/* HTTP: a method is a path, a request its body. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/deadline.h"
#include "http/answer.h"
#include "http/listen.h"
#include "vgi/worker/coding.h"
#include "vgi/worker/connections.h"
#include "vgi/worker/http_scan.h"

#include "base/banned.h"

#define ARROW_TYPE "application/vnd.apache.arrow.stream"

/* How long a request may take to come, an answer to be taken, and a connection to be silent. */
enum { REQUEST_MS = 30000, ANSWER_MS = 60000, IDLE_MS = 60000, READ_SIZE = 65536 };

typedef struct {
    const od_vgiw *worker;
    vgiw_shelf *scans;
    od_secret token;
    const char *address;
} site;

typedef struct {
    const site *site;
    od_slice method; /* of the path */
    od_slice body;
    od_http_response *response;
} exchange;

/* ---- answers ---- */

static void refuse(const exchange *x, int status, const od_error *why, const char *kind)
{
    od_msg *msg;

    x->response->body.len = 0;
    x->response->status = status;
    if (vgiw_refusal(why, kind, &msg, NULL) != OD_OK) {
        x->response->status = 500;
        return;
    }
    if (od_buf_append(&x->response->body, od_msg_data(msg), od_msg_len(msg), NULL) != OD_OK ||
        od_buf_printf(&x->response->headers, NULL, "X-VGI-RPC-Error: true\r\n") != OD_OK)
        x->response->status = 500;
    od_msg_unref(msg);
}

/* As the worker's own failures are told: in an answer that is fine. */
static void fail(const exchange *x, const od_error *why)
{
    refuse(x, 200, why, NULL);
}

static void answer_unary(const exchange *x, const vgiw_meta *meta, const od_record *request)
{
    od_error why = {.code = OD_OK};
    od_msg *msg;
    bool failed;

    if (vgiw_answer(x->site->worker, meta, request, &failed, &msg, &why) != OD_OK) {
        fail(x, &why);
        return;
    }
    if (od_buf_append(&x->response->body, od_msg_data(msg), od_msg_len(msg), NULL) != OD_OK ||
        (failed && od_buf_printf(&x->response->headers, NULL, "X-VGI-RPC-Error: true\r\n") != OD_OK))
        x->response->status = 500;
    od_msg_unref(msg);
}

static void answer_init(const exchange *x, const vgiw_call *call)
{
    od_error why = {.code = OD_OK};

    if (vgiw_scans_begin(x->site->scans, call, &x->response->body, &why) != OD_OK)
        fail(x, &why);
}

static void answer_exchange(const exchange *x, const vgiw_meta *meta, od_record *request)
{
    const od_slice state = od_slice_of(meta->state.data, meta->state.len);
    od_error why = {.code = OD_OK};

    if (vgiw_scans_next(x->site->scans, state, request, &x->response->body, &why) != OD_OK)
        fail(x, &why);
}

static bool is(od_slice text, const char *what)
{
    return od_slice_equal(text, od_slice_str(what));
}

/* META and REQUEST are the body's. */
static void answer(const exchange *x, vgiw_meta *meta, od_record *request)
{
    vgiw_call call = {.worker = x->site->worker, .request = request};
    const char *kind;
    od_error why = {.code = OD_OK};

    if (is(x->method, "init/exchange")) {
        answer_exchange(x, meta, request);
        return;
    }
    if (!is(x->method, "init/init") && vgiw_method_find(x->method) == NULL) {
        (void)od_fail(&why, OD_E_NOT_IMPLEMENTED, "there is no such method");
        refuse(x, 404, &why, vgiw_kind_method);
        return;
    }
    if (vgiw_check_request(request, &why) != OD_OK) {
        refuse(x, 400, &why, NULL);
        return;
    }
    if (vgiw_dialect_of(x->site->worker, meta, &call.dialect, &kind, &why) != OD_OK) {
        refuse(x, 400, &why, kind);
        return;
    }
    if (is(x->method, "init/init")) {
        answer_init(x, &call);
        return;
    }
    /* The path says which method it is. */
    meta->method.len = 0;
    if (od_buf_append(&meta->method, x->method.data, x->method.len, NULL) != OD_OK)
        x->response->status = 500;
    else
        answer_unary(x, meta, request);
}

static void answer_body(const exchange *x)
{
    vgiw_meta meta = {.has_protocol = false};
    od_record *request = NULL;
    od_error why = {.code = OD_OK};
    vgiw_peer *peer;
    od_code rc = vgiw_peer_create(-1, -1, &peer, &why);

    x->response->content_type = ARROW_TYPE;
    if (rc == OD_OK) {
        peer->request = x->body;
        rc = vgiw_peer_request(peer, &meta, &request, &why);
    }
    if (rc == OD_OK && (request == NULL || peer->request.len > 0))
        rc = od_fail(&why, OD_E_CORRUPT, "a request is one stream, and nothing more");
    if (rc == OD_OK)
        answer(x, &meta, request);
    else
        refuse(x, 400, &why, NULL);
    od_record_free(request);
    vgiw_meta_release(&meta);
    vgiw_peer_free(peer);
}

/* ---- routes ---- */

/* What clients have to know before they ask: how bodies may be compressed, and that none is kept elsewhere. */
static bool put_abilities(od_http_response *response)
{
    return od_buf_printf(&response->headers, NULL,
                         "VGI-Supported-Encodings: " VGIW_CODINGS "\r\nVGI-Externalization-Enabled: false\r\n"
                         "VGI-Accept-Max-Response-Bytes-Support: true\r\nVGI-Max-Request-Bytes: %zu\r\n",
                         VGIW_MAX_BODY) == OD_OK;
}

static bool is_arrow(const od_http_head *head)
{
    od_slice type = od_http_head_value(head, "content-type");
    size_t n = strlen(ARROW_TYPE);

    return type.len >= n && strncasecmp((const char *)type.data, ARROW_TYPE, n) == 0 &&
           (type.len == n || type.data[n] == ';' || type.data[n] == ' ');
}

/* Whether the body can be read; one that is compressed goes to PLAIN. */
static bool read_coding(const od_http_request *request, od_buf *plain, od_http_response *response)
{
    od_slice coding = od_http_head_value(request->head, "content-encoding");

    if (coding.len == 0)
        return true;
    switch (vgiw_decode(coding, request->body, VGIW_MAX_BODY, plain, NULL)) {
    case OD_OK:
        return true;
    case OD_E_NOT_IMPLEMENTED:
        return false;
    case OD_E_TOO_LARGE:
        response->status = 413;
        return false;
    default:
        response->status = 400;
        return false;
    }
}

/* A client says how much it takes; what is more is not sent. */
static void bound_answer(const exchange *x, const od_http_head *head)
{
    od_slice most = od_http_head_value(head, "vgi-accept-max-response-bytes");
    od_error why = {.code = OD_OK};
    size_t limit = 0;

    if (most.len == 0 || most.len > 18)
        return;
    for (size_t i = 0; i < most.len; i++) {
        if (most.data[i] < '0' || most.data[i] > '9')
            return;
        limit = 10 * limit + (size_t)(most.data[i] - '0');
    }
    if (x->response->body.len <= limit)
        return;
    (void)od_fail(&why, OD_E_TOO_LARGE, "an answer of %zu bytes is above the client's limit of %zu",
                  x->response->body.len, limit);
    fail(x, &why);
}

static void call_method(void *arg, const od_http_request *request, od_http_response *response)
{
    static const char prefix[] = "/vgi.v2/";
    od_slice path = request->head->path;
    size_t skip = path.len > strlen(prefix) && memcmp(path.data, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 1;
    exchange x = {arg, od_slice_of(path.data + skip, path.len - skip), request->body, response};
    od_buf plain = {0};

    if (!put_abilities(response)) {
        response->status = 500;
    } else if (!is_arrow(request->head) || !read_coding(request, &plain, response)) {
        response->status = response->status != 200 ? response->status : 415;
    } else {
        if (plain.data != NULL)
            x.body = od_slice_of(plain.data, plain.len);
        answer_body(&x);
        bound_answer(&x, request->head);
    }
    od_buf_release(&plain);
}

static void tell_health(void *arg, const od_http_request *request, od_http_response *response)
{
    const site *s = arg;
    const char *protocol =
        vgiw_is_absent(s->worker->generation) || strcmp(s->worker->generation, "1.3") != 0 ? "vgi.v2" : "VgiProtocol";

    (void)request;
    response->content_type = "application/json";
    if (!put_abilities(response) ||
        od_buf_printf(&response->body, NULL, "{\"status\":\"ok\",\"server_id\":\"openduck\",\"protocol\":\"%s\"}\n",
                      protocol) != OD_OK)
        response->status = 500;
}

/* ---- connections ---- */

typedef struct {
    const site *site;
    int fd;
    od_buf in;
} connection;

/* More bytes, by DEADLINE. False: there are none. */
static bool read_more(connection *c, od_deadline deadline)
{
    struct pollfd fd = {c->fd, POLLIN, 0};
    ssize_t n;
    int ready;

    if (od_buf_reserve(&c->in, READ_SIZE, NULL) != OD_OK)
        return false;
    do
        ready = poll(&fd, 1, od_deadline_poll_ms(deadline));
    while (ready < 0 && errno == EINTR);
    if (ready <= 0)
        return false;
    do
        n = recv(c->fd, c->in.data + c->in.len, c->in.cap - c->in.len, 0);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return false;
    c->in.len += (size_t)n;
    return true;
}

static bool write_all(const connection *c, const od_buf *out)
{
    const od_deadline deadline = od_deadline_in_ms(ANSWER_MS);
    size_t done = 0;

    while (done < out->len) {
        struct pollfd fd = {c->fd, POLLOUT, 0};
        ssize_t n = send(c->fd, out->data + done, out->len - done, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n > 0) {
            done += (size_t)n;
            continue;
        }
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        if (od_deadline_passed(deadline) || poll(&fd, 1, od_deadline_poll_ms(deadline)) == 0)
            return false;
    }
    return true;
}

static bool tell_refused(const connection *c, int status)
{
    od_buf out = {0};

    if (od_http_refuse(status, &out, NULL) == OD_OK)
        (void)write_all(c, &out);
    od_buf_release(&out);
    return false;
}

static bool respond(connection *c, od_http_head *head)
{
    const od_slice body = od_slice_of(c->in.data + head->len, head->content_length);
    bool health = is(head->path, "/health");
    char *path = od_strndup((const char *)head->path.data, head->path.len);
    const od_http_route route = {.path = path,
                                 .methods = health ? OD_HTTP_GET : OD_HTTP_POST,
                                 .open = health,
                                 .handle = health ? tell_health : call_method,
                                 .arg = (void *)(uintptr_t)c->site};
    const od_http_server_options options = {
        .listen = c->site->address, .token = &c->site->token, .routes = &route, .route_count = 1};
    od_buf out = {0};
    bool ok;

    if (health && is(head->method, "OPTIONS")) /* as clients ask what there is */
        head->method = od_slice_str("GET");
    ok = path != NULL && od_http_answer(&options, head, body, head->keep_alive, &out, NULL) == OD_OK &&
         write_all(c, &out);

    od_free(path);
    od_buf_release(&out);
    return ok && head->keep_alive;
}

static bool put_continue(const connection *c, const od_http_head *head)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    const od_buf out = {(uint8_t *)(uintptr_t)text, sizeof text - 1, 0};

    return !od_http_head_has(head, "expect", "100-continue") || write_all(c, &out);
}

/* One request, answered. False: there is no other. */
static bool serve_one(connection *c)
{
    od_deadline deadline = od_deadline_in_ms(c->in.len > 0 ? REQUEST_MS : IDLE_MS);
    od_http_head head;
    int status;
    bool more, begun = c->in.len > 0;

    while ((status = od_http_parse(od_slice_of(c->in.data, c->in.len), VGIW_MAX_BODY, &head)) == 0) {
        if (!read_more(c, deadline))
            return false;
        if (!begun)
            deadline = od_deadline_in_ms(REQUEST_MS);
        begun = true;
    }
    if (status != 200)
        return tell_refused(c, status);
    if (c->in.len < head.len + head.content_length && !put_continue(c, &head))
        return false;
    while (c->in.len < head.len + head.content_length) {
        if (!read_more(c, deadline))
            return false;
        /* What the head borrows may have moved. */
        if (od_http_parse(od_slice_of(c->in.data, c->in.len), VGIW_MAX_BODY, &head) != 200)
            return false;
    }
    more = respond(c, &head);
    c->in.len -= head.len + head.content_length;
    if (c->in.data != NULL && c->in.len > 0)
        memmove(c->in.data, c->in.data + head.len + head.content_length, c->in.len);
    return more;
}

static void serve(void *arg, int fd)
{
    connection c = {.site = arg, .fd = fd};

    while (serve_one(&c))
        if (c.in.len == 0)
            od_buf_release(&c.in);
    od_buf_release(&c.in);
}

od_vgiw_code od_vgiw_serve_http(od_vgiw *worker, const char *address, const od_vgiw_listen *options, od_vgiw_error *err)
{
    const od_vgiw_listen defaults = {0}, *o = options != NULL ? options : &defaults;
    site s = {.worker = worker, .address = address};
    vgiw_connections connections = {.worker = worker, .max = o->max_connections, .serve = serve, .arg = &s};
    od_error why = {.code = OD_OK};
    char location[300];
    uint16_t port;
    od_code rc;

    OD_TRY(o->token != NULL ? od_secret_set(&s.token, od_slice_str(o->token), &why) : OD_OK);
    OD_TRY(vgiw_scans_create(&s.scans, &why));
    OD_TRY(od_http_listen(address, &connections.listener, &port, &why));
    snprintf(location, sizeof location, "http://%.*s:%u", (int)(strrchr(address, ':') - address), address, port);
    if (o->ready != NULL)
        o->ready(o->arg, location);
    rc = vgiw_connections_run(&connections, &why);
out:
    vgiw_shelf_free(s.scans);
    od_secret_release(&s.token);
    return rc == OD_OK ? OD_VGIW_OK : vgiw_fail(err, &why);
}
