/* Sending a file away, and making sure that it arrived. */
#include <string.h>

#include "base/alloc.h"
#include "base/sha256.h"
#include "storage/tier/tier.h"

#include "base/banned.h"

#define BACK_BYTES (4U << 20) /* that are read back at once */

typedef struct {
    od_tier *tier;
    void *file;
    od_code (*alive)(void *arg, od_error *err);
    void *arg;
    od_sha256 sha;
} sending;

static od_code give(void *arg, uint64_t at, void *out, size_t len, od_error *err)
{
    sending *s = arg;
    const od_io *io = s->tier->below;
    size_t got = 0;
    od_code rc = s->alive(s->arg, err);
    int why = rc == OD_OK ? io->read(s->file, at, out, len, &got) : 0;

    if (rc != OD_OK)
        return rc;
    if (why != 0)
        return od_fail_errno(err, OD_E_IO, why, "cannot read what is to be sent");
    if (got < len)
        return od_fail(err, OD_E_CORRUPT, "what is to be sent ends at byte %llu", (unsigned long long)(at + got));
    od_sha256_update(&s->sha, od_slice_of(out, len));
    return OD_OK;
}

static od_code read_back(const sending *s, const char *name, uint64_t length, uint8_t digest[OD_SHA256_SIZE],
                         od_error *err)
{
    uint8_t *bytes = od_alloc(BACK_BYTES);
    od_sha256 sha;
    uint64_t size = 0;
    od_code rc = bytes != NULL ? od_blob_size(s->tier->blob, name, &size, err)
                               : od_fail(err, OD_E_NO_MEMORY, "no memory to read back what was sent");

    od_sha256_init(&sha);
    if (rc == OD_OK && size != length)
        rc = od_fail(err, OD_E_CORRUPT, "'%s/%s' has %llu bytes, not %llu", od_tier_url(s->tier), name,
                     (unsigned long long)size, (unsigned long long)length);
    for (uint64_t at = 0; rc == OD_OK && at < length;) {
        size_t len = length - at < BACK_BYTES ? (size_t)(length - at) : BACK_BYTES;

        rc = s->alive(s->arg, err);
        if (rc == OD_OK)
            rc = od_blob_read(s->tier->blob, name, at, bytes, len, err);
        if (rc == OD_OK)
            od_sha256_update(&sha, od_slice_of(bytes, len));
        at += len;
    }
    od_sha256_finish(&sha, digest);
    od_free(bytes);
    return rc;
}

od_code od_tier_send(od_tier *tier, const char *path, uint64_t length, od_code (*alive)(void *arg, od_error *err),
                     void *arg, od_error *err)
{
    sending s = {.tier = tier, .alive = alive, .arg = arg};
    const char *name = tier_name(path);
    uint8_t sent[OD_SHA256_SIZE];
    uint8_t back[OD_SHA256_SIZE];
    od_code rc;
    int why;

    if (name == NULL)
        return od_fail(err, OD_E_INVALID, "the name of '%s' is too long", path);
    why = tier->below->open(tier->below->ctx, path, OD_IO_READ, &s.file);
    if (why != 0)
        return od_fail_errno(err, OD_E_IO, why, "cannot open '%s'", path);
    od_sha256_init(&s.sha);
    rc = od_blob_put(tier->blob, name, length, give, &s, err);
    tier->below->close(s.file);
    od_sha256_finish(&s.sha, sent);
    if (rc != OD_OK)
        return rc;
    rc = read_back(&s, name, length, back, err);
    if (rc == OD_OK && memcmp(sent, back, sizeof sent) != 0)
        rc = od_fail(err, OD_E_CORRUPT, "other bytes come back from '%s/%s' than were sent", od_tier_url(tier), name);
    if (rc == OD_E_CORRUPT)
        (void)!od_blob_remove(tier->blob, name, NULL);
    return rc;
}

od_code od_tier_remove(od_tier *tier, const char *path, od_error *err)
{
    const char *name = tier_name(path);

    return name != NULL ? od_blob_remove(tier->blob, name, err) : OD_OK;
}

bool od_tier_is_near(const od_tier *tier, const char *path)
{
    void *file = NULL;

    if (tier->below->open(tier->below->ctx, path, OD_IO_READ, &file) != 0)
        return false;
    tier->below->close(file);
    return true;
}

od_code od_tier_check(od_tier *tier, const char *path, uint64_t length, od_error *err)
{
    const char *name = tier_name(path);
    uint64_t size = 0;
    od_code rc = name != NULL ? od_blob_size(tier->blob, name, &size, err)
                              : od_fail(err, OD_E_INVALID, "the name of '%s' is too long", path);

    if (rc == OD_OK && size != length)
        rc = od_fail(err, OD_E_CORRUPT, "'%s/%s' has %llu bytes, not %llu", od_tier_url(tier), name,
                     (unsigned long long)size, (unsigned long long)length);
    return rc;
}
