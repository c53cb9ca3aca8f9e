/* mark-functions.c - see mark-functions.h.
 *
 * Open functions of a thread, outermost first, of all its stacks together.  A slice is given when it ends, so an inner one
 * before its caller; readers sort by time.  Slices of one thread have to nest: where a function ends while one of another
 * stack, begun later, is still open (a suspended coroutine), the latter is given in two parts.
 *
 * The work of one mark is bounded: SEARCH_MAX functions are passed over, SPLITS_MAX are given in parts.  The end
 * of a function needs no bound: it happens once for each begin. */
#include "marks/mark-functions.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/table.h"

enum {
	STACKS_MAX = 256,
	SEARCH_MAX =
		1024, /* open functions that are passed over; those further out end with their thread */
	SPLITS_MAX =
		128, /* functions of other stacks that are given in two parts; further ones end */
	ROOM_LEAST = 16, /* open functions of a thread */
};
/* Stack pointers further apart are on different stacks. */
#define STACK_SPAN (64ull << 20)

struct open_function {
	uint64_t address, site, sp, begin;
	uint32_t stack; /* 0: not known */
	uint8_t uncaught;
	bool resumed, gap;
};

struct thread {
	uint32_t tid;
	uint64_t last; /* the time of its latest mark */
	struct open_function *open;
	size_t n, room;
};

struct mark_functions {
	struct mark_functions_options options;
	struct table threads; /* tid -> struct thread */
	struct stack {
		uint64_t start, end;
	} stacks[STACKS_MAX];
	size_t n_stacks, next_stack;
	uint64_t dropped;
	size_t own_rooms, *rooms; /* of open functions, in all threads */
};

int mark_functions_new(const struct mark_functions_options *options, struct mark_functions **ret)
{
	struct mark_functions *f = calloc(1, sizeof(*f));

	if (!f)
		return fail(-ENOMEM);
	f->options = *options;
	f->rooms = options->rooms ? options->rooms : &f->own_rooms;
	*ret = f;
	return 0;
}

/* Room for @room open functions, as far as the recording has it. */
static bool set_room(struct mark_functions *f, struct thread *t, size_t room)
{
	struct open_function *open;

	if (room > t->room && *f->rooms + (room - t->room) > MARK_FUNCTIONS_OPEN)
		return false;
	open = reallocarray(t->open, room, sizeof(*open));
	if (!open)
		return false;
	*f->rooms = *f->rooms - t->room + room;
	t->open = open;
	t->room = room;
	return true;
}

static void free_thread(struct mark_functions *f, struct thread *t)
{
	*f->rooms -= t->room;
	free(t->open);
	free(t);
}

struct mark_functions *mark_functions_free(struct mark_functions *f)
{
	if (!f)
		return NULL;
	table_for_each (&f->threads, slot)
		free_thread(f, (struct thread *)(uintptr_t)slot->value);
	table_deinit(&f->threads);
	free(f);
	return NULL;
}

uint64_t mark_functions_dropped(const struct mark_functions *f)
{
	return f->dropped;
}

/* NULL and 0: there are too many. */
static int thread_of(struct mark_functions *f, uint32_t tid, struct thread **ret)
{
	struct thread *t = table_pointer(&f->threads, tid);
	int r;

	*ret = t;
	if (t || f->threads.n_used >= MARK_FUNCTIONS_THREADS)
		return 0;
	t = calloc(1, sizeof(*t));
	if (!t)
		return fail(-ENOMEM);
	t->tid = tid;
	if (!set_room(f, t, ROOM_LEAST)) {
		free(t);
		return 0;
	}
	r = table_put(&f->threads, tid, (uintptr_t)t);
	if (r < 0) {
		free_thread(f, t);
		return fail(r);
	}
	*ret = t;
	return 0;
}

/* ---- stacks ---- */

int mark_functions_stack(struct mark_functions *f, uint64_t start, uint64_t end)
{
	if (end <= start)
		return 0;
	for (size_t i = 0; i < f->n_stacks; i++) {
		if (f->stacks[i].start == start && f->stacks[i].end == end)
			return 0;
		if (f->stacks[i].start < end &&
		    start < f->stacks[i].end) { /* its memory is used again */
			f->stacks[i] = (struct stack){start, end};
			return 0;
		}
	}
	if (f->n_stacks < STACKS_MAX)
		f->stacks[f->n_stacks++] = (struct stack){start, end};
	else
		f->stacks[f->next_stack++ % STACKS_MAX] = (struct stack){start, end};
	return 0;
}

/* The address of a frame's end may be the end of its stack. */
static uint32_t stack_of(const struct mark_functions *f, uint64_t sp)
{
	for (size_t i = 0; i < f->n_stacks; i++)
		if (sp > f->stacks[i].start && sp <= f->stacks[i].end)
			return (uint32_t)i + 1;
	return 0;
}

static bool is_same_stack(const struct open_function *o, uint32_t stack, uint64_t sp)
{
	uint64_t apart = o->sp > sp ? o->sp - sp : sp - o->sp;

	return o->stack == stack && (stack || apart < STACK_SPAN);
}

/* ---- slices ---- */

static int give(const struct mark_functions *f, const struct thread *t,
		const struct open_function *o, uint64_t end, enum mark_functions_end how)
{
	const struct mark_function_slice slice = {.tid = t->tid,
						  .begin = o->begin,
						  .end = max_u64(end, o->begin),
						  .address = o->address,
						  .how = how,
						  .depth = (uint32_t)(o - t->open),
						  .resumed = o->resumed};

	if (slice.end - slice.begin < f->options.min_ns)
		return 0;
	return f->options.slice(f->options.arg, &slice);
}

/* Functions further in than @i, of other stacks: more than SPLITS_MAX end here, as their ends would be too much work. */
static int end_many(const struct mark_functions *f, struct thread *t, size_t i, uint64_t time)
{
	int r = 0;

	while (t->n - 1 - i > SPLITS_MAX && r >= 0) {
		t->n--;
		r = give(f, t, &t->open[t->n], time, MARK_FUNCTION_LOST);
	}
	return r < 0 ? trace(r) : 0;
}

/* Ends the open function @i at @time. */
static int close_one(struct mark_functions *f, struct thread *t, size_t i, uint64_t time,
		     enum mark_functions_end how)
{
	int r = end_many(f, t, i, time);

	if (how == MARK_FUNCTION_LEFT && t->open[i].gap)
		how = MARK_FUNCTION_LOST;
	for (size_t above = t->n; --above > i && r >= 0;) {
		r = give(f, t, &t->open[above], time, MARK_FUNCTION_RETURNED);
		t->open[above].begin = time + above - i;
		t->open[above].resumed = true;
	}
	if (r >= 0)
		r = give(f, t, &t->open[i], time, how);
	t->n--;
	memmove(&t->open[i], &t->open[i + 1], (t->n - i) * sizeof(t->open[0]));
	if (t->room > 4 * ROOM_LEAST && t->n < t->room / 4)
		(void)set_room(f, t, t->room / 2);
	return r < 0 ? trace(r) : 0;
}

/* Has @o been outlived by a function that begins at @at? */
static bool is_dead(const struct open_function *o, const struct mark_function *at)
{
	bool inlined = o->sp == at->sp && o->site == at->site && o->address != at->address;

	/* What @at has called begins where its own frame ends, which no live frame reaches into. */
	return !inlined && (o->sp <= at->sp || (at->frame && o->sp < at->frame));
}

int mark_functions_enter(struct mark_functions *f, const struct mark_function *at)
{
	uint32_t stack = stack_of(f, at->sp);
	struct thread *t;
	uint64_t begin;
	size_t passed = 0;
	int r = thread_of(f, at->tid, &t);

	if (r < 0)
		return trace(r);
	for (size_t i = t ? t->n : 0; i-- > 0 && passed < SEARCH_MAX && r >= 0;) {
		if (!is_same_stack(&t->open[i], stack, at->sp)) {
			passed++;
			continue;
		}
		if (!is_dead(&t->open[i], at))
			break;
		r = close_one(f, t, i, t->last, MARK_FUNCTION_LEFT);
	}
	if (r < 0)
		return trace(r);
	if (!t || t->n == MARK_FUNCTIONS_DEPTH ||
	    (t->n == t->room && !set_room(f, t, t->room * 2))) {
		f->dropped++;
		return 0;
	}
	/* After its caller, also where the clock stands still. */
	begin = t->n ? max_u64(at->time, t->open[t->n - 1].begin + 1) : at->time;
	t->open[t->n++] = (struct open_function){.address = at->address,
						 .site = at->site,
						 .sp = at->sp,
						 .begin = begin,
						 .stack = stack,
						 .uncaught = at->uncaught};
	t->last = max_u64(t->last, at->time);
	return 0;
}

/* The open function that ends at @at; @stack is its stack.  t->n: none, it began before the recording. */
static size_t find_open(const struct thread *t, const struct mark_function *at, uint32_t stack)
{
	size_t outermost = t->n, passed = 0;

	for (size_t i = t->n; i-- > 0 && passed < SEARCH_MAX;) {
		const struct open_function *o = &t->open[i];
		bool is = o->address == at->address && o->site == at->site;
		bool same = is_same_stack(o, stack, at->sp);

		/* The others end with this mark. */
		passed += !same || o->sp >= at->sp;
		if (!same)
			continue;
		if (at->tail && o->sp >= at->sp)
			break;
		if (at->tail)
			outermost = is ? i : outermost;
		/* alloca() may have moved the stack pointer down since. */
		else if (is && o->sp >= at->sp)
			return i;
	}
	return outermost;
}

int mark_functions_leave(struct mark_functions *f, const struct mark_function *at)
{
	struct thread *t = table_pointer(&f->threads, at->tid);
	uint32_t stack = stack_of(f, at->sp);
	size_t found = t ? find_open(t, at, stack) : 0, passed = 0;
	int r = 0;

	if (!t)
		return 0;
	/* The functions that it called, and those further down where it is not known. */
	for (size_t i = t->n; i-- > 0 && passed <= SEARCH_MAX && r >= 0;) {
		bool called = found < t->n ? i > found : t->open[i].sp < at->sp;

		if (i == found)
			break;
		if (called && is_same_stack(&t->open[i], stack, at->sp))
			r = close_one(f, t, i, t->last, MARK_FUNCTION_LEFT);
		else
			passed++;
	}
	t->last = max_u64(t->last, at->time);
	if (r >= 0 && found < t->n)
		r = close_one(f, t, found, at->time,
			      at->uncaught > t->open[found].uncaught ? MARK_FUNCTION_LEFT
								     : MARK_FUNCTION_RETURNED);
	return r < 0 ? trace(r) : 0;
}

void mark_functions_gap(struct mark_functions *f, uint32_t tid)
{
	struct thread *t = table_pointer(&f->threads, tid);

	for (size_t i = 0; t && i < t->n; i++)
		t->open[i].gap = true;
}

static int end_thread(struct mark_functions *f, struct thread *t, uint64_t time)
{
	int r = 0;

	while (t->n && r >= 0)
		r = close_one(f, t, t->n - 1, time, MARK_FUNCTION_ENDED);
	return r < 0 ? trace(r) : 0;
}

int mark_functions_thread_end(struct mark_functions *f, uint32_t tid, uint64_t time)
{
	struct thread *t = table_pointer(&f->threads, tid);
	int r = t ? end_thread(f, t, time) : 0;

	if (t) {
		(void)table_remove(&f->threads, tid);
		free_thread(f, t);
	}
	return r < 0 ? trace(r) : 0;
}

int mark_functions_end(struct mark_functions *f)
{
	int r = 0;

	table_for_each (&f->threads, slot) {
		struct thread *t = (struct thread *)(uintptr_t)slot->value;

		if (r >= 0)
			r = end_thread(f, t, t->last);
		free_thread(f, t);
	}
	table_clear(&f->threads);
	return r < 0 ? trace(r) : 0;
}
