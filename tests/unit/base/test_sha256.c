/* Vectors: FIPS 180-4 examples and the NIST Cryptographic Algorithm Validation Program's short and Monte Carlo messages. */
#include "base/sha256.h"

#include <stdio.h>
#include <string.h>

#include "unit/base/check.h"

static void hex_of(const uint8_t digest[OD_SHA256_SIZE], char out[65])
{
    for (int i = 0; i < OD_SHA256_SIZE; i++)
        snprintf(out + (ptrdiff_t)i * 2, 3, "%02x", digest[i]);
}

static void expect(od_slice data, const char *hex)
{
    uint8_t digest[OD_SHA256_SIZE];
    char text[65];

    od_sha256_of(data, digest);
    hex_of(digest, text);
    assert_string_equal(text, hex);
}

static void test_nist_short_messages(void **state)
{
    (void)state;
    expect(od_slice_str(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect(od_slice_str("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    expect(od_slice_str("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
           "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    expect(od_slice_str("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                        "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"),
           "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
    expect(od_slice_of("\xd3", 1), "28969cdfa74a12c82f3bad960b0b000aca2ac329deea5c2328ebc6f2ba9802c1");
    expect(od_slice_of("\x11\xaf", 2), "5ca7133fa735326081558ac312c620eeca9970d1e70a4b95533d956f072d1f98");
    expect(od_slice_of("\x74\xba\x25\x21", 4), "b16aa56be3880d18cd41e68384cf1ec8c17680c45a02b1575dc1518923ae8b0e");
}

static void test_nist_million_a(void **state)
{
    char part[1000];
    uint8_t digest[OD_SHA256_SIZE];
    char text[65];
    od_sha256 sha;

    (void)state;
    memset(part, 'a', sizeof part);
    od_sha256_init(&sha);
    for (int i = 0; i < 1000; i++)
        od_sha256_update(&sha, od_slice_of(part, sizeof part));
    od_sha256_finish(&sha, digest);
    hex_of(digest, text);
    assert_string_equal(text, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void test_pieces_give_the_same_digest_as_the_whole(void **state)
{
    uint8_t data[200];

    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)i;
    /* All lengths around the two block borders, each cut in every place. */
    for (size_t len = 0; len <= sizeof data; len++) {
        uint8_t whole[OD_SHA256_SIZE];

        od_sha256_of(od_slice_of(data, len), whole);
        for (size_t cut = 0; cut <= len; cut += 7) {
            uint8_t pieces[OD_SHA256_SIZE];
            od_sha256 sha;

            od_sha256_init(&sha);
            od_sha256_update(&sha, od_slice_of(data, cut));
            od_sha256_update(&sha, od_slice_of(data + cut, len - cut));
            od_sha256_finish(&sha, pieces);
            assert_memory_equal(whole, pieces, OD_SHA256_SIZE);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nist_short_messages),
        cmocka_unit_test(test_nist_million_a),
        cmocka_unit_test(test_pieces_give_the_same_digest_as_the_whole),
    };

    return check_run("base.sha256", tests, argc, argv);
}
