/* cmd-list.c - `perfwind list [TEXT]`: the events that record -e takes on this machine.  Thread: main. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/common-options.h"
#include "base/error.h"
#include "perf/gate.h"
#include "perf/spec-list.h"
#include "perf/spec-usdt.h"

struct list_command {
	bool names;
};
struct list {
	const char *text; /* NULL: all */
	bool names;	  /* alone */
	size_t n, n_hardware;
};

#define AT(member) .offset = offsetof(struct list_command, member)
static const struct option_def defs[] = {
	FLAG("names", 0, names, "names alone, one a line, for scripts"),
	{0},
};

static const struct options options = {
	.command = "list",
	.usage = "[OPTIONS] [TEXT]",
	.description = "Lists the events that `perfwind record -e` takes on this machine, or those "
		       "with TEXT in\ntheir names.  For one tracepoint (GROUP:NAME) its fields are "
		       "listed too: --filter\ntakes them.  For usdt:PATH the static probes of a "
		       "program or library are listed.",
	.defs = defs,
	.details = {"Events that need no list: rHEX (a raw number of the CPU), PMU/terms/, "
		    "kprobe:FUNC, kretprobe:FUNC, uprobe:PATH:FUNC, uretprobe:PATH:FUNC and "
		    "usdt:PATH:PROVIDER:NAME. "
		    "Tracepoints are listed if this user may read tracefs."},
	.examples = "# tracepoints of the scheduler\n"
		    "sudo perfwind list sched:\n\n"
		    "# the fields of one, for --filter\n"
		    "sudo perfwind list sched:sched_switch\n\n"
		    "# the static probes of a library\n"
		    "perfwind list usdt:/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
	.max_arguments = 1,
};

static void print_event(void *arg, enum perf_kind kind, const char *name)
{
	static const char *const kinds[] = {
		[PERF_KIND_HARDWARE] = "hardware",     [PERF_KIND_SOFTWARE] = "software",
		[PERF_KIND_CACHE] = "hardware cache",  [PERF_KIND_PMU] = "PMU",
		[PERF_KIND_TRACEPOINT] = "tracepoint",
	};
	struct list *list = arg;

	if (list->text && !strcasestr(name, list->text) && !strcasestr(kinds[kind], list->text))
		return;
	list->n++;
	list->n_hardware += kind == PERF_KIND_HARDWARE || kind == PERF_KIND_CACHE;
	if (list->names)
		printf("%s\n", name);
	else
		printf("  %-48s %s\n", name, kinds[kind]);
}

/* Of a tracepoint that was named in full. */
static void print_fields(const struct perf_spec_env *env, const char *text)
{
	_cleanup_(freep) char *fields = NULL;

	if (!text || perf_spec_fields(env, text, &fields) < 0)
		return;
	for (char *save = NULL, *line = strtok_r(fields, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save))
		printf("      %s\n", line + strlen("field:"));
}

static void note_tracefs(int r)
{
	const struct gate_text text =
		gate_text(r == -EACCES ? GATE_TRACEFS : GATE_TRACEFS_MOUNT, 0, 0);

	log_info("list: tracepoints are not listed: %s; hint: %s", text.cause, text.hint);
}

struct probes {
	const char *path;
	bool names;
	size_t n;
};

static int print_probe(void *arg, const struct usdt_probe *probe)
{
	struct probes *probes = arg;

	probes->n++;
	printf("%susdt:%s:%s:%s", probes->names ? "" : "  ", probes->path, probe->provider,
	       probe->name);
	if (!probes->names && probe->arguments[0])
		printf("  %s", probe->arguments);
	putchar('\n');
	return 0;
}

/* The static probes of a file. */
static int list_probes(const char *path, bool names)
{
	struct probes probes = {.path = path, .names = names};
	int r = spec_usdt_each(path, print_probe, &probes);

	if (r < 0)
		log_error("list: %s: %s", path, r == -ENOEXEC ? "no ELF file" : strerror(-r));
	else if (!probes.n)
		log_error("list: %s has no static probes (sys/sdt.h)", path);
	return r < 0 || !probes.n;
}

static int list_run(int argc, char **argv)
{
	const struct perf_spec_env env = {""};
	struct list_command command = {0};
	struct list list = {0};
	int n, r = options_parse(&options, argc, argv, &command, &n);

	if (r)
		return options_exit_status(r);
	list.text = n ? argv[0] : NULL;
	list.names = command.names;
	if (n && !strncmp(argv[0], "usdt:", 5))
		return list_probes(argv[0] + 5, command.names);
	r = perf_spec_list(&env, print_event, &list);
	if (!list.names)
		print_fields(&env, list.text);
	if (!list.names && list.n_hardware && perf_spec_cycles() == -ENOENT)
		log_info("list: this machine has no hardware counters (a virtual machine?): events "
			 "of kind hardware cannot be opened");
	if (r < 0 && r != -ENOENT && r != -EACCES) {
		log_error("list: the list is not complete: %s", strerror(-r));
		return 1;
	}
	if (r < 0)
		note_tracefs(r);
	if (list.n)
		return 0;
	log_error("list: no event has '%.64s' in its name", list.text ? list.text : "");
	return 1;
}

const struct command command_list = {"list", "list the events of this machine", list_run, &options};
