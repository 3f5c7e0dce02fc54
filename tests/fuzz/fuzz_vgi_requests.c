/* Foreign bytes as what a client of a VGI worker sends, over a session and as filters. */
#include <stdint.h>

#include "arrow/schema.h"
#include "base/alloc.h"
#include "support/numbers_worker.h"
#include "vgi/worker/call.h"
#include "vgi/worker/filter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_filters(od_slice bytes)
{
    struct ArrowSchema columns;
    vgiw_filters *filters;
    od_vgiw_scan scan = {.filter_count = 0};
    char text[256];
    size_t len;

    if (od_schema_make(&columns, "", "+s", 1, NULL) != OD_OK ||
        od_schema_make(columns.children[0], "n", "l", 0, NULL) != OD_OK)
        OD_BUG("out of memory");
    if (vgiw_filters_read(&(vgiw_filter_request){.bytes = bytes, .columns = &columns}, &filters, NULL) == OD_OK) {
        scan.filters = vgiw_filters_all(filters, &scan.filter_count);
        scan.values = vgiw_filters_values(filters);
        od_vgiw_filters_sql(&scan, &columns, text, sizeof text, &len);
        vgiw_filters_free(filters);
    }
    od_schema_release(&columns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static numbers_state state;
    static od_vgiw *worker;
    od_buf answer = {0};
    vgiw_peer *peer;

    if (worker == NULL)
        worker = numbers_worker(&state);
    if (vgiw_peer_create(-1, -1, &peer, NULL) != OD_OK)
        return 0;
    peer->request = od_slice_of(data, size);
    peer->answer = &answer;
    if (vgiw_session(worker, peer, NULL) == OD_OK && peer->request.len > 0)
        OD_BUG("a session ends before its requests");
    if (state.opened != state.closed)
        OD_BUG("a scan is left open");
    vgiw_peer_free(peer);
    od_buf_release(&answer);
    read_filters(od_slice_of(data, size));
    return 0;
}
