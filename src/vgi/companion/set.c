/* The companions of one catalog: taken together, and given back together. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "vgi/companion.h"
#include "vgi/companion/registry_internal.h"

struct od_companion_set {
    od_companion_registry *registry;
    size_t count;
    od_companion *companions[];
};

static const char *text_of(const char *text)
{
    return text ? text : "";
}

/* What one entry of the manifest came to. */
typedef struct {
    od_companion *companion; /* NULL: skipped */
    od_companion_outcome outcome;
    od_buf shown;
} entry_result;

static void report_skipped(const od_companion_host *host, const od_companion_wish *wish, od_buf *shown,
                           const od_error *why)
{
    const char *target = od_buf_cstr(shown);
    od_companion_field fields[] = {
        {"alias", text_of(wish->alias)}, {"target", text_of(target)}, {"reason", why->message}};

    host->event(host->arg, "vgi.companion_attach.skipped", fields, 3);
}

static void report_attached(const od_companion_host *host, const od_companion_wish *wish, entry_result *result)
{
    const char *target = od_buf_cstr(&result->shown);
    od_companion_field fields[] = {{"alias", text_of(wish->alias)},
                                   {"target", text_of(target)},
                                   {"shared", result->outcome == OD_COMPANION_SHARED ? "true" : "false"}};

    host->event(host->arg, "vgi.companion_attach", fields, 3);
}

static void report_secret_skipped(const od_companion_host *host, const od_companion_wish *wish)
{
    od_companion_field fields[] = {{"secret_ref", text_of(wish->secret_ref)},
                                   {"reason", "attach_companion_secrets is not true"}};

    host->event(host->arg, "vgi.companion_secret.skipped", fields, 2);
}

/* Takes REQUEST. A failure is prefixed with whose companion it is. */
static od_code acquire(od_companion_registry *registry, const od_companion_host *host, const od_companion_wish *wish,
                       const od_companion_terms *terms, od_companion_request *request, entry_result *result,
                       od_error *err)
{
    od_buf holder = {0};
    od_error cause = {0};
    od_code rc = OD_OK;

    if (request->secret && (rc = host->secret(host->arg, request->secret, &cause)) != OD_OK)
        od_companion_request_release(request);
    else
        rc = od_companion_acquire(registry, host, request, &result->companion, &result->outcome, &holder, &cause);
    if (rc == OD_OK && result->outcome == OD_COMPANION_CONFLICT) {
        const char *text = od_buf_cstr(&holder);

        rc = od_fail(&cause, OD_E_BINDER, "alias already in use by %s (not replaced)", text_of(text));
    }
    od_buf_release(&holder);
    if (rc == OD_OK || rc == OD_E_CANCELLED) {
        if (rc != OD_OK)
            *err = cause;
        return rc;
    }
    const char *target = od_buf_cstr(&result->shown);
    return od_fail(err, OD_E_BINDER, "%s catalog '%s' could not attach %scompanion '%s' (target '%s'): %s",
                   family_of(terms), text_of(terms->catalog), wish->required ? "required " : "", text_of(wish->alias),
                   text_of(target), cause.message);
}

/* One entry; OD_OK with no companion if it was skipped. */
static od_code attach_one(od_companion_registry *registry, const od_companion_host *host, const od_companion_wish *wish,
                          const od_companion_terms *terms, entry_result *result, od_error *err)
{
    od_companion_request request = {0};
    od_error cause = {0};
    od_code rc;

    rc = od_companion_redact(&result->shown, text_of(wish->target), err);
    if (rc != OD_OK)
        return rc;
    rc = od_companion_request_make(wish, terms, &request, &cause);
    if (rc == OD_OK) {
        if (request.secret_skipped)
            report_secret_skipped(host, wish);
        rc = acquire(registry, host, wish, terms, &request, result, &cause);
    }
    if (rc == OD_OK) {
        report_attached(host, wish, result);
        return OD_OK;
    }
    if (wish->required || rc == OD_E_CANCELLED || rc == OD_E_NO_MEMORY) {
        if (err)
            *err = cause;
        return rc;
    }
    report_skipped(host, wish, &result->shown, &cause);
    return OD_OK;
}

od_code od_companion_set_attach(od_companion_registry *registry, const od_companion_host *host,
                                const od_companion_wish *wishes, size_t count, const od_companion_terms *terms,
                                od_companion_set **out, od_error *err)
{
    od_companion_set *set = NULL;
    od_code rc = OD_OK;

    *out = NULL;
    if (count > OD_COMPANION_MAX)
        return od_fail(err, OD_E_BINDER, "%s catalog '%s' advertised %zu companions; %d are allowed", family_of(terms),
                       text_of(terms->catalog), count, OD_COMPANION_MAX);
    set = od_calloc(1, sizeof(*set) + count * sizeof(set->companions[0]));
    if (!set)
        return od_fail(err, OD_E_NO_MEMORY, "no memory for companions");
    set->registry = registry;
    for (size_t i = 0; i < count && rc == OD_OK; i++) {
        entry_result result = {0};

        rc = attach_one(registry, host, &wishes[i], terms, &result, err);
        od_buf_release(&result.shown);
        if (rc == OD_OK && result.companion)
            set->companions[set->count++] = result.companion;
    }
    if (rc != OD_OK) {
        od_companion_set_release(set, host);
        return rc;
    }
    *out = set;
    return OD_OK;
}

static void give_back(od_companion_set *set, const od_companion_host *host, od_companion *companion)
{
    od_error err = {0};
    bool detached = false;
    /* The record may be gone afterwards. */
    char *alias = od_strdup(od_companion_alias(companion));
    od_code rc = od_companion_give_back(set->registry, host, companion, &detached, &err);
    od_companion_field fields[] = {{"alias", text_of(alias)}, {"error", err.message}};

    if (rc != OD_OK)
        host->event(host->arg, "vgi.companion_detach.failed", fields, 2);
    else if (detached)
        host->event(host->arg, "vgi.companion_detach", fields, 1);
    od_free(alias);
}

void od_companion_set_release(od_companion_set *set, const od_companion_host *host)
{
    if (!set)
        return;
    /* The last one first: it may depend on those before. */
    while (set->count > 0)
        give_back(set, host, set->companions[--set->count]);
    od_free(set);
}

void od_companion_set_abandon(od_companion_set *set)
{
    if (!set)
        return;
    while (set->count > 0)
        od_companion_forget(set->registry, set->companions[--set->count]);
    od_free(set);
}
