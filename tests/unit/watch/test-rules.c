/* test-rules.c - files of rules: values, defaults, and where what is wrong stands. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"
#include "watch/rules.h"

static struct watch_rules parsed(const char *text)
{
	struct watch_rules rules;
	char error[1024] = "";

	if (watch_rules_parse("x", text, &rules, error, sizeof(error)) < 0)
		fail_msg("%s", error);
	return rules;
}

static void test_values(void **state)
{
	struct watch_rules r = parsed("# all\n[watch]\n folder = /srv/episodes # here\n"
				      "record = -p 12 -F 99\nmemory = 2M\ndisk = 1.5G\n"
				      "poll = 500ms\nbusy-poll=100ms\nexec = /bin/true\n"
				      "[rule a-1]\r\nwhen = process-cpu\nprocess = my server\n"
				      "above = 90%\nbelow = 70\nfor = 2min\nper-day = 3\n"
				      "[rule b]\nwhen = hit\nevent = page-faults\nlongest = 1h\n");
	const struct watch_rule *a = &r.rules[0], *b = &r.rules[1];

	(void)state;
	assert_string_equal(r.folder, "/srv/episodes");
	assert_string_equal(r.record, "-p 12 -F 99");
	assert_string_equal(r.execute, "/bin/true");
	assert_int_equal(r.memory, 2 << 20);
	assert_int_equal(r.disk, 3ull << 29);
	assert_int_equal(r.calm_poll_ns, 500 * NSEC_PER_MSEC);
	assert_int_equal(r.busy_poll_ns, 100 * NSEC_PER_MSEC);
	assert_int_equal(r.n, 2);
	assert_string_equal(a->name, "a-1");
	assert_int_equal(a->when, WATCH_PROCESS_CPU);
	assert_string_equal(a->process, "my server");
	assert_true(a->above == 90 && a->below == 70 && a->threads == 15);
	assert_int_equal(a->hold_ns, 120 * NSEC_PER_SEC);
	assert_int_equal(a->per_day, 3);
	assert_int_equal(a->before_ns, 30 * NSEC_PER_SEC);
	assert_int_equal(b->when, WATCH_HIT);
	assert_true(b->above == 1 && b->below == 1);
	assert_int_equal(b->hold_ns, 0);
	assert_int_equal(b->longest_ns, 3600 * NSEC_PER_SEC);
	watch_rules_deinit(&r);
}

static void test_mark(void **state)
{
	struct watch_rules r = parsed("[rule a]\nwhen = mark\nmark = slow request\n"
				      "[rule b]\nwhen = mark\nmark = slow requests\nabove = 5\n"
				      "cooldown = 1min\n");

	(void)state;
	assert_int_equal(r.rules[0].when, WATCH_MARK);
	assert_string_equal(r.rules[0].mark, "slow request");
	assert_true(r.rules[0].above == 1 && r.rules[0].hold_ns == 0);
	assert_int_equal(r.rules[0].text_line, 3);
	assert_int_equal(r.rules[0].text_column, 8);
	assert_true(r.rules[1].above == 5);
	assert_false(watch_rule_equal(&r.rules[0], &r.rules[1]));
	watch_rules_deinit(&r);
}

static void test_latency(void **state)
{
	struct watch_rules r = parsed("[rule a]\nwhen = latency\nabove = 20\n"
				      "[rule b]\nwhen = latency\nabove = 0.5\nfrom = irq:a\n"
				      "to = irq:b\nkey = irq\n");

	(void)state;
	assert_string_equal(r.rules[0].from, "sched:sched_waking");
	assert_string_equal(r.rules[0].to, "sched:sched_switch");
	assert_string_equal(r.rules[0].key, "pid:next_pid");
	assert_int_equal(r.rules[0].hold_ns, 0);
	assert_string_equal(watch_when_unit(r.rules[0].when), "ms");
	assert_string_equal(r.rules[1].key, "irq");
	assert_true(r.rules[1].above == 0.5);
	assert_false(watch_rule_equal(&r.rules[0], &r.rules[1]));
	watch_rules_deinit(&r);
}

/* The published thresholds are the defaults of a rule about a process. */
static void test_defaults(void **state)
{
	struct watch_rules r = parsed("[rule x]\nwhen = process-cpu\nprocess = 1\n");

	(void)state;
	assert_true(r.rules[0].above == 80 && r.rules[0].below == 80);
	assert_int_equal(r.rules[0].hold_ns, 60 * NSEC_PER_SEC);
	assert_int_equal(r.calm_poll_ns, NSEC_PER_SEC);
	assert_int_equal(r.busy_poll_ns, 300 * NSEC_PER_MSEC);
	assert_string_equal(r.record, "-a -F 49");
	watch_rules_deinit(&r);
}

static void test_wrong(void **state)
{
	static const struct {
		const char *text, *error;
	} wrong[] = {
		{"", "x: no [rule NAME] in it"},
		{"when = load\n",
		 "x:1:1: a line before the first section ([watch] or [rule NAME])"},
		{"[rule x]\n  abvoe = 1\n", "x:2:3: unknown key 'abvoe'; did you mean above?"},
		{"[rule x]\nwhen = proces-cpu\n",
		 "x:2:8: 'proces-cpu' cannot be watched; did you mean process-cpu?"},
		{"[rule x]\nwhen = marc\n", "x:2:8: 'marc' cannot be watched; did you mean mark?"},
		{"[rule x]\nwhen = mark\nevent = x\n", "x:1:1: [rule x] has no 'mark'"},
		{"[rule x]\nwhen =\n", "x:2:7: when has no value"},
		{"[rule x]\nwhen = latency\n", "x:1:1: [rule x] has no 'above'"},
		{"[rule x]\nwhen = latency\nabove = 1\nfrom = irq:a\n",
		 "x:1:1: [rule x] has no 'key'"},
		{"[rule x]\nwhen load\n", "x:2:1: 'when load' is not KEY = VALUE"},
		{"[rule x]\nwhen = load\nfor = 3 parsecs\n",
		 "x:3:7: for takes a duration like 300ms, 10s, 5min or 2h, not '3 parsecs'"},
		{"[rule x]\nabove = -1\n",
		 "x:2:9: above takes a number, as in 80 or 80%, not '-1'"},
		{"[rule x]\nabove = nan\n",
		 "x:2:9: above takes a number, as in 80 or 80%, not 'nan'"},
		{"[rule x]\nafter = 2h\n", "x:2:9: after: 2h is out of range (0 to 3600 s)"},
		{"[rule x]\nper-day = 1.5\n", "x:2:11: per-day takes a whole number, not '1.5'"},
		{"[watch]\nmemory = 1K\n",
		 "x:2:10: memory: 1K is out of range (1024 to 67108864 K)"},
		{"[rule x]\nwhen = load\n", "x:1:1: [rule x] has no 'above'"},
		{"[rule x]\n\nwhen = process-cpu\n[rule y]\n", "x:1:1: [rule x] has no 'process'"},
		{"[rule x]\nabove = 3\n", "x:1:1: [rule x] has no 'when'"},
		{"[rule x]\nwhen = load\nabove = 1\nbelow = 2\n",
		 "x:1:1: [rule x]: below (2) is more than above (1)"},
		{"[rule x]\nwhen = load\nwhen = load\n", "x:3:1: when is given twice in [rule x]"},
		{"[rule x]\nwhen = load\nabove = 1\n[rule x]\n",
		 "x:4:7: rule 'x' exists already, in line 1"},
		{"[rule ../x]\n", "x:1:7: a rule's name consists of letters, digits, '-' and '_'"},
		{"[rule ]\n", "x:1:7: a rule has a name of 1 to 31 characters"},
		{"[rule x\n", "x:1:1: a section ends with ']'"},
		{" [rools x]\n",
		 "x:1:2: unknown section '[rools x]'; there are [watch] and [rule NAME]"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct watch_rules rules;
		char error[1024] = "";

		assert_int_equal(
			watch_rules_parse("x", wrong[i].text, &rules, error, sizeof(error)),
			-EINVAL);
		assert_string_equal(error, wrong[i].error);
		assert_int_equal(rules.n, 0);
	}
}

static void test_bounds(void **state)
{
	static char text[WATCH_RULES * 64 + 4096];
	struct watch_rules rules;
	char error[1024] = "";
	size_t n = 0;

	(void)state;
	for (int i = 0; i <= WATCH_RULES; i++)
		n += (size_t)sprintf(text + n, "[rule r%d]\nwhen = load\nabove = 1\n", i);
	assert_int_equal(watch_rules_parse("x", text, &rules, error, sizeof(error)), -EINVAL);
	assert_string_equal(error, "x:193:7: more than 64 rules");
	memset(text, 'a', 2000);
	text[2000] = 0;
	assert_int_equal(watch_rules_parse("x", text, &rules, error, sizeof(error)), -EINVAL);
	assert_string_equal(error, "x:1:1: the line is longer than 1023 bytes");
	memcpy(text, "[watch]\nexec = ", 15);
	text[8 + 900] = 0;
	assert_int_equal(watch_rules_parse("x", text, &rules, error, sizeof(error)), -EINVAL);
	assert_string_equal(error, "x:2:8: exec is longer than 511 bytes");
}

static void test_equal(void **state)
{
	struct watch_rules a = parsed("[rule x]\nwhen = load\nabove = 1\n");
	struct watch_rules b = parsed("\n\n[rule x]\nwhen = load\nabove = 1\n");
	struct watch_rules c = parsed("[rule x]\nwhen = load\nabove = 2\n");

	(void)state;
	assert_true(watch_rule_equal(a.rules, b.rules));
	assert_false(watch_rule_equal(a.rules, c.rules));
	watch_rules_deinit(&a);
	watch_rules_deinit(&b);
	watch_rules_deinit(&c);
}

static void test_units(void **state)
{
	(void)state;
	for (unsigned i = 0; i < WATCH_WHENS; i++) {
		assert_non_null(watch_when_names[i]);
		assert_true(*watch_when_unit((enum watch_when)i));
	}
	assert_string_equal(watch_when_unit(WATCH_PROCESS_CPU), "%");
}

/* Rules run programs: no rules that another user can write. */
static void test_own(void **state)
{
	char path[] = "/tmp/test-rules-XXXXXX", error[1024] = "";
	static const char text[] = "[rule x]\nwhen = load\nabove = 2\n";
	struct watch_rules rules;
	struct stat st;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0 && write(fd, text, sizeof(text) - 1) == sizeof(text) - 1);
	assert_int_equal(watch_rules_read(path, &rules, error, sizeof(error)), 0);
	watch_rules_deinit(&rules);
	assert_int_equal(fchmod(fd, 0622), 0);
	assert_int_equal(watch_rules_read(path, &rules, error, sizeof(error)), -EPERM);
	assert_non_null(strstr(error, "another user can write it"));
	assert_int_equal(fchmod(fd, 0644), 0);
	if (geteuid() == 0) {
		assert_int_equal(fchown(fd, 65534, (gid_t)-1), 0);
		assert_int_equal(watch_rules_read(path, &rules, error, sizeof(error)), -EPERM);
	}
	assert_int_equal(unlink(path), 0);
	fd_close(fd);
	assert_int_equal(watch_rules_read(path, &rules, error, sizeof(error)), -ENOENT);
	st = (struct stat){.st_mode = S_IFDIR | 01777};
	assert_true(watch_is_own(&st));
	st.st_mode = S_IFDIR | 0777;
	assert_false(watch_is_own(&st));
	st = (struct stat){.st_mode = S_IFDIR | 01777, .st_uid = geteuid() + 1};
	assert_false(watch_is_own(&st));
	st = (struct stat){.st_mode = S_IFREG | 0664, .st_gid = getegid() + 1};
	assert_false(watch_is_own(&st));
	st.st_gid = getegid();
	assert_true(watch_is_own(&st));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values), cmocka_unit_test(test_latency),
		cmocka_unit_test(test_mark),   cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_wrong),  cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_equal),  cmocka_unit_test(test_units),
		cmocka_unit_test(test_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
