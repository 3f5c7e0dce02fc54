/* A batch of columns without children, as an array that is one piece of memory: a batch that is small costs little more than its checks. */
#include "arrow/ipc_internal.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/banned.h"

typedef struct {
    atomic_size_t arrays; /* that are not released yet: a consumer may take a column for itself */
    od_msg *owner;
    struct ArrowArray *children[];
} flat_batch;

/* What a buffer without bytes points to. */
static const uint8_t nothing[16];

static void release_flat(struct ArrowArray *array)
{
    flat_batch *batch = array->private_data;

    for (int64_t i = 0; i < array->n_children; i++)
        if (array->children[i]->release != NULL)
            array->children[i]->release(array->children[i]);
    array->release = NULL;
    if (atomic_fetch_sub_explicit(&batch->arrays, 1, memory_order_acq_rel) != 1)
        return;
    od_msg_unref(batch->owner);
    od_free(batch);
}

static int buffer_count(const struct ArrowArrayView *view)
{
    int count = 0;

    while (count < NANOARROW_MAX_FIXED_BUFFERS && view->layout.buffer_type[count] != NANOARROW_BUFFER_TYPE_NONE)
        count++;
    return count;
}

static const void *bytes_of(const struct ArrowArrayView *view, int i)
{
    const struct ArrowBufferView *buffer = &view->buffer_views[i];

    if (buffer->size_bytes > 0)
        return buffer->data.data;
    return view->layout.buffer_type[i] == NANOARROW_BUFFER_TYPE_VALIDITY ? NULL : nothing;
}

bool od_flat_fits(const struct ArrowSchema *schema)
{
    struct ArrowSchemaView view;
    struct ArrowError why;

    for (int64_t i = 0; i < schema->n_children; i++) {
        const struct ArrowSchema *field = schema->children[i];

        if (field->n_children > 0 || field->dictionary != NULL ||
            ArrowSchemaViewInit(&view, field, &why) != NANOARROW_OK ||
            view.storage_type == NANOARROW_TYPE_STRING_VIEW || view.storage_type == NANOARROW_TYPE_BINARY_VIEW)
            return false;
    }
    return true;
}

static bool is_elsewhere(const struct ArrowBufferView *buffer, struct ArrowBufferView body)
{
    const uint8_t *from = body.data.as_uint8, *at = buffer->data.as_uint8;

    return buffer->size_bytes > 0 &&
           ((uintptr_t)at < (uintptr_t)from || (uintptr_t)at >= (uintptr_t)from + (size_t)body.size_bytes);
}

static bool any_elsewhere(const struct ArrowArrayView *view, struct ArrowBufferView body)
{
    for (int64_t i = 0; i < view->n_children; i++)
        for (int k = 0; k < NANOARROW_MAX_FIXED_BUFFERS; k++)
            if (is_elsewhere(&view->children[i]->buffer_views[k], body))
                return true;
    return false;
}

ArrowErrorCode od_flat_array(const struct ArrowArrayView *view, struct ArrowBufferView body, od_msg *owner,
                             struct ArrowArray *out)
{
    out->release = NULL;
    if (any_elsewhere(view, body))
        return NANOARROW_OK;
    size_t n = (size_t)view->n_children;
    size_t head = sizeof(flat_batch) + n * sizeof(struct ArrowArray *);
    size_t arrays =
        (head + _Alignof(struct ArrowArray) - 1) / _Alignof(struct ArrowArray) * _Alignof(struct ArrowArray);
    size_t buffers = arrays + n * sizeof(struct ArrowArray);
    flat_batch *batch = od_alloc(buffers + (1 + n * NANOARROW_MAX_FIXED_BUFFERS) * sizeof(void *));

    if (batch == NULL)
        return ENOMEM;
    struct ArrowArray *columns = (struct ArrowArray *)(void *)((uint8_t *)batch + arrays);
    const void **pointers = (const void **)(void *)((uint8_t *)batch + buffers);

    atomic_init(&batch->arrays, n + 1);
    batch->owner = od_msg_ref(owner);
    *pointers = NULL; /* a batch itself has no NULLs */
    *out = (struct ArrowArray){.length = view->length,
                               .n_buffers = 1,
                               .buffers = pointers++,
                               .n_children = (int64_t)n,
                               .children = batch->children,
                               .release = release_flat,
                               .private_data = batch};
    for (size_t i = 0; i < n; i++, pointers += NANOARROW_MAX_FIXED_BUFFERS) {
        const struct ArrowArrayView *child = view->children[i];
        int count = buffer_count(child);

        for (int k = 0; k < count; k++)
            pointers[k] = bytes_of(child, k);
        columns[i] = (struct ArrowArray){.length = child->length,
                                         .null_count = child->null_count,
                                         .n_buffers = count,
                                         .buffers = pointers,
                                         .release = release_flat,
                                         .private_data = batch};
        batch->children[i] = &columns[i];
    }
    return NANOARROW_OK;
}
