/* import.c - see import.h: the life of an import, and its records that are not samples. */
#include "import/import.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "base/error.h"
#include "import/import-private.h"
#include "session/pipeline/sideband.h"
#include "session/session-statistics.h"

/* As the folder of /proc: nothing is below it, no process of today can be asked. */
#define NO_PROC "/dev/null"

void import_note(struct import *im, const char *format, ...)
{
	struct session_summary *summary = &im->result->summary;
	char line[512];
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	log_info("%s", line);
	if (summary->n_notes < ARRAY_SIZE(im->result->notes) &&
	    (im->result->notes[summary->n_notes] = strdup(line)))
		summary->n_notes++;
	summary->notes = (const char *const *)im->result->notes;
}

void import_result_deinit(struct import_result *result)
{
	for (size_t i = 0; i < ARRAY_SIZE(result->notes); i++)
		free(take(result->notes[i]));
	result->summary.n_notes = 0;
}

static uint64_t own_cpu_ns(void)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* ---- records ---- */

static int take_lost(struct import *im, const struct perfdata_item *item,
		     const struct record_event *e)
{
	if (e->type == PERFWIND_RECORD_LOST_SAMPLES) {
		im->counts.lost_exact = true;
		if (item->event == im->event_index)
			im->counts.lost_samples += e->lost.count;
		return 0;
	}
	im->account.lost_records += e->lost.count;
	return im->writer ? writer_lost(im->writer, e->cpu, e->lost.count, item->time) : 0;
}

static int take_throttle(struct import *im, const struct record_event *e)
{
	uint64_t since;

	if (e->cpu >= IMPORT_CPUS) {
		im->bad++;
		return 0;
	}
	if (e->throttle.on)
		return table_put(&im->throttled, e->cpu, e->time);
	if (table_get(&im->throttled, e->cpu, &since) && e->time > since)
		im->account.throttled_ns += e->time - since;
	(void)table_remove(&im->throttled, e->cpu);
	return 0;
}

/* Down to three quarters.  What waits goes first: it holds what its processes had mapped. */
static int forget_some(struct import *im, const struct process *but)
{
	int r = import_drain(im);

	if (r >= 0)
		r = import_lag_end(im);
	while (r >= 0 && process_maps_held() > IMPORT_MAPS / 4 * 3 &&
	       process_table_forget_one(im->processes, but))
		im->forgotten++;
	return r < 0 ? trace(r) : 0;
}

/* A process whose first record this was has its mappings from records, as all others. */
static int apply(struct import *im, const struct record_event *e)
{
	struct process *process;
	int r = sideband_apply(im->processes, e);

	process = process_find(im->processes, e->pid);
	if (process) {
		process->maps_state = PROCESS_MAPS_KNOWN;
		process->maps_read_at = 1;
	}
	if (r >= 0 && process_maps_held() > IMPORT_MAPS)
		r = forget_some(im, process);
	return r < 0 ? trace(r) : 0;
}

static int take_event(struct import *im, const struct perfdata_item *item)
{
	struct record_event e;
	int r = record_parse_event(item->layout, item->record, &e);

	im->bad += r < 0;
	im->account.unknown_records += r == RECORD_UNKNOWN;
	if (r != 0)
		return 0;
	switch (e.type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		if (e.pid == UINT32_MAX)
			import_kernel_mmap(im, &e);
		else
			import_file_id(im, &e);
		return apply(im, &e);
	case PERF_RECORD_LOST:
	case PERFWIND_RECORD_LOST_SAMPLES:
		return take_lost(im, item, &e);
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE:
		return take_throttle(im, &e);
	case PERFWIND_RECORD_KSYMBOL:
		r = import_drain(im); /* what came before it has the names from before it */
		return r < 0 ? trace(r) : import_kernel_ksymbol(im, &e);
	case PERF_RECORD_COMM:
		r = e.comm.exec ? 0 : import_lag_comm(im, &e);
		return r < 0 ? trace(r) : apply(im, &e);
	default:
		return apply(im, &e);
	}
}

static int take_record(struct import *im, const struct perfdata_item *item)
{
	int r;

	if (item->record->type == PERF_RECORD_SAMPLE)
		return import_take_sample(im, item);
	r = take_event(im, item);
	perfdata_put(im->file, item->block);
	return r < 0 ? trace(r) : 0;
}

static int take_all(struct import *im, char *error, size_t error_size)
{
	struct perfdata_item item;
	int r;

	while ((r = perfdata_next(im->file, &item)) == 0) {
		if (!im->event) {
			r = import_choose_event(im, error, error_size);
			if (r < 0)
				return trace(r);
		}
		r = take_record(im, &item);
		if (r < 0)
			return trace(r);
	}
	if (r < 0) {
		(void)snprintf(error, error_size, "cannot be read: %s", strerror(-r));
		return trace(r);
	}
	r = import_drain(im);
	return r < 0 ? trace(r) : import_lag_end(im);
}

/* ---- the end ---- */

static void tell_damage(struct import *im)
{
	const struct perfdata_counts *counts = perfdata_counts(im->file);
	uint64_t bad = counts->bad_records + im->bad;

	im->result->damage = (struct import_damage){
		.bytes_not_read = counts->unread_bytes,
		.bad_records = bad,
		.unproved_modules = im->unproved + im->believed_early,
		.unread_modules = im->unfound + im->unopened,
	};
	if (perfdata_info(im->file)->unfinished)
		import_note(im, "perf did not finish it (killed?): what is there is imported");
	if (counts->damage)
		import_note(im, "damaged: %s; %lu bytes were not read", counts->damage,
			    counts->unread_bytes);
	if (bad)
		import_note(im, "%lu damaged records were left out", bad);
	if (counts->early)
		import_note(im, "%lu records were put in order as far as memory allowed",
			    counts->early);
}

/* Modules that had samples and whose file is not what ran, beyond doubt. */
static void tell_missing(struct import *im)
{
	if (im->gone)
		import_note(im,
			    "%lu modules are not on this machine (the first: %.200s): they have no "
			    "names, and stacks may end in them",
			    im->gone, im->first_gone ? im->first_gone : "?");
	if (im->unfound > im->gone)
		import_note(im,
			    "%lu modules could not be read, or another file stands at their path: "
			    "they have no names, and stacks may end in them",
			    im->unfound - im->gone);
}

/* Programs may have changed since, or be another machine's: then path and inode are all there is. */
static void tell_unproved(struct import *im)
{
	tell_missing(im);
	if (im->unproved)
		import_note(im, "%lu modules were taken by their paths, unproved%s", im->unproved,
			    im->has_build_ids ? "" : ": there are no build ids in the file");
	if (im->believed_early)
		import_note(im,
			    "%lu paths had one build id and several files, which a pipe tells too "
			    "late: what was written of the first may be another's; hint: import a "
			    "file",
			    im->believed_early);
	if (im->forgotten)
		import_note(
			im,
			"%lu processes were forgotten, as they had too many mappings for memory: "
			"of what came behind that no stack is known",
			im->forgotten);
	if (im->late_maps)
		import_note(
			im,
			"%lu /tmp/perf-PID.map were written after the recording, maybe by others "
			"with that pid: their names were not taken",
			im->late_maps);
	if (im->replaced.n_used)
		import_note(im,
			    "%zu mapped files were left unread: another file stands at their path, "
			    "whose build id says nothing of them",
			    im->replaced.n_used);
}

static void tell_unopened(struct import *im)
{
	if (im->unopened)
		import_note(im,
			    "no file descriptors were left: %lu modules could not be read; hint: "
			    "ulimit -n",
			    im->unopened);
}

/* Of a recording with several events: what another choice would take. */
static void tell_others(struct import *im)
{
	const struct perfdata_info *info = perfdata_info(im->file);
	char list[384] = "";
	size_t len = 0;

	for (size_t i = 0; i < info->n_events && len < sizeof(list); i++) {
		if (!im->others[i])
			continue;
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%lu samples of %.100s",
					len ? ", " : "", im->others[i], info->events[i].name);
	}
	if (len)
		import_note(im, "%s were left out (-e EVENT takes another event)", list);
	if (im->grouped && info->n_events > 1)
		import_note(
			im,
			"%lu samples of a group's leader (:S) have counts of events that the file "
			"does not tell: those counts are left out",
			im->grouped);
	if (im->guests)
		import_note(im, "%lu samples are of a virtual machine's guest: they have no stacks",
			    im->guests);
}

int import_lines(struct import *im)
{
	int r = 0;

	while (!im->options.no_inline && r >= 0 && emit_lines_left(im->emit)) {
		emit_ask(im->emit);
		r = import_serve(im);
	}
	return r < 0 ? trace(r) : 0;
}

static void fill_summary(struct import *im)
{
	struct session_summary *summary = &im->result->summary;
	struct rusage ru = {0};

	(void)getrusage(RUSAGE_SELF, &ru);
	summary->duration_s = (double)(im->last_time - im->first_time) / 1e9;
	summary->account = im->account;
	summary->counts = im->counts;
	summary->cpu_accounted = -1;
	summary->self_cpu_s = (double)(own_cpu_ns() - im->cpu_at_start) / 1e9;
	summary->self_peak_rss_kb = (uint64_t)ru.ru_maxrss;
	summary->bytes = im->sink->bytes;
	if (im->account.emitted)
		summary->self_us_per_sample =
			summary->self_cpu_s * 1e6 / (double)im->account.emitted;
	if (im->emit && !summary->n_nameless)
		stats_nameless(im->emit, summary);
}

static int finish(struct import *im)
{
	const struct session_summary *summary = &im->result->summary;
	struct stats stats = {0};
	int r = im->emit ? 0 : import_start_trace(im, 0);

	/* All is named: the memory is for DWARF now. */
	if (r >= 0)
		r = import_drop_modules(im);
	if (r >= 0)
		r = import_lines(im);
	if (r >= 0)
		r = writer_symbols_flush(im->writer);
	tell_damage(im);
	tell_unproved(im);
	tell_unopened(im);
	log_verbose("modules held %zu KiB at most", im->result->most_cached >> 10);
	tell_others(im);
	fill_summary(im);
	stats_of(summary, &stats);
	if (r >= 0)
		r = writer_stats(im->writer, stats.stats, stats.n, summary->notes, summary->n_notes,
				 im->last_time);
	if (r >= 0)
		r = im->sink->flush(im->sink);
	fill_summary(im);
	return r < 0 ? trace(r) : 0;
}

/* When perf wrote the file's last bytes, or somebody copied it. */
static int64_t written_at(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? st.st_mtim.tv_sec : INT64_MAX;
}

static int make(struct import *im)
{
	int r = uw_modules_new(&im->modules);

	im->outcome = malloc(sizeof(*im->outcome) +
			     (OUTCOME_KERNEL_FRAMES + UW_MAX_FRAMES) * sizeof(uint64_t));
	if (!im->outcome)
		r = -ENOMEM;
	if (r >= 0)
		r = process_table_new(im->modules, IMPORT_PROCESSES, &im->processes);
	if (r >= 0)
		r = loader_new_inline(NO_PROC, &im->loader);
	return r < 0 ? trace(r) : 0;
}

static void import_free(struct import *im)
{
	import_unwind_deinit(im);
	import_lag_deinit(im);
	import_kernel_deinit(im);
	(void)loader_free(im->loader);
	(void)emit_free(im->emit);
	(void)writer_free(im->writer);
	(void)uw_engine_free(im->engine);
	(void)process_table_free(im->processes);
	(void)uw_modules_free(im->modules);
	(void)perfdata_free(im->file);
	table_deinit(&im->cpu_counts);
	table_deinit(&im->group_values);
	table_deinit(&im->throttled);
	table_deinit(&im->paths);
	table_deinit(&im->replaced);
	free(im->path_files);
	free(im->first_gone);
	free(im->outcome);
	free(im->others);
	free(im);
}

static int run(struct import *im, int fd, char *error, size_t error_size)
{
	int r = perfdata_new(fd, NULL, &im->file, error, error_size);

	if (r < 0)
		return trace(r);
	r = make(im);
	if (r >= 0)
		r = take_all(im, error, error_size);
	if (r >= 0 && !im->event)
		r = import_choose_event(im, error, error_size);
	if (r >= 0)
		r = finish(im);
	if (r < 0)
		fill_summary(im);
	return r < 0 ? trace(r) : 0;
}

int import_run(int fd, const struct import_options *options, struct sink *sink,
	       struct import_result *result, char *error, size_t error_size)
{
	struct import *im = calloc(1, sizeof(*im));
	int r;

	*result = (struct import_result){0};
	*error = 0;
	if (!im) {
		(void)snprintf(error, error_size, "no memory");
		return fail(-ENOMEM);
	}
	im->options = *options;
	im->sink = sink;
	im->result = result;
	im->kernel_copy = -1;
	im->written_at = written_at(fd);
	im->cpu_at_start = own_cpu_ns();
	r = run(im, fd, error, error_size);
	import_free(im);
	if (r < 0 && !*error)
		(void)snprintf(error, error_size, "cannot be imported: %s", strerror(-r));
	return r < 0 ? trace(r) : 0;
}
