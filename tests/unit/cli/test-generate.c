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

/* Commands that use files, and that a variable of the environment changes. */
static bool is_one_of(const char *name, const char *names)
{
	char word[64];

	(void)snprintf(word, sizeof(word), " %s ", name);
	return strstr(names, word) != NULL;
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
	assert_non_null(strstr(text, "\n.SH EXIT STATUS\n"));
	assert_int_equal(strstr(text, "\n.SH FILES\n") != NULL,
			 !is_one_of(command->name, " diff trigger losses "));
	assert_int_equal(
		strstr(text, "\n.SH ENVIRONMENT\n") != NULL,
		!is_one_of(command->name, " stat script export snapshot list doctor run losses "));
	assert_int_equal(strstr(text, "\n.SH EVENTS\n") != NULL,
			 !strcmp(command->name, "record") || !strcmp(command->name, "stat") ||
				 !strcmp(command->name, "top"));
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
	assert_non_null(strstr(text, "\n.SH FILES\n"));
	assert_non_null(strstr(text, "\n.SH ENVIRONMENT\n"));
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
	char *bash, *zsh, *fish, option[128];

	(void)state;
	bash = print("bash");
	zsh = print("zsh");
	fish = print("fish");
	for (size_t i = 0; i < n_commands; i++) {
		for (const struct option_def *d = commands[i]->options->defs; d && d->name; d++) {
			(void)snprintf(option, sizeof(option), " --%s", d->name);
			if (d->help)
				assert_non_null(strstr(bash, option));
			(void)snprintf(option, sizeof(option), "--%s", d->name);
			if (d->help)
				assert_non_null(strstr(zsh, option));
			(void)snprintf(option, sizeof(option), " %s' -l %s ", commands[i]->name,
				       d->name);
			if (d->help)
				assert_non_null(strstr(fish, option));
		}
	}
	assert_non_null(strstr(bash, "\t\t--unwinder) COMPREPLY=($(compgen -W 'native libunwind "
				     "libdw fp fp-copy' -- \"$cur\")); return ;;\n"));
	/* values: of a choice, of a call, events, processes, none, files */
	assert_non_null(strstr(
		bash,
		"\t\t-t | --to) COMPREPLY=($(compgen -W 'html folded pprof systrace str bin' -- "
		"\"$cur\")); return ;;\n"));
	assert_non_null(strstr(bash, "\t\t-e | --event) _perfwind_list events; return ;;\n"));
	assert_non_null(strstr(bash, "\t\t-p | --pid) _perfwind_list processes; return ;;\n"));
	assert_null(strstr(bash, "--output) "));
	assert_non_null(strstr(zsh, ":COLUMN:(self total samples name)'"));
	assert_non_null(strstr(zsh, "'*'{-p+,--pid=}'[these processes, with all their threads]"
				    ":PID\\[,PID\\]:_perfwind_processes'"));
	assert_non_null(strstr(zsh, ":FILE:_files'"));
	assert_non_null(strstr(fish, "is report' -l by -s b -x -a 'function process thread module "
				     "cgroup pid reason mark' -d 'rows of the table"));
	assert_non_null(strstr(fish, "of record' -l output -s o -r -F -d 'the trace"));
	assert_non_null(strstr(fish, "of record' -l frequency -s F -x -d 'samples"));
	free(bash);
	free(zsh);
	free(fish);
}

/* The generated text is a script: bash completes values, events with a colon, and the command behind "--". */
static void test_bash(void **state)
{
	static const struct {
		const char *line, *expected;
	} cases[] = {
		{"perfwind rep", "report "},
		{"perfwind export --to p", "pprof "},
		{"perfwind report --by mo", "module "},
		{"perfwind report --sort to", "total "},
		{"perfwind record -e sched:sched_sw", "sched_switch "},
		{"perfwind record -e page-f", "page-faults "},
		{"perfwind record --unwinder libd", "libdw "},
		{"perfwind record --json -- bas", "bash "},
	};
	char *bash = print("bash");

	(void)state;
	assert_int_equal(setenv("COMPLETION", bash, 1), 0);
	free(bash);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		/* Words as bash makes them: a colon is one of its own. */
		static const char run[] =
			"exec bash --norc -c 'eval \"$COMPLETION\"; "
			"perfwind() { printf \"%s\\n\" page-faults sched:sched_switch; }; "
			"COMP_LINE=$LINE; COMP_POINT=${#LINE}; COMP_WORDS=(${LINE//:/ : }); "
			"COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _perfwind; "
			"for word in \"${COMPREPLY[@]}\"; do case $word in bash?*) ;; *) printf "
			"\"%s \" "
			"\"$word\" ;; esac; done | tr \" \" \"\\n\" | sort -u | tr \"\\n\" \" \"'";
		char words[256] = "";
		FILE *out;

		assert_int_equal(setenv("LINE", cases[i].line, 1), 0);
		out = popen(run, "re"); /* NOLINT: a test's own words */
		assert_non_null(out);
		(void)fgets(words, sizeof(words), out);
		(void)pclose(out);
		if (!strstr(words, cases[i].expected))
			fail_msg("%s: '%s', not '%s'", cases[i].line, words, cases[i].expected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_man),
		cmocka_unit_test(test_json_section),
		cmocka_unit_test(test_completions),
		cmocka_unit_test(test_bash),
	};
	int r;

	if (!mkdtemp(folder))
		return 1;
	r = cmocka_run_group_tests(tests, NULL, NULL);
	(void)rmdir(folder);
	return r;
}
