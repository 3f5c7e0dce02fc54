#include <string.h>

#include "base/options_internal.h"

#include "base/banned.h"

/* Option names are shorter; a longer one is like none of them. */
enum { NAME_LIMIT = 32 };

typedef struct {
    const char *name;
    od_option id;
    unsigned commands;
} alias_row;

static const od_option_row option_rows[OD_OPT_COUNT] = {
#define OD_OPTION(id, name, variable, type, fallback, min, max, reloadable, commands, value, help) \
    [OD_OPT_##id] = {name, variable, fallback, min, max, value, help, OD_TYPE_##type, commands, reloadable},
#include "base/options.def"
#undef OD_OPTION
};

static const od_command_row command_rows[] = {
#define OD_COMMAND(id, name, arguments, least, most, purpose, example) \
    {OD_CMD_##id, least, most, name, arguments, purpose, example},
#include "base/options.def"
#undef OD_COMMAND
};

static const alias_row alias_rows[] = {
#define OD_OPTION_ALIAS(name, id, commands) {name, OD_OPT_##id, commands},
#include "base/options.def"
#undef OD_OPTION_ALIAS
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const od_option_row *od_option_row_of(od_option id)
{
    if ((unsigned)id >= OD_OPT_COUNT)
        OD_BUG("an option outside the table");
    return &option_rows[id];
}

const od_command_row *od_command_row_of(unsigned command)
{
    for (size_t i = 0; i < COUNT(command_rows); i++) {
        if (command_rows[i].bit == command)
            return &command_rows[i];
    }
    OD_BUG("a command outside the table");
}

unsigned od_command_find(const char *name)
{
    for (size_t i = 0; i < COUNT(command_rows); i++) {
        if (strcmp(command_rows[i].name, name) == 0)
            return command_rows[i].bit;
    }
    return 0;
}

const char *od_option_name(od_option id)
{
    return od_option_row_of(id)->name;
}

bool od_option_reloadable(od_option id)
{
    return od_option_row_of(id)->reloadable;
}

od_option od_option_find(unsigned commands, od_slice name, bool aliases)
{
    for (int i = 0; i < OD_OPT_COUNT; i++) {
        if ((option_rows[i].commands & commands) && od_slice_equal(name, od_slice_str(option_rows[i].name)))
            return (od_option)i;
    }
    for (size_t i = 0; aliases && i < COUNT(alias_rows); i++) {
        if ((alias_rows[i].commands & commands) && od_slice_equal(name, od_slice_str(alias_rows[i].name)))
            return alias_rows[i].id;
    }
    return OD_OPT_COUNT;
}

static int least_of(int a, int b, int c)
{
    int ab = a < b ? a : b;

    return ab < c ? ab : c;
}

/* Insertions, deletions, replacements and swaps of neighbours that make A of B (optimal string alignment). Both are
 * shorter than NAME_LIMIT. */
static int edit_distance(od_slice a, od_slice b)
{
    int d[NAME_LIMIT + 1][NAME_LIMIT + 1];

    for (size_t i = 0; i <= a.len; i++)
        d[i][0] = (int)i;
    for (size_t j = 0; j <= b.len; j++)
        d[0][j] = (int)j;
    for (size_t i = 1; i <= a.len; i++) {
        for (size_t j = 1; j <= b.len; j++) {
            int change = a.data[i - 1] != b.data[j - 1];

            d[i][j] = least_of(d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change);
            if (i > 1 && j > 1 && a.data[i - 1] == b.data[j - 2] && a.data[i - 2] == b.data[j - 1] &&
                d[i - 2][j - 2] + 1 < d[i][j])
                d[i][j] = d[i - 2][j - 2] + 1;
        }
    }
    return d[a.len][b.len];
}

/* How unlike NAME is to the option CANDIDATE; a beginning of it is nearly like it. */
static int unlikeness(od_slice name, const char *candidate)
{
    od_slice other = od_slice_str(candidate);

    if (other.len >= NAME_LIMIT)
        return NAME_LIMIT;
    if (name.len >= 3 && other.len > name.len && memcmp(name.data, other.data, name.len) == 0)
        return 1;
    return edit_distance(name, other);
}

const char *od_option_suggest(unsigned commands, od_slice name)
{
    const char *best = NULL;
    int best_distance = 1 + (int)(name.len / 3);

    if (name.len == 0 || name.len >= NAME_LIMIT)
        return NULL;
    for (int i = 0; i < OD_OPT_COUNT; i++) {
        int distance;

        if (!(option_rows[i].commands & commands))
            continue;
        distance = unlikeness(name, option_rows[i].name);
        if (distance < best_distance || (!best && distance == best_distance)) {
            best = option_rows[i].name;
            best_distance = distance;
        }
    }
    return best;
}

const char *od_option_takers(od_slice name, char *out, size_t size)
{
    size_t len = 0;

    out[0] = '\0';
    for (size_t i = 0; i < COUNT(command_rows); i++) {
        int n;

        if (od_option_find(command_rows[i].bit, name, true) == OD_OPT_COUNT)
            continue;
        n = snprintf(out + len, size - len, "%s%s", len ? ", " : "", command_rows[i].name);
        if (n < 0 || (size_t)n >= size - len)
            break;
        len += (size_t)n;
    }
    return out;
}

const char *od_option_allowed(const od_option_row *row, char *out, size_t size)
{
    switch (row->type) {
    case OD_TYPE_INT:
        snprintf(out, size, "allowed are %s to %s", row->min, row->max);
        break;
    case OD_TYPE_DURATION:
        snprintf(out, size, "allowed are %s to %s, as in 500ms, 5s, 2m, 1h", row->min, row->max);
        break;
    case OD_TYPE_SIZE:
        snprintf(out, size, "allowed are %s to %s, as in 512KiB, 4MiB", row->min, row->max);
        break;
    case OD_TYPE_BOOL:
        snprintf(out, size, "allowed are true and false");
        break;
    case OD_TYPE_CHOICE:
        snprintf(out, size, "allowed are %s", row->value);
        break;
    case OD_TYPE_PAIRS:
        snprintf(out, size, "allowed is %s, each name once", row->value);
        break;
    case OD_TYPE_STRING:
    case OD_TYPE_LIST:
    case OD_TYPE_SECRET:
    default:
        snprintf(out, size, "allowed is %s", row->value);
        break;
    }
    return out;
}

static void print_option(const od_option_row *row, FILE *out)
{
    bool truth = row->type == OD_TYPE_BOOL;
    bool fallback = row->fallback[0] && !truth;

    fprintf(out, "  --%s%s%s", row->name, truth ? "" : " ", truth ? "" : row->value);
    if (fallback || row->variable[0])
        fprintf(out, "  (%s%s%s%s%s)", fallback ? "default " : "", fallback ? row->fallback : "",
                fallback && row->variable[0] ? ", " : "", row->variable[0] ? "variable " : "", row->variable);
    fprintf(out, "\n        %s\n", row->help);
}

void od_options_print_help(unsigned command, FILE *out)
{
    const od_command_row *row = od_command_row_of(command);

    fprintf(out, "openduck %s: %s\n\nusage: openduck %s [options]%s%s\n\noptions:\n", row->name, row->purpose,
            row->name, row->arguments[0] ? " " : "", row->arguments);
    for (int i = 0; i < OD_OPT_COUNT; i++) {
        if (option_rows[i].commands & command)
            print_option(&option_rows[i], out);
    }
    for (size_t i = 0; i < COUNT(alias_rows); i++) {
        if (alias_rows[i].commands & command)
            fprintf(out, "  --%s %s\n        the same as --%s\n", alias_rows[i].name,
                    option_rows[alias_rows[i].id].value, option_rows[alias_rows[i].id].name);
    }
    fprintf(out, "  --help, -h\n        show this\n\nexample:\n  %s\n", row->example);
}

void od_options_print_commands(FILE *out)
{
    for (size_t i = 0; i < COUNT(command_rows); i++)
        fprintf(out, "  %-10s %s\n", command_rows[i].name, command_rows[i].purpose);
}
