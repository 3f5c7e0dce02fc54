#include "query/gateway/failures.h"

#include <string.h>

#include "base/deadline.h"
#include "base/utf8.h"
#include "query/gateway/flow.h"
#include "base/banned.h"

/* As much of TEXT's first LEN bytes as is UTF-8 and has room. */
static void copy_text(char *out, size_t size, const char *text, size_t len)
{
    size_t at = 0;

    while (at < len) {
        size_t n = od_utf8_len((const uint8_t *)text + at, len - at);

        if (n == 0 || at + n >= size)
            break;
        at += n;
    }
    if (at > 0)
        memcpy(out, text, at);
    out[at] = '\0';
}

void failures_add(failures *f, const od_rpc_call *call, const od_rights *rights, const char *execution_id,
                  od_slice database, const od_error *why)
{
    const char *client = od_rpc_call_peer(call), *user = od_rights_name(rights), *path = od_rpc_call_path(call);
    const char *method = strrchr(path, '/');
    od_gateway_failure *row;

    method = method ? method + 1 : path;
    pthread_mutex_lock(&f->lock);
    row = &f->ring[f->at];
    f->at = (f->at + 1) % OD_GATEWAY_FAILURES;
    f->count += f->count < OD_GATEWAY_FAILURES;
    *row = (od_gateway_failure){.unix_ms = od_wall_us() / 1000, .code = why->code, .kind = why->kind};
    copy_text(row->call, sizeof row->call, method, strlen(method));
    copy_text(row->execution_id, sizeof row->execution_id, execution_id, strlen(execution_id));
    copy_text(row->database, sizeof row->database, (const char *)database.data, database.len);
    copy_text(row->client, sizeof row->client, client, strlen(client));
    copy_text(row->user, sizeof row->user, user, strlen(user));
    copy_text(row->sqlstate, sizeof row->sqlstate, why->sqlstate, strlen(why->sqlstate));
    copy_text(row->message, sizeof row->message, why->message, strcspn(why->message, "\n"));
    pthread_mutex_unlock(&f->lock);
}

size_t od_gateway_failures(od_gateway *gateway, od_gateway_failure out[OD_GATEWAY_FAILURES])
{
    failures *f = &gateway->failures;
    size_t count;

    pthread_mutex_lock(&f->lock);
    count = f->count;
    for (size_t i = 0; i < count; i++)
        out[i] = f->ring[(f->at + OD_GATEWAY_FAILURES - 1 - i) % OD_GATEWAY_FAILURES];
    pthread_mutex_unlock(&f->lock);
    return count;
}
