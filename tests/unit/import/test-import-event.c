/* test-import-event.c - which event of a file is imported, what is made of its samples, and what the trace
 * contains of it. */
#include <time.h>

#include "tests/unit/import/import-fixture.h"

#define STACK_BITS (PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER)

static struct perf_event_attr clock_attr(void)
{
	struct perf_event_attr attr = fixture_attr(PERF_COUNT_SW_CPU_CLOCK);

	attr.sample_type = CHAIN_TYPE;
	attr.sample_period = 1000;
	return attr;
}

/* Two events of these names, one sample of the first, two of the second. */
static void put_named(struct buffer *b, const char *first, const char *second)
{
	struct perf_event_attr attr = clock_attr();

	put_event(b, &attr, ID_A, first);
	put_event(b, &attr, ID_B, second);
	put_chain_sample(b, ID_A, 1000000000, 7);
	put_chain_sample(b, ID_B, 2000000000, 7);
	put_chain_sample(b, ID_B, 3000000000, 7);
}

static void check_choice(const char *wanted, const char *first, const char *second,
			 const char *chosen, uint64_t emitted)
{
	const struct import_options options = {.event = wanted};
	struct buffer b = {0};
	struct done done;

	put_named(&b, first, second);
	run(&b, &options, &done);
	assert_int_equal(done.r, 0);
	assert_string_equal(done.result.event, chosen);
	assert_int_equal(done.result.summary.account.emitted, emitted);
	assert_int_equal(done.result.period, 1000);
	assert_int_equal(done.result.frequency, 0);
	done_deinit(&done);
}

static void test_choice(void **state)
{
	(void)state;
	check_choice(NULL, "cycles:u", "cycles", "cycles:u", 1);
	check_choice("cycles", "cycles:u", "cycles", "cycles", 2); /* whole names first */
	check_choice("cycles", "instructions", "cycles/freq=99/", "cycles/freq=99/", 2);
	check_choice("cycles:u", "cycles:u", "cycles", "cycles:u", 1);
}

static void check_refused(struct buffer *b, const struct import_options *options, const char *why)
{
	struct done done;

	run(b, options, &done);
	assert_true(done.r < 0);
	assert_string_equal(done.error, why);
	done_deinit(&done);
}

static void test_no_such(void **state)
{
	const struct import_options part = {.event = "cycle"}, any = {0};
	struct perf_event_attr attr = fixture_attr(PERF_COUNT_SW_DUMMY);
	struct buffer b = {0};

	(void)state;
	put_named(&b, "cycles", "instructions:u");
	check_refused(&b, &part, "has no event cycle; it has: cycles instructions:u");
	put_event(&b, &attr, ID_A, "dummy:HG");
	put_sample(&b, ID_A, 1);
	check_refused(&b, &any, "has no event that is sampled; it has: dummy:HG");
}

/* perf's own helper event comes first, and is never what is meant. */
static void test_dummy(void **state)
{
	const struct import_options options = {0};
	struct perf_event_attr dummy = fixture_attr(PERF_COUNT_SW_DUMMY), attr = clock_attr();
	struct buffer b = {0};
	struct done done;

	(void)state;
	dummy.sample_type = CHAIN_TYPE;
	put_event(&b, &dummy, ID_A, "dummy:HG");
	put_event(&b, &attr, ID_B, "cpu-clock");
	put_chain_sample(&b, ID_B, 2000000000, 7);
	run(&b, &options, &done);
	assert_int_equal(done.r, 0);
	assert_string_equal(done.result.event, "cpu-clock");
	done_deinit(&done);
}

/* ---- stacks that cannot be unwound ---- */

/* A sample with empty registers and an empty stack. */
static void put_no_stack(struct buffer *b)
{
	const uint64_t words[] = {
		ID_A,
		(uint64_t)(uintptr_t)import_leaf + 1,
		7ull << 32 | 7,
		1000000000,
		0,
		10101,
		PERF_SAMPLE_REGS_ABI_NONE,
		0, /* bytes of stack */
	};

	put_record(b, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, words, sizeof(words));
}

static void put_stack_event(struct buffer *b, uint64_t regs, const char *arch)
{
	struct perf_event_attr attr = fixture_attr(PERF_COUNT_SW_CPU_CLOCK);

	attr.sample_type = FIXTURE_TYPE | STACK_BITS;
	attr.sample_regs_user = regs;
	attr.sample_stack_user = 64;
	put_event(b, &attr, ID_A, "cpu-clock");
	put_feature(b, 6, arch);
	put_own_mapping(b, 7, 0);
	put_no_stack(b);
}

/* Their addresses are what is left. */
static void check_addresses(uint64_t regs, const char *note)
{
	const struct import_options options = {.no_inline = true};
	struct buffer b = {0};
	struct done done;

	put_stack_event(&b, regs, "x86_64");
	run(&b, &options, &done);
	assert_int_equal(done.r, 0);
	assert_int_equal(done.result.summary.n_notes, 1);
	assert_string_equal(done.result.summary.notes[0], note);
	assert_samples(&done, "7/7 cpu 0 count 10101: import_leaf\n");
	done_deinit(&done);
}

static void test_registers(void **state)
{
	(void)state;
	check_addresses(
		1ull << 8,
		"its stacks cannot be unwound: no stack pointer or no instruction pointer was "
		"recorded (--user-regs)");
	check_addresses(
		uw_arch_regs_mask(UW_ARCH_X86_64) | 1ull << 40,
		"its stacks cannot be unwound: they have registers that x86_64 does not have");
}

static void test_engine(void **state)
{
	const struct import_options libdw = {.engine_chosen = true, .engine = UW_ENGINE_LIBDW};
	const struct import_options fp = {.engine_chosen = true, .engine = UW_ENGINE_FP};
	const struct import_options libunwind = {.engine_chosen = true,
						 .engine = UW_ENGINE_LIBUNWIND};
	struct buffer b = {0};
	struct done done;

	(void)state;
	put_named(&b, "cpu-clock", "other");
	run(&b, &libdw, &done);
	assert_true(
		has_text(&done, "--unwinder is ignored: the recording has no copies of stacks"));
	done_deinit(&done);
	put_named(&b, "cpu-clock", "other");
	run(&b, &fp, &done);
	assert_false(
		has_text(&done, "--unwinder is ignored: the recording has no copies of stacks"));
	done_deinit(&done);
	put_stack_event(&b, uw_arch_regs_mask(UW_ARCH_AARCH64), "aarch64");
	if (UW_ARCH_HOST != UW_ARCH_AARCH64)
		check_refused(
			&b, &libunwind,
			"was recorded on aarch64, and libunwind supports this machine's stacks "
			"only; use native or libdw");
	buffer_deinit(&b);
}

/* ---- what the trace contains ---- */

static Pb__Trace *import_one(const struct perf_event_attr *attr, const char *name)
{
	const struct import_options options = {0};
	struct buffer b = {0};
	struct done done;
	Pb__Trace *t;

	put_event(&b, attr, ID_A, name);
	put_chain_sample(&b, ID_A, 1000000000, 7);
	run(&b, &options, &done);
	assert_int_equal(done.r, 0);
	t = pb__trace__unpack(NULL, done.len, done.data);
	assert_non_null(t);
	done_deinit(&done);
	return t;
}

/* As an import of one sample by @attr reports it; *ret_trace is the caller's, and has it. */
static const Pb__PerfEvents__Timebase *timebase_of(const struct perf_event_attr *attr,
						   const char *name, Pb__Trace **ret_trace)
{
	const Pb__Trace *t = *ret_trace = import_one(attr, name);

	for (size_t i = 0; i < t->n_packet; i++)
		if (t->packet[i]->trace_packet_defaults)
			return t->packet[i]->trace_packet_defaults->perf_sample_defaults->timebase;
	fail_msg("no defaults");
	return NULL;
}

static void test_counter(void **state)
{
	struct perf_event_attr attr = clock_attr();
	const Pb__PerfEvents__Timebase *base;
	Pb__Trace *t;

	(void)state;
	attr.exclude_kernel = 1;
	attr.exclude_hv = 1;
	base = timebase_of(&attr, "cpu-clock:u", &t);
	assert_string_equal(base->name, "cpu-clock:u");
	assert_int_equal(base->event_case, PB__PERF_EVENTS__TIMEBASE__EVENT_COUNTER);
	assert_int_equal(base->counter, PB__PERF_EVENTS__COUNTER__SW_CPU_CLOCK);
	assert_int_equal(base->interval_case, PB__PERF_EVENTS__TIMEBASE__INTERVAL_PERIOD);
	assert_int_equal(base->period, 1000);
	assert_int_equal(base->n_modifiers, 1);
	assert_int_equal(base->modifiers[0],
			 PB__PERF_EVENTS__EVENT_MODIFIER__EVENT_MODIFIER_COUNT_USERSPACE);
	pb__trace__free_unpacked(t, NULL);
}

static void test_raw(void **state)
{
	struct perf_event_attr attr = clock_attr();
	const Pb__PerfEvents__Timebase *base;
	Pb__Trace *t;

	(void)state;
	attr.type = PERF_TYPE_RAW;
	attr.config = 0x1a8;
	attr.config1 = 7;
	attr.sample_period = 0; /* as damage has it: a trace needs one */
	base = timebase_of(&attr, "r1a8", &t);
	assert_int_equal(base->event_case, PB__PERF_EVENTS__TIMEBASE__EVENT_RAW_EVENT);
	assert_int_equal(base->raw_event->type, PERF_TYPE_RAW);
	assert_int_equal(base->raw_event->config, 0x1a8);
	assert_int_equal(base->raw_event->config1, 7);
	assert_int_equal(base->period, 1);
	assert_int_equal(base->n_modifiers, 0);
	pb__trace__free_unpacked(t, NULL);
}

static void test_tracepoint(void **state)
{
	struct perf_event_attr attr = clock_attr();
	const Pb__PerfEvents__Timebase *base;
	Pb__Trace *t;

	(void)state;
	attr.type = PERF_TYPE_TRACEPOINT;
	attr.config = 314;
	attr.freq = 1;
	attr.sample_freq = 49;
	base = timebase_of(&attr, "sched:sched_switch", &t);
	assert_int_equal(base->event_case, PB__PERF_EVENTS__TIMEBASE__EVENT_TRACEPOINT);
	assert_string_equal(base->tracepoint->name, "sched:sched_switch");
	assert_int_equal(base->interval_case, PB__PERF_EVENTS__TIMEBASE__INTERVAL_FREQUENCY);
	assert_int_equal(base->frequency, 49);
	pb__trace__free_unpacked(t, NULL);
}

static void put_words(struct buffer *b, uint64_t number, const void *data, size_t len)
{
	struct buffer body = {0};

	put64(&body, number);
	buffer_append(&body, data, len);
	put_record(b, 80, 0, body.data, body.len);
	buffer_deinit(&body);
}

static uint64_t clock_of(const Pb__ClockSnapshot *snapshot, uint32_t id)
{
	for (size_t i = 0; i < snapshot->n_clocks; i++)
		if (snapshot->clocks[i]->clock_id == id)
			return snapshot->clocks[i]->timestamp;
	return 0;
}

/* The wall clock at the first sample: what it was at another moment, and the time between them. */
static void test_past(void **state)
{
	const uint32_t cpus[] = {8, 6}; /* available, online: tools/perf/util/header.c */
	const uint64_t ram_kb = 2048, wall[] = {1ull | (uint64_t)CLOCK_MONOTONIC << 32,
						1700000000000000000, 400000000};
	const struct import_options options = {0};
	struct perf_event_attr attr = clock_attr();
	const Pb__ClockSnapshot *snapshot = NULL;
	const Pb__SystemInfo *system = NULL;
	struct buffer b = {0};
	struct done done;
	Pb__Trace *t;

	(void)state;
	attr.use_clockid = 1;
	attr.clockid = CLOCK_MONOTONIC;
	put_event(&b, &attr, ID_A, "cpu-clock");
	put_feature(&b, 4, "5.10.0-test");
	put_feature(&b, 6, "x86_64");
	put_words(&b, 7, cpus, sizeof(cpus));
	put_words(&b, 10, &ram_kb, sizeof(ram_kb));
	put_words(&b, 29, wall, sizeof(wall));
	put_chain_sample(&b, ID_A, 1000000000, 7);
	run(&b, &options, &done);
	assert_int_equal(done.r, 0);
	t = pb__trace__unpack(NULL, done.len, done.data);
	assert_non_null(t);
	for (size_t i = 0; i < t->n_packet; i++) {
		snapshot = snapshot ? snapshot : t->packet[i]->clock_snapshot;
		system = system ? system : t->packet[i]->system_info;
	}
	assert_non_null(snapshot);
	assert_non_null(system);
	assert_int_equal(clock_of(snapshot, PB__BUILTIN_CLOCK__BUILTIN_CLOCK_BOOTTIME), 1000000000);
	assert_int_equal(clock_of(snapshot, PB__BUILTIN_CLOCK__BUILTIN_CLOCK_REALTIME),
			 1700000000600000000);
	assert_string_equal(system->utsname->release, "5.10.0-test");
	assert_string_equal(system->utsname->machine, "x86_64");
	assert_int_equal(system->num_cpus, 8);
	assert_int_equal(system->system_ram_bytes, 2048 << 10);
	pb__trace__free_unpacked(t, NULL);
	done_deinit(&done);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_choice), cmocka_unit_test(test_no_such),
		cmocka_unit_test(test_dummy),  cmocka_unit_test(test_registers),
		cmocka_unit_test(test_engine), cmocka_unit_test(test_counter),
		cmocka_unit_test(test_raw),    cmocka_unit_test(test_tracepoint),
		cmocka_unit_test(test_past),
	};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
