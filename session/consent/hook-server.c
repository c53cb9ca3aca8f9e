/* hook-server.c - the server of the hook socket (hook-server.h).
 *
 *   accept ─► credentials: asked? ─► one message ─► count, bytes ─► hook_check ─► still alive?
 *                 no: closed unread                                                 └─► verified()
 *
 * The message of a stranger is not received, so its descriptors never enter this process, and the
 * queue of a connection that ends is released by another process (base/closer.h).  The pidfd of
 * the peer (SO_PEERPIDFD, Linux 6.5; else opened by its pid) identifies it: if the peer still
 * exists after the checks, /proc/PID belonged to it during all checks. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd-message.h"
#include "base/peer.h"
#include "session/consent/hook-server.h"

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
