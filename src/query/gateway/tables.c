#include "query/gateway/tables.h"

#include <stdlib.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/banned.h"

/* ---- of statements ---- */

static void lower(char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] >= 'A' && text[i] <= 'Z')
            text[i] = (char)(text[i] - 'A' + 'a');
    }
}

/* Appends the parts that are not empty, with dots between them. */
static bool add_form(table_ref *ref, od_slice first, const char *second, const char *third)
{
    od_buf text = {0};
    char *form;
    bool ok = first.len == 0 || od_buf_printf(&text, NULL, "%.*s.", (int)first.len, (const char *)first.data) == OD_OK;

    ok = ok && (!second[0] || od_buf_printf(&text, NULL, "%s.", second) == OD_OK);
    ok = ok && od_buf_printf(&text, NULL, "%s", third) == OD_OK;
    form = ok ? od_strndup((const char *)text.data, text.len) : NULL;
    od_buf_release(&text);
    if (!form)
        return false;
    lower(form, strlen(form));
    ref->forms[ref->count++] = form;
    return true;
}

static bool fill_forms(table_ref *ref, const char *catalog, const char *schema, const char *name, od_slice database)
{
    static const char MAIN[] = "main";
    const od_slice nothing = {0};
    od_slice place = catalog[0] ? od_slice_str(catalog) : database;
    bool plain = !schema[0] || strcasecmp(schema, MAIN) == 0;
    bool ok = add_form(ref, nothing, "", name) && add_form(ref, nothing, schema[0] ? schema : MAIN, name);

    if (ok && place.len > 0)
        ok = add_form(ref, place, schema[0] ? schema : MAIN, name);
    if (ok && place.len > 0 && plain)
        ok = add_form(ref, place, "", name);
    /* The one qualifier may be a database. */
    if (ok && !catalog[0] && !plain)
        ok = add_form(ref, od_slice_str(schema), MAIN, name);
    return ok;
}

static void ref_release(table_ref *ref)
{
    for (size_t i = 0; i < ref->count; i++)
        od_free(ref->forms[i]);
    ref->count = 0;
}

od_code table_refs_add(table_refs *refs, const char *catalog, const char *schema, const char *name, od_slice database,
                       od_error *err)
{
    table_ref ref = {0};

    if (refs->count == TABLE_REFS_MAX)
        return OD_OK;
    if (refs->count == refs->cap) {
        size_t cap = refs->cap ? refs->cap * 2 : 4;
        table_ref *more = od_realloc(refs->refs, cap * sizeof *more);

        if (!more)
            return od_fail(err, OD_E_NO_MEMORY, "out of memory for the names of tables");
        refs->refs = more;
        refs->cap = cap;
    }
    if (!fill_forms(&ref, catalog, schema, name, database)) {
        ref_release(&ref);
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for the names of tables");
    }
    refs->refs[refs->count++] = ref;
    return OD_OK;
}

void table_refs_release(table_refs *refs)
{
    for (size_t i = 0; i < refs->count; i++)
        ref_release(&refs->refs[i]);
    od_free(refs->refs);
    *refs = (table_refs){0};
}

bool table_pattern_means(const char *pattern, const table_ref *ref)
{
    size_t len = strlen(pattern);
    bool prefix = len > 0 && pattern[len - 1] == '*';

    for (size_t i = 0; i < ref->count; i++) {
        if (prefix ? strncasecmp(ref->forms[i], pattern, len - 1) == 0 : strcasecmp(ref->forms[i], pattern) == 0)
            return true;
    }
    return false;
}

/* ---- of a worker ---- */

struct table_set {
    char **names; /* lower case, sorted */
    size_t name_count;
    char **prefixes; /* each with its '*' */
    size_t prefix_count;
};

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

od_code table_set_create(const char *const *patterns, size_t count, table_set **out, od_error *err)
{
    table_set *set = od_calloc(1, sizeof *set);
    bool ok = set != NULL;

    *out = NULL;
    if (set) {
        set->names = od_calloc(count + 1, sizeof *set->names);
        set->prefixes = od_calloc(count + 1, sizeof *set->prefixes);
        ok = set->names && set->prefixes;
    }
    for (size_t i = 0; ok && i < count; i++) {
        size_t len = strlen(patterns[i]);
        char *copy = od_strdup(patterns[i]);

        ok = copy != NULL;
        if (!ok)
            break;
        lower(copy, len);
        if (len > 0 && copy[len - 1] == '*')
            set->prefixes[set->prefix_count++] = copy;
        else
            set->names[set->name_count++] = copy;
    }
    if (!ok) {
        table_set_free(set);
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for the tables of a worker");
    }
    qsort((void *)set->names, set->name_count, sizeof *set->names, compare);
    *out = set;
    return OD_OK;
}

void table_set_free(table_set *set)
{
    if (!set)
        return;
    for (size_t i = 0; set->names && i < set->name_count; i++)
        od_free(set->names[i]);
    for (size_t i = 0; set->prefixes && i < set->prefix_count; i++)
        od_free(set->prefixes[i]);
    od_free((void *)set->names);
    od_free((void *)set->prefixes);
    od_free(set);
}

static bool set_has(const table_set *set, const table_ref *ref)
{
    for (size_t i = 0; i < ref->count; i++) {
        if (bsearch((const void *)&ref->forms[i], (const void *)set->names, set->name_count, sizeof *set->names,
                    compare))
            return true;
    }
    for (size_t i = 0; i < set->prefix_count; i++) {
        if (table_pattern_means(set->prefixes[i], ref))
            return true;
    }
    return false;
}

unsigned table_set_count(const table_set *set, const table_refs *refs)
{
    unsigned count = 0;

    for (size_t i = 0; set && refs && i < refs->count; i++)
        count += set_has(set, &refs->refs[i]);
    return count;
}
