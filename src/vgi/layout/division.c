#include "vgi/layout.h"

#include <string.h>
#include <strings.h>

#include "base/banned.h"

static const char split_mark[] = "{split}";

bool od_layout_has_companion(const od_layout *layout, const char *alias)
{
    for (size_t i = 0; i < OD_LAYOUT_COUNT(layout->companions, od_layout_companion); i++)
        if (strcasecmp(OD_LAYOUT_AT(layout->companions, od_layout_companion, i)->alias, alias) == 0)
            return true;
    return false;
}

od_code od_layout_split_query(const od_layout_table *table, od_buf *out, od_error *err)
{
    return od_buf_printf(
        out, err,
        "SELECT 'CAST(''' || replace(v::VARCHAR, '''', '''''') || ''' AS ' || typeof(v) || ')' AS answer "
        "FROM (SELECT (%s) AS v)",
        table->split);
}

od_code od_layout_condition(const char *where, const char *split, od_buf *out, od_error *err)
{
    od_code rc = OD_OK;

    for (const char *mark; where != NULL && (mark = strstr(where, split_mark)) != NULL;
         where = mark + strlen(split_mark)) {
        OD_TRY(od_buf_append(out, where, (size_t)(mark - where), err));
        OD_TRY(od_buf_append(out, split, strlen(split), err));
    }
    if (where != NULL)
        OD_TRY(od_buf_append(out, where, strlen(where), err));
out:
    return rc;
}
