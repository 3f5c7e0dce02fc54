/* The metrics of work on databases at openduck://. */
#include "query/engine/engine_internal.h"
#include "base/banned.h"

static const od_metric took[OD_STORED_WORKS] = {
    [OD_STORED_SEAL] = {.kind = OD_METRIC_HISTOGRAM,
                        .name = "openduck.storage.seal.duration",
                        .prometheus_name = "openduck_storage_seal_duration_seconds",
                        .unit = "s",
                        .help = "Time of each seal, until its snapshot is durable"},
    [OD_STORED_MERGE] = {.kind = OD_METRIC_HISTOGRAM,
                         .name = "openduck.storage.merge.duration",
                         .prometheus_name = "openduck_storage_merge_duration_seconds",
                         .unit = "s",
                         .help = "Time of each merge of layers into one"},
};

static void told(void *arg, od_stored_work work, int64_t ns, bool ok)
{
    const od_engine *engine = arg;

    od_histogram_observe_ns(engine->stored_took[work][ok], ns);
}

void od_engine_watch_storage(od_engine *engine, od_metrics *metrics)
{
    static const od_label outcomes[] = {{"outcome", "error"}, {"outcome", "success"}};

    engine->stored = (od_stored_watch){.arg = engine, .told = told};
    for (size_t work = 0; work < OD_STORED_WORKS; work++)
        for (size_t ok = 0; ok < 2; ok++)
            engine->stored_took[work][ok] = od_metrics_histogram(metrics, &took[work], &outcomes[ok], 1);
}
