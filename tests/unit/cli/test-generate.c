/* test-generate.c - man pages and completions have every option of every command. */
#include <sys/stat.h>

#include "cli/command.h"
#include "tests/unit/capture.h"

static char folder[] = "/tmp/test-generate-XXXXXX", generate[] = "generate", man[] = "man";

static char *print(const char *what)
{
	char *argv[] = {generate, (char *)(uintptr_t)what, NULL};
	struct capture c;
	char *text;
	int r;

	capture_begin(&c, STDOUT_FILENO);
	r = command_generate.run(2, argv);
	text = capture_end(&c);
	assert_int_equal(r, 0);
	return text;
}

static char *page(const char *name)
{
	char path[256], *text;
	size_t len;

	(void)snprintf(path, sizeof(path), "%s/%s.1", folder, name);
	assert_int_equal(read_file(path, 1 << 20, &text, &len), 0);
	(void)unlink(path);
	return text;
}

/* "--kernel-build-ids" as roff: each dash one that can be copied. */
static void roff_name(char *to, size_t size, const char *name)
{
	size_t at = (size_t)snprintf(to, size, "\\-\\-");

	for (; *name && at + 2 < size; name++) {
		if (*name == '-')
			to[at++] = '\\';
		to[at++] = *name;
	}
	to[at] = 0;
}

static void check_page(const struct command *command)
{
	char name[64], option[128];
	char *text;

	(void)snprintf(name, sizeof(name), "perfwind-%s", command->name);
	text = page(name);
	assert_int_equal(strncmp(text, ".TH \"", 5), 0);
	for (const struct option_def *d = command->options->defs; d && d->name; d++) {
		roff_name(option, sizeof(option), d->name);
		if (d->help && !strstr(text, option))
			fail_msg("%s lacks %s", name, option);
	}
	assert_int_equal(strstr(text, "\n.SH JSON\n") != NULL, command->options->json != NULL);
	assert_non_null(strstr(text, "\n.SH EXAMPLES\n.nf\n"));
	free(text);
}

static void test_man(void **state)
{
	char *argv[] = {generate, man, folder, NULL}, *text;

	(void)state;
	assert_int_equal(command_generate.run(3, argv), 0);
	for (size_t i = 0; i < n_commands; i++)
		check_page(commands[i]);
	text = page("perfwind");
	for (size_t i = 0; i < n_commands; i++)
		assert_non_null(strstr(text, commands[i]->summary));
	free(text);
}

/* What the keys of --json mean, as it stands: lines are not filled. */
static void test_json_section(void **state)
{
	char *argv[] = {generate, man, folder, NULL}, *text, *json;

	(void)state;
	assert_int_equal(command_generate.run(3, argv), 0);
	text = page("perfwind-record");
	json = strstr(text, "\n.SH JSON\n.nf\nfile, bytes");
	assert_non_null(json);
	assert_non_null(strstr(json, "\n  records_seen "));
	assert_non_null(strstr(json, "\n.fi\n.SH EXAMPLES\n"));
	free(text);
	for (size_t i = 0; i < n_commands; i++) {
		char name[64];

		(void)snprintf(name, sizeof(name), "perfwind-%s", commands[i]->name);
		if (strcmp(commands[i]->name, "record"))
			free(page(name));
	}
	free(page("perfwind"));
}

static void test_completions(void **state)
{
	char *bash, *zsh, option[128];

	(void)state;
	bash = print("bash");
	zsh = print("zsh");
	for (size_t i = 0; i < n_commands; i++) {
		for (const struct option_def *d = commands[i]->options->defs; d && d->name; d++) {
			(void)snprintf(option, sizeof(option), " --%s", d->name);
			if (d->help)
				assert_non_null(strstr(bash, option));
			(void)snprintf(option, sizeof(option), "'--%s[", d->name);
			if (d->help)
				assert_non_null(strstr(zsh, option));
		}
	}
	assert_non_null(strstr(bash, "\t\t--unwinder) COMPREPLY=($(compgen -W 'native libunwind "
				     "libdw fp fp-copy' -- \"$cur\")); return ;;\n"));
	free(bash);
	free(zsh);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_man),
		cmocka_unit_test(test_json_section),
		cmocka_unit_test(test_completions),
	};
	int r;

	if (!mkdtemp(folder))
		return 1;
	r = cmocka_run_group_tests(tests, NULL, NULL);
	(void)rmdir(folder);
	return r;
}
