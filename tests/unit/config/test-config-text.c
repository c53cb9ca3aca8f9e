/* test-config-text.c - the text format into wire bytes (written down by hand), and where it reports what is
 * wrong. */
#include <errno.h>

#include "tests/unit/cmocka.h"

#include "config/config-text.h"
#include "protos/trace_config.pb-c.h"

static char answer[4096];

/* The wire bytes in hex, or the error line. */
static const char *parse_as(const ProtobufCMessageDescriptor *message, const char *text, size_t len)
{
	_cleanup_(buffer_deinit) struct buffer out = {0};
	/* A copy without a NUL behind, so that the sanitizer sees a read past the end. */
	_cleanup_(freep) char *copy = malloc(len + !len);
	char error[512] = "";
	int r;

	assert_non_null(copy);
	memcpy(copy, text, len);
	r = text_to_wire(message, "f", copy, len, &out, error, sizeof(error));
	answer[0] = 0;
	if (r < 0) {
		assert_int_equal(r, -EINVAL);
		(void)snprintf(answer, sizeof(answer), "%s", error);
		return answer;
	}
	assert_string_equal(error, "");
	assert_true(out.len < sizeof(answer) / 2);
	for (size_t i = 0; i < out.len; i++)
		(void)snprintf(answer + 2 * i, 3, "%02x", out.data[i]);
	return answer;
}

static const char *parse(const char *text)
{
	return parse_as(&pb__trace_config__descriptor, text, strlen(text));
}

static const char *perf(const char *text)
{
	return parse_as(&pb__perf_event_config__descriptor, text, strlen(text));
}

/* The types that config-text.c and config.c know, in @message and in all that it contains. */
static void assert_types(const ProtobufCMessageDescriptor *message, unsigned depth, size_t *n)
{
	static const ProtobufCType known[] = {PROTOBUF_C_TYPE_INT32,  PROTOBUF_C_TYPE_UINT32,
					      PROTOBUF_C_TYPE_INT64,  PROTOBUF_C_TYPE_UINT64,
					      PROTOBUF_C_TYPE_BOOL,   PROTOBUF_C_TYPE_ENUM,
					      PROTOBUF_C_TYPE_STRING, PROTOBUF_C_TYPE_BYTES,
					      PROTOBUF_C_TYPE_DOUBLE, PROTOBUF_C_TYPE_MESSAGE};

	assert_true(depth < 16);
	for (unsigned i = 0; i < message->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &message->fields[i];
		bool is_known = false;

		for (size_t j = 0; j < ARRAY_SIZE(known); j++)
			is_known |= field->type == known[j];
		if (!is_known)
			fail_msg("%s.%s has a type that is not read", message->name, field->name);
		*n += 1;
		if (field->type == PROTOBUF_C_TYPE_MESSAGE)
			assert_types(field->descriptor, depth + 1, n);
	}
}

static void test_types(void **state)
{
	size_t n = 0;

	(void)state;
	assert_types(&pb__trace_config__descriptor, 0, &n);
	assert_types(&pb__perf_event_config__descriptor, 0, &n);
	assert_true(n > 150);
}

static void test_forms(void **state)
{
	char name[128] = "", text[256];

	(void)state;
	assert_string_equal(parse(""), "");
	assert_string_equal(parse(" # nothing"), "");
	assert_string_equal(parse("duration_ms: 10000"), "18904e");
	assert_string_equal(parse("\xef\xbb\xbf"
				  "duration_ms:1\r\n"),
			    "1801");
	assert_string_equal(parse("duration_ms: 1, write_into_file: true; # x\nflush_period_ms: 2"),
			    "180140016802");
	/* messages, in all their dresses */
	assert_string_equal(parse("buffers { size_kb: 4 }"), "0a020804");
	assert_string_equal(parse("buffers: { size_kb: 4 }"), "0a020804");
	assert_string_equal(parse("buffers < size_kb: 4, >"), "0a020804");
	assert_string_equal(parse("buffers: < size_kb: 4; >"), "0a020804");
	assert_string_equal(parse("buffers [{ size_kb: 4 }, <>]"), "0a0208040a00");
	assert_string_equal(parse("buffers{}buffers{}"), "0a000a00");
	assert_string_equal(
		parse("data_sources { config { perf_event_config { all_cpus: true } } }"),
		"12070a05fa06020801");
	/* a message of 129 bytes: its length takes two */
	memset(name, 'x', 127);
	(void)snprintf(text, sizeof(text), "buffers { name: '%s' }", name);
	assert_memory_equal(parse(text), "0a81013a7f7878", 14);
	assert_int_equal(strlen(answer), 2 * (3 + 2 + 127));
	/* lists */
	assert_string_equal(perf("target_cpu: [1, 2, 300]"), "a00101a00102a001ac02");
	assert_string_equal(perf("target_cpu: []"), "");
	assert_string_equal(perf("target_cpu: 1 target_cpu: [2]"), "a00101a00102");
	assert_string_equal(perf("target_cmdline: ['a', \"b\"]"), "2a01612a0162");
}

static void test_numbers(void **state)
{
	(void)state;
	assert_string_equal(parse("duration_ms: 0x10"), "1810");
	assert_string_equal(parse("duration_ms: 010"), "1808");
	assert_string_equal(parse("duration_ms: 4294967295"), "18ffffffff0f");
	assert_string_equal(parse("max_file_size_bytes: 18446744073709551615"),
			    "50ffffffffffffffffff01");
	assert_string_equal(parse("duration_ms: -0"), "1800");
	assert_string_equal(parse("trace_uuid_msb: -9223372036854775808"),
			    "d80180808080808080808001");
	assert_string_equal(perf("target_pid: -1"), "20ffffffffffffffffff01");
	assert_string_equal(perf("target_pid: - 2147483648"), "2080808080f8ffffffff01");
	assert_string_equal(perf("all_cpus: True kernel_frames: f"), "08016000");
	assert_string_equal(perf("all_cpus: 1 kernel_frames: 0"), "08016000");
	assert_string_equal(parse("trigger_config { triggers { skip_probability: 0.5 } }"),
			    "8a010b120929000000000000e03f");
	assert_string_equal(parse("trigger_config { triggers { skip_probability: -2 } }"),
			    "8a010b12092900000000000000c0");
	assert_string_equal(parse("trigger_config { triggers { skip_probability: 1e0f } }"),
			    "8a010b120929000000000000f03f");
	assert_string_equal(parse("trigger_config { triggers { skip_probability: -inf } }"),
			    "8a010b120929000000000000f0ff");

	assert_string_equal(parse("duration_ms: 4294967296"),
			    "f:1:14: 4294967296 does not fit duration_ms: 4294967295 is the most");
	assert_string_equal(parse("duration_ms: -1"), "f:1:14: duration_ms cannot be negative");
	assert_string_equal(
		perf("target_pid: -2147483649"),
		"f:1:13: -2147483649 does not fit target_pid: -2147483648 is the least");
	assert_string_equal(perf("target_pid: 2147483648"),
			    "f:1:13: 2147483648 does not fit target_pid: 2147483647 is the most");
	assert_string_equal(parse("max_file_size_bytes: 18446744073709551616"),
			    "f:1:22: 18446744073709551616 does not fit into 64 bits");
	assert_string_equal(parse("duration_ms: 10s"),
			    "f:1:14: duration_ms takes a whole number, not '10s'");
	assert_string_equal(parse("duration_ms: 1.5"),
			    "f:1:14: duration_ms takes a whole number, not '1.5'");
	assert_string_equal(parse("duration_ms: 1e3"),
			    "f:1:14: duration_ms takes a whole number, not '1e3'");
	assert_string_equal(parse("duration_ms: 08"),
			    "f:1:14: duration_ms takes a whole number, not '08'");
	assert_string_equal(parse("duration_ms: \"10\""),
			    "f:1:14: duration_ms takes a whole number, not \"10\"");
	assert_string_equal(parse("duration_ms: ten"),
			    "f:1:14: duration_ms takes a whole number, not 'ten'");
	assert_string_equal(parse("duration_ms:"),
			    "f:1:13: duration_ms takes a whole number, not the end of the file");
	assert_string_equal(parse("write_into_file: yes"),
			    "f:1:18: write_into_file takes true or false, not 'yes'");
	assert_string_equal(parse("trigger_config { triggers { skip_probability: 0.5x } }"),
			    "f:1:47: skip_probability takes a number, not '0.5x'");
}

static void test_enums(void **state)
{
	(void)state;
	assert_string_equal(parse("buffers { fill_policy: DISCARD }"), "0a022002");
	assert_string_equal(parse("buffers { fill_policy: 1 }"), "0a022001");
	assert_string_equal(perf("timebase { counter: HW_INSTRUCTIONS frequency: 9 }"),
			    "7a04200b1009");
	assert_string_equal(
		parse("buffers { fill_policy: RINGBUFFER }"),
		"f:1:24: unknown value 'RINGBUFFER' of fill_policy; did you mean RING_BUFFER?");
	assert_string_equal(parse("buffers { fill_policy: 7 }"),
			    "f:1:24: fill_policy has no value 7");
	assert_string_equal(perf("callstack_sampling { user_frames: -1 }"),
			    "f:1:35: user_frames has no value -1");
}

static void test_strings(void **state)
{
	(void)state;
	assert_string_equal(parse("unique_session_name: 'a\"b'"), "b20103612262");
	assert_string_equal(parse("unique_session_name: \"a\" 'b' # c\n \"c\""), "b20103616263");
	assert_string_equal(parse("unique_session_name: ''"), "b20100");
	assert_string_equal(parse("unique_session_name: '\\a\\b\\f\\n\\r\\t\\v\\?\\'\\\"\\\\'"),
			    "b2010b07080c0a0d090b3f27225c");
	assert_string_equal(parse("unique_session_name: '\\x41\\x4a4\\101\\0604\\7'"),
			    "b20107414a3441303407");
	assert_string_equal(parse("unique_session_name: '\\u00e9\\u20ac\\U0001f600'"),
			    "b20109c3a9e282acf09f9880");
	assert_string_equal(parse("unique_session_name: '#{'"), "b20102237b");
	/* bytes may hold what strings may not */
	assert_string_equal(parse("trace_filter { bytecode: 'a\\000\\xff' }"), "8a02050a036100ff");

	assert_string_equal(parse("unique_session_name: 'a\\000b'"),
			    "f:1:22: a string for unique_session_name cannot hold a NUL");
	assert_string_equal(parse("unique_session_name: 'a\n'"),
			    "f:1:22: this string has no end on its line");
	assert_string_equal(parse("unique_session_name: 'a\\"),
			    "f:1:22: this string has no end on its line");
	assert_string_equal(parse("\n  unique_session_name: 'ab\\q'"),
			    "f:2:27: unknown escape '\\q' in a string");
	assert_string_equal(parse("unique_session_name: '\\ud800'"),
			    "f:1:23: unknown escape '\\u' in a string");
	assert_string_equal(parse("unique_session_name: '\\U00110000'"),
			    "f:1:23: unknown escape '\\U' in a string");
	assert_string_equal(parse("unique_session_name: '\\777'"),
			    "f:1:23: unknown escape '\\7' in a string");
	assert_string_equal(parse("unique_session_name: abc"),
			    "f:1:22: unique_session_name takes a string in quotes, not 'abc'");
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(parse("durration_ms: 1"), "f:1:1: unknown field 'durration_ms' in "
						      "TraceConfig; did you mean duration_ms?");
	assert_string_equal(
		parse("buffers {\n\tsize_kb: 4\n\tfil_policy: DISCARD\n}"),
		"f:3:2: unknown field 'fil_policy' in BufferConfig; did you mean fill_policy?");
	assert_string_equal(parse("xyzzy: 1"), "f:1:1: unknown field 'xyzzy' in TraceConfig");
	assert_string_equal(
		parse("data_sources { config { perf_event_config { timebase { freqency: 1 } } } }"),
		"f:1:56: unknown field 'freqency' in Timebase; did you mean frequency?");
	assert_string_equal(
		parse("data_sources { config { ftrace_confg { } } }"),
		"f:1:25: unknown field 'ftrace_confg' in DataSourceConfig; did you mean "
		"ftrace_config?");
	assert_string_equal(parse("duration_ms 1"), "f:1:13: a ':' is wanted behind duration_ms, "
						    "not '1'");
	assert_string_equal(parse("duration_ms: 1 duration_ms: 2"),
			    "f:1:16: duration_ms is given twice in this TraceConfig");
	assert_string_equal(perf("timebase { frequency: 1 period: 2 }"),
			    "f:1:25: period and frequency exclude each other");
	assert_string_equal(parse("[perfetto.protos.x]: 1"),
			    "f:1:1: extensions are not known here");
	assert_string_equal(parse("{ }"), "f:1:1: the name of a field is wanted here, not '{'");
	assert_string_equal(parse("duration_ms: [1]"),
			    "f:1:14: duration_ms takes one value, not a list");
	assert_string_equal(perf("target_cpu: [1 2]"),
			    "f:1:16: in a list, ',' or ']' is wanted here, not '2'");
	assert_string_equal(perf("target_cpu: [1,"),
			    "f:1:16: target_cpu takes a whole number, not the end of the file");
	assert_string_equal(parse("buffers: 4"),
			    "f:1:10: buffers is a message: a '{' is wanted here, not '4'");
	assert_string_equal(parse_as(&pb__trace_config__descriptor, "a\0b", 3),
			    "f:1:1: unknown field 'a' in TraceConfig");
}

static void test_braces(void **state)
{
	(void)state;
	assert_string_equal(
		parse("buffers {\n size_kb: 4"),
		"f:2:12: found the end of the file, but the '{' of line 1 is still open");
	assert_string_equal(parse("buffers { size_kb: 4 >"),
			    "f:1:22: found '>', but the '{' of line 1 is still open");
	assert_string_equal(parse("buffers { } }"),
			    "f:1:13: the name of a field is wanted here, not '}'");
}

static void test_foreign(void **state)
{
	static const char head[] = "data_sources { config { ", tail[] = " } } duration_ms: 1";
	char text[2048];
	static const struct {
		const char *body, *answer;
	} cases[] = {
		{"ftrace_config { ftrace_events: 'sched/sched_switch' a { b < c: [1, {d: 2}] > } }",
		 "12050a03a206001801"},
		{"ftrace_config: < } >", "f:1:42: found '}', but the '<' of line 1 is still open"},
		{"ftrace_config { a: '}' # }\n }", "12050a03a206001801"},
		{"for_testing { [type.googleapis.com/x] { } $ @ }", "12050a03ca3e001801"},
		{"ftrace_config { a: [ }",
		 "f:1:46: found '}', but the '[' of line 1 is still open"},
		{"ftrace_config: 3",
		 "f:1:40: ftrace_config is a message: a '{' is wanted here, not '3'"},
		{"ftrace_config { 'x }", "f:1:41: this string has no end on its line"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		(void)snprintf(text, sizeof(text), "%s%s%s", head, cases[i].body, tail);
		assert_string_equal(parse(text), cases[i].answer);
	}
	/* nested too deep */
	(void)snprintf(text, sizeof(text), "%sftrace_config ", head);
	memset(text + strlen(text), '{', 1000);
	assert_string_equal(parse_as(&pb__trace_config__descriptor, text, 1000),
			    "f:1:103: nested deeper than 64");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_types),	cmocka_unit_test(test_forms),
		cmocka_unit_test(test_numbers), cmocka_unit_test(test_enums),
		cmocka_unit_test(test_strings), cmocka_unit_test(test_names),
		cmocka_unit_test(test_braces),	cmocka_unit_test(test_foreign),
	};

	return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
