/* test-gate.c - each way perf_event_open() is refused, for real where it can be had: one line, with
 * its gate.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "tests/unit/perf/source-fixture.h"

#include "perf/gate.h"

static void work_syscalls(void)
{
	uint64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + 100 * NSEC_PER_MSEC;

	/* half of it in the kernel: getppid() is too quick, a page of zeros is not */
	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end) {
		void *p = mmap(NULL, 64 << 10, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

		(void)munmap(p, 64 << 10);
	}
}

static void work_wait(void)
{
	(void)pause();
}

static bool has_text(const struct fixture *f, const char *part)
{
	if (strstr(f->error, part) && !strchr(f->error, '\n'))
		return true;
	(void)fprintf(stderr, "'%s' is not in: %s\n", part, f->error);
	return false;
}

static void user_only(void)
{
	struct child child = child_start(work_syscalls);
	struct perf_counts counts;
	uint64_t weight = 0;
	struct fixture f;

	fixture_init(&f);
	f.options.tasks = true;
	f.options.callchain = FRAMES_KERNEL;
	f.options.ring_bytes = 128 << 10;
	f.options.n_followers = 1;
	f.options.followers[0] =
		fixture_software("context-switches", PERF_COUNT_SW_CONTEXT_SWITCHES);
	CHECK(fixture_open(&f) == 0);
	CHECK(fixture_add(&f, child.pid) == 0);
	CHECK(perf_source_kernel_refused(f.source));
	CHECK(perf_source_options(f.source)->leader.code == FRAMES_USER);
	CHECK(!(perf_source_options(f.source)->callchain & FRAMES_KERNEL));
	CHECK(!(perf_source_ring(f.source, 0)->layout.sample_type & PERF_SAMPLE_CALLCHAIN));
	CHECK(fixture_noted(&f, "kernel not permitted (kernel.perf_event_paranoid = "));
	CHECK(fixture_noted(&f, "'context-switches' happens in the kernel"));
	CHECK(perf_source_enable(f.source) == 0);
	child_go(&child);
	for (int status; waitpid(child.pid, &status, WNOHANG) == 0;)
		fixture_run(&f, 10);
	(void)close(child.go);
	CHECK(perf_source_disable(f.source) == 0);
	fixture_drain(&f, true);
	CHECK(perf_source_counts(f.source, &counts) == 0);
	for (size_t i = 0; i < f.n_samples; i++) {
		CHECK(f.samples[i].cpu_mode == PERF_RECORD_MISC_USER);
		weight += f.samples[i].period;
	}
	/* the kernel's share is not sampled, but the CPU time is known: 100 ms */
	CHECK(counts.task_clock_ns >= 95 * NSEC_PER_MSEC);
	CHECK(weight < counts.task_clock_ns * 3 / 4);
	fixture_deinit(&f);
}

static void refused_to_users(void)
{
	struct child child = child_start(work_wait);
	struct fixture f;

	fixture_init(&f);
	CHECK(fixture_open(&f) == -EACCES); /* the machine */
	CHECK(f.gate == PERF_GATE_PARANOID && has_text(&f, "whole machine") &&
	      has_text(&f, "perf_event_paranoid = "));
	CHECK(f.n_notes == 0); /* no step down that did not help */

	f.options.tasks = true;
	CHECK(fixture_open(&f) == 0);
	CHECK(fixture_add(&f, 1) < 0); /* another user's */
	CHECK(f.gate == PERF_GATE_PTRACE && has_text(&f, "process 1 "));
	CHECK(f.n_notes == 0 && !perf_source_kernel_refused(f.source));
	CHECK(fixture_add(&f, child.pid) == 0); /* the source still works */
	CHECK(fixture_add(&f, 1) < 0 && f.gate == PERF_GATE_PTRACE);
	fixture_deinit(&f);
	child_wait(&child);

	child = child_start(work_wait);
	fixture_init(&f);
	f.options.tasks = true;
	f.options.leader = fixture_software("context-switches", PERF_COUNT_SW_CONTEXT_SWITCHES);
	CHECK(fixture_open(&f) == 0);
	CHECK(fixture_add(&f, child.pid) < 0); /* user code only would leave nothing of it */
	CHECK(f.gate == PERF_GATE_PARANOID &&
	      has_text(&f, "'context-switches' happens in the kernel"));
	fixture_deinit(&f);

	fixture_init(&f);
	f.options.tasks = true;
	f.options.leader = fixture_software("cpu-clock:k", PERF_COUNT_SW_CPU_CLOCK);
	f.options.leader.code = FRAMES_KERNEL;
	CHECK(fixture_open(&f) == 0);
	CHECK(fixture_add(&f, child.pid) < 0);
	CHECK(f.gate == PERF_GATE_PARANOID && has_text(&f, "'cpu-clock:k'"));
	fixture_deinit(&f);

	fixture_init(&f);
	f.options.tasks = true;
	f.options.leader = fixture_software("sched:sched_switch", 372);
	f.options.leader.type = PERF_TYPE_TRACEPOINT;
	CHECK(fixture_open(&f) == 0);
	CHECK(fixture_add(&f, child.pid) < 0);
	CHECK(f.gate == PERF_GATE_PARANOID || f.gate == PERF_GATE_OTHER ||
	      f.gate == PERF_GATE_NO_EVENT);
	CHECK(f.error[0]);
	fixture_deinit(&f);
	child_wait(&child);
}

static void test_as_user(void **state)
{
	(void)state;
	skip_without(geteuid() == 0, "another uid is taken for this");
	skip_without(gate_sysctl("perf_event_paranoid", 9) == 2, "perf_event_paranoid is not 2");
	as_user(65534, user_only);
	as_user(65534, refused_to_users);
}

/* A filter as containers have it: perf_event_open gives @error. */
static void filter(int error)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_perf_event_open, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = ARRAY_SIZE(code), .filter = code};

	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void in_container(void)
{
	struct fixture f;

	fixture_init(&f);
	filter(EPERM);
	CHECK(fixture_open(&f) == -EPERM);
	CHECK(f.gate == PERF_GATE_SECCOMP && has_text(&f, "seccomp") && has_text(&f, "--cap-add"));
	f.options.tasks = true;
	CHECK(fixture_open(&f) == 0);
	CHECK(fixture_add(&f, getpid()) == -EPERM);
	CHECK(f.gate == PERF_GATE_SECCOMP);
	CHECK(f.n_notes == 0);
	fixture_deinit(&f);
}

/* perf_event_paranoid 3 and 4 are patches of distributions; what they answer to users is EACCES to
 * everything.  So does SELinux, but to root as well, and whatever the sysctl is. */
static void refused_everything(void)
{
	bool closed = geteuid() && gate_sysctl("perf_event_paranoid", 9) > 2;
	struct fixture f;

	fixture_init(&f);
	filter(EACCES);
	f.options.tasks = true;
	CHECK(fixture_open(&f) == 0);
	CHECK(fixture_add(&f, getpid()) == -EACCES);
	if (closed)
		CHECK(f.gate == PERF_GATE_PARANOID && has_text(&f, "closed to users") &&
		      has_text(&f, "sudo sysctl"));
	else
		CHECK(f.gate == PERF_GATE_MODULE && has_text(&f, "security module (SELinux") &&
		      !strstr(f.error, "root"));
	fixture_deinit(&f);
}

/* The kernel has the call, as its sysctl shows: sandboxes hide it so. */
static void hidden_by_a_sandbox(void)
{
	struct fixture f;

	fixture_init(&f);
	filter(ENOSYS);
	CHECK(fixture_open(&f) == -ENOSYS);
	CHECK(f.gate == PERF_GATE_SECCOMP && has_text(&f, "seccomp"));
	fixture_deinit(&f);
}

static void test_filtered(void **state)
{
	(void)state;
	as_user(geteuid(), in_container);
	as_user(geteuid(), refused_everything);
	if (geteuid() == 0)
		as_user(65534, refused_everything);
	as_user(geteuid(), hidden_by_a_sandbox);
}

/* A higher limit is the hint where the limit is low. */
static void few_files(void)
{
	struct rlimit limit = {.rlim_cur = 16, .rlim_max = 16};
	struct child child = child_start(work_wait);
	struct fixture f;

	fixture_init(&f);
	f.options.tasks = true;
	f.options.ring_bytes = 64 << 10;
	f.options.stack_bytes = 0;
	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	CHECK(fixture_open(&f) == 0);
	for (int i = 0; i < 16 && fixture_add(&f, child.pid) == 0; i++)
		;
	CHECK(f.gate == PERF_GATE_FILES && has_text(&f, "hint: ulimit -Hn 16384"));
	fixture_deinit(&f);
	child_wait(&child);
}

/* ... and is none where it is high. */
static void many_files(void)
{
	const struct perf_options options = {.clock = CLOCK_MONOTONIC};
	struct perf_spec spec = {.name = "it", .code = FRAMES_ALL};
	const struct gate_case refused = {-EMFILE, 4711, &spec, &options};
	struct rlimit limit;
	char error[256] = "";

	CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	if (limit.rlim_max < GATE_FILES_ENOUGH)
		return;
	CHECK(gate_explain(&refused, error, sizeof(error)) == PERF_GATE_FILES);
	CHECK(strstr(error, "hint: record the whole machine (-a)"));
}

/* The soft limit alone is not a reason: it is raised. */
static void soft_limit(void)
{
	struct rlimit limit;
	struct fixture f;

	CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	limit.rlim_cur = 16;
	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	fixture_init(&f);
	f.options.tasks = true;
	CHECK(fixture_open(&f) == 0);
	CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == limit.rlim_max);
	fixture_deinit(&f);
}

static void test_files(void **state)
{
	(void)state;
	as_user(geteuid(), few_files);
	as_user(geteuid(), many_files);
	as_user(geteuid(), soft_limit);
}

static void test_options(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	f.options.tasks = true;
	f.options.frequency = 1000000000;
	assert_int_equal(fixture_open(&f), -EINVAL);
	assert_int_equal(f.gate, PERF_GATE_RATE);
	assert_true(has_text(&f, "-F max"));
	f.options.frequency = 0;
	assert_int_equal(fixture_open(&f), -EINVAL); /* neither of the two */
	f.options.frequency = f.options.period = 1000;
	assert_int_equal(fixture_open(&f), -EINVAL); /* both */
	f.options.period = 0;
	f.options.stack_bytes = 65536;
	assert_int_equal(fixture_open(&f), -EINVAL);
	f.options.stack_bytes = 100;
	assert_int_equal(fixture_open(&f), -EINVAL);
	f.options.stack_bytes = 8192;
	f.options.n_followers = PERF_MAX_FOLLOWERS + 1;
	assert_int_equal(fixture_open(&f), -EINVAL);
	f.options.n_followers = 0;
	f.options.n_cpus = 0;
	assert_int_equal(fixture_open(&f), -EINVAL);
	assert_null(f.source);
	fixture_deinit(&f);
}

static void test_no_such_event(void **state)
{
	struct fixture f;

	(void)state;
	skip_without(may_profile_machine(), "the whole machine may not be profiled by this user");
	fixture_init(&f);
	f.options.leader = (struct perf_spec){
		.name = "cycles",
		.type = PERF_TYPE_HARDWARE,
		.config = PERF_COUNT_HW_CPU_CYCLES,
		.code = FRAMES_ALL,
		.precise_ip = 3,
	};
	if (perf_spec_cycles() == 0) {
		/* a real counter: the ladder finds what it can do */
		assert_int_equal(fixture_open(&f), 0);
		f.source = perf_source_free(f.source);
		f.options.clock = CLOCK_BOOTTIME;
		assert_int_equal(fixture_open(&f), -EINVAL);
		assert_true(has_text(&f, "--clock"));
	} else {
		assert_int_equal(fixture_open(&f), -ENOENT);
		assert_int_equal(f.gate, PERF_GATE_NO_EVENT);
		assert_true(has_text(&f, "'cycles'") && has_text(&f, "cpu-clock"));
	}
	/* a follower is named, not its leader */
	f.options.leader = fixture_software("cpu-clock", PERF_COUNT_SW_CPU_CLOCK);
	f.options.clock = CLOCK_MONOTONIC;
	f.options.n_followers = 1;
	f.options.followers[0] = (struct perf_spec){
		.name = "nonsense", .type = PERF_TYPE_HARDWARE, .config = 99, .code = FRAMES_ALL};
	assert_true(fixture_open(&f) < 0);
	assert_true(has_text(&f, "'nonsense'"));
	fixture_deinit(&f);
}

static void test_filter(void **state)
{
	char text[] = "nonsense ==";
	struct fixture f;

	(void)state;
	skip_without(may_profile_machine(), "the whole machine may not be profiled by this user");
	fixture_init(&f);
	f.options.leader.filter = text; /* cpu-clock takes none at all */
	assert_true(fixture_open(&f) < 0);
	assert_int_equal(f.gate, PERF_GATE_OTHER);
	assert_true(has_text(&f, "filter 'nonsense =='"));
	f.options.leader.filter = NULL;
	fixture_deinit(&f);
}

static void test_offline_cpu(void **state)
{
	uint32_t cpus[2] = {0, 8000};
	struct fixture f;

	(void)state;
	skip_without(may_profile_machine(), "the whole machine may not be profiled by this user");
	fixture_init(&f);
	cpus[0] = f.cpus[0];
	f.options.cpus = cpus;
	f.options.n_cpus = 2;
	/* a CPU that does not exist is EINVAL to the kernel; one that went offline ENODEV */
	if (fixture_open(&f) == 0)
		assert_int_equal(perf_source_n_rings(f.source), 2);
	else
		assert_true(f.error[0]);
	fixture_deinit(&f);
}

/* Each row has both texts, whole; a brief one has no number. */
static void test_table(void **state)
{
	struct gate_text text;

	(void)state;
	for (enum gate_row row = 0; row < GATE_ROWS; row++) {
		const char *brief = gate_brief(row);

		text = gate_text(row, INT64_MIN, INT64_MIN);
		assert_in_range(strlen(text.cause), 10, sizeof(text.cause) - 2);
		assert_in_range(strlen(text.hint), 10, sizeof(text.hint) - 2);
		assert_false(brief && (strpbrk(brief, "0123456789") || strlen(brief) > 40));
	}
	text = gate_text(GATE_RATE, 5000, 1000);
	assert_string_equal(text.cause,
			    "5000 samples a second are above the kernel's limit of 1000");
	assert_string_equal(text.hint, "sudo sysctl kernel.perf_event_max_sample_rate=5000");
	text = gate_text(GATE_RINGS, 64, 512);
	assert_string_equal(text.cause,
			    "rings of 64 KiB a CPU instead of 512 (limit of locked memory)");
	assert_string_equal(text.hint, "sudo sysctl kernel.perf_event_mlock_kb=65536");
	/* Of every command that opens tracepoints, not of `record` alone. */
	assert_string_equal(gate_text(GATE_TRACEPOINTS, 2, 0).hint, "run as root");
	assert_string_equal(gate_text(GATE_TRACEFS, 0, 0).hint, "run as root");
}

static void test_kernel_names(void **state)
{
	struct gate_text text;

	(void)state;
	text = gate_kernel_names(0, 2, false);
	assert_string_equal(text.cause, "/proc/kallsyms shows no addresses "
					"(kernel.perf_event_paranoid = 2, no CAP_SYSLOG)");
	text = gate_kernel_names(1, 2, false);
	assert_string_equal(text.cause,
			    "/proc/kallsyms shows no addresses (kernel.kptr_restrict = 1, "
			    "kernel.perf_event_paranoid = 2, no CAP_SYSLOG)");
	assert_string_equal(text.hint,
			    "sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1");
	text = gate_kernel_names(2, 2, true);
	assert_string_equal(text.cause,
			    "/proc/kallsyms shows no addresses (kernel.kptr_restrict = 2)");
	assert_string_equal(text.hint, "sudo sysctl kernel.kptr_restrict=1");
}

static void test_sysctl(void **state)
{
	(void)state;
	assert_int_equal(gate_sysctl("no_such_thing", -7), -7);
	assert_int_equal(gate_sysctl("ostype", 5), 5); /* words */
	assert_true(gate_sysctl("pid_max", 0) > 300);
}

/* What needs no kernel to refuse it: each errno with its gate and its line. */
static void test_errors(void **state)
{
	static const struct {
		int error;
		uint32_t type;
		const char *probe;
		enum perf_gate gate;
		const char *has_text;
	} cases[] = {
		{ENOENT, PERF_TYPE_HARDWARE, NULL, PERF_GATE_NO_EVENT,
		 "no counter for 'it' (virtual machines often have none): use cpu-clock"},
		{ENODEV, PERF_TYPE_RAW, NULL, PERF_GATE_NO_EVENT, "use cpu-clock"},
		{ENXIO, PERF_TYPE_HW_CACHE, NULL, PERF_GATE_NO_EVENT, "use cpu-clock"},
		{EOPNOTSUPP, 31, NULL, PERF_GATE_NO_EVENT,
		 "no counter for 'it' that can be sampled"},
		{ENOENT, 8, "/bin/x", PERF_GATE_NO_EVENT,
		 "'it': the kernel cannot place this probe (No such file or directory)"},
		{EMFILE, PERF_TYPE_SOFTWARE, NULL, PERF_GATE_FILES, "too few file descriptors"},
		{ENFILE, PERF_TYPE_SOFTWARE, NULL, PERF_GATE_FILES, "too few file descriptors"},
		{ESRCH, PERF_TYPE_SOFTWARE, NULL, PERF_GATE_GONE,
		 "there is no process 4711 (any more)"},
		{EBUSY, PERF_TYPE_HARDWARE, NULL, PERF_GATE_OTHER,
		 "the counter for 'it' is in use by another profiler"},
		{E2BIG, PERF_TYPE_SOFTWARE, NULL, PERF_GATE_OTHER,
		 "the kernel refuses 'it' as it was asked for: Argument list too long"},
		{EINVAL, PERF_TYPE_SOFTWARE, NULL, PERF_GATE_OTHER,
		 "the kernel refuses 'it' as it was asked for: Invalid argument"},
	};
	const struct perf_options options = {.clock = CLOCK_MONOTONIC};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct perf_spec spec = {.name = "it", .type = cases[i].type, .code = FRAMES_ALL};
		const struct gate_case refused = {-cases[i].error, 4711, &spec, &options};
		char error[256] = "", probe[16];

		(void)snprintf(probe, sizeof(probe), "%s", cases[i].probe ? cases[i].probe : "");
		spec.probe_path = cases[i].probe ? probe : NULL;
		assert_int_equal(gate_explain(&refused, error, sizeof(error)), cases[i].gate);
		assert_non_null(strstr(error, cases[i].has_text));
	}
}

static void test_frequency(void **state)
{
	int64_t limit = gate_sysctl("perf_event_max_sample_rate", INT64_MAX);
	struct perf_options options = {.frequency = 1};
	char error[256] = "", hint[96];

	(void)state;
	assert_true(gate_frequency_allowed(&options, error, sizeof(error)));
	assert_string_equal(error, "");
	skip_without(limit < INT32_MAX, "this kernel has no limit");
	options.frequency = (uint64_t)limit + 1;
	assert_false(gate_frequency_allowed(&options, error, sizeof(error)));
	(void)snprintf(hint, sizeof(hint),
		       limit >= GATE_MOST_HZ
			       ? "; hint: -F max is the most that leaves programs time"
			       : "sudo sysctl kernel.perf_event_max_sample_rate=%lu, or -F max",
		       options.frequency);
	assert_non_null(strstr(error, hint));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_user),	      cmocka_unit_test(test_filtered),
		cmocka_unit_test(test_files),	      cmocka_unit_test(test_options),
		cmocka_unit_test(test_no_such_event), cmocka_unit_test(test_filter),
		cmocka_unit_test(test_offline_cpu),   cmocka_unit_test(test_table),
		cmocka_unit_test(test_kernel_names),  cmocka_unit_test(test_sysctl),
		cmocka_unit_test(test_errors),	      cmocka_unit_test(test_frequency),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
