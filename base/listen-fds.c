/* listen-fds.c - see listen-fds.h.  Thread: main. Inherited descriptors are verified before they
 * are used: a daemon that is started by hand may have any file at descriptor 3, and to accept() on
 * a pipe, or to treat a connected socket as a listening one, would fail much later. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/listen-fds.h"
#include "base/peer.h"

/* The kernel takes net.core.somaxconn where that is less. */
enum { FIRST = 3, MAX_FDS = 1024, BACKLOG = 4096 };

static bool option_is(int fd, int option, int wanted)
{
	int value = -1;
	socklen_t len = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 && value == wanted;
}

static int check(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || !option_is(fd, SO_DOMAIN, AF_UNIX) ||
	    !option_is(fd, SO_TYPE, SOCK_STREAM) || !option_is(fd, SO_ACCEPTCONN, 1))
		return fail(-EINVAL);
	if (fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return fail(-errno);
	return 0;
}

/* The index of @name among the names separated by colons. -1: none. */
static int index_of(const char *names, const char *name)
{
	size_t len = strlen(name);

	for (int i = 0; i < MAX_FDS; i++) {
		size_t n = strcspn(names, ":");

		if (n == len && !memcmp(names, name, n))
			return i;
		if (!names[n])
			return -1;
		names += n + 1;
	}
	return -1;
}

/* Android's init names the variable after the socket, with '_' for other characters than letters
 * and digits. */
static int find_android(const char *name, int *ret_fd)
{
	char key[64], *p;
	const char *value;
	uint64_t fd;
	int r;

	if (snprintf(key, sizeof(key), "ANDROID_SOCKET_perfwind_%s", name) >= (int)sizeof(key))
		return LISTEN_FDS_NONE;
	for (p = key; *p; p++)
		*p = isalnum((unsigned char)*p) ? *p : '_';
	value = getenv(key);
	if (!value)
		return LISTEN_FDS_NONE;
	if (parse_u64(value, 10, INT32_MAX, &fd) < 0 || fd < FIRST)
		return fail(-EINVAL);
	/* Only bound where the .rc does not have stream+listen. A connected socket, or one without a name,
	 * cannot listen. */
	if (option_is((int)fd, SO_ACCEPTCONN, 0) && listen((int)fd, BACKLOG) < 0)
		return fail(-EINVAL);
	r = check((int)fd);
	if (r < 0)
		return trace(r);
	*ret_fd = (int)fd;
	return 0;
}

static int find_systemd(const char *name, int *ret_fd)
{
	const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS"),
		   *names = getenv("LISTEN_FDNAMES");
	uint64_t owner, n;
	int i, r;

	if (!pid || !fds || !names)
		return LISTEN_FDS_NONE;
	if (parse_u64(pid, 10, INT32_MAX, &owner) < 0 || parse_u64(fds, 10, MAX_FDS, &n) < 0)
		return fail(-EINVAL);
	if (owner != (uint64_t)getpid())
		return LISTEN_FDS_NONE; /* meant for one of our parents */
	i = index_of(names, name);
	if (i < 0)
		return LISTEN_FDS_NONE;
	if ((uint64_t)i >= n)
		return fail(-EINVAL);
	r = check(FIRST + i);
	if (r < 0)
		return trace(r);
	*ret_fd = FIRST + i;
	return 0;
}

int listen_fds_find(const char *name, int *ret_fd)
{
	int r = find_systemd(name, ret_fd);

	return r == LISTEN_FDS_NONE ? find_android(name, ret_fd) : r;
}

/* Removes a socket without a listener: connecting to it is refused. */
static int make_room(const struct sockaddr_un *at)
{
	_cleanup_(fd_closep) int fd =
		socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;

	if (fd < 0)
		return fail(-errno);
	if (lstat(at->sun_path, &st) < 0)
		return errno == ENOENT ? 0 : fail(-errno);
	if (!S_ISSOCK(st.st_mode))
		return fail(-EEXIST);
	if (connect(fd, (const struct sockaddr *)at, sizeof(*at)) == 0 || errno != ECONNREFUSED)
		return fail(-EADDRINUSE);
	return unlink(at->sun_path) < 0 && errno != ENOENT ? fail(-errno) : 0;
}

int listen_at(const char *path, unsigned mode, int *ret_fd)
{
	_cleanup_(fd_closep) int fd =
		socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool abstract = *path == '@';
	struct sockaddr_un at;
	socklen_t len;
	int r = fd < 0 ? fail(-errno) : unix_address(path, &at, &len);

	if (r >= 0 && !abstract)
		r = make_room(&at);
	if (r < 0)
		return trace(r);
	if (bind(fd, (const struct sockaddr *)&at, len) < 0)
		return fail(-errno);
	/* Before listen(): no process can connect while the mode is that of the umask. */
	if ((!abstract && chmod(path, mode) < 0) || listen(fd, BACKLOG) < 0) {
		r = -errno;
		if (!abstract)
			(void)unlink(path);
		return fail(r);
	}
	*ret_fd = take_fd(fd);
	return 0;
}
