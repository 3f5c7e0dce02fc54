/* arrow/schema.h: schemas of the C data interface, made by hand. */
#ifndef OD_ARROW_SCHEMA_H
#define OD_ARROW_SCHEMA_H

#include <stdbool.h>
#include <stdint.h>

#include "arrow/c_data.h"
#include "base/buf.h"

/* Makes OUT (uninitialised) a nullable field with CHILD_COUNT children, which the caller then makes too; NAME and FORMAT are copied. */
OD_MUST_CHECK od_code od_schema_make(struct ArrowSchema *out, const char *name, const char *format, int64_t child_count,
                                     od_error *err);
/* Makes OUT (uninitialised) a copy of its own of SCHEMA. */
OD_MUST_CHECK od_code od_schema_copy(const struct ArrowSchema *schema, struct ArrowSchema *out, od_error *err);
/* FIELD was made by one of the above; NAME is copied. */
OD_MUST_CHECK od_code od_schema_rename(struct ArrowSchema *field, const char *name, od_error *err);
/* Whether A and B have the same names and types, all the way down. Whether they may be null does not count, nor do metadata. */
bool od_schema_same(const struct ArrowSchema *a, const struct ArrowSchema *b);
/* Adds or replaces one entry of FIELD's metadata; FIELD was made by one of the above. */
OD_MUST_CHECK od_code od_schema_set_metadata(struct ArrowSchema *field, const char *key, od_slice value, od_error *err);
/* Makes OUT an array of SCHEMA without rows. */
OD_MUST_CHECK od_code od_schema_empty_array(const struct ArrowSchema *schema, struct ArrowArray *out, od_error *err);
/* Releases SCHEMA unless it is empty (its release NULL). */
void od_schema_release(struct ArrowSchema *schema);

#endif
