#include "query/federation.h"

#include "base/alloc.h"
#include "query/gateway/tables.h"
#include "base/banned.h"

/* ---- what a provider may ask ---- */

static const table_ref *ref_of(const od_federation_request *request, size_t i)
{
    const table_refs *refs = request->tables;

    return refs && i < refs->count ? &refs->refs[i] : NULL;
}

size_t od_federation_table_count(const od_federation_request *request)
{
    const table_refs *refs = request->tables;

    return refs ? refs->count : 0;
}

const char *od_federation_table(const od_federation_request *request, size_t i)
{
    const table_ref *ref = ref_of(request, i);
    const char *longest = "";

    for (size_t k = 0; ref && k < ref->count; k++) {
        if (strlen(ref->forms[k]) > strlen(longest))
            longest = ref->forms[k];
    }
    return longest;
}

bool od_federation_table_is(const od_federation_request *request, size_t i, const char *pattern)
{
    const table_ref *ref = ref_of(request, i);

    return ref && table_pattern_means(pattern, ref);
}

/* ---- rules ---- */

typedef struct {
    char *text; /* the rule; what follows points into it */
    const char *pattern;
    char *targets; /* each ends with a NUL; the last one is empty */
} route;

struct od_routes {
    route *rules;
    size_t count;
};

#define CONTEXT_WORD "context:"

static od_code read_rule(const char *rule, route *out, od_error *err)
{
    const char *equals = strchr(rule, '=');
    size_t len = strlen(rule);

    if (!equals || equals == rule || !equals[1])
        return od_fail(err, OD_E_INVALID, "'%s' is no route: PATTERN=WORKER|WORKER... is", rule);
    if (memchr(rule, '*', (size_t)(equals - rule) - 1))
        return od_fail(err, OD_E_INVALID, "'%s' is no route: a '*' ends its pattern", rule);
    out->text = od_alloc(len + 2);
    if (!out->text)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for routes");
    memcpy(out->text, rule, len + 1);
    out->text[len + 1] = '\0';
    out->text[equals - rule] = '\0';
    out->pattern = out->text;
    out->targets = out->text + (equals - rule) + 1;
    for (char *at = out->targets; *at; at++) {
        if (*at != '|')
            continue;
        if (at == out->targets || !at[1] || at[1] == '|')
            return od_fail(err, OD_E_INVALID, "'%s' is no route: a target is empty", rule);
        *at = '\0';
        at++;
    }
    return OD_OK;
}

od_code od_routes_create(const char *const *rules, size_t count, od_routes **out, od_error *err)
{
    od_routes *routes = od_calloc(1, sizeof *routes);
    od_code rc = OD_OK;

    *out = NULL;
    if (routes)
        routes->rules = od_calloc(count + 1, sizeof *routes->rules);
    if (!routes || !routes->rules) {
        rc = od_fail(err, OD_E_NO_MEMORY, "out of memory for routes");
        goto out;
    }
    for (size_t i = 0; i < count; i++) {
        routes->count++;
        OD_TRY(read_rule(rules[i], &routes->rules[i], err));
    }
    *out = routes;
    routes = NULL;

out:
    od_routes_free(routes);
    return rc;
}

void od_routes_free(od_routes *routes)
{
    if (!routes)
        return;
    for (size_t i = 0; i < routes->count; i++)
        od_free(routes->rules[i].text);
    od_free(routes->rules);
    od_free(routes);
}

static bool leads_to(const route *rule, const od_federation_worker *worker)
{
    const size_t word = sizeof CONTEXT_WORD - 1;

    for (const char *target = rule->targets; *target; target += strlen(target) + 1) {
        if (strncmp(target, CONTEXT_WORD, word) == 0 ? strcmp(target + word, worker->compute_context) == 0
                                                     : strcmp(target, worker->worker_id) == 0)
            return true;
    }
    return false;
}

static int rank_by_rules(void *arg, const od_federation_request *request, const od_federation_worker *worker)
{
    const od_routes *routes = arg;
    int rank = 0;

    for (size_t i = 0; i < od_federation_table_count(request); i++) {
        for (size_t k = 0; k < routes->count; k++) {
            if (!od_federation_table_is(request, i, routes->rules[k].pattern))
                continue;
            rank += leads_to(&routes->rules[k], worker);
            break;
        }
    }
    return rank;
}

od_federation_provider od_routes_provider(od_routes *routes)
{
    return (od_federation_provider){
        .name = "routes", .reads = OD_TABLES_TO_PREFER, .rank = rank_by_rules, .arg = routes};
}
