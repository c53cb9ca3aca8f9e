/* walk.c - see walk.h.
 *
 * A level holds the calls of equal caller path as items: one for each node (and call of its frame,
 * when some are inlined), sorted by rank.  A run of one rank is visited; what its items lead to is the
 * next level, behind this one in the same array:
 *
 *	items  [ a a b | c d d e | f ]       levels {1,3} {2,4} {0,1}: b, d's brothers, f is next
 *
 * Links are cleared as their nodes are visited, so the next walk finds none. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "profile/walk.h"

enum {
	CALL_BITS = 8,	/* a frame has at most 256 calls (profile-content.c) */
	NODE_BITS = 32, /* what is left is the rank's */
	MAX_VISITS = 96 << 20,
	LAST = -1,
};

int walk_init(struct walk *w, struct fold *fold)
{
	size_t n = fold->profile->n_nodes + 1;
	int r;

	*w = (struct walk){.fold = fold};
	r = fold_hold(fold, (int64_t)(n * sizeof(*w->links)), "different calls in its stacks");
	if (r < 0)
		return trace(r);
	w->links = calloc(n, sizeof(*w->links));
	return w->links ? 0 : fail(-ENOMEM);
}

void walk_deinit(struct walk *w)
{
	free(w->links);
	free(w->weights);
	free(w->path_guessed);
	free(w->items);
	free(w->levels);
	*w = (struct walk){0};
}

int walk_weigh_guesses(struct walk *w)
{
	static const char what[] = "different calls in its stacks";
	const struct profile *p = w->fold->profile;
	int r = fold_array(w->fold, p->n_nodes, sizeof(*w->weights), what, &w->weights);

	if (r >= 0)
		r = fold_array(w->fold, p->n_nodes, sizeof(*w->path_guessed), what,
			       &w->path_guessed);
	if (r < 0)
		return trace(r);
	for (size_t i = 0; i < p->n_nodes; i++) { /* a caller is before what it calls */
		uint32_t up = p->nodes[i].up;

		w->path_guessed[i] =
			!fold_is_error(w->fold, (uint32_t)i) &&
			(p->frames[p->nodes[i].frame].guessed || (up < i && w->path_guessed[up]));
	}
	return 0;
}

/* ---- links ---- */

/* Sets (@weight 0) or adds to the weights of all nodes of a stack. */
static void weigh_stack(struct walk *w, uint32_t at, uint64_t weight)
{
	for (; w->weights && at != UINT32_MAX; at = w->fold->profile->nodes[at].up)
		w->weights[at] = weight ? w->weights[at] + weight : 0;
}

static void link_group(struct walk *w, uint32_t group)
{
	const struct profile_node *nodes = w->fold->profile->nodes;
	const struct fold_group *g = &w->fold->groups[w->order[group]];
	uint32_t at = g->stack;

	if (at == UINT32_MAX || fold_is_error(w->fold, at))
		return;
	weigh_stack(w, at, g->weight);
	if (!w->links[at].group)
		w->links[at].group = group + 1; /* links of the same stack stand behind it */
	while (!w->links[at].next) {
		uint32_t up = nodes[at].up;
		bool root = up == UINT32_MAX || fold_is_error(w->fold, up);
		uint32_t *first = root ? &w->roots : &w->links[up].child;

		w->links[at].next = *first ? *first : (uint32_t)LAST;
		*first = at + 1;
		if (root)
			return;
		at = up;
	}
}

/* ---- items ---- */

static uint32_t item_node(uint64_t item)
{
	return (uint32_t)(item >> CALL_BITS);
}

static uint32_t item_rank(uint64_t item)
{
	return (uint32_t)(item >> (CALL_BITS + NODE_BITS));
}

/* Calls of an item's frame that are left, itself counted. */
static uint32_t calls_left(const struct walk *w, uint64_t item)
{
	const uint32_t *first =
		&w->fold->first_call[w->fold->profile->nodes[item_node(item)].frame];

	return first[1] - first[0] - (uint32_t)(item & ((1u << CALL_BITS) - 1));
}

static uint32_t item_call(const struct walk *w, uint64_t item)
{
	return w->fold->calls[w->fold->first_call[w->fold->profile->nodes[item_node(item)].frame] +
			      calls_left(w, item) - 1];
}

/* Does a stack end in this call; do some go on from it? */
static bool item_ends(const struct walk *w, uint64_t item)
{
	return calls_left(w, item) == 1 && w->links[item_node(item)].group;
}

static bool item_goes_on(const struct walk *w, uint64_t item)
{
	return calls_left(w, item) > 1 || w->links[item_node(item)].child;
}

static int push(struct walk *w, uint32_t rank, uint64_t item)
{
	int r = w->n_items < w->room_items ? 0
					   : fold_grow(w->fold, w->items, w->room_items, 1024, 1,
						       "calls of one caller");

	if (r < 0)
		return trace(r);
	w->items[w->n_items++] = (uint64_t)rank << (CALL_BITS + NODE_BITS) | item;
	return 0;
}

static int push_call(struct walk *w, const struct walk_visitor *v, uint32_t node, uint32_t call)
{
	uint64_t item = (uint64_t)node << CALL_BITS | call;
	uint32_t symbol = fold_call_symbol(item_call(w, item));
	int r = 0;

	if (!v->end_rank)
		return push(w, v->rank ? v->rank[symbol] : symbol, item);
	if (item_ends(w, item))
		r = push(w, v->end_rank[symbol], item);
	if (r == 0 && item_goes_on(w, item))
		r = push(w, v->rank[symbol], item);
	return r;
}

static int push_list(struct walk *w, const struct walk_visitor *v, uint32_t first)
{
	int r = 0;

	while (first && first != (uint32_t)LAST && r == 0) {
		uint32_t node = first - 1;

		first = w->links[node].next;
		w->links[node].next = 0;
		/* A frame of an empty line still has a call: the reader makes one for each. */
		r = push_call(w, v, node, 0);
	}
	return r;
}

/* In place, and never in the square of @n: items differ, and where a pivot stands is not to be
 * foretold from them. */
static void sort_items(uint64_t *items, size_t n, uint64_t seed)
{
	while (n > 16) {
		/* Not the last: both parts have items. */
		uint64_t pivot = items[hash_u64(seed += n) % (n - 1)];
		size_t i = 0, k = n - 1;

		for (;; i++, k--) {
			uint64_t item;

			while (items[i] < pivot)
				i++;
			while (items[k] > pivot)
				k--;
			if (i >= k)
				break;
			item = items[i];
			items[i] = items[k];
			items[k] = item;
		}
		/* The shorter part first: the stack stays short. */
		if (k + 1 <= n / 2) {
			sort_items(items, k + 1, seed);
			items += k + 1;
			n -= k + 1;
		} else {
			sort_items(items + k + 1, n - k - 1, seed);
			n = k + 1;
		}
	}
	for (size_t i = 1; i < n; i++) {
		uint64_t item = items[i];
		size_t k = i;

		for (; k && items[k - 1] > item; k--)
			items[k] = items[k - 1];
		items[k] = item;
	}
}

/* ---- levels ---- */

/* The items from @from on are a level. */
static int push_level(struct walk *w, size_t from)
{
	if (w->n_levels == w->room_levels && !array_grow(w->levels, w->room_levels, 256))
		return fail(-ENOMEM);
	sort_items(w->items + from, w->n_items - from, w->fold->seed);
	w->levels[w->n_levels++] = (struct walk_level){from, w->n_items};
	w->visited += w->n_items - from;
	return fold_limit(w->fold, w->visited, MAX_VISITS, "calls in the stacks of its threads");
}

static void add_self(struct walk *w, uint32_t node, size_t n, struct walk_call *call)
{
	uint32_t group = w->links[node].group - 1;
	const struct fold_group *g = &w->fold->groups[w->order[group]];
	uint32_t stack = g->stack;

	w->links[node].group = 0;
	for (; group < n; group++) {
		g = &w->fold->groups[w->order[group]];
		if (g->stack != stack)
			break;
		call->self_count += g->count;
		call->self_weight += g->weight;
	}
}

/* Visits the run at the top level's @at, and makes the level below it. */
static int visit(struct walk *w, size_t n, const struct walk_visitor *v)
{
	struct walk_level *level = &w->levels[w->n_levels - 1];
	size_t at = level->at, end = at + 1, below = w->n_items;
	uint32_t first = item_call(w, w->items[at]), rank = item_rank(w->items[at]);
	struct walk_call call = {.symbol = fold_call_symbol(first), .inlined = true};
	bool ends = !v->end_rank || v->end_rank[call.symbol] == rank;
	bool goes_on = !v->end_rank || !ends;
	int r = 0;

	while (end < level->end && item_rank(w->items[end]) == rank)
		end++;
	level->at = end;
	for (size_t i = at; i < end; i++) {
		uint32_t bits = item_call(w, w->items[i]);

		call.inlined &= (bits & FOLD_INLINED) != 0;
		call.guessed |= (bits & FOLD_GUESSED) != 0;
		if (w->weights) {
			uint32_t node = item_node(w->items[i]);

			call.guessed_weight += bits & FOLD_GUESSED ? w->weights[node] : 0;
			call.path_guessed_weight += w->path_guessed[node] ? w->weights[node] : 0;
		}
		if (ends && item_ends(w, w->items[i]))
			add_self(w, item_node(w->items[i]), n, &call);
	}
	r = v->enter(v->arg, &call);
	for (size_t i = at; goes_on && i < end && r == 0; i++) {
		uint64_t item = w->items[i];
		uint32_t node = item_node(item);

		if (calls_left(w, item) > 1) {
			r = push_call(w, v, node, (uint32_t)(item & ((1u << CALL_BITS) - 1)) + 1);
		} else {
			r = push_list(w, v, w->links[node].child);
			w->links[node].child = 0;
		}
	}
	if (r < 0)
		return trace(r);
	if (w->n_items > below)
		return push_level(w, below);
	v->leave(v->arg);
	return 0;
}

/* One tree of the @n groups with numbers in @order, ordered by stack; a marker is not part of it.
 * -E2BIG: all walks together visited too much. */
static int one_tree(struct walk *w, const uint32_t *order, size_t n, const struct walk_visitor *v)
{
	int r;

	w->order = order;
	w->roots = 0;
	w->n_items = w->n_levels = 0;
	for (uint32_t i = 0; i < n; i++)
		link_group(w, i);
	r = push_list(w, v, w->roots);
	if (r == 0 && w->n_items)
		r = push_level(w, 0);
	while (w->n_levels && r == 0) {
		struct walk_level *level = &w->levels[w->n_levels - 1];

		if (level->at < level->end) {
			r = visit(w, n, v);
			continue;
		}
		w->n_levels--;
		w->n_items = w->n_levels ? w->levels[w->n_levels - 1].end : 0;
		if (w->n_levels)
			v->leave(v->arg);
	}
	for (size_t i = 0; i < n; i++)
		weigh_stack(w, w->fold->groups[order[i]].stack, 0);
	return r < 0 ? trace(r) : 0;
}

int walk_marked(struct walk *w, const uint32_t *order, size_t n, const struct walk_visitor *v)
{
	int r = 0;

	for (size_t first = 0, end; first < n && r == 0; first = end) {
		uint32_t marker = w->fold->groups[order[first]].marker;
		struct walk_call call = {.symbol = marker};

		for (end = first; end < n; end++) {
			const struct fold_group *g = &w->fold->groups[order[end]];

			if (g->marker != marker)
				break;
			if (g->stack == UINT32_MAX || fold_is_error(w->fold, g->stack)) {
				call.self_count += g->count;
				call.self_weight += g->weight;
			}
		}
		if (marker != UINT32_MAX)
			r = v->enter(v->arg, &call);
		if (r == 0)
			r = one_tree(w, order + first, end - first, v);
		if (r == 0 && marker != UINT32_MAX)
			v->leave(v->arg);
	}
	return r < 0 ? trace(r) : 0;
}
