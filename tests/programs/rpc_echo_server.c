/* The service of support/rpc_service.h as a program. usage: rpc_echo_server [HOST:PORT [UPSTREAM]]
 * Prints its port, then a line for each call that ends. TERM drains and ends it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/rpc_service.h"
#include "base/banned.h"

int main(int argc, char **argv)
{
    od_rpc_server_options options = {.listen = argc > 1 ? argv[1] : "127.0.0.1:0"};
    od_rpc_server *server;
    rpc_service service;
    od_error err = {0};
    sigset_t stop;
    int number;

    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    rpc_service_init(&service);
    service.verbose = true;
    if (argc > 2 && od_endpoint_parse(od_slice_str(argv[2]), &service.upstream, &err) != OD_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    server = rpc_service_start(&service, &options);
    printf("%u\n", od_rpc_server_port(server));
    fflush(stdout);
    sigwait(&stop, &number);
    od_rpc_server_drain(server, od_deadline_in_ms(5000));
    od_rpc_server_free(server);
    return 0;
}
