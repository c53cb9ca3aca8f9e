/* families.c - processes with all their descendants: procfs_families().  Thread: main.
 *
 * From parents to children, by /proc/PID/task/TID/children of each thread: the work depends on the
 * family, not on the machine.  Where this file does not exist (CONFIG_PROC_CHILDREN), or a family has
 * more threads than MAX_READS, the parent of each process of the machine is read once; so the work
 * is the smaller of the two.  Both lists may lack processes that start or change parents in the
 * meantime; the caller repeats the call until nothing is new. */
#include <errno.h>

#include "base/error.h"
#include "base/table.h"
#include "proc/procfs.h"

enum {
	MAX_READS = 4096,	/* of `children`: some tens of ms */
	CHILDREN_MAX = 1 << 20, /* bytes of one */
};

/* ---- from parents to children ---- */

struct walk {
	const char *root;
	size_t most; /* 0: no limit */
	struct table seen;
	uint32_t *pids;
	size_t n, room, n_reads;
	bool readable; /* there was a file of children */
};

static void walk_deinit(struct walk *w)
{
	table_deinit(&w->seen);
	free(w->pids);
}

static int add(struct walk *w, uint32_t pid)
{
	uint64_t v;
	int r;

	if (table_get(&w->seen, pid, &v))
		return 0;
	if (w->n == w->room && !array_grow(w->pids, w->room, 64))
		return fail(-ENOMEM);
	r = table_put(&w->seen, pid, 1);
	if (r < 0)
		return trace(r);
	w->pids[w->n++] = pid;
	return 0;
}

/* Numbers and blanks. */
static int add_children(struct walk *w, uint32_t pid, uint32_t tid)
{
	char path[PROCFS_PATH_MAX], name[64];
	_cleanup_(freep) char *text = NULL;
	size_t len;
	int r;

	(void)snprintf(name, sizeof(name), "task/%u/children", tid);
	r = procfs_path(path, w->root, pid, name);
	if (r >= 0)
		r = read_file(path, CHILDREN_MAX, &text, &len);
	w->n_reads++;
	if (r < 0)
		return r == -ENOMEM ? trace(r)
				    : 0; /* gone, or the kernel does not have this file */
	w->readable = true;
	for (const char *p = text, *end = text + len; p < end && r >= 0;) {
		uint64_t child = 0;

		for (; p < end && *p >= '0' && *p <= '9' && child <= UINT32_MAX; p++)
			child = child * 10 + (uint64_t)(*p - '0');
		if (child && child <= UINT32_MAX)
			r = add(w, (uint32_t)child);
		p++;
	}
	return r < 0 ? trace(r) : 0;
}

/* The @index-th of the list: its threads' children.  One that is gone is taken out. */
static int visit(struct walk *w, size_t index)
{
	_cleanup_(freep) uint32_t *tids = NULL;
	size_t n = 0;
	int r = procfs_threads(w->root, w->pids[index], &tids, &n);

	if (r == -ENOMEM)
		return trace(r);
	if (r < 0) {
		w->pids[index] = 0;
		return 0;
	}
	for (size_t i = 0; i < n && w->n_reads < MAX_READS; i++) {
		r = add_children(w, w->pids[index], tids[i]);
		if (r < 0)
			return trace(r);
	}
	return 0;
}

/* WALK_CANNOT: the files do not exist, or too many reads. */
enum { WALK_CANNOT = 1 };

static int walk(struct walk *w, const uint32_t *of, size_t n_of, uint32_t **ret_pids, size_t *ret_n)
{
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; i < n_of && r >= 0; i++)
		r = add(w, of[i]);
	/* Some of the processes in @of may not exist. */
	for (size_t i = 0; i < w->n && r >= 0 && w->n_reads < MAX_READS; i++) {
		if (w->most && w->n > w->most + n_of)
			break;
		r = visit(w, i);
	}
	if (r < 0)
		return trace(r);
	if (!w->readable || w->n_reads >= MAX_READS)
		return WALK_CANNOT;
	for (size_t i = 0; i < w->n; i++)
		if (w->pids[i])
			w->pids[n++] = w->pids[i];
	*ret_n = sort_unique_u32(w->pids, n);
	*ret_pids = take(w->pids);
	return 0;
}

/* ---- from children to parents ---- */

enum kin { KIN_UNKNOWN, KIN_ASKED, KIN_YES, KIN_NO };

struct child {
	uint32_t pid, ppid; /* pid stands first: compare_pids() */
	enum kin kin;
};

static int compare_pids(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static struct child *child_of(struct child *list, size_t n, uint32_t pid)
{
	struct child key = {.pid = pid};

	return bsearch(&key, list, n, sizeof(*list), compare_pids);
}

/* Goes up from @at to an ancestor that is settled, then the same path again to settle all on it: each
 * process is visited twice, however long the paths are.  A path that returns to itself (parents
 * change while they are read) has no ancestor of this kind. */
static void settle_kin(struct child *list, size_t n, struct child *at)
{
	struct child *c = at;
	enum kin kin;

	for (; c && c->kin == KIN_UNKNOWN; c = child_of(list, n, c->ppid))
		c->kin = KIN_ASKED;
	kin = c && c->kin == KIN_YES ? KIN_YES : KIN_NO;
	for (c = at; c && c->kin == KIN_ASKED; c = child_of(list, n, c->ppid))
		c->kin = kin;
}

static int scan(const char *root, const uint32_t *of, size_t n_of, uint32_t **ret_pids,
		size_t *ret_n)
{
	_cleanup_(freep) uint32_t *pids = NULL;
	_cleanup_(freep) struct child *list = NULL;
	size_t n_pids, n = 0, n_found = 0;
	int r = procfs_pids(root, &pids, &n_pids);

	if (r < 0)
		return trace(r);
	list = calloc(n_pids + 1, sizeof(*list));
	if (!list)
		return fail(-ENOMEM);
	for (size_t i = 0; i < n_pids; i++) {
		uint32_t ppid;

		if (procfs_parent(root, pids[i], &ppid) >= 0)
			list[n++] = (struct child){.pid = pids[i], .ppid = ppid};
	}
	for (size_t i = 0; i < n_of; i++) {
		struct child *c = child_of(list, n, of[i]);

		if (c)
			c->kin = KIN_YES;
	}
	for (size_t i = 0; i < n; i++) {
		settle_kin(list, n, &list[i]);
		if (list[i].kin == KIN_YES)
			pids[n_found++] = list[i].pid;
	}
	*ret_pids = take(pids);
	*ret_n = n_found;
	return 0;
}

int procfs_families(const char *root, const uint32_t *of, size_t n_of, size_t most,
		    uint32_t **ret_pids, size_t *ret_n)
{
	_cleanup_(walk_deinit) struct walk w = {.root = root, .most = most};
	int r = walk(&w, of, n_of, ret_pids, ret_n);

	if (r == WALK_CANNOT)
		r = scan(root, of, n_of, ret_pids, ret_n);
	return r < 0 ? trace(r) : 0;
}
