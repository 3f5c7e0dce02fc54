#include "vgi/layout/layout_internal.h"

#include <string.h>

#include "base/alloc.h"
#include "base/banned.h"

od_code layout_copy(const char *text, char **out, od_error *err)
{
    *out = od_strdup(text);
    return *out != NULL ? OD_OK : od_fail(err, OD_E_NO_MEMORY, "out of memory");
}

od_code layout_add_text(od_buf *list, const char *text, od_error *err)
{
    char *own;
    od_code rc = layout_copy(text, &own, err);

    if (rc == OD_OK)
        rc = od_buf_append(list, (const void *)&own, sizeof(char *), err);
    if (rc != OD_OK)
        od_free(own);
    return rc;
}

od_code layout_add_item(od_buf *list, size_t size, void *out, od_error *err)
{
    od_code rc = od_buf_reserve(list, size, err);

    if (rc != OD_OK)
        return rc;
    memset(list->data + list->len, 0, size);
    *(void **)out = list->data + list->len;
    list->len += size;
    return OD_OK;
}
