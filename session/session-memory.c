/* session-memory.c - the bound on our own memory, and who ends when it is passed.  Thread: main.
 *
 * The kernel counts memory by process, and sessions of several users may share ours: whoever looked
 * first would end, whosever memory it is.  So the one ends that holds most, of the user whose
 * sessions together hold most; the others wait until that is gone.  What a session holds is told by
 * what can grow: its modules, and what its owner keeps for it.  A limit of its own (a config's
 * max_daemon_memory_kb) is of the process, and ends whoever has it. */
#include <errno.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <time.h>

#include "base/error.h"
#include "session/session-private.h"

enum { FIXED_BYTES = 4 << 20 }; /* queues, tables, the rule cache: about the same for each */

static bool status_kb(const char *text, const char *key, uint64_t *ret_kb)
{
	const char *at = strstr(text, key);
	char *end;

	if (!at)
		return false;
	*ret_kb = strtoull(at + strlen(key), &end, 10);
	return end > at + strlen(key);
}

uint64_t session_status_memory_kb(const char *text)
{
	uint64_t resident, swapped;

	return status_kb(text, "\nRssAnon:", &resident) && status_kb(text, "\nVmSwap:", &swapped)
		       ? resident + swapped
		       : 0;
}

/* Own anonymous memory, kB, in swap too; 0 when it cannot be read. */
static uint64_t own_memory_kb(void)
{
	_cleanup_(freep) char *text = NULL;

	if (read_file("/proc/self/status", 65536, &text, NULL) < 0)
		return 0;
	return session_status_memory_kb(text);
}

/* ---- of several ---- */

void session_share(struct session *s)
{
	struct session_shared *shared = s->options.shared;

	if (!shared)
		return;
	s->next_shared = shared->sessions;
	shared->sessions = s;
}

void session_unshare(struct session *s)
{
	struct session_shared *shared = s->options.shared;

	if (!shared)
		return;
	for (struct session **at = &shared->sessions; *at; at = &(*at)->next_shared) {
		if (*at != s)
			continue;
		*at = s->next_shared;
		break;
	}
}

void session_give_back(void)
{
#ifdef __GLIBC__
	/* What a session leaves is many small holes: they would stay ours, and count for others. */
	(void)malloc_trim(0);
#endif
}

static uint64_t held_by(const struct session *s)
{
	const struct session_options *so = &s->options;

	return FIXED_BYTES + uw_modules_bytes(s->modules) +
	       (so->holds ? so->holds(so->holds_arg) : 0);
}

static uint64_t held_by_user(const struct session_shared *shared, uint32_t owner)
{
	uint64_t sum = 0;

	for (const struct session *s = shared->sessions; s; s = s->next_shared)
		sum += s->options.owner == owner ? held_by(s) : 0;
	return sum;
}

bool session_holds_most(const struct session *s)
{
	const struct session_shared *shared = s->options.shared;
	uint64_t most_of_user = 0, most = 0;
	const struct session *first = s;

	for (const struct session *o = shared ? shared->sessions : NULL; o; o = o->next_shared) {
		uint64_t user = held_by_user(shared, o->options.owner), own = held_by(o);

		if (user < most_of_user || (user == most_of_user && own <= most))
			continue;
		most_of_user = user;
		most = own;
		first = o;
	}
	return first == s;
}

int session_keep_memory_small(struct session *s)
{
	uint64_t kb = own_memory_kb(), own = s->options.memory_kb;
	uint64_t limit = own ? own : SESSION_MEMORY_KB;
	int r;

	s->loaded = 0;
	if (kb <= limit || s->state != SESSION_RUNNING || (!own && !session_holds_most(s)))
		return 0;
	session_note(s, "own memory reached %lu KiB, the limit is %lu KiB: the recording ends here",
		     kb, limit);
	if (!own && !s->error) { /* a limit that nobody has set: the recording lacks its end */
		s->error = fail(-ENOMEM);
		(void)snprintf(s->why, sizeof(s->why),
			       "perfwind's memory reached its limit of %lu KiB", limit);
	}
	r = writer_guardrail(s->writer, clock_ns(CLOCK_BOOTTIME));
	session_stop(s);
	return r < 0 ? trace(r) : 0;
}
