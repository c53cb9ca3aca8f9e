/* test-adopt.c - an answer about a process adds what its records did not give, and replaces nothing that they gave. */
#include "session/pipeline/adopt.h"
#include "tests/unit/cmocka.h"

#include <string.h>

enum { PID = 70, TID = 71 };

struct fixture {
	struct uw_modules *modules;
	struct process_table *processes;
	struct process *process;
	struct load_answer answer;
};

static void fixture_init(struct fixture *f)
{
	struct load_thread *threads = calloc(2, sizeof(*threads));

	assert_non_null(threads);
	threads[0] = (struct load_thread){.tid = PID, .comm = "server"};
	threads[1] = (struct load_thread){.tid = TID, .comm = "worker"};
	*f = (struct fixture){
		.answer =
			{.status = {.pid = PID, .ppid = 5, .uid = 7, .owner = 8, .comm = "server"},
			 .cmdline = strdup("server"),
			 .cmdline_len = sizeof("server"),
			 .cgroup = strdup("/a"),
			 .threads = threads,
			 .n_threads = 2},
	};
	assert_int_equal(uw_modules_new(&f->modules), 0);
	assert_int_equal(process_table_new(f->modules, 10, &f->processes), 0);
	f->process = process_get(f->processes, PID);
	assert_non_null(f->process);
}

static void fixture_deinit(struct fixture *f)
{
	load_answer_deinit(&f->answer);
	process_table_free(f->processes);
	uw_modules_free(f->modules);
}

static const char *comm(const struct fixture *f, uint32_t tid)
{
	return process_thread_get(f->process, tid)->comm;
}

static void test_all_new(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	adopt_names(f.processes, f.process, &f.answer);
	assert_string_equal(comm(&f, PID), "server");
	assert_string_equal(comm(&f, TID), "worker");
	assert_string_equal(f.process->cmdline, "server");
	assert_int_equal(f.process->ppid, 5);
	assert_int_equal(f.process->uid, 7);
	assert_int_equal(f.process->owner, 8);
	assert_null(f.answer.cmdline); /* taken, and so is the cgroup */
	assert_null(f.answer.cgroup);
	fixture_deinit(&f);
}

/* A COMM record is later than what was read, or the same; a FORK gave the parent. */
static void test_records_stay(void **state)
{
	struct process_thread *thread;
	struct fixture f;

	(void)state;
	fixture_init(&f);
	thread = process_thread_get(f.process, TID);
	strcpy(thread->comm, "renamed");
	thread->from_record = true;
	f.process->ppid = 9;
	adopt_names(f.processes, f.process, &f.answer);
	assert_string_equal(comm(&f, TID), "renamed");
	assert_int_equal(f.process->ppid, 9);
	fixture_deinit(&f);
}

/* The answer is of the program after an exec with a record that is still to come, or of the one before. */
static void test_another_program(void **state)
{
	struct process_thread *thread;
	struct fixture f;

	(void)state;
	fixture_init(&f);
	thread = process_thread_get(f.process, PID);
	strcpy(thread->comm, "shell");
	thread->from_record = true;
	adopt_names(f.processes, f.process, &f.answer);
	assert_string_equal(comm(&f, PID), "shell");
	assert_null(f.process->cmdline);
	fixture_deinit(&f);
}

/* Threads of a process that was replaced by another program are not its threads. */
static void test_replaced(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	f.process->replaced = true;
	adopt_threads(f.process, &f.answer);
	assert_string_equal(comm(&f, TID), "");
	fixture_deinit(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_new),
		cmocka_unit_test(test_records_stay),
		cmocka_unit_test(test_another_program),
		cmocka_unit_test(test_replaced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
