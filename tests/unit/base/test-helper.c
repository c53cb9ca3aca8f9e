/* test-helper.c - helper.h with roles made for it: a process that answers, sleeps or dies on
 * request. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/helper.h"
#include "tests/unit/cmocka.h"

enum { ECHO, COUNT, SLEEP, DIE, FDS, PASS, LARGE, RIGHTS, SPIN, HEAP, MAPPED };
static const uint8_t *late_page; /* mapped when the spare is there */
enum { LARGE_BYTES = 3 << 20 };

struct kept {
	uint64_t calls;
};

static void *begin(const void *arg)
{
	struct kept *k = calloc(1, sizeof(*k));

	if (k)
		k->calls = *(const uint64_t *)arg;
	return k;
}

static uint64_t open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint64_t n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		(void)closedir(dir);
	return n - 3; /* "." and "..", and the folder itself */
}

static void put(struct helper_call *call, uint64_t value)
{
	memcpy(call->answer, &value, sizeof(value));
	call->answer_len = sizeof(value);
}

enum { PIECES = 512, PIECE = 64 << 10 };

/* 32 MiB in pieces, of which the last is kept: the end of the heap stays where it is. */
static void use_heap(void)
{
	static uint8_t *pieces[PIECES];

	for (size_t i = 0; i < PIECES; i++) {
		pieces[i] = malloc(PIECE);
		if (pieces[i])
			memset(pieces[i], 1, PIECE);
	}
	for (size_t i = 0; i < PIECES - 1; i++)
		free(pieces[i]);
}

static void serve(void *kept, struct helper_call *call)
{
	struct kept *k = kept;
	struct stat st = {0};
	unsigned char resident;
	uintptr_t late;

	k->calls++;
	switch (call->request[0]) {
	case ECHO:
		memcpy(call->answer, call->request, call->request_len);
		call->answer_len = call->request_len;
		break;
	case COUNT:
		put(call, k->calls);
		break;
	case SLEEP:
		atomic_store(call->mark, 42);
		for (;;)
			(void)pause();
	case SPIN:
		atomic_store(call->mark, 43);
		for (;;)
			;
	case DIE:
		_exit(3);
	case FDS:
		put(call, open_descriptors());
		break;
	case PASS:
		(void)fstat(call->fd, &st);
		put(call, st.st_ino);
		call->answer_fd = take_fd(call->fd);
		break;
	case LARGE:
		memset(call->answer, 'x', LARGE_BYTES);
		call->answer_len = LARGE_BYTES;
		break;
	case HEAP:
		use_heap();
		put(call, (uint64_t)getpid());
		break;
	case MAPPED:
		memcpy(&late, call->request + 1, sizeof(late));
		put(call, mincore((void *)late, 1, &resident) == 0);
		break;
	case RIGHTS:
		put(call, (uint64_t)prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
		break;
	}
}

static const struct helper_role role = {
	.name = "test-helper", .room = 4 << 20, .begin = begin, .serve = serve};

static struct helper *make(void)
{
	const uint64_t first = 100;
	struct helper *h;

	assert_int_equal(helper_new(&role, &first, &h), 0);
	return h;
}

static int wait_for(struct helper *h, const uint8_t **data, size_t *len, int *fd)
{
	return helper_wait(h, 20 * NSEC_PER_SEC, data, len, fd);
}

static uint64_t ask(struct helper *h, uint8_t kind)
{
	const uint8_t *data;
	uint64_t value = 0;
	size_t len;
	int fd;

	assert_int_equal(helper_ask(h, &kind, 1, -1), 0);
	assert_int_equal(wait_for(h, &data, &len, &fd), 0);
	assert_int_equal(len, sizeof(value));
	assert_int_equal(fd, -1);
	memcpy(&value, data, sizeof(value));
	return value;
}

static void test_answers(void **state)
{
	static const char text[] = {ECHO, 'h', 'e', 'l', 'l', 'o'};
	struct helper *h = make();
	const uint8_t *data;
	size_t len;
	int fd;

	(void)state;
	assert_int_equal(helper_ask(h, text, sizeof(text), -1), 0);
	assert_int_equal(wait_for(h, &data, &len, &fd), 0);
	assert_int_equal(len, sizeof(text));
	assert_memory_equal(data, text, sizeof(text));
	/* what begin() made stays from call to call */
	assert_int_equal(ask(h, COUNT), 102);
	assert_int_equal(ask(h, COUNT), 103);
	assert_int_equal(helper_mark(h), 0);
	assert_int_equal(ask(h, RIGHTS), 1);
	assert_null(helper_free(h));
}

/* Only its standard three and the socket, whatever we have open. */
static void test_descriptors(void **state)
{
	int pipes[2][2];
	struct helper *h, *second;

	(void)state;
	assert_int_equal(pipe(pipes[0]), 0);
	assert_int_equal(pipe(pipes[1]), 0);
	h = make();
	second = make();
	assert_int_equal(ask(h, FDS), 4);
	assert_int_equal(ask(second, FDS), 4);
	(void)helper_free(h);
	(void)helper_free(second);
	for (int i = 0; i < 4; i++)
		(void)close(pipes[i / 2][i % 2]);
}

static void test_descriptor_travels(void **state)
{
	const uint8_t kind = PASS, *data;
	struct helper *h = make();
	struct stat mine, back;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), other;
	uint64_t inode;
	size_t len;

	(void)state;
	assert_int_equal(fstat(fd, &mine), 0);
	assert_int_equal(helper_ask(h, &kind, 1, fd), 0);
	assert_int_equal(wait_for(h, &data, &len, &other), 0);
	memcpy(&inode, data, sizeof(inode));
	assert_int_equal(inode, mine.st_ino);
	assert_int_equal(fstat(other, &back), 0);
	assert_int_equal(back.st_ino, mine.st_ino);
	(void)close(other);
	(void)close(fd);
	assert_int_equal(ask(h, FDS), 4); /* and none was left behind there */
	(void)helper_free(h);
}

static void test_large(void **state)
{
	const uint8_t kind = LARGE, *data;
	struct helper *h = make();
	size_t len;
	int fd;

	(void)state;
	assert_int_equal(helper_ask(h, &kind, 1, -1), 0);
	assert_int_equal(wait_for(h, &data, &len, &fd), 0);
	assert_int_equal(len, LARGE_BYTES);
	for (size_t i = 0; i < len; i++)
		assert_int_equal(data[i], 'x');
	helper_done(h);
	assert_int_equal(data[LARGE_BYTES / 2], 0); /* the memory was given back */
	assert_int_equal(ask(h, COUNT), 102);
	(void)helper_free(h);
}

static void wait_mark(const struct helper *h, uint64_t mark)
{
	while (helper_mark(h) != mark)
		(void)poll(NULL, 0, 1);
}

/* A helper that does not answer delays no caller, and is gone when it is freed. */
static void test_sleeps(void **state)
{
	const uint8_t kind = SLEEP, *data;
	struct helper *h = make();
	int fd, pid = helper_pid(h);
	size_t len;

	(void)state;
	assert_int_equal(helper_ask(h, &kind, 1, -1), 0);
	assert_int_equal(helper_ask(h, &kind, 1, -1), -EBUSY);
	assert_int_equal(helper_wait(h, NSEC_PER_MSEC, &data, &len, &fd), HELPER_WAITING);
	wait_mark(h, 42);
	while (helper_runnable(h))
		(void)poll(NULL, 0, 1);
	assert_int_equal(helper_wait(h, NSEC_PER_MSEC, &data, &len, &fd), HELPER_WAITING);
	(void)helper_free(h);
	while (kill(pid, 0) == 0) /* reaped at once, or with the next one that is made */
		(void)helper_free(make());
	assert_int_equal(errno, ESRCH);
}

/* It works on, so it is not a sleeper. */
static void test_spins(void **state)
{
	const uint8_t kind = SPIN;
	struct helper *h = make();
	uint64_t before;

	(void)state;
	assert_int_equal(helper_ask(h, &kind, 1, -1), 0);
	wait_mark(h, 43);
	before = helper_cpu_ns(h);
	while (helper_cpu_ns(h) == before)
		(void)poll(NULL, 0, 1);
	assert_true(helper_runnable(h));
	(void)helper_free(h);
}

static void test_dies(void **state)
{
	const uint8_t die = DIE, count = COUNT, *data;
	struct helper *h = make();
	size_t len;
	int fd;

	(void)state;
	assert_int_equal(helper_ask(h, &die, 1, -1), 0);
	assert_int_equal(wait_for(h, &data, &len, &fd), -EPIPE);
	assert_int_equal(helper_ask(h, &count, 1, -1), -EPIPE);
	(void)helper_free(h);
	h = make(); /* killed while it is idle */
	assert_int_equal(kill(helper_pid(h), SIGKILL), 0);
	(void)poll(&(struct pollfd){.fd = helper_fd(h), .events = POLLIN}, 1, -1);
	if (helper_ask(h, &count, 1, -1) == 0)
		assert_int_equal(wait_for(h, &data, &len, &fd), -EPIPE);
	(void)helper_free(h);
}

/* What is longer than a request can be is not sent. */
static void test_too_long(void **state)
{
	static uint8_t long_request[HELPER_REQUEST_MAX + 1];
	struct helper *h = make();

	(void)state;
	assert_int_equal(helper_ask(h, long_request, sizeof(long_request), -1), -EMSGSIZE);
	assert_int_equal(ask(h, COUNT), 101);
	(void)helper_free(h);
}

/* Helpers end with the process that made them, also when it is killed. */
static void test_orphan(void **state)
{
	int out[2];
	pid_t maker, child = 0;

	(void)state;
	assert_int_equal(pipe(out), 0);
	maker = fork();
	if (maker == 0) {
		child = helper_pid(make());
		(void)!write(out[1], &child, sizeof(child));
		(void)kill(getpid(), SIGKILL);
	}
	assert_int_equal(read(out[0], &child, sizeof(child)), sizeof(child));
	assert_int_equal(waitpid(maker, NULL, 0), maker);
	for (;;) {
		char path[64], text[256] = "";
		FILE *f;

		(void)snprintf(path, sizeof(path), "/proc/%d/stat", child);
		f = fopen(path, "r");
		if (!f)
			break;
		(void)!fread(text, 1, sizeof(text) - 1, f);
		(void)fclose(f);
		if (strstr(text, ") Z ") || strstr(text, ") X "))
			break; /* ended; reaping it is init's */
		(void)poll(NULL, 0, 1);
	}
	(void)close(out[0]);
	(void)close(out[1]);
}

/* ---- with a partner ---- */

enum { ADD, ASK, PARTNER_DIES, PARTNER_SPINS, PARTNER_LIES, PARTNER_GIVES };

/* As helper_send_back(), with unexpected descriptors, one and two. */
static void give(int fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(2 * sizeof(int))];
	} control = {0};
	const int fds[] = {STDIN_FILENO, STDIN_FILENO};
	uint64_t head[4] = {2 /* a question */, 0, 0, 1};
	struct iovec iov = {.iov_base = head, .iov_len = sizeof(head)};

	for (size_t n = 1; n <= 2; n++) {
		struct msghdr m = {.msg_iov = &iov,
				   .msg_iovlen = 1,
				   .msg_control = control.bytes,
				   .msg_controllen = CMSG_SPACE(n * sizeof(int))};

		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(&control.align), fds, n * sizeof(int));
		(void)sendmsg(fd, &m, 0);
	}
}

/* The second: answers in its own window. */
static void partner_serve(void *kept, struct helper_call *call)
{
	struct kept *k = kept;
	uint8_t reply[16];
	int fd;

	switch (call->request[0]) {
	case ASK: /* twice, and the sum of what came */
		k->calls = 0;
		for (uint8_t i = 1; i <= 2; i++) {
			assert_int_equal(helper_ask_back(call, &i, 1, reply, sizeof(reply), &fd),
					 1);
			k->calls += reply[0];
			(void)fd_close(fd);
		}
		put(call, k->calls);
		break;
	case PARTNER_DIES:
		_exit(3);
	case PARTNER_SPINS:
		for (;;)
			;
	case PARTNER_GIVES:
		give(call->partner);
		put(call, ++k->calls);
		break;
	case PARTNER_LIES: /* more than there is room for */
		call->answer_len = 1ull << 40;
		break;
	default:
		put(call, ++k->calls);
	}
}

static void first_serve(void *kept, struct helper_call *call)
{
	uint8_t question[16];
	size_t len;
	int r = helper_partner_ask(call, call->request, call->request_len, -1);

	(void)kept;
	while (r >= 0 && (r = helper_partner_receive(call, question, sizeof(question), &len)) ==
				 HELPER_ASKED) {
		question[0] *= 10;
		r = helper_partner_reply(call, question, 1, STDIN_FILENO);
	}
	memcpy(call->answer, "first", 5);
	call->answer_len = 5;
}

static const struct helper_role partner_role = {
	.name = "test-partner", .room = 4096, .begin = begin, .serve = partner_serve};
static const struct helper_role first_role = {
	.name = "test-first", .room = 4096, .partner = &partner_role, .serve = first_serve};

static struct helper *make_two(void)
{
	const uint64_t first = 7;
	struct helper *h;

	assert_int_equal(helper_new(&first_role, &first, &h), 0);
	assert_true(helper_partner_pid(h) > 0 && helper_partner_pid(h) != helper_pid(h));
	return h;
}

static int ask_two(struct helper *h, uint8_t kind, uint64_t *ret_value)
{
	const uint8_t *data;
	size_t len;
	int fd, r;

	assert_int_equal(helper_ask(h, &kind, 1, -1), 0);
	r = wait_for(h, &data, &len, &fd);
	if (r < 0)
		return r;
	assert_int_equal(len, 5);
	assert_memory_equal(data, "first", 5);
	data = helper_partner_answer(h, &len);
	assert_int_equal(len, sizeof(*ret_value));
	memcpy(ret_value, data, len);
	return 0;
}

static void test_partner(void **state)
{
	struct helper *h = make_two();
	uint64_t value;

	(void)state;
	assert_int_equal(ask_two(h, ADD, &value), 0);
	assert_int_equal(value, 8);
	assert_int_equal(ask_two(h, ADD, &value), 0);
	assert_int_equal(value, 9);
	assert_int_equal(ask_two(h, ASK, &value), 0);
	assert_int_equal(value, 30);
	helper_done(h);
	(void)helper_free(h);
}

static size_t descriptors_of(int pid)
{
	char path[64];
	size_t n = 0;
	DIR *dir;

	(void)snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	assert_non_null(dir);
	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n;
}

/* A partner that was taken over leaves no descriptor in the first process. */
static void test_partner_gives(void **state)
{
	struct helper *h = make_two();
	uint64_t value;
	size_t before;

	(void)state;
	assert_int_equal(ask_two(h, ADD, &value), 0);
	before = descriptors_of(helper_pid(h));
	assert_int_equal(ask_two(h, PARTNER_GIVES, &value), 0);
	assert_int_equal(descriptors_of(helper_pid(h)), before);
	(void)helper_free(h);
}

static void no_process_is_left(void)
{
	while (child_left(first_role.name) || child_left(partner_role.name))
		(void)poll(NULL, 0, 1);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

/* The end of one is the end of both, during a request and between two. */
static void test_partner_ends(void **state)
{
	uint64_t value;
	struct helper *h;

	(void)state;
	h = make_two();
	assert_int_equal(ask_two(h, PARTNER_DIES, &value), -EPIPE);
	assert_int_equal(helper_ask(h, "", 1, -1), -EPIPE);
	(void)helper_free(h);
	h = make_two();
	assert_int_equal(kill(helper_partner_pid(h), SIGKILL), 0);
	assert_int_equal(ask_two(h, ADD, &value), -EPIPE);
	(void)helper_free(h);
	h = make_two();
	assert_int_equal(ask_two(h, PARTNER_LIES, &value), -EPIPE);
	(void)helper_free(h);
	no_process_is_left();
}

/* Its CPU time is the helper's: one that computes is not stuck. */
static void test_partner_spins(void **state)
{
	struct helper *h = make_two();
	const uint8_t kind = PARTNER_SPINS, *data;
	uint64_t before = helper_cpu_ns(h);
	size_t len;
	int fd;

	(void)state;
	assert_int_equal(helper_ask(h, &kind, 1, -1), 0);
	while (helper_cpu_ns(h) < before + 20 * NSEC_PER_MSEC || !helper_runnable(h))
		(void)poll(NULL, 0, 1);
	assert_int_equal(helper_answer(h, &data, &len, &fd), HELPER_WAITING);
	(void)helper_free(h);
	no_process_is_left();
}

static uint64_t resident_bytes(uint64_t pid)
{
	unsigned long size, resident = 0;
	char path[64];
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%lu/statm", pid);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu %lu", &size, &resident), 2);
	(void)fclose(f);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* What a request needed goes back to the kernel when no other comes. */
static void test_idle(void **state)
{
	struct helper *h = make();
	uint64_t before, pid;

	(void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
	(void)helper_free(h);
	skip(); /* another allocator */
#endif
	(void)ask(h, COUNT);
	before = resident_bytes((uint64_t)getpid());
	pid = ask(h, HEAP);
	for (int i = 0; i < 400 && resident_bytes(pid) > before + (8 << 20); i++)
		(void)usleep(50000);
	assert_true(resident_bytes(pid) <= before + (8 << 20));
	assert_true(ask(h, COUNT) > 0);
	(void)helper_free(h);
}

static const struct helper_role late_role = {
	.name = "test-helper",
	.room = 4 << 20,
	.from_spare = true,
	.arg_size = sizeof(uint64_t),
	.begin = begin,
	.serve = serve,
};
static const struct helper_role late_partner = {
	.name = "test-partner",
	.room = 4096,
	.from_spare = true,
	.arg_size = sizeof(uint64_t),
	.begin = begin,
	.serve = partner_serve,
};
static const struct helper_role late_first = {
	.name = "test-first",
	.room = 4096,
	.from_spare = true,
	.arg_size = sizeof(uint64_t),
	.partner = &late_partner,
	.serve = first_serve,
};

static bool sees_late_page(void)
{
	const uint64_t first = 100;
	uint8_t request[1 + sizeof(late_page)] = {MAPPED};
	const uint8_t *data;
	struct helper *h;
	uint64_t mapped;
	size_t len;
	int fd;

	assert_int_equal(helper_new(&late_role, &first, &h), 0);
	memcpy(request + 1, &late_page, sizeof(late_page));
	assert_int_equal(helper_ask(h, request, sizeof(request), -1), 0);
	assert_int_equal(wait_for(h, &data, &len, &fd), 0);
	assert_int_equal(len, sizeof(mapped));
	memcpy(&mapped, data, sizeof(mapped));
	helper_done(h);
	assert_int_equal(ask(h, COUNT), 102); /* begin() had its argument */
	assert_int_equal(ask(h, FDS), 4);
	(void)helper_free(h);
	return mapped;
}

/* A helper that is made late has no memory that its maker got meanwhile. */
static void test_late(void **state)
{
	const uint64_t first = 7;
	struct helper *h;
	uint64_t value;
	int tries = 0;

	(void)state;
	child_spare();
	late_page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(late_page != MAP_FAILED);
	while (sees_late_page()) /* the spare did not get a CPU in time */
		assert_true(++tries < 100);
	assert_int_equal(helper_new(&late_first, &first, &h), 0);
	assert_int_equal(ask_two(h, ADD, &value), 0);
	assert_int_equal(value, 8);
	(void)helper_free(h);
	child_spare_end();
	assert_true(sees_late_page());
	while (child_left("pw-spare"))
		(void)poll(NULL, 0, 1);
	no_process_is_left();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_descriptor_travels),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_sleeps),
		cmocka_unit_test(test_spins),
		cmocka_unit_test(test_dies),
		cmocka_unit_test(test_too_long),
		cmocka_unit_test(test_orphan),
		cmocka_unit_test(test_partner),
		cmocka_unit_test(test_partner_ends),
		cmocka_unit_test(test_partner_gives),
		cmocka_unit_test(test_partner_spins),
		cmocka_unit_test(test_idle),
		cmocka_unit_test(test_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
