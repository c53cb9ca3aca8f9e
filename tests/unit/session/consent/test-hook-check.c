/* test-hook-check.c - the verdicts' words, and our own files (what is forged: test-hook-server.c).
 */
#include <fcntl.h>
#include <unistd.h>

#include "session/consent/hook-server.h"
#include "tests/unit/cmocka.h"

static void test_names(void **state)
{
	(void)state;
	for (int i = 0; i < HOOK_VERDICTS; i++) {
		assert_non_null(hook_verdict_word(i));
		for (int j = 0; j < i; j++)
			assert_string_not_equal(hook_verdict_word(i), hook_verdict_word(j));
	}
}

static void test_own(void **state)
{
	int fds[HOOK_DESCRIPTORS] = {
		[HOOK_MAPS] = open("/proc/self/maps", O_RDONLY | O_CLOEXEC),
		[HOOK_MEM] = open("/proc/thread-self/mem", O_RDONLY | O_CLOEXEC),
	};
	const int closed[HOOK_DESCRIPTORS] = {-1, -1};

	(void)state;
	assert_int_equal(hook_check((uint32_t)getpid(), fds), HOOK_GOOD);
	assert_int_equal(hook_check((uint32_t)getppid(), fds), HOOK_NOT_ITS_OWN);
	assert_int_equal(hook_check(0x7ffffff0, fds), HOOK_NOT_ITS_OWN);
	assert_int_equal(hook_check((uint32_t)getpid(), closed), HOOK_WRITABLE);
	close(fds[HOOK_MAPS]);
	close(fds[HOOK_MEM]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
