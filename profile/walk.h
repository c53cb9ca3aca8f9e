/* walk.h - the calls of many groups as one tree, in preorder, without the tree being there.  Thread:
 * main (of a command).
 *
 * The profile's stacks are a tree of frames already.  A walk links the part of it that some groups
 * need, then goes down it, taking calls of one symbol under one caller together, whatever their
 * frames.  What it needs is 12 bytes a node of the profile, however many walks there are. */
#pragma once

#include "profile/fold.h"

struct walk_call {
	uint32_t symbol;
	bool inlined; /* in every stack that comes here */
	bool guessed; /* in one stack */
	/* of the stacks that end here */
	uint64_t self_count, self_weight;
	/* of the stacks in which it is guessed; in which it or a caller is; with `weights` */
	uint64_t guessed_weight, path_guessed_weight;
};

struct walk_visitor {
	/* Calls of equal rank under one caller are one.  NULL: each symbol is its own. */
	const uint32_t *rank;
	/* Not NULL: stacks that end in a call and those that go on from it are visited one after the
	 * other, by these ranks and those above: the order of lines.  A visit has a self count, or
	 * calls below it. */
	const uint32_t *end_rank;
	/* < 0 ends the walk. */
	int (*enter)(void *arg, const struct walk_call *call);
	void (*leave)(void *arg);
	void *arg;
};

struct walk {
	struct fold *fold; /* borrowed */
	struct walk_links {
		uint32_t child, next, group; /* + 1; 0: none.  next of the last: UINT32_MAX */
	} * links;			     /* by node of the profile */
	uint32_t roots;
	uint64_t *weights;     /* by node: of the stacks through it.  NULL: not asked for */
	uint8_t *path_guessed; /* by node: it or a caller is guessed; with `weights` */
	const uint32_t *order; /* groups */
	uint64_t *items;       /* rank, node, call in the frame: of the levels being visited */
	size_t n_items, room_items;
	struct walk_level {
		size_t at, end; /* items */
	} * levels;
	size_t n_levels, room_levels;
	uint64_t visited;
};

/* -ENOMEM, -E2BIG. */
int walk_init(struct walk *w, struct fold *fold);
void walk_deinit(struct walk *w);
/* Before a walk: the weights of guesses are wanted.  -ENOMEM, -E2BIG. */
int walk_weigh_guesses(struct walk *w);
/* One tree of the @n groups with numbers in @order, ordered by stack; groups of one marker stand together and under it.
 * -E2BIG: all walks together visited too much. */
int walk_marked(struct walk *w, const uint32_t *order, size_t n,
		const struct walk_visitor *visitor);
