/* fuzz-ipc.c - a producer with a tracing service that sends any bytes.
 *
 * Input: one byte of flags (1: a descriptor rides on the first piece), one byte that is the size of
 * the pieces in which the rest is sent (0: all at once), then what the service sends from the
 * moment of the connection.  Request ids are counted from 1, so a recorded session is understood.
 * Whatever comes: no event before the binding was answered, none after the connection was lost, no
 * descriptor leaks, and what we send stays bounded. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "daemon/producer/frame.h"
#include "daemon/producer/producer.h"

#define CHECK(ok) ((ok) ? (void)0 : abort()) /* assert() may be compiled out */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
	struct producer *producer;
	unsigned n_serving, n_lost, n_left, n_commands;
};

static bool trusts(void *arg, uint32_t uid)
{
	(void)arg;
	return uid == getuid(); /* the peer is this process */
}

static void serving(void *arg)
{
	struct seen *seen = arg;

	CHECK(!seen->n_lost && !seen->n_serving++);
}

static void lost(void *arg)
{
	struct seen *seen = arg;

	CHECK(!seen->n_lost++);
	producer_stopped(seen->producer, 1); /* void now */
}

static void left(void *arg)
{
	struct seen *seen = arg;

	CHECK(!seen->n_lost && !seen->n_left++);
}

static void command(void *arg)
{
	struct seen *seen = arg;

	CHECK(!seen->n_lost && !seen->n_left && producer_connected(seen->producer));
	seen->n_commands++;
}

static void setup_tracing(void *arg, int fd, uint32_t page_bytes)
{
	command(arg);
	(void)page_bytes;
	(void)fd_close(fd);
}

static uint64_t touch(const void *bytes, size_t len)
{
	const uint8_t *p = bytes;
	uint64_t sum = 0;

	for (size_t i = 0; i < len; i++)
		sum += p[i];
	return sum;
}

static void setup(void *arg, uint64_t id, const void *config, size_t len)
{
	struct seen *seen = arg;

	command(arg);
	(void)touch(config, len);
	producer_register_writer(seen->producer, 1, (uint32_t)id);
}

static void stop(void *arg, uint64_t id)
{
	struct seen *seen = arg;

	command(arg);
	producer_stopped(seen->producer, id);
	if (id == 99)
		(void)producer_leave(seen->producer);
	if (id == 98)
		producer_refuse(seen->producer, "so it was asked");
}

static void flush(void *arg, uint64_t request, const uint64_t *ids, size_t n)
{
	struct seen *seen = arg;

	command(arg);
	(void)touch(ids, n * sizeof(*ids));
	producer_commit(seen->producer, NULL, 0, request, request & 1);
}

static void clear(void *arg, const uint64_t *ids, size_t n)
{
	command(arg);
	(void)touch(ids, n * sizeof(*ids));
}

static const struct producer_events events = {
	.trusts = trusts,
	.serving = serving,
	.lost = lost,
	.left = left,
	.setup_tracing = setup_tracing,
	.setup = setup,
	.start = setup,
	.stop = stop,
	.flush = flush,
	.clear_incremental_state = clear,
	.committed = command,
};
static const struct producer_source sources[] = {{"one", true, true}, {"other", false, false}};

static int listen_at(const char *name)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	size_t len = strlen(name);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	memcpy(a.sun_path + 1, name + 1, len - 1);
	CHECK(bind(fd, (const struct sockaddr *)&a,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) == 0);
	CHECK(listen(fd, 8) == 0);
	return fd;
}

/* What the producer sends is read all along, or it would think the service stuck. */
static void drain(int fd)
{
	static uint8_t sink[1 << 16];

	while (recv(fd, sink, sizeof(sink), MSG_DONTWAIT) > 0)
		;
}

/* @rides: a descriptor, or -1.  Not the socket's own, which would then never be closed. */
static bool send_piece(int fd, const uint8_t *data, size_t len, int rides)
{
	union {
		struct cmsghdr head;
		uint8_t room[CMSG_SPACE(sizeof(int))];
	} control = {.head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	struct iovec iov = {(void *)(uintptr_t)data, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (rides >= 0) {
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
		memcpy(CMSG_DATA(&control.head), &rides, sizeof(rides));
	}
	return sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len;
}

static void pump(struct loop *loop, int fd)
{
	for (int i = 0; i < 3; i++) {
		CHECK(loop_run_once(loop, 0) == 0);
		if (fd >= 0)
			drain(fd);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int listener = -1;
	static char name[64];
	struct producer_options options = {
		.socket = name, .name = "fuzz", .sources = sources, .n_sources = 2};
	struct seen seen = {0};
	struct loop loop;
	size_t piece, at = 2;
	int fd;

	if (size < 2)
		return 0;
	if (listener < 0) {
		log_level = LOG_LEVEL_QUIET;
		(void)snprintf(name, sizeof(name), "@perfwind-fuzz-%d", getpid());
		listener = listen_at(name);
	}
	CHECK(loop_init(&loop) == 0);
	CHECK(producer_new(&options, &events, &seen, &loop, &seen.producer) == 0);
	pump(&loop, -1);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	CHECK(fd >= 0 && producer_connected(seen.producer));
	piece = data[1] ? data[1] : size;
	while (at < size && !seen.n_lost) {
		size_t n = piece < size - at ? piece : size - at;

		if (!send_piece(fd, data + at, n, data[0] & 1 && at == 2 ? listener : -1))
			break;
		at += n;
		pump(&loop, fd);
	}
	(void)fd_close(fd);
	pump(&loop, -1);
	CHECK(seen.n_lost == 1 && !producer_connected(seen.producer));
	(void)producer_free(seen.producer);
	loop_deinit(&loop);
	return 0;
}
