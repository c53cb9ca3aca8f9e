/* test-session-raw.c - the records next to the trace, read back; and a file that cannot be written any more. */
#include <sys/mman.h>

#include "perf/perfdata/perfdata-out.h"
#include "perf/perfdata/perfdata.h"
#include "session/session-private.h"
#include "tests/unit/session/session-fixture.h"

/* Of the session; *ret_fd: the same file again. */
static struct perfdata_out *raw_new(int *ret_fd)
{
	int fd = memfd_create("raw", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct perfdata_out *out;

	assert_true(fd >= 0);
	*ret_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	assert_int_equal(perfdata_out_new(fd, &out), 0);
	return out;
}

static size_t trace_samples(struct fixture *f, pid_t pid)
{
	const Pb__Trace *trace = fixture_decode(f);
	size_t n = 0;

	for (size_t i = 0; i < trace->n_packet; i++)
		n += fixture_is_of(trace->packet[i], pid);
	return n;
}

struct found {
	uint64_t samples, of_child;
	bool mapped, named, kernel; /* before all that has a time */
};

static void look_at(const struct perfdata_item *item, uint32_t pid, struct found *found)
{
	struct record_sample sample;
	struct record_event e;

	if (item->record->type == PERF_RECORD_SAMPLE) {
		found->samples++;
		assert_int_equal(item->event, 0);
		assert_int_equal(record_parse_sample(item->layout, item->record, &sample), 0);
		found->of_child += sample.pid == pid;
		return;
	}
	if (item->time || record_parse_event(item->layout, item->record, &e) != 0)
		return;
	if (e.type == PERF_RECORD_COMM)
		found->named |= e.pid == pid;
	if (e.type != PERF_RECORD_MMAP && e.type != PERF_RECORD_MMAP2)
		return;
	found->mapped |= e.pid == pid && strstr(e.mmap.path, "test-session-raw");
	found->kernel |= !strcmp(e.mmap.path, "[kernel.kallsyms]_text");
}

static void test_read_back(void **state)
{
	char *const command[] = {(char *)"test", NULL};
	_cleanup_(perfdata_freep) struct perfdata *pd = NULL;
	struct perfdata_item item;
	struct found found = {0};
	struct fixture f;
	char error[256];
	pid_t pid;
	size_t n;
	int fd, r;

	(void)state;
	fixture_init(&f);
	f.options.raw = raw_new(&fd);
	pid = f.child;
	fixture_start(&f);
	fixture_run_ms(&f, 200);
	fixture_stop(&f);
	n = trace_samples(&f, pid);
	assert_true(n > 0);
	assert_int_equal(f.session->raw_failed, 0);
	assert_int_equal(perfdata_out_finish(f.options.raw, "1", command), 0);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(perfdata_new(fd, NULL, &pd, error, sizeof(error)), 0);
	while ((r = perfdata_next(pd, &item)) == 0) {
		look_at(&item, (uint32_t)pid, &found);
		perfdata_put(pd, item.block);
	}
	assert_int_equal(r, PERFDATA_END);
	assert_null(perfdata_counts(pd)->damage);
	assert_int_equal(perfdata_counts(pd)->bad_records, 0);
	assert_int_equal(perfdata_info(pd)->n_events, 2);
	assert_string_equal(perfdata_info(pd)->events[0].name, "cpu-clock");
	assert_string_equal(perfdata_info(pd)->events[1].name, "dummy");
	assert_int_equal(found.samples, perfdata_out_samples(f.options.raw));
	/* The trace may have skipped some; the weight of those that a busy machine thinned is in samples of its own. */
	assert_true(10 * found.of_child >= 9 * n);
	assert_true(found.named && found.mapped);
	assert_true(found.kernel || !(session_code(f.session) & FRAMES_KERNEL) || geteuid() != 0);
	fixture_deinit(&f);
	(void)perfdata_out_free(f.options.raw);
	close(fd);
}

/* The file ends, one note reports it, and the recording goes on. */
static void test_full(void **state)
{
	struct fixture f;
	size_t noted = 0, n;
	int fd;

	(void)state;
	fixture_init(&f);
	f.options.raw = raw_new(&fd);
	fixture_start(&f);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_WRITE), 0);
	fixture_run_ms(&f, 300);
	assert_true(f.session->raw_failed);
	n = perfdata_out_samples(f.options.raw);
	fixture_run_ms(&f, 100);
	assert_int_equal(perfdata_out_samples(f.options.raw), n);
	fixture_stop(&f);
	for (size_t i = 0; i < f.session->n_notes; i++)
		noted += !strcmp(f.session->notes[i],
				 "--perf-data: Operation not permitted: the file is incomplete");
	assert_int_equal(noted, 1);
	assert_true(trace_samples(&f, f.child) > 0);
	fixture_deinit(&f);
	(void)perfdata_out_free(f.options.raw);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read_back),
		cmocka_unit_test(test_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
