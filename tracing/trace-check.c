/* trace-check.c - what of a TraceConfig can be run without a tracing service; see trace-session.h.
 *
 * A field is honoured, refused (the trace would not be what was asked for), or it only concerns
 * a part of the service that is missing here: then a note reports it, if it has an effect on the trace. */
#include <errno.h>
#include <regex.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/nearest.h"
#include "tracing/trace-session.h"
#include "tracing/triggers.h"

/* As the stock data source is called, for configs that ask for it by name, and as we are. */
static const char *const producer_names[] = {"perfetto.traced_perf", "perfwind"};

struct check {
	const Pb__TraceConfig *config;
	char *error;
	size_t error_size;
};

static int refuse(const struct check *c, const char *format, ...) _printf_(2, 3);
static int refuse(const struct check *c, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(c->error, c->error_size, format, ap);
	va_end(ap);
	return fail(-EINVAL);
}

/* ---- fields of the config itself ---- */

static int check_refused(const struct check *c)
{
	const Pb__TraceConfig *m = c->config;
	const struct {
		bool set;
		const char *name, *why;
	} refused[] = {
		{m->deferred_start && !(m->unique_session_name && *m->unique_session_name),
		 "deferred_start", "it needs a unique_session_name, by which it is started"},
		{m->deferred_start && triggers_wanted(m), "deferred_start",
		 "it excludes trigger_config"},
		{m->n_activate_triggers, "activate_triggers",
		 "triggers go to a tracing service, and there is none here"},
		{m->cmd_trace_start_delay, "cmd_trace_start_delay",
		 "traces begin immediately here"},
		{m->lockdown_mode == PB__TRACE_CONFIG__LOCKDOWN_MODE_OPERATION__LOCKDOWN_SET,
		 "lockdown_mode", "there is no tracing service here to be locked"},
		{m->trace_filter, "trace_filter", "the trace would hold data that it excludes"},
		{m->compression && m->compression->zstd, "compression.zstd",
		 "only deflate is written"},
		{m->builtin_data_sources && m->builtin_data_sources->primary_trace_clock &&
			 m->builtin_data_sources->primary_trace_clock !=
				 PB__BUILTIN_CLOCK__BUILTIN_CLOCK_BOOTTIME,
		 "builtin_data_sources.primary_trace_clock", "it is BUILTIN_CLOCK_BOOTTIME here"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		if (refused[i].set)
			return refuse(c, "%s: %s", refused[i].name, refused[i].why);
	return 0;
}

static void warn_unused(const Pb__TraceConfig *m)
{
	const struct {
		bool set;
		const char *name;
	} unused[] = {
		{m->notify_traceur, "notify_traceur"},
		{m->bugreport_score, "bugreport_score"},
		{m->bugreport_filename, "bugreport_filename"},
		{m->incident_report_config, "incident_report_config"},
		{m->android_report_config, "android_report_config"},
		{m->trace_all_machines, "trace_all_machines"},
		{m->priority_boost, "priority_boost"},
		{m->fflush_post_write == PB__TRACE_CONFIG__FFLUSH_MODE__FFLUSH_ENABLED,
		 "fflush_post_write"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(unused); i++)
		if (unused[i].set)
			log_info("%s has no effect without a tracing service", unused[i].name);
	for (size_t i = 0; m->write_into_file && i < m->n_buffers; i++)
		if (m->buffers[i]->fill_policy ==
		    PB__TRACE_CONFIG__BUFFER_CONFIG__FILL_POLICY__DISCARD)
			log_info("buffers[%zu]: DISCARD takes nothing more once it was full, even "
				 "though write_into_file empties it; RING_BUFFER would",
				 i);
}

/* ---- buffers ---- */

static int check_buffers(const struct check *c)
{
	const Pb__TraceConfig *m = c->config;
	uint64_t ram = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE), sum = 0;

	if (!m->n_buffers || m->n_buffers > TRACE_BUFFERS)
		return refuse(c, "buffers: there are %zu, and 1 to %d are needed", m->n_buffers,
			      TRACE_BUFFERS);
	for (size_t i = 0; i < m->n_buffers; i++) {
		const Pb__TraceConfig__BufferConfig *b = m->buffers[i];

		if (!b->size_kb)
			return refuse(c, "buffers[%zu].size_kb: a buffer needs a size", i);
		sum += (uint64_t)b->size_kb << 10;
		if (sum > ram)
			return refuse(c, "buffers[%zu].size_kb: %u KiB: this machine has %llu KiB",
				      i, b->size_kb, (unsigned long long)ram >> 10);
		if ((unsigned)b->fill_policy >
		    PB__TRACE_CONFIG__BUFFER_CONFIG__FILL_POLICY__DISCARD)
			return refuse(c, "buffers[%zu].fill_policy: there is no policy %d", i,
				      (int)b->fill_policy);
		for (size_t j = 0; b->name && j < i; j++)
			if (m->buffers[j]->name && !strcmp(m->buffers[j]->name, b->name))
				return refuse(
					c, "buffers[%zu].name: buffers[%zu] is called '%.64s' too",
					i, j, b->name);
	}
	return 0;
}

static int find_buffer(const struct check *c, size_t source, const char *name, size_t *ret_buffer)
{
	const Pb__TraceConfig *m = c->config;
	struct nearest nearest = {.wanted = name};
	int r;

	for (size_t i = 0; i < m->n_buffers; i++) {
		if (!m->buffers[i]->name)
			continue;
		if (!strcmp(m->buffers[i]->name, name)) {
			*ret_buffer = i;
			return 0;
		}
		nearest_offer(&nearest, m->buffers[i]->name);
	}
	r = refuse(c, "data_sources[%zu].config.target_buffer_name: no buffer is called '%.64s'",
		   source, name);
	nearest_append(&nearest, c->error, c->error_size);
	return r;
}

int trace_check_target(const Pb__TraceConfig *config, size_t source, size_t *ret_buffer,
		       char *error, size_t error_size)
{
	const struct check c = {config, error, error_size};
	const Pb__DataSourceConfig *ds = config->data_sources[source]->config;
	size_t buffer = ds ? ds->target_buffer : 0;

	if (buffer >= config->n_buffers)
		return refuse(&c,
			      "data_sources[%zu].config.target_buffer: %zu: the config has %zu "
			      "(counted from 0)",
			      source, buffer, config->n_buffers);
	if (ds && ds->target_buffer_name && *ds->target_buffer_name) {
		size_t by_name;
		int r = find_buffer(&c, source, ds->target_buffer_name, &by_name);

		if (r < 0)
			return r;
		if (ds->has_target_buffer && by_name != buffer)
			return refuse(&c,
				      "data_sources[%zu].config.target_buffer: %zu is not the "
				      "one of target_buffer_name",
				      source, buffer);
		buffer = by_name;
	}
	*ret_buffer = buffer;
	return 0;
}

/* ---- data sources ---- */

static bool is_our_name(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(producer_names); i++)
		if (!strcmp(producer_names[i], name))
			return true;
	return false;
}

/* A whole name, by an extended regular expression.  Repetitions by number and references back, with
 * which a short pattern asks for all memory or time there is, are not taken. */
static bool matches_our_name(const char *pattern)
{
	char whole[512];
	bool matches = false;
	regex_t regex;

	if (strpbrk(pattern, "{\\") ||
	    (size_t)snprintf(whole, sizeof(whole), "^(%s)$", pattern) >= sizeof(whole) ||
	    regcomp(&regex, whole, REG_EXTENDED | REG_NOSUB) != 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(producer_names); i++)
		matches |= regexec(&regex, producer_names[i], 0, NULL, 0) == 0;
	regfree(&regex);
	return matches;
}

static bool producer_is_asked(const Pb__TraceConfig__DataSource *ds)
{
	bool asked = !ds->n_producer_name_filter && !ds->n_producer_name_regex_filter;

	for (size_t i = 0; i < ds->n_producer_name_filter; i++)
		asked |= is_our_name(ds->producer_name_filter[i]);
	for (size_t i = 0; !asked && i < ds->n_producer_name_regex_filter; i++)
		asked = matches_our_name(ds->producer_name_regex_filter[i]);
	return asked;
}

static bool machine_is_asked(const Pb__TraceConfig__DataSource *ds)
{
	bool asked = !ds->n_machine_name_filter;

	for (size_t i = 0; i < ds->n_machine_name_filter; i++)
		asked |= !strcmp(ds->machine_name_filter[i], "host");
	return asked;
}

bool trace_check_is_ours(const Pb__TraceConfig *config, size_t source, const char **ret_why)
{
	const Pb__TraceConfig__DataSource *ds = config->data_sources[source];
	const char *name = ds->config && ds->config->name ? ds->config->name : "";

	*ret_why = NULL;
	if (strcmp(name, "linux.perf"))
		*ret_why = "only linux.perf is here";
	else if (!producer_is_asked(ds))
		*ret_why = "it is asked of another producer";
	else if (!machine_is_asked(ds))
		*ret_why = "it is asked of another machine";
	return !*ret_why;
}

uint32_t trace_check_ours(const Pb__TraceConfig *config)
{
	const char *why;
	uint32_t n = 0;

	for (size_t i = 0; i < config->n_data_sources; i++)
		n += trace_check_is_ours(config, i, &why);
	return n;
}

static void name_source(const Pb__TraceConfig *m, size_t i, char *text, size_t size)
{
	const Pb__DataSourceConfig *ds = m->data_sources[i]->config;

	(void)snprintf(text, size, "%.64s",
		       ds && ds->name && *ds->name ? ds->name : "one without a name");
}

static int check_sources(const struct check *c)
{
	const Pb__TraceConfig *m = c->config;
	size_t n_ours = 0, buffer;

	for (size_t i = 0; i < m->n_data_sources; i++) {
		const char *why;
		char name[80];
		int r = trace_check_target(m, i, &buffer, c->error, c->error_size);

		if (r < 0)
			return r;
		if (trace_check_is_ours(m, i, &why)) {
			n_ours++;
			continue;
		}
		name_source(m, i, name, sizeof(name));
		log_info("data source %s is left out: %s", name, why);
	}
	if (!n_ours)
		return refuse(c, "data_sources: none is a linux.perf for this machine, so there is "
				 "nothing to record");
	return 0;
}

int trace_check(const Pb__TraceConfig *config, char *error, size_t error_size)
{
	const struct check c = {config, error, error_size};
	int r = check_refused(&c);

	if (r >= 0)
		r = triggers_check(config, error, error_size);
	if (r >= 0)
		r = check_buffers(&c);
	if (r >= 0)
		r = check_sources(&c);
	if (r < 0)
		return trace(r);
	warn_unused(config);
	return 0;
}
