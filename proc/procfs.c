/* procfs.c - processes, threads and their names out of /proc: see procfs.h.
 *
 * A process may end at any moment, so "gone" (-ESRCH) is a usual answer, and lists leave out entries
 * that ended while they were made. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "proc/procfs.h"

enum {
	STAT_MAX = 4096,
	STATUS_MAX = 64 << 10,
	MACHINE_STAT_MAX = 4 << 20,
	CMDLINE_MAX = 4096,
	KERNEL_THREAD = 0x00200000, /* PF_KTHREAD of include/linux/sched.h */
};

int procfs_path(char path[static PROCFS_PATH_MAX], const char *root, uint32_t pid, const char *name)
{
	int n = snprintf(path, PROCFS_PATH_MAX, "%s/proc/%u/%s", root, pid, name);

	return n < 0 || n >= PROCFS_PATH_MAX ? fail(-ENAMETOOLONG) : 0;
}

/* What a vanished process's files answer. */
static int gone(int r)
{
	return r == -ENOENT || r == -ENOTDIR ? -ESRCH : r;
}

static int read_process_file(const char *root, uint32_t pid, const char *name, size_t max,
			     char **ret_text, size_t *ret_len)
{
	char path[PROCFS_PATH_MAX];
	int r = procfs_path(path, root, pid, name);

	if (r >= 0)
		r = gone(read_file(path, max, ret_text, ret_len));
	return r < 0 ? trace(r) : 0;
}

/* ---- lists ---- */

static void closedirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* The entries of a folder that are numbers, ascending. */
static int list_numbers(const char *path, uint32_t **ret_list, size_t *ret_n)
{
	_cleanup_(closedirp) DIR *dir = opendir(path);
	_cleanup_(freep) uint32_t *list = NULL;
	size_t n = 0, room = 0;
	struct dirent *entry;

	if (!dir)
		return fail(-errno);
	while ((errno = 0, entry = readdir(dir))) {
		uint64_t v;

		if (parse_u64(entry->d_name, 10, UINT32_MAX, &v) < 0)
			continue;
		if (n == room && !array_grow(list, room, 64))
			return fail(-ENOMEM);
		list[n++] = (uint32_t)v;
	}
	if (errno)
		return fail(-errno);
	*ret_n = sort_unique_u32(list, n);
	*ret_list = take(list);
	return 0;
}

int procfs_threads(const char *root, uint32_t pid, uint32_t **ret_tids, size_t *ret_n)
{
	char path[PROCFS_PATH_MAX];
	int r = procfs_path(path, root, pid, "task");

	if (r >= 0)
		r = gone(list_numbers(path, ret_tids, ret_n));
	return r < 0 ? trace(r) : 0;
}

int procfs_pids(const char *root, uint32_t **ret_pids, size_t *ret_n)
{
	char path[PROCFS_PATH_MAX];
	int r, n = snprintf(path, sizeof(path), "%s/proc", root);

	if (n < 0 || n >= PROCFS_PATH_MAX)
		return fail(-ENAMETOOLONG);
	r = list_numbers(path, ret_pids, ret_n);
	return r < 0 ? trace(r) : 0;
}

struct procfs_pids {
	DIR *dir;
};

static int open_numbers(const char *path, struct procfs_pids **ret_pids)
{
	struct procfs_pids *pids = calloc(1, sizeof(*pids));

	if (!pids)
		return fail(-ENOMEM);
	pids->dir = opendir(path);
	if (!pids->dir) {
		free(pids);
		return fail(-errno);
	}
	*ret_pids = pids;
	return 0;
}

int procfs_pids_open(const char *root, struct procfs_pids **ret_pids)
{
	char path[PROCFS_PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s/proc", root);

	if (n < 0 || n >= PROCFS_PATH_MAX)
		return fail(-ENAMETOOLONG);
	return trace(open_numbers(path, ret_pids));
}

int procfs_threads_open(const char *root, uint32_t pid, struct procfs_pids **ret_tids)
{
	char path[PROCFS_PATH_MAX];
	int r = procfs_path(path, root, pid, "task");

	if (r >= 0)
		r = gone(open_numbers(path, ret_tids));
	return r < 0 ? trace(r) : 0;
}

size_t procfs_pids_next(struct procfs_pids *pids, uint32_t *ret_pids, size_t room)
{
	struct dirent *entry;
	size_t n = 0;

	while (n < room && (entry = readdir(pids->dir))) {
		uint64_t v;

		if (parse_u64(entry->d_name, 10, UINT32_MAX, &v) >= 0)
			ret_pids[n++] = (uint32_t)v;
	}
	return n;
}

struct procfs_pids *procfs_pids_free(struct procfs_pids *pids)
{
	if (pids && pids->dir)
		closedir(pids->dir);
	free(pids);
	return NULL;
}

/* ---- stat ---- */

/* The @n-th blank-separated number from @p on (from 0). */
static bool number_at(const char *p, unsigned n, uint64_t *ret)
{
	char word[24];
	size_t len;

	for (p += strspn(p, " "); n; n--) {
		p += strcspn(p, " \n");
		p += strspn(p, " ");
	}
	len = strcspn(p, " \n");
	if (!len || len >= sizeof(word))
		return false;
	memcpy(word, p, len);
	word[len] = 0;
	return parse_u64(word, 10, UINT64_MAX, ret) >= 0;
}

static void copy_comm(char to[16], const char *from, size_t len)
{
	memset(to, 0, 16);
	memcpy(to, from, min_u64(len, 15));
}

/* pid (comm) state ppid ...: a name may hold blanks and parentheses, so its end is the last one. */
static int parse_stat(const char *text, struct procfs_status *status)
{
	const char *open = strchr(text, '('), *close = strrchr(text, ')');
	uint64_t ppid, flags, utime, stime, n_threads, start;

	if (!open || !close || close < open)
		return -EBADMSG;
	/* fields are counted from 1 in proc(5); the first behind the name is 3 */
	if (!number_at(close + 1, 4 - 3, &ppid) || !number_at(close + 1, 9 - 3, &flags) ||
	    !number_at(close + 1, 14 - 3, &utime) || !number_at(close + 1, 15 - 3, &stime) ||
	    !number_at(close + 1, 20 - 3, &n_threads) || !number_at(close + 1, 22 - 3, &start))
		return -EBADMSG;
	copy_comm(status->comm, open + 1, (size_t)(close - open - 1));
	status->ppid = (uint32_t)ppid;
	status->kernel_thread = flags & KERNEL_THREAD;
	/* field 3: Z a main thread that ended, or a process not waited for; X as good as gone */
	status->zombie = close[1] == ' ' && (close[2] == 'Z' || close[2] == 'X');
	status->utime_ticks = utime;
	status->stime_ticks = stime;
	status->start_ticks = start;
	status->n_threads = (uint32_t)n_threads;
	return 0;
}

static int read_stat(const char *root, uint32_t pid, struct procfs_status *status)
{
	_cleanup_(freep) char *text = NULL;
	int r = read_process_file(root, pid, "stat", STAT_MAX, &text, NULL);

	if (r < 0)
		return trace(r);
	r = parse_stat(text, status);
	return r < 0 ? fail(r) : 0;
}

/* The rest of the line that begins with @name, or NULL. */
static const char *line_of(const char *text, const char *name)
{
	size_t len = strlen(name);

	while (text && strncmp(text, name, len) != 0) {
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	return text ? text + len : NULL;
}

/* Tab-separated numbers up to the end of the line: the first and the last. */
static bool numbers_of(const char *line, uint32_t *ret_first, uint32_t *ret_last)
{
	size_t n = 0;

	if (!line)
		return false;
	while (*line && *line != '\n') {
		uint64_t v = 0;

		line += strspn(line, "\t ");
		if (*line < '0' || *line > '9')
			break;
		for (; *line >= '0' && *line <= '9' && v <= UINT32_MAX; line++)
			v = v * 10 + (uint64_t)(*line - '0');
		if (v > UINT32_MAX)
			return false;
		if (!n++)
			*ret_first = (uint32_t)v;
		*ret_last = (uint32_t)v;
	}
	return n != 0;
}

/* The number of which all of the line are. */
static uint32_t owner_of(const char *line, uint32_t uid)
{
	size_t len;

	line += strspn(line, "\t ");
	len = strcspn(line, "\t \n");
	for (const char *other = line; *other && *other != '\n'; other += strspn(other, "\t ")) {
		size_t n = strcspn(other, "\t \n");

		if (n != len || memcmp(line, other, len) != 0)
			return PROCFS_NO_OWNER;
		other += n;
	}
	return uid;
}

int procfs_parent(const char *root, uint32_t pid, uint32_t *ret_ppid)
{
	struct procfs_status status;
	int r = read_stat(root, pid, &status);

	if (r < 0)
		return trace(r);
	*ret_ppid = status.ppid;
	return 0;
}

int procfs_status(const char *root, uint32_t pid, struct procfs_status *ret_status)
{
	struct procfs_status status = {.pid = pid, .ns_pid = pid, .owner = PROCFS_NO_OWNER};
	_cleanup_(freep) char *text = NULL;
	uint32_t unused, ns_pid;
	int r = read_stat(root, pid, &status);

	if (r >= 0)
		r = read_process_file(root, pid, "status", STATUS_MAX, &text, NULL);
	if (r < 0)
		return trace(r);
	if (numbers_of(line_of(text, "Uid:"), &status.uid, &unused))
		status.owner = owner_of(line_of(text, "Uid:"), status.uid);
	/* one number for each pid namespace from ours inwards; 0 where the process is not in ours
	 */
	if (numbers_of(line_of(text, "NSpid:"), &unused, &ns_pid) && ns_pid)
		status.ns_pid = ns_pid;
	*ret_status = status;
	return 0;
}

int procfs_thread_ns_tid(const char *root, uint32_t pid, uint32_t tid, uint32_t *ret_tid)
{
	_cleanup_(freep) char *text = NULL;
	uint32_t unused, ns_tid;
	char name[32];
	int r;

	(void)snprintf(name, sizeof(name), "task/%u/status", tid);
	r = read_process_file(root, pid, name, STATUS_MAX, &text, NULL);
	if (r < 0)
		return trace(r);
	*ret_tid = numbers_of(line_of(text, "NSpid:"), &unused, &ns_tid) && ns_tid ? ns_tid : tid;
	return 0;
}

/* ---- names ---- */

int procfs_thread_comm(const char *root, uint32_t pid, uint32_t tid, char ret_comm[16])
{
	_cleanup_(freep) char *text = NULL;
	char name[32];
	size_t len;
	int r;

	(void)snprintf(name, sizeof(name), "task/%u/comm", tid);
	r = read_process_file(root, pid, name, STAT_MAX, &text, &len);
	if (r < 0)
		return trace(r);
	/* a name may end in a newline of its own: one is the kernel's */
	copy_comm(ret_comm, text, len && text[len - 1] == '\n' ? len - 1 : len);
	return 0;
}

int procfs_cmdline(const char *root, uint32_t pid, char **ret_text, size_t *ret_len)
{
	_cleanup_(fd_closep) int fd = -1;
	_cleanup_(freep) char *text = NULL;
	char path[PROCFS_PATH_MAX];
	size_t len = 0;
	int r = procfs_path(path, root, pid, "cmdline");

	if (r < 0)
		return trace(r);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return fail(gone(-errno));
	text = malloc(CMDLINE_MAX + 1);
	if (!text)
		return fail(-ENOMEM);
	while (len < CMDLINE_MAX) {
		ssize_t n = read(fd, text + len, CMDLINE_MAX - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail(-errno);
		if (!n)
			break;
		len += (size_t)n;
	}
	text[len] = 0;
	*ret_text = take(text);
	*ret_len = len;
	return 0;
}

/* ---- the machine ---- */

/* user nice system idle iowait irq softirq steal (proc(5)); guest is a part of user. */
static bool add_busy_ticks(const char *line, uint64_t *ticks)
{
	static const uint8_t busy[] = {0, 1, 2, 5, 6};
	uint64_t v;

	for (size_t i = 0; i < ARRAY_SIZE(busy); i++) {
		if (!line || !number_at(line, busy[i], &v))
			return false;
		*ticks += v;
	}
	return true;
}

int procfs_busy_ns(const char *root, const uint32_t *cpus, size_t n_cpus, uint64_t *ret_busy_ns)
{
	_cleanup_(freep) char *text = NULL;
	char path[PROCFS_PATH_MAX];
	uint64_t ticks = 0, hz = (uint64_t)sysconf(_SC_CLK_TCK);
	int r, n = snprintf(path, sizeof(path), "%s/proc/stat", root);

	if (n < 0 || n >= PROCFS_PATH_MAX)
		return fail(-ENAMETOOLONG);
	r = read_file(path, MACHINE_STAT_MAX, &text, NULL);
	if (r < 0)
		return trace(r);
	if (!cpus && !add_busy_ticks(line_of(text, "cpu "), &ticks))
		return fail(-EBADMSG);
	for (size_t i = 0; cpus && i < n_cpus; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "cpu%u ", cpus[i]);
		if (!add_busy_ticks(line_of(text, name), &ticks))
			return fail(-EBADMSG);
	}
	*ret_busy_ns = ticks * (NSEC_PER_SEC / hz);
	return 0;
}
