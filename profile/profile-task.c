/* profile-task.c - ProcessStats of a flight recorder: the table of tasks at the snapshot, and the ends of processes. */
#include <errno.h>

#include "base/error.h"
#include "profile/profile-reader.h"
#include "protos/trace.fields.h"

enum { COMM_MAX = 15, CGROUP_MAX = 4095, PID_MAX = INT32_MAX };

static int read_task(struct reader *r, struct cursor c, struct profile_task *t)
{
	struct wire_field f;
	int e = 0;

	while (!e && wire_next(&c, &f)) {
		if (wire_is_bytes(&f, PERFWIND_TASK__COMM) && f.len <= COMM_MAX)
			e = reader_string(r, f.data, f.len, &t->comm);
		else if (wire_is_bytes(&f, PERFWIND_TASK__CGROUP) && f.len <= CGROUP_MAX)
			e = reader_string(r, f.data, f.len, &t->cgroup);
		else if (wire_is(&f, PERFWIND_TASK__UTIME_NS))
			t->utime_ns = f.value;
		else if (wire_is(&f, PERFWIND_TASK__STIME_NS))
			t->stime_ns = f.value;
		else if (wire_is(&f, PERFWIND_TASK__READ_BYTES))
			t->read_bytes = f.value;
		else if (wire_is(&f, PERFWIND_TASK__WRITE_BYTES))
			t->write_bytes = f.value;
		else if (wire_is(&f, PERFWIND_TASK__CANCELLED_WRITE_BYTES))
			t->cancelled_write_bytes = f.value;
		else if (wire_is(&f, PERFWIND_TASK__ENDED))
			t->ended = f.value;
	}
	return e < 0 ? trace(e) : c.bad ? READER_BROKEN : 0;
}

/* A thread's own values are not read: no form of export has them.  *task: it has those of the process. */
static int read_thread(struct reader *r, struct cursor c, struct profile_task *t, bool *task)
{
	struct wire_field f;
	int e = 0;

	while (!e && wire_next(&c, &f)) {
		if (!wire_is_bytes(&f, PROCESS_STATS__THREAD__PERFWIND_PROCESS))
			continue;
		e = read_task(r, wire_message(&f), t);
		*task = true;
	}
	return e < 0 ? trace(e) : e || c.bad ? READER_BROKEN : 0;
}

/* A process. */
static int read_process(struct reader *r, struct cursor c)
{
	const uint64_t none = PROFILE_TASK_NONE;
	struct profile_task t = {.utime_ns = none,
				 .stime_ns = none,
				 .read_bytes = none,
				 .write_bytes = none,
				 .cancelled_write_bytes = none,
				 .oom_score_adj = PROFILE_TASK_NO_OOM};
	struct profile *p = r->profile;
	struct wire_field f;
	bool task = false;
	int e = 0;

	while (!e && wire_next(&c, &f)) {
		if (wire_is(&f, PROCESS_STATS__PROCESS__PID) && f.value <= PID_MAX) {
			t.pid = (uint32_t)f.value;
		} else if (wire_is(&f, PROCESS_STATS__PROCESS__OOM_SCORE_ADJ) &&
			   (int64_t)f.value >= -1000 && (int64_t)f.value <= 1000) {
			t.oom_score_adj = (int16_t)(int64_t)f.value;
		} else if (wire_is_bytes(&f, PROCESS_STATS__PROCESS__THREADS)) {
			e = read_thread(r, wire_message(&f), &t, &task);
		}
	}
	if (e || c.bad || !task) /* of another producer: counters alone */
		return e < 0 ? trace(e) : e || c.bad ? READER_BROKEN : 0;
	e = reader_hold(r, HELD_PROCESSES, 1, sizeof(t));
	if (e >= 0)
		e = ROOM_FOR_ONE(p->tasks, p->n_tasks, r->room_tasks);
	if (e < 0)
		return trace(e);
	p->tasks[p->n_tasks++] = t;
	return 0;
}

int reader_process_stats(struct reader *r, struct cursor c)
{
	struct wire_field f;
	int e = 0;

	while (!e && wire_next(&c, &f))
		if (wire_is_bytes(&f, PROCESS_STATS__PROCESSES))
			e = read_process(r, wire_message(&f));
	return e < 0 ? trace(e) : e || c.bad ? READER_BROKEN : 0;
}
