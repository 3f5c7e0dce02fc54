#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/options_internal.h"

#include "base/banned.h"

enum { MAX_FILE_SIZE = 1024 * 1024 };

static od_code read_file(const char *path, od_buf *out, od_error *err)
{
    FILE *file = fopen(path, "re");
    od_code rc;

    if (!file) {
        int errnum = errno;

        return od_fail_errno(err, errnum == ENOENT ? OD_E_NOT_FOUND : OD_E_IO, errnum, "cannot open '%s'", path);
    }
    do {
        size_t n;

        rc = od_buf_reserve(out, 4096, err);
        if (rc != OD_OK)
            break;
        n = fread(out->data + out->len, 1, 4096, file);
        out->len += n;
        if (out->len > MAX_FILE_SIZE)
            rc = od_fail(err, OD_E_INVALID, "the file '%s' is larger than 1 MiB", path);
    } while (rc == OD_OK && !feof(file) && !ferror(file));
    if (rc == OD_OK && ferror(file))
        rc = od_fail_errno(err, OD_E_IO, errno, "cannot read '%s'", path);
    fclose(file);
    if (rc == OD_OK && out->len > 0 && memchr(out->data, 0, out->len))
        rc = od_fail(err, OD_E_INVALID, "the file '%s' holds a NUL byte", path);
    return rc;
}

static od_code unknown_name(od_slice name, const char *where, od_error *err)
{
    const char *suggestion = od_option_suggest(OD_ALL_COMMANDS, name);
    int shown = (int)(name.len < 64 ? name.len : 64);

    return od_fail(err, OD_E_INVALID, "%s: unknown option '%.*s'%s%s%s", where, shown, (const char *)name.data,
                   suggestion ? "; did you mean '" : "", suggestion ? suggestion : "", suggestion ? "'?" : "");
}

/* Takes one line, which VALUE ends with a NUL. */
static od_code take_pair(od_options *options, od_slice name, const char *value, const char *where, od_error *err)
{
    od_option id = od_option_find(options->command, name, false);
    od_option_type type;

    if (id == OD_OPT_COUNT)
        return od_option_find(OD_ALL_COMMANDS, name, false) == OD_OPT_COUNT ? unknown_name(name, where, err) : OD_OK;
    if (id == OD_OPT_CONFIG)
        return od_fail(err, OD_E_INVALID, "%s: a file cannot name another with 'config'", where);
    type = od_option_row_of(id)->type;
    if (options->values[id].level == OD_LEVEL_FILE && type != OD_TYPE_LIST && type != OD_TYPE_PAIRS)
        return od_fail(err, OD_E_INVALID, "%s: option '%s' is there for the second time; the first is %s", where,
                       od_option_name(id), options->values[id].source);
    return od_option_value_set(options, id, OD_LEVEL_FILE, where, value, err);
}

static od_code take_line(od_options *options, od_slice line, const char *where, od_error *err)
{
    const uint8_t *equals;
    od_slice name;
    od_slice text;
    char *value;
    od_code rc;

    line = od_option_trim(line);
    if (line.len == 0 || line.data[0] == '#')
        return OD_OK;
    equals = memchr(line.data, '=', line.len);
    if (!equals)
        return od_fail(err, OD_E_INVALID, "%s: a line is 'name = value'", where);
    name = od_option_trim(od_slice_of(line.data, (size_t)(equals - line.data)));
    text = od_option_trim(od_slice_of(equals + 1, line.len - (size_t)(equals + 1 - line.data)));
    if (text.len >= 2 && text.data[0] == '"' && text.data[text.len - 1] == '"')
        text = od_slice_of(text.data + 1, text.len - 2);
    value = od_strndup((const char *)text.data, text.len);
    if (!value)
        return od_options_no_memory(err);
    rc = take_pair(options, name, value, where, err);
    explicit_bzero(value, text.len);
    od_free(value);
    return rc;
}

od_code od_options_take_file(od_options *options, const char *path, od_error *err)
{
    od_buf content = {0};
    od_buf where = {0};
    od_slice rest;
    od_code rc;

    OD_TRY(read_file(path, &content, err));
    rest = od_slice_of(content.data, content.len);
    for (int line = 1; rest.len > 0; line++) {
        const uint8_t *end = memchr(rest.data, '\n', rest.len);
        size_t len = end ? (size_t)(end - rest.data) : rest.len;

        where.len = 0;
        OD_TRY(od_buf_printf(&where, err, "%s:%d", path, line));
        OD_TRY(take_line(options, od_slice_of(rest.data, len), od_buf_cstr(&where), err));
        len += end != NULL;
        rest = od_slice_of(rest.data + len, rest.len - len);
    }

out:
    /* It may have held a token. */
    if (content.data)
        explicit_bzero(content.data, content.cap);
    od_buf_release(&content);
    od_buf_release(&where);
    return rc;
}
