/* vgi/companion/registry_internal.h: the companions of one DuckDB instance, one at a time. */
#ifndef OD_VGI_COMPANION_REGISTRY_INTERNAL_H
#define OD_VGI_COMPANION_REGISTRY_INTERNAL_H

#include "vgi/companion.h"

static inline const char *family_of(const od_companion_terms *terms)
{
    return terms->family ? terms->family : "VGI";
}

/* A companion in use: what one user holds. Opaque; valid until it is released. */
typedef struct od_companion od_companion;

typedef enum {
    OD_COMPANION_ATTACHED, /* anew, for this user */
    OD_COMPANION_SHARED,   /* it was there, the very same */
    OD_COMPANION_CONFLICT  /* something else has the name; *holder says what */
} od_companion_outcome;

/* Makes the caller a user of what REQUEST (taken in any case, and empty afterwards) asks for. With OD_COMPANION_CONFLICT
 * *out is NULL and HOLDER, which is appended to, names who has the alias. Fails as the host's attach does. */
OD_MUST_CHECK od_code od_companion_acquire(od_companion_registry *registry, const od_companion_host *host,
                                           od_companion_request *request, od_companion **out,
                                           od_companion_outcome *outcome, od_buf *holder, od_error *err);
/* The end of one use. *detached: it was the last, and the database is gone. Fails, and remembers it without a user, if the
 * database cannot be detached now. */
OD_MUST_CHECK od_code od_companion_give_back(od_companion_registry *registry, const od_companion_host *host,
                                             od_companion *companion, bool *detached, od_error *err);
/* The alias; valid while it is in use. */
const char *od_companion_alias(const od_companion *companion);
/* The end of one use in an instance that ends. */
void od_companion_forget(od_companion_registry *registry, od_companion *companion);

#endif
