/* What a worker has: kept, found, and given up. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "arrow/schema.h"
#include "base/alloc.h"
#include "vgi/worker/call.h"
#include "vgi/worker/share.h"

#include "base/banned.h"

/* ---- errors ---- */

od_vgiw_code vgiw_fail(od_vgiw_error *out, const od_error *err)
{
    od_vgiw_code code = OD_VGIW_FAILED;

    switch (err->code) {
    case OD_OK:
        return OD_VGIW_OK;
    case OD_E_INVALID:
        code = OD_VGIW_INVALID;
        break;
    case OD_E_NOT_FOUND:
        code = OD_VGIW_NOT_FOUND;
        break;
    case OD_E_EXISTS:
        code = OD_VGIW_EXISTS;
        break;
    case OD_E_IO:
    case OD_E_CONNECTION_LOST:
    case OD_E_UNAVAILABLE:
        code = OD_VGIW_IO;
        break;
    case OD_E_NO_MEMORY:
        code = OD_VGIW_NO_MEMORY;
        break;
    case OD_E_PROTOCOL:
    case OD_E_CORRUPT:
    case OD_E_TOO_LARGE:
        code = OD_VGIW_PROTOCOL;
        break;
    default:
        break;
    }
    if (out != NULL) {
        out->code = code;
        snprintf(out->message, sizeof out->message, "%s", err->message);
    }
    return code;
}

od_code vgiw_failed(od_error *out, od_vgiw_code code, const od_vgiw_error *err)
{
    const char *text = err->message[0] != '\0' ? err->message : "the worker's function failed";

    switch (code) {
    case OD_VGIW_OK:
        return OD_OK;
    case OD_VGIW_INVALID:
        return od_fail(out, OD_E_INVALID, "%s", text);
    case OD_VGIW_NOT_FOUND:
        return od_fail(out, OD_E_NOT_FOUND, "%s", text);
    case OD_VGIW_EXISTS:
        return od_fail(out, OD_E_EXISTS, "%s", text);
    case OD_VGIW_IO:
        return od_fail(out, OD_E_IO, "%s", text);
    case OD_VGIW_NO_MEMORY:
        return od_fail(out, OD_E_NO_MEMORY, "%s", text);
    case OD_VGIW_PROTOCOL:
    case OD_VGIW_FAILED:
    default:
        return od_fail(out, OD_E_UNKNOWN, "%s", text);
    }
}

/* ---- finding ---- */

static bool named(const char *a, const char *b)
{
    return strcasecmp(a, b) == 0;
}

const vgiw_schema *vgiw_find_schema(const od_vgiw *worker, const char *name)
{
    const vgiw_schema *schemas = worker->schemas.items;

    for (size_t i = 0; i < worker->schemas.count; i++)
        if (named(schemas[i].name, name))
            return &schemas[i];
    return NULL;
}

const vgiw_table *vgiw_find_table(const od_vgiw *worker, const char *schema, const char *name)
{
    const vgiw_table *tables = worker->tables.items;

    for (size_t i = 0; i < worker->tables.count; i++)
        if (named(tables[i].name, name) && named(tables[i].schema, schema))
            return &tables[i];
    return NULL;
}

const vgiw_function *vgiw_find_function(const od_vgiw *worker, const char *schema, const char *name)
{
    const vgiw_function *functions = worker->functions.items, *found = NULL;

    for (size_t i = 0; i < worker->functions.count; i++) {
        if (!named(functions[i].name, name) || (schema != NULL && !named(functions[i].schema, schema)))
            continue;
        if (schema != NULL || named(functions[i].schema, worker->default_schema))
            return &functions[i];
        if (found == NULL)
            found = &functions[i];
    }
    return found;
}

const vgiw_setting *vgiw_find_setting(const vgiw_list *list, const char *name)
{
    const vgiw_setting *settings = list->items;

    for (size_t i = 0; i < list->count; i++)
        if (named(settings[i].name, name))
            return &settings[i];
    return NULL;
}

const vgiw_definition *vgiw_find_definition(const vgiw_list *list, const char *schema, const char *name)
{
    const vgiw_definition *definitions = list->items;

    for (size_t i = 0; i < list->count; i++)
        if (named(definitions[i].name, name) && named(definitions[i].schema, schema))
            return &definitions[i];
    return NULL;
}

/* ---- its life ---- */

static void free_texts(char **texts, size_t count)
{
    for (size_t i = 0; texts != NULL && i < count; i++)
        od_free(texts[i]);
    od_free((void *)texts);
}

void vgiw_texts_release(vgiw_texts *texts)
{
    free_texts(texts->items, texts->count);
    *texts = (vgiw_texts){0};
}

static void release_lists(vgiw_texts *lists, size_t count)
{
    for (size_t i = 0; lists != NULL && i < count; i++)
        vgiw_texts_release(&lists[i]);
    od_free(lists);
}

void vgiw_setting_release(vgiw_setting *setting)
{
    od_free(setting->name);
    od_free(setting->description);
    od_schema_release(&setting->type);
    od_buf_release(&setting->value);
}

void vgiw_definition_release(vgiw_definition *definition)
{
    od_free(definition->schema);
    od_free(definition->name);
    od_free(definition->comment);
    od_free(definition->definition);
    free_texts(definition->parameters, definition->parameter_count);
    od_buf_release(&definition->defaults);
}

void vgiw_companion_release(vgiw_companion *companion)
{
    od_free(companion->alias);
    od_free(companion->target);
    od_free(companion->db_type);
    od_free(companion->secret_ref);
    for (size_t i = 0; companion->options != NULL && i < companion->option_count; i++) {
        od_free((char *)(uintptr_t)companion->options[i].key);
        od_free((char *)(uintptr_t)companion->options[i].value);
    }
    od_free(companion->options);
}

void vgiw_schema_release(vgiw_schema *schema)
{
    od_free(schema->name);
    od_free(schema->comment);
}

void vgiw_function_release(vgiw_function *function)
{
    od_free(function->schema);
    od_free(function->name);
    od_free(function->comment);
    od_schema_release(&function->parameters);
    vgiw_texts_release(&function->settings);
    release_lists(function->secrets, function->call.secret_count);
}

static void branch_release(vgiw_branch *branch)
{
    od_free(branch->source_table);
    od_free(branch->source_catalog);
    od_free(branch->source_schema);
    od_free(branch->format);
    od_free(branch->function);
    od_free(branch->function_schema);
    od_free(branch->filter);
    free_texts(branch->locations, branch->location_count);
    od_buf_release(&branch->arguments);
    od_buf_release(&branch->format_options);
}

void vgiw_table_release(vgiw_table *table)
{
    od_free(table->schema);
    od_free(table->name);
    od_free(table->comment);
    od_free(table->insert);
    od_schema_release(&table->columns);
    od_free(table->primary_key.items);
    for (size_t i = 0; table->unique != NULL && i < table->unique_count; i++)
        od_free(table->unique[i].items);
    od_free(table->unique);
    vgiw_texts_release(&table->checks);
    release_lists(table->required_filters, table->required_filter_count);
    od_free(table->statistics);
    for (size_t i = 0; table->branches != NULL && i < table->branch_count; i++)
        branch_release(&table->branches[i]);
    od_free(table->branches);
    free_texts(table->extensions, table->extension_count);
}

od_vgiw_code od_vgiw_create(const od_vgiw_catalog *catalog, od_vgiw **out, od_vgiw_error *err)
{
    od_error why = {.code = OD_OK};
    od_vgiw *worker = NULL;
    od_code rc = OD_OK;

    *out = NULL;
    if (vgiw_is_absent(catalog->name)) {
        (void)od_fail(&why, OD_E_INVALID, "a catalog needs a name");
        return vgiw_fail(err, &why);
    }
    if (!vgiw_is_absent(catalog->generation) && vgiw_generation(od_slice_str(catalog->generation)) == NULL) {
        (void)od_fail(&why, OD_E_INVALID, "generation '%s' of the protocol is not spoken here", catalog->generation);
        return vgiw_fail(err, &why);
    }
    worker = od_calloc(1, sizeof *worker);
    if (worker == NULL)
        OD_TRY(od_fail(&why, OD_E_NO_MEMORY, "out of memory"));
    worker->stop[0] = worker->stop[1] = -1;
    if (pipe2(worker->stop, O_CLOEXEC | O_NONBLOCK) != 0)
        OD_TRY(od_fail_errno(&why, OD_E_IO, errno, "cannot make a pipe"));
    worker->name = od_strdup(catalog->name);
    worker->comment = od_strdup(catalog->comment);
    worker->secret_service = od_strdup(catalog->secret_service);
    worker->default_schema = od_strdup(catalog->default_schema != NULL ? catalog->default_schema : "main");
    if (worker->name == NULL || worker->default_schema == NULL ||
        (catalog->comment != NULL && worker->comment == NULL) ||
        (catalog->secret_service != NULL && worker->secret_service == NULL))
        OD_TRY(od_fail(&why, OD_E_NO_MEMORY, "out of memory"));
    OD_TRY(vgiw_keep(catalog->generation, &worker->generation, &why));
    OD_TRY(vgiw_shelf_create(vgiw_rows_drop, &worker->kept, &why));
    OD_TRY(vgiw_shares_create(&worker->shares, &why));
    OD_TRY(od_buf_printf(&worker->attach, &why, "openduck:%s", worker->name));
    if (od_vgiw_add_schema(worker, worker->default_schema, NULL, err) != OD_VGIW_OK)
        OD_TRY(od_fail(&why, OD_E_NO_MEMORY, "out of memory"));
    *out = worker;
    worker = NULL;
out:
    od_vgiw_free(worker);
    return rc == OD_OK ? OD_VGIW_OK : vgiw_fail(err, &why);
}

void od_vgiw_stop(od_vgiw *worker)
{
    int before = errno;
    ssize_t ignored = write(worker->stop[1], "", 1); /* a full pipe says so, too */

    (void)ignored;
    errno = before;
}

static void release_settings(const vgiw_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        vgiw_setting_release((vgiw_setting *)list->items + i);
    od_free(list->items);
}

static void release_definitions(const vgiw_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        vgiw_definition_release((vgiw_definition *)list->items + i);
    od_free(list->items);
}

void od_vgiw_free(od_vgiw *worker)
{
    if (worker == NULL)
        return;
    if (worker->stop[0] >= 0) {
        close(worker->stop[0]);
        close(worker->stop[1]);
    }
    vgiw_shelf_free(worker->kept);
    vgiw_shares_free(worker->shares);
    for (size_t i = 0; i < worker->companions.count; i++)
        vgiw_companion_release((vgiw_companion *)worker->companions.items + i);
    for (size_t i = 0; i < worker->schemas.count; i++)
        vgiw_schema_release((vgiw_schema *)worker->schemas.items + i);
    for (size_t i = 0; i < worker->functions.count; i++)
        vgiw_function_release((vgiw_function *)worker->functions.items + i);
    for (size_t i = 0; i < worker->tables.count; i++)
        vgiw_table_release((vgiw_table *)worker->tables.items + i);
    od_free(worker->companions.items);
    od_free(worker->schemas.items);
    od_free(worker->functions.items);
    od_free(worker->tables.items);
    release_settings(&worker->options);
    release_settings(&worker->settings);
    release_settings(&worker->secret_types);
    release_definitions(&worker->views);
    release_definitions(&worker->macros);
    od_buf_release(&worker->attach);
    od_free(worker->name);
    od_free(worker->comment);
    od_free(worker->default_schema);
    od_free(worker->secret_service);
    od_free(worker->generation);
    od_free(worker);
}
