/* test-trace-clones.c - snapshots of a trace session: when each is flushed and written, and its end. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"
#include "tracing/trace-clones.h"

enum { LONG_MS = 3600 * 1000 };

/* A trace session that counts. */
struct fixture {
	struct loop loop;
	struct trace_clones *clones;
	int flush_result, open_result, write_result;
	unsigned n_flushes, n_files;
	int files[TRACE_CLONES];
	unsigned n_written;
	struct trace_clone_result results[TRACE_CLONES];
	char name[64]; /* of the last */
};

static int count_flush(void *arg)
{
	struct fixture *f = arg;

	f->n_flushes++;
	return f->flush_result;
}

static int open_memory(void *arg, char *name, size_t size)
{
	struct fixture *f = arg;
	int fd;

	if (f->open_result < 0)
		return f->open_result;
	(void)snprintf(name, size, "file-%u", f->n_files);
	fd = memfd_create(name, MFD_CLOEXEC);
	assert_true(fd >= 0);
	f->files[f->n_files++] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return fd;
}

static int write_name(void *arg, const struct trace_clone_trigger *trigger, int fd,
		      struct trace_clone_result *ret_result)
{
	struct fixture *f = arg;
	ssize_t n = write(fd, trigger->name, strlen(trigger->name));

	if (f->write_result < 0)
		return f->write_result;
	ret_result->bytes = (uint64_t)n;
	ret_result->written.packets = trigger->uid;
	return 0;
}

static void note_written(void *arg, const char *name, const struct trace_clone_result *result)
{
	struct fixture *f = arg;

	(void)snprintf(f->name, sizeof(f->name), "%s", name);
	f->results[f->n_written++] = *result;
}

static void start(struct fixture *f)
{
	const struct trace_clone_calls calls = {count_flush, open_memory, write_name, note_written,
						f};

	*f = (struct fixture){0};
	assert_int_equal(loop_init(&f->loop), 0);
	assert_int_equal(trace_clones_new(&calls, &f->loop, &f->clones), 0);
}

static void finish(struct fixture *f)
{
	assert_null(trace_clones_free(f->clones));
	for (unsigned i = 0; i < f->n_files; i++)
		(void)fd_close(f->files[i]);
	loop_deinit(&f->loop);
}

static int add(struct fixture *f, const char *name, uint32_t delay_ms)
{
	struct trace_clone_trigger trigger = {.uid = 7};

	(void)snprintf(trigger.name, sizeof(trigger.name), "%s", name);
	return trace_clones_add(f->clones, &trigger, delay_ms);
}

static void await_flush(struct fixture *f, unsigned n)
{
	while (f->n_flushes < n)
		assert_int_equal(loop_run_once(&f->loop, -1), 0);
}

static void await_written(struct fixture *f, unsigned n)
{
	while (f->n_written < n)
		assert_int_equal(loop_run_once(&f->loop, -1), 0);
}

static void expect_file(const struct fixture *f, unsigned i, const char *text)
{
	char found[64] = "";

	assert_true(pread(f->files[i], found, sizeof(found) - 1, 0) >= 0);
	assert_string_equal(found, text);
}

/* Due, flushed, written by a process of its own, reported. */
static void test_one(void **state)
{
	struct fixture f;

	(void)state;
	start(&f);
	assert_int_equal(trace_clones_pending(f.clones), 0);
	assert_int_equal(add(&f, "early", 1), 0);
	assert_int_equal(add(&f, "late", LONG_MS), 0);
	assert_int_equal(trace_clones_pending(f.clones), 2);
	await_flush(&f, 1);
	assert_int_equal(f.n_files, 0); /* not before the flush has ended */
	trace_clones_flushed(f.clones);
	await_written(&f, 1);
	assert_string_equal(f.name, "file-0");
	expect_file(&f, 0, "early");
	assert_int_equal(f.results[0].error, 0);
	assert_int_equal(f.results[0].bytes, 5);
	assert_int_equal(f.results[0].written.packets, 7);
	assert_int_equal(trace_clones_pending(f.clones), 1);
	/* The session ends: no wait, no flush. */
	trace_clones_finish(f.clones);
	await_written(&f, 2);
	expect_file(&f, 1, "late");
	assert_int_equal(f.n_flushes, 1);
	assert_int_equal(trace_clones_pending(f.clones), 0);
	finish(&f);
}

/* A flush that began before the trigger does not cover it: another one follows.  One that is impossible is not waited for. */
static void test_flushes(void **state)
{
	struct fixture f;

	(void)state;
	start(&f);
	f.flush_result = TRACE_CLONES_BUSY;
	assert_int_equal(add(&f, "a", 0), 0);
	await_flush(&f, 1);
	f.flush_result = 0;
	trace_clones_flushed(f.clones); /* the end of the earlier one */
	assert_int_equal(f.n_flushes, 2);
	assert_int_equal(f.n_files, 0);
	trace_clones_flushed(f.clones);
	assert_int_equal(f.n_files, 1);
	await_written(&f, 1);
	f.flush_result = -EIO;
	assert_int_equal(add(&f, "b", 0), 0);
	await_written(&f, 2);
	expect_file(&f, 1, "b");
	assert_int_equal(f.results[1].error, 0);
	trace_clones_flushed(f.clones); /* none was due */
	assert_int_equal(f.n_files, 2);
	finish(&f);
}

static void test_failures(void **state)
{
	struct fixture f;

	(void)state;
	start(&f);
	f.open_result = -EROFS;
	assert_int_equal(add(&f, "a", 0), 0);
	trace_clones_finish(f.clones);
	assert_int_equal(f.n_written, 1);
	assert_int_equal(f.results[0].error, -EROFS);
	assert_string_equal(f.name, "");
	f.open_result = 0;
	f.write_result = -ENOSPC;
	assert_int_equal(add(&f, "b", 0), 0);
	trace_clones_finish(f.clones);
	await_written(&f, 2);
	assert_int_equal(f.results[1].error, -ENOSPC);
	assert_int_equal(trace_clones_pending(f.clones), 0);
	finish(&f);
}

/* As many as there is room for, and again when they are written; what waits at the end is dropped. */
static void test_many(void **state)
{
	struct fixture f;

	(void)state;
	start(&f);
	for (unsigned i = 0; i < TRACE_CLONES; i++)
		assert_int_equal(add(&f, "x", LONG_MS), 0);
	assert_int_equal(add(&f, "y", LONG_MS), -EBUSY);
	assert_int_equal(trace_clones_pending(f.clones), TRACE_CLONES);
	trace_clones_finish(f.clones);
	await_written(&f, TRACE_CLONES);
	for (unsigned i = 0; i < TRACE_CLONES; i++)
		expect_file(&f, i, "x");
	assert_int_equal(add(&f, "z", LONG_MS), 0);
	assert_int_equal(f.n_flushes, 0);
	finish(&f);
}

/* A session without snapshots. */
static void test_none(void **state)
{
	(void)state;
	trace_clones_flushed(NULL);
	trace_clones_finish(NULL);
	assert_int_equal(trace_clones_pending(NULL), 0);
	assert_null(trace_clones_free(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one),	 cmocka_unit_test(test_flushes),
		cmocka_unit_test(test_failures), cmocka_unit_test(test_many),
		cmocka_unit_test(test_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
