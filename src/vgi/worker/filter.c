#include "vgi/worker/filter.h"

#include <stdio.h>
#include <string.h>

#include "arrow/ipc_read.h"
#include "arrow/record.h"
#include "arrow/row.h"
#include "arrow/schema.h"
#include "base/alloc.h"
#include "base/json_read.h"

#include "base/banned.h"

/* As the protocol bounds them. */
enum { MAX_JSON_DEPTH = 200, MAX_JSON_NODES = 100000, MAX_NODES = 10000, MAX_FILTERS = 1024 };
#define MAX_TEXT ((size_t)1 << 20)

typedef struct node {
    od_vgiw_filter filter; /* first: a node is found by its filter */
    struct node *next;     /* of all that there are */
} node;

struct vgiw_filters {
    node *nodes;
    size_t node_count;
    const od_vgiw_filter **all;
    size_t count;
    struct ArrowSchema schema; /* of the values; release NULL: there are none */
    struct ArrowArray array;
    od_vgiw_values values;
};

typedef struct {
    vgiw_filters *out;
    const struct ArrowSchema *columns;
    struct ArrowSchema schema; /* of what came */
    struct ArrowArray array;
    size_t *places; /* of each column that came: the value that it is, plus 1 */
    od_row *values;
    size_t value_count;
    bool newer;
    od_error *err;
} reader;

/* What a condition that is not known here gives: it is left out, and no error. */
#define UNKNOWN OD_E_NOT_IMPLEMENTED

static od_code corrupt(const reader *r, const char *why)
{
    return od_fail(r->err, OD_E_CORRUPT, "the filters of a scan: %s", why);
}

static od_code new_node(reader *r, od_vgiw_filter_kind kind, size_t children, od_vgiw_filter **out)
{
    node *n;

    if (r->out->node_count >= MAX_NODES)
        return corrupt(r, "too many of them");
    n = od_calloc(1, sizeof *n);
    if (n == NULL)
        return od_fail(r->err, OD_E_NO_MEMORY, "out of memory");
    n->next = r->out->nodes;
    r->out->nodes = n;
    r->out->node_count++;
    n->filter.kind = kind;
    n->filter.children = od_calloc(children + 1, sizeof *n->filter.children);
    if (n->filter.children == NULL)
        return od_fail(r->err, OD_E_NO_MEMORY, "out of memory");
    *out = &n->filter;
    return OD_OK;
}

static void adopt(od_vgiw_filter *parent, const od_vgiw_filter *child)
{
    const od_vgiw_filter **children = (const od_vgiw_filter **)(uintptr_t)parent->children;

    children[parent->child_count++] = child;
}

/* ---- leaves ---- */

static od_code column_of(reader *r, const od_json_node *from, const od_vgiw_filter **out)
{
    const od_json_node *name = od_json_get(from, "column_name");
    od_vgiw_filter *made;
    od_code rc;

    if (name == NULL || name->kind != OD_JSON_TEXT)
        return corrupt(r, "a column without a name");
    for (int64_t i = 0; i < r->columns->n_children; i++) {
        if (!od_slice_equal(name->text, od_slice_str(r->columns->children[i]->name)))
            continue;
        rc = new_node(r, OD_VGIW_COLUMN, 0, &made);
        if (rc != OD_OK)
            return rc;
        made->column = (size_t)i;
        *out = made;
        return OD_OK;
    }
    return corrupt(r, "a column that is not the function's");
}

/* The place among the values of the one that REF names. */
static od_code value_at(reader *r, const od_json_node *ref, size_t *place)
{
    char name[40];

    if (ref == NULL || ref->kind != OD_JSON_NUMBER || !ref->whole || ref->value < 0)
        return corrupt(r, "a value without a number");
    snprintf(name, sizeof name, "%s%lld", r->newer ? "value_" : "_val_", (long long)ref->value);
    for (int64_t i = 0; i < r->schema.n_children; i++) {
        if (r->schema.children[i]->name == NULL || strcmp(r->schema.children[i]->name, name) != 0)
            continue;
        if (r->places[i] == 0) {
            snprintf(name, sizeof name, "value_%zu", r->value_count);
            od_row_array(r->values, name, r->schema.children[i], r->array.children[i]);
            r->places[i] = ++r->value_count;
        }
        *place = r->places[i] - 1;
        return OD_OK;
    }
    return corrupt(r, "a value that is not there");
}

static od_code value_of(reader *r, const od_json_node *ref, const od_vgiw_filter **out)
{
    od_vgiw_filter *made;
    od_code rc;

    OD_TRY(new_node(r, OD_VGIW_VALUE, 0, &made));
    OD_TRY(value_at(r, ref, &made->column));
    *out = made;
out:
    return rc;
}

static od_code compare_of(reader *r, const od_json_node *op, od_vgiw_filter **out)
{
    static const char *const names[] = {"eq", "ne", "lt", "le", "gt", "ge", "distinct_from", "not_distinct_from"};
    od_code rc = new_node(r, OD_VGIW_COMPARE, 2, out);

    if (rc != OD_OK)
        return rc;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!od_json_is(op, names[i]))
            continue;
        (*out)->op = (od_vgiw_compare)i;
        return OD_OK;
    }
    return UNKNOWN;
}

static bool is_true(const od_json_node *value)
{
    return value != NULL && value->kind == OD_JSON_BOOL && value->yes;
}

/* ---- conditions ---- */

/* NOLINTBEGIN(misc-no-recursion): no deeper than the JSON is */
static od_code read_expression(reader *r, const od_json_node *from, const od_vgiw_filter **out);
static od_code read_node(reader *r, const od_json_node *from, const od_vgiw_filter **out);

static od_code read_children(reader *r, const od_json_node *from, od_vgiw_filter_kind kind, const od_vgiw_filter **out)
{
    const od_json_node *list = od_json_get(from, "children");
    od_vgiw_filter *made;
    od_code rc;

    if (list == NULL || list->kind != OD_JSON_LIST || list->count == 0)
        return corrupt(r, "a list of conditions is missing");
    OD_TRY(new_node(r, kind, list->count, &made));
    for (const od_json_node *item = list->first; item != NULL; item = item->next) {
        const od_vgiw_filter *child;

        OD_TRY(r->newer ? read_expression(r, item, &child) : read_node(r, item, &child));
        adopt(made, child);
    }
    *out = made;
out:
    return rc;
}

/* A condition on one other, MADE. */
static od_code read_operand(reader *r, const od_json_node *from, const char *name, od_vgiw_filter *made)
{
    const od_json_node *operand = od_json_get(from, name);
    const od_vgiw_filter *child;
    od_code rc;

    if (operand == NULL)
        return corrupt(r, "an operand is missing");
    rc = read_expression(r, operand, &child);
    if (rc == OD_OK)
        adopt(made, child);
    return rc;
}

static od_code read_comparison(reader *r, const od_json_node *from, const od_vgiw_filter **out)
{
    od_vgiw_filter *made;
    od_code rc;

    OD_TRY(compare_of(r, od_json_get(from, "op"), &made));
    OD_TRY(read_operand(r, from, "left", made));
    OD_TRY(read_operand(r, from, "right", made));
    *out = made;
out:
    return rc;
}

static od_code read_in(reader *r, const od_json_node *from, const od_vgiw_filter **out)
{
    const od_json_node *set = od_json_get(from, "set");
    od_vgiw_filter *made;
    od_code rc;

    if (!od_json_is(od_json_get(set, "kind"), "literal"))
        return UNKNOWN;
    OD_TRY(new_node(r, OD_VGIW_IN, 1, &made));
    made->negated = is_true(od_json_get(from, "negated"));
    OD_TRY(read_operand(r, from, "expression", made));
    OD_TRY(value_at(r, od_json_get(set, "value_ref"), &made->column));
    *out = made;
out:
    return rc;
}

static od_code read_unary(reader *r, const od_json_node *from, od_vgiw_filter_kind kind, const od_vgiw_filter **out)
{
    od_vgiw_filter *made;
    od_code rc;

    OD_TRY(new_node(r, kind, 1, &made));
    made->negated = kind == OD_VGIW_IS_NULL && is_true(od_json_get(from, "negated"));
    OD_TRY(read_operand(r, from, "expression", made));
    *out = made;
out:
    return rc;
}

/* Generation 2.2: a tree of expressions. */
static od_code read_expression(reader *r, const od_json_node *from, const od_vgiw_filter **out)
{
    const od_json_node *kind = od_json_get(from, "node");

    if (kind == NULL || kind->kind != OD_JSON_TEXT)
        return corrupt(r, "an expression that is none");
    if (od_json_is(kind, "column_ref"))
        return column_of(r, from, out);
    if (od_json_is(kind, "literal"))
        return value_of(r, od_json_get(from, "value_ref"), out);
    if (od_json_is(kind, "comparison"))
        return read_comparison(r, from, out);
    if (od_json_is(kind, "and") || od_json_is(kind, "or"))
        return read_children(r, from, od_json_is(kind, "and") ? OD_VGIW_AND : OD_VGIW_OR, out);
    if (od_json_is(kind, "not"))
        return read_unary(r, from, OD_VGIW_NOT, out);
    if (od_json_is(kind, "is_null"))
        return read_unary(r, from, OD_VGIW_IS_NULL, out);
    if (od_json_is(kind, "in"))
        return read_in(r, from, out);
    return UNKNOWN;
}

/* Generation 1.3: conditions on one column each. */
static od_code read_node(reader *r, const od_json_node *from, const od_vgiw_filter **out)
{
    const od_json_node *type = od_json_get(from, "type");
    const od_vgiw_filter *column, *value;
    od_vgiw_filter *made = NULL;
    od_code rc;

    if (type == NULL || type->kind != OD_JSON_TEXT)
        return corrupt(r, "a condition without a type");
    if (od_json_is(type, "and") || od_json_is(type, "or"))
        return read_children(r, from, od_json_is(type, "and") ? OD_VGIW_AND : OD_VGIW_OR, out);
    OD_TRY(column_of(r, from, &column));
    if (od_json_is(type, "constant")) {
        OD_TRY(compare_of(r, od_json_get(from, "op"), &made));
        OD_TRY(value_of(r, od_json_get(from, "value_ref"), &value));
        adopt(made, column);
        adopt(made, value);
    } else if (od_json_is(type, "is_null") || od_json_is(type, "is_not_null")) {
        OD_TRY(new_node(r, OD_VGIW_IS_NULL, 1, &made));
        made->negated = od_json_is(type, "is_not_null");
        adopt(made, column);
    } else if (od_json_is(type, "in")) {
        OD_TRY(new_node(r, OD_VGIW_IN, 1, &made));
        OD_TRY(value_at(r, od_json_get(from, "value_ref"), &made->column));
        adopt(made, column);
    } else {
        return UNKNOWN;
    }
    *out = made;
out:
    return rc;
}
/* NOLINTEND(misc-no-recursion) */

/* ---- the whole ---- */

/* LIST's conditions; of 2.2 each is a predicate's expression. */
static od_code read_all(reader *r, const od_json_node *list)
{
    od_code rc = OD_OK;

    if (list == NULL || list->kind != OD_JSON_LIST || list->count > MAX_FILTERS)
        return corrupt(r, "a list of conditions is missing, or too long");
    r->out->all = od_calloc(list->count + 1, sizeof *r->out->all);
    if (r->out->all == NULL)
        return od_fail(r->err, OD_E_NO_MEMORY, "out of memory");
    for (const od_json_node *item = list->first; item != NULL; item = item->next) {
        const od_vgiw_filter *made = NULL;

        rc = r->newer ? read_expression(r, od_json_get(item, "expression"), &made) : read_node(r, item, &made);
        if (rc == OD_OK)
            r->out->all[r->out->count++] = made;
        else if (rc != UNKNOWN)
            return rc;
    }
    return OD_OK;
}

static od_code read_document(reader *r, const od_json_node *root)
{
    if (!r->newer)
        return read_all(r, root);
    if (!od_json_is(od_json_get(root, "encoding"), "vgi.filters.v2") ||
        !od_json_is(od_json_get(root, "kind"), "snapshot"))
        return corrupt(r, "their encoding is another");
    /* Where comparisons mean something else than to DuckDB, clients compare for themselves. */
    if (!od_json_is(od_json_get(root, "semantics"), "vgi.duckdb.standard.v1"))
        return OD_OK;
    return read_all(r, od_json_get(root, "predicates"));
}

/* The values that conditions name, as a batch of their own. */
static od_code keep_values(reader *r)
{
    od_record *record = NULL;
    od_msg *msg = NULL;
    od_code rc;

    if (r->value_count == 0)
        return OD_OK;
    OD_TRY(od_row_finish(r->values, NULL, 0, &msg, r->err));
    OD_TRY(od_record_of_payload(od_slice_of(od_msg_data(msg), od_msg_len(msg)), &record, r->err));
    od_record_take(record, &r->out->schema, &r->out->array);
    r->out->values = (od_vgiw_values){&r->out->schema, &r->out->array};
out:
    od_record_free(record);
    od_msg_unref(msg);
    return rc;
}

/* Which generation the batch that came is of. */
static od_code look(reader *r, const od_record *record, od_slice *text)
{
    const struct ArrowSchema *schema = od_record_schema(record);
    od_code rc;

    if (od_record_rows(record) != 1 || schema->n_children == 0)
        return corrupt(r, "they are not one row");
    r->newer = od_slice_equal(od_schema_metadata(schema, "vgi_filter_encoding"), od_slice_str("vgi.filters.v2"));
    if (!r->newer && !od_slice_equal(od_schema_metadata(schema->children[0], "vgi_filter_version"), od_slice_str("1")))
        return corrupt(r, "their encoding is not known");
    rc = od_cell_bytes(od_record_cell(record, "filter_spec", 0), text, r->err);
    if (rc == OD_OK && (text->len == 0 || text->len > MAX_TEXT))
        rc = corrupt(r, "their text is missing, or too long");
    return rc;
}

static od_code read_record(reader *r, od_record *record)
{
    od_json_doc *doc = NULL;
    od_slice text;
    od_code rc;

    OD_TRY(look(r, record, &text));
    OD_TRY(od_json_read(text, (od_json_limits){MAX_JSON_DEPTH, MAX_JSON_NODES}, &doc, r->err));
    od_record_take(record, &r->schema, &r->array);
    r->places = od_calloc((size_t)r->schema.n_children, sizeof *r->places);
    if (r->places == NULL)
        OD_TRY(od_fail(r->err, OD_E_NO_MEMORY, "out of memory"));
    OD_TRY(od_row_create(&r->values, r->err));
    OD_TRY(read_document(r, od_json_root(doc)));
    OD_TRY(keep_values(r));
out:
    od_json_doc_free(doc);
    return rc;
}

od_code vgiw_filters_read(const vgiw_filter_request *request, vgiw_filters **out, od_error *err)
{
    reader r = {.columns = request->columns, .err = err};
    od_record *record = NULL;
    od_code rc;

    *out = NULL;
    r.out = od_calloc(1, sizeof *r.out);
    if (r.out == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    OD_TRY(od_record_of_payload(request->bytes, &record, err));
    OD_TRY(read_record(&r, record));
    *out = r.out;
    r.out = NULL;
out:
    od_record_free(record);
    if (r.array.release != NULL)
        r.array.release(&r.array);
    od_schema_release(&r.schema);
    od_free(r.places);
    od_row_free(r.values);
    vgiw_filters_free(r.out);
    return rc;
}

void vgiw_filters_free(vgiw_filters *filters)
{
    if (filters == NULL)
        return;
    while (filters->nodes != NULL) {
        node *next = filters->nodes->next;

        od_free((void *)(uintptr_t)filters->nodes->filter.children);
        od_free(filters->nodes);
        filters->nodes = next;
    }
    if (filters->array.release != NULL)
        filters->array.release(&filters->array);
    od_schema_release(&filters->schema);
    od_free((void *)filters->all);
    od_free(filters);
}

const od_vgiw_filter *const *vgiw_filters_all(const vgiw_filters *filters, size_t *count)
{
    *count = filters != NULL ? filters->count : 0;
    return *count > 0 ? filters->all : NULL;
}

od_vgiw_values vgiw_filters_values(const vgiw_filters *filters)
{
    return filters != NULL ? filters->values : (od_vgiw_values){NULL, NULL};
}
