/* test-mark-threads.c - threads of a process in a pid namespace (a /proc of files), and what a hostile target claims: the work of one
 * turn, what is remembered. */
#include <sys/stat.h>
#include <unistd.h>

#include "marks/mark-rings.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/proc/child-process.h"

/* As we see it, and as it sees itself: its thread 1000 + i is our thread 5000 + i. */
enum { PID = 5000, CLAIMED = 1000 };

static char root[64];

static void put_thread(uint32_t pid, uint32_t tid, uint32_t ns_tid)
{
	char path[200], text[100];

	(void)snprintf(path, sizeof(path), "%s/proc/%u", root, pid);
	(void)mkdir(path, 0755);
	(void)snprintf(path, sizeof(path), "%s/proc/%u/task", root, pid);
	(void)mkdir(path, 0755);
	(void)snprintf(path, sizeof(path), "%s/proc/%u/task/%u", root, pid, tid);
	assert_int_equal(mkdir(path, 0755), 0);
	(void)snprintf(path, sizeof(path), "%s/proc/%u/task/%u/status", root, pid, tid);
	(void)snprintf(text, sizeof(text), "Name:\tx\nNSpid:\t%u\t%u\nThreads:\t1\n", tid, ns_tid);
	write_file(path, text);
}

static void put_process(uint32_t pid, uint32_t claimed, uint32_t threads)
{
	for (uint32_t i = 0; i < threads; i++)
		put_thread(pid, pid + i, claimed + i);
}

static int set_up(void **state)
{
	char path[100];

	(void)state;
	temp_dir(root);
	(void)snprintf(path, sizeof(path), "%s/proc", root);
	return mkdir(path, 0755);
}

static int tear_down(void **state)
{
	(void)state;
	remove_dir(root);
	return 0;
}

static struct mark_threads *threads_of(struct mark_walk *walk, uint32_t pid, uint32_t claimed)
{
	struct mark_threads *t;

	assert_int_equal(mark_threads_new(walk, pid, claimed, &t), 0);
	return t;
}

enum { LATER = UINT32_MAX };

static uint32_t find(struct mark_threads *t, uint32_t tid)
{
	uint32_t ours = 77;
	int r = mark_threads_find(t, tid, &ours);

	if (r == MARK_THREADS_LATER) {
		assert_int_equal(ours, 77);
		return LATER;
	}
	assert_int_equal(r, 0);
	return ours;
}

static struct mark_walk *new_walk(void)
{
	struct mark_walk *walk;

	assert_int_equal(mark_walk_new(root, &walk), 0);
	return walk;
}

static void test_namespace(void **state)
{
	struct mark_walk *walk = new_walk();
	struct mark_threads *t = threads_of(walk, PID, CLAIMED);

	(void)state;
	assert_int_equal(find(t, CLAIMED), PID); /* without a look at /proc, where it is not yet */
	put_process(PID, CLAIMED, 3);
	assert_int_equal(find(t, CLAIMED + 2), PID + 2);
	assert_int_equal(find(t, CLAIMED + 7), 0);
	assert_int_equal(find(t, 0), 0);
	assert_int_equal(find(t, UINT32_MAX), 0);
	/* The walks have found all threads, and that one is missing; it remains so until its end is known. */
	put_thread(PID, PID + 7, CLAIMED + 7);
	assert_int_equal(find(t, CLAIMED + 1), PID + 1);
	assert_int_equal(find(t, CLAIMED + 7), 0);
	mark_threads_forget(t, CLAIMED + 7);
	assert_int_equal(find(t, CLAIMED + 7), PID + 7);
	(void)mark_threads_free(t);
	(void)mark_walk_free(walk);
}

/* Each claim is another number. */
static void test_forged(void **state)
{
	struct mark_walk *walk = new_walk();
	struct mark_threads *t = threads_of(walk, PID, CLAIMED), *other;
	uint32_t tid = CLAIMED + 100000;
	int walks = 0;

	(void)state;
	put_process(PID, CLAIMED, 20);
	put_process(PID + 100, CLAIMED, 2);
	other = threads_of(walk, PID + 100, CLAIMED);
	while (find(t, tid) == 0) {
		tid++;
		walks++;
		assert_true(walks <= MARK_WALK_THREADS / 20);
	}
	assert_int_equal(walks, MARK_WALK_THREADS / 36);
	for (int i = 0; i < 100; i++)
		assert_int_equal(find(t, tid), LATER);
	assert_int_equal(find(t, CLAIMED + 19), PID + 19); /* is known */
	assert_int_equal(find(t, tid - 1), 0);		   /* this, too */
	/* Another process has its turn when the walk has ended. */
	assert_int_equal(find(other, CLAIMED + 1), LATER);
	assert_int_equal(mark_walk_turn(walk), 0);
	assert_int_equal(find(other, CLAIMED + 1), PID + 101);
	assert_int_equal(find(t, tid), 0);
	(void)mark_threads_free(other);
	(void)mark_threads_free(t);
	(void)mark_walk_free(walk);
}

/* A walk that takes several turns ends by itself, or with its process. */
static void test_many(void **state)
{
	struct mark_walk *walk = new_walk();
	struct mark_threads *t = threads_of(walk, PID, CLAIMED), *other;
	int turns = 0;

	(void)state;
	put_process(PID, CLAIMED, 2 * MARK_WALK_THREADS + 5);
	put_process(PID + 2000, CLAIMED, 2);
	other = threads_of(walk, PID + 2000, CLAIMED);
	assert_int_equal(find(t, 5), LATER);
	assert_int_equal(find(t, 6), LATER);
	assert_int_equal(find(other, CLAIMED + 1), LATER);
	for (; find(t, 5) == LATER; turns++)
		assert_int_equal(mark_walk_turn(walk), 0);
	assert_int_equal(turns, 2);
	assert_int_equal(find(t, 5), 0);
	for (uint32_t i = 0; i < 2 * MARK_WALK_THREADS + 5; i++)
		assert_int_equal(find(t, CLAIMED + i), PID + i);
	assert_int_equal(find(other, CLAIMED + 1), PID + 2001);
	assert_int_equal(mark_walk_turn(walk), 0);
	assert_int_equal(find(t, 6), LATER);
	assert_int_equal(find(other, CLAIMED + 5), LATER);
	mark_threads_end(t);
	assert_int_equal(find(t, 6), 0);
	assert_int_equal(mark_walk_turn(walk), 0);
	assert_int_equal(find(other, CLAIMED + 5), 0);
	assert_int_equal(find(t, 6), 0);
	/* Freed in the middle of a walk. */
	t = mark_threads_free(t);
	t = threads_of(walk, PID, CLAIMED);
	assert_int_equal(find(t, 5), LATER);
	(void)mark_threads_free(t);
	assert_int_equal(mark_walk_turn(walk), 0);
	(void)mark_threads_free(other);
	(void)mark_walk_free(walk);
}

/* What is remembered is bounded, and a real thread is found all the same. */
static void test_forgets(void **state)
{
	struct mark_walk *walk = new_walk();
	struct mark_threads *t = threads_of(walk, PID, CLAIMED);

	(void)state;
	put_process(PID, CLAIMED, 2);
	for (uint32_t i = 1; i <= 2 * MARK_THREADS_MAX; i++) {
		if (find(t, 100000 + i) == LATER) {
			assert_int_equal(mark_walk_turn(walk), 0);
			i--;
		}
	}
	assert_int_equal(mark_walk_turn(walk), 0);
	assert_int_equal(find(t, CLAIMED + 1), PID + 1);
	assert_int_equal(find(t, 100000 + 2 * MARK_THREADS_MAX), 0);
	(void)mark_threads_free(t);
	(void)mark_walk_free(walk);
}

static void test_this_process(void **state)
{
	struct mark_walk *walk = new_walk();
	uint32_t pid = (uint32_t)getpid();
	struct mark_threads *t = threads_of(walk, pid, pid);

	(void)state;
	assert_int_equal(find(t, pid), pid);
	assert_int_equal(find(t, 1), 0);		 /* of another process */
	assert_int_equal(find(t, INT32_MAX), INT32_MAX); /* has ended */
	(void)mark_threads_free(t);
	(void)mark_walk_free(walk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_namespace, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_forged, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_many, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_forgets, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_this_process, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
