/* task-ends.h - the last values of processes, when they end, by the kernel's taskstats.  Thread: main.
 *
 * Needs CAP_NET_ADMIN when it is made (Documentation/accounting/taskstats.rst); the socket lives on without it. */
#pragma once

#include "base/loop.h"
#include "trace/sink.h"

struct task_ends;
/* Before privileges are dropped and the list of system calls applies.  Each end goes to *@to as a ProcessStats packet of one
 * row; nothing while *@to is NULL.  -EPERM: CAP_NET_ADMIN is missing; -ENOENT: a kernel without taskstats.  Returns new. */
int task_ends_new(struct loop *loop, struct sink *const *to, struct task_ends **ret_ends);
struct task_ends *task_ends_free(struct task_ends *ends);
/* Messages that the kernel had no room for: each is an end without a row, or several. */
uint64_t task_ends_lost(const struct task_ends *ends);

/* ---- for tests ---- */
/* Writes the rows of one datagram of the family @family to @to.  Any bytes. */
int task_ends_take(const void *data, size_t len, uint16_t family, struct sink *to);
