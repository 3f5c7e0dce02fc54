#include "base/json_read.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"

#include "base/banned.h"

enum { BLOCK = 64 };

typedef struct block {
    struct block *next;
    size_t used;
    od_json_node nodes[BLOCK];
} block;

struct od_json_doc {
    block *blocks;
    uint8_t *text; /* what the nodes' texts point into */
    const od_json_node *root;
};

typedef struct {
    od_json_doc *doc;
    const uint8_t *start, *at, *end;
    uint8_t *out; /* where the next text goes: never past where it is read */
    od_json_limits left;
    od_error *err;
} reader;

static od_code bad(const reader *r, const char *why)
{
    return od_fail(r->err, OD_E_CORRUPT, "json, at byte %zu: %s", (size_t)(r->at - r->start), why);
}

static void skip_blanks(reader *r)
{
    while (r->at < r->end && memchr(" \t\r\n", *r->at, 4) != NULL)
        r->at++;
}

static bool accept(reader *r, char c)
{
    bool is = r->at < r->end && *r->at == (uint8_t)c;

    r->at += is;
    return is;
}

static od_code new_node(reader *r, od_json_node **out)
{
    block *b = r->doc->blocks;

    if (r->left.nodes == 0)
        return bad(r, "too many values");
    r->left.nodes--;
    if (b == NULL || b->used == BLOCK) {
        b = od_calloc(1, sizeof *b);
        if (b == NULL)
            return od_fail(r->err, OD_E_NO_MEMORY, "out of memory");
        b->next = r->doc->blocks;
        r->doc->blocks = b;
    }
    *out = &b->nodes[b->used++];
    return OD_OK;
}

/* ---- texts ---- */

static bool read_unit(reader *r, uint32_t *out)
{
    *out = 0;
    if (r->end - r->at < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        int digit = od_hex_value(*r->at++);

        if (digit < 0)
            return false;
        *out = *out << 4 | (uint32_t)digit;
    }
    return true;
}

static void put_code_point(reader *r, uint32_t c)
{
    if (c < 0x80) {
        *r->out++ = (uint8_t)c;
        return;
    }
    if (c < 0x800) {
        *r->out++ = (uint8_t)(0xc0 | c >> 6);
    } else {
        if (c < 0x10000) {
            *r->out++ = (uint8_t)(0xe0 | c >> 12);
        } else {
            *r->out++ = (uint8_t)(0xf0 | c >> 18);
            *r->out++ = (uint8_t)(0x80 | (c >> 12 & 0x3f));
        }
        *r->out++ = (uint8_t)(0x80 | (c >> 6 & 0x3f));
    }
    *r->out++ = (uint8_t)(0x80 | (c & 0x3f));
}

/* What follows "\u". */
static od_code read_code_point(reader *r)
{
    uint32_t high, low;

    if (!read_unit(r, &high) || (high >= 0xdc00 && high < 0xe000))
        return bad(r, "no code point");
    if (high >= 0xd800 && high < 0xdc00) {
        if (!accept(r, '\\') || !accept(r, 'u') || !read_unit(r, &low) || low < 0xdc00 || low >= 0xe000)
            return bad(r, "half of a code point");
        high = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    }
    put_code_point(r, high);
    return OD_OK;
}

static od_code read_escape(reader *r)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *found;

    if (r->at == r->end)
        return bad(r, "an escape of nothing");
    if (accept(r, 'u'))
        return read_code_point(r);
    found = memchr(from, *r->at, sizeof from - 1);
    if (found == NULL)
        return bad(r, "an escape that is none");
    r->at++;
    *r->out++ = (uint8_t)to[found - from];
    return OD_OK;
}

/* What follows the opening quote. */
static od_code read_text(reader *r, od_slice *out)
{
    uint8_t *begin = r->out;

    while (r->at < r->end && *r->at != '"') {
        od_code rc = OD_OK;

        if (*r->at < 0x20)
            return bad(r, "a control character in a text");
        if (accept(r, '\\'))
            rc = read_escape(r);
        else
            *r->out++ = *r->at++;
        if (rc != OD_OK)
            return rc;
    }
    if (!accept(r, '"'))
        return bad(r, "a text without an end");
    *out = od_slice_of(begin, (size_t)(r->out - begin));
    return od_utf8_valid(*out) ? OD_OK : bad(r, "a text that is no UTF-8");
}

/* ---- numbers ---- */

static size_t skip_digits(reader *r)
{
    const uint8_t *from = r->at;

    while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
        r->at++;
    return (size_t)(r->at - from);
}

static od_code read_number(reader *r, od_json_node *node)
{
    uint8_t *begin = r->out;
    const uint8_t *from = r->at;
    char digits[24];
    size_t n;

    node->whole = true;
    (void)accept(r, '-');
    if (accept(r, '0') ? r->at < r->end && *r->at >= '0' && *r->at <= '9' : skip_digits(r) == 0)
        return bad(r, "no value");
    if (accept(r, '.')) {
        node->whole = false;
        if (skip_digits(r) == 0)
            return bad(r, "no digit");
    }
    if (accept(r, 'e') || accept(r, 'E')) {
        node->whole = false;
        (void)(accept(r, '+') || accept(r, '-'));
        if (skip_digits(r) == 0)
            return bad(r, "no digit");
    }
    n = (size_t)(r->at - from);
    memcpy(r->out, from, n);
    r->out += n;
    node->text = od_slice_of(begin, n);
    if (!node->whole)
        return OD_OK;
    node->whole = n < sizeof digits;
    if (node->whole) {
        memcpy(digits, from, n);
        digits[n] = '\0';
        errno = 0;
        node->value = strtoll(digits, NULL, 10);
        node->whole = errno == 0;
    }
    return OD_OK;
}

static od_code read_word(reader *r, od_json_node *node)
{
    static const struct {
        const char *word;
        od_json_kind kind;
        bool yes;
    } words[] = {{"null", OD_JSON_NULL, false}, {"true", OD_JSON_BOOL, true}, {"false", OD_JSON_BOOL, false}};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t len = strlen(words[i].word);

        if ((size_t)(r->end - r->at) < len || memcmp(r->at, words[i].word, len) != 0)
            continue;
        r->at += len;
        node->kind = words[i].kind;
        node->yes = words[i].yes;
        return OD_OK;
    }
    node->kind = OD_JSON_NUMBER;
    return read_number(r, node);
}

/* ---- values ---- */

/* NOLINTBEGIN(misc-no-recursion): no deeper than the limit */
static od_code read_value(reader *r, od_json_node **out);

static od_code read_member(reader *r, const od_json_node *object, od_json_node **out)
{
    od_slice key;
    od_code rc;

    skip_blanks(r);
    if (!accept(r, '"'))
        return bad(r, "no name");
    OD_TRY(read_text(r, &key));
    for (const od_json_node *m = object->first; m != NULL; m = m->next)
        if (od_slice_equal(m->key, key))
            return bad(r, "a name twice");
    skip_blanks(r);
    if (!accept(r, ':'))
        return bad(r, "no colon");
    OD_TRY(read_value(r, out));
    (*out)->key = key;
out:
    return rc;
}

/* What follows the opening bracket. */
static od_code read_items(reader *r, od_json_node *list, char close)
{
    od_json_node *last = NULL, *item = NULL;
    od_code rc = OD_OK;

    if (r->left.depth == 0)
        return bad(r, "too deep");
    r->left.depth--;
    skip_blanks(r);
    if (accept(r, close))
        goto out;
    for (;;) {
        OD_TRY(close == '}' ? read_member(r, list, &item) : read_value(r, &item));
        if (last != NULL)
            last->next = item;
        else
            list->first = item;
        last = item;
        list->count++;
        skip_blanks(r);
        if (accept(r, close))
            break;
        if (!accept(r, ','))
            OD_TRY(bad(r, "no comma"));
    }
out:
    r->left.depth++;
    return rc;
}

static od_code read_value(reader *r, od_json_node **out)
{
    od_json_node *node = NULL;
    od_code rc = new_node(r, &node);

    if (rc != OD_OK)
        return rc;
    *out = node;
    skip_blanks(r);
    if (accept(r, '"')) {
        node->kind = OD_JSON_TEXT;
        return read_text(r, &node->text);
    }
    if (accept(r, '[')) {
        node->kind = OD_JSON_LIST;
        return read_items(r, node, ']');
    }
    if (accept(r, '{')) {
        node->kind = OD_JSON_OBJECT;
        return read_items(r, node, '}');
    }
    return read_word(r, node);
}
/* NOLINTEND(misc-no-recursion) */

od_code od_json_read(od_slice text, od_json_limits limits, od_json_doc **out, od_error *err)
{
    reader r = {.start = text.data, .at = text.data, .end = text.data + text.len, .left = limits, .err = err};
    od_json_node *root;
    od_code rc = OD_OK;

    *out = NULL;
    if (text.len == 0)
        return od_fail(err, OD_E_CORRUPT, "json, at byte 0: no value");
    r.doc = od_calloc(1, sizeof *r.doc);
    if (r.doc == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    r.out = r.doc->text = od_alloc(text.len);
    if (r.out == NULL)
        OD_TRY(od_fail(err, OD_E_NO_MEMORY, "out of memory"));
    OD_TRY(read_value(&r, &root));
    skip_blanks(&r);
    if (r.at != r.end)
        OD_TRY(bad(&r, "something behind the value"));
    r.doc->root = root;
    *out = r.doc;
    r.doc = NULL;
out:
    od_json_doc_free(r.doc);
    return rc;
}

void od_json_doc_free(od_json_doc *doc)
{
    if (doc == NULL)
        return;
    while (doc->blocks != NULL) {
        block *next = doc->blocks->next;

        od_free(doc->blocks);
        doc->blocks = next;
    }
    od_free(doc->text);
    od_free(doc);
}

const od_json_node *od_json_root(const od_json_doc *doc)
{
    return doc->root;
}

const od_json_node *od_json_get(const od_json_node *object, const char *key)
{
    if (object == NULL || object->kind != OD_JSON_OBJECT)
        return NULL;
    for (const od_json_node *m = object->first; m != NULL; m = m->next)
        if (od_slice_equal(m->key, od_slice_str(key)))
            return m;
    return NULL;
}

bool od_json_is(const od_json_node *node, const char *text)
{
    return node != NULL && node->kind == OD_JSON_TEXT && od_slice_equal(node->text, od_slice_str(text));
}
