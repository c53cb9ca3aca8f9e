/* test-policy-subids.c - the limits that a user's cost counts in: ranges of /etc/subuid, well made and not. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/policy/policy.h"
#include "tests/unit/cmocka.h"

static struct policy p;

static void test_ranges(void **state)
{
	(void)state;
	policy_subids_parse("1000:100000:65536\n"
			    "1001:165536:65536\n"
			    "root:231072:10\n"
			    "1000:300000:1",
			    &p);
	assert_int_equal(p.n_subids, 4);
	assert_int_equal(policy_person(&p, 99999), 99999);
	assert_int_equal(policy_person(&p, 100000), 1000);
	assert_int_equal(policy_person(&p, 165535), 1000);
	assert_int_equal(policy_person(&p, 165536), 1001);
	assert_int_equal(policy_person(&p, 300000), 1000);
	assert_int_equal(policy_person(&p, 300001), 300001);
	assert_int_equal(policy_person(&p, 1000), 1000);
	assert_int_equal(policy_person(&p, 0), 0);
	/* A process in root's range has limits. */
	assert_int_equal(policy_person(&p, 231075), 231072);
	assert_int_equal(policy_person(&p, 231081), 231072);
}

/* A line in another form gives ids to no user. */
static void test_damaged(void **state)
{
	char *text = malloc(70000);

	(void)state;
	policy_subids_parse(
		"\n:\n::\n1000\n1000:5\n1000:5:\n1000::5\n1000:5:0\n1000:5:5:5\n1000:x:5\n"
		"1000:-5:5\n1000:4294967295:2\n1000:5:4294967295\n1000:5:99999999999999999999\n"
		"no-such-user-here:5:5\n1000: 5:5\n",
		&p);
	assert_int_equal(p.n_subids, 0);
	/* One that is too long ends at its line. */
	assert_non_null(text);
	memset(text, '1', 69000);
	memcpy(text + 69000, "\n1000:7:2\n", sizeof("\n1000:7:2\n"));
	policy_subids_parse(text, &p);
	assert_int_equal(p.n_subids, 1);
	assert_int_equal(policy_person(&p, 8), 1000);
	/* More than there is room for. */
	text[0] = 0;
	for (size_t i = 0, len = 0; i < POLICY_SUBIDS + 10; i++)
		len += (size_t)snprintf(text + len, 70000 - len, "1000:%zu:1\n", 100000 + i);
	policy_subids_parse(text, &p);
	assert_int_equal(p.n_subids, POLICY_SUBIDS);
	assert_int_equal(policy_person(&p, 100000), 1000);
	assert_int_equal(policy_person(&p, 100000 + POLICY_SUBIDS), 100000 + POLICY_SUBIDS);
	free(text);
}

static void test_file(void **state)
{
	char path[] = "/tmp/test-policy-subids-XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "1000:7:2\n", 9), 9);
	close(fd);
	policy_subids_read(path, &p);
	assert_int_equal(policy_person(&p, 7), 1000);
	assert_int_equal(unlink(path), 0);
	policy_subids_read(path, &p);
	assert_int_equal(policy_person(&p, 7), 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
