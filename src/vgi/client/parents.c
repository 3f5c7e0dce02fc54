/* Which of the rows that went into a function made those that came. */
#include "base/alloc.h"
#include "base/base64.h"
#include "vgi/client/scan_internal.h"

#include "base/banned.h"

/* Of TEXT, int32 each. */
static od_code read_told(od_slice text, int64_t rows, int64_t given, int32_t *out, od_error *err)
{
    uint8_t *bytes = od_alloc(od_base64_room(text) + 1);
    size_t len = 0;
    od_code rc = OD_OK;

    if (bytes == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    if (!od_base64_decode(text, bytes, &len))
        OD_TRY(od_fail(err, OD_E_PROTOCOL, "the worker does not say in base64 of which rows its rows come"));
    if (len != (size_t)given * 4)
        OD_TRY(od_fail(err, OD_E_PROTOCOL, "the worker sends %lld rows, and says in %zu bytes of which they come",
                       (long long)given, len));
    for (int64_t i = 0; i < given; i++) {
        const uint8_t *at = bytes + i * 4;
        uint32_t row = at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;

        if (row >= (uint64_t)rows)
            OD_TRY(od_fail(err, OD_E_PROTOCOL, "the worker says that a row comes of row %ld, of %lld that it was given",
                           (long)(int32_t)row, (long long)rows));
        out[i] = (int32_t)row;
    }
out:
    od_free(bytes);
    return rc;
}

od_code od_vgi_parents_read(od_slice text, int64_t rows, int64_t given, int32_t *out, od_error *err)
{
    if (given > 0 && text.data != NULL)
        return read_told(text, rows, given, out, err);
    if (given > 0 && given != rows)
        return od_fail(err, OD_E_PROTOCOL, "the worker makes %lld rows of %lld, and does not say of which they come",
                       (long long)given, (long long)rows);
    for (int64_t i = 0; i < given; i++)
        out[i] = (int32_t)i;
    return OD_OK;
}

od_code od_vgi_scan_parents(const od_vgi_scan *scan, int64_t rows, int64_t given, int32_t *out, od_error *err)
{
    od_slice text = od_ipc_reader_pair(scan->stream.reader, "vgi_rpc.parent_row#b64");
    od_code rc = od_vgi_parents_read(text, rows, given, out, err);

    if (rc != OD_OK)
        od_error_prefix(err, "vgi scan");
    return rc;
}
