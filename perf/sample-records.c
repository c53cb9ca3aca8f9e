/* sample-records.c - see sample-records.h. */
#include "perf/sample-records.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/error.h"

/* The inode is a constant: PROC_PID_INIT_INO, the kernel's include/linux/proc_ns.h. */
static bool in_first_pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) < 0 || st.st_ino == 0xeffffffc;
}

int records_init(struct sample_records *q)
{
	if (!in_first_pid_namespace())
		return fail(-EXDEV);
	q->clock = CLOCK_MONOTONIC;
	return 0;
}

/* The kernel has no CLOCK_MONOTONIC_RAW or CLOCK_REALTIME for programs; clocks drift and jump. */
static void follow_clock(struct sample_records *q)
{
	if (q->clock != CLOCK_MONOTONIC)
		q->ahead = (int64_t)(clock_ns(q->clock) - clock_ns(CLOCK_MONOTONIC));
}

void records_set_clock(struct sample_records *q, int clock)
{
	q->clock = clock;
	follow_clock(q);
}

void records_deinit(struct sample_records *q)
{
	q->ring = bpf_ring_free(q->ring);
}

static const struct at_sample_record *head_of(const struct bpf_ring_record *record)
{
	return record->data;
}

static void drop(struct sample_records *q, size_t n)
{
	for (size_t i = 0; i < n; i++)
		bpf_ring_put(q->ring, q->waiting[i].position);
	q->unused += n;
	q->n_waiting -= n;
	memmove(q->waiting, q->waiting + n, q->n_waiting * sizeof(q->waiting[0]));
}

static void read_ring(struct sample_records *q)
{
	struct bpf_ring_record record;

	while (q->ring && !q->broken) {
		int r = bpf_ring_next(q->ring, &record);

		if (r < 0)
			q->broken = r;
		if (r != 0)
			break;
		if (record.len < sizeof(struct at_sample_record)) {
			bpf_ring_put(q->ring, record.position);
			continue;
		}
		if (q->n_waiting == RECORDS_WAITING)
			drop(q, 1);
		q->waiting[q->n_waiting++] = record;
	}
}

const struct at_sample_record *records_find(struct sample_records *q, const struct sample_key *key,
					    size_t *from)
{
	enum { NEAR_MS = 5 }; /* between a record and its sample: either is stamped first */

	uint64_t time = key->time - (uint64_t)q->ahead;

	read_ring(q);
	for (size_t i = *from; i < q->n_waiting; i++) {
		const struct at_sample_record *head = head_of(&q->waiting[i]);
		uint64_t apart = head->time < time ? time - head->time : head->time - time;

		if (head->tid != key->tid || head->sp != key->sp ||
		    apart > NEAR_MS * NSEC_PER_MSEC ||
		    head->len > q->waiting[i].len - sizeof(*head))
			continue;
		*from = i;
		return head;
	}
	return NULL;
}

uint64_t records_take(struct sample_records *q, size_t index)
{
	uint64_t position = q->waiting[index].position;

	q->n_waiting--;
	memmove(q->waiting + index, q->waiting + index + 1,
		(q->n_waiting - index) * sizeof(q->waiting[0]));
	return position;
}

void records_expire(struct sample_records *q, uint64_t time)
{
	size_t n = 0;

	read_ring(q);
	follow_clock(q);
	time -= (uint64_t)q->ahead;
	while (n < q->n_waiting && head_of(&q->waiting[n])->time < time)
		n++;
	if (n)
		drop(q, n);
}
