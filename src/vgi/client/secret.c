/* Secrets of a secret service. */
#include <string.h>
#include <strings.h>

#include "vgi/client/client_internal.h"
#include "vgi/client/decode.h"

#include "base/banned.h"

enum { KEEP_SECONDS = 300, KEEP_NOTHING_SECONDS = 30 };

/* Its version is its own; the generations differ in how it is reached. */
static const od_vgi_dialect dialects[] = {
    {.version = "1.0.0", .protocol = "vgi.secret.v1", .paths = true, .nulls = true},
    {.version = "1.0.0"},
};

bool od_vgi_secret_url_is_safe(const char *url)
{
    static const char *const here[] = {"127.0.0.1", "localhost", "[::1]"};
    const char *host;
    size_t len;

    if (strncasecmp(url, "https://", 8) == 0)
        return url[8] != '\0' && url[8] != '/';
    if (strncasecmp(url, "http://", 7) != 0)
        return false;
    host = url + 7;
    len = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?#@");
    for (size_t i = 0; i < sizeof here / sizeof here[0]; i++)
        if (len == strlen(here[i]) && strncasecmp(host, here[i], len) == 0)
            return strchr(":/", host[len]) != NULL && memchr(host, '@', strcspn(host, "/?#")) == NULL;
    return false;
}

static od_code read_secret(od_vgi_answer *answer, const od_record *record, void *item, od_error *err)
{
    od_vgi_secret *out = item;
    od_code rc;

    OD_TRY(od_cell_bool(od_vgi_cell(record, "found"), &out->found, err));
    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "secret_type"), &out->secret_type, err));
    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "provider"), &out->provider, err));
    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "name"), &out->name, err));
    OD_TRY(od_vgi_answer_texts(answer, od_vgi_cell(record, "scope"), &out->scope, err));
    OD_TRY(od_vgi_answer_texts(answer, od_vgi_cell(record, "redact_keys"), &out->redact_keys, err));
    OD_TRY(od_vgi_answer_alloc(answer, 1, sizeof *out->values, (void *)&out->values, err));
    OD_TRY(od_vgi_answer_values(answer, od_vgi_cell(record, "values"), out->values, err));
    OD_TRY(od_cell_int(od_vgi_cell(record, "ttl_seconds"), &out->ttl_seconds, err));
    OD_TRY(od_cell_int(od_vgi_cell(record, "expires_at_unix"), &out->expires_at_unix, err));
out:
    return rc;
}

od_code od_vgi_decode_secret(od_slice bytes, od_vgi_secret *out, od_error *err)
{
    return od_vgi_decode_one(bytes, read_secret, sizeof *out, &out->answer, out, err);
}

static od_code ask(od_vgi *service, const od_vgi_dialect *dialect, od_vgi_interrupt interrupt, const char *path,
                   const char *type, od_buf *answer, od_error *err)
{
    od_row *row = NULL;
    od_code rc;

    OD_TRY(od_row_create(&row, err));
    od_row_text(row, "path", OD_ROW_NOT_NULL, od_slice_str(path));
    od_row_text(row, "type", OD_ROW_NOT_NULL, od_slice_str(type));
    OD_TRY(od_vgi_call_as(service, dialect, interrupt, "secret_lookup", row, answer, err));
out:
    od_row_free(row);
    return rc;
}

od_code od_vgi_lookup_secret(od_vgi *service, od_vgi_interrupt interrupt, const char *path, const char *type,
                             od_vgi_secret *out, od_error *err)
{
    const od_vgi_dialect *known = atomic_load(&service->dialect);
    od_buf answer = {0};
    od_code rc = OD_E_PROTOCOL;

    *out = (od_vgi_secret){0};
    for (size_t i = 0; i < sizeof dialects / sizeof dialects[0] && rc == OD_E_PROTOCOL; i++) {
        if (known != NULL && known != &dialects[i])
            continue;
        answer.len = 0;
        rc = ask(service, &dialects[i], interrupt, path, type, &answer, err);
        if (rc == OD_OK)
            atomic_store(&service->dialect, &dialects[i]);
    }
    if (rc == OD_OK)
        rc = od_vgi_decode_secret(od_slice_of(answer.data, answer.len), out, err);
    if (answer.data != NULL)
        explicit_bzero(answer.data, answer.cap);
    od_buf_release(&answer);
    if (rc != OD_OK)
        od_error_prefix(err, "vgi secret_lookup");
    return rc;
}

int64_t od_vgi_secret_keep_seconds(const od_vgi_secret *secret, int64_t now)
{
    int64_t keep = secret->ttl_seconds > 0 ? secret->ttl_seconds : KEEP_SECONDS;

    if (secret->expires_at_unix > 0 && secret->expires_at_unix - now < keep)
        keep = secret->expires_at_unix - now;
    if (!secret->found && keep > KEEP_NOTHING_SECONDS)
        keep = KEEP_NOTHING_SECONDS;
    return keep > 0 ? keep : 0;
}
