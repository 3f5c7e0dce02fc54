/* The logical files of a volume, and where their bytes are. Not thread-safe: the volume locks. */
#ifndef OD_STORAGE_STORE_FILES_H
#define OD_STORAGE_STORE_FILES_H

#include "storage/extent.h"
#include "storage/segment.h"

#define OD_NO_FLOOR UINT64_MAX

typedef struct {
    uint64_t id;
    uint64_t size;
    uint64_t floor; /* as in the footer of a segment */
    uint64_t cut;   /* the lowest floor of all footers that were merged */
    char name[OD_FILE_NAME_MAX + 1];
    od_extent_map all; /* of all layers */
    od_extent_map own; /* those of the active one, for its footer: a seal must not look at the others */
} od_logical_file;

/* Zero-initialise. */
typedef struct {
    od_logical_file **list; /* by id */
    size_t count;
    size_t cap;
    uint64_t next; /* id - 1 of the next file */
} od_files;

void od_files_release(od_files *files);
od_logical_file *od_files_get(const od_files *files, uint64_t id); /* NULL: there is none */
od_logical_file *od_files_named(const od_files *files, const char *name);
uint64_t od_files_next(const od_files *files); /* the id that a new file gets */

/* Does what RECORD says, which stands at POSITION of layer number LAYER. Wholly or not at all:
 *   OD_E_INVALID     it makes no sense here; from a file that is damage
 *   OD_E_NO_MEMORY */
OD_MUST_CHECK od_code od_files_apply(od_files *files, uint32_t layer, uint64_t position, const od_record *record,
                                     const void *payload, od_error *err);
/* Puts what the footer of layer number LAYER says over what is there. On failure FILES are good for nothing but release. */
OD_MUST_CHECK od_code od_files_merge(od_files *files, uint32_t layer, const od_footer *footer, uint64_t records,
                                     od_error *err);
/* The active layer has ended: the next one holds nothing yet. */
void od_files_settle(od_files *files);
/* Files, extents and next id of the active layer for its footer; released with od_footer_release. */
OD_MUST_CHECK od_code od_files_footer(const od_files *files, od_footer *out, od_error *err);

#endif
