#include "storage/blob.h"

#include <string.h>

#include "base/alloc.h"
#include "storage/blob/kinds.h"

#include "base/banned.h"

struct od_blob {
    const blob_kind *kind;
    void *place;
    char *url;
};

od_code od_blob_open(const od_blob_place *place, od_blob **out, od_error *err)
{
    bool s3 = strncmp(place->url, "s3://", 5) == 0;
    od_blob *blob = od_calloc(1, sizeof *blob);
    od_code rc;

    if (blob == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "no memory for an object store");
    blob->kind = s3 ? &blob_s3 : &blob_directory;
    blob->url = od_strdup(place->url);
    if (blob->url == NULL) {
        rc = od_fail(err, OD_E_NO_MEMORY, "no memory for an object store");
        goto out;
    }
    for (size_t len = strlen(blob->url); len > 1 && blob->url[len - 1] == '/'; len--)
        blob->url[len - 1] = '\0';
    if (!s3 && strstr(place->url, "://") != NULL)
        rc = od_fail(err, OD_E_INVALID, "'%s' is no place for layers: it is s3://BUCKET/PREFIX, or a directory",
                     place->url);
    else
        rc = s3 ? blob_s3_open(place, &blob->place, err) : blob_directory_open(blob->url, &blob->place, err);
    if (rc == OD_OK) {
        *out = blob;
        blob = NULL;
    }

out:
    od_blob_close(blob);
    return rc;
}

void od_blob_close(od_blob *blob)
{
    if (blob == NULL)
        return;
    if (blob->place != NULL)
        blob->kind->close(blob->place);
    od_free(blob->url);
    od_free(blob);
}

const char *od_blob_url(const od_blob *blob)
{
    return blob->url;
}

/* RC, with the name of the blob before its text. */
static od_code named(const od_blob *blob, const char *name, const char *what, od_code rc, od_error *err)
{
    if (rc != OD_OK)
        od_error_prefix(err, "cannot %s '%s/%s'", what, blob->url, name);
    return rc;
}

od_code od_blob_put(od_blob *blob, const char *name, uint64_t size, od_blob_source source, void *arg, od_error *err)
{
    return named(blob, name, "write", blob->kind->put(blob->place, name, size, source, arg, err), err);
}

od_code od_blob_read(od_blob *blob, const char *name, uint64_t at, void *out, size_t len, od_error *err)
{
    return named(blob, name, "read", len > 0 ? blob->kind->read(blob->place, name, at, out, len, err) : OD_OK, err);
}

od_code od_blob_size(od_blob *blob, const char *name, uint64_t *out, od_error *err)
{
    return named(blob, name, "look for", blob->kind->size(blob->place, name, out, err), err);
}

od_code od_blob_remove(od_blob *blob, const char *name, od_error *err)
{
    return named(blob, name, "remove", blob->kind->remove(blob->place, name, err), err);
}
