/* cmd-generate.c - man pages and shell completion (completion.c) out of the option tables.  Thread: main.
 * A command of the build (`make install`), not shown in the help: what the tables say is the one
 * truth, and these are its other forms. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/command.h"
#include "cli/completion.h"
#include "base/error.h"
#include "base/log.h"
#include "daemon/control/control-protocol.h"
#include "session/consent/consent.h"

/* ---- man(7) ---- */

/* Text as roff: a dash that can be copied, no escapes, no requests at the start of a line. */
static void roff(FILE *out, const char *text)
{
	bool line_start = true;

	for (; *text; text++) {
		if (line_start && (*text == '.' || *text == '\''))
			fputs("\\&", out);
		line_start = *text == '\n';
		if (*text == '-')
			fputs("\\-", out);
		else if (*text == '\\')
			fputs("\\e", out);
		else
			fputc(*text, out);
	}
}

static void man_option(FILE *out, const struct option_def *def)
{
	if (!def->help)
		return;
	fputs(".TP\n", out);
	if (def->letter)
		fprintf(out, "\\fB\\-%c\\fR, ", def->letter);
	fputs("\\fB\\-\\-", out);
	roff(out, def->name);
	fputs("\\fR", out);
	if (def->argument) {
		fputs(" \\fI", out);
		roff(out, def->argument);
		fputs("\\fR", out);
	}
	fputc('\n', out);
	roff(out, def->help);
	fputc('\n', out);
}

static void man_head(FILE *out, const char *name, const char *summary)
{
	fprintf(out, ".TH \"%s\" 1 \"\" \"perfwind " PERFWIND_VERSION "\" \"perfwind\"\n", name);
	fprintf(out, ".SH NAME\n%s \\- ", name);
	roff(out, summary);
	fputc('\n', out);
}

/* Of the commands that open events; the parser is perf/spec.c. */
static void man_events(FILE *out)
{
	static const char *const forms[][2] = {
		{"cycles, page-faults, L1-dcache-load-misses ...",
		 "hardware, cache and software events by name (perfwind list)"},
		{"GROUP:NAME, GROUP/NAME", "a tracepoint"},
		{"kprobe:FUNC[+OFFSET], kretprobe:FUNC", "a function of the kernel"},
		{"uprobe:PATH:FUNC, uprobe:PATH:OFFSET, uretprobe:PATH:FUNC",
		 "a function of a program or library"},
		{"usdt:PATH:PROVIDER:NAME, usdt:PROVIDER:NAME",
		 "a static probe of a program or library (sys/sdt.h; perfwind list usdt:PATH); "
		 "without PATH, of record: of the command's program, or of a file that a process "
		 "of -p runs and no other user can change"},
		{"PMU/EVENT/, PMU/TERM=VALUE,.../", "an event of a PMU, as sysfs describes it"},
		{"rHEX", "a raw number of the CPU"},
		{"EVENT:MODIFIERS", "u: user code, k: kernel, h: hypervisor (alone or together); "
				    "p, pp, ppp, P: precise"},
		{"A,B,...",
		 "of record and top: A is sampled, the others are counted at each sample; of "
		 "stat: all are counted"},
		{"{A,B,...}", "a group: its events are on a CPU together"},
	};

	fputs(".SH EVENTS\n", out);
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		fputs(".TP\n\\fB", out);
		roff(out, forms[i][0]);
		fputs("\\fR\n", out);
		roff(out, forms[i][1]);
		fputc('\n', out);
	}
}

static bool has_events(const struct options *o)
{
	for (const struct option_def *d = o->defs; d && d->name; d++)
		if (!strcmp(d->name, "event") && d->letter == 'e')
			return !strcmp(o->command, "record") || !strcmp(o->command, "stat") ||
			       !strcmp(o->command, "top");
	return false;
}

/* A file or a variable of the environment, and the commands that use it. */
struct fact {
	const char *name, *text, *commands;
};

static const struct fact files[] = {
	{"$XDG_CACHE_HOME/perfwind, ~/.cache/perfwind",
	 "a cache for later commands of the same user: names of the kernel's functions, inlined "
	 "calls and lines of programs, limits that were printed (at most 64 MiB).  Root's is "
	 "/var/cache/perfwind, or XDG_CACHE_HOME if it is a folder of root.  It can be removed at "
	 "any time; XDG_CACHE_HOME=/dev/null turns it off.",
	 " record top import trace "},
	{"perfwind.pftrace",
	 "the trace that is written or read where none is named; record moves an existing one to "
	 "perfwind.pftrace.old",
	 " record report annotate script export import snapshot trace "},
	{"/etc/perfwind.conf", "settings of the daemon: perfwind.conf(5)", " daemon "},
	{"~/.debug", "the build-id cache of perf: files that are gone",
	 " annotate import symbolize "},
	{"/usr/lib/debug", "debug files, by build id or path",
	 " record top annotate import symbolize trace daemon "},
	{"jit-PID.dump, /tmp/jit-PID.dump, /tmp/perf-PID.map", "code of JIT compilers",
	 " record top annotate trace daemon "},
	{"/sys/kernel/tracing", "tracepoints and their fields (tracefs)",
	 " record top stat list trace daemon "},
	{CONTROL_SOCKET, "the control socket of the daemon",
	 " record top snapshot doctor trace daemon "},
	{HOOK_SOCKET, "the socket at which processes that opted in answer",
	 " record top run trace daemon "},
	{"/var/lib/perfwind/episodes, $XDG_STATE_HOME/perfwind/episodes, "
	 "~/.local/state/perfwind/episodes",
	 "the episodes of root, and of other users", " watch episodes "},
};

static const struct fact environment[] = {
	{"NO_COLOR", "not empty: plain text", " top report annotate diff "},
	{"XDG_CACHE_HOME", "see FILES", " record top import trace "},
	{"XDG_STATE_HOME", "see FILES", " watch episodes "},
	{"PERFWIND_NOTES",
	 "all: each command prints the limits of the machine.  By default, limits that an earlier "
	 "command of the user has printed take one line (-v prints them; the trace has them)",
	 " record top trace "},
	{"PERF_BUILDID_DIR", "the build-id cache, in place of ~/.debug",
	 " annotate import symbolize "},
	{"PERFWIND_DEBUGINFOD, DEBUGINFOD_URLS",
	 "yes: as with --debuginfod, where DEBUGINFOD_URLS names a server",
	 " record import symbolize "},
	{"PERFETTO_PRODUCER_SOCK_NAME", "the socket of the tracing service", " daemon trigger "},
};

/* A section of the facts about @command; of all with NULL. */
static void man_facts(FILE *out, const char *section, const struct fact *facts, size_t n,
		      const char *command)
{
	bool begun = false;
	char name[64];

	(void)snprintf(name, sizeof(name), " %s ", command ? command : "");
	for (size_t i = 0; i < n; i++) {
		if (command && !strstr(facts[i].commands, name))
			continue;
		if (!begun)
			fprintf(out, ".SH %s\n", section);
		begun = true;
		fputs(".TP\n\\fB", out);
		roff(out, facts[i].name);
		fputs("\\fR\n", out);
		roff(out, facts[i].text);
		fputc('\n', out);
	}
}

static void man_command(FILE *out, const struct command *command)
{
	const struct options *o = command->options;
	char name[64];

	(void)snprintf(name, sizeof(name), "perfwind-%s", command->name);
	man_head(out, name, command->summary);
	fprintf(out, ".SH SYNOPSIS\n\\fBperfwind %s\\fR ", command->name);
	roff(out, o->usage);
	fputc('\n', out);
	if (o->description) {
		fputs(".SH DESCRIPTION\n", out);
		roff(out, o->description);
		fputc('\n', out);
	}
	for (size_t i = 0; i < ARRAY_SIZE(o->details) && o->details[i]; i++) {
		fputs(".PP\n", out);
		roff(out, o->details[i]);
		fputc('\n', out);
	}
	fputs(".SH OPTIONS\n", out);
	for (const struct option_def *d = o->defs; d && d->name; d++)
		man_option(out, d);
	for (const struct option_def *d = options_common; d->name; d++)
		man_option(out, d);
	if (has_events(o))
		man_events(out);
	if (o->json) {
		fputs(".SH JSON\n.nf\n", out);
		roff(out, o->json);
		fputs("\n.fi\n", out);
	}
	if (o->examples) {
		fputs(".SH EXAMPLES\n.nf\n", out);
		roff(out, o->examples);
		fputs("\n.fi\n", out);
	}
	fputs(".SH EXIT STATUS\n0; 1 (it failed); 2 (wrong usage); of a command that was run, its "
	      "own. DESCRIPTION names further ones.\n",
	      out);
	man_facts(out, "FILES", files, ARRAY_SIZE(files), command->name);
	man_facts(out, "ENVIRONMENT", environment, ARRAY_SIZE(environment), command->name);
	fputs(".SH SEE ALSO\n.BR perfwind (1),\n.BR perfwind.conf (5)\n", out);
}

static void man_perfwind(FILE *out)
{
	man_head(out, "perfwind", "a sampling CPU profiler with whole stacks");
	fputs(".SH SYNOPSIS\n\\fBperfwind\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR] "
	      "[\\fIARGUMENTS\\fR]\n.SH COMMANDS\n",
	      out);
	for (size_t i = 0; i < n_commands; i++) {
		fprintf(out, ".TP\n.BR perfwind\\-%s (1)\n", commands[i]->name);
		roff(out, commands[i]->summary);
		fputc('\n', out);
	}
	fputs(".SH EXIT STATUS\n0, 1 (it failed), 2 (wrong usage); of a command that was run, its "
	      "own.\nA command outlives a recording that fails; the exit status is then its own, "
	      "or 1 if that is 0.\n",
	      out);
	man_facts(out, "FILES", files, ARRAY_SIZE(files), NULL);
	man_facts(out, "ENVIRONMENT", environment, ARRAY_SIZE(environment), NULL);
	fputs(".SH EXAMPLES\n.nf\n"
	      "# record a command, then show where its time went\n"
	      "perfwind record \\-\\- make\nperfwind report\n\n"
	      "# a flame graph page in one file\n"
	      "perfwind export \\-\\-to html perfwind.pftrace\n\n"
	      "# the limits of profiling on this machine, with hints\n"
	      "perfwind doctor\n.fi\n.SH SEE ALSO\n.BR perfwind.conf (5),\n.BR perf_event_open "
	      "(2)\n",
	      out);
}

static FILE *open_page(const char *folder, const char *name, char *path, size_t size)
{
	FILE *f;

	(void)snprintf(path, size, "%s/%s", folder, name);
	f = fopen(path, "we");
	if (!f)
		log_error("%s: %s", path, strerror(errno));
	return f;
}

static int close_page(FILE *f, const char *path)
{
	int bad = ferror(f);

	if (fclose(f) == 0 && !bad)
		return 0;
	log_error("%s: %s", path, strerror(errno));
	return 1;
}

static int write_man(const char *folder)
{
	char name[80], path[4096];
	FILE *f = open_page(folder, "perfwind.1", path, sizeof(path));
	int r;

	if (!f)
		return 1;
	man_perfwind(f);
	r = close_page(f, path);
	for (size_t i = 0; i < n_commands && r == 0; i++) {
		(void)snprintf(name, sizeof(name), "perfwind-%s.1", commands[i]->name);
		f = open_page(folder, name, path, sizeof(path));
		if (!f)
			return 1;
		man_command(f, commands[i]);
		r = close_page(f, path);
	}
	return r;
}

/* ---- the command ---- */

static const struct options options = {
	.command = "generate",
	.usage = "man FOLDER | bash | zsh | fish",
	.description = "Writes the man pages, or the completion of a shell, made from the option "
		       "tables.",
	.min_arguments = 1,
	.max_arguments = 2,
};

static int generate_run(int argc, char **argv)
{
	char none;
	int n, r = options_parse(&options, argc, argv, &none, &n);

	if (r)
		return options_exit_status(r);
	if (!strcmp(argv[0], "man") && n == 2)
		return write_man(argv[1]);
	if (!strcmp(argv[0], "bash") && n == 1)
		completion_bash(stdout);
	else if (!strcmp(argv[0], "zsh") && n == 1)
		completion_zsh(stdout);
	else if (!strcmp(argv[0], "fish") && n == 1)
		completion_fish(stdout);
	else
		return log_error("usage: perfwind generate %s", options.usage), 2;
	return 0;
}

const struct command command_generate = {
	.name = "generate",
	.summary = "man pages and shell completion",
	.run = generate_run,
	.options = &options,
};
