/* test-settings.c - the daemon's own settings. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "daemon/policy/settings.h"
#include "tests/unit/cmocka.h"

static void test_file(void **state)
{
	struct settings s = settings_default;
	char error[256] = "";

	(void)state;
	assert_int_equal(s.shmem_size, 0);
	assert_int_equal(s.shmem_page, 0);
	assert_int_equal(s.waiting_size, 4 << 20);
	assert_int_equal(s.max_sources, 256);
	assert_string_equal(s.traced_service_users, "traced");
	assert_int_equal(s.traced_rate, 20000);
	assert_int_equal(s.traced_stack_bytes, 640 << 20);
	assert_int_equal(settings_parse("x",
					"# a comment\n\n  shmem-size =1M  # so much\r\n"
					"shmem-page= 8k\nmax-sources=4096\nwaiting-size = 64K",
					&s, error, sizeof(error)),
			 0);
	assert_int_equal(s.shmem_size, 1 << 20);
	assert_int_equal(s.shmem_page, 8192);
	assert_int_equal(s.max_sources, 4096);
	assert_int_equal(s.waiting_size, 65536);
	assert_int_equal(s.consent_under_seccomp, 0);
	assert_int_equal(
		settings_parse("x", "consent_under_seccomp = yes\n", &s, error, sizeof(error)), 0);
	assert_int_equal(s.consent_under_seccomp, 1);
	assert_int_equal(
		settings_parse("x", "consent-under-seccomp = no\n", &s, error, sizeof(error)), 0);
	assert_int_equal(s.consent_under_seccomp, 0);
	assert_false(s.traced_set || s.traced_kernel || *s.traced_users || *s.traced_groups);
	assert_int_equal(settings_parse("x", "traced-groups =\n", &s, error, sizeof(error)), 0);
	assert_true(s.traced_set);
	assert_int_equal(settings_parse("x", "traced-users = *\ntraced_kernel = yes\n", &s, error,
					sizeof(error)),
			 0);
	assert_string_equal(s.traced_users, "*");
	assert_true(s.traced_kernel);
	/* Has no setting for what the service may see. */
	s.traced_set = false;
	assert_int_equal(settings_parse("x",
					"traced-service-users = perfetto 990\ntraced-rate = 5000\n"
					"traced-stack-bytes = 4095M\n",
					&s, error, sizeof(error)),
			 0);
	assert_false(s.traced_set);
	assert_string_equal(s.traced_service_users, "perfetto 990");
	assert_int_equal(s.traced_rate, 5000);
	assert_int_equal(s.traced_stack_bytes, 4095u << 20);
	/* 0 gives the choice back to the service. */
	assert_int_equal(settings_parse("x", "shmem-size = 0\n", &s, error, sizeof(error)), 0);
	assert_int_equal(s.shmem_size, 0);
	assert_int_equal(s.shmem_page, 8192);
}

static void test_refused(void **state)
{
	static const struct {
		const char *text, *error;
	} bad[] = {
		{"shmem-size", "x:1: 'shmem-size' is not KEY = VALUE"},
		{"\n\nshm = 1\n",
		 "x:3: unknown setting 'shm'; did you mean shmem-size or shmem-page?"},
		{"shmem-siz = 1\n", "x:1: unknown setting 'shmem-siz'; did you mean shmem-size?"},
		{"shmem-size = 5000",
		 "x:1: shmem-size takes a multiple of 4096 from 4096 to 33554432, not '5000'"},
		{"shmem-size = 33M",
		 "x:1: shmem-size takes a multiple of 4096 from 4096 to 33554432, not '33M'"},
		{"shmem-size = 4294967295M",
		 "x:1: shmem-size takes a multiple of 4096 from 4096 to 33554432, not "
		 "'4294967295M'"},
		{"shmem-page = 12K",
		 "x:1: shmem-page takes a power of two from 4096 to 32768, not '12K'"},
		{"shmem-page = 64K",
		 "x:1: shmem-page takes a power of two from 4096 to 32768, not '64K'"},
		{"max-sources = 0", "x:1: max-sources takes a number from 1 to 4096, not '0'"},
		{"max-sources = 1K", "x:1: max-sources takes a number from 1 to 4096, not '1K'"},
		{"max-sources = -1", "x:1: max-sources takes a number from 1 to 4096, not '-1'"},
		{"user-max-cpu = 1%", "x:1: user-max-cpu takes a number from 0 to 10000, not '1%'"},
		{"max-sources = M", "x:1: max-sources takes a number from 1 to 4096, not 'M'"},
		{"consent_under_seccomp = 1",
		 "x:1: consent-under-seccomp takes yes or no, not '1'"},
		{"max-sources =", "x:1: max-sources takes a number from 1 to 4096, not ''"},
	};
	char line[1000];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct settings s = {.shmem_size = 1, .shmem_page = 2, .max_sources = 3};
		char error[256] = "";

		assert_int_equal(settings_parse("x", bad[i].text, &s, error, sizeof(error)),
				 -EINVAL);
		assert_string_equal(error, bad[i].error);
		/* All or nothing. */
		assert_int_equal(s.shmem_size + s.shmem_page + s.max_sources, 6);
	}
	memset(line, ' ', sizeof(line) - 1);
	line[sizeof(line) - 1] = 0;
	{
		struct settings s = settings_default;
		char error[256] = "";

		assert_int_equal(settings_parse("x", line, &s, error, sizeof(error)), -EINVAL);
		assert_string_equal(error, "x:1: the line is too long");
	}
}

static void test_together(void **state)
{
	struct settings s = {.shmem_size = 12 << 10, .shmem_page = 8 << 10};
	char error[256] = "";

	(void)state;
	assert_int_equal(settings_check(&s, error, sizeof(error)), -EINVAL);
	assert_string_equal(error, "shmem-size must be a multiple of shmem-page");
	s.shmem_size = 16 << 10;
	assert_int_equal(settings_check(&s, error, sizeof(error)), 0);
	s.shmem_size = 0;
	assert_int_equal(settings_check(&s, error, sizeof(error)), 0);
	s = (struct settings){.shmem_size = 12 << 10};
	assert_int_equal(settings_check(&s, error, sizeof(error)), 0);
}

static void test_words(void **state)
{
	struct settings s = settings_default;
	char error[256] = "", list[300];

	(void)state;
	assert_string_equal(s.all_users, "");
	assert_string_equal(s.all_groups, "perfwind");
	assert_true(s.own_processes);
	assert_false(s.direct);
	assert_int_equal(settings_parse("x",
					"own-processes = no\ndirect = yes\n"
					"all-groups = adm, 100 wheel # who\nall-users =\n",
					&s, error, sizeof(error)),
			 0);
	assert_false(s.own_processes);
	assert_true(s.direct);
	assert_string_equal(s.all_groups, "adm, 100 wheel");
	assert_string_equal(s.all_users, "");
	assert_int_equal(settings_set(&s, "direct", "maybe", error, sizeof(error)), -EINVAL);
	assert_string_equal(error, "direct takes yes or no, not 'maybe'");
	memset(list, 'a', sizeof(list) - 1);
	list[sizeof(list) - 1] = 0;
	assert_int_equal(settings_set(&s, "all-groups", list, error, sizeof(error)), -EINVAL);
	assert_string_equal(s.all_groups, "adm, 100 wheel");
	list[255] = 0;
	assert_int_equal(settings_set(&s, "all-groups", list, error, sizeof(error)), 0);
}

/* The file that is installed names each setting once, with what holds anyway. */
static void test_shipped(void **state)
{
	struct settings s = settings_default;
	_cleanup_(freep) char *text = NULL;
	char error[256] = "";
	unsigned n = 0;

	(void)state;
	assert_int_equal(settings_read("rc/perfwind.conf", &s, error, sizeof(error)), 0);
	assert_memory_equal(&s, &settings_default, sizeof(s)); /* all of it is comments */
	assert_true(read_file("rc/perfwind.conf", 64 << 10, &text, NULL) >= 0);
	for (char *line = text; *line; line += strlen(line) + 1) {
		assert_non_null(strchr(line, '\n'));
		*strchr(line, '\n') = 0;
		if (line[0] != '#' || !islower((unsigned char)line[1]))
			continue;
		assert_int_equal(settings_parse("x", line + 1, &s, error, sizeof(error)), 0);
		n++;
	}
	s.traced_set = false; /* set, but as it is */
	assert_memory_equal(&s, &settings_default, sizeof(s));
	assert_int_equal(n, 29);
}

static void test_read(void **state)
{
	struct settings s = settings_default;
	char error[256] = "";

	(void)state;
	assert_int_equal(settings_read("/nonexistent/conf", &s, error, sizeof(error)), -ENOENT);
	assert_string_equal(error, "/nonexistent/conf: No such file or directory");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_file),	 cmocka_unit_test(test_refused),
		cmocka_unit_test(test_together), cmocka_unit_test(test_words),
		cmocka_unit_test(test_shipped),	 cmocka_unit_test(test_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
