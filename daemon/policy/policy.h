/* policy.h - who may record what.  Thread: main.
 *
 * By asking the daemon (who asks is known: all-*, own-processes):
 *   root, users and groups that the settings name     every process, and the kernel
 *   anyone else, unless own-processes = no            own processes, user code only
 *
 * Through a tracing service (who asks is not known, so it is by whom is looked at: traced-*):
 *   processes of users and groups that the settings name; who consents (proc/consent.h)
 *   the kernel, and what is the whole machine's       only if the settings say so
 *   everyone and the kernel, where the settings say nothing and the daemon has no rights but its
 *   user's own (root's, or a plain user's whom the kernel itself holds back): it lends none
 *
 * A process is somebody's own when the kernel would let them look into it (kernel/ptrace.c,
 * __ptrace_may_access(), of a caller without rights): all of its user ids are theirs (so no
 * set-user-ID program is), and all of its group ids are their primary group; it holds no
 * capabilities; and it has not made itself unreadable (PR_SET_DUMPABLE, which an exec of a program
 * with rights or without read permission does too).  What has capabilities only in a user namespace
 * that is theirs the kernel would show them, and we do not: whose that is cannot be read without
 * more rights.  By a tracing service the same, the primary group being that of the machine's list of
 * users; of a user who is not in it, any one group. */
#pragma once

#include "perf/spec.h"
#include "daemon/policy/settings.h"

enum { POLICY_IDS = 64, POLICY_GROUPS = 65536, POLICY_SUBIDS = 1024 };
#define POLICY_NO_GROUP UINT32_MAX

struct policy_ids {
	uint32_t users[POLICY_IDS], groups[POLICY_IDS];
	size_t n_users, n_groups;
};

struct policy_subids {
	uint32_t first, last, person;
};

struct policy {
	struct policy_ids all;
	struct policy_subids subids[POLICY_SUBIDS];
	size_t n_subids;
	bool own;
	uint32_t recordings, user_recordings, user_rate, user_memory;
	uint32_t user_processes, user_descriptors;
};

struct policy_traced {
	struct policy_ids ids;
	uint32_t user_gids[POLICY_IDS]; /* the primary groups of ids.users; or POLICY_NO_GROUP */
	bool everyone, kernel;
};

/* Who asks, as the kernel tells it: as of connect(2). */
struct asker {
	uint32_t uid, gid, pid;
	uint32_t *groups; /* owned; the primary one too */
	size_t n_groups;
};
/* Of the peer of a connected socket.  Returns new parts. */
int asker_of(int fd, struct asker *ret_asker);
void asker_deinit(struct asker *asker);

/* Is the requester confined by an AppArmor profile that is enforced and not the daemon's own?  Then a
 * recording could show it what the profile hides, and *why names the profile.  @fd: its connection, as
 * the label of its connect(2) is asked for first (SO_PEERSEC).  Landlock: no kernel up to 6.18 tells of
 * another process's domain (docs/security.md). */
bool policy_confined(const char *root, int fd, uint32_t pid, char *why, size_t size);
/* Is @pid a child of @requester's and confined by the same profile (@why)? */
bool policy_shares_sandbox(const char *root, uint32_t requester, const char *why, uint32_t pid);

/* Names are looked up now; one that is unknown gives nobody anything and is logged, if it was not
 * the default. */
void policy_of(const struct settings *settings, struct policy *ret_policy);
/* The users that may run the tracing service, besides root and the daemon's own user. */
void policy_services_of(const struct settings *settings, struct policy_ids *ret_ids);
bool policy_trusts_service(const struct policy_ids *ids, uint32_t uid);
/* @lends: the daemon has rights beyond its user's own (rights_lends). */
void policy_traced_of(const struct settings *settings, bool lends,
		      struct policy_traced *ret_policy);

/* policy-subids.c: whose limits @uid's cost counts in, by the ranges of /etc/subuid (policy_of()). */
uint32_t policy_person(const struct policy *policy, uint32_t uid);
void policy_subids_read(const char *path, struct policy *policy);
void policy_subids_parse(const char *text, struct policy *policy);
/* Of a name or a number. */
bool policy_user_id(const char *name, uint32_t *ret_id);

enum policy_scope { POLICY_NOTHING, POLICY_OWN, POLICY_ALL };
enum policy_scope policy_scope(const struct policy *policy, const struct asker *asker);

/* May this event be asked for?  false: a line in @error, which names the setting @key. */
bool policy_event(enum policy_scope scope, const char *key, const struct perf_spec *spec,
		  char *error, size_t size);
/* The words of -e, before they are looked up: none that make us open a file that a client names, or
 * hand the kernel an address in our memory. */
bool policy_event_words(const char *event, char *error, size_t size);
/* Samples a second of one CPU, as the limit counts them. */
uint64_t policy_rate(const struct perf_spec *spec, uint64_t frequency, uint64_t period);

/* Is it @asker's own (see above), as it is now?  @root: "" */
bool policy_owns(const char *root, const struct asker *asker, uint32_t pid);
/* Is it one that the tracing service may see, as it is now: a user's own who is named, or of another user but root that is in a group that is named (what a
 * set-user-ID program became has the groups of whoever ran it)? */
bool policy_shows(const struct policy_traced *policy, const char *root, uint32_t pid);
