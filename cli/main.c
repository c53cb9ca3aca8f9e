/* main.c - perfwind COMMAND ...  Thread: main.  commands.c has the table. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "base/log.h"

enum { COMMANDS_MAX = 32 };

static void print_help(FILE *out)
{
	fprintf(out, "Usage: perfwind COMMAND [OPTIONS] [ARGUMENTS]\n\n"
		     "A sampling CPU profiler with whole stacks.\n\nCommands:\n");
	for (size_t i = 0; i < n_commands; i++)
		fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
	fprintf(out, "\n`perfwind COMMAND --help` shows the options of a command.\n");
}

/* Commands of perf(1), and words for a format, that perfwind has under another name, or not. */
static const char *way_of_perf(const char *name)
{
	static const struct {
		const char *name, *way;
	} ways[] = {
		{"archive", "a trace has its names in it: copy the .pftrace file alone"},
		{"bench", "there is none: profile a benchmark with `perfwind record -- COMMAND`"},
		{"buildid-cache", "it is not needed: a trace has its names in it"},
		{"buildid-list",
		 "`perfwind trace --dump FILE` prints mappings with their build ids"},
		{"c2c", "there is none: data addresses are not recorded; use perf c2c"},
		{"config", "there is none: options are given on the command line"},
		{"data",
		 "`perfwind import` reads perf.data; `perfwind record --perf-data` writes it"},
		{"evlist", "`perfwind report` names the events of a trace"},
		{"flamegraph", "`perfwind export --to html FILE`"},
		{"folded", "`perfwind export --to folded FILE`"},
		{"ftrace", "there is none; `perfwind record -e GROUP:NAME` records tracepoints"},
		{"html", "`perfwind export --to html FILE`"},
		{"iostat", "there is none; `perfwind stat` counts the events of a PMU"},
		{"kallsyms",
		 "`perfwind report` names kernel functions; the list is /proc/kallsyms"},
		{"kwork", "`perfwind record -e irq:irq_handler_entry -a` records interrupts"},
		{"test", "`perfwind doctor` shows which facilities this machine has"},
		{"version", "`perfwind --version`"},
		{"inject", "`perfwind import` reads perf.data with names of compiled code"},
		{"kmem", "`perfwind record -e kmem:kmalloc -a` records each allocation's stack"},
		{"kvm", "there is none for guests: record inside the guest; `perfwind record -e "
			"kvm:kvm_exit -a` on the host"},
		{"lock", "`perfwind record --off-cpu` records where threads wait, and how long"},
		{"mem", "there is none: data addresses are not recorded; use perf mem"},
		{"pprof", "`perfwind export --to pprof FILE`"},
		{"probe",
		 "`perfwind record -e kprobe:FUNC` or `-e uprobe:PATH:FUNC` makes the probe"},
		{"sched",
		 "`perfwind record --off-cpu -a` records where threads wait for a CPU, and how "
		 "long"},
		{"stats", "`perfwind losses` prints the data losses of a trace; `perfwind stat` "
			  "counts events"},
		{"timechart", "open the trace in https://ui.perfetto.dev"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++)
		if (!strcmp(ways[i].name, name))
			return ways[i].way;
	return NULL;
}

static int unknown_command(const char *name)
{
	const char *names[COMMANDS_MAX];
	const char *nearest, *way = way_of_perf(name);
	size_t n = 0;

	if (way) {
		log_error("no command %s: %s", name, way);
		return 2;
	}
	for (; n < n_commands && n < COMMANDS_MAX; n++)
		names[n] = commands[n]->name;
	nearest = options_nearest(name, strlen(name), names, n);
	log_error("unknown command %.64s%s%s%s (see `perfwind --help`)", name,
		  nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
	return 2;
}

static int run_command(int argc, char **argv)
{
	for (size_t i = 0; i < n_commands; i++)
		if (!strcmp(argv[0], commands[i]->name))
			return commands[i]->run(argc, argv);
	if (!strcmp(argv[0], command_generate.name))
		return command_generate.run(argc, argv);
	return unknown_command(argv[0]);
}

/* Opens /dev/null on closed standard descriptors, so that no later file gets their numbers.  The access mode is the
 * wrong one on purpose: a read of 0 or a write to 1 or 2 still fails with EBADF, also in the command. */
static int take_standard_numbers(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		int flags = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;

		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", flags) != fd) /* inherited: no O_CLOEXEC */
			return -1;
	}
	return 0;
}

/* A reader like head(1) has enough: no message, as from programs that SIGPIPE ends. */
static bool reader_left(void)
{
	struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};

	return poll(&out, 1, 0) == 1 && out.revents & POLLERR;
}

/* The exit status: a failed write to standard output (a full disk, a closed pipe) is an error. */
static int finish(int status)
{
	errno = 0;
	if (!fflush(stdout) && !ferror(stdout))
		return status;
	if (!reader_left())
		log_error("standard output: %s", strerror(errno ? errno : EIO));
	return status ? status : 1;
}

static int run(int argc, char **argv)
{
	if (argc < 2) {
		print_help(stderr);
		return 2;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		print_help(stdout);
		return 0;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		printf("perfwind " PERFWIND_VERSION "\n");
		return 0;
	}
	/* `perfwind help record` */
	if (!strcmp(argv[1], "help")) {
		static char help[] = "--help";

		if (argc < 3) {
			print_help(stdout);
			return 0;
		}
		return run_command(2, (char *[]){argv[2], help, NULL});
	}
	return run_command(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
	const struct sigaction ignored = {.sa_handler = SIG_IGN};

	if (take_standard_numbers() < 0) {
		log_error("/dev/null: %s", strerror(errno));
		return 1;
	}
	/* A file size limit is a write error, as a full disk is, not a fatal signal. */
	(void)sigaction(SIGXFSZ, &ignored, NULL);
	return finish(run(argc, argv));
}
