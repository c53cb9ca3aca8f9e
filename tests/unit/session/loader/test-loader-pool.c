/* test-loader-pool.c - the helper processes of loader.h, with helpers that sleep over their requests; the time is
 * the test's own.  Helpers are real: the test waits until one sleeps, then states how late it is. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "session/loader/loader.h"
#include "tests/unit/cmocka.h"

/* In place of addresses: what the helper does about a LOAD_QUERY. */
enum { ANSWERS = 0, SLEEPS, SLEEPS_ON_FILE, SLEEPS_CLOSING, SPINS, DIES, DEVICES };
#define DEVICE 0x805ull
#define MS NSEC_PER_MSEC

static void act(struct helper_call *call, const struct load_request *request)
{
	switch (request->vaddr) {
	case SLEEPS:
		atomic_store(call->mark, LOAD_MARK_PROCESS);
		break;
	case SLEEPS_ON_FILE:
		atomic_store(call->mark, DEVICE);
		break;
	case SLEEPS_CLOSING:
		atomic_store(call->mark, LOAD_MARK_CLOSING | DEVICE);
		break;
	case SPINS:
		atomic_store(call->mark, LOAD_MARK_PROCESS);
		for (;;)
			;
	case DIES:
		_exit(1);
	default:
		return;
	}
	for (;;)
		(void)pause();
}

static void serve(void *kept, struct helper_call *call)
{
	struct load_request request; /* stands first */

	memcpy(&request, call->request, sizeof(request));
	if (request.kind == LOAD_QUERY)
		act(call, &request);
	load_role.serve(kept, call);
}

static void *begin(const void *arg)
{
	return load_role.begin(arg);
}

static const struct helper_role role = {
	.name = "test-pool",
	.room = 16 << 20,
	.partner = &load_parse_role,
	.begin = begin,
	.serve = serve,
};

static void pool_init(struct load_pool *pool)
{
	load_pool_init(pool, &(struct load_pool_options){
				     .role = &role,
				     .arg = {.root = ""},
				     .slow_ns = 30 * MS,
				     .deadline_ns = 1000 * MS,
				     .total_ns = 30000 * MS,
			     });
}

static uint32_t n_dropped;

static void drop(struct load_request *request)
{
	(void)request;
	n_dropped++;
}

static struct load_work query(uint32_t pid, uint64_t what)
{
	return (struct load_work){.request = {.kind = LOAD_QUERY, .pid = pid, .vaddr = what}};
}

static struct load_work names_of_us(void)
{
	return (struct load_work){.request = {.kind = LOAD_NAMES, .pid = (uint32_t)getpid()}};
}

/* Until the helper of a slot sleeps over its call. */
static void wait_asleep(const struct load_pool *pool, size_t slot, uint64_t mark)
{
	const struct helper *h = pool->slots[slot].helper;
	uint64_t before;

	do {
		before = helper_cpu_ns(h);
		(void)poll(NULL, 0, 2);
	} while (helper_mark(h) != mark || helper_runnable(h) || helper_cpu_ns(h) != before);
}

static int next_answer(struct load_pool *pool, uint64_t now, struct load_work *work,
		       struct load_answer *a)
{
	int r;

	while ((r = load_pool_answer(pool, now, work, a)) == POOL_NONE)
		(void)poll(NULL, 0, 1);
	return r;
}

/* Ours is answered whatever the others do. */
static void serves_others(struct load_pool *pool, uint64_t now)
{
	struct load_work work = names_of_us();
	struct load_answer a;

	assert_int_equal(load_pool_ask(pool, &work, now), 0);
	assert_int_equal(next_answer(pool, now, &work, &a), 0);
	assert_int_equal(a.error, 0);
	assert_int_equal(a.status.pid, getpid());
	load_answer_deinit(&a);
}

static void test_answers(void **state)
{
	struct load_pool pool;
	struct pollfd fds[POOL_SLOTS];
	uint64_t due;

	(void)state;
	pool_init(&pool);
	assert_int_equal(load_pool_poll(&pool, 0, fds, &due), 0);
	assert_int_equal(due, UINT64_MAX);
	for (uint64_t i = 0; i < 100; i++)
		serves_others(&pool, i * MS);
	assert_null(pool.slots[1].helper); /* one is enough */
	assert_int_equal(pool.n_stuck + pool.n_ended, 0);
	assert_true(load_pool_cpu_ns(&pool) > 0);
	load_pool_deinit(&pool, drop);
}

/* A process that does not answer: others go on in another helper, it is refused after the deadline,
 * then asked again, and the next refusal is longer. */
static void test_sleeper(void **state)
{
	struct load_work work = query(4000000, SLEEPS);
	struct load_answer a;
	struct load_pool pool;
	uint64_t now = 0;

	(void)state;
	pool_init(&pool);
	assert_int_equal(load_pool_ask(&pool, &work, now), 0);
	wait_asleep(&pool, 0, LOAD_MARK_PROCESS);
	assert_int_equal(
		load_pool_ask(&pool, &(struct load_work){names_of_us().request, 0}, 10 * MS),
		POOL_FULL); /* it may be done soon */
	serves_others(&pool, 31 * MS);
	assert_non_null(pool.slots[1].helper);
	now = 100 * MS; /* last looked at 31 ms, when it had used CPU time since it was asked */
	assert_int_equal(load_pool_answer(&pool, now, &work, &a), POOL_NONE);
	work = query(4000000, ANSWERS);
	assert_int_equal(load_pool_ask(&pool, &work, now + 500 * MS), POOL_WAITS);
	now = 1000 * MS;
	assert_int_equal(load_pool_answer(&pool, now, &work, &a), POOL_NONE);
	now += 60 * MS;
	assert_int_equal(load_pool_answer(&pool, now, &work, &a), 0);
	assert_int_equal(a.error, -ETIMEDOUT);
	assert_int_equal(a.request.pid, 4000000);
	assert_int_equal(pool.n_stuck, 1);
	load_answer_deinit(&a);
	serves_others(&pool, now);
	assert_int_equal(load_pool_ask(&pool, &work, now + 1999 * MS), -ETIMEDOUT);
	work = query(4000000, SLEEPS);
	now += 2001 * MS;
	assert_int_equal(load_pool_ask(&pool, &work, now), 0);
	for (size_t i = 0; i < POOL_SLOTS; i++)
		if (pool.slots[i].busy)
			wait_asleep(&pool, i, LOAD_MARK_PROCESS);
	assert_int_equal(load_pool_answer(&pool, now + 100 * MS, &work, &a), POOL_NONE);
	now += 1200 * MS;
	assert_int_equal(load_pool_answer(&pool, now, &work, &a), 0);
	load_answer_deinit(&a);
	assert_int_equal(load_pool_ask(&pool, &work, now + 3999 * MS), -ETIMEDOUT);
	load_pool_deinit(&pool, drop);
}

/* A file that does not answer: its device is named to those that come after. */
static void test_device(void **state)
{
	struct load_work work = query(4000001, SLEEPS_ON_FILE);
	struct load_answer a;
	struct load_pool pool;

	(void)state;
	pool_init(&pool);
	assert_int_equal(load_pool_ask(&pool, &work, 0), 0);
	wait_asleep(&pool, 0, DEVICE);
	assert_int_equal(load_pool_answer(&pool, 100 * MS, &work, &a), POOL_NONE);
	assert_int_equal(load_pool_answer(&pool, 1200 * MS, &work, &a), 0);
	assert_int_equal(a.error, -ETIMEDOUT);
	load_answer_deinit(&a);
	assert_int_equal(pool.refusals[0].key == DEVICE || pool.refusals[1].key == DEVICE, true);
	serves_others(&pool, 1300 * MS);
	load_pool_deinit(&pool, drop);
}

/* Closing an earlier file is not the fault of the request in hand. */
static void test_closing(void **state)
{
	struct load_work work = query(4000002, SLEEPS_CLOSING);
	struct load_answer a;
	struct load_pool pool;

	(void)state;
	pool_init(&pool);
	assert_int_equal(load_pool_ask(&pool, &work, 0), 0);
	wait_asleep(&pool, 0, LOAD_MARK_CLOSING | DEVICE);
	assert_int_equal(load_pool_answer(&pool, 60 * MS, &work, &a), POOL_NONE);
	/* nothing is lost with it, so it is not waited for as long as for others */
	assert_int_equal(load_pool_answer(&pool, 200 * MS, &work, &a), POOL_AGAIN);
	assert_int_equal(work.tries, 1);
	work.request.vaddr = ANSWERS;
	assert_int_equal(load_pool_ask(&pool, &work, 201 * MS), 0); /* the process is not refused */
	assert_int_equal(next_answer(&pool, 202 * MS, &work, &a), 0);
	load_answer_deinit(&a);
	load_pool_deinit(&pool, drop);
}

/* One that works on is let work, up to the bound of all. */
static void test_spins(void **state)
{
	struct load_work work = query(4000003, SPINS), other;
	struct load_answer a;
	struct load_pool pool;
	uint64_t used;

	(void)state;
	pool_init(&pool);
	assert_int_equal(load_pool_ask(&pool, &work, 0), 0);
	for (uint64_t now = 500; now < 29000; now += 1500) {
		assert_int_equal(load_pool_answer(&pool, now * MS, &work, &a), POOL_NONE);
		(void)poll(NULL, 0, 1);
	}
	/* It may have waited for a CPU all the time, where another helper would not help; not when it has used so much. */
	other = names_of_us();
	assert_int_equal(load_pool_ask(&pool, &other, 29300 * MS), POOL_FULL);
	used = helper_cpu_ns(pool.slots[0].helper) + 30 * MS;
	assert_int_equal(load_pool_ask(&pool, &other, 29310 * MS), POOL_FULL);
	while (helper_cpu_ns(pool.slots[0].helper) < used)
		(void)poll(NULL, 0, 1);
	serves_others(&pool, 29500 * MS);
	assert_int_equal(load_pool_answer(&pool, 30001 * MS, &work, &a), 0);
	assert_int_equal(a.error, -ETIMEDOUT);
	load_answer_deinit(&a);
	load_pool_deinit(&pool, drop);
}

/* Killed by hand, or brought down by a file: asked again, and given up at the third. */
static void test_ends(void **state)
{
	struct load_work work = names_of_us();
	struct load_answer a;
	struct load_pool pool;

	(void)state;
	pool_init(&pool);
	serves_others(&pool, 0);
	assert_int_equal(kill(helper_pid(pool.slots[0].helper), SIGKILL), 0);
	(void)poll(&(struct pollfd){.fd = helper_fd(pool.slots[0].helper), .events = POLLIN}, 1,
		   -1);
	if (load_pool_ask(&pool, &work, MS) == 0)
		assert_int_equal(next_answer(&pool, MS, &work, &a), POOL_AGAIN);
	assert_int_equal(pool.n_ended, 1);
	serves_others(&pool, 2 * MS);
	work = query(4000004, DIES);
	for (uint32_t tries = 1; tries < POOL_TRIES; tries++) {
		assert_int_equal(load_pool_ask(&pool, &work, 200 * tries * MS), 0);
		assert_int_equal(next_answer(&pool, 200 * tries * MS, &work, &a), POOL_AGAIN);
		assert_int_equal(work.tries, tries);
	}
	assert_int_equal(load_pool_ask(&pool, &work, 900 * MS), 0);
	assert_int_equal(next_answer(&pool, 900 * MS, &work, &a), 0);
	assert_int_equal(a.error, -EIO);
	load_answer_deinit(&a);
	serves_others(&pool, 1000 * MS);
	load_pool_deinit(&pool, drop);
}

/* As many sleepers as there are helpers, and an end meanwhile: nothing waits. */
static void test_all_sleep(void **state)
{
	struct load_pool pool;
	struct load_work work;

	(void)state;
	pool_init(&pool);
	for (uint32_t i = 0; i < POOL_SLOTS; i++) {
		work = query(4000010 + i, SLEEPS);
		assert_int_equal(load_pool_ask(&pool, &work, i * 40 * MS), 0);
		wait_asleep(&pool, i, LOAD_MARK_PROCESS);
	}
	work = names_of_us();
	assert_int_equal(load_pool_ask(&pool, &work, 200 * MS), POOL_FULL);
	n_dropped = 0;
	load_pool_deinit(&pool, drop);
	assert_int_equal(n_dropped, POOL_SLOTS);
}

static int ask_without_processes(void)
{
	const struct rlimit none = {0, 0};
	struct load_work work = names_of_us();
	struct load_pool pool;

	if (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0)
		return 1;
	if (setrlimit(RLIMIT_NPROC, &none) < 0)
		return 2;
	pool_init(&pool);
	if (pool.n_unmade != 1 || load_pool_ask(&pool, &work, MS) != -EAGAIN ||
	    load_pool_ask(&pool, &work, 2 * MS) != -EAGAIN)
		return 3;
	return pool.n_unmade == 2 ? 0 : 4; /* not tried at each request */
}

/* Where no process can be made each request fails at once: no caller waits for an answer that never comes. */
static void test_no_processes(void **state)
{
	int status;
	pid_t child = fork();

	(void)state;
	if (child == 0)
		_exit(ask_without_processes());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),	  cmocka_unit_test(test_sleeper),
		cmocka_unit_test(test_device),	  cmocka_unit_test(test_closing),
		cmocka_unit_test(test_spins),	  cmocka_unit_test(test_ends),
		cmocka_unit_test(test_all_sleep), cmocka_unit_test(test_no_processes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
