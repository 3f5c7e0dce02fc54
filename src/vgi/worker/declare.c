/* What a worker declares beside tables and functions. */
#include <string.h>
#include <strings.h>

#include "arrow/schema.h"
#include "base/alloc.h"
#include "vgi/worker/worker_internal.h"

#include "base/banned.h"

/* ---- options, settings, types of secrets ---- */

static void keep_borrowed(struct ArrowArray *array)
{
    array->release = NULL;
}

/* The value of FROM, in a struct of the one field TYPE. */
static od_code keep_value(const od_vgiw_setting *from, vgiw_setting *to, od_error *err)
{
    const void *buffers[1] = {NULL};
    struct ArrowArray lent, *children[1] = {&lent};
    struct ArrowArray row = {.length = 1,
                             .n_buffers = 1,
                             .n_children = 1,
                             .buffers = buffers,
                             .children = children,
                             .release = keep_borrowed};
    const od_vgiw_values values = {&to->type, &row};

    if (from->value == NULL)
        return OD_OK;
    if (from->value->length != 1)
        return od_fail(err, OD_E_INVALID, "'%s' has %lld values", from->name, (long long)from->value->length);
    lent = *from->value;
    lent.release = keep_borrowed;
    return vgiw_keep_values(&values, &to->value, err);
}

static od_code keep_setting(const od_vgiw_setting *from, vgiw_setting *to, od_error *err)
{
    od_code rc;

    to->required = from->required != 0;
    to->secret = from->secret != 0;
    OD_TRY(vgiw_keep(from->name, &to->name, err));
    OD_TRY(vgiw_keep(from->description, &to->description, err));
    OD_TRY(od_schema_make(&to->type, "", "+s", 1, err));
    OD_TRY(od_schema_copy(from->type, to->type.children[0], err));
    OD_TRY(od_schema_rename(to->type.children[0], "value", err));
    OD_TRY(keep_value(from, to, err));
out:
    return rc;
}

/* To LIST; WHAT is for the error. */
static od_vgiw_code add_setting(vgiw_list *list, const char *what, const od_vgiw_setting *setting, od_vgiw_error *err)
{
    vgiw_setting copy = {0};
    od_error why = {.code = OD_OK};
    od_code rc;

    if (vgiw_is_absent(setting->name) || setting->type == NULL || setting->type->format == NULL)
        OD_TRY(od_fail(&why, OD_E_INVALID, "%s needs a name and a type", what));
    if (vgiw_find_setting(list, setting->name) != NULL)
        OD_TRY(od_fail(&why, OD_E_EXISTS, "there is %s '%s' already", what, setting->name));
    OD_TRY(keep_setting(setting, &copy, &why));
    OD_TRY(vgiw_append(list, &copy, sizeof copy, &why));
    return OD_VGIW_OK;
out:
    vgiw_setting_release(&copy);
    return vgiw_fail(err, &why);
}

od_vgiw_code od_vgiw_add_option(od_vgiw *worker, const od_vgiw_setting *option, od_vgiw_error *err)
{
    return add_setting(&worker->options, "an option", option, err);
}

od_vgiw_code od_vgiw_add_setting(od_vgiw *worker, const od_vgiw_setting *setting, od_vgiw_error *err)
{
    return add_setting(&worker->settings, "a setting", setting, err);
}

od_vgiw_code od_vgiw_add_secret_type(od_vgiw *worker, const char *name, const char *description,
                                     const struct ArrowSchema *keys, od_vgiw_error *err)
{
    vgiw_setting copy = {0};
    od_error why = {.code = OD_OK};
    od_code rc;

    if (vgiw_is_absent(name))
        OD_TRY(od_fail(&why, OD_E_INVALID, "a type of secrets needs a name"));
    if (vgiw_find_setting(&worker->secret_types, name) != NULL)
        OD_TRY(od_fail(&why, OD_E_EXISTS, "there is a type of secrets '%s' already", name));
    OD_TRY(vgiw_check_struct(keys, "type of secrets", name, &why));
    OD_TRY(vgiw_keep(name, &copy.name, &why));
    OD_TRY(vgiw_keep(description, &copy.description, &why));
    OD_TRY(od_schema_copy(keys, &copy.type, &why));
    OD_TRY(vgiw_append(&worker->secret_types, &copy, sizeof copy, &why));
    return OD_VGIW_OK;
out:
    vgiw_setting_release(&copy);
    return vgiw_fail(err, &why);
}

/* ---- transactions ---- */

od_vgiw_code od_vgiw_set_transactions(od_vgiw *worker, const od_vgiw_transactions *transactions, od_vgiw_error *err)
{
    od_error why = {.code = OD_OK};

    if (transactions->begin == NULL || transactions->commit == NULL || transactions->rollback == NULL)
        (void)od_fail(&why, OD_E_INVALID, "transactions lack begin, commit or rollback");
    else if (worker->has_transactions)
        (void)od_fail(&why, OD_E_EXISTS, "there are transactions already");
    if (why.code != OD_OK)
        return vgiw_fail(err, &why);
    worker->transactions = *transactions;
    worker->has_transactions = true;
    return OD_VGIW_OK;
}

/* ---- views, macros ---- */

/* What both have. */
static od_code keep_definition(const od_vgiw *worker, const vgiw_list *list, const char *what, const od_vgiw_view *from,
                               vgiw_definition *to, od_error *err)
{
    od_code rc;

    if (vgiw_is_absent(from->name) || vgiw_is_absent(from->definition))
        return od_fail(err, OD_E_INVALID, "%s needs a name and a definition", what);
    OD_TRY(vgiw_resolve_schema(worker, from->schema, &to->schema, err));
    if (vgiw_find_definition(list, to->schema, from->name) != NULL)
        return od_fail(err, OD_E_EXISTS, "there is %s '%s' in schema '%s' already", what, from->name, to->schema);
    OD_TRY(vgiw_keep(from->name, &to->name, err));
    OD_TRY(vgiw_keep(from->comment, &to->comment, err));
    OD_TRY(vgiw_keep(from->definition, &to->definition, err));
out:
    return rc;
}

od_vgiw_code od_vgiw_add_view(od_vgiw *worker, const od_vgiw_view *view, od_vgiw_error *err)
{
    vgiw_definition copy = {0};
    od_error why = {.code = OD_OK};
    od_code rc;

    OD_TRY(keep_definition(worker, &worker->views, "a view", view, &copy, &why));
    OD_TRY(vgiw_append(&worker->views, &copy, sizeof copy, &why));
    return OD_VGIW_OK;
out:
    vgiw_definition_release(&copy);
    return vgiw_fail(err, &why);
}

od_vgiw_code od_vgiw_add_macro(od_vgiw *worker, const od_vgiw_macro *macro, od_vgiw_error *err)
{
    const od_vgiw_view common = {macro->schema, macro->name, macro->comment, macro->definition};
    vgiw_definition copy = {.table = macro->table != 0};
    od_error why = {.code = OD_OK};
    od_code rc;

    OD_TRY(keep_definition(worker, &worker->macros, "a macro", &common, &copy, &why));
    OD_TRY(vgiw_keep_all(macro->parameters, macro->parameter_count, &copy.parameters, &copy.parameter_count, &why));
    OD_TRY(vgiw_keep_values(&macro->defaults, &copy.defaults, &why));
    OD_TRY(vgiw_append(&worker->macros, &copy, sizeof copy, &why));
    return OD_VGIW_OK;
out:
    vgiw_definition_release(&copy);
    return vgiw_fail(err, &why);
}
