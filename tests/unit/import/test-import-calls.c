/* test-import-calls.c - each allocation and system call of an import fails once: an error with a line, or a trace with all samples and
 * their names, or a note that has what is missing.  (An import is made and read by one call.) */
#include "tests/unit/import/import-stacks.h"

#include "tests/unit/fake-root.h"
#include "tests/unit/fail-calls.h"

struct imports {
	int fd;
	struct done done;
	char *samples;	/* of an import without failures; NULL: there was none yet */
	size_t n_notes; /* the same, with modules without symbols */
};

/* Where the kernel's names are missing, a note has the reason. */
static void check(struct imports *made)
{
	const struct session_summary *summary = &made->done.result.summary;
	size_t n_notes = summary->n_notes + summary->n_unsymbolized;
	unsigned long n = calls_fail_at;
	char *samples;

	calls_fail_at = 0;
	made->done.data = sink_memory_data(made->done.sink, &made->done.len);
	samples = samples_text(&made->done);
	if (!made->samples) {
		made->samples = strdup(samples);
		made->n_notes = n_notes;
	}
	if (strcmp(samples, made->samples) != 0 && n_notes <= made->n_notes)
		fail_msg("call %lu: %s instead of %s", n, samples, made->samples);
	for (size_t i = 0; n && i < summary->n_notes; i++)
		if (strstr(summary->notes[i], "kernel frames have no names"))
			assert_null(strstr(summary->notes[i], "the file does not"));
	free(samples);
	calls_fail_at = n;
}

static int make_import(void *arg)
{
	const struct import_options options = {.no_inline = true};
	struct imports *made = arg;
	int r;

	assert_int_equal(lseek(made->fd, 0, SEEK_SET), 0);
	made->done.error[0] = 0;
	r = sink_memory_new(&made->done.sink);
	if (r < 0)
		return r;
	r = import_run(made->fd, &options, made->done.sink, &made->done.result, made->done.error,
		       sizeof(made->done.error));
	if (r >= 0)
		check(made);
	if (r < 0) {
		assert_true(made->done.error[0]);
		done_deinit(&made->done);
	}
	return r;
}
static void end_import(void *arg)
{
	done_deinit(&((struct imports *)arg)->done);
}

/* Consumes @b. */
static void sweep(const char *name, struct buffer *b)
{
	struct imports imports = {.samples = NULL};
	const struct calls_made of = {name, make_import, end_import, &imports};

	imports.fd = fixture_fd(b);
	buffer_deinit(b);
	assert_true(make_import(&imports) >= 0);
	end_import(&imports);
	calls_sweep(&of);
	free(imports.samples);
	(void)close(imports.fd);
}

static void test_import(void **state)
{
	struct buffer b = {0};

	(void)state;
	put_chain_head(&b, "x86_64");
	put_own_mapping(&b, 7, 0);
	for (uint64_t i = 1; i <= 5; i++)
		put_chain_sample(&b, ID_A, i * 1000000000, 7);
	sweep("import", &b);
}

/* Stacks, of more than a group: a thread unwinds them. */
static void test_stacks(void **state)
{
	struct buffer b = {0};

	(void)state;
	put_many(&b, 200);
	sweep("stacks", &b);
}

/* A kernel with a copy of its names. */
static void test_kernel(void **state)
{
	struct buffer b = {0};

	(void)state;
	put("/[kernel.kallsyms]/1234/kallsyms", "ffffffff81000000 T _text\n"
						"ffffffff81000200 T of_the_copy\n"
						"ffffffff81000300 T behind_it\n");
	assert_int_equal(setenv("PERF_BUILDID_DIR", root, 1), 0);
	put_chain_head(&b, "x86_64");
	put_kernel(&b, 0xffffffff9a000000);
	put_kernel_sample(&b, 1000000000, 0xffffffff9a000210);
	sweep("kernel", &b);
	assert_int_equal(unsetenv("PERF_BUILDID_DIR"), 0);
}

static int remove_root(void **state)
{
	(void)state;
	return fake_root_remove();
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_import),
					   cmocka_unit_test(test_stacks),
					   cmocka_unit_test(test_kernel)};

	fake_root_make();
	return cmocka_run_group_tests_name("import-calls", tests, NULL, remove_root);
}
