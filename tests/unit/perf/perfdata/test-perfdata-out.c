/* test-perfdata-out.c - perfdata-out.h: what it writes, read back by perfdata.h.  That stock perf
 * reads it too is tested in tests/integration/perf-data.sh. */
#include <fcntl.h>

#include "perf/perfdata/perfdata-out.h"
#include "tests/unit/perf/perfdata/perfdata-fixture.h"

static void add(struct perfdata_out *out, uint32_t event,
		void (*put)(struct buffer *, uint64_t, uint64_t), uint64_t id, uint64_t time)
{
	struct buffer b = {0};

	put(&b, id, time);
	assert_int_equal(
		perfdata_out_record(out, event,
				    (const struct perf_event_header *)(const void *)b.data),
		0);
	buffer_deinit(&b);
}

static int write_one(bool finish)
{
	char *const command[] = {(char *)"perfwind", (char *)"record", NULL};
	const struct perf_event_attr a = fixture_attr(PERF_COUNT_SW_CPU_CLOCK),
				     b = fixture_attr(PERF_COUNT_SW_DUMMY);
	int fd = memfd_create("out", MFD_CLOEXEC), again = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	struct perfdata_out *out;

	assert_int_equal(perfdata_out_new(fd, &out), 0);
	assert_int_equal(perfdata_out_event(out, 0, &a, "my clock"), 0);
	assert_int_equal(perfdata_out_event(out, 1, &b, "dummy"), 0);
	assert_int_equal(perfdata_out_comm(out, 7, 7, "seven"), 0);
	assert_int_equal(perfdata_out_mmap(out,
					   &(struct perfdata_out_mmap){
						   .pid = 7,
						   .start = 0x1000,
						   .len = 0x2000,
						   .prot = PROT_READ | PROT_EXEC,
						   .path = "/bin/seven (deleted)",
						   .path_len = 10,
					   }),
			 0);
	add(out, 0, put_sample, 0x21, 10);
	add(out, 1, put_comm, 0x31, 11);
	assert_int_equal(perfdata_out_round(out), 0);
	assert_int_equal(perfdata_out_round(out), 0); /* nothing since: none */
	add(out, 0, put_sample, 0x22, 12);
	assert_int_equal(perfdata_out_samples(out), 2);
	if (finish)
		assert_int_equal(perfdata_out_finish(out, "1.2.3", command), 0);
	perfdata_out_free(out);
	assert_int_equal(lseek(again, 0, SEEK_SET), 0);
	return again;
}

static void test_read_back(void **state)
{
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	_cleanup_(freep) char *text = NULL;
	const struct perfdata_info *info;
	int fd = write_one(true);

	(void)state;
	text = fixture_read(fd, 0, &pd);
	assert_string_equal(text, "r3@0 r10@0 s0@10 r3@11 s0@12 ");
	info = perfdata_info(pd);
	assert_int_equal(info->n_events, 2);
	assert_string_equal(info->events[0].name, "my clock");
	assert_string_equal(info->events[1].name, "dummy");
	assert_string_equal(info->perf_version, "1.2.3");
	assert_string_equal(info->cmdline, "perfwind record");
	assert_non_null(info->arch);
	assert_true(info->cpus_online > 0);
	assert_int_equal(perfdata_counts(pd)->rounds, 1);
	assert_int_equal(perfdata_counts(pd)->bad_records, 0);
	assert_null(perfdata_counts(pd)->damage);
	close(fd);
}

static void test_made_records(void **state)
{
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	struct perfdata_item item;
	struct record_event e;
	char error[256];
	int fd = write_one(true);

	(void)state;
	assert_int_equal(perfdata_new(fd, NULL, &pd, error, sizeof(error)), 0);
	assert_int_equal(perfdata_next(pd, &item), 0);
	assert_int_equal(record_parse_event(item.layout, item.record, &e), 0);
	assert_string_equal(e.comm.name, "seven");
	perfdata_put(pd, item.block);
	assert_int_equal(perfdata_next(pd, &item), 0);
	assert_int_equal(record_parse_event(item.layout, item.record, &e), 0);
	assert_string_equal(e.mmap.path, "/bin/seven");
	assert_int_equal(e.mmap.len, 0x2000);
	assert_int_equal(e.mmap.prot, PROT_READ | PROT_EXEC);
	perfdata_put(pd, item.block);
	close(fd);
}

/* An unfinished one is not taken for a recording. */
static void test_unfinished(void **state)
{
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	_cleanup_(freep) char *text = NULL;
	int fd = write_one(false);

	(void)state;
	text = fixture_read(fd, 0, &pd);
	assert_null(pd);
	assert_non_null(
		strstr(text, "has an empty header: its recording was cut off before its end"));
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read_back),
		cmocka_unit_test(test_made_records),
		cmocka_unit_test(test_unfinished),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
