/* fuzz-hook.c - what a process that was asked sends to the hook socket: any messages of any bytes
 * with any descriptors, under any names.
 *
 * Input: messages, each
 *   byte     how many bytes of data (low nibble), of descriptors (high nibble)
 *   bytes    the data
 *   bytes    one for each descriptor: its kind; a file's path takes the bytes of the message
 * What must hold: it is good exactly when it is one byte with maps and mem; each answer is counted
 * once; no descriptor stays. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "session/consent/hook-server.h"

enum { MAX_FDS = 15, MESSAGES = 4, NAME = 48 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct hook_server server;
static _Atomic uint64_t at_work, counts[HOOK_VERDICTS];
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static socklen_t address_len;
static size_t n_verified;

static int verified(void *arg, uint32_t pid, const int fds[static HOOK_DESCRIPTORS])
{
	(void)arg;
	if (pid != (uint32_t)getpid() || fds[HOOK_MAPS] < 0 || fds[HOOK_MEM] < 0)
		abort();
	n_verified++;
	return 0;
}

static void start(void)
{
	address.sun_path[0] = 0;
	(void)snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "perfwind-fuzz-hook-%d",
		       getpid());
	address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				  strlen(address.sun_path + 1));
	server = (struct hook_server){
		.listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
		.at_work = &at_work,
		.counts = counts,
		.verified = verified,
	};
	if (bind(server.listen_fd, (struct sockaddr *)&address, address_len) < 0 ||
	    listen(server.listen_fd, 8) < 0)
		abort();
	hook_server_init(&server);
}

static size_t n_open(void)
{
	size_t n = 0;

	for (int fd = 0; fd < 128; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n - (server.closer.fd >= 0);
}

/* A memory file with a name, and so a link, that is made of input: "/memfd:.../1/maps" and the like. */
static int named(const uint8_t *data, size_t len)
{
	char name[NAME + 1];
	int fd, again;
	char path[64];

	len = len < NAME ? len : NAME;
	memcpy(name, data, len);
	name[len] = 0;
	fd = memfd_create(name, MFD_CLOEXEC);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDONLY | O_CLOEXEC);
	(void)close(fd);
	return again;
}

static int pipe_end(int which)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -1;
	(void)close(fds[!which]);
	return fds[which];
}

static int descriptor(uint8_t kind, const uint8_t *data, size_t len)
{
	static const char *const paths[] = {
		"/proc/thread-self/maps",
		"/proc/thread-self/mem",
		"/proc/self/maps",
		"/proc/self/mem",
		"/proc/self/status",
		"/proc/self/smaps",
		"/proc/1/maps",
		"/proc/self/maps",
		"/proc/self/mem",
		"/dev/null",
		"/proc",
		"/proc/version",
		"/proc/self/fd/0",
		"/sys/kernel/mm",
	};
	static const int flags[] = {
		[7] = O_PATH,
		[8] = O_RDWR,
	};

	if (kind < sizeof(paths) / sizeof(paths[0]))
		return open(
			paths[kind],
			O_CLOEXEC | O_NONBLOCK |
				(kind < sizeof(flags) / sizeof(flags[0]) ? flags[kind] : O_RDONLY));
	switch (kind % 4) {
	case 0:
		return named(data, len);
	case 1:
		return pipe_end(kind / 4 % 2);
	case 2:
		return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	default:
		return open("/tmp", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	}
}

/* One message out of the input.  *ret_good: an honest one. */
static bool send_one(int to, const uint8_t **data, size_t *left, bool *begun, bool *ret_good)
{
	union {
		char bytes[CMSG_SPACE(MAX_FDS * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	size_t len, n, sent = 0;
	struct iovec iov;
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	const uint8_t *kinds;
	int fds[MAX_FDS];

	if (!*left)
		return false;
	len = **data & 15;
	n = **data >> 4;
	if (*left < 1 + len + n)
		return false;
	iov = (struct iovec){.iov_base = (uint8_t *)(uintptr_t)*data + 1, .iov_len = len};
	kinds = *data + 1 + len;
	*left -= 1 + len + n;
	*data += 1 + len + n;
	for (size_t i = 0; i < n; i++) {
		fds[sent] = descriptor(kinds[i], *data, *left);
		sent += fds[sent] >= 0;
	}
	if (sent) {
		struct cmsghdr *c = &control.align;

		m.msg_control = control.bytes;
		m.msg_controllen = CMSG_SPACE(sent * sizeof(int));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sent * sizeof(int));
		memcpy(CMSG_DATA(c), fds, sent * sizeof(int));
	}
	(void)!sendmsg(to, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	for (size_t i = 0; i < sent; i++)
		(void)close(fds[i]);
	if (!len) /* on a stream that is nothing, its descriptors too */
		return true;
	*begun = true;
	*ret_good = len == 1 && *(uint8_t *)iov.iov_base == HOOK_BYTE && n == 2 && sent == 2 &&
		    (kinds[0] == 0 || kinds[0] == 2) && (kinds[1] == 1 || kinds[1] == 3);
	return true;
}

static uint64_t counted(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < HOOK_VERDICTS; i++)
		sum += counts[i];
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t fds, before_good, messages = 0;
	bool good = false, other, begun = false;
	uint64_t before;
	int to;

	if (!server.counts)
		start();
	fds = n_open();
	before = counted();
	before_good = n_verified;
	to = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (hook_server_expect(&server, (uint32_t)getpid()) < 0 ||
	    connect(to, (struct sockaddr *)&address, address_len) < 0)
		abort();
	while (messages++ < MESSAGES && send_one(to, &data, &size, &begun, begun ? &other : &good))
		;
	(void)close(to);
	hook_server_take(&server);
	hook_server_forget(&server, (uint32_t)getpid());
	if (server.n_peers || counted() != before + 1 || n_open() != fds || at_work)
		abort();
	if (n_verified != before_good + good)
		abort();
	return 0;
}
