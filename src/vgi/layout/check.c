/* What can be seen of a layout without its database. */
#include "vgi/layout.h"

#include <stdio.h>
#include <strings.h>

#include "base/alloc.h"
#include "vgi/branch.h"
#include "vgi/companion.h"
#include "base/banned.h"

const char *od_layout_schema(const od_layout_name *name)
{
    return name->count > 1 ? name->parts[name->count - 2] : "main";
}

const char *od_layout_table_name(const od_layout_name *name)
{
    return name->parts[name->count - 1];
}

static od_code check_companion(const od_layout *layout, size_t at, od_error *err)
{
    /* Who attaches may allow secrets; that he does not is no fault of the layout's. */
    static const od_companion_terms terms = {.family = "OpenDuck", .catalog = "", .secrets = true};
    const od_layout_companion *c = OD_LAYOUT_AT(layout->companions, od_layout_companion, at);
    size_t n = OD_LAYOUT_COUNT(c->options, od_layout_option);
    od_companion_option *options = od_calloc(n + 1, sizeof *options);
    const od_companion_wish wish = {.alias = c->alias,
                                    .target = c->target,
                                    .db_type = c->type,
                                    .options = options,
                                    .option_count = n,
                                    .secret_ref = c->secret,
                                    .hidden = c->hidden,
                                    .required = !c->optional};
    od_companion_request request = {0};
    od_code rc = OD_OK;

    if (options == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < at; i++)
        if (strcasecmp(OD_LAYOUT_AT(layout->companions, od_layout_companion, i)->alias, c->alias) == 0)
            OD_TRY(od_fail(err, OD_E_INVALID, "line %u: there are two companions '%s'", c->line, c->alias));
    for (size_t i = 0; i < n; i++) {
        const od_layout_option *option = OD_LAYOUT_AT(c->options, od_layout_option, i);

        options[i] = (od_companion_option){option->name, option->value};
    }
    rc = od_companion_request_make(&wish, &terms, &request, err);
    od_companion_request_release(&request);
    if (rc != OD_OK)
        od_error_prefix(err, "line %u", c->line);
out:
    od_free(options);
    return rc;
}

static od_code check_table(const od_layout *layout, size_t at, od_error *err)
{
    const od_layout_table *t = OD_LAYOUT_AT(layout->tables, od_layout_table, at);
    const char *schema = od_layout_schema(&t->name), *name = od_layout_table_name(&t->name);
    size_t n = OD_LAYOUT_COUNT(t->branches, od_layout_branch);
    od_branch *branches = od_calloc(n + 1, sizeof *branches);
    char shown[512];
    od_code rc = OD_OK;

    if (branches == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < at; i++) {
        const od_layout_name *other = &OD_LAYOUT_AT(layout->tables, od_layout_table, i)->name;

        if (strcasecmp(od_layout_schema(other), schema) == 0 && strcasecmp(od_layout_table_name(other), name) == 0)
            OD_TRY(
                od_fail(err, OD_E_INVALID, "line %u: there are two tables '%s' in schema '%s'", t->line, name, schema));
    }
    for (size_t i = 0; i < n; i++) {
        const od_layout_branch *b = OD_LAYOUT_AT(t->branches, od_layout_branch, i);

        branches[i].format_name = b->format;
        branches[i].location_count = OD_LAYOUT_COUNT(b->locations, char *);
        if (b->from.count > 0)
            branches[i].source_table = od_layout_table_name(&b->from);
        branches[i].source_catalog = b->from.count == 3 ? b->from.parts[0] : "the database";
        if (b->from.count == 3 && !od_layout_has_companion(layout, b->from.parts[0]))
            OD_TRY(od_fail(err, OD_E_INVALID, "line %u: there is no companion '%s'", b->line, b->from.parts[0]));
    }
    snprintf(shown, sizeof shown, "%s.%s", schema, name);
    rc = od_branches_check(branches, n, shown, err);
    if (rc != OD_OK)
        od_error_prefix(err, "line %u", t->line);
out:
    od_free(branches);
    return rc;
}

od_code od_layout_check(const od_layout *layout, od_error *err)
{
    od_code rc = OD_OK;

    for (size_t i = 0; i < OD_LAYOUT_COUNT(layout->companions, od_layout_companion); i++)
        OD_TRY(check_companion(layout, i, err));
    for (size_t i = 0; i < OD_LAYOUT_COUNT(layout->tables, od_layout_table); i++)
        OD_TRY(check_table(layout, i, err));
out:
    return rc;
}
