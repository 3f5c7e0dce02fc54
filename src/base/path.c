#include "base/path.h"

#include <limits.h>
#include <string.h>

#include "base/banned.h"

/* What an error shows of NAME: at most this much, and nothing that a terminal would obey. */
enum { SHOWN_SIZE = 128 };

static const char *shown(od_slice name, char out[SHOWN_SIZE])
{
    size_t len = name.len < SHOWN_SIZE - 1 ? name.len : SHOWN_SIZE - 1;

    for (size_t i = 0; i < len; i++) {
        uint8_t c = name.data[i];
        out[i] = (char)(c < 0x20 || c == 0x7F ? '?' : c);
    }
    out[len] = '\0';
    return out;
}

static const char *component_fault(od_slice part)
{
    if (part.len == 0)
        return "holds an empty component";
    if (part.len > NAME_MAX)
        return "holds a component longer than 255 bytes";
    if (part.data[0] == '.' && part.len == 1)
        return "holds the component '.'";
    if (part.len == 2 && memcmp(part.data, "..", 2) == 0)
        return "holds the component '..'";
    for (size_t i = 0; i < part.len; i++) {
        if (part.data[i] < 0x20 || part.data[i] == 0x7F)
            return "holds a control character";
    }
    return NULL;
}

static const char *name_fault(od_slice name)
{
    size_t from = 0;

    if (name.len == 0)
        return "is empty";
    if (name.data[0] == '/')
        return "is absolute";
    for (size_t i = 0; i <= name.len; i++) {
        const char *fault;

        if (i < name.len && name.data[i] != '/')
            continue;
        fault = component_fault(od_slice_of(name.data + from, i - from));
        if (fault)
            return fault;
        from = i + 1;
    }
    return NULL;
}

od_code od_path_check(od_slice name, od_error *err)
{
    char text[SHOWN_SIZE];
    const char *fault = name_fault(name);

    if (fault)
        return od_fail(err, OD_E_INVALID, "the file name '%s' %s", shown(name, text), fault);
    return OD_OK;
}

od_code od_path_join(od_buf *out, const char *dir, od_slice name, od_error *err)
{
    size_t dir_len = strlen(dir);
    size_t need;
    uint8_t *to;
    od_code rc = od_path_check(name, err);

    if (rc != OD_OK)
        return rc;
    if (dir_len == 0)
        return od_fail(err, OD_E_INVALID, "a path needs a directory");
    while (dir_len > 0 && dir[dir_len - 1] == '/')
        dir_len--;
    if (dir_len >= PATH_MAX || name.len >= PATH_MAX || dir_len + 1 + name.len >= PATH_MAX)
        return od_fail(err, OD_E_INVALID, "the path of %zu bytes is longer than %d", dir_len + 1 + name.len,
                       PATH_MAX - 1);
    need = dir_len + 1 + name.len;
    rc = od_buf_reserve(out, need + 1, err);
    if (rc != OD_OK)
        return rc;
    to = out->data + out->len;
    memcpy(to, dir, dir_len);
    to[dir_len] = '/';
    memcpy(to + dir_len + 1, name.data, name.len);
    to[need] = 0;
    out->len += need;
    return OD_OK;
}
