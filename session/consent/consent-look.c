/* consent-look.c - may a process be asked, and the asking.  Thread: main; see consent.h.
 *
 * HOOK_SIGNAL does no harm to whom it finds without a handler, so none of this guards a life, except
 * the words on seccomp: a filter may kill for the system calls of the answer, or trap them, which
 * kills whoever blocks SIGSYS.  It saves useless signals, and lets us say why nothing can be had.
 * The text is the kernel's, but a fake /proc in tests may hold anything. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "session/consent/consent.h"
#include "proc/procfs.h"

enum { STATUS_MAX = 64 << 10, SECCOMP_STRICT = 1, SECCOMP_FILTERED = 2 };

const char *consent_refusal_text(enum consent_refusal refusal)
{
	static const char *const texts[CONSENT_REFUSALS] = {
		[CONSENT_ASKED] = "it was asked",
		[CONSENT_GONE] = "it has exited",
		[CONSENT_KERNEL_THREAD] = "it is a kernel thread",
		[CONSENT_FIRST] =
			"it is the first process of a container or of the machine, which gets "
			"no signal",
		[CONSENT_NOT_CAUGHT] = "the hook is not loaded in it, or disabled itself on a "
				       "small alternate signal stack",
		[CONSENT_BLOCKED] = "it blocks the hook's signal",
		[CONSENT_SECCOMP] = "its seccomp filter may kill it for answering",
		[CONSENT_FORBIDDEN] = "no permission to send it a signal (CAP_KILL)",
		[CONSENT_UNGUARDED] = "it does not let the hook handle SIGSYS, so a seccomp filter "
				      "would kill it for answering",
		[CONSENT_STUCK] =
			"the data that it, or another process of its user, sent could not be "
			"handled in time",
		[CONSENT_NO_SOCKET] = "the hook socket cannot be opened",
		[CONSENT_TOO_MANY] = "too many processes are being asked at this time",
		[CONSENT_NO_MEANS] = "no descriptor or memory is left for it (a limit on open "
				     "files?)",
	};

	return texts[refusal];
}

/* The value behind "NAME:\t" at the beginning of a line, or NULL. */
static const char *value_of(const char *text, const char *name)
{
	size_t len = strlen(name);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, name, len) && line[len] == ':')
			return line + len + 1 + strspn(line + len + 1, "\t ");
	}
	return NULL;
}

/* The word at @p as a number. */
static bool number(const char *p, int base, uint64_t *ret)
{
	char word[24];
	size_t len = p ? strcspn(p, " \t\n") : 0;

	if (!len || len >= sizeof(word))
		return false;
	memcpy(word, p, len);
	word[len] = 0;
	return parse_u64(word, base, UINT64_MAX, ret) >= 0;
}

static bool in_set(const char *text, const char *name, int signal)
{
	uint64_t set;

	return number(value_of(text, name), 16, &set) && (set >> (signal - 1) & 1);
}

/* One number for each pid namespace, from that of /proc inwards. */
static bool is_first(const char *text, uint32_t pid)
{
	const char *p = value_of(text, "NSpid");
	uint64_t n;

	for (; p && number(p, 10, &n); p += strspn(p, "\t ")) {
		if (n == 1)
			return true;
		p += strcspn(p, "\t \n");
	}
	return pid == 1;
}

enum consent_refusal consent_look(const char *root, uint32_t pid, bool under_seccomp)
{
	_cleanup_(freep) char *text = NULL;
	char path[PROCFS_PATH_MAX];
	struct procfs_status status;
	uint64_t seccomp = 0;

	if (procfs_status(root, pid, &status) < 0 || status.zombie ||
	    procfs_path(path, root, pid, "status") < 0 ||
	    read_file(path, STATUS_MAX, &text, NULL) < 0)
		return CONSENT_GONE;
	if (status.kernel_thread)
		return CONSENT_KERNEL_THREAD;
	if (is_first(text, pid))
		return CONSENT_FIRST;
	if (!in_set(text, "SigCgt", HOOK_SIGNAL))
		return CONSENT_NOT_CAUGHT;
	if (in_set(text, "SigBlk", HOOK_SIGNAL))
		return CONSENT_BLOCKED;
	(void)number(value_of(text, "Seccomp"), 10, &seccomp);
	/* In strict mode any system call but read and write is its end, whatever an option says. */
	if (seccomp == SECCOMP_STRICT || (!under_seccomp && seccomp == SECCOMP_FILTERED))
		return CONSENT_SECCOMP;
	/* The hook does not answer where it is blocked, filter or not: it cannot know. */
	if (in_set(text, "SigBlk", SIGSYS) ||
	    (seccomp == SECCOMP_FILTERED && !in_set(text, "SigCgt", SIGSYS)))
		return CONSENT_UNGUARDED;
	return CONSENT_ASKED;
}

int consent_signal(uint32_t pid, int pidfd)
{
	siginfo_t info = {0};
	long r;

	info.si_signo = HOOK_SIGNAL;
	info.si_code = SI_QUEUE;
	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_int = HOOK_VALUE;
	r = pidfd >= 0 ? syscall(SYS_pidfd_send_signal, pidfd, HOOK_SIGNAL, &info, 0)
		       : syscall(SYS_rt_sigqueueinfo, pid, HOOK_SIGNAL, &info);
	return r < 0 ? fail(-errno) : 0;
}
