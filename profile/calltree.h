/* calltree.h - all stacks of a profile as one tree.  Thread: main (of a command).
 *
 *   [0] root ── process ── thread ── root function ── ... ── leaf
 *
 * The process and thread levels are there when asked for.  Children are ordered by weight, heaviest
 * first. */
#pragma once

#include "profile/fold.h"

enum calltree_kind { CALLTREE_ROOT, CALLTREE_PROCESS, CALLTREE_THREAD, CALLTREE_CALL };

struct calltree_node {
	uint32_t id; /* index in processes or threads, or symbol */
	enum calltree_kind kind;
	bool inlined;		      /* in every stack that came here */
	bool guessed;		      /* in one of them */
	uint32_t parent, child, next; /* nodes; 0: none */
	uint64_t self_count, self_weight, count, weight;
};
struct calltree {
	struct calltree_node *nodes;
	uint32_t n_nodes, room;
};

/* Branches that weigh less than @least are left out, but their weight counts above them.  -ENOMEM,
 * -E2BIG. */
int calltree_init(struct calltree *t, struct fold *fold, bool processes, bool threads,
		  uint64_t least);
void calltree_deinit(struct calltree *t);

#define calltree_for_each_child(t, node, child_) \
	for (uint32_t child_ = (t)->nodes[node].child; child_; child_ = (t)->nodes[child_].next)
