#include "storage/store/files.h"

#include <string.h>

#include "base/alloc.h"
#include "openduck/storage.h"

#include "base/banned.h"

static void free_file(od_logical_file *file)
{
    od_extent_map_clear(&file->all);
    od_extent_map_clear(&file->own);
    od_free(file);
}

void od_files_release(od_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        free_file(files->list[i]);
    od_free(files->list);
    *files = (od_files){0};
}

od_logical_file *od_files_get(const od_files *files, uint64_t id)
{
    size_t low = 0;
    size_t high = files->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (files->list[middle]->id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < files->count && files->list[low]->id == id ? files->list[low] : NULL;
}

od_logical_file *od_files_named(const od_files *files, const char *name)
{
    for (size_t i = 0; i < files->count; i++)
        if (strcmp(files->list[i]->name, name) == 0)
            return files->list[i];
    return NULL;
}

uint64_t od_files_next(const od_files *files)
{
    return files->next + 1;
}

/* A file with an id above all others. */
static od_code add(od_files *files, uint64_t id, const char *name, size_t len, od_logical_file **out, od_error *err)
{
    od_logical_file *file;

    if (files->count == files->cap) {
        size_t cap = files->cap * 2 + 8;
        od_logical_file **grown = od_realloc(files->list, cap * sizeof(od_logical_file *));

        if (grown == NULL)
            return od_fail(err, OD_E_NO_MEMORY, "no memory for a file");
        files->list = grown;
        files->cap = cap;
    }
    file = od_calloc(1, sizeof *file);
    if (file == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "no memory for a file");
    file->id = id;
    file->cut = OD_NO_FLOOR;
    memcpy(file->name, name, len);
    files->list[files->count++] = file;
    if (id > files->next)
        files->next = id;
    *out = file;
    return OD_OK;
}

static void drop(od_files *files, od_logical_file *file)
{
    for (size_t i = 0; i < files->count; i++)
        if (files->list[i] == file) {
            memmove(&files->list[i], &files->list[i + 1], (files->count - i - 1) * sizeof(od_logical_file *));
            files->count--;
            break;
        }
    free_file(file);
}

static od_code put(od_logical_file *file, const od_extent *extent, od_error *err)
{
    od_code rc = od_extent_map_reserve(&file->all, err);

    if (rc == OD_OK)
        rc = od_extent_map_put(&file->own, extent, err);
    if (rc == OD_OK)
        rc = od_extent_map_put(&file->all, extent, err);
    return rc;
}

static od_code write_data(od_logical_file *file, uint32_t layer, uint64_t position, const od_record *record,
                          od_error *err)
{
    od_extent extent = {.offset = record->offset,
                        .position = position,
                        .length = record->length,
                        .record = record->length,
                        .layer = layer};
    od_code rc;

    if (record->length == 0 || record->offset > OD_STORAGE_SIZE_MAX - record->length)
        return od_fail(err, OD_E_INVALID, "data for bytes that no file can have");
    rc = put(file, &extent, err);
    if (rc == OD_OK && file->size < record->offset + record->length)
        file->size = record->offset + record->length;
    return rc;
}

static od_code truncate_file(od_logical_file *file, const od_record *record, od_error *err)
{
    if (record->offset > OD_STORAGE_SIZE_MAX)
        return od_fail(err, OD_E_INVALID, "a size that no file can have");
    od_extent_map_cut(&file->all, record->offset);
    od_extent_map_cut(&file->own, record->offset);
    file->size = record->offset;
    if (record->offset < file->floor)
        file->floor = record->offset;
    return OD_OK;
}

static bool name_fits(const od_record *record, const void *payload)
{
    return record->length > 0 && record->length <= OD_FILE_NAME_MAX && memchr(payload, '\0', record->length) == NULL;
}

static od_code create_file(od_files *files, const od_record *record, const void *payload, od_error *err)
{
    od_logical_file *file;
    char name[OD_FILE_NAME_MAX + 1] = "";

    if (!name_fits(record, payload) || record->file <= files->next)
        return od_fail(err, OD_E_INVALID, "a new file without a good name or id");
    memcpy(name, payload, record->length);
    if (od_files_named(files, name) != NULL)
        return od_fail(err, OD_E_INVALID, "a new file with a name that is taken");
    return add(files, record->file, name, record->length, &file, err);
}

static od_code rename_file(od_files *files, od_logical_file *file, const od_record *record, const void *payload,
                           od_error *err)
{
    char name[OD_FILE_NAME_MAX + 1] = "";
    od_logical_file *other;

    if (!name_fits(record, payload))
        return od_fail(err, OD_E_INVALID, "a name that is not good");
    memcpy(name, payload, record->length);
    other = od_files_named(files, name);
    if (other != NULL && other != file)
        drop(files, other);
    memcpy(file->name, name, sizeof name);
    return OD_OK;
}

od_code od_files_apply(od_files *files, uint32_t layer, uint64_t position, const od_record *record, const void *payload,
                       od_error *err)
{
    od_logical_file *file = od_files_get(files, record->file);

    if (record->kind == OD_RECORD_SYNC)
        return OD_OK;
    if (record->kind == OD_RECORD_CREATE)
        return create_file(files, record, payload, err);
    if (file == NULL)
        return od_fail(err, OD_E_INVALID, "a change of a file that is not there");
    switch (record->kind) {
    case OD_RECORD_DATA:
        return write_data(file, layer, position, record, err);
    case OD_RECORD_TRUNCATE:
        return truncate_file(file, record, err);
    case OD_RECORD_RENAME:
        return rename_file(files, file, record, payload, err);
    default:
        drop(files, file);
        return OD_OK;
    }
}

static bool in_footer(const od_footer *footer, uint64_t id)
{
    size_t low = 0;
    size_t high = footer->file_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (footer->files[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < footer->file_count && footer->files[low].id == id;
}

static od_code merge_file(od_files *files, const od_footer_file *from, od_error *err)
{
    od_logical_file *file = od_files_get(files, from->id);

    if (from->size > OD_STORAGE_SIZE_MAX || from->name[0] == '\0')
        return od_fail(err, OD_E_INVALID, "a file that cannot be");
    if (file == NULL) {
        od_code rc;

        if (from->id <= files->next)
            return od_fail(err, OD_E_INVALID, "a file that had been removed");
        rc = add(files, from->id, from->name, strlen(from->name), &file, err);
        if (rc != OD_OK)
            return rc;
    }
    od_extent_map_cut(&file->all, from->floor);
    if (from->floor < file->cut)
        file->cut = from->floor;
    file->size = from->size;
    memcpy(file->name, from->name, sizeof file->name);
    return OD_OK;
}

static od_code merge_extents(od_files *files, uint32_t layer, const od_footer *footer, uint64_t records, od_error *err)
{
    od_logical_file *file = NULL;

    for (size_t i = 0; i < footer->extent_count; i++) {
        const od_footer_extent *from = &footer->extents[i];
        od_extent extent = {.offset = from->offset,
                            .position = from->position,
                            .length = from->length,
                            .skip = from->skip,
                            .record = from->record,
                            .layer = layer};
        od_code rc;

        if (file == NULL || file->id != from->file)
            file = od_files_get(files, from->file);
        if (file == NULL || from->length == 0 || from->record > OD_RECORD_MAX || from->length > from->record ||
            from->skip > from->record - from->length || from->length > file->size ||
            from->offset > file->size - from->length || from->position >= records)
            return od_fail(err, OD_E_INVALID, "an extent that no file has");
        rc = od_extent_map_put(&file->all, &extent, err);
        if (rc != OD_OK)
            return rc;
    }
    return OD_OK;
}

od_code od_files_merge(od_files *files, uint32_t layer, const od_footer *footer, uint64_t records, od_error *err)
{
    od_code rc = OD_OK;

    for (size_t i = 0; i < files->count;) {
        if (in_footer(footer, files->list[i]->id))
            i++;
        else
            drop(files, files->list[i]);
    }
    for (size_t i = 0; rc == OD_OK && i < footer->file_count; i++)
        rc = merge_file(files, &footer->files[i], err);
    if (rc == OD_OK)
        rc = merge_extents(files, layer, footer, records, err);
    if (rc == OD_OK && footer->next_file > files->next)
        files->next = footer->next_file - 1;
    od_files_settle(files);
    return rc;
}

void od_files_settle(od_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        od_extent_map_clear(&files->list[i]->own);
        files->list[i]->floor = OD_NO_FLOOR;
    }
}

static void list_extents(const od_logical_file *file, od_footer *out)
{
    uint64_t at = 0;
    od_extent extent;

    for (; od_extent_map_find(&file->own, at, &extent); at = extent.offset + extent.length)
        out->extents[out->extent_count++] = (od_footer_extent){.file = file->id,
                                                               .offset = extent.offset,
                                                               .position = extent.position,
                                                               .length = extent.length,
                                                               .skip = extent.skip,
                                                               .record = extent.record};
}

od_code od_files_footer(const od_files *files, od_footer *out, od_error *err)
{
    size_t extents = 0;

    for (size_t i = 0; i < files->count; i++)
        extents += files->list[i]->own.count;
    *out = (od_footer){.next_file = od_files_next(files)};
    out->files = od_calloc(files->count, sizeof *out->files);
    out->extents = od_calloc(extents, sizeof *out->extents);
    if (out->files == NULL || out->extents == NULL) {
        od_footer_release(out);
        return od_fail(err, OD_E_NO_MEMORY, "no memory for the index of a segment");
    }
    for (size_t i = 0; i < files->count; i++) {
        const od_logical_file *file = files->list[i];
        od_footer_file *to = &out->files[out->file_count++];

        to->id = file->id;
        to->size = file->size;
        to->floor = file->floor;
        memcpy(to->name, file->name, sizeof to->name);
        list_extents(file, out);
    }
    return OD_OK;
}
