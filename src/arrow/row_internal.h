/* arrow/row_internal.h: types of columns, written as texts. */
#ifndef OD_ARROW_ROW_INTERNAL_H
#define OD_ARROW_ROW_INTERNAL_H

#include <nanoarrow/nanoarrow.h>

/* Makes OUT (uninitialised) a nullable field of TYPE, as od_row_blank reads it. EINVAL: it is none. On failure OUT is released. */
ArrowErrorCode od_row_type_make(const char *type, struct ArrowSchema *out);

#endif
