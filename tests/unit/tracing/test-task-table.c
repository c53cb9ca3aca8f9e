/* test-task-table.c - rows of processes and threads: of text files, of this machine, damaged ones. */
#include <errno.h>
#include <unistd.h>

#include "protos/trace.pb-c.h"
#include "tests/unit/tracing/task-sums.h"
#include "tracing/task-table.h"
#include "tests/unit/fake-root.h"

static Pb__Trace *trace;

static void read_tasks(const char *from)
{
	struct task_table *t;
	struct sink *to;
	const void *data;
	size_t len;

	if (trace)
		pb__trace__free_unpacked(trace, NULL);
	assert_int_equal(sink_memory_new(&to), 0);
	assert_int_equal(task_table_new(from, &t), 0);
	assert_int_equal(task_table_write(t, to), 0);
	data = sink_memory_data(to, &len);
	trace = pb__trace__unpack(NULL, len, data);
	assert_non_null(trace);
	assert_null(task_table_free(t));
	sink_free(to);
}

static const Pb__ProcessStats__Process *find(int32_t pid)
{
	for (size_t i = 0; i < trace->n_packet; i++)
		for (size_t k = 0; k < trace->packet[i]->process_stats->n_processes; k++)
			if (trace->packet[i]->process_stats->processes[k]->pid == pid)
				return trace->packet[i]->process_stats->processes[k];
	return NULL;
}

#define STAT(threads) \
	" 0 0 0 -1 0 0 0 0 0 250 50 0 0 20 0 " threads " 0 77 1000 10 18446744073709551615 0\n"

static void test_rows(void **state)
{
	const Pb__ProcessStats__Process *p;
	const Pb__PerfwindTask *task;

	(void)state;
	put("/proc/12/stat", "12 (cc1) R 7" STAT("1"));
	put("/proc/12/io",
	    "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 4096\nwrite_bytes: 8192\n"
	    "cancelled_write_bytes: 512\n");
	put("/proc/12/schedstat", "100 2000 3\n");
	put("/proc/12/oom_score_adj", "-17\n");
	put("/proc/12/cgroup", "0::/user.slice/a b\n");
	/* Another user's: io and the rest are refused. */
	put("/proc/40/stat", "40 (a) S) x (b) S 1" STAT("2"));
	put("/proc/40/task/40/stat", "40 (one) S 1" STAT("2"));
	put("/proc/40/task/41/stat", "41 (two) D 1" STAT("2"));
	put("/proc/40/task/41/schedstat", "1 99 1\n");
	/* No processes. */
	put("/proc/uptime/stat", "13 (x) R 7" STAT("1"));
	put("/proc/13x/stat", "13 (x) R 7" STAT("1"));
	read_tasks(root);
	p = find(12);
	assert_non_null(p);
	task = sums(p);
	assert_int_equal(task->comm.len, 3);
	assert_memory_equal(task->comm.data, "cc1", 3);
	assert_int_equal(task->ppid, 7);
	assert_int_equal(task->state, 'R');
	assert_int_equal(task->utime_ns, 2500000000);
	assert_int_equal(task->stime_ns, 500000000);
	assert_int_equal(task->wait_ns, 2000);
	assert_int_equal(task->read_bytes, 4096);
	assert_int_equal(task->write_bytes, 8192);
	assert_int_equal(task->cancelled_write_bytes, 512);
	assert_int_equal(task->cgroup.len, 15);
	assert_memory_equal(task->cgroup.data, "/user.slice/a b", 15);
	assert_int_equal(p->oom_score_adj, -17);
	assert_int_equal(p->vm_rss_kb, 10 * (uint64_t)sysconf(_SC_PAGESIZE) / 1024);
	assert_int_equal(p->n_threads, 1);
	assert_false(task->has_ended || task->has_age_ns || p->has_vm_hwm_kb);
	p = find(40);
	assert_non_null(p);
	task = sums(p);
	assert_memory_equal(task->comm.data, "a) S) x (b", task->comm.len);
	assert_false(task->has_read_bytes || task->has_write_bytes || task->has_wait_ns ||
		     task->has_cgroup || p->has_oom_score_adj);
	assert_int_equal(p->n_threads, 3);
	for (size_t i = 0; i < 2; i++) {
		bool second = p->threads[i]->tid == 41;

		task = p->threads[i]->perfwind_task;
		assert_memory_equal(task->comm.data, second ? "two" : "one", 3);
		assert_int_equal(task->has_wait_ns, second);
		assert_false(task->has_ppid);
	}
	assert_null(find(13));
}

static void test_damaged(void **state)
{
	static const char *const texts[] = {
		"",
		"\n",
		"(",
		")(",
		"50 (x",
		"50 (x)",
		"50 (x) R",
		"50 (x) R 1 2 3",
		"50 (x) R 1 x 3 4 5 6 7 8 9 1 2 3 4 5 6 7 8 9 1 2 3 4 5"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		put("/proc/50/stat", texts[i]);
		read_tasks(root);
		assert_null(find(50));
		assert_non_null(find(12));
	}
}

/* This process, on this machine; what takes more room than a packet is in several. */
static void test_real(void **state)
{
	const Pb__ProcessStats__Process *p;

	(void)state;
	read_tasks("");
	p = find(getpid());
	assert_non_null(p);
	assert_int_equal(sums(p)->ppid, getppid());
	assert_memory_equal(sums(p)->comm.data, "test-task-table", sums(p)->comm.len);
	assert_int_equal(sums(p)->state, 'R');
	assert_true(p->vm_rss_kb > 0 && sums(p)->has_utime_ns);
}

static void test_no_proc(void **state)
{
	struct task_table *t;
	struct sink *to;

	(void)state;
	assert_int_equal(sink_memory_new(&to), 0);
	assert_int_equal(task_table_new("/nowhere", &t), 0);
	assert_int_equal(task_table_write(t, to), -ENOENT);
	assert_null(task_table_free(t));
	sink_free(to);
}

struct each {
	unsigned processes, threads;
	bool self;
};

static void count_task(void *arg, uint32_t process, const struct task_row *row)
{
	struct each *e = arg;

	e->processes += row->pid == process;
	e->threads += row->pid != process;
	assert_true(e->processes > 0); /* a process comes before its threads */
	if (process != (uint32_t)getpid() || row->pid != process)
		return;
	e->self = true;
	assert_true(row->has & TASK_COMM);
	assert_true(row->start_ticks > 0);
	assert_false(row->ended);
}

/* The rows alone, of this machine. */
static void test_each(void **state)
{
	struct each e = {0};
	struct task_table *t;

	(void)state;
	assert_int_equal(task_table_new("", &t), 0);
	assert_int_equal(task_table_each(t, count_task, &e), 0);
	assert_true(e.self);
	assert_null(task_table_free(t));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows), cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_real), cmocka_unit_test(test_no_proc),
		cmocka_unit_test(test_each),
	};
	int failed;

	fake_root_make();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	if (trace)
		pb__trace__free_unpacked(trace, NULL);
	return fake_root_remove() < 0 ? 1 : failed;
}
