/* test-records.c - export --to str and --to bin of a trace with samples and tasks: every line and record; what is unknown. */
#include <string.h>
#include <time.h>

#include "profile/profile-export.h"
#include "protos/trace.pb-c.h"
#include "trace/writer.h"
#include "tracing/task-table.h"
#include "tests/unit/cmocka.h"

static struct profile profile;

static void put_tasks(struct sink *to)
{
	const struct task_row running = {.pid = 7,
					 .has = TASK_COMM | TASK_CPU | TASK_IO | TASK_OOM,
					 .comm = "cc1 x",
					 .utime_ns = 10,
					 .stime_ns = 20,
					 .read_bytes = 1,
					 .write_bytes = 2,
					 .cancelled_bytes = 3,
					 .oom_score_adj = -17},
			      ended = {.pid = 8, .has = TASK_CPU, .utime_ns = 5, .ended = true};
	uint8_t row[TASK_ROW_MAX], stats[2 * TASK_ROW_MAX], body[2 * TASK_ROW_MAX],
		packet[3 * TASK_ROW_MAX], *p = stats;

	p = pack_bytes(p, PROCESS_STATS__PROCESSES, row,
		       (size_t)(task_row_pack(row, &running, NULL, 0) - row));
	p = pack_bytes(p, PROCESS_STATS__PROCESSES, row,
		       (size_t)(task_row_pack(row, &ended, NULL, 0) - row));
	p = pack_bytes(body, TRACE_PACKET__PROCESS_STATS, stats, (size_t)(p - stats));
	p = pack_bytes(packet, TRACE__PACKET, body, (size_t)(p - body));
	assert_int_equal(to->write(to, packet, (size_t)(p - packet)), 0);
}

/* Two samples in user code of process 7, one in the kernel with an address that no symbol has. */
static int set_up(void **state)
{
	const struct writer_options options = {.leader = {.counter = 1},
					       .frequency = 99,
					       .clock = CLOCK_BOOTTIME,
					       .sequence_id = 1};
	struct writer_sample sample = {.time = 1000, .cpu = 3, .pid = 7, .tid = 7, .cpu_mode = 2};
	struct writer_process process = {.pid = 7, .comm = "cc1 x"};
	uint32_t mapping, frame;
	struct writer *w;
	struct sink *to;
	const void *data;
	char error[256];
	size_t len;

	(void)state;
	assert_int_equal(sink_memory_new(&to), 0);
	assert_int_equal(writer_new(&options, to, &w), 0);
	assert_int_equal(writer_start(w), 0);
	assert_int_equal(writer_process(w, &process, 1), 0);
	assert_int_equal(writer_mapping(w, "/a", NULL, 0, 0, 0, &mapping), 0);
	assert_int_equal(writer_frame(w, mapping, 0x1234, "main", &frame), 0);
	assert_int_equal(writer_callstack(w, &frame, 1, &sample.callstack), 0);
	assert_int_equal(writer_sample(w, &sample), 0);
	sample.time = 900;
	sample.cpu = 0;
	assert_int_equal(writer_callstack(w, &frame, 1, &sample.callstack), 0);
	assert_int_equal(writer_sample(w, &sample), 0);
	assert_int_equal(writer_frame(w, WRITER_KERNEL_MAPPING, 0x7000000000001000,
				      "no_such_function", &frame),
			 0);
	sample = (struct writer_sample){.time = 2000, .cpu = 3, .pid = 9, .tid = 9, .cpu_mode = 1};
	assert_int_equal(writer_callstack(w, &frame, 1, &sample.callstack), 0);
	assert_int_equal(writer_sample(w, &sample), 0);
	put_tasks(to);
	data = sink_memory_data(to, &len);
	assert_int_equal(profile_parse(data, len, &profile, error, sizeof(error)), 0);
	writer_free(w);
	sink_free(to);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	profile_deinit(&profile);
	return 0;
}

static char *written(int (*export_to)(const struct profile *, const struct export_options *,
				      FILE *),
		     size_t *ret_len)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, ret_len);

	assert_non_null(out);
	assert_int_equal(export_to(&profile, NULL, out), 0);
	assert_int_equal(fclose(out), 0);
	return text;
}

static void test_text(void **state)
{
	_cleanup_(freep) char *text = NULL;
	size_t len;

	(void)state;
	text = written(export_str, &len);
	assert_string_equal(text, "perf\n"
				  "cpu:0\n"
				  "u cc1 x -17 [0x1234]\n"
				  "cpu:3\n"
				  "u cc1 x -17 [0x1234]\n"
				  "k [pid 9] - no_such_function[0xf000000000001000]\n"
				  "task\n"
				  "comm:cc1 x pid:7\n"
				  "status:PROCESS_INSERT\n"
				  "utime:10 stime:20\n"
				  "read_bytes:1 write_bytes:2\n"
				  "cancelled_write_bytes:3\n"
				  "comm:- pid:8\n"
				  "status:PROCESS_EXIT\n"
				  "utime:5 stime:0\n");
}

static uint64_t number(const char *file, size_t at, size_t size)
{
	uint64_t n = 0;

	memcpy(&n, file + at, size);
	return n;
}

/* The layout by hand: docs/snapshot-format.md. */
static void test_binary(void **state)
{
	_cleanup_(freep) char *file = NULL;
	const char *perf, *task;
	size_t len, page;

	(void)state;
	file = written(export_bin, &len);
	page = number(file, 12, 4);
	assert_memory_equal(file, "PWSNAP1", 8);
	assert_int_equal(number(file, 8, 4), 0x01020304);
	assert_int_equal(len, 2 * page + 2 * 64);
	assert_int_equal(number(file, 24, 4), 1);
	assert_int_equal(number(file, 28, 4), 32);
	assert_int_equal(number(file, 32, 8), 3);
	assert_int_equal(number(file, 40, 8), page);
	assert_int_equal(number(file, 56, 4), 2);
	assert_int_equal(number(file, 60, 4), 64);
	assert_int_equal(number(file, 64, 8), 2);
	assert_int_equal(number(file, 72, 8), 2 * page);
	/* The third field: oom_score_adj, a signed number at 10 of 2 bytes. */
	assert_string_equal(file + 88 + 2 * 32, "oom_score_adj");
	assert_int_equal(number(file, 88 + 2 * 32 + 24, 8), 0x0002000a0101);
	perf = file + page;
	assert_int_equal(number(perf, 0, 8), 0x1234);
	assert_int_equal(number(perf, 8, 1), 1);
	assert_int_equal((int16_t)number(perf, 10, 2), -17);
	assert_string_equal(perf + 12, "cc1 x");
	perf += 64;
	assert_int_equal(number(perf, 0, 8), 0xf000000000001000);
	assert_int_equal(number(perf, 8, 1), 0);
	assert_int_equal((int16_t)number(perf, 10, 2), -32768);
	task = file + 2 * page;
	assert_int_equal(number(task, 0, 1), 0);
	assert_int_equal(number(task, 4, 4), 7);
	assert_string_equal(task + 8, "cc1 x");
	assert_int_equal(number(task, 24, 8), 10);
	assert_int_equal(number(task, 56, 8), 3);
	task += 64;
	assert_int_equal(number(task, 0, 1), 1);
	assert_int_equal(number(task, 40, 8), UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_text, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_binary, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
