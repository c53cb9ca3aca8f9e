/* cmd-generate.c - man pages and shell completion out of the option tables.  Thread: main.
 * A command of the build (`make install`), not shown in the help: the tables are the one
 * truth, and these are its other forms. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/command.h"
#include "base/error.h"
#include "base/log.h"
#include "daemon/control/control-protocol.h"
#include "session/consent/consent.h"

/* ---- shell completion ----
 *
 * Each script is a fixed part (functions that complete one kind of value) and a generated part (commands, options,
 * and the kind of value of each option).  Behind the options of record, stat, top and run there is a command:
 * its own words are completed as at the start of a line, and never by options of perfwind. */

/* How a value is completed, found by the name that --help gives the value. */
struct values {
	const char *arguments; /* all names of one kind: " PID PID[,PID] " */
	const char *bash;      /* a command that sets COMPREPLY; NULL: nothing is offered */
	const char *zsh;       /* an action of _arguments */
	const char *fish;      /* a command that prints words */
};

static const struct values events = {" EVENT EVENT[,EVENT...] EVENT[,FOLLOWER...] ",
				     "_perfwind_list events", "_perfwind_events",
				     "__perfwind_list 'perfwind list --names'"};
static const struct values processes = {" PID[,PID] ", "_perfwind_list processes",
					"_perfwind_processes",
					"__perfwind_list __perfwind_processes"};
static const struct values threads = {" TID[,TID] ", "_perfwind_list threads", "_perfwind_threads",
				      "__perfwind_list __perfwind_threads"};
static const struct values cgroups = {" CGROUP CGROUP[,CGROUP] ", "_perfwind_list cgroups",
				      "_path_files -/ -W /sys/fs/cgroup",
				      "__perfwind_list __perfwind_cgroups"};
static const struct values users = {" USER ", "COMPREPLY=($(compgen -u -- \"$cur\"))", "_users",
				    "__fish_complete_users"};
static const struct values folders = {" DIR ", "COMPREPLY=($(compgen -d -- \"$cur\"))", "_files -/",
				      "__fish_complete_directories"};
/* Numbers, sizes, times, and names that only the trace has. */
static const struct values nothing = {" PID TID NAME HZ N P MS SECONDS TIME PERIOD SIZE PAGES "
				      "BYTES LIST FUNC FROM-TO EXPR MARK MASK "
				      "PERCENT SEP SIZE|TIME TIME|signal ",
				      NULL, " ", NULL};

/* NULL: files. */
static const struct values *values_of(const struct option_def *def)
{
	static const struct values *const table[] = {&events, &processes, &threads, &cgroups,
						     &users,  &folders,	  &nothing};
	char name[64];

	(void)snprintf(name, sizeof(name), " %s ", def->argument ? def->argument : "");
	for (size_t i = 0; def->argument && i < ARRAY_SIZE(table); i++)
		if (strstr(table[i]->arguments, name))
			return table[i];
	return NULL;
}

static void print_choices(FILE *out, const struct option_def *def)
{
	for (const char *const *c = def->choices; *c; c++)
		fprintf(out, "%s%s", c == def->choices ? "" : " ", *c);
}

/* ---- bash ---- */

/* COMP_WORDS is split at colons and equals signs too: words are taken from the line.  A reply replaces only
 * the last part of the word. */
static const char bash_functions[] =
	"# bash completion of perfwind, made from its option tables\n"
	"_perfwind_offers()\n"
	"{\n"
	"\tcase $1 in\n"
	"\tevents) perfwind list --names 2>/dev/null ;;\n"
	"\tprocesses) ps -eo pid=,comm= ;;\n"
	"\tthreads) ps -eLo tid=,comm= ;;\n"
	"\tcgroups) (cd /sys/fs/cgroup 2>/dev/null && compgen -d -- \"${cur##*,}\") ;;\n"
	"\tesac\n"
	"}\n"
	"# A list with commas: its last part.  Numbers are shown with names and inserted "
	"without.\n"
	"_perfwind_list()\n"
	"{\n"
	"\tlocal head=${cur%\"${cur##*[,\\{]}\"} word name\n"
	"\twhile read -r word name; do\n"
	"\t\t[[ $word == \"${cur#\"$head\"}\"* ]] && COMPREPLY+=(\"$head$word${name:+ $name}\")\n"
	"\tdone < <(_perfwind_offers \"$1\")\n"
	"\tif [ ${#COMPREPLY[@]} = 1 ] || [ \"${COMP_TYPE:-9}\" = 37 ]; then\n"
	"\t\tCOMPREPLY=(\"${COMPREPLY[@]%% *}\")\n"
	"\tfi\n"
	"}\n"
	"# The command that is run, from word $1 of the line.\n"
	"_perfwind_command()\n"
	"{\n"
	"\tlocal i\n"
	"\tif [ \"$1\" = $((n - 1)) ]; then\n"
	"\t\tCOMPREPLY=($(compgen -c -- \"$cur\"))\n"
	"\telif declare -F _command_offset >/dev/null; then # of bash-completion\n"
	"\t\tfor ((i = $1; i < COMP_CWORD; i++)); do\n"
	"\t\t\t[ \"${COMP_WORDS[i]}\" != \"${words[$1]}\" ] || { _command_offset $i; return; }\n"
	"\t\tdone\n"
	"\tfi\n"
	"}\n"
	"# The word at which the command begins; nothing: it does not begin before the cursor.  "
	"$1: the options\n"
	"# that take the next word.\n"
	"_perfwind_begins()\n"
	"{\n"
	"\tlocal i\n"
	"\tfor ((i = 2; i < n; i++)); do\n"
	"\t\tcase ${words[i]} in\n"
	"\t\t--) [ $i = $((n - 1)) ] || echo $((i + 1)); return ;;\n"
	"\t\t-*) [[ $1 == *\" ${words[i]} \"* ]] && ((i++)) ;;\n"
	"\t\t'') return ;;\n"
	"\t\t*) echo $i; return ;;\n"
	"\t\tesac\n"
	"\tdone\n"
	"}\n"
	"_perfwind()\n"
	"{\n"
	"\tlocal line=${COMP_LINE:0:COMP_POINT} last=${COMP_WORDS[COMP_CWORD]} words n cur prev "
	"begins\n"
	"\t[ -n \"$line\" ] || line=\"${COMP_WORDS[*]:0:COMP_CWORD+1}\" # called by another "
	"function\n"
	"\tread -ra words <<<\"$line\"\n"
	"\t[[ $line == *[[:blank:]] ]] && words+=('')\n"
	"\tn=${#words[@]} cur=${words[n - 1]} COMPREPLY=()\n"
	"\t[ $n -gt 1 ] || return\n"
	"\tprev=${words[n - 2]}\n"
	"\tcase $cur in --*=*) prev=${cur%%=*} cur=${cur#*=} ;; esac\n"
	"\t_perfwind_words\n"
	"\tcase $last in '' | = | :) last= ;; esac\n"
	"\t[ -z \"$begins\" ] || return\n"
	"\tcase $cur in *[:=]\"$last\") COMPREPLY=(\"${COMPREPLY[@]#\"${cur%\"$last\"}\"}\") ;; "
	"esac\n"
	"}\n";

static void bash_option_words(FILE *out, const struct option_def *defs)
{
	for (const struct option_def *d = defs; d && d->name; d++)
		if (d->help)
			fprintf(out, " --%s", d->name);
}

static void option_names(FILE *out, const struct option_def *d, const char *between)
{
	if (d->letter)
		fprintf(out, "-%c%s", d->letter, between);
	fprintf(out, "--%s", d->name);
}

/* "--unwinder) COMPREPLY=... ;;": the values of each option with a list of values. */
static void bash_value_cases(FILE *out, const struct option_def *defs)
{
	for (const struct option_def *d = defs; d && d->name; d++) {
		const struct values *values = values_of(d);

		if (!d->help || (!d->choices && !values))
			continue;
		fputs("\t\t", out);
		option_names(out, d, " | ");
		if (d->choices) {
			fputs(") COMPREPLY=($(compgen -W '", out);
			print_choices(out, d);
			fputs("' -- \"$cur\")); return ;;\n", out);
		} else {
			fprintf(out, ") %s; return ;;\n",
				values->bash ? values->bash : "compopt +o default 2>/dev/null");
		}
	}
}

static void options_with_value(FILE *out, const struct option_def *defs)
{
	for (const struct option_def *d = defs; d && d->name; d++)
		if (d->argument && !d->accepts) {
			fputc(' ', out);
			option_names(out, d, " ");
		}
}

static void bash_command(FILE *out, const struct command *command)
{
	const struct options *o = command->options;

	fprintf(out, "\t%s)\n", command->name);
	if (o->stop_at_argument) {
		fputs("\t\tbegins=$(_perfwind_begins '", out);
		options_with_value(out, o->defs);
		options_with_value(out, o->foreign);
		fputs(" ')\n\t\t[ -z \"$begins\" ] || { _perfwind_command \"$begins\"; return; }\n",
		      out);
	}
	fputs("\t\tcase $prev in\n", out);
	bash_value_cases(out, o->defs);
	fputs("\t\tesac\n", out);
	if (o->words)
		fprintf(out,
			"\t\t[ $n = 3 ] && COMPREPLY=($(compgen -W '%s' -- "
			"\"$cur\"))\n",
			o->words);
	fputs("\t\t[ \"${cur#-}\" = \"$cur\" ] ||\n\t\t\tCOMPREPLY=($(compgen -W '", out);
	bash_option_words(out, o->defs);
	bash_option_words(out, options_common);
	fputs("' -- \"$cur\")) ;;\n", out);
}

/* Each writes a whole script: for bash (sourced), zsh (a file _perfwind in fpath) and fish (sourced). */
static void completion_bash(FILE *out)
{
	fputs(bash_functions, out);
	fputs("_perfwind_words()\n{\n\tif [ $n = 2 ] || [ \"${words[1]}$n\" = help3 ]; then\n"
	      "\t\tCOMPREPLY=($(compgen -W '",
	      out);
	for (size_t i = 0; i < n_commands; i++)
		fprintf(out, "%s ", commands[i]->name);
	fputs("help --help --version' -- \"$cur\"))\n\t\treturn\n\tfi\n\tcase ${words[1]} in\n",
	      out);
	for (size_t i = 0; i < n_commands; i++)
		bash_command(out, commands[i]);
	fputs("\tesac\n}\ncomplete -o default -F _perfwind perfwind\n", out);
}

/* ---- zsh ---- */

static const char zsh_functions[] =
	"#compdef perfwind\n"
	"# zsh completion of perfwind, made from its option tables\n"
	"_perfwind_events()\n"
	"{\n"
	"\tlocal -a names=(${(f)\"$(perfwind list --names 2>/dev/null)\"})\n"
	"\tcompset -P '*[,{]'\n"
	"\tcompadd -a names\n"
	"}\n"
	"# Numbers, shown with names.\n"
	"_perfwind_ids()\n"
	"{\n"
	"\tlocal -a lines=(${${(f)\"$(ps $@)\"}##[[:blank:]]#})\n"
	"\tlocal -a ids=(${lines%% *})\n"
	"\tcompset -P '*,'\n"
	"\tcompadd -l -d lines -a ids\n"
	"}\n"
	"_perfwind_processes() { _perfwind_ids -eo pid=,comm= }\n"
	"_perfwind_threads() { _perfwind_ids -eLo tid=,comm= }\n";

/* Inside single quotes and _arguments' own brackets. */
static void zsh_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", out);
		else if (*text == '[' || *text == ']' || *text == ':' || *text == '\\')
			fprintf(out, "\\%c", *text);
		else
			fputc(*text == '\n' ? ' ' : *text, out);
	}
}

static bool may_be_repeated(const struct option_def *d)
{
	return d->type == OPTION_COUNT || (d->type == OPTION_CALL && d->argument);
}

/* '(-p --pid)'{-p+,--pid=} and the like: "+" and "=": the value may stand in the same word. */
static void zsh_names(FILE *out, const struct option_def *d)
{
	if (may_be_repeated(d))
		fputs("'*'", out);
	else if (d->letter)
		fprintf(out, "'(-%c --%s)'", d->letter, d->name);
	if (d->letter)
		fprintf(out, "{-%c%s,", d->letter, d->argument ? "+" : "");
	fprintf(out, "--%s%s", d->name, !d->argument ? "" : d->accepts ? "=-" : "=");
	if (d->letter)
		fputc('}', out);
}

static void zsh_options(FILE *out, const struct option_def *defs)
{
	for (const struct option_def *d = defs; d && d->name; d++) {
		const struct values *values = values_of(d);

		if (!d->help)
			continue;
		fputs(" \\\n\t\t\t", out);
		zsh_names(out, d);
		fputs("'[", out);
		zsh_text(out, d->help);
		fputc(']', out);
		if (d->argument) {
			fputs(d->accepts ? "::" : ":", out);
			zsh_text(out, d->argument);
			fputc(':', out);
		}
		if (d->choices) {
			fputc('(', out);
			print_choices(out, d);
			fputc(')', out);
		} else if (d->argument) {
			fputs(values ? values->zsh : "_files", out);
		}
		fputc('\'', out);
	}
}

static void zsh_command(FILE *out, const struct command *command)
{
	const struct options *o = command->options;

	fprintf(out, "\t%s) _arguments -s -S%s", command->name,
		o->stop_at_argument ? " -A '-*'" : "");
	zsh_options(out, o->defs);
	zsh_options(out, options_common);
	if (o->stop_at_argument)
		fputs(" \\\n\t\t\t'(-)1:command:_command_names -e' \\\n\t\t\t'*::argument:_normal'",
		      out);
	else if (o->words)
		fprintf(out, " \\\n\t\t\t'1:command:(%s)'", o->words);
	if (!o->stop_at_argument && o->max_arguments)
		fputs(" \\\n\t\t\t'*:argument:_files'", out);
	fputs(" ;;\n", out);
}

static void completion_zsh(FILE *out)
{
	fputs(zsh_functions, out);
	fputs("_perfwind()\n{\n\tif (( CURRENT == 2 )) || [[ $words[2]$CURRENT == help3 ]]; then\n"
	      "\t\tlocal -a names=(",
	      out);
	for (size_t i = 0; i < n_commands; i++) {
		fprintf(out, "\n\t\t\t'%s:", commands[i]->name);
		zsh_text(out, commands[i]->summary);
		fputc('\'', out);
	}
	fputs(")\n\t\t_describe command names\n\t\treturn\n\tfi\n\tlocal name=$words[2]\n"
	      "\tshift words\n\t(( CURRENT-- ))\n\tcase $name in\n",
	      out);
	for (size_t i = 0; i < n_commands; i++)
		zsh_command(out, commands[i]);
	fputs("\tesac\n}\n_perfwind \"$@\"\n", out);
}

/* ---- fish ---- */

static const char fish_functions[] =
	"# fish completion of perfwind, made from its option tables\n"
	"function __perfwind_is\n"
	"    set -l words (commandline -opc)\n"
	"    test (count $words) -gt 1; and contains -- $words[2] $argv\n"
	"end\n"
	"# The same, before the command that is run begins; __perfwind_takes_X: the options that "
	"take the next word.\n"
	"function __perfwind_options_of\n"
	"    __perfwind_is $argv; or return\n"
	"    set -l words (commandline -opc)[3..-1]\n"
	"    set -l takes __perfwind_takes_$argv\n"
	"    while set -q words[1]\n"
	"        if not string match -q -- '-*' $words[1]; or test $words[1] = --\n"
	"            return 1\n"
	"        end\n"
	"        contains -- $words[1] $$takes; and set -e words[1]\n"
	"        set -e words[1]\n"
	"    end\n"
	"end\n"
	"function __perfwind_needs_command\n"
	"    set -l words (commandline -opc)\n"
	"    test (count $words) = 1; or test \"$words[2..-1]\" = help\n"
	"end\n"
	"function __perfwind_processes\n"
	"    ps -eo pid=,comm= | string trim | string replace ' ' \\t\n"
	"end\n"
	"function __perfwind_threads\n"
	"    ps -eLo tid=,comm= | string trim | string replace ' ' \\t\n"
	"end\n"
	"function __perfwind_cgroups\n"
	"    set -l folders /sys/fs/cgroup/(commandline -ct | string replace -r '.*,' '')*/\n"
	"    string replace /sys/fs/cgroup/ '' -- $folders\n"
	"end\n"
	"# A list with commas: what the command $argv prints, behind what is there.\n"
	"function __perfwind_list\n"
	"    set -l head (commandline -ct | string match -r '^(?:--[^=]*=)?(.*[,{])')[2]\n"
	"    set -l words (eval $argv 2>/dev/null)\n"
	"    printf '%s\\n' \"$head\"$words\n"
	"end\n";

/* Inside single quotes, in which only they and the backslash are special. */
static void fish_text(FILE *out, const char *text)
{
	for (; *text && *text != '\n'; text++) {
		if (*text == '\'' || *text == '\\')
			fputc('\\', out);
		fputc(*text, out);
	}
}

static void fish_options(FILE *out, const struct command *command, const struct option_def *defs)
{
	const char *when = command->options->stop_at_argument ? "options_of" : "is";

	for (const struct option_def *d = defs; d && d->name; d++) {
		const struct values *values = values_of(d);

		if (!d->help)
			continue;
		fprintf(out, "complete -c perfwind -n '__perfwind_%s %s' -l %s", when,
			command->name, d->name);
		if (d->letter)
			fprintf(out, " -s %c", d->letter);
		if (d->choices) {
			fputs(" -x -a '", out);
			print_choices(out, d);
			fputc('\'', out);
		} else if (values && values->fish) {
			fputs(" -x -a '(", out);
			fish_text(out, values->fish);
			fputs(")'", out);
		} else if (d->argument) {
			fputs(values ? " -x" : " -r -F", out);
		}
		fputs(" -d '", out);
		fish_text(out, d->help);
		fputs("'\n", out);
	}
}

static void fish_arguments(FILE *out, const struct command *command)
{
	const struct options *o = command->options;

	if (!o->stop_at_argument && !o->words && o->max_arguments)
		return; /* files */
	if (o->stop_at_argument) {
		fprintf(out, "set -g __perfwind_takes_%s", command->name);
		options_with_value(out, o->defs);
		options_with_value(out, o->foreign);
		fputc('\n', out);
	}
	fprintf(out, "complete -c perfwind -n '__perfwind_is %s' -f", command->name);
	if (o->stop_at_argument)
		fprintf(out, " -a '(__fish_complete_subcommand --fcs-skip=2 $__perfwind_takes_%s)'",
			command->name);
	else if (o->words)
		fprintf(out, " -a '%s'", o->words);
	fputc('\n', out);
}

static void completion_fish(FILE *out)
{
	fputs(fish_functions, out);
	for (size_t i = 0; i < n_commands; i++) {
		fprintf(out, "complete -c perfwind -n __perfwind_needs_command -f -a %s -d '",
			commands[i]->name);
		fish_text(out, commands[i]->summary);
		fputs("'\n", out);
		fish_arguments(out, commands[i]);
		fish_options(out, commands[i], commands[i]->options->defs);
		fish_options(out, commands[i], options_common);
	}
}

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
