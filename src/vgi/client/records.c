#include "vgi/client/records_internal.h"

#include <stdalign.h>
#include <string.h>

#include "arrow/schema.h"
#include "base/alloc.h"

#include "base/banned.h"

enum { BLOCK = 4096 };

typedef struct block {
    struct block *next;
    size_t used, size;
    alignas(max_align_t) uint8_t bytes[];
} block;

/* What has to be released, and lies in a block. */
typedef struct owned {
    struct owned *next;
    struct ArrowSchema *schema;
    struct ArrowArray *array;
} owned;

struct od_vgi_answer {
    block *blocks; /* the one in use first */
    owned *owned;
    size_t total;
};

od_code od_vgi_answer_create(od_vgi_answer **out, od_error *err)
{
    *out = od_calloc(1, sizeof **out);
    return *out != NULL ? OD_OK : od_fail(err, OD_E_NO_MEMORY, "out of memory");
}

void od_vgi_answer_free(od_vgi_answer *answer)
{
    if (answer == NULL)
        return;
    for (owned *o = answer->owned; o != NULL; o = o->next) {
        if (o->schema != NULL && o->schema->release != NULL)
            o->schema->release(o->schema);
        if (o->array != NULL && o->array->release != NULL)
            o->array->release(o->array);
    }
    for (block *b = answer->blocks, *next; b != NULL; b = next) {
        next = b->next;
        od_free(b);
    }
    od_free(answer);
}

static od_code grab(od_vgi_answer *answer, size_t size, void **out, od_error *err)
{
    block *b = answer->blocks;

    if (size > OD_VGI_MAX_ANSWER - answer->total)
        return od_fail(err, OD_E_TOO_LARGE, "the worker's answer takes more than %zu MiB", OD_VGI_MAX_ANSWER >> 20);
    size = (size + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
    if (b == NULL || b->size - b->used < size) {
        size_t room = size > BLOCK ? size : BLOCK;

        b = od_calloc(1, sizeof *b + room);
        if (b == NULL)
            return od_fail(err, OD_E_NO_MEMORY, "out of memory");
        b->size = room;
        b->next = answer->blocks;
        answer->blocks = b;
    }
    *out = b->bytes + b->used;
    b->used += size;
    answer->total += size < OD_VGI_MAX_ANSWER - answer->total ? size : OD_VGI_MAX_ANSWER - answer->total;
    return OD_OK;
}

od_code od_vgi_answer_alloc(od_vgi_answer *answer, int64_t n, size_t size, void *out, od_error *err)
{
    void *at = NULL;
    size_t total;

    if (n < 0 || !od_mul_size((size_t)n, size, &total))
        return od_fail(err, OD_E_TOO_LARGE, "the worker's answer has too many items");
    od_code rc = grab(answer, total, &at, err);
    memcpy(out, (const void *)&at, sizeof at);
    return rc;
}

/* ---- values ---- */

od_code od_vgi_answer_text(od_vgi_answer *answer, od_cell cell, od_slice *out, od_error *err)
{
    od_slice bytes;
    uint8_t *copy = NULL;
    od_code rc = od_cell_bytes(cell, &bytes, err);

    *out = (od_slice){NULL, 0};
    if (rc != OD_OK || bytes.data == NULL)
        return rc;
    rc = od_vgi_answer_alloc(answer, (int64_t)bytes.len + 1, 1, (void *)&copy, err);
    if (rc != OD_OK || copy == NULL)
        return rc;
    memcpy(copy, bytes.data, bytes.len);
    *out = od_slice_of(copy, bytes.len);
    return OD_OK;
}

od_code od_vgi_answer_texts(od_vgi_answer *answer, od_cell cell, od_vgi_texts *out, od_error *err)
{
    od_slice *items = NULL;
    int64_t n;
    od_code rc;

    *out = (od_vgi_texts){0};
    OD_TRY(od_cell_count(cell, &n, err));
    if (n == 0)
        return OD_OK;
    OD_TRY(od_vgi_answer_alloc(answer, n, sizeof *items, (void *)&items, err));
    for (int64_t i = 0; i < n; i++)
        OD_TRY(od_vgi_answer_text(answer, od_cell_item(cell, i), &items[i], err));
    *out = (od_vgi_texts){(size_t)n, items};
out:
    return rc;
}

od_code od_vgi_answer_pairs(od_vgi_answer *answer, od_cell cell, od_vgi_pairs *out, od_error *err)
{
    od_vgi_pair *items = NULL;
    int64_t n;
    od_code rc;

    *out = (od_vgi_pairs){0};
    OD_TRY(od_cell_count(cell, &n, err));
    if (n == 0)
        return OD_OK;
    OD_TRY(od_vgi_answer_alloc(answer, n, sizeof *items, (void *)&items, err));
    for (int64_t i = 0; i < n; i++) {
        od_cell item = od_cell_item(cell, i);

        OD_TRY(od_vgi_answer_text(answer, od_cell_key(item), &items[i].key, err));
        OD_TRY(od_vgi_answer_text(answer, od_cell_value(item), &items[i].value, err));
    }
    *out = (od_vgi_pairs){(size_t)n, items};
out:
    return rc;
}

/* Both lie in ANSWER's memory, empty. */
static od_code own(od_vgi_answer *answer, struct ArrowSchema *schema, struct ArrowArray *array, od_error *err)
{
    owned *o = NULL;
    od_code rc = od_vgi_answer_alloc(answer, 1, sizeof *o, (void *)&o, err);

    if (rc != OD_OK || o == NULL)
        return rc;
    *o = (owned){answer->owned, schema, array};
    answer->owned = o;
    return OD_OK;
}

od_code od_vgi_answer_schema(od_vgi_answer *answer, od_cell cell, struct ArrowSchema *out, od_error *err)
{
    od_slice bytes;
    od_code rc = od_cell_bytes(cell, &bytes, err);

    if (rc != OD_OK || bytes.len == 0)
        return rc;
    rc = own(answer, out, NULL, err);
    return rc == OD_OK ? od_record_schema_only(bytes, out, err) : rc;
}

od_code od_vgi_answer_values(od_vgi_answer *answer, od_cell cell, od_vgi_values *out, od_error *err)
{
    od_record *record = NULL;
    od_slice bytes;
    od_code rc = od_cell_bytes(cell, &bytes, err);

    if (rc != OD_OK || bytes.len == 0)
        return rc;
    OD_TRY(own(answer, &out->schema, &out->array, err));
    OD_TRY(od_record_of_payload(bytes, &record, err));
    /* A batch without columns has no row either. */
    if (od_record_rows(record) > 1 || (od_record_rows(record) == 0 && od_record_schema(record)->n_children > 0))
        OD_TRY(od_fail(err, OD_E_CORRUPT, "%lld rows of values, where one is due", (long long)od_record_rows(record)));
    od_record_take(record, &out->schema, &out->array);
out:
    od_record_free(record);
    return rc;
}

od_code od_vgi_answer_number(od_cell cell, od_vgi_number *out, od_error *err)
{
    out->known = cell.view != NULL;
    return od_cell_int(cell, &out->value, err);
}

/* ---- records ---- */

od_code od_vgi_record_one(od_slice bytes, od_record **out, od_error *err)
{
    od_code rc;

    *out = NULL;
    if (bytes.len == 0)
        return od_fail(err, OD_E_CORRUPT, "a record is due where there is none");
    rc = od_record_of_payload(bytes, out, err);
    if (rc == OD_OK && od_record_rows(*out) != 1) {
        rc = od_fail(err, OD_E_CORRUPT, "a record of %lld rows, where one is due", (long long)od_record_rows(*out));
        od_record_free(*out);
        *out = NULL;
    }
    return rc;
}

od_code od_vgi_answer_items(od_vgi_answer *answer, od_cell list, od_vgi_item_read read, size_t size, size_t *count,
                            void *items, od_error *err)
{
    uint8_t *array = NULL;
    int64_t n;
    od_code rc;

    *count = 0;
    OD_TRY(od_cell_count(list, &n, err));
    if (n > 0)
        OD_TRY(od_vgi_answer_alloc(answer, n, size, (void *)&array, err));
    for (int64_t i = 0; i < n; i++) {
        od_record *record;
        od_slice bytes;

        OD_TRY(od_cell_bytes(od_cell_item(list, i), &bytes, err));
        OD_TRY(od_vgi_record_one(bytes, &record, err));
        rc = read(answer, record, array + (size_t)i * size, err);
        od_record_free(record);
        OD_TRY(rc);
    }
    memcpy(items, (const void *)&array, sizeof array);
    *count = (size_t)n;
out:
    return rc;
}

od_code od_vgi_decode_one(od_slice bytes, od_vgi_item_read read, size_t size, od_vgi_answer **answer, void *item,
                          od_error *err)
{
    od_record *record = NULL;
    od_vgi_answer *made = NULL;
    od_code rc;

    memset(item, 0, size);
    OD_TRY(od_vgi_record_one(bytes, &record, err));
    OD_TRY(od_vgi_answer_create(&made, err));
    OD_TRY(read(made, record, item, err));
    *answer = made;
    made = NULL;
out:
    od_record_free(record);
    od_vgi_answer_free(made);
    if (rc != OD_OK)
        memset(item, 0, size);
    return rc;
}

od_code od_vgi_decode_items(od_slice bytes, od_vgi_item_read read, size_t size, od_vgi_answer **answer, size_t *count,
                            void *items, od_error *err)
{
    od_record *record = NULL;
    od_code rc;

    *answer = NULL;
    OD_TRY(od_vgi_record_one(bytes, &record, err));
    OD_TRY(od_vgi_answer_create(answer, err));
    OD_TRY(od_vgi_answer_items(*answer, od_vgi_cell(record, "items"), read, size, count, items, err));
out:
    od_record_free(record);
    if (rc != OD_OK) {
        od_vgi_answer_free(*answer);
        *answer = NULL;
    }
    return rc;
}

od_cell od_vgi_cell(const od_record *record, const char *name)
{
    return od_record_cell(record, name, 0);
}

od_slice od_vgi_text_or(od_slice text, const char *otherwise)
{
    return text.len > 0 ? text : od_slice_str(otherwise);
}
