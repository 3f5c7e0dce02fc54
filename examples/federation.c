/* A gateway with a routing tier of its own: each table has a home among the workers, so that a worker's cache holds its own
 * tables instead of a part of all. The home is the worker with the largest hash of table and worker: when workers come or go,
 * only their tables move. Tables that begin with "archive." go to workers of the compute context "cheap" if there are any.
 *
 * usage: federation LISTEN WORKER...        ends when its input does
 *   build/release/programs/federation 127.0.0.1:7878 http://127.0.0.1:9898 http://127.0.0.1:9899 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "query/federation.h"
#include "query/gateway.h"
#include "server/host.h"

/* ---- the tier ---- */

static uint32_t hash(uint32_t seed, const char *text)
{
    for (; *text; text++)
        seed = (seed ^ (uint8_t)*text) * 16777619U;
    return seed ^ (seed >> 15);
}

/* Called for every worker that might run the statement: the one with the largest rank gets it. */
static int rank_by_home(void *arg, const od_federation_request *request, const od_federation_worker *worker)
{
    (void)arg;
    if (od_federation_table_count(request) == 0)
        return 0; /* no opinion: the tiers after this one decide */
    return (int)(hash(hash(2166136261U, od_federation_table(request, 0)), worker->endpoint) >> 1);
}

/* ---- the gateway ---- */

static od_code serve(const char *listen, const od_endpoint *workers, size_t count, od_error *err)
{
    static const char *const rules[] = {"archive.*=context:cheap"};
    static const char *const order[] = {"database", "routes", "tables", "home", "context"};
    od_federation_provider providers[2] = {{.name = "home", .reads = OD_TABLES_TO_PREFER, .rank = rank_by_home}};
    od_gateway_options options = {.workers = workers,
                                  .worker_count = count,
                                  .host = od_server_host(), /* reads the names of tables */
                                  .providers = providers,
                                  .provider_count = 2,
                                  .tiers = order,
                                  .tier_count = sizeof order / sizeof *order};
    od_rpc_server_options rpc = {.listen = listen};
    od_rpc_server *server = NULL;
    od_gateway *gateway = NULL;
    od_routes *routes = NULL;
    od_code rc;

    OD_TRY(od_listen_check(listen, NULL, err));
    OD_TRY(od_routes_create(rules, 1, &routes, err));
    providers[1] = od_routes_provider(routes);
    OD_TRY(od_gateway_create(&options, &gateway, err));
    rpc.methods = od_gateway_methods(&rpc.method_count);
    rpc.service = gateway;
    OD_TRY(od_rpc_server_start(&rpc, &server, err));
    printf("ready http://127.0.0.1:%u\n", (unsigned)od_rpc_server_port(server));
    fflush(stdout);
    while (getchar() != EOF)
        ;
    od_gateway_drain(gateway);
    od_rpc_server_drain(server, od_deadline_in_ms(10000));

out:
    od_rpc_server_free(server);
    od_gateway_free(gateway);
    od_routes_free(routes);
    return rc;
}

int main(int argc, char **argv)
{
    od_endpoint *workers = calloc((size_t)argc + 1, sizeof *workers);
    od_error err = {0};
    od_code rc = OD_OK;

    if (argc < 3 || !workers) {
        fprintf(stderr, "usage: federation LISTEN WORKER...\n");
        free(workers);
        return 2;
    }
    for (int i = 2; i < argc && rc == OD_OK; i++)
        rc = od_endpoint_parse(od_slice_str(argv[i]), &workers[i - 2], &err);
    if (rc == OD_OK)
        rc = serve(argv[1], workers, (size_t)argc - 2, &err);
    if (rc != OD_OK)
        fprintf(stderr, "federation: %s\n", err.message);
    free(workers);
    return rc == OD_OK ? 0 : 1;
}
