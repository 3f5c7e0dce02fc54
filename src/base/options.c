#include "base/options.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/options_internal.h"

#include "base/banned.h"

/* A flag as it was met, in order; TEXT is borrowed from argv. */
typedef struct {
    od_option id;
    const char *text;
} given_flag;

typedef struct {
    given_flag *flags;
    size_t count;
} given_flags;

void od_options_free(od_options *options)
{
    if (!options)
        return;
    for (int i = 0; i < OD_OPT_COUNT; i++)
        od_option_value_release(&options->values[i]);
    for (size_t i = 0; i < options->arg_count; i++)
        od_free(options->args[i]);
    od_free(options->args);
    od_free(options);
}

static od_code unknown_flag(unsigned command, od_slice name, od_error *err)
{
    const char *command_name = od_command_row_of(command)->name;
    const char *suggestion = od_option_suggest(command, name);
    int shown = (int)(name.len < 64 ? name.len : 64);
    char takers[128];

    if (od_option_takers(name, takers, sizeof takers)[0])
        return od_fail(err, OD_E_INVALID, "'%s' does not take option '--%.*s', which is for %s", command_name, shown,
                       (const char *)name.data, takers);
    if (suggestion)
        return od_fail(err, OD_E_INVALID, "unknown option '--%.*s'; did you mean '--%s'?", shown,
                       (const char *)name.data, suggestion);
    return od_fail(err, OD_E_INVALID, "unknown option '--%.*s'; 'openduck %s --help' lists them", shown,
                   (const char *)name.data, command_name);
}

static od_code add_arg(od_options *options, const char *text, od_error *err)
{
    char **args = od_realloc(options->args, (options->arg_count + 1) * sizeof *args);
    char *copy;

    if (!args)
        return od_options_no_memory(err);
    options->args = args;
    copy = od_strdup(text);
    if (!copy)
        return od_options_no_memory(err);
    args[options->arg_count++] = copy;
    return OD_OK;
}

/* Reads the flag at argv[*at], and its value, which may be the next argument. */
static od_code read_flag(od_options *options, int argc, char *const *argv, int *at, given_flags *given, od_error *err)
{
    const char *text = argv[*at] + 2;
    size_t len = strcspn(text, "=");
    od_slice name = od_slice_of(text, len);
    od_option id = od_option_find(options->command, name, true);
    const char *value = NULL;

    if (id == OD_OPT_COUNT)
        return unknown_flag(options->command, name, err);
    if (text[len] == '=')
        value = text + len + 1;
    else if (od_option_row_of(id)->type == OD_TYPE_BOOL)
        value = "true";
    else if (*at + 1 < argc && strncmp(argv[*at + 1], "--", 2) != 0)
        value = argv[++*at];
    else
        return od_fail(err, OD_E_INVALID, "option '--%.*s' needs a value: %s", (int)len, text,
                       od_option_row_of(id)->value);
    given->flags[given->count++] = (given_flag){.id = id, .text = value};
    return OD_OK;
}

/* Sorts the arguments into flags and positional ones. */
static od_code read_argv(od_options *options, int argc, char *const *argv, given_flags *given, od_error *err)
{
    bool flags_over = false;

    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i];
        od_code rc;

        if (flags_over || arg[0] != '-' || arg[1] == '\0') {
            rc = add_arg(options, arg, err);
        } else if (strcmp(arg, "--") == 0) {
            flags_over = true;
            continue;
        } else if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            options->help_wanted = true;
            return OD_OK;
        } else if (arg[1] != '-') {
            /* Only the letter: what follows may be a value that nobody should see. */
            rc = od_fail(err, OD_E_INVALID, "unknown option '-%c'; options are long, as in '--listen'", arg[1]);
        } else {
            rc = read_flag(options, argc, argv, &i, given, err);
        }
        if (rc != OD_OK)
            return rc;
    }
    return OD_OK;
}

static od_code check_arg_count(const od_options *options, od_error *err)
{
    const od_command_row *row = od_command_row_of(options->command);

    if (options->arg_count < (size_t)row->least)
        return od_fail(err, OD_E_INVALID, "'openduck %s' needs an argument: %s", row->name, row->arguments);
    if (row->most != OD_ANY_NUMBER && options->arg_count > (size_t)row->most)
        return od_fail(err, OD_E_INVALID, "'openduck %s' takes %d argument%s, not %zu", row->name, row->most,
                       row->most == 1 ? "" : "s", options->arg_count);
    return OD_OK;
}

static const char *last_flag(const given_flags *given, od_option id)
{
    for (size_t i = given->count; i > 0; i--) {
        if (given->flags[i - 1].id == id)
            return given->flags[i - 1].text;
    }
    return NULL;
}

static od_code take_defaults(od_options *options, od_error *err)
{
    for (int i = 0; i < OD_OPT_COUNT; i++) {
        const od_option_row *row = od_option_row_of((od_option)i);
        od_code rc;

        if (row->type == OD_TYPE_SECRET)
            continue;
        rc = od_option_value_set(options, (od_option)i, OD_LEVEL_DEFAULT, "the default", row->fallback, err);
        if (rc != OD_OK)
            return rc;
    }
    return OD_OK;
}

static const char *variable_of(const od_options *options, od_option id, od_env_fn env)
{
    const od_option_row *row = od_option_row_of(id);
    const char *text;

    if (!env || !row->variable[0] || !(row->commands & options->command))
        return NULL;
    text = env(row->variable);
    return text && text[0] ? text : NULL;
}

static od_code take_variables(od_options *options, od_env_fn env, const given_flags *given, od_error *err)
{
    for (int i = 0; i < OD_OPT_COUNT; i++) {
        od_option id = (od_option)i;
        const char *text = last_flag(given, id) ? NULL : variable_of(options, id, env);
        char source[96];
        od_code rc;

        if (!text)
            continue;
        snprintf(source, sizeof source, "the variable %s", od_option_row_of(id)->variable);
        rc = od_option_value_set(options, id, OD_LEVEL_VARIABLE, source, text, err);
        if (rc != OD_OK)
            return rc;
    }
    return OD_OK;
}

static od_code take_all(od_options *options, const given_flags *given, od_env_fn env, od_error *err)
{
    const char *path = last_flag(given, OD_OPT_CONFIG);
    od_code rc;

    OD_TRY(take_defaults(options, err));
    if (!path)
        path = variable_of(options, OD_OPT_CONFIG, env);
    if (path)
        OD_TRY(od_options_take_file(options, path, err));
    OD_TRY(take_variables(options, env, given, err));
    for (size_t i = 0; i < given->count; i++)
        OD_TRY(od_option_value_set(options, given->flags[i].id, OD_LEVEL_FLAG, "the command line", given->flags[i].text,
                                   err));
    rc = check_arg_count(options, err);

out:
    return rc;
}

od_code od_options_parse(unsigned command, int argc, char *const *argv, od_env_fn env, od_options **out, od_error *err)
{
    od_options *options = NULL;
    given_flags given = {0};
    od_code rc;

    *out = NULL;
    od_command_row_of(command);
    options = od_calloc(1, sizeof *options);
    given.flags = od_calloc(argc > 0 ? (size_t)argc : 0, sizeof *given.flags);
    if (!options || !given.flags) {
        rc = od_options_no_memory(err);
        goto out;
    }
    options->command = command;
    OD_TRY(read_argv(options, argc, argv, &given, err));
    if (!options->help_wanted)
        OD_TRY(take_all(options, &given, env, err));
    *out = options;
    options = NULL;

out:
    od_free(given.flags);
    od_options_free(options);
    return rc;
}

static const od_option_value *value_of(const od_options *options, od_option id, od_option_type type)
{
    const od_option_row *row = od_option_row_of(id);

    if (row->type != type || !(row->commands & options->command) || options->help_wanted)
        OD_BUG("an option read as what it is not, or by a command that does not take it");
    return &options->values[id];
}

bool od_options_help_wanted(const od_options *options)
{
    return options->help_wanted;
}

const char *od_options_str(const od_options *options, od_option id)
{
    bool choice = od_option_row_of(id)->type == OD_TYPE_CHOICE;

    return value_of(options, id, choice ? OD_TYPE_CHOICE : OD_TYPE_STRING)->text;
}

int64_t od_options_int(const od_options *options, od_option id)
{
    return value_of(options, id, OD_TYPE_INT)->number;
}

int64_t od_options_ms(const od_options *options, od_option id)
{
    return value_of(options, id, OD_TYPE_DURATION)->number;
}

size_t od_options_size(const od_options *options, od_option id)
{
    return (size_t)value_of(options, id, OD_TYPE_SIZE)->number;
}

bool od_options_bool(const od_options *options, od_option id)
{
    return value_of(options, id, OD_TYPE_BOOL)->number != 0;
}

const od_secret *od_options_secret(const od_options *options, od_option id)
{
    return &value_of(options, id, OD_TYPE_SECRET)->secret;
}

const char *const *od_options_list(const od_options *options, od_option id, size_t *count)
{
    const od_option_value *value = value_of(options, id, OD_TYPE_LIST);

    *count = value->count;
    return (const char *const *)value->items;
}

const od_option_pair *od_options_pairs(const od_options *options, od_option id, size_t *count)
{
    const od_option_value *value = value_of(options, id, OD_TYPE_PAIRS);

    *count = value->count;
    return value->pairs;
}

const char *const *od_options_args(const od_options *options, size_t *count)
{
    *count = options->arg_count;
    return (const char *const *)options->args;
}

bool od_options_given(const od_options *options, od_option id)
{
    return options->values[id].level > OD_LEVEL_DEFAULT;
}

const char *od_options_source(const od_options *options, od_option id)
{
    const char *source = options->values[id].source;

    return source ? source : "the default";
}

static bool same_items(const od_option_value *a, const od_option_value *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        if (strcmp(a->items[i], b->items[i]) != 0)
            return false;
        if (a->pairs && strcmp(a->pairs[i].value, b->pairs[i].value) != 0)
            return false;
    }
    return true;
}

static bool same_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

bool od_options_same(const od_options *a, const od_options *b, od_option id)
{
    const od_option_value *x = &a->values[id];
    const od_option_value *y = &b->values[id];

    return x->number == y->number && same_text(x->text, y->text) && same_text(x->secret.value, y->secret.value) &&
           same_items(x, y);
}

od_code od_options_reject(const od_options *options, od_option id, const char *why, od_error *err)
{
    const od_option_row *row = od_option_row_of(id);
    const od_option_value *value = &options->values[id];
    const char *text = value->text ? value->text : "";
    char number[32];

    if (row->type == OD_TYPE_INT || row->type == OD_TYPE_DURATION || row->type == OD_TYPE_SIZE) {
        snprintf(number, sizeof number, "%lld", (long long)value->number);
        text = number;
    } else if (row->type == OD_TYPE_SECRET) {
        text = od_secret_shown(&value->secret);
    } else if (row->type == OD_TYPE_BOOL) {
        text = value->number ? "true" : "false";
    } else if (value->count > 0) {
        text = value->items[0];
    }
    return od_fail(err, OD_E_INVALID, "option '--%s' cannot be '%.200s' (from %s); %s", row->name, text,
                   od_options_source(options, id), why);
}
