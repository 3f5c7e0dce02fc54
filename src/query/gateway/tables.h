/* Names of tables: those that workers answer for, and those that a statement names.
 *
 * A worker declares a name with as many parts as matter ("sales", "shop.sales", "shop.main.sales"), or all names that begin
 * alike ("analytics.*"). A statement's name is looked for in every form that means the same table: with and without its
 * schema and database. Names are equal without regard to case, as DuckDB's are. */
#ifndef OD_QUERY_GATEWAY_TABLES_H
#define OD_QUERY_GATEWAY_TABLES_H

#include "base/buf.h"

enum { TABLE_FORMS = 5, TABLE_REFS_MAX = 256 };

/* A table that a statement names, in lower case: "sales", "main.sales", "shop.sales", "shop.main.sales". */
typedef struct {
    char *forms[TABLE_FORMS];
    size_t count;
} table_ref;

typedef struct {
    table_ref *refs;
    size_t count, cap;
} table_refs;

/* Adds a name as DuckDB's parser gives it: SCHEMA and CATALOG may be empty, and a single qualifier, SCHEMA, may mean either.
 * DATABASE is where names without a catalog are looked for; may be empty. More than TABLE_REFS_MAX are left out. */
OD_MUST_CHECK od_code table_refs_add(table_refs *refs, const char *catalog, const char *schema, const char *name,
                                     od_slice database, od_error *err);
void table_refs_release(table_refs *refs);

/* Whether PATTERN, a name or the beginning of names and a '*', means REF. */
bool table_pattern_means(const char *pattern, const table_ref *ref);

/* What one worker answers for; does not change. */
typedef struct table_set table_set;

OD_MUST_CHECK od_code table_set_create(const char *const *patterns, size_t count, table_set **out, od_error *err);
void table_set_free(table_set *set); /* NULL allowed */
/* How many of REFS it answers for. SET NULL: none. */
unsigned table_set_count(const table_set *set, const table_refs *refs);

#endif
