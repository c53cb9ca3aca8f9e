/* session-stats.c - notes, statistics, and the work of each second.  Thread: main.
 *
 * Retries: a file is opened through the process of the first sample that needed it.  That process may be
 * gone, or run where the path leads to another file, while further processes that map the file can
 * be used.  So an unreadable module is tried again after one second, then two, four ...: it becomes
 * as new, and the next sample in it requests it through its own process. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/error.h"
#include "proc/procfs.h"
#include "session/pipeline/jit-hint.h"
#include "session/session-private.h"
#include "session/statistics.h"

enum {
	GONE_S = 10, /* between two looks for processes that ended in lost records */
	COUNTS_WAIT_S = 10,
	PEAK_WAIT_S = 10,
	TICKS_ENOUGH = 25, /* the kernel counts in ticks, with an error of one or two for each
			      kind of time: a share of fewer ticks is noise */
	MAX_RETRIED = 4096,
};

/* ---- notes ---- */

bool session_has_note(const struct session *s, const char *line)
{
	for (size_t i = 0; i < s->n_notes; i++) {
		if (!strcmp(s->notes[i], line))
			return true;
	}
	return false;
}

bool session_keep_note(struct session *s, const char *line)
{
	if (s->n_notes == SESSION_NOTES || session_has_note(s, line))
		return false;
	s->notes[s->n_notes] = strdup(line);
	if (!s->notes[s->n_notes])
		return false;
	s->n_notes++;
	return true;
}

void session_limit(void *session, const char *brief, const char *line)
{
	struct session *s = session;

	if (!session_keep_note(s, line))
		return;
	if (s->options.noted)
		s->options.noted(s->options.noted_arg, brief, line);
	else
		log_info("%s", line);
}

void session_note(struct session *s, const char *format, ...)
{
	char line[512];
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	session_limit(s, NULL, line);
}

/* Where a process is protected from root, too, or from a daemon that gave up its privileges. */
static const char *memory_hint(void)
{
	return geteuid() ? "start it with `perfwind run`, or run perfwind as root; of a daemon: "
			   "direct = yes"
			 : "perfwind doctor; of a daemon: direct = yes";
}

/* Reports why the symbols of a perf map are missing, once a session: every process may have one. */
static void note_jit(struct session *s, const struct load_answer *a)
{
	if (a->error == -EXDEV)
		session_note(
			s,
			"symbols of JIT code in a container are missing: no permission to read "
			"its perf map (hint: %s)",
			memory_hint());
	if (a->error != -EACCES || s->jit_noted)
		return;
	s->jit_noted = true;
	session_note(
		s,
		"symbols of JIT code are missing: %s is rejected, because other users can write "
		"it, or because it does not belong to the user of its process (hint: chmod "
		"go-w, umask 022; further files are not reported)",
		uw_module_path(a->request.module));
}

/* Reports once that the functions of an interpreter are not shown, and why.  A program without exports is none. */
static void note_unread_script(struct session *s, const struct load_answer *a, bool unknown)
{
	static const char *const supported[UW_LANGUAGES] = {
		[UW_LANGUAGE_PYTHON] =
			"CPython 3.11 to 3.15 with a GIL, its loop without tail calls, is",
		[UW_LANGUAGE_PHP] = "PHP 8.1 to 8.5 without ZTS, built by GCC, is",
		[UW_LANGUAGE_RUBY] = "Ruby 3.0 to 3.4 built by GCC is",
		[UW_LANGUAGE_JS] = "a build that exports V8's v8dbg constants is",
	};
	static const char *const hints[UW_LANGUAGES] = {
		[UW_LANGUAGE_PYTHON] = " (hint: python3 -X perf, from 3.12 on)",
		[UW_LANGUAGE_JS] = " (hint: node --perf-basic-prof names compiled ones)",
	};
	enum uw_language language = uw_module_language(a->request.module);
	char name[64];

	if (a->vm_error == -ENOEXEC)
		return;
	s->vm_noted = true;
	process_interpreter_name(process_find(s->processes, a->request.pid), name, sizeof(name));
	if (unknown)
		session_note(
			s,
			"%s of process %u is not supported (%s): stacks show the interpreter's own "
			"functions%s",
			name, a->request.pid, supported[language],
			hints[language] ? hints[language] : "");
	else
		session_note(s,
			     "%s of process %u cannot be read (%s): stacks show the interpreter's "
			     "own functions (hint: %s)",
			     name, a->request.pid, strerror(-a->vm_error), memory_hint());
}

/* Reports once that Java is unwound as other JIT code, and why.  -ESRCH: the process is over; another may be read. */
static void note_vm(struct session *s, const struct load_answer *a)
{
	bool unknown = a->vm_error == -ENOTSUP || a->vm_error == -ENOEXEC ||
		       a->vm_error == -EPROTONOSUPPORT;

	if (!a->vm_error || a->vm_error == -ESRCH || s->vm_noted)
		return;
	if (uw_module_language(a->request.module)) {
		note_unread_script(s, a, unknown);
		return;
	}
	s->vm_noted = true;
	session_note(s,
		     "the Java VM of process %u cannot be read (%s): Java code is unwound by frame "
		     "pointers and has no names (hint: java -XX:+PreserveFramePointer%s%s)",
		     a->request.pid, unknown ? "unknown layout" : strerror(-a->vm_error),
		     unknown ? "" : "; ", unknown ? "" : memory_hint());
}

/* CPython before 3.12 takes -X perf and ignores it. */
static void note_python(struct session *s, const struct load_answer *a)
{
	unsigned minor =
		a->request.kind == LOAD_PROCESS
			? jit_hint_old_python(a->cmdline, a->cmdline_len, a->maps, a->maps_len)
			: 0;

	if (minor && !s->python_noted)
		session_note(
			s,
			"CPython 3.%u (process %u) ignores -X perf, which needs CPython 3.12: it "
			"writes no names of functions",
			minor, a->request.pid);
	s->python_noted |= minor != 0;
}

void session_note_answer(struct session *s, const struct load_answer *a)
{
	if (a->request.process)
		note_python(s, a);
	else if (a->request.kind == LOAD_UNWIND)
		note_vm(s, a);
	else if (a->request.kind == LOAD_SYMBOLS)
		note_jit(s, a);
}

/* ---- CPU time ---- */

/* User and system time of our own threads, without children. */
uint64_t session_own_cpu_ns(void)
{
	struct rusage ru = {0};

	(void)getrusage(RUSAGE_SELF, &ru);
	return ((uint64_t)ru.ru_utime.tv_sec + (uint64_t)ru.ru_stime.tv_sec) * NSEC_PER_SEC +
	       ((uint64_t)ru.ru_utime.tv_usec + (uint64_t)ru.ru_stime.tv_usec) * 1000;
}

static uint64_t tick_ns(void)
{
	return NSEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK);
}

/* CPU time that the targets have used, ns: of the machine, or of the processes that CPU-wide
 * events stand in for; 0: cannot be read. */
uint64_t session_used_ns(const struct session *s)
{
	uint64_t ns = 0;
	struct procfs_status status;

	if (s->options.machine)
		return procfs_busy_ns(s->options.proc_root, s->options.cpus, s->options.n_cpus,
				      &ns) < 0
			       ? 0
			       : ns;
	for (size_t i = 0; i < s->n_scope_pids; i++) {
		if (procfs_status(s->options.proc_root, s->scope_pids[i], &status) >= 0)
			ns += (status.utime_ticks + status.stime_ticks) * tick_ns();
	}
	return ns;
}

/* Recorded weight over used weight, 0..1; < 0: unknown. */
static double accounted(const struct session *s, const struct perf_counts *counts)
{
	enum perf_weight weight = s->options.specs[0].weight;
	double used = 0, rounded = 1.01; /* the two are read at slightly different times */

	if (weight == PERF_WEIGHT_CYCLES && session_code(s) & FRAMES_KERNEL && !s->stood_in)
		used = (double)counts->count - (double)s->account.idle_weight;
	else if (weight == PERF_WEIGHT_TIME && !s->options.machine && !s->stood_in)
		used = (double)counts->task_clock_ns;
	else if (weight == PERF_WEIGHT_TIME && s->used_at_start &&
		 s->used_at_stop >= s->used_at_start + TICKS_ENOUGH * tick_ns()) {
		used = (double)(s->used_at_stop - s->used_at_start);
		rounded = 1.05; /* ticks are coarse */
	}
	if (used <= 0 || s->options.waits || s->options.armed)
		return -1;
	used = (double)s->account.weight / used;
	return used > 1 && used < rounded ? 1 : used;
}

/* Throttled time in which the targets ran: a thread's event stays throttled while the thread runs on another CPU, so that it is no
 * more than what is missing. */
static uint64_t throttled_ns(const struct session *s)
{
	const struct account *a = &s->account;
	uint64_t clock = s->counts.task_clock_ns;

	if (s->options.specs[0].weight != PERF_WEIGHT_TIME || s->options.machine || s->stood_in ||
	    !clock)
		return a->throttled_ns;
	return min_u64(a->throttled_ns, clock > a->weight ? clock - a->weight : 0);
}

/* One system call an event, and a thousand threads have thousands of events: this may use 1 % of a
 * CPU. */
void session_read_counts(struct session *s, uint64_t now)
{
	uint64_t took;

	if (now < s->counts_due)
		return;
	(void)perf_source_counts(s->source, &s->counts);
	took = clock_ns(CLOCK_MONOTONIC) - now;
	s->counts_due = now + min_u64(took * 100, COUNTS_WAIT_S * NSEC_PER_SEC);
}

uint64_t session_helpers_cpu_ns(const struct session *s)
{
	struct memory_guard_counts memory;
	struct loader_counts files;

	loader_count(s->loader, &files);
	memory_guard_count(s->memory_guard, &memory);
	return files.cpu_ns + memory.cpu_ns;
}

/* ---- the summary ---- */

/* The kernel keeps the most of each helper process until it ends, and then it is read: a look now and then misses none. */
static uint64_t helpers_peak_kb(struct session *s, uint64_t now)
{
	if (s->state != SESSION_RUNNING || now >= s->helpers_peak_due) {
		s->helpers_peak_kb = child_peak_kb();
		s->helpers_peak_due = now + PEAK_WAIT_S * NSEC_PER_SEC;
	}
	return s->helpers_peak_kb;
}

int session_summary(struct session *s, struct session_summary *ret)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	struct rusage ru = {0};

	if (s->state == SESSION_RUNNING)
		session_read_counts(s, now);
	if (s->state == SESSION_RUNNING)
		s->used_at_stop = s->options.machine || s->stood_in ? session_used_ns(s) : 0;
	(void)getrusage(RUSAGE_SELF, &ru);
	*ret = (struct session_summary){
		.duration_s = s->started_at ? (double)((s->stopped_at ? s->stopped_at : now) -
						       s->started_at) /
						      1e9
					    : 0,
		.account = s->account,
		.counts = s->counts,
		.cpu_accounted = accounted(s, &s->counts),
		.used_s = s->options.machine || s->stood_in || s->options.waits
				  ? 0
				  : (double)(s->counts.task_clock_ns + 1) / 1e9,
		.self_cpu_s = (double)(session_own_cpu_ns() - s->cpu_at_start +
				       session_helpers_cpu_ns(s)) /
			      1e9,
		.self_peak_rss_kb = (uint64_t)ru.ru_maxrss + helpers_peak_kb(s, now),
		.code = session_code(s),
		.at_sample = s->options.at_sample != NULL,
		.bytes = s->sink->bytes,
		.notes = (const char *const *)s->notes,
		.n_notes = s->n_notes,
	};
	ret->account.parked = unwind_stage_parked(s->unwinder);
	ret->account.throttled_ns = throttled_ns(s);
	if (s->account.emitted)
		ret->self_us_per_sample = ret->self_cpu_s * 1e6 / (double)s->account.emitted;
	stats_unsymbolized(s->emit, ret);
	return 0;
}

/* ---- statistics in the trace ---- */

/* Notes, once each, on files and processes that did not answer, and on helpers. */
static void note_helpers(struct session *s)
{
	struct memory_guard_counts memory;
	struct loader_counts files;

	loader_count(s->loader, &files);
	memory_guard_count(s->memory_guard, &memory);
	if (files.stuck)
		session_note(
			s, "a file or a process did not answer within a second: its file system is "
			   "not read for a while (stacks that need it: unresponsive)");
	if (memory.refused)
		session_note(s,
			     "reading the memory of a process did not return in time: for a while "
			     "its stacks end where their copies end");
	if (files.unmade)
		session_note(s,
			     "no helper process can be created (a limit on processes or memory?): "
			     "files and mappings are not read until one can");
	if (files.ended || memory.replaced)
		session_note(s, "a helper process ended unexpectedly; another one replaced it");
}

static void note_dumps(struct session *s)
{
	const char *path = emit_timeless_dump(s->emit);

	if (path)
		session_note(s, EMIT_TIMELESS_NOTE, path);
}

static void add_helpers(const struct session *s, struct stats *list)
{
	struct memory_guard_counts memory;
	struct loader_counts files;

	loader_count(s->loader, &files);
	memory_guard_count(s->memory_guard, &memory);
	if (files.stuck)
		stats_add(list, (double)files.stuck, "refused.calls");
	if (memory.refused)
		stats_add(list, (double)memory.refused, "refused.memory");
	if (files.ended + memory.replaced)
		stats_add(list, (double)(files.ended + memory.replaced), "helpers.replaced");
}

/* Answers at the hook socket since the session began; with a shared socket also answers to other
 * sessions. */
static void add_answers(const struct session *s, struct stats *list)
{
	uint64_t counts[HOOK_VERDICTS];

	if (!session_consent(s))
		return;
	consent_counts(session_consent(s), counts);
	for (int i = 0; i < HOOK_VERDICTS; i++)
		if (counts[i] > s->answers_before[i])
			stats_add(list, (double)(counts[i] - s->answers_before[i]),
				  i == HOOK_GOOD ? "consent.answers" : "refused.answer-%s",
				  hook_verdict_word(i));
}

/* Requests to this session's processes. */
static void add_consent(const struct session *s, struct stats *list)
{
	struct reader_consent_counts counts;

	reader_consent_counts(s->reader, &counts);
	if (!counts.asked)
		return;
	stats_add(list, (double)counts.asked, "consent.asked");
	stats_add(list, (double)counts.given, "consent.given");
	stats_add(list, (double)counts.late, "consent.late");
	stats_add(list, (double)counts.unanswered, "consent.unanswered");
}

int session_write_stats(struct session *s)
{
	struct stats list = {0};
	struct session_summary summary;

	note_helpers(s);
	note_dumps(s);
	session_check_kernel_names(s);
	(void)session_summary(s, &summary);
	stats_of(&summary, &list);
	stats_add(&list, summary.self_cpu_s, "self.cpu_s");
	stats_add(&list, summary.self_us_per_sample, "self.us_per_sample");
	stats_add(&list, (double)summary.self_peak_rss_kb, "self.peak_rss_kb");
	stats_add(&list, s->nice, "reader.nice");
	if (perf_source_options(s->source)->tasks && perf_source_options(s->source)->n_followers)
		stats_add(&list, 1, "followers.by_thread"); /* read by profile/ */
	if (s->options.waits)
		stats_add(&list, 1, "weights.exact"); /* read by profile/ */
	add_helpers(s, &list);
	add_consent(s, &list);
	add_answers(s, &list);
	if (s->relief.times)
		stats_add(&list, (double)s->relief.times, "memory.reliefs");
	if (s->sink->dropped)
		stats_add(&list, (double)s->sink->dropped, "lost.packets");
	return writer_stats(s->writer, list.stats, list.n, (const char *const *)s->notes,
			    s->n_notes, clock_ns(CLOCK_BOOTTIME));
}

/* ---- modules that could not be read ---- */

static struct session_retry *find(struct session *s, const struct uw_module *module)
{
	for (size_t i = 0; i < s->n_retries; i++) {
		if (s->retries[i].module == module)
			return &s->retries[i];
	}
	return NULL;
}

int session_unreadable(struct session *s, struct uw_module *module)
{
	struct session_retry *retry = find(s, module);

	if (!retry) {
		if (s->n_retries == MAX_RETRIED)
			return 0;
		if (s->n_retries == s->retries_room && !array_grow(s->retries, s->retries_room, 16))
			return fail(-ENOMEM);
		retry = &s->retries[s->n_retries++];
		*retry = (struct session_retry){.module = uw_module_ref(module)};
	}
	retry->tries++;
	retry->due = clock_ns(CLOCK_MONOTONIC) + (NSEC_PER_SEC << (retry->tries - 1));
	return 0;
}

int session_retry(struct session *s)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	int r = 0;

	for (size_t i = 0; i < s->n_retries && r >= 0; i++) {
		struct session_retry *retry = &s->retries[i];

		if (retry->tries > SESSION_RETRIES || !retry->due || now < retry->due)
			continue;
		retry->due = 0;
		/* Main drops its half here, the unwinder its own. */
		uw_module_drop_symbols(retry->module);
		r = reader_control(s->reader, ENTRY_EVICT, uw_module_ref(retry->module));
	}
	return r < 0 ? trace(r) : 0;
}

void session_retry_deinit(struct session *s)
{
	for (size_t i = 0; i < s->n_retries; i++)
		(void)uw_module_unref(s->retries[i].module);
	free(s->retries);
}

/* ---- each second ---- */

struct idle_limit {
	struct session *session;
	uint32_t seconds;
};

static bool is_in_use(const struct uw_module *module, void *arg)
{
	const struct idle_limit *idle = arg;

	return emit_idle_seconds(idle->session->emit, module) < idle->seconds;
}

/* The unwinder drops its half itself, and keeps the rules that it has derived. */
static int order_drop(struct uw_module *module, void *arg)
{
	const struct idle_limit *idle = arg;

	return reader_control(idle->session->reader, ENTRY_EVICT, uw_module_ref(module));
}

/* Drops modules above the bounds that were not used for @idle_s seconds. */
static int drop_modules(struct session *s, size_t bytes, size_t most, uint32_t idle_s)
{
	struct idle_limit idle = {s, idle_s};

	return uw_modules_keep_small(s->modules, &(struct uw_modules_limit){
							 .bytes = bytes,
							 .files = share_of_files(SESSION_FILES),
							 .most = most,
							 .in_use = is_in_use,
							 .drop_unwind = order_drop,
							 .arg = &idle,
						 });
}

/* If the modules in use exceed the bound, it still holds, and each second some are loaded again. */
static int keep_cache_small(struct session *s)
{
	size_t bytes = uw_modules_bytes(s->modules);

	if (s->relief.next == RELIEF_MODULES) { /* they are loaded again when they are needed */
		s->relief.next = RELIEF_TRIM;
		return drop_modules(s, 0, 4096, 0);
	}
	if (bytes > UW_MODULES_BYTES / 4 * 3)
		emit_note_uses(s->emit);
	return drop_modules(s, UW_MODULES_BYTES, 64,
			    bytes > UW_MODULES_BYTES / 8 * 9 ? 0 : SESSION_CACHE_IDLE_S);
}

/* Modules that nothing needs any more (emit_tick() forgets them first). */
static int forget_modules(struct session *s)
{
	struct idle_limit idle = {.session = s};

	return uw_modules_forget_unused(s->modules, order_drop, &idle);
}

/* At the configured interval: modules that were not used for some seconds are dropped; others
 * would only be loaded again. */
static int clear_caches(struct session *s)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	if (s->trim_at && now >= s->trim_at) {
		s->trim_at = 0;
		return drop_modules(s, 0, 4096, SESSION_CACHE_IDLE_S);
	}
	if (!s->options.clear_ms)
		return 0;
	if (!s->clear_at || now >= s->clear_at) {
		if (s->clear_at) {
			emit_note_uses(s->emit);
			s->trim_at = now + (SESSION_CACHE_IDLE_S + 1) * NSEC_PER_SEC;
		}
		s->clear_at = now + s->options.clear_ms * NSEC_PER_MSEC;
	}
	return 0;
}

static void cpu_back(void *session, uint32_t cpu)
{
	struct session *s = session;

	/* What began and ended there meanwhile gave no record. */
	process_table_unsure(s->processes);
	s->gone.rounds = 3;
	session_note(s,
		     "CPU %u was offline for a while: what ran before its events were opened again "
		     "is missing",
		     cpu);
}

/* Ends of processes can be among lost records: what is missing in /proc for GONE_S has ended.  Where not even process 1 is shown
 * (hidepid), nothing is known of the others. */
static void end_missing(struct session *s)
{
	_cleanup_(freep) uint32_t *pids = NULL;
	size_t n;

	if (s->gone.lost != s->account.lost_sideband_records) {
		s->gone.lost = s->account.lost_sideband_records;
		s->gone.rounds = 3;
	}
	if (!s->gone.rounds || ++s->gone.seconds < GONE_S)
		return;
	s->gone.seconds = 0;
	s->gone.rounds--;
	if (procfs_pids(s->options.proc_root, &pids, &n) < 0)
		return;
	n = sort_unique_u32(pids, n);
	if (n && pids[0] == 1)
		(void)process_table_end_missing(s->processes, pids, n);
}

int session_second(struct session *s)
{
	int r = keep_cache_small(s);

	if (r >= 0)
		r = clear_caches(s);

	end_missing(s);
	process_table_release_ended(s->processes, SESSION_ENDED);
	if (r >= 0)
		r = forget_modules(s);
	reader_trim(s->reader);
	if (r >= 0)
		r = session_retry(s);
	if (r >= 0)
		r = session_keep_memory_small(s);
	if (r >= 0)
		r = session_keep_cgroup(s);
	if (r >= 0)
		r = session_write_stats(s);
	session_budget_make_up(s);
	if (s->state == SESSION_RUNNING)
		perf_source_reopen_cpus(s->source, cpu_back, s);
	return r < 0 ? trace(r) : 0;
}
