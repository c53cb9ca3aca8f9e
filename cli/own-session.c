/* own-session.c - see own-session.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/cache-dir.h"
#include "base/util.h"
#include "cli/ask.h"
#include "cli/own-session.h"
#include "base/child.h"
#include "base/error.h"
#include "perf/probe.h"
#include "session/rights-filter.h"
#include "session/rights.h"

/* ---- limits of the machine that this user was shown by an earlier command ----
 *
 * They are lines of the file "limits" in the user's cache folder (base/cache-dir.h), the latest last.  Without that folder,
 * and with PERFWIND_NOTES=all in the environment, none is known. */

enum { MAX_BYTES = 16384 };
#define FILE_NAME "limits"

static bool is_known(const char *text, size_t size, const char *line)
{
	size_t len = strlen(line);

	for (const char *at = text, *end = text + size; at < end;) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));

		if (!stop)
			return false;
		if ((size_t)(stop - at) == len && !memcmp(at, line, len))
			return true;
		at = stop + 1;
	}
	return false;
}

/* A list that is too long for the file loses its oldest lines. */
static void remember(int dir, struct buffer *all)
{
	const char *text = (const char *)all->data, *end = text + all->len;

	while (end - text > MAX_BYTES) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));

		text = stop ? stop + 1 : end;
	}
	if (!all->bad)
		(void)cache_dir_write(dir, FILE_NAME, text, (size_t)(end - text));
}

/* Were all of the lines shown before?  If not, they are remembered: the caller shows them now. */
static bool known_limits(const char *const lines[], size_t n)
{
	_cleanup_(buffer_deinit) struct buffer all = {0};
	_cleanup_(fd_closep) int dir = -1;
	_cleanup_(freep) uint8_t *text = NULL;
	const char *notes = getenv("PERFWIND_NOTES");
	size_t size = 0, unknown = 0;

	if (notes && !strcmp(notes, "all"))
		return false;
	dir = cache_dir_open();
	if (dir < 0)
		return false;
	if (cache_dir_read(dir, FILE_NAME, MAX_BYTES, &text, &size) < 0)
		size = 0;
	buffer_append(&all, text, size);
	for (size_t i = 0; i < n; i++) {
		if (is_known((const char *)text, size, lines[i]))
			continue;
		unknown++;
		buffer_append(&all, lines[i], strlen(lines[i]));
		buffer_append(&all, "\n", 1);
	}
	if (unknown)
		remember(dir, &all);
	return !unknown;
}

void own_session_noted(void *arg, const char *brief, const char *line)
{
	struct own_session *own = arg;
	bool full = own->n_lines == ARRAY_SIZE(own->lines);

	for (size_t i = 0; i < own->n_lines; i++)
		if (!strncmp(own->lines[i], line, sizeof(own->lines[0]) - 1))
			return; /* of another session of the recording */
	if (own->sure || full)
		log_info("%s", line);
	if (full)
		return;
	(void)snprintf(own->lines[own->n_lines], sizeof(own->lines[0]), "%s", line);
	own->briefs[own->n_lines++] = brief;
}

/* Has a line before number @at the same brief form?  Rings of two sessions differ in size alone. */
static bool is_earlier(const struct own_session *own, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (own->briefs[i] && !strcmp(own->briefs[i], own->briefs[at]))
			return true;
	return false;
}

/* Limits that are the same at each recording by this user: one short line for all if there are several, or where an earlier
 * command has shown them. */
static bool log_briefs(const struct own_session *own)
{
	const char *limits[OWN_LINES];
	char line[256];
	size_t len = 0, n = 0, n_limits = 0;
	bool known;

	if (log_level >= LOG_LEVEL_VERBOSE)
		return false;
	for (size_t i = 0; i < own->n_lines; i++)
		if (own->briefs[i])
			limits[n_limits++] = own->lines[i];
	known = n_limits && log_level == LOG_LEVEL_NORMAL && known_limits(limits, n_limits);
	for (size_t i = 0; i < own->n_lines; i++) {
		if (own->briefs[i] && len < sizeof(line) && !is_earlier(own, i))
			len += (size_t)snprintf(line + len, sizeof(line) - len, "%s%s",
						n++ ? ", " : "", own->briefs[i]);
	}
	if (n < 2 && !known)
		return false;
	log_info("limited here: %s (hints: perfwind doctor)", line);
	return true;
}

void own_session_sure(struct own_session *own)
{
	bool brief;

	if (own->sure)
		return;
	brief = log_briefs(own);
	own->sure = true;
	for (size_t i = 0; i < own->n_lines; i++)
		if (!brief || !own->briefs[i])
			log_info("%s", own->lines[i]);
}

/* Could the daemon record, were it not for an option? */
static bool not_asked(const struct own_session *own)
{
	return own->alone && ask_possible(own->socket);
}

int own_session_refused(struct own_session *own, int r)
{
	if (!*own->lacks)
		(void)snprintf(own->lacks, sizeof(own->lacks), "cannot record: %s", strerror(-r));
	/* ENOSYS: a seccomp filter hides the call. */
	if ((r == -EACCES || r == -EPERM || r == -ENOSYS) && own->may_ask &&
	    ask_possible(own->socket))
		return OWN_ASK;
	own_session_sure(own);
	if (not_asked(own))
		log_error("%s; the daemon is not asked, as it has no %s", own->lacks, own->alone);
	else
		log_error("%s", own->lacks);
	return r;
}

int own_session_enough(struct own_session *own, bool kernel_refused)
{
	char line[128];

	if (kernel_refused && not_asked(own)) {
		(void)snprintf(line, sizeof(line),
			       "the daemon is not asked for kernel frames, as it has no %s",
			       own->alone);
		own_session_noted(own, NULL, line);
	}
	if (!kernel_refused || !own->may_ask || !ask_possible(own->socket))
		return 0;
	(void)snprintf(own->lacks, sizeof(own->lacks), "kernel frames are not permitted");
	return OWN_ASK_FOR_KERNEL;
}

void own_session_give_up(const struct features *features, bool probes)
{
	char error[256];

	rights_prepare_session(probes);
	child_landlock(features->has[FEATURE_LANDLOCK]);

	if (rights_filter(RIGHTS_COMMAND, log_level >= LOG_LEVEL_VERBOSE, error, sizeof(error)) < 0)
		log_verbose("%s", error);
	else
		log_verbose("system calls are filtered");
}

int own_session_consent(const char *socket, bool under_seccomp, const struct features *features,
			struct loop *loop, struct consent **ret_consent)
{
	const struct consent_options o = {.socket = socket,
					  .listen_fd = -1,
					  .under_seccomp = under_seccomp,
					  .features = *features};

	return consent_new(&o, loop, ret_consent);
}

int own_session_at_sample(struct features *features, struct at_sample **ret_at_sample)
{
	const struct at_sample_options o = {.features = features, .deep = true, .python = true};
	char why[256];

	probe_bpf(features);
	return at_sample_new(&o, ret_at_sample, why, sizeof(why));
}
