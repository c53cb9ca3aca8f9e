/* import.c - see import.h: the choice of the event, the begin and the end of the trace.  The records come from
 * import-records.c, which unwinds and writes stacks, too, and matches build ids with mappings.
 *
 * The kernel's names are read in the meantime, by a thread: the index of a copy takes 1 ms, the table that an earlier run left in the
 * cache as long, /proc/kallsyms 45 ms.
 *
 * First choice is the copy of /proc/kallsyms that perf keeps for each build id of a kernel that it recorded, next to its
 * copies of files (not with -N): ~/.debug/[kernel.kallsyms]/BUILD-ID/kallsyms (tools/perf/util/build-id.c).  It is a file, so the
 * kernel need not print 120,000 lines again, and it is right for any kernel with its build id in the recording.  Its addresses are
 * moved to where _text was in the recording.  Modules have other addresses after each boot, so their symbols are not taken from
 * it; the first sample in a module makes us read those of the running kernel (symbols/kernel-names.h).
 *
 * The names of the running kernel are used only if the recording is of this boot: same release, and
 * its text began where that symbol is today (each boot has its own address).  perf records that
 * address in its record of the kernel's mapping: "[kernel.kallsyms]_text" and an offset that is the
 * symbol's address (tools/perf/util/synthetic-events.c). */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/cache-dir.h"
#include "base/error.h"
#include "import/import-private.h"
#include "import/import.h"
#include "perf/attr.h"
#include "session/statistics.h"
#include "symbols/kernel-names.h"

static _printf_(2, 3) void import_note(struct import *im, const char *format, ...)
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

enum { ID_MAX = 20 };

/* -errno, or a regular file. */
static int open_one(const char *path)
{
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;

	/* O_NONBLOCK: if it is a FIFO, do not wait for a writer */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -ENOENT;
	return take_fd(fd);
}

int kernel_copy_open(const struct file_places *places, const uint8_t *build_id, size_t len,
		     int *ret_fd)
{
	char hex[2 * ID_MAX + 1] = "", folder[PATH_MAX], path[PATH_MAX];
	int fd, n;

	if (len < 2 || len > ID_MAX)
		return -ENOENT;
	for (size_t i = 0; i < len; i++)
		(void)snprintf(hex + 2 * i, 3, "%02x", build_id[i]);
	if (places->archive) {
		n = snprintf(path, sizeof(path), "%s/.build-id/%.2s/%s/kallsyms", places->archive,
			     hex, hex + 2);
		fd = n < 0 || (size_t)n >= sizeof(path) ? -ENAMETOOLONG : open_one(path);
		if (fd >= 0) {
			*ret_fd = fd;
			return 0;
		}
	}
	file_places_cache(places, folder, sizeof(folder));
	if (!*folder)
		return -ENOENT;
	n = snprintf(path, sizeof(path), "%s/[kernel.kallsyms]/%s/kallsyms", folder, hex);
	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	fd = open_one(path);
	if (fd < 0)
		return fd;
	*ret_fd = fd;
	return 0;
}

enum { MAX_KSYMBOLS = 65536 };

/* The beginning of the path in the kernel's mapping of pid -1: "[kernel.kallsyms]_text". */
static const char kernel_path[] = "[kernel.kallsyms]";

static void *read_names(void *arg)
{
	struct import *im = arg;
	uint64_t start;

	im->kernel_error = uw_kernel_names_new("", cache_dir_open(), &im->names_today);
	if (im->kernel_error)
		return NULL;
	im->text_today = uw_kernel_names_text(im->names_today);
	(void)uw_kernel_name(im->names_today, im->text_today, &start); /* reads them */
	im->kernel_error = uw_kernel_names_error(im->names_today);
	return NULL;
}

static void *read_names_thread(void *arg)
{
	(void)pthread_setname_np(pthread_self(), "pw-kallsyms");
	return read_names(arg);
}

/* A copy that is absent or damaged is no error. */
static void note_copy(struct import *im, int r)
{
	if (is_shortage(r))
		im->copy_error = r;
}

/* Starts to read the kernel's names, if the recording is of the running kernel. */
static void import_kernel_start(struct import *im)
{
	const struct perfdata_info *info = perfdata_info(im->file);
	const struct perfdata_build_id *id = perfdata_build_id(im->file, kernel_path);
	struct utsname names;

	im->same_kernel = im->arch == UW_ARCH_HOST && uname(&names) == 0 && info->os_release &&
			  !strcmp(names.release, info->os_release) && info->hostname &&
			  !strcmp(names.nodename, info->hostname);
	if (im->event->attr.exclude_kernel)
		return;
	if (id)
		note_copy(im, kernel_copy_open(&im->options.places, id->bytes, id->len,
					       &im->kernel_copy));
	if (im->same_kernel && im->kernel_copy < 0)
		im->kernel_started =
			pthread_create(&im->kernel_reader, NULL, read_names_thread, im) == 0;
}

static void apply_ksymbol(struct import *im, const struct import_ksymbol *k)
{
	if (k->name[0])
		(void)uw_kernel_names_add(im->names, k->start, k->len, k->name);
	else
		uw_kernel_names_remove(im->names, k->start);
}

/* Why the recording does not count as one of the running kernel. */
static const char *other_kernel(const struct import *im)
{
	const struct perfdata_info *info = perfdata_info(im->file);

	if (info->os_release && info->hostname)
		return "it was recorded on another kernel or machine";
	if (info->unfinished)
		return "perf ended before it wrote the kernel's release";
	return info->features_cut ? "the part of the file that identifies its kernel is cut off"
				  : "the file does not identify the kernel it was recorded on";
}

/* False: *ret_why has the reason. */
static bool names_of_today(struct import *im, const char **ret_why)
{
	*ret_why = other_kernel(im);
	if (!im->same_kernel || im->event->attr.exclude_kernel)
		return false;
	if (im->kernel_started)
		(void)pthread_join(im->kernel_reader, NULL);
	else
		(void)read_names(im);
	im->kernel_started = false;
	*ret_why = im->kernel_error == UW_KERNEL_HIDDEN
			   ? "/proc/kallsyms shows no addresses to this user; hint: run as root"
		   : im->kernel_error < 0 ? strerror(-im->kernel_error)
		   : !im->kernel_text	  ? "the file does not have the address of its kernel"
					  : "it was recorded before the last boot";
	if (im->names_today &&
	    (im->kernel_error || !im->text_today || im->text_today != im->kernel_text))
		im->names_today = uw_kernel_names_free(im->names_today);
	if (!im->names_today)
		return false;
	(void)uw_kernel_names_free(im->names);
	im->names = take(im->names_today);
	return true;
}

static void use_names(struct import *im)
{
	emit_set_kernel_names(im->emit, im->names);
	for (size_t i = 0; i < im->n_ksymbols; i++)
		apply_ksymbol(im, &im->ksymbols[i]);
}

static void *read_copy(void *arg)
{
	struct import *im = arg;

	(void)pthread_setname_np(pthread_self(), "pw-kallsyms");
	note_copy(im, uw_kallsyms_new_moved(im->kernel_copy, im->kernel_text, &im->copy));
	return NULL;
}

static void join_copy(struct import *im)
{
	if (im->copy_started)
		(void)pthread_join(im->kernel_reader, NULL);
	im->copy_started = false;
}

/* Waits for the names.  Before the first kernel frame is written. */
static void need_names(struct import *im)
{
	const char *why;

	if (im->kernel_done)
		return;
	im->kernel_done = true;
	join_copy(im);
	if (im->copy)
		note_copy(im, uw_kernel_names_new_of(im->copy, &im->names));
	im->kernel_copied = im->copy && im->names;
	if (!im->kernel_copied)
		im->copy = uw_kallsyms_free(im->copy);
	if (im->kernel_copied || names_of_today(im, &why))
		use_names(im);
	else
		import_note(im, "kernel frames have no names (%s)",
			    im->copy_error ? strerror(-im->copy_error) : why);
}

void import_kernel_frames(struct import *im, const struct outcome *o)
{
	const char *why;
	uint64_t start;

	if (!o->n_kernel)
		return;
	need_names(im);
	for (uint32_t i = 0; i < o->n_kernel && im->kernel_copied; i++) {
		if (uw_kallsyms_spans(im->copy, o->frames[i]) ||
		    uw_kernel_name(im->names, o->frames[i], &start))
			continue;
		im->kernel_copied = false;
		if (names_of_today(im, &why))
			use_names(im);
	}
}

void import_kernel_mmap(struct import *im, const struct record_event *event)
{
	if (im->kernel_text || strncmp(event->mmap.path, kernel_path, strlen(kernel_path)))
		return;
	im->kernel_text = event->mmap.offset;
	if (!im->kernel_text || im->kernel_copy < 0 || im->kernel_done)
		return;
	im->copy_started = pthread_create(&im->kernel_reader, NULL, read_copy, im) == 0;
	if (!im->copy_started)
		note_copy(im, uw_kallsyms_new_moved(im->kernel_copy, im->kernel_text, &im->copy));
}

int import_kernel_ksymbol(struct import *im, const struct record_event *event)
{
	struct import_ksymbol k = {
		.start = event->ksymbol.start,
		.len = event->ksymbol.len,
	};

	if (!event->ksymbol.unregister)
		(void)snprintf(k.name, sizeof(k.name), "%s", event->ksymbol.name);
	if (im->kernel_done && im->names)
		apply_ksymbol(im, &k);
	if ((im->kernel_done && !im->kernel_copied) || im->n_ksymbols == MAX_KSYMBOLS)
		return 0;
	if (!im->ksymbols || is_power_of_two(im->n_ksymbols)) {
		size_t room = im->n_ksymbols ? im->n_ksymbols * 2 : 1;
		struct import_ksymbol *more = reallocarray(im->ksymbols, room, sizeof(*more));

		if (!more)
			return fail(-ENOMEM);
		im->ksymbols = more;
	}
	im->ksymbols[im->n_ksymbols++] = k;
	return 0;
}

static void import_kernel_deinit(struct import *im)
{
	join_copy(im);
	if (im->kernel_started)
		(void)pthread_join(im->kernel_reader, NULL);
	(void)uw_kernel_names_free(im->names_today);
	if (!im->names)
		(void)uw_kallsyms_free(im->copy);
	(void)uw_kernel_names_free(im->names);
	fd_close(im->kernel_copy);
	free(im->ksymbols);
}

/* Given as the folder of /proc: has no entries, so no process of today is read. */
#define NO_PROC "/dev/null"

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

/* ---- the event that is imported ----
 *
 * A trace has one event, and its weights add up; samples of other events are counted as out of scope,
 * and a note names them.  A member of a group that was not sampled has samples all the same, see
 * below. */

enum { MAX_COUNTERS = 64 };

static bool is_dummy(const struct perf_event_attr *attr)
{
	return attr->type == PERF_TYPE_SOFTWARE && attr->config == PERF_COUNT_SW_DUMMY;
}

/* "cycles" is also "cycles:u" and "cycles/freq=99/" where no event has just that name. */
static bool is_called(const struct perfdata_event *event, const char *name, bool whole)
{
	size_t len = strlen(name);

	if (strncmp(event->name, name, len))
		return false;
	return !event->name[len] || (!whole && strchr(":/", event->name[len]));
}

static const struct perfdata_event *find_event(const struct perfdata_info *info, const char *name)
{
	for (int whole = 1; whole >= 0; whole--) {
		for (size_t i = 0; i < info->n_events; i++) {
			const struct perfdata_event *event = &info->events[i];

			if (name ? is_called(event, name, whole) : !is_dummy(&event->attr))
				return event;
		}
	}
	return NULL;
}

static int no_event(const struct perfdata_info *info, const char *name, char *error, size_t size)
{
	int n = snprintf(error, size, "has no event %s; it has:", name ? name : "that is sampled");

	for (size_t i = 0; i < info->n_events && n > 0 && (size_t)n < size; i++)
		n += snprintf(error + n, size - (size_t)n, " %s", info->events[i].name);
	return fail(-EINVAL);
}

/* Registers without which unwinding cannot begin. */
static uint64_t begin_mask(enum uw_arch arch)
{
	return arch == UW_ARCH_X86_64 ? 1ull << UW_X86_SP | 1ull << UW_X86_IP
				      : 1ull << UW_ARM64_SP | 1ull << UW_ARM64_PC;
}

static enum import_kind kind_of(struct import *im)
{
	const struct perf_event_attr *attr = &im->event->attr;
	uint64_t wanted = uw_arch_regs_mask(im->arch);
	bool stacks = attr->sample_type & PERF_SAMPLE_REGS_USER &&
		      attr->sample_type & PERF_SAMPLE_STACK_USER;

	/* A file without a machine name may be from any machine: where it has unknown registers, the
	 * known numbers mean other registers there. */
	if (stacks && attr->sample_regs_user & ~uw_arch_regs_known(im->arch)) {
		import_note(
			im,
			"its stacks cannot be unwound: they have registers that %s does not have",
			im->arch == UW_ARCH_X86_64 ? "x86_64" : "aarch64");
		stacks = false;
	}
	if (stacks && (attr->sample_regs_user & begin_mask(im->arch)) != begin_mask(im->arch)) {
		import_note(im, "its stacks cannot be unwound: no stack pointer or no instruction "
				"pointer was recorded (--user-regs)");
		stacks = false;
	}
	if (stacks && (attr->sample_regs_user & wanted) != wanted)
		import_note(im, "not all registers were recorded (--user-regs): stacks that need "
				"the missing ones fail to unwind");
	if (im->options.engine_chosen && im->options.engine != UW_ENGINE_FP && !stacks)
		import_note(im, "--unwinder is ignored: the recording has no copies of stacks");
	if (stacks && !(im->options.engine_chosen && im->options.engine == UW_ENGINE_FP))
		return IMPORT_STACKS;
	return attr->sample_type & PERF_SAMPLE_CALLCHAIN ? IMPORT_CHAINS : IMPORT_ADDRESSES;
}

/* Any machine that the engines support may be imported on any other.  perf writes uname's name of
 * it; a file without a name counts as one of this machine. */
static int choose_machine(struct import *im, const char *arch, char *error, size_t size)
{
	im->arch = !arch		      ? UW_ARCH_HOST
		   : !strcmp(arch, "x86_64")  ? UW_ARCH_X86_64
		   : !strcmp(arch, "aarch64") ? UW_ARCH_AARCH64
					      : UW_ARCH_NONE;
	if (im->arch != UW_ARCH_NONE)
		return 0;
	(void)snprintf(error, size, "was recorded on %s; known are x86_64 and aarch64", arch);
	return fail(-EINVAL);
}

/* The period or frequency.  A member of a group has none of its own: its leader, which precedes it,
 * has.  Damage may leave none, and a trace needs one. */
static void choose_interval(struct import *im)
{
	const struct perfdata_event *events = perfdata_info(im->file)->events;
	const struct perf_event_attr *attr = &im->event->attr;
	struct import_result *result = im->result;

	for (uint32_t i = im->event_index;
	     i && attr->read_format & PERF_FORMAT_GROUP && !attr->sample_period; i--)
		attr = &events[i - 1].attr;
	if (attr->freq)
		result->frequency = attr->sample_freq;
	else
		result->period = attr->sample_period;
	if (!result->frequency && !result->period)
		result->period = 1;
	result->stack_bytes = attr->sample_stack_user;
}

static int lost_records(void *arg, uint32_t cpu, uint64_t records, uint64_t time)
{
	struct import *im = arg;

	return im->writer ? writer_lost(im->writer, cpu, records, time) : 0;
}

static int make_reader(struct import *im)
{
	const struct reader_options options = {
		.idle = im->options.idle,
		.frames = FRAMES_ALL,
		.by_callchain = im->kind != IMPORT_STACKS,
		.chains_unchecked = im->kind != IMPORT_CHAINS,
		.arch = im->arch,
		.clock = CLOCK_MONOTONIC,
	};
	const struct reader_context context = {
		.records = import_records(im),
		.processes = im->processes,
		.loader = im->loader,
		.entries = &im->entries,
		.unwinder = &im->awake,
		.account = &im->account,
		.lost = lost_records,
		.arg = im,
	};

	return reader_new(&options, &context, &im->reader);
}

/* Chooses the event, and what is made of its samples.  -EINVAL with *error. */
static int choose_event(struct import *im, char *error, size_t error_size)
{
	const struct perfdata_info *info = perfdata_info(im->file);
	struct import_result *result = im->result;
	int r = choose_machine(im, info->arch, error, error_size);

	if (r < 0)
		return trace(r);
	im->event = find_event(info, im->options.event);
	if (!im->event)
		return no_event(info, im->options.event, error, error_size);
	im->event_index = (uint32_t)(im->event - info->events);
	im->others = calloc(info->n_events, sizeof(*im->others));
	if (!im->others)
		return fail(-ENOMEM);
	im->kind = kind_of(im);
	(void)snprintf(result->event, sizeof(result->event), "%s", im->event->name);
	choose_interval(im);
	result->summary.code = attr_code(&im->event->attr);
	im->engine_kind = im->kind != IMPORT_STACKS   ? UW_ENGINE_FP
			  : im->options.engine_chosen ? im->options.engine
						      : UW_ENGINE_NATIVE;
	if (im->engine_kind == UW_ENGINE_LIBUNWIND && im->arch != UW_ARCH_HOST) {
		(void)snprintf(error, error_size,
			       "was recorded on %s, and libunwind supports this machine's stacks "
			       "only; use native or libdw",
			       info->arch);
		return fail(-EINVAL);
	}
	r = uw_engine_new(im->engine_kind, &im->engine);
	if (r < 0) {
		(void)snprintf(error, error_size, "cannot be unwound: %s", strerror(-r));
		return trace(r);
	}
	r = make_reader(im);
	if (r < 0)
		return trace(r);
	uw_engine_set(im->engine,
		      &(struct uw_settings){.fallback = im->engine_kind == UW_ENGINE_NATIVE});
	import_unwind_start(im);
	import_kernel_start(im);
	return 0;
}

/* ---- the trace ---- */

static struct writer_event writer_event_of(const struct perfdata_event *event)
{
	const struct perf_event_attr *attr = &event->attr;
	struct writer_event w = {
		.name = event->name,
		.counter = -1,
		.raw_type = attr->type,
		.raw_config = attr->config,
		.raw_config1 = attr->config1,
		.raw_config2 = attr->config2,
		.modifiers = attr_code(attr) == FRAMES_ALL ? 0 : attr_code(attr),
	};

	for (int32_t i = 0; i < MAX_COUNTERS && w.counter < 0; i++) {
		struct perf_spec spec;

		if (perf_spec_of_counter(i, &spec) < 0)
			continue;
		if (spec.type == attr->type && spec.config == attr->config)
			w.counter = i;
		perf_spec_deinit(&spec);
	}
	if (attr->type == PERF_TYPE_TRACEPOINT && strchr(event->name, ':'))
		w.tracepoint = event->name;
	return w;
}

static void fill_past(struct import *im, uint64_t first_time)
{
	const struct perfdata_info *info = perfdata_info(im->file);

	im->past = (struct writer_past){
		.first_time = first_time,
		.release = info->os_release,
		.machine = info->arch,
		.n_cpus = info->cpus_available,
		.ram_bytes = info->total_memory_kb << 10,
	};
	if (info->has_wall_clock)
		im->past.wall_clock = info->wall_clock_ns + (first_time - info->wall_clock_at);
}

/* Do samples have the clock that times of the processor's counter can be converted to? */
static bool converts(const struct import *im)
{
	const struct perfdata_info *info = perfdata_info(im->file);

	return info->clock == -1 && info->has_conversion;
}

int import_start_trace(struct import *im, uint64_t first_time)
{
	struct writer_options wo = {
		.leader = writer_event_of(im->event),
		.period = im->result->period,
		.frequency = im->result->frequency,
		.clock = CLOCK_BOOTTIME,
		.sequence_id = 1,
		.tool = "perfwind " PERFWIND_VERSION,
		.past = &im->past,
	};
	int r;

	fill_past(im, first_time);
	r = writer_new(&wo, im->sink, &im->writer);
	if (r >= 0)
		r = writer_start(im->writer);
	if (r >= 0)
		r = emit_new(
			&(struct emit_context){
				.writer = im->writer,
				.loader = im->loader,
				.modules = im->modules,
				/* The clock of another boot cannot be converted; code has times of
				 * this one. */
				.clock = perfdata_info(im->file)->clock == CLOCK_MONOTONIC ||
							 converts(im)
						 ? CLOCK_MONOTONIC
						 : -1,
				.account = &im->account,
				.past = true,
				.no_lines = im->options.no_inline,
			},
			&im->emit);
	return r < 0 ? trace(r) : 0;
}

/* ---- the records ---- */

static int take_all(struct import *im, char *error, size_t error_size)
{
	int r = perfdata_next(im->file, &im->first);
	bool more;

	if (r >= 0) {
		bool none = r == PERFDATA_END;

		r = choose_event(im, error, error_size);
		if (r < 0 || none)
			return r < 0 ? trace(r) : 0;
		if (converts(im))
			loader_set_conversion(im->loader, &perfdata_info(im->file)->conversion);
		r = reader_round(im->reader, &more);
	} else {
		im->unreadable = r;
	}
	if (im->unreadable)
		(void)snprintf(error, error_size, "cannot be read: %s", strerror(-im->unreadable));
	if (r >= 0)
		r = import_drain(im);
	return r < 0 ? trace(r) : 0;
}

/* ---- the end ---- */

static void note_damage(struct import *im)
{
	const struct perfdata_counts *counts = perfdata_counts(im->file);
	uint64_t bad = counts->bad_records + im->bad;

	im->result->damage = (struct import_damage){
		.bytes_not_read = counts->unread_bytes,
		.bad_records = bad,
		.unproved_modules = im->unproved + im->trusted_early,
		.unread_modules = im->unfound + im->unopened,
	};
	if (perfdata_info(im->file)->unfinished)
		import_note(
			im,
			"perf did not finish the file (killed?): the records in it are imported");
	if (counts->damage)
		import_note(im, "damaged: %s; %lu bytes were not read", counts->damage,
			    counts->unread_bytes);
	if (bad)
		import_note(im, "%lu damaged records were left out", bad);
	if (counts->early)
		import_note(im, "%lu records were put in order as far as memory allowed",
			    counts->early);
}

static const char *missing_hint(const struct file_places *places)
{
	if (places->archive)
		return "perf archive packs only the files that samples are in; give copies of "
		       "the others as --symfs DIR";
	if (places->buildid_dir)
		return "perf record --buildid-all keeps all files in its cache; or give copies as "
		       "--symfs DIR";
	if (places->debug_dir)
		return "give copies of the programs as --symfs DIR, as debug files have no unwind "
		       "tables; perfwind symbolize --debug-dir adds their names to the trace";
	return "perf archive where it was recorded, then --buildid-dir FILE.tar.bz2";
}

/* Modules with samples, the file of which is known to be missing or another. */
static void note_missing(struct import *im)
{
	if (im->gone)
		import_note(im,
			    "%lu module%s not on this machine (the first: %.200s): no names of its "
			    "functions, and stacks may end there; hint: %s",
			    im->gone, im->gone == 1 ? " is" : "s are",
			    im->first_gone ? im->first_gone : "?",
			    missing_hint(&im->options.places));
	if (im->unfound > im->gone)
		import_note(im,
			    "%lu module%s could not be read, or another file is at the path: no "
			    "names of its functions, and stacks may end there",
			    im->unfound - im->gone, im->unfound - im->gone == 1 ? "" : "s");
}

/* Programs may have changed since, or be another machine's: then only path and inode identify them. */
static void note_unverified(struct import *im)
{
	note_missing(im);
	if (im->unproved)
		import_note(im,
			    "%lu modules were identified by their paths only, so another version "
			    "may have run%s",
			    im->unproved,
			    im->has_build_ids ? "" : ": there are no build ids in the file");
	if (im->trusted_early)
		import_note(im,
			    "%lu paths had one build id and several files, which is known too late "
			    "in a pipe: names of the first may be wrong; hint: import a file",
			    im->trusted_early);
	if (im->forgotten)
		import_note(im,
			    "%lu processes were forgotten, as all processes take more than %zu "
			    "MiB: their later samples may have no stack",
			    im->forgotten, im->options.held_bytes >> 20);
	if (im->late_maps)
		import_note(im,
			    "%lu files /tmp/perf-PID.map are newer than the recording, and may "
			    "belong to other "
			    "processes with that pid: their names were not used",
			    im->late_maps);
	if (im->replaced.n_used)
		import_note(im,
			    "%zu mapped files were not read: another file is at their path, and "
			    "its build id does not identify them",
			    im->replaced.n_used);
}

/* Callchains of the kernel follow frame pointers.  Where a function uses that register for data, the next frame may be in no
 * module. */
static void note_stacks(struct import *im)
{
	const struct account *a = &im->account;
	uint64_t lost = a->failed[UW_NO_UNWIND_INFO];

	if (lost)
		lost += a->failed[UW_NO_MODULE];
	if (im->kind == IMPORT_ADDRESSES && a->emitted &&
	    !(im->event->attr.sample_type & PERF_SAMPLE_STACK_USER))
		import_note(im, "the recording has no stacks, only the address of each sample; "
				"hint: perf record --call-graph dwarf");
	if (im->kind == IMPORT_CHAINS && 2 * lost > max_u64(a->emitted, 20))
		import_note(im,
			    "most callchains end after a few frames: the programs have no frame "
			    "pointers; hint: perf record --call-graph dwarf");
}

/* (A jitdump has CLOCK_MONOTONIC, which perf's own clock cannot be converted to, or the processor's counter.) */
static void note_jit_times(struct import *im)
{
	const char *path = emit_timeless_dump(im->emit);

	if (path && !converts(im))
		import_note(im, EMIT_TIMELESS_NOTE, path);
	else if (path || emit_lacks_times(im->emit))
		import_note(im, "a jitdump has code that was loaded over other code, and the "
				"samples have another clock: at these addresses all samples have "
				"the name of the last load; hint: perf record -k mono");
}

static void note_unopened(struct import *im)
{
	if (im->unopened)
		import_note(im,
			    "no file descriptors were left: %lu modules could not be read; hint: "
			    "ulimit -n",
			    im->unopened);
}

/* For a recording with several events: the samples that another choice would import. */
static void note_other_events(struct import *im)
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
		import_note(im,
			    "%lu samples of a group's leader (:S) have counts of events that are "
			    "not in the "
			    "file: those counts are left out",
			    im->grouped);
	if (im->guests)
		import_note(im, "%lu samples are of a virtual machine guest: they have no stacks",
			    im->guests);
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
	if (im->emit && !summary->n_unsymbolized)
		stats_unsymbolized(im->emit, summary);
}

static int finish(struct import *im)
{
	const struct session_summary *summary = &im->result->summary;
	struct stats stats = {0};
	int r = im->emit ? 0 : import_start_trace(im, 0);

	if (r >= 0)
		r = import_look_up_rest(im);
	if (r >= 0)
		r = writer_symbols_flush(im->writer);
	note_damage(im);
	note_unverified(im);
	note_stacks(im);
	note_jit_times(im);
	note_unopened(im);
	log_verbose("modules held %zu KiB at most", im->result->most_cached >> 10);
	note_other_events(im);
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

/* The time of the last write to the file, by perf or by a copy. */
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
		r = slot_queue_init(&im->entries, ARRAY_SIZE(im->places), sizeof(struct entry));
	if (r >= 0)
		r = process_table_new(im->modules, IMPORT_PROCESSES, &im->processes);
	if (r >= 0)
		r = loader_new_inline(NO_PROC, &im->loader);
	if (r >= 0)
		loader_set_places(im->loader, &im->options.places);
	return r < 0 ? trace(r) : 0;
}

static void import_free(struct import *im)
{
	import_unwind_deinit(im);
	(void)reader_free(im->reader);
	import_kernel_deinit(im);
	(void)loader_free(im->loader);
	(void)emit_free(im->emit);
	(void)writer_free(im->writer);
	(void)uw_engine_free(im->engine);
	(void)process_table_free(im->processes);
	(void)uw_modules_free(im->modules);
	(void)perfdata_free(im->file);
	slot_queue_deinit(&im->entries);
	table_deinit(&im->group_values);
	table_deinit(&im->paths);
	table_deinit(&im->replaced);
	free(im->path_files);
	free(im->first_gone);
	free(im->outcome);
	free(im->others);
	(void)munmap(im, sizeof(*im));
}

/* Zeros.  Of the rows for 4,096 frames a stack most use half a page: in huge pages, or cleared, all 8 MB would be touched. */
static struct import *import_new(void)
{
	struct import *im =
		mmap(NULL, sizeof(*im), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (im == MAP_FAILED)
		return NULL;
	(void)madvise(im, sizeof(*im), MADV_NOHUGEPAGE);
	return im;
}

static int run(struct import *im, int fd, char *error, size_t error_size)
{
	int r = perfdata_new(fd, NULL, &im->file, error, error_size);

	if (r < 0)
		return trace(r);
	r = make(im);
	if (r >= 0)
		r = take_all(im, error, error_size);
	if (r >= 0)
		r = finish(im);
	if (r < 0)
		fill_summary(im);
	return r < 0 ? trace(r) : 0;
}

int import_run(int fd, const struct import_options *options, struct sink *sink,
	       struct import_result *result, char *error, size_t error_size)
{
	struct import *im = import_new();
	int r;

	*result = (struct import_result){0};
	*error = 0;
	if (!im) {
		(void)snprintf(error, error_size, "no memory");
		return fail(-ENOMEM);
	}
	im->options = *options;
	if (!im->options.held_bytes)
		im->options.held_bytes = IMPORT_HELD;
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
