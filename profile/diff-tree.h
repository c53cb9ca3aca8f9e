/* diff-tree.h - the calls of two profiles as one tree, matched by name from the process on.  Thread: main (of a command). */
#pragma once

#include "base/bytes.h"
#include "profile/fold.h"

enum { DIFF_TREE_NODES = 1 << 20 };

struct diff_tree_node {
	uint32_t up;   /* always before this node; UINT32_MAX: a process */
	uint32_t name; /* in names */
	uint32_t self_count[2],
		count[2]; /* samples of A and B: of the call alone, with all below it */
	uint64_t self_weight[2], weight[2];
};
struct diff_tree {
	struct string_table names;
	struct diff_tree_node *nodes;
	size_t n, room;
	struct table children; /* (parent + 1, name) -> index */
};

/* Adds the groups of @fold to side @which (0: A, 1: B).  -ENOMEM; -E2BIG: profile_strerror(). */
int diff_tree_add(struct diff_tree *tree, struct fold *fold, size_t which);
void diff_tree_deinit(struct diff_tree *tree);
/* "process;main;work" up to @node; of more than @most calls the outer ones become "...".  0: all. */
void diff_tree_path(const struct diff_tree *tree, uint32_t node, size_t most, struct buffer *to);

/* One page: a flame graph of both, red where B costs more, blue where it costs less.  @scale: of B's weights.  -errno of
 * writing. */
struct diff_page {
	const char *names[2]; /* of the files */
	const char *unit;
	double scale;
};
int diff_tree_page(const struct diff_tree *tree, const struct diff_page *page, FILE *out);
