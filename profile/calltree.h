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
	uint32_t n_processes;	      /* of a process's node: that have its name, and samples */
	uint32_t parent, child, next; /* nodes; 0: none */
	/* of the stacks in which it is guessed; in which it or a call above it in the tree is */
	uint64_t guessed_weight, path_guessed_weight;
	uint64_t self_count, self_weight, count, weight;
};
struct calltree {
	struct calltree_node *nodes;
	uint32_t n_nodes, room;
};

/* Branches that weigh less than @least are left out, but their weight counts above them.  Processes of one name
 * are one node.  -ENOMEM, -E2BIG. */
int calltree_init(struct calltree *t, struct fold *fold, bool processes, bool threads,
		  uint64_t least);
/* The paths from the function @name inwards (@callers false) or outwards (true: a node's children are its callers),
 * without processes and threads.  A recursive function is met once in a stack: at its outermost or innermost call.
 * -ENOENT: profile_strerror(). */
int calltree_init_focus(struct calltree *t, struct fold *fold, const char *name, bool callers);
void calltree_deinit(struct calltree *t);

#define calltree_for_each_child(t, node, child_) \
	for (uint32_t child_ = (t)->nodes[node].child; child_; child_ = (t)->nodes[child_].next)
