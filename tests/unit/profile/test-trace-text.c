/* test-trace-text.c - a trace as text: a small one word for word, and damaged ones. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "base/bytes.h"

#include "profile/trace-text.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/profile/build.h"

static char error[256];

/* The text of a trace; the caller frees it. */
static char *text_of(const void *data, size_t len, int expected)
{
	int fd = memfd_create("trace", MFD_CLOEXEC);
	char *text = NULL;
	size_t n;
	FILE *out = open_memstream(&text, &n);

	assert_int_equal(write(fd, data, len), len);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(trace_text(fd, out, error, sizeof(error)), expected);
	assert_int_equal(fclose(out), 0);
	close(fd);
	return text;
}

/* A sample with its interned name, behind it a packet with fields that no message has. */
static void build(struct buffer *trace)
{
	struct buffer packet = {0}, interned = {0}, sample = {0};

	put_number(&packet, 8, 123456789);
	put_interned(&interned, 5, 1, "a\"b\n\xff");
	put_message(&packet, 12, &interned);
	put_number(&packet, 13, 2);
	put_number(&sample, 1, 3);
	put_number(&sample, 5, 2);
	put_number(&sample, 16, 99);
	put_message(&packet, 66, &sample);
	put_message(trace, 1, &packet);
	put_number(&packet, 3, (uint64_t)-1);
	put_number(&packet, 41, 1);
	put_number(&packet, 900, 7);
	put_text(&packet, 901, "xyz");
	put_text(&packet, 33, "\x18\x05");
	put_message(trace, 1, &packet);
}

#define GOLDEN_1                          \
	"packet {\n"                      \
	"  timestamp: 123456789\n"        \
	"  interned_data {\n"             \
	"    function_names {\n"          \
	"      iid: 1\n"                  \
	"      str: \"a\\\"b\\n\\377\"\n" \
	"    }\n"                         \
	"  }\n"                           \
	"  sequence_flags: 2\n"           \
	"  perf_sample {\n"               \
	"    cpu: 3\n"                    \
	"    cpu_mode: MODE_USER\n"       \
	"    unwind_error: 99\n"          \
	"  }\n"                           \
	"}\n"
#define GOLDEN_2                              \
	"packet {\n"                          \
	"  trusted_uid: -1\n"                 \
	"  incremental_state_cleared: true\n" \
	"  # field 900: 7\n"                  \
	"  # field 901: 3 bytes\n"            \
	"  trace_config {\n"                  \
	"    duration_ms: 5\n"                \
	"  }\n"                               \
	"}\n"

static void test_golden(void **state)
{
	struct buffer trace = {0};
	char *text;

	(void)state;
	build(&trace);
	text = text_of(trace.data, trace.len, 0);
	assert_string_equal(text,
			    "# packet 1, 30 bytes\n" GOLDEN_1 "\n# packet 2, 28 bytes\n" GOLDEN_2);
	free(text);
	buffer_deinit(&trace);
}

static void test_compressed(void **state)
{
	struct buffer trace = {0}, packet = {0}, inner = {0};
	uint8_t packed[512];
	uLongf len = sizeof(packed);
	char *text;

	(void)state;
	build(&inner);
	assert_int_equal(compress(packed, &len, inner.data, inner.len), Z_OK);
	put_bytes(&packet, 50, packed, len);
	put_message(&trace, 1, &packet);
	text = text_of(trace.data, trace.len, 0);
	assert_non_null(strstr(text, "# packet 2, 30 bytes\n" GOLDEN_1
				     "\n# packet 3, 28 bytes\n" GOLDEN_2));
	free(text);
	trace.data[trace.len - 3] ^= 0x55; /* the checksum */
	free(text_of(trace.data, trace.len, -EBADMSG));
	assert_string_equal(error, "damaged compressed packets in packet 3");
	buffer_deinit(&trace);
	buffer_deinit(&inner);
}

static void test_cut(void **state)
{
	struct buffer trace = {0};

	(void)state;
	build(&trace);
	for (size_t len = 1; len < trace.len; len++) {
		bool whole = len == 32;
		char *text = text_of(trace.data, len, whole ? 0 : -EBADMSG);

		if (!whole)
			assert_string_equal(error, len < 32 ? "cut off after packet 0"
							    : "cut off after packet 1");
		free(text);
	}
	free(text_of("perf", 4, -EBADMSG));
	assert_string_equal(error, "no packet of a trace after packet 0");
	free(text_of("", 0, 0));
	buffer_deinit(&trace);
}

/* Valid packets around content that is not. */
static void test_damaged(void **state)
{
	static const struct {
		const char *packet, *error;
		size_t len;
	} cases[] = {
		{"\x0b", "a damaged field in packet 1", 1},
		{"\x42\x01\x80", "a damaged list in packet 1", 3},
		{"\x90\x04\x01", "a number instead of bytes in packet 1", 3}, /* perf_sample: 1 */
		{"\x92\x04\x05\x01", "a damaged field in packet 1", 4},
		{"\x92\x03\x02xx", "damaged compressed packets in packet 1", 5},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct buffer trace = {0};

		put_bytes(&trace, 1, cases[i].packet, cases[i].len);
		free(text_of(trace.data, trace.len, -EBADMSG));
		assert_string_equal(error, cases[i].error);
		buffer_deinit(&trace);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden),
		cmocka_unit_test(test_compressed),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
