/* producer.c - see producer.h: connecting, and the connection's life in the loop.
 *
 * The socket is read as soon as it is readable and in small portions, so that neither the service
 * waits (it drops a producer that leaves its socket full for 10 ms) nor the rings do.  Losing the
 * connection is done in one place, between events: whoever finds a reason (producer_refuse) only
 * notes it. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "daemon/producer/producer-private.h"

enum {
	FIRST_WAIT_MS = 200,
	LAST_WAIT_MS = 30000,
	READS = 8, /* of at most 128 KiB, then the others in the loop have their turn */
};

const char *producer_socket_name(bool privileged)
{
	const char *name = getenv("PERFETTO_PRODUCER_SOCK_NAME");

	if (name && *name)
		return name;
	/* Where distributions put it; else where a service that was started by hand listens. */
	return privileged || access("/run/perfetto/", X_OK) == 0
		       ? "/run/perfetto/traced-producer.sock"
		       : "/tmp/perfetto-producer";
}

uint32_t producer_backoff_ms(uint32_t last_ms)
{
	return !last_ms ? FIRST_WAIT_MS : (uint32_t)min_u64(last_ms * 2ull, LAST_WAIT_MS);
}

/* A path, or with '@' a name in the abstract namespace.  -EAFNOSUPPORT: TCP and vsock, over which
 * no memory can be shared. */
static int address_of(const char *name, struct sockaddr_un *ret_address, socklen_t *ret_len)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	const char *colon = strrchr(name, ':');
	size_t len = strlen(name);
	uint64_t port;

	if (!strncmp(name, "vsock://", 8))
		return fail(-EAFNOSUPPORT);
	if (name[0] != '@' && colon && parse_u64(colon + 1, 10, UINT16_MAX, &port) == 0)
		return fail(-EAFNOSUPPORT);
	if (!len)
		return fail(-ENOENT);
	if (len >= sizeof(a.sun_path))
		return fail(-ENAMETOOLONG);
	memcpy(a.sun_path, name, len);
	*ret_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + 1);
	if (name[0] == '@') {
		a.sun_path[0] = 0;
		(*ret_len)--; /* a NUL behind would be part of the name */
	}
	*ret_address = a;
	return 0;
}

/* ---- lost and tried again ---- */

static void try_later(struct producer *p)
{
	p->wait_ms = producer_backoff_ms(p->wait_ms);
	(void)loop_timer_set(&p->retry, p->wait_ms * NSEC_PER_MSEC, 0);
}

static void lose(struct producer *p)
{
	if (p->refused)
		log_error("the tracing service was left: %s", p->refused);
	else
		log_print(p->told ? LOG_LEVEL_VERBOSE : LOG_LEVEL_NORMAL,
			  "the tracing service has gone; waiting for it");
	p->told = true;
	loop_remove(p->loop, &p->source);
	frame_stream_deinit(&p->stream);
	p->state = PRODUCER_WAITING;
	p->refused = NULL;
	p->writable_wanted = p->commit_again = false;
	p->service_id = 0;
	memset(p->methods, 0, sizeof(p->methods));
	p->last_request = p->bind = p->initialize = p->command = p->sync = p->commit = 0;
	memset(p->registering, 0, sizeof(p->registering));
	p->events->lost(p->arg);
	try_later(p);
}

void producer_refuse(struct producer *p, const char *why)
{
	if (p->state == PRODUCER_WAITING || p->refused)
		return;
	p->refused = why;
	/* Makes the loop come here, whatever has called. */
	(void)shutdown(p->stream.fd, SHUT_RDWR);
}

/* false: the connection is to end. */
static bool take_frames(struct producer *p)
{
	const uint8_t *data;
	size_t len;
	int r;

	while ((r = frame_next(&p->stream, &data, &len)) == 0) {
		_cleanup_(message_freep) Pb__IPCFrame *frame =
			(void *)frame_unpack(&pb__ipcframe__descriptor, data, len);

		if (frame)
			producer_dispatch(p, frame);
		if (p->refused)
			return false;
	}
	if (r == -EMSGSIZE)
		p->refused = "it sent a frame larger than any may be";
	return r >= 0;
}

static bool take_input(struct producer *p)
{
	for (int i = 0; i < READS; i++) {
		int r = frame_receive(&p->stream);

		if (r == FRAME_NONE)
			return true;
		if (r == -EBADMSG)
			p->refused = "it sent descriptors that no frame may carry";
		if (r != 0 || !take_frames(p))
			return false;
	}
	return true;
}

static int ready(struct loop_source *source, uint32_t events)
{
	struct producer *p = container_of(source, struct producer, source);
	bool stays = true;

	if (events & EPOLLOUT) {
		int r = frame_send(&p->stream);

		stays = r >= 0;
		if (r == 0) {
			p->writable_wanted = false;
			(void)loop_change(p->loop, source, EPOLLIN);
		}
	}
	/* What a service said before it went is still taken; then the reading finds the end. */
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		stays = take_input(p) && stays;
	if (!stays || p->refused)
		lose(p);
	return 0;
}

/* ---- connecting ---- */

static int connect_to(const char *name, int *ret_fd)
{
	_cleanup_(fd_closep) int fd = -1;
	struct sockaddr_un address = {0};
	socklen_t len = 0;
	int r = address_of(name, &address, &len);

	if (r < 0)
		return trace(r);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* A local socket connects at once or not at all: EAGAIN is a full backlog. */
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, len) < 0)
		return fail(-errno);
	*ret_fd = take_fd(fd);
	return 0;
}

/* The credentials of the connected socket are the listener's, as the kernel noted them at its
 * listen(2) (net/unix/af_unix.c, copy_peercred()).  To look at the owner of the path instead would
 * leave time to exchange the socket. */
static int check_listener(const struct producer *p, int fd, uint32_t *ret_uid)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return fail(-errno);
	*ret_uid = cred.uid;
	return p->events->trusts(p->arg, cred.uid) ? 0 : fail(-EACCES);
}

static void report_distrust(struct producer *p, const char *name, uint32_t uid)
{
	log_print(p->distrusted == uid ? LOG_LEVEL_VERBOSE : LOG_LEVEL_NORMAL,
		  "the tracing service at %s is refused: user %u runs it; trusted are root, the "
		  "daemon's own user and traced-service-users; to trust user %u: "
		  "traced-service-users = %u in /etc/perfwind.conf, then systemctl reload perfwind",
		  name, uid, uid, uid);
	p->distrusted = uid;
}

static void report_absence(struct producer *p, const char *name, int r)
{
	/* Once; -v tells of each try. */
	log_print(p->told ? LOG_LEVEL_VERBOSE : LOG_LEVEL_NORMAL, "no tracing service at %s (%s)%s",
		  name,
		  r == -EAFNOSUPPORT ? "memory can only be shared over a local socket"
				     : strerror(-r),
		  p->told ? "" : "; waiting for it");
	p->told = true;
}

static int try_now(struct loop_timer *timer)
{
	struct producer *p = container_of(timer, struct producer, retry);
	const char *name =
		p->options.socket ? p->options.socket : producer_socket_name(p->options.privileged);
	_cleanup_(fd_closep) int fd = -1;
	uint32_t uid = UINT32_MAX;
	int r = connect_to(name, &fd);

	if (r >= 0)
		r = check_listener(p, fd, &uid);
	if (r >= 0)
		r = frame_stream_init(&p->stream, take_fd(fd));
	if (r >= 0)
		r = loop_add(p->loop, &p->source, p->stream.fd, EPOLLIN, ready);
	if (r < 0) {
		frame_stream_deinit(&p->stream);
		if (r == -EACCES && uid != UINT32_MAX)
			report_distrust(p, name, uid);
		else
			report_absence(p, name, r);
		try_later(p);
		return 0;
	}
	p->distrusted = UINT32_MAX;
	p->state = PRODUCER_BINDING;
	producer_bind(p);
	return 0;
}

int producer_new(const struct producer_options *options, const struct producer_events *events,
		 void *arg, struct loop *loop, struct producer **ret_producer)
{
	struct producer *p;
	int r;

	if (options->n_sources > PRODUCER_SOURCES_MAX)
		return fail(-EINVAL);
	p = calloc(1, sizeof(*p));
	if (!p)
		return fail(-ENOMEM);
	*p = (struct producer){
		.options = *options,
		.events = events,
		.arg = arg,
		.loop = loop,
		.stream = {.fd = -1, .slot_fd = -1},
		.source.fd = -1,
		.retry.source.fd = -1,
		.distrusted = UINT32_MAX,
	};
	r = loop_timer_add(loop, &p->retry, 1, 0, try_now);
	if (r < 0) {
		(void)producer_free(p);
		return trace(r);
	}
	*ret_producer = p;
	return 0;
}

struct producer *producer_free(struct producer *p)
{
	if (!p)
		return NULL;
	loop_timer_remove(p->loop, &p->retry);
	loop_remove(p->loop, &p->source);
	frame_stream_deinit(&p->stream);
	free(p);
	return NULL;
}

bool producer_connected(const struct producer *p)
{
	return p->state != PRODUCER_WAITING;
}

void producer_set_hints(struct producer *p, uint32_t page_bytes, uint32_t bytes)
{
	p->options.shmem_page_bytes = page_bytes;
	p->options.shmem_bytes = bytes;
	if (p->state != PRODUCER_WAITING)
		return;
	p->wait_ms = 0;
	(void)loop_timer_set(&p->retry, 1, 0);
}
