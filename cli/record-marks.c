/* record-marks.c - see record-marks.h. */
#include "cli/record-marks.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/preload.h"
#include "base/error.h"
#include "proc/procfs.h"

#define LIBRARY "libperfwind-marks.so"

static int prepare_command(const struct mark_rings *rings)
{
	char path[PRELOAD_PATH_MAX];
	int r = preload_find(LIBRARY, path, sizeof(path));

	if (r < 0) {
		log_error("record: --marks: " LIBRARY
			  " is not next to perfwind nor in lib/perfwind (hint: make install)");
		return r;
	}
	r = preload_set(path);
	if (r >= 0 && setenv(MARKS_ENV, mark_rings_environment(rings), 1) < 0)
		r = fail(-errno);
	if (r < 0)
		log_error("record: --marks: %s: %s", path,
			  r == -EINVAL ? "a path with a blank or colon cannot be preloaded"
				       : strerror(-r));
	return r;
}

/* Programs that load the library while the recording runs. */
static void welcome(struct mark_rings *rings)
{
	int r = mark_rings_welcome(rings);

	if (r == -EADDRINUSE)
		log_info("programs that load " LIBRARY
			 " from now on have their marks in another recording of all processes, "
			 "until it ends");
	else if (r < 0)
		log_info("programs that load " LIBRARY " from now on have no marks: %s",
			 strerror(-r));
}

/* @print: trace_marker is read, of programs without the library too. */
static int invite_all(const struct record_args *args, struct mark_rings *rings, bool print)
{
	_cleanup_(freep) uint32_t *pids = NULL;
	size_t n, invited = 0;
	int r;

	if (args->all)
		welcome(rings);
	if (args->all)
		r = procfs_pids("", &pids, &n);
	else if (args->children)
		r = procfs_families("", args->pids, args->n_pids, 0, &pids, &n);
	else
		r = procfs_families("", args->pids, args->n_pids, args->n_pids, &pids, &n);
	for (size_t i = 0; r >= 0 && i < n; i++) {
		bool named = false;

		for (size_t k = 0; k < args->n_pids; k++)
			named |= args->pids[k] == pids[i];
		if (!args->all && !args->children && !named)
			continue;
		r = mark_rings_invite(rings, pids[i]);
		invited += r == MARK_RINGS_INVITED;
		if (named && r == MARK_RINGS_NOT_LOADED)
			log_info("process %u has not loaded " LIBRARY
				 ": it has no marks (hint: start it with LD_PRELOAD=" LIBRARY ")",
				 pids[i]);
		else if (named && r == MARK_RINGS_FORBIDDEN)
			log_info("process %u has no marks: you lack permission to read its "
				 "descriptors",
				 pids[i]);
	}
	if (r >= 0 && args->all && !invited && !print)
		log_info("no process has loaded " LIBRARY
			 " yet: there are no marks (hint: start programs with LD_PRELOAD=" LIBRARY
			 ")");
	if (r < 0)
		log_error("record: --marks: %s", strerror(-r));
	return r < 0 ? r : 0;
}

/* Where it is not read, programs that load the library have their marks all the same. */
static void open_print(const struct record_args *args, struct ftrace_print **ret_print)
{
	int r = ftrace_print_new(record_clock(args), ret_print);

	if (r == -ENOENT)
		log_verbose(
			"trace_marker of programs without " LIBRARY
			" is not read: tracefs is not mounted (hint: sudo mount -t tracefs nodev "
			"/sys/kernel/tracing)");
	else if (r == -EOPNOTSUPP)
		log_verbose("trace_marker of programs without " LIBRARY
			    " is not read: the kernel has no copy_trace_marker, or this is a pid "
			    "namespace");
	else if (r < 0)
		log_verbose("trace_marker of programs without " LIBRARY
			    " is not read: %s (hint: run as root)",
			    strerror(-r));
}

/* Whatever is in the environment, the recording goes on without. */
static void take_counts(struct shared_counts **ret_counts)
{
	const char *text = getenv(RECORD_MARK_COUNTS_ENV);
	uint64_t fd;

	if (!text)
		return;
	if (parse_u64(text, 10, INT32_MAX, &fd) < 0 || fd <= STDERR_FILENO ||
	    shared_counts_take((int)fd, ret_counts) < 0)
		log_verbose(RECORD_MARK_COUNTS_ENV "=%.32s: no memory of counters", text);
	(void)unsetenv(RECORD_MARK_COUNTS_ENV);
}

int record_marks_open(const struct record_args *args, bool command, bool peer_pidfd,
		      struct record_marks *marks)
{
	const struct mark_rings_options options = {
		.clock = record_clock(args),
		.mask = args->mark_categories | MARKS_TEXT | MARKS_FUNCTIONS,
		.flags = MARKS_TAKE_ALL,
		.peer_pidfd = peer_pidfd,
	};
	int r;

	if (!args->marks)
		return 0;
	take_counts(&marks->counts);
	r = mark_rings_new(&options, &marks->rings);
	if (r < 0) {
		log_error("record: --marks: %s", strerror(-r));
		return r;
	}
	open_print(args, &marks->print);
	if (command && !args->stop_watch)
		r = prepare_command(marks->rings);
	else
		r = invite_all(args, marks->rings, marks->print != NULL);
	return r;
}

void record_marks_close(struct record_marks *marks)
{
	marks->rings = mark_rings_free(marks->rings);
	marks->print = ftrace_print_free(marks->print);
	marks->counts = shared_counts_free(marks->counts);
}
