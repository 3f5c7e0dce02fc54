/* A statement with openduck_run, from any text: refused, or a plan with a place for everything, whose texts have no call left. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"
#include "query/gateway/hybrid/bridges.h"
#include "query/gateway/hybrid/hint.h"
#include "query/gateway/hybrid/placement.h"
#include "server/host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static od_engine *engine;

static bool begin(void *arg, const od_outline_root *root)
{
    (void)arg;
    (void)root;
    return true;
}

static bool take(void *arg, const od_outline_node *node)
{
    /* What was a call is none any more. */
    if (node->kind == OD_OUTLINE_RUN)
        *(bool *)arg = true;
    return true;
}

static od_code look(plan_node *const *scans, size_t count, placement side)
{
    for (size_t i = 0; i < count; i++) {
        scans[i]->facts.local = scans[i]->facts.local || (side == PLACE_LOCAL && scans[i]->name[0] == 'l');
        scans[i]->facts.remote_size = strlen(scans[i]->name);
    }
    return OD_OK;
}

static od_code look_local(void *arg, plan_node *const *scans, size_t count, od_error *err)
{
    (void)arg;
    (void)err;
    return look(scans, count, PLACE_LOCAL);
}

static od_code look_remote(void *arg, plan_node *const *scans, size_t count, od_error *err)
{
    (void)arg;
    (void)err;
    return look(scans, count, PLACE_REMOTE);
}

static void check_text(const plan_node *fragment)
{
    bool calls = false;
    const od_outline_sink sink = {&calls, begin, take};
    od_buf text = {0};

    if (plan_text(fragment, "b", &text, NULL) != OD_OK)
        __builtin_trap();
    /* What only a function may have, such as columns with types after its alias, DuckDB then refuses in our text. */
    if (od_engine_outline(engine, od_slice_of(text.data, text.len), &sink, NULL) == OD_OK && calls)
        __builtin_trap();
    od_buf_release(&text);
}

static od_code check_bridge(void *arg, plan_node *bridge, od_error *err)
{
    const plan_node *below = bridge->children[0];

    (void)arg;
    if (bridge->where == PLACE_AUTO || bridge->where == below->where || bridge->child_count != 1)
        __builtin_trap();
    if (below->kind != PLAN_FRAGMENT)
        return OD_OK;
    check_text(below);
    return plan_each_bridge(below, check_bridge, NULL, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const od_engine_options options = {.threads = 1};
    const placement_catalog catalog = {NULL, look_local, look_remote};
    od_engine_options with_host = options;
    od_buf shown = {0};
    od_error err = {0};
    plan p;

    with_host.host = od_server_host();
    if (!engine && od_engine_open(&with_host, &engine, NULL) != OD_OK)
        __builtin_trap();
    if (!od_utf8_valid(od_slice_of(data, size)))
        return 0;
    if (hint_read(engine, od_slice_of(data, size), &p, &err) != OD_OK) {
        if (err.message[0] == 0 || p.root)
            __builtin_trap();
        return 0;
    }
    if (resolve_auto(&p, &catalog, &err) == OD_OK && p.fragment_count > 1) {
        if (insert_bridges(&p, &err) != OD_OK || plan_explain(&p, &shown, &err) != OD_OK)
            __builtin_trap();
        check_text(p.root);
        if (plan_each_bridge(p.root, check_bridge, NULL, &err) != OD_OK)
            __builtin_trap();
    }
    od_buf_release(&shown);
    plan_release(&p);
    return 0;
}
