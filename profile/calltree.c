/* calltree.c - see calltree.h.
 *
 * A child is found by a hash of (parent, id): the kind needs no place in it, as all children of a
 * node are of one kind.  Nodes are made children first-come; the sums go up and the order is made
 * once at the end. */
#include <errno.h>
#include <string.h>

#include "daemon/base/error.h"
#include "profile/calltree.h"

static int add_node(struct calltree *t, struct table *by_key, uint32_t parent,
		    enum calltree_kind kind, uint32_t id, uint32_t *ret_node)
{
	uint64_t key = (uint64_t)parent << 32 | id, found;
	struct calltree_node *up;
	int r;

	if (table_get(by_key, key, &found)) {
		*ret_node = (uint32_t)found;
		return 0;
	}
	if (t->n_nodes == t->room) {
		uint32_t room = t->room ? t->room * 2 : 1024;
		struct calltree_node *more;

		if (room < t->room)
			return fail(-ENOMEM);
		more = reallocarray(t->nodes, room, sizeof(*more));
		if (!more)
			return fail(-ENOMEM);
		t->nodes = more;
		t->room = room;
	}
	r = table_put(by_key, key, t->n_nodes);
	if (r < 0)
		return trace(r);
	t->nodes[t->n_nodes] =
		(struct calltree_node){.id = id, .kind = kind, .inlined = true, .parent = parent};
	up = &t->nodes[parent];
	if (t->n_nodes) {
		t->nodes[t->n_nodes].next = up->child;
		up->child = t->n_nodes;
	}
	*ret_node = t->n_nodes++;
	return 0;
}

struct levels {
	bool processes, threads;
};

static int add_group(struct calltree *t, struct table *by_key, const struct fold_group *g,
		     const uint32_t *calls, size_t n, const struct levels *levels)
{
	uint32_t at = 0;
	int r = 0;

	if (levels->processes)
		r = add_node(t, by_key, at, CALLTREE_PROCESS, g->process, &at);
	if (r == 0 && levels->threads)
		r = add_node(t, by_key, at, CALLTREE_THREAD, g->thread, &at);
	for (size_t i = 0; i < n && r == 0; i++) {
		r = add_node(t, by_key, at, CALLTREE_CALL, fold_call_symbol(calls[i]), &at);
		if (r == 0) {
			t->nodes[at].inlined &= (calls[i] & FOLD_INLINED) != 0;
			t->nodes[at].guessed |= (calls[i] & FOLD_GUESSED) != 0;
		}
	}
	if (r < 0)
		return trace(r);
	t->nodes[at].self_count += g->count;
	t->nodes[at].self_weight += g->weight;
	return 0;
}

/* A parent is always made before its children: one pass from the end sums up. */
static void sum_up(struct calltree *t)
{
	for (uint32_t i = t->n_nodes; i-- > 0;) {
		struct calltree_node *n = &t->nodes[i], *up = &t->nodes[n->parent];

		n->inlined &= n->kind == CALLTREE_CALL;
		n->count += n->self_count;
		n->weight += n->self_weight;
		if (i) {
			up->count += n->count;
			up->weight += n->weight;
		}
	}
}

/* Heaviest first; the order of arrival is that of pids and stacks in the file, good enough for
 * ties. */
static int compare_nodes(const void *a, const void *b, void *context)
{
	const struct calltree *t = context;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	const struct calltree_node *x = &t->nodes[i], *y = &t->nodes[k];

	if (x->weight != y->weight)
		return x->weight < y->weight ? 1 : -1;
	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return (i > k) - (i < k);
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

static int calltree_fill(struct calltree *t, const struct fold *fold, const struct levels *levels)
{
	_cleanup_(freep) uint32_t *scratch = NULL;
	_cleanup_(freep) uint32_t *calls = calloc(fold->max_depth + 1, sizeof(*calls));
	_cleanup_(table_deinit) struct table by_key = {0};
	uint32_t root;
	int r;

	if (!calls)
		return fail(-ENOMEM);
	r = add_node(t, &by_key, 0, CALLTREE_ROOT, 0, &root);
	table_clear(&by_key); /* (0, 0) may be a child's key, too */
	for (size_t i = 0; i < fold->n_groups && r == 0; i++)
		r = add_group(t, &by_key, &fold->groups[i], calls,
			      fold_stack(fold, &fold->groups[i], calls), levels);
	if (r < 0)
		return trace(r);
	sum_up(t);
	scratch = calloc(t->n_nodes, sizeof(*scratch));
	if (!scratch)
		return fail(-ENOMEM);
	for (uint32_t i = 0; i < t->n_nodes; i++)
		sort_children(t, i, scratch);
	return 0;
}

int calltree_init(struct calltree *t, const struct fold *fold, bool processes, bool threads)
{
	const struct levels levels = {processes, threads};
	int r;

	*t = (struct calltree){0};
	r = calltree_fill(t, fold, &levels);
	if (r < 0)
		calltree_deinit(t);
	return r < 0 ? trace(r) : 0;
}

void calltree_deinit(struct calltree *t)
{
	free(t->nodes);
	*t = (struct calltree){0};
}
