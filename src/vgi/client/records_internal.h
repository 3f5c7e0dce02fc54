/* vgi/client/records_internal.h: the memory of an answer's structs, and what fills them from records. */
#ifndef OD_VGI_CLIENT_RECORDS_INTERNAL_H
#define OD_VGI_CLIENT_RECORDS_INTERNAL_H

#include "arrow/record.h"
#include "vgi/records.h"

/* No answer takes more memory. */
#define OD_VGI_MAX_ANSWER ((size_t)256 << 20)

OD_MUST_CHECK od_code od_vgi_answer_create(od_vgi_answer **out, od_error *err);

/* Zeroed memory of N things of SIZE that lives as long as ANSWER. OD_E_TOO_LARGE, OD_E_NO_MEMORY. */
OD_MUST_CHECK od_code od_vgi_answer_alloc(od_vgi_answer *answer, int64_t n, size_t size, void *out, od_error *err);

/* Each reads what CELL has, copied; absent gives an empty OUT. */
OD_MUST_CHECK od_code od_vgi_answer_text(od_vgi_answer *answer, od_cell cell, od_slice *out, od_error *err);
OD_MUST_CHECK od_code od_vgi_answer_texts(od_vgi_answer *answer, od_cell cell, od_vgi_texts *out, od_error *err);
OD_MUST_CHECK od_code od_vgi_answer_pairs(od_vgi_answer *answer, od_cell cell, od_vgi_pairs *out, od_error *err);
/* A schema message; OUT lies in ANSWER's memory, which releases it. */
OD_MUST_CHECK od_code od_vgi_answer_schema(od_vgi_answer *answer, od_cell cell, struct ArrowSchema *out, od_error *err);
/* A stream of one row; as above. */
OD_MUST_CHECK od_code od_vgi_answer_values(od_vgi_answer *answer, od_cell cell, od_vgi_values *out, od_error *err);
OD_MUST_CHECK od_code od_vgi_answer_number(od_cell cell, od_vgi_number *out, od_error *err);

/* Reads one record into the struct ITEM. */
typedef od_code (*od_vgi_item_read)(od_vgi_answer *answer, const od_record *record, void *item, od_error *err);

/* A list of records of one row each, as *COUNT structs of SIZE at *ITEMS. */
OD_MUST_CHECK od_code od_vgi_answer_items(od_vgi_answer *answer, od_cell list, od_vgi_item_read read, size_t size,
                                          size_t *count, void *items, od_error *err);

/* A result of one record, read into the struct ITEM of SIZE, which is all zero on failure; *ANSWER, within it, owns what it points at. */
OD_MUST_CHECK od_code od_vgi_decode_one(od_slice bytes, od_vgi_item_read read, size_t size, od_vgi_answer **answer,
                                        void *item, od_error *err);
/* A result whose record has such a list, `items`. *ANSWER is NULL on failure. */
OD_MUST_CHECK od_code od_vgi_decode_items(od_slice bytes, od_vgi_item_read read, size_t size, od_vgi_answer **answer,
                                          size_t *count, void *items, od_error *err);
od_cell od_vgi_cell(const od_record *record, const char *name); /* of its one row */
/* A record of exactly one row. */
OD_MUST_CHECK od_code od_vgi_record_one(od_slice bytes, od_record **out, od_error *err);
/* OTHERWISE where TEXT is absent or empty. */
od_slice od_vgi_text_or(od_slice text, const char *otherwise);

#endif
