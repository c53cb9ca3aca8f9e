/* filter.c - see filter.h.  Order and patterns are as in the reference's target filter, so that
 * a config means the same here. */
#include <errno.h>
#include <fnmatch.h>
#include <string.h>

#include "base/error.h"
#include "base/table.h"
#include "proc/filter.h"

/* Additional command lines that are kept for recognition: 8 MiB at most.  A config that asks for more
 * gets all processes. */
enum { MAX_ADDITIONAL = 16384 };

struct filter {
	struct filter_scope scope;
	struct string_table additional;
};

/* argv[0] and its last part, with NULs behind. */
struct name {
	char argv0[FILTER_CMDLINE + 1];
	const char *base;
};

static void name_init(struct name *name, const char *cmdline, size_t len)
{
	const char *slash;

	len = strnlen(cmdline, len < FILTER_CMDLINE ? len : FILTER_CMDLINE);
	memcpy(name->argv0, cmdline, len);
	name->argv0[len] = 0;
	slash = strrchr(name->argv0, '/');
	name->base = slash ? slash + 1 : name->argv0;
}

static bool name_match(const char *pattern, const struct name *name)
{
	return fnmatch(pattern, pattern[0] == '/' ? name->argv0 : name->base, FNM_NOESCAPE) == 0;
}

bool filter_match(const char *pattern, const char *cmdline, size_t len)
{
	struct name name;

	name_init(&name, cmdline, len);
	return name_match(pattern, &name);
}

static bool any_match(const char *const *patterns, size_t n, const struct name *name)
{
	for (size_t i = 0; i < n; i++)
		if (name_match(patterns[i], name))
			return true;
	return false;
}

static bool any_pid(const int32_t *pids, size_t n, uint32_t pid)
{
	for (size_t i = 0; i < n; i++)
		if (pids[i] >= 0 && (uint32_t)pids[i] == pid)
			return true;
	return false;
}

/* One of the first command lines, or a command line like one. */
static bool is_additional(struct filter *f, const char *cmdline, size_t len)
{
	uint32_t n = f->additional.n_entries, id;
	bool is_new;

	if (!f->scope.additional_cmdlines)
		return false;
	if (string_table_find(&f->additional, cmdline, len, &id))
		return true;
	if (n >= f->scope.additional_cmdlines)
		return false;
	/* If there is no room or memory to keep it, it is wanted this once. */
	if (n < MAX_ADDITIONAL)
		(void)string_table_add(&f->additional, cmdline, len, &id, &is_new);
	return true;
}

bool filter_wanted(void *filter, uint32_t pid, const char *cmdline, size_t len)
{
	struct filter *f = filter;
	const struct filter_scope *s = &f->scope;
	struct name name;

	if (cmdline)
		name_init(&name, cmdline, len);
	if (cmdline && any_match(s->exclude_cmdlines, s->n_exclude_cmdlines, &name))
		return false;
	if (any_pid(s->exclude_pids, s->n_exclude_pids, pid))
		return false;
	if (cmdline && any_match(s->target_cmdlines, s->n_target_cmdlines, &name))
		return true;
	if (any_pid(s->target_pids, s->n_target_pids, pid))
		return true;
	if (!s->n_target_cmdlines && !s->n_target_pids && !s->additional_cmdlines &&
	    !s->shard_count)
		return true;
	if (s->shard_count)
		return pid % s->shard_count == s->shard;
	return cmdline && is_additional(f, cmdline, len < FILTER_CMDLINE ? len : FILTER_CMDLINE);
}

bool filter_by_cmdline(const struct filter *f)
{
	return f->scope.n_target_cmdlines || f->scope.n_exclude_cmdlines ||
	       (f->scope.additional_cmdlines && !f->scope.shard_count);
}

bool filter_is_empty(const struct filter *f)
{
	return !filter_by_cmdline(f) && !f->scope.n_target_pids && !f->scope.n_exclude_pids &&
	       !f->scope.shard_count;
}

size_t filter_n_additional(const struct filter *f)
{
	return f->additional.n_entries;
}

int filter_new(const struct filter_scope *scope, struct filter **ret_filter)
{
	struct filter *f = calloc(1, sizeof(*f));

	if (!f)
		return fail(-ENOMEM);
	f->scope = *scope;
	*ret_filter = f;
	return 0;
}

struct filter *filter_free(struct filter *f)
{
	if (!f)
		return NULL;
	string_table_deinit(&f->additional);
	free(f);
	return NULL;
}
