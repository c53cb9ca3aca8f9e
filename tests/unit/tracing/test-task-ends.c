/* test-task-ends.c - datagrams of taskstats, as the kernel sends them and damaged; the ends of a real process. */
#include <errno.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/taskstats.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "protos/trace.pb-c.h"
#include "tests/unit/tracing/task-sums.h"
#include "tracing/task-ends.h"
#include "tests/unit/cmocka.h"

enum { FAMILY = 21 };

/* nlmsghdr, genlmsghdr, AGGR_PID { PID, STATS }: the first two attributes' heads are 4 bytes each. */
struct datagram {
	struct nlmsghdr head;
	struct genlmsghdr generic;
	struct nlattr aggregate, pid;
	uint32_t pid_value;
	struct nlattr stats;
	struct taskstats value __attribute__((packed, aligned(4)));
};

static struct datagram datagram(void)
{
	struct datagram d = {
		.head = {.nlmsg_len = sizeof(d), .nlmsg_type = FAMILY},
		.aggregate = {.nla_type = TASKSTATS_TYPE_AGGR_PID},
		.pid = {.nla_len = 8, .nla_type = TASKSTATS_TYPE_PID},
		.stats = {.nla_type = TASKSTATS_TYPE_STATS},
	};

	d.aggregate.nla_len = (uint16_t)(sizeof(d) - offsetof(struct datagram, aggregate));
	d.stats.nla_len = (uint16_t)(sizeof(d) - offsetof(struct datagram, stats));
	memcpy(d.value.ac_comm, "cc1", 4);
	d.value.ac_pid = d.value.ac_tgid = 77;
	d.value.ac_ppid = 5;
	d.value.ac_utime = 3;
	d.value.ac_stime = 4;
	d.value.read_bytes = 4096;
	return d;
}

/* The packet that becomes of it; NULL: none. */
static Pb__Trace *take_datagram(const void *data, size_t len)
{
	const void *written;
	struct sink *to;
	Pb__Trace *t = NULL;
	size_t n;

	assert_int_equal(sink_memory_new(&to), 0);
	assert_int_equal(task_ends_take(data, len, FAMILY, to), 0);
	written = sink_memory_data(to, &n);
	if (n) {
		t = pb__trace__unpack(NULL, n, written);
		assert_non_null(t);
		assert_int_equal(t->n_packet, 1);
	}
	sink_free(to);
	return t;
}

static void test_process(void **state)
{
	struct datagram d = datagram();
	Pb__Trace *t = take_datagram(&d, sizeof(d));
	const Pb__ProcessStats__Process *p;

	(void)state;
	assert_non_null(t);
	assert_int_equal(t->packet[0]->process_stats->n_processes, 1);
	p = t->packet[0]->process_stats->processes[0];
	assert_int_equal(p->pid, 77);
	assert_true(sums(p)->ended);
	assert_memory_equal(sums(p)->comm.data, "cc1", sums(p)->comm.len);
	assert_int_equal(sums(p)->utime_ns, 3000);
	assert_int_equal(sums(p)->read_bytes, 4096);
	assert_false(sums(p)->has_wait_ns || p->has_vm_hwm_kb || sums(p)->has_state);
	pb__trace__free_unpacked(t, NULL);
}

static void test_thread(void **state)
{
	struct datagram d = datagram();
	const Pb__ProcessStats__Process *p;
	Pb__Trace *t;

	(void)state;
	d.value.ac_tgid = 70;
	d.value.cpu_count = 1;
	d.value.cpu_delay_total = 9;
	t = take_datagram(&d, sizeof(d));
	assert_non_null(t);
	p = t->packet[0]->process_stats->processes[0];
	assert_int_equal(p->pid, 70);
	assert_null(sums(p));
	assert_int_equal(p->n_threads, 1);
	assert_int_equal(p->threads[0]->tid, 77);
	assert_int_equal(p->threads[0]->perfwind_task->wait_ns, 9);
	pb__trace__free_unpacked(t, NULL);
}

/* Every length, every byte changed: no crash, and nothing of another family. */
static void test_damaged(void **state)
{
	struct datagram d = datagram();
	uint8_t bytes[sizeof(d)];

	(void)state;
	for (size_t len = 0; len < sizeof(d); len++)
		assert_null(take_datagram(&d, len));
	for (size_t i = 0; i < offsetof(struct datagram, value); i++)
		for (unsigned value = 0; value < 256; value += 5) {
			Pb__Trace *t;

			memcpy(bytes, &d, sizeof(d));
			bytes[i] = (uint8_t)value;
			t = take_datagram(bytes, sizeof(bytes));
			if (t)
				pb__trace__free_unpacked(t, NULL);
		}
	d.head.nlmsg_type = FAMILY + 1;
	assert_null(take_datagram(&d, sizeof(d)));
	/* An older kernel's struct: up to cancelled_write_bytes is enough. */
	d = datagram();
	d.stats.nla_len = (uint16_t)(4 + offsetof(struct taskstats, nvcsw));
	d.aggregate.nla_len = (uint16_t)(4 + 8 + d.stats.nla_len);
	pb__trace__free_unpacked(take_datagram(&d, sizeof(d)), NULL);
	d.stats.nla_len = 100;
	assert_null(take_datagram(&d, sizeof(d)));
}

/* Another process that may send to netlink sockets reaches none of ours: the lowest number is the process's own. */
static void expect_no_other_sender(void)
{
	const struct sockaddr_nl ours = {.nl_family = AF_NETLINK, .nl_pid = (uint32_t)getpid()};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);

	assert_true(fd >= 0);
	assert_int_equal(sendto(fd, "x", 1, 0, (const struct sockaddr *)&ours, sizeof(ours)), -1);
	assert_int_equal(errno, ECONNREFUSED);
	(void)close(fd);
}

/* The kernel's own, where it may be had. */
static void test_real(void **state)
{
	struct task_ends *ends;
	struct sink *to, *memory;
	struct loop loop;
	bool found = false;
	pid_t pid;
	int r;

	(void)state;
	assert_int_equal(loop_init(&loop), 0);
	assert_int_equal(sink_memory_new(&memory), 0);
	to = memory;
	r = task_ends_new(&loop, &to, &ends);
	if (r < 0) {
		assert_true(r == -EPERM || r == -ENOENT || r == -EPROTONOSUPPORT);
		print_message("ends of tasks cannot be had here: %s\n", strerror(-r));
		loop_deinit(&loop);
		sink_free(memory);
		skip();
	}
	expect_no_other_sender();
	pid = fork();
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	while (!found) {
		const void *data;
		Pb__Trace *t;
		size_t len;

		assert_int_equal(loop_run_once(&loop, -1), 0);
		data = sink_memory_data(memory, &len);
		t = pb__trace__unpack(NULL, len, data);
		assert_non_null(t);
		for (size_t i = 0; i < t->n_packet; i++)
			found |= t->packet[i]->process_stats->processes[0]->pid == pid;
		pb__trace__free_unpacked(t, NULL);
	}
	assert_null(task_ends_free(ends));
	loop_deinit(&loop);
	sink_free(memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_process),
		cmocka_unit_test(test_thread),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_real),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
