/* What is added to a worker belongs to whoever adds it: these are the copies. */
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

bool vgiw_is_absent(const char *text)
{
    return text == NULL || text[0] == '\0';
}

od_code vgiw_keep(const char *text, char **out, od_error *err)
{
    if (vgiw_is_absent(text))
        return OD_OK;
    *out = od_strdup(text);
    return *out != NULL ? OD_OK : no_memory(err);
}

od_code vgiw_keep_all(const char *const *texts, size_t count, char ***out, size_t *kept, od_error *err)
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

od_code vgiw_append(vgiw_list *list, const void *item, size_t size, od_error *err)
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

od_code vgiw_check_struct(const struct ArrowSchema *schema, const char *what, const char *name, od_error *err)
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

static void keep_borrowed(struct ArrowArray *array)
{
    array->release = NULL;
}

od_code vgiw_keep_values(const od_vgiw_values *values, od_buf *out, od_error *err)
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

od_code vgiw_resolve_schema(const od_vgiw *worker, const char *name, char **out, od_error *err)
{
    const vgiw_schema *schema = vgiw_find_schema(worker, name != NULL ? name : worker->default_schema);

    return schema != NULL ? vgiw_keep(schema->name, out, err)
                          : od_fail(err, OD_E_NOT_FOUND, "there is no schema '%s'", name);
}
