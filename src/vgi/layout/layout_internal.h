/* What the files of this room share. */
#ifndef OD_VGI_LAYOUT_INTERNAL_H
#define OD_VGI_LAYOUT_INTERNAL_H

#include "vgi/layout.h"

OD_MUST_CHECK od_code layout_copy(const char *text, char **out, od_error *err);
/* Appends a copy of TEXT to a list of char *. */
OD_MUST_CHECK od_code layout_add_text(od_buf *list, const char *text, od_error *err);
/* A new item of zeros, of SIZE bytes, at the end of LIST. */
OD_MUST_CHECK od_code layout_add_item(od_buf *list, size_t size, void *out, od_error *err);

#endif
