#include "vgi/worker/call.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"

#include "base/banned.h"

const char vgiw_kind_method[] = "method_not_implemented";
const char vgiw_kind_version[] = "protocol_version_mismatch";
const char vgiw_kind_unspecified[] = "protocol_not_specified";
const char vgiw_kind_unsupported[] = "protocol_not_supported";

/* ---- generations ---- */

/* How long the part of VERSION is that counts: the major and the minor number. */
static size_t counting(od_slice version)
{
    const uint8_t *first = version.len > 0 ? memchr(version.data, '.', version.len) : NULL;
    size_t n = first != NULL ? (size_t)(first - version.data) + 1 : 0;
    const uint8_t *second = n > 0 && n < version.len ? memchr(first + 1, '.', version.len - n) : NULL;

    return second != NULL ? (size_t)(second - version.data) : version.len;
}

static bool same_generation(od_slice version, const char *ours)
{
    od_slice other = od_slice_str(ours);

    return od_slice_equal(od_slice_of(version.data, counting(version)), od_slice_of(other.data, counting(other)));
}

static od_slice bytes(const od_buf *buf)
{
    return od_slice_of(buf->data, buf->len);
}

static int shown(od_slice text)
{
    return text.len < 64 ? (int)text.len : 64;
}

const od_vgi_dialect *vgiw_generation(od_slice version)
{
    for (size_t i = 0; i < OD_VGI_DIALECTS; i++)
        if (same_generation(version, od_vgi_dialects[i].version))
            return &od_vgi_dialects[i];
    return NULL;
}

od_code vgiw_dialect_of(const od_vgiw *worker, const vgiw_meta *meta, const od_vgi_dialect **out, const char **kind,
                        od_error *err)
{
    od_slice version = bytes(&meta->version), protocol = bytes(&meta->protocol);
    const od_vgi_dialect *found = vgiw_generation(version);
    const char *only = worker->generation;

    *out = NULL;
    *kind = NULL;
    if (!meta->request_version_known)
        return od_fail(err, OD_E_PROTOCOL, "a request's version is not '1'");
    if (found != NULL && only != NULL && found != vgiw_generation(od_slice_str(only))) {
        *kind = vgiw_kind_version;
        return od_fail(err, OD_E_PROTOCOL, "protocol version '%.*s' is not spoken here: %s is", shown(version),
                       (const char *)version.data, only);
    }
    if (found == NULL) {
        *kind = vgiw_kind_version;
        return od_fail(err, OD_E_PROTOCOL, "protocol version '%.*s' is not spoken here: %s and %s are", shown(version),
                       version.len > 0 ? (const char *)version.data : "", od_vgi_dialects[0].version,
                       od_vgi_dialects[1].version);
    }
    if (found->protocol != NULL && !meta->has_protocol) {
        *kind = vgiw_kind_unspecified;
        return od_fail(err, OD_E_PROTOCOL, "a request says no protocol, such as '%s'", found->protocol);
    }
    if (found->protocol != NULL && !od_slice_equal(protocol, od_slice_str(found->protocol))) {
        *kind = vgiw_kind_unsupported;
        return od_fail(err, OD_E_PROTOCOL, "protocol '%.*s' is not spoken here: '%s' is", shown(protocol),
                       protocol.len > 0 ? (const char *)protocol.data : "", found->protocol);
    }
    *out = found;
    return OD_OK;
}

/* ---- who asks ---- */

od_code vgiw_check_attached(const od_vgiw *worker, od_slice told, od_slice *options, od_error *err)
{
    const od_buf *ours = &worker->attach;
    size_t n = ours->len;

    *options = (od_slice){NULL, 0};
    if (told.len < n || !od_slice_equal(od_slice_of(told.data, n), bytes(ours)) || (told.len > n && told.data[n] != 0))
        return od_fail(err, OD_E_INVALID, "attach_opaque_data not recognized");
    if (told.len > n + 1)
        *options = od_slice_of(told.data + n + 1, told.len - n - 1);
    return OD_OK;
}

/* ---- parameters ---- */

static od_code text_of(od_cell cell, const char *name, od_buf *out, const char **text, od_error *err)
{
    od_slice value;
    od_code rc;

    *text = NULL;
    out->len = 0;
    OD_TRY(od_cell_bytes(cell, &value, err));
    if (value.data == NULL)
        return OD_OK;
    if (value.len > 0 && memchr(value.data, 0, value.len) != NULL)
        return od_fail(err, OD_E_INVALID, "'%s' has a NUL in it", name);
    OD_TRY(od_buf_append(out, value.data, value.len, err));
    *text = od_buf_cstr(out);
    if (*text == NULL)
        rc = od_fail(err, OD_E_NO_MEMORY, "out of memory");
out:
    return rc;
}

od_code vgiw_text(const od_record *record, const char *name, od_buf *out, const char **text, od_error *err)
{
    return text_of(od_record_cell(record, name, 0), name, out, text, err);
}

od_code vgiw_schema_text(const vgiw_call *call, const od_record *record, const char *path_field, const char *name_field,
                         od_buf *out, const char **text, od_error *err)
{
    int64_t n;
    od_cell path;
    od_code rc;

    *text = NULL;
    if (!call->dialect->paths)
        return vgiw_text(record, name_field, out, text, err);
    path = od_record_cell(record, path_field, 0);
    OD_TRY(od_cell_count(path, &n, err));
    if (n > 1)
        return od_fail(err, OD_E_NOT_FOUND, "there is no schema with a path of %lld parts", (long long)n);
    if (n == 1)
        OD_TRY(text_of(od_cell_item(path, 0), path_field, out, text, err));
out:
    return rc;
}

od_code vgiw_inner(const od_record *request, const char *name, od_record **out, od_error *err)
{
    od_slice value;
    od_code rc;

    *out = NULL;
    OD_TRY(od_cell_bytes(od_record_cell(request, name, 0), &value, err));
    if (value.len == 0)
        return od_fail(err, OD_E_INVALID, "the parameter '%s' is missing", name);
    rc = od_record_of_payload(value, out, err);
    if (rc == OD_OK && od_record_rows(*out) != 1) {
        rc = od_fail(err, OD_E_CORRUPT, "a record has %lld rows", (long long)od_record_rows(*out));
        od_record_free(*out);
        *out = NULL;
    }
    if (rc != OD_OK)
        od_error_prefix(err, "parameter '%s'", name);
out:
    return rc;
}

/* ---- errors ---- */

/* As what kind of thing a failure is shown. */
static const char *type_of(const od_error *why)
{
    switch (why->kind) {
    case OD_KIND_CATALOG:
        return "CatalogError";
    case OD_KIND_BINDER:
        return "BinderError";
    case OD_KIND_CONSTRAINT:
        return "ConstraintError";
    case OD_KIND_CONVERSION:
        return "ConversionError";
    case OD_KIND_PARSER:
        return "ParserError";
    case OD_KIND_PERMISSION:
        return "PermissionError";
    case OD_KIND_INTERNAL:
        return "InternalError";
    case OD_KIND_IO:
    case OD_KIND_NONE:
    default:
        return "IOError";
    }
}

void vgiw_complaint_release(vgiw_complaint *complaint)
{
    od_buf_release(&complaint->text);
    od_buf_release(&complaint->extra);
}

od_code vgiw_complaint_make(const od_error *why, const char *kind, vgiw_complaint *out, od_error *err)
{
    const char *type = type_of(why);
    od_json json = {.out = &out->extra, .err = err};
    od_code rc;

    OD_TRY(od_buf_printf(&out->text, err, "%s: %s", type, why->message));
    od_json_put(&json, "{");
    od_json_field(&json, "exception_type", type);
    od_json_put(&json, ",");
    od_json_field(&json, "exception_message", why->message);
    od_json_put(&json, ",\"traceback\":\"\",\"frames\":[]");
    if (kind != NULL) {
        od_json_put(&json, ",");
        od_json_field(&json, "error_kind", kind);
    }
    od_json_put(&json, "}");
    OD_TRY(json.rc);
    out->pairs[0] = (od_ipc_pair){od_slice_str("vgi_rpc.log_level"), od_slice_str("EXCEPTION")};
    out->pairs[1] = (od_ipc_pair){od_slice_str("vgi_rpc.log_message"), bytes(&out->text)};
    out->pairs[2] = (od_ipc_pair){od_slice_str("vgi_rpc.log_extra"), bytes(&out->extra)};
    out->count = 3;
    if (kind != NULL)
        out->pairs[out->count++] = (od_ipc_pair){od_slice_str("vgi_rpc.error_kind"), od_slice_str(kind)};
out:
    return rc;
}

od_code vgiw_refusal(const od_error *why, const char *kind, od_msg **out, od_error *err)
{
    vgiw_complaint complaint = {.count = 0};
    od_row *row = NULL;
    od_code rc;

    *out = NULL;
    OD_TRY(vgiw_complaint_make(why, kind, &complaint, err));
    OD_TRY(od_row_create(&row, err));
    OD_TRY(od_row_finish(row, complaint.pairs, complaint.count, out, err));
out:
    od_row_free(row);
    vgiw_complaint_release(&complaint);
    return rc;
}

/* ---- answers ---- */

/* The result in the one column of an answer: RECORD, or STREAM (NULL: a null). */
static od_code wrap(const od_vgi_dialect *dialect, const vgiw_method *method, od_row *record, od_msg *stream,
                    od_msg **out, od_error *err)
{
    od_row *row = NULL;
    od_msg *inner = NULL;
    od_code rc;

    OD_TRY(od_row_create(&row, err));
    if (method->result == VGIW_RECORD) {
        OD_TRY(od_row_finish(record, NULL, 0, &inner, err));
        od_row_binary(row, "result", dialect->nulls ? OD_ROW_NOT_NULL : OD_ROW_NULLABLE, od_vgi_msg_bytes(inner));
    } else if (method->result == VGIW_STREAM) {
        od_row_binary(row, "result", OD_ROW_NULLABLE, od_vgi_msg_bytes(stream));
    }
    OD_TRY(od_row_finish(row, NULL, 0, out, err));
out:
    od_row_free(row);
    od_msg_unref(inner);
    return rc;
}

od_code vgiw_answer(const od_vgiw *worker, const vgiw_meta *meta, const od_record *request, bool *failed, od_msg **out,
                    od_error *err)
{
    od_msg *stream = NULL;
    vgiw_call call = {.worker = worker, .request = request, .stream = &stream};
    const vgiw_method *method = vgiw_method_find(bytes(&meta->method));
    const char *kind = NULL;
    od_error why = {.code = OD_OK};
    od_code rc;

    *out = NULL;
    OD_TRY(od_row_create(&call.out, err));
    rc = vgiw_dialect_of(worker, meta, &call.dialect, &kind, &why);
    if (rc == OD_OK && method == NULL) {
        kind = vgiw_kind_method;
        rc = od_fail(&why, OD_E_NOT_IMPLEMENTED, "there is no method '%.*s'", shown(bytes(&meta->method)),
                     meta->method.len > 0 ? (const char *)meta->method.data : "");
    }
    if (rc == OD_OK)
        rc = method->answer(&call, &why);
    if (rc == OD_OK)
        rc = wrap(call.dialect, method, call.out, stream, out, &why);
    *failed = rc != OD_OK;
    if (rc != OD_OK)
        rc = vgiw_refusal(&why, kind, out, err);
out:
    od_msg_unref(stream);
    od_row_free(call.out);
    return rc;
}
