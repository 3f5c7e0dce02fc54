#include "vgi/layout.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "vgi/layout/layout_internal.h"
#include "base/banned.h"

enum { MAX_LINE = 65536 };

typedef struct {
    const char *path;
    unsigned line;
    od_layout *out;
    od_error *err;
    od_layout_companion *companion; /* the section that lines belong to: one of these, */
    od_layout_table *table;
    od_layout_branch *branch;
    bool catalog; /* or this; or none yet */
} reader;

static od_code bad(const reader *r, const char *why, const char *what)
{
    return od_fail(r->err, OD_E_INVALID, "%s:%u: %s '%s'", r->path, r->line, why, what);
}

static char *trim(char *text)
{
    size_t n;

    while (isspace((unsigned char)*text))
        text++;
    n = strlen(text);
    while (n > 0 && isspace((unsigned char)text[n - 1]))
        text[--n] = '\0';
    return text;
}

static void free_texts(od_buf *list)
{
    for (size_t i = 0; i < OD_LAYOUT_COUNT(*list, char *); i++)
        od_free(*OD_LAYOUT_AT(*list, char *, i));
    od_buf_release(list);
}

/* ---- names ---- */

static void name_release(od_layout_name *name)
{
    for (size_t i = 0; i < name->count; i++)
        od_free(name->parts[i]);
    name->count = 0;
}

/* One part of a name at *AT, without its quotes, into OUT. */
static bool read_part(const char **at, char *out)
{
    const char *p = *at;

    if (*p != '"') {
        while (*p != '\0' && *p != '.' && *p != '"')
            *out++ = *p++;
    } else {
        for (p++; *p != '"' || p[1] == '"'; p++) {
            if (*p == '\0')
                return false;
            p += *p == '"';
            *out++ = *p;
        }
        p++;
    }
    *out = '\0';
    *at = p;
    return *p == '\0' || *p == '.';
}

static od_code read_name(const reader *r, const char *text, od_layout_name *out)
{
    const char *at = text;
    char *part = od_alloc(strlen(text) + 1);
    od_code rc = OD_OK;

    if (part == NULL)
        return od_fail(r->err, OD_E_NO_MEMORY, "out of memory");
    name_release(out);
    for (;;) {
        if (out->count == OD_LAYOUT_PARTS || !read_part(&at, part) || part[0] == '\0')
            OD_TRY(bad(r, "no name:", text));
        OD_TRY(layout_copy(part, &out->parts[out->count], r->err));
        out->count++;
        if (*at == '\0')
            break;
        at++;
    }
out:
    od_free(part);
    return rc;
}

/* ---- sections ---- */

static od_code begin_companion(reader *r, const char *name)
{
    od_code rc = layout_add_item(&r->out->companions, sizeof *r->companion, (void *)&r->companion, r->err);

    if (rc != OD_OK)
        return rc;
    r->companion->line = r->line;
    return layout_copy(name, &r->companion->alias, r->err);
}

static od_code begin_table(reader *r, const char *name)
{
    od_code rc = layout_add_item(&r->out->tables, sizeof *r->table, (void *)&r->table, r->err);

    if (rc != OD_OK)
        return rc;
    r->table->line = r->line;
    return read_name(r, name, &r->table->name);
}

static od_code begin_branch(reader *r, od_layout_table *table)
{
    od_code rc;

    if (table == NULL)
        return bad(r, "a branch belongs to a table before it:", "[branch]");
    rc = layout_add_item(&table->branches, sizeof *r->branch, (void *)&r->branch, r->err);
    if (rc != OD_OK)
        return rc;
    r->table = table;
    r->branch->line = r->line;
    return OD_OK;
}

/* TEXT begins with WORD and a blank: what is behind; else NULL. */
static char *after(char *text, const char *word)
{
    size_t n = strlen(word);

    return strncmp(text, word, n) == 0 && isspace((unsigned char)text[n]) ? trim(text + n) : NULL;
}

static od_code read_section(reader *r, char *line)
{
    size_t n = strlen(line);
    od_layout_table *table = r->table;
    char *inner = trim(line + 1), *name;

    if (line[n - 1] != ']')
        return bad(r, "a section without its end:", line);
    line[n - 1] = '\0';
    inner = trim(inner);
    r->companion = NULL;
    r->table = NULL;
    r->branch = NULL;
    r->catalog = strcmp(inner, "catalog") == 0;
    if (r->catalog)
        return OD_OK;
    if (strcmp(inner, "branch") == 0)
        return begin_branch(r, table);
    name = after(inner, "companion");
    if (name != NULL)
        return begin_companion(r, name);
    name = after(inner, "table");
    if (name != NULL)
        return begin_table(r, name);
    return bad(r, "a section is [catalog], [companion NAME], [table NAME] or [branch], not", inner);
}

/* ---- lines ---- */

static od_code set_text(const reader *r, const char *key, const char *value, char **out)
{
    if (*out != NULL)
        return bad(r, "told twice:", key);
    return layout_copy(value, out, r->err);
}

static od_code set_bool(const reader *r, const char *value, bool *out)
{
    if (strcasecmp(value, "true") != 0 && strcasecmp(value, "false") != 0)
        return bad(r, "neither true nor false:", value);
    *out = strcasecmp(value, "true") == 0;
    return OD_OK;
}

static od_code set_catalog(const reader *r, const char *key, const char *value)
{
    if (strcmp(key, "comment") == 0)
        return set_text(r, key, value, &r->out->comment);
    if (strcmp(key, "default_schema") == 0)
        return set_text(r, key, value, &r->out->default_schema);
    if (strcmp(key, "secret_service") == 0)
        return set_text(r, key, value, &r->out->secret_service);
    if (strcmp(key, "tables") != 0)
        return bad(r, "[catalog] has no", key);
    if (strcmp(value, "all") != 0 && strcmp(value, "listed") != 0)
        return bad(r, "tables are 'all' or 'listed', not", value);
    r->out->listed = strcmp(value, "listed") == 0;
    return OD_OK;
}

static od_code set_companion(const reader *r, char *key, const char *value)
{
    od_layout_companion *c = r->companion;
    char *option = after(key, "option");
    od_layout_option *made;
    od_code rc;

    if (strcmp(key, "target") == 0)
        return set_text(r, key, value, &c->target);
    if (strcmp(key, "type") == 0)
        return set_text(r, key, value, &c->type);
    if (strcmp(key, "secret") == 0)
        return set_text(r, key, value, &c->secret);
    if (strcmp(key, "optional") == 0)
        return set_bool(r, value, &c->optional);
    if (strcmp(key, "hidden") == 0)
        return set_bool(r, value, &c->hidden);
    if (option == NULL)
        return bad(r, "[companion] has no", key);
    OD_TRY(layout_add_item(&c->options, sizeof *made, (void *)&made, r->err));
    OD_TRY(layout_copy(option, &made->name, r->err));
    OD_TRY(layout_copy(value, &made->value, r->err));
out:
    return rc;
}

static od_code set_table(const reader *r, const char *key, const char *value)
{
    if (strcmp(key, "comment") == 0)
        return set_text(r, key, value, &r->table->comment);
    if (strcmp(key, "split") == 0)
        return set_text(r, key, value, &r->table->split);
    if (strcmp(key, "extension") == 0)
        return layout_add_text(&r->table->extensions, value, r->err);
    return bad(r, "[table] has no", key);
}

static od_code set_branch(const reader *r, const char *key, const char *value)
{
    if (strcmp(key, "from") == 0)
        return r->branch->from.count > 0 ? bad(r, "told twice:", key) : read_name(r, value, &r->branch->from);
    if (strcmp(key, "files") == 0)
        return set_text(r, key, value, &r->branch->format);
    if (strcmp(key, "location") == 0)
        return layout_add_text(&r->branch->locations, value, r->err);
    if (strcmp(key, "where") == 0)
        return set_text(r, key, value, &r->branch->where);
    return bad(r, "[branch] has no", key);
}

static od_code read_line(reader *r, char *line)
{
    char *equals, *key, *value;

    if (line[0] == '\0' || line[0] == '#')
        return OD_OK;
    if (line[0] == '[')
        return read_section(r, line);
    equals = strchr(line, '=');
    if (equals == NULL)
        return bad(r, "no 'name = value':", line);
    *equals = '\0';
    key = trim(line);
    value = trim(equals + 1);
    if (value[0] == '\0')
        return bad(r, "no value for", key);
    if (r->branch != NULL)
        return set_branch(r, key, value);
    if (r->table != NULL)
        return set_table(r, key, value);
    if (r->companion != NULL)
        return set_companion(r, key, value);
    return r->catalog ? set_catalog(r, key, value) : bad(r, "this is in no section:", key);
}

/* ---- the whole ---- */

static od_code check_branch(reader *r, const od_layout_branch *branch)
{
    bool files = branch->format != NULL, located = branch->locations.len > 0;

    r->line = branch->line;
    if (files == (branch->from.count > 0))
        return bad(r, "a branch has either 'from' or 'files':", "[branch]");
    if (files != located)
        return bad(r, "'files' and 'location' go together:", "[branch]");
    return OD_OK;
}

static od_code check(reader *r)
{
    od_code rc = OD_OK;

    for (size_t i = 0; i < OD_LAYOUT_COUNT(r->out->companions, od_layout_companion); i++) {
        const od_layout_companion *c = OD_LAYOUT_AT(r->out->companions, od_layout_companion, i);

        r->line = c->line;
        if (c->target == NULL)
            OD_TRY(bad(r, "there is no target of companion", c->alias));
    }
    for (size_t i = 0; i < OD_LAYOUT_COUNT(r->out->tables, od_layout_table); i++) {
        const od_layout_table *t = OD_LAYOUT_AT(r->out->tables, od_layout_table, i);

        r->line = t->line;
        if (t->name.count > 2)
            OD_TRY(bad(r, "a table is NAME or SCHEMA.NAME, not one of catalog", t->name.parts[0]));
        for (size_t k = 0; k < OD_LAYOUT_COUNT(t->branches, od_layout_branch); k++)
            OD_TRY(check_branch(r, OD_LAYOUT_AT(t->branches, od_layout_branch, k)));
    }
out:
    return rc;
}

od_code od_layout_read(const char *path, od_layout *out, od_error *err)
{
    reader r = {.path = path, .out = out, .err = err};
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    od_code rc = OD_OK;

    if (file == NULL)
        return od_fail_errno(err, errno == ENOENT ? OD_E_NOT_FOUND : OD_E_IO, errno, "cannot read '%s'", path);
    while ((n = getline(&line, &room, file)) >= 0) {
        r.line++;
        if (n > MAX_LINE || strlen(line) != (size_t)n)
            OD_TRY(bad(&r, "a line is too long, or no text:", "..."));
        OD_TRY(read_line(&r, trim(line)));
    }
    if (ferror(file))
        OD_TRY(od_fail(err, OD_E_IO, "cannot read '%s'", path));
    OD_TRY(check(&r));
out:
    free(line); /* getline's */
    fclose(file);
    return rc;
}

od_code od_layout_add_companion(od_layout *layout, const char *alias, const char *target, od_error *err)
{
    od_layout_companion *made;
    od_code rc;

    OD_TRY(layout_add_item(&layout->companions, sizeof *made, (void *)&made, err));
    OD_TRY(layout_copy(alias, &made->alias, err));
    OD_TRY(layout_copy(target, &made->target, err));
out:
    return rc;
}

static void companion_release(od_layout_companion *companion)
{
    od_free(companion->alias);
    od_free(companion->target);
    od_free(companion->type);
    od_free(companion->secret);
    for (size_t i = 0; i < OD_LAYOUT_COUNT(companion->options, od_layout_option); i++) {
        od_free(OD_LAYOUT_AT(companion->options, od_layout_option, i)->name);
        od_free(OD_LAYOUT_AT(companion->options, od_layout_option, i)->value);
    }
    od_buf_release(&companion->options);
}

static void table_release(od_layout_table *table)
{
    name_release(&table->name);
    od_free(table->comment);
    od_free(table->split);
    free_texts(&table->extensions);
    for (size_t i = 0; i < OD_LAYOUT_COUNT(table->branches, od_layout_branch); i++) {
        od_layout_branch *branch = OD_LAYOUT_AT(table->branches, od_layout_branch, i);

        name_release(&branch->from);
        od_free(branch->format);
        od_free(branch->where);
        free_texts(&branch->locations);
    }
    od_buf_release(&table->branches);
}

void od_layout_release(od_layout *layout)
{
    for (size_t i = 0; i < OD_LAYOUT_COUNT(layout->companions, od_layout_companion); i++)
        companion_release(OD_LAYOUT_AT(layout->companions, od_layout_companion, i));
    for (size_t i = 0; i < OD_LAYOUT_COUNT(layout->tables, od_layout_table); i++)
        table_release(OD_LAYOUT_AT(layout->tables, od_layout_table, i));
    od_buf_release(&layout->companions);
    od_buf_release(&layout->tables);
    od_free(layout->comment);
    od_free(layout->default_schema);
    od_free(layout->secret_service);
}
