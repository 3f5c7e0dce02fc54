/* A statement with openduck_run in it, as a tree of what runs where.
 *
 * A fragment is a text that runs as a whole at one place: the statement itself, and each openduck_run. Below it are its
 * operators and scans, and where one of these reads another fragment, that one. Where the place changes there is a bridge:
 *
 *   statement -> HashJoin -> Scan(orders)
 *                         -> bridge -> fragment -> Scan(lineitem) */
#ifndef OD_QUERY_GATEWAY_HYBRID_PLAN_H
#define OD_QUERY_GATEWAY_HYBRID_PLAN_H

#include "base/buf.h"

typedef enum { PLACE_AUTO, PLACE_LOCAL, PLACE_REMOTE } placement;

typedef enum { PLAN_OPERATOR, PLAN_SCAN, PLAN_FRAGMENT, PLAN_BRIDGE } plan_kind;

/* What is known of a table. */
typedef struct {
    bool local, remote;
    uint64_t local_size, remote_size; /* rows times columns, as estimated */
} plan_facts;

typedef struct plan_node {
    plan_kind kind;
    placement where;
    char *label; /* of an operator or a scan */
    /* A scan's or a fragment's place in the text of the fragment above. */
    size_t start, len;
    bool aliased;                  /* it has a name there */
    bool fixed;                    /* a scan: no bridge can stand in its place */
    bool whole;                    /* a fragment: there is nothing else in that text */
    char *catalog, *schema, *name; /* of a scan, "" where not told */
    plan_facts facts;
    char *sql; /* a fragment's text */
    size_t sql_len;
    bool query;      /* a fragment: its text gives rows, and may be a part of another text */
    unsigned number; /* a fragment's, from 0 in the order of the text; a bridge's, from 1 */
    struct plan_node **children;
    size_t child_count;
} plan_node;

typedef struct {
    plan_node *root; /* the statement: a fragment */
    bool explain;    /* nothing runs: the plan is asked for */
    unsigned fragment_count, bridge_count;
} plan;

plan_node *plan_node_create(plan_kind kind); /* NULL: out of memory */
void plan_node_free(plan_node *node);        /* and all below; NULL allowed */
/* CHILD is PARENT's, on failure freed. */
OD_MUST_CHECK od_code plan_node_add(plan_node *parent, plan_node *child, od_error *err);
void plan_release(plan *p);

const char *placement_text(placement where); /* "LOCAL" */
/* A line for each node, children below and two blanks further in: "[LOCAL] HashJoin(l.id = r.id)". Fragments have none. */
OD_MUST_CHECK od_code plan_explain(const plan *p, od_buf *out, od_error *err);

/* Calls DO_NODE for the bridges of FRAGMENT's own text, not for those below them, until one fails. */
typedef od_code (*plan_visit)(void *arg, plan_node *node, od_error *err);
OD_MUST_CHECK od_code plan_each_bridge(const plan_node *fragment, plan_visit do_node, void *arg, od_error *err);
/* The text of FRAGMENT as its place gets it: what is bridged is read from the table that plan_bridge_name calls by PREFIX and the
 * bridge's number, and what runs at the same place becomes a subquery. */
OD_MUST_CHECK od_code plan_text(const plan_node *fragment, const char *prefix, od_buf *out, od_error *err);
OD_MUST_CHECK od_code plan_bridge_name(const plan_node *bridge, const char *prefix, od_buf *out, od_error *err);

#endif
