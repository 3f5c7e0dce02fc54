/* What a VGI worker says, line by line, for tests/e2e/test_vgi_client.py.
 * usage: vgi_client LOCATION COMMAND [ARGUMENT...]   see `commands` below */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vgi/client.h"

typedef struct {
    od_vgi *vgi;
    od_vgi_attached attached;
    od_vgi_context context;
    char **args; /* after the command, NULL-terminated */
} session;

static int text_len(od_slice text)
{
    return (int)text.len;
}

static const char *text_of(od_slice text)
{
    return text.data != NULL ? (const char *)text.data : "";
}

#define TEXT(slice) text_len(slice), text_of(slice)

static void print_pairs(const char *what, od_vgi_pairs pairs)
{
    for (size_t i = 0; i < pairs.count; i++)
        printf("%s %.*s=%.*s\n", what, TEXT(pairs.items[i].key), TEXT(pairs.items[i].value));
}

static void print_schema(const char *what, const struct ArrowSchema *schema)
{
    printf("%s", what);
    for (int64_t i = 0; i < schema->n_children; i++)
        printf(" %s:%s", schema->children[i]->name, schema->children[i]->format);
    printf("\n");
}

static void print_values(const char *what, const od_vgi_values *values)
{
    if (values->array.release == NULL)
        return;
    print_schema(what, &values->schema);
    for (int64_t i = 0; i < values->schema.n_children; i++)
        if (strcmp(values->schema.children[i]->format, "l") == 0)
            printf("%s value %s=%lld\n", what, values->schema.children[i]->name,
                   (long long)((const int64_t *)values->array.children[i]->buffers[1])[0]);
}

/* ---- commands ---- */

static od_code catalogs(session *s, od_error *err)
{
    od_vgi_catalogs found;
    od_code rc = od_vgi_list_catalogs(s->vgi, (od_vgi_interrupt){0}, &found, err);

    for (size_t i = 0; rc == OD_OK && i < found.count; i++) {
        printf("catalog %.*s\n", TEXT(found.items[i].name));
        for (size_t k = 0; k < found.items[i].option_count; k++) {
            const od_vgi_option_spec *option = &found.items[i].options[k];

            printf("option %.*s %s required=%d secret=%d default=%d\n", TEXT(option->name),
                   option->type.children[0]->format, option->required, option->secret,
                   option->default_value.array.release != NULL);
        }
    }
    od_vgi_answer_free(found.answer);
    return rc;
}

static od_code attached(session *s, od_error *err)
{
    const od_vgi_attached *a = &s->attached;

    (void)err;
    printf("opaque %zu\ndefault_schema %.*s\nversion %lld\nfrozen %d\ntransactions %d\n", a->opaque.len,
           TEXT(a->default_schema), (long long)a->version, a->version_frozen, a->supports_transactions);
    for (size_t i = 0; i < a->companion_count; i++) {
        const od_vgi_companion *c = &a->companions[i];

        printf("companion %.*s target=%.*s db_type=%.*s hidden=%d required=%d secret_ref=%.*s\n", TEXT(c->alias),
               TEXT(c->target), TEXT(c->db_type), c->hidden, c->required, TEXT(c->secret_ref));
        print_pairs("companion_option", c->options);
    }
    for (size_t i = 0; i < a->setting_count; i++)
        printf("setting %.*s %s\n", TEXT(a->settings[i].name), a->settings[i].type.children[0]->format);
    for (size_t i = 0; i < a->secret_type_count; i++)
        print_schema("secret_type", &a->secret_types[i].parameters);
    return OD_OK;
}

static od_code schemas(session *s, od_error *err)
{
    od_vgi_schemas found;
    od_code rc = od_vgi_list_schemas(s->vgi, &s->context, &found, err);

    for (size_t i = 0; rc == OD_OK && i < found.count; i++)
        printf("schema %.*s tables=%lld\n", TEXT(found.items[i].name),
               found.items[i].estimated.table.known ? (long long)found.items[i].estimated.table.value : -1);
    od_vgi_answer_free(found.answer);
    return rc;
}

static void print_table(const od_vgi_table *t)
{
    char what[256];

    snprintf(what, sizeof what, "table %.*s", TEXT(t->name));
    print_schema(what, &t->columns);
    printf("facts %.*s row_id=%d not_null=%zu unique=%zu primary=%zu foreign=%zu insert=%d estimate=%lld scan=%.*s\n",
           TEXT(t->name), t->row_id, t->not_null.count, t->unique_count, t->primary_key_count, t->foreign_key_count,
           t->supports_insert, t->cardinality_estimate.known ? (long long)t->cardinality_estimate.value : -1,
           TEXT(t->scan_function.function));
}

static od_code tables(session *s, od_error *err)
{
    od_vgi_tables found;
    od_code rc = od_vgi_list_tables(s->vgi, &s->context, s->args[1], &found, err);

    for (size_t i = 0; rc == OD_OK && i < found.count; i++)
        print_table(&found.items[i]);
    od_vgi_answer_free(found.answer);
    return rc;
}

static od_code table(session *s, od_error *err)
{
    od_vgi_tables found;
    od_vgi_table_ref ref = {.schema = s->args[1], .name = s->args[2]};
    od_code rc = od_vgi_get_table(s->vgi, &s->context, &ref, &found, err);

    printf("found %zu\n", found.count);
    for (size_t i = 0; rc == OD_OK && i < found.count; i++)
        print_table(&found.items[i]);
    od_vgi_answer_free(found.answer);
    return rc;
}

static od_code views(session *s, od_error *err)
{
    od_vgi_views found;
    od_code rc = od_vgi_list_views(s->vgi, &s->context, s->args[1], &found, err);

    for (size_t i = 0; rc == OD_OK && i < found.count; i++)
        printf("view %.*s: %.*s\n", TEXT(found.items[i].name), TEXT(found.items[i].definition));
    od_vgi_answer_free(found.answer);
    return rc;
}

static od_code macros(session *s, od_error *err)
{
    for (int kind = 0; kind < 2; kind++) {
        od_vgi_macros found;
        od_code rc = od_vgi_list_macros(s->vgi, &s->context, s->args[1], kind == 1, &found, err);

        for (size_t i = 0; rc == OD_OK && i < found.count; i++)
            printf("macro %.*s table=%d parameters=%zu: %.*s\n", TEXT(found.items[i].name), found.items[i].is_table,
                   found.items[i].parameters.count, TEXT(found.items[i].definition));
        od_vgi_answer_free(found.answer);
        if (rc != OD_OK)
            return rc;
    }
    return OD_OK;
}

static od_code functions(session *s, od_error *err)
{
    static const od_vgi_function_type types[] = {OD_VGI_SCALAR_FUNCTION, OD_VGI_AGGREGATE_FUNCTION,
                                                 OD_VGI_TABLE_FUNCTION};

    for (size_t t = 0; t < 3; t++) {
        od_vgi_functions found;
        od_code rc = od_vgi_list_functions(s->vgi, &s->context, s->args[1], types[t], &found, err);

        for (size_t i = 0; rc == OD_OK && i < found.count; i++) {
            const od_vgi_function *f = &found.items[i];
            char what[256];

            printf("function %.*s type=%d projection=%d filter=%d exact=%d workers=%lld\n", TEXT(f->name), f->type,
                   f->projection_pushdown, f->filter_pushdown, f->filters_exactly_applied,
                   f->max_workers.known ? (long long)f->max_workers.value : -1);
            snprintf(what, sizeof what, "arguments %.*s", TEXT(f->name));
            if (f->arguments.release != NULL)
                print_schema(what, &f->arguments);
        }
        od_vgi_answer_free(found.answer);
        if (rc != OD_OK)
            return rc;
    }
    return OD_OK;
}

static od_code branches(session *s, od_error *err)
{
    od_vgi_branches found;
    od_vgi_table_ref ref = {.schema = s->args[1], .name = s->args[2]};
    od_code rc = od_vgi_get_branches(s->vgi, &s->context, &ref, &found, err);

    for (size_t i = 0; i < found.required_extensions.count; i++)
        printf("extension %.*s\n", TEXT(found.required_extensions.items[i]));
    for (size_t i = 0; rc == OD_OK && i < found.count; i++) {
        const od_vgi_branch *b = &found.items[i];

        printf("branch kind=%d function=%.*s filter=%.*s writable=%d source=%.*s.%.*s.%.*s format=%.*s\n", b->kind,
               TEXT(b->call.function), TEXT(b->filter), b->writable, TEXT(b->source_catalog), TEXT(b->source_schema),
               TEXT(b->source_table), TEXT(b->format_name));
        print_values("argument", &b->call.arguments);
    }
    od_vgi_answer_free(found.answer);
    return rc;
}

typedef struct {
    long long rows, sum, batches;
} totals;

static void count(totals *t, const struct ArrowSchema *schema, struct ArrowArray *batch)
{
    t->rows += batch->length;
    t->batches++;
    if (schema->n_children > 0 && strcmp(schema->children[0]->format, "l") == 0)
        for (int64_t i = 0; i < batch->length; i++)
            t->sum += ((const int64_t *)batch->children[0]->buffers[1])[i];
    batch->release(batch);
}

static od_code read_scan(od_vgi_scan *scan, const char *what, long long limit, od_error *err)
{
    totals t = {0};
    struct ArrowArray batch = {0};
    od_code rc;

    while ((rc = od_vgi_scan_next(scan, &batch, err)) == OD_OK && batch.release != NULL) {
        count(&t, od_vgi_scan_schema(scan), &batch);
        if (limit >= 0 && t.rows >= limit)
            break;
    }
    printf("%s rows=%lld sum=%lld batches=%lld\n", what, t.rows, t.sum, t.batches);
    return rc;
}

static void keep(struct ArrowArray *array)
{
    array->release = NULL;
}

static void forget(struct ArrowSchema *schema)
{
    schema->release = NULL;
}

/* One int64 column. */
typedef struct {
    int64_t number;
    const void *buffers[2], *none[1];
    struct ArrowArray column, *columns[1];
    struct ArrowSchema field, *fields[1];
    od_vgi_values values;
} number;

static od_vgi_values *one_number(number *n, const char *text)
{
    *n = (number){.number = strtoll(text, NULL, 10), .columns = {&n->column}, .fields = {&n->field}};
    n->buffers[1] = &n->number;
    n->column = (struct ArrowArray){.length = 1, .n_buffers = 2, .buffers = n->buffers, .release = keep};
    n->field = (struct ArrowSchema){.format = "l", .name = "arg_0", .flags = ARROW_FLAG_NULLABLE, .release = forget};
    n->values.array = (struct ArrowArray){
        .length = 1, .n_buffers = 1, .n_children = 1, .buffers = n->none, .children = n->columns, .release = keep};
    n->values.schema =
        (struct ArrowSchema){.format = "+s", .name = "", .n_children = 1, .children = n->fields, .release = forget};
    return &n->values;
}

/* CATALOG SCHEMA FUNCTION NUMBER LEAST FROM: the rows with column 0 >= LEAST and not (column 0 > FROM, or null). */
static od_code filter(session *s, od_error *err)
{
    number argument, least, most;
    od_vgi_bind bind = {.function = s->args[2],
                        .schema = s->args[1],
                        .type = OD_VGI_TABLE_FUNCTION,
                        .arguments = one_number(&argument, s->args[3])};
    const od_vgi_expr column = {.kind = OD_VGI_COLUMN};
    const od_vgi_expr low = {.kind = OD_VGI_LITERAL, .value = one_number(&least, s->args[4])};
    const od_vgi_expr high = {.kind = OD_VGI_LITERAL, .value = one_number(&most, s->args[5])};
    const od_vgi_expr *const low_parts[] = {&column, &low}, *const high_parts[] = {&column, &high},
                             *const null_parts[] = {&column};
    const od_vgi_expr from = {.kind = OD_VGI_COMPARE, .op = OD_VGI_GE, .child_count = 2, .children = low_parts};
    const od_vgi_expr to = {.kind = OD_VGI_COMPARE, .op = OD_VGI_LE, .child_count = 2, .children = high_parts};
    const od_vgi_expr there = {.kind = OD_VGI_IS_NULL, .negated = true, .child_count = 1, .children = null_parts};
    const od_vgi_expr *const both_parts[] = {&to, &there};
    const od_vgi_expr both = {.kind = OD_VGI_AND, .child_count = 2, .children = both_parts};
    const od_vgi_expr *const filters[] = {&from, &both};
    od_vgi_scan_options options = {.filters = filters, .filter_count = 2};
    od_vgi_bound *bound = NULL;
    od_vgi_scan *scan_of = NULL;
    od_code rc;

    OD_TRY(od_vgi_bind_function(s->vgi, &s->context, &bind, &bound, err));
    OD_TRY(od_vgi_scan_open(s->vgi, &s->context, bound, &options, &scan_of, err));
    printf("filters %zu\n", od_vgi_scan_filter_count(scan_of));
    OD_TRY(read_scan(scan_of, "filtered", -1, err));
out:
    od_vgi_scan_close(scan_of);
    od_vgi_bound_free(bound);
    return rc;
}

/* CATALOG SCHEMA FUNCTION NUMBER|- [LIMIT [COLUMN...]] */
static od_code scan(session *s, od_error *err)
{
    od_vgi_bind bind = {.function = s->args[2], .schema = s->args[1], .type = OD_VGI_TABLE_FUNCTION};
    number argument;
    od_vgi_bound *bound = NULL;
    od_vgi_scan *first = NULL, *second = NULL;
    od_vgi_number estimate, max;
    int64_t columns[16];
    od_vgi_scan_options options = {0};
    long long limit = s->args[4] != NULL ? strtoll(s->args[4], NULL, 10) : -1;
    od_code rc;

    if (strcmp(s->args[3], "-") != 0)
        bind.arguments = one_number(&argument, s->args[3]);
    for (char **arg = s->args[4] != NULL ? s->args + 5 : s->args + 4; *arg != NULL; arg++) {
        options.columns = columns;
        columns[options.column_count++] = strtoll(*arg, NULL, 10);
    }
    OD_TRY(od_vgi_bind_function(s->vgi, &s->context, &bind, &bound, err));
    printf("secrets %zu\n", od_vgi_bound_secret_count(bound));
    if (od_vgi_bound_secret_count(bound) > 0)
        goto out;
    print_schema("bound", od_vgi_bound_schema(bound));
    OD_TRY(od_vgi_bound_cardinality(s->vgi, &s->context, bound, &estimate, &max, err));
    printf("estimate %lld\n", estimate.known ? (long long)estimate.value : -1);
    OD_TRY(od_vgi_scan_open(s->vgi, &s->context, bound, &options, &first, err));
    print_schema("columns", od_vgi_scan_schema(first));
    printf("max_workers %lld\n", (long long)od_vgi_scan_max_workers(first));
    if (od_vgi_scan_max_workers(first) > 1 && limit < 0)
        OD_TRY(od_vgi_scan_share(first, &second, err));
    OD_TRY(read_scan(first, "first", limit, err));
    if (second != NULL)
        OD_TRY(read_scan(second, "second", limit, err));
out:
    od_vgi_scan_close(first);
    od_vgi_scan_close(second);
    od_vgi_bound_free(bound);
    return rc;
}

/* A scan that is given up, and one after it by the same session. */
static od_code again(session *s, od_error *err)
{
    char *limit = s->args[4];
    od_code rc = scan(s, err);

    s->args[4] = NULL;
    if (rc != OD_OK)
        printf("first error %s\n", err->message);
    rc = scan(s, err);
    s->args[4] = limit;
    return rc;
}

static od_code versions(session *s, od_error *err)
{
    od_buf transaction = {0};
    od_vgi_context inside = s->context;
    int64_t version;
    od_code rc;

    OD_TRY(od_vgi_catalog_version(s->vgi, &s->context, &version, err));
    OD_TRY(od_vgi_begin(s->vgi, &s->context, &transaction, err));
    printf("version %lld\ntransaction %zu\n", (long long)version, transaction.len);
    inside.transaction = od_slice_of(transaction.data, transaction.len);
    OD_TRY(od_vgi_commit(s->vgi, &inside, err));
    transaction.len = 0;
    OD_TRY(od_vgi_begin(s->vgi, &s->context, &transaction, err));
    inside.transaction = od_slice_of(transaction.data, transaction.len);
    OD_TRY(od_vgi_rollback(s->vgi, &inside, err));
out:
    od_buf_release(&transaction);
    return rc;
}

/* PATH TYPE, of a secret service. */
static od_code secret(session *s, od_error *err)
{
    od_vgi_secret found;
    od_code rc;

    printf("safe %d\n", od_vgi_secret_url_is_safe(s->args[2]));
    rc = od_vgi_lookup_secret(s->vgi, (od_vgi_interrupt){0}, s->args[0], s->args[1], &found, err);
    if (rc != OD_OK)
        return rc;
    printf("found %d type=%.*s provider=%.*s keep=%lld\n", found.found, TEXT(found.secret_type), TEXT(found.provider),
           (long long)od_vgi_secret_keep_seconds(&found, 0));
    if (found.values->array.release != NULL)
        print_schema("values", &found.values->schema);
    od_vgi_answer_free(found.answer);
    return OD_OK;
}

static const struct {
    const char *name;
    int args; /* at least, the catalog included; negative: there is no catalog */
    od_code (*run)(session *s, od_error *err);
} commands[] = {
    {"catalogs", 0, catalogs}, {"attach", 1, attached}, {"schemas", 1, schemas}, {"tables", 2, tables},
    {"table", 3, table},       {"views", 2, views},     {"macros", 2, macros},   {"functions", 2, functions},
    {"branches", 3, branches}, {"scan", 4, scan},       {"again", 4, again},     {"versions", 1, versions},
    {"filter", 6, filter},     {"secret", -3, secret},
};

static void print_log(void *arg, od_slice level, od_slice message)
{
    (void)arg;
    printf("log %.*s %.*s\n", TEXT(level), TEXT(message));
}

static od_code attach(session *s, od_error *err)
{
    od_vgi_attach attach = {.name = s->args[0]};
    od_code rc = od_vgi_attach_catalog(s->vgi, (od_vgi_interrupt){0}, &attach, &s->attached, err);

    s->context.attach = s->attached.opaque;
    return rc;
}

static int64_t env_ms(const char *name)
{
    const char *text = getenv(name);
    return text != NULL ? strtoll(text, NULL, 10) : 0;
}

int main(int argc, char **argv)
{
    session s = {.args = argv + 3};
    od_vgi_options options = {.location = argc > 1 ? argv[1] : "",
                              .log = print_log,
                              .bearer_token = getenv("VGI_TOKEN"),
                              .call_timeout_ms = env_ms("VGI_CALL_MS"),
                              .start_timeout_ms = env_ms("VGI_START_MS")};
    od_error err = {0};
    od_code rc = OD_E_INVALID;

    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; argc > 2 && i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i].name, argv[2]) != 0 || argc - 3 < abs(commands[i].args))
            continue;
        rc = od_vgi_open(&options, &s.vgi, &err);
        if (rc == OD_OK && commands[i].args > 0)
            rc = attach(&s, &err);
        if (rc == OD_OK)
            rc = commands[i].run(&s, &err);
        if (rc == OD_OK && commands[i].args > 0)
            rc = od_vgi_detach_catalog(s.vgi, &s.context, &err);
    }
    if (rc != OD_OK)
        printf("error %s %s\n", od_code_name(rc), err.message);
    od_vgi_answer_free(s.attached.answer);
    od_vgi_unref(s.vgi);
    return rc == OD_OK ? 0 : 1;
}
