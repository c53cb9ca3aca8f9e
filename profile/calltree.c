/* calltree.c - see calltree.h.
 *
 * Nodes are made in preorder, as they are visited, so a branch that turns out too light when it is left
 * is the end of the array: what is kept bounds the memory, not what there is.  Children are linked when
 * they are left, and put in order once at the end. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "profile/calltree.h"
#include "profile/walk.h"

struct making {
	struct calltree *tree;
	struct fold *fold;
	uint32_t at; /* the node that is open */
	uint64_t least;
	bool processes, threads;
	const uint32_t *first; /* fold_same_names() */
};

static int open_node(struct making *m, const struct calltree_node *node)
{
	struct calltree *t = m->tree;
	int r = t->n_nodes < t->room
			? 0
			: fold_grow(m->fold, t->nodes, t->room, 1024, 1, "calls in its tree");

	if (r < 0)
		return trace(r);
	t->nodes[t->n_nodes] = *node;
	t->nodes[t->n_nodes].parent = m->at;
	m->at = t->n_nodes++;
	return 0;
}

static void close_node(struct making *m)
{
	struct calltree *t = m->tree;
	uint32_t at = m->at;
	struct calltree_node *n = &t->nodes[at], *up = &t->nodes[n->parent];

	n->count += n->self_count;
	n->weight += n->self_weight;
	m->at = n->parent;
	if (!at)
		return;
	up->count += n->count;
	up->weight += n->weight;
	if (n->weight < m->least) {
		t->n_nodes = at;
		return;
	}
	n->next = up->child;
	up->child = at;
}

static int enter(void *arg, const struct walk_call *call)
{
	return open_node(arg,
			 &(struct calltree_node){.id = call->symbol,
						 .kind = CALLTREE_CALL,
						 .inlined = call->inlined,
						 .guessed_weight = call->guessed_weight,
						 .path_guessed_weight = call->path_guessed_weight,
						 .self_count = call->self_count,
						 .self_weight = call->self_weight});
}

static void leave(void *arg)
{
	close_node(arg);
}

/* ---- levels ---- */

static uint32_t name_of(const struct making *m, const struct fold_group *group)
{
	return m->first[fold_process(m->fold, group)];
}

static int compare_groups(const void *a, const void *b, void *making)
{
	const struct making *m = making;
	const struct fold_group *x = &m->fold->groups[*(const uint32_t *)a],
				*y = &m->fold->groups[*(const uint32_t *)b];

	return (m->processes ? ascend(name_of(m, x), name_of(m, y)) : 0) ?:
	       (m->threads ? ascend(x->thread, y->thread) : 0) ?:
	       ascend(x->marker, y->marker) ?:
	       ascend(x->stack, y->stack);
}

/* How many of @order from the first on are in one node of the level. */
static size_t level_end(const struct making *m, const uint32_t *order, size_t n, bool thread)
{
	const struct fold_group *groups = m->fold->groups, *first = &groups[order[0]];
	size_t end = 1;

	while (end < n && (thread ? groups[order[end]].thread == first->thread
				  : name_of(m, &groups[order[end]]) == name_of(m, first)))
		end++;
	return end;
}

static int make_thread(struct making *m, struct walk *w, const uint32_t *order, size_t n)
{
	const struct walk_visitor visitor = {.enter = enter, .leave = leave, .arg = m};
	int r;

	if (!m->threads)
		return walk_marked(w, order, n, &visitor);
	r = open_node(m, &(struct calltree_node){.id = m->fold->groups[order[0]].thread,
						 .kind = CALLTREE_THREAD});
	if (r == 0)
		r = walk_marked(w, order, n, &visitor);
	if (r == 0)
		close_node(m);
	return r < 0 ? trace(r) : 0;
}

static int make_process(struct making *m, struct walk *w, const uint32_t *order, size_t n)
{
	struct calltree_node node = {.id = name_of(m, &m->fold->groups[order[0]]),
				     .kind = CALLTREE_PROCESS};
	int r;

	/* The fold's groups are ordered by process: the first group of each counts. */
	for (size_t i = 0; i < n; i++) {
		uint32_t group = order[i];

		node.n_processes +=
			!group || fold_process(m->fold, &m->fold->groups[group]) !=
					  fold_process(m->fold, &m->fold->groups[group - 1]);
	}
	r = m->processes ? open_node(m, &node) : 0;

	for (size_t first = 0, some; first < n && r == 0; first += some) {
		some = m->threads ? level_end(m, order + first, n - first, true) : n;
		r = make_thread(m, w, order + first, some);
	}
	if (r == 0 && m->processes)
		close_node(m);
	return r < 0 ? trace(r) : 0;
}

static int make(struct making *m, struct walk *w, const uint32_t *order)
{
	size_t n = m->fold->n_groups;
	int r = open_node(m, &(struct calltree_node){.kind = CALLTREE_ROOT});

	for (size_t first = 0, some; first < n && r == 0; first += some) {
		some = m->processes ? level_end(m, order + first, n - first, false) : n;
		r = make_process(m, w, order + first, some);
	}
	if (r == 0)
		close_node(m);
	return r < 0 ? trace(r) : 0;
}

/* ---- order ---- */

/* Heaviest first. */
static int compare_nodes(const void *a, const void *b, void *context)
{
	const struct calltree *t = context;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	const struct calltree_node *x = &t->nodes[i], *y = &t->nodes[k];

	return ascend(y->weight, x->weight) ?: ascend(y->count, x->count) ?: ascend(i, k);
}

static void sort_children(struct calltree *t, uint32_t node, uint32_t *scratch)
{
	size_t n = 0;

	calltree_for_each_child(t, node, child) scratch[n++] = child;
	if (n < 2)
		return;
	qsort_r(scratch, n, sizeof(*scratch), compare_nodes, t);
	t->nodes[node].child = scratch[0];
	for (size_t i = 0; i < n; i++)
		t->nodes[scratch[i]].next = i + 1 < n ? scratch[i + 1] : 0;
}

static int sort_all(struct calltree *t, struct fold *fold)
{
	_cleanup_(freep) uint32_t *scratch = NULL;
	int r = fold_hold(fold, (int64_t)(t->n_nodes * 2 * sizeof(*scratch)), "calls in its tree");

	if (r < 0)
		return trace(r);
	scratch = calloc(t->n_nodes, sizeof(*scratch));
	if (!scratch)
		return fail(-ENOMEM);
	for (uint32_t i = 0; i < t->n_nodes; i++)
		sort_children(t, i, scratch);
	return 0;
}

static bool has_guesses(const struct fold *f)
{
	for (size_t i = 0; i < f->profile->n_frames; i++)
		if (f->profile->frames[i].guessed)
			return true;
	return false;
}

static int calltree_fill(struct making *m)
{
	_cleanup_(walk_deinit) struct walk w = {0};
	_cleanup_(freep) uint32_t *order = NULL, *first = NULL;
	int r = fold_same_names(m->fold, &first);

	m->first = first;
	if (r >= 0)
		r = fold_order(m->fold, compare_groups, m, &order);
	if (r >= 0)
		r = walk_init(&w, m->fold);
	if (r == 0 && has_guesses(m->fold))
		r = walk_weigh_guesses(&w);
	if (r == 0)
		r = make(m, &w, order);
	return r < 0 ? trace(r) : 0;
}

int calltree_init(struct calltree *t, struct fold *fold, bool processes, bool threads,
		  uint64_t least)
{
	struct making m = {.tree = t,
			   .fold = fold,
			   .least = least,
			   .processes = processes,
			   .threads = threads};
	int r;

	*t = (struct calltree){0};
	r = calltree_fill(&m);
	if (r == 0)
		r = sort_all(t, fold);
	if (r < 0)
		calltree_deinit(t);
	return r < 0 ? trace(r) : 0;
}

/* ---- one function ---- */

/* The child of @m->at for @call, made if there is none. */
static int focus_step(struct making *m, struct table *children, uint32_t call)
{
	uint32_t symbol = fold_call_symbol(call);
	uint64_t key = (uint64_t)m->at << 32 | symbol, found;
	int r;

	if (table_get(children, key, &found)) {
		m->at = (uint32_t)found;
		return 0;
	}
	r = fold_hold(m->fold, TABLE_ENTRY_BYTES, "calls in its tree");
	if (r == 0)
		r = table_put(children, key, m->tree->n_nodes);
	if (r == 0)
		r = open_node(m, &(struct calltree_node){
					 .id = symbol, .kind = CALLTREE_CALL, .inlined = true});
	return r < 0 ? trace(r) : 0;
}

/* @path_guessed: @call or one above it is a guess. */
static void focus_count(struct making *m, const struct fold_group *g, uint32_t call,
			bool path_guessed)
{
	struct calltree_node *n = &m->tree->nodes[m->at];

	n->count += g->count;
	n->weight += g->weight;
	n->inlined &= (call & FOLD_INLINED) != 0;
	n->guessed_weight += call & FOLD_GUESSED ? g->weight : 0;
	n->path_guessed_weight += path_guessed ? g->weight : 0;
}

/* @calls: root first. */
static int focus_group(struct making *m, struct table *children, const struct fold_group *g,
		       const uint32_t *calls, size_t n, const uint8_t *match, bool callers)
{
	size_t at = callers ? n : 0;
	bool path_guessed = false;
	int r = 0;

	if (callers)
		while (at && !match[fold_call_symbol(calls[at - 1])])
			at--;
	else
		while (at < n && !match[fold_call_symbol(calls[at])])
			at++;
	if (at == (callers ? 0 : n))
		return 0;
	m->at = 0;
	focus_count(m, g, 0, false);
	for (size_t i = at; r == 0 && (callers ? i > 0 : i < n); i += callers ? -1ul : 1) {
		uint32_t call = calls[callers ? i - 1 : i];

		r = focus_step(m, children, call);
		path_guessed |= (call & FOLD_GUESSED) != 0;
		if (r == 0)
			focus_count(m, g, call, path_guessed);
		/* The leaf, be it the end of the path or, among callers, its beginning. */
		if (r == 0 && (callers ? i == n : i + 1 == n)) {
			m->tree->nodes[m->at].self_count += g->count;
			m->tree->nodes[m->at].self_weight += g->weight;
		}
	}
	return r < 0 ? trace(r) : 0;
}

static int focus_fill(struct making *m, const uint8_t *match, bool callers)
{
	_cleanup_(table_deinit) struct table children = {0};
	_cleanup_(freep) uint32_t *calls = calloc(m->fold->max_depth + 1, sizeof(*calls));
	struct calltree *t = m->tree;
	int r = calls ? open_node(m, &(struct calltree_node){.kind = CALLTREE_ROOT})
		      : fail(-ENOMEM);

	for (size_t i = 0; i < m->fold->n_groups && r == 0; i++) {
		const struct fold_group *g = &m->fold->groups[i];

		r = focus_group(m, &children, g, calls, fold_stack(m->fold, g, calls), match,
				callers);
	}
	if (r < 0)
		return trace(r);
	for (uint32_t i = 1; i < t->n_nodes; i++) {
		t->nodes[i].next = t->nodes[t->nodes[i].parent].child;
		t->nodes[t->nodes[i].parent].child = i;
	}
	return 0;
}

int calltree_init_focus(struct calltree *t, struct fold *fold, const char *name, bool callers)
{
	_cleanup_(freep) uint8_t *match = NULL;
	struct making m = {.tree = t, .fold = fold};
	int r = fold_find_function(fold, name, &match);

	*t = (struct calltree){0};
	if (r == 0)
		r = focus_fill(&m, match, callers);
	if (r == 0)
		r = sort_all(t, fold);
	if (r < 0)
		calltree_deinit(t);
	return r < 0 ? trace(r) : 0;
}

void calltree_deinit(struct calltree *t)
{
	free(t->nodes);
	*t = (struct calltree){0};
}
