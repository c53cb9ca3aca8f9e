/* trigger-socket.c - see trigger-socket.h. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/trigger-socket.h"
#include "base/error.h"
#include "base/peer.h"
#include "daemon/producer/activate.h"
#include "daemon/producer/producer.h"

enum {
	ANSWER_MS = 2000,
	NET_UNIX_MAX = 16 << 20,
	MESSAGES_AT_ONCE = 16, /* then other sources of the loop are served */
	WAITING = 64,	       /* for an answer that comes later; beyond, none is sent */
};

#define PREFIX "perfwind-trigger/"

struct asker {
	struct sockaddr_un address;
	socklen_t len;
};

struct trigger_socket {
	struct loop_source source;
	struct loop *loop;
	struct trigger_events events;
	int fd;
	struct asker waiting[WAITING]; /* a ring */
	size_t first, n;
};

/* One datagram and its sender. */
struct message {
	char text[TRIGGER_NAME_MAX + 2]; /* type, name, NUL */
	size_t len;
	struct ucred from;
	struct sockaddr_un address;
	socklen_t address_len;
};

static socklen_t make_address(uint32_t uid, uint32_t pid, struct sockaddr_un *ret_address)
{
	char name[64];
	socklen_t len = 0;

	(void)snprintf(name, sizeof(name), "@" PREFIX "%u/%u", uid, pid);
	(void)unix_address(name, ret_address, &len);
	return len;
}

static int open_socket(void)
{
	_cleanup_(fd_closep) int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
		return fail(-errno);
	return take_fd(fd);
}

static bool is_heard(const struct ucred *from)
{
	return from->uid == geteuid() || from->uid == 0;
}

/* Descriptors that a sender adds have no room behind the credentials: the kernel drops them.  1: a message if its sender
 * and length are right; 0: one to be passed over; -EAGAIN. */
static int receive(int fd, struct message *ret)
{
	struct message m = {.from = {.uid = UINT32_MAX}};
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(struct ucred))];
	} control;
	struct iovec data = {m.text, sizeof(m.text) - 1};
	struct msghdr header = {.msg_name = &m.address,
				.msg_namelen = sizeof(m.address),
				.msg_iov = &data,
				.msg_iovlen = 1,
				.msg_control = &control,
				.msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(fd, &header, MSG_DONTWAIT);
	const struct cmsghdr *c;

	if (n < 0)
		return -errno;
	c = CMSG_FIRSTHDR(&header);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS &&
	    c->cmsg_len == CMSG_LEN(sizeof(m.from)))
		memcpy(&m.from, CMSG_DATA(c), sizeof(m.from));
	if (!n || (header.msg_flags & MSG_TRUNC) || memchr(m.text, 0, (size_t)n) ||
	    !is_heard(&m.from))
		return 0;
	m.len = (size_t)n;
	m.address_len = header.msg_namelen;
	*ret = m;
	return 1;
}

static int handle(const struct trigger_events *events, const struct message *m)
{
	if (m->text[0] == 'T' && m->len > 1)
		return events->trigger(events->arg, m->text + 1, m->from.uid);
	if (m->text[0] == 'S' && m->len == 1)
		return events->start(events->arg);
	return TRIGGER_UNKNOWN;
}

/* A sender that does not wait for the answer has no address. */
static void answer_to(const struct trigger_socket *s, const struct asker *to, int answer)
{
	char byte = (char)answer;

	if (to->len > sizeof(sa_family_t))
		(void)sendto(s->fd, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL,
			     (const struct sockaddr *)&to->address, to->len);
}

void trigger_socket_answer(struct trigger_socket *s, int answer)
{
	if (!s->n)
		return;
	answer_to(s, &s->waiting[s->first], answer);
	s->first = (s->first + 1) % WAITING;
	s->n--;
}

static int ready(struct loop_source *source, uint32_t events)
{
	struct trigger_socket *s = container_of(source, struct trigger_socket, source);

	(void)events;
	for (int i = 0; i < MESSAGES_AT_ONCE && s->n < WAITING; i++) {
		struct message m;
		struct asker from;
		int r = receive(s->fd, &m), answer;

		if (r < 0)
			break;
		if (r == 0)
			continue;
		answer = handle(&s->events, &m);
		from = (struct asker){m.address, m.address_len};
		if (answer == TRIGGER_LATER)
			s->waiting[(s->first + s->n++) % WAITING] = from;
		else
			answer_to(s, &from, answer);
	}
	return 0;
}

int trigger_socket_new(const struct trigger_events *events, struct loop *loop,
		       struct trigger_socket **ret_socket)
{
	_cleanup_(fd_closep) int fd = open_socket();
	struct trigger_socket *s;
	struct sockaddr_un address;
	socklen_t len = make_address(geteuid(), (uint32_t)getpid(), &address);
	int r;

	if (fd < 0)
		return trace(fd);
	if (bind(fd, (const struct sockaddr *)&address, len) < 0)
		return fail(-errno);
	s = calloc(1, sizeof(*s));
	if (!s)
		return fail(-ENOMEM);
	*s = (struct trigger_socket){.source.fd = -1, .loop = loop, .events = *events, .fd = fd};
	r = loop_add(loop, &s->source, fd, EPOLLIN, ready);
	if (r < 0) {
		free(s);
		return trace(r);
	}
	(void)take_fd(fd);
	*ret_socket = s;
	return 0;
}

struct trigger_socket *trigger_socket_free(struct trigger_socket *s)
{
	if (!s)
		return NULL;
	loop_remove(s->loop, &s->source);
	(void)fd_close(s->fd);
	free(s);
	return NULL;
}

/* ---- the sender ---- */

static int await_answer(int fd)
{
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + ANSWER_MS * NSEC_PER_MSEC, now;
	struct message m;

	while ((now = clock_ns(CLOCK_MONOTONIC)) < end) {
		struct pollfd pfd = {.fd = fd, .events = POLLIN};
		int r;

		if (poll(&pfd, 1, (int)((end - now) / NSEC_PER_MSEC) + 1) < 0 && errno != EINTR)
			return fail(-errno);
		r = receive(fd, &m);
		if (r > 0)
			return (unsigned char)m.text[0];
		if (r < 0 && r != -EAGAIN && r != -EINTR)
			return fail(r);
	}
	return -ETIMEDOUT;
}

int trigger_socket_send(uint32_t uid, uint32_t pid, const char *name)
{
	_cleanup_(fd_closep) int fd = open_socket();
	const sa_family_t unnamed = AF_UNIX;
	char text[TRIGGER_NAME_MAX + 2];
	struct sockaddr_un address;
	socklen_t len = make_address(uid, pid, &address);
	int n = snprintf(text, sizeof(text), "%c%s", name ? 'T' : 'S', name ? name : "");

	if (fd < 0)
		return trace(fd);
	if (n >= (int)sizeof(text))
		return fail(-ENAMETOOLONG);
	/* A bind without a name gets an abstract one from the kernel: the address of the answer. */
	if (bind(fd, (const struct sockaddr *)&unnamed, sizeof(unnamed)) < 0)
		return fail(-errno);
	/* Connected, the socket takes datagrams of that session only. */
	if (connect(fd, (const struct sockaddr *)&address, len) < 0)
		return errno == ECONNREFUSED ? -ESRCH : -errno;
	if (send(fd, text, (size_t)n, MSG_NOSIGNAL) < 0)
		return errno == ECONNREFUSED ? -ESRCH : fail(-errno);
	return await_answer(fd);
}

static bool parse_address(const char *at, uint32_t *ret_uid, uint32_t *ret_pid)
{
	char text[32], *slash;
	uint64_t uid, pid;

	(void)snprintf(text, sizeof(text), "%.*s", (int)strcspn(at, "\n"), at);
	slash = strchr(text, '/');
	if (!slash)
		return false;
	*slash = 0;
	if (parse_u64(text, 10, UINT32_MAX, &uid) < 0 ||
	    parse_u64(slash + 1, 10, INT32_MAX, &pid) < 0)
		return false;
	*ret_uid = (uint32_t)uid;
	*ret_pid = (uint32_t)pid;
	return true;
}

int trigger_socket_find(void (*found)(void *arg, uint32_t uid, uint32_t pid), void *arg)
{
	static const char prefix[] = " @" PREFIX;
	_cleanup_(freep) char *text = NULL;
	int n = 0, r = read_file("/proc/net/unix", NET_UNIX_MAX, &text, NULL);

	if (r < 0)
		return trace(r);
	for (const char *at = text; (at = strstr(at, prefix)); at += sizeof(prefix) - 1) {
		uint32_t uid, pid;

		if (!parse_address(at + sizeof(prefix) - 1, &uid, &pid) ||
		    (uid != geteuid() && geteuid() != 0))
			continue;
		found(arg, uid, pid);
		n++;
	}
	return n;
}

struct sending {
	const char *name;
	bool accepted;
	bool elsewhere; /* a session waits for other triggers */
};

static const char *reason(int answer)
{
	return answer == TRIGGER_LIMITED   ? "max_per_24_h is reached"
	       : answer == TRIGGER_SKIPPED ? "skipped, by skip_probability"
	       : answer == TRIGGER_BUSY	   ? "it makes as many snapshots as it can already"
	       : answer == -ETIMEDOUT	   ? "no answer"
	       : answer == -EPERM	   ? "it belongs to another user"
	       : answer < 0		   ? strerror(-answer)
					   : "the answer is of another version";
}

static void send_to(void *arg, uint32_t uid, uint32_t pid)
{
	struct sending *sending = arg;
	int answer = trigger_socket_send(uid, pid, sending->name);

	sending->elsewhere |= answer == TRIGGER_UNKNOWN;
	if (answer == TRIGGER_UNKNOWN || answer == -ESRCH)
		return;
	if (answer == TRIGGER_ACCEPTED) {
		log_info("trigger %s: accepted by the trace session of process %u", sending->name,
			 pid);
		sending->accepted = true;
		return;
	}
	log_info("trigger %s: process %u: %s", sending->name, pid, reason(answer));
}

/* Did a session accept it?  A service that took it counts as one. */
static bool send_to_sessions(const char *name, bool by_service)
{
	struct sending sending = {.name = name};
	int r = trigger_socket_find(send_to, &sending);

	if (r < 0)
		log_error("trigger: /proc/net/unix: %s", strerror(-r));
	if (sending.accepted || by_service)
		return true;
	if (r && !sending.elsewhere) /* why not is printed */
		log_error("trigger %s: no trace session of yours accepted it", name);
	else
		log_error("trigger %s: %s; hint: perfwind trace --background -c CONFIG, with a "
			  "trigger_config that has triggers { name: \"%s\" }",
			  name,
			  sending.elsewhere ? "your trace sessions wait for other triggers"
					    : "no trace session of yours waits for triggers",
			  name);
	return false;
}

/* Did the service take them?  Without one there is nothing to report. */
static bool send_to_service(const char *const *names, size_t n)
{
	const char *socket = producer_socket_name(geteuid() == 0);
	int r = activate_triggers(socket, names, n);

	if (r == 0)
		log_info("the tracing service at %s took the trigger%s; it does not report whether "
			 "a session waits for %s",
			 socket, n == 1 ? "" : "s", n == 1 ? "it" : "them");
	else if (r == -EACCES || r == -EPERM)
		log_error("the tracing service at %s refuses triggers of this user", socket);
	else if (r == -EOPNOTSUPP)
		log_error("the tracing service at %s takes no triggers", socket);
	else if (r != -ENOENT && r != -ECONNREFUSED && r != -ENOTDIR)
		log_error("the tracing service at %s: %s", socket, strerror(-r));
	return r == 0;
}

int trigger_send(const char *const *names, size_t n)
{
	bool by_service = send_to_service(names, n);
	int status = 0;

	for (size_t i = 0; i < n; i++)
		status |= !send_to_sessions(names[i], by_service);
	return status;
}
