#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "vgi/branch.h"

static bool is_set(const char *text)
{
    return text && text[0] != '\0';
}

od_branch_kind od_branch_kind_of(const od_branch *branch)
{
    if (is_set(branch->source_table))
        return OD_BRANCH_TABLE;
    return is_set(branch->format_name) ? OD_BRANCH_FORMAT : OD_BRANCH_FUNCTION;
}

static od_code check_one(const od_branch *branch, size_t ordinal, const char *table, od_error *err)
{
    switch (od_branch_kind_of(branch)) {
    case OD_BRANCH_TABLE:
        if (!is_set(branch->source_catalog))
            return od_fail(err, OD_E_BINDER, "VGI branch %zu reads table '%s' of no catalog [table: %s]", ordinal,
                           branch->source_table, table);
        return OD_OK;
    case OD_BRANCH_FORMAT:
        if (branch->location_count == 0)
            return od_fail(err, OD_E_BINDER, "VGI branch %zu of format '%s' names no file [table: %s]", ordinal,
                           branch->format_name, table);
        return OD_OK;
    default:
        if (!is_set(branch->function_name))
            return od_fail(err, OD_E_BINDER, "VGI branch %zu names nothing to read [table: %s]", ordinal, table);
        return OD_OK;
    }
}

static od_code check_writable(const od_branch *branches, size_t count, const char *table, od_error *err)
{
    char ordinals[128] = "";
    size_t used = 0;
    size_t writable = 0;

    for (size_t i = 0; i < count; i++) {
        if (!branches[i].writable)
            continue;
        if (used < sizeof(ordinals))
            used += (size_t)snprintf(ordinals + used, sizeof(ordinals) - used, "%s%zu", writable > 0 ? ", " : "", i);
        writable++;
    }
    if (writable < 2)
        return OD_OK;
    return od_fail(
        err, OD_E_BINDER,
        "VGI multi-branch table declared %zu writable branches (ordinals: %s); exactly zero or one is allowed "
        "[table: %s]",
        writable, ordinals, table);
}

od_code od_branches_check(const od_branch *branches, size_t count, const char *table, od_error *err)
{
    if (count == 0)
        return od_fail(err, OD_E_BINDER, "VGI table returned zero scan branches [table: %s]", table);
    if (count > OD_BRANCH_MAX)
        return od_fail(err, OD_E_BINDER, "VGI table returned %zu scan branches; %d are allowed [table: %s]", count,
                       OD_BRANCH_MAX, table);
    for (size_t i = 0; i < count; i++) {
        od_code rc = check_one(&branches[i], i, table, err);

        if (rc != OD_OK)
            return rc;
    }
    return check_writable(branches, count, table, err);
}

#define NOT_FOUND ((size_t)-1)

static size_t find_column(const od_branch_column *columns, size_t count, size_t from, const char *name)
{
    for (size_t i = from; i < count; i++) {
        if (strcasecmp(columns[i].name, name) == 0)
            return i;
    }
    return NOT_FOUND;
}

od_code od_branch_columns_plan(const od_branch_column *table, size_t table_count, const od_branch_column *branch,
                               size_t branch_count, od_column_plan *plan, od_error *err)
{
    for (size_t i = 0; i < branch_count; i++) {
        if (find_column(table, table_count, 0, branch[i].name) == NOT_FOUND)
            return od_fail(err, OD_E_BINDER,
                           "VGI branch returned column '%s' which is not in the table's declared schema",
                           branch[i].name);
        if (find_column(branch, branch_count, i + 1, branch[i].name) != NOT_FOUND)
            return od_fail(err, OD_E_BINDER, "VGI branch returned two columns of the name '%s'", branch[i].name);
    }
    for (size_t i = 0; i < table_count; i++) {
        size_t source = find_column(branch, branch_count, 0, table[i].name);

        plan[i].way = OD_COLUMN_MISSING;
        plan[i].source = 0;
        if (source == NOT_FOUND)
            continue;
        plan[i].source = source;
        plan[i].way = strcmp(branch[source].type, table[i].type) == 0 ? OD_COLUMN_AS_IT_IS : OD_COLUMN_CAST;
    }
    return OD_OK;
}
