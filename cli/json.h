/* JSON, as much as is written by hand. */
#ifndef OD_CLI_JSON_H
#define OD_CLI_JSON_H

#include <stdio.h>

#include "base/buf.h"

/* TEXT as a JSON string, quotes included. */
void json_text(FILE *out, od_slice text);

#endif
