/* fold.h - a profile boiled down for its writers.  Thread: main (of a command).
 *
 * Two things are done once here for all formats:
 *   symbols  the lines of a frame become small ids: equal (name, module) is equal id.  Inlined calls
 *            are calls of their own; a function without a name is called after its module,
 *            "[libx.so]", not after each address;
 *   groups   samples that are equal in (process, thread, stack, how it ended) are one, with their
 *            count and weight.
 *
 * A stack that did not reach a root ends (at the root side) in a marker: a symbol called "[cut]",
 * "[failed: reason]" or "[no stack]", so that every picture shows it and every tool can filter it.
 * It replaces the frame that marks this in the trace: "[cut]", "[failed: reason]", or "ERROR X" of a
 * stock service. */
#pragma once

#include "profile/profile.h"

enum fold_kind { FOLD_USER, FOLD_KERNEL, FOLD_MARKER };

struct fold_symbol {
	uint32_t name;	 /* in names */
	uint32_t module; /* index in the profile's modules; UINT32_MAX: none */
	enum fold_kind kind;
	enum frame_kind
		frame_kind; /* of FOLD_USER, where it is shown: its name ends in it, "f [java-c2]" */
};
struct fold_group {
	uint32_t thread; /* index in the profile's */
	uint32_t stack;	 /* UINT32_MAX: none */
	uint32_t marker; /* symbol; UINT32_MAX: whole */
	uint32_t count;
	uint64_t weight;
};

/* A call is a symbol's id with these bits: it was inlined into the next call outwards; it was found
 * by its frame pointer alone. */
#define FOLD_INLINED (1u << 31)
#define FOLD_GUESSED (1u << 30)
static inline uint32_t fold_call_symbol(uint32_t call)
{
	return call & ~(FOLD_INLINED | FOLD_GUESSED);
}

/* Their numbers leave room for others next to them (walk.c). */
enum { FOLD_MAX_SYMBOLS = 1 << 23 };

struct fold {
	const struct profile *profile;	   /* borrowed */
	const struct profile_filter *only; /* borrowed; NULL: all of it */
	struct string_table names;
	struct fold_symbol *symbols;
	uint32_t n_symbols, symbols_room;
	struct hash_index symbol_index;
	uint64_t seed;
	uint32_t *calls;	   /* of all frames, innermost first */
	uint32_t *first_call;	   /* by frame; [n_frames] is the end of the last */
	struct fold_group *groups; /* by process, thread, stack, marker */
	size_t n_groups, groups_room;
	size_t max_depth;		/* of any group, the marker counted */
	uint64_t n_calls;		/* in the stacks of all groups */
	uint64_t count, weight;		/* of all groups */
	uint64_t cut, failed, no_stack; /* of the count: by their markers */
	uint64_t skipped;		/* samples of the trace that are in no group */
	uint64_t held;			/* bytes, with the profile's */
};

/* The bytes of the kind at the end of the name of @symbol: " [java-c2]"; 0: none. */
size_t fold_kind_suffix(const struct fold *f, uint32_t symbol);
/* @only NULL: all.  -ENOMEM; -E2BIG: profile_strerror(). */
int fold_init(struct fold *f, const struct profile *profile, const struct profile_filter *only);
void fold_deinit(struct fold *f);

/* Counts @bytes that are about to be taken, or (negative) were given back.  -E2BIG: over what a writer
 * of this profile may hold; @what it holds too much of. */
int fold_hold(struct fold *f, int64_t bytes, const char *what);
/* Twice the room for an array, @first at first, counted @times.  -ENOMEM, -E2BIG: as fold_hold(). */
#define fold_grow(fold, array, room, first, times, what)                                   \
	__extension__({                                                                    \
		size_t more_n_ = ((room) ? (room) : (first)) * (times) * sizeof(*(array)); \
		int held_ = fold_hold((fold), (int64_t)more_n_, (what));                   \
                                                                                           \
		held_ >= 0 && !array_grow(array, room, first) ? fail(-ENOMEM) : held_;     \
	})
/* New memory of @n items and one more, zeroed and counted. */
int fold_array(struct fold *f, size_t n, size_t size, const char *what, void *ret_array);
/* -E2BIG when @n is more than @bound of @what: what a writer's time is bounded by. */
int fold_limit(const struct fold *f, uint64_t n, uint64_t bound, const char *what);
static inline uint32_t fold_process(const struct fold *f, const struct fold_group *group)
{
	return f->profile->threads[group->thread].process;
}
/* Marks by symbol which functions a person means by @wanted: functions of that name, else of that name without
 * parameters, else of that last part.  New memory.  -ENOENT: profile_strerror() has the nearest names. */
int fold_find_function(struct fold *f, const char *wanted, uint8_t **ret_match);
/* The numbers of all groups, ordered by @compare, which gets two of them and @arg.  New memory, counted twice: for sorting. */
int fold_order(struct fold *f, int (*compare)(const void *, const void *, void *), void *arg,
	       uint32_t **ret_order);
/* By process: the first process of its name (itself, where it has none).  New memory. */
int fold_same_names(struct fold *f, uint32_t **ret_first);
/* Is this node the root of a stack that only marks an error?  It is not shown: the marker is. */
bool fold_is_error(const struct fold *f, uint32_t node);

/* The calls of a group, root first, the marker before them.  @to has room for max_depth; returns
 * how many. */
size_t fold_stack(const struct fold *f, const struct fold_group *group, uint32_t *to);

static inline const char *fold_symbol_name(const struct fold *f, uint32_t symbol)
{
	return string_table_text(&f->names, f->symbols[symbol].name);
}
/* Path of the symbol's module, "" when there is none. */
const char *fold_symbol_module(const struct fold *f, uint32_t symbol);
/* The part behind the last slash. */
const char *fold_base_name(const char *path);
/* What is shown for a thread and a process, never empty.  Into @to where the trace has no name. */
const char *fold_thread_name(const struct fold *f, uint32_t thread, char to[32]);
const char *fold_process_name(const struct fold *f, uint32_t process, char to[32]);
