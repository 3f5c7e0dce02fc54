#include "base/option_text.h"

#include <string.h>
#include <strings.h>

#include "base/banned.h"

typedef struct {
    const char *name;
    int64_t factor;
} text_unit;

/* Reads digits. Returns what follows them, NULL for none or too many. */
static const char *read_digits(const char *text, int64_t *out)
{
    const char *at = text;
    int64_t value = 0;

    for (; *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *at - '0', &value))
            return NULL;
    }
    if (at == text)
        return NULL;
    *out = value;
    return at;
}

bool od_text_int(const char *text, int64_t *out)
{
    bool negative = text[0] == '-';
    int64_t value;
    const char *rest = read_digits(text + negative, &value);

    if (!rest || *rest)
        return false;
    *out = negative ? -value : value;
    return true;
}

static bool read_with_unit(const char *text, const text_unit *units, int64_t *out)
{
    int64_t value;
    const char *rest = read_digits(text, &value);

    if (!rest)
        return false;
    for (const text_unit *unit = units; unit->name; unit++) {
        if (strcasecmp(rest, unit->name) == 0)
            return !__builtin_mul_overflow(value, unit->factor, out);
    }
    return false;
}

bool od_text_ms(const char *text, int64_t *out)
{
    static const text_unit units[] = {{"", 1},        {"ms", 1},       {"s", 1000}, {"m", 60000},
                                      {"h", 3600000}, {"d", 86400000}, {NULL, 0}};
    int64_t value;

    if (!read_with_unit(text, units, &value))
        return false;
    *out = value;
    return true;
}

bool od_text_bytes(const char *text, int64_t *out)
{
    static const text_unit units[] = {{"", 1},
                                      {"B", 1},
                                      {"KiB", INT64_C(1) << 10},
                                      {"MiB", INT64_C(1) << 20},
                                      {"GiB", INT64_C(1) << 30},
                                      {"TiB", INT64_C(1) << 40},
                                      {"kB", 1000},
                                      {"MB", 1000000},
                                      {"GB", 1000000000},
                                      {"TB", 1000000000000},
                                      {NULL, 0}};
    int64_t value;

    if (!read_with_unit(text, units, &value))
        return false;
    *out = value;
    return true;
}

bool od_text_bool(const char *text, bool *out)
{
    static const char *const yes[] = {"true", "on", "yes", "1"};
    static const char *const no[] = {"false", "off", "no", "0"};

    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        if (strcasecmp(text, yes[i]) == 0) {
            *out = true;
            return true;
        }
        if (strcasecmp(text, no[i]) == 0) {
            *out = false;
            return true;
        }
    }
    return false;
}
