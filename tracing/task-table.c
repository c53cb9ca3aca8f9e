/* task-table.c - see task-table.h.
 *
 *   /proc/PID/stat           comm, parent, state, CPU time of all threads, RSS
 *            /io             bytes of all threads; only for processes that we may trace
 *            /schedstat      wait of the main thread
 *            /oom_score_adj, /cgroup
 *            /task/TID/stat, /schedstat, /io   of a process with several threads
 *
 * In pw-snapshot, where nothing may be allocated: directories are read by getdents64(2) into memory of ours.  None of
 * these files takes a lock that a target holds for long, and none leads to a file system of a target. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "proc/procfs.h"
#include "tracing/task-table.h"

enum {
	FOLDER_MAX = 32 << 10,
	TEXT_MAX = 128 << 10,
	THREADS_MAX = 128 << 10, /* bytes of one process's threads; further ones are left out */
	PACKET_ROWS = 64 << 10,	 /* then the packet is written */
	MESSAGE_MAX = PACKET_ROWS + THREADS_MAX + TASK_ROW_MAX,
	THREAD_ROW_MAX = 256,
	STAT_FIELDS = 24,
	NAME_AT = 19, /* of struct entry, before its padding */
};

/* linux/dirent.h: struct linux_dirent64 */
struct entry {
	uint64_t inode, offset;
	uint16_t size;
	uint8_t type;
	char name[];
};

struct folder {
	int fd;
	size_t at, len;
	uint8_t entries[FOLDER_MAX] __attribute__((aligned(8)));
};

struct task_table {
	const char *root;
	uint64_t tick_ns, page_kb;
	struct folder processes, threads;
	size_t len, n_threads; /* bytes of message and of thread_rows */
	char text[TEXT_MAX + 1];
	uint8_t thread_rows[THREADS_MAX];
	uint8_t message[MESSAGE_MAX];
	uint8_t packet[MESSAGE_MAX + 8 * PACK_FIELD_MAX];
};

/* ---- packing ---- */

static uint8_t *pack_task(uint8_t *p, const struct task_row *t)
{
	if (t->has & TASK_COMM)
		p = pack_bytes(p, PERFWIND_TASK__COMM, t->comm, strnlen(t->comm, sizeof(t->comm)));
	if (t->has & TASK_PPID)
		p = pack_number(p, PERFWIND_TASK__PPID, t->ppid);
	if (t->has & TASK_STATE)
		p = pack_number(p, PERFWIND_TASK__STATE, (uint8_t)t->state);
	if (t->has & TASK_CPU) {
		p = pack_number(p, PERFWIND_TASK__UTIME_NS, t->utime_ns);
		p = pack_number(p, PERFWIND_TASK__STIME_NS, t->stime_ns);
	}
	if (t->has & TASK_WAIT)
		p = pack_number(p, PERFWIND_TASK__WAIT_NS, t->wait_ns);
	if (t->has & TASK_IO) {
		p = pack_number(p, PERFWIND_TASK__READ_BYTES, t->read_bytes);
		p = pack_number(p, PERFWIND_TASK__WRITE_BYTES, t->write_bytes);
		p = pack_number(p, PERFWIND_TASK__CANCELLED_WRITE_BYTES, t->cancelled_bytes);
	}
	if (t->has & TASK_CGROUP)
		p = pack_bytes(p, PERFWIND_TASK__CGROUP, t->cgroup, t->cgroup_len);
	if (t->ended)
		p = pack_number(p, PERFWIND_TASK__ENDED, 1);
	if (t->age_ns)
		p = pack_number(p, PERFWIND_TASK__AGE_NS, t->age_ns);
	return p;
}

uint8_t *task_row_pack(uint8_t *p, const struct task_row *t, const uint8_t *threads,
		       size_t n_threads)
{
	uint8_t task[TASK_ROW_MAX - 256], thread[TASK_ROW_MAX - 224];
	uint8_t *task_end = pack_task(task, t), *end;

	p = pack_number(p, PROCESS_STATS__PROCESS__PID, t->pid);
	if (t->has & TASK_RSS)
		p = pack_number(p, PROCESS_STATS__PROCESS__VM_RSS_KB, t->rss_kb);
	if (t->has & TASK_PEAK_RSS)
		p = pack_number(p, PROCESS_STATS__PROCESS__VM_HWM_KB, t->peak_rss_kb);
	if (t->has & TASK_OOM)
		p = pack_number(p, PROCESS_STATS__PROCESS__OOM_SCORE_ADJ,
				(uint64_t)t->oom_score_adj);
	if (n_threads)
		memcpy(p, threads, n_threads);
	end = pack_number(thread, PROCESS_STATS__THREAD__TID, t->pid);
	end = pack_bytes(end, PROCESS_STATS__THREAD__PERFWIND_PROCESS, task,
			 (size_t)(task_end - task));
	return pack_bytes(p + n_threads, PROCESS_STATS__PROCESS__THREADS, thread,
			  (size_t)(end - thread));
}

/* The field `threads` of a process: without a cgroup. */
static uint8_t *pack_thread(uint8_t *p, const struct task_row *row)
{
	uint8_t task[THREAD_ROW_MAX], thread[THREAD_ROW_MAX + 32], *end, *task_end;

	task_end = pack_task(task, row);
	end = pack_number(thread, PROCESS_STATS__THREAD__TID, row->pid);
	end = pack_bytes(end, PROCESS_STATS__THREAD__PERFWIND_TASK, task,
			 (size_t)(task_end - task));
	return pack_bytes(p, PROCESS_STATS__PROCESS__THREADS, thread, (size_t)(end - thread));
}

/* As task_row_pack(), of one thread, @row, of the process @pid.  Room for TASK_ROW_MAX. */
static uint8_t *task_thread_pack(uint8_t *p, uint32_t pid, const struct task_row *row)
{
	p = pack_number(p, PROCESS_STATS__PROCESS__PID, pid);
	return pack_thread(p, row);
}

int task_row_write(uint32_t process, const struct task_row *row, struct sink *to)
{
	uint8_t body[TASK_ROW_MAX], message[TASK_ROW_MAX + 64], bytes[TASK_ROW_MAX + 128], *p, *q;
	int r;

	p = process && process != row->pid ? task_thread_pack(body, process, row)
					   : task_row_pack(body, row, NULL, 0);
	q = pack_number(message, TRACE_PACKET__TIMESTAMP, clock_ns(CLOCK_BOOTTIME));
	q = pack_number(q, TRACE_PACKET__TIMESTAMP_CLOCK_ID, 6); /* BUILTIN_CLOCK_BOOTTIME */
	q = pack_head(q, TRACE_PACKET__PROCESS_STATS,
		      pack_bytes_size(PROCESS_STATS__PROCESSES, (size_t)(p - body)));
	q = pack_bytes(q, PROCESS_STATS__PROCESSES, body, (size_t)(p - body));
	p = pack_bytes(bytes, TRACE__PACKET, message, (size_t)(q - message));
	r = to->write(to, bytes, (size_t)(p - bytes));
	return r < 0 ? trace(r) : 0;
}

/* The packet of the rows so far. */
static int write_rows(struct task_table *t, struct sink *to)
{
	uint8_t head[4 * PACK_FIELD_MAX], *p = head, *out;
	size_t len;
	int r;

	if (!t->len)
		return 0;
	p = pack_number(p, TRACE_PACKET__TIMESTAMP, clock_ns(CLOCK_BOOTTIME));
	p = pack_number(p, TRACE_PACKET__TIMESTAMP_CLOCK_ID, 6); /* BUILTIN_CLOCK_BOOTTIME */
	p = pack_head(p, TRACE_PACKET__PROCESS_STATS, t->len);
	len = (size_t)(p - head) + t->len;
	out = pack_head(t->packet, TRACE__PACKET, len);
	memcpy(out, head, (size_t)(p - head));
	memcpy(out + (p - head), t->message, t->len);
	r = to->write(to, t->packet, (size_t)(out - t->packet) + len);
	t->len = 0;
	return r < 0 ? trace(r) : 0;
}

/* ---- reading ---- */

/* The next name that is a number; 0: no more. */
static uint32_t next_id(struct folder *f)
{
	uint64_t id;

	for (;;) {
		struct entry *e = (void *)(f->entries + f->at);
		size_t left = f->len - f->at;

		if (left < NAME_AT || e->size < NAME_AT || e->size > left) {
			long n = syscall(SYS_getdents64, f->fd, f->entries, sizeof(f->entries));

			if (n <= 0)
				return 0;
			f->at = 0;
			f->len = (size_t)n;
			continue;
		}
		f->at += e->size;
		if (memchr(e->name, 0, e->size - NAME_AT) &&
		    parse_u64(e->name, 10, INT32_MAX, &id) == 0 && id)
			return (uint32_t)id;
	}
}

static int open_folder(struct folder *f, const char *path)
{
	f->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	f->at = f->len = 0;
	return f->fd < 0 ? -errno : 0;
}

/* "ROOT/proc/PID/NAME", or of a thread, into text. */
static bool read_text(struct task_table *t, uint32_t pid, uint32_t tid, const char *name)
{
	_cleanup_(fd_closep) int fd = -1;
	char path[PATH_MAX];
	ssize_t n;

	if (tid)
		(void)snprintf(path, sizeof(path), "%s/proc/%u/task/%u/%s", t->root, pid, tid,
			       name);
	else
		(void)snprintf(path, sizeof(path), "%s/proc/%u/%s", t->root, pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read_fd_at(fd, t->text, TEXT_MAX, 0);
	t->text[n > 0 ? n : 0] = 0;
	return n > 0;
}

/* "PID (NAME) STATE PPID ...", numbers from field 4 on (proc(5)); NAME has any characters.  *ret_threads: field 20. */
static bool take_stat(const struct task_table *t, struct task_row *row, uint64_t *ret_threads)
{
	const char *name = strchr(t->text, '('), *end = strrchr(t->text, ')'), *p;
	uint64_t fields[STAT_FIELDS + 1] = {0};
	size_t len;

	if (!name || !end || end < name || end[1] != ' ' || !end[2] || end[3] != ' ')
		return false;
	p = end + 3;
	for (size_t i = 4; i <= STAT_FIELDS; i++) {
		char *rest;

		if (*p != ' ')
			return false;
		fields[i] = strtoull(p, &rest, 10); /* some are negative: these are not used */
		if (rest == p)
			return false;
		p = rest;
	}
	len = min_u64((uint64_t)(end - name - 1), sizeof(row->comm) - 1);
	memset(row->comm, 0, sizeof(row->comm));
	memcpy(row->comm, name + 1, len);
	row->state = end[2];
	row->ppid = (uint32_t)fields[4];
	row->utime_ns = fields[14] * t->tick_ns;
	row->stime_ns = fields[15] * t->tick_ns;
	row->rss_kb = fields[24] * t->page_kb;
	row->start_ticks = fields[22];
	row->has |= TASK_COMM | TASK_STATE | TASK_PPID | TASK_CPU;
	*ret_threads = fields[20];
	return true;
}

static bool take_value(const char *text, const char *name, uint64_t *ret)
{
	const char *at = strstr(text, name);
	char *end;

	if (!at)
		return false;
	at += strlen(name);
	*ret = strtoull(at, &end, 10);
	return end != at;
}

static void take_io(const struct task_table *t, struct task_row *row)
{
	if (take_value(t->text, "\nread_bytes: ", &row->read_bytes) &&
	    take_value(t->text, "\nwrite_bytes: ", &row->write_bytes) &&
	    take_value(t->text, "\ncancelled_write_bytes: ", &row->cancelled_bytes))
		row->has |= TASK_IO;
}

/* "RUN WAIT SLICES" in ns (Documentation/scheduler/sched-stats.rst). */
static void take_wait(const struct task_table *t, struct task_row *row)
{
	if (take_value(t->text, " ", &row->wait_ns))
		row->has |= TASK_WAIT;
}

/* false: it has just ended. */
static bool read_thread(struct task_table *t, uint32_t pid, uint32_t tid, struct task_row *ret)
{
	struct task_row row = {.pid = tid};
	uint64_t ignored;

	if (!read_text(t, pid, tid, "stat") || !take_stat(t, &row, &ignored))
		return false;
	row.has &= ~(uint32_t)TASK_PPID; /* of the process */
	if (read_text(t, pid, tid, "schedstat"))
		take_wait(t, &row);
	if (read_text(t, pid, tid, "io"))
		take_io(t, &row);
	*ret = row;
	return true;
}

/* The same, without the cgroup. */
static bool read_process(struct task_table *t, uint32_t pid, struct task_row *ret,
			 uint64_t *ret_threads)
{
	struct task_row row = {.pid = pid};
	uint64_t oom;

	if (!read_text(t, pid, 0, "stat") || !take_stat(t, &row, ret_threads))
		return false;
	row.has |= TASK_RSS;
	if (*ret_threads <= 1 && read_text(t, pid, 0, "schedstat"))
		take_wait(t, &row);
	if (read_text(t, pid, 0, "io"))
		take_io(t, &row);
	if (read_text(t, pid, 0, "oom_score_adj") && take_value(t->text, "", &oom)) {
		row.oom_score_adj = (int64_t)oom;
		row.has |= TASK_OOM;
	}
	*ret = row;
	return true;
}

/* The row borrows it from t->text, which the next file overwrites. */
static void read_cgroup(struct task_table *t, struct task_row *row)
{
	if (read_text(t, row->pid, 0, "cgroup") &&
	    procfs_cgroup_find(t->text, &row->cgroup, &row->cgroup_len) == 0)
		row->has |= TASK_CGROUP;
}

static bool open_threads(struct task_table *t, uint32_t pid)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/proc/%u/task", t->root, pid);
	return open_folder(&t->threads, path) >= 0;
}

static int open_processes(struct task_table *t)
{
	char path[PATH_MAX];
	int r;

	(void)snprintf(path, sizeof(path), "%s/proc", t->root);
	r = open_folder(&t->processes, path);
	return r < 0 ? fail(r) : 0;
}

static void add_threads(struct task_table *t, uint32_t pid)
{
	struct task_row row;
	uint32_t tid;

	if (!open_threads(t, pid))
		return;
	while ((tid = next_id(&t->threads)))
		if (THREADS_MAX - t->n_threads >= 2 * THREAD_ROW_MAX &&
		    read_thread(t, pid, tid, &row))
			t->n_threads = (size_t)(pack_thread(t->thread_rows + t->n_threads, &row) -
						t->thread_rows);
	t->threads.fd = fd_close(t->threads.fd);
}

static void add_process(struct task_table *t, uint32_t pid)
{
	struct task_row row;
	uint64_t threads;
	uint8_t *p;

	t->n_threads = 0;
	if (!read_process(t, pid, &row, &threads))
		return; /* it has just ended */
	if (threads > 1)
		add_threads(t, pid);
	read_cgroup(t, &row);
	/* The row stands behind its head, when its length is known. */
	p = t->packet;
	p = task_row_pack(p, &row, t->thread_rows, t->n_threads);
	p = pack_bytes(t->message + t->len, PROCESS_STATS__PROCESSES, t->packet,
		       (size_t)(p - t->packet));
	t->len = (size_t)(p - t->message);
}

static void each_thread(struct task_table *t, uint32_t pid,
			void (*each)(void *arg, uint32_t process, const struct task_row *row),
			void *arg)
{
	struct task_row row;
	uint32_t tid;

	if (!open_threads(t, pid))
		return;
	while ((tid = next_id(&t->threads)))
		if (tid != pid && read_thread(t, pid, tid, &row))
			each(arg, pid, &row);
	t->threads.fd = fd_close(t->threads.fd);
}

int task_table_each(struct task_table *t,
		    void (*each)(void *arg, uint32_t process, const struct task_row *row),
		    void *arg)
{
	struct task_row row;
	uint64_t threads;
	uint32_t pid;
	int r = open_processes(t);

	if (r < 0)
		return trace(r);
	while ((pid = next_id(&t->processes))) {
		if (!read_process(t, pid, &row, &threads))
			continue;
		read_cgroup(t, &row);
		each(arg, pid, &row);
		if (threads > 1)
			each_thread(t, pid, each, arg);
	}
	t->processes.fd = fd_close(t->processes.fd);
	return 0;
}

int task_table_write(struct task_table *t, struct sink *to)
{
	uint32_t pid;
	int r = open_processes(t);

	if (r < 0)
		return trace(r);
	t->len = 0;
	while (r >= 0 && (pid = next_id(&t->processes))) {
		add_process(t, pid);
		if (t->len >= PACKET_ROWS)
			r = write_rows(t, to);
	}
	if (r >= 0)
		r = write_rows(t, to);
	t->processes.fd = fd_close(t->processes.fd);
	return r < 0 ? trace(r) : 0;
}

int task_table_new(const char *root, struct task_table **ret_table)
{
	struct task_table *t = malloc(sizeof(*t));

	if (!t)
		return fail(-ENOMEM);
	memset(t, 1,
	       sizeof(*t)); /* touches all of it; with 0, a compiler makes it calloc(), which does not */
	t->len = t->n_threads = 0;
	t->root = root;
	t->tick_ns = NSEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK);
	t->page_kb = (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
	t->processes.fd = t->threads.fd = -1;
	*ret_table = t;
	return 0;
}

struct task_table *task_table_free(struct task_table *t)
{
	free(t);
	return NULL;
}
