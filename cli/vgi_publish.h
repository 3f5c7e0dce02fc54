/* A VGI worker of a database's tables, and of what a layout says. */
#ifndef OD_CLI_VGI_PUBLISH_H
#define OD_CLI_VGI_PUBLISH_H

#include "cli/vgi_source.h"
#include "vgi/layout.h"

typedef struct vgi_publish vgi_publish;

/* ENGINE and LAYOUT outlive it. OD_E_INVALID: the layout names what is not there, or conditions that are none. */
OD_MUST_CHECK od_code vgi_publish_open(od_engine *engine, const char *catalog, const od_layout *layout,
                                       vgi_publish **out, od_error *err);
void vgi_publish_close(vgi_publish *publish); /* NULL allowed */
od_vgiw *vgi_publish_worker(const vgi_publish *publish);

/* CODE as the house has it. */
OD_MUST_CHECK od_code vgi_publish_failed(od_vgiw_code code, const od_vgiw_error *why, od_error *err);

#endif
