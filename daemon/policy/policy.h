/* policy.h - the access of each requester.  Thread: main.
 *
 * Recordings on request (the requester is known: all-*, own-processes):
 *   root, users and groups that the settings name        every process, and the kernel
 *   any other user, if own-processes = yes               own processes, user code only
 *
 * Through a tracing service (which does not report its clients, so the target decides: traced-*):
 *   processes of users and groups that the settings name; processes that opt in (session/consent)
 *   the kernel, and counters of the whole machine        only if the settings allow it
 *   every process and the kernel, if no traced-* setting is given and the daemon has no capabilities beyond its
 *   user's own (it runs as root, or as a plain user that the kernel limits)
 *
 * A process is a user's own when the kernel would let the user trace it (kernel/ptrace.c, __ptrace_may_access(), of a
 * caller without capabilities): its four user ids are the user's (so it is not a set-user-ID program), its four group
 * ids are the user's primary group, it has no capabilities, and it is dumpable (PR_SET_DUMPABLE, which an exec of a
 * set-user-ID or unreadable program clears, too).  A process with capabilities in the user's own user namespace could
 * be traced by the user and is refused here: the owner of the namespace cannot be read without more privileges.
 * Through a tracing service the same holds, with the primary group of the machine's user database; for a user that
 * is not in it, any one group. */
#pragma once

#include "config/session-options.h"
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
	uint32_t user_max_cpu, recording_max_cpu; /* percent of one CPU; 0: no limit */
};

struct policy_traced {
	struct policy_ids ids;
	uint32_t user_gids[POLICY_IDS]; /* the primary groups of ids.users; or POLICY_NO_GROUP */
	bool everyone, kernel;
};

/* The requester's credentials, as the kernel recorded them at connect(2). */
struct policy_requester {
	uint32_t uid, gid, pid;
	uint32_t *groups; /* owned; with the primary group */
	size_t n_groups;
};
/* The peer of a connected socket.  Returns new parts. */
int policy_requester_of(int fd, struct policy_requester *ret_requester);
void policy_requester_deinit(struct policy_requester *requester);

/* Is the requester confined by an AppArmor profile that is enforced and not the daemon's own?  Then a recording could
 * show it data that the profile hides, and *why names the profile.  @fd: its connection; the label of connect(2)
 * is read first (SO_PEERSEC).  Landlock: no kernel up to 6.18 reports the domain of another process
 * (docs/security.md). */
bool policy_confined(const char *root, int fd, uint32_t pid, char *why, size_t size);
/* Is @pid a child of @requester and confined by the same profile (@why)? */
bool policy_shares_sandbox(const char *root, uint32_t requester, const char *why, uint32_t pid);

/* Looks names up now; an unknown name has no effect and is logged if it is not the default. */
void policy_of(const struct settings *settings, struct policy *ret_policy);
/* The users that may run the tracing service, besides root and the daemon's own user. */
void policy_services_of(const struct settings *settings, struct policy_ids *ret_ids);
bool policy_trusts_service(const struct policy_ids *ids, uint32_t uid);
/* @beyond_user: rights_beyond_user() of the daemon: clients of the service would use capabilities that its user lacks. */
void policy_traced_of(const struct settings *settings, bool beyond_user,
		      struct policy_traced *ret_policy);

/* The user that @uid's limits count for, by the ranges of /etc/subuid (policy_of()). */
uint32_t policy_person(const struct policy *policy, uint32_t uid);
/* Lists of settings: "WORD, WORD WORD".  Moves *list to the next word; its length, 0: no more. */
size_t policy_next_word(const char **list);
bool policy_has_word(const char *list, const char *word);

/* For tests. */
void policy_subids_read(const char *path, struct policy *policy);
void policy_subids_parse(const char *text, struct policy *policy);

enum policy_scope { POLICY_NOTHING, POLICY_OWN, POLICY_ALL };
enum policy_scope policy_scope(const struct policy *policy,
			       const struct policy_requester *requester);

/* false: this event may not be recorded; a line in @error, which names the setting @key. */
bool policy_event(enum policy_scope scope, const char *key, const struct perf_spec *spec,
		  char *error, size_t size);
/* The text of -e, before it is parsed: false for text that would make the daemon open a file that a client names, or
 * pass the kernel an address in the daemon's memory. */
bool policy_event_words(const char *event, char *error, size_t size);
/* Samples a second of one CPU, as the limit counts them. */
uint64_t policy_rate(const struct perf_spec *spec, uint64_t frequency, uint64_t period);
/* The same of a session.  An event without a known rate counts as a quarter of @limit, if that is not 0. */
uint64_t policy_session_rate(const struct session_options *options, uint64_t limit);
/* Bytes of a sample's stack, at most: the size is adapted while the session runs. */
uint64_t policy_stack_bytes(const struct session_options *options);

/* Is the process @requester's own (see above), now?  @root: "" */
bool policy_owns(const char *root, const struct policy_requester *requester, uint32_t pid);
/* May a tracing service see the process now: an own process of a named user, or a process of another user except root in
 * a named group (a set-user-ID program has the groups of the user that ran it)? */
bool policy_shows(const struct policy_traced *policy, const char *root, uint32_t pid);
