#include "query/console.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "query/console/form.h"
#include "query/console/guard.h"
#include "query/console/page.h"
#include "query/console/sampler.h"
#include "query/console/session.h"
#include "query/console/view.h"
#include "base/banned.h"

enum { TOKEN_MAX = 4096, BODY_MAX = 3 * TOKEN_MAX + 64, ROUTES = 7 };

struct od_console {
    od_gateway *gateway;
    sampler *sampler;
    od_http_server *http;
    bool covered; /* what passes is encrypted */
    od_http_route routes[PAGE_FILES + ROUTES];
    /* the server's thread's own */
    sessions sessions;
    od_gateway_failure failures[OD_GATEWAY_FAILURES];
    int64_t refused_ns; /* when it was logged last that a token was wrong */
};

/* ---- answers ---- */

static const char SECURITY[] =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src "
    "'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'\r\n"
    "X-Frame-Options: DENY\r\nReferrer-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\nPermissions-Policy: geolocation=(), camera=(), microphone=()\r\n";

/* Nothing of the answer can be made: memory is out. */
static void give_up(od_http_response *response)
{
    od_buf_release(&response->body);
    od_buf_release(&response->headers);
    response->status = 503;
}

static void finish(od_http_response *response, od_code rc)
{
    od_error err;

    response->content_type = "application/json";
    if (rc != OD_OK || od_buf_append(&response->headers, SECURITY, sizeof SECURITY - 1, &err) != OD_OK)
        give_up(response);
}

static void answer(od_http_response *response, int status, const char *key, const char *text)
{
    od_error err;
    od_json json = {.out = &response->body, .err = &err};

    response->status = status;
    od_json_put(&json, "{");
    od_json_field(&json, key, text);
    od_json_put(&json, "}");
    finish(response, json.rc);
}

/* ---- who ---- */

typedef struct {
    bool known;
    session *session; /* NULL: a program with the token */
} caller;

/* Whether TOKEN is one of an administrator; its rights are then *out, with a reference, else NULL. */
static bool rights_of(od_console *c, od_slice token, od_rights **out)
{
    od_error err;

    *out = NULL;
    if (od_gateway_rights(c->gateway, token, out, &err) != OD_OK)
        return false;
    if (od_rights_admin(*out))
        return true;
    od_rights_unref(*out);
    *out = NULL;
    return false;
}

static bool needs_token(od_console *c)
{
    od_rights *all;
    bool open = rights_of(c, od_slice_of("", 0), &all);

    od_rights_unref(all);
    return !open;
}

static caller identify(od_console *c, const od_http_request *request)
{
    caller who = {0};
    od_rights *rights;
    od_slice token;

    if (guard_authorization(request->head, &token)) {
        who.known = rights_of(c, token, &rights);
        od_rights_unref(rights);
        return who;
    }
    who.session = sessions_find(&c->sessions, guard_cookie(request->head), od_clock_ns());
    who.known = who.session != NULL;
    return who;
}

/* Whether REQUEST may be answered, by what it CHANGES something or not; else it has been. */
static bool admit(od_console *c, const od_http_request *request, bool changes, od_http_response *response)
{
    caller who = identify(c, request);
    od_slice shown = od_http_head_value(request->head, "x-openduck-csrf");

    if (!who.known) {
        answer(response, 401, "error", "sign in");
        return false;
    }
    if (!changes || !who.session)
        return true;
    if (guard_same_origin(request->head) && od_slice_equal(shown, od_slice_str(who.session->csrf)))
        return true;
    answer(response, 403, "error", "the request is not of this page");
    return false;
}

/* ---- signing in and out ---- */

static void get_session(void *arg, const od_http_request *request, od_http_response *response)
{
    od_console *c = arg;
    caller who = identify(c, request);
    od_error err;
    od_json json = {.out = &response->body, .err = &err};

    od_json_put(&json, "{\"signed_in\":%s,\"token_needed\":%s,", who.known ? "true" : "false",
                needs_token(c) ? "true" : "false");
    od_json_field(&json, "csrf", who.session ? who.session->csrf : "");
    od_json_put(&json, "}");
    finish(response, json.rc);
}

/* One line a second at most: whoever guesses shall not fill the disk. */
static void log_refusal(od_console *c)
{
    int64_t now = od_clock_ns();

    if (c->refused_ns != 0 && now - c->refused_ns < INT64_C(1000000000))
        return;
    c->refused_ns = now;
    od_log(OD_LOG_WARN, "console", "a wrong token was tried", "path=/login");
}

static od_code set_cookie(const od_console *c, const od_http_request *request, const char *id, int seconds,
                          od_http_response *response)
{
    char name[GUARD_COOKIE_NAME];
    od_error err;

    guard_cookie_name(request->head, name);
    return od_buf_printf(&response->headers, &err,
                         "Set-Cookie: %s=%s; Path=/; Max-Age=%d; HttpOnly; SameSite=Strict%s\r\n", name, id, seconds,
                         c->covered ? "; Secure" : "");
}

static void login(void *arg, const od_http_request *request, od_http_response *response)
{
    od_console *c = arg;
    char token[TOKEN_MAX], id[SESSION_ID_SIZE];
    od_rights *rights;
    bool passes;
    od_error err;
    od_code rc;

    if (!guard_same_origin(request->head)) {
        answer(response, 403, "error", "the request is not of this page");
        return;
    }
    if (!form_value(request->body, "token", token, sizeof token))
        token[0] = '\0';
    passes = rights_of(c, od_slice_str(token), &rights);
    explicit_bzero(token, sizeof token);
    if (!passes) {
        log_refusal(c);
        answer(response, 401, "error", "this is no token of an administrator");
        return;
    }
    rc = sessions_begin(&c->sessions, rights, od_clock_ns(), id, &err);
    od_rights_unref(rights);
    if (rc == OD_OK)
        rc = set_cookie(c, request, id, SESSION_LIFE_S, response);
    explicit_bzero(id, sizeof id);
    if (rc == OD_OK)
        answer(response, 200, "signed_in", "yes");
    else
        give_up(response);
}

static void logout(void *arg, const od_http_request *request, od_http_response *response)
{
    od_console *c = arg;
    caller who = identify(c, request);

    if (!admit(c, request, true, response))
        return;
    if (who.session)
        sessions_end(who.session);
    if (set_cookie(c, request, "", 0, response) == OD_OK)
        answer(response, 200, "signed_in", "no");
    else
        give_up(response);
}

/* ---- what is shown ---- */

static od_code show_status(void *arg, const od_status *status, od_error *err)
{
    return view_status(status, arg, err);
}

static void get_status(void *arg, const od_http_request *request, od_http_response *response)
{
    od_console *c = arg;
    od_error err;

    if (admit(c, request, false, response))
        finish(response, od_gateway_status(c->gateway, NULL, show_status, &response->body, &err));
}

static void get_failures(void *arg, const od_http_request *request, od_http_response *response)
{
    od_console *c = arg;
    od_error err;

    if (admit(c, request, false, response))
        finish(response,
               view_failures(c->failures, od_gateway_failures(c->gateway, c->failures), &response->body, &err));
}

static void get_series(void *arg, const od_http_request *request, od_http_response *response)
{
    od_console *c = arg;
    char since[24];
    od_error err;

    if (!admit(c, request, false, response))
        return;
    if (!form_value(request->head->query, "since", since, sizeof since))
        since[0] = '\0';
    finish(response, sampler_write(c->sampler, strtoull(since, NULL, 10), &response->body, &err));
}

static void cancel(void *arg, const od_http_request *request, od_http_response *response)
{
    od_console *c = arg;
    char id[OD_EXECUTION_ID_SIZE], quoted[2 * OD_EXECUTION_ID_SIZE];
    bool found;

    if (!admit(c, request, true, response))
        return;
    if (!form_value(request->body, "execution", id, sizeof id)) {
        answer(response, 400, "error", "name an execution");
        return;
    }
    found = od_gateway_cancel(c->gateway, id, "the execution was cancelled at the console");
    if (found)
        od_log(OD_LOG_INFO, "console", "execution cancelled", "exec=%s", od_log_quote(id, quoted, sizeof quoted));
    answer(response, 200, "cancelled", found ? "yes" : "no");
}

static void get_page(void *arg, const od_http_request *request, od_http_response *response)
{
    const page_file *file = arg;
    od_error err;

    (void)request;
    finish(response, od_buf_append(&response->body, file->data, file->len, &err));
    response->content_type = file->content_type;
}

/* ---- begin and end ---- */

static void fill_routes(od_console *c)
{
    const od_http_route own[ROUTES] = {
        {.path = "/login", .methods = OD_HTTP_POST, .handle = login},
        {.path = "/logout", .methods = OD_HTTP_POST, .handle = logout},
        {.path = "/api/session", .methods = OD_HTTP_GET, .handle = get_session},
        {.path = "/api/status", .methods = OD_HTTP_GET, .handle = get_status},
        {.path = "/api/series", .methods = OD_HTTP_GET, .handle = get_series},
        {.path = "/api/failures", .methods = OD_HTTP_GET, .handle = get_failures},
        {.path = "/api/cancel", .methods = OD_HTTP_POST, .handle = cancel},
    };

    for (size_t i = 0; i < ROUTES; i++) {
        c->routes[i] = own[i];
        c->routes[i].arg = c;
    }
    for (size_t i = 0; i < PAGE_FILES; i++)
        c->routes[ROUTES + i] = (od_http_route){.path = page_files[i].path,
                                                .methods = OD_HTTP_GET,
                                                .handle = get_page,
                                                .arg = (void *)(uintptr_t)&page_files[i]};
}

od_code od_console_start(const od_console_options *options, od_console **out, od_error *err)
{
    od_console *c = NULL;
    od_http_server_options http = {.listen = options->listen, .max_body = BODY_MAX, .cover = options->cover};
    od_code rc;

    *out = NULL;
    c = od_calloc(1, sizeof *c);
    if (!c)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for the console");
    c->gateway = options->gateway;
    c->covered = options->cover != NULL;
    if (!needs_token(c) && !od_listen_is_loopback(options->listen))
        OD_TRY(od_listen_check(options->listen, NULL, err));
    OD_TRY(sampler_create(options->metrics, &c->sampler, err));
    OD_TRY(sampler_start(c->sampler, err));
    fill_routes(c);
    http.routes = c->routes;
    http.route_count = PAGE_FILES + ROUTES;
    OD_TRY(od_http_server_start(&http, &c->http, err));
    *out = c;
    c = NULL;

out:
    od_console_free(c);
    return rc;
}

uint16_t od_console_port(const od_console *console)
{
    return od_http_server_port(console->http);
}

void od_console_free(od_console *console)
{
    if (!console)
        return;
    od_http_server_free(console->http);
    sampler_free(console->sampler);
    sessions_release(&console->sessions);
    od_free(console);
}
