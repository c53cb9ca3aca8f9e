/* test-engine-libdw.c - the engine over libdw, on the stacks of this very process. */
#define ENGINE UW_ENGINE_LIBDW
#include "tests/unit/unwinder/engine-fixture.h"

int main(void)
{
	return cmocka_run_group_tests(fixture_tests, NULL, NULL);
}
