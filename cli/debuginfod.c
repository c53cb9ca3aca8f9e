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
#include "base/log.h"
#include "base/table.h"
#include "base/util.h"
#include "proc/file-places.h"
#include "proc/open-file.h"

#define FILE_BYTES_MAX "536870912" /* of one file, as libdebuginfod's DEBUGINFOD_MAXSIZE */
#define ALL_BYTES_MAX (2ull << 30) /* of all files of a command */

enum {
	NO_LIBRARY = 'x',
	NO_MEMORY = 'm',
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

/* 0, or the answer that states the reason. */
static char open_library(struct library *lib)
{
	void *so, *begin, *find;

	errno = 0;
	so = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
	begin = so ? dlsym(so, "debuginfod_begin") : NULL;
	find = so ? dlsym(so, "debuginfod_find_debuginfo") : NULL;
	if (!begin || !find)
		return is_shortage(-errno) ? NO_MEMORY : NO_LIBRARY;
	memcpy(&lib->begin, &begin, sizeof(begin));
	memcpy(&lib->find, &find, sizeof(find));
	lib->client = lib->begin();
	return lib->client ? 0 : NO_MEMORY;
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
	char why = open_library(&lib);

	if (why) {
		(void)answer(report, why);
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

/* Before the first fork. */
static int share(struct wanted *w)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (shared == MAP_FAILED)
		return fail(-errno);
	w->shared = shared;
	return 0;
}

static void end_share(const struct wanted *w)
{
	if (w->shared)
		(void)munmap(w->shared, sizeof(*w->shared));
}

/* Its children end with it. */
static void fetch_all(const struct wanted *w, int report)
{
	size_t children = 0;

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
		if (what == NO_MEMORY)
			return fail(-ENOMEM);
		result->asked++;
		result->found += what == FOUND;
		result->unanswered += what == NOT_ANSWERED;
	}
}

int debuginfod_fetch(const struct uw_build_id *ids, size_t n, unsigned seconds,
		     struct debuginfod_result *ret)
{
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + seconds * NSEC_PER_SEC;
	struct wanted wanted = {.ids = ids, .n = min_u64(n, DEBUGINFOD_FILES_MAX), .from = -1};
	char folder[PATH_MAX];
	int ends[2], r;
	pid_t pid;

	*ret = (struct debuginfod_result){0};
	debuginfod_folder(folder, sizeof(folder));
	if (!wanted.n || !*folder)
		return 0;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return fail(-errno);
	r = share(&wanted);
	pid = r < 0 ? r : fork();
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		confine(folder, seconds, ends[1]);
		fetch_all(&wanted, ends[1]);
		_exit(0);
	}
	if (r >= 0 && pid < 0)
		r = fail(-errno);
	(void)fd_close(ends[1]);
	if (pid > 0) {
		r = wait_for(ends[0], until, ret);
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
	}
	(void)fd_close(ends[0]);
	end_share(&wanted);
	return r;
}

/* ---- while the build ids become known ---- */

static bool early_start(struct debuginfod_early *early)
{
	struct wanted wanted = {.n = DEBUGINFOD_FILES_MAX};
	char folder[PATH_MAX];
	int ends[2];

	debuginfod_folder(folder, sizeof(folder));
	if (!*folder || pipe2(ends, O_CLOEXEC) < 0)
		return false;
	wanted.from = ends[0];
	early->pid = share(&wanted) < 0 ? -1 : fork();
	if (early->pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		confine(folder, DEBUGINFOD_SECONDS, ends[0]);
		fetch_all(&wanted, -1);
		_exit(0);
	}
	end_share(&wanted);
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

/* What comes through the pipe: "+BUILDID\n" any number of times, then "=PATH" up to the end. */
struct message {
	char text[PATH_MAX + 2];
	size_t len;
};

static bool id_of(const char *hex, size_t len, struct uw_build_id *id)
{
	char byte[3] = "";

	*id = (struct uw_build_id){.len = (uint8_t)(len / 2)};
	if (len < 4 || len % 2 || len / 2 > UW_BUILD_ID_MAX)
		return false;
	for (size_t i = 0; i < len; i += 2) {
		uint64_t value;

		memcpy(byte, hex + i, 2);
		if (parse_u64(byte, 16, UINT8_MAX, &value) < 0)
			return false;
		id->bytes[i / 2] = (uint8_t)value;
	}
	return true;
}

static void ask_early(struct debuginfod_early *early, const char *hex, size_t len)
{
	const struct file_places here = {.symfs = NULL};
	struct uw_build_id id;
	int fd;

	if (!id_of(hex, len, &id))
		return;
	fd = file_places_open_debug_id(&here, &id);
	if (fd < 0)
		debuginfod_early_ask(early, &id);
	(void)fd_close(fd);
}

/* Takes the build ids at the beginning. */
static void take_ids(struct message *m, struct debuginfod_early *early)
{
	char *end;

	while (m->len && m->text[0] == '+' && (end = memchr(m->text, '\n', m->len))) {
		size_t taken = (size_t)(end + 1 - m->text);

		ask_early(early, m->text + 1, taken - 2);
		m->len -= taken;
		memmove(m->text, end + 1, m->len);
	}
}

static void become_symbolize(const char *path, unsigned seconds)
{
	char time[16];

	(void)snprintf(time, sizeof(time), "%us", seconds ? seconds : 1);
	(void)dup2(STDERR_FILENO, STDOUT_FILENO); /* --json */
	(void)execl("/proc/self/exe", "perfwind", "symbolize",
		    log_level <= LOG_LEVEL_QUIET ? "--quiet" : "--debuginfod", "--debuginfod",
		    "--debuginfod-time", time, "--", path, (char *)NULL);
}

/* Ctrl-C ends the recording; names come after it. */
static void wait_and_run(int go)
{
	struct sigaction action = {.sa_handler = SIG_IGN};
	struct debuginfod_early early = {.pid = 0};
	struct message m = {.len = 0};
	unsigned seconds;
	ssize_t n;

	(void)sigaction(SIGINT, &action, NULL);
	(void)sigaction(SIGTERM, &action, NULL);
	(void)sigaction(SIGPIPE, &action, NULL);
	while (m.len <= PATH_MAX && (n = read(go, m.text + m.len, PATH_MAX + 1 - m.len)) != 0) {
		if (n < 0 && errno != EINTR)
			return;
		m.len += n < 0 ? 0 : (size_t)n;
		take_ids(&m, &early);
	}
	m.text[m.len] = 0;
	action.sa_handler = SIG_DFL;
	(void)sigaction(SIGINT, &action, NULL);
	(void)sigaction(SIGTERM, &action, NULL);
	(void)sigaction(SIGPIPE, &action, NULL);
	seconds = debuginfod_early_end(&early, m.len > 1 ? DEBUGINFOD_SECONDS : 0);
	if (m.len > 1)
		become_symbolize(m.text + 1, seconds);
}

int symbolize_later_start(struct symbolize_later *later, bool option, const char *output)
{
	bool is_file = !output || strcmp(output, "-") != 0;
	int ends[2];

	*later = (struct symbolize_later){.go = -1};
	if (!option && (!is_file || !debuginfod_wanted(false)))
		return 0;
	if (debuginfod_refusal() || !is_file) {
		log_error("--debuginfod: %s",
			  debuginfod_refusal() ? debuginfod_refusal()
					       : "names are added to a file; -o - is not a file");
		return -EINVAL;
	}
	if (pipe2(ends, O_CLOEXEC) < 0) {
		log_error("--debuginfod: %s", strerror(errno));
		return fail(-errno);
	}
	later->pid = fork();
	if (later->pid == 0) {
		(void)close(ends[1]);
		wait_and_run(ends[0]);
		_exit(1);
	}
	(void)close(ends[0]);
	later->go = ends[1];
	if (later->pid > 0)
		return 0;
	log_error("--debuginfod: %s", strerror(errno));
	later->go = fd_close(later->go);
	later->pid = 0;
	return fail(-EAGAIN);
}

void symbolize_later_wants(struct symbolize_later *later, const char *build_id)
{
	uint64_t hash = hash_bytes(build_id, strlen(build_id));
	char line[2 * UW_BUILD_ID_MAX + 3];
	int n;

	if (!later->pid || !*build_id || later->n_known == ARRAY_SIZE(later->known))
		return;
	for (size_t i = 0; i < later->n_known; i++)
		if (later->known[i] == hash)
			return;
	later->known[later->n_known++] = hash;
	n = snprintf(line, sizeof(line), "+%s\n", build_id);
	if (n > 0 && (size_t)n < sizeof(line))
		(void)!write(later->go, line, (size_t)n);
}

void symbolize_later_end(struct symbolize_later *later, const char *output)
{
	if (!later->pid)
		return;
	if (output && write(later->go, "=", 1) == 1)
		(void)!write(later->go, output, strlen(output));
	later->go = fd_close(later->go);
	while (waitpid(later->pid, NULL, 0) < 0 && errno == EINTR)
		;
	later->pid = 0;
}
