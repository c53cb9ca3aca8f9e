/* test-task-polls.c - ends of tasks between two polls of a fake /proc, and of this machine. */
#include <dirent.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "protos/trace.pb-c.h"
#include "tests/unit/tracing/task-sums.h"
#include "tests/unit/fake-root.h"
#include "tracing/recorder.h"

#define S NSEC_PER_SEC
#define STAT(ticks, start)                                                 \
	" 0 0 0 -1 0 0 0 0 0 " ticks " 50 0 0 20 0 1 0 " start " 1000 10 " \
	"18446744073709551615 0\n"
#define STAT_THREADS(n, start)                                           \
	" 0 0 0 -1 0 0 0 0 0 100 50 0 0 20 0 " n " 0 " start " 1000 10 " \
	"18446744073709551615 0\n"

struct fixture {
	struct task_table *table;
	struct task_polls *polls;
	struct sink *to;
	Pb__Trace *trace;
};

static void begin(struct fixture *f, const char *from)
{
	*f = (struct fixture){0};
	assert_int_equal(task_table_new(from, &f->table), 0);
	assert_int_equal(task_polls_new(f->table, &f->polls), 0);
	assert_int_equal(sink_memory_new(&f->to), 0);
}

static void end(struct fixture *f)
{
	if (f->trace)
		pb__trace__free_unpacked(f->trace, NULL);
	assert_null(task_polls_free(f->polls));
	assert_null(task_table_free(f->table));
	(void)sink_free(f->to);
}

/* The number of packets, each with the row of one end. */
static size_t poll_at(struct fixture *f, uint64_t at)
{
	const void *data;
	size_t len;

	if (f->trace)
		pb__trace__free_unpacked(f->trace, NULL);
	sink_memory_clear(f->to);
	assert_int_equal(task_polls_poll(f->polls, at, f->to), 0);
	data = sink_memory_data(f->to, &len);
	f->trace = pb__trace__unpack(NULL, len, data);
	assert_non_null(f->trace);
	return f->trace->n_packet;
}

static const Pb__ProcessStats__Process *row(const struct fixture *f, size_t i)
{
	assert_int_equal(f->trace->packet[i]->process_stats->n_processes, 1);
	return f->trace->packet[i]->process_stats->processes[0];
}

static void remove_file(const char *path)
{
	char whole[512];

	(void)snprintf(whole, sizeof(whole), "%s%s", root, path);
	assert_int_equal(unlink(whole), 0);
}

static void expect_bytes(const ProtobufCBinaryData *data, const char *text)
{
	assert_int_equal(data->len, strlen(text));
	assert_memory_equal(data->data, text, data->len);
}

static void test_ends(void **state)
{
	const Pb__ProcessStats__Process *p;
	const Pb__PerfwindTask *task;
	struct fixture f;

	(void)state;
	put("/proc/12/stat", "12 (cc1) R 7" STAT("250", "77"));
	put("/proc/12/schedstat", "100 2000 3\n");
	put("/proc/12/io", "rchar: 1\nread_bytes: 0\nwrite_bytes: 8192\n"
			   "cancelled_write_bytes: 512\n");
	put("/proc/12/oom_score_adj", "-17\n");
	put("/proc/12/cgroup", "0::/user.slice\n");
	put("/proc/40/stat", "40 (other) S 1" STAT("1", "78")); /* io is refused */
	begin(&f, root);
	assert_int_equal(poll_at(&f, 100 * S), 0);
	put("/proc/12/stat", "12 (cc1) R 7" STAT("350", "77"));
	assert_int_equal(poll_at(&f, 110 * S), 0); /* both live */
	remove_file("/proc/12/stat");
	assert_int_equal(poll_at(&f, 113 * S), 1);
	p = row(&f, 0);
	task = sums(p);
	assert_int_equal(p->pid, 12);
	assert_int_equal(p->vm_rss_kb, 10 * sysconf(_SC_PAGESIZE) / 1024);
	assert_int_equal(p->oom_score_adj, -17);
	expect_bytes(&task->comm, "cc1");
	assert_int_equal(task->ppid, 7);
	assert_int_equal(task->state, 'R');
	assert_int_equal(task->utime_ns, 350 * (S / (uint64_t)sysconf(_SC_CLK_TCK)));
	assert_int_equal(task->wait_ns, 2000);
	assert_true(task->has_read_bytes);
	assert_int_equal(task->read_bytes, 0);
	assert_int_equal(task->write_bytes, 8192);
	assert_int_equal(task->cancelled_write_bytes, 512);
	expect_bytes(&task->cgroup, "/user.slice");
	assert_true(task->ended);
	assert_int_equal(task->age_ns, 3 * S);
	/* The pid is used again: the one before has ended.  What was refused is absent. */
	put("/proc/40/stat", "40 (new) S 1" STAT("1", "99"));
	assert_int_equal(poll_at(&f, 120 * S), 1);
	p = row(&f, 0);
	expect_bytes(&sums(p)->comm, "other");
	assert_int_equal(sums(p)->age_ns, 7 * S);
	assert_false(sums(p)->has_read_bytes);
	assert_false(sums(p)->has_wait_ns);
	assert_false(p->has_oom_score_adj);
	assert_false(sums(p)->has_cgroup);
	assert_int_equal(poll_at(&f, 121 * S), 0);
	remove_file("/proc/40/stat");
	assert_int_equal(poll_at(&f, 122 * S), 1);
	expect_bytes(&sums(row(&f, 0))->comm, "new");
	end(&f);
}

static void test_threads(void **state)
{
	const Pb__ProcessStats__Process *p;
	struct fixture f;

	(void)state;
	put("/proc/50/stat", "50 (many) S 1" STAT_THREADS("2", "80"));
	put("/proc/50/task/50/stat", "50 (many) S 1" STAT_THREADS("2", "80"));
	put("/proc/50/task/51/stat", "51 (worker) S 1" STAT_THREADS("2", "81"));
	begin(&f, root);
	assert_int_equal(poll_at(&f, 100 * S), 0);
	remove_file("/proc/50/task/51/stat");
	assert_int_equal(poll_at(&f, 101 * S), 1);
	p = row(&f, 0);
	assert_int_equal(p->pid, 50);
	assert_int_equal(p->n_threads, 1);
	assert_int_equal(p->threads[0]->tid, 51);
	expect_bytes(&p->threads[0]->perfwind_task->comm, "worker");
	assert_true(p->threads[0]->perfwind_task->ended);
	end(&f);
}

/* Thousands of tasks that come and go: each end is reported once, whatever the table's order. */
static void test_many(void **state)
{
	enum { MANY = 300 };
	struct fixture f;
	char path[64], text[256];
	bool running[MANY] = {0};
	uint64_t random = 7;

	(void)state;
	begin(&f, root);
	for (uint64_t at = 1; at < 40; at++) {
		size_t ends = 0, rows;

		for (uint32_t i = 0; i < MANY; i++) {
			random = hash_u64(random + i);
			if (random & 1)
				continue;
			(void)snprintf(path, sizeof(path), "/proc/%u/stat", 1000 + 17 * i);
			(void)snprintf(text, sizeof(text), "%u (t) S 1" STAT("1", "5"),
				       1000 + 17 * i);
			if (running[i])
				remove_file(path);
			else
				put(path, text);
			ends += running[i];
			running[i] = !running[i];
		}
		rows = poll_at(&f, at * S);
		assert_int_equal(rows, ends);
		for (size_t k = 0; k < rows; k++) {
			uint32_t i = ((uint32_t)row(&f, k)->pid - 1000) / 17;

			assert_true(i < MANY && !running[i]);
		}
	}
	end(&f);
}

/* A process of this machine that ends. */
static void test_machine(void **state)
{
	struct fixture f;
	bool found = false;
	pid_t child;
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		char byte;

		(void)close(fds[1]);
		_exit(read(fds[0], &byte, 1) == 0 ? 0 : 1);
	}
	begin(&f, "");
	(void)poll_at(&f, clock_ns(CLOCK_BOOTTIME));
	(void)close(fds[0]);
	(void)close(fds[1]);
	assert_int_equal(waitpid(child, NULL, 0), child);
	for (size_t i = poll_at(&f, clock_ns(CLOCK_BOOTTIME)); i-- > 0;)
		found |= row(&f, i)->pid == child && sums(row(&f, i))->ended;
	assert_true(found);
	end(&f);
}

static void test_wait(void **state)
{
	(void)state;
	assert_int_equal(task_polls_wait_ms(0), TASK_POLLS_MIN_MS);
	assert_int_equal(task_polls_wait_ms(8 * NSEC_PER_MSEC), 8000);
	assert_int_equal(task_polls_wait_ms(S), TASK_POLLS_MAX_MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ends), cmocka_unit_test(test_threads),
		cmocka_unit_test(test_many), cmocka_unit_test(test_machine),
		cmocka_unit_test(test_wait),
	};

	int failed;

	fake_root_make();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	return fake_root_remove() ? 1 : failed;
}
