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
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/error.h"
#include "base/fd-message.h"
#include "base/peer.h"
#include "base/table.h"
#include "proc/procfs.h"

enum {
	RINGS_MAX = 1024,
	SILENT_MAX = 64, /* connections without a message yet */
	SILENT_MS = 1000,
	ACCEPTS = 256, /* of one turn */
	RENEW_MS = 2000,
	ANCESTORS = 64,
	THREADS_MAX = 65536, /* of one process that are remembered */
	LEAST = 100,	     /* marks of one ring and turn, at least */
	FDS_MAX = 65536,     /* descriptors of a process that are looked at */
};

struct ring {
	struct mark_ring *ring;
	uint32_t pid;
	int pidfd; /* < 0: there is none */
	bool ended;
	struct table threads; /* the target's tid -> ours; 0: of another process */
};

struct silent {
	int fd, pidfd;
	uint32_t pid;
	uint64_t until; /* CLOCK_MONOTONIC */
};

struct mark_rings {
	struct mark_rings_options options;
	char socket[MARKS_SOCKET_MAX]; /* "@NAME" */
	char environment[MARKS_SOCKET_MAX + 64];
	int listen_fd;
	struct closer closer;
	struct table allowed; /* pid -> 1 */
	struct ring *rings;
	size_t n_rings, next;
	struct silent silent[SILENT_MAX];
	size_t n_silent;
	uint64_t renewed; /* CLOCK_MONOTONIC */
	struct mark_rings_counts counts;
	struct mark_ring_counts past; /* of rings that ended */
	struct mark_ring_room *room;
	const struct mark_rings_sink *sink; /* in a turn */
	struct ring *current;
};

static uint64_t lease(const struct mark_rings *r)
{
	return clock_ns(r->options.clock) + MARKS_LEASE_MS * NSEC_PER_MSEC;
}

/* ---- life cycle ---- */

static int open_socket(struct mark_rings *r)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	uint64_t number;
	int n;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return fail(-EIO);
	n = snprintf(r->socket, sizeof(r->socket), "@perfwind-marks-%016llx",
		     (unsigned long long)number);
	memcpy(address.sun_path, r->socket, (size_t)n);
	address.sun_path[0] = 0;
	r->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (r->listen_fd < 0 ||
	    bind(r->listen_fd, (const struct sockaddr *)&address,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n)) < 0 ||
	    listen(r->listen_fd, SOMAXCONN) < 0)
		return fail(-errno);
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
	r->listen_fd = -1;
	closer_init(&r->closer);
	r->rings = calloc(RINGS_MAX, sizeof(*r->rings));
	r->room = calloc(1, sizeof(*r->room));
	if (r->rings && r->room)
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
}

static void drop_ring(struct mark_rings *r, size_t i)
{
	struct ring *ring = &r->rings[i];

	add_counts(&r->past, ring->ring);
	(void)mark_ring_free(ring->ring);
	(void)fd_close(ring->pidfd);
	table_deinit(&ring->threads);
	*ring = r->rings[--r->n_rings];
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
		drop_ring(r, 0);
	while (r->n_silent)
		drop_silent(r, 0);
	if (r->listen_fd >= 0)
		closer_pass(&r->closer, r->listen_fd); /* with what strangers have queued */
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

/* ---- who takes part ---- */

int mark_rings_allow(struct mark_rings *r, uint32_t pid)
{
	int result = table_put(&r->allowed, pid, 1);

	return result < 0 ? fail(result) : 0;
}

static bool takes_part(const struct mark_rings *r, uint32_t pid, uint32_t uid)
{
	uint64_t one;

	if (uid == geteuid())
		return true;
	for (int i = 0; i < ANCESTORS && pid > 1; i++) {
		if (table_get(&r->allowed, pid, &one))
			return true;
		if (procfs_parent("", pid, &pid) < 0)
			return false;
	}
	return false;
}

/* ---- an invitation ---- */

/* Writes it into the head of a ring.  false: it is none. */
static bool write_invitation(const struct mark_rings *r, int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct marks_head *head;
	struct stat st;
	bool ok;

	/* First: any other call on a file of a target may take forever. */
	if (seals < 0 || (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW) ||
	    fstat(fd, &st) < 0 || (uint64_t)st.st_size != MARKS_BYTES)
		return false;
	head = mmap(NULL, sizeof(*head), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (head == MAP_FAILED)
		return false;
	ok = head->magic == MARKS_MAGIC && head->version == MARKS_VERSION;
	if (ok) {
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
 * has nothing to gain from a file that stalls us: it is opened. */
static int take_descriptor(uint32_t pid, int number, int folder, const char *name)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0), fd = -1;
	struct stat st;

#ifdef SYS_pidfd_getfd
	if (pidfd >= 0)
		fd = (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);
#endif
	(void)fd_close(pidfd);
	if (fd < 0 && geteuid() && fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    st.st_uid == geteuid())
		fd = openat(folder, name, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	return fd;
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
	if (!d)
		return errno == ENOENT ? MARK_RINGS_GONE : MARK_RINGS_FORBIDDEN;
	for (int i = 0; i < FDS_MAX && result == MARK_RINGS_NOT_LOADED && (entry = readdir(d));
	     i++) {
		int fd;

		if (parse_u64(entry->d_name, 10, INT32_MAX, &number) < 0 ||
		    !is_name_of_ring(dirfd(d), entry->d_name))
			continue;
		fd = take_descriptor(pid, (int)number, dirfd(d), entry->d_name);
		if (fd < 0)
			result = MARK_RINGS_FORBIDDEN;
		else if (write_invitation(r, fd))
			result = MARK_RINGS_INVITED;
		if (fd >= 0)
			closer_pass(&r->closer, fd);
	}
	return result == MARK_RINGS_INVITED && mark_rings_allow(r, pid) < 0 ? -ENOMEM : (int)result;
}

/* ---- rings arrive ---- */

static void add_ring(struct mark_rings *r, struct silent *from, int fd)
{
	struct mark_ring *ring = NULL;
	int result = r->n_rings < RINGS_MAX && r->n_rings < share_of_files(4)
			     ? mark_ring_new(fd, r->room, &ring)
			     : -EXDEV;

	if (r->n_rings >= RINGS_MAX || r->n_rings >= share_of_files(4))
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
	mark_ring_switch(ring, r->options.mask, lease(r));
	r->rings[r->n_rings++] =
		(struct ring){.ring = ring, .pid = from->pid, .pidfd = from->pidfd};
	from->pidfd = -1;
	r->counts.processes++;
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
	if (n == 1 && data[0] == MARKS_BYTE && m.n == 1) {
		add_ring(r, from, m.fds[0]);
		return true;
	}
	r->counts.rejected++;
	for (size_t i = 0; i < m.n; i++)
		closer_pass(&r->closer, m.fds[i]);
	return true;
}

static void meet(struct mark_rings *r, int fd)
{
	struct silent s = {.fd = fd,
			   .pidfd = -1,
			   .until = clock_ns(CLOCK_MONOTONIC) + SILENT_MS * NSEC_PER_MSEC};
	struct ucred cred;
	socklen_t len = sizeof(cred);
	bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 && cred.pid > 0 &&
		     takes_part(r, (uint32_t)cred.pid, cred.uid);

	if (known && r->n_silent < SILENT_MAX) {
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
	for (int i = 0; i < ACCEPTS; i++) {
		int fd = accept4(r->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && errno != ECONNABORTED && errno != EINTR)
			break;
		if (fd >= 0)
			meet(r, fd);
	}
}

/* ---- marks ---- */

/* Is there such a thread?  Signal 0 asks without /proc, which may hide processes of others. */
static bool is_there(long r)
{
	return r == 0 || errno == EPERM;
}

/* The thread that the target calls @tid, as we see it; 0: one of another process. */
static uint32_t look_up_thread(const struct ring *ring, uint32_t tid)
{
	struct procfs_status status;
	_cleanup_(freep) uint32_t *tids = NULL;
	size_t n;

	if (!tid || tid > INT32_MAX)
		return 0;
	if (mark_ring_claimed_pid(ring->ring) == ring->pid) {
		if (tid == ring->pid || is_there(syscall(SYS_tgkill, ring->pid, tid, 0)))
			return tid;
		/* It has ended, or is of another process. */
		return is_there(syscall(SYS_tkill, tid, 0)) ? 0 : tid;
	}
	/* In a pid namespace. */
	if (tid == mark_ring_claimed_pid(ring->ring))
		return ring->pid;
	if (procfs_threads("", ring->pid, &tids, &n) < 0)
		return 0;
	for (size_t i = 0; i < n; i++)
		if (procfs_status("", tids[i], &status) == 0 && status.ns_pid == tid)
			return tids[i];
	return 0;
}

static int one_mark(void *arg, const struct mark_ring_mark *mark)
{
	struct mark_rings *r = arg;
	struct table *threads = &r->current->threads;
	uint64_t tid;

	if (!table_get(threads, mark->tid, &tid)) {
		tid = look_up_thread(r->current, mark->tid);
		if (threads->n_used >= THREADS_MAX)
			table_clear(threads);
		if (table_put(threads, mark->tid, tid) < 0)
			return fail(-ENOMEM);
	}
	if (!tid) {
		r->counts.forged++;
		return 0;
	}
	/* The number may be another thread's from now on. */
	if (mark->kind == MARKS_THREAD_END)
		(void)table_remove(threads, mark->tid);
	return r->sink->mark(r->sink->arg, r->current->pid, (uint32_t)tid, mark);
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

static int read_ring(struct mark_rings *r, size_t i, size_t most)
{
	int result;

	r->current = &r->rings[i];
	result = mark_ring_read(r->current->ring, most, one_mark, r);
	return result < 0 ? trace(result) : 0;
}

int mark_rings_turn(struct mark_rings *r, const struct mark_rings_sink *sink)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	size_t share;
	int result = 0;

	r->sink = sink;
	find_ended(r); /* before the last marks are read */
	hear(r);
	if (now - r->renewed > RENEW_MS * NSEC_PER_MSEC)
		mark_rings_switch(r, r->options.mask);
	/* The marks of a program come before the marks of the next program in the same process. */
	for (size_t i = r->n_rings; i-- > 0 && result >= 0;) {
		uint32_t pid = r->rings[i].pid;

		if (!r->rings[i].ended)
			continue;
		result = read_ring(r, i, SIZE_MAX); /* there will be no more */
		drop_ring(r, i);
		if (result >= 0)
			result = sink->ended(sink->arg, pid);
	}
	share = max_u64(LEAST, MARK_RINGS_MARKS / max_u64(1, r->n_rings));
	for (size_t i = 0; i < r->n_rings && result >= 0; i++)
		result = read_ring(r, i, share);
	return result < 0 ? trace(result) : 0;
}
