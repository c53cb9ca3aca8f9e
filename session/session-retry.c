/* session-retry.c - modules that could not be read.  Thread: main.
 *
 * A file is opened through the process whose sample met it first.  That one may be gone already, or
 * live where the path leads elsewhere, while others that map the same file can be asked.  So
 * "unreadable" is not for ever: after a second (then two, four ...) the module is as new, and the
 * next sample in it asks through its own process. */
#include <errno.h>
#include <time.h>

#include "base/error.h"
#include "session/session-private.h"

enum { MAX_RETRIED = 4096 };

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
		if (s->n_retries == s->retries_room) {
			size_t room = s->retries_room ? s->retries_room * 2 : 16;
			struct session_retry *more = reallocarray(s->retries, room, sizeof(*more));

			if (!more)
				return fail(-ENOMEM);
			s->retries = more;
			s->retries_room = room;
		}
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
		/* Dropping forgets that it was tried; the unwinder does its half itself. */
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
