/* Recorded answers of workers, changed in many ways: no crash, no hang. OPENDUCK_VGI_MUTATIONS says how many; a few by default. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* NOLINTNEXTLINE(bugprone-suspicious-include): the same target, driven by numbers of our own */
#include "fuzz/fuzz_vgi_answers.c"

enum { FILES = 128, ENOUGH = 2000 };

typedef struct {
    uint8_t *data;
    size_t size;
} answer;

static uint64_t state = 88172645463325252u;

static uint64_t draw(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static void load(const char *name, answer *out)
{
    char path[512];

    snprintf(path, sizeof path, "tests/fuzz/corpus/vgi_answers/%s", name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    out->size = (size_t)ftell(f);
    rewind(f);
    out->data = malloc(out->size);
    assert_int_equal(fread(out->data, 1, out->size, f), out->size);
    fclose(f);
}

/* Some bytes or words, a cut, or a part in another's place. */
static size_t change(uint8_t *data, size_t size)
{
    static const uint32_t words[] = {0, 1, 2, 7, 8, 0x7f, 0xff, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffff8};
    size_t times = 1 + draw(4);

    for (size_t i = 0; i < times; i++) {
        size_t at = draw(size);
        uint32_t word = words[draw(sizeof words / sizeof words[0])];

        switch (draw(5)) {
        case 0:
            data[at] = (uint8_t)draw(256);
            break;
        case 1:
            data[at] ^= (uint8_t)(1u << draw(8));
            break;
        case 2:
            at &= ~(size_t)3;
            if (at + 4 <= size)
                memcpy(data + at, &word, 4);
            break;
        case 3: {
            size_t from = draw(size), len = 1 + draw(64);

            if (from + len <= size && at + len <= size)
                memmove(data + at, data + from, len);
            break;
        }
        default:
            if (draw(4) == 0)
                size = 1 + draw(size);
            break;
        }
    }
    return size;
}

static void test_no_changed_answer_does_harm(void **unused)
{
    const char *text = getenv("OPENDUCK_VGI_MUTATIONS");
    long n = text != NULL ? strtol(text, NULL, 10) : ENOUGH;
    static answer answers[FILES];
    struct dirent *entry;
    size_t count = 0;
    DIR *dir = opendir("tests/fuzz/corpus/vgi_answers");

    (void)unused;
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL && count < FILES)
        if (entry->d_name[0] != '.')
            load(entry->d_name, &answers[count++]);
    closedir(dir);
    assert_true(count > 10);
    for (long i = 0; i < n; i++) {
        const answer *from = &answers[draw(count)];
        uint8_t *copy = malloc(from->size);

        memcpy(copy, from->data, from->size);
        size_t size = change(copy, from->size);
        uint8_t *exact = malloc(size); /* so that a sanitizer sees what is read beyond it */
        memcpy(exact, copy, size);
        free(copy);
        (void)LLVMFuzzerTestOneInput(exact, size);
        free(exact);
    }
    for (size_t i = 0; i < count; i++)
        free(answers[i].data);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_changed_answer_does_harm),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
