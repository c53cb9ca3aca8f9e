/* test-engine-libunwind.c - the engine over libunwind, on the stacks of this very process. */
#define ENGINE UW_ENGINE_LIBUNWIND
#include "tests/unit/unwinder/engine-fixture.h"

int main(void)
{
	return cmocka_run_group_tests(fixture_tests, NULL, NULL);
}
