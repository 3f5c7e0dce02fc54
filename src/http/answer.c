#include "http/answer.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "base/banned.h"

typedef struct {
    const char *content_type;
    od_slice extra; /* more header lines, each with its CRLF */
    bool keep, head_only;
} shape;

static const char *reason(int status)
{
    static const struct {
        int status;
        const char *text;
    } texts[] = {{200, "OK"},
                 {202, "Accepted"},
                 {400, "Bad Request"},
                 {401, "Unauthorized"},
                 {403, "Forbidden"},
                 {404, "Not Found"},
                 {405, "Method Not Allowed"},
                 {413, "Content Too Large"},
                 {414, "URI Too Long"},
                 {415, "Unsupported Media Type"},
                 {417, "Expectation Failed"},
                 {421, "Misdirected Request"},
                 {431, "Request Header Fields Too Large"},
                 {500, "Internal Server Error"},
                 {501, "Not Implemented"},
                 {503, "Service Unavailable"},
                 {505, "HTTP Version Not Supported"}};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (texts[i].status == status)
            return texts[i].text;
    }
    return "Unknown";
}

static od_code put(int status, const shape *s, od_slice body, od_buf *out, od_error *err)
{
    od_code rc =
        od_buf_printf(out, err,
                      "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: %s\r\n"
                      "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n%.*s\r\n",
                      status, reason(status), s->content_type ? s->content_type : "text/plain; charset=utf-8", body.len,
                      s->keep ? "keep-alive" : "close", (int)s->extra.len, (const char *)s->extra.data);

    return rc == OD_OK && !s->head_only ? od_buf_append(out, body.data, body.len, err) : rc;
}

/* A response that says its own status. */
static od_code put_status(int status, shape s, od_buf *out, od_error *err)
{
    od_buf text = {0};
    od_code rc;

    OD_TRY(od_buf_printf(&text, err, "%d %s\n", status, reason(status)));
    OD_TRY(put(status, &s, od_slice_of(text.data, text.len), out, err));

out:
    od_buf_release(&text);
    return rc;
}

od_code od_http_refuse(int status, od_buf *out, od_error *err)
{
    return put_status(status, (shape){0}, out, err);
}

/* ---- who may ask ---- */

/* "Bearer TOKEN". */
static bool token_passes(const od_secret *token, const od_http_head *head)
{
    static const char scheme[] = "bearer ";
    od_slice given = od_http_head_value(head, "authorization");
    size_t len = sizeof scheme - 1;

    if (given.len <= len || strncasecmp((const char *)given.data, scheme, len) != 0)
        return false;
    return od_secret_equal(token, od_slice_of(given.data + len, given.len - len));
}

/* Whether HOST is the one of LISTEN, "HOST:PORT". */
static bool is_own(const char *host, const char *listen)
{
    const char *colon = strrchr(listen, ':');
    size_t len = colon ? (size_t)(colon - listen) : 0;

    return len > 0 && strlen(host) == len && strncasecmp(host, listen, len) == 0;
}

/* Whether Host is an address, or this host's own name for itself. None at all is HTTP/1.0's. */
static bool host_passes(const od_http_head *head, const char *listen)
{
    od_slice value = od_http_head_value(head, "host");
    struct in6_addr address;
    char host[256];
    char *colon;

    if (value.len == 0)
        return true;
    if (value.len >= sizeof host)
        return false;
    memcpy(host, value.data, value.len);
    host[value.len] = '\0';
    if (host[0] == '[') {
        char *end = strchr(host, ']');

        if (!end)
            return false;
        *end = '\0';
        return inet_pton(AF_INET6, host + 1, &address) == 1;
    }
    colon = strchr(host, ':');
    if (colon)
        *colon = '\0';
    return strcasecmp(host, "localhost") == 0 || is_own(host, listen) || inet_pton(AF_INET, host, &address) == 1;
}

/* ---- routes ---- */

static unsigned method_of(const od_http_head *head)
{
    if (od_slice_equal(head->method, od_slice_str("GET")) || od_slice_equal(head->method, od_slice_str("HEAD")))
        return OD_HTTP_GET;
    return od_slice_equal(head->method, od_slice_str("POST")) ? OD_HTTP_POST : 0;
}

static const od_http_route *find(const od_http_server_options *options, od_slice path)
{
    for (size_t i = 0; i < options->route_count; i++) {
        if (od_slice_equal(path, od_slice_str(options->routes[i].path)))
            return &options->routes[i];
    }
    return NULL;
}

static od_code handle(const od_http_route *route, const od_http_request *request, shape s, od_buf *out, od_error *err)
{
    od_http_response response = {.status = 200};
    od_code rc;

    route->handle(route->arg, request, &response);
    s.content_type = response.content_type;
    s.extra = od_slice_of(response.headers.data, response.headers.len);
    rc = put(response.status, &s, od_slice_of(response.body.data, response.body.len), out, err);
    od_buf_release(&response.headers);
    od_buf_release(&response.body);
    return rc;
}

od_code od_http_answer(const od_http_server_options *options, const od_http_head *head, od_slice body, bool keep,
                       od_buf *out, od_error *err)
{
    const od_http_route *route = find(options, head->path);
    const od_http_request request = {head, method_of(head), body};
    bool secured = options->token && options->token->len > 0;
    shape s = {.keep = keep, .head_only = od_slice_equal(head->method, od_slice_str("HEAD"))};

    if (!secured && !host_passes(head, options->listen))
        return put_status(421, s, out, err);
    if (!route)
        return put_status(404, s, out, err);
    if (secured && !route->open && !token_passes(options->token, head)) {
        s.extra = od_slice_str("WWW-Authenticate: Bearer realm=\"openduck\"\r\n");
        return put_status(401, s, out, err);
    }
    if (!(route->methods & request.method)) {
        s.extra = od_slice_str(route->methods == OD_HTTP_GET    ? "Allow: GET, HEAD\r\n"
                               : route->methods == OD_HTTP_POST ? "Allow: POST\r\n"
                                                                : "Allow: GET, HEAD, POST\r\n");
        return put_status(405, s, out, err);
    }
    return handle(route, &request, s, out, err);
}
