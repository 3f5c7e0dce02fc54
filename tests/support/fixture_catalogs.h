/* Catalogs to test clients of VGI with: what a worker can have, each thing once. */
#ifndef FIXTURE_CATALOGS_H
#define FIXTURE_CATALOGS_H

#include "openduck/vgi_worker.h"

/* "example", "attach_options", "attach_options_required" or "simple_writable", which speaks GENERATION alone (NULL: both); files of branches
 * are in FOLDER (NULL: there are none). NULL: there is no such. fixture_open comes before. */
od_vgiw *fixture_catalog(const char *name, const char *generation, const char *folder);

/* Their tables and functions. */
void fixture_example_tables(od_vgiw *worker, const char *folder);
void fixture_example_functions(od_vgiw *worker);
void fixture_items(od_vgiw *worker);

#endif
