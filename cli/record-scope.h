/* record-scope.h - `record -u USER` and `-G CGROUP`: which processes of the machine are recorded.  Thread: main. */
#pragma once

#include "base/util.h"

struct record_scope {
	bool by_user;
	uint32_t uid;
	const char *cgroup; /* "/" before it; borrowed; NULL: all */
};

/* @user (a name or a number) and @cgroup may be NULL; they are borrowed.  -EINVAL: logged. */
int record_scope_init(struct record_scope *scope, const char *user, const char *cgroup);
static inline bool record_scope_is_set(const struct record_scope *scope)
{
	return scope->by_user || scope->cgroup;
}
/* As session_options.wanted, with a record_scope as @arg. */
bool record_scope_wants(void *arg, uint32_t pid, const char *cmdline, size_t len);
