#include "arrow/ipc_internal.h"

#include <flatcc/flatcc_verifier.h>
#include <stdbool.h>
#include <string.h>

/* A flatbuffer may refer to one table many times, and flatcc's verifier goes the whole way at each: a message of a kilobyte can
 * keep it busy for years. What can be nested or repeated without end, Field and KeyValue, has strings: verifying these is
 * counted. So many more may be verified on this thread: */
static _Thread_local size_t verifications_left;

/* Named in nanoarrow's code by the macro below. */
static int verify_counted(flatcc_table_verifier_descriptor_t *table, flatbuffers_voffset_t id, int required)
{
    if (verifications_left == 0)
        return flatcc_verify_error_max_nesting_level_reached;
    verifications_left--;
    return flatcc_verify_string_field(table, id, required);
}

#define flatcc_verify_string_field verify_counted
/* NOLINTNEXTLINE(bugprone-suspicious-include): this file extends its static functions */
#include <nanoarrow_ipc.c>
#undef flatcc_verify_string_field

#include "base/banned.h"

/* The flatbuffer verifier lets optional members be absent that nanoarrow reads as if they were there. */
static ArrowErrorCode check_pairs(ns(KeyValue_vec_t) pairs, struct ArrowError *why)
{
    size_t n = ns(KeyValue_vec_len(pairs));
    for (size_t i = 0; i < n; i++) {
        ns(KeyValue_table_t) pair = ns(KeyValue_vec_at(pairs, i));
        if (!ns(KeyValue_key_is_present(pair)) || !ns(KeyValue_value_is_present(pair))) {
            ArrowErrorSet(why, "metadata %zu lacks its key or its value", i);
            return EINVAL;
        }
    }
    return NANOARROW_OK;
}

/* NOLINTNEXTLINE(misc-no-recursion): no deeper than the verifier lets tables lie in each other */
static ArrowErrorCode check_fields(ns(Field_vec_t) fields, size_t *dictionaries, struct ArrowError *why)
{
    size_t n = ns(Field_vec_len(fields));
    for (size_t i = 0; i < n; i++) {
        ns(Field_table_t) field = ns(Field_vec_at(fields, i));
        if (!ns(Field_type_is_present(field))) {
            ArrowErrorSet(why, "field %zu lacks its type", i);
            return EINVAL;
        }
        if (ns(Field_dictionary_is_present(field)) &&
            !ns(DictionaryEncoding_indexType_is_present(ns(Field_dictionary(field))))) {
            ArrowErrorSet(why, "field %zu lacks the type of its dictionary's indices", i);
            return EINVAL;
        }
        *dictionaries += ns(Field_dictionary_is_present(field)) != 0;
        if (*dictionaries > OD_IPC_MAX_DICTIONARIES) {
            ArrowErrorSet(why, "more than %d columns with a dictionary", OD_IPC_MAX_DICTIONARIES);
            return ENOTSUP;
        }
        NANOARROW_RETURN_NOT_OK(check_pairs(ns(Field_custom_metadata(field)), why));
        NANOARROW_RETURN_NOT_OK(check_fields(ns(Field_children(field)), dictionaries, why));
    }
    return NANOARROW_OK;
}

static ArrowErrorCode check_schema(ns(Schema_table_t) schema, struct ArrowError *why)
{
    NANOARROW_RETURN_NOT_OK(check_pairs(ns(Schema_custom_metadata(schema)), why));
    size_t dictionaries = 0;
    return check_fields(ns(Schema_fields(schema)), &dictionaries, why);
}

static ns(Message_table_t) message_in(struct ArrowBufferView header)
{
    return ns(Message_as_root(header.data.as_uint8 + 8));
}

ArrowErrorCode od_unit_header(struct ArrowIpcDecoder *decoder, struct ArrowBufferView header, struct ArrowError *why)
{
    /* Tables that are not shared have more bytes than this for each of their strings. */
    verifications_left = (size_t)header.size_bytes / 4;
    ArrowErrorCode rc = ArrowIpcDecoderVerifyHeader(decoder, header, why);
    if (rc != NANOARROW_OK && verifications_left == 0)
        ArrowErrorSet(why, "%" PRId64 " bytes of metadata whose tables share too much", header.size_bytes);
    if (rc != NANOARROW_OK)
        return rc;
    const struct ArrowIpcDecoderPrivate *private = decoder->private_data;
    if (private->last_message == NULL) {
        ArrowErrorSet(why, "a message without a header");
        return EINVAL;
    }
    NANOARROW_RETURN_NOT_OK(ArrowIpcDecoderDecodeHeader(decoder, header, why));
    NANOARROW_RETURN_NOT_OK(check_pairs(ns(Message_custom_metadata(message_in(header))), why));
    if (decoder->message_type != NANOARROW_IPC_MESSAGE_TYPE_SCHEMA)
        return NANOARROW_OK;
    return check_schema((ns(Schema_table_t)) private->last_message, why);
}

od_slice od_unit_pair(struct ArrowBufferView header, const char *key)
{
    ns(KeyValue_vec_t) pairs = ns(Message_custom_metadata(message_in(header)));
    size_t n = ns(KeyValue_vec_len(pairs)), key_len = strlen(key);
    for (size_t i = 0; i < n; i++) {
        ns(KeyValue_table_t) pair = ns(KeyValue_vec_at(pairs, i));
        flatbuffers_string_t name = ns(KeyValue_key(pair)), value = ns(KeyValue_value(pair));
        if (name != NULL && flatbuffers_string_len(name) == key_len && memcmp(name, key, key_len) == 0)
            return od_slice_of(value, flatbuffers_string_len(value));
    }
    return (od_slice){NULL, 0};
}

static ArrowErrorCode check_nodes(ns(RecordBatch_table_t) batch, struct ArrowError *why)
{
    ns(FieldNode_vec_t) nodes = ns(RecordBatch_nodes(batch));
    size_t n = ns(FieldNode_vec_len(nodes));
    int64_t rows = ns(RecordBatch_length(batch));
    if (rows < 0 || rows > OD_IPC_MAX_ROWS) {
        ArrowErrorSet(why, "a batch of %" PRId64 " rows", rows);
        return EINVAL;
    }
    for (size_t i = 0; i < n; i++) {
        ns(FieldNode_struct_t) node = ns(FieldNode_vec_at(nodes, i));
        int64_t length = ns(FieldNode_length(node)), nulls = ns(FieldNode_null_count(node));
        if (length < 0 || length > OD_IPC_MAX_ROWS || nulls < -1 || nulls > length) {
            ArrowErrorSet(why, "field %zu says %" PRId64 " values, %" PRId64 " of them null", i, length, nulls);
            return EINVAL;
        }
    }
    return NANOARROW_OK;
}

static ArrowErrorCode check_buffers(ns(RecordBatch_table_t) batch, int64_t body_len, struct ArrowError *why)
{
    ns(Buffer_vec_t) buffers = ns(RecordBatch_buffers(batch));
    size_t n = ns(Buffer_vec_len(buffers));
    for (size_t i = 0; i < n; i++) {
        ns(Buffer_struct_t) buffer = ns(Buffer_vec_at(buffers, i));
        int64_t offset = ns(Buffer_offset(buffer)), length = ns(Buffer_length(buffer));
        if (offset < 0 || length < 0 || offset > body_len || length > body_len - offset) {
            ArrowErrorSet(why, "buffer %zu, %" PRId64 " bytes at %" PRId64 ", is not in the body's %" PRId64 " bytes",
                          i, length, offset, body_len);
            return EINVAL;
        }
    }
    return NANOARROW_OK;
}

static ArrowErrorCode check_counts(ns(RecordBatch_table_t) batch, const struct ArrowIpcDecoderPrivate *shape,
                                   enum ArrowIpcMetadataVersion version, struct ArrowError *why)
{
    int64_t nodes = (int64_t)ns(FieldNode_vec_len(ns(RecordBatch_nodes(batch))));
    int64_t buffers = (int64_t)ns(Buffer_vec_len(ns(RecordBatch_buffers(batch))));
    int64_t expected = shape->n_buffers - 1;
    if (version < NANOARROW_IPC_METADATA_VERSION_V5)
        expected += shape->n_union_fields;
    if (nodes != shape->n_fields - 1 || buffers != expected) {
        ArrowErrorSet(
            why, "a batch of %" PRId64 " fields and %" PRId64 " buffers, the schema asks for %" PRId64 " and %" PRId64,
            nodes, buffers, shape->n_fields - 1, expected);
        return EINVAL;
    }
    return NANOARROW_OK;
}

ArrowErrorCode od_unit_check(struct ArrowIpcDecoder *decoder, struct ArrowIpcDictionaries *dictionaries,
                             int64_t body_len, struct ArrowError *why)
{
    const struct ArrowIpcDecoderPrivate *shape = decoder->private_data;
    ns(RecordBatch_table_t) batch = (ns(RecordBatch_table_t))shape->last_message;
    if (decoder->message_type == NANOARROW_IPC_MESSAGE_TYPE_DICTIONARY_BATCH) {
        batch = ns(DictionaryBatch_data((ns(DictionaryBatch_table_t))shape->last_message));
        struct ArrowIpcDictionary *entry = ArrowIpcDictionariesFindById(dictionaries, decoder->dictionary->id);
        if (batch == NULL || entry == NULL) {
            ArrowErrorSet(why, "dictionary %" PRId64 " is not in the schema, or empty", decoder->dictionary->id);
            return EINVAL;
        }
        entry->decoder.metadata_version = decoder->metadata_version;
        shape = entry->decoder.private_data;
    }
    if (ns(RecordBatch_compression_is_present(batch))) {
        ArrowErrorSet(why, "compressed batches are not read");
        return ENOTSUP;
    }
    NANOARROW_RETURN_NOT_OK(check_counts(batch, shape, decoder->metadata_version, why));
    NANOARROW_RETURN_NOT_OK(check_nodes(batch, why));
    return check_buffers(batch, body_len, why);
}

int64_t od_unit_rows(const struct ArrowIpcDecoder *decoder)
{
    const struct ArrowIpcDecoderPrivate *shape = decoder->private_data;
    return ns(RecordBatch_length((ns(RecordBatch_table_t))shape->last_message));
}

static bool aligned(const uint8_t *p)
{
    return ((uintptr_t)p & 7) == 0;
}

static ArrowErrorCode copy_buffer(const uint8_t *from, int64_t len, struct ArrowBufferView *view,
                                  struct ArrowBuffer *to, struct ArrowError *why)
{
    NANOARROW_RETURN_NOT_OK_WITH_ERROR(ArrowBufferAppend(to, from, len), why);
    view->data.data = to->data;
    view->size_bytes = to->size_bytes;
    return NANOARROW_OK;
}

static ArrowErrorCode make_borrowed(struct ArrowIpcBufferFactory *factory, struct ArrowIpcBufferSource *source,
                                    struct ArrowBufferView *view, struct ArrowBuffer *scratch, struct ArrowError *why)
{
    const struct ArrowBufferView *body = factory->private_data;
    const uint8_t *p = body->data.as_uint8 + source->body_offset_bytes;
    if (!aligned(p))
        return copy_buffer(p, source->buffer_length_bytes, view, scratch, why);
    view->data.as_uint8 = p;
    view->size_bytes = source->buffer_length_bytes;
    return NANOARROW_OK;
}

static ArrowErrorCode make_shared(struct ArrowIpcBufferFactory *factory, struct ArrowIpcBufferSource *source,
                                  struct ArrowBufferView *view, struct ArrowBuffer *scratch, struct ArrowError *why)
{
    struct ArrowBuffer *shared = factory->private_data;
    if (!aligned(shared->data + source->body_offset_bytes))
        return copy_buffer(shared->data + source->body_offset_bytes, source->buffer_length_bytes, view, scratch, why);
    return ArrowIpcMakeBufferFromShared(factory, source, view, scratch, why);
}

ArrowErrorCode od_unit_view(struct ArrowIpcDecoder *decoder, struct ArrowBufferView body, struct ArrowArrayView **out,
                            struct ArrowError *why)
{
    struct ArrowIpcBufferFactory factory = {
        .make_buffer = make_borrowed, .buffer_length = body.size_bytes, .private_data = &body};
    NANOARROW_RETURN_NOT_OK(ArrowIpcDecoderDecodeArrayViewInternal(decoder, factory, -1, NULL, out, why));
    return ArrowArrayViewValidate(*out, NANOARROW_VALIDATION_LEVEL_FULL, why);
}

ArrowErrorCode od_unit_array(struct ArrowIpcDecoder *decoder, struct ArrowBuffer *shared,
                             struct ArrowIpcDictionaries *dictionaries, struct ArrowArray *out, struct ArrowError *why)
{
    struct ArrowIpcBufferFactory factory = {
        .make_buffer = make_shared, .buffer_length = shared->size_bytes, .private_data = shared};
    struct ArrowArrayView *view;
    NANOARROW_RETURN_NOT_OK(ArrowIpcDecoderDecodeArrayViewInternal(decoder, factory, -1, dictionaries, &view, why));
    NANOARROW_RETURN_NOT_OK(ArrowArrayViewValidate(view, NANOARROW_VALIDATION_LEVEL_FULL, why));
    struct ArrowArray made = {0};
    /* It has the buffers of the view, which was validated, but for dictionaries, which are copied into it. */
    enum ArrowValidationLevel level =
        dictionaries != NULL ? NANOARROW_VALIDATION_LEVEL_FULL : NANOARROW_VALIDATION_LEVEL_NONE;
    ArrowErrorCode rc = ArrowIpcDecoderDecodeArrayInternal(decoder, -1, &made, level, why);
    if (rc != NANOARROW_OK) {
        if (made.release != NULL)
            ArrowArrayRelease(&made);
        return rc;
    }
    ArrowArrayMove(&made, out);
    return NANOARROW_OK;
}

ArrowErrorCode od_unit_dictionary(struct ArrowIpcDecoder *decoder, struct ArrowBuffer *shared,
                                  struct ArrowIpcDictionaries *dictionaries, struct ArrowError *why)
{
    struct ArrowIpcBufferFactory factory = {
        .make_buffer = make_shared, .buffer_length = shared->size_bytes, .private_data = shared};
    return ArrowIpcDecoderDecodeDictionaryInternal(decoder, factory, NANOARROW_VALIDATION_LEVEL_FULL, dictionaries,
                                                   why);
}

static ArrowErrorCode encode_vectors(flatcc_builder_t *b, const od_unit_batch *batch, struct ArrowError *why)
{
    _Static_assert(sizeof(od_ipc_node) == sizeof(struct ns(FieldNode)), "a node is the format's struct");
    _Static_assert(sizeof(od_ipc_span) == sizeof(struct ns(Buffer)), "a span is the format's struct");
    FLATCC_RETURN_UNLESS_0(RecordBatch_length_add(b, batch->rows), why);
    FLATCC_RETURN_UNLESS_0(
        RecordBatch_nodes_create(b, (const struct ns(FieldNode) *)(const void *)batch->nodes, batch->node_count), why);
    FLATCC_RETURN_UNLESS_0(
        RecordBatch_buffers_create(b, (const struct ns(Buffer) *)(const void *)batch->spans, batch->span_count), why);
    return NANOARROW_OK;
}

static ArrowErrorCode encode_pairs(flatcc_builder_t *b, const od_unit_batch *batch, struct ArrowError *why)
{
    if (batch->pair_count == 0)
        return NANOARROW_OK;
    FLATCC_RETURN_UNLESS_0(Message_custom_metadata_start(b), why);
    for (size_t i = 0; i < batch->pair_count; i++) {
        od_slice key = batch->pairs[i].key, value = batch->pairs[i].value;
        FLATCC_RETURN_UNLESS_0(Message_custom_metadata_push_start(b), why);
        FLATCC_RETURN_UNLESS_0(KeyValue_key_create_strn(b, (const char *)key.data, key.len), why);
        FLATCC_RETURN_UNLESS_0(KeyValue_value_create_strn(b, (const char *)value.data, value.len), why);
        FLATCC_RETURN_IF_NULL(ns(Message_custom_metadata_push_end(b)), why);
    }
    FLATCC_RETURN_UNLESS_0(Message_custom_metadata_end(b), why);
    return NANOARROW_OK;
}

ArrowErrorCode od_unit_encode(struct ArrowIpcEncoder *encoder, const od_unit_batch *batch, struct ArrowError *why)
{
    struct ArrowIpcEncoderPrivate *private = encoder->private_data;
    flatcc_builder_t *b = &private->builder;
    FLATCC_RETURN_UNLESS_0(Message_start_as_root(b), why);
    FLATCC_RETURN_UNLESS_0(Message_version_add(b, ns(MetadataVersion_V5)), why);
    if (batch->dictionary_id == NULL) {
        FLATCC_RETURN_UNLESS_0(Message_header_RecordBatch_start(b), why);
        NANOARROW_RETURN_NOT_OK(encode_vectors(b, batch, why));
        FLATCC_RETURN_UNLESS_0(Message_header_RecordBatch_end(b), why);
    } else {
        FLATCC_RETURN_UNLESS_0(Message_header_DictionaryBatch_start(b), why);
        FLATCC_RETURN_UNLESS_0(DictionaryBatch_id_add(b, *batch->dictionary_id), why);
        FLATCC_RETURN_UNLESS_0(DictionaryBatch_data_start(b), why);
        NANOARROW_RETURN_NOT_OK(encode_vectors(b, batch, why));
        FLATCC_RETURN_UNLESS_0(DictionaryBatch_data_end(b), why);
        FLATCC_RETURN_UNLESS_0(Message_header_DictionaryBatch_end(b), why);
    }
    FLATCC_RETURN_UNLESS_0(Message_bodyLength_add(b, batch->body_len), why);
    NANOARROW_RETURN_NOT_OK(encode_pairs(b, batch, why));
    FLATCC_RETURN_IF_NULL(ns(Message_end_as_root(b)), why);
    return NANOARROW_OK;
}

bool od_unit_dictionary_id(const struct ArrowIpcEncoder *encoder, const struct ArrowSchema *field, int64_t *id)
{
    const struct ArrowIpcEncoderPrivate *private = encoder->private_data;
    const struct ArrowIpcDictionaryEncoding *found =
        ArrowIpcDictionaryEncodingsFind(&private->dictionary_encodings, field);
    if (found == NULL)
        return false;
    *id = found->id;
    return true;
}
