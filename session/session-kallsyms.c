/* session-kallsyms.c - the kernel's symbols, read once for sessions that follow each other closely.
 * Thread: main.
 *
 * The kernel takes 30 ms and more to write 120,000 lines, however few of them are needed.  While a
 * session runs, KSYMBOL records keep the table fresh; what came while none did is missed, so a
 * table that nobody uses is good for a minute. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "session/session-private.h"

enum { KEPT_S = 60 };

int session_shared_new(struct session_shared **ret_shared)
{
	struct session_shared *shared = calloc(1, sizeof(*shared));

	if (!shared)
		return fail(-ENOMEM);
	*ret_shared = shared;
	return 0;
}

struct session_shared *session_shared_free(struct session_shared *shared)
{
	if (!shared)
		return NULL;
	(void)uw_kallsyms_free(shared->kallsyms);
	free(shared);
	return NULL;
}

void session_shared_set_consent(struct session_shared *shared, struct consent *consent)
{
	shared->consent = consent;
}

struct consent *session_consent(const struct session *s)
{
	const struct session_options *so = &s->options;

	if (*so->proc_root) /* not the processes that could be asked */
		return NULL;
	return so->consent || !so->shared ? so->consent : so->shared->consent;
}

static int read_kallsyms(struct session *s, struct uw_kallsyms **ret_kallsyms)
{
	_cleanup_(fd_closep) int fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
	int r = fd < 0 ? -errno : uw_kallsyms_new(fd, ret_kallsyms);

	if (r == UW_KALLSYMS_HIDDEN)
		session_note(s,
			     "kernel frames will have no names (/proc/kallsyms shows this user no "
			     "addresses); hint: see `perfwind doctor`, or run as root");
	else if (r < 0)
		session_note(s, "kernel frames will have no names (/proc/kallsyms: %s)",
			     strerror(-r));
	return r;
}

static bool is_fresh(const struct session_shared *shared)
{
	return shared->n_users ||
	       clock_ns(CLOCK_MONOTONIC) - shared->left_at < KEPT_S * NSEC_PER_SEC;
}

void session_load_kallsyms(struct session *s)
{
	struct session_shared *shared = s->options.shared;

	if (session_user_only(s) || !(s->options.frames & FRAMES_KERNEL) || s->options.poll_ms)
		return;
	if (!shared) {
		(void)read_kallsyms(s, &s->kallsyms);
		return;
	}
	if (shared->kallsyms && !is_fresh(shared))
		shared->kallsyms = uw_kallsyms_free(shared->kallsyms);
	if (!shared->kallsyms && read_kallsyms(s, &shared->kallsyms) != 0)
		return;
	s->kallsyms = shared->kallsyms;
	shared->n_users++;
}

void session_drop_kallsyms(struct session *s)
{
	struct session_shared *shared = s->options.shared;

	if (!shared) {
		(void)uw_kallsyms_free(s->kallsyms);
	} else if (s->kallsyms) {
		shared->n_users--;
		shared->left_at = clock_ns(CLOCK_MONOTONIC);
	}
	s->kallsyms = NULL;
}
