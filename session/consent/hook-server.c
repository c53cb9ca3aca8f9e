/* hook-server.c - the server of the hook socket (hook-server.h).
 *
 *   accept ─► credentials: asked? ─► one message ─► count, bytes ─► hook_check ─► still alive?
 *                 no: closed unread                                                 └─► verified()
 *
 * The message of a stranger is not received, so its descriptors never enter this process, and the
 * queue of a connection that ends is released by another process (base/closer.h).  The pidfd of
 * the peer (SO_PEERPIDFD, Linux 6.5; else opened by its pid) identifies it: if the peer still
 * exists after the checks, /proc/PID belonged to it during all checks.
 *
 * The verification of descriptors:
 *
 *   readlink, statx without sync   come first: the owner of a file cannot stall these
 *   same device as our /proc       it is a procfs file; its inode must equal that of
 *                                  /proc/PID/task/TID/NAME, which no file of another process has
 *   another device                 fstatfs must report procfs (another instance: of a container).
 *                                  Then the name decides: the link must be /NSPID/... below a mount
 *                                  of a whole procfs in the mount list of the peer, because a bind
 *                                  mount could show the folder of one process under another pid
 *
 * The mounts are read between two reads of the link, since mounts can be moved.  A target that
 * wins that race passes off a process that it can read itself as its own: a wrong stack in a
 * trace, but no data that the target could not have read. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd-message.h"
#include "base/peer.h"
#include "proc/procfs.h"
#include "session/consent/hook-server.h"

enum { LINK_MAX_BYTES = 4096, FDINFO_MAX = 64 << 10, MOUNTS_MAX = 4 << 20 };

const char *hook_verdict_word(enum hook_verdict verdict)
{
	static const char *const words[HOOK_VERDICTS] = {
		[HOOK_GOOD] = "good",
		[HOOK_STRANGER] = "stranger",
		[HOOK_GONE] = "gone",
		[HOOK_THREAD_GONE] = "thread-gone",
		[HOOK_SILENT] = "silent",
		[HOOK_NO_MESSAGE] = "no-message",
		[HOOK_NOT_TWO] = "not-two",
		[HOOK_WRITABLE] = "writable",
		[HOOK_NOT_PROC] = "not-proc",
		[HOOK_NOT_ITS_OWN] = "not-its-own",
		[HOOK_NOT_PASSED] = "not-passed",
	};

	return words[verdict];
}

static const char *const file_names[HOOK_DESCRIPTORS] = {
	[HOOK_MAPS] = "maps",
	[HOOK_MEM] = "mem",
};

/* The path of a descriptor: MOUNT/PID/NAME or MOUNT/PID/task/TID/NAME. */
struct link {
	char path[LINK_MAX_BYTES];
	size_t mount_len;  /* of the path, up to the '/' before PID */
	uint32_t pid, tid; /* tid 0: the first form */
	bool deleted;	   /* the process or thread has ended, and the kernel marks the link */
};

/* The number between the last two slashes of path[0..*len); cuts it off. */
static bool last_number(const char *path, size_t *len, uint32_t *ret)
{
	size_t end = *len, start = end;
	char digits[16];
	uint64_t v;

	while (start && path[start - 1] != '/')
		start--;
	if (!start || end - start >= sizeof(digits))
		return false;
	memcpy(digits, path + start, end - start);
	digits[end - start] = 0;
	if (digits[0] == '0' || parse_u64(digits, 10, INT32_MAX, &v) < 0)
		return false;
	*ret = (uint32_t)v;
	*len = start - 1;
	return true;
}

static bool cut_end(const char *path, size_t *len, const char *end)
{
	size_t n = strlen(end);

	if (*len < n || memcmp(path + *len - n, end, n) != 0)
		return false;
	*len -= n;
	return true;
}

static bool read_link(int fd, const char *name, struct link *link)
{
	char at[64];
	ssize_t n;
	size_t len;

	(void)snprintf(at, sizeof(at), "/proc/self/fd/%d", fd);
	n = readlink(at, link->path, sizeof(link->path));
	if (n <= 0 || (size_t)n >= sizeof(link->path))
		return false;
	link->path[n] = 0;
	len = (size_t)n;
	link->deleted = cut_end(link->path, &len, " (deleted)");
	link->tid = 0;
	if (!cut_end(link->path, &len, name) || !cut_end(link->path, &len, "/") ||
	    !last_number(link->path, &len, &link->pid))
		return false;
	if (cut_end(link->path, &len, "/task")) {
		link->tid = link->pid;
		if (!last_number(link->path, &len, &link->pid))
			return false;
	}
	link->mount_len = len;
	return true;
}

static bool stat_file(int at, const char *path, struct statx *sx)
{
	int flags = AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT | (*path ? 0 : AT_EMPTY_PATH);

	return statx(at, path, flags, STATX_TYPE | STATX_INO, sx) == 0;
}

static bool same_device(const struct statx *a, const struct statx *b)
{
	return a->stx_dev_major == b->stx_dev_major && a->stx_dev_minor == b->stx_dev_minor;
}

/* ---- another instance of procfs ---- */

static bool mount_id(int fd, uint64_t *ret)
{
	_cleanup_(freep) char *text = NULL;
	char at[64], *id, *end;

	(void)snprintf(at, sizeof(at), "/proc/self/fdinfo/%d", fd);
	if (read_file(at, FDINFO_MAX, &text, NULL) < 0)
		return false;
	id = strstr(text, "mnt_id:\t");
	if (!id)
		return false;
	id += strlen("mnt_id:\t");
	end = strchr(id, '\n');
	if (end)
		*end = 0;
	return parse_u64(id, 10, INT32_MAX, ret) >= 0;
}

/* The @n-th word of a line, from 0. */
static const char *word_at(const char *line, unsigned n, size_t *ret_len)
{
	for (; n; n--) {
		line += strcspn(line, " \n");
		line += *line == ' ';
	}
	*ret_len = strcspn(line, " \n");
	return line;
}

/* proc(5), mountinfo: id parent major:minor root mountpoint ... */
static bool is_whole_mount(const char *line, const struct link *link)
{
	size_t root_len, point_len;
	const char *root = word_at(line, 3, &root_len), *point = word_at(line, 4, &point_len);

	return root_len == 1 && *root == '/' && point_len == link->mount_len &&
	       !memcmp(point, link->path, point_len);
}

/* Is the mount that @fd was opened through one of a whole procfs, at the beginning of @link? */
static bool mounted_whole(uint32_t pid, int fd, const struct link *link)
{
	_cleanup_(freep) char *text = NULL;
	char path[PROCFS_PATH_MAX];
	uint64_t wanted;

	if (!mount_id(fd, &wanted) || procfs_path(path, "", pid, "mountinfo") < 0 ||
	    read_file(path, MOUNTS_MAX, &text, NULL) < 0)
		return false;
	for (const char *line = text; *line;) {
		char digits[16] = "";
		uint64_t id;
		size_t len;
		const char *word = word_at(line, 0, &len);

		if (len < sizeof(digits))
			memcpy(digits, word, len);
		if (parse_u64(digits, 10, INT32_MAX, &id) >= 0 && id == wanted)
			return is_whole_mount(line, link);
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	return false;
}

static enum hook_verdict check_elsewhere(uint32_t pid, int fd, const char *name,
					 const struct link *link)
{
	struct procfs_status status;
	struct link again;
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0 || fs.f_type != PROC_SUPER_MAGIC)
		return HOOK_NOT_PROC;
	if (procfs_status("", pid, &status) < 0)
		return HOOK_GONE;
	if (link->deleted && link->tid && link->pid == status.ns_pid)
		return HOOK_THREAD_GONE;
	if (link->pid != status.ns_pid || !mounted_whole(pid, fd, link) ||
	    !read_link(fd, name, &again) || strcmp(again.path, link->path) != 0)
		return HOOK_NOT_ITS_OWN;
	return HOOK_GOOD;
}

/* ---- our instance of procfs ---- */

static enum hook_verdict check_here(uint32_t pid, const struct statx *sx, const char *name,
				    const struct link *link)
{
	char path[PROCFS_PATH_MAX], file[64];
	struct statx own;

	if (link->tid)
		(void)snprintf(file, sizeof(file), "task/%u/%s", link->tid, name);
	else
		(void)snprintf(file, sizeof(file), "%s", name);
	if (procfs_path(path, "", pid, file) < 0)
		return HOOK_NOT_ITS_OWN;
	if (!stat_file(AT_FDCWD, path, &own))
		return errno == ENOENT && link->tid && link->pid == pid ? HOOK_THREAD_GONE
									: HOOK_NOT_ITS_OWN;
	if (!same_device(&own, sx) || own.stx_ino != sx->stx_ino)
		return HOOK_NOT_ITS_OWN;
	return HOOK_GOOD;
}

static enum hook_verdict check_one(uint32_t pid, int fd, const char *name)
{
	int flags = fcntl(fd, F_GETFL);
	struct statx sx, proc;
	struct link link;

	if (flags < 0 || (flags & O_ACCMODE) != O_RDONLY || (flags & O_PATH))
		return HOOK_WRITABLE;
	if (!stat_file(fd, "", &sx) || !S_ISREG(sx.stx_mode) ||
	    !stat_file(AT_FDCWD, "/proc", &proc))
		return HOOK_NOT_PROC;
	/* A file of another name is rejected without further calls on it. */
	if (!read_link(fd, name, &link))
		return same_device(&sx, &proc) ? HOOK_NOT_ITS_OWN : HOOK_NOT_PROC;
	if (same_device(&sx, &proc))
		return check_here(pid, &sx, name, &link);
	return check_elsewhere(pid, fd, name, &link);
}

enum hook_verdict hook_check(uint32_t pid, const int fds[static HOOK_DESCRIPTORS])
{
	for (size_t i = 0; i < HOOK_DESCRIPTORS; i++) {
		enum hook_verdict verdict = check_one(pid, fds[i], file_names[i]);

		if (verdict != HOOK_GOOD)
			return verdict;
	}
	return HOOK_GOOD;
}

/* Values of the table of asked processes. */
enum { ASKED = 1, ASKED_AND_TAKEN };

enum { ACCEPTS_AT_ONCE = 256 }; /* then main is heard again */

void hook_server_init(struct hook_server *s)
{
	s->deadline = s->deadline ? s->deadline : HOOK_DEADLINE_MS;
	s->n_peers = 0;
	closer_init(&s->closer);
	memset(&s->asked, 0, sizeof(s->asked));
}

static void count(struct hook_server *s, enum hook_verdict verdict)
{
	(void)atomic_fetch_add(&s->counts[verdict], 1);
}

/* The caller counts the verdict. */
static void drop_peer(struct hook_server *s, size_t index)
{
	closer_close(&s->closer, s->peers[index].fd);
	(void)fd_close(s->peers[index].pidfd);
	s->n_peers--;
	memmove(&s->peers[index], &s->peers[index + 1], (s->n_peers - index) * sizeof(s->peers[0]));
}

void hook_server_deinit(struct hook_server *s)
{
	while (s->n_peers)
		drop_peer(s, s->n_peers - 1);
	closer_deinit(&s->closer);
	table_deinit(&s->asked);
}

int hook_server_expect(struct hook_server *s, uint32_t pid)
{
	int r = s->asked.n_used < HOOK_ASKED_MAX ? table_put(&s->asked, pid, ASKED) : -E2BIG;

	return r < 0 ? fail(r) : 0;
}

void hook_server_forget(struct hook_server *s, uint32_t pid)
{
	(void)table_remove(&s->asked, pid);
}

/* ---- one message ---- */

struct message {
	struct fd_message fds;
	bool one_byte;
};

/* -EAGAIN: nothing yet. */
static int message_receive(int from, struct message *m)
{
	char data[2];
	/* With room for too many: the kernel drops further ones. */
	ssize_t n =
		fd_message_receive(from, data, sizeof(data), FD_MESSAGE_MAX, MSG_DONTWAIT, &m->fds);

	m->one_byte = n == 1 && data[0] == HOOK_BYTE;
	return n == -EAGAIN ? -EAGAIN : 0;
}

static bool alive(const struct hook_peer *peer)
{
	/* Without a pidfd this cannot be checked. */
	return peer->pidfd < 0 || syscall(SYS_pidfd_send_signal, peer->pidfd, 0, NULL, 0) == 0 ||
	       errno == EPERM;
}

static bool expected(struct hook_server *s, uint32_t pid)
{
	uint64_t v;

	if (table_get(&s->asked, pid, &v))
		return true;
	if (s->hear)
		s->hear(s->arg);
	return table_get(&s->asked, pid, &v);
}

static enum hook_verdict judge(struct hook_server *s, const struct hook_peer *peer,
			       const struct message *m)
{
	enum hook_verdict verdict;

	if (!expected(s, peer->pid))
		return HOOK_STRANGER;
	if (!m->one_byte)
		return HOOK_NO_MESSAGE;
	if (m->fds.n != HOOK_DESCRIPTORS || m->fds.more)
		return HOOK_NOT_TWO;
	verdict = hook_check(peer->pid, m->fds.fds);
	if ((verdict == HOOK_GOOD || verdict == HOOK_THREAD_GONE) && !alive(peer))
		verdict = HOOK_GONE;
	if (verdict == HOOK_GOOD && s->verified(s->arg, peer->pid, m->fds.fds) < 0)
		verdict = HOOK_NOT_PASSED;
	return verdict;
}

/* false: nothing was there yet. */
static bool take_message(struct hook_server *s, const struct hook_peer *peer)
{
	struct message m;
	enum hook_verdict verdict;

	atomic_store(s->at_work, (uint64_t)peer->uid << 32 | peer->pid);
	if (message_receive(peer->fd, &m) < 0) {
		atomic_store(s->at_work, 0);
		return false;
	}
	verdict = judge(s, peer, &m);
	if (verdict == HOOK_GOOD)
		hook_server_forget(s, peer->pid);
	if (verdict == HOOK_THREAD_GONE && s->lost)
		s->lost(s->arg, peer->pid);
	count(s, verdict);
	fd_message_close(&m.fds);
	atomic_store(s->at_work, 0);
	return true;
}

/* ---- connections ---- */

/* Identifies the peer.  HOOK_GOOD: a process that was asked. */
static enum hook_verdict meet(struct hook_server *s, struct hook_peer *peer)
{
	struct ucred peer_cred;
	socklen_t len = sizeof(peer_cred);

	if (getsockopt(peer->fd, SOL_SOCKET, SO_PEERCRED, &peer_cred, &len) < 0 ||
	    peer_cred.pid <= 0)
		return HOOK_STRANGER;
	peer->pid = (uint32_t)peer_cred.pid;
	peer->uid = peer_cred.uid;
	if (!expected(s, peer->pid))
		return HOOK_STRANGER;
	peer->pidfd = peer_pidfd(peer->fd, s->peer_pidfd, peer->pid);
	if (peer->pidfd != -ESRCH)
		return HOOK_GOOD;
	peer->pidfd = -1;
	return HOOK_GONE;
}

static void report_taken(struct hook_server *s, uint32_t pid)
{
	uint64_t state;

	if (!s->taken || !table_get(&s->asked, pid, &state) || state == ASKED_AND_TAKEN ||
	    table_put(&s->asked, pid, ASKED_AND_TAKEN) < 0)
		return;
	s->taken(s->arg, pid);
}

/* The number of silent peers of the user of @peer (@pid: of its process). */
static size_t alike(const struct hook_server *s, const struct hook_peer *peer, bool pid)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_peers; i++)
		n += s->peers[i].uid == peer->uid && (!pid || s->peers[i].pid == peer->pid);
	return n;
}

/* The peer to displace for @next: the oldest of the largest process of the largest user.  So a
 * user that fills the room displaces only their own connections. */
static size_t victim(const struct hook_server *s, const struct hook_peer *next)
{
	size_t best = 0, most_user = 0, most = 0;

	for (size_t i = 0; i < s->n_peers; i++) {
		const struct hook_peer *peer = &s->peers[i];
		size_t user = alike(s, peer, false) + (peer->uid == next->uid);
		size_t own = alike(s, peer, true) + (peer->pid == next->pid);

		if (user < most_user || (user == most_user && own <= most))
			continue;
		most_user = user;
		most = own;
		best = i;
	}
	return best;
}

/* Makes room for @peer among the silent; one process may have HOOK_CONNECTIONS_OF_ONE. */
static void make_room(struct hook_server *s, const struct hook_peer *peer)
{
	size_t i = 0;

	if (alike(s, peer, true) >= HOOK_CONNECTIONS_OF_ONE)
		while (s->peers[i].pid != peer->pid || s->peers[i].uid != peer->uid)
			i++;
	else if (s->n_peers == HOOK_CONNECTIONS)
		i = victim(s, peer);
	else
		return;
	count(s, HOOK_SILENT);
	drop_peer(s, i);
}

static void accept_one(struct hook_server *s, int fd)
{
	struct hook_peer peer = {.fd = fd, .pidfd = -1};
	enum hook_verdict verdict = closer_show_all(fd) < 0 ? HOOK_STRANGER : meet(s, &peer);

	if (verdict == HOOK_GOOD && !take_message(s, &peer)) {
		make_room(s, &peer);
		peer.until = clock_ns(CLOCK_MONOTONIC) + s->deadline * NSEC_PER_MSEC;
		s->peers[s->n_peers++] = peer;
		report_taken(s, peer.pid);
		return;
	}
	if (verdict != HOOK_GOOD)
		count(s, verdict);
	closer_close(&s->closer, peer.fd);
	(void)fd_close(peer.pidfd);
}

static void hear_peers(struct hook_server *s)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	for (size_t i = 0; i < s->n_peers;) {
		bool heard = take_message(s, &s->peers[i]);

		if (!heard && now >= s->peers[i].until)
			count(s, HOOK_SILENT);
		else if (!heard) {
			i++;
			continue;
		}
		drop_peer(s, i);
	}
}

void hook_server_take(struct hook_server *s)
{
	hear_peers(s);
	for (int i = 0; i < ACCEPTS_AT_ONCE; i++) {
		int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && errno != ECONNABORTED && errno != EINTR)
			break;
		if (fd >= 0)
			accept_one(s, fd);
	}
}

static int wait_ms(const struct hook_server *s, int timeout_ms)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC), left;

	if (!s->n_peers) /* the first has the earliest deadline */
		return timeout_ms;
	left = s->peers[0].until > now ? (s->peers[0].until - now) / NSEC_PER_MSEC + 1 : 0;
	return timeout_ms < 0 || left < (uint64_t)timeout_ms ? (int)left : timeout_ms;
}

int hook_server_wait(struct hook_server *s, int other, int timeout_ms, bool *ret_other)
{
	struct pollfd fds[HOOK_CONNECTIONS + 2] = {
		{.fd = other, .events = POLLIN},
		{.fd = s->listen_fd, .events = POLLIN},
	};

	for (size_t i = 0; i < s->n_peers; i++)
		fds[i + 2] = (struct pollfd){.fd = s->peers[i].fd, .events = POLLIN};
	if (poll(fds, s->n_peers + 2, wait_ms(s, timeout_ms)) < 0 && errno != EINTR)
		return fail(-errno);
	*ret_other = fds[0].revents != 0;
	return 0;
}
