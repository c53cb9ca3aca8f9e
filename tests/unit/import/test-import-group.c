/* test-import-group.c - `perf record -e '{a,b,c}:S'`: a's samples have what b and c counted, and a
 * sample of these is made wherever they grew, as `perf script` makes them. */
#include "tests/unit/import/import-fixture.h"

enum { ID_B2 = 0x22, ID_C = 0x13, ID_NOBODY = 0x99, MAX_WORDS = 40 };

static const struct import_options leader = {.no_inline = true};
static const struct import_options faults = {.no_inline = true, .event = "page-faults"};
static const struct import_options switches = {.no_inline = true, .event = "context-switches"};

static void put_member(struct buffer *b, const struct perf_event_attr *attr, const uint64_t *ids,
		       size_t n_ids)
{
	struct buffer body = {0};

	buffer_append(&body, attr, sizeof(*attr));
	buffer_append(&body, ids, n_ids * sizeof(*ids));
	put_record(b, 64, 0, body.data, body.len);
	buffer_deinit(&body);
}

/* cpu-clock, which leads, page-faults (of two CPUs) and context-switches. */
static void put_group(struct buffer *b, uint64_t format, bool inherit)
{
	static const uint64_t ids[][2] = {{ID_A}, {ID_B, ID_B2}, {ID_C}};
	static const uint64_t configs[] = {PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_PAGE_FAULTS,
					   PERF_COUNT_SW_CONTEXT_SWITCHES};

	buffer_append(b, "PERFILE2", 8);
	put64(b, 16);
	for (size_t i = 0; i < ARRAY_SIZE(configs); i++) {
		struct perf_event_attr attr = fixture_attr(configs[i]);

		attr.sample_type = CHAIN_TYPE | PERF_SAMPLE_READ;
		attr.read_format = PERF_FORMAT_GROUP | format;
		attr.sample_period = i ? 0 : 1000;
		attr.inherit = inherit;
		put_member(b, &attr, ids[i], i == 1 ? 2 : 1);
	}
	put_feature(b, 6, "x86_64");
	put_own_mapping(b, 7, 0);
}

struct reading {
	uint32_t tid;
	uint64_t nr; /* as in the record; 0: n */
	size_t n;    /* words of members */
	uint64_t words[MAX_WORDS];
};

/* In import_leaf, called by import_caller; its own period is 10101. */
static void put_reading(struct buffer *b, uint64_t time, const struct reading *r, size_t step)
{
	const uint64_t leaf = (uint64_t)(uintptr_t)import_leaf + 1;
	const uint64_t before[] = {
		ID_A, leaf, (uint64_t)r->tid << 32 | 7, time, 0, 10101, r->nr ? r->nr : r->n / step,
	};
	const uint64_t behind[] = {3, (uint64_t)-512, leaf, (uint64_t)(uintptr_t)import_caller + 9};
	struct buffer body = {0};

	buffer_append(&body, before, sizeof(before));
	buffer_append(&body, r->words, r->n * sizeof(uint64_t));
	buffer_append(&body, behind, sizeof(behind));
	put_record(b, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, body.data, body.len);
	buffer_deinit(&body);
}

static void import_all(const struct import_options *options, uint64_t format, bool inherit,
		       const struct reading *readings, size_t n, struct done *done)
{
	const size_t step = format & PERFWIND_FORMAT_LOST ? 3 : format & PERF_FORMAT_ID ? 2 : 1;
	struct buffer b = {0};

	put_group(&b, format, inherit);
	for (size_t i = 0; i < n; i++)
		put_reading(&b, 1000000 * (i + 1), &readings[i], step);
	run(&b, options, done);
	assert_int_equal(done->r, 0);
	assert_true(account_holds(&done->result.summary.account));
}

/* Faults: 54, none, 1, none.  Switches: none, 1, 1, 3. */
static const struct reading plain[] = {
	{7, 0, 6, {1000, ID_A, 54, ID_B, 0, ID_C}},
	{8, 0, 6, {2000, ID_A, 54, ID_B, 1, ID_C}},
	{7, 0, 6, {3000, ID_A, 55, ID_B, 2, ID_C}},
	{7, 0, 6, {4000, ID_A, 55, ID_B, 5, ID_C}},
};

static void test_leader(void **state)
{
	struct done done;

	(void)state;
	import_all(&leader, PERF_FORMAT_ID, false, plain, ARRAY_SIZE(plain), &done);
	assert_int_equal(done.result.summary.account.emitted, 4);
	assert_int_equal(done.result.summary.account.weight, 4 * 10101);
	assert_int_equal(done.result.summary.account.skipped[SKIP_NOT_IN_SCOPE], 5);
	assert_int_equal(done.result.summary.n_notes, 1);
	assert_string_equal(done.result.summary.notes[0],
			    "2 samples of page-faults, 3 samples of context-switches were left out "
			    "(-e EVENT takes another event)");
	done_deinit(&done);
}

static void test_members(void **state)
{
	struct done done;

	(void)state;
	import_all(&faults, PERF_FORMAT_ID, false, plain, ARRAY_SIZE(plain), &done);
	assert_samples(&done, "7/7 cpu 0 count 54: import_caller;import_leaf\n"
			      "7/7 cpu 0 count 55: import_caller;import_leaf\n");
	assert_int_equal(done.result.summary.account.weight, 55);
	assert_string_equal(done.result.event, "page-faults");
	assert_int_equal(done.result.period, 1000); /* the leader's */
	assert_string_equal(done.result.summary.notes[0],
			    "4 samples of cpu-clock, 3 samples of context-switches were left out "
			    "(-e EVENT takes another event)");
	done_deinit(&done);
	import_all(&switches, PERF_FORMAT_ID, false, plain, ARRAY_SIZE(plain), &done);
	assert_samples(&done, "7/8 cpu 0 count 1: import_caller;import_leaf\n"
			      "7/7 cpu 0 count 2: import_caller;import_leaf\n"
			      "7/7 cpu 0 count 5: import_caller;import_leaf\n");
	assert_int_equal(done.result.summary.account.weight, 5);
	done_deinit(&done);
}

/* Each id of an event counts alone; with LOST a member is three words. */
static void test_streams(void **state)
{
	static const struct reading readings[] = {
		{7, 0, 6, {1000, ID_A, 0, 10, ID_B, 0}},
		{7, 0, 6, {1000, ID_A, 0, 4, ID_B2, 1}},
		{7, 0, 6, {2000, ID_A, 0, 12, ID_B, 9}},
		{7, 0, 6, {2000, ID_A, 0, 4, ID_B2, 9}},
	};
	struct done done;

	(void)state;
	import_all(&faults, PERF_FORMAT_ID | PERFWIND_FORMAT_LOST, false, readings,
		   ARRAY_SIZE(readings), &done);
	assert_int_equal(done.result.summary.account.emitted, 3);
	assert_int_equal(done.result.summary.account.weight, 10 + 4 + 2);
	done_deinit(&done);
}

/* Threads that inherited the event have one id, and each its own count. */
static void test_inherited(void **state)
{
	static const struct reading readings[] = {
		{7, 0, 4, {1000, ID_A, 10, ID_B}},
		{8, 0, 4, {1000, ID_A, 3, ID_B}},
		{7, 0, 4, {2000, ID_A, 11, ID_B}},
		{8, 0, 4, {2000, ID_A, 5, ID_B}},
	};
	struct done done;

	(void)state;
	import_all(&faults, PERF_FORMAT_ID, true, readings, ARRAY_SIZE(readings), &done);
	assert_int_equal(done.result.summary.account.emitted, 4);
	assert_int_equal(done.result.summary.account.weight, 11 + 5);
	done_deinit(&done);
}

/* ---- what no kernel writes ---- */

static void check_hostile(const struct reading *readings, size_t n, uint64_t emitted,
			  uint64_t weight, const char *note)
{
	struct done done;

	import_all(&faults, PERF_FORMAT_ID, false, readings, n, &done);
	assert_int_equal(done.result.summary.account.emitted, emitted);
	assert_int_equal(done.result.summary.account.weight, weight);
	if (note)
		assert_true(has_text(&done, note));
	done_deinit(&done);
}

static void test_hostile(void **state)
{
	static const struct reading fallen[] = {
		{7, 0, 2, {9, ID_B}},
		{7, 0, 2, {3, ID_B}},
		{7, 0, 2, {UINT64_MAX, ID_B}},
		{7, 0, 2, {0, ID_B}},
	};
	static const struct reading nobody[] = {
		{7, 0, 4, {5, ID_NOBODY, 2, ID_B}},
		{7, 0, 4, {9, ID_NOBODY, 2, ID_B}},
	};
	static const struct reading huge[] = {
		{7, 1ull << 63, 2, {5, ID_B}},
		{7, 1ull << 60 | 1, 2, {5, ID_B}},
		{7, 100, 2, {5, ID_B}},
		{7, 0, 2, {6, ID_B}},
	};
	static const struct reading twice[] = {{7, 0, 6, {5, ID_B, 7, ID_B, 7, ID_B}}};

	(void)state;
	check_hostile(fallen, ARRAY_SIZE(fallen), 2, UINT64_MAX, NULL);
	check_hostile(nobody, ARRAY_SIZE(nobody), 1, 2,
		      "2 samples of a group's leader (:S) have counts of events that are not in "
		      "the file: those counts are left out");
	check_hostile(huge, ARRAY_SIZE(huge), 1, 6, "3 damaged records were left out");
	check_hostile(twice, ARRAY_SIZE(twice), 1, 7, NULL);
}

/* Values without ids belong to no event. */
static void test_no_ids(void **state)
{
	static const struct reading readings[] = {{7, 0, 3, {1000, 54, 2}}};
	struct done done;

	(void)state;
	import_all(&leader, 0, false, readings, ARRAY_SIZE(readings), &done);
	assert_int_equal(done.result.summary.account.emitted, 1);
	assert_int_equal(done.result.summary.account.received, 1);
	assert_true(has_text(&done, "1 samples of a group's leader (:S) have counts of events"));
	done_deinit(&done);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_leader),	cmocka_unit_test(test_members),
		cmocka_unit_test(test_streams), cmocka_unit_test(test_inherited),
		cmocka_unit_test(test_hostile), cmocka_unit_test(test_no_ids),
	};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
