/* rights.c - see rights.h: descriptors, user and capabilities.  Thread: main.
 *
 * The limits of locked memory, descriptors and priority are raised before the capability that this needs is
 * dropped. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/error.h"
#include "session/rights.h"

enum when { ALWAYS = 1, LOCKING = 2, DIRECT = 4 };

static const struct right {
	int cap;
	const char *name;
	unsigned when;
} rights[] = {
	{CAP_PERFMON, "perfmon", ALWAYS},
	{CAP_KILL, "kill", ALWAYS},
	{CAP_DAC_READ_SEARCH, "dac_read_search", ALWAYS},
	{CAP_SYSLOG, "syslog", ALWAYS},
	{CAP_IPC_LOCK, "ipc_lock", LOCKING},
	{CAP_SYS_PTRACE, "sys_ptrace", DIRECT},
};

enum { MEMLOCK = 1 << 30, NOFILE = 65536, NICE = -10 };

/* The process that opens targets' files sends no signals and reads no kernel names.  PERFMON lets it read /proc/PID/maps of
 * others where the kernel is new enough (fs/proc/task_mmu.c). */
#define FOR_HELPERS \
	(CAPS_BIT(CAP_PERFMON) | CAPS_BIT(CAP_DAC_READ_SEARCH) | CAPS_BIT(CAP_SYS_PTRACE))

/* The same in root's own session: opens files of others, mappings and memory of others, and files behind mappings; reads as
 * another user would (proc/open-file.h); returns from a low priority. */
#define FOR_OPENER                                                                  \
	(FOR_HELPERS | CAPS_BIT(CAP_CHECKPOINT_RESTORE) | CAPS_BIT(CAP_SYS_ADMIN) | \
	 CAPS_BIT(CAP_SETUID) | CAPS_BIT(CAP_SETGID) | CAPS_BIT(CAP_SYS_NICE))
/* Events of CPUs and threads that come later, names of the kernel, the consent of processes. */
#define FOR_SESSION \
	(CAPS_BIT(CAP_PERFMON) | CAPS_BIT(CAP_KILL) | CAPS_BIT(CAP_SYSLOG) | CAPS_BIT(CAP_IPC_LOCK))
/* A trace in a folder of another user. */
#define FOR_OUTPUT (CAPS_BIT(CAP_DAC_OVERRIDE) | CAPS_BIT(CAP_FOWNER))

static uint64_t kept(unsigned when)
{
	uint64_t mask = 0;

	for (size_t i = 0; i < ARRAY_SIZE(rights); i++)
		if (rights[i].when & when)
			mask |= CAPS_BIT(rights[i].cap);
	return mask;
}

/* ---- descriptors ---- */

static int close_others(const int *keep, size_t n)
{
	unsigned from = 3;

	for (size_t i = 0; i <= n; i++) {
		unsigned to = i < n ? (unsigned)keep[i] : ~0u;

		if (i < n && to < from)
			continue;
		if (to > from && syscall(SYS_close_range, from, i < n ? to - 1 : to, 0) < 0)
			return fail(-errno);
		from = to + 1;
	}
	return 0;
}

/* ---- user and limits ---- */

static void raise_limit(int which, rlim_t to)
{
	struct rlimit limit;

	if (getrlimit((__rlimit_resource_t)which, &limit) < 0 || limit.rlim_cur >= to)
		return;
	limit.rlim_cur = to;
	limit.rlim_max = limit.rlim_max > to ? limit.rlim_max : to;
	(void)setrlimit((__rlimit_resource_t)which, &limit); /* without the right: as it was */
}

/* As the unit gives them to a daemon that it starts. */
static unsigned raise_limits(void)
{
	struct rlimit locked;

	raise_limit(RLIMIT_MEMLOCK, MEMLOCK);
	raise_limit(RLIMIT_NOFILE, NOFILE);
	raise_limit(RLIMIT_RTPRIO, 1);
	raise_limit(RLIMIT_NICE, 20 - NICE);
	return getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur < MEMLOCK ? LOCKING : 0;
}

static int become(const char *name, char *error, size_t size)
{
	const struct passwd *pw;

	errno = 0;
	pw = getpwnam(name);
	if (!pw && is_shortage(-errno)) {
		int r = -errno;

		(void)snprintf(error, size, "--user %.64s: %s", name, strerror(-r));
		return fail(r);
	}
	if (!pw) {
		(void)snprintf(error, size, "--user: there is no user '%.64s'", name);
		return fail(-ESRCH);
	}
	/* The permitted set stays; the effective one is set again with the rest. */
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || initgroups(name, pw->pw_gid) < 0 ||
	    setresgid(pw->pw_gid, pw->pw_gid, pw->pw_gid) < 0 ||
	    setresuid(pw->pw_uid, pw->pw_uid, pw->pw_uid) < 0) {
		int r = -errno;

		(void)snprintf(error, size, "--user %s: %s", name, strerror(-r));
		return fail(r);
	}
	return 0;
}

/* ---- capabilities ---- */

/* So that no program that is run could get them either. */
static void drop_bounding(uint64_t mask)
{
	for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if (!(mask & CAPS_BIT(cap)))
			(void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
}

static int drop_caps(uint64_t mask)
{
	struct caps caps;
	int r = caps_get(&caps);

	if (r < 0)
		return trace(r);
	caps.permitted &= mask;
	caps.effective = caps.permitted;
	caps.inheritable = 0;
	return trace(caps_set(&caps));
}

int rights_reduce(const struct rights_options *o, char *error, size_t size)
{
	unsigned when = ALWAYS | (o->direct ? DIRECT : 0);
	int r = close_others(o->keep_fds, o->n_keep_fds);

	if (r < 0 && r != -ENOSYS) { /* close_range(2) is of 5.9 */
		(void)snprintf(error, size, "inherited descriptors: %s", strerror(-r));
		return trace(r);
	}
	when |= raise_limits();
	drop_bounding(kept(when));
	r = o->user ? become(o->user, error, size) : 0;
	if (r < 0)
		return trace(r);
	r = drop_caps(kept(when));
	caps_limit_helpers(FOR_HELPERS);
	if (r >= 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		r = fail(-errno);
	if (r < 0)
		(void)snprintf(error, size, "capabilities cannot be dropped: %s", strerror(-r));
	return r;
}

/* Newer capabilities were split off from SYS_ADMIN.  Some containers grant SYS_ADMIN alone: then it is kept in place of the
 * newer one. */
static uint64_t with_older(const struct caps *caps, uint64_t wanted, int newer)
{
	if ((wanted & CAPS_BIT(newer)) && !(caps->permitted & CAPS_BIT(newer)))
		return wanted | CAPS_BIT(CAP_SYS_ADMIN);
	return wanted & ~CAPS_BIT(CAP_SYS_ADMIN);
}

/* Kernels refuse a kprobe or uprobe event without SYS_ADMIN (EACCES, seen with 6.18), also one that is opened later for a new
 * thread or CPU. */
static uint64_t for_session(const struct caps *caps, bool probes)
{
	return with_older(caps, FOR_SESSION, CAP_PERFMON) | (probes ? CAPS_BIT(CAP_SYS_ADMIN) : 0);
}

void rights_prepare_session(bool probes)
{
	struct caps caps;
	uint64_t for_helpers, mask;

	raise_limit(RLIMIT_NICE, 40);
	/* The kernel shows a process without SYS_PTRACE only to a process that has every capability it has. */
	if (caps_get(&caps) < 0 || !(caps.permitted & CAPS_BIT(CAP_SYS_PTRACE)))
		return;
	for_helpers = with_older(&caps, FOR_OPENER, CAP_CHECKPOINT_RESTORE);
	caps_limit_helpers(for_helpers);
	mask = for_helpers | for_session(&caps, probes) | FOR_OUTPUT;
	drop_bounding(mask);
	(void)caps_keep(mask);
}

void rights_settle_session(bool writes_later, bool probes)
{
	struct caps caps;

	if (caps_get(&caps) >= 0)
		(void)caps_keep(for_session(&caps, probes) | (writes_later ? FOR_OUTPUT : 0));
}

bool rights_held(void)
{
	struct caps caps;

	/* If the kernel does not report them, assume that there are. */
	return geteuid() == 0 || caps_get(&caps) < 0 || caps.effective;
}

bool rights_beyond_user(void)
{
	return geteuid() != 0 && rights_held();
}

void rights_names(char *text, size_t size)
{
	struct caps caps;
	size_t len = 0;

	*text = 0;
	if (caps_get(&caps) < 0)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(rights) && len + 20 < size; i++) {
		if ((caps.effective & CAPS_BIT(rights[i].cap)))
			len += (size_t)snprintf(text + len, size - len, "%s%s", len ? "," : "",
						rights[i].name);
	}
}
