/* test-source-events.c - words of a command line, through spec.h and source.h, to records of the
 * real kernel: uprobes by function and offset, tracepoints with and without a filter.
 */
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>

#include "tests/unit/perf/source-fixture.h"

enum { N_CALLS = 57 };

void perfwind_events_called(uint64_t n); /* found by name in this program */
__attribute__((noinline)) void perfwind_events_called(uint64_t n)
{
	__asm__ volatile("" ::"r"(n) : "memory");
}

static void work_calls(void)
{
	for (uint64_t i = 0; i < N_CALLS; i++)
		perfwind_events_called(i);
}

/* Profiles a child by each @period-th @event; false when this kernel or user does not have it. */
static bool profile_each(struct fixture *f, const char *event, char *filter, uint64_t period,
			 void (*work)(void))
{
	struct child child = child_start(work);
	size_t n = 0;
	bool opened;

	fixture_init(f);
	if (perf_spec_parse(NULL, event, &f->options.leader, 1, &n, f->error, sizeof(f->error)) <
	    0) {
		print_message("%s\n", f->error);
		(void)kill(child.pid, SIGKILL);
		(void)waitpid(child.pid, NULL, 0);
		fixture_deinit(f);
		return false;
	}
	f->options.leader.filter = filter;
	f->options.frequency = 0;
	f->options.period = period;
	f->options.tasks = true;
	assert_int_equal(fixture_open(f), 0);
	/* the source has its own copies */
	f->options.leader.filter = NULL;
	perf_spec_deinit(&f->options.leader);
	opened = fixture_add(f, child.pid) == 0 && perf_source_enable(f->source) == 0;
	child_go(&child);
	child_wait(&child);
	if (!opened) {
		print_message("%s\n", f->error);
		return true;
	}
	assert_int_equal(perf_source_disable(f->source), 0);
	fixture_drain(f, true);
	return true;
}

static bool profile(struct fixture *f, const char *event, char *filter, void (*work)(void))
{
	return profile_each(f, event, filter, 1, work);
}

static void check_calls(const char *event)
{
	struct perf_counts counts;
	struct fixture f;

	skip_without(profile(&f, event, NULL, work_calls), "no uprobes here");
	skip_without(f.source && perf_source_n_rings(f.source) > 0, "uprobes are not permitted");
	assert_int_equal(perf_source_counts(f.source, &counts), 0);
	assert_int_equal(counts.count, N_CALLS);
	assert_int_equal(f.n_samples, N_CALLS);
	for (size_t i = 0; i < f.n_samples; i++) {
		assert_int_equal(f.samples[i].period, 1);
		assert_int_equal(f.samples[i].regs_abi, 2);
		assert_true(f.samples[i].stack_len > 0);
	}
	fixture_deinit(&f);
}

static void test_uprobe(void **state)
{
	(void)state;
	check_calls("uprobe:/proc/self/exe:perfwind_events_called");
}

static void test_uretprobe(void **state)
{
	(void)state;
	check_calls("uretprobe:/proc/self/exe:perfwind_events_called");
}

static void test_uprobe_by_offset(void **state)
{
	struct perf_spec spec;
	char text[128];
	char error[256];
	size_t n;

	(void)state;
	skip_without(perf_spec_parse(NULL, "uprobe:/proc/self/exe:perfwind_events_called", &spec, 1,
				     &n, error, sizeof(error)) == 0,
		     "no uprobes here");
	(void)snprintf(text, sizeof(text), "uprobe:/proc/self/exe:0x%llx",
		       (unsigned long long)spec.config2);
	perf_spec_deinit(&spec);
	check_calls(text);
}

static void work_faults(void)
{
	const size_t size = 1000 * 4096;
	char *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(data != MAP_FAILED && madvise(data, size, MADV_NOHUGEPAGE) == 0);
	for (size_t at = 0; at < size; at += 4096)
		((volatile char *)data)[at] = 1;
}

/* One sample stands for that many, and there are no more samples than that. */
static void test_software_period(void **state)
{
	struct perf_counts counts;
	cpu_set_t before, one;
	struct fixture f;

	(void)state;
	/* Each CPU's event has a period of its own, of which a process that moves leaves a part. */
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	skip_without(profile_each(&f, "page-faults:u", NULL, 10, work_faults), "no page-faults");
	skip_without(f.source && perf_source_n_rings(f.source) > 0, "events are not permitted");
	assert_int_equal(perf_source_counts(f.source, &counts), 0);
	assert_true(counts.count >= 1000);
	assert_int_equal(counts.lost_samples, 0);
	assert_int_equal(f.n_samples, counts.count / 10);
	for (size_t i = 0; i < f.n_samples; i++)
		assert_int_equal(f.samples[i].period, 10);
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
	fixture_deinit(&f);
}

static void work_sleeps(void)
{
	for (int i = 0; i < 20; i++)
		(void)usleep(1000);
}

/* In a mount namespace of its own, so that tracefs is there whatever the machine has mounted. */
static void tracepoints(void)
{
	char none[] = "prev_prio < -5", all[] = "prev_prio > -5", wrong[] = "no_such_field == 1";
	struct perf_counts counts;
	struct fixture f;

	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		_exit(78);
	if (mount("nodev", "/sys/kernel/tracing", "tracefs", 0, NULL) != 0 && errno != EBUSY)
		_exit(77);

	CHECK(profile(&f, "sched:sched_switch", NULL, work_sleeps));
	CHECK(perf_source_counts(f.source, &counts) == 0);
	CHECK(f.n_samples >= 20 && f.n_samples == counts.count);
	fixture_deinit(&f);

	CHECK(profile(&f, "sched/sched_switch", none, work_sleeps));
	CHECK(perf_source_n_rings(f.source) > 0);
	CHECK(f.n_samples == 0);
	fixture_deinit(&f);

	CHECK(profile(&f, "sched:sched_switch", all, work_sleeps));
	CHECK(f.n_samples >= 20);
	fixture_deinit(&f);

	CHECK(profile(&f, "sched:sched_switch", wrong, work_sleeps));
	CHECK(perf_source_n_rings(f.source) == 0);
	CHECK(f.gate == PERF_GATE_OTHER && strstr(f.error, "filter 'no_such_field == 1'"));
	CHECK(strstr(f.error, "/events/sched/sched_switch/format"));
	fixture_deinit(&f);

	{
		struct perf_spec spec;
		char error[256];
		size_t n;

		CHECK(perf_spec_parse(NULL, "sched:sched_swtich", &spec, 1, &n, error,
				      sizeof(error)) == -ENOENT);
		CHECK(strstr(error, "did you mean sched:sched_switch"));
	}
}

static void test_tracepoints(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	skip_without(geteuid() == 0, "tracefs is root's");
	pid = fork();
	if (pid == 0) {
		tracepoints();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	skip_without(WEXITSTATUS(status) != 77, "tracefs cannot be mounted");
	skip_without(WEXITSTATUS(status) != 78, "no mount namespace here (refused, or a chroot)");
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_uprobe),		 cmocka_unit_test(test_uretprobe),
		cmocka_unit_test(test_uprobe_by_offset), cmocka_unit_test(test_software_period),
		cmocka_unit_test(test_tracepoints),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
