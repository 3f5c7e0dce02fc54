#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/option_text.h"
#include "base/options_internal.h"

#include "base/banned.h"

enum { MAX_ITEMS = 1024 }; /* in a list */

od_code od_options_no_memory(od_error *err)
{
    return od_fail(err, OD_E_NO_MEMORY, "out of memory for the options");
}

static void clear_items(od_option_value *value)
{
    for (size_t i = 0; i < value->count; i++)
        od_free(value->items[i]);
    od_free(value->items);
    od_free(value->pairs);
    value->items = NULL;
    value->pairs = NULL;
    value->count = 0;
}

void od_option_value_release(od_option_value *value)
{
    clear_items(value);
    od_free(value->source);
    od_free(value->text);
    od_secret_release(&value->secret);
}

od_slice od_option_trim(od_slice text)
{
    while (text.len > 0 && strchr(" \t\r", text.data[0])) {
        text.data++;
        text.len--;
    }
    while (text.len > 0 && strchr(" \t\r", text.data[text.len - 1]))
        text.len--;
    return text;
}

static od_code bad_value(const od_option_row *row, const char *text, const char *source, od_error *err)
{
    char allowed[256];

    return od_fail(err, OD_E_INVALID, "option '--%s' cannot be '%.200s' (from %s); %s", row->name,
                   row->type == OD_TYPE_SECRET ? "***" : text, source, od_option_allowed(row, allowed, sizeof allowed));
}

static bool read_number(od_option_type type, const char *text, int64_t *out)
{
    switch (type) {
    case OD_TYPE_INT:
        return od_text_int(text, out);
    case OD_TYPE_DURATION:
        return od_text_ms(text, out);
    case OD_TYPE_SIZE:
        return od_text_bytes(text, out);
    case OD_TYPE_BOOL:
    case OD_TYPE_STRING:
    case OD_TYPE_CHOICE:
    case OD_TYPE_LIST:
    case OD_TYPE_PAIRS:
    case OD_TYPE_SECRET:
    default:
        return false;
    }
}

static bool read_number_in_range(const od_option_row *row, const char *text, int64_t *out)
{
    int64_t min = 0;
    int64_t max = 0;

    if (!read_number(row->type, row->min, &min) || !read_number(row->type, row->max, &max))
        OD_BUG("a number without a range in options.def");
    return read_number(row->type, text, out) && *out >= min && *out <= max;
}

/* Whether TEXT is one of "a|b|c". */
static bool is_choice(const char *choices, const char *text)
{
    size_t len = strlen(text);

    if (len == 0 || strchr(text, '|'))
        return false;
    for (const char *at = choices; at; at = strchr(at, '|')) {
        at += *at == '|';
        if (strncmp(at, text, len) == 0 && (at[len] == '|' || at[len] == '\0'))
            return true;
    }
    return false;
}

static od_code set_text(od_option_value *value, const char *text, od_error *err)
{
    char *copy = od_strdup(text);

    if (!copy)
        return od_options_no_memory(err);
    od_free(value->text);
    value->text = copy;
    return OD_OK;
}

/* Appends ITEM, and makes room for a pair if PAIRS. */
static od_code push_item(od_option_value *value, od_slice item, bool pairs, od_error *err)
{
    char **items = od_realloc(value->items, (value->count + 1) * sizeof *items);
    od_option_pair *more;
    char *copy;

    if (!items)
        return od_options_no_memory(err);
    value->items = items;
    if (pairs) {
        more = od_realloc(value->pairs, (value->count + 1) * sizeof *more);
        if (!more)
            return od_options_no_memory(err);
        value->pairs = more;
    }
    copy = od_strndup((const char *)item.data, item.len);
    if (!copy)
        return od_options_no_memory(err);
    items[value->count++] = copy;
    return OD_OK;
}

/* Cuts the item that came last into name and value. false: it is not NAME=PATH, or the name is there already. */
static bool split_pair(od_option_value *value)
{
    size_t last = value->count - 1;
    char *name = value->items[last];
    char *equals = strchr(name, '=');

    if (!equals || equals == name || equals[1] == '\0')
        return false;
    *equals = '\0';
    for (size_t i = 0; i < last; i++) {
        if (strcasecmp(value->pairs[i].name, name) == 0)
            return false;
    }
    value->pairs[last] = (od_option_pair){.name = name, .value = equals + 1};
    return true;
}

static od_code add_item(od_option_value *value, const od_option_row *row, od_slice item, const char *source,
                        od_error *err)
{
    bool pairs = row->type == OD_TYPE_PAIRS;
    char shown[128];
    od_code rc;

    snprintf(shown, sizeof shown, "%.*s", (int)(item.len < sizeof shown ? item.len : sizeof shown),
             item.len ? (const char *)item.data : "");
    if (item.len == 0)
        return bad_value(row, shown, source, err);
    if (value->count == MAX_ITEMS)
        return od_fail(err, OD_E_INVALID, "option '--%s' has more than %d values (from %s)", row->name, MAX_ITEMS,
                       source);
    rc = push_item(value, item, pairs, err);
    if (rc == OD_OK && pairs && !split_pair(value))
        return bad_value(row, shown, source, err);
    return rc;
}

/* Adds the items of TEXT, separated by commas if COMMAS. An empty text has none. */
static od_code add_items(od_option_value *value, const od_option_row *row, const char *text, bool commas,
                         const char *source, od_error *err)
{
    const char *at = text;

    while (*at) {
        size_t len = commas ? strcspn(at, ",") : strlen(at);
        od_code rc = add_item(value, row, od_option_trim(od_slice_of(at, len)), source, err);

        if (rc != OD_OK)
            return rc;
        at += len;
        if (*at == ',' && *++at == '\0')
            return bad_value(row, text, source, err);
    }
    return OD_OK;
}

/* Reads TEXT as ROW's type into VALUE. */
static od_code read_value(od_option_value *value, const od_option_row *row, od_option_level level, const char *source,
                          const char *text, od_error *err)
{
    bool truth;

    switch (row->type) {
    case OD_TYPE_INT:
    case OD_TYPE_DURATION:
    case OD_TYPE_SIZE:
        return read_number_in_range(row, text, &value->number) ? OD_OK : bad_value(row, text, source, err);
    case OD_TYPE_BOOL:
        if (!od_text_bool(text, &truth))
            return bad_value(row, text, source, err);
        value->number = truth;
        return OD_OK;
    case OD_TYPE_CHOICE:
        if (!is_choice(row->value, text))
            return bad_value(row, text, source, err);
        return set_text(value, text, err);
    case OD_TYPE_LIST:
        return add_items(value, row, text, true, source, err);
    case OD_TYPE_PAIRS:
        return add_items(value, row, text, level == OD_LEVEL_VARIABLE, source, err);
    case OD_TYPE_SECRET:
        return od_secret_set(&value->secret, od_slice_str(text), err);
    case OD_TYPE_STRING:
    default:
        return set_text(value, text, err);
    }
}

od_code od_option_value_set(od_options *options, od_option id, od_option_level level, const char *source,
                            const char *text, od_error *err)
{
    od_option_value *value = &options->values[id];
    char *copy = od_strdup(source);

    if (!copy)
        return od_options_no_memory(err);
    if (level > value->level)
        clear_items(value);
    od_free(value->source);
    value->source = copy;
    value->level = level;
    return read_value(value, od_option_row_of(id), level, source, text, err);
}
