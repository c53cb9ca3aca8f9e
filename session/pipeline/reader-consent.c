/* reader-consent.c - processes that may not be read, and are asked.  Thread: main.
 *
 *   loader: EACCES ─► looked at ─┬─ asked ──► given: the loader reads what it gave
 *                                │      └──► not in time: what waits is answered; late is as good
 *                                ├─ hook not loaded (yet): a program may just be starting, so it is
 *                                │      looked at again, a few times, further and further apart
 *                                ├─ no descriptor left for it: told, and tried until there is one
 *                                └─ cannot be asked: told to the user, each reason once
 *
 * A life (an exec begins another) gets one signal.  Only if what it gave turns out to be of an
 * address space that is gone, while the life goes on, is it asked anew. */
#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "session/pipeline/reader-private.h"

enum { ASKED_MAX = 4096, LOOKS = 4, FIRST_LOOK_MS = 30, SHORT_MS = 500, LATE_MS = 10000 };

struct reader_asked {
	struct consent_request request;
	struct reader *rd;
	struct process *process; /* a reference */
	bool in_flight;		 /* the request is consent's */
	bool timed_out;
	bool denied_maps; /* else only the memory */
	uint32_t looks;
	uint64_t due; /* CLOCK_MONOTONIC: given up, or looked at again */
	struct reader_asked *next, **at;
};

/* Is it asked since it may not be shown otherwise? */
static bool must_consent(const struct reader *rd, const struct process *process)
{
	return rd->c.allowed && process->permit != PERMIT_BY_POLICY;
}

/* Who may not be shown is not named either. */
static const char *name_of(const struct reader *rd, struct process *process)
{
	struct process_thread *thread = process_thread_get(process, process->pid);

	if (must_consent(rd, process))
		return "of somebody else";
	return thread && thread->comm[0] ? thread->comm : "?";
}

/* Nobody is told to be what they are. */
static const char *mend_of(enum consent_refusal refusal)
{
	if (refusal == CONSENT_NOT_CAUGHT)
		return geteuid() ? "; hint: start it with `perfwind run`, or be root"
				 : "; hint: start it with `perfwind run`";
	return geteuid() ? "; hint: be root" : "";
}

static void permit_line(const struct reader *rd, const struct process *process,
			enum consent_refusal refusal, char *line, size_t size)
{
	static const char who[] = "belongs to nobody whom the daemon's settings show "
				  "(traced-users, traced-groups)";

	if (refusal == CONSENT_ASKED)
		(void)snprintf(line, size,
			       "process %u %s: it, and others like it, are asked for their "
			       "consent; answers come to the hook socket %s",
			       process->pid, who, consent_socket(rd->c.consent));
	else
		(void)snprintf(line, size,
			       "process %u %s, and cannot be asked for its consent: %s%s; it, and "
			       "others like it, are not shown",
			       process->pid, who, consent_refusal_text(refusal),
			       refusal == CONSENT_NOT_CAUGHT
				       ? " (hint: these settings, or start it with `perfwind run`)"
				       : "");
}

static void tell(struct reader *rd, struct process *process, enum consent_refusal refusal)
{
	char line[512];

	if (!rd->c.note || refusal == CONSENT_GONE || refusal == CONSENT_KERNEL_THREAD ||
	    (rd->consent_told & 1u << refusal))
		return;
	rd->consent_told |= 1u << refusal;
	if (must_consent(rd, process))
		permit_line(rd, process, refusal, line, sizeof(line));
	else if (refusal == CONSENT_ASKED)
		(void)snprintf(
			line, sizeof(line),
			"process %u (%s) may not be read by this user: it, and others like "
			"it, are asked for their consent; answers come to the hook socket %s",
			process->pid, name_of(rd, process), consent_socket(rd->c.consent));
	else
		(void)snprintf(
			line, sizeof(line),
			"process %u (%s) may not be read by this user, nor asked: %s%s%s; its "
			"stacks may lack frames%s",
			process->pid, name_of(rd, process), consent_refusal_text(refusal),
			refusal == CONSENT_NO_SOCKET ? ": " : "",
			refusal == CONSENT_NO_SOCKET ? consent_why(rd->c.consent) : "",
			mend_of(refusal));
	rd->c.note(rd->c.arg, line);
}

static void tell_timeout(struct reader *rd, struct process *process)
{
	char line[512];
	const uint32_t bit = 1u << CONSENT_REFUSALS;

	if (!rd->c.note || (rd->consent_told & bit))
		return;
	rd->consent_told |= bit;
	(void)snprintf(
		line, sizeof(line),
		"process %u (%s) did not answer within %lu ms; hint: its hook must reach the "
		"socket %s (perfwind run --hook-socket, PERFWIND_HOOK_SOCKET)",
		process->pid, name_of(rd, process),
		(unsigned long)(rd->options.maps_wait_ns / NSEC_PER_MSEC),
		consent_socket(rd->c.consent));
	rd->c.note(rd->c.arg, line);
}

static void asked_free(struct reader_asked *asked)
{
	if (asked->in_flight)
		consent_forget(asked->rd->c.consent, &asked->request);
	*asked->at = asked->next;
	if (asked->next)
		asked->next->at = asked->at;
	asked->rd->n_asked--;
	(void)process_unref(asked->process);
	free(asked);
}

/* The mappings are read by the loader, also where records have told them: it may be of an address
 * space that is gone. */
static int use_given(struct reader *rd, struct process *process)
{
	if (process->maps_state != PROCESS_MAPS_ASKED)
		reader_ask_maps(rd, process);
	else if (!reader_ask(rd, LOAD_PROCESS, process, 0)) /* put off until now */
		return reader_no_space(rd, process);
	return 0;
}

/* The mappings could be read: so can the memory. */
static void adopt_memory(struct reader *rd, struct process *process)
{
	struct uw_memory *memory = NULL;
	int copy = process->memory ? -1 : fcntl(process->given_mem, F_DUPFD_CLOEXEC, 0);

	if (copy >= 0 && procfs_memory_of_fd(copy, rd->c.memory_guard, &memory) >= 0)
		process_set_memory(process, memory);
}

/* Requests of lives that are over: an answer to one is not about the life that has the pid now. */
static void forget_ended(struct reader *rd, uint32_t pid)
{
	struct reader_asked *next;

	for (struct reader_asked *asked = rd->asked; asked; asked = next) {
		next = asked->next;
		if (asked->request.pid == pid && asked->process->exited)
			asked_free(asked);
	}
}

/* It will not come, or not in time. */
static int give_up(struct reader *rd, struct process *process)
{
	bool asked = process->permit == PERMIT_ASKED, changed;
	int r;

	if (asked)
		process->permit = PERMIT_DENIED;
	if (asked && process->maps_state != PROCESS_MAPS_ASKED)
		return reader_no_space(rd, process);
	if (process->maps_state != PROCESS_MAPS_ASKED)
		return 0;
	r = process_maps_answer(rd->c.processes, process, NULL, 0, -ETIMEDOUT,
				clock_ns(CLOCK_MONOTONIC), &changed);
	if (r < 0)
		return trace(r);
	return changed ? reader_space_push(rd, process) : reader_no_space(rd, process);
}

static void given(struct consent_request *request, const int *fds)
{
	struct reader_asked *asked = container_of(request, struct reader_asked, request);
	struct process *process = process_ref(asked->process);
	struct reader *rd = asked->rd;
	bool timed_out = asked->timed_out;
	int r = 0;

	asked->in_flight = false;
	asked_free(asked);
	if (fds && fds[HOOK_MAPS] >= 0 && fds[HOOK_MEM] >= 0 && !process->exited) {
		process_set_given(process, fds[HOOK_MAPS], fds[HOOK_MEM]);
		if (must_consent(rd, process))
			process->permit = PERMIT_BY_CONSENT;
		rd->consent_counts.given++;
		rd->consent_counts.late += timed_out;
		rd->consent_counts.unanswered -= timed_out;
		r = use_given(rd, process);
	} else {
		for (size_t i = 0; fds && i < HOOK_DESCRIPTORS; i++)
			(void)fd_close(fds[i]);
		if (!fds)
			tell(rd, process, CONSENT_STUCK);
		if (!timed_out)
			r = give_up(rd, process);
	}
	if (r < 0)
		log_verbose("process %u: what it gave was of no use", process->pid);
	(void)process_unref(process);
}

static int asked_new(struct reader *rd, struct process *process, struct reader_asked **ret_asked)
{
	struct reader_asked *asked;

	if (rd->n_asked == ASKED_MAX)
		return -E2BIG;
	asked = calloc(1, sizeof(*asked));
	if (!asked)
		return fail(-ENOMEM);
	asked->request.pid = process->pid;
	asked->request.given = given;
	asked->rd = rd;
	asked->process = process_ref(process);
	asked->next = rd->asked;
	asked->at = &rd->asked;
	if (asked->next)
		asked->next->at = &asked->next;
	rd->asked = asked;
	rd->n_asked++;
	*ret_asked = asked;
	return 0;
}

/* true: an answer is on its way, or the process is to be looked at again. */
static bool ask(struct reader_asked *asked)
{
	struct reader *rd = asked->rd;
	enum consent_refusal refusal = consent_ask(rd->c.consent, &asked->request);
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	asked->in_flight = refusal == CONSENT_ASKED;
	if (asked->in_flight) {
		if (must_consent(rd, asked->process))
			asked->process->permit = PERMIT_ASKED;
		asked->due = now + rd->options.maps_wait_ns;
		rd->consent_counts.asked++;
		log_verbose("process %u (%s): asked for its consent", asked->process->pid,
			    name_of(rd, asked->process));
		tell(rd, asked->process, refusal);
		return true;
	}
	if (refusal == CONSENT_NO_MEANS) { /* not its fault, and told at once */
		tell(rd, asked->process, refusal);
		asked->due = now + SHORT_MS * NSEC_PER_MSEC;
		return true;
	}
	if ((refusal == CONSENT_NOT_CAUGHT || refusal == CONSENT_TOO_MANY ||
	     refusal == CONSENT_BLOCKED) &&
	    ++asked->looks < LOOKS) {
		asked->due = now + (FIRST_LOOK_MS * NSEC_PER_MSEC << asked->looks);
		return true;
	}
	/* One whose mappings are known all the same lacks little. */
	if (asked->denied_maps)
		tell(rd, asked->process, refusal);
	return false;
}

/* true: an answer is on its way. */
static bool begin(struct reader *rd, struct process *process, bool denied_maps)
{
	struct reader_asked *asked = NULL;

	forget_ended(rd, process->pid);
	if (process->consent_asked || asked_new(rd, process, &asked) < 0)
		return false;
	process->consent_asked = true;
	asked->denied_maps = denied_maps;
	if (!ask(asked)) {
		asked_free(asked);
		return false;
	}
	return asked->in_flight;
}

void reader_consent_ask(struct reader *rd, struct process *process)
{
	if (rd->c.consent && !process->exited && !process->consent_asked)
		(void)begin(rd, process, true);
}

/* May the process not be read (the answer is one to LOAD_PROCESS or LOAD_NAMES)? */
static bool denied(const struct load_answer *a, const struct process *process)
{
	/* CAP_PERFMON opens the maps of all processes since Linux 6.15, and the memory of none. */
	return a->error == -EACCES || a->error == -EPERM || (a->memory_denied && !process->memory);
}

bool reader_consent(struct reader *rd, struct process *process, const struct load_answer *a)
{
	/* Of before an exec that we did not see. */
	bool stale = a->request.given && a->error == -ESRCH;

	if (!rd->c.consent || process->exited || reader_scope_of(rd, process) == PROCESS_LEFT_OUT)
		return false;
	if (!stale && (!rd->options.user_frames || rd->options.by_callchain))
		return false;
	if (a->request.given && !a->error && a->request.kind == LOAD_PROCESS && !process->replaced)
		adopt_memory(rd, process);
	if (stale) {
		process_set_given(process, -1, -1);
		process->consent_asked = false;
		if (process->permit == PERMIT_BY_CONSENT)
			process->permit = PERMIT_DENIED;
	} else if (a->request.given || !denied(a, process)) {
		return false;
	}
	return begin(rd, process, a->error) && a->request.kind == LOAD_PROCESS && a->error;
}

int reader_consent_tick(struct reader *rd)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	struct reader_asked *next;
	int r = 0;

	for (struct reader_asked *asked = rd->asked; asked && r >= 0; asked = next) {
		struct process *process = asked->process;

		next = asked->next;
		if (process->exited) {
			r = give_up(rd, process);
			asked_free(asked);
		} else if (now < asked->due) {
			continue;
		} else if (asked->timed_out) {
			asked_free(asked);
		} else if (asked->in_flight) {
			asked->timed_out = true;
			asked->due = now + LATE_MS * NSEC_PER_MSEC;
			rd->consent_counts.unanswered++;
			tell_timeout(rd, process);
			r = give_up(rd, process);
		} else if (!ask(asked)) {
			asked_free(asked);
		}
	}
	return r < 0 ? trace(r) : 0;
}

void reader_consent_counts(const struct reader *rd, struct reader_consent_counts *ret_counts)
{
	*ret_counts = rd->consent_counts;
}

void reader_consent_deinit(struct reader *rd)
{
	while (rd->asked)
		asked_free(rd->asked);
}
