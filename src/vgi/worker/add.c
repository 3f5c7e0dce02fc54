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

static bool is_absent(const char *text)
{
    return text == NULL || text[0] == '\0';
}

/* A copy of TEXT at OUT; absent: NULL. */
static od_code keep(const char *text, char **out, od_error *err)
{
    if (is_absent(text))
        return OD_OK;
    *out = od_strdup(text);
    return *out != NULL ? OD_OK : no_memory(err);
}

static od_code keep_all(const char *const *texts, size_t count, char ***out, size_t *kept, od_error *err)
{
    char **copies = od_calloc(count + 1, sizeof *copies);

    if (copies == NULL)
        return no_memory(err);
    *out = copies;
    *kept = count;
    for (size_t i = 0; i < count; i++) {
        copies[i] = od_strdup(texts[i] != NULL ? texts[i] : "");
        if (copies[i] == NULL)
            return no_memory(err);
    }
    return OD_OK;
}

/* Moves ITEM, of SIZE bytes, to the end of LIST. */
static od_code append(vgiw_list *list, const void *item, size_t size, od_error *err)
{
    if (list->count == list->room) {
        size_t room = list->room > 0 ? 2 * list->room : 8;
        void *items = od_realloc(list->items, room * size);

        if (items == NULL)
            return no_memory(err);
        list->items = items;
        list->room = room;
    }
    memcpy((char *)list->items + list->count * size, item, size);
    list->count++;
    return OD_OK;
}

static od_code check_struct(const struct ArrowSchema *schema, const char *what, const char *name, od_error *err)
{
    if (schema == NULL || schema->format == NULL || strcmp(schema->format, "+s") != 0)
        return od_fail(err, OD_E_INVALID, "%s '%s' has no columns", what, name);
    for (int64_t i = 0; i < schema->n_children; i++)
        for (int64_t k = 0; k < i; k++)
            if (schema->children[i]->name == NULL || schema->children[k]->name == NULL ||
                strcasecmp(schema->children[i]->name, schema->children[k]->name) == 0)
                return od_fail(err, OD_E_INVALID, "%s '%s' has two columns of one name", what, name);
    return OD_OK;
}

/* ---- companions, schemas ---- */

static od_code keep_companion(const od_vgiw_companion *from, vgiw_companion *to, od_error *err)
{
    od_code rc;

    to->hidden = from->hidden != 0;
    to->required = from->optional == 0;
    OD_TRY(keep(from->alias, &to->alias, err));
    OD_TRY(keep(from->target, &to->target, err));
    OD_TRY(keep(from->db_type, &to->db_type, err));
    OD_TRY(keep(from->secret_ref, &to->secret_ref, err));
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

    if (is_absent(companion->alias) || is_absent(companion->target))
        OD_TRY(od_fail(&why, OD_E_INVALID, "a companion needs an alias and a target"));
    for (size_t i = 0; i < worker->companions.count; i++)
        if (strcasecmp(all[i].alias, companion->alias) == 0)
            OD_TRY(od_fail(&why, OD_E_EXISTS, "there are two companions '%s'", companion->alias));
    OD_TRY(keep_companion(companion, &copy, &why));
    OD_TRY(append(&worker->companions, &copy, sizeof copy, &why));
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

    if (is_absent(name))
        OD_TRY(od_fail(&why, OD_E_INVALID, "a schema needs a name"));
    if (vgiw_find_schema(worker, name) != NULL)
        OD_TRY(od_fail(&why, OD_E_EXISTS, "there are two schemas '%s'", name));
    OD_TRY(keep(name, &copy.name, &why));
    OD_TRY(keep(comment, &copy.comment, &why));
    OD_TRY(append(&worker->schemas, &copy, sizeof copy, &why));
    return OD_VGIW_OK;
out:
    vgiw_schema_release(&copy);
    return vgiw_fail(err, &why);
}

/* The name of the schema that NAME (NULL: the default) is. */
static od_code resolve_schema(const od_vgiw *worker, const char *name, char **out, od_error *err)
{
    const vgiw_schema *schema = vgiw_find_schema(worker, name != NULL ? name : worker->default_schema);

    return schema != NULL ? keep(schema->name, out, err)
                          : od_fail(err, OD_E_NOT_FOUND, "there is no schema '%s'", name);
}

/* ---- functions ---- */

od_vgiw_code od_vgiw_add_function(od_vgiw *worker, const od_vgiw_function *function, od_vgiw_error *err)
{
    vgiw_function copy = {.call = *function};
    od_error why = {.code = OD_OK};
    od_code rc;

    if (is_absent(function->name))
        OD_TRY(od_fail(&why, OD_E_INVALID, "a function needs a name"));
    if (function->bind == NULL || function->open == NULL || function->next == NULL || function->close == NULL)
        OD_TRY(od_fail(&why, OD_E_INVALID, "function '%s' lacks bind, open, next or close", function->name));
    OD_TRY(resolve_schema(worker, function->schema, &copy.schema, &why));
    if (vgiw_find_function(worker, copy.schema, function->name) != NULL)
        OD_TRY(od_fail(&why, OD_E_EXISTS, "there are two functions '%s' in schema '%s'", function->name, copy.schema));
    OD_TRY(keep(function->name, &copy.name, &why));
    OD_TRY(keep(function->comment, &copy.comment, &why));
    if (function->parameters != NULL) {
        OD_TRY(check_struct(function->parameters, "function", function->name, &why));
        OD_TRY(od_schema_copy(function->parameters, &copy.parameters, &why));
    } else {
        OD_TRY(od_schema_make(&copy.parameters, "", "+s", 0, &why));
    }
    OD_TRY(append(&worker->functions, &copy, sizeof copy, &why));
    return OD_VGIW_OK;
out:
    vgiw_function_release(&copy);
    return vgiw_fail(err, &why);
}

/* ---- tables ---- */

static void keep_borrowed(struct ArrowArray *array)
{
    array->release = NULL;
}

/* VALUES as a stream of one batch. */
static od_code keep_values(const od_vgiw_values *values, od_buf *out, od_error *err)
{
    struct ArrowArray lent = {0};
    od_msg *msg = NULL;
    od_code rc;

    if (values->schema == NULL || values->array == NULL)
        return OD_OK;
    lent = *values->array;
    lent.release = keep_borrowed;
    OD_TRY(od_vgi_batch_write(values->schema, &lent, &msg, err));
    if (msg != NULL)
        OD_TRY(od_buf_append(out, od_msg_data(msg), od_msg_len(msg), err));
out:
    od_msg_unref(msg);
    return rc;
}

static od_code keep_branch(const od_vgiw_branch *from, vgiw_branch *to, od_error *err)
{
    od_code rc;

    if (is_absent(from->source_table) && is_absent(from->format) && is_absent(from->function))
        return od_fail(err, OD_E_INVALID, "a branch is a table, files of a format, or a function");
    if (is_absent(from->source_table) && !is_absent(from->format) && from->location_count == 0)
        return od_fail(err, OD_E_INVALID, "a branch of files has no location");
    OD_TRY(keep(from->source_table, &to->source_table, err));
    OD_TRY(keep(from->source_catalog, &to->source_catalog, err));
    OD_TRY(keep(from->source_schema, &to->source_schema, err));
    OD_TRY(keep(from->format, &to->format, err));
    OD_TRY(keep(from->function, &to->function, err));
    OD_TRY(keep(from->function_schema, &to->function_schema, err));
    OD_TRY(keep(from->filter, &to->filter, err));
    OD_TRY(keep_all(from->locations, from->location_count, &to->locations, &to->location_count, err));
    OD_TRY(keep_values(&from->arguments, &to->arguments, err));
out:
    return rc;
}

static od_code keep_table(const od_vgiw_table *from, vgiw_table *to, od_error *err)
{
    od_code rc;

    OD_TRY(check_struct(from->columns, "table", from->name, err));
    if (from->branch_count == 0)
        OD_TRY(od_fail(err, OD_E_INVALID, "table '%s' has no branch", from->name));
    OD_TRY(keep(from->name, &to->name, err));
    OD_TRY(keep(from->comment, &to->comment, err));
    OD_TRY(od_schema_copy(from->columns, &to->columns, err));
    to->branches = od_calloc(from->branch_count, sizeof *to->branches);
    if (to->branches == NULL)
        return no_memory(err);
    to->branch_count = from->branch_count;
    for (size_t i = 0; i < from->branch_count; i++)
        OD_TRY(keep_branch(&from->branches[i], &to->branches[i], err));
    OD_TRY(keep_all(from->required_extensions, from->extension_count, &to->extensions, &to->extension_count, err));
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

    if (is_absent(table->name))
        OD_TRY(od_fail(&why, OD_E_INVALID, "a table needs a name"));
    OD_TRY(resolve_schema(worker, table->schema, &copy.schema, &why));
    if (vgiw_find_table(worker, copy.schema, table->name) != NULL)
        OD_TRY(od_fail(&why, OD_E_EXISTS, "there are two tables '%s' in schema '%s'", table->name, copy.schema));
    rc = keep_table(table, &copy, &why);
    if (rc != OD_OK)
        od_error_prefix(&why, "table '%s'", table->name);
    if (rc == OD_OK)
        rc = append(&worker->tables, &copy, sizeof copy, &why);
    if (rc == OD_OK)
        return OD_VGIW_OK;
out:
    vgiw_table_release(&copy);
    return vgiw_fail(err, &why);
}
