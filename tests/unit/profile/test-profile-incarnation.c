/* test-profile-incarnation.c - which process and which name each sample gets: execs, pid reuse, renames,
 * incarnations that take turns, names that come too late, and several producers. */
#include "profile/profile.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/profile/build.h"

enum { OURS = 3, OTHER = 4 }; /* sequences */

struct written {
	uint32_t sequence;
	uint32_t pid;
	uint64_t incarnation; /* 0: not recorded */
	const char *args[4];
	bool is_comm;
};

static void put_process(struct buffer *trace, const char *cgroup, const struct written *entry)
{
	struct buffer packet = {0}, tree = {0}, process = {0};

	put_number(&process, 1, entry->pid);
	put_number(&process, 2, 1);
	for (size_t i = 0; entry->args[i]; i++)
		put_text(&process, 3, entry->args[i]);
	if (entry->is_comm)
		put_number(&process, 9, 1);
	if (entry->incarnation)
		put_number(&process, 60001, entry->incarnation);
	if (cgroup)
		put_text(&process, 60002, cgroup);
	put_message(&tree, 1, &process);
	put_message(&packet, 2, &tree);
	if (entry->sequence)
		put_number(&packet, 10, entry->sequence);
	put_message(trace, 1, &packet);
}
#define PROCESS_IN(trace, cgroup, ...) \
	put_process((trace), (cgroup), &(struct written){__VA_ARGS__})
#define PROCESS(trace, ...) PROCESS_IN((trace), NULL, __VA_ARGS__)

static void put_thread(struct buffer *trace, uint32_t sequence, uint32_t pid, uint32_t tid,
		       const char *name)
{
	struct buffer packet = {0}, tree = {0}, thread = {0};

	put_number(&thread, 1, tid);
	if (name)
		put_text(&thread, 2, name);
	if (pid)
		put_number(&thread, 3, pid);
	put_message(&tree, 2, &thread);
	put_message(&packet, 2, &tree);
	put_number(&packet, 10, sequence);
	put_message(trace, 1, &packet);
}

/* Samples get their times in the order in which they are put. */
static void sample(struct buffer *trace, uint32_t sequence, uint32_t pid, uint32_t tid)
{
	static uint64_t time;

	put_sample(
		trace,
		&(struct test_sample){.sequence = sequence, .time = ++time, .pid = pid, .tid = tid},
		NULL);
}

static struct profile parse(struct buffer *trace)
{
	struct profile p;
	char error[256] = "";

	assert_false(trace->bad);
	assert_int_equal(profile_parse(trace->data, trace->len, &p, error, sizeof(error)), 0);
	assert_int_equal(p.truncated_at, 0);
	buffer_deinit(trace);
	return p;
}

/* @expected: "process/thread" of each sample by time, with blanks between. */
static void assert_names(const struct profile *p, const char *expected)
{
	char all[1024] = "";
	size_t n = 0;

	for (size_t i = 0; i < p->n_samples; i++) {
		const struct profile_sample *s = &p->samples[i];

		assert_true(s->thread < p->n_threads);
		assert_true(profile_sample_process(p, s) < p->n_processes);
		n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s/%s", i ? " " : "",
				      profile_process_name(p, profile_sample_process(p, s)),
				      profile_thread_name(p, s->thread));
	}
	assert_string_equal(all, expected);
}

static const struct profile_process *process_named(const struct profile *p, const char *name)
{
	for (size_t i = 0; i < p->n_processes; i++)
		if (!strcmp(profile_process_name(p, (uint32_t)i), name))
			return &p->processes[i];
	fail_msg("no process %s", name);
	return NULL;
}

static void names_are_base_names(void **state)
{
	struct buffer trace = {0};
	struct profile p;

	(void)state;
	PROCESS(&trace, .pid = 7, .args = {"/usr/bin/old"});
	PROCESS(&trace, .pid = 7,
		.args = {"/usr/bin/python3", "-m", "x/y"}); /* nothing was sampled: the last word */
	PROCESS(&trace, .pid = 8, .args = {"postgres: walwriter /a/b"});
	PROCESS(&trace, .pid = 9, .args = {"kworker/0:1"}, .is_comm = true);
	PROCESS(&trace, .pid = 10, .args = {"dir/"});
	put_thread(&trace, 0, 7, 11, "worker");
	sample(&trace, OURS, 7, 7);
	sample(&trace, OURS, 7, 11);
	sample(&trace, OURS, 8, 8);
	sample(&trace, OURS, 9, 9);
	sample(&trace, OURS, 10, 10);
	sample(&trace, OURS, 0, 0);
	sample(&trace, OURS, 12, 13);
	p = parse(&trace);
	assert_names(
		&p,
		"python3/python3 python3/worker postgres: walwriter /a/b/postgres: walwriter /a/b "
		"kworker/0:1/kworker/0:1 dir//dir/ [idle]/[idle] [pid 12]/[tid 13]");
	assert_string_equal(string_table_text(&p.strings, process_named(&p, "python3")->cmdline),
			    "/usr/bin/python3 -m x/y");
	assert_int_equal(p.n_processes, 6);
	profile_deinit(&p);
}

/* sh -c 'work; exec ./qsort': its command line is known some samples after its comm. */
static void exec_is_another_incarnation(void **state)
{
	struct buffer trace = {0};
	struct profile p;

	(void)state;
	PROCESS(&trace, OURS, 40, 5, {"sh"}, true);
	put_thread(&trace, OURS, 40, 40, "sh");
	sample(&trace, OURS, 40, 40);
	PROCESS(&trace, OURS, 40, 5, {"/bin/sh", "-c", "work"}, false);
	sample(&trace, OURS, 40, 40);
	PROCESS(&trace, OURS, 40, 6, {"qsort-by-comm"}, true);
	put_thread(&trace, OURS, 40, 40, "qsort-by-comm");
	sample(&trace, OURS, 40, 40);
	PROCESS(&trace, OURS, 40, 6, {"./qsort"}, false);
	sample(&trace, OURS, 40, 40);
	p = parse(&trace);
	/* One incarnation has one name, the last it got. */
	assert_names(&p, "sh/sh sh/sh qsort/qsort-by-comm qsort/qsort-by-comm");
	assert_int_equal(p.n_processes, 2);
	assert_int_equal(profile_sample_process(&p, &p.samples[0]),
			 profile_sample_process(&p, &p.samples[1]));
	assert_int_equal(profile_sample_process(&p, &p.samples[2]),
			 profile_sample_process(&p, &p.samples[3]));
	profile_deinit(&p);
}

/* Samples that had to wait are of an incarnation before the last; threads' names stay with their incarnation. */
static void incarnations_take_turns(void **state)
{
	struct buffer trace = {0};
	struct profile p;

	(void)state;
	PROCESS(&trace, OURS, 100, 1, {"one"}, true);
	put_thread(&trace, OURS, 100, 100, "one");
	put_thread(&trace, OURS, 100, 101, "helper");
	sample(&trace, OURS, 100, 101);
	PROCESS(&trace, OURS, 100, 2, {"two"}, true);
	put_thread(&trace, OURS, 100, 100, "two");
	sample(&trace, OURS, 100, 100);
	sample(&trace, OURS, 100,
	       101); /* a thread of the second, of the same number: has no name */
	PROCESS(&trace, OURS, 100, 1, {"one"}, true);
	sample(&trace, OURS, 100, 101);
	sample(&trace, OURS, 100, 100);
	PROCESS(&trace, OURS, 100, 2, {"two"}, true);
	sample(&trace, OURS, 100, 100);
	p = parse(&trace);
	assert_names(&p, "one/helper two/two two/[tid 101] one/helper one/one two/two");
	assert_int_equal(p.n_processes, 2);
	assert_int_equal(p.n_threads, 4);
	profile_deinit(&p);
}

/* The same name again is another process all the same, where incarnations are numbered. */
static void reuse_with_the_same_name(void **state)
{
	struct buffer trace = {0};
	struct profile p;

	(void)state;
	PROCESS(&trace, OURS, 100, 1, {"cc1"}, true);
	sample(&trace, OURS, 100, 100);
	PROCESS(&trace, OURS, 100, UINT64_MAX, {"cc1"}, true);
	sample(&trace, OURS, 100, 100);
	p = parse(&trace);
	assert_names(&p, "cc1/cc1 cc1/cc1");
	assert_int_equal(p.n_processes, 2);
	assert_int_not_equal(profile_sample_process(&p, &p.samples[0]),
			     profile_sample_process(&p, &p.samples[1]));
	profile_deinit(&p);
}

static void threads_are_renamed(void **state)
{
	struct buffer trace = {0};
	struct profile p;

	(void)state;
	PROCESS(&trace, OURS, 7, 1, {"prog"}, true);
	put_thread(&trace, OURS, 7, 8, "first");
	put_thread(&trace, OURS, 7, 8, "prog"); /* nothing was sampled */
	sample(&trace, OURS, 7, 8);
	put_thread(&trace, OURS, 7, 8, "worker");
	sample(&trace, OURS, 7, 8);
	put_thread(&trace, OURS, 7, 8, NULL); /* states nothing */
	sample(&trace, OURS, 7, 8);
	put_thread(&trace, OURS, 7, 8, "prog"); /* a late one */
	sample(&trace, OURS, 7, 8);
	put_thread(&trace, OURS, 7, 8, "worker");
	sample(&trace, OURS, 7, 8);
	p = parse(&trace);
	assert_names(&p, "prog/prog prog/worker prog/worker prog/prog prog/worker");
	assert_int_equal(p.n_processes, 1);
	assert_int_equal(p.n_threads, 2);
	assert_int_equal(p.samples[0].thread, p.samples[3].thread);
	assert_int_equal(p.samples[1].thread, p.samples[4].thread);
	profile_deinit(&p);
}

/* A stock service may list the processes at the end. */
static void names_that_come_late(void **state)
{
	struct buffer trace = {0};
	struct profile p;

	(void)state;
	sample(&trace, OURS, 7, 7);
	sample(&trace, OURS, 7, 8);
	sample(&trace, OURS, 9, 9);
	PROCESS(&trace, OTHER, 7, 0, {"/bin/prog"}, false);
	put_thread(&trace, OTHER, 7, 7, "prog-main");
	put_thread(&trace, OTHER, 7, 8, "worker");
	sample(&trace, OURS, 7, 8);
	p = parse(&trace);
	assert_names(&p, "prog/prog-main prog/worker [pid 9]/[pid 9] prog/worker");
	assert_int_equal(p.n_processes, 2);
	assert_int_equal(p.n_threads, 3);
	profile_deinit(&p);
}

/* Without numbers, another name behind samples is another incarnation; its threads keep the names that no
 * packet repeats. */
static void stock_renames(void **state)
{
	struct buffer trace = {0};
	struct profile p;

	(void)state;
	PROCESS(&trace, OTHER, 7, 0, {"zygote"}, false);
	put_thread(&trace, OTHER, 7, 8, "binder");
	sample(&trace, OURS, 7, 7);
	sample(&trace, OURS, 7, 8);
	PROCESS(&trace, OTHER, 7, 0, {"zygote"}, false); /* the list is written again */
	sample(&trace, OURS, 7, 8);
	PROCESS(&trace, OTHER, 7, 0, {"com.app"}, false);
	PROCESS(&trace, OTHER, 7, 0, {NULL}, false); /* states nothing */
	sample(&trace, OURS, 7, 8);
	sample(&trace, OURS, 7, 7);
	put_thread(&trace, OTHER, 0, 8, "pool"); /* of the process it was of */
	sample(&trace, OURS, 7, 8);
	put_thread(&trace, OTHER, 0, 99, "of nobody");
	p = parse(&trace);
	assert_names(&p, "zygote/zygote zygote/binder zygote/binder com.app/binder com.app/com.app "
			 "com.app/pool");
	assert_int_equal(p.n_processes, 2);
	profile_deinit(&p);
}

/* Two sessions number incarnations each by itself; what a session wrote about a pid stands for its own
 * samples. */
static void sessions_side_by_side(void **state)
{
	struct buffer trace = {0};
	struct profile p;

	(void)state;
	PROCESS(&trace, OURS, 7, 5, {"prog"}, true);
	PROCESS(&trace, OTHER, 7, 9, {"prog"}, true); /* the same process, by its name */
	PROCESS(&trace, OURS, 8, 6, {"sh"}, true);
	sample(&trace, OURS, 7, 7);
	sample(&trace, OTHER, 7, 7);
	sample(&trace, OURS, 8, 8);
	PROCESS(&trace, OTHER, 8, 5, {"qsort"}, true);
	sample(&trace, OURS, 8, 8);
	sample(&trace, OTHER, 8, 8);
	p = parse(&trace);
	assert_names(&p, "prog/prog prog/prog sh/sh sh/sh qsort/qsort");
	assert_int_equal(p.n_processes, 3);
	profile_deinit(&p);
}

static void cgroups_are_of_incarnations(void **state)
{
	struct buffer trace = {0};
	char many[5000];
	struct profile p;

	(void)state;
	memset(many, 'x', sizeof(many) - 1);
	many[sizeof(many) - 1] = 0;
	PROCESS_IN(&trace, "/a", .sequence = OURS, .pid = 7, .incarnation = 1, .args = {"sh"});
	sample(&trace, OURS, 7, 7);
	PROCESS_IN(&trace, "/b", .sequence = OURS, .pid = 7, .incarnation = 2, .args = {"cc"});
	sample(&trace, OURS, 7, 7);
	/* written again without it, as by a writer that has forgotten it */
	PROCESS(&trace, .sequence = OURS, .pid = 7, .incarnation = 1, .args = {"sh"});
	PROCESS(&trace, .sequence = OURS, .pid = 8, .incarnation = 3, .args = {"ld"});
	PROCESS_IN(&trace, "", .sequence = OURS, .pid = 9, .incarnation = 4, .args = {"as"});
	PROCESS_IN(&trace, many, .sequence = OURS, .pid = 10, .incarnation = 5, .args = {"ar"});
	p = parse(&trace);
	assert_string_equal(string_table_text(&p.strings, process_named(&p, "sh")->cgroup), "/a");
	assert_string_equal(string_table_text(&p.strings, process_named(&p, "cc")->cgroup), "/b");
	assert_int_equal(process_named(&p, "ld")->cgroup, 0);
	assert_int_equal(process_named(&p, "as")->cgroup, 0);
	assert_int_equal(strlen(string_table_text(&p.strings, process_named(&p, "ar")->cgroup)),
			 4096);
	profile_deinit(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_base_names),
		cmocka_unit_test(exec_is_another_incarnation),
		cmocka_unit_test(incarnations_take_turns),
		cmocka_unit_test(reuse_with_the_same_name),
		cmocka_unit_test(threads_are_renamed),
		cmocka_unit_test(names_that_come_late),
		cmocka_unit_test(stock_renames),
		cmocka_unit_test(sessions_side_by_side),
		cmocka_unit_test(cgroups_are_of_incarnations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
