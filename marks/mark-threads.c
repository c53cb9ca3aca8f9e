/* mark-threads.c - see mark-threads.h. */
#include "marks/mark-threads.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/table.h"
#include "proc/procfs.h"

struct mark_threads {
	struct mark_walk *walk;
	uint32_t pid, claimed_pid;
	bool ended;
	struct table known; /* the target's number -> ours; 0: of another process */
};

struct mark_walk {
	const char *root;
	struct mark_threads *of; /* NULL: no walk goes on */
	struct procfs_pids *tids;
	uint32_t wanted; /* the claim for which it began */
	size_t left;	 /* threads of this turn */
};

enum { BEGIN_COST = 16 }; /* of a walk, in threads */

/* ---- the walk ---- */

int mark_walk_new(const char *root, struct mark_walk **ret_walk)
{
	struct mark_walk *w = calloc(1, sizeof(*w));

	if (!w)
		return fail(-ENOMEM);
	w->root = root;
	w->left = MARK_WALK_THREADS;
	*ret_walk = w;
	return 0;
}

static void stop(struct mark_walk *w)
{
	w->tids = procfs_pids_free(w->tids);
	w->of = NULL;
}

struct mark_walk *mark_walk_free(struct mark_walk *w)
{
	if (w)
		stop(w);
	free(w);
	return NULL;
}

static int remember(struct mark_threads *t, uint32_t tid, uint32_t ours)
{
	int r;

	if (t->known.n_used >= MARK_THREADS_MAX)
		table_clear(&t->known);
	r = table_put(&t->known, tid, ours);
	return r < 0 ? fail(r) : 0;
}

static int step(struct mark_walk *w)
{
	struct mark_threads *t = w->of;
	uint64_t found;
	int r = 0;

	while (w->left && r >= 0) {
		uint32_t tid, claimed;
		int seen;

		if (!procfs_pids_next(w->tids, &tid, 1)) {
			if (!table_get(&t->known, w->wanted, &found))
				r = remember(t, w->wanted, 0);
			stop(w);
			break;
		}
		w->left--;
		/* A process with more threads than are remembered: the one that is wanted is. */
		seen = procfs_thread_ns_tid(w->root, t->pid, tid, &claimed);
		if (is_shortage(seen)) { /* another walk begins for the next mark */
			stop(w);
			break;
		}
		if (seen == 0 && (claimed == w->wanted || t->known.n_used < MARK_THREADS_MAX))
			r = remember(t, claimed, tid);
	}
	return r < 0 ? trace(r) : 0;
}

int mark_walk_turn(struct mark_walk *w)
{
	w->left = MARK_WALK_THREADS;
	return w->of ? trace(step(w)) : 0;
}

/* In a pid namespace. */
static int walk_for(struct mark_threads *t, uint32_t tid, uint32_t *ret_tid)
{
	struct mark_walk *w = t->walk;
	uint64_t found;
	int r;

	if (w->of || !w->left)
		return MARK_THREADS_LATER;
	w->left -= min_u64(w->left, BEGIN_COST);
	r = procfs_threads_open(w->root, t->pid, &w->tids);
	if (is_shortage(r))
		return MARK_THREADS_LATER;
	if (r < 0) {
		*ret_tid = 0; /* it has ended */
		return remember(t, tid, 0);
	}
	w->of = t;
	w->wanted = tid;
	r = step(w);
	if (r < 0)
		return trace(r);
	if (!table_get(&t->known, tid, &found))
		return MARK_THREADS_LATER;
	*ret_tid = (uint32_t)found;
	return 0;
}

/* ---- the threads of one process ---- */

int mark_threads_new(struct mark_walk *walk, uint32_t pid, uint32_t claimed_pid,
		     struct mark_threads **ret_threads)
{
	struct mark_threads *t = calloc(1, sizeof(*t));

	if (!t)
		return fail(-ENOMEM);
	t->walk = walk;
	t->pid = pid;
	t->claimed_pid = claimed_pid;
	*ret_threads = t;
	return 0;
}

void mark_threads_end(struct mark_threads *t)
{
	t->ended = true;
	if (t->walk->of == t)
		stop(t->walk);
}

struct mark_threads *mark_threads_free(struct mark_threads *t)
{
	if (!t)
		return NULL;
	mark_threads_end(t);
	table_deinit(&t->known);
	free(t);
	return NULL;
}

void mark_threads_forget(struct mark_threads *t, uint32_t tid)
{
	(void)table_remove(&t->known, tid);
}

/* Is there this thread?  Signal 0 asks without /proc, which may hide processes of others. */
static bool is_there(long r)
{
	return r == 0 || errno == EPERM;
}

int mark_threads_find(struct mark_threads *t, uint32_t tid, uint32_t *ret_tid)
{
	uint64_t known;
	uint32_t ours;

	if (!tid || tid > INT32_MAX) {
		*ret_tid = 0;
		return 0;
	}
	if (table_get(&t->known, tid, &known)) {
		*ret_tid = (uint32_t)known;
		return 0;
	}
	if (tid == t->claimed_pid)
		ours = t->pid;
	else if (t->claimed_pid != t->pid && t->ended)
		ours = 0;
	else if (t->claimed_pid != t->pid)
		return trace(walk_for(t, tid, ret_tid));
	else if (is_there(syscall(SYS_tgkill, t->pid, tid, 0)))
		ours = tid;
	else /* It has ended, or is of another process. */
		ours = is_there(syscall(SYS_tkill, tid, 0)) ? 0 : tid;
	*ret_tid = ours;
	return remember(t, tid, ours);
}
