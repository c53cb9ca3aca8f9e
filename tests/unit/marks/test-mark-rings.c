/* test-mark-rings.c - the hand-over of rings: a ring of this process, what is not a ring, a program that replaces another; the work of
 * one turn for rings that are full, damaged, or claim threads that are not there. */
#include <sys/wait.h>

#include "marks/mark-rings.c"
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

static struct marks_head *new_memory(int *ret_fd)
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
	struct marks_head *head = new_memory(&fd), *next = new_memory(&second);

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
	struct marks_head *head = new_memory(&fd);

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
	head = new_memory(&fd);
	assert_int_equal(mark_rings_invite(rings, (uint32_t)getpid()), MARK_RINGS_INVITED);
	assert_int_equal(head->mask, 5);
	assert_int_equal(head->invitation, 1);
	assert_int_equal(head->flags, MARKS_TAKE_ALL);
	assert_string_equal(head->socket, strchr(mark_rings_environment(rings), '@'));
	(void)mark_rings_free(rings);
	(void)munmap(head, MARKS_BYTES);
	(void)close(fd);
}

/* Connects to the socket for programs that are loaded while a recording of all processes runs. */
static int connect_hello(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int n = snprintf(address.sun_path, sizeof(address.sun_path), MARKS_ALL_SOCKET "%08x",
			 (unsigned)geteuid());

	address.sun_path[0] = 0;
	assert_int_equal(connect(fd, (const struct sockaddr *)&address,
				 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n)),
			 0);
	return fd;
}

static void send_byte(char byte, int what)
{
	int fd = connect_hello();

	assert_int_equal(fd_message_send(fd, &byte, 1, &what, 1, 0), 1);
	(void)close(fd);
}

/* The process that closes sockets may still have that of the last test.  false: another recording, or another run of this
 * test. */
static bool welcomes(struct mark_rings *rings)
{
	for (int i = 0; i < 500; i++) {
		int r = mark_rings_welcome(rings);

		if (r != -EADDRINUSE) {
			assert_int_equal(r, 0);
			return true;
		}
		(void)usleep(10000);
	}
	return false;
}

/* A program that is loaded later gets an invitation for its hello; it hands its ring over at the other socket. */
static void welcome(void **state)
{
	struct mark_rings *rings = new_rings(), *others = new_rings();
	struct seen s = {0};
	int fd, pair[2];
	struct marks_head *head = new_memory(&fd);

	(void)state;
	if (!welcomes(rings))
		skip();
	assert_int_equal(mark_rings_welcome(others), -EADDRINUSE);
	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	send_byte(MARKS_HELLO, fd);
	turn(rings, &s);
	turn(rings, &s);
	assert_int_equal(head->mask, 5);
	assert_int_equal(head->invitation, 1);
	assert_string_equal(head->socket, strchr(mark_rings_environment(rings), '@'));
	/* Found by its descriptor too: that is the same invitation. */
	assert_int_equal(mark_rings_invite(rings, (uint32_t)getpid()), MARK_RINGS_INVITED);
	assert_int_equal(head->invitation, 1);
	assert_true(takes_part(rings, (uint32_t)getpid(), geteuid() + 1));
	assert_int_equal(counts(rings).rejected, 0);
	assert_int_equal(counts(rings).processes, 0);
	/* What is not a ring; a ring at the wrong socket, each way. */
	send_byte(MARKS_HELLO, pair[0]);
	send_byte(MARKS_BYTE, fd);
	hand_over(rings, MARKS_HELLO, &fd, 1);
	turn(rings, &s);
	turn(rings, &s);
	assert_int_equal(counts(rings).rejected, 3);
	assert_int_equal(counts(rings).processes, 0);
	hand_over(rings, MARKS_BYTE, &fd, 1);
	put(head, (uint32_t)getpid());
	turn(rings, &s);
	turn(rings, &s);
	assert_int_equal(s.marks, 1);
	/* The other recording has the name when this one has ended. */
	(void)mark_rings_free(rings);
	for (int i = 0; i < 500 && others->hello_fd < 0; i++) {
		others->renewed = 0;
		turn(others, &s);
		(void)usleep(10000);
	}
	assert_true(others->hello_fd >= 0);
	(void)mark_rings_free(others);
	(void)munmap(head, MARKS_BYTES);
	(void)close(pair[0]);
	(void)close(pair[1]);
	(void)close(fd);
}

/* Connections without a message leave room for programs that take part already. */
static void silent_hellos_are_bounded(void **state)
{
	struct mark_rings *rings = new_rings();
	struct seen s = {0};
	int fds[SILENT_HELLOS + 1], fd;

	(void)state;
	if (!welcomes(rings))
		skip();
	for (int i = 0; i <= SILENT_HELLOS; i++)
		fds[i] = connect_hello();
	turn(rings, &s);
	assert_int_equal(rings->n_silent, SILENT_HELLOS);
	assert_int_equal(counts(rings).rejected, 1);
	fd = connect_to(rings);
	turn(rings, &s);
	assert_int_equal(rings->n_silent, SILENT_HELLOS + 1);
	(void)mark_rings_free(rings);
	for (int i = 0; i <= SILENT_HELLOS; i++)
		(void)close(fds[i]);
	(void)close(fd);
}

/* ---- the work of one turn ---- */

enum { EACH = MARKS_RING_WORDS / MARKS_MARK_WORDS, ALL = EACH * MARKS_SLOTS };

static struct marks_slot *slot_of(struct marks_head *head, size_t i)
{
	return (struct marks_slot *)(void *)((char *)head + MARKS_SLOTS_AT) + i;
}

/* @n marks into slot @slot; @step: the threads' numbers go up. */
static void put_many(struct marks_head *head, size_t slot, size_t n, uint32_t tid, uint32_t step)
{
	uint64_t *words = (uint64_t *)(void *)((char *)head + MARKS_DATA_AT +
					       slot * (size_t)MARKS_RING_BYTES);
	uint64_t *place = &slot_of(head, slot)->head;

	for (size_t i = 0; i < n; i++, tid += step) {
		uint32_t at = (uint32_t)*place;

		words[(at + 1) % MARKS_RING_WORDS] = 1;
		words[(at + 2) % MARKS_RING_WORDS] = *place >> 32 << 32 | tid;
		words[at % MARKS_RING_WORDS] =
			at | (uint64_t)MARKS_MARK_WORDS << 32 | (uint64_t)MARKS_INSTANT << 48;
		*place = ((*place >> 32) + 1) << 32 | (uint32_t)(at + MARKS_MARK_WORDS);
	}
}

static void fill(struct marks_head *head, uint32_t tid)
{
	for (size_t i = 0; i < MARKS_SLOTS; i++)
		put_many(head, i, EACH, tid, 0);
}

/* A process that hands the ring over and has ended. */
static uint32_t ended_process(const struct mark_rings *rings, int fd)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		hand_over(rings, MARKS_BYTE, &fd, 1);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return (uint32_t)pid;
}

/* A process that has filled all its rings takes several turns; another process is not kept waiting. */
static void ended_flood(void **state)
{
	struct mark_rings *rings = new_rings();
	int fd, second, turns = 0;
	struct marks_head *flood = new_memory(&fd), *honest = new_memory(&second);
	struct seen s = {0};
	uint32_t pid;

	(void)state;
	flood->pid = ended_process(rings, fd);
	fill(flood, flood->pid);
	turn(rings, &s);
	assert_int_equal(counts(rings).processes, 1);
	assert_in_range(s.marks, 1, ENDED_MARKS);
	assert_int_equal(s.ended, 0);
	pid = ended_process(rings, second);
	honest->pid = pid;
	put(honest, pid);
	for (size_t before; rings->n_rings; turns++) {
		before = s.marks;
		turn(rings, &s);
		/* With the mark of a process that was not yet seen to have ended. */
		assert_in_range(s.marks - before, 1, ENDED_MARKS + !turns);
		if (!turns) {
			turn(rings, &s); /* the end of a process is seen before its ring is */
			assert_int_equal(s.ended, 1);
			assert_int_equal(rings->n_rings, 1);
		}
	}
	assert_in_range(turns, ALL / ENDED_MARKS - 2, ALL / ENDED_MARKS + 2);
	assert_int_equal(s.marks, ALL + 1);
	assert_int_equal(s.ended, 2);
	assert_int_equal(counts(rings).marks.lost, 0);
	(void)mark_rings_free(rings);
	(void)munmap(flood, MARKS_BYTES);
	(void)munmap(honest, MARKS_BYTES);
	(void)close(fd);
	(void)close(second);
}

/* What is not read when the recording ends is counted, also of a process that runs. */
static void unread_is_lost(void **state)
{
	struct mark_rings *rings = new_rings();
	int fd, second;
	struct marks_head *flood = new_memory(&fd), *live = new_memory(&second);
	struct seen s = {0};

	(void)state;
	flood->pid = ended_process(rings, fd);
	fill(flood, flood->pid);
	hand_over(rings, MARKS_BYTE, &second, 1);
	turn(rings, &s);
	fill(live, (uint32_t)getpid());
	turn(rings, &s);
	mark_rings_lose(rings);
	assert_in_range(s.marks, 1, ENDED_MARKS * 2 + MARK_RINGS_MARKS);
	assert_int_equal(s.marks + counts(rings).marks.lost, 2 * ALL);
	turn(rings, &s);
	assert_int_equal(s.marks + counts(rings).marks.lost, 2 * ALL);
	(void)mark_rings_free(rings);
	(void)munmap(flood, MARKS_BYTES);
	(void)munmap(live, MARKS_BYTES);
	(void)close(fd);
	(void)close(second);
}

/* The marks of the program after an exec wait for the end of the program before it. */
static void exec_after_a_flood(void **state)
{
	struct mark_rings *rings = new_rings();
	int fd, second;
	struct marks_head *first = new_memory(&fd), *next = new_memory(&second);
	struct seen s = {0};

	(void)state;
	hand_over(rings, MARKS_BYTE, &fd, 1);
	fill(first, (uint32_t)getpid());
	put(next, (uint32_t)getpid());
	hand_over(rings, MARKS_BYTE, &second, 1);
	for (int i = 0; i < 20 && s.marks <= ALL; i++) {
		turn(rings, &s);
		assert_int_equal(s.ended, s.marks >= ALL);
	}
	assert_int_equal(s.marks, ALL + 1);
	assert_int_equal(rings->n_rings, 1);
	(void)mark_rings_free(rings);
	(void)munmap(first, MARKS_BYTES);
	(void)munmap(next, MARKS_BYTES);
	(void)close(fd);
	(void)close(second);
}

/* Two ended processes left nothing but damage: the bytes of a turn are bounded, too. */
static void damage_is_work(void **state)
{
	struct mark_rings *rings = new_rings();
	int fds[2];
	struct marks_head *heads[2];
	struct seen s = {0};
	size_t turns = 0;

	(void)state;
	for (int i = 0; i < 2; i++) {
		heads[i] = new_memory(&fds[i]);
		(void)ended_process(rings, fds[i]);
		for (size_t k = 0; k < MARKS_SLOTS; k++)
			slot_of(heads[i], k)->head = 7ull << 32 | MARKS_RING_WORDS;
	}
	for (uint64_t words = 0; turns < 20 && (!turns || rings->n_rings); turns++) {
		turn(rings, &s);
		/* One call more than the bound at most. */
		assert_in_range(counts(rings).marks.words - words, 0,
				ENDED_WORDS + 17 * MARKS_RING_WORDS);
		words = counts(rings).marks.words;
	}
	assert_in_range(turns, 3, 5);
	assert_int_equal(s.marks, 0);
	assert_int_equal(s.ended, 2);
	assert_int_equal(counts(rings).marks.lost, 2 * 7 * MARKS_SLOTS);
	(void)mark_rings_free(rings);
	for (int i = 0; i < 2; i++) {
		(void)munmap(heads[i], MARKS_BYTES);
		(void)close(fds[i]);
	}
}

/* A target that claims to be in a pid namespace, and another thread for each mark: few are looked up in a turn, and its other
 * threads are not kept back. */
static void forged_threads(void **state)
{
	enum { FORGED = 200 };
	struct mark_rings *rings = new_rings();
	int fd;
	struct marks_head *head = new_memory(&fd);
	struct seen s = {0};
	uint64_t before = 0;
	int turns = 0;

	(void)state;
	head->pid = 1;
	hand_over(rings, MARKS_BYTE, &fd, 1);
	put_many(head, 0, FORGED, INT32_MAX - FORGED, 1);
	put_many(head, 1, 1, (uint32_t)getpid(), 0);
	for (; counts(rings).not_found < FORGED && turns < 1000; turns++) {
		turn(rings, &s);
		assert_in_range(counts(rings).not_found - before, 1, MARK_WALK_THREADS / 16);
		before = counts(rings).not_found;
		assert_int_equal(s.marks, 1); /* a walk for the first forged number has found it */
	}
	assert_in_range(turns, FORGED / (MARK_WALK_THREADS / 16), FORGED);
	/* The outcome is remembered. */
	put_many(head, 0, FORGED, INT32_MAX - FORGED, 1);
	turn(rings, &s);
	assert_int_equal(counts(rings).not_found, 2 * FORGED);
	assert_int_equal(counts(rings).marks.marks, 2 * FORGED + 1);
	assert_int_equal(s.tid, getpid());
	assert_int_equal(counts(rings).forged, 0);
	(void)mark_rings_free(rings);
	(void)munmap(head, MARKS_BYTES);
	(void)close(fd);
}

/* The number of a process that took part belongs to another process now. */
static void reused_number(void **state)
{
	struct mark_rings *rings = new_rings();
	uint32_t pid = (uint32_t)getpid(), other = geteuid() + 1;
	uint64_t start;

	(void)state;
	assert_false(takes_part(rings, pid, other));
	assert_true(takes_part(rings, pid, geteuid()));
	assert_int_equal(mark_rings_allow(rings, pid), 0);
	assert_true(takes_part(rings, pid, other));
	assert_true(table_get(&rings->allowed, pid, &start));
	assert_int_equal(table_put(&rings->allowed, pid, start + 1), 0);
	assert_false(takes_part(rings, pid, other));
	assert_false(table_get(&rings->allowed, pid, &start));
	/* Nor its number as an ancestor's. */
	assert_int_equal(mark_rings_allow(rings, (uint32_t)getppid()), 0);
	assert_true(takes_part(rings, pid, other));
	assert_true(table_get(&rings->allowed, (uint32_t)getppid(), &start));
	assert_int_equal(table_put(&rings->allowed, (uint32_t)getppid(), start + 1), 0);
	assert_false(takes_part(rings, pid, other));
	assert_int_equal(mark_rings_allow(rings, INT32_MAX), 0); /* there is none */
	assert_int_equal(rings->allowed.n_used, 0);
	(void)mark_rings_free(rings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_ring),
		cmocka_unit_test(no_ring),
		cmocka_unit_test(invited),
		cmocka_unit_test(ended_flood),
		cmocka_unit_test(unread_is_lost),
		cmocka_unit_test(exec_after_a_flood),
		cmocka_unit_test(damage_is_work),
		cmocka_unit_test(forged_threads),
		cmocka_unit_test(reused_number),
		cmocka_unit_test(welcome),
		cmocka_unit_test(silent_hellos_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
