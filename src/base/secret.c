#include "base/secret.h"

#include <string.h>

#include "base/alloc.h"
#include "base/sha256.h"

#include "base/banned.h"

od_code od_secret_set(od_secret *secret, od_slice value, od_error *err)
{
    char *copy;
    size_t size;

    if (value.len > 0 && memchr(value.data, 0, value.len))
        return od_fail(err, OD_E_INVALID, "a secret holds a NUL byte");
    if (!od_add_size(value.len, 1, &size))
        return od_fail(err, OD_E_TOO_LARGE, "a secret is too long");
    copy = od_alloc(size);
    if (!copy)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a secret");
    if (value.len > 0)
        memcpy(copy, value.data, value.len);
    copy[value.len] = '\0';
    od_secret_release(secret);
    secret->value = copy;
    secret->len = value.len;
    return OD_OK;
}

void od_secret_release(od_secret *secret)
{
    if (!secret)
        return;
    if (secret->value)
        explicit_bzero(secret->value, secret->len);
    od_free(secret->value);
    *secret = (od_secret){0};
}

bool od_secret_equal(const od_secret *expected, od_slice given)
{
    uint8_t a[OD_SHA256_SIZE];
    uint8_t b[OD_SHA256_SIZE];
    unsigned differs = 0;

    od_sha256_of(od_slice_of(expected->value, expected->len), a);
    od_sha256_of(given, b);
    for (int i = 0; i < OD_SHA256_SIZE; i++)
        differs |= (unsigned)(a[i] ^ b[i]);
    explicit_bzero(a, sizeof a);
    explicit_bzero(b, sizeof b);
    /* No secret at all equals nothing, not even the empty text. */
    return differs == 0 && expected->value != NULL;
}

const char *od_secret_shown(const od_secret *secret)
{
    return secret && secret->value && secret->len > 0 ? "***" : "";
}
