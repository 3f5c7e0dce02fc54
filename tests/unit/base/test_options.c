#include "base/options.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "unit/base/check.h"

/* The environment of one parse: NAME, VALUE, ..., NULL. */
static const char *const *environment;

static char *lookup(const char *name)
{
    for (const char *const *at = environment; at && *at; at += 2) {
        if (strcmp(*at, name) == 0)
            return (char *)(uintptr_t)at[1];
    }
    return NULL;
}

enum { MAX_ARGS = 16 };

typedef struct {
    unsigned command;
    const char *args[MAX_ARGS];
    const char *env[MAX_ARGS];
} input;

static od_code parse(const input *in, od_options **out, od_error *err)
{
    char *argv[MAX_ARGS];
    int argc = 0;
    od_code rc;

    for (; argc < MAX_ARGS && in->args[argc]; argc++)
        argv[argc] = (char *)(uintptr_t)in->args[argc];
    environment = in->env;
    rc = od_options_parse(in->command, argc, argv, lookup, out, err);
    environment = NULL;
    return rc;
}

static od_options *parse_well(const input *in)
{
    od_options *options = NULL;
    od_error err = {0};

    if (parse(in, &options, &err) != OD_OK)
        fail_msg("%s", err.message);
    return options;
}

static void expect_failure(const input *in, const char *message)
{
    od_error err = {0};
    od_options *options = (od_options *)&err;

    assert_int_equal(parse(in, &options, &err), OD_E_INVALID);
    assert_null(options);
    assert_string_equal(err.message, message);
}

static char file_name[] = "/tmp/od_test_options_XXXXXX";

static void write_file(const char *content, size_t len)
{
    FILE *file = fopen(file_name, "we");

    assert_non_null(file);
    assert_int_equal(fwrite(content, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static int make_file(void **state)
{
    int file = mkstemp(file_name);

    (void)state;
    return file < 0 ? -1 : close(file);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(file_name);
}

static void test_defaults_of_the_table_are_good(void **state)
{
    static const unsigned commands[] = {OD_CMD_SERVE, OD_CMD_GATEWAY, OD_CMD_WORKER, OD_CMD_STATUS};
    size_t count = 9;

    (void)state;
    for (size_t i = 0; i < COUNT(commands); i++) {
        od_options *options = parse_well(&(input){.command = commands[i]});

        assert_string_equal(od_options_str(options, OD_OPT_LOG), "info");
        assert_false(od_options_given(options, OD_OPT_LOG));
        assert_string_equal(od_options_source(options, OD_OPT_LOG), "the default");
        od_options_free(options);
    }
    od_options *options = parse_well(&(input){.command = OD_CMD_SERVE});
    assert_string_equal(od_options_str(options, OD_OPT_LISTEN), "127.0.0.1:7878");
    assert_int_equal(od_options_int(options, OD_OPT_MAX_IN_FLIGHT), 64);
    assert_int_equal(od_options_int(options, OD_OPT_MAX_QUEUED), 256);
    assert_int_equal(od_options_ms(options, OD_OPT_QUEUE_TIMEOUT), 30000);
    assert_int_equal(od_options_size(options, OD_OPT_MAX_MESSAGE), 64 << 20);
    assert_int_equal(od_options_size(options, OD_OPT_BATCH_BYTES), 1 << 20);
    assert_false(od_options_bool(options, OD_OPT_EXTERNAL_ACCESS));
    assert_null(od_options_secret(options, OD_OPT_TOKEN)->value);
    od_options_pairs(options, OD_OPT_DB, &count);
    assert_int_equal(count, 0);
    od_options_free(options);
    od_options_free(NULL);
}

static void test_the_same_name_differs_by_command(void **state)
{
    od_options *worker = parse_well(&(input){.command = OD_CMD_WORKER});
    od_options *query = parse_well(&(input){.command = OD_CMD_QUERY, .args = {"--db", "sales", "SELECT 1"}});

    (void)state;
    assert_string_equal(od_options_str(worker, OD_OPT_WORKER_LISTEN), "127.0.0.1:9898");
    assert_string_equal(od_options_str(query, OD_OPT_DATABASE), "sales");
    assert_string_equal(od_options_str(query, OD_OPT_FORMAT), "table");
    od_options_free(worker);
    od_options_free(query);
}

static void test_flags_take_their_value_either_way(void **state)
{
    static const input cases[] = {
        {OD_CMD_SERVE, {"--max-in-flight", "7", "--grace=2m", "--read-only"}, {0}},
        {OD_CMD_SERVE, {"--read-only=yes", "--grace", "120000", "--max-in-flight=7"}, {0}},
        {OD_CMD_SERVE, {"--max-in-flight", "99", "--grace=120s", "--max-in-flight", "7", "--read-only=1"}, {0}},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_options *options = parse_well(&cases[i]);

        assert_int_equal(od_options_int(options, OD_OPT_MAX_IN_FLIGHT), 7);
        assert_int_equal(od_options_ms(options, OD_OPT_GRACE), 120000);
        assert_true(od_options_bool(options, OD_OPT_READ_ONLY));
        assert_true(od_options_given(options, OD_OPT_GRACE));
        assert_string_equal(od_options_source(options, OD_OPT_GRACE), "the command line");
        od_options_free(options);
    }
}

static void test_what_is_no_flag_is_positional(void **state)
{
    od_options *options = parse_well(
        &(input){.command = OD_CMD_SERVE, .args = {"a.db", "--read-only", "-", "--", "--grace", "-h", "--"}});
    const char *const *args;
    size_t count;

    (void)state;
    args = od_options_args(options, &count);
    assert_int_equal(count, 5);
    assert_string_equal(args[0], "a.db");
    assert_string_equal(args[1], "-");
    assert_string_equal(args[2], "--grace");
    assert_string_equal(args[3], "-h");
    assert_string_equal(args[4], "--");
    od_options_free(options);
}

static void test_flag_beats_variable_beats_file_beats_default(void **state)
{
    static const char text[] = "max-in-flight = 3\n";
    static const struct {
        const char *flag;
        const char *variable;
        bool file;
        int64_t value;
    } cases[] = {
        {"--max-in-flight=1", "2", true, 1},
        {"--max-in-flight=1", "2", false, 1},
        {"--max-in-flight=1", NULL, true, 1},
        {NULL, "2", true, 2},
        {NULL, "2", false, 2},
        {NULL, NULL, true, 3},
        {NULL, NULL, false, 64},
        {"--max-in-flight=64", "2", true, 64},
        {NULL, "", true, 3},
        {"--max-in-flight=1", "many", false, 1},
    };

    (void)state;
    write_file(text, strlen(text));
    for (size_t i = 0; i < COUNT(cases); i++) {
        input in = {.command = OD_CMD_GATEWAY};
        od_options *options;

        in.args[0] = cases[i].flag ? cases[i].flag : "--log=warn";
        if (cases[i].file) {
            in.args[1] = "--config";
            in.args[2] = file_name;
        }
        if (cases[i].variable) {
            in.env[0] = "OPENDUCK_MAX_IN_FLIGHT";
            in.env[1] = cases[i].variable;
        }
        options = parse_well(&in);
        assert_int_equal(od_options_int(options, OD_OPT_MAX_IN_FLIGHT), cases[i].value);
        od_options_free(options);
    }
}

static void test_the_file_may_come_from_the_variable(void **state)
{
    static const char text[] = "grace = 9s";
    od_options *options;

    (void)state;
    write_file(text, strlen(text));
    options = parse_well(&(input){.command = OD_CMD_GATEWAY, .env = {"OPENDUCK_CONFIG", file_name}});
    assert_int_equal(od_options_ms(options, OD_OPT_GRACE), 9000);
    od_options_free(options);
}

static void test_file_lines(void **state)
{
    static const char text[] = "# a comment\n"
                               "\n"
                               "  \t\r\n"
                               "   # another\n"
                               "listen=0.0.0.0:1\r\n"
                               "  grace   =   5s  \n"
                               "log = \"info,rpc=debug\"\n"
                               "db = a=/x/a b.db\n"
                               "db = b=:memory:\n"
                               "memory-limit = \"\"\n"
                               "endpoint = http://other.command\n"
                               "token = s#e=cret";
    od_options *options;
    const od_option_pair *pairs;
    char source[64];
    size_t count;

    (void)state;
    write_file(text, strlen(text));
    options = parse_well(&(input){.command = OD_CMD_SERVE, .args = {"--config", file_name}});
    assert_string_equal(od_options_str(options, OD_OPT_LISTEN), "0.0.0.0:1");
    assert_int_equal(od_options_ms(options, OD_OPT_GRACE), 5000);
    assert_string_equal(od_options_str(options, OD_OPT_LOG), "info,rpc=debug");
    assert_string_equal(od_options_str(options, OD_OPT_MEMORY_LIMIT), "");
    assert_string_equal(od_options_secret(options, OD_OPT_TOKEN)->value, "s#e=cret");
    pairs = od_options_pairs(options, OD_OPT_DB, &count);
    assert_int_equal(count, 2);
    assert_string_equal(pairs[0].name, "a");
    assert_string_equal(pairs[0].value, "/x/a b.db");
    assert_string_equal(pairs[1].name, "b");
    assert_string_equal(pairs[1].value, ":memory:");
    snprintf(source, sizeof source, "%s:6", file_name);
    assert_string_equal(od_options_source(options, OD_OPT_GRACE), source);
    od_options_free(options);
}

static void test_a_shared_file_does_not_mix_names(void **state)
{
    /* 'db' names files for a server; a client's flag --db is another thing. */
    static const char text[] = "db = a=/x\ndatabase = sales\n";
    od_options *options;

    (void)state;
    write_file(text, strlen(text));
    options = parse_well(&(input){.command = OD_CMD_QUERY, .args = {"--config", file_name, "SELECT 1"}});
    assert_string_equal(od_options_str(options, OD_OPT_DATABASE), "sales");
    od_options_free(options);
}

static void test_bad_files_say_where(void **state)
{
    static const struct {
        const char *text;
        const char *message; /* after "FILE" */
    } cases[] = {
        {"\nmax-in-flihgt = 3", ":2: unknown option 'max-in-flihgt'; did you mean 'max-in-flight'?"},
        {"zzz = 3", ":1: unknown option 'zzz'"},
        {"= 3", ":1: unknown option ''"},
        {"listen", ":1: a line is 'name = value'"},
        {"config = /x", ":1: a file cannot name another with 'config'"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char message[256];

        write_file(cases[i].text, strlen(cases[i].text));
        snprintf(message, sizeof message, "%s%s", file_name, cases[i].message);
        expect_failure(&(input){.command = OD_CMD_SERVE, .args = {"--config", file_name}}, message);
    }
}

static void test_bad_values_in_files_say_where(void **state)
{
    static const char bad[] = "grace = 5s\nmax-in-flight = 0";
    static const char twice[] = "grace = 5s\ngrace = 6s\n";
    char message[256];

    (void)state;
    write_file(bad, strlen(bad));
    snprintf(message, sizeof message, "option '--max-in-flight' cannot be '0' (from %s:2); allowed are 1 to 65536",
             file_name);
    expect_failure(&(input){.command = OD_CMD_SERVE, .args = {"--config", file_name}}, message);
    /* Even where a flag beats it: the file is checked as a whole. */
    expect_failure(&(input){.command = OD_CMD_SERVE, .args = {"--max-in-flight=4", "--config", file_name}}, message);
    write_file(twice, strlen(twice));
    snprintf(message, sizeof message, "%s:2: option 'grace' is there for the second time; the first is %s:1", file_name,
             file_name);
    expect_failure(&(input){.command = OD_CMD_SERVE, .args = {"--config", file_name}}, message);
}

static void test_unreadable_files_are_refused(void **state)
{
    od_options *options;
    od_error err = {0};
    static char big[1200000];
    input in = {.command = OD_CMD_SERVE, .args = {"--config", "/nonexistent/openduck.conf"}};

    (void)state;
    assert_int_equal(parse(&in, &options, &err), OD_E_NOT_FOUND);
    assert_string_equal(err.message, "cannot open '/nonexistent/openduck.conf': No such file or directory");
    in.args[1] = "/tmp";
    assert_int_equal(parse(&in, &options, &err), OD_E_IO);
    in.args[1] = file_name;
    memset(big, '\n', sizeof big);
    write_file(big, sizeof big);
    assert_int_equal(parse(&in, &options, &err), OD_E_INVALID);
    write_file("log = info\0\n", 12);
    assert_int_equal(parse(&in, &options, &err), OD_E_INVALID);
    assert_non_null(strstr(err.message, "NUL byte"));
}

static void test_bad_values_say_which_where_and_what_is_allowed(void **state)
{
    static const struct {
        input in;
        const char *message;
    } cases[] = {
        {{OD_CMD_SERVE, {"--max-in-flight", "abc"}, {0}},
         "option '--max-in-flight' cannot be 'abc' (from the command line); allowed are 1 to 65536"},
        {{OD_CMD_SERVE, {"--max-in-flight=65537"}, {0}},
         "option '--max-in-flight' cannot be '65537' (from the command line); allowed are 1 to 65536"},
        {{OD_CMD_SERVE, {"--max-queued=-1"}, {0}},
         "option '--max-queued' cannot be '-1' (from the command line); allowed are 0 to 65536"},
        {{OD_CMD_SERVE, {0}, {"OPENDUCK_MAX_IN_FLIGHT", "0"}},
         "option '--max-in-flight' cannot be '0' (from the variable OPENDUCK_MAX_IN_FLIGHT); allowed are 1 to 65536"},
        {{OD_CMD_SERVE, {"--grace", "soon"}, {0}},
         "option '--grace' cannot be 'soon' (from the command line); allowed are 0 to 7d, as in 500ms, 5s, 2m, 1h"},
        {{OD_CMD_SERVE, {"--batch-bytes", "4MiB"}, {0}},
         "option '--batch-bytes' cannot be '4MiB' (from the command line); allowed are 4KiB to 3972KiB, as in 512KiB, "
         "4MiB"},
        {{OD_CMD_SERVE, {"--read-only=perhaps"}, {0}},
         "option '--read-only' cannot be 'perhaps' (from the command line); allowed are true and false"},
        {{OD_CMD_QUERY, {"--format", "xml", "q"}, {0}},
         "option '--format' cannot be 'xml' (from the command line); allowed are table|csv|json"},
        {{OD_CMD_QUERY, {"--format=", "q"}, {0}},
         "option '--format' cannot be '' (from the command line); allowed are table|csv|json"},
        {{OD_CMD_QUERY, {"--format", "table|csv", "q"}, {0}},
         "option '--format' cannot be 'table|csv' (from the command line); allowed are table|csv|json"},
        {{OD_CMD_QUERY, {"--format", "tab", "q"}, {0}},
         "option '--format' cannot be 'tab' (from the command line); allowed are table|csv|json"},
        {{OD_CMD_SERVE, {"--db", "sales"}, {0}},
         "option '--db' cannot be 'sales' (from the command line); allowed is NAME=PATH, each name once"},
        {{OD_CMD_SERVE, {"--db", "=x"}, {0}},
         "option '--db' cannot be '=x' (from the command line); allowed is NAME=PATH, each name once"},
        {{OD_CMD_SERVE, {"--db", "x="}, {0}},
         "option '--db' cannot be 'x=' (from the command line); allowed is NAME=PATH, each name once"},
        {{OD_CMD_SERVE, {"--db", "a=1", "--db", "A=2"}, {0}},
         "option '--db' cannot be 'A=2' (from the command line); allowed is NAME=PATH, each name once"},
        {{OD_CMD_GATEWAY, {"--workers", "http://a,,http://b"}, {0}},
         "option '--workers' cannot be '' (from the command line); allowed is URL,..."},
        {{OD_CMD_GATEWAY, {"--workers", "http://a,"}, {0}},
         "option '--workers' cannot be 'http://a,' (from the command line); allowed is URL,..."},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        expect_failure(&cases[i].in, cases[i].message);
}

static void test_wrong_usage_is_explained(void **state)
{
    static const struct {
        input in;
        const char *message;
    } cases[] = {
        {{OD_CMD_SERVE, {"--max-in-fligth", "3"}, {0}},
         "unknown option '--max-in-fligth'; did you mean '--max-in-flight'?"},
        {{OD_CMD_SERVE, {"--tokne=hunter2"}, {0}}, "unknown option '--tokne'; did you mean '--token'?"},
        {{OD_CMD_SERVE, {"--max-in"}, {0}}, "unknown option '--max-in'; did you mean '--max-in-flight'?"},
        {{OD_CMD_SERVE, {"--zzzzzz"}, {0}}, "unknown option '--zzzzzz'; 'openduck serve --help' lists them"},
        {{OD_CMD_SERVE, {"--=x"}, {0}}, "unknown option '--'; 'openduck serve --help' lists them"},
        {{OD_CMD_STATUS, {"--db", "x"}, {0}},
         "'status' does not take option '--db', which is for serve, gateway, worker, query, vgi-serve"},
        {{OD_CMD_SERVE, {"-phunter2"}, {0}}, "unknown option '-p'; options are long, as in '--listen'"},
        {{OD_CMD_SERVE, {"--listen"}, {0}}, "option '--listen' needs a value: HOST:PORT"},
        {{OD_CMD_SERVE, {"--listen", "--read-only"}, {0}}, "option '--listen' needs a value: HOST:PORT"},
        {{OD_CMD_GATEWAY, {"hunter2"}, {0}}, "'openduck gateway' takes 0 arguments, not 1"},
        {{OD_CMD_QUERY, {0}, {0}}, "'openduck query' needs an argument: SQL"},
        {{OD_CMD_QUERY, {"SELECT", "1"}, {0}}, "'openduck query' takes 1 argument, not 2"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        expect_failure(&cases[i].in, cases[i].message);
}

static void test_lists_repeat_and_are_replaced_by_what_beats_them(void **state)
{
    static const char text[] = "workers = http://f1\nworkers = http://f2\n";
    static const struct {
        input in;
        const char *items[4];
    } cases[] = {
        {{OD_CMD_GATEWAY, {"--config", file_name}, {0}}, {"http://f1", "http://f2"}},
        {{OD_CMD_GATEWAY, {"--config", file_name}, {"OPENDUCK_WORKER_ADDRS", "http://v1, http://v2"}},
         {"http://v1", "http://v2"}},
        {{OD_CMD_GATEWAY,
          {"--workers=http://a,http://b", "--config", file_name, "--workers", "http://c"},
          {"OPENDUCK_WORKER_ADDRS", "http://v1"}},
         {"http://a", "http://b", "http://c"}},
        {{OD_CMD_GATEWAY, {"--workers=", "--config", file_name}, {0}}, {NULL}},
    };

    (void)state;
    write_file(text, strlen(text));
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_options *options = parse_well(&cases[i].in);
        const char *const *items;
        size_t count;

        items = od_options_list(options, OD_OPT_WORKERS, &count);
        for (size_t k = 0; k < count; k++)
            assert_string_equal(items[k], cases[i].items[k]);
        assert_null(cases[i].items[count]);
        od_options_free(options);
    }
}

static void test_pairs_split_at_commas_in_the_variable_only(void **state)
{
    od_options *options = parse_well(&(input){.command = OD_CMD_WORKER, .env = {"OPENDUCK_DB", "a=/a,b=/b"}});
    const od_option_pair *pairs;
    size_t count;

    (void)state;
    pairs = od_options_pairs(options, OD_OPT_DB, &count);
    assert_int_equal(count, 2);
    assert_string_equal(pairs[1].name, "b");
    assert_string_equal(pairs[1].value, "/b");
    od_options_free(options);

    options = parse_well(&(input){.command = OD_CMD_WORKER, .args = {"--db=a=/a,b=/b", "--db", "c=:memory:"}});
    pairs = od_options_pairs(options, OD_OPT_DB, &count);
    assert_int_equal(count, 2);
    assert_string_equal(pairs[0].value, "/a,b=/b");
    assert_string_equal(pairs[1].value, ":memory:");
    od_options_free(options);
}

static void test_lists_are_bounded(void **state)
{
    static char text[1025 * 4 + 1];
    od_options *options;
    od_error err = {0};

    (void)state;
    for (int i = 0; i < 1025; i++)
        memcpy(text + (ptrdiff_t)i * 4, "w:1,", 5);
    text[1024 * 4 - 1] = '\0';
    options = parse_well(&(input){.command = OD_CMD_GATEWAY, .args = {"--workers", text}});
    od_options_free(options);
    text[1024 * 4 - 1] = ',';
    text[1025 * 4 - 1] = '\0';
    assert_int_equal(parse(&(input){.command = OD_CMD_GATEWAY, .args = {"--workers", text}}, &options, &err),
                     OD_E_INVALID);
    assert_non_null(strstr(err.message, "more than 1024"));
}

static void test_secrets_are_kept_and_never_shown(void **state)
{
    od_options *options = parse_well(
        &(input){.command = OD_CMD_STATUS, .env = {"OPENDUCK_TOKEN", "from-variable"}, .args = {"--token=hunter2"}});
    od_error err = {0};

    (void)state;
    assert_string_equal(od_options_secret(options, OD_OPT_TOKEN)->value, "hunter2");
    od_options_reject(options, OD_OPT_TOKEN, "a token has at least 16 bytes", &err);
    assert_string_equal(err.message,
                        "option '--token' cannot be '***' (from the command line); a token has at least 16 bytes");
    od_options_free(options);
}

static void test_reject_speaks_as_the_parser_does(void **state)
{
    static const struct {
        od_option id;
        const char *message;
    } cases[] = {
        {OD_OPT_LISTEN, "option '--listen' cannot be 'x' (from the variable OPENDUCK_LISTEN); no"},
        {OD_OPT_MAX_IN_FLIGHT, "option '--max-in-flight' cannot be '64' (from the default); no"},
        {OD_OPT_READ_ONLY, "option '--read-only' cannot be 'false' (from the default); no"},
        {OD_OPT_DB, "option '--db' cannot be 'a' (from the command line); no"},
    };
    od_options *options =
        parse_well(&(input){.command = OD_CMD_SERVE, .args = {"--db", "a=b"}, .env = {"OPENDUCK_LISTEN", "x"}});

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_error err = {0};

        assert_int_equal(od_options_reject(options, cases[i].id, "no", &err), OD_E_INVALID);
        assert_string_equal(err.message, cases[i].message);
    }
    od_options_free(options);
}

static void test_help_ends_the_reading(void **state)
{
    static const input cases[] = {
        {OD_CMD_QUERY, {"--help"}, {0}},
        {OD_CMD_QUERY, {"-h"}, {0}},
        {OD_CMD_SERVE, {"--max-in-flight=bad", "--help", "--what"}, {"OPENDUCK_GRACE", "bad"}},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_options *options = parse_well(&cases[i]);

        assert_true(od_options_help_wanted(options));
        od_options_free(options);
    }
}

static void test_help_shows_each_option_of_the_command(void **state)
{
    static const struct {
        unsigned command;
        const char *there;
        const char *missing;
    } cases[] = {
        {OD_CMD_SERVE, "default 127.0.0.1:7878, variable OPENDUCK_LISTEN", "--format"},
        {OD_CMD_WORKER, "default 127.0.0.1:9898", "127.0.0.1:7878,"},
        {OD_CMD_QUERY, "--db NAME\n        the same as --database", "--max-queued"},
        {OD_CMD_STATUS, "usage: openduck status [options]\n", "--database"},
        {OD_CMD_QUERY, "usage: openduck query [options] SQL\n", "--listen"},
        {OD_CMD_CANCEL, "  --json\n", "--json true"},
        {OD_CMD_GATEWAY, "variable OPENDUCK_TOKEN", "--gateway"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);

        od_options_print_help(cases[i].command, out);
        assert_int_equal(fclose(out), 0);
        assert_non_null(strstr(text, cases[i].there));
        assert_null(strstr(text, cases[i].missing));
        assert_non_null(strstr(text, "example:\n  openduck "));
        for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
            assert_true(strcspn(line, "\n") <= 120);
        free(text);
    }
}

static void test_commands_are_listed_with_their_purpose(void **state)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    od_options_print_commands(out);
    assert_int_equal(fclose(out), 0);
    assert_memory_equal(text, "  serve      serve databases", 28);
    assert_non_null(strstr(text, "\n  status     say whether"));
    free(text);
}

static void test_same_compares_values_of_every_type(void **state)
{
    od_options *base = parse_well(&(input){.command = OD_CMD_SERVE, .args = {"--db=a=1", "--token=x"}});
    od_options *equal = parse_well(&(input){
        .command = OD_CMD_SERVE, .args = {"--db=a=1"}, .env = {"OPENDUCK_TOKEN", "x", "OPENDUCK_MAX_IN_FLIGHT", "64"}});
    od_options *other = parse_well(
        &(input){.command = OD_CMD_SERVE, .args = {"--db=a=2", "--token=y", "--max-in-flight=2", "--log=warn"}});
    static const od_option all[] = {OD_OPT_DB, OD_OPT_TOKEN, OD_OPT_MAX_IN_FLIGHT, OD_OPT_LOG};

    (void)state;
    for (size_t i = 0; i < COUNT(all); i++) {
        assert_true(od_options_same(base, equal, all[i]));
        assert_false(od_options_same(base, other, all[i]));
    }
    assert_true(od_option_reloadable(OD_OPT_MAX_IN_FLIGHT));
    assert_false(od_option_reloadable(OD_OPT_LISTEN));
    assert_string_equal(od_option_name(OD_OPT_WORKER_LISTEN), "listen");
    od_options_free(base);
    od_options_free(equal);
    od_options_free(other);
}

static void test_commands_are_found_by_name(void **state)
{
    (void)state;
    assert_int_equal(od_command_find("serve"), OD_CMD_SERVE);
    assert_int_equal(od_command_find("status"), OD_CMD_STATUS);
    assert_int_equal(od_command_find("Serve"), 0);
    assert_int_equal(od_command_find(""), 0);
}

static void test_no_environment_is_allowed(void **state)
{
    od_options *options;

    (void)state;
    assert_int_equal(od_options_parse(OD_CMD_STATUS, 0, NULL, NULL, &options, NULL), OD_OK);
    od_options_free(options);
}

static void test_every_failed_allocation_is_survived(void **state)
{
    static const char text[] = "grace = 5s\nworkers = http://f1,http://f2\n";
    static const input in = {OD_CMD_WORKER,
                             {"--db", "a=1", "--config", file_name, "--db=b=2", "file", "--token=t"},
                             {"OPENDUCK_DB", "x=1,y=2", "OPENDUCK_WORKER_ID", "w"}};
    long n = 0;
    od_code rc;

    (void)state;
    write_file(text, strlen(text));
    do {
        od_options *options = NULL;
        od_error err = {0};

        od_alloc_fail_after(n++);
        rc = parse(&in, &options, &err);
        od_alloc_fail_after(-1);
        assert_true(rc == OD_OK || (rc == OD_E_NO_MEMORY && !options));
        od_options_free(options);
    } while (rc != OD_OK);
    assert_true(n > 50);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_of_the_table_are_good),
        cmocka_unit_test(test_the_same_name_differs_by_command),
        cmocka_unit_test(test_flags_take_their_value_either_way),
        cmocka_unit_test(test_what_is_no_flag_is_positional),
        cmocka_unit_test(test_flag_beats_variable_beats_file_beats_default),
        cmocka_unit_test(test_the_file_may_come_from_the_variable),
        cmocka_unit_test(test_file_lines),
        cmocka_unit_test(test_a_shared_file_does_not_mix_names),
        cmocka_unit_test(test_bad_files_say_where),
        cmocka_unit_test(test_bad_values_in_files_say_where),
        cmocka_unit_test(test_unreadable_files_are_refused),
        cmocka_unit_test(test_bad_values_say_which_where_and_what_is_allowed),
        cmocka_unit_test(test_wrong_usage_is_explained),
        cmocka_unit_test(test_lists_repeat_and_are_replaced_by_what_beats_them),
        cmocka_unit_test(test_pairs_split_at_commas_in_the_variable_only),
        cmocka_unit_test(test_lists_are_bounded),
        cmocka_unit_test(test_secrets_are_kept_and_never_shown),
        cmocka_unit_test(test_reject_speaks_as_the_parser_does),
        cmocka_unit_test(test_help_ends_the_reading),
        cmocka_unit_test(test_help_shows_each_option_of_the_command),
        cmocka_unit_test(test_commands_are_listed_with_their_purpose),
        cmocka_unit_test(test_same_compares_values_of_every_type),
        cmocka_unit_test(test_commands_are_found_by_name),
        cmocka_unit_test(test_no_environment_is_allowed),
        cmocka_unit_test(test_every_failed_allocation_is_survived),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("base.options", tests, make_file, remove_file);
}
