/* The head of an HTTP request, from any bytes: refused, or clean; and the same however it is cut. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "http/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_inside(od_slice part, const uint8_t *data, size_t size)
{
    if (part.len > 0 && (part.data < data || part.data + part.len > data + size))
        __builtin_trap();
    for (size_t i = 0; i < part.len; i++) {
        if ((part.data[i] < ' ' && part.data[i] != '\t') || part.data[i] == 0x7F)
            __builtin_trap();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    od_http_head head, part;
    int status = od_http_parse(od_slice_of(data, size), 1000, &head);

    if (status == 200) {
        if (head.len > size || head.len > OD_HTTP_HEAD_MAX || head.content_length > 1000 || head.path.len == 0)
            __builtin_trap();
        check_inside(head.method, data, head.len);
        check_inside(head.path, data, head.len);
        check_inside(head.query, data, head.len);
        for (size_t i = 0; i < head.header_count; i++) {
            check_inside(head.headers[i].name, data, head.len);
            check_inside(head.headers[i].value, data, head.len);
        }
        /* What comes after the head does not matter, and without its last byte it is not whole. */
        if (od_http_parse(od_slice_of(data, head.len), 1000, &part) != 200 || part.len != head.len)
            __builtin_trap();
        if (od_http_parse(od_slice_of(data, head.len - 1), 1000, &part) != 0)
            __builtin_trap();
    } else if (status == 0 && size >= OD_HTTP_HEAD_MAX) {
        __builtin_trap();
    }
    return 0;
}
