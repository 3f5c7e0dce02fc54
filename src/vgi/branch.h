/* vgi/branch.h: the branches of a table: whether a worker's list makes sense, and how a branch's columns become the table's.
 *
 * Pure: nothing here knows where rows come from. Thread: any. */
#ifndef OD_VGI_BRANCH_H
#define OD_VGI_BRANCH_H

#include "base/error.h"

#define OD_BRANCH_MAX 1024 /* branches of one table */

/* What a branch reads. */
typedef enum {
    OD_BRANCH_TABLE,   /* a table of an attached catalog */
    OD_BRANCH_FORMAT,  /* files of a format */
    OD_BRANCH_FUNCTION /* a table function */
} od_branch_kind;

/* A branch as the worker sent it; borrowed. NULL texts are "". */
typedef struct {
    const char *function_name;
    const char *source_catalog;
    const char *source_schema;
    const char *source_table;
    const char *format_name;
    size_t location_count; /* of the format */
    bool writable;
} od_branch;

/* A table to be read comes before a format, and a format before a function. */
od_branch_kind od_branch_kind_of(const od_branch *branch);

/* OD_E_BINDER says what is wrong with the list; TABLE ("schema.name") is for the text. */
OD_MUST_CHECK od_code od_branches_check(const od_branch *branches, size_t count, const char *table, od_error *err);

typedef struct {
    const char *name;
    const char *type; /* equal texts are the same type */
} od_branch_column;

/* How one column of the table comes from a branch. */
typedef enum {
    OD_COLUMN_AS_IT_IS,
    OD_COLUMN_CAST,   /* to the table's type */
    OD_COLUMN_MISSING /* NULL of the table's type */
} od_column_way;

typedef struct {
    od_column_way way;
    size_t source; /* the branch's column; unset with OD_COLUMN_MISSING */
} od_column_plan;

/* Finds each of the TABLE's columns among the BRANCH's, by name in any case; fills PLAN, TABLE_COUNT entries. OD_E_BINDER: a
 * column of the branch is not the table's, or two have one name. */
OD_MUST_CHECK od_code od_branch_columns_plan(const od_branch_column *table, size_t table_count,
                                             const od_branch_column *branch, size_t branch_count, od_column_plan *plan,
                                             od_error *err);

#endif
