/* base/json_read.h: JSON of others, read into a tree. Bounded in depth and size; nothing but JSON (RFC 8259) is accepted. */
#ifndef OD_BASE_JSON_READ_H
#define OD_BASE_JSON_READ_H

#include "base/buf.h"

typedef enum { OD_JSON_NULL, OD_JSON_BOOL, OD_JSON_NUMBER, OD_JSON_TEXT, OD_JSON_LIST, OD_JSON_OBJECT } od_json_kind;

typedef struct od_json_node {
    od_json_kind kind;
    bool yes;      /* of BOOL */
    bool whole;    /* of NUMBER: it is an integer of 64 bits */
    int64_t value; /* that */
    od_slice text; /* of TEXT, without escapes; of NUMBER, as it is written */
    od_slice key;  /* of an object's member */
    size_t count;  /* of LIST and OBJECT */
    const struct od_json_node *first, *next;
} od_json_node;

typedef struct od_json_doc od_json_doc;

typedef struct {
    size_t depth, nodes; /* no more than these */
} od_json_limits;

/* The tree lives as long as *OUT, and does not need TEXT any more. OD_E_CORRUPT names the offset: no JSON, a member twice in one object,
 * too deep, too many. */
OD_MUST_CHECK od_code od_json_read(od_slice text, od_json_limits limits, od_json_doc **out, od_error *err);
void od_json_doc_free(od_json_doc *doc); /* NULL allowed */
const od_json_node *od_json_root(const od_json_doc *doc);
/* The member KEY of an object; NULL: it has none, or is no object (NULL allowed). */
const od_json_node *od_json_get(const od_json_node *object, const char *key);
/* Whether NODE (NULL allowed) is the text TEXT. */
bool od_json_is(const od_json_node *node, const char *text);

#endif
