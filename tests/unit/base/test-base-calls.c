/* test-base-calls.c - each allocation and system call with which queues, tables, loops, shared memory, helper processes, sockets and
 * cached files are made fails once: an error and nothing is kept, no process and no mapped memory either. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "tests/unit/fail-calls.h"

#include "base/cache-dir.h"
#include "base/child.h"
#include "base/closer.h"
#include "base/helper.h"
#include "base/listen-fds.h"
#include "base/loop.h"
#include "base/memory-left.h"
#include "base/queue.h"
#include "base/shared-counts.h"
#include "base/table.h"
#include "base/unshared.h"

enum { QUEUE_BYTES = 256 << 20, ENTRIES = 300 };

/* Address space of this process in pages. */
static unsigned long mapped_pages(void)
{
	char text[64] = "";
	int fd = REAL(open)("/proc/self/statm", O_RDONLY | O_CLOEXEC);

	assert_true(REAL(read)(fd, text, sizeof(text) - 1) > 0);
	(void)close(fd);
	return strtoul(text, NULL, 10);
}

/* ---- queues ---- */

struct queues {
	struct waker waker;
	struct slot_queue slots;
	struct byte_queue bytes;
};
static void end_queues(void *arg)
{
	struct queues *q = arg;

	byte_queue_deinit(&q->bytes);
	slot_queue_deinit(&q->slots);
	waker_deinit(&q->waker);
}
static int make_queues(void *arg)
{
	struct queues *q = arg;
	unsigned long before = mapped_pages();
	int r;

	*q = (struct queues){.waker.fd = -1};
	r = waker_init(&q->waker);
	if (r >= 0)
		r = slot_queue_init(&q->slots, 64, 40);
	if (r >= 0)
		r = byte_queue_init(&q->bytes, QUEUE_BYTES);
	if (r >= 0) {
		memset(slot_queue_push(&q->slots), 1, 40);
		memset(byte_queue_reserve(&q->bytes, 100), 1, 100);
		return 0;
	}
	end_queues(q);
	if (mapped_pages() - before >= QUEUE_BYTES / 4096)
		fail_msg("call %lu: %lu pages are mapped, before %lu", calls_fail_at,
			 mapped_pages(), before);
	return r;
}

/* ---- tables: what was in one before an error is in it after it ---- */

struct tables {
	struct table numbers, large;
	struct string_table strings;
};
static void end_tables(void *arg)
{
	struct tables *t = arg;

	string_table_deinit(&t->strings);
	table_deinit(&t->numbers);
	table_deinit(&t->large);
}
static void check_tables(const struct tables *t, uint32_t n)
{
	char text[32];
	uint64_t v;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t id = 0;
		int len = snprintf(text, sizeof(text), "text %u", i);

		if (!table_get(&t->numbers, i, &v) || v != i || !table_get(&t->large, i, &v) ||
		    !string_table_find(&t->strings, text, (size_t)len, &id) || id != i + 1 ||
		    strcmp(string_table_text(&t->strings, id), text) != 0)
			fail_msg("call %lu: entry %u of %u is gone", calls_fail_at, i, n);
	}
}
static int make_tables(void *arg)
{
	struct tables *t = arg;
	uint32_t n = 0;
	int r = 0;

	*t = (struct tables){.large.unshared = true};
	while (r >= 0 && n < ENTRIES) {
		char text[32];
		uint32_t id;
		int len = snprintf(text, sizeof(text), "text %u", n);

		r = table_put(&t->numbers, n, n);
		if (r >= 0)
			r = table_put(&t->large, n, n);
		if (r >= 0)
			r = string_table_add(&t->strings, text, (size_t)len, &id, NULL);
		n += r >= 0;
	}
	check_tables(t, n);
	if (r < 0)
		end_tables(t);
	return r;
}

/* ---- a loop with a timer ---- */

struct loops {
	struct loop loop;
	struct loop_timer timer;
};
static int no_expiry(struct loop_timer *timer)
{
	(void)timer;
	return 0;
}
static int make_loop(void *arg)
{
	struct loops *l = arg;
	int r = loop_init(&l->loop);

	if (r < 0)
		return r;
	r = loop_timer_add(&l->loop, &l->timer, NSEC_PER_SEC, 0, no_expiry);
	if (r < 0)
		loop_deinit(&l->loop);
	return r;
}
static void end_loop(void *arg)
{
	struct loops *l = arg;

	loop_timer_remove(&l->loop, &l->timer);
	loop_deinit(&l->loop);
}

/* ---- memory of two processes ---- */

struct counts {
	struct shared_counts *owner, *taker;
};
static int make_counts(void *arg)
{
	struct counts *c = arg;
	size_t slot;
	uint32_t origin;
	int fd, r = shared_counts_new(&c->owner);

	if (r < 0)
		return r;
	fd = dup(shared_counts_fd(c->owner));
	assert_int_equal(shared_counts_want(c->owner, "x", &slot), 0);
	r = shared_counts_take(fd, &c->taker);
	if (r < 0) {
		(void)shared_counts_free(c->owner);
		return r;
	}
	shared_counts_add(c->taker, "x", 1, 7);
	assert_int_equal(shared_counts_read(c->owner, slot, &origin), 1);
	return 0;
}
static void end_counts(void *arg)
{
	(void)shared_counts_free(((struct counts *)arg)->taker);
	(void)shared_counts_free(((struct counts *)arg)->owner);
}

/* ---- processes ---- */

static bool has_landlock;

static void serve(void *kept, struct helper_call *call)
{
	bool filtered = prctl(PR_GET_SECCOMP) == SECCOMP_MODE_FILTER;

	(void)kept;
	/* Of Landlock: no file can be opened. */
	call->answer[0] = filtered && (!has_landlock || REAL(open)("/", O_RDONLY | O_CLOEXEC) < 0);
	call->answer_len = 1;
}
static const struct helper_role partner_role = {
	.name = "test-partner", .room = 4096, .serve = serve};
static const struct helper_role confined_partner_role = {
	.name = "test-given", .room = 4096, .serve = serve, .calls = CHILD_CALLS_GIVEN};
static const struct helper_role roles[] = {
	{.name = "test-helper", .room = 4096, .serve = serve},
	{.name = "test-spare", .room = 4096, .serve = serve, .from_spare = true},
	{.name = "test-two", .room = 4096, .serve = serve, .partner = &partner_role},
	{.name = "test-alone",
	 .room = 4096,
	 .serve = serve,
	 .calls = CHILD_CALLS_GIVEN,
	 .partner = &confined_partner_role},
};

/* Filters that permit all, and Landlock where the kernel has it: a process that cannot confine itself does not serve. */
static void confine_children(void)
{
	const struct sock_filter permit = {.code = BPF_RET | BPF_K, .k = SECCOMP_RET_ALLOW};
	struct sock_fprog programs[2];

	for (size_t i = 0; i < ARRAY_SIZE(programs); i++) {
		programs[i] = (struct sock_fprog){1, malloc(sizeof(permit))};
		assert_non_null(programs[i].filter);
		programs[i].filter[0] = permit;
	}
	child_filter(CHILD_CALLS_GIVEN, &programs[0], &programs[1]);
	has_landlock = syscall(LANDLOCK_FIRST, NULL, 0, 1) > 0;
	child_landlock(has_landlock);
}

struct helpers {
	const struct helper_role *role;
	struct helper *helper;
};
static int make_helper(void *arg)
{
	struct helpers *h = arg;
	const uint8_t *answer;
	size_t len;
	int fd, r = helper_new(h->role, NULL, &h->helper);

	if (r < 0)
		return r;
	r = helper_ask(h->helper, "x", 1, -1);
	if (r >= 0)
		r = helper_wait(h->helper, 60 * NSEC_PER_SEC, &answer, &len, &fd);
	if (r >= 0 && h->role->calls == CHILD_CALLS_GIVEN && !answer[0])
		fail_msg("call %lu: a process serves that is not confined", calls_fail_at);
	if (r < 0) /* it ended: its own call had failed */
		h->helper = helper_free(h->helper);
	return r;
}
static void end_helper(void *arg)
{
	(void)helper_free(((struct helpers *)arg)->helper);
}

/* A connection with a descriptor in its queue, which a process of its own closes; where none can be made it stays open. */
static int make_closer(void *arg)
{
	struct closer *c = arg;
	int pair[2], r = REAL(socketpair)(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);

	assert_int_equal(r, 0);
	(void)close(pair[1]);
	closer_init(c);
	closer_pass(c, pair[0]);
	if (c->pid)
		return 0;
	assert_int_equal(close(pair[0]), 0);
	return -EAGAIN;
}
static void end_closer(void *arg)
{
	closer_deinit(arg);
}

/* ---- files and sockets ---- */

struct places {
	char folder[64], path[80];
	int fd;
	uint8_t *data;
};
static int make_cached(void *arg)
{
	static const char text[] = "kept";
	struct places *p = arg;
	size_t len = 0;
	int dir = cache_dir_open_in(p->folder), r;

	if (dir < 0)
		return dir;
	r = cache_dir_write(dir, "file", text, sizeof(text));
	if (r >= 0)
		r = cache_dir_read(dir, "file", 100, &p->data, &len);
	if (r >= 0) {
		assert_int_equal(len, sizeof(text));
		assert_memory_equal(p->data, text, len);
		cache_dir_trim(dir, "file", 1000);
	}
	(void)close(dir);
	return r;
}
static void end_cached(void *arg)
{
	free(((struct places *)arg)->data);
}

static int make_listener(void *arg)
{
	struct places *p = arg;
	int r = listen_at(p->path, 0600, &p->fd);

	if (r < 0 && access(p->path, F_OK) == 0)
		fail_msg("call %lu: %d, and the socket is there", calls_fail_at, r);
	return r;
}
static void end_listener(void *arg)
{
	const struct places *p = arg;

	(void)close(p->fd);
	assert_int_equal(unlink(p->path), 0);
}

/* No error of its own: a limit that cannot be read is none. */
static int make_limit(void *arg)
{
	(void)arg;
	(void)memory_left("");
	return 0;
}
static void end_nothing(void *arg)
{
	(void)arg;
}

/* ---- the tests ---- */

static void test_memory(void **state)
{
	struct queues queues;
	struct tables tables;
	struct loops loops;
	struct counts counts;
	const struct calls_made all[] = {
		{"queues", make_queues, end_queues, &queues},
		{"tables", make_tables, end_tables, &tables},
		{"loop", make_loop, end_loop, &loops},
		{"counts", make_counts, end_counts, &counts},
		{"memory left", make_limit, end_nothing, NULL},
	};

	(void)state;
	unshared_from(1024);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		calls_sweep(&all[i]);
}

static void test_processes(void **state)
{
	struct closer made;
	const struct calls_made closer = {"closer", make_closer, end_closer, &made};

	(void)state;
	confine_children();
	calls_of_children = true;
	child_spare();
	for (size_t i = 0; i < ARRAY_SIZE(roles); i++) {
		struct helpers helpers = {.role = &roles[i]};

		calls_sweep(&(struct calls_made){roles[i].name, make_helper, end_helper, &helpers});
	}
	child_spare_end();
	calls_sweep(&closer);
	calls_of_children = false;
	no_child_is_left();
}

static void test_files(void **state)
{
	struct places places = {.folder = "/tmp/perfwind-calls.XXXXXX"};
	const struct calls_made all[] = {
		{"cached file", make_cached, end_cached, &places},
		{"listener", make_listener, end_listener, &places},
	};
	char path[100];

	(void)state;
	assert_non_null(mkdtemp(places.folder));
	(void)snprintf(places.path, sizeof(places.path), "%s/s", places.folder);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		calls_sweep(&all[i]);
	(void)snprintf(path, sizeof(path), "%s/perfwind/file", places.folder);
	assert_int_equal(unlink(path), 0);
	(void)snprintf(path, sizeof(path), "%s/perfwind", places.folder);
	assert_int_equal(rmdir(path), 0); /* no other file was left */
	assert_int_equal(rmdir(places.folder), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory),
					   cmocka_unit_test(test_processes),
					   cmocka_unit_test(test_files)};

	return cmocka_run_group_tests_name("base-calls", tests, NULL, NULL);
}
