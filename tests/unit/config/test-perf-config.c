/* test-perf-config.c - PerfEventConfig into session options: each case of the reference's own tests
 * (tests/README.md has the table), defaults, what excludes what, and what is refused with which
 * words.  Tracepoints, PMUs and cores are in a made-up /sys and /proc. */
#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/fake-root.h"

#include "config/config.h"
#include "config/perf-config.h"

static char error[512];

#define TRACING "/sys/kernel/tracing"
#define DEVICES "/sys/bus/event_source/devices"
static int set_up(void **state)
{
	(void)state;
	fake_root_make();
	put(TRACING "/events/sched/sched_switch/id", "372\n");
	put(TRACING "/events/odd/zero/id", "0\n");
	put(TRACING "/available_events", "sched:sched_switch\n");
	put(DEVICES "/armv8_pmuv3/type", "8\n");
	put(DEVICES "/cpu/type", "4\n");
	/* CPU 0: all four parts; CPU 1: no revision.  As an ARM machine prints them. */
	put("/proc/cpuinfo", "processor\t: 0\nBogoMIPS\t: 48.00\nCPU implementer\t: 0x41\n"
			     "CPU architecture: 8\nCPU variant\t: 0x2\nCPU part\t: 0xd0b\n"
			     "CPU revision\t: 5\n\nprocessor\t: 1\nCPU implementer\t: 0x51\n"
			     "CPU part\t: 0x800\nCPU variant\t: 0xa\n\nHardware\t: x\n");
	return 0;
}

/* What perf_config_new() borrows; freed with the test's folder. */
static struct config *read_so_far[1024];
static size_t n_read;

static int tear_down(void **state)
{
	(void)state;
	while (n_read > 0)
		(void)config_free(read_so_far[--n_read]);
	return fake_root_remove();
}

static struct perf_config_share share;

/* The options for the text of a PerfEventConfig; NULL: refused, with the line in error. */
static struct perf_config *read_config(const char *text)
{
	const struct perf_config_env env = {.root = root, .share = &share};
	struct perf_config *c = NULL;
	struct config *config;
	char whole[2048];
	int r;

	(void)snprintf(whole, sizeof(whole),
		       "data_sources { config { perf_event_config {\n%s\n} } }", text);
	if (config_read("f", whole, strlen(whole), CONFIG_TEXT, &config, error, sizeof(error)) < 0)
		fail_msg("%s", error);
	r = perf_config_new(&env, config->message->data_sources[0]->config->perf_event_config, &c,
			    error, sizeof(error));
	assert_true(n_read < 1024);
	read_so_far[n_read++] = config;
	if (r < 0) {
		assert_null(c);
		assert_true(*error);
	}
	return c;
}

static void config_freep(struct perf_config **c)
{
	*c = perf_config_free(*c);
}

#define GOOD(name, text)                                                      \
	_cleanup_(config_freep) struct perf_config *name = read_config(text); \
	if (!name)                                                            \
		fail_msg("%s", error);

static void assert_refused(const char *text, const char *line)
{
	_cleanup_(config_freep) struct perf_config *c = read_config(text);

	assert_null(c);
	assert_string_equal(error, line);
}

/* ---- the reference's cases ---- */

static void test_empty(void **state)
{
	struct perf_config *none = NULL;
	const struct perf_config_env env = {.root = root};

	(void)state;
	assert_int_equal(perf_config_new(&env, NULL, &none, error, sizeof(error)), 0);
	assert_int_equal(none->options.frequency, 10);
	assert_int_equal(none->options.n_specs, 1);
	assert_int_equal(none->specs[0].type, PERF_TYPE_SOFTWARE);
	assert_int_equal(none->specs[0].config, PERF_COUNT_SW_CPU_CLOCK);
	assert_true(none->options.machine && none->options.idle);
	assert_int_equal(none->options.frames, 0);
	assert_null(none->options.wanted);
	assert_true(none->options.n_cpus >= 1);
	(void)perf_config_free(none);
}

static void test_limits(void **state)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	GOOD(defaults, "");
	GOOD(stated, "ring_buffer_pages: 128 ring_buffer_read_period_ms: 250 "
		     "remote_descriptor_timeout_ms: 300 unwind_state_clear_period_ms: 300 "
		     "max_daemon_memory_kb: 4096 max_enqueued_footprint_kb: 512 "
		     "ignore_open_failure: true");
	GOOD(most, "ring_buffer_pages: 2147483648 ring_buffer_read_period_ms: 4294967295 "
		   "max_daemon_memory_kb: 4294967295 "
		   "max_enqueued_footprint_kb: 18446744073709551615");

	(void)state;
	assert_int_equal(defaults->options.ring_bytes, 0); /* as the rate wants */
	assert_int_equal(defaults->options.read_ms, 0);	   /* the session's choice */
	assert_int_equal(defaults->options.maps_wait_ms, 100);
	assert_int_equal(defaults->options.clear_ms, 300000);
	assert_int_equal(defaults->options.memory_kb, 0);
	assert_int_equal(defaults->options.enqueued_bytes, 0);
	assert_false(defaults->options.ignore_open_failure);
	assert_int_equal(stated->options.ring_bytes, 128 * page);
	assert_int_equal(stated->options.read_ms, 250);
	assert_int_equal(stated->options.maps_wait_ms, 300);
	assert_int_equal(stated->options.clear_ms, 300);
	assert_int_equal(stated->options.memory_kb, 4096);
	assert_int_equal(stated->options.enqueued_bytes, 512 << 10);
	assert_true(stated->options.ignore_open_failure);
	assert_int_equal(most->options.ring_bytes, (1ull << 31) * page);
	assert_int_equal(most->options.enqueued_bytes, UINT64_MAX << 10);
	assert_refused("ring_buffer_pages: 7", "ring_buffer_pages: 7 is not a power of two");
	assert_refused("target_installed_by: 'com.android.vending'",
		       "target_installed_by: installers of programs are known on Android only");
}

static void test_interval(void **state)
{
	GOOD(period, "timebase { period: 100 }");
	GOOD(frequency, "timebase { frequency: 4000 } sampling_frequency: 7");
	GOOD(legacy, "sampling_frequency: 5000");
	GOOD(none, "timebase { frequency: 0 }");

	(void)state;
	assert_int_equal(period->options.period, 100);
	assert_int_equal(period->options.frequency, 0);
	assert_int_equal(frequency->options.frequency, 4000);
	assert_int_equal(frequency->options.period, 0);
	assert_int_equal(legacy->options.frequency, 5000);
	assert_int_equal(none->options.frequency, 10);
	assert_refused("timebase { period: 9223372036854775808 }",
		       "timebase.period: 9223372036854775808 is too large: 9223372036854775807 is "
		       "the most");
}

static void test_timebase_event(void **state)
{
	GOOD(colon,
	     "timebase { tracepoint { name: 'sched:sched_switch' filter: 'prev_pid != 0' } }");
	GOOD(slash, "timebase { tracepoint { name: 'sched/sched_switch' } name: 'switches' }");
	GOOD(none, "timebase { }");
	GOOD(raw, "timebase { raw_event { type: 8 config: 0x18 config1: 2 config2: 3 } }");
	GOOD(pmu, "timebase { raw_event { pmu_name: 'armv8_pmuv3' config: 17 } }");
	GOOD(faults, "timebase { counter: SW_PAGE_FAULTS period: 1 }");
	GOOD(cycles, "timebase { counter: HW_CPU_CYCLES }");

	(void)state;
	assert_int_equal(colon->specs[0].type, PERF_TYPE_TRACEPOINT);
	assert_int_equal(colon->specs[0].config, 372);
	assert_string_equal(colon->specs[0].filter, "prev_pid != 0");
	assert_string_equal(colon->specs[0].tracepoint, "sched:sched_switch");
	assert_true(colon->specs[0].unnamed);
	assert_int_equal(slash->specs[0].config, 372);
	assert_string_equal(slash->specs[0].tracepoint, "sched/sched_switch"); /* as configured */
	assert_string_equal(slash->specs[0].name, "switches");
	assert_false(slash->specs[0].unnamed);
	assert_null(slash->specs[0].filter);
	assert_int_equal(none->specs[0].counter, 1);
	assert_int_equal(raw->specs[0].type, 8);
	assert_int_equal(raw->specs[0].config, 0x18);
	assert_int_equal(raw->specs[0].config1, 2);
	assert_int_equal(raw->specs[0].config2, 3);
	assert_int_equal(raw->specs[0].counter, -1);
	assert_int_equal(pmu->specs[0].type, 8);
	assert_int_equal(pmu->specs[0].config, 17);
	assert_int_equal(faults->specs[0].config, PERF_COUNT_SW_PAGE_FAULTS);
	assert_int_equal(cycles->specs[0].type, PERF_TYPE_HARDWARE);
	assert_int_equal(cycles->specs[0].precise_ip, 0);
}

static void test_every_counter(void **state)
{
	/* by number, 1 to 20: type, config (linux/perf_event.h) */
	static const uint8_t expected[][2] = {
		{1, 0}, {1, 2}, {1, 1}, {1, 3}, {1, 4}, {1, 5}, {1, 6}, {1, 7}, {1, 8}, {0, 0},
		{0, 1}, {0, 2}, {0, 3}, {0, 4}, {0, 5}, {0, 6}, {0, 7}, {0, 8}, {0, 9}, {1, 9},
	};
	const struct perf_config_env env = {.root = root};

	(void)state;
	for (int i = 0; i < 22; i++) {
		Pb__PerfEvents__Timebase timebase = PB__PERF_EVENTS__TIMEBASE__INIT;
		Pb__PerfEventConfig message = PB__PERF_EVENT_CONFIG__INIT;
		struct perf_config *c = NULL;
		char line[64];

		message.timebase = &timebase;
		timebase.event_case = PB__PERF_EVENTS__TIMEBASE__EVENT_COUNTER;
		timebase.counter = (Pb__PerfEvents__Counter)i;
		if (i == 0 || i == 21) {
			assert_int_equal(perf_config_new(&env, &message, &c, error, sizeof(error)),
					 -EINVAL);
			(void)snprintf(line, sizeof(line),
				       "timebase.counter: there is no counter %d", i);
			assert_string_equal(error, line);
			continue;
		}
		assert_int_equal(perf_config_new(&env, &message, &c, error, sizeof(error)), 0);
		assert_int_equal(c->specs[0].type, expected[i - 1][0]);
		assert_int_equal(c->specs[0].config, expected[i - 1][1]);
		assert_int_equal(c->specs[0].counter, i);
		(void)perf_config_free(c);
	}
}

static bool wants(const struct perf_config *c, uint32_t pid, const char *cmdline)
{
	return c->options.wanted(c->options.wanted_arg, pid, cmdline,
				 cmdline ? strlen(cmdline) : 0);
}

static void check_scope(const struct perf_config *c)
{
	assert_non_null(c->options.wanted);
	assert_true(c->options.wanted_by_cmdline);
	assert_true(wants(c, 42, "/bin/x"));
	assert_false(wants(c, 43, "/bin/echo")); /* excluded pid */
	assert_true(wants(c, 7, "/bin/echo"));
	assert_false(wants(c, 42, "/bin/top")); /* excluded name */
	assert_true(wants(c, 7, "/bin/extra"));
	assert_false(wants(c, 8, "/bin/more")); /* the one additional is taken */
}

static void test_scope(void **state)
{
	GOOD(new, "callstack_sampling { scope { target_pid: 42 target_cmdline: 'echo' "
		  "exclude_pid: 43 exclude_cmdline: 'top' additional_cmdline_count: 1 } }");
	GOOD(old, "all_cpus: true target_pid: 42 target_cmdline: 'echo' exclude_pid: 43 "
		  "exclude_cmdline: 'top' additional_cmdline_count: 1");
	GOOD(mixed, "callstack_sampling { } target_pid: 42");
	GOOD(both, "callstack_sampling { scope { target_pid: 1 } } target_pid: 42");
	GOOD(without, "target_pid: 42 kernel_frames: true");
	GOOD(empty, "callstack_sampling { scope { } }");

	(void)state;
	check_scope(new);
	check_scope(old);
	assert_true(wants(mixed, 42, NULL) && !wants(mixed, 1, NULL));
	assert_true(wants(both, 1, NULL) && !wants(both, 42, NULL)); /* the new one alone */
	assert_false(both->options.wanted_by_cmdline);
	/* without stacks there is no scope, and no kernel frames */
	assert_null(without->options.wanted);
	assert_int_equal(without->options.frames & FRAMES_KERNEL, 0);
	assert_null(empty->options.wanted);
}

static void test_shares(void **state)
{
	(void)state;
	share = (struct perf_config_share){0};
	for (int i = 0; i < 20; i++) {
		GOOD(c, "callstack_sampling { scope { process_shard_count: 4 } }");
		assert_int_equal(c->options.shard_count, 4);
		assert_true(c->options.shard < 4);
		assert_int_equal(c->options.shard, share.chosen); /* the session's, for all */
		for (uint32_t pid = 100; pid < 108; pid++)
			assert_int_equal(wants(c, pid, NULL), pid % 4 == share.chosen);
	}
	GOOD(other, "callstack_sampling { scope { process_shard_count: 7 } }");
	assert_int_equal(other->options.shard_count, 4);
	/* the legacy scope has none */
	share = (struct perf_config_share){0};
	GOOD(one, "callstack_sampling { scope { process_shard_count: 1 } }");
	assert_int_equal(one->options.shard, 0);
	share = (struct perf_config_share){0};
}

static void test_counter_only(void **state)
{
	GOOD(hw, "timebase { frequency: 1000 counter: HW_CPU_CYCLES }");
	GOOD(skip, "callstack_sampling { user_frames: UNWIND_SKIP }");

	(void)state;
	assert_int_equal(hw->options.frames, 0);
	assert_int_equal(skip->options.frames, 0);
}

static void test_polling(void **state)
{
	GOOD(alone, "timebase { poll_period_ms: 200 counter: SW_PAGE_FAULTS }");
	GOOD(group, "timebase { poll_period_ms: 200 timestamp_clock: PERF_CLOCK_MONOTONIC } "
		    "followers { counter: SW_TASK_CLOCK } ring_buffer_pages: 8");
	GOOD(zero, "timebase { poll_period_ms: 0 } callstack_sampling { }");

	(void)state;
	assert_int_equal(alone->options.poll_ms, 200);
	assert_int_equal(alone->options.frequency, 0);
	assert_int_equal(alone->options.period, 0);
	assert_int_equal(group->options.poll_ms, 200);
	assert_int_equal(group->options.n_specs, 2);
	assert_int_equal(group->options.clock, CLOCK_BOOTTIME);
	assert_int_equal(zero->options.poll_ms, 0);
	assert_int_equal(zero->options.frequency, 10);
	assert_refused(
		"timebase { poll_period_ms: 9 } callstack_sampling { }",
		"timebase.poll_period_ms: polled counts have no stacks: remove callstack_sampling");
	assert_refused(
		"timebase { poll_period_ms: 9 } all_cpus: true",
		"timebase.poll_period_ms: polled counts have no stacks: remove all_cpus (the "
		"older name of callstack_sampling)");
	assert_refused("timebase { poll_period_ms: 9 } ring_buffer_read_period_ms: 5",
		       "timebase.poll_period_ms: ring_buffer_read_period_ms cannot go with it");
}

static void test_stacks(void **state)
{
	static const struct {
		const char *text;
		unsigned frames;
		enum uw_engine_kind engine;
	} cases[] = {
		{"callstack_sampling { }", FRAMES_USER, UW_ENGINE_NATIVE},
		{"all_cpus: true", FRAMES_USER, UW_ENGINE_NATIVE},
		{"callstack_sampling { kernel_frames: true }", FRAMES_ALL, UW_ENGINE_NATIVE},
		{"callstack_sampling { } kernel_frames: true", FRAMES_ALL, UW_ENGINE_NATIVE},
		{"all_cpus: true kernel_frames: true", FRAMES_ALL, UW_ENGINE_NATIVE},
		{"callstack_sampling { user_frames: UNWIND_UNKNOWN }", FRAMES_USER,
		 UW_ENGINE_NATIVE},
		{"callstack_sampling { user_frames: UNWIND_DWARF }", FRAMES_USER, UW_ENGINE_NATIVE},
		{"callstack_sampling { user_frames: UNWIND_SKIP kernel_frames: true }",
		 FRAMES_KERNEL, UW_ENGINE_NATIVE},
		{"callstack_sampling { user_frames: UNWIND_FRAME_POINTER }", FRAMES_USER,
		 UW_ENGINE_FP_COPY},
		{"callstack_sampling { user_frames: UNWIND_KERNEL_FRAME_POINTER }", FRAMES_USER,
		 UW_ENGINE_FP},
		{"callstack_sampling { user_frames: UNWIND_KERNEL_FRAME_POINTER "
		 "kernel_frames: true }",
		 FRAMES_ALL, UW_ENGINE_FP},
	};
	Pb__PerfEventConfig__CallstackSampling sampling =
		PB__PERF_EVENT_CONFIG__CALLSTACK_SAMPLING__INIT;
	Pb__PerfEventConfig message = PB__PERF_EVENT_CONFIG__INIT;
	const struct perf_config_env env = {.root = root};
	struct perf_config *none;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		GOOD(c, cases[i].text);
		assert_int_equal(c->options.frames, cases[i].frames);
		assert_int_equal(c->options.engine, cases[i].engine);
	}
	/* a mode of a later day, which only the binary form can hold */
	message.callstack_sampling = &sampling;
	sampling.has_user_frames = true;
	sampling.user_frames = (Pb__PerfEventConfig__UnwindMode)5;
	assert_int_equal(perf_config_new(&env, &message, &none, error, sizeof(error)), -EINVAL);
	assert_string_equal(error, "callstack_sampling.user_frames: there is no unwind mode 5");
}

static void test_clocks(void **state)
{
	GOOD(usual, "");
	GOOD(boottime, "timebase { timestamp_clock: PERF_CLOCK_BOOTTIME }");
	GOOD(monotonic, "timebase { timestamp_clock: PERF_CLOCK_MONOTONIC }");
	GOOD(realtime, "timebase { timestamp_clock: PERF_CLOCK_REALTIME }");
	GOOD(unknown, "timebase { timestamp_clock: UNKNOWN_PERF_CLOCK }");

	(void)state;
	assert_int_equal(usual->options.clock, CLOCK_MONOTONIC_RAW);
	assert_int_equal(boottime->options.clock, CLOCK_BOOTTIME);
	assert_int_equal(monotonic->options.clock, CLOCK_MONOTONIC);
	assert_int_equal(realtime->options.clock, CLOCK_REALTIME);
	assert_int_equal(unknown->options.clock, CLOCK_MONOTONIC_RAW);
}

static void test_followers(void **state)
{
	GOOD(c, "timebase { counter: HW_CPU_CYCLES frequency: 100 } "
		"followers { raw_event { type: 4 config: 9 } name: 'nine' } "
		"followers { counter: HW_INSTRUCTIONS } "
		"followers { tracepoint { name: 'sched:sched_switch' } } followers { }");

	(void)state;
	assert_int_equal(c->options.n_specs, 5);
	assert_int_equal(c->specs[1].type, 4);
	assert_int_equal(c->specs[1].config, 9);
	assert_string_equal(c->specs[1].name, "nine");
	assert_int_equal(c->specs[2].config, PERF_COUNT_HW_INSTRUCTIONS);
	assert_int_equal(c->specs[3].config, 372);
	assert_int_equal(c->specs[4].config, PERF_COUNT_SW_CPU_CLOCK); /* nothing given */
	assert_refused("followers { } followers { } followers { } followers { } followers { } "
		       "followers { } followers { } followers { }",
		       "followers: 8 given, at most 7 are possible");
}

static void assert_excludes(const struct perf_spec *spec, bool user, bool kernel, bool hv)
{
	assert_int_equal(spec->code, (user ? 0 : FRAMES_USER) | (kernel ? 0 : FRAMES_KERNEL) |
					     (hv ? 0 : FRAMES_HYPERVISOR));
}

static void test_modifiers(void **state)
{
	GOOD(c, "timebase { modifiers: EVENT_MODIFIER_COUNT_USERSPACE } "
		"followers { modifiers: [EVENT_MODIFIER_COUNT_USERSPACE, "
		"EVENT_MODIFIER_COUNT_KERNEL] } "
		"followers { modifiers: UNKNOWN_EVENT_MODIFIER } followers { } "
		"followers { modifiers: EVENT_MODIFIER_COUNT_HYPERVISOR }");

	(void)state;
	assert_excludes(&c->specs[0], false, true, true);
	assert_excludes(&c->specs[1], false, false, true);
	assert_excludes(&c->specs[2], false, false, false);
	assert_excludes(&c->specs[3], false, false, false);
	assert_excludes(&c->specs[4], true, true, false);
}

/* ---- beyond them ---- */

static void test_refused_events(void **state)
{
	(void)state;
	assert_refused("timebase { raw_event { type: 4 pmu_name: 'cpu' } }",
		       "timebase.raw_event: type and pmu_name exclude each other");
	assert_refused("followers { raw_event { } }",
		       "followers[0].raw_event: type or pmu_name is required");
	assert_refused("timebase { raw_event { pmu_name: '../x' } }",
		       "timebase.raw_event.pmu_name: this machine has no PMU '../x'");
	assert_refused("timebase { raw_event { pmu_name: 'cpu/type' } }",
		       "timebase.raw_event.pmu_name: this machine has no PMU 'cpu/type'");
	assert_refused("timebase { raw_event { pmu_name: 'cpux' } }",
		       "timebase.raw_event.pmu_name: this machine has no PMU 'cpux'; did you mean "
		       "cpu?");
	assert_refused("followers { } followers { tracepoint { name: 'sched_switch' } }",
		       "followers[1].tracepoint.name: 'sched_switch' is not GROUP:NAME or "
		       "GROUP/NAME of a tracepoint");
	assert_refused("timebase { tracepoint { name: ':x' } }",
		       "timebase.tracepoint.name: ':x' is not GROUP:NAME or GROUP/NAME of a "
		       "tracepoint");
	assert_refused("timebase { tracepoint { name: 'x/' } }",
		       "timebase.tracepoint.name: 'x/' is not GROUP:NAME or GROUP/NAME of a "
		       "tracepoint");
	assert_refused("timebase { tracepoint { } }",
		       "timebase.tracepoint.name: '' is not GROUP:NAME or GROUP/NAME of a "
		       "tracepoint");
	assert_refused("timebase { tracepoint { name: 'odd:zero' } }",
		       "timebase.tracepoint.name: unknown tracepoint 'odd:zero'");
	assert_refused("timebase { tracepoint { name: '../sched:sched_switch' } }",
		       "timebase.tracepoint.name: '../sched:sched_switch' is not GROUP:NAME of a "
		       "tracepoint");
	assert_refused("timebase { tracepoint { name: 'sched:sched_swich' } }",
		       "timebase.tracepoint.name: unknown tracepoint 'sched:sched_swich'; did you "
		       "mean sched:sched_switch?");
}

static void test_long_names(void **state)
{
	char name[300], text[512];

	(void)state;
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	(void)snprintf(text, sizeof(text), "timebase { name: '%s' }", name);
	assert_refused(text, "timebase.name: a name of more than 127 bytes");
	(void)snprintf(text, sizeof(text), "timebase { tracepoint { name: 'a:%s' } }", name);
	assert_refused(text, "timebase.tracepoint.name: 'a:xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...' is "
			     "too long for a tracepoint");
	name[127] = 0;
	(void)snprintf(text, sizeof(text), "timebase { name: '%s' }", name);
	GOOD(c, text);
	assert_string_equal(c->specs[0].name, name);
}

static void test_cpus(void **state)
{
	uint32_t *online;
	size_t n;

	(void)state;
	assert_int_equal(perf_online_cpus(&online, &n), 0);
	GOOD(all, "");
	assert_int_equal(all->options.n_cpus, n);
	GOOD(first, "target_cpu: [4294967295, 0, 0]");
	assert_int_equal(first->options.n_cpus, online[0] == 0);
	assert_int_equal(first->options.cpus[0], 0);
	GOOD(by_id, "cpuid: ['41d0b2', 'x']");
	assert_int_equal(by_id->options.n_cpus, 1);
	assert_int_equal(by_id->options.cpus[0], 0);
	GOOD(whole, "cpuid: '41d0b25'");
	assert_int_equal(whole->options.n_cpus, 1);
	if (n > 1 && online[1] == 1) {
		GOOD(second, "cpuid: '51800a'");
		assert_int_equal(second->options.n_cpus, 1);
		assert_int_equal(second->options.cpus[0], 1);
		GOOD(any, "cpuid: ''");
		assert_int_equal(any->options.n_cpus, 2);
	}
	free(online);
	assert_refused("cpuid: '41d0b25f'", "cpuid: no CPU of this machine matches (CPUs have an "
					    "identity on ARM only)");
	assert_null(read_config("target_cpu: 4294967295"));
	assert_memory_equal(error, "target_cpu: none of these CPUs is online (", 42);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),	      cmocka_unit_test(test_limits),
		cmocka_unit_test(test_interval),      cmocka_unit_test(test_timebase_event),
		cmocka_unit_test(test_every_counter), cmocka_unit_test(test_scope),
		cmocka_unit_test(test_shares),	      cmocka_unit_test(test_counter_only),
		cmocka_unit_test(test_polling),	      cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_clocks),	      cmocka_unit_test(test_followers),
		cmocka_unit_test(test_modifiers),     cmocka_unit_test(test_refused_events),
		cmocka_unit_test(test_long_names),    cmocka_unit_test(test_cpus),
	};

	return cmocka_run_group_tests_name("perf-config", tests, set_up, tear_down);
}
