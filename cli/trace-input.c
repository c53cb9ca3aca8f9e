/* trace-input.c - see trace-input.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/common-options.h"
#include "cli/trace-input.h"
#include "base/error.h"
#include "base/log.h"
#include "base/table.h"
#include "base/unshared.h"
#include "import/import.h"

void trace_input_note_others(const struct profile *p, const char *command)
{
	for (size_t i = 0; i < p->n_events; i++)
		if (i != p->event)
			log_info("%s: of %s; %" PRIu64 " samples of %s are left out (--event %s "
				 "takes them)",
				 command, p->event_name, p->events[i].n_samples, p->events[i].name,
				 p->events[i].name);
}

int trace_input_choose(struct profile *profile, const char *command, const char *name)
{
	char error[512] = "";
	int r = profile_choose_event(profile, name, error, sizeof(error));

	if (r < 0)
		log_error("%s: %s", command, error);
	return r < 0 ? trace(r) : 0;
}

void trace_input_note_damage(const struct profile *p, const char *command, const char *input)
{
	char end[200];

	if (p->truncated_at)
		log_info("%s: %s: damaged or cut off at byte %" PRIu64, command, input,
			 p->truncated_at);
	if (profile_end_text(p, end, sizeof(end)))
		log_info("%s: %s: %s", command, input, end);
}

bool trace_input_none_left(const struct profile *p, const char *command, const char *input)
{
	if (!profile_is_damaged(p) || p->n_samples || p->n_all_samples)
		return false;
	log_error("%s: %s is damaged or cut off, and no sample is left in it", command, input);
	return true;
}

void trace_input_note_nothing(const struct profile *p, const struct profile_filter *only,
			      const char *command)
{
	for (size_t i = 0; i < p->n_samples; i++)
		if (profile_sample_wanted(p, &p->samples[i], only))
			return;
	if (p->n_samples)
		log_info("%s: no sample of %zu matches the options", command, p->n_samples);
}

/* ---- cgroups ---- */

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool trace_input_has_cgroup(const struct profile *p, const struct profile_filter *only,
			    const char *command)
{
	enum { SHOWN = 20 };
	_cleanup_(freep) const char **names = NULL;
	size_t n = 0, distinct = 0;

	if (!only || !only->cgroup)
		return true;
	names = calloc(p->n_processes + 1, sizeof(*names));
	for (uint32_t i = 0; names && i < p->n_processes; i++) {
		if (profile_in_cgroup(p, i, only))
			return true;
		if (p->processes[i].cgroup)
			names[n++] = string_table_text(&p->strings, p->processes[i].cgroup);
	}
	log_error("%s: the trace has no cgroup %.256s%s", command, only->cgroup,
		  n ? "; it has:" : " (no cgroups are recorded in it)");
	if (n)
		qsort(names, n, sizeof(*names), compare_names);
	for (size_t i = 0; i < n; i++) {
		if (i && !strcmp(names[i], names[i - 1]))
			continue;
		if (distinct++ < SHOWN)
			log_error("  %.256s", names[i]);
	}
	if (distinct > SHOWN)
		log_error("  and %zu more (%s --by cgroup)", distinct - SHOWN, "perfwind report");
	return false;
}

/* ---- the file ---- */

/* Below the size that malloc() would map apart. */
enum { HEAP_ROOM = 30 << 20 };
static void *heap_start; /* never freed */

static bool is_folder(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

/* `perf record --kcore` makes a folder: its file `data` is all of the recording; with --threads most of it is in
 * data.0, data.1 ... (tools/perf/Documentation/perf.data-directory-format.txt).  -EISDIR: not the former. */
static int open_in_folder(int folder)
{
	int fd;

	if (faccessat(folder, "data.0", F_OK, 0) == 0)
		return -EISDIR;
	fd = openat(folder, "data", O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -EISDIR : fd;
}

static int open_file(const char *input)
{
	_cleanup_(fd_closep) int fd = -1;

	if (!strcmp(input, "-")) {
		fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
		return fd < 0 ? -errno : take_fd(fd);
	}
	fd = open(input, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return is_folder(fd) ? open_in_folder(fd) : take_fd(fd);
}

/* Tables of files come and go: their memory is kept, as each page costs a fault again.  And in huge
 * pages, where there are some, as 5,000 faults are a tenth of a small import.  What the heap has before
 * its first huge page stays unused: it would be 500 faults. */
static void prepare_import(void)
{
	enum { LARGE = 32 << 20 };
	uint8_t *room;

	use_hard_limit(RLIMIT_NOFILE); /* each module that is at hand takes two */
	unshared_from(LARGE);
	(void)mallopt(M_MMAP_THRESHOLD, LARGE);
	(void)mallopt(M_TRIM_THRESHOLD, 256 << 20);
	(void)mallopt(M_TOP_PAD, 1 << 20);
	room = heap_start ? NULL : malloc(HEAP_ROOM);
	if (room) { /* up to the length of the next block, which is in front of it */
		size_t before = UNSHARED_HUGE - ((uintptr_t)room & (UNSHARED_HUGE - 1));

		heap_start = realloc(room, before - sizeof(before));
	}
	room = malloc(HEAP_ROOM);
	if (room) {
		uint8_t *page = room - ((uintptr_t)room & (UNSHARED_HUGE - 1));

		(void)madvise(page, HEAP_ROOM, MADV_HUGEPAGE);
	}
	free(room);
}

int trace_input_open_recording(const char *input)
{
	int fd = open_file(input);

	prepare_import();
	if (fd == -EISDIR)
		log_error("%s: a folder, as `perf record --threads` writes: it is not read; record "
			  "without --threads",
			  input);
	else if (fd < 0)
		log_error("%s: %s", input, strerror(-fd));
	return fd;
}

/* Imports @input into a file in memory, *ret_fd.  Notes are printed.  < 0: logged. */
static int import_to_memory(const char *input, int *ret_fd)
{
	const struct import_options options = {0};
	_cleanup_(fd_closep) int fd = trace_input_open_recording(input), memory = -1;
	struct import_result result;
	struct sink *sink;
	char error[512];
	int r, copy;

	if (fd < 0)
		return fd;
	memory = memfd_create("perfwind-import", MFD_CLOEXEC);
	copy = memory < 0 ? -1 : fcntl(memory, F_DUPFD_CLOEXEC, 3);
	r = copy < 0 ? -errno : sink_fd_new(copy, &sink);
	if (r < 0) {
		log_error("%s: %s", input, strerror(-r));
		return r;
	}
	r = import_run(fd, &options, sink, &result, error, sizeof(error));
	if (r >= 0) {
		r = sink->flush(sink);
		if (r < 0)
			(void)snprintf(error, sizeof(error), "cannot be imported: %s",
				       strerror(-r));
	}
	if (r < 0)
		log_error("%s %s", input, error);
	import_result_deinit(&result);
	(void)sink_free(sink);
	if (r < 0)
		return r;
	*ret_fd = take_fd(memory);
	return 0;
}

/* Begins as perf.data does, of either byte order (perf.data-file-format.txt: magic). */
static bool is_perf_data(const char *path)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char magic[8] = "";

	return fd >= 0 && pread(fd, magic, sizeof(magic), 0) == sizeof(magic) &&
	       (!memcmp(magic, "PERFILE2", 8) || !memcmp(magic, "2ELIFREP", 8));
}

static int read_imported(const char *path, struct profile *ret_profile, char *error, size_t size)
{
	_cleanup_(fd_closep) int fd = -1;
	char memory[32];
	int r = import_to_memory(path, &fd);

	if (r < 0)
		return r;
	log_info("%s: imported (`perfwind import` keeps the trace)", path);
	(void)snprintf(memory, sizeof(memory), "/proc/self/fd/%d", fd);
	return profile_read(memory, ret_profile, error, size);
}

const char *trace_input_hint(const char *path, int r, bool imports)
{
	if (!imports && strcmp(path, "-") && is_perf_data(path))
		return " (hint: `perfwind import` makes a trace of it)";
	if (r == -EACCES)
		return " (a recording of root belongs to root; hint: use sudo here, too)";
	if (r != -ENOENT || strcmp(path, DEFAULT_TRACE) != 0)
		return "";
	return imports && is_perf_data("perf.data") ? " (perf.data is there: give its name)"
						    : " (`perfwind record -- COMMAND` writes it)";
}

int trace_input_read(const struct trace_input *input, const char *command,
		     struct profile *ret_profile)
{
	const char *path = input->path ? input->path : DEFAULT_TRACE;
	char error[256] = "";
	int r;

	if (strcmp(path, "-") && is_perf_data(path))
		r = read_imported(path, ret_profile, error, sizeof(error));
	else
		r = profile_read(path, ret_profile, error, sizeof(error));
	if (r < 0 && *error)
		log_error("%s%s", error, trace_input_hint(path, r, true));
	if (r < 0)
		return r;
	r = trace_input_choose(ret_profile, command, input->event);
	if (r < 0 || !trace_input_has_cgroup(ret_profile, input->only, command)) {
		profile_deinit(ret_profile);
		return r < 0 ? r : -ENOENT;
	}
	if (input->only)
		r = profile_mark_samples(ret_profile, input->only->during, input->only->outside,
					 error, sizeof(error));
	if (r < 0) {
		log_error("%s: %s", command, r == -ENOENT ? error : strerror(-r));
		profile_deinit(ret_profile);
		return r;
	}
	if (input->only)
		trace_input_note_nothing(ret_profile, input->only, command);
	return 0;
}
