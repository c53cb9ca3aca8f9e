/* test-import-calls.c - each allocation and system call of an import fails once: an error with a line, or a trace.  (An import
 * is made and read by one call.) */
#include "tests/unit/import/import-fixture.h"

#include "tests/unit/fail-calls.h"

struct imports {
	int fd;
	struct done done;
};

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

static void test_import(void **state)
{
	struct imports imports;
	const struct calls_made of = {"import", make_import, end_import, &imports};
	struct buffer b = {0};

	(void)state;
	put_chain_head(&b, "x86_64");
	put_own_mapping(&b, 7, 0);
	for (uint64_t i = 1; i <= 5; i++)
		put_chain_sample(&b, ID_A, i * 1000000000, 7);
	imports.fd = fixture_fd(&b);
	buffer_deinit(&b);
	calls_sweep(&of);
	(void)close(imports.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_import)};

	return cmocka_run_group_tests_name("import-calls", tests, NULL, NULL);
}
