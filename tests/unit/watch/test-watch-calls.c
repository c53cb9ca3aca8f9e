/* test-watch-calls.c - each allocation and system call with which the rules of `perfwind watch` are read, and a rule's gauge is
 * made, a gauge of it polls, and an episode is written, listed and deleted, fails once: an error with a line. */
#include <errno.h>
#include <stdlib.h>

#include "tests/unit/fail-calls.h"
#include "tests/unit/fake-root.h"
#include "watch/episode.h"
#include "watch/gauge.h"

struct gauges {
	const struct watch_rule *rule;
	struct gauge *gauge;
	char error[512];
};

static int make_gauge(void *arg)
{
	struct gauges *made = arg;
	int r;

	made->error[0] = 0;
	r = gauge_new(made->rule, "", NULL, &made->gauge, made->error, sizeof(made->error));
	if (r < 0 && r != -ENOMEM && !made->error[0])
		fail_msg("%s, call %lu: %d without a line", made->rule->name, calls_fail_at, r);
	return r;
}
static void end_gauge(void *arg)
{
	(void)gauge_free(((struct gauges *)arg)->gauge);
}

static int make_rules(void *arg)
{
	static const char text[] = "[watch]\nrecord = -a\n[rule a]\nwhen = load\nabove = 2\n"
				   "[rule b]\nwhen = process-cpu\nprocess = x\nabove = 50\n";
	char error[512] = "";
	int r = watch_rules_parse("f", text, arg, error, sizeof(error));

	assert_true(r >= 0 || r == -ENOMEM || error[0]);
	return r;
}
static void end_rules(void *arg)
{
	watch_rules_deinit(arg);
}

static int make_rules_of_file(void *arg)
{
	char path[64], error[512] = "";
	int r;

	(void)snprintf(path, sizeof(path), "%s/rules", root);
	r = watch_rules_read(path, arg, error, sizeof(error));
	assert_true(r >= 0 || error[0]);
	return r;
}

/* An episode is whole, or has no episode.json; what is left of it the caller discards. */
struct episodes {
	struct episode episode;
	char path[64];
	uint64_t bytes; /* 0: not known yet */
};
static void end_episode(void *arg)
{
	episode_discard(((struct episodes *)arg)->path);
}
static uint64_t bytes_of(const char *folder)
{
	static const char *const names[] = {"calltree.json", "calltree-addresses.json",
					    "images.json",   "episode.lines",
					    "flame.html",    "episode.json"};
	uint64_t sum = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char path[128];
		struct stat st;

		(void)snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		sum = stat(path, &st) < 0 || !st.st_size ? 0 : sum + (uint64_t)st.st_size;
	}
	return sum; /* 0: the last one is not there */
}
static int make_episode(void *arg)
{
	struct episodes *e = arg;
	char cwd[256], from[384], to[128], error[512] = "";
	int r;

	assert_non_null(getcwd(cwd, sizeof(cwd)));
	(void)snprintf(from, sizeof(from), "%s/tests/fuzz/corpus/trace/inlined", cwd);
	(void)snprintf(to, sizeof(to), "%s/trace.pftrace", e->path);
	assert_int_equal(mkdir(e->path, 0700), 0);
	assert_int_equal(symlink(from, to), 0);
	r = episode_write(e->path, &e->episode, error, sizeof(error));
	if (r < 0 && !error[0])
		fail_msg("call %lu: %d without a line", calls_fail_at, r);
	if (r >= 0 && e->bytes && bytes_of(e->path) != e->bytes)
		fail_msg("call %lu: %lu bytes of %lu", calls_fail_at, bytes_of(e->path), e->bytes);
	if (r >= 0)
		assert_true((e->bytes = bytes_of(e->path)) > 0);
	else
		episode_discard(e->path);
	return r;
}

/* The same episodes each time, of which the oldest is deleted and made again. */
enum { EPISODES = 20, EPISODE_BYTES = 1000 };
static void put_one(int number)
{
	static const char json[] = "{\n\"rule\": \"x\"";
	char path[32], text[EPISODE_BYTES] = "";

	memset(text, 'x', EPISODE_BYTES - strlen(json));
	(void)snprintf(path, sizeof(path), "/e/%02d/episode.json", number);
	put(path, json);
	(void)snprintf(path, sizeof(path), "/e/%02d/trace", number);
	put(path, text);
}
static int make_list(void *arg)
{
	struct episode_info **list = arg;
	char folder[64];
	size_t n = 0;
	int r;

	(void)snprintf(folder, sizeof(folder), "%s/e", root);
	r = episodes_read(folder, list, &n);
	if (r >= 0)
		for (size_t i = 0; i < n; i++)
			if (n != EPISODES || (*list)[i].bytes != EPISODE_BYTES)
				fail_msg("call %lu: %zu episodes, of %lu bytes", calls_fail_at, n,
					 (*list)[i].bytes);
	return r;
}
static void end_list(void *arg)
{
	free(*(struct episode_info **)arg);
}
static int make_small(void *arg)
{
	char folder[64];
	unsigned long n = calls_fail_at, made;
	int r;

	(void)arg;
	(void)snprintf(folder, sizeof(folder), "%s/e", root);
	r = episodes_keep_small(folder, (EPISODES - 1) * EPISODE_BYTES);
	made = calls_made;
	calls_fail_at = 0;
	put_one(0);
	calls_fail_at = n;
	calls_made = made;
	if (r >= 0 && r != 1)
		fail_msg("call %lu: %d deleted", n, r);
	return r;
}
static void end_nothing(void *arg)
{
	(void)arg;
}

static void test_episodes(void **state)
{
	const struct watch_rule rule = {.name = "spin", .when = WATCH_MACHINE_CPU};
	struct episodes episodes = {.episode = {.rule = &rule, .of = {.end = UINT64_MAX}}};
	struct watch_rules rules;
	struct episode_info *list;
	const struct calls_made all[] = {
		{"file of rules", make_rules_of_file, end_rules, &rules},
		{"episode", make_episode, end_episode, &episodes},
		{"list", make_list, end_list, &list},
		{"small", make_small, end_nothing, NULL},
	};

	(void)state;
	fake_root_make();
	put("/rules", "[rule a]\nwhen = load\nabove = 2\n");
	for (int i = 0; i < EPISODES; i++)
		put_one(i);
	(void)snprintf(episodes.path, sizeof(episodes.path), "%s/episode", root);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		calls_sweep(&all[i]);
	assert_int_equal(fake_root_remove(), 0);
}

static void test_all(void **state)
{
	struct watch_rule all[] = {
		{.name = "process", .when = WATCH_PROCESS_CPU, .above = 50},
		{.name = "load", .when = WATCH_LOAD, .above = 2},
		{.name = "queue", .when = WATCH_RUN_QUEUE, .above = 2},
		{.name = "counter", .when = WATCH_COUNTER, .event = "page-faults", .above = 2},
	};
	struct watch_rules rules;
	const struct calls_made of = {"rules", make_rules, end_rules, &rules};

	(void)state;
	calls_sweep(&of);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		struct gauges gauges = {.rule = &all[i]};
		const struct calls_made gauge = {all[i].name, make_gauge, end_gauge, &gauges};

		(void)snprintf(all[i].process, sizeof(all[i].process), "%d", getpid());
		if (make_gauge(&gauges) < 0) { /* no permission for the counter */
			print_message("%s: %s\n", all[i].name, gauges.error);
			continue;
		}
		end_gauge(&gauges);
		calls_sweep(&gauge);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_all),
					   cmocka_unit_test(test_episodes)};

	return cmocka_run_group_tests_name("watch-calls", tests, NULL, NULL);
}
