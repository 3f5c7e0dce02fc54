/* The layouts of served databases: read and tried at the start and on SIGHUP, and told to clients by the gateway. */
#ifndef OD_CLI_LAYOUTS_H
#define OD_CLI_LAYOUTS_H

#include "base/options.h"
#include "query/gateway.h"

typedef struct {
    od_gateway_layout *items;
    size_t count;
} layout_list;

/* Those of --layout. ENGINE serves the databases; NULL: workers do, and what a layout says of them is found out by who uses it.
 * OD_E_INVALID and others: the file and the line that is wrong. OUT is to be closed whatever comes back. */
OD_MUST_CHECK od_code layouts_open(const od_options *options, od_engine *engine, layout_list *out, od_error *err);
void layouts_close(layout_list *list);

#endif
