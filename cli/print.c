#include "cli/print.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/json.h"
#include "base/banned.h"

/* A table sizes its columns by so many rows, holding at most so many bytes; wider values are cut. */
enum { SAMPLE_ROWS = 1000, SAMPLE_BYTES = 4 << 20, MAX_WIDTH = 80 };

struct printer {
    FILE *out;
    print_format format;
    const print_column *columns;
    size_t count;
    const char *null_text;
    uint64_t rows;
    /* a table's */
    size_t *widths;
    od_slice *scratch; /* one a column */
    od_buf sample;     /* values of the first rows, each as length (SIZE_MAX: NULL) and bytes */
    size_t sampled;
    bool sized;
};

/* ---- CSV ---- */

static bool needs_quotes(od_slice value)
{
    if (value.len == 0)
        return true;
    for (size_t i = 0; i < value.len; i++) {
        if (strchr(",\"\r\n", value.data[i]) && value.data[i])
            return true;
    }
    return value.data[0] == ' ' || value.data[value.len - 1] == ' ';
}

static void csv_value(FILE *out, od_slice value)
{
    if (!needs_quotes(value)) {
        fwrite(value.data, 1, value.len, out);
        return;
    }
    putc('"', out);
    for (size_t i = 0; i < value.len; i++) {
        if (value.data[i] == '"')
            putc('"', out);
        putc(value.data[i], out);
    }
    putc('"', out);
}

static void csv_header(const printer *p)
{
    for (size_t i = 0; i < p->count; i++) {
        if (i > 0)
            putc(',', p->out);
        csv_value(p->out, od_slice_str(p->columns[i].name));
    }
    putc('\n', p->out);
}

static void csv_row(const printer *p, const od_slice *values)
{
    for (size_t i = 0; i < p->count; i++) {
        if (i > 0)
            putc(',', p->out);
        if (values[i].data)
            csv_value(p->out, values[i]);
        else
            fputs(p->null_text, p->out);
    }
    putc('\n', p->out);
}

/* ---- JSON lines ---- */

static void json_row(const printer *p, const od_slice *values)
{
    putc('{', p->out);
    for (size_t i = 0; i < p->count; i++) {
        bool finite = !values[i].data || !p->columns[i].number || !memchr(values[i].data, 'n', values[i].len) ||
                      values[i].data[0] == '"';
        bool nan = values[i].data && p->columns[i].number && values[i].len == 3 && values[i].data[0] == 'N';

        if (i > 0)
            putc(',', p->out);
        json_text(p->out, od_slice_str(p->columns[i].name));
        putc(':', p->out);
        if (!values[i].data)
            fputs("null", p->out);
        else if (finite && !nan)
            fwrite(values[i].data, 1, values[i].len, p->out);
        else
            json_text(p->out, values[i]); /* Infinity, NaN: JSON has no such numbers */
    }
    fputs("}\n", p->out);
}

/* ---- table ---- */

/* Characters that take two columns, or none, on a terminal: the blocks that matter (Unicode's EastAsianWidth, emoji). */
static const struct {
    uint32_t first, last;
    size_t width;
} odd_widths[] = {
    {0x0300, 0x036F, 0}, {0x1100, 0x115F, 2},   {0x200B, 0x200F, 0},   {0x2E80, 0x303E, 2},   {0x3041, 0xA4CF, 2},
    {0xAC00, 0xD7A3, 2}, {0xF900, 0xFAFF, 2},   {0xFE00, 0xFE0F, 0},   {0xFE30, 0xFE6F, 2},   {0xFF00, 0xFF60, 2},
    {0xFFE0, 0xFFE6, 2}, {0x1F300, 0x1F64F, 2}, {0x1F680, 0x1F6FF, 2}, {0x1F900, 0x1FAFF, 2}, {0x20000, 0x3FFFD, 2},
};

static size_t width_of(uint32_t c)
{
    for (size_t i = 0; i < sizeof odd_widths / sizeof *odd_widths; i++) {
        if (c >= odd_widths[i].first && c <= odd_widths[i].last)
            return odd_widths[i].width;
    }
    return 1;
}

/* The bytes and columns of the character at TEXT[AT]; 0 bytes: a control character, or no UTF-8. */
static size_t char_at(od_slice text, size_t at, size_t *width)
{
    const uint8_t *c = text.data + at;
    size_t n = c[0] < 0x80 ? 1 : c[0] < 0xC2 ? 0 : c[0] < 0xE0 ? 2 : c[0] < 0xF0 ? 3 : c[0] < 0xF5 ? 4 : 0;
    uint32_t code;

    *width = 1;
    if (n == 1)
        return c[0] >= 0x20 && c[0] != 0x7F ? 1 : 0;
    if (n == 0 || n > text.len - at)
        return 0;
    code = c[0] & (0x7FU >> n);
    for (size_t i = 1; i < n; i++) {
        if ((c[i] & 0xC0U) != 0x80U)
            return 0;
        code = code << 6 | (c[i] & 0x3FU);
    }
    if (code < 0xA0) /* the other block of control characters */
        return 0;
    *width = width_of(code);
    return n;
}

static const char *shown_control(uint8_t c)
{
    return c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\t' ? "\\t" : "?";
}

/* Prints up to LIMIT columns of TEXT (OUT NULL: only counts) and returns how many. */
static size_t show(FILE *out, od_slice text, size_t limit)
{
    size_t used = 0;

    for (size_t i = 0; i < text.len;) {
        size_t width, n = char_at(text, i, &width);
        const char *control = n == 0 ? shown_control(text.data[i]) : NULL;

        if (control)
            width = strlen(control);
        if (used + width > limit)
            break;
        if (out && control)
            fputs(control, out);
        else if (out)
            fwrite(text.data + i, 1, n, out);
        used += width;
        i += n ? n : 1;
    }
    return used;
}

static void cell(const printer *p, size_t column, od_slice value, bool right)
{
    size_t width = p->widths[column], full = show(NULL, value, SIZE_MAX);
    size_t pad = full < width ? width - full : 0;

    fputs(" ", p->out);
    for (size_t i = 0; right && i < pad; i++)
        putc(' ', p->out);
    if (full <= width) {
        show(p->out, value, width);
    } else {
        size_t used = show(p->out, value, width - 1);

        fputs("…", p->out);
        for (used++; used < width; used++)
            putc(' ', p->out);
    }
    for (size_t i = 0; !right && i < pad; i++)
        putc(' ', p->out);
    fputs(" │", p->out);
}

static void line(const printer *p, const char *left, const char *middle, const char *right)
{
    fputs(left, p->out);
    for (size_t i = 0; i < p->count; i++) {
        for (size_t k = 0; k < p->widths[i] + 2; k++)
            fputs("─", p->out);
        fputs(i + 1 < p->count ? middle : right, p->out);
    }
    putc('\n', p->out);
}

static void table_row(const printer *p, const od_slice *values)
{
    fputs("│", p->out);
    for (size_t i = 0; i < p->count; i++)
        cell(p, i, values[i].data ? values[i] : od_slice_str(p->null_text), p->columns[i].number);
    putc('\n', p->out);
}

static void widen(printer *p, size_t column, od_slice value)
{
    size_t width = show(NULL, value, MAX_WIDTH + 1);

    if (width > MAX_WIDTH)
        width = MAX_WIDTH;
    if (width > p->widths[column])
        p->widths[column] = width;
}

static od_code sample_row(printer *p, const od_slice *values, od_error *err)
{
    od_code rc = OD_OK;

    for (size_t i = 0; rc == OD_OK && i < p->count; i++) {
        size_t len = values[i].data ? values[i].len : SIZE_MAX;

        widen(p, i, values[i].data ? values[i] : od_slice_str(p->null_text));
        rc = od_buf_append(&p->sample, &len, sizeof len, err);
        if (rc == OD_OK && values[i].data && len > 0)
            rc = od_buf_append(&p->sample, values[i].data, len, err);
    }
    p->sampled++;
    return rc;
}

/* The columns have their widths: prints the head and the rows that were held. */
static void print_sample(printer *p)
{
    const uint8_t *at = p->sample.data;
    size_t len;

    p->sized = true;
    line(p, "┌", "┬", "┐");
    fputs("│", p->out);
    for (size_t i = 0; i < p->count; i++)
        cell(p, i, od_slice_str(p->columns[i].name), p->columns[i].number);
    putc('\n', p->out);
    line(p, "├", "┼", "┤");
    for (size_t row = 0; row < p->sampled; row++) {
        for (size_t i = 0; i < p->count; i++) {
            memcpy(&len, at, sizeof len);
            at += sizeof len;
            p->scratch[i] = len == SIZE_MAX ? (od_slice){0} : od_slice_of(at, len);
            at += len == SIZE_MAX ? 0 : len;
        }
        table_row(p, p->scratch);
    }
    od_buf_release(&p->sample);
}

/* ---- doors ---- */

static od_code check_out(const printer *p, od_error *err)
{
    return ferror(p->out) ? od_fail_errno(err, OD_E_IO, errno ? errno : EIO, "cannot write the result") : OD_OK;
}

od_code printer_create(FILE *out, print_format format, const print_column *columns, size_t count, const char *null_text,
                       printer **result, od_error *err)
{
    printer *p = od_calloc(1, sizeof *p);

    *result = NULL;
    if (p) {
        p->widths = od_calloc(count + 1, sizeof *p->widths);
        p->scratch = od_calloc(count + 1, sizeof *p->scratch);
    }
    if (!p || !p->widths || !p->scratch) {
        printer_free(p);
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for %zu columns", count);
    }
    p->out = out;
    p->format = format;
    p->columns = columns;
    p->count = count;
    p->null_text = null_text;
    if (format == PRINT_TABLE) {
        for (size_t i = 0; i < count; i++) {
            p->widths[i] = 1;
            widen(p, i, od_slice_str(columns[i].name));
        }
    } else if (format == PRINT_CSV) {
        csv_header(p);
    }
    *result = p;
    return OD_OK;
}

od_code printer_row(printer *p, const od_slice *values, od_error *err)
{
    od_code rc = OD_OK;

    p->rows++;
    if (p->format == PRINT_CSV)
        csv_row(p, values);
    else if (p->format == PRINT_JSON)
        json_row(p, values);
    else if (p->sized)
        table_row(p, values);
    else
        rc = sample_row(p, values, err);
    if (rc == OD_OK && !p->sized && (p->sampled == SAMPLE_ROWS || p->sample.len > SAMPLE_BYTES))
        print_sample(p);
    return rc == OD_OK ? check_out(p, err) : rc;
}

od_code printer_end(printer *p, od_error *err)
{
    if (p->format == PRINT_TABLE) {
        if (!p->sized)
            print_sample(p);
        line(p, "└", "┴", "┘");
        fprintf(p->out, "(%llu row%s)\n", (unsigned long long)p->rows, p->rows == 1 ? "" : "s");
    }
    fflush(p->out);
    return check_out(p, err);
}

void printer_cut(printer *p)
{
    if (p->format == PRINT_TABLE && !p->sized && p->sampled > 0)
        print_sample(p);
    fflush(p->out);
}

void printer_free(printer *p)
{
    if (!p)
        return;
    od_buf_release(&p->sample);
    od_free(p->widths);
    od_free(p->scratch);
    od_free(p);
}
