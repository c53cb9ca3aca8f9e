/* test-emit-module.c - functions of interpreters that were freed before their names were read are counted, each once. */
#include <errno.h>

#include "session/pipeline/emit-module.h"
#include "symbols/image.h"
#include "tests/unit/cmocka.h"

enum { ROOM = 8 };

struct fixture {
	struct emit_module *m;
	struct load_line lines[ROOM];
	uint64_t vaddrs[ROOM];
	struct load_answer answer;
};

static void fixture_init(struct fixture *f, enum uw_language language)
{
	struct sample_info info = {.pid = 1};
	struct uw_module *module;

	memset(f, 0, sizeof(*f));
	assert_int_equal(uw_module_new(UW_MODULE_JIT, uw_language_path(language), NULL, &module),
			 0);
	f->m = emit_module_new(module, &info);
	assert_non_null(f->m);
	(void)uw_module_unref(module);
	f->answer.request.vaddrs = f->vaddrs;
	f->answer.lines = f->lines;
}

static void add(struct fixture *f, uint64_t vaddr, bool named)
{
	struct load_answer *a = &f->answer;

	if (named)
		f->lines[a->n_lines++].address = (uint32_t)a->request.n_vaddrs;
	f->vaddrs[a->request.n_vaddrs++] = vaddr;
}

static int64_t count(struct fixture *f)
{
	int64_t n = emit_module_count_freed(f->m, &f->answer);

	f->answer.n_lines = f->answer.request.n_vaddrs = 0;
	return n;
}

static void test_counted(void **state)
{
	const uint64_t f = 0x7f0000001000, g = 0x7f0000002000;
	struct fixture x;

	(void)state;
	fixture_init(&x, UW_LANGUAGE_RUBY);
	add(&x, uw_script_place(f, 1, 100), true);
	add(&x, uw_script_place(g, 1, 100), false);
	add(&x, uw_script_place(g, 2, 100), false); /* the same one */
	add(&x, uw_script_place(f, 1, 101), false); /* another one in its memory */
	assert_int_equal(count(&x), 2);
	add(&x, uw_script_place(f, 3, 100), false); /* it had its name */
	add(&x, uw_script_place(g, 3, 100), false); /* counted before */
	add(&x, uw_script_place(g, 3, 102), true);
	assert_int_equal(count(&x), 0);
	add(&x, uw_script_place(g, 4, 100), true); /* there again */
	assert_int_equal(count(&x), -1);
	/* A place of a function that has its name may be asked for again. */
	assert_true(emit_module_was_asked(x.m, uw_script_place(f, 3, 100)));
	assert_true(emit_module_was_asked(x.m, uw_script_place(f, 1, 101)));
	assert_false(emit_module_was_asked(x.m, uw_script_place(f, 1, 104)));
	x.answer.error = -ESRCH; /* the process is gone: that is counted elsewhere */
	add(&x, uw_script_place(f, 1, 103), false);
	assert_int_equal(count(&x), 0);
	emit_module_free(x.m);
}

static void test_languages(void **state)
{
	struct fixture x;

	(void)state;
	fixture_init(&x, UW_LANGUAGE_PYTHON); /* code objects, without positions */
	add(&x, 0x7f0000001000, false);
	add(&x, 0x7f0000001010, false);
	add(&x, 0x7f0000001020, true);
	assert_int_equal(count(&x), 2);
	emit_module_free(x.m);
	fixture_init(&x, UW_LANGUAGE_JS);
	add(&x, uw_script_frame(0x1000, 1), false);
	assert_int_equal(count(&x), 0);
	emit_module_free(x.m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counted),
		cmocka_unit_test(test_languages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
