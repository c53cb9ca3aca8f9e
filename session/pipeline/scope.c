/* scope.c - which processes and samples are recorded, and consent (scope.h).
 *
 * The filter.  Where it needs the command line, the loader reads that (a target can delay it), and
 * the samples of the process wait in the unwinder's park like those without mappings:
 *
 *   UNDECIDED ── wanted() ──► WANTED | LEFT_OUT      sent to the unwinder by ENTRY_SPACE
 *
 * The permission, for processes that the filter wants:
 *
 *   UNKNOWN ── allowed() ──► BY_POLICY   checked again each 100 ms: a process may become another
 *      │ no                     │  ▲     user's without an exec.  Samples in the rings at that time
 *      ▼                        ▼  │     are judged by the new user
 *   DENIED ◄──────────────────────────── checked again each second, for the same reason
 *      │  ▲ cannot be asked, or no answer in time (a late one is accepted)
 *      ▼  │
 *   ASKED ──► BY_CONSENT   until the process execs
 *
 * Nothing of a process that is not allowed is opened (load_request.closed).  Its samples wait only
 * while it is asked, like samples of a process while its mappings are read.
 *
 * Consent, where a process may not be read:
 *
 *   loader: EACCES ─► consent_ask() ─┬─ asked ──► given: the loader reads from these descriptors
 *                                    │      └──► not in time: waiting samples are answered
 *                                    ├─ hook not loaded (yet): the program may just be starting, so
 *                                    │      it is asked again a few times, at growing intervals
 *                                    ├─ no descriptor left: reported, and tried until there is one
 *                                    └─ cannot be asked: reported to the user, each reason once
 *
 * A process gets one signal per exec generation.  It is asked again only if the descriptors turn
 * out to belong to an address space that is gone, without an exec having been seen. */
#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "proc/procmem.h"
#include "session/pipeline/cpu-counts.h"
#include "session/pipeline/scope.h"

enum {
	AGAIN_MS = 100,
	AGAIN_DENIED_MS = 1000,
	ASKED_MAX = 4096,
	LOOKS = 4,
	FIRST_LOOK_MS = 30,
	SHORT_MS = 500,
	LATE_MS = 10000,
	DEFER_MS = 300,
};

/* A process that is asked for its consent. */
struct scope_request {
	struct consent_request request;
	struct scope *scope;
	struct process *process; /* a reference */
	bool in_flight;		 /* the request is with session/consent */
	bool timed_out;
	bool denied_maps; /* false: only the memory was denied */
	uint32_t looks;
	uint64_t due; /* CLOCK_MONOTONIC: of the timeout, or of the next attempt */
	struct uw_module
		*module;     /* wanted meanwhile: needs the memory of the process; a reference */
	uint64_t module_due; /* until then it waits for the answer; its samples wait longer */
	struct scope_request *next, **at;
};

/* ---- notes to the user ---- */

/* Is consent needed because the policy does not allow the process? */
static bool must_consent(const struct scope *sc, const struct process *process)
{
	return sc->c.allowed && process->permit != PERMIT_BY_POLICY;
}

/* A process that may not be shown is not named either. */
static const char *name_of(const struct scope *sc, struct process *process)
{
	struct process_thread *thread = process_thread_get(process, process->pid);

	if (must_consent(sc, process))
		return "of another user";
	return thread && thread->comm[0] ? thread->comm : "?";
}

/* Root gets no hint to run as root: what is refused to it is protected from it (others in cli/cmd-doctor.c). */
static const char *hint_of(enum consent_refusal refusal)
{
	if (refusal == CONSENT_NOT_CAUGHT)
		return geteuid() ? "; hint: start it with `perfwind run`, or run perfwind as root"
				 : "; hint: start it with `perfwind run`";
	return geteuid() ? "; hint: run perfwind as root"
			 : " (a security module or a sandbox protects it; hint: perfwind doctor)";
}

static void permit_line(const struct scope *sc, const struct process *process,
			enum consent_refusal refusal, char *line, size_t size)
{
	static const char why[] = "is not shown by the daemon's settings (traced-users, "
				  "traced-groups)";

	if (refusal == CONSENT_ASKED)
		(void)snprintf(line, size,
			       "process %u %s: it and similar processes are asked for their "
			       "consent; answers arrive at the hook socket %s",
			       process->pid, why, consent_socket(sc->c.consent));
	else
		(void)snprintf(
			line, size,
			"process %u %s, and cannot be asked for its consent: %s%s; it and "
			"similar processes are not shown",
			process->pid, why, consent_refusal_text(refusal),
			refusal == CONSENT_NOT_CAUGHT
				? " (hint: change these settings, or start it with `perfwind run`)"
				: "");
}

static void note_request(struct scope *sc, struct process *process, enum consent_refusal refusal)
{
	char line[512];

	if (!sc->c.note || refusal == CONSENT_GONE || refusal == CONSENT_KERNEL_THREAD ||
	    (sc->noted & 1u << refusal))
		return;
	sc->noted |= 1u << refusal;
	if (must_consent(sc, process))
		permit_line(sc, process, refusal, line, sizeof(line));
	else if (refusal == CONSENT_ASKED)
		(void)snprintf(
			line, sizeof(line),
			"no permission to read process %u (%s): it and similar processes are "
			"asked for their consent; answers arrive at the hook socket %s",
			process->pid, name_of(sc, process), consent_socket(sc->c.consent));
	else
		(void)snprintf(
			line, sizeof(line),
			"no permission to read process %u (%s), and it cannot be asked: %s%s%s; "
			"its stacks may lack frames%s",
			process->pid, name_of(sc, process), consent_refusal_text(refusal),
			refusal == CONSENT_NO_SOCKET ? ": " : "",
			refusal == CONSENT_NO_SOCKET ? consent_why(sc->c.consent) : "",
			hint_of(refusal));
	sc->c.note(sc->c.arg, line);
}

static void note_timeout(struct scope *sc, struct process *process)
{
	char line[512];
	const uint32_t bit = 1u << CONSENT_REFUSALS;

	if (!sc->c.note || (sc->noted & bit))
		return;
	sc->noted |= bit;
	(void)snprintf(
		line, sizeof(line),
		"process %u (%s) did not answer within %lu ms; hint: its hook must reach the "
		"socket %s (perfwind run --hook-socket, PERFWIND_HOOK_SOCKET)",
		process->pid, name_of(sc, process),
		(unsigned long)(sc->options.maps_wait_ns / NSEC_PER_MSEC),
		consent_socket(sc->c.consent));
	sc->c.note(sc->c.arg, line);
}

/* ---- requests for consent ---- */

static void request_free(struct scope_request *asked)
{
	if (asked->in_flight)
		consent_forget(asked->scope->c.consent, &asked->request);
	*asked->at = asked->next;
	if (asked->next)
		asked->next->at = asked->at;
	asked->scope->n_asked--;
	(void)uw_module_unref(asked->module);
	(void)process_unref(asked->process);
	free(asked);
}

static void load_module(struct scope *sc, struct process *process, struct uw_module *module)
{
	struct load_request request = loader_module_request(process, module);

	(void)uw_module_ref(module);
	if (!loader_ask(sc->c.loader, &request)) {
		load_request_deinit(&request);
		(void)uw_module_unref(module); /* the samples that wait for it time out */
	}
}

/* Borrows nothing of the request, which may be gone; consumes @module. */
static void load_deferred(struct scope *sc, struct process *process, struct uw_module *module)
{
	if (module)
		load_module(sc, process, module);
	(void)uw_module_unref(module);
}

/* The request is over without an answer. */
static void request_end(struct scope_request *asked)
{
	struct process *process = process_ref(asked->process);
	struct uw_module *module = take(asked->module);
	struct scope *sc = asked->scope;

	request_free(asked);
	load_deferred(sc, process, module);
	(void)process_unref(process);
}

/* The mappings could be read through the descriptors: so can the memory. */
static void adopt_memory(struct scope *sc, struct process *process)
{
	struct uw_memory *memory = NULL;
	int copy = process->memory ? -1 : fcntl(process->given_mem, F_DUPFD_CLOEXEC, 0);

	if (copy >= 0 && procfs_memory_of_fd(copy, sc->c.memory_guard, &memory) >= 0)
		process_set_memory(process, memory);
}

/* Requests of earlier processes with this pid: their answers do not concern the present one. */
static void forget_ended(struct scope *sc, uint32_t pid)
{
	struct scope_request *next;

	for (struct scope_request *asked = sc->asked; asked; asked = next) {
		next = asked->next;
		if (asked->request.pid == pid && asked->process->exited)
			request_end(asked);
	}
}

/* The answer will not come, or not in time. */
static int give_up(struct scope *sc, struct process *process)
{
	bool asked = process->permit == PERMIT_ASKED, changed;
	int r;

	if (asked)
		process->permit = PERMIT_DENIED;
	if (asked && process->maps_state != PROCESS_MAPS_ASKED)
		return sc->send_space(sc->reader, process, false);
	if (process->maps_state != PROCESS_MAPS_ASKED)
		return 0;
	r = process_maps_answer(sc->c.processes, process, NULL, 0, -ETIMEDOUT,
				clock_ns(CLOCK_MONOTONIC), &changed);
	if (r < 0)
		return trace(r);
	return sc->send_space(sc->reader, process, changed);
}

static void given(struct consent_request *request, const int *fds)
{
	struct scope_request *asked = container_of(request, struct scope_request, request);
	struct process *process = process_ref(asked->process);
	struct scope *sc = asked->scope;
	struct uw_module *module = take(asked->module);
	bool timed_out = asked->timed_out;
	int r = 0;

	asked->in_flight = false;
	request_free(asked);
	if (fds && fds[HOOK_MAPS] >= 0 && fds[HOOK_MEM] >= 0 && !process->exited) {
		process_set_given(process, fds[HOOK_MAPS], fds[HOOK_MEM]);
		if (must_consent(sc, process))
			process->permit = PERMIT_BY_CONSENT;
		sc->counts.given++;
		sc->counts.late += timed_out;
		sc->counts.unanswered -= timed_out;
		r = sc->read_given(sc->reader, process);
	} else {
		for (size_t i = 0; fds && i < HOOK_DESCRIPTORS; i++)
			(void)fd_close(fds[i]);
		if (!fds)
			note_request(sc, process, CONSENT_STUCK);
		if (!timed_out)
			r = give_up(sc, process);
	}
	if (r < 0)
		log_verbose("process %u: its descriptors could not be used", process->pid);
	load_deferred(sc, process, module);
	(void)process_unref(process);
}

static int request_new(struct scope *sc, struct process *process, struct scope_request **ret_asked)
{
	struct scope_request *asked;

	if (sc->n_asked == ASKED_MAX)
		return -E2BIG;
	asked = calloc(1, sizeof(*asked));
	if (!asked)
		return fail(-ENOMEM);
	asked->request.pid = process->pid;
	asked->request.given = given;
	asked->scope = sc;
	asked->process = process_ref(process);
	asked->next = sc->asked;
	asked->at = &sc->asked;
	if (asked->next)
		asked->next->at = &asked->next;
	sc->asked = asked;
	sc->n_asked++;
	*ret_asked = asked;
	return 0;
}

/* true: a request is in flight, or there will be another attempt. */
static bool ask(struct scope_request *asked)
{
	struct scope *sc = asked->scope;
	enum consent_refusal refusal = consent_ask(sc->c.consent, &asked->request);
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	asked->in_flight = refusal == CONSENT_ASKED;
	if (asked->in_flight) {
		if (must_consent(sc, asked->process))
			asked->process->permit = PERMIT_ASKED;
		asked->due = now + sc->options.maps_wait_ns;
		sc->counts.asked++;
		log_verbose("process %u (%s): asked for its consent", asked->process->pid,
			    name_of(sc, asked->process));
		note_request(sc, asked->process, refusal);
		return true;
	}
	if (refusal == CONSENT_NO_MEANS) { /* our own limit: reported at once */
		note_request(sc, asked->process, refusal);
		asked->due = now + SHORT_MS * NSEC_PER_MSEC;
		return true;
	}
	if ((refusal == CONSENT_NOT_CAUGHT || refusal == CONSENT_TOO_MANY ||
	     refusal == CONSENT_BLOCKED) &&
	    ++asked->looks < LOOKS) {
		asked->due = now + (FIRST_LOOK_MS * NSEC_PER_MSEC << asked->looks);
		return true;
	}
	/* A process with known mappings lacks little, so that is not reported. */
	if (asked->denied_maps)
		note_request(sc, asked->process, refusal);
	return false;
}

/* true: a request is in flight. */
static bool begin(struct scope *sc, struct process *process, bool denied_maps)
{
	struct scope_request *asked = NULL;

	forget_ended(sc, process->pid);
	if (process->consent_asked || request_new(sc, process, &asked) < 0)
		return false;
	process->consent_asked = true;
	asked->denied_maps = denied_maps;
	if (!ask(asked)) {
		request_free(asked);
		return false;
	}
	return asked->in_flight;
}

static struct scope_request *request_of(const struct scope *sc, const struct process *process)
{
	struct scope_request *asked = sc->asked;

	while (asked && (asked->process != process || asked->timed_out || asked->module))
		asked = asked->next;
	return asked;
}

/* Will it be answered?  Now is a time to ask: the process runs the interpreter, so its hook, if it has one, is there.  The later
 * attempts stay what they were.  False: the request may be gone. */
static bool ask_now(struct scope_request *asked)
{
	uint32_t looks = asked->looks;
	uint64_t due = asked->due;

	if (asked->in_flight || looks + 1 == LOOKS)
		return asked->in_flight;
	if (!ask(asked)) {
		request_free(asked);
		return false;
	}
	if (!asked->in_flight) {
		asked->looks = looks;
		asked->due = due;
	}
	return asked->in_flight;
}

void scope_want_module(struct scope *sc, struct process *process, struct uw_module *module)
{
	bool reads_memory =
		uw_module_kind(module) == UW_MODULE_JIT && process_vm_of_module(process, module);
	struct scope_request *asked = NULL;

	if (reads_memory && process->given_mem < 0 && !process->exited)
		asked = request_of(sc, process);
	if (!asked || !ask_now(asked)) {
		load_module(sc, process, module);
		return;
	}
	asked->module = uw_module_ref(module);
	asked->module_due = clock_ns(CLOCK_MONOTONIC) + DEFER_MS * NSEC_PER_MSEC;
}

int scope_tick(struct scope *sc)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	struct scope_request *next;
	int r = 0;

	for (struct scope_request *asked = sc->asked; asked && r >= 0; asked = next) {
		struct process *process = asked->process;

		next = asked->next;
		if (asked->module && now >= asked->module_due)
			load_deferred(sc, process, take(asked->module));
		if (process->exited) {
			r = give_up(sc, process);
			request_end(asked);
		} else if (now < asked->due) {
			continue;
		} else if (asked->timed_out) {
			request_free(asked);
		} else if (asked->in_flight) {
			asked->timed_out = true;
			asked->due = now + LATE_MS * NSEC_PER_MSEC;
			sc->counts.unanswered++;
			note_timeout(sc, process);
			r = give_up(sc, process);
			load_deferred(sc, process, take(asked->module));
		} else if (!ask(asked)) {
			request_free(asked);
		}
	}
	return r < 0 ? trace(r) : 0;
}

void scope_deinit(struct scope *sc)
{
	while (sc->asked)
		request_free(sc->asked);
}

/* ---- filter and permission ---- */

static bool has_filter(const struct scope *sc)
{
	return sc->c.wanted != NULL;
}

static void decide(struct scope *sc, struct process *process)
{
	/* A kernel thread has none, and that of a zombie is gone. */
	const char *cmdline = process->cmdline_len ? process->cmdline : NULL;
	bool wanted = sc->c.wanted(sc->c.wanted_arg, process->pid, cmdline, process->cmdline_len);

	process->scope = wanted ? PROCESS_WANTED : PROCESS_LEFT_OUT;
}

static enum process_scope filtered(struct scope *sc, struct process *process)
{
	if (!has_filter(sc))
		return PROCESS_WANTED;
	if (process->scope == PROCESS_UNDECIDED && !sc->options.wanted_by_cmdline)
		decide(sc, process);
	return process->scope;
}

/* Has the process exited?  Its last samples are read after that, and its permission holds for
 * them.  If only its first thread has exited, other threads may still change the user. */
static bool is_over(const struct process *process)
{
	struct procfs_status status;
	int r = procfs_status("", process->pid, &status);

	return r == -ENOENT || r == -ESRCH ||
	       (r >= 0 && status.zombie && status.uid == process->permit_uid);
}

static void judge(struct scope *sc, struct process *process)
{
	bool may = sc->c.allowed(sc->c.allowed_arg, process->pid);
	struct procfs_status status;

	if (process->permit == PERMIT_BY_POLICY && (may || is_over(process)))
		return;
	if (may && procfs_status("", process->pid, &status) >= 0)
		process->permit_uid = status.uid;
	if (may)
		process->permit = PERMIT_BY_POLICY;
	else if (sc->options.consent_allows && process->given_maps >= 0)
		process->permit = PERMIT_BY_CONSENT;
	else
		process->permit = PERMIT_DENIED;
}

bool scope_may_open(struct scope *sc, struct process *process)
{
	if (!sc->c.allowed)
		return true;
	if (process->permit == PERMIT_UNKNOWN)
		judge(sc, process);
	return process->permit == PERMIT_BY_POLICY;
}

static enum process_scope permission(struct scope *sc, struct process *process)
{
	if (scope_may_open(sc, process) || process->permit == PERMIT_BY_CONSENT)
		return PROCESS_WANTED;
	if (process->permit == PERMIT_DENIED && sc->options.consent_allows && sc->c.consent &&
	    !process->exited && !process->consent_asked)
		(void)begin(sc, process, true);
	return process->permit == PERMIT_ASKED ? PROCESS_UNDECIDED : PROCESS_LEFT_OUT;
}

static void check_again(struct scope *sc, struct process *process, uint64_t time)
{
	uint64_t wait =
		(process->permit == PERMIT_DENIED ? AGAIN_DENIED_MS : AGAIN_MS) * NSEC_PER_MSEC;

	if (!sc->c.allowed || process->permit == PERMIT_ASKED ||
	    process->permit == PERMIT_BY_CONSENT)
		return;
	if (process->permit != PERMIT_UNKNOWN && process->permit_at &&
	    (time <= process->permit_at || time - process->permit_at <= wait))
		return;
	/* Checked shortly before by the scan: recent enough for the first sample. */
	if (process->permit == PERMIT_UNKNOWN || process->permit_at)
		judge(sc, process);
	process->permit_at = time;
}

enum process_scope scope_of(struct scope *sc, struct process *process)
{
	enum process_scope scope = filtered(sc, process);

	return scope == PROCESS_WANTED ? permission(sc, process) : scope;
}

enum skip_reason scope_skips_process(struct scope *sc, struct process *process)
{
	if (scope_of(sc, process) != PROCESS_LEFT_OUT)
		return SKIP_NONE;
	return filtered(sc, process) == PROCESS_LEFT_OUT ? SKIP_NOT_IN_SCOPE : SKIP_NOT_ALLOWED;
}

void scope_process_read(struct scope *sc, struct process *process)
{
	if (has_filter(sc) && process->scope == PROCESS_UNDECIDED)
		decide(sc, process);
}

/* May the process not be read?  @a answers LOAD_PROCESS or LOAD_NAMES. */
static bool denied(const struct load_answer *a, const struct process *process)
{
	/* Since Linux 6.15 CAP_PERFMON permits to open the maps of all processes, but no memory. */
	return a->error == -EACCES || a->error == -EPERM || (a->memory_denied && !process->memory);
}

bool scope_ask_consent(struct scope *sc, struct process *process, const struct load_answer *a)
{
	/* The descriptors are from before an exec that was not seen. */
	bool stale = a->request.given && a->error == -ESRCH;

	if (!sc->c.consent || process->exited || scope_of(sc, process) == PROCESS_LEFT_OUT)
		return false;
	if (!stale && (!(sc->options.frames & FRAMES_USER) || sc->options.by_callchain))
		return false;
	if (a->request.given && !a->error && a->request.kind == LOAD_PROCESS && !process->replaced)
		adopt_memory(sc, process);
	if (stale) {
		process_set_given(process, -1, -1);
		process->consent_asked = false;
		if (process->permit == PERMIT_BY_CONSENT)
			process->permit = PERMIT_DENIED;
	} else if (a->request.given || !denied(a, process)) {
		return false;
	}
	return begin(sc, process, a->error) && a->request.kind == LOAD_PROCESS && a->error;
}

/* ---- samples ---- */

/* The user part of the kernel's callchain stands behind its mark. */
static bool callchain_has_user(const struct record_sample *s)
{
	for (uint64_t i = 0; i < s->n_chain; i++) {
		if (s->chain[i] == CHAIN_USER)
			return true;
	}
	return false;
}

/* A kernel thread or an exiting task, and only user frames are wanted. */
static bool nothing_to_show(const struct scope *sc, const struct record_sample *s)
{
	if (sc->options.frames != FRAMES_USER)
		return false;
	return sc->options.by_callchain ? !callchain_has_user(s) : s->regs_abi == 0;
}

static bool too_much_enqueued(const struct scope *sc, const struct record_sample *s)
{
	return sc->options.enqueued_bytes &&
	       sc->enqueued_bytes + s->stack_len >= sc->options.enqueued_bytes;
}

enum skip_reason scope_skips_sample(struct scope *sc, struct process *process,
				    const struct record_sample *s)
{
	enum skip_reason why;

	if (nothing_to_show(sc, s))
		return SKIP_NOT_IN_SCOPE;
	if (filtered(sc, process) != PROCESS_LEFT_OUT)
		check_again(sc, process, s->time);
	why = scope_skips_process(sc, process);
	if (why)
		return why;
	return too_much_enqueued(sc, s) ? SKIP_ENQUEUED : SKIP_NONE;
}

void scope_write_owed(struct scope *sc, struct cpu_count *cpu, struct process *process,
		      uint64_t weight)
{
	enum skip_reason why = scope_skips_process(sc, process);
	struct sample_info info;

	if (sc->c.waits) /* the time is in the records of switches */
		return;
	if (!why && scope_of(sc, process) == PROCESS_UNDECIDED)
		why = SKIP_MAPS_TIMEOUT;
	if (why) {
		sc->c.account->received++;
		sc->c.account->skipped[why]++;
	}
	if (why && !sc->c.skipped)
		return;
	cpu_count_owed(cpu, process, weight, &info);
	if (why)
		(void)sc->c.skipped(sc->c.arg, &info, why);
	else
		(void)sc->c.owed(sc->c.arg, &info);
}
