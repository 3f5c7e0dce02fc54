#include "storage/store/merge.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#include "base/banned.h"

#define NOWHERE SIZE_MAX
#define SMALL (256U << 10) /* bytes of a layer that is merged with any other */
#define WASTE (1U << 20)   /* bytes for which a layer is written anew by itself */

/* A layer among its neighbours. */
typedef struct {
    const od_layer_row *row;
    size_t parent; /* NOWHERE: none that is alive */
    size_t child;  /* one of them */
    size_t children;
} node;

static int compare(const void *a, const void *b)
{
    return memcmp(&((const node *)a)->row->id, &((const node *)b)->row->id, sizeof(od_uuid));
}

static size_t find(const node *nodes, size_t count, od_uuid id)
{
    size_t low = 0;
    size_t high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (memcmp(&nodes[middle].row->id, &id, sizeof id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && memcmp(&nodes[low].row->id, &id, sizeof id) == 0 ? low : NOWHERE;
}

static node *make_nodes(const od_layer_rows *rows)
{
    node *nodes = od_calloc(rows->count, sizeof *nodes);

    if (nodes == NULL)
        return NULL;
    for (size_t i = 0; i < rows->count; i++)
        nodes[i] = (node){.row = &rows->rows[i], .parent = NOWHERE, .child = NOWHERE};
    qsort(nodes, rows->count, sizeof *nodes, compare);
    for (size_t i = 0; i < rows->count; i++) {
        size_t parent = find(nodes, rows->count, nodes[i].row->parent);

        nodes[i].parent = parent;
        if (parent != NOWHERE) {
            nodes[parent].child = i;
            nodes[parent].children++;
        }
    }
    return nodes;
}

static bool finished(const node *n)
{
    return n->row->state == OD_LAYER_SEALED || n->row->state == OD_LAYER_FROZEN;
}

/* Whether nobody needs N but one layer above it. */
static bool inner(const node *n)
{
    return finished(n) && !n->row->named && n->children == 1;
}

/* The newest of a run: somebody needs it as it is. Those that only a reader needs are left alone. */
static bool is_top(const node *nodes, size_t i)
{
    const node *n = &nodes[i];

    if (!finished(n) || (!n->row->named && n->children == 0))
        return false;
    return !inner(n) || !finished(&nodes[n->child]);
}

static od_code run_below(const node *nodes, size_t top, od_run *run, od_error *err)
{
    size_t count = 1;

    for (size_t at = nodes[top].parent; at != NOWHERE && inner(&nodes[at]); at = nodes[at].parent)
        count++;
    run->rows = od_calloc(count, sizeof *run->rows);
    if (run->rows == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "no memory to look for layers to merge");
    run->count = count;
    for (size_t at = top; count > 0; at = nodes[at].parent)
        run->rows[--count] = *nodes[at].row;
    return OD_OK;
}

/* Most of it was written over by itself. */
static bool wasteful(const od_layer_row *row)
{
    return row->live < row->length / 2 && row->length - row->live > WASTE;
}

/* The part of RUN that pays: a layer joins those above it if it is not much larger than all of them, so each byte is copied a number of
 * times that grows with the logarithm of the run's size, and few layers are left. */
static size_t pays(const od_run *run, size_t *from)
{
    for (size_t top = run->count; top-- > 0;) {
        uint64_t sum = run->rows[top].length;
        size_t low = top;

        while (low > 0 && (run->rows[low - 1].length <= SMALL || run->rows[low - 1].length / 2 <= sum))
            sum += run->rows[--low].length;
        *from = low;
        if (low < top || wasteful(&run->rows[top]))
            return top - low + 1;
    }
    return 0;
}

static void cut(od_run *run, bool whole)
{
    size_t from = 0;

    if (whole && run->count > 1)
        return;
    run->count = pays(run, &from);
    memmove(run->rows, run->rows + from, run->count * sizeof *run->rows);
}

od_code od_run_choose(const od_layer_rows *rows, const od_uuid *database, bool whole, od_run *run, od_error *err)
{
    node *nodes = make_nodes(rows);
    od_code rc = OD_OK;

    *run = (od_run){0};
    if (nodes == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "no memory to look for layers to merge");
    for (size_t i = 0; rc == OD_OK && run->count == 0 && i < rows->count; i++) {
        if (!is_top(nodes, i) || (database != NULL && memcmp(database, &nodes[i].row->database, sizeof *database) != 0))
            continue;
        od_run_release(run);
        rc = run_below(nodes, i, run, err);
        if (rc == OD_OK)
            cut(run, whole);
    }
    od_free(nodes);
    return rc;
}

void od_run_release(od_run *run)
{
    od_free(run->rows);
    *run = (od_run){0};
}
