/* mark-rings.c - see mark-rings.h. */
#include "marks/mark-rings.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/error.h"
#include "base/fd-message.h"
#include "base/listen-fds.h"
#include "base/peer.h"
#include "base/table.h"
#include "proc/procfs.h"

struct mark_threads {
	struct mark_walk *walk;
	uint32_t pid, claimed_pid;
	bool ended;
	struct table known; /* the target's number -> ours; 0: of another process */
};

struct mark_walk {
	const char *root;
	struct mark_threads *of; /* NULL: no walk goes on */
	struct procfs_pids *tids;
	uint32_t wanted; /* the claim for which it began */
	size_t left;	 /* threads of this turn */
};

enum { BEGIN_COST = 16 }; /* of a walk, in threads */

/* ---- the walk ---- */

int mark_walk_new(const char *root, struct mark_walk **ret_walk)
{
	struct mark_walk *w = calloc(1, sizeof(*w));

	if (!w)
		return fail(-ENOMEM);
	w->root = root;
	w->left = MARK_WALK_THREADS;
	*ret_walk = w;
	return 0;
}

static void stop(struct mark_walk *w)
{
	w->tids = procfs_pids_free(w->tids);
	w->of = NULL;
}

struct mark_walk *mark_walk_free(struct mark_walk *w)
{
	if (w)
		stop(w);
	free(w);
	return NULL;
}

static int remember(struct mark_threads *t, uint32_t tid, uint32_t ours)
{
	int r;

	if (t->known.n_used >= MARK_THREADS_MAX)
		table_clear(&t->known);
	r = table_put(&t->known, tid, ours);
	return r < 0 ? fail(r) : 0;
}

static int step(struct mark_walk *w)
{
	struct mark_threads *t = w->of;
	uint64_t found;
	int r = 0;

	while (w->left && r >= 0) {
		uint32_t tid, claimed;
		int seen;

		if (!procfs_pids_next(w->tids, &tid, 1)) {
			if (!table_get(&t->known, w->wanted, &found))
				r = remember(t, w->wanted, 0);
			stop(w);
			break;
		}
		w->left--;
		/* A process with more threads than are remembered: the one that is wanted is. */
		seen = procfs_thread_ns_tid(w->root, t->pid, tid, &claimed);
		if (is_shortage(seen)) { /* another walk begins for the next mark */
			stop(w);
			break;
		}
		if (seen == 0 && (claimed == w->wanted || t->known.n_used < MARK_THREADS_MAX))
			r = remember(t, claimed, tid);
	}
	return r < 0 ? trace(r) : 0;
}

int mark_walk_turn(struct mark_walk *w)
{
	w->left = MARK_WALK_THREADS;
	return w->of ? trace(step(w)) : 0;
}

/* In a pid namespace. */
static int walk_for(struct mark_threads *t, uint32_t tid, uint32_t *ret_tid)
{
	struct mark_walk *w = t->walk;
	uint64_t found;
	int r;

	if (w->of || !w->left)
		return MARK_THREADS_LATER;
	w->left -= min_u64(w->left, BEGIN_COST);
	r = procfs_threads_open(w->root, t->pid, &w->tids);
	if (is_shortage(r))
		return MARK_THREADS_LATER;
	if (r < 0) {
		*ret_tid = 0; /* it has ended */
		return remember(t, tid, 0);
	}
	w->of = t;
	w->wanted = tid;
	r = step(w);
	if (r < 0)
		return trace(r);
	if (!table_get(&t->known, tid, &found))
		return MARK_THREADS_LATER;
	*ret_tid = (uint32_t)found;
	return 0;
}

/* ---- the threads of one process ---- */

int mark_threads_new(struct mark_walk *walk, uint32_t pid, uint32_t claimed_pid,
		     struct mark_threads **ret_threads)
{
	struct mark_threads *t = calloc(1, sizeof(*t));

	if (!t)
		return fail(-ENOMEM);
	t->walk = walk;
	t->pid = pid;
	t->claimed_pid = claimed_pid;
	*ret_threads = t;
	return 0;
}

void mark_threads_end(struct mark_threads *t)
{
	t->ended = true;
	if (t->walk->of == t)
		stop(t->walk);
}

struct mark_threads *mark_threads_free(struct mark_threads *t)
{
	if (!t)
		return NULL;
	mark_threads_end(t);
	table_deinit(&t->known);
	free(t);
	return NULL;
}

void mark_threads_forget(struct mark_threads *t, uint32_t tid)
{
	(void)table_remove(&t->known, tid);
}

/* Is there this thread?  Signal 0 asks without /proc, which may hide processes of others. */
static bool is_there(long r)
{
	return r == 0 || errno == EPERM;
}

int mark_threads_find(struct mark_threads *t, uint32_t tid, uint32_t *ret_tid)
{
	uint64_t known;
	uint32_t ours;

	if (!tid || tid > INT32_MAX) {
		*ret_tid = 0;
		return 0;
	}
	if (table_get(&t->known, tid, &known)) {
		*ret_tid = (uint32_t)known;
		return 0;
	}
	if (tid == t->claimed_pid)
		ours = t->pid;
	else if (t->claimed_pid != t->pid && t->ended)
		ours = 0;
	else if (t->claimed_pid != t->pid)
		return trace(walk_for(t, tid, ret_tid));
	else if (is_there(syscall(SYS_tgkill, t->pid, tid, 0)))
		ours = tid;
	else /* It has ended, or is of another process. */
		ours = is_there(syscall(SYS_tkill, tid, 0)) ? 0 : tid;
	*ret_tid = ours;
	return remember(t, tid, ours);
}

enum {
	RINGS_MAX = 1024,
	SILENT_MAX = 64,    /* connections without a message yet */
	SILENT_HELLOS = 32, /* of these to hello_fd: any user's */
	SILENT_MS = 1000,
	ACCEPTS = 256, /* of one turn */
	RENEW_MS = 2000,
	ANCESTORS = 64,
	LEAST = 100,	 /* marks of one ring and turn, at least */
	FDS_MAX = 65536, /* descriptors of a process that are looked at */
	/* Of one turn: */
	LIVE_WORDS = 8 << 20,  /* copied out of rings, marks or not: 64 MiB */
	ENDED_MARKS = 200000,  /* of processes that have ended; the rest comes in the next turns */
	ENDED_WORDS = 4 << 20, /* the same */
};

struct ring {
	struct mark_ring *ring;
	uint32_t pid;
	int pidfd;    /* < 0: there is none */
	bool ended;   /* no more marks come */
	bool drained; /* and all were given */
	struct mark_threads *threads;
};

struct silent {
	int fd, pidfd;
	bool hello; /* it came to hello_fd */
	uint32_t pid;
	uint64_t until; /* CLOCK_MONOTONIC */
};

struct mark_rings {
	struct mark_rings_options options;
	char socket[MARKS_SOCKET_MAX]; /* "@NAME" */
	char environment[MARKS_SOCKET_MAX + 64];
	int listen_fd;
	bool welcomes; /* later programs take part ... */
	int hello_fd;  /* ... here; < 0: another recording has the name */
	struct closer closer;
	struct table allowed; /* pid -> start of the process, in ticks */
	struct ring *rings;   /* in the order in which they came */
	size_t n_rings, next;
	struct mark_walk *walk;
	struct silent silent[SILENT_MAX];
	size_t n_silent;
	uint64_t renewed; /* CLOCK_MONOTONIC */
	struct mark_rings_counts counts;
	struct mark_ring_counts past; /* of rings that ended */
	struct mark_ring_room *room;
	const struct mark_rings_sink *sink; /* in a turn */
	struct ring *current;
	bool behind; /* rings of ended processes are not read to their ends */
};

static uint64_t lease(const struct mark_rings *r)
{
	return clock_ns(r->options.clock) + MARKS_LEASE_MS * NSEC_PER_MSEC;
}

/* ---- life cycle ---- */

static int open_socket(struct mark_rings *r)
{
	uint64_t number;
	int result;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return fail(-EIO);
	(void)snprintf(r->socket, sizeof(r->socket), "@perfwind-marks-%016llx",
		       (unsigned long long)number);
	result = listen_at(r->socket, 0, &r->listen_fd);
	if (result < 0)
		return trace(result);
	(void)snprintf(r->environment, sizeof(r->environment), "%x:%llx:%x:%s",
		       (unsigned)r->options.clock, (unsigned long long)r->options.mask,
		       r->options.flags, r->socket);
	return 0;
}

int mark_rings_new(const struct mark_rings_options *options, struct mark_rings **ret_rings)
{
	struct mark_rings *r = calloc(1, sizeof(*r));
	int result = -ENOMEM;

	if (!r)
		return fail(-ENOMEM);
	r->options = *options;
	r->listen_fd = r->hello_fd = -1;
	closer_init(&r->closer);
	r->rings = calloc(RINGS_MAX, sizeof(*r->rings));
	r->room = calloc(1, sizeof(*r->room));
	if (r->rings && r->room)
		result = mark_walk_new("", &r->walk);
	if (result >= 0)
		result = open_socket(r);
	if (result < 0) {
		(void)mark_rings_free(r);
		return trace(result);
	}
	*ret_rings = r;
	return 0;
}

static void add_counts(struct mark_ring_counts *to, const struct mark_ring *ring)
{
	struct mark_ring_counts c;

	mark_ring_counts(ring, &c);
	to->marks += c.marks;
	to->lost += c.lost;
	to->damaged += c.damaged;
	to->words += c.words;
}

static void free_ring(struct mark_rings *r, struct ring *ring)
{
	add_counts(&r->past, ring->ring);
	(void)mark_ring_free(ring->ring);
	(void)fd_close(ring->pidfd);
	(void)mark_threads_free(ring->threads);
}

static void drop_silent(struct mark_rings *r, size_t i)
{
	closer_close(&r->closer, r->silent[i].fd);
	(void)fd_close(r->silent[i].pidfd);
	r->silent[i] = r->silent[--r->n_silent];
}

struct mark_rings *mark_rings_free(struct mark_rings *r)
{
	if (!r)
		return NULL;
	while (r->n_rings)
		free_ring(r, &r->rings[--r->n_rings]);
	(void)mark_walk_free(r->walk);
	while (r->n_silent)
		drop_silent(r, 0);
	if (r->listen_fd >= 0)
		closer_pass(&r->closer, r->listen_fd); /* with what strangers have queued */
	if (r->hello_fd >= 0)
		closer_pass(&r->closer, r->hello_fd);
	closer_deinit(&r->closer);
	table_deinit(&r->allowed);
	free(r->rings);
	free(r->room);
	free(r);
	return NULL;
}

const char *mark_rings_environment(const struct mark_rings *r)
{
	return r->environment;
}

void mark_rings_counts(const struct mark_rings *r, struct mark_rings_counts *ret_counts)
{
	*ret_counts = r->counts;
	ret_counts->marks = r->past;
	for (size_t i = 0; i < r->n_rings; i++)
		add_counts(&ret_counts->marks, r->rings[i].ring);
}

void mark_rings_switch(struct mark_rings *r, uint64_t mask)
{
	r->options.mask = mask;
	r->renewed = clock_ns(CLOCK_MONOTONIC);
	for (size_t i = 0; i < r->n_rings; i++)
		mark_ring_switch(r->rings[i].ring, mask, lease(r));
}

/* ---- the programs that take part ---- */

int mark_rings_welcome(struct mark_rings *r)
{
	char name[sizeof(MARKS_ALL_SOCKET) + MARKS_ALL_DIGITS];

	(void)snprintf(name, sizeof(name), MARKS_ALL_SOCKET "%0*x", MARKS_ALL_DIGITS,
		       (unsigned)geteuid());
	r->welcomes = true;
	return listen_at(name, 0, &r->hello_fd);
}

/* A number of a process may be used again: its start belongs to it. */
int mark_rings_allow(struct mark_rings *r, uint32_t pid)
{
	struct procfs_status status;
	int result = procfs_status("", pid, &status);

	if (result >= 0)
		result = table_put(&r->allowed, pid, status.start_ticks);
	return is_shortage(result) ? fail(result) : 0; /* else it is gone */
}

static bool is_allowed(struct mark_rings *r, uint32_t pid)
{
	struct procfs_status status;
	uint64_t start;

	if (!table_get(&r->allowed, pid, &start))
		return false;
	if (procfs_status("", pid, &status) == 0 && status.start_ticks == start)
		return true;
	(void)table_remove(&r->allowed, pid); /* another process has the number now */
	return false;
}

static bool takes_part(struct mark_rings *r, uint32_t pid, uint32_t uid)
{
	if (uid == geteuid())
		return true;
	for (int i = 0; i < ANCESTORS && pid > 1; i++) {
		if (is_allowed(r, pid))
			return true;
		if (procfs_parent("", pid, &pid) < 0)
			return false;
	}
	return false;
}

/* ---- an invitation ---- */

/* Writes it into the head of a ring.  1; 0: it is none; -ENOMEM. */
static int write_invitation(const struct mark_rings *r, int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct marks_head *head;
	struct stat st;
	bool ok;

	/* First: any other call on a file of a target may take forever. */
	if (seals < 0 || (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW) ||
	    fstat(fd, &st) < 0 || (uint64_t)st.st_size != MARKS_BYTES)
		return 0;
	head = mmap(NULL, sizeof(*head), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (head == MAP_FAILED)
		return errno == ENOMEM ? fail(-ENOMEM) : 0;
	ok = head->magic == MARKS_MAGIC && head->version == MARKS_VERSION;
	/* A program may be found by its descriptor and announce itself too. */
	if (ok && memcmp(head->socket, r->socket, sizeof(head->socket)) != 0) {
		head->mask = 0;
		memcpy(head->socket, r->socket, sizeof(head->socket));
		head->clock = (uint32_t)r->options.clock;
		head->flags = r->options.flags;
		__atomic_store_n(&head->until, lease(r), __ATOMIC_RELAXED);
		(void)__atomic_add_fetch(&head->invitation, 1, __ATOMIC_RELEASE);
		__atomic_store_n(&head->mask, r->options.mask, __ATOMIC_RELEASE);
	}
	(void)munmap(head, sizeof(*head));
	return ok;
}

/* The target's own descriptor, without a call to the file behind it.  Where Yama forbids that, a process of our own user
 * has nothing to gain from a file that stalls us: it is opened.  < 0: an errno. */
static int take_descriptor(uint32_t pid, int number, int folder, const char *name)
{
	_cleanup_(fd_closep) int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct stat st;
	int fd = pidfd < 0 ? -errno : -ENOSYS;

#ifdef SYS_pidfd_getfd
	if (pidfd >= 0) {
		fd = (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);
		fd = fd < 0 ? -errno : fd;
	}
#endif
	if (fd >= 0 || is_shortage(fd) || !geteuid() ||
	    fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_uid != geteuid())
		return fd;
	fd = openat(folder, name, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

static bool is_name_of_ring(int folder, const char *name)
{
	static const char path[] = "/memfd:" MARKS_MEMFD " (deleted)";
	char target[sizeof(path) + 1];
	ssize_t n = readlinkat(folder, name, target, sizeof(target));

	return n == sizeof(path) - 1 && !memcmp(target, path, sizeof(path) - 1);
}

static void closedirp(DIR **d)
{
	if (*d)
		(void)closedir(*d);
}

int mark_rings_invite(struct mark_rings *r, uint32_t pid)
{
	enum mark_rings_invited result = MARK_RINGS_NOT_LOADED;
	_cleanup_(closedirp) DIR *d = NULL;
	char path[PROCFS_PATH_MAX];
	struct dirent *entry;
	uint64_t number;

	if (procfs_path(path, "", pid, "fd") < 0)
		return MARK_RINGS_GONE;
	d = opendir(path);
	if (!d && is_shortage(-errno))
		return fail(-errno);
	if (!d)
		return errno == ENOENT ? MARK_RINGS_GONE : MARK_RINGS_FORBIDDEN;
	for (int i = 0; i < FDS_MAX && result == MARK_RINGS_NOT_LOADED && (entry = readdir(d));
	     i++) {
		int fd, written = 0;

		if (parse_u64(entry->d_name, 10, INT32_MAX, &number) < 0 ||
		    !is_name_of_ring(dirfd(d), entry->d_name))
			continue;
		fd = take_descriptor(pid, (int)number, dirfd(d), entry->d_name);
		if (is_shortage(fd))
			return trace(fd);
		if (fd < 0)
			result = MARK_RINGS_FORBIDDEN;
		else
			written = write_invitation(r, fd);
		if (written > 0)
			result = MARK_RINGS_INVITED;
		if (fd >= 0)
			closer_pass(&r->closer, fd);
		if (written < 0)
			return trace(written);
	}
	return result == MARK_RINGS_INVITED && mark_rings_allow(r, pid) < 0 ? -ENOMEM : (int)result;
}

/* ---- rings arrive ---- */

static int new_ring(struct mark_rings *r, struct silent *from, int fd, struct ring *ret_ring)
{
	struct ring ring = {.pid = from->pid, .pidfd = -1};
	int result = mark_ring_new(fd, r->room, &ring.ring);

	if (result >= 0)
		result = mark_threads_new(r->walk, ring.pid, mark_ring_claimed_pid(ring.ring),
					  &ring.threads);
	if (result < 0) {
		(void)mark_ring_free(ring.ring);
		return trace(result);
	}
	ring.pidfd = take_fd(from->pidfd);
	*ret_ring = ring;
	return 0;
}

static void add_ring(struct mark_rings *r, struct silent *from, int fd)
{
	bool room = r->n_rings < RINGS_MAX && r->n_rings < share_of_files(4);
	struct ring ring;
	int result = room ? new_ring(r, from, fd, &ring) : -EXDEV;

	if (!room)
		r->counts.refused++;
	else if (result < 0)
		r->counts.rejected++;
	if (result == -EXDEV)
		closer_pass(&r->closer, fd);
	if (result < 0)
		return;
	/* The earlier ring of this process is of a program that it has left by exec. */
	for (size_t i = 0; i < r->n_rings; i++)
		r->rings[i].ended |= r->rings[i].pid == from->pid;
	mark_ring_switch(ring.ring, r->options.mask, lease(r));
	r->rings[r->n_rings++] = ring;
	r->counts.processes++;
}

/* A program was loaded.  Its ring comes with its first mark. */
static void answer_hello(struct mark_rings *r, const struct silent *from, int fd)
{
	if (write_invitation(r, fd) <= 0 || mark_rings_allow(r, from->pid) < 0)
		r->counts.rejected++;
	closer_pass(&r->closer, fd);
}

/* false: nothing is there yet. */
static bool take_message(struct mark_rings *r, struct silent *from)
{
	struct fd_message m;
	char data[2];
	ssize_t n =
		fd_message_receive(from->fd, data, sizeof(data), FD_MESSAGE_MAX, MSG_DONTWAIT, &m);

	if (n == -EAGAIN)
		return false;
	if (n == 1 && data[0] == (from->hello ? MARKS_HELLO : MARKS_BYTE) && m.n == 1) {
		if (from->hello)
			answer_hello(r, from, m.fds[0]);
		else
			add_ring(r, from, m.fds[0]);
		return true;
	}
	r->counts.rejected++;
	for (size_t i = 0; i < m.n; i++)
		closer_pass(&r->closer, m.fds[i]);
	return true;
}

static size_t silent_hellos(const struct mark_rings *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n_silent; i++)
		n += r->silent[i].hello;
	return n;
}

static void meet(struct mark_rings *r, int fd, bool hello)
{
	struct silent s = {.fd = fd,
			   .pidfd = -1,
			   .hello = hello,
			   .until = clock_ns(CLOCK_MONOTONIC) + SILENT_MS * NSEC_PER_MSEC};
	struct ucred cred;
	socklen_t len = sizeof(cred);
	bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 && cred.pid > 0 &&
		     ((hello && !geteuid()) || takes_part(r, (uint32_t)cred.pid, cred.uid));

	if (known && r->n_silent < SILENT_MAX && (!hello || silent_hellos(r) < SILENT_HELLOS)) {
		s.pid = (uint32_t)cred.pid;
		s.pidfd = peer_pidfd(fd, r->options.peer_pidfd, s.pid);
		r->silent[r->n_silent++] = s;
		if (take_message(r, &r->silent[r->n_silent - 1]))
			drop_silent(r, r->n_silent - 1);
		return;
	}
	r->counts.rejected++;
	closer_close(&r->closer, fd);
}

static void accept_all(struct mark_rings *r, int listener, bool hello)
{
	for (int i = 0; i < ACCEPTS && listener >= 0; i++) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && errno != ECONNABORTED && errno != EINTR)
			break;
		if (fd >= 0)
			meet(r, fd, hello);
	}
}

static void hear(struct mark_rings *r)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	for (size_t i = 0; i < r->n_silent;) {
		bool taken = take_message(r, &r->silent[i]);

		if (!taken && now < r->silent[i].until) {
			i++;
			continue;
		}
		r->counts.rejected += !taken;
		drop_silent(r, i);
	}
	accept_all(r, r->listen_fd, false);
	accept_all(r, r->hello_fd, true);
}

/* ---- marks ---- */

static int one_mark(void *arg, const struct mark_ring_mark *mark)
{
	struct mark_rings *r = arg;
	struct mark_threads *threads = r->current->threads;
	uint32_t tid = 0;
	int result = mark_threads_find(threads, mark->tid, &tid);

	if (result < 0)
		return trace(result);
	if (result == MARK_THREADS_LATER)
		return MARK_RING_LATER;
	if (mark->kind == MARKS_THREAD_END)
		mark_threads_forget(threads, mark->tid);
	if (!tid && mark_ring_claimed_pid(r->current->ring) != r->current->pid)
		r->counts.not_found++;
	else if (!tid)
		r->counts.forged++;
	if (!tid)
		return 0;
	result = r->sink->mark(r->sink->arg, r->current->pid, tid, mark);
	return result < 0 ? trace(result) : 0;
}

static void find_ended(struct mark_rings *r)
{
	for (size_t i = 0; i < r->n_rings; i++) {
		struct ring *ring = &r->rings[i];
		struct pollfd p = {.fd = ring->pidfd, .events = POLLIN};

		if (ring->pidfd >= 0)
			ring->ended |= poll(&p, 1, 0) == 1;
		else
			ring->ended |= kill((pid_t)ring->pid, 0) < 0 && errno == ESRCH;
	}
}

/* Marks and words of one turn that are left. */
struct work {
	uint64_t marks, words;
};

/* Once, @most marks. */
static int read_ring(struct mark_rings *r, struct ring *ring, uint64_t most, struct work *left)
{
	struct mark_ring_counts before, after;
	int result;

	mark_ring_counts(ring->ring, &before);
	r->current = ring;
	result = mark_ring_read(ring->ring, min_u64(most, left->marks), one_mark, r);
	mark_ring_counts(ring->ring, &after);
	left->marks -= min_u64(left->marks, after.marks - before.marks);
	left->words -= min_u64(left->words, after.words - before.words);
	return result < 0 ? trace(result) : 0;
}

/* The marks of a program come before the marks of the next program in the same process. */
static bool has_earlier(const struct mark_rings *r, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (r->rings[k].pid == r->rings[i].pid && !r->rings[k].drained)
			return true;
	return false;
}

/* Up to @share marks, and the end if these were all. */
static int read_ended(struct mark_rings *r, struct ring *ring, uint64_t share, struct work *left)
{
	struct work own = {.marks = min_u64(share, left->marks), .words = left->words};
	uint64_t begun = own.marks;
	int result = 0;

	mark_ring_end(ring->ring);
	mark_threads_end(ring->threads);
	while (result >= 0 && own.marks && own.words && mark_ring_has_news(ring->ring))
		result = read_ring(r, ring, SIZE_MAX, &own);
	left->marks -= begun - own.marks;
	left->words = own.words;
	if (result >= 0 && !mark_ring_has_news(ring->ring)) {
		ring->drained = true;
		result = r->sink->ended(r->sink->arg, ring->pid);
	}
	return result < 0 ? trace(result) : 0;
}

static void drop_drained(struct mark_rings *r)
{
	size_t n = 0;

	r->behind = false;
	for (size_t i = 0; i < r->n_rings; i++) {
		if (r->rings[i].drained) {
			free_ring(r, &r->rings[i]);
			continue;
		}
		r->behind |= r->rings[i].ended;
		r->rings[n++] = r->rings[i];
	}
	r->n_rings = n;
}

static int read_all_ended(struct mark_rings *r)
{
	struct work left = {.marks = ENDED_MARKS, .words = ENDED_WORDS};
	size_t n_ended = 0;
	uint64_t share;
	int result = 0;

	for (size_t i = 0; i < r->n_rings; i++)
		n_ended += r->rings[i].ended;
	if (!n_ended)
		return 0;
	share = max_u64(LEAST, ENDED_MARKS / n_ended);
	for (size_t n = 0; n < r->n_rings && result >= 0 && left.marks && left.words; n++) {
		size_t i = (r->next + n) % r->n_rings;

		if (r->rings[i].ended && !has_earlier(r, i))
			result = read_ended(r, &r->rings[i], share, &left);
	}
	drop_drained(r);
	return result < 0 ? trace(result) : 0;
}

static int read_all_live(struct mark_rings *r)
{
	uint64_t share = max_u64(LEAST, MARK_RINGS_MARKS / max_u64(1, r->n_rings));
	struct work left = {.marks = UINT64_MAX, .words = LIVE_WORDS};
	size_t begin = r->next, n;
	int result = 0;

	for (n = 0; n < r->n_rings && result >= 0 && left.words; n++) {
		size_t i = (begin + n) % r->n_rings;

		if (!r->rings[i].ended && (!r->behind || !has_earlier(r, i)))
			result = read_ring(r, &r->rings[i], share, &left);
	}
	/* Where the turn was too short the next one goes on, else another ring is the first. */
	r->next = r->n_rings ? (begin + (n < r->n_rings ? n : 1)) % r->n_rings : 0;
	return result < 0 ? trace(result) : 0;
}

int mark_rings_turn(struct mark_rings *r, const struct mark_rings_sink *sink)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	int result;

	r->sink = sink;
	find_ended(r); /* before the last marks are read */
	hear(r);
	if (now - r->renewed > RENEW_MS * NSEC_PER_MSEC) {
		mark_rings_switch(r, r->options.mask);
		if (r->welcomes && r->hello_fd < 0)
			(void)mark_rings_welcome(r); /* the other recording may have ended */
	}
	result = mark_walk_turn(r->walk);
	if (result >= 0)
		result = read_all_ended(r);
	if (result >= 0)
		result = read_all_live(r);
	return result < 0 ? trace(result) : 0;
}

void mark_rings_lose(struct mark_rings *r)
{
	for (size_t i = 0; i < r->n_rings; i++)
		mark_ring_lose(r->rings[i].ring);
}
