/* session-make.c - the parts of a session, made from what its events came out as.  Thread: main. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "session/session-private.h"

static void lost_seen(void *arg, uint32_t cpu, uint64_t records, uint64_t time)
{
	struct session *s = arg;

	(void)time;
	(void)writer_lost(s->writer, cpu, records, clock_ns(CLOCK_BOOTTIME));
}

static int skipped(void *arg, const struct sample_info *info, enum skip_reason why)
{
	struct session *s = arg;

	return emit_skipped(s->emit, info, why);
}

static void ksymbol_seen(void *arg, uint64_t start, uint32_t len, const char *name, bool gone)
{
	struct session *s = arg;

	if (!s->kallsyms)
		return;
	if (gone)
		uw_kallsyms_remove(s->kallsyms, start);
	else
		(void)uw_kallsyms_add(s->kallsyms, start, len, name);
}

static void writer_event_of(const struct perf_spec *spec, struct writer_event *event)
{
	*event = (struct writer_event){
		.name = spec->unnamed ? NULL : spec->name,
		.counter = spec->counter,
		.tracepoint = spec->tracepoint[0] ? spec->tracepoint : NULL,
		.filter = spec->filter,
		.raw_type = spec->type,
		.raw_config = spec->config,
		.raw_config1 = spec->config1,
		.raw_config2 = spec->config2,
		.exclude_user = spec->exclude_user,
		.exclude_kernel = spec->exclude_kernel,
		.exclude_hv = spec->exclude_hv,
	};
}

static int make_writer(struct session *s)
{
	const struct perf_options *o = perf_source_options(s->source);
	struct writer_options wo = {
		.followers = s->followers,
		.n_followers = o->n_followers,
		.period = o->period,
		.frequency = o->frequency,
		.poll_ms = s->options.poll_ms,
		.shard_count = s->options.shard_count,
		.shard = s->options.shard,
		.clock = s->options.poll_ms ? CLOCK_BOOTTIME : s->options.clock,
		.sequence_id = s->options.producer ? 0 : 1,
		.tool = "perfwind " PERFWIND_VERSION,
	};

	writer_event_of(&o->leader, &wo.leader);
	for (size_t i = 0; i < o->n_followers; i++)
		writer_event_of(&o->followers[i], &s->followers[i]);
	return writer_new(&wo, s->sink, &s->writer);
}

static int make_loader(struct session *s)
{
	enum uw_engine_kind engine = s->options.engine;
	struct loader_options options = {
		.root = s->options.proc_root,
		.answers = &s->main_waker,
		.copies = engine == UW_ENGINE_LIBUNWIND || engine == UW_ENGINE_LIBDW,
	};
	int r = memory_guard_new(SESSION_MEMORY_READ_MS * NSEC_PER_MSEC, &s->memory_guard);

	if (r < 0)
		return trace(r);
	options.memory = s->memory_guard;
	return trace(loader_new(&options, &s->loader));
}

static int make_reader(struct session *s, uint64_t maps_wait_ns)
{
	const struct session_options *so = &s->options;
	struct reader_options ro = {
		.idle = so->idle,
		.frames = session_frames(s),
		.by_callchain = so->engine == UW_ENGINE_FP,
		.procmap_query = so->features.has[FEATURE_PROCMAP_QUERY],
		.clock = so->clock,
		.children = so->children,
		.wanted_by_cmdline = so->wanted_by_cmdline,
		.consent_allows = so->consent_allows,
		.enqueued_bytes = so->enqueued_bytes,
		.maps_wait_ns = maps_wait_ns,
		.copy_bytes = SESSION_COPY_BYTES,
	};

	if (s->stood_in ||
	    (!so->machine && !so->children && !so->features.has[FEATURE_INHERIT_THREAD])) {
		ro.only_pids = s->scope_pids;
		ro.n_only_pids = s->n_scope_pids;
	}
	if (session_consent(s))
		consent_counts(session_consent(s), s->answers_before);
	return trace(reader_new(&ro,
				&(struct reader_context){
					.source = s->source,
					.processes = s->processes,
					.loader = s->loader,
					.entries = &s->entries,
					.unwinder = &s->unwinder_waker,
					.account = &s->account,
					.lost = lost_seen,
					.skipped = so->producer ? skipped : NULL,
					.memory_guard = s->memory_guard,
					.consent = session_consent(s),
					.note = session_note_line,
					.wanted = so->wanted,
					.wanted_arg = so->wanted_arg,
					.allowed = so->allowed,
					.allowed_arg = so->allowed_arg,
					.ksymbol = ksymbol_seen,
					.raw = so->raw ? session_raw_record : NULL,
					.arg = s,
				},
				&s->reader));
}

static int make_stages(struct session *s)
{
	const struct session_options *so = &s->options;
	struct unwind_options uo = {
		.engine = so->engine,
		.nice = so->realtime ? 0 : SESSION_NICE,
		.realtime = so->realtime,
		.frames = session_frames(s),
		.maps_wait_ns = (so->maps_wait_ms ? so->maps_wait_ms : SESSION_MAPS_WAIT_MS) *
				NSEC_PER_MSEC,
		.module_wait_ns = SESSION_MODULE_WAIT_MS * NSEC_PER_MSEC,
		.park_bytes = SESSION_PARK_BYTES,
		.drop = reader_entry_drop,
	};
	int r = slot_queue_init(&s->entries, SESSION_ENTRIES, sizeof(struct entry));

	if (r >= 0)
		r = byte_queue_init(&s->outcomes, SESSION_OUTCOME_BYTES);
	if (r >= 0)
		r = make_loader(s);
	if (r >= 0)
		r = make_reader(s, uo.maps_wait_ns);
	if (r >= 0)
		r = emit_new(
			&(struct emit_context){
				.writer = s->writer,
				.loader = s->loader,
				.modules = s->modules,
				.kallsyms = s->kallsyms,
				.account = &s->account,
				.no_lines = so->producer && !so->lines,
			},
			&s->emit);
	if (r >= 0)
		r = unwind_stage_new(&uo, &s->entries, &s->unwinder_waker, &s->outcomes,
				     &s->main_waker, &s->unwinder);
	return r < 0 ? trace(r) : 0;
}

static int start_adapting(struct session *s)
{
	if ((!s->options.machine && !s->stood_in) || s->options.stack_bytes ||
	    !perf_source_options(s->source)->stack_bytes)
		return 0;
	s->adapt = calloc(s->options.n_cpus, sizeof(*s->adapt));
	if (!s->adapt)
		return fail(-ENOMEM);
	s->n_adapt = s->options.n_cpus;
	for (size_t i = 0; i < s->n_adapt; i++)
		s->adapt[i].bytes = ADAPT_FIRST;
	return 0;
}

static int session_make(struct session *s, char *error, size_t error_size)
{
	int r = waker_init(&s->unwinder_waker);

	if (r >= 0)
		r = waker_init(&s->main_waker);
	if (r >= 0)
		r = uw_modules_new(&s->modules);
	if (r >= 0)
		r = process_table_new(s->modules, SESSION_PROCESSES, &s->processes);
	if (r >= 0)
		r = session_open_source(s, error, error_size);
	if (r < 0)
		return trace(r);
	session_load_kallsyms(s);
	if (s->options.raw) {
		r = session_raw_start(s);
		if (r < 0)
			return trace(r);
	}
	r = make_writer(s);
	if (r >= 0)
		r = make_stages(s);
	if (r >= 0)
		r = start_adapting(s);
	if (r >= 0)
		r = session_join_loop(s);
	return r < 0 ? trace(r) : 0;
}

int session_new(const struct session_options *options, struct sink *sink, struct loop *loop,
		struct session **ret_session, char *error, size_t error_size)
{
	struct session *s = calloc(1, sizeof(*s));
	int r;

	*error = 0;
	if (!s)
		return fail(-ENOMEM);
	s->options = *options;
	s->own.wanted = options->machine && options->tasks_only;
	if (s->own.wanted) {
		s->options.machine = false;
		s->options.children = true;
	}
	s->sink = sink;
	s->loop = loop;
	s->unwinder_waker.fd = s->main_waker.fd = s->main_source.fd = -1;
	s->tick.source.fd = s->poll.source.fd = -1;
	session_share(s);
	if (options->note)
		session_note(s, "%s", options->note);
	r = session_make(s, error, error_size);
	if (r < 0) {
		if (!*error)
			(void)snprintf(error, error_size, "cannot record: %s", strerror(-r));
		(void)session_free(s);
		return trace(r);
	}
	*ret_session = s;
	return 0;
}

/* Outcomes that were never taken still hold references. */
static void drop_outcomes(struct session *s)
{
	const struct outcome *o;
	size_t len;

	while (s->outcomes.data && (o = byte_queue_next(&s->outcomes, &len))) {
		if (o->kind == OUTCOME_EVICTED)
			(void)uw_module_unref(o->module);
		if (o->kind != OUTCOME_SAMPLE)
			continue;
		(void)uw_space_unref(o->info.space);
		(void)process_unref(o->info.process);
	}
}

struct session *session_free(struct session *s)
{
	if (!s)
		return NULL;
	session_unshare(s);
	session_leave_loop(s);
	loop_remove(s->loop, &s->main_source);
	free(s->flushes.items);
	free(s->rings);
	(void)unwind_stage_free(s->unwinder);
	(void)loader_free(s->loader);
	drop_outcomes(s);
	(void)reader_free(s->reader);
	(void)emit_free(s->emit);
	session_retry_deinit(s);
	(void)perf_source_free(s->source);
	(void)writer_free(s->writer);
	session_drop_kallsyms(s);
	(void)process_table_free(s->processes);
	(void)uw_modules_free(s->modules);
	(void)memory_guard_free(s->memory_guard);
	slot_queue_deinit(&s->entries);
	byte_queue_deinit(&s->outcomes);
	waker_deinit(&s->unwinder_waker);
	waker_deinit(&s->main_waker);
	for (size_t i = 0; i < s->n_notes; i++)
		free(s->notes[i]);
	free(s->adapt);
	free(s->own_cpus);
	free(s->scope_pids);
	session_own_deinit(s);
	s->freed = true;
	if (!s->reporting)
		free(s);
	session_give_back();
	return NULL;
}
