/* test-sideband.c - sideband.h: records into a process table. */
#include <sys/mman.h>

#include "session/pipeline/sideband.h"
#include "tests/unit/cmocka.h"

struct fixture {
	struct uw_modules *modules;
	struct process_table *processes;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_int_equal(uw_modules_new(&f->modules), 0);
	assert_int_equal(process_table_new(f->modules, 16, &f->processes), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	process_table_free(f->processes);
	uw_modules_free(f->modules);
	free(f);
	return 0;
}

static size_t n_maps(struct fixture *f, uint32_t pid)
{
	struct uw_space *space;

	assert_int_equal(process_space(f->processes, process_get(f->processes, pid), &space), 0);
	return space->n_maps;
}

static void apply_mmap(struct fixture *f, uint32_t type, uint32_t pid, uint64_t start,
		       uint32_t prot, uint16_t misc)
{
	const struct record_event e = {
		.type = type,
		.misc = misc,
		.pid = pid,
		.tid = pid,
		.mmap = {.start = start, .len = 0x1000, .prot = prot, .inode = 9, .path = "/bin/x"},
	};

	assert_int_equal(sideband_apply(f->processes, &e), 0);
}

static void test_life_cycle(void **state)
{
	struct fixture *f = *state;
	const struct record_event comm = {
		.type = PERF_RECORD_COMM, .pid = 7, .tid = 7, .comm = {.name = "seven"}};
	const struct record_event fork = {
		.type = PERF_RECORD_FORK, .pid = 8, .tid = 8, .task = {.ppid = 7, .ptid = 7}};
	const struct record_event end = {.type = PERF_RECORD_EXIT, .pid = 8, .tid = 8};

	assert_int_equal(sideband_apply(f->processes, &comm), 0);
	apply_mmap(f, PERF_RECORD_MMAP2, 7, 0x1000, PROT_READ | PROT_EXEC, 0);
	assert_int_equal(sideband_apply(f->processes, &fork), 0);
	assert_string_equal(process_thread_get(process_find(f->processes, 8), 8)->comm, "seven");
	assert_int_equal(n_maps(f, 8), 1);
	assert_int_equal(sideband_apply(f->processes, &end), 0);
	assert_true(process_find(f->processes, 8)->exited);
}

/* Code only: what is not executable ends what it covers, and is not kept. */
static void test_mappings(void **state)
{
	struct fixture *f = *state;

	apply_mmap(f, PERF_RECORD_MMAP2, 7, 0x1000, PROT_READ | PROT_EXEC, 0);
	apply_mmap(f, PERF_RECORD_MMAP2, 7, 0x3000, PROT_READ, 0);
	assert_int_equal(n_maps(f, 7), 1);
	apply_mmap(f, PERF_RECORD_MMAP, 7, 0x5000, 0, 0);
	assert_int_equal(n_maps(f, 7), 2);
	apply_mmap(f, PERF_RECORD_MMAP, 7, 0x5000, 0, PERF_RECORD_MISC_MMAP_DATA);
	assert_int_equal(n_maps(f, 7), 1);
	/* the kernel's own */
	apply_mmap(f, PERF_RECORD_MMAP, UINT32_MAX, 0xffffffff81000000, 0, 0);
	assert_null(process_find(f->processes, UINT32_MAX));
}

static void test_others(void **state)
{
	struct fixture *f = *state;
	const struct record_event lost = {.type = PERF_RECORD_LOST, .pid = 7, .lost = {.count = 1}};

	assert_int_equal(sideband_apply(f->processes, &lost), 0);
	assert_int_equal(process_table_count(f->processes), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_life_cycle, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mappings, setup, teardown),
		cmocka_unit_test_setup_teardown(test_others, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
