/* What is added to a worker, checked and copied. */
#include <string.h>
#include <strings.h>

#include "arrow/schema.h"
#include "base/alloc.h"
#include "vgi/wire.h"
#include "vgi/worker/worker_internal.h"

#include "base/banned.h"

static od_code no_memory(od_error *err)
{
    return od_fail(err, OD_E_NO_MEMORY, "out of memory");
}

/* ---- companions, schemas ---- */

static od_code keep_companion(const od_vgiw_companion *from, vgiw_companion *to, od_error *err)
{
    od_code rc;

    to->hidden = from->hidden != 0;
    to->required = from->optional == 0;
    OD_TRY(vgiw_keep(from->alias, &to->alias, err));
    OD_TRY(vgiw_keep(from->target, &to->target, err));
    OD_TRY(vgiw_keep(from->db_type, &to->db_type, err));
    OD_TRY(vgiw_keep(from->secret_ref, &to->secret_ref, err));
    to->options = od_calloc(from->option_count + 1, sizeof *to->options);
    if (to->options == NULL)
        return no_memory(err);
    for (size_t i = 0; i < from->option_count; i++) {
        to->option_count = i + 1;
        to->options[i].key = od_strdup(from->options[i].key != NULL ? from->options[i].key : "");
        to->options[i].value = od_strdup(from->options[i].value != NULL ? from->options[i].value : "");
        if (to->options[i].key == NULL || to->options[i].value == NULL)
            return no_memory(err);
    }
out:
    return rc;
}

od_vgiw_code od_vgiw_add_companion(od_vgiw *worker, const od_vgiw_companion *companion, od_vgiw_error *err)
{
    const vgiw_companion *all = worker->companions.items;
    vgiw_companion copy = {0};
    od_error why = {.code = OD_OK};
    od_code rc;

    if (vgiw_is_absent(companion->alias) || vgiw_is_absent(companion->target))
        OD_TRY(od_fail(&why, OD_E_INVALID, "a companion needs an alias and a target"));
    for (size_t i = 0; i < worker->companions.count; i++)
        if (strcasecmp(all[i].alias, companion->alias) == 0)
            OD_TRY(od_fail(&why, OD_E_EXISTS, "there are two companions '%s'", companion->alias));
    OD_TRY(keep_companion(companion, &copy, &why));
    OD_TRY(vgiw_append(&worker->companions, &copy, sizeof copy, &why));
    return OD_VGIW_OK;
out:
    vgiw_companion_release(&copy);
    return vgiw_fail(err, &why);
}

od_vgiw_code od_vgiw_add_schema(od_vgiw *worker, const char *name, const char *comment, od_vgiw_error *err)
{
    vgiw_schema copy = {0};
    od_error why = {.code = OD_OK};
    od_code rc;

    if (vgiw_is_absent(name))
        OD_TRY(od_fail(&why, OD_E_INVALID, "a schema needs a name"));
    if (vgiw_find_schema(worker, name) != NULL)
        OD_TRY(od_fail(&why, OD_E_EXISTS, "there are two schemas '%s'", name));
    OD_TRY(vgiw_keep(name, &copy.name, &why));
    OD_TRY(vgiw_keep(comment, &copy.comment, &why));
    OD_TRY(vgiw_append(&worker->schemas, &copy, sizeof copy, &why));
    return OD_VGIW_OK;
out:
    vgiw_schema_release(&copy);
    return vgiw_fail(err, &why);
}

/* ---- functions ---- */

static od_code check_function(const od_vgiw_function *f, od_error *err)
{
    bool rows_in = f->kind != OD_VGIW_TABLE, rows_out = f->kind == OD_VGIW_TABLE || f->kind == OD_VGIW_BUFFERED;

    if (vgiw_is_absent(f->name))
        return od_fail(err, OD_E_INVALID, "a function needs a name");
    if (f->bind == NULL || f->open == NULL || f->close == NULL || (rows_out && f->next == NULL) ||
        (rows_in && f->put == NULL))
        return od_fail(err, OD_E_INVALID, "function '%s' lacks bind, open, %s or close", f->name,
                       !rows_in   ? "next"
                       : rows_out ? "put, next"
                                  : "put");
    if ((f->share != NULL) != (f->unshare != NULL))
        return od_fail(err, OD_E_INVALID, "function '%s' has one of share and unshare", f->name);
    if (rows_in && (f->projection || f->filters || f->streams > 1 || f->share != NULL))
        return od_fail(err, OD_E_INVALID, "function '%s' takes rows, so it has no projection, filters or streams",
                       f->name);
    return OD_OK;
}

static od_code keep_needs(const od_vgiw *worker, const od_vgiw_function *from, vgiw_function *to, od_error *err)
{
    od_code rc;

    to->call.secret_count = 0;
    for (size_t i = 0; i < from->setting_count; i++)
        if (vgiw_find_setting(&worker->settings, from->settings[i]) == NULL)
            return od_fail(err, OD_E_NOT_FOUND, "function '%s' needs the setting '%s', which is not there", from->name,
                           from->settings[i]);
    OD_TRY(vgiw_keep_all(from->settings, from->setting_count, &to->settings.items, &to->settings.count, err));
    to->secrets = od_calloc(from->secret_count + 1, sizeof *to->secrets);
    if (to->secrets == NULL)
        return no_memory(err);
    for (size_t i = 0; i < from->secret_count; i++) {
        const char *const texts[] = {from->secrets[i].type, from->secrets[i].scope, from->secrets[i].name};

        if (vgiw_is_absent(texts[0]))
            return od_fail(err, OD_E_INVALID, "function '%s' needs a secret without a type", from->name);
        to->call.secret_count = i + 1;
        OD_TRY(vgiw_keep_all(texts, 3, &to->secrets[i].items, &to->secrets[i].count, err));
    }
out:
    return rc;
}

/* Whether a call could mean either. */
static bool same_call(const vgiw_function *a, const vgiw_function *b)
{
    return strcasecmp(a->name, b->name) == 0 && strcasecmp(a->schema, b->schema) == 0 && a->call.kind == b->call.kind &&
           od_schema_same(&a->parameters, &b->parameters);
}

static od_code check_new(const od_vgiw *worker, const vgiw_function *function, od_error *err)
{
    const vgiw_function *all = worker->functions.items;

    for (size_t i = 0; i < worker->functions.count; i++)
        if (same_call(&all[i], function))
            return od_fail(err, OD_E_EXISTS, "there are two functions '%s' of the same parameters in schema '%s'",
                           function->name, function->schema);
    return OD_OK;
}

od_vgiw_code od_vgiw_add_function(od_vgiw *worker, const od_vgiw_function *function, od_vgiw_error *err)
{
    vgiw_function copy = {.call = *function};
    od_error why = {.code = OD_OK};
    od_code rc;

    copy.call.secret_count = 0;
    OD_TRY(check_function(function, &why));
    OD_TRY(vgiw_resolve_schema(worker, function->schema, &copy.schema, &why));
    OD_TRY(vgiw_keep(function->name, &copy.name, &why));
    OD_TRY(vgiw_keep(function->comment, &copy.comment, &why));
    if (function->parameters != NULL) {
        OD_TRY(vgiw_check_struct(function->parameters, "function", function->name, &why));
        OD_TRY(od_schema_copy(function->parameters, &copy.parameters, &why));
    } else {
        OD_TRY(od_schema_make(&copy.parameters, "", "+s", 0, &why));
    }
    OD_TRY(keep_needs(worker, function, &copy, &why));
    OD_TRY(check_new(worker, &copy, &why));
    OD_TRY(vgiw_append(&worker->functions, &copy, sizeof copy, &why));
    return OD_VGIW_OK;
out:
    vgiw_function_release(&copy);
    return vgiw_fail(err, &why);
}

/* ---- tables ---- */

static od_code keep_branch(const od_vgiw_branch *from, vgiw_branch *to, od_error *err)
{
    od_code rc;

    if (vgiw_is_absent(from->source_table) && vgiw_is_absent(from->format) && vgiw_is_absent(from->function))
        return od_fail(err, OD_E_INVALID, "a branch is a table, files of a format, or a function");
    if (vgiw_is_absent(from->source_table) && !vgiw_is_absent(from->format) && from->location_count == 0)
        return od_fail(err, OD_E_INVALID, "a branch of files has no location");
    OD_TRY(vgiw_keep(from->source_table, &to->source_table, err));
    OD_TRY(vgiw_keep(from->source_catalog, &to->source_catalog, err));
    OD_TRY(vgiw_keep(from->source_schema, &to->source_schema, err));
    OD_TRY(vgiw_keep(from->format, &to->format, err));
    OD_TRY(vgiw_keep(from->function, &to->function, err));
    OD_TRY(vgiw_keep(from->function_schema, &to->function_schema, err));
    OD_TRY(vgiw_keep(from->filter, &to->filter, err));
    OD_TRY(vgiw_keep_all(from->locations, from->location_count, &to->locations, &to->location_count, err));
    OD_TRY(vgiw_keep_values(&from->arguments, &to->arguments, err));
    OD_TRY(vgiw_keep_values(&from->format_options, &to->format_options, err));
    to->writable = from->writable != 0;
out:
    return rc;
}

static od_code keep_columns(const od_vgiw_columns *from, int64_t limit, vgiw_columns *to, od_error *err)
{
    to->items = od_calloc(from->count + 1, sizeof *to->items);
    if (to->items == NULL)
        return no_memory(err);
    for (size_t i = 0; i < from->count; i++) {
        if (from->columns[i] < 0 || from->columns[i] >= limit)
            return od_fail(err, OD_E_INVALID, "a constraint is on column %d of %lld", from->columns[i],
                           (long long)limit);
        to->items[i] = from->columns[i];
    }
    to->count = from->count;
    return OD_OK;
}

static od_code keep_constraints(const od_vgiw_table *from, vgiw_table *to, od_error *err)
{
    const int64_t limit = from->columns->n_children;
    od_code rc;

    if (from->primary_key != NULL)
        OD_TRY(keep_columns(from->primary_key, limit, &to->primary_key, err));
    to->unique = od_calloc(from->unique_count + 1, sizeof *to->unique);
    to->required_filters = od_calloc(from->required_filter_count + 1, sizeof *to->required_filters);
    if (to->unique == NULL || to->required_filters == NULL)
        return no_memory(err);
    to->unique_count = from->unique_count;
    for (size_t i = 0; i < from->unique_count; i++)
        OD_TRY(keep_columns(&from->unique[i], limit, &to->unique[i], err));
    OD_TRY(vgiw_keep_all(from->checks, from->check_count, &to->checks.items, &to->checks.count, err));
    to->required_filter_count = from->required_filter_count;
    for (size_t i = 0; i < from->required_filter_count; i++) {
        vgiw_texts *out = &to->required_filters[i];

        if (from->required_filters[i].count == 0)
            return od_fail(err, OD_E_INVALID, "a filter is required on no column");
        OD_TRY(vgiw_keep_all(from->required_filters[i].columns, from->required_filters[i].count, &out->items,
                             &out->count, err));
    }
out:
    return rc;
}

static od_code keep_statistics(const od_vgiw_table *from, vgiw_table *to, od_error *err)
{
    size_t n = (size_t)from->columns->n_children;

    if (from->statistics_count == 0)
        return OD_OK;
    to->statistics = od_calloc(n + 1, sizeof *to->statistics);
    if (to->statistics == NULL)
        return no_memory(err);
    for (size_t i = 0; i < n; i++)
        to->statistics[i].distinct_count = -1;
    for (size_t k = 0; k < from->statistics_count; k++) {
        size_t i = 0;

        while (i < n && strcasecmp(from->columns->children[i]->name, from->statistics[k].column) != 0)
            i++;
        if (i == n)
            return od_fail(err, OD_E_NOT_FOUND, "statistics are of column '%s', which is not there",
                           from->statistics[k].column);
        to->statistics[i] = from->statistics[k];
        to->statistics[i].column = NULL; /* its place says it */
    }
    return OD_OK;
}

static od_code keep_table(const od_vgiw_table *from, vgiw_table *to, od_error *err)
{
    size_t writable = 0;
    od_code rc;

    OD_TRY(vgiw_check_struct(from->columns, "table", from->name, err));
    if (from->branch_count == 0)
        OD_TRY(od_fail(err, OD_E_INVALID, "table '%s' has no branch", from->name));
    OD_TRY(vgiw_keep(from->name, &to->name, err));
    OD_TRY(vgiw_keep(from->comment, &to->comment, err));
    OD_TRY(od_schema_copy(from->columns, &to->columns, err));
    to->branches = od_calloc(from->branch_count, sizeof *to->branches);
    if (to->branches == NULL)
        return no_memory(err);
    to->branch_count = from->branch_count;
    for (size_t i = 0; i < from->branch_count; i++) {
        OD_TRY(keep_branch(&from->branches[i], &to->branches[i], err));
        writable += to->branches[i].writable;
    }
    if (writable > 1)
        OD_TRY(od_fail(err, OD_E_INVALID, "%zu branches are writable: rows go to one", writable));
    OD_TRY(vgiw_keep_all(from->required_extensions, from->extension_count, &to->extensions, &to->extension_count, err));
    OD_TRY(keep_constraints(from, to, err));
    OD_TRY(keep_statistics(from, to, err));
    OD_TRY(vgiw_keep(from->insert, &to->insert, err));
    to->row_count = from->row_count;
    to->at = from->at;
    to->unlisted = from->unlisted != 0;
    to->filters = from->filters;
    to->arg = from->arg;
out:
    return rc;
}

od_vgiw_code od_vgiw_add_table(od_vgiw *worker, const od_vgiw_table *table, od_vgiw_error *err)
{
    vgiw_table copy = {0};
    od_error why = {.code = OD_OK};
    od_code rc;

    if (vgiw_is_absent(table->name))
        OD_TRY(od_fail(&why, OD_E_INVALID, "a table needs a name"));
    OD_TRY(vgiw_resolve_schema(worker, table->schema, &copy.schema, &why));
    if (vgiw_find_table(worker, copy.schema, table->name) != NULL)
        OD_TRY(od_fail(&why, OD_E_EXISTS, "there are two tables '%s' in schema '%s'", table->name, copy.schema));
    rc = keep_table(table, &copy, &why);
    if (rc != OD_OK)
        od_error_prefix(&why, "table '%s'", table->name);
    if (rc == OD_OK)
        rc = vgiw_append(&worker->tables, &copy, sizeof copy, &why);
    if (rc == OD_OK) {
        worker->has_past = worker->has_past || table->at != NULL;
        return OD_VGIW_OK;
    }
out:
    vgiw_table_release(&copy);
    return vgiw_fail(err, &why);
}
