/* test-counters.c - counts of software events of this process, groups, refused events, rows. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "perf/counters.h"
#include "tests/unit/cmocka.h"

static struct perf_spec software(uint64_t config)
{
	struct perf_spec spec = {
		.type = PERF_TYPE_SOFTWARE, .config = config, .code = FRAMES_USER, .counter = -1};

	(void)snprintf(spec.name, sizeof(spec.name), "software-%u", (unsigned)config);
	return spec;
}

/* A type that no PMU has. */
static struct perf_spec absent(void)
{
	return (struct perf_spec){
		.name = "absent", .type = 0x7ffffff0, .code = FRAMES_USER, .counter = -1};
}

static const struct counters_target self = {.tid = 0, .cpu = -1, .cgroup_fd = -1};

static void touch_pages(size_t n)
{
	char *pages =
		mmap(NULL, n * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(pages, MAP_FAILED);
	assert_int_equal(madvise(pages, n * 4096, MADV_NOHUGEPAGE) < 0 && errno != EINVAL, 0);
	for (size_t i = 0; i < n; i++)
		((volatile char *)pages)[i * 4096] = 1;
	assert_int_equal(munmap(pages, n * 4096), 0);
}

static struct counters *open_self(const struct perf_spec *specs, const uint8_t *groups, size_t n)
{
	const struct counters_options options = {.specs = specs, .groups = groups, .n = n};
	struct counters *c;
	char error[256];

	assert_int_equal(counters_new(&options, &c), 0);
	assert_int_equal(counters_add(c, &self, error, sizeof(error)), 0);
	return c;
}

/* 200 new pages are 200 faults at least; a second read has what is new alone. */
static void test_count(void **state)
{
	const struct perf_spec specs[] = {software(PERF_COUNT_SW_PAGE_FAULTS)};
	const uint8_t groups[] = {0};
	struct counters *c = open_self(specs, groups, 1);
	struct counters_value value;

	(void)state;
	assert_true(counters_any(c));
	assert_int_equal(counters_enable(c), 0);
	touch_pages(200);
	assert_int_equal(counters_read(c), 0);
	counters_value(c, 0, 0, &value);
	assert_int_equal(value.state, COUNTER_COUNTED);
	assert_true(value.value >= 200);
	assert_true(value.running_ns > 0 && value.running_ns <= value.enabled_ns);
	assert_int_equal(counters_read(c), 0);
	counters_value(c, 0, 0, &value);
	assert_true(value.value < 200);
	counters_value(c, 1, 0, &value); /* not a row */
	assert_int_equal(value.value, 0);
	assert_null(counters_free(c));
}

static void test_group(void **state)
{
	const struct perf_spec specs[] = {software(PERF_COUNT_SW_PAGE_FAULTS),
					  software(PERF_COUNT_SW_PAGE_FAULTS_MIN),
					  software(PERF_COUNT_SW_TASK_CLOCK)};
	const uint8_t groups[] = {1, 1, 0};
	struct counters *c = open_self(specs, groups, 3);
	struct counters_value value[3];

	(void)state;
	assert_int_equal(counters_enable(c), 0);
	touch_pages(50);
	assert_int_equal(counters_read(c), 0);
	for (size_t i = 0; i < 3; i++)
		counters_value(c, 0, i, &value[i]);
	assert_true(value[0].value >= 50 && value[1].value >= 50);
	assert_true(value[2].value > 0);
	counters_free(c);
}

/* The others are counted all the same, but for the rest of its group. */
static void test_absent(void **state)
{
	const struct perf_spec specs[] = {absent(), software(PERF_COUNT_SW_PAGE_FAULTS),
					  software(PERF_COUNT_SW_PAGE_FAULTS)};
	const uint8_t groups[] = {1, 1, 0};
	struct counters *c = open_self(specs, groups, 3);
	struct counters_value value;
	size_t n;

	(void)state;
	assert_int_equal(counters_enable(c), 0);
	touch_pages(50);
	assert_int_equal(counters_read(c), 0);
	counters_value(c, 0, 0, &value);
	assert_int_equal(value.state, COUNTER_NOT_SUPPORTED);
	assert_int_equal(value.value, 0);
	assert_non_null(strstr(counters_why(c, 0, &n), "'absent'"));
	assert_int_equal(n, 1);
	counters_value(c, 0, 1, &value);
	assert_int_equal(value.state, COUNTER_NOT_SUPPORTED);
	counters_value(c, 0, 2, &value);
	assert_int_equal(value.state, COUNTER_COUNTED);
	assert_null(counters_why(c, 2, &n));
	counters_free(c);
}

static void test_gone(void **state)
{
	const struct perf_spec specs[] = {software(PERF_COUNT_SW_PAGE_FAULTS)};
	const uint8_t groups[] = {0};
	struct counters *c = open_self(specs, groups, 1);
	/* Above the largest pid of any kernel. */
	const struct counters_target gone = {.tid = 1 << 23, .cpu = -1, .cgroup_fd = -1};
	char error[256];

	(void)state;
	assert_int_equal(counters_add(c, &gone, error, sizeof(error)), COUNTERS_GONE);
	assert_string_equal(error, "");
	assert_true(counters_any(c));
	counters_free(c);
}

static void test_bounds(void **state)
{
	struct counters_options options = {.n = 0};
	struct counters *c = NULL;

	(void)state;
	assert_int_equal(counters_new(&options, &c), -EINVAL);
	options.n = COUNTERS_EVENTS + 1;
	assert_int_equal(counters_new(&options, &c), -EINVAL);
	assert_null(c);
	assert_null(counters_free(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_count),  cmocka_unit_test(test_group),
		cmocka_unit_test(test_absent), cmocka_unit_test(test_gone),
		cmocka_unit_test(test_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
