/* base/secret.h: a secret value that redacts itself: it is wiped when released and never printed. */
#ifndef OD_BASE_SECRET_H
#define OD_BASE_SECRET_H

#include "base/buf.h"

typedef struct {
    char *value; /* NUL-terminated; NULL for none */
    size_t len;
} od_secret;

OD_MUST_CHECK od_code od_secret_set(od_secret *secret, od_slice value, od_error *err);
void od_secret_release(od_secret *secret);
/* Compares in time that depends on neither value nor on how long EXPECTED is: both are hashed (SHA-256) first. */
bool od_secret_equal(const od_secret *expected, od_slice given);
/* "***" for a set secret, "" for an empty one: the only text of it that may be shown. */
const char *od_secret_shown(const od_secret *secret);

#endif
