/* test-hook-server.c - answers at the hook socket, honest and forged: each peer is a process of its
 * own, what it sends is what a verdict is stated for. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "session/consent/hook-server.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/lingering.h"

enum { MAX_FDS = 12, CONNECTIONS = 10000 };

static struct fixture {
	struct hook_server server;
	struct sockaddr_un address;
	socklen_t address_len;
	_Atomic uint64_t at_work, counts[HOOK_VERDICTS];
	uint32_t verified; /* the last one */
	size_t n_verified;
	bool refuse; /* what is verified cannot be passed on */
} f;

static int verified(void *arg, uint32_t pid, const int fds[static HOOK_DESCRIPTORS])
{
	char byte;

	(void)arg;
	assert_int_equal(hook_at_work_pid(f.at_work), pid);
	assert_int_equal(hook_at_work_uid(f.at_work), getuid());
	if (f.refuse)
		return -EAGAIN;
	f.verified = pid;
	f.n_verified++;
	assert_int_equal(pread(fds[HOOK_MAPS], &byte, 1, 0), 1);
	return 0;
}

static int n_sockets;

static int set_up(void **state)
{
	(void)state;
	memset(&f, 0, sizeof(f));
	f.address.sun_family = AF_UNIX;
	(void)snprintf(f.address.sun_path + 1, sizeof(f.address.sun_path) - 1,
		       "perfwind-test-server-%d-%d", getpid(), ++n_sockets);
	f.address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				    strlen(f.address.sun_path + 1));
	f.server = (struct hook_server){
		.peer_pidfd = true,
		.deadline = 50,
		.at_work = &f.at_work,
		.counts = f.counts,
		.verified = verified,
	};
	f.server.listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(f.server.listen_fd, (struct sockaddr *)&f.address, f.address_len), 0);
	assert_int_equal(listen(f.server.listen_fd, 128), 0);
	hook_server_init(&f.server);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	hook_server_deinit(&f.server);
	close(f.server.listen_fd);
	return 0;
}

/* ---- peers ---- */

struct peer {
	pid_t pid;
	int go, done;
};

static int reach(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (connect(fd, (struct sockaddr *)&f.address, f.address_len) < 0)
		_exit(3);
	return fd;
}

static void send_message(int to, const char *data, size_t len, const int *fds, size_t n)
{
	union {
		char bytes[CMSG_SPACE(MAX_FDS * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {.iov_base = (char *)(uintptr_t)data, .iov_len = len};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c;

	if (n) {
		m.msg_control = control.bytes;
		m.msg_controllen = CMSG_SPACE(n * sizeof(int));
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	}
	if (sendmsg(to, &m, MSG_NOSIGNAL) != (ssize_t)len)
		_exit(4);
}

static int own(const char *name)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/thread-self/%s", name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static void both(int maps, int mem)
{
	const int fds[] = {maps, mem};

	send_message(reach(), "p", 1, fds, 2);
}

/* Runs @send when it is let go, reports it, and stays until it is killed. */
static void peer_start(struct peer *p, void (*send)(void))
{
	int go[2], done[2];

	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	assert_int_equal(pipe2(done, O_CLOEXEC), 0);
	p->pid = fork();
	if (!p->pid) {
		char byte;

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (read(go[0], &byte, 1) != 1)
			_exit(2);
		send();
		if (write(done[1], "d", 1) != 1)
			_exit(2);
		for (;;)
			pause();
	}
	close(go[0]);
	close(done[1]);
	p->go = go[1];
	p->done = done[0];
}

static void peer_go(struct peer *p)
{
	char byte;

	assert_int_equal(write(p->go, "g", 1), 1);
	assert_int_equal(read(p->done, &byte, 1), 1);
}

static void peer_end(struct peer *p)
{
	int status;

	kill(p->pid, SIGKILL);
	assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
	close(p->go);
	close(p->done);
}

static size_t n_open(void)
{
	size_t n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* One asked peer's answer: exactly this verdict, and no descriptor stays. */
static void expect_verdict(void (*send)(void), enum hook_verdict verdict)
{
	uint64_t before[HOOK_VERDICTS];
	size_t fds = n_open();
	struct peer p;

	for (int i = 0; i < HOOK_VERDICTS; i++)
		before[i] = f.counts[i];
	peer_start(&p, send);
	assert_int_equal(hook_server_expect(&f.server, (uint32_t)p.pid), 0);
	peer_go(&p);
	hook_server_take(&f.server);
	for (int i = 0; i < HOOK_VERDICTS; i++) {
		if (f.counts[i] != before[i] + (i == (int)verdict))
			fail_msg("%s: counted %lu times, not %d", hook_verdict_word(i),
				 f.counts[i] - before[i], i == (int)verdict);
	}
	assert_int_equal(f.server.n_peers, 0);
	assert_int_equal(f.at_work, 0);
	hook_server_forget(&f.server, (uint32_t)p.pid);
	peer_end(&p);
	closer_deinit(&f.server.closer);
	assert_int_equal(n_open(), fds);
}

/* ---- what is sent ---- */

static void send_good(void)
{
	both(own("maps"), own("mem"));
}

static void send_good_by_pid(void)
{
	both(open("/proc/self/maps", O_RDONLY), open("/proc/self/mem", O_RDONLY));
}

static void *send_in_thread(void *arg)
{
	(void)arg;
	send_good();
	for (;;)
		pause();
	return NULL;
}

static void send_good_from_thread(void)
{
	pthread_t thread;

	(void)pthread_create(&thread, NULL, send_in_thread, NULL);
}

static pid_t opener;

static void *open_both(void *arg)
{
	int *fds = arg;

	opener = gettid();
	fds[0] = own("maps");
	fds[1] = own("mem");
	return arg;
}

static void send_of_ended_thread(void)
{
	pthread_t thread;
	int fds[2];

	if (pthread_create(&thread, NULL, open_both, fds) || pthread_join(thread, NULL))
		_exit(5);
	await_thread_end(opener);
	both(fds[0], fds[1]);
}

static void send_swapped(void)
{
	both(own("mem"), own("maps"));
}

static void send_maps_twice(void)
{
	both(own("maps"), own("maps"));
}

static void send_others(void)
{
	char maps[64], mem[64];

	(void)snprintf(maps, sizeof(maps), "/proc/%d/maps", getppid());
	(void)snprintf(mem, sizeof(mem), "/proc/%d/mem", getppid());
	both(open(maps, O_RDONLY), open(mem, O_RDONLY));
}

static void send_others_mem(void)
{
	char mem[64];

	(void)snprintf(mem, sizeof(mem), "/proc/%d/mem", getppid());
	both(own("maps"), open(mem, O_RDONLY));
}

static void send_status(void)
{
	both(own("status"), own("mem"));
}

static void send_smaps(void)
{
	both(own("smaps"), own("mem"));
}

static void send_writable(void)
{
	both(own("maps"), open("/proc/thread-self/mem", O_RDWR));
}

static void send_path_only(void)
{
	both(open("/proc/thread-self/maps", O_PATH), own("mem"));
}

static void send_memfd(void)
{
	both(memfd_create("/proc/1/maps", 0), own("mem"));
}

static void send_memfd_read_only(void)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", memfd_create("maps", 0));
	both(open(path, O_RDONLY), own("mem"));
}

static void send_pipe(void)
{
	int fds[2];

	(void)!pipe(fds);
	both(fds[0], own("mem"));
}

static void send_socket(void)
{
	both(socket(AF_UNIX, SOCK_STREAM, 0), own("mem"));
}

static void send_device(void)
{
	both(open("/dev/zero", O_RDONLY), own("mem"));
}

static void send_directory(void)
{
	both(open("/proc/thread-self", O_RDONLY | O_DIRECTORY), own("mem"));
}

static char folder[64];

/* A file, or FIFO, that is called as the real one is: FOLDER/PID/task/PID/maps. */
static int lookalike(bool fifo)
{
	char path[256];
	int n = snprintf(path, sizeof(path), "%s/%d", folder, getpid());

	mkdir(path, 0700);
	n += snprintf(path + n, sizeof(path) - (size_t)n, "/task");
	mkdir(path, 0700);
	n += snprintf(path + n, sizeof(path) - (size_t)n, "/%d", getpid());
	mkdir(path, 0700);
	(void)snprintf(path + n, sizeof(path) - (size_t)n, "/maps");
	if (fifo)
		mkfifo(path, 0600);
	else
		close(open(path, O_CREAT | O_WRONLY, 0600));
	return open(path, O_RDONLY | O_NONBLOCK);
}

static void send_lookalike(void)
{
	both(lookalike(false), own("mem"));
}

static void send_fifo(void)
{
	both(lookalike(true), own("mem"));
}

static void send_none(void)
{
	send_message(reach(), "p", 1, NULL, 0);
}

static void send_one(void)
{
	const int fd = own("maps");

	send_message(reach(), "p", 1, &fd, 1);
}

static void send_n(size_t n)
{
	int fds[MAX_FDS];

	for (size_t i = 0; i < n; i++)
		fds[i] = own(i % 2 ? "mem" : "maps");
	send_message(reach(), "p", 1, fds, n);
}

static void send_three(void)
{
	send_n(3);
}

static void send_twelve(void)
{
	send_n(MAX_FDS);
}

static void send_other_byte(void)
{
	const int fds[] = {own("maps"), own("mem")};

	send_message(reach(), "q", 1, fds, 2);
}

static void send_more_bytes(void)
{
	const int fds[] = {own("maps"), own("mem")};

	send_message(reach(), "pp", 2, fds, 2);
}

/* The byte first, the descriptors with a second one. */
static void send_in_halves(void)
{
	const int fds[] = {own("maps"), own("mem")};
	int to = reach();

	send_message(to, "p", 1, NULL, 0);
	send_message(to, "p", 1, fds, 2);
}

static void send_nothing_and_close(void)
{
	close(reach());
}

static void connect_only(void)
{
	(void)reach();
}

/* ---- tests ---- */

static void test_good(void **state)
{
	(void)state;
	expect_verdict(send_good, HOOK_GOOD);
	expect_verdict(send_good_by_pid, HOOK_GOOD);
	assert_int_equal(f.n_verified, 2);
	f.server.peer_pidfd = false; /* before Linux 6.5 */
	expect_verdict(send_good, HOOK_GOOD);
	f.refuse = true;
	expect_verdict(send_good, HOOK_NOT_PASSED);
}

static void test_from_thread(void **state)
{
	struct peer p;
	bool other;

	(void)state;
	peer_start(&p, send_good_from_thread);
	assert_int_equal(hook_server_expect(&f.server, (uint32_t)p.pid), 0);
	peer_go(&p);
	for (int i = 0; i < 100 && !f.n_verified; i++) {
		assert_int_equal(hook_server_wait(&f.server, -1, 100, &other), 0);
		hook_server_take(&f.server);
	}
	assert_int_equal(f.verified, p.pid);
	assert_int_equal(f.counts[HOOK_GOOD], 1);
	peer_end(&p);
}

static void test_forged(void **state)
{
	char clean[128];

	(void)state;
	(void)snprintf(folder, sizeof(folder), "/tmp/test-hook-server-XXXXXX");
	assert_non_null(mkdtemp(folder));
	expect_verdict(send_swapped, HOOK_NOT_ITS_OWN);
	expect_verdict(send_maps_twice, HOOK_NOT_ITS_OWN);
	expect_verdict(send_others, HOOK_NOT_ITS_OWN);
	expect_verdict(send_others_mem, HOOK_NOT_ITS_OWN);
	expect_verdict(send_status, HOOK_NOT_ITS_OWN);
	expect_verdict(send_smaps, HOOK_NOT_ITS_OWN);
	expect_verdict(send_writable, HOOK_WRITABLE);
	expect_verdict(send_path_only, HOOK_WRITABLE);
	expect_verdict(send_memfd, HOOK_WRITABLE);
	expect_verdict(send_memfd_read_only, HOOK_NOT_PROC);
	expect_verdict(send_pipe, HOOK_NOT_PROC);
	expect_verdict(send_socket, HOOK_WRITABLE);
	expect_verdict(send_device, HOOK_NOT_PROC);
	expect_verdict(send_directory, HOOK_NOT_PROC);
	expect_verdict(send_lookalike, HOOK_NOT_PROC);
	expect_verdict(send_fifo, HOOK_NOT_PROC);
	assert_int_equal(f.n_verified, 0);
	(void)snprintf(clean, sizeof(clean), "rm -rf %s", folder);
	assert_int_equal(system(clean), 0);
}

static void test_messages(void **state)
{
	(void)state;
	expect_verdict(send_none, HOOK_NOT_TWO);
	expect_verdict(send_one, HOOK_NOT_TWO);
	expect_verdict(send_three, HOOK_NOT_TWO);
	expect_verdict(send_twelve, HOOK_NOT_TWO);
	expect_verdict(send_other_byte, HOOK_NO_MESSAGE);
	expect_verdict(send_more_bytes, HOOK_NO_MESSAGE);
	expect_verdict(send_in_halves, HOOK_NO_MESSAGE); /* read as one of two bytes */
	expect_verdict(send_nothing_and_close, HOOK_NO_MESSAGE);
	assert_int_equal(f.n_verified, 0);
}

static void test_not_asked(void **state)
{
	struct peer p;

	(void)state;
	peer_start(&p, send_good);
	peer_go(&p);
	hook_server_take(&f.server);
	assert_int_equal(f.counts[HOOK_STRANGER], 1);
	peer_end(&p);
	/* asked, and forgotten before it answered */
	peer_start(&p, send_good);
	assert_int_equal(hook_server_expect(&f.server, (uint32_t)p.pid), 0);
	hook_server_forget(&f.server, (uint32_t)p.pid);
	peer_go(&p);
	hook_server_take(&f.server);
	assert_int_equal(f.counts[HOOK_STRANGER], 2);
	peer_end(&p);
	assert_int_equal(f.n_verified, 0);
}

static uint32_t late_pid;

static void expect_late(void *arg)
{
	(void)arg;
	assert_int_equal(hook_server_expect(&f.server, late_pid), 0);
}

static uint32_t lost_pid;

static void lost(void *arg, uint32_t pid)
{
	(void)arg;
	lost_pid = pid;
}

/* Not its fault: it may answer again. */
static void test_thread_gone(void **state)
{
	(void)state;
	f.server.lost = lost;
	expect_verdict(send_of_ended_thread, HOOK_THREAD_GONE);
	assert_true(lost_pid > 0);
	assert_int_equal(f.n_verified, 0);
	lost_pid = 0;
	expect_verdict(send_others, HOOK_NOT_ITS_OWN);
	assert_int_equal(lost_pid, 0);
}

/* That it was asked is heard only when it is there. */
static void test_heard_late(void **state)
{
	struct peer p;

	(void)state;
	f.server.hear = expect_late;
	peer_start(&p, send_good);
	late_pid = (uint32_t)p.pid;
	peer_go(&p);
	hook_server_take(&f.server);
	assert_int_equal(f.verified, p.pid);
	assert_int_equal(f.counts[HOOK_STRANGER], 0);
	peer_end(&p);
}

static void send_twice(void)
{
	send_good();
	send_good();
}

static void test_repeated(void **state)
{
	struct peer p;

	(void)state;
	peer_start(&p, send_twice);
	assert_int_equal(hook_server_expect(&f.server, (uint32_t)p.pid), 0);
	peer_go(&p);
	hook_server_take(&f.server);
	assert_int_equal(f.n_verified, 1);
	assert_int_equal(f.counts[HOOK_GOOD], 1);
	assert_int_equal(f.counts[HOOK_STRANGER], 1);
	peer_end(&p);
}

/* A child of the asked process is not the asked process. */
static void send_by_child(void)
{
	pid_t pid = fork();

	if (!pid) {
		send_good();
		_exit(0);
	}
	(void)waitpid(pid, NULL, 0);
}

static void test_by_child(void **state)
{
	(void)state;
	expect_verdict(send_by_child, HOOK_STRANGER);
}

static void exited_before(bool peer_pidfd)
{
	uint64_t before =
		f.counts[HOOK_GONE] + f.counts[HOOK_THREAD_GONE] + f.counts[HOOK_NOT_ITS_OWN];
	struct peer p;

	f.server.peer_pidfd = peer_pidfd;
	peer_start(&p, send_good);
	assert_int_equal(hook_server_expect(&f.server, (uint32_t)p.pid), 0);
	peer_go(&p);
	peer_end(&p);
	hook_server_take(&f.server);
	assert_int_equal(f.counts[HOOK_GONE] + f.counts[HOOK_THREAD_GONE] +
				 f.counts[HOOK_NOT_ITS_OWN],
			 before + 1);
	assert_int_equal(f.n_verified, 0);
	hook_server_forget(&f.server, (uint32_t)p.pid);
}

static void test_exited(void **state)
{
	(void)state;
	exited_before(true);
	exited_before(false);
}

static void test_silent(void **state)
{
	struct peer silent, good;
	bool other;

	(void)state;
	peer_start(&silent, connect_only);
	peer_start(&good, send_good);
	assert_int_equal(hook_server_expect(&f.server, (uint32_t)silent.pid), 0);
	assert_int_equal(hook_server_expect(&f.server, (uint32_t)good.pid), 0);
	peer_go(&silent);
	peer_go(&good);
	hook_server_take(&f.server);
	assert_int_equal(f.verified, good.pid); /* no peer waits behind a silent one */
	assert_int_equal(f.server.n_peers, 1);
	while (f.server.n_peers) { /* its deadline */
		assert_int_equal(hook_server_wait(&f.server, -1, -1, &other), 0);
		hook_server_take(&f.server);
	}
	assert_int_equal(f.counts[HOOK_SILENT], 1);
	peer_end(&silent);
	peer_end(&good);
}

static void connect_many(void)
{
	for (int i = 0; i < HOOK_CONNECTIONS + 10; i++)
		(void)reach(); /* kept */
}

static void connect_as_other(void)
{
	if (setresuid(61002, 61002, 61002) < 0)
		_exit(5);
	(void)reach();
}

/* @n peers that send nothing, each asked. */
static void crowd_start(struct peer *peers, int n, void (*send)(void))
{
	for (int i = 0; i < n; i++) {
		peer_start(&peers[i], send);
		assert_int_equal(hook_server_expect(&f.server, (uint32_t)peers[i].pid), 0);
		peer_go(&peers[i]);
		hook_server_take(&f.server);
	}
}

static void crowd_end(struct peer *peers, int n)
{
	for (int i = 0; i < n; i++)
		peer_end(&peers[i]);
}

static size_t n_peers_of(const struct peer *p)
{
	size_t n = 0;

	for (size_t i = 0; i < f.server.n_peers; i++)
		n += f.server.peers[i].pid == (uint32_t)p->pid;
	return n;
}

/* More than one process may have: its own oldest go. */
static void test_many_of_one(void **state)
{
	size_t fds = n_open();
	struct peer slow, many, good;

	(void)state;
	f.server.deadline = 60000;
	crowd_start(&slow, 1, connect_only);
	crowd_start(&many, 1, connect_many);
	assert_int_equal(f.server.n_peers, 1 + HOOK_CONNECTIONS_OF_ONE);
	assert_int_equal(f.counts[HOOK_SILENT], HOOK_CONNECTIONS + 10 - HOOK_CONNECTIONS_OF_ONE);
	assert_int_equal(n_peers_of(&slow), 1);
	crowd_start(&good, 1, send_good);
	assert_int_equal(f.verified, good.pid);
	hook_server_deinit(&f.server);
	peer_end(&slow);
	peer_end(&many);
	peer_end(&good);
	assert_int_equal(n_open(), fds);
}

/* More than there is room for: of the process that has most the oldest goes, not the oldest of all; and
 * a peer that sends is heard. */
static void test_most_first(void **state)
{
	enum { CROWD = HOOK_CONNECTIONS / HOOK_CONNECTIONS_OF_ONE };
	struct peer slow, crowd[CROWD], good;

	(void)state;
	f.server.deadline = 60000;
	crowd_start(&slow, 1, connect_only);
	crowd_start(crowd, CROWD, connect_many);
	assert_int_equal(f.server.n_peers, HOOK_CONNECTIONS);
	assert_int_equal(n_peers_of(&slow), 1);
	for (int i = 0; i < CROWD; i++)
		assert_in_range(n_peers_of(&crowd[i]), HOOK_CONNECTIONS_OF_ONE - 1,
				HOOK_CONNECTIONS_OF_ONE);
	crowd_start(&good, 1, send_good);
	assert_int_equal(f.verified, good.pid);
	peer_end(&slow);
	peer_end(&good);
	crowd_end(crowd, CROWD);
}

/* A user's many processes take nothing from another user's few. */
static void test_most_of_a_user(void **state)
{
	enum { FEW = 5, CROWD = HOOK_CONNECTIONS + 6 };
	struct peer few[FEW], crowd[CROWD];

	(void)state;
	if (geteuid() != 0) {
		print_message("needs root: connections of several users\n");
		skip();
	}
	f.server.deadline = 60000;
	crowd_start(few, FEW, connect_only);
	crowd_start(crowd, CROWD, connect_as_other);
	assert_int_equal(f.server.n_peers, HOOK_CONNECTIONS);
	for (int i = 0; i < FEW; i++)
		assert_int_equal(n_peers_of(&few[i]), 1);
	assert_int_equal(n_peers_of(&crowd[0]), 0); /* the oldest of it */
	assert_int_equal(n_peers_of(&crowd[CROWD - 1]), 1);
	crowd_end(few, FEW);
	crowd_end(crowd, CROWD);
}

static void connect_ten_thousand(void)
{
	for (int i = 0; i < CONNECTIONS; i++) {
		int fd = reach();

		if (i % 3 == 0)
			(void)!write(fd, "p", 1);
		close(fd);
	}
}

static void test_ten_thousand(void **state)
{
	struct peer p;
	size_t fds = n_open();
	uint64_t sum = 0;
	bool other;
	char byte;

	(void)state;
	peer_start(&p, connect_ten_thousand);
	assert_int_equal(hook_server_expect(&f.server, (uint32_t)p.pid), 0);
	assert_int_equal(write(p.go, "g", 1), 1);
	while (sum < CONNECTIONS) {
		assert_int_equal(hook_server_wait(&f.server, -1, 1000, &other), 0);
		hook_server_take(&f.server);
		sum = 0;
		for (int i = 0; i < HOOK_VERDICTS; i++)
			sum += f.counts[i];
	}
	assert_int_equal(read(p.done, &byte, 1), 1);
	assert_int_equal(sum, CONNECTIONS);
	assert_int_equal(f.counts[HOOK_GOOD], 0);
	peer_end(&p);
	assert_int_equal(n_open(), fds);
}

static void test_limits(void **state)
{
	(void)state;
	for (uint32_t i = 1; i <= HOOK_ASKED_MAX; i++)
		assert_int_equal(hook_server_expect(&f.server, i), 0);
	assert_int_equal(hook_server_expect(&f.server, HOOK_ASKED_MAX + 1), -E2BIG);
	hook_server_forget(&f.server, 1);
	assert_int_equal(hook_server_expect(&f.server, HOOK_ASKED_MAX + 1), 0);
}

/* A descriptor that takes an hour to close: in a stranger's queue it delays no peer, nor does the queue behind a
 * message that was taken. */
static void send_lingering(void)
{
	int other, fd = lingering(&other), to = reach();

	send_message(to, "p", 1, &fd, 1);
	close(fd);
	close(to);
}

static void send_good_then_lingering(void)
{
	const int fds[] = {own("maps"), own("mem")};
	int other, fd = lingering(&other), to = reach();

	send_message(to, "p", 1, fds, 2);
	send_message(to, "p", 1, &fd, 1);
	close(fd);
	close(to);
}

static void test_lingers(void **state)
{
	struct peer p;

	(void)state;
	peer_start(&p, send_lingering); /* not asked */
	peer_go(&p);
	hook_server_take(&f.server);
	assert_int_equal(f.counts[HOOK_STRANGER], 1);
	assert_true(f.server.closer.pid > 0);
	peer_end(&p);
	closer_deinit(&f.server.closer);
	expect_verdict(send_good_then_lingering, HOOK_GOOD);
}

/* ---- another procfs ---- */

/* In a pid namespace and with a /proc of its own: @send runs as the second process there. */
static void (*inner_send)(void);
static pid_t inner_pid; /* of the sibling */

static bool own_namespaces(void)
{
	return unshare(CLONE_NEWPID | CLONE_NEWNS) == 0 &&
	       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

/* They are refused without the capability, and in a chroot on a folder that is not a mount point. */
static bool may_have_namespaces(void)
{
	pid_t pid = fork();
	int status = 0;

	if (!pid)
		_exit(own_namespaces() ? 0 : 1);
	return waitpid(pid, &status, 0) == pid && status == 0;
}

/* first: pid 1 there, a process that others could be taken for; second: the peer. */
static pid_t start_in_namespace(struct peer *p)
{
	int pids[2], go[2], done[2];
	pid_t outer, second = 0;

	assert_int_equal(pipe2(pids, 0), 0);
	assert_int_equal(pipe2(go, 0), 0);
	assert_int_equal(pipe2(done, 0), 0);
	outer = fork();
	if (!outer) {
		if (!own_namespaces())
			_exit(5);
		inner_pid = fork();
		if (!inner_pid) {
			char byte;

			/* pid 1: mounts, then makes the peer */
			if (mount("proc", "/proc", "proc", 0, NULL) < 0)
				_exit(6);
			inner_pid = 1;
			if (!fork()) {
				if (read(go[0], &byte, 1) != 1)
					_exit(2);
				inner_send();
				(void)!write(done[1], "d", 1);
				for (;;)
					pause();
			}
			close(done[1]);
			(void)!write(pids[1], "r", 1);
			for (;;)
				pause();
		}
		close(pids[1]);
		close(done[1]);
		(void)waitpid(inner_pid, NULL, 0);
		_exit(0);
	}
	p->pid = outer;
	p->go = go[1];
	p->done = done[0];
	close(pids[1]); /* a child that ends early is the end of what is read, not a wait without end */
	close(done[1]);
	{
		char byte, path[64];
		FILE *children;
		int first = 0, got = 0;

		assert_int_equal(read(pids[0], &byte, 1), 1);
		(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", outer, outer);
		children = fopen(path, "r");
		if (children) {
			got = fscanf(children, "%d", &first);
			fclose(children);
		}
		assert_int_equal(got, 1);
		(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", first, first);
		children = fopen(path, "r");
		if (children) {
			got = fscanf(children, "%d", &second);
			fclose(children);
		}
		assert_int_equal(got, 1);
	}
	close(pids[0]);
	close(go[0]);
	return second;
}

static void end_namespace(struct peer *p, pid_t second)
{
	/* pid 1 of it is the second's parent */
	char path[64], text[512] = "";
	FILE *stat;
	int ppid = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", second);
	stat = fopen(path, "r");
	if (stat) {
		(void)!fgets(text, sizeof(text), stat);
		fclose(stat);
		(void)sscanf(strrchr(text, ')') + 1, " %*c %d", &ppid);
	}
	if (ppid > 1)
		kill(ppid, SIGKILL);
	(void)waitpid(p->pid, NULL, 0);
	close(p->go);
	close(p->done);
}

static void expect_from_namespace(void (*send)(void), enum hook_verdict verdict)
{
	uint64_t before = f.counts[verdict];
	struct peer p;
	pid_t second;

	inner_send = send;
	second = start_in_namespace(&p);
	assert_int_equal(hook_server_expect(&f.server, (uint32_t)second), 0);
	peer_go(&p);
	hook_server_take(&f.server);
	if (f.counts[verdict] != before + 1) {
		for (int i = 0; i < HOOK_VERDICTS; i++)
			print_message("%s: %lu\n", hook_verdict_word(i), f.counts[i]);
	}
	assert_int_equal(f.counts[verdict], before + 1);
	hook_server_forget(&f.server, (uint32_t)second);
	end_namespace(&p, second);
}

static void send_inner_others(void)
{
	both(open("/proc/1/maps", O_RDONLY), open("/proc/1/mem", O_RDONLY));
}

/* The folder of pid 1 under a name that ends as our own does. */
static void send_bind_folder(void)
{
	char path[128];

	mkdir("/tmp/test-hook-bind", 0700);
	if (mount("none", "/tmp/test-hook-bind", "tmpfs", 0, NULL) < 0)
		_exit(7);
	(void)snprintf(path, sizeof(path), "/tmp/test-hook-bind/%d", getpid());
	mkdir(path, 0700);
	if (mount("/proc/1", path, NULL, MS_BIND, NULL) < 0)
		_exit(8);
	both(open("/tmp/test-hook-bind/2/maps", O_RDONLY),
	     open("/tmp/test-hook-bind/2/mem", O_RDONLY));
}

/* A whole procfs at a place called .../2/task, so that pid 1's file reads .../2/task/1/maps. */
static void send_deep_mount(void)
{
	mkdir("/tmp/test-hook-bind", 0700);
	if (mount("none", "/tmp/test-hook-bind", "tmpfs", 0, NULL) < 0)
		_exit(7);
	mkdir("/tmp/test-hook-bind/2", 0700);
	mkdir("/tmp/test-hook-bind/2/task", 0700);
	if (mount("/proc", "/tmp/test-hook-bind/2/task", NULL, MS_BIND, NULL) < 0)
		_exit(8);
	both(open("/tmp/test-hook-bind/2/task/1/maps", O_RDONLY),
	     open("/tmp/test-hook-bind/2/task/1/mem", O_RDONLY));
}

static void test_another_procfs(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		print_message("needs root: namespaces\n");
		skip();
	}
#ifdef __SANITIZE_THREAD__
	print_message("ThreadSanitizer cannot make its thread behind unshare(CLONE_NEWPID)\n");
	skip();
#endif
	if (!may_have_namespaces()) {
		print_message("skipped: no mount and pid namespace here (refused, or a chroot)\n");
		skip();
	}
	expect_from_namespace(send_good, HOOK_GOOD);
	expect_from_namespace(send_good_by_pid, HOOK_GOOD);
	expect_from_namespace(send_inner_others, HOOK_NOT_ITS_OWN);
	expect_from_namespace(send_bind_folder, HOOK_NOT_ITS_OWN);
	expect_from_namespace(send_deep_mount, HOOK_NOT_ITS_OWN);
	rmdir("/tmp/test-hook-bind");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define EACH(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
		EACH(test_good),	   EACH(test_from_thread),    EACH(test_forged),
		EACH(test_messages),	   EACH(test_not_asked),      EACH(test_heard_late),
		EACH(test_repeated),	   EACH(test_by_child),	      EACH(test_exited),
		EACH(test_silent),	   EACH(test_many_of_one),    EACH(test_most_first),
		EACH(test_most_of_a_user), EACH(test_ten_thousand),   EACH(test_limits),
		EACH(test_lingers),	   EACH(test_another_procfs), EACH(test_thread_gone),
#undef EACH
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
