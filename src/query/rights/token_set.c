/* A set of tokens, by their digests. */
#include <string.h>

#include "base/alloc.h"
#include "query/rights/rights_internal.h"
#include "base/banned.h"

token_set *token_set_new(void)
{
    token_set *set = od_calloc(1, sizeof *set);

    if (set)
        atomic_init(&set->refs, 1);
    return set;
}

void token_set_unref(token_set *set)
{
    if (!set || atomic_fetch_sub_explicit(&set->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < set->count; i++)
        od_rights_unref(set->list[i].rights);
    od_free(set->list);
    od_free(set);
}

od_code token_set_add(token_set *set, const uint8_t *digest, od_rights *rights, int line, od_error *err)
{
    token_entry *more = od_realloc(set->list, (set->count + 1) * sizeof *more);

    if (more)
        set->list = more;
    if (!more || !rights) {
        od_rights_unref(rights);
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for tokens");
    }
    memcpy(more[set->count].digest, digest, OD_SHA256_SIZE);
    more[set->count].rights = rights;
    more[set->count].line = line;
    set->count++;
    return OD_OK;
}

const token_entry *token_set_find(const token_set *set, const uint8_t *digest)
{
    size_t found = 0; /* 1 + the index, without a branch on what matches */

    for (size_t i = 0; i < set->count; i++) {
        unsigned differs = 0;
        size_t mask;

        for (size_t j = 0; j < OD_SHA256_SIZE; j++)
            differs |= (unsigned)(set->list[i].digest[j] ^ digest[j]);
        mask = (size_t)0 - ((differs - 1U) >> 31); /* all ones where nothing differs */
        found |= mask & (i + 1);
    }
    return found > 0 ? &set->list[found - 1] : NULL;
}

const token_entry *token_set_named(const token_set *set, const char *name)
{
    for (size_t i = 0; i < set->count; i++) {
        if (strcmp(set->list[i].rights->name, name) == 0)
            return &set->list[i];
    }
    return NULL;
}
