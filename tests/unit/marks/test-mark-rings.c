/* test-mark-rings.c - the hand-over of rings: a ring of this process, what is no ring, a program that replaces another. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/fd-message.h"
#include "marks/mark-rings.h"
#include "tests/unit/cmocka.h"

static const struct mark_rings_options options = {
	.clock = CLOCK_MONOTONIC, .mask = 5, .flags = MARKS_TAKE_ALL};

struct seen {
	size_t marks, ended;
	uint32_t pid, tid;
};

static int see_mark(void *arg, uint32_t pid, uint32_t tid, const struct mark_ring_mark *mark)
{
	struct seen *s = arg;

	assert_int_equal(mark->kind, MARKS_INSTANT);
	s->marks++;
	s->pid = pid;
	s->tid = tid;
	return 0;
}

static int see_end(void *arg, uint32_t pid)
{
	struct seen *s = arg;

	s->ended++;
	s->pid = pid;
	return 0;
}

static void turn(struct mark_rings *rings, struct seen *s)
{
	const struct mark_rings_sink sink = {.mark = see_mark, .ended = see_end, .arg = s};

	assert_int_equal(mark_rings_turn(rings, &sink), 0);
}

static struct mark_rings_counts counts(const struct mark_rings *rings)
{
	struct mark_rings_counts c;

	mark_rings_counts(rings, &c);
	return c;
}

static struct marks_head *new_ring(int *ret_fd)
{
	int fd = memfd_create(MARKS_MEMFD, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct marks_head *head;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)MARKS_BYTES), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	head = mmap(NULL, MARKS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(head != MAP_FAILED);
	head->magic = MARKS_MAGIC;
	head->version = MARKS_VERSION;
	head->pid = (uint32_t)getpid();
	*ret_fd = fd;
	return head;
}

static void put(struct marks_head *head, uint32_t tid)
{
	struct marks_slot *slot = (void *)((char *)head + MARKS_SLOTS_AT);
	uint64_t *words = (void *)((char *)head + MARKS_DATA_AT);
	uint32_t at = (uint32_t)slot->head;

	words[at + 2] = (slot->head >> 32) << 32 | tid;
	words[at] = at | (uint64_t)MARKS_MARK_WORDS << 32 | (uint64_t)MARKS_INSTANT << 48;
	slot->head += 1ull << 32 | MARKS_MARK_WORDS;
}

/* Connects as the library does: to the name at the end of the environment's value. */
static int connect_to(const struct mark_rings *rings)
{
	const char *name = strchr(mark_rings_environment(rings), '@');
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_non_null(name);
	assert_int_equal(strncmp(mark_rings_environment(rings), "1:5:1:@", 7), 0);
	memcpy(address.sun_path, name, strlen(name));
	address.sun_path[0] = 0;
	assert_int_equal(
		connect(fd, (const struct sockaddr *)&address,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))),
		0);
	return fd;
}

static void hand_over(const struct mark_rings *rings, char byte, const int *fds, size_t n)
{
	int fd = connect_to(rings);

	assert_int_equal(fd_message_send(fd, &byte, 1, fds, n, 0), 1);
	(void)close(fd);
}

static struct mark_rings *new_rings(void)
{
	struct mark_rings *rings;

	assert_int_equal(mark_rings_new(&options, &rings), 0);
	return rings;
}

static void a_ring(void **state)
{
	struct mark_rings *rings = new_rings();
	struct seen s = {0};
	int fd, second;
	struct marks_head *head = new_ring(&fd), *next = new_ring(&second);

	(void)state;
	hand_over(rings, MARKS_BYTE, &fd, 1);
	put(head, (uint32_t)getpid());
	turn(rings, &s);
	turn(rings, &s);
	assert_int_equal(s.marks, 1);
	assert_int_equal(s.pid, getpid());
	assert_int_equal(s.tid, getpid());
	assert_int_equal(head->mask, 5);
	assert_true(head->until > clock_ns(CLOCK_MONOTONIC));
	assert_int_equal(counts(rings).processes, 1);
	/* The thread of another process: init's. */
	put(head, 1);
	put(head, 0); /* of the idle task */
	turn(rings, &s);
	assert_int_equal(s.marks, 1);
	assert_int_equal(counts(rings).forged, 2);
	/* An exec: the earlier program's last marks come first, then its end. */
	put(head, (uint32_t)getpid());
	put(next, (uint32_t)getpid());
	hand_over(rings, MARKS_BYTE, &second, 1);
	turn(rings, &s);
	turn(rings, &s);
	assert_int_equal(s.marks, 3);
	assert_int_equal(s.ended, 1);
	mark_rings_switch(rings, 0);
	assert_int_equal(next->mask, 0);
	assert_int_equal(counts(rings).marks.marks, 5);
	(void)mark_rings_free(rings);
	(void)munmap(head, MARKS_BYTES);
	(void)munmap(next, MARKS_BYTES);
	(void)close(fd);
	(void)close(second);
}

static void no_ring(void **state)
{
	struct mark_rings *rings = new_rings();
	struct seen s = {0};
	int pair[2], fds[2], fd, silent;
	struct marks_head *head = new_ring(&fd);

	(void)state;
	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	hand_over(rings, MARKS_BYTE, pair, 1);
	hand_over(rings, 'x', &fd, 1);
	hand_over(rings, MARKS_BYTE, NULL, 0);
	fds[0] = fds[1] = fd;
	hand_over(rings, MARKS_BYTE, fds, 2);
	(void)close(connect_to(rings)); /* without a message */
	silent = connect_to(rings);
	turn(rings, &s);
	turn(rings, &s);
	assert_int_equal(counts(rings).rejected, 5);
	assert_int_equal(counts(rings).processes, 0);
	assert_int_equal(head->mask, 0);
	(void)mark_rings_free(rings);
	(void)close(silent);
	(void)close(pair[0]);
	(void)close(pair[1]);
	(void)munmap(head, MARKS_BYTES);
	(void)close(fd);
}

/* A process that runs already is found by its descriptor: this one. */
static void invited(void **state)
{
	struct mark_rings *rings = new_rings();
	struct marks_head *head;
	int fd;

	(void)state;
	assert_int_equal(mark_rings_invite(rings, (uint32_t)getpid()), MARK_RINGS_NOT_LOADED);
	assert_int_equal(mark_rings_invite(rings, INT32_MAX), MARK_RINGS_GONE);
	head = new_ring(&fd);
	assert_int_equal(mark_rings_invite(rings, (uint32_t)getpid()), MARK_RINGS_INVITED);
	assert_int_equal(head->mask, 5);
	assert_int_equal(head->invitation, 1);
	assert_int_equal(head->flags, MARKS_TAKE_ALL);
	assert_string_equal(head->socket, strchr(mark_rings_environment(rings), '@'));
	(void)mark_rings_free(rings);
	(void)munmap(head, MARKS_BYTES);
	(void)close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_ring),
		cmocka_unit_test(no_ring),
		cmocka_unit_test(invited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
