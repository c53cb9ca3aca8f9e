/* test-intern.c - interned entries: which are written when, decoded by protobuf-c and not by our
 * own reader. */
#include <errno.h>

#include "trace/intern.h"
#include "protos/trace.pb-c.h"
#include "tests/unit/cmocka.h"

/* What is pending, taken. */
static Pb__InternedData *pending(struct intern *in)
{
	Pb__InternedData *data = pb__interned_data__unpack(NULL, in->pending.len, in->pending.data);

	assert_non_null(data);
	in->pending.len = 0;
	return data;
}

static void done(Pb__InternedData *data)
{
	pb__interned_data__free_unpacked(data, NULL);
}

static uint32_t frame(struct intern *in, uint32_t mapping, uint64_t rel_pc, const char *name)
{
	uint32_t id, name_id = 0;

	if (name)
		assert_int_equal(intern_name(in, name, &name_id), 0);
	assert_int_equal(intern_frame(in, mapping, rel_pc, name_id, &id), 0);
	return id;
}

static uint32_t callstack(struct intern *in, const uint32_t *ids, size_t n)
{
	uint32_t id;

	assert_int_equal(intern_callstack(in, ids, n, &id), 0);
	return id;
}

static void check_string(const Pb__InternedString *s, uint64_t iid, const char *text)
{
	assert_int_equal(s->iid, iid);
	assert_int_equal(s->str.len, strlen(text));
	assert_memory_equal(s->str.data, text, strlen(text));
}

static void test_entries(void **state)
{
	struct intern in;
	uint32_t m, ids[3];
	Pb__InternedData *d;

	(void)state;
	assert_int_equal(intern_init(&in), 0);
	assert_int_equal(
		intern_mapping(&in, "/usr//lib/libx.so", "\0\1\2", 3, 0x400000, 0x1000, &m), 0);
	assert_int_equal(m, 2);
	ids[0] = frame(&in, 1, 0, "do_idle");
	ids[1] = frame(&in, m, 0x401234, NULL);
	ids[2] = frame(&in, m, 0x7fffffffffffffff, "main");
	assert_int_equal(in.pending.len, 0); /* nothing is written before a stack uses it */
	assert_int_equal(callstack(&in, ids, 3), 1);
	d = pending(&in);
	assert_int_equal(d->n_mappings, 2);
	assert_int_equal(d->mappings[0]->iid, 1);
	assert_int_equal(d->mappings[0]->n_path_string_ids, 1);
	assert_false(d->mappings[0]->has_build_id || d->mappings[0]->has_start ||
		     d->mappings[0]->has_end);
	check_string(d->mapping_paths[0], d->mappings[0]->path_string_ids[0], "kernel");
	assert_int_equal(d->mappings[1]->iid, 2);
	assert_int_equal(d->mappings[1]->load_bias, 0x400000);
	assert_int_equal(d->mappings[1]->exact_offset, 0x1000);
	assert_int_equal(d->mappings[1]->n_path_string_ids, 3);
	assert_int_equal(d->n_mapping_paths, 4);
	for (size_t i = 0; i < 3; i++) {
		static const char *const parts[] = {"usr", "lib", "libx.so"};

		check_string(d->mapping_paths[1 + i], d->mappings[1]->path_string_ids[i], parts[i]);
	}
	assert_int_equal(d->n_build_ids, 1);
	assert_int_equal(d->build_ids[0]->iid, d->mappings[1]->build_id);
	assert_int_equal(d->build_ids[0]->str.len, 3);
	assert_memory_equal(d->build_ids[0]->str.data, "\0\1\2", 3);
	assert_int_equal(d->n_frames, 3);
	assert_int_equal(d->frames[0]->iid, ids[0]);
	assert_int_equal(d->frames[0]->mapping_id, 1);
	assert_false(d->frames[0]->has_rel_pc);
	assert_int_equal(d->frames[1]->rel_pc, 0x401234);
	assert_false(d->frames[1]->has_function_name_id);
	assert_int_equal(d->frames[2]->rel_pc, 0x7fffffffffffffff);
	assert_int_equal(d->n_function_names, 2);
	check_string(d->function_names[0], d->frames[0]->function_name_id, "do_idle");
	check_string(d->function_names[1], d->frames[2]->function_name_id, "main");
	assert_int_equal(d->n_callstacks, 1);
	assert_int_equal(d->callstacks[0]->iid, 1);
	assert_int_equal(d->callstacks[0]->n_frame_ids, 3);
	assert_int_equal(d->callstacks[0]->frame_ids[0], ids[2]); /* outermost first */
	assert_int_equal(d->callstacks[0]->frame_ids[2], ids[0]);
	done(d);
	intern_deinit(&in);
}

static void test_once(void **state)
{
	struct intern in;
	uint32_t a, b, c, m;
	Pb__InternedData *d;

	(void)state;
	assert_int_equal(intern_init(&in), 0);
	assert_int_equal(intern_mapping(&in, "/a", NULL, 0, 0, 0, &m), 0);
	a = frame(&in, m, 1, "a");
	b = frame(&in, m, 2, "b");
	c = frame(&in, m, 3, "a"); /* the same name, another address */
	assert_int_equal(callstack(&in, (uint32_t[]){a, b}, 2), 1);
	done(pending(&in));
	assert_int_equal(callstack(&in, (uint32_t[]){a, b}, 2), 1);
	assert_int_equal(in.pending.len, 0);
	assert_int_equal(callstack(&in, (uint32_t[]){c, b}, 2), 2);
	d = pending(&in);
	assert_int_equal(d->n_frames, 1);
	assert_int_equal(d->n_function_names, 0);
	assert_int_equal(d->n_mappings, 0);
	assert_int_equal(d->n_callstacks, 1);
	done(d);
	/* A new generation: everything again, at its next use and not before; callstack ids go on.
	 */
	intern_new_generation(&in);
	assert_int_equal(in.pending.len, 0);
	assert_int_equal(callstack(&in, (uint32_t[]){c}, 1), 3);
	d = pending(&in);
	assert_int_equal(d->n_frames, 1);
	assert_int_equal(d->frames[0]->iid, c);
	assert_int_equal(d->n_function_names, 1);
	assert_int_equal(d->n_mappings, 1);
	assert_int_equal(d->n_mapping_paths, 1);
	done(d);
	intern_deinit(&in);
}

static void test_same(void **state)
{
	struct intern in;
	uint32_t m, m2;
	Pb__InternedData *d;

	(void)state;
	assert_int_equal(intern_init(&in), 0);
	/* The kernel's mapping is there from the start; paths are compared as readers see them. */
	assert_int_equal(intern_mapping(&in, "kernel", NULL, 0, 0, 0, &m), 0);
	assert_int_equal(m, 1);
	assert_int_equal(intern_mapping(&in, "/a/b", "x", 1, 0, 0, &m), 0);
	assert_int_equal(intern_mapping(&in, "a//b/", "x", 1, 0, 0, &m2), 0);
	assert_int_equal(m2, m);
	assert_int_equal(intern_mapping(&in, "/a/b", "y", 1, 0, 0, &m2), 0);
	assert_int_equal(m2, m + 1);
	assert_int_equal(intern_mapping(&in, "/a/b", "y", 1, 0, 0x2000, &m2), 0);
	assert_int_equal(m2, m + 2);
	assert_int_equal(intern_mapping(&in, "", NULL, 0, 0, 0, &m2), 0);
	assert_int_equal(m2, m + 3);
	/* Kernel frames go by name, others by address. */
	assert_int_not_equal(frame(&in, 1, 0, "x"), frame(&in, 1, 0, "y"));
	assert_int_equal(frame(&in, 1, 0, "x"), frame(&in, 1, 0, "x"));
	assert_int_not_equal(frame(&in, 1, 0, "x"), frame(&in, 2, 0, "x"));
	assert_int_equal(frame(&in, 2, 5, "x"), frame(&in, 2, 5, "z"));
	assert_int_not_equal(frame(&in, 2, 5, "x"), frame(&in, 3, 5, "x"));
	/* A name that comes before the frame is written goes with it. */
	m2 = frame(&in, 2, 6, NULL);
	assert_int_equal(frame(&in, 2, 6, "late"), m2);
	(void)callstack(&in, &m2, 1);
	d = pending(&in);
	assert_int_equal(d->n_function_names, 1);
	check_string(d->function_names[0], d->frames[0]->function_name_id, "late");
	done(d);
	intern_deinit(&in);
}

static void test_bad(void **state)
{
	uint8_t id[65] = {0};
	char longest[9000];
	uint32_t got = 99, m;
	struct intern in;

	(void)state;
	assert_int_equal(intern_init(&in), 0);
	assert_int_equal(intern_frame(&in, 0, 1, 0, &got), -EINVAL);
	assert_int_equal(intern_frame(&in, 2, 1, 0, &got), -EINVAL);
	assert_int_equal(intern_frame(&in, 1, 1, 1, &got), -EINVAL);
	assert_int_equal(intern_mapping(&in, "/a", id, 65, 0, 0, &got), -EINVAL);
	assert_int_equal(intern_callstack(&in, (uint32_t[]){1}, 1, &got), -ESTALE);
	assert_int_equal(intern_callstack(&in, (uint32_t[]){0}, 1, &got), -ESTALE);
	assert_int_equal(got, 99);
	assert_int_equal(callstack(&in, NULL, 0), 0);
	/* A path of any length is cut, not overrun. */
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	assert_int_equal(intern_mapping(&in, longest, NULL, 0, 0, 0, &m), 0);
	for (size_t i = 0; i < sizeof(longest) - 1; i += 2)
		longest[i] = '/';
	assert_int_equal(intern_mapping(&in, longest, NULL, 0, 0, 0, &m), 0);
	intern_deinit(&in);
}

static void test_forget(void **state)
{
	struct intern in;
	uint32_t a, b, got, m;
	Pb__InternedData *d;

	(void)state;
	assert_int_equal(intern_init(&in), 0);
	assert_int_equal(intern_mapping(&in, "/a", NULL, 0, 0, 0, &m), 0);
	for (uint32_t i = 1; i <= 10000; i++) { /* through growth */
		char name[16];

		(void)snprintf(name, sizeof(name), "f%u", i);
		assert_int_equal(frame(&in, m, i, name), i);
	}
	for (uint32_t i = 1; i <= 10000; i++)
		assert_int_equal(frame(&in, m, i, NULL), i);
	assert_true(intern_frame_bytes(&in) > 10000 * 40);
	for (uint32_t i = 0; i < 1000; i++) {
		char path[16];

		(void)snprintf(path, sizeof(path), "/m%u", i);
		assert_int_equal(intern_mapping(&in, path, "id", 2, 0, i, &got), 0);
	}
	assert_int_equal(intern_forget_frames(&in), 0);
	assert_int_equal(intern_frame_bytes(&in), 0);
	assert_int_equal(in.n_mappings, 1); /* the kernel's */
	assert_true(in.places.n_entries <= 2);
	assert_int_equal(intern_frame(&in, m, 5, 0, &got), -EINVAL);
	assert_int_equal(intern_mapping(&in, "/a", NULL, 0, 0, 0, &m), 0);
	assert_int_equal(in.frame_generation, 2);
	a = 10000;
	assert_int_equal(intern_callstack(&in, &a, 1, &got), -ESTALE);
	b = frame(&in, m, 5, "five");
	assert_int_equal(b, 10001);
	assert_int_equal(intern_callstack(&in, (uint32_t[]){b, a}, 2, &got), -ESTALE);
	assert_int_equal(callstack(&in, &b, 1), 1);
	d = pending(&in);
	check_string(d->function_names[0], d->frames[0]->function_name_id, "five");
	assert_int_equal(d->mappings[0]->iid, m);
	done(d);
	intern_deinit(&in);
}

/* The frame of an address, until frames are forgotten. */
static void test_find_frame(void **state)
{
	struct intern in;
	uint32_t m;

	(void)state;
	assert_int_equal(intern_init(&in), 0);
	assert_int_equal(intern_mapping(&in, "/a", NULL, 0, 0, 0, &m), 0);
	assert_int_equal(m, 2);
	assert_int_equal(intern_mapping(&in, "/b", NULL, 0, 0, 0, &m), 0);
	assert_int_equal(m, 3);
	assert_null(intern_find_frame(&in, 2, 0x10));
	(void)frame(&in, 2, 0x10, "f");
	(void)frame(&in, 3, 0x10, "g");
	assert_non_null(intern_find_frame(&in, 2, 0x10));
	assert_non_null(intern_find_frame(&in, 3, 0x10));
	assert_ptr_not_equal(intern_find_frame(&in, 2, 0x10), intern_find_frame(&in, 3, 0x10));
	assert_null(intern_find_frame(&in, 2, 0x11));
	assert_null(intern_find_frame(&in, 4, 0x10));
	assert_null(intern_find_frame(&in, 2, 0)); /* named by its name alone */
	intern_deinit(&in);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_entries), cmocka_unit_test(test_once),
		cmocka_unit_test(test_same),	cmocka_unit_test(test_bad),
		cmocka_unit_test(test_forget),	cmocka_unit_test(test_find_frame),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
