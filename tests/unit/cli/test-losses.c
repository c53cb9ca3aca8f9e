/* test-losses.c - `perfwind losses`: the words, the JSON and the status, of traces written by hand. */
#include "cli/command.h"
#include "tests/unit/capture.h"
#include "tests/unit/profile/build.h"

static char path[] = "/tmp/test-losses-XXXXXX";
static struct buffer trace;

static int set_up(void **state)
{
	(void)state;
	trace = (struct buffer){0};
	return 0;
}

/* TraceStats.buffer_stats of buffer 0: field 3 chunks, 13 bytes overwritten. */
static void put_overwritten(uint64_t chunks, uint64_t bytes)
{
	struct buffer packet = {0}, stats = {0}, one = {0};

	put_number(&one, 3, chunks);
	put_number(&one, 13, bytes);
	put_message(&stats, 1, &one);
	put_message(&packet, 35, &stats);
	put_message(&trace, 1, &packet);
}

static int run(const char *option, char **ret_out)
{
	static char name[] = "losses";
	char *argv[] = {name, path, (char *)(uintptr_t)option, NULL};
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC), r;
	struct capture c;

	assert_int_equal(write(fd, trace.data, trace.len), (ssize_t)trace.len);
	close(fd);
	capture_begin(&c, STDOUT_FILENO);
	r = command_losses.run(option ? 3 : 2, argv);
	*ret_out = capture_end(&c);
	return r;
}

static void check(int status, const char *expected)
{
	char *out;

	assert_int_equal(run(NULL, &out), status);
	assert_string_equal(out, expected);
	free(out);
	buffer_deinit(&trace);
}

static void test_nothing(void **state)
{
	(void)state;
	put_defaults(&trace, 1, 6, 1, 0, 99);
	check(0, "no data was lost\n");
}

/* A ring's oldest go as they are meant to: reported, with the number, and no loss. */
static void test_overwritten(void **state)
{
	char *out;

	(void)state;
	put_overwritten(12, 49152);
	assert_int_equal(run(NULL, &out), 0);
	assert_non_null(strstr(out, "traced_buf_chunks_overwritten"));
	assert_non_null(strstr(out, "no loss, a RING_BUFFER keeps the newest data"));
	assert_non_null(strstr(out,
			       "\nno data was lost\n"
			       "overwritten, as configured (RING_BUFFER): the oldest 48 KiB\n"));
	free(out);
	buffer_deinit(&trace);
}

/* Where it was to be written into a file it is loss, and reported as loss only. */
static void test_overwritten_before_written(void **state)
{
	struct buffer packet = {0}, config = {0}, buffers = {0};
	char *out;

	(void)state;
	put_number(&buffers, 1, 4);
	put_message(&config, 1, &buffers);
	put_number(&config, 8, 1);    /* write_into_file */
	put_number(&config, 9, 1000); /* file_write_period_ms */
	put_number(&config, 13, 500); /* flush_period_ms */
	put_message(&packet, 33, &config);
	put_message(&trace, 1, &packet);
	put_overwritten(12, 49152);
	assert_int_equal(run(NULL, &out), 1);
	assert_non_null(strstr(out, "long_trace_mode_bytes_overwritten"));
	assert_null(strstr(out, "no data was lost"));
	assert_null(strstr(out, "as configured (RING_BUFFER)"));
	free(out);
	buffer_deinit(&trace);
}

static void test_lost(void **state)
{
	char *out;

	(void)state;
	put_defaults(&trace, 1, 6, 1, 0, 99);
	put_sample(
		&trace,
		&(struct test_sample){.sequence = 1, .flags = 2, .time = 1, .cpu = 3, .lost = 2506},
		NULL);
	assert_int_equal(run("--json", &out), 1);
	assert_non_null(strstr(out, "{\"name\": \"perf_cpu_lost_records\", \"index\": 3, "
				    "\"severity\": \"data_loss\", \"value\": 2506, "));
	free(out);
	buffer_deinit(&trace);
}

/* The file announces an end mark, and there is none. */
static void test_cut_off(void **state)
{
	static const char meaning[] =
		"ended without its end mark: up to about 1.3 s may be missing "
		"(more if the file was cut or damaged later)";
	char *out;

	(void)state;
	buffer_append(&trace, "\n\011\212\246\035\005\042\003\010\224\012", 11);
	put_defaults(&trace, 1, 6, 1, 0, 99);
	assert_int_equal(run(NULL, &out), 1);
	assert_non_null(strstr(out, "\nperfwind_end_missing "));
	assert_non_null(strstr(out, meaning));
	assert_null(strstr(out, "no data was lost"));
	free(out);
	assert_int_equal(run("--json", &out), 1);
	assert_non_null(strstr(out, "{\"name\": \"perfwind_end_missing\", \"index\": null, "
				    "\"severity\": \"data_loss\", \"value\": 1, \"meaning\": "
				    "\"ended without its end mark: up to about 1.3 s "));
	free(out);
	/* Ended at its largest size, as the config asks: no loss. */
	buffer_append(&trace, "\n\014\212\246\035\010\052\006\010\001\020\000\030\001", 14);
	check(0, "full, as the config asks: the file ended at max_file_size_bytes\n"
		 "no data was lost\n");
}

static void test_no_trace(void **state)
{
	struct capture c;
	char *out, *err;
	int r;

	(void)state;
	buffer_append(&trace, "text, and no trace\n", 19);
	capture_begin(&c, STDERR_FILENO);
	r = run(NULL, &out);
	err = capture_end(&c);
	assert_int_equal(r, 2);
	assert_string_equal(out, "");
	assert_non_null(strstr(err, "not a trace"));
	free(out);
	free(err);
	buffer_deinit(&trace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define EACH(t) cmocka_unit_test_setup(t, set_up)
		EACH(test_nothing), EACH(test_overwritten), EACH(test_overwritten_before_written),
		EACH(test_lost),    EACH(test_no_trace),    EACH(test_cut_off),
#undef EACH
	};
	int fd = mkstemp(path), r;

	if (fd < 0)
		return 1;
	close(fd);
	r = cmocka_run_group_tests(tests, NULL, NULL);
	(void)unlink(path);
	return r;
}
