#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "vgi/client/client_internal.h"

#include "base/banned.h"

#define ARROW_TYPE "application/vnd.apache.arrow.stream"

enum { SHOWN = 200 };

/* What an answer that is no Arrow says, as far as it is text. */
static void shorten(const od_fetched *answer, char out[SHOWN])
{
    size_t n = 0;

    for (size_t i = 0; i < answer->body.len && n < SHOWN - 1; i++) {
        uint8_t c = answer->body.data[i];

        out[n++] = ' ';
        if (c >= ' ' && c < 0x7f)
            memcpy(out + n - 1, &c, 1);
    }
    out[n] = '\0';
}

static od_code judge(const od_vgi *vgi, const od_fetched *answer, od_error *err)
{
    bool arrow = strncasecmp(answer->type, ARROW_TYPE, strlen(ARROW_TYPE)) == 0;
    char text[SHOWN];

    /* While it is not known what the worker speaks: this is not it. */
    if (answer->status == 404 && (!arrow || atomic_load(&vgi->dialect) == NULL))
        return od_fail(err, OD_E_PROTOCOL, "there is no such worker at '%s' (status 404)", vgi->location.target);
    if (arrow)
        return OD_OK;
    shorten(answer, text);
    if (answer->status == 401)
        return od_fail(err, OD_E_UNAUTHENTICATED, "the worker at '%s' asks for another bearer token (status 401): %s",
                       vgi->location.target, text);
    if (answer->status == 403)
        return od_fail(err, OD_E_PERMISSION, "the worker at '%s' refuses this (status 403): %s", vgi->location.target,
                       text);
    if (answer->status == 502 || answer->status == 503 || answer->status == 504)
        return od_fail(err, OD_E_UNAVAILABLE, "the worker at '%s' is not there (status %d): %s", vgi->location.target,
                       answer->status, text);
    return od_fail(err, OD_E_PROTOCOL, "what is at '%s' does not answer as a worker (status %d): %s",
                   vgi->location.target, answer->status, text);
}

static od_code make_header(const od_vgi *vgi, od_buf *out, od_error *err)
{
    if (vgi->token.value == NULL)
        return OD_OK;
    for (size_t i = 0; i < vgi->token.len; i++)
        if ((unsigned char)vgi->token.value[i] < ' ')
            return od_fail(err, OD_E_INVALID, "a bearer token with control characters in it");
    return od_buf_printf(out, err, "Authorization: Bearer %s", vgi->token.value);
}

static void wipe(od_buf *buf)
{
    if (buf->data != NULL)
        explicit_bzero(buf->data, buf->cap);
    od_buf_release(buf);
}

od_code od_vgi_post(od_vgi *vgi, const od_vgi_dialect *dialect, const char *path, od_slice body,
                    od_vgi_interrupt interrupt, od_fetched *out, od_error *err)
{
    od_buf url = {0}, token = {0};
    od_code rc;

    *out = (od_fetched){0};
    OD_TRY(od_buf_printf(&url, err, "%s/%s%s%s", vgi->location.target,
                         dialect->protocol != NULL ? dialect->protocol : "", dialect->protocol != NULL ? "/" : "",
                         path));
    OD_TRY(make_header(vgi, &token, err));
    od_fetch fetch = {.method = "POST",
                      .url = od_buf_cstr(&url),
                      .headers = {"Content-Type: " ARROW_TYPE, "Expect:", token.len > 0 ? od_buf_cstr(&token) : NULL},
                      .body = body,
                      .timeout_ms = vgi->options.call_timeout_ms > 0 ? vgi->options.call_timeout_ms : 0,
                      .max_answer = OD_VGI_MAX_BODY,
                      .decode = true,
                      .stop = interrupt.stopped,
                      .stop_arg = interrupt.arg};
    if (fetch.url == NULL || (token.len > 0 && fetch.headers[2] == NULL))
        OD_TRY(od_fail(err, OD_E_NO_MEMORY, "out of memory"));
    rc = od_fetch_run(vgi->fetcher, &fetch, out, err);
    if (rc != OD_OK)
        od_error_prefix(err, "the worker at '%s'", vgi->location.target);
    if (rc == OD_OK)
        rc = judge(vgi, out, err);
    if (rc != OD_OK)
        od_fetched_release(out);
out:
    od_buf_release(&url);
    wipe(&token);
    return rc;
}
