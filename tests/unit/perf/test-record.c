/* test-record.c - record.h: records that are not samples, the times of all, and damage.
 * Layouts by hand after linux/perf_event.h. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "perf/record.h"
#include "tests/unit/perf/fake-ring.h"

static struct fake_record rec;

static const struct record_layout with_trailer = {
	.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID |
		       PERF_SAMPLE_TIME | PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU |
		       PERF_SAMPLE_PERIOD,
	.sample_id_all = true,
	.build_id = true,
};
static const struct record_layout without_trailer = {
	.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
	.build_id = true,
};

static void add_trailer(void)
{
	fake_pair(&rec, 900, 901);
	fake_word(&rec, 5000);
	fake_word(&rec, 0x1d);
	fake_word(&rec, 0x578);
	fake_pair(&rec, 6, 0);
	fake_word(&rec, 0x1d);
}

/* Parses what is written so far, then with the trailer: this one is what comes back. */
static struct record_event parse_event(void)
{
	struct record_event bare, event;
	uint64_t time = 0;
	size_t n = rec.n;

	assert_int_equal(record_parse_event(&without_trailer, fake_end(&rec), &bare), 0);
	assert_int_equal(bare.id | bare.cpu, 0);
	add_trailer();
	assert_int_equal(record_parse_event(&with_trailer, fake_end(&rec), &event), 0);
	assert_int_equal(event.type, bare.type);
	assert_int_equal(event.time, 5000);
	assert_int_equal(event.id, 0x1d);
	assert_int_equal(event.cpu, 6);
	assert_true(record_time(&with_trailer, fake_end(&rec), &time));
	assert_int_equal(time, 5000);
	/* Shorter by any number of words: refused, except where all that is cut off is the trailer's
	 * missing layout. */
	for (size_t i = 1; i < n; i++) {
		struct perf_event_header *shorter = fake_exact(&rec, i);
		struct record_event untouched = {.type = 77};

		assert_int_equal(record_parse_event(&without_trailer, shorter, &untouched),
				 -EBADMSG);
		assert_int_equal(record_parse_event(&with_trailer, shorter, &untouched), -EBADMSG);
		assert_int_equal(untouched.type, 77);
		free(shorter);
	}
	return event;
}

static void test_mmap(void **state)
{
	struct record_event event;

	(void)state;
	fake_begin(&rec, PERF_RECORD_MMAP, 0);
	fake_pair(&rec, 10, 11);
	fake_word(&rec, 0x7f0000001000);
	fake_word(&rec, 0x2000);
	fake_word(&rec, 0x3000);
	fake_text(&rec, "/lib/x");
	event = parse_event();
	assert_int_equal(event.pid, 10);
	assert_int_equal(event.tid, 11);
	assert_int_equal(event.mmap.start, 0x7f0000001000);
	assert_int_equal(event.mmap.len, 0x2000);
	assert_int_equal(event.mmap.offset, 0x3000);
	assert_int_equal(event.mmap.prot, PROT_READ | PROT_EXEC);
	assert_string_equal(event.mmap.path, "/lib/x");

	fake_begin(&rec, PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER);
	fake_pair(&rec, 10, 11);
	fake_word(&rec, 0x7f0000001000);
	fake_word(&rec, 0x2000);
	fake_word(&rec, 0x3000);
	fake_pair(&rec, 8, 1);
	fake_word(&rec, 123456);
	fake_word(&rec, 42);
	fake_pair(&rec, PROT_READ | PROT_EXEC, 2);
	fake_text(&rec, "12345678"); /* its NUL stands in a word of its own */
	event = parse_event();
	assert_int_equal(event.mmap.build_id_len, 0);
	assert_int_equal(event.mmap.major, 8);
	assert_int_equal(event.mmap.minor, 1);
	assert_int_equal(event.mmap.inode, 123456);
	assert_int_equal(event.mmap.generation, 42);
	assert_int_equal(event.mmap.prot, PROT_READ | PROT_EXEC);
	assert_string_equal(event.mmap.path, "12345678");
}

static void write_mmap2_build_id(uint8_t len)
{
	const uint8_t id[20] = {0xa0, 1,  2,  3,  4,  5,  6,  7,  8,  9,
				10,   11, 12, 13, 14, 15, 16, 17, 18, 0xb3};

	fake_begin(&rec, PERF_RECORD_MMAP2, PERF_RECORD_MISC_MMAP_BUILD_ID);
	for (int i = 0; i < 7; i++)
		fake_word(&rec, 0);
	fake_pair(&rec, PROT_EXEC, 0);
	((uint8_t *)&rec.words[5])[0] = len;
	memcpy((uint8_t *)&rec.words[5] + 4, id, sizeof(id));
	fake_text(&rec, "/bin/y");
}

static void test_mmap_build_id(void **state)
{
	struct record_event event;

	(void)state;
	write_mmap2_build_id(20);
	event = parse_event();
	assert_int_equal(event.mmap.build_id_len, 20);
	assert_int_equal(event.mmap.build_id[0], 0xa0);
	assert_int_equal(event.mmap.build_id[19], 0xb3);
	assert_int_equal(event.mmap.inode, 0);
	assert_string_equal(event.mmap.path, "/bin/y");
	write_mmap2_build_id(8); /* Go's and lld's fast ids are shorter */
	event = parse_event();
	assert_int_equal(event.mmap.build_id_len, 8);
	assert_int_equal(event.mmap.build_id[7], 7);
	assert_int_equal(event.mmap.build_id[8], 0);
	/* The bit is another profiler's: the words are device and inode (a record of Linux 6.18).
	 */
	fake_begin(&rec, PERF_RECORD_MMAP2, PERF_RECORD_MISC_MMAP_BUILD_ID | PERF_RECORD_MISC_USER);
	for (int i = 0; i < 4; i++)
		fake_word(&rec, 0);
	fake_pair(&rec, 254, 0);
	fake_word(&rec, 510339);
	fake_word(&rec, 0x21f192e3);
	fake_pair(&rec, PROT_EXEC, 0);
	fake_text(&rec, "/bin/z");
	{
		const struct record_layout no_build_id = {.sample_type = PERF_SAMPLE_TID};

		assert_int_equal(record_parse_event(&no_build_id, fake_end(&rec), &event), 0);
		assert_int_equal(event.mmap.build_id_len, 0);
		assert_int_equal(event.mmap.major, 254);
		assert_int_equal(event.mmap.inode, 510339);
	}
	write_mmap2_build_id(21);
	assert_int_equal(record_parse_event(&without_trailer, fake_end(&rec), &event), -EBADMSG);
}

static void test_comm_and_tasks(void **state)
{
	struct record_event event;
	uint64_t time = 0;

	(void)state;
	fake_begin(&rec, PERF_RECORD_COMM, 0);
	fake_pair(&rec, 10, 11);
	fake_text(&rec, "worker");
	event = parse_event();
	assert_string_equal(event.comm.name, "worker");
	assert_false(event.comm.exec);
	assert_int_equal(event.pid, 10);
	assert_int_equal(event.tid, 11);
	fake_begin(&rec, PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC);
	fake_pair(&rec, 10, 10);
	fake_text(&rec, "");
	event = parse_event();
	assert_string_equal(event.comm.name, "");
	assert_true(event.comm.exec);

	for (uint32_t type = PERF_RECORD_EXIT; type <= PERF_RECORD_FORK; type += 3) {
		fake_begin(&rec, type, 0);
		fake_pair(&rec, 20, 21); /* pid, ppid */
		fake_pair(&rec, 22, 23); /* tid, ptid */
		fake_word(&rec, 4999);
		assert_int_equal(record_parse_event(&without_trailer, fake_end(&rec), &event), 0);
		assert_int_equal(event.time, 4999);
		assert_true(record_time(&without_trailer, fake_end(&rec), &time));
		assert_int_equal(time, 4999);
		event = parse_event();
		assert_int_equal(event.type, type);
		assert_int_equal(event.pid, 20);
		assert_int_equal(event.task.ppid, 21);
		assert_int_equal(event.tid, 22);
		assert_int_equal(event.task.ptid, 23);
	}
}

static void test_lost_and_throttle(void **state)
{
	struct record_event event;
	uint64_t time = 0;

	(void)state;
	fake_begin(&rec, PERF_RECORD_LOST, 0);
	fake_word(&rec, 0x1d);
	fake_word(&rec, 33);
	event = parse_event();
	assert_int_equal(event.lost.id, 0x1d);
	assert_int_equal(event.lost.count, 33);
	assert_int_equal(event.pid, 900); /* of the trailer */
	assert_int_equal(event.tid, 901);

	fake_begin(&rec, PERFWIND_RECORD_LOST_SAMPLES, 0);
	fake_word(&rec, 34);
	event = parse_event();
	assert_int_equal(event.lost.id, 0);
	assert_int_equal(event.lost.count, 34);

	for (uint32_t type = PERF_RECORD_THROTTLE; type <= PERF_RECORD_UNTHROTTLE; type++) {
		fake_begin(&rec, type, 0);
		fake_word(&rec, 4998);
		fake_word(&rec, 0x2d);
		fake_word(&rec, 0x3d);
		assert_true(record_time(&without_trailer, fake_end(&rec), &time));
		assert_int_equal(time, 4998);
		event = parse_event();
		assert_int_equal(event.throttle.id, 0x2d);
		assert_int_equal(event.throttle.on, type == PERF_RECORD_THROTTLE);
	}
}

static void test_ksymbol_and_cgroup(void **state)
{
	struct record_event event;

	(void)state;
	for (uint32_t flags = 0; flags < 2; flags++) {
		fake_begin(&rec, PERFWIND_RECORD_KSYMBOL, 0);
		fake_word(&rec, 0xffffffffc0001000);
		fake_pair(&rec, 0x80, 1 | flags << 16); /* len, type, flags */
		fake_text(&rec, "bpf_prog_1");
		event = parse_event();
		assert_int_equal(event.ksymbol.start, 0xffffffffc0001000);
		assert_int_equal(event.ksymbol.len, 0x80);
		assert_int_equal(event.ksymbol.unregister, flags);
		assert_string_equal(event.ksymbol.name, "bpf_prog_1");
	}
	fake_begin(&rec, PERFWIND_RECORD_CGROUP, 0);
	fake_word(&rec, 77);
	fake_text(&rec, "/system.slice");
	event = parse_event();
	assert_int_equal(event.cgroup.id, 77);
	assert_string_equal(event.cgroup.path, "/system.slice");
}

/* The kernel makes them too long by a trailer for each other listener: what is behind the trailer is not read. */
static void test_too_long(void **state)
{
	struct record_event event;
	uint64_t time;

	(void)state;
	for (int symbol = 0; symbol < 2; symbol++) {
		fake_begin(&rec, symbol ? PERFWIND_RECORD_KSYMBOL : PERFWIND_RECORD_BPF, 0);
		fake_word(&rec, 0xffffffffc0001000);
		fake_pair(&rec, 0x80, 1);
		if (symbol)
			fake_text(&rec, "bpf_prog_b11459a0e11ca14c_perfwind");
		add_trailer();
		for (int i = 0; i < 6; i++)
			fake_word(&rec, 0x6c2d78756e696c2f);
		assert_true(record_time(&with_trailer, fake_end(&rec), &time));
		assert_int_equal(time, 5000);
		assert_int_equal(record_parse_event(&with_trailer, fake_end(&rec), &event),
				 symbol ? 0 : RECORD_UNKNOWN);
		assert_int_equal(event.time, 5000);
		assert_int_equal(event.cpu, 6);
		if (symbol)
			assert_string_equal(event.ksymbol.name,
					    "bpf_prog_b11459a0e11ca14c_perfwind");
	}
}

/* A name must end before the trailer, which would end it by luck. */
static void test_name_without_end(void **state)
{
	const uint32_t types[] = {PERF_RECORD_COMM, PERF_RECORD_MMAP, PERF_RECORD_MMAP2,
				  PERFWIND_RECORD_KSYMBOL, PERFWIND_RECORD_CGROUP};
	const size_t n_words[] = {1, 4, 8, 2, 1};
	struct record_event event;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		fake_begin(&rec, types[i], 0);
		for (size_t j = 0; j < n_words[i]; j++)
			fake_word(&rec, 1);
		fake_word(&rec, 0x6161616161616161);
		add_trailer();
		assert_int_equal(record_parse_event(&with_trailer, fake_end(&rec), &event),
				 -EBADMSG);
	}
}

static void test_unknown(void **state)
{
	const struct record_layout no_time = {.sample_type = PERF_SAMPLE_TID,
					      .sample_id_all = true};
	struct record_event event;
	uint64_t time = 1;

	(void)state;
	/* A type of a kernel to come: its trailer is where all have it. */
	fake_begin(&rec, 60, 0x1234);
	fake_word(&rec, 1);
	add_trailer();
	assert_int_equal(record_parse_event(&with_trailer, fake_end(&rec), &event), RECORD_UNKNOWN);
	assert_int_equal(event.type, 60);
	assert_int_equal(event.misc, 0x1234);
	assert_int_equal(event.time, 5000);
	assert_int_equal(event.cpu, 6);
	/* perf's own types in a file have none. */
	fake_begin(&rec, 68, 0);
	assert_int_equal(record_parse_event(&with_trailer, fake_end(&rec), &event), RECORD_UNKNOWN);
	assert_int_equal(event.time, 0);
	assert_false(record_time(&with_trailer, fake_end(&rec), &time));
	/* No time in the layout; too short for the trailer; not in the body. */
	fake_begin(&rec, PERF_RECORD_COMM, 0);
	fake_pair(&rec, 1, 1);
	fake_text(&rec, "x");
	assert_false(record_time(&no_time, fake_end(&rec), &time));
	assert_false(record_time(&with_trailer, fake_end(&rec), &time));
	assert_false(record_time(&without_trailer, fake_end(&rec), &time));
	assert_int_equal(time, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mmap),
		cmocka_unit_test(test_mmap_build_id),
		cmocka_unit_test(test_comm_and_tasks),
		cmocka_unit_test(test_lost_and_throttle),
		cmocka_unit_test(test_ksymbol_and_cgroup),
		cmocka_unit_test(test_too_long),
		cmocka_unit_test(test_name_without_end),
		cmocka_unit_test(test_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
