#include "cli/layouts.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/ident.h"
#include "cli/vgi_source.h"
#include "vgi/layout.h"
#include "base/banned.h"

static od_code ask(od_engine *engine, const char *database, od_buf *sql, char *out, size_t size, od_error *err)
{
    if (od_buf_cstr(sql) == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    return vgi_source_ask(engine, database, od_buf_cstr(sql), out, size, err);
}

/* Whether the database has what NAME says, and WHERE (NULL: none) is a condition over it, with SPLIT in it. */
static od_code try_source(od_engine *engine, const char *database, const od_layout_name *name, const char *where,
                          const char *split, od_error *err)
{
    od_buf sql = {0};
    char ignored[8];
    od_code rc;

    OD_TRY(od_buf_printf(&sql, err, "SELECT '' AS answer FROM "));
    OD_TRY(od_quote_ident(&sql, od_slice_str(od_layout_schema(name)), err));
    OD_TRY(od_buf_printf(&sql, err, "."));
    OD_TRY(od_quote_ident(&sql, od_slice_str(od_layout_table_name(name)), err));
    if (where != NULL) {
        OD_TRY(od_buf_printf(&sql, err, " WHERE ("));
        OD_TRY(od_layout_condition(where, split, &sql, err));
        OD_TRY(od_buf_printf(&sql, err, "\n)"));
    }
    OD_TRY(od_buf_printf(&sql, err, " LIMIT 0"));
    OD_TRY(ask(engine, database, &sql, ignored, sizeof ignored, err));
out:
    od_buf_release(&sql);
    return rc;
}

static od_code try_split(od_engine *engine, const char *database, const od_layout_table *table, char *out, size_t size,
                         od_error *err)
{
    od_buf sql = {0};
    od_code rc;

    out[0] = '\0';
    if (table->split == NULL)
        return OD_OK;
    OD_TRY(od_layout_split_query(table, &sql, err));
    OD_TRY(ask(engine, database, &sql, out, size, err));
    if (out[0] == '\0')
        OD_TRY(od_fail(err, OD_E_INVALID, "it is NULL, which divides nothing: coalesce() gives it a value"));
out:
    od_buf_release(&sql);
    if (rc != OD_OK)
        od_error_prefix(err, "line %u: the split of table '%s'", table->line, od_layout_table_name(&table->name));
    return rc;
}

/* Tries the branches of TABLE that are the database's. Its columns come from the database's table of its name, or from the first of those. */
static od_code try_table(od_engine *engine, const char *database, const od_layout_table *table, od_error *err)
{
    char split[1024];
    size_t own = 0;
    od_code rc;

    OD_TRY(try_split(engine, database, table, split, sizeof split, err));
    for (size_t i = 0; i < OD_LAYOUT_COUNT(table->branches, od_layout_branch); i++) {
        const od_layout_branch *branch = OD_LAYOUT_AT(table->branches, od_layout_branch, i);

        if (branch->format != NULL || branch->from.count == 3)
            continue;
        own++;
        rc = try_source(engine, database, &branch->from, branch->where, split, err);
        if (rc != OD_OK)
            od_error_prefix(err, "line %u", branch->line);
        OD_TRY(rc);
    }
    if (own > 0 || try_source(engine, database, &table->name, NULL, split, NULL) == OD_OK)
        return OD_OK;
    rc = od_fail(err, OD_E_INVALID,
                 "line %u: the database has no table '%s', and no branch that is a table of it gives columns",
                 table->line, od_layout_table_name(&table->name));
out:
    return rc;
}

static od_code check(const od_layout *layout, od_engine *engine, const char *database, od_error *err)
{
    od_code rc = od_layout_check(layout, err);

    if (rc == OD_OK &&
        (layout->comment != NULL || layout->default_schema != NULL || layout->secret_service != NULL || layout->listed))
        rc = od_fail(err, OD_E_INVALID, "[catalog] is for vgi-serve alone");
    for (size_t i = 0; rc == OD_OK && engine != NULL && i < OD_LAYOUT_COUNT(layout->tables, od_layout_table); i++)
        rc = try_table(engine, database, OD_LAYOUT_AT(layout->tables, od_layout_table, i), err);
    return rc;
}

static od_code open_one(const od_option_pair *pair, od_engine *engine, od_gateway_layout *out, od_error *err)
{
    od_layout layout = {0};
    od_buf bytes = {0};
    char *name = od_strdup(pair->name);
    od_code rc = name != NULL ? OD_OK : od_fail(err, OD_E_NO_MEMORY, "out of memory for layouts");

    OD_TRY(rc);
    if (engine != NULL && !od_engine_has_database(engine, od_slice_str(pair->name)))
        OD_TRY(od_fail(err, OD_E_INVALID, "--layout: no database '%s' is served", pair->name));
    OD_TRY(od_layout_read(pair->value, &layout, err));
    rc = check(&layout, engine, pair->name, err);
    if (rc != OD_OK)
        od_error_prefix(err, "%s", pair->value);
    OD_TRY(rc);
    OD_TRY(od_layout_encode(&layout, &bytes, err));
    *out = (od_gateway_layout){name, od_slice_of(bytes.data, bytes.len)};
    bytes = (od_buf){0};
    name = NULL;
out:
    od_free(name);
    od_buf_release(&bytes);
    od_layout_release(&layout);
    return rc;
}

od_code layouts_open(const od_options *options, od_engine *engine, layout_list *out, od_error *err)
{
    size_t count;
    const od_option_pair *pairs = od_options_pairs(options, OD_OPT_LAYOUT, &count);
    od_code rc = OD_OK;

    out->items = od_calloc(count + 1, sizeof *out->items);
    if (out->items == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for layouts");
    for (size_t i = 0; i < count && rc == OD_OK; i++) {
        rc = open_one(&pairs[i], engine, &out->items[i], err);
        out->count += rc == OD_OK;
    }
    return rc;
}

void layouts_close(layout_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        od_free((void *)(uintptr_t)list->items[i].database);
        od_free((void *)(uintptr_t)list->items[i].layout.data);
    }
    od_free(list->items);
}
