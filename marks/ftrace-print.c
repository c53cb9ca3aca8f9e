/* ftrace-print.c - see ftrace-print.h.
 *
 *   page:   u64 time   u64 length (its bits 30 and 31: entries are missing before it; bit 30: their number stands behind the data)
 *   entry:  u32 head (5 bits of type or length in words, 27 bits of time since the entry before)   payload
 *   print:  u16 id   u8 flags   u8 preempt count   s32 tid   u64 ip   text, NUL
 *
 * A thread that moves to another CPU has lines in two buffers, so a turn collects all lines and sorts them. */
#include "marks/ftrace-print.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/caps.h"
#include "base/error.h"
#include "base/util.h"

enum {
	PATH_BYTES = 256,
	PAGE_BYTES = 65536, /* the largest sub-buffer that is read */
	PRINT_ID = 5,	    /* TRACE_PRINT: enum trace_type of the kernel, the same since 2.6.27 */
	BUFFER_KB = 2048,   /* a CPU: 40,000 lines */
	MANY_CPUS = 16,	    /* more have BUFFER_MANY_KB */
	BUFFER_MANY_KB = 512,
	/* Of one turn, for all CPUs, and for a CPU at least; the rest comes in the next turns. */
	TURN_LINES = 1 << 18,
	CPU_LINES = 1 << 12,
	TURN_BYTES = 16 << 20, /* of pages */
	CPU_BYTES = 128 << 10,
	REMOVE_TRIES = 100,
	REMOVE_MS = 10,
	TYPE_PADDING = 29,
	TYPE_TIME_EXTEND = 30,
	TYPE_TIME_STAMP = 31,
	PRINT_TEXT = 16, /* where the text of an entry begins */
};
#define MISSED_STORED (1ull << 30)
#define MISSED_EVENTS (1ull << 31)

struct line {
	uint64_t time, number;
	uint32_t tid, len;
	size_t at; /* in text */
};
struct ftrace_print {
	char path[PATH_BYTES]; /* of the instance */
	int *fds;	       /* by CPU */
	size_t n_fds;
	int remover_fd; /* closed: the instance is removed */
	pid_t remover;
	uint64_t lost;
	struct buffer text;
	struct line *lines;
	size_t n_lines, room;
	uint8_t page[PAGE_BYTES];
};

/* ---- a page ---- */

static uint32_t read_u32(const uint8_t *at)
{
	uint32_t v;

	memcpy(&v, at, sizeof(v));
	return v;
}

static uint64_t read_u64(const uint8_t *at)
{
	uint64_t v;

	memcpy(&v, at, sizeof(v));
	return v;
}

static int take_entry(const uint8_t *data, size_t len, uint16_t print_id, uint64_t time,
		      const struct ftrace_print_sink *sink)
{
	uint16_t id;

	if (len < PRINT_TEXT)
		return 0;
	memcpy(&id, data, sizeof(id));
	if (id != print_id)
		return 0;
	return sink->line(sink->arg, read_u32(data + 4), time, (const char *)data + PRINT_TEXT,
			  strnlen((const char *)data + PRINT_TEXT, len - PRINT_TEXT));
}

int ftrace_print_page(const void *page, size_t len, uint16_t print_id,
		      const struct ftrace_print_sink *sink, uint64_t *ret_lost)
{
	const uint8_t *at = page, *end;
	uint64_t time, commit, size;
	int r = 0;

	*ret_lost = 0;
	if (len < 16)
		return -EBADMSG;
	time = read_u64(at);
	commit = read_u64(at + 8);
	size = commit & (MISSED_STORED - 1);
	at += 16;
	if (size > len - 16)
		return -EBADMSG;
	end = at + size;
	if (commit & MISSED_EVENTS)
		*ret_lost = commit & MISSED_STORED && len - 16 - size >= 8 ? read_u64(end) : 1;
	while (r >= 0 && end - at >= 4) {
		uint32_t head = read_u32(at), type = head & 31, delta = head >> 5;
		size_t left = (size_t)(end - at) - 4, payload = type * 4ul, skip = 0;

		at += 4;
		if ((type == 0 || type >= TYPE_PADDING) && left < 4)
			return type == TYPE_PADDING ? 0 : -EBADMSG;
		if (type == TYPE_PADDING && !delta)
			return 0; /* the rest is empty */
		if (type == TYPE_TIME_EXTEND || type == TYPE_TIME_STAMP) {
			uint64_t more = ((uint64_t)read_u32(at) << 27) + delta;

			time = type == TYPE_TIME_EXTEND ? time + more
							: more | (time & ~((1ull << 59) - 1));
			at += 4;
			continue;
		}
		time += delta;
		if (type == 0 || type == TYPE_PADDING) { /* the length counts itself */
			payload = read_u32(at);
			if (payload < 4)
				return -EBADMSG;
			skip = 4;
			payload = (payload - 4 + 3) & ~3ul;
		}
		if (payload > left - skip)
			return -EBADMSG;
		if (type != TYPE_PADDING)
			r = take_entry(at + skip, payload, print_id, time, sink);
		at += skip + payload;
	}
	return r;
}

/* ---- the instance ---- */

static int set_file(const struct ftrace_print *p, const char *name, const char *value)
{
	_cleanup_(fd_closep) int fd = -1;
	char path[PATH_BYTES + 64];

	(void)snprintf(path, sizeof(path), "%s/%s", p->path, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return write(fd, value, strlen(value)) < 0 ? -errno : 0;
}

/* Runs in a process of its own until the last descriptor of @fd's other end is closed. */
static void remove_later(int fd, const char *path)
{
	const struct timespec pause = {.tv_nsec = REMOVE_MS * 1000000l};
	sigset_t all;
	char byte;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL); /* Ctrl-C is for the others */
	(void)prctl(PR_SET_NAME, "pw-tracefs");
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	(void)caps_keep(0); /* the owner of tracefs may remove it */
	(void)dup2(fd, 0);
	(void)close_range(1, ~0u, 0);
	while (read(0, &byte, 1) > 0)
		;
	for (int i = 0; i < REMOVE_TRIES && rmdir(path) < 0 && errno == EBUSY; i++)
		(void)nanosleep(&pause, NULL);
	_exit(0);
}

static int start_remover(struct ftrace_print *p)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return fail(-errno);
	p->remover = fork();
	if (p->remover < 0) {
		int e = errno;

		(void)close(fds[0]);
		(void)close(fds[1]);
		return fail(-e);
	}
	if (p->remover == 0) {
		(void)close(fds[1]);
		remove_later(fds[0], p->path);
	}
	(void)close(fds[0]);
	p->remover_fd = fds[1];
	return 0;
}

/* It removes the instance, if there is one, and is waited for. */
static void stop_remover(struct ftrace_print *p)
{
	p->remover_fd = fd_close(p->remover_fd);
	while (p->remover > 0 && waitpid(p->remover, NULL, 0) < 0 && errno == EINTR)
		;
	p->remover = 0;
}

static int open_cpus(struct ftrace_print *p)
{
	long n = sysconf(_SC_NPROCESSORS_CONF);

	p->fds = calloc(n > 0 ? (size_t)n : 1, sizeof(*p->fds));
	if (!p->fds)
		return fail(-ENOMEM);
	for (long i = 0; i < n; i++) {
		char path[PATH_BYTES + 64];
		int fd;

		(void)snprintf(path, sizeof(path), "%s/per_cpu/cpu%ld/trace_pipe_raw", p->path, i);
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		if (fd < 0 && errno != ENOENT && errno != ENODEV && errno != ENXIO)
			return fail(-errno);
		if (fd >= 0)
			p->fds[p->n_fds++] = fd;
	}
	return p->n_fds ? 0 : fail(-ENOENT);
}

static const char *clock_name(int clock)
{
	return clock == CLOCK_BOOTTIME	      ? "boot"
	       : clock == CLOCK_MONOTONIC_RAW ? "mono_raw"
					      : "mono";
}

static int set_up(struct ftrace_print *p, int clock)
{
	char kb[16];
	int r = set_file(p, "trace_clock", clock_name(clock));

	(void)snprintf(kb, sizeof(kb), "%d",
		       sysconf(_SC_NPROCESSORS_CONF) > MANY_CPUS ? BUFFER_MANY_KB : BUFFER_KB);
	if (r >= 0)
		r = set_file(p, "buffer_size_kb", kb);
	if (r >= 0)
		r = open_cpus(p);
	if (r < 0)
		return trace(r);
	r = set_file(p, "options/copy_trace_marker", "1");
	return r == -ENOENT ? fail(-EOPNOTSUPP) : r < 0 ? fail(r) : 0;
}

/* The tracer names threads by their ids of the first pid namespace. */
static bool in_pid_namespace(void)
{
	struct stat st;

	/* PROC_PID_INIT_INO: include/linux/proc_ns.h */
	return stat("/proc/self/ns/pid", &st) == 0 && st.st_ino != 0xEFFFFFFCul;
}

static void closedirp(DIR **d)
{
	if (*d)
		(void)closedir(*d);
}

/* Instances of recorders that are gone, as are their removers: both were killed.  The names show the processes, by their numbers in
 * the first pid namespace, in which this process is, too. */
static void remove_stale(const char *instances)
{
	static const char prefix[] = "perfwind-";
	_cleanup_(closedirp) DIR *d = opendir(instances);
	const struct dirent *entry;
	uint64_t pid;

	while (d && (entry = readdir(d))) {
		if (!strncmp(entry->d_name, prefix, sizeof(prefix) - 1) &&
		    parse_u64(entry->d_name + sizeof(prefix) - 1, 10, INT32_MAX, &pid) >= 0 &&
		    kill((pid_t)pid, 0) < 0 && errno == ESRCH)
			(void)unlinkat(dirfd(d), entry->d_name, AT_REMOVEDIR);
	}
}

/* The remover comes first: whenever this process is killed, it is there. */
static int make_instance_in(struct ftrace_print *p, const char *instances)
{
	int r;

	if (faccessat(AT_FDCWD, instances, W_OK | X_OK, AT_EACCESS) < 0)
		return -errno;
	remove_stale(instances);
	(void)snprintf(p->path, sizeof(p->path), "%s/perfwind-%d", instances, (int)getpid());
	(void)rmdir(p->path); /* of an earlier process with this id */
	r = start_remover(p);
	if (r < 0)
		return trace(r);
	r = mkdir(p->path, 0700) < 0 ? -errno : 0;
	if (r < 0)
		stop_remover(p);
	return r;
}

static int make_instance(struct ftrace_print *p)
{
	static const char *const places[] = {"/sys/kernel/tracing/instances",
					     "/sys/kernel/debug/tracing/instances"};
	int result = -ENOENT;

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		int r = make_instance_in(p, places[i]);

		if (r >= 0)
			return 0;
		if (r != -ENOENT)
			result = r == -EPERM ? -EACCES : r;
	}
	return result;
}

int ftrace_print_new(int clock, struct ftrace_print **ret_print)
{
	struct ftrace_print *p;
	int r;

	if (in_pid_namespace())
		return -EOPNOTSUPP;
	p = calloc(1, sizeof(*p));
	if (!p)
		return fail(-ENOMEM);
	p->remover_fd = -1;
	r = make_instance(p);
	if (r >= 0)
		r = set_up(p, clock);
	if (r < 0) {
		(void)ftrace_print_free(p);
		return r; /* the caller reports it */
	}
	*ret_print = p;
	return 0;
}

struct ftrace_print *ftrace_print_free(struct ftrace_print *p)
{
	if (!p)
		return NULL;
	for (size_t i = 0; i < p->n_fds; i++)
		(void)fd_close(p->fds[i]);
	free(p->fds);
	stop_remover(p);
	buffer_deinit(&p->text);
	free(p->lines);
	free(p);
	return NULL;
}

uint64_t ftrace_print_lost(const struct ftrace_print *p)
{
	return p->lost;
}

/* ---- a turn ---- */

static int keep_line(void *print, uint32_t tid, uint64_t time, const char *text, size_t len)
{
	struct ftrace_print *p = print;

	if (p->n_lines == p->room && !array_grow(p->lines, p->room, 256))
		return fail(-ENOMEM);
	p->lines[p->n_lines] = (struct line){.time = time,
					     .number = p->n_lines,
					     .tid = tid,
					     .len = (uint32_t)len,
					     .at = p->text.len};
	p->n_lines++;
	buffer_append(&p->text, text, len);
	return p->text.bad ? fail(-ENOMEM) : 0;
}

static int compare_lines(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	return ascend(x->time, y->time) ?: ascend(x->number, y->number);
}

/* An entry takes more of `lines` than of a page, so both are bounded; each CPU has its share. */
static int read_cpu(struct ftrace_print *p, int fd)
{
	const struct ftrace_print_sink keep = {.line = keep_line, .arg = p};
	size_t lines = p->n_lines + max_u64(CPU_LINES, TURN_LINES / p->n_fds), bytes = 0;
	int r = 0;

	while (r >= 0 && p->n_lines < lines && bytes < max_u64(CPU_BYTES, TURN_BYTES / p->n_fds)) {
		ssize_t n = read(fd, p->page, sizeof(p->page));
		uint64_t lost;

		if (n <= 0)
			return 0; /* empty; or the CPU is gone */
		bytes += (size_t)n;
		for (size_t at = 0, page = (size_t)sysconf(_SC_PAGESIZE); at < (size_t)n && r >= 0;
		     at += page) {
			r = ftrace_print_page(p->page + at, min_u64(page, (size_t)n - at), PRINT_ID,
					      &keep, &lost);
			p->lost += lost;
			if (r == -EBADMSG) {
				p->lost++;
				r = 0;
			}
		}
	}
	return r < 0 ? trace(r) : 0;
}

int ftrace_print_turn(struct ftrace_print *p, const struct ftrace_print_sink *sink)
{
	int r = 0;

	p->n_lines = 0;
	p->text.len = 0;
	for (size_t i = 0; i < p->n_fds && r >= 0; i++)
		r = read_cpu(p, p->fds[i]);
	if (p->n_lines)
		qsort(p->lines, p->n_lines, sizeof(*p->lines), compare_lines);
	for (size_t i = 0; i < p->n_lines && r >= 0; i++)
		r = sink->line(sink->arg, p->lines[i].tid, p->lines[i].time,
			       (const char *)p->text.data + p->lines[i].at, p->lines[i].len);
	return r < 0 ? trace(r) : 0;
}
