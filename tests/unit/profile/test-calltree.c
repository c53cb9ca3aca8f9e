/* test-calltree.c - sums, order and levels of a hand-built tree. */
#include "profile/calltree.h"
#include "tests/unit/profile/hand.h"

/* The child of @node that is called @name; fails when there is none. */
static uint32_t child(const struct calltree *t, const struct fold *f, uint32_t node,
		      const char *name)
{
	calltree_for_each_child(t, node,
				c) if (!strcmp(fold_symbol_name(f, t->nodes[c].id), name)) return c;
	fail_msg("no child %s", name);
	return 0;
}

static void assert_node(const struct calltree *t, uint32_t node, uint64_t self_count,
			uint64_t self_weight, uint64_t count, uint64_t weight)
{
	assert_int_equal(t->nodes[node].self_count, self_count);
	assert_int_equal(t->nodes[node].self_weight, self_weight);
	assert_int_equal(t->nodes[node].count, count);
	assert_int_equal(t->nodes[node].weight, weight);
}

static void sums_go_up(void **state)
{
	struct profile p = hand_example();
	struct calltree t;
	struct fold f;
	uint32_t start, main_, work, recurse;

	(void)state;
	p.frames[3].guessed = true; /* recurse */
	assert_int_equal(fold_init(&f, &p, NULL), 0);
	assert_int_equal(f.count, 9);
	assert_int_equal(f.weight, 70);
	assert_int_equal(f.cut, 1);
	assert_int_equal(f.failed, 0);
	assert_int_equal(f.skipped, 1);
	assert_int_equal(calltree_init(&t, &f, false, false, 0), 0);
	assert_node(&t, 0, 0, 0, 9, 70);
	start = child(&t, &f, 0, "_start");
	assert_int_equal(t.nodes[0].child, start); /* heaviest first */
	assert_node(&t, start, 0, 0, 7, 61);
	main_ = child(&t, &f, start, "main");
	assert_node(&t, main_, 0, 0, 7, 61);
	work = child(&t, &f, main_, "work");
	assert_int_equal(t.nodes[main_].child, work); /* 31, then sys_read 20, recurse 10 */
	assert_int_equal(t.nodes[work].next, child(&t, &f, main_, "sys_read"));
	assert_node(&t, work, 0, 0, 4, 31);
	assert_false(t.nodes[work].inlined);
	assert_node(&t, child(&t, &f, work, "tiny"), 4, 31, 4, 31);
	assert_true(t.nodes[child(&t, &f, work, "tiny")].inlined);
	recurse = child(&t, &f, main_, "recurse");
	assert_node(&t, recurse, 0, 0, 2, 10);
	assert_int_equal(t.nodes[recurse].guessed_weight, 10);
	assert_int_equal(t.nodes[t.nodes[recurse].child].guessed_weight, 10);
	assert_int_equal(t.nodes[main_].guessed_weight + t.nodes[work].guessed_weight, 0);
	assert_node(&t, child(&t, &f, recurse, "recurse"), 2, 10, 2, 10);
	assert_node(&t, child(&t, &f, child(&t, &f, 0, "[cut]"), "[libx.so]"), 1, 7, 1, 7);
	assert_node(&t, child(&t, &f, 0, "[no stack]"), 1, 2, 1, 2);
	calltree_deinit(&t);
	fold_deinit(&f);
	profile_deinit(&p);
}

static void levels_split_processes_and_threads(void **state)
{
	struct profile p = hand_example();
	struct calltree t;
	struct fold f;
	uint32_t app, thread;

	(void)state;
	assert_int_equal(fold_init(&f, &p, NULL), 0);
	assert_int_equal(calltree_init(&t, &f, true, true, 0), 0);
	app = t.nodes[0].child;
	assert_int_equal(t.nodes[app].kind, CALLTREE_PROCESS);
	assert_int_equal(p.processes[t.nodes[app].id].pid, 100);
	assert_node(&t, app, 0, 0, 7, 67);
	thread = t.nodes[app].child;
	assert_int_equal(t.nodes[thread].kind, CALLTREE_THREAD);
	assert_int_equal(p.threads[t.nodes[thread].id].tid, 100);
	assert_node(&t, thread, 0, 0, 6, 60);
	assert_int_equal(p.threads[t.nodes[t.nodes[thread].next].id].tid, 101);
	assert_node(&t, t.nodes[thread].next, 0, 0, 1, 7);
	assert_int_equal(p.processes[t.nodes[t.nodes[app].next].id].pid, 200);
	assert_node(&t, t.nodes[app].next, 0, 0, 2, 3);
	assert_int_equal(t.nodes[t.nodes[app].next].next, 0);
	calltree_deinit(&t);
	fold_deinit(&f);
	profile_deinit(&p);
}

/* Ids at the ends of their range meet no other node. */
static void extreme_ids_are_nodes_of_their_own(void **state)
{
	struct profile p = hand_example();
	struct calltree t;
	struct fold f;
	unsigned n = 0;

	(void)state;
	hand_sample(&p, 0, 0, 0, 100);
	hand_sample(&p, UINT32_MAX, UINT32_MAX, 0, 200);
	assert_int_equal(fold_init(&f, &p, NULL), 0);
	assert_int_equal(calltree_init(&t, &f, true, true, 0), 0);
	assert_int_equal(p.processes[t.nodes[t.nodes[0].child].id].pid, UINT32_MAX);
	calltree_for_each_child(&t, 0, c)
	{
		n++;
		assert_int_equal(t.nodes[c].kind, CALLTREE_PROCESS);
	}
	assert_int_equal(n, 4);
	assert_node(&t, 0, 0, 0, 11, 370);
	calltree_deinit(&t);
	fold_deinit(&f);
	profile_deinit(&p);
}

static void an_empty_profile_is_a_root(void **state)
{
	struct profile p = hand_empty();
	struct calltree t;
	struct fold f;

	(void)state;
	assert_int_equal(fold_init(&f, &p, NULL), 0);
	assert_int_equal(f.n_groups, 0);
	assert_int_equal(calltree_init(&t, &f, true, true, 0), 0);
	assert_int_equal(t.n_nodes, 1);
	assert_int_equal(t.nodes[0].child, 0);
	calltree_deinit(&t);
	fold_deinit(&f);
	profile_deinit(&p);
}

/* main a b a b a leaf -> main a leaf; b of another stack stays; a function of that name elsewhere is another. */
static void test_recursion(void **state)
{
	struct profile p = hand_empty();
	uint32_t app = hand_module(&p, "/app", false), lib = hand_module(&p, "/lib", false);
	uint32_t main_ = hand_frame(&p, app, 1, "main", NULL),
		 a = hand_frame(&p, app, 2, "a", NULL), a2 = hand_frame(&p, app, 3, "a", "small"),
		 b = hand_frame(&p, app, 4, "b", NULL), other = hand_frame(&p, lib, 5, "a", NULL),
		 none = hand_frame(&p, app, 6, NULL, NULL);
	uint32_t deep = HAND_STACK(&p, none, none, a2, b, a, b, a, main_),
		 flat = HAND_STACK(&p, b, other, a, main_), node;
	static const uint32_t wanted[] = {5, 5, 2, 0}, wanted_flat[] = {3, 4, 1, 0};

	(void)state;
	profile_collapse_recursion(&p);
	node = deep;
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++, node = p.nodes[node].up)
		assert_int_equal(p.nodes[node].frame, wanted[i]);
	assert_int_equal(node, UINT32_MAX);
	node = flat;
	for (size_t i = 0; i < ARRAY_SIZE(wanted_flat); i++, node = p.nodes[node].up)
		assert_int_equal(p.nodes[node].frame, wanted_flat[i]);
	assert_int_equal(node, UINT32_MAX);
	profile_deinit(&p);
}

/* The paths from a function inwards, and outwards. */
static void focus_on_a_function(void **state)
{
	struct profile p = hand_example();
	struct calltree t;
	struct fold f;
	uint32_t work, main_;

	(void)state;
	assert_int_equal(fold_init(&f, &p, NULL), 0);
	assert_int_equal(calltree_init_focus(&t, &f, "work", false), 0);
	assert_node(&t, 0, 0, 0, 4, 31);
	work = child(&t, &f, 0, "work");
	assert_node(&t, work, 0, 0, 4, 31);
	assert_node(&t, child(&t, &f, work, "tiny"), 4, 31, 4, 31);
	calltree_deinit(&t);
	assert_int_equal(calltree_init_focus(&t, &f, "work", true), 0);
	work = child(&t, &f, 0, "work");
	main_ = child(&t, &f, work, "main");
	assert_node(&t, main_, 0, 0, 4, 31);
	assert_node(&t, child(&t, &f, main_, "_start"), 0, 0, 4, 31);
	calltree_deinit(&t);
	/* A recursive function once in a stack. */
	assert_int_equal(calltree_init_focus(&t, &f, "recurse", false), 0);
	assert_node(&t, 0, 0, 0, 2, 10);
	calltree_deinit(&t);
	assert_int_equal(calltree_init_focus(&t, &f, "no_such_function", false), -ENOENT);
	fold_deinit(&f);
	profile_deinit(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recursion),
		cmocka_unit_test(sums_go_up),
		cmocka_unit_test(levels_split_processes_and_threads),
		cmocka_unit_test(extreme_ids_are_nodes_of_their_own),
		cmocka_unit_test(an_empty_profile_is_a_root),
		cmocka_unit_test(focus_on_a_function),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
