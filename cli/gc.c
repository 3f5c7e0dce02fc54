/* openduck gc: removes the layers that nobody reaches. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/store.h"
#include "base/banned.h"

typedef struct {
    bool json;
    bool dry;
    uint64_t layers;
} report;

static int tell(void *arg, const od_storage_garbage *garbage)
{
    report *r = arg;
    char size[STORE_SIZE_TEXT];

    store_progress_end();
    if (r->json) {
        fputs(r->layers > 0 ? ",\n  {" : "\n  {", stdout);
        store_json("layer", garbage->layer);
        fputs(", ", stdout);
        store_json("reason", garbage->reason);
        printf(", \"bytes\": %" PRIu64 "}", garbage->bytes);
    } else {
        printf("%s  %10s  %s\n", garbage->layer, store_size(garbage->bytes, size), garbage->reason);
    }
    r->layers++;
    store_progress("%s %s", r->dry ? "found" : "removed", store_layers(r->layers, size));
    return 0;
}

int command_gc(const od_options *options)
{
    report r = {.json = od_options_bool(options, OD_OPT_JSON), .dry = od_options_bool(options, OD_OPT_DRY_RUN)};
    od_storage_error err = {0};
    od_storage_code rc;
    uint64_t bytes = 0;
    od_store *store = NULL;
    char size[STORE_SIZE_TEXT];
    char layers[STORE_SIZE_TEXT];
    int code;

    if (!store_open("gc", options, &store, &code))
        return code;
    if (r.json)
        printf("{\"dry_run\": %s, \"layers\": [", r.dry ? "true" : "false");
    rc = od_store_gc(store, r.dry, tell, &r, &bytes, &err);
    store_progress_end();
    if (r.json)
        printf("], \"bytes\": %" PRIu64 "}\n", bytes);
    else if (rc == OD_STORAGE_OK)
        printf("%s %s, %s\n", r.dry ? "would remove" : "removed", store_layers(r.layers, layers),
               store_size(bytes, size));
    return store_close("gc", store, rc, &err);
}
