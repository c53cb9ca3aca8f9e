/* native-calls.c - see script-frames.h.  The callers of a Python function, by the sizes of frames.
 *
 * CPython puts the frames of functions on a stack of its own, one directly behind the other; a generator's frame is in its object.  Of a
 * run of the loop the sample has the innermost frame's address and function, and that of the next run outwards.  So the sizes of
 * the frames between have a sum that is known:
 *
 *     next run   b                    g        h             f         innermost function of the run
 *     ───────────┬────────────────────┬────────┬─────────────┬──────
 *                 <- frame of b      ->        <- h's      ->           bytes
 *                                     └─── to be filled ─────┘
 *
 * Which functions have called which is learned from what was read of the process, at any time.  Where one sequence of known callers
 * alone fills the room, these are the callers.  Of several, the frames outwards of the place where all meet are, and that one; the others
 * are guesses, of the sequence that was seen most.
 *
 * A call that was never seen may fill the room as well: where the caller of g has called another function with a frame as large as g's,
 * g is a guess until it was often seen to call the function inwards (may_have_twin()), or where both were seen to.  Where the frame at
 * this address changes often, and the function inwards has several callers, that guess would be a coin's toss, and none is shown. */
#include "unwinder/script-frames.h"

enum {
	LOOSE_NODES = 64, /* where the room is not known */
	PLACES = 8,
	SEEN_MANY =
		2, /* readings that show a function's callers: proved where the room is filled, */
	SEEN_ALL = 128, /* ... and where it is not known */
	SEEN_OFTEN = 8, /* readings that show one caller: a caller that was never seen is rarer */
	RARE = 8, /* times as often is one sequence seen that is shown, as a guess, where others fill the room */
	CHUNK_BYTES = 64 << 10,
	CHUNK_BEGIN =
		32, /* bytes before the first frame of a piece of the stack, at a page's begin */
	NO_ROOM = 1 << 30,
};

static struct script_callee *callee_of(struct native_script *s, uint64_t id)
{
	uint64_t hash = hash_u64(id ^ s->serial);
	struct script_callee *oldest = NULL;

	for (uint64_t i = 0; i < PLACES; i++) {
		struct script_callee *c = &s->callees[(hash + i) % SCRIPT_CALLEES];

		if (c->serial == s->serial && c->id == id)
			return c;
		if (!oldest || c->counted < oldest->counted)
			oldest = c;
	}
	return oldest;
}

static bool is_known(const struct native_script *s, const struct script_callee *c, uint64_t id)
{
	return c->serial == s->serial && c->id == id;
}

static const struct script_function *function_of(struct native_script *s, uint64_t id)
{
	uint64_t address = id & ~UW_PYTHON_SIGN;
	const struct script_function *f = script_function_slot(s, address);

	return f->serial == s->serial && f->address == address ? f : NULL;
}

/* Do both have one name, as two lambdas of a function do?  Then either is right. */
static bool are_alike(struct native_script *s, uint64_t a, uint64_t b)
{
	const struct script_function *f = function_of(s, a), *g = function_of(s, b);

	return f && g && f->filename == g->filename && f->qualname == g->qualname;
}

/* Notes which other functions with a frame as large as that of @c its caller @new has called. */
static void find_twins(struct native_script *s, const struct script_callee *c,
		       struct script_caller *new)
{
	if (!c->size || !script_step(s, SCRIPT_CALLEES))
		return;
	for (uint32_t i = 0; i < SCRIPT_CALLEES; i++) {
		struct script_callee *other = &s->callees[i];

		if (other == c || other->serial != s->serial || other->size != c->size)
			continue;
		for (uint32_t k = 0; k < other->n; k++)
			if (other->callers[k].id == new->id && !are_alike(s, c->id, other->id))
				other->callers[k].twin = new->twin = true;
	}
}

/* NULL: @callee was not seen with this caller. */
static struct script_caller *edge_of(struct native_script *s, uint64_t callee, uint64_t caller)
{
	struct script_callee *c = callee_of(s, callee);

	for (uint32_t i = 0; is_known(s, c, callee) && i < c->n; i++)
		if (c->callers[i].id == caller)
			return &c->callers[i];
	return NULL;
}

bool script_call_has_twin(struct native_script *s, uint64_t inner, uint64_t id, uint64_t outer)
{
	const struct script_callee *c = callee_of(s, inner);
	const struct script_caller *edge = edge_of(s, inner, id);

	for (uint32_t i = 0; edge && i < c->n; i++)
		if (&c->callers[i] != edge && c->callers[i].size == edge->size &&
		    (uint64_t)c->callers[i].seen * RARE > edge->seen &&
		    edge_of(s, c->callers[i].id, outer) && !are_alike(s, c->callers[i].id, id))
			return true;
	return false;
}

/* The same with functions that were not seen to call @inner: is it rare that @id does? */
static bool may_have_twin(struct native_script *s, uint64_t inner, uint64_t id, uint64_t outer)
{
	const struct script_caller *edge = edge_of(s, id, outer);
	bool twin = edge && edge->twin;

	edge = edge_of(s, inner, id);
	return twin && edge && edge->seen < SEEN_OFTEN;
}

void script_call_note(struct native_script *s, uint64_t callee, uint32_t size,
		      const struct script_caller *caller)
{
	struct script_callee *c = callee_of(s, callee);
	uint32_t i = 0;

	if (!is_known(s, c, callee))
		*c = (struct script_callee){.id = callee, .size = size, .serial = s->serial};
	while (i < c->n && c->callers[i].id != caller->id)
		i++;
	if (i == SCRIPT_CALLERS) {
		c->crowded = true;
		return;
	}
	if (i == c->n) {
		c->callers[c->n++] = *caller;
		find_twins(s, c, &c->callers[i]);
		s->n_calls++;
	}
	if (s->sampled > c->callers[i].counted) {
		c->callers[i].counted = s->read_at;
		if (++c->callers[i].seen == SEEN_OFTEN)
			s->n_calls++;
	}
	if (s->sampled <= c->counted)
		return; /* nothing has run since */
	c->counted = s->read_at;
	c->seen++;
}

/* ---- the search ---- */

struct search {
	struct native_script *s;
	const struct script_room *room;
	struct script_node *nodes;
	uint32_t n, max, goal, n_goals;
	uint32_t seen,
		seen_next; /* readings that show the rarest call of the goal's sequence, of the next one's */
	bool doubtful; /* a sequence that is not known to the end */
};

/* Is the frame behind that at @top in another piece of the stack? */
static bool leaves_chunk(const struct search *q, uint64_t top)
{
	return (top & (VM_PAGE - 1)) <= CHUNK_BEGIN &&
	       !(q->room->end <= top && top - q->room->end < CHUNK_BYTES);
}

/* Was the function @id seen with its frame at @top last? */
static bool is_likely(struct native_script *s, uint64_t id, uint64_t top)
{
	return s->lately[hash_u64(top ^ (uint64_t)s->serial << 48) % SCRIPT_LATELY] ==
	       (id ^ hash_u64(top));
}

void script_frame_note(struct native_script *s, uint64_t id, uint64_t top)
{
	s->lately[hash_u64(top ^ (uint64_t)s->serial << 48) % SCRIPT_LATELY] = id ^ hash_u64(top);
}

/* Where the number, from 1, of the same node is; 0 there: it is new. */
static uint16_t *place_of_node(struct search *q, const struct script_node *node)
{
	uint64_t at = hash_u64(node->id ^ hash_u64(node->top << 1 | node->anchored));

	for (;; at++) {
		uint16_t *place = &q->s->node_places[at % SCRIPT_NODE_PLACES];
		const struct script_node *n = &q->nodes[*place - (*place > 0)];

		if (!*place ||
		    (n->id == node->id && n->top == node->top && n->anchored == node->anchored))
			return place;
	}
}

/* Is the way to @a the better guess than that to @b, the same place? */
static bool is_likelier(const struct script_node *a, const struct script_node *b)
{
	return a->likely > b->likely || (a->likely == b->likely && a->seen > b->seen);
}

/* The node of @caller behind node @parent. */
static void add_node(struct search *q, uint32_t parent, const struct script_caller *caller,
		     bool guess)
{
	const struct script_node *p = &q->nodes[parent];
	struct script_node node = {
		.id = caller->id,
		.top = p->top - caller->size,
		.parent = parent,
		.seen = (uint32_t)min_u64(caller->seen, p->seen),
		.anchored = p->anchored && !(caller->size && leaves_chunk(q, p->top)),
		.hidden = caller->hidden,
		.guess = guess,
		.likely = p->likely +
			  (caller->size && is_likely(q->s, caller->id, p->top - caller->size)),
	};

	uint16_t *place;

	if (node.anchored && q->room->end && node.top < q->room->end)
		return;
	place = place_of_node(q, &node);
	if (*place) {
		struct script_node *same = &q->nodes[*place - 1];

		if (parent >= *place - 1u)
			same->loops = true;
		else
			same->many = true;
		/* (a parent has a lower number than its children: no circle) */
		if (is_likelier(&node, same) && parent < *place - 1u) {
			node.many = true;
			node.loops = same->loops;
			*same = node;
		}
	} else if (q->n == q->max) {
		q->doubtful = true;
	} else {
		q->nodes[q->n++] = node;
		*place = (uint16_t)q->n;
	}
}

/* @outer has called the function of @node. */
static void add_goal(struct search *q, uint32_t node, const struct script_caller *outer)
{
	const struct script_node *p = &q->nodes[node];
	uint32_t seen = (uint32_t)min_u64(outer->seen, p->seen);

	if (p->anchored && q->room->end && p->top != q->room->end)
		return;
	if (q->room->root && (node ? p->top == q->nodes[p->parent].top : !q->room->top))
		return;
	if (!q->n_goals++ || seen > q->seen) {
		q->seen_next = q->n_goals > 1 ? q->seen : 0;
		q->seen = seen;
		q->goal = node;
	} else {
		q->seen_next = (uint32_t)max_u64(q->seen_next, seen);
	}
}

/* Is there one sequence, or one that is far more frequent than the others? */
static bool has_goal(const struct search *q)
{
	return q->n_goals == 1 || (q->n_goals && q->seen >= (uint64_t)RARE * q->seen_next);
}

/* Was the call from a generator @caller seen once, where others of @c were seen more often?  The generator's memory may have been
 * another one's. */
static bool is_chance(const struct script_callee *c, const struct script_caller *caller)
{
	if (caller->size || caller->seen > 1 || caller->id == SCRIPT_RUN_ENDS)
		return false;
	for (uint32_t i = 0; i < c->n; i++)
		if (c->callers[i].seen > 1)
			return true;
	return false;
}

static void expand(struct search *q, uint32_t node)
{
	const struct script_callee *c = callee_of(q->s, q->nodes[node].id);
	bool chance = false;

	if (!is_known(q->s, c, q->nodes[node].id) || c->crowded) {
		q->doubtful = true;
		return;
	}
	for (uint32_t i = 0; i < c->n; i++)
		chance |= is_chance(c, &c->callers[i]);
	for (uint32_t i = 0; i < c->n; i++)
		if (c->callers[i].id == q->room->outer)
			add_goal(q, node, &c->callers[i]);
		else if (c->callers[i].id != SCRIPT_RUN_ENDS && !is_chance(c, &c->callers[i]))
			add_node(q, node, &c->callers[i], chance);
}

/* From the outermost function of the run inwards.  Where several sequences fit, the likely one is a guess; up to a frame that
 * often changes between functions with frames as large. */
static void collect(const struct search *q, struct script_callers *ret)
{
	const struct script_node *goal = &q->nodes[q->goal];
	uint32_t i = q->goal, seen = UINT32_MAX;
	uint64_t outer = q->room->outer;
	bool many = q->n_goals > 1 || q->nodes[0].many || q->nodes[0].loops;

	ret->anchored = goal->anchored && q->room->end;
	for (; i; i = q->nodes[i].parent) {
		const struct script_node *node = &q->nodes[i];
		const struct script_callee *c = callee_of(q->s, node->id);
		uint64_t inner = q->nodes[node->parent].id;
		bool doubtful = may_have_twin(q->s, inner, node->id, outer);

		if (ret->n == SCRIPT_PATH) {
			ret->n = 0;
			return;
		}
		/* Where sequences meet, and outwards of it, there is one alone. */
		many |= node->loops;
		if (script_flips(q->s, node->top) &&
		    ((doubtful && callee_of(q->s, inner)->n > 1) ||
		     (many && script_call_has_twin(q->s, inner, node->id, outer))))
			break;
		seen = (uint32_t)min_u64(seen, c->seen);
		ret->path[ret->n++] = (struct script_caller_frame){
			.id = node->id,
			.top = node->top,
			.hidden = node->hidden,
			.proved = !many && !doubtful && !node->guess,
		};
		many |= node->many;
		outer = node->id;
	}
	seen = (uint32_t)min_u64(seen, callee_of(q->s, q->nodes[0].id)->seen);
	ret->whole = !i;
	ret->proved = !q->doubtful && seen >= (ret->anchored ? SEEN_MANY : SEEN_ALL);
	for (i = 0; i < ret->n; i++)
		ret->path[i].proved &= ret->proved;
	ret->room = q->nodes[0].top - goal->top;
}

static bool search(struct native_script *s, const struct script_room *room,
		   struct script_callers *ret)
{
	struct search q = {
		.s = s,
		.room = room,
		.nodes = s->nodes,
		.n = 1,
		.max = room->top && room->end ? SCRIPT_NODES : LOOSE_NODES,
	};

	memset(s->node_places, 0, sizeof(s->node_places));
	q.nodes[0] = (struct script_node){
		.id = room->id,
		.top = room->top ? room->top : NO_ROOM,
		.seen = UINT32_MAX,
		.anchored = room->top,
	};
	*place_of_node(&q, &q.nodes[0]) = 1;
	for (uint32_t i = 0; i < q.n && script_step(s, 16); i++)
		expand(&q, i);
	if (!q.n_goals && room->end && room->top == room->end && room->outer == SCRIPT_RUN_ENDS) {
		ret->whole = ret->anchored = true; /* it has the room alone */
		return true;
	}
	if (has_goal(&q))
		collect(&q, ret);
	ret->doubtful = q.doubtful;
	return ret->whole;
}

bool script_call_search(struct native_script *s, const struct script_room *room,
			struct script_callers *ret)
{
	uint64_t key = hash_u64(
		room->id ^ hash_u64(room->top ^ hash_u64(room->end ^ room->outer ^ room->root)));
	uint64_t *vain = &s->vain[key % SCRIPT_VAIN];

	*ret = (struct script_callers){.n = 0};
	key = (key ^ hash_u64(s->n_calls ^ (uint64_t)s->serial << 32)) & ~1ull;
	if ((*vain & ~1ull) == key) {
		ret->doubtful = *vain & 1;
		return false;
	}
	if (search(s, room, ret))
		return true;
	*vain = key | ret->doubtful;
	return false;
}
