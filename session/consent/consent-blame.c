/* consent-blame.c - see consent-blame.h.  Both tables are bounded: what finds no room is asked again,
 * and hangs another hook process; of these there are so many and no more (consent.c). */
#include "session/consent/consent-blame.h"
#include "proc/procfs.h"

enum { BLAMED_MAX = 1024 };

void consent_blame_deinit(struct consent_blame *b)
{
	table_deinit(&b->processes);
	table_deinit(&b->users);
}

void consent_blame_put(struct consent_blame *b, const char *root, uint32_t pid, uint32_t uid)
{
	struct procfs_status status;
	uint64_t n = 0;

	if (b->processes.n_used == BLAMED_MAX)
		table_clear(&b->processes);
	if (procfs_status(root, pid, &status) >= 0)
		(void)table_put(&b->processes, pid, status.start_ticks);
	if (table_get(&b->users, uid, &n) || b->users.n_used < BLAMED_MAX)
		(void)table_put(&b->users, uid, n + 1);
}

bool consent_blame_has(const struct consent_blame *b, const char *root, uint32_t pid)
{
	struct procfs_status status;
	uint64_t v;

	if ((!b->processes.n_used && !b->users.n_used) || procfs_status(root, pid, &status) < 0)
		return false;
	if (table_get(&b->processes, pid, &v) && v == status.start_ticks)
		return true;
	return table_get(&b->users, status.uid, &v) && v >= BLAMES_OF_A_USER;
}
