/* test-episodes.c - the folder of episodes: what is one, which go first, and what is never removed. */
#include <errno.h>
#include <unistd.h>

#include "tests/unit/fake-root.h"
#include "watch/episode.h"

static char folder[64];

static void put_episode(const char *name, const char *json, size_t size)
{
	char path[256], text[4096] = {0};

	(void)snprintf(path, sizeof(path), "/e/%s/episode.json", name);
	put(path, json);
	memset(text, 'x', size);
	(void)snprintf(path, sizeof(path), "/e/%s/trace.pftrace", name);
	put(path, text);
}

#define JSON                                                                             \
	"{\"version\": 1,\n\"rule\": \"spin\",\n\"when\": \"process-cpu\",\n\"unit\": "  \
	"\"%\",\n\"average\": 97.5,\n\"lasting\": 12.25,\n\"process\": \"a \\\"b\",\n\"" \
	"hottest\": \"f.\\u003clocals\\u003e\\u001b\"\n}\n"

static size_t listed(struct episode_info **ret)
{
	size_t n = 0;

	free(*ret);
	*ret = NULL;
	assert_int_equal(episodes_read(folder, ret, &n), 0);
	return n;
}

static void test_list(void **state)
{
	_cleanup_(freep) struct episode_info *list = NULL;

	(void)state;
	put_episode("2026-02", JSON, 1000);
	put_episode("2026-01", JSON, 2000);
	put_episode(".new-2026-03", JSON, 10); /* not finished */
	put_episode("broken", "\n\"rule\": 7\n\"hottest\": \"x", 10);
	put("/e/no-episode/file", "x");
	put("/e/file", "x");
	assert_int_equal(listed(&list), 2);
	assert_string_equal(list[0].name, "2026-01");
	assert_string_equal(list[0].rule, "spin");
	assert_string_equal(list[0].when, "process-cpu");
	assert_string_equal(list[0].unit, "%");
	assert_string_equal(list[0].process, "a \"b");
	assert_string_equal(list[0].hottest,
			    "f.<locals>?"); /* the last one is an escape character */
	assert_true(list[0].average == 97.5 && list[0].lasting == 12.25);
	assert_int_equal(list[0].bytes, 2000 + strlen(JSON));
}

/* Long values, no end, controls: nothing goes over its bounds or onto the terminal. */
static void test_hostile(void **state)
{
	_cleanup_(freep) struct episode_info *list = NULL;
	static char text[70000];

	(void)state;
	memcpy(text, "{\n\"rule\": \"", 11);
	memset(text + 11, '\\', 3000);
	put_episode("2026-05", text, 1);
	memset(text + 11, 'r', sizeof(text) - 12);
	put_episode("2026-06", text, 1); /* too large to be one */
	put_episode("2026-07", "{\n\"rule\": \"\033[31m\nx\"", 1);
	assert_int_equal(listed(&list), 4);
	assert_string_equal(list[2].name, "2026-05");
	assert_true(strlen(list[2].rule) < sizeof(list[2].rule));
	assert_string_equal(list[3].rule, "?[31m");
	for (int i = 5; i <= 7; i++) {
		char path[128];

		(void)snprintf(path, sizeof(path), "%s/2026-0%d/episode.json", folder, i);
		assert_int_equal(unlink(path), 0);
	}
}

static void test_delete(void **state)
{
	_cleanup_(freep) struct episode_info *list = NULL;
	char link[128];

	(void)state;
	assert_int_equal(episode_delete(folder, "no-episode"), -ENOENT);
	assert_int_equal(episode_delete(folder, "nothing"), -ENOENT);
	assert_int_equal(episode_delete(folder, ".new-2026-03"), -EINVAL);
	assert_int_equal(episode_delete(folder, "../e"), -EINVAL);
	assert_int_equal(episode_delete(folder, ".."), -EINVAL);
	assert_int_equal(episode_delete(folder, ""), -EINVAL);
	(void)snprintf(link, sizeof(link), "%s/2026-09", folder);
	assert_int_equal(symlink("2026-01", link), 0);
	assert_int_equal(episode_delete(folder, "2026-09"), -ENOENT); /* a link is none */
	assert_int_equal(listed(&list), 2);
	assert_int_equal(episode_delete(folder, "2026-01"), 0);
	assert_int_equal(listed(&list), 1);
	assert_int_equal(episodes_read("/nowhere/at/all", &list, &(size_t){0}), -ENOENT);
}

static void test_keep_small(void **state)
{
	_cleanup_(freep) struct episode_info *list = NULL;

	(void)state;
	put_episode("2026-10", JSON, 3000);
	put_episode("2026-11", JSON, 3000);
	assert_int_equal(episodes_keep_small(folder, 100000), 0);
	assert_int_equal(episodes_keep_small(folder, 7000), 1); /* 2026-02 went */
	assert_int_equal(listed(&list), 2);
	assert_string_equal(list[0].name, "2026-10");
	assert_int_equal(episodes_keep_small(folder, 1), 1); /* the newest stays */
	assert_int_equal(listed(&list), 1);
	assert_string_equal(list[0].name, "2026-11");
}

static void test_name(void **state)
{
	static const struct watch_rule rule = {.name = "spin"};
	const struct episode e = {.rule = &rule,
				  .of = {.start = 5 * NSEC_PER_SEC},
				  .wall_offset = 1795419532 * 1000000000ll};
	char name[EPISODE_NAME];

	(void)state;
	episode_name(&e, name);
	assert_string_equal(name, "2026-11-23T07-38-57-spin");
}

static int set_up(void **state)
{
	(void)state;
	fake_root_make();
	(void)snprintf(folder, sizeof(folder), "%s/e", root);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	return fake_root_remove();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_list),   cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_delete), cmocka_unit_test(test_keep_small),
		cmocka_unit_test(test_name),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
