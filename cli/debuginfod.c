/* debuginfod.c - see debuginfod.h.
 *
 * libdebuginfod is loaded in the process that uses it (debuginfod_find_debuginfo(3)): linked, it and the 30 libraries of
 * its HTTP client would be loaded by every perfwind command, also by root's.
 *
 * Files come by several requests at a time, so that one large file, or one that no server answers for, does not use the time of
 * the others: the process forks.  Each reports one byte a build id. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/error.h"
#include "cli/debuginfod.h"
#include "proc/open-file.h"

#define FILE_BYTES_MAX "536870912" /* of one file, as libdebuginfod's DEBUGINFOD_MAXSIZE */
#define ALL_BYTES_MAX (2ull << 30) /* of all files of a command */

enum {
	NO_LIBRARY = 'x',
	FOUND = '1',
	NOT_FOUND = '0',
	NOT_ANSWERED = '2',
	FILE_SECONDS = 30,
	AT_ONCE = 4
};

/* Of all processes of a command. */
struct shared {
	_Atomic size_t next; /* build id */
	_Atomic uint64_t bytes;
};

const char *debuginfod_refusal(void)
{
	const char *urls = getenv("DEBUGINFOD_URLS");

	return urls && *urls ? NULL
			     : "DEBUGINFOD_URLS is not set (hint: export "
			       "DEBUGINFOD_URLS=https://debuginfod.elfutils.org)";
}

bool debuginfod_wanted(bool option)
{
	static const char *const yes[] = {"yes", "1", "on", "true"};
	const char *setting = getenv("PERFWIND_DEBUGINFOD");

	for (size_t i = 0; setting && i < ARRAY_SIZE(yes); i++)
		option |= !strcmp(setting, yes[i]) && !debuginfod_refusal();
	return option;
}

void debuginfod_folder(char *to, size_t size)
{
	const char *path = getenv("DEBUGINFOD_CACHE_PATH"), *cache = getenv("XDG_CACHE_HOME"),
		   *home = getenv("HOME");
	int n;

	if (path && *path)
		n = snprintf(to, size, "%s", path);
	else if (cache && *cache)
		n = snprintf(to, size, "%s/debuginfod_client", cache);
	else
		n = home && *home ? snprintf(to, size, "%s/.cache/debuginfod_client", home) : -1;
	if (n < 0 || (size_t)n >= size)
		*to = 0;
}

static void hex_of(const struct uw_build_id *id, char to[2 * UW_BUILD_ID_MAX + 1])
{
	for (unsigned i = 0; i < id->len; i++)
		(void)snprintf(to + i * 2, 3, "%02x", id->bytes[i]);
}

int debuginfod_open(const char *folder, const struct uw_build_id *id)
{
	char path[PATH_MAX], hex[2 * UW_BUILD_ID_MAX + 1] = "";
	struct stat st;
	int fd, n;

	if (!id->len || id->len > UW_BUILD_ID_MAX || !*folder)
		return -ENOENT;
	hex_of(id, hex);
	n = snprintf(path, sizeof(path), "%s/%s/debuginfo", folder, hex);
	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENOENT;
	fd = procfs_open_regular(path, NULL, &st);
	if (fd >= 0 && st.st_size > 0) /* an empty file: the servers had none */
		return fd;
	(void)fd_close(fd);
	return -ENOENT;
}

/* ---- pw-debuginfod ---- */

struct library {
	void *(*begin)(void);
	int (*find)(void *client, const unsigned char *id, int len, char **path);
	void *client;
};

static bool open_library(struct library *lib)
{
	void *so = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
	void *begin = so ? dlsym(so, "debuginfod_begin") : NULL;
	void *find = so ? dlsym(so, "debuginfod_find_debuginfo") : NULL;

	if (!begin || !find)
		return false;
	memcpy(&lib->begin, &begin, sizeof(begin));
	memcpy(&lib->find, &find, sizeof(find));
	lib->client = lib->begin();
	return lib->client != NULL;
}

static void confine(const char *folder, unsigned seconds, int report)
{
	const struct rlimit file = {1u << 30, 1u << 30}, none = {0, 0};
	char text[16];

	(void)prctl(PR_SET_NAME, "pw-debuginfod");
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	(void)caps_keep(0);
	(void)setrlimit(RLIMIT_FSIZE, &file);
	(void)setrlimit(RLIMIT_CORE, &none);
	if (report > 3)
		(void)syscall(SYS_close_range, 3u, (unsigned)report - 1, 0u);
	(void)syscall(SYS_close_range, (unsigned)report + 1, ~0u, 0u);
	(void)setenv("DEBUGINFOD_CACHE_PATH", folder, 1);
	(void)setenv("DEBUGINFOD_MAXSIZE", FILE_BYTES_MAX, 1);
	(void)snprintf(text, sizeof(text), "%u", seconds);
	(void)setenv("DEBUGINFOD_MAXTIME", text, 1);
	(void)snprintf(text, sizeof(text), "%u", (unsigned)min_u64(seconds, FILE_SECONDS));
	(void)setenv("DEBUGINFOD_TIMEOUT", text, 1);
	(void)unsetenv("DEBUGINFOD_PROGRESS");
	(void)unsetenv("DEBUGINFOD_VERBOSE");
}

static bool answer(int report, char what)
{
	return write(report, &what, 1) == 1;
}

/* Where the build ids come from: an array, or a pipe of records. */
struct wanted {
	const struct uw_build_id *ids;
	size_t n;
	int from; /* -1: the array */
	struct shared *shared;
};

static bool next_id(const struct wanted *w, struct uw_build_id *id)
{
	size_t i = atomic_fetch_add(&w->shared->next, 1);

	if (atomic_load(&w->shared->bytes) >= ALL_BYTES_MAX)
		return false;
	/* A pipe hands out whole records: what is written at once is less than PIPE_BUF. */
	if (w->from >= 0)
		return i < DEBUGINFOD_FILES_MAX &&
		       read(w->from, id, sizeof(*id)) == (ssize_t)sizeof(*id);
	if (i >= w->n)
		return false;
	*id = w->ids[i];
	return true;
}

/* @report: -1: to no one. */
static void fetch_some(const struct wanted *w, int report)
{
	struct uw_build_id id;
	struct library lib;

	if (!open_library(&lib)) {
		(void)answer(report, NO_LIBRARY);
		return;
	}
	while (next_id(w, &id)) {
		char *path = NULL;
		struct stat st;
		int fd = lib.find(lib.client, id.bytes, id.len, &path);

		if (fd >= 0 && fstat(fd, &st) == 0)
			(void)atomic_fetch_add(&w->shared->bytes, (uint64_t)st.st_size);
		free(path);
		if (report >= 0 && !answer(report, fd >= 0	   ? FOUND
						   : fd == -ENOENT ? NOT_FOUND
								   : NOT_ANSWERED))
			return;
		(void)fd_close(fd);
	}
}

/* Its children end with it. */
static void fetch_all(struct wanted *w, int report)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	size_t children = 0;

	if (shared == MAP_FAILED)
		return;
	w->shared = shared;
	for (; children + 1 < AT_ONCE && children + 1 < w->n; children++) {
		pid_t pid = fork();

		if (pid < 0)
			break;
		if (pid == 0) {
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
			fetch_some(w, report);
			_exit(0);
		}
	}
	fetch_some(w, report);
	while (children-- > 0)
		(void)wait(NULL);
}

/* ---- the command ---- */

static int wait_for(int report, uint64_t until, struct debuginfod_result *result)
{
	for (;;) {
		uint64_t now = clock_ns(CLOCK_MONOTONIC);
		struct pollfd pfd = {.fd = report, .events = POLLIN};
		char what;

		if (now >= until)
			return 0;
		if (poll(&pfd, 1, (int)((until - now) / NSEC_PER_MSEC) + 1) < 0 && errno != EINTR)
			return fail(-errno);
		if (!pfd.revents)
			continue;
		if (read(report, &what, 1) != 1)
			return 0;
		if (what == NO_LIBRARY)
			return -ENOENT;
		result->asked++;
		result->found += what == FOUND;
		result->unanswered += what == NOT_ANSWERED;
	}
}

int debuginfod_fetch(const struct uw_build_id *ids, size_t n, unsigned seconds,
		     struct debuginfod_result *ret)
{
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + seconds * NSEC_PER_SEC;
	char folder[PATH_MAX];
	int ends[2], r;
	pid_t pid;

	*ret = (struct debuginfod_result){0};
	n = min_u64(n, DEBUGINFOD_FILES_MAX);
	debuginfod_folder(folder, sizeof(folder));
	if (!n || !*folder)
		return 0;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return fail(-errno);
	pid = fork();
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		struct wanted wanted = {.ids = ids, .n = n, .from = -1};

		confine(folder, seconds, ends[1]);
		fetch_all(&wanted, ends[1]);
		_exit(0);
	}
	r = pid < 0 ? fail(-errno) : 0;
	(void)fd_close(ends[1]);
	if (pid > 0) {
		r = wait_for(ends[0], until, ret);
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
	}
	(void)fd_close(ends[0]);
	return r;
}

/* ---- while the build ids become known ---- */

static bool early_start(struct debuginfod_early *early)
{
	char folder[PATH_MAX];
	int ends[2];

	debuginfod_folder(folder, sizeof(folder));
	if (!*folder || pipe2(ends, O_CLOEXEC) < 0)
		return false;
	early->pid = fork();
	if (early->pid == 0) {
		struct wanted wanted = {.n = DEBUGINFOD_FILES_MAX, .from = ends[0]};

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		confine(folder, DEBUGINFOD_SECONDS, ends[0]);
		fetch_all(&wanted, -1);
		_exit(0);
	}
	(void)close(ends[0]);
	early->to = ends[1];
	(void)fcntl(early->to, F_SETFL, O_NONBLOCK);
	if (early->pid < 0)
		early->to = fd_close(early->to);
	return early->pid > 0;
}

void debuginfod_early_ask(struct debuginfod_early *early, const struct uw_build_id *id)
{
	if (early->pid > 0 || (!early->pid && early_start(early)))
		(void)!write(early->to, id, sizeof(*id)); /* EPIPE: SIGPIPE is ignored */
}

unsigned debuginfod_early_end(struct debuginfod_early *early, unsigned seconds)
{
	uint64_t begin = clock_ns(CLOCK_MONOTONIC), spent;
	struct pollfd ended = {.events = POLLIN};

	if (early->pid <= 0)
		return seconds;
	early->to = fd_close(early->to);
	ended.fd = (int)syscall(SYS_pidfd_open, early->pid, 0);
	(void)poll(&ended, 1, ended.fd < 0 ? 0 : (int)seconds * 1000);
	(void)fd_close(ended.fd);
	(void)kill(early->pid, SIGKILL);
	(void)waitpid(early->pid, NULL, 0);
	early->pid = -1;
	spent = (clock_ns(CLOCK_MONOTONIC) - begin) / NSEC_PER_SEC;
	return spent < seconds ? seconds - (unsigned)spent : 0;
}
