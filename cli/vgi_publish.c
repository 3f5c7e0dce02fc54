#include "cli/vgi_publish.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/ident.h"
#include "base/banned.h"

/* A table whose branches' filters are asked for. */
typedef struct {
    od_engine *engine;
    const od_layout_table *table;
} division;

struct vgi_publish {
    od_engine *engine;
    const od_layout *layout;
    vgi_sources sources;
    od_vgiw *worker;
    division *divisions; /* one for each table of the layout */
};

od_code vgi_publish_failed(od_vgiw_code code, const od_vgiw_error *why, od_error *err)
{
    static const od_code codes[] = {
        [OD_VGIW_INVALID] = OD_E_INVALID, [OD_VGIW_NOT_FOUND] = OD_E_NOT_FOUND, [OD_VGIW_EXISTS] = OD_E_EXISTS,
        [OD_VGIW_IO] = OD_E_IO,           [OD_VGIW_NO_MEMORY] = OD_E_NO_MEMORY, [OD_VGIW_PROTOCOL] = OD_E_PROTOCOL,
        [OD_VGIW_FAILED] = OD_E_UNKNOWN,
    };

    return code == OD_VGIW_OK ? OD_OK : od_fail(err, codes[code], "%s", why->message);
}

static const char *default_schema(const vgi_publish *p)
{
    return p->layout->default_schema != NULL ? p->layout->default_schema : "main";
}

/* ---- the division of rows ---- */

/* What divides the rows of TABLE. */
static od_code ask_split(od_engine *engine, const od_layout_table *table, char *out, size_t size, od_error *err)
{
    od_buf sql = {0};
    od_code rc;

    OD_TRY(od_layout_split_query(table, &sql, err));
    if (od_buf_cstr(&sql) == NULL)
        OD_TRY(od_fail(err, OD_E_NO_MEMORY, "out of memory"));
    OD_TRY(vgi_source_ask(engine, NULL, od_buf_cstr(&sql), out, size, err));
    if (out[0] == '\0')
        OD_TRY(od_fail(err, OD_E_INVALID, "it is NULL, which divides nothing: coalesce() gives it a value"));
    if (strlen(out) + 1 >= size)
        OD_TRY(od_fail(err, OD_E_INVALID, "its value is too long"));
out:
    od_buf_release(&sql);
    if (rc != OD_OK)
        od_error_prefix(err, "the split of table '%s'", table->name.parts[table->name.count - 1]);
    return rc;
}

static od_code fill_filters(const division *d, char *const *out, size_t size, od_error *err)
{
    char split[1024] = "";
    od_buf text = {0};
    od_code rc = OD_OK;

    if (d->table->split != NULL)
        OD_TRY(ask_split(d->engine, d->table, split, sizeof split, err));
    for (size_t i = 0; i < OD_LAYOUT_COUNT(d->table->branches, od_layout_branch); i++) {
        text.len = 0;
        OD_TRY(od_layout_condition(OD_LAYOUT_AT(d->table->branches, od_layout_branch, i)->where, split, &text, err));
        if (text.len >= size)
            OD_TRY(od_fail(err, OD_E_INVALID, "a condition is too long"));
        memcpy(out[i], text.data != NULL ? (const char *)text.data : "", text.len);
        out[i][text.len] = '\0';
    }
out:
    od_buf_release(&text);
    return rc;
}

static od_vgiw_code tell_filters(void *arg, char *const *out, size_t size, od_vgiw_error *err)
{
    od_error why = {.code = OD_OK};

    if (fill_filters(arg, out, size, &why) == OD_OK)
        return OD_VGIW_OK;
    err->code = OD_VGIW_FAILED;
    snprintf(err->message, sizeof err->message, "%s", why.message);
    return OD_VGIW_FAILED;
}

/* ---- tables ---- */

static const vgi_source *find_source(const vgi_publish *p, const od_layout_name *name)
{
    return vgi_sources_find(&p->sources, name->count > 1 ? name->parts[0] : default_schema(p),
                            name->parts[name->count - 1]);
}

/* Whether FILTER is a condition over SOURCE. */
static od_code check_filter(const vgi_source *source, const char *filter, od_error *err)
{
    od_buf sql = {0};
    char ignored[8];
    od_code rc;

    OD_TRY(od_buf_printf(&sql, err, "SELECT '' AS answer FROM "));
    OD_TRY(od_quote_ident(&sql, od_slice_str(source->schema), err));
    OD_TRY(od_buf_printf(&sql, err, "."));
    OD_TRY(od_quote_ident(&sql, od_slice_str(source->name), err));
    OD_TRY(od_buf_printf(&sql, err, " WHERE (%s\n) LIMIT 0", filter));
    if (od_buf_cstr(&sql) == NULL)
        OD_TRY(od_fail(err, OD_E_NO_MEMORY, "out of memory"));
    OD_TRY(vgi_source_ask(source->engine, NULL, od_buf_cstr(&sql), ignored, sizeof ignored, err));
out:
    od_buf_release(&sql);
    return rc;
}

static od_code make_branch(const vgi_publish *p, const od_layout_branch *from, od_vgiw_branch *to, od_error *err)
{
    const od_layout_name *name = &from->from;
    const vgi_source *source;

    if (from->format != NULL) {
        to->format = from->format;
        to->locations = (const char *const *)(void *)from->locations.data;
        to->location_count = OD_LAYOUT_COUNT(from->locations, char *);
        return OD_OK;
    }
    if (name->count == 3) {
        if (!od_layout_has_companion(p->layout, name->parts[0]))
            return od_fail(err, OD_E_INVALID, "line %u: there is no companion '%s'", from->line, name->parts[0]);
        to->source_catalog = name->parts[0];
        to->source_schema = name->parts[1];
        to->source_table = name->parts[2];
        return OD_OK;
    }
    source = find_source(p, name);
    if (source == NULL)
        return od_fail(err, OD_E_INVALID, "line %u: the database has no table '%s'", from->line,
                       name->parts[name->count - 1]);
    to->function = source->name;
    to->function_schema = source->schema;
    return OD_OK;
}

/* Tries the conditions as they are now. */
static od_code check_filters(const vgi_publish *p, const division *d, od_error *err)
{
    size_t n = OD_LAYOUT_COUNT(d->table->branches, od_layout_branch);
    enum { ROOM = 65536 };
    char **texts = od_calloc(n + 1, sizeof *texts), *room = od_calloc(n + 1, ROOM);
    od_code rc = OD_OK;

    if (texts == NULL || room == NULL)
        OD_TRY(od_fail(err, OD_E_NO_MEMORY, "out of memory"));
    for (size_t i = 0; i < n; i++)
        texts[i] = room + i * ROOM;
    OD_TRY(fill_filters(d, texts, ROOM, err));
    for (size_t i = 0; i < n; i++) {
        const od_layout_branch *branch = OD_LAYOUT_AT(d->table->branches, od_layout_branch, i);

        if (branch->format != NULL || branch->from.count == 3 || texts[i][0] == '\0')
            continue;
        rc = check_filter(find_source(p, &branch->from), texts[i], err);
        if (rc != OD_OK)
            od_error_prefix(err, "line %u", branch->line);
        OD_TRY(rc);
    }
out:
    od_free((void *)texts);
    od_free(room);
    return rc;
}

/* The source whose columns the table has: of its own name, or of the first branch that is of this database. */
static const vgi_source *columns_of(const vgi_publish *p, const od_layout_table *table)
{
    const vgi_source *found = find_source(p, &table->name);

    for (size_t i = 0; found == NULL && i < OD_LAYOUT_COUNT(table->branches, od_layout_branch); i++) {
        const od_layout_branch *branch = OD_LAYOUT_AT(table->branches, od_layout_branch, i);

        if (branch->format == NULL && branch->from.count < 3)
            found = find_source(p, &branch->from);
    }
    return found;
}

static od_code add_table(vgi_publish *p, const vgi_source *columns, const od_vgiw_table *table, od_error *err)
{
    od_vgiw_error why = {.code = OD_VGIW_OK};
    od_vgiw_branch one = {.function = columns->name, .function_schema = columns->schema};
    od_vgiw_table whole = *table;

    whole.columns = &columns->columns;
    if (whole.comment == NULL)
        whole.comment = columns->comment;
    if (whole.branch_count == 0) {
        whole.branches = &one;
        whole.branch_count = 1;
        whole.filters = NULL;
    }
    return vgi_publish_failed(od_vgiw_add_table(p->worker, &whole, &why), &why, err);
}

static od_code add_listed(vgi_publish *p, size_t at, od_error *err)
{
    const od_layout_table *table = OD_LAYOUT_AT(p->layout->tables, od_layout_table, at);
    const vgi_source *columns = columns_of(p, table);
    size_t n = OD_LAYOUT_COUNT(table->branches, od_layout_branch);
    od_vgiw_branch *branches = od_calloc(n + 1, sizeof *branches);
    od_vgiw_table made = {.schema = table->name.count > 1 ? table->name.parts[0] : default_schema(p),
                          .name = table->name.parts[table->name.count - 1],
                          .comment = table->comment,
                          .branches = branches,
                          .branch_count = n,
                          .required_extensions = (const char *const *)(void *)table->extensions.data,
                          .extension_count = OD_LAYOUT_COUNT(table->extensions, char *),
                          .filters = tell_filters,
                          .arg = &p->divisions[at]};
    od_code rc = OD_OK;

    if (branches == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    p->divisions[at] = (division){p->engine, table};
    if (columns == NULL)
        OD_TRY(od_fail(err, OD_E_INVALID,
                       "line %u: the database has no table '%s', and no branch that is a table of it gives columns",
                       table->line, made.name));
    for (size_t i = 0; i < n; i++)
        OD_TRY(make_branch(p, OD_LAYOUT_AT(table->branches, od_layout_branch, i), &branches[i], err));
    OD_TRY(check_filters(p, &p->divisions[at], err));
    OD_TRY(add_table(p, columns, &made, err));
out:
    od_free(branches);
    return rc;
}

static bool is_listed(const vgi_publish *p, const vgi_source *source)
{
    for (size_t i = 0; i < OD_LAYOUT_COUNT(p->layout->tables, od_layout_table); i++)
        if (find_source(p, &OD_LAYOUT_AT(p->layout->tables, od_layout_table, i)->name) == source)
            return true;
    return false;
}

/* Whether a table that is served has a branch that is SOURCE. */
static bool is_used(const vgi_publish *p, const vgi_source *source)
{
    for (size_t i = 0; i < OD_LAYOUT_COUNT(p->layout->tables, od_layout_table); i++) {
        const od_layout_table *table = OD_LAYOUT_AT(p->layout->tables, od_layout_table, i);

        if (table->branches.len == 0 && find_source(p, &table->name) == source)
            return true;
        for (size_t k = 0; k < OD_LAYOUT_COUNT(table->branches, od_layout_branch); k++) {
            const od_layout_branch *branch = OD_LAYOUT_AT(table->branches, od_layout_branch, k);

            if (branch->format == NULL && branch->from.count < 3 && find_source(p, &branch->from) == source)
                return true;
        }
    }
    return false;
}

static od_code add_schema(vgi_publish *p, const char *name, od_error *err)
{
    od_vgiw_error why = {.code = OD_VGIW_OK};
    od_vgiw_code code = od_vgiw_add_schema(p->worker, name, NULL, &why);

    return code == OD_VGIW_EXISTS ? OD_OK : vgi_publish_failed(code, &why, err);
}

static od_code add_sources(vgi_publish *p, od_error *err)
{
    od_vgiw_error why = {.code = OD_VGIW_OK};
    const od_vgiw_table plain = {.branch_count = 0};
    od_code rc = OD_OK;

    for (size_t i = 0; i < p->sources.count; i++) {
        const vgi_source *source = p->sources.items[i];
        od_vgiw_table table = plain;

        if (p->layout->listed && !is_used(p, source))
            continue;
        OD_TRY(add_schema(p, source->schema, err));
        OD_TRY(vgi_publish_failed(vgi_source_publish(source, p->worker, &why), &why, err));
        if (p->layout->listed || is_listed(p, source))
            continue;
        table.schema = source->schema;
        table.name = source->name;
        OD_TRY(add_table(p, source, &table, err));
    }
    for (size_t i = 0; i < OD_LAYOUT_COUNT(p->layout->tables, od_layout_table); i++) {
        const od_layout_name *name = &OD_LAYOUT_AT(p->layout->tables, od_layout_table, i)->name;

        if (name->count > 1)
            OD_TRY(add_schema(p, name->parts[0], err));
        OD_TRY(add_listed(p, i, err));
    }
out:
    return rc;
}

/* ---- the whole ---- */

static od_code add_companion(vgi_publish *p, const od_layout_companion *from, od_error *err)
{
    size_t n = OD_LAYOUT_COUNT(from->options, od_layout_option);
    od_vgiw_pair *options = od_calloc(n + 1, sizeof *options);
    const od_vgiw_companion companion = {.alias = from->alias,
                                         .target = from->target,
                                         .db_type = from->type,
                                         .options = options,
                                         .option_count = n,
                                         .secret_ref = from->secret,
                                         .hidden = from->hidden,
                                         .optional = from->optional};
    od_vgiw_error why = {.code = OD_VGIW_OK};
    od_code rc;

    if (options == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const od_layout_option *option = OD_LAYOUT_AT(from->options, od_layout_option, i);

        options[i] = (od_vgiw_pair){option->name, option->value};
    }
    rc = vgi_publish_failed(od_vgiw_add_companion(p->worker, &companion, &why), &why, err);
    od_free(options);
    return rc;
}

od_code vgi_publish_open(od_engine *engine, const char *catalog, const od_layout *layout, vgi_publish **out,
                         od_error *err)
{
    const od_vgiw_catalog made = {.name = catalog,
                                  .comment = layout->comment,
                                  .default_schema = layout->default_schema,
                                  .secret_service = layout->secret_service};
    vgi_publish *p = od_calloc(1, sizeof *p);
    od_vgiw_error why = {.code = OD_VGIW_OK};
    od_code rc;

    *out = NULL;
    if (p == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    p->engine = engine;
    p->layout = layout;
    p->divisions = od_calloc(OD_LAYOUT_COUNT(layout->tables, od_layout_table) + 1, sizeof *p->divisions);
    if (p->divisions == NULL)
        OD_TRY(od_fail(err, OD_E_NO_MEMORY, "out of memory"));
    OD_TRY(vgi_sources_open(engine, &p->sources, err));
    OD_TRY(vgi_publish_failed(od_vgiw_create(&made, &p->worker, &why), &why, err));
    for (size_t i = 0; i < OD_LAYOUT_COUNT(layout->companions, od_layout_companion); i++)
        OD_TRY(add_companion(p, OD_LAYOUT_AT(layout->companions, od_layout_companion, i), err));
    OD_TRY(add_sources(p, err));
    *out = p;
    p = NULL;
out:
    vgi_publish_close(p);
    return rc;
}

void vgi_publish_close(vgi_publish *publish)
{
    if (publish == NULL)
        return;
    od_vgiw_free(publish->worker);
    vgi_sources_close(&publish->sources);
    od_free(publish->divisions);
    od_free(publish);
}

od_vgiw *vgi_publish_worker(const vgi_publish *publish)
{
    return publish->worker;
}
