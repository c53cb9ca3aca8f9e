/* test-attr.c - attr.h: each option of a session as bits of perf_event_attr.  The numbers are from
 * linux/perf_event.h, written out: bits of the flag word by their position. */
#include <string.h>
#include <time.h>

#include "perf/attr.h"
#include "perf/uapi.h"
#include "tests/unit/cmocka.h"

enum {
	DISABLED = 1 << 0,
	INHERIT = 1 << 1,
	EXCLUDE_USER = 1 << 4,
	EXCLUDE_KERNEL = 1 << 5,
	EXCLUDE_HV = 1 << 6,
	MMAP = 1 << 8,
	COMM = 1 << 9,
	FREQ = 1 << 10,
	ENABLE_ON_EXEC = 1 << 12,
	TASK = 1 << 13,
	WATERMARK = 1 << 14,
	MMAP_DATA = 1 << 17,
	SAMPLE_ID_ALL = 1 << 18,
	EXCLUDE_CALLCHAIN_KERNEL = 1 << 21,
	EXCLUDE_CALLCHAIN_USER = 1 << 22,
	MMAP2 = 1 << 23,
	COMM_EXEC = 1 << 24,
	USE_CLOCKID = 1 << 25,
	CONTEXT_SWITCH = 1 << 26,
	KSYMBOL = 1 << 29,
};
#define BUILD_ID (1ull << 34)
#define INHERIT_THREAD (1ull << 35)

/* sample_type */
enum {
	IP = 1 << 0,
	TID = 1 << 1,
	TIME = 1 << 2,
	READ = 1 << 4,
	CALLCHAIN = 1 << 5,
	PERIOD = 1 << 8,
	RAW = 1 << 10,
	REGS_USER = 1 << 12,
	STACK_USER = 1 << 13,
	IDENTIFIER = 1 << 16,
};
/* read_format */
enum { TIMES = 1 | 2, GROUP = 1 << 3, LOST = 1 << 4 };

static const struct perf_options plain = {
	.leader = {.type = 1, .config = 0, .code = FRAMES_ALL},
	.frequency = 999,
	.clock = CLOCK_MONOTONIC,
};

static struct perf_event_attr leader_of(const struct perf_options *o)
{
	struct perf_event_attr attr;

	attr_leader(o, o->stack_bytes, &attr);
	assert_int_equal(attr.size, sizeof(attr));
	return attr;
}

static void test_plain_leader(void **state)
{
	struct perf_event_attr attr = leader_of(&plain);

	(void)state;
	assert_int_equal(attr.type, 1);
	assert_int_equal(attr.config, 0);
	assert_int_equal(perf_attr_flags(&attr), DISABLED | FREQ | SAMPLE_ID_ALL | USE_CLOCKID);
	assert_int_equal(attr.clockid, 1);
	assert_int_equal(attr.sample_freq, 999);
	assert_int_equal(attr.sample_type, IDENTIFIER | IP | TID | TIME | PERIOD);
	assert_int_equal(attr.read_format, TIMES);
	assert_int_equal(attr.sample_regs_user, 0);
	assert_int_equal(attr.sample_stack_user, 0);
}

static void test_period(void **state)
{
	struct perf_options o = plain;
	struct perf_event_attr attr;

	(void)state;
	o.frequency = 0;
	o.period = 100000;
	attr = leader_of(&o);
	assert_int_equal(perf_attr_flags(&attr) & FREQ, 0);
	assert_int_equal(attr.sample_period, 100000);
	assert_int_equal(attr.sample_type & PERIOD, 0); /* every record has the same */
	o.period = 1;
	attr = leader_of(&o);
	assert_int_equal(attr.sample_type & PERIOD, PERIOD); /* of one occurrence */
}

static void test_event(void **state)
{
	struct perf_options o = plain;
	struct perf_event_attr attr;
	static char path[] = "/bin/x";

	(void)state;
	o.leader = (struct perf_spec){.type = 8,
				      .config = 11,
				      .config1 = 12,
				      .config2 = 13,
				      .code = FRAMES_KERNEL,
				      .precise_ip = 2};
	attr = leader_of(&o);
	assert_int_equal(attr.type, 8);
	assert_int_equal(attr.config, 11);
	assert_int_equal(attr.config1, 12);
	assert_int_equal(attr.config2, 13);
	assert_int_equal(attr.precise_ip, 2);
	assert_int_equal(perf_attr_flags(&attr) & (EXCLUDE_USER | EXCLUDE_KERNEL | EXCLUDE_HV),
			 EXCLUDE_USER | EXCLUDE_HV);
	o.leader.probe_path = path;
	attr = leader_of(&o);
	assert_ptr_equal((void *)(uintptr_t)attr.config1, path);
}

static void test_stack(void **state)
{
	struct perf_options o = plain;
	struct perf_event_attr attr;

	(void)state;
	o.stack_bytes = 16384;
	attr = leader_of(&o);
	assert_int_equal(attr.sample_type & (REGS_USER | STACK_USER), REGS_USER | STACK_USER);
	assert_int_equal(attr.sample_stack_user, 16384);
	assert_int_equal(attr.sample_regs_user, PERF_REGS_MASK);
	/* The size of the argument counts: it is adapted. */
	attr_leader(&o, 0, &attr);
	assert_int_equal(attr.sample_type & (REGS_USER | STACK_USER), 0);
	assert_int_equal(attr.sample_stack_user, 0);
}

static void test_callchain(void **state)
{
	static const struct {
		unsigned callchain;
		bool chain_field, user_code;
		uint64_t type, flags;
	} cases[] = {
		{0, false, false, 0, 0},
		{FRAMES_KERNEL, false, false, CALLCHAIN, EXCLUDE_CALLCHAIN_USER},
		{FRAMES_USER, false, false, CALLCHAIN, EXCLUDE_CALLCHAIN_KERNEL},
		{FRAMES_ALL, false, false, CALLCHAIN, 0},
		/* The event itself has no kernel code. */
		{FRAMES_ALL, false, true, CALLCHAIN, EXCLUDE_CALLCHAIN_KERNEL},
		{FRAMES_KERNEL, false, true, 0, 0},
		{0, true, false, CALLCHAIN, EXCLUDE_CALLCHAIN_KERNEL | EXCLUDE_CALLCHAIN_USER},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct perf_options o = plain;
		struct perf_event_attr attr;

		o.callchain = cases[i].callchain;
		o.chain_field = cases[i].chain_field;
		o.leader.code = cases[i].user_code ? FRAMES_USER : FRAMES_ALL;
		attr = leader_of(&o);
		assert_int_equal(attr.sample_type & CALLCHAIN, cases[i].type);
		assert_int_equal(perf_attr_flags(&attr) &
					 (EXCLUDE_CALLCHAIN_KERNEL | EXCLUDE_CALLCHAIN_USER),
				 cases[i].flags);
	}
}

static void test_tasks(void **state)
{
	struct perf_options o = plain;
	struct perf_event_attr attr;

	(void)state;
	o.tasks = true;
	o.children = true;
	o.enable_on_exec = true;
	o.features.has[FEATURE_INHERIT_THREAD] = true;
	attr = leader_of(&o);
	assert_int_equal(perf_attr_flags(&attr) & (INHERIT | ENABLE_ON_EXEC | INHERIT_THREAD),
			 INHERIT | ENABLE_ON_EXEC);
	o.children = o.enable_on_exec = false;
	attr = leader_of(&o);
	assert_int_equal(perf_attr_flags(&attr) & (INHERIT | ENABLE_ON_EXEC | INHERIT_THREAD),
			 INHERIT | INHERIT_THREAD);
	o.features.has[FEATURE_INHERIT_THREAD] = false; /* an older kernel */
	attr = leader_of(&o);
	assert_int_equal(perf_attr_flags(&attr) & (INHERIT | INHERIT_THREAD), INHERIT);
	o.alone = true; /* one thread, and nothing that it starts */
	o.features.has[FEATURE_INHERIT_THREAD] = true;
	attr = leader_of(&o);
	assert_int_equal(perf_attr_flags(&attr) & (INHERIT | INHERIT_THREAD), 0);
	o.alone = false;
	/* Of whole CPUs nothing is inherited. */
	o.tasks = false;
	o.enable_on_exec = true;
	attr = leader_of(&o);
	assert_int_equal(perf_attr_flags(&attr) & (INHERIT | ENABLE_ON_EXEC), 0);
}

static void test_followers(void **state)
{
	struct perf_options o = plain;
	struct perf_event_attr attr;

	(void)state;
	o.n_followers = 2;
	o.followers[1] =
		(struct perf_spec){.type = 0, .config = 1, .code = FRAMES_USER | FRAMES_HYPERVISOR};
	o.features.has[FEATURE_FORMAT_LOST] = true;
	attr = leader_of(&o);
	assert_int_equal(attr.read_format, TIMES | GROUP | LOST);
	assert_int_equal(attr.sample_type & READ, READ);
	attr_follower(&o, 1, &attr);
	assert_int_equal(attr.type, 0);
	assert_int_equal(attr.config, 1);
	assert_int_equal(attr.read_format, TIMES | GROUP | LOST);
	assert_int_equal(attr.sample_type, 0);
	assert_int_equal(attr.sample_period, 0); /* never samples */
	/* On with its leader. */
	assert_int_equal(perf_attr_flags(&attr), EXCLUDE_KERNEL | USE_CLOCKID);
	o.tasks = o.children = o.enable_on_exec = true;
	attr_follower(&o, 1, &attr);
	assert_int_equal(perf_attr_flags(&attr), EXCLUDE_KERNEL | USE_CLOCKID | INHERIT);
}

static void test_polled(void **state)
{
	struct perf_options o = plain;
	struct perf_event_attr attr;

	(void)state;
	o.poll = true;
	attr = leader_of(&o);
	/* A counter: no clock, no samples. */
	assert_int_equal(perf_attr_flags(&attr), DISABLED);
	assert_int_equal(attr.sample_type, 0);
	assert_int_equal(attr.sample_freq, 0);
	assert_int_equal(attr.read_format, TIMES);
}

static void test_sideband(void **state)
{
	const uint64_t all = DISABLED | EXCLUDE_KERNEL | EXCLUDE_HV | SAMPLE_ID_ALL | USE_CLOCKID |
			     MMAP | MMAP2 | COMM | COMM_EXEC | TASK;
	struct perf_options o = plain;
	struct perf_event_attr attr;

	(void)state;
	attr_sideband(&o, &attr);
	assert_int_equal(attr.type, 1);
	assert_int_equal(attr.config, 9); /* PERF_COUNT_SW_DUMMY */
	assert_int_equal(perf_attr_flags(&attr), all);
	assert_int_equal(attr.sample_type, IDENTIFIER | TID | TIME);
	assert_int_equal(attr.read_format, 0);
	o.data_mappings = true;
	o.features.has[FEATURE_FORMAT_LOST] = o.features.has[FEATURE_KSYMBOL] = true;
	o.features.has[FEATURE_BUILD_ID] = true;
	attr_sideband(&o, &attr);
	assert_int_equal(attr.read_format, LOST);
	/* Build ids only on request: they damage the records of other profilers. */
	assert_int_equal(perf_attr_flags(&attr), all | MMAP_DATA | KSYMBOL);
	o.kernel_build_ids = true;
	attr_sideband(&o, &attr);
	assert_int_equal(perf_attr_flags(&attr), all | MMAP_DATA | KSYMBOL | BUILD_ID);
	/* A task's event has no use for the kernel's symbols. */
	o.tasks = o.children = true;
	attr_sideband(&o, &attr);
	assert_int_equal(perf_attr_flags(&attr), all | MMAP_DATA | BUILD_ID | INHERIT);
}

/* Samples of switches lie in the leader's ring, samples of wake-ups in the sideband ring: each with its fields. */
static void test_switches(void **state)
{
	struct perf_options o = plain;
	struct perf_event_attr attr, leader, sideband;

	(void)state;
	o.frequency = 0;
	o.period = 1001001;
	o.stack_bytes = 65528;
	o.callchain = FRAMES_KERNEL;
	o.leader.code = FRAMES_USER;
	o.switches = true;
	o.tasks = true;
	o.enable_on_exec = true;
	leader = leader_of(&o);
	attr_switch(&o, 97, &attr);
	assert_int_equal(attr.type, 1);
	assert_int_equal(attr.config, 3); /* PERF_COUNT_SW_CONTEXT_SWITCHES */
	assert_int_equal(attr.sample_period, 97);
	assert_int_equal(attr.sample_type, leader.sample_type);
	assert_int_equal(attr.sample_type & PERIOD, 0); /* with it the kernel would not thin */
	assert_int_equal(attr.sample_stack_user, 16384);
	assert_int_equal(perf_attr_flags(&attr) & (FREQ | EXCLUDE_USER | EXCLUDE_KERNEL), 0);
	attr_sideband(&o, &sideband);
	assert_int_equal(perf_attr_flags(&sideband) & CONTEXT_SWITCH, CONTEXT_SWITCH);
	assert_int_equal(sideband.sample_type, IDENTIFIER | TID | TIME);
	o.waking = 372;
	attr_sideband(&o, &sideband);
	attr_waking(&o, &attr);
	assert_int_equal(attr.type, 2); /* PERF_TYPE_TRACEPOINT */
	assert_int_equal(attr.config, 372);
	assert_int_equal(attr.sample_type, IDENTIFIER | TID | TIME | RAW);
	assert_int_equal(attr.sample_type, sideband.sample_type);
	/* it leads a group of its own */
	assert_int_equal(perf_attr_flags(&attr) & (DISABLED | ENABLE_ON_EXEC | INHERIT),
			 DISABLED | ENABLE_ON_EXEC | INHERIT);
	/* the same with stacks: in the form of the leader's samples, which then have the fields too */
	o.wakers = true;
	attr_leader(&o, 65528, &leader);
	attr_waker(&o, &attr);
	assert_int_equal(attr.type, 2);
	assert_int_equal(attr.config, 372);
	assert_int_equal(attr.sample_period, 1);
	assert_int_equal(attr.sample_stack_user, 16384);
	assert_int_equal(leader.sample_type & RAW, RAW);
	assert_int_equal(attr.sample_type, leader.sample_type);
}

static void test_anchor(void **state)
{
	struct perf_event_attr attr;

	(void)state;
	attr_anchor(&plain, 65536, &attr);
	assert_int_equal(attr.size, sizeof(attr));
	assert_int_equal(attr.config, 9);
	assert_int_equal(perf_attr_flags(&attr),
			 DISABLED | EXCLUDE_KERNEL | EXCLUDE_HV | USE_CLOCKID | WATERMARK);
	assert_int_equal(attr.clockid, 1);
	assert_int_equal(attr.wakeup_watermark, 65536);
	assert_int_equal(attr.sample_type, 0);
}

static void test_task_clock(void **state)
{
	struct perf_options o = plain;
	struct perf_event_attr attr;

	(void)state;
	o.tasks = o.children = o.enable_on_exec = true;
	attr_task_clock(&o, &attr);
	assert_int_equal(attr.type, 1);
	assert_int_equal(attr.config, 1);
	assert_int_equal(perf_attr_flags(&attr), DISABLED | EXCLUDE_KERNEL | EXCLUDE_HV |
							 USE_CLOCKID | INHERIT | ENABLE_ON_EXEC);
	assert_int_equal(attr.sample_type, 0);
	assert_int_equal(attr.sample_period, 0);
}

static void test_layout(void **state)
{
	struct perf_options o = plain;
	struct perf_event_attr attr;
	struct record_layout layout;

	(void)state;
	o.stack_bytes = 8192;
	o.n_followers = 1;
	attr = leader_of(&o);
	attr_layout(&attr, &layout);
	assert_int_equal(layout.sample_type, attr.sample_type);
	assert_int_equal(layout.read_format, TIMES | GROUP);
	assert_int_equal(layout.regs_mask, PERF_REGS_MASK);
	assert_true(layout.sample_id_all);
	assert_false(layout.build_id);
	assert_int_equal(layout.period, 1); /* by frequency: each record has its own */
	o.frequency = 0;
	o.period = 5000;
	attr = leader_of(&o);
	attr_layout(&attr, &layout);
	assert_int_equal(layout.period, 5000);
	o.features.has[FEATURE_BUILD_ID] = o.kernel_build_ids = true;
	attr_sideband(&o, &attr);
	attr_layout(&attr, &layout);
	assert_true(layout.build_id);
}

/* Counts alone: no sample, no ring, and the times by which a count is scaled. */
static void test_counter(void **state)
{
	const struct perf_spec spec = {
		.type = 4, .config = 0x1c2, .code = FRAMES_USER | FRAMES_HYPERVISOR};
	struct perf_event_attr attr;

	(void)state;
	attr_counter(&spec, &attr);
	assert_int_equal(attr.size, sizeof(attr));
	assert_int_equal(attr.type, 4);
	assert_int_equal(attr.config, 0x1c2);
	assert_int_equal(attr.read_format, TIMES);
	assert_int_equal(attr.sample_type, 0);
	assert_int_equal(attr.sample_period, 0);
	assert_int_equal(perf_attr_flags(&attr), EXCLUDE_KERNEL);
}

/* A record each millisecond of a task's CPU time, off at first, that wakes the reader. */
static void test_watch(void **state)
{
	struct perf_options o = plain;
	struct perf_event_attr attr;

	(void)state;
	o.tasks = o.children = true;
	o.enable_on_exec = true;
	attr_watch(&o, &attr);
	assert_int_equal(attr.type, 1);
	assert_int_equal(attr.config, 1); /* PERF_COUNT_SW_TASK_CLOCK */
	assert_int_equal(attr.sample_period, 1000000);
	assert_int_equal(attr.wakeup_events, 1);
	assert_int_equal(attr.sample_type, IDENTIFIER | TID | TIME);
	assert_int_equal(perf_attr_flags(&attr) & (DISABLED | INHERIT | ENABLE_ON_EXEC | FREQ |
						   WATERMARK | SAMPLE_ID_ALL | EXCLUDE_KERNEL),
			 DISABLED | INHERIT | SAMPLE_ID_ALL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain_leader), cmocka_unit_test(test_period),
		cmocka_unit_test(test_event),	     cmocka_unit_test(test_stack),
		cmocka_unit_test(test_callchain),    cmocka_unit_test(test_tasks),
		cmocka_unit_test(test_followers),    cmocka_unit_test(test_polled),
		cmocka_unit_test(test_sideband),     cmocka_unit_test(test_anchor),
		cmocka_unit_test(test_switches),     cmocka_unit_test(test_task_clock),
		cmocka_unit_test(test_layout),	     cmocka_unit_test(test_counter),
		cmocka_unit_test(test_watch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
