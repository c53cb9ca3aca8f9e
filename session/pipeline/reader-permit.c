/* reader-permit.c - which processes may be shown: by the policy, or by their own consent.  Thread: main.
 *
 *   UNKNOWN ── allowed() ──► BY_POLICY   looked at again each 100 ms: a process may become another
 *      │ no                     │  ▲     user's without an exec.  What lies in the rings meanwhile
 *      ▼                        ▼  │     is judged by what it became
 *   DENIED ◄──────────────────────────── looked at again each second, for the same reason
 *      │  ▲ cannot be asked, or not in time (late is as good)
 *      ▼  │
 *   ASKED ──► BY_CONSENT   of this life: an exec begins another
 *
 * Nothing of a process that is not allowed is opened (load_request.closed).  Its samples wait only
 * while it is asked, as those of one whose mappings are on their way do. */
#include <errno.h>

#include "session/pipeline/reader-private.h"

enum { AGAIN_MS = 100, AGAIN_DENIED_MS = 1000 };

/* Its last samples are read when it has exited: what it was holds for them.  Where only its first
 * thread has, the others may still become somebody else's. */
static bool is_over(const struct process *process)
{
	struct procfs_status status;
	int r = procfs_status("", process->pid, &status);

	return r == -ENOENT || r == -ESRCH ||
	       (r >= 0 && status.zombie && status.uid == process->permit_uid);
}

static void judge(struct reader *rd, struct process *process)
{
	bool may = rd->c.allowed(rd->c.allowed_arg, process->pid);
	struct procfs_status status;

	if (process->permit == PERMIT_BY_POLICY && (may || is_over(process)))
		return;
	if (may && procfs_status("", process->pid, &status) >= 0)
		process->permit_uid = status.uid;
	if (may)
		process->permit = PERMIT_BY_POLICY;
	else if (rd->options.consent_allows && process->given_maps >= 0)
		process->permit = PERMIT_BY_CONSENT;
	else
		process->permit = PERMIT_DENIED;
}

bool reader_may_open(struct reader *rd, struct process *process)
{
	if (!rd->c.allowed)
		return true;
	if (process->permit == PERMIT_UNKNOWN)
		judge(rd, process);
	return process->permit == PERMIT_BY_POLICY;
}

enum process_scope reader_permit(struct reader *rd, struct process *process)
{
	if (reader_may_open(rd, process) || process->permit == PERMIT_BY_CONSENT)
		return PROCESS_WANTED;
	if (process->permit == PERMIT_DENIED && rd->options.consent_allows)
		reader_consent_ask(rd, process);
	return process->permit == PERMIT_ASKED ? PROCESS_UNDECIDED : PROCESS_LEFT_OUT;
}

void reader_permit_again(struct reader *rd, struct process *process, uint64_t time)
{
	uint64_t wait =
		(process->permit == PERMIT_DENIED ? AGAIN_DENIED_MS : AGAIN_MS) * NSEC_PER_MSEC;

	if (!rd->c.allowed || process->permit == PERMIT_ASKED ||
	    process->permit == PERMIT_BY_CONSENT)
		return;
	if (process->permit != PERMIT_UNKNOWN && process->permit_at &&
	    (time <= process->permit_at || time - process->permit_at <= wait))
		return;
	/* Judged a little before, by the scan: good enough for the first sample. */
	if (process->permit == PERMIT_UNKNOWN || process->permit_at)
		judge(rd, process);
	process->permit_at = time;
}
