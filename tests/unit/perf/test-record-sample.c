/* test-record-sample.c - record.h: samples of every layout, and damage.
 * Layouts by hand after linux/perf_event.h. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "perf/record.h"
#include "tests/unit/perf/fake-ring.h"

static struct fake_record rec;

static int parse(const struct record_layout *layout, struct record_sample *ret_sample)
{
	memset(ret_sample, 0xee, sizeof(*ret_sample)); /* what is not set must not be 0 by luck */
	return record_parse_sample(layout, fake_end(&rec), ret_sample);
}

/* What perfwind asks for, word by word. */
static void test_our_sample(void **state)
{
	const struct record_layout layout = {
		.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID |
			       PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD |
			       PERF_SAMPLE_READ | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER |
			       PERF_SAMPLE_STACK_USER,
		.read_format = PERF_FORMAT_GROUP,
		.regs_mask = 0x7,
		.sample_id_all = true,
	};
	struct record_sample sample;
	uint64_t time = 0;

	(void)state;
	fake_begin(&rec, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER | PERF_RECORD_MISC_EXACT_IP);
	fake_word(&rec, 0x1d);
	fake_word(&rec, 0x401234);
	fake_pair(&rec, 100, 101);
	fake_word(&rec, 5000000001);
	fake_pair(&rec, 3, 0xffffffff); /* cpu, reserved */
	fake_word(&rec, 1001001);
	fake_word(&rec, 2); /* READ: nr, the leader, one follower */
	fake_word(&rec, 777);
	fake_word(&rec, 888);
	fake_word(&rec, 3); /* CALLCHAIN */
	fake_word(&rec, PERF_CONTEXT_KERNEL);
	fake_word(&rec, 0xffffffff81000010);
	fake_word(&rec, 0xffffffff81000020);
	fake_word(&rec, PERF_SAMPLE_REGS_ABI_64);
	fake_word(&rec, 11);
	fake_word(&rec, 12);
	fake_word(&rec, 13);
	fake_word(&rec, 24); /* STACK: room, bytes, dyn_size */
	fake_word(&rec, 0xaaaa);
	fake_word(&rec, 0xbbbb);
	fake_word(&rec, 0xcccc);
	fake_word(&rec, 16);

	assert_int_equal(parse(&layout, &sample), 0);
	assert_int_equal(sample.id, 0x1d);
	assert_int_equal(sample.ip, 0x401234);
	assert_int_equal(sample.pid, 100);
	assert_int_equal(sample.tid, 101);
	assert_int_equal(sample.time, 5000000001);
	assert_int_equal(sample.cpu, 3);
	assert_int_equal(sample.period, 1001001);
	assert_int_equal(sample.cpu_mode, 2);
	assert_int_equal(sample.n_counts, 2);
	assert_int_equal(sample.counts[0], 777);
	assert_int_equal(sample.counts[1], 888);
	assert_int_equal(sample.n_group, 2);
	assert_int_equal(sample.group[1], 888);
	assert_int_equal(sample.enabled_ns, 0);
	assert_int_equal(sample.n_chain, 3);
	assert_ptr_equal(sample.chain, &rec.words[11]);
	assert_int_equal(sample.chain[0], PERF_CONTEXT_KERNEL);
	assert_int_equal(sample.regs_abi, 2);
	assert_ptr_equal(sample.regs, &rec.words[15]);
	assert_ptr_equal(sample.stack, &rec.words[19]);
	assert_int_equal(sample.stack_room, 24);
	assert_int_equal(sample.stack_len, 16);
	assert_int_equal(sample.cgroup, 0);
	assert_true(record_time(&layout, fake_end(&rec), &time));
	assert_int_equal(time, 5000000001);

	fake_word(&rec, 0); /* padding */
	fake_word(&rec, 0);
	assert_int_equal(parse(&layout, &sample), 0);
	assert_int_equal(sample.stack_len, 16);
}

/* A layout with nothing gives zeros. */
static void test_empty_sample(void **state)
{
	const struct record_layout layout = {0};
	struct record_sample sample;
	uint64_t time;

	(void)state;
	fake_begin(&rec, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL);
	assert_int_equal(parse(&layout, &sample), 0);
	assert_int_equal(sample.id | sample.ip | sample.time | sample.period | sample.pid |
				 sample.tid | sample.cpu,
			 0);
	assert_null(sample.group);
	assert_int_equal(sample.n_counts | sample.n_group | sample.n_chain | sample.regs_abi |
				 sample.cgroup,
			 0);
	assert_int_equal(
		sample.enabled_ns | sample.running_ns | sample.stack_len | sample.stack_room, 0);
	assert_null(sample.chain);
	assert_null(sample.regs);
	assert_null(sample.stack);
	assert_int_equal(sample.cpu_mode, 1);
	assert_false(record_time(&layout, fake_end(&rec), &time));
}

/* Writes a sample of any layout.  Each field has its own value; what `expect` states is what must
 * come back. */
static void write_sample(const struct record_layout *layout, uint64_t random,
			 struct record_sample *expect)
{
	const uint64_t t = layout->sample_type;
	const uint64_t n_chain = random % 5, n_branches = random / 5 % 4,
		       room = 8 * (random / 20 % 4);
	const uint64_t format = layout->read_format, n_counts = random / 80 % 12;
	const bool abi = random / 960 % 2;

	*expect = (struct record_sample){.cpu_mode = 2};
	fake_begin(&rec, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
	if (t & PERF_SAMPLE_IDENTIFIER)
		fake_word(&rec, expect->id = 0x1d);
	if (t & PERF_SAMPLE_IP)
		fake_word(&rec, expect->ip = 0x1b);
	if (t & PERF_SAMPLE_TID)
		fake_pair(&rec, expect->pid = 0x91d, expect->tid = 0x71d);
	if (t & PERF_SAMPLE_TIME)
		fake_word(&rec, expect->time = 0x713e);
	if (t & PERF_SAMPLE_ADDR)
		fake_word(&rec, 0xadd8);
	if (t & PERF_SAMPLE_ID)
		fake_word(&rec, expect->id = 0x1d);
	if (t & PERF_SAMPLE_STREAM_ID)
		fake_word(&rec, 0x578);
	if (t & PERF_SAMPLE_CPU)
		fake_pair(&rec, expect->cpu = 5, 0);
	if (t & PERF_SAMPLE_PERIOD)
		fake_word(&rec, expect->period = 0x9e8);
	if (t & PERF_SAMPLE_READ) {
		const bool group = format & PERF_FORMAT_GROUP;

		expect->n_counts = group ? (uint32_t)min_u64(n_counts, 8) : 1;
		fake_word(&rec, group ? n_counts : 0x100);
		expect->counts[0] = 0x100;
		if (format & PERF_FORMAT_TOTAL_TIME_ENABLED)
			fake_word(&rec, expect->enabled_ns = 0xe4a);
		if (format & PERF_FORMAT_TOTAL_TIME_RUNNING)
			fake_word(&rec, expect->running_ns = 0x844);
		expect->group = group ? &rec.words[rec.n] : NULL;
		expect->n_group = group ? n_counts : 0;
		for (uint64_t i = 0; i < (group ? n_counts : 1); i++) {
			if (group)
				fake_word(&rec, 0x100 + i);
			if (i < 8)
				expect->counts[i] = 0x100 + i;
			if (format & PERF_FORMAT_ID)
				fake_word(&rec, 0x200 + i);
			if (format & PERFWIND_FORMAT_LOST)
				fake_word(&rec, 0x300 + i);
		}
	}
	if (t & PERF_SAMPLE_CALLCHAIN) {
		fake_word(&rec, expect->n_chain = n_chain);
		expect->chain = &rec.words[rec.n];
		for (uint64_t i = 0; i < n_chain; i++)
			fake_word(&rec, 0x400 + i);
	}
	if (t & PERF_SAMPLE_RAW) {
		fake_pair(&rec, (uint32_t)(4 + 8 * n_chain), 0x8a3);
		for (uint64_t i = 0; i < n_chain; i++)
			fake_word(&rec, 0x8a3);
	}
	if (t & PERF_SAMPLE_BRANCH_STACK) {
		fake_word(&rec, n_branches);
		if (layout->branch_sample_type & 1 << 17)
			fake_word(&rec, 0x3d);
		for (uint64_t i = 0;
		     i < n_branches * (layout->branch_sample_type & 1 << 19 ? 4 : 3); i++)
			fake_word(&rec, 0xb8a + i);
	}
	if (t & PERF_SAMPLE_REGS_USER) {
		fake_word(&rec, expect->regs_abi = abi ? 2 : 0);
		expect->regs = abi ? &rec.words[rec.n] : NULL;
		for (int i = 0; abi && i < __builtin_popcountll(layout->regs_mask); i++)
			fake_word(&rec, 0x8e6);
	}
	if (t & PERF_SAMPLE_STACK_USER) {
		fake_word(&rec, expect->stack_room = (uint32_t)room);
		expect->stack = room ? (const uint8_t *)&rec.words[rec.n] : NULL;
		for (uint64_t i = 0; i < room / 8; i++)
			fake_word(&rec, 0x57ac);
		if (room)
			fake_word(&rec, expect->stack_len = (uint32_t)(random / 1920 % (room + 1)));
	}
	if (t & (PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT))
		fake_word(&rec, 0x3e1);
	if (t & PERF_SAMPLE_DATA_SRC)
		fake_word(&rec, 0xda7a);
	if (t & PERF_SAMPLE_TRANSACTION)
		fake_word(&rec, 0x78a);
	if (t & PERF_SAMPLE_REGS_INTR) {
		fake_word(&rec, abi ? 1 : 0);
		for (int i = 0; abi && i < __builtin_popcountll(layout->regs_intr_mask); i++)
			fake_word(&rec, 0x8e6);
	}
	if (t & PERF_SAMPLE_PHYS_ADDR)
		fake_word(&rec, 0x9458);
	if (t & PERF_SAMPLE_CGROUP)
		fake_word(&rec, expect->cgroup = 0xc68);
	if (t & PERF_SAMPLE_DATA_PAGE_SIZE)
		fake_word(&rec, 4096);
	if (t & PERF_SAMPLE_CODE_PAGE_SIZE)
		fake_word(&rec, 4096);
	if (t & PERF_SAMPLE_AUX) {
		fake_word(&rec, 8 * n_branches);
		for (uint64_t i = 0; i < n_branches; i++)
			fake_word(&rec, 0xa0c);
	}
}

static void check_same(const struct record_sample *got, const struct record_sample *expect)
{
	assert_int_equal(got->id, expect->id);
	assert_int_equal(got->ip, expect->ip);
	assert_int_equal(got->time, expect->time);
	assert_int_equal(got->period, expect->period);
	assert_int_equal(got->pid, expect->pid);
	assert_int_equal(got->tid, expect->tid);
	assert_int_equal(got->cpu, expect->cpu);
	assert_int_equal(got->cpu_mode, expect->cpu_mode);
	assert_int_equal(got->n_counts, expect->n_counts);
	assert_ptr_equal(got->group, expect->group);
	assert_int_equal(got->n_group, expect->n_group);
	for (uint32_t i = 0; i < expect->n_counts; i++)
		assert_int_equal(got->counts[i], expect->counts[i]);
	assert_int_equal(got->enabled_ns, expect->enabled_ns);
	assert_int_equal(got->running_ns, expect->running_ns);
	assert_int_equal(got->cgroup, expect->cgroup);
	assert_ptr_equal(got->chain, expect->chain);
	assert_int_equal(got->n_chain, expect->n_chain);
	assert_int_equal(got->regs_abi, expect->regs_abi);
	assert_ptr_equal(got->regs, expect->regs);
	assert_ptr_equal(got->stack, expect->stack);
	assert_int_equal(got->stack_len, expect->stack_len);
	assert_int_equal(got->stack_room, expect->stack_room);
}

/* Layouts of all 25 sample_type bits and all read_format bits: every field is found, and a record
 * that is any number of words shorter is refused. */
static void test_any_layout(void **state)
{
	uint64_t random = 0x9e3779b97f4a7c15;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		const struct record_layout layout = {
			/* every other round thin: few fields, so that short records are met too */
			.sample_type = fake_random(&random) &
				       (round % 2 ? fake_random(&random) : ~0ull) & 0x1ffffff,
			.read_format = fake_random(&random) & 0x1f,
			.regs_mask = fake_random(&random) & 0xff0fff,
			.regs_intr_mask = fake_random(&random) & 0xff0fff,
			.branch_sample_type = fake_random(&random) & (1 << 17 | 1 << 19),
		};
		struct record_sample expect, got;
		uint64_t time = 0;

		write_sample(&layout, fake_random(&random) >> 8, &expect);
		assert_int_equal(parse(&layout, &got), 0);
		check_same(&got, &expect);
		assert_int_equal(record_time(&layout, fake_end(&rec), &time),
				 !!(layout.sample_type & PERF_SAMPLE_TIME));
		assert_int_equal(time, expect.time);
		for (size_t n = 1; n < rec.n && round % 10 == 0; n++) {
			struct perf_event_header *shorter = fake_exact(&rec, n);

			assert_int_equal(record_parse_sample(&layout, shorter, &got), -EBADMSG);
			(void)record_time(&layout, shorter, &time);
			free(shorter);
		}
	}
}

/* Counts and sizes inside a sample that lie. */
static void test_lying_sample(void **state)
{
	static const struct {
		uint64_t sample_type, read_format;
		uint64_t words[4];
		size_t n;
		int result;
	} cases[] = {
		{PERF_SAMPLE_CALLCHAIN, 0, {2, 1, 1}, 3, 0},
		{PERF_SAMPLE_CALLCHAIN, 0, {3, 1, 1}, 3, -EBADMSG},
		{PERF_SAMPLE_CALLCHAIN, 0, {UINT64_MAX, 1, 1}, 3, -EBADMSG},
		{PERF_SAMPLE_CALLCHAIN, 0, {1ull << 61, 1, 1}, 3, -EBADMSG}, /* x 8 is 0 */
		{PERF_SAMPLE_READ, PERF_FORMAT_GROUP, {3, 1, 2, 3}, 4, 0},
		{PERF_SAMPLE_READ, PERF_FORMAT_GROUP, {4, 1, 2, 3}, 4, -EBADMSG},
		{PERF_SAMPLE_READ, PERF_FORMAT_GROUP, {1ull << 61, 1, 2, 3}, 4, -EBADMSG},
		{PERF_SAMPLE_READ,
		 PERF_FORMAT_GROUP | PERF_FORMAT_ID,
		 {1ull << 63, 1, 2, 3},
		 4,
		 -EBADMSG}, /* x 2 is 0 */
		{PERF_SAMPLE_RAW, 0, {4}, 1, 0},
		{PERF_SAMPLE_RAW, 0, {12, 1}, 2, 0},
		{PERF_SAMPLE_RAW, 0, {5, 1}, 2, -EBADMSG}, /* what follows would not be aligned */
		{PERF_SAMPLE_RAW, 0, {20, 1}, 2, -EBADMSG},
		{PERF_SAMPLE_RAW, 0, {0xfffffffc, 1}, 2, -EBADMSG}, /* 4 + size is 0 in 32 bits */
		{PERF_SAMPLE_BRANCH_STACK, 0, {0}, 1, 0},
		{PERF_SAMPLE_BRANCH_STACK, 0, {1, 1, 1, 1}, 4, 0},
		{PERF_SAMPLE_BRANCH_STACK, 0, {2, 1, 1, 1}, 4, -EBADMSG},
		{PERF_SAMPLE_BRANCH_STACK,
		 0,
		 {0x5555555555555556, 1, 1, 1},
		 4,
		 -EBADMSG}, /* x 3 is 2 */
		{PERF_SAMPLE_REGS_USER, 0, {0}, 1, 0},
		{PERF_SAMPLE_REGS_USER, 0, {1, 1, 1}, 3, 0},
		{PERF_SAMPLE_REGS_USER, 0, {2, 1, 1}, 3, 0},
		{PERF_SAMPLE_REGS_USER, 0, {2, 1}, 2, -EBADMSG},
		{PERF_SAMPLE_REGS_USER, 0, {3, 1, 1}, 3, -EBADMSG},
		{PERF_SAMPLE_STACK_USER, 0, {0}, 1, 0},
		{PERF_SAMPLE_STACK_USER, 0, {16, 1, 1, 16}, 4, 0},
		{PERF_SAMPLE_STACK_USER, 0, {16, 1, 1, 0}, 4, 0},
		{PERF_SAMPLE_STACK_USER, 0, {16, 1, 1, 17}, 4, -EBADMSG},
		{PERF_SAMPLE_STACK_USER, 0, {16, 1, 1, UINT64_MAX}, 4, -EBADMSG},
		{PERF_SAMPLE_STACK_USER, 0, {12, 1, 1, 1}, 4, -EBADMSG},
		{PERF_SAMPLE_STACK_USER, 0, {24, 1, 1, 1}, 4, -EBADMSG}, /* no room for dyn_size */
		{PERF_SAMPLE_STACK_USER, 0, {UINT64_MAX - 7, 1, 1, 1}, 4, -EBADMSG},
		{PERF_SAMPLE_AUX, 0, {8, 1}, 2, 0},
		{PERF_SAMPLE_AUX, 0, {4, 1}, 2, -EBADMSG},
		{PERF_SAMPLE_AUX, 0, {16, 1}, 2, -EBADMSG},
		{1u << 25, 0, {0}, 1, -EOPNOTSUPP},
	};
	struct perf_event_header header = {.type = PERF_RECORD_SAMPLE, .size = 4};
	struct record_sample sample;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct record_layout layout = {.sample_type = cases[i].sample_type,
						     .read_format = cases[i].read_format,
						     .regs_mask = 0x3};
		struct perf_event_header *record;

		fake_begin(&rec, PERF_RECORD_SAMPLE, 0);
		for (size_t j = 0; j < cases[i].n; j++)
			fake_word(&rec, cases[i].words[j]);
		fake_end(&rec);
		record = fake_exact(&rec, rec.n);
		if (record_parse_sample(&layout, record, &sample) != cases[i].result)
			fail_msg("case %zu: not %d", i, cases[i].result);
		free(record);
	}
	/* A size below the header's own is an empty body. */
	assert_int_equal(record_parse_sample(&(struct record_layout){.sample_type = PERF_SAMPLE_IP},
					     &header, &sample),
			 -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_our_sample),
		cmocka_unit_test(test_empty_sample),
		cmocka_unit_test(test_any_layout),
		cmocka_unit_test(test_lying_sample),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
