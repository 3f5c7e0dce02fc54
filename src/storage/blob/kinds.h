/* The kinds of places, behind storage/blob.h. Names and ranges have been checked. */
#ifndef OD_STORAGE_BLOB_KINDS_H
#define OD_STORAGE_BLOB_KINDS_H

#include "storage/blob.h"

typedef struct {
    od_code (*put)(void *place, const char *name, uint64_t size, od_blob_source source, void *arg, od_error *err);
    od_code (*read)(void *place, const char *name, uint64_t at, void *out, size_t len, od_error *err);
    od_code (*size)(void *place, const char *name, uint64_t *out, od_error *err);
    od_code (*remove)(void *place, const char *name, od_error *err);
    void (*close)(void *place);
} blob_kind;

extern const blob_kind blob_directory;
OD_MUST_CHECK od_code blob_directory_open(const char *path, void **out, od_error *err);
extern const blob_kind blob_s3;
OD_MUST_CHECK od_code blob_s3_open(const od_blob_place *place, void **out, od_error *err);

#endif
