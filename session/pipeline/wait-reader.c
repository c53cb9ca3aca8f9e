/* wait-reader.c - see wait-reader.h. */
#include "session/pipeline/wait-reader.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "session/pipeline/wait-stack.h"
#include "session/pipeline/waits.h"

enum { STACKS_IN_FLIGHT = 16 }; /* a request takes 50 us of a helper */

int wait_reader_record(struct scope *s, uint32_t ring, const struct record_event *e)
{
	struct process *process;

	if (!s->c.waits || !e->pid ||
	    perf_source_is_inherited_double(s->c.source, e->id, (pid_t)e->tid))
		return 0;
	process = process_get(s->c.processes, e->pid);
	if (!process)
		return fail(-ENOMEM);
	if (scope_skips_process(s, process))
		return 0;
	return waits_record(s->c.waits, process, perf_source_ring(s->c.source, ring)->cpu, e);
}

/* The fields of sched:sched_waking: 8 bytes that all tracepoints have, char comm[16], pid_t pid (the thread), ... */
enum { WAKING_TID = 24 };

/* 0: none. */
static uint32_t woken_tid(const struct record_sample *sample)
{
	uint32_t tid = 0;

	if (sample->raw && sample->raw_len >= WAKING_TID + sizeof(tid))
		memcpy(&tid, sample->raw + WAKING_TID, sizeof(tid));
	return tid;
}

int wait_reader_woken(struct scope *s, const struct record_layout *layout,
		      const struct perf_event_header *record)
{
	struct record_sample sample;
	int r = record_parse_sample(layout, record, &sample);

	if (r < 0)
		return trace(r);
	if (s->c.waits && woken_tid(&sample))
		waits_woken(s->c.waits, woken_tid(&sample), sample.time);
	return 0;
}

bool wait_reader_wants_waker(struct scope *s, const struct record_sample *sample)
{
	return s->c.waits && waits_wants_waker(s->c.waits, woken_tid(sample), sample->time);
}

uint32_t wait_reader_waker(struct scope *s, const struct record_sample *sample)
{
	return waits_waker(s->c.waits, woken_tid(sample));
}

bool wait_reader_wants(struct scope *s, const struct record_sample *sample, struct process *process)
{
	return !perf_source_is_switch(s->c.source, sample->id) ||
	       (s->c.waits && waits_wants(s->c.waits, process, sample->tid));
}

uint64_t wait_reader_weigh(struct scope *s, const struct record_sample *sample,
			   struct process *process, uint32_t *ret_wait)
{
	*ret_wait = 0;
	if (!s->c.waits)
		return sample->period;
	if (perf_source_is_switch(s->c.source, sample->id))
		*ret_wait = waits_sampled(s->c.waits, sample->tid);
	else if (s->c.running)
		return waits_run(s->c.waits, process, sample->tid, sample->time);
	return *ret_wait ? 0 : sample->period;
}

void wait_reader_ask(struct scope *s, uint64_t before)
{
	while (s->c.waits && s->stacks_in_flight < STACKS_IN_FLIGHT) {
		uint32_t tid;
		struct process *process = waits_next_bare(s->c.waits, before, &tid);
		struct load_request request = {.kind = LOAD_WAIT};

		if (!process)
			break;
		request.tag = tid;
		request.pid = process->pid;
		request.process = process_ref(process);
		request.vaddr = (uint64_t)s->options.clock;
		request.closed = !scope_may_open(s, process);
		if (loader_ask(s->c.loader, &request))
			s->stacks_in_flight++;
		else
			(void)process_unref(process);
	}
}

bool wait_reader_answer(struct scope *s, struct park *park, const struct load_answer *a,
			struct entry *e)
{
	uint64_t regs[UW_X86_COUNT];

	s->stacks_in_flight--;
	if (a->error || a->request.process->replaced || !wait_stack_entry(a, regs, e))
		return false;
	e->block = park_alloc(park, (uintptr_t)a->request.process, entry_bytes(e));
	if (!e->block)
		return false;
	e->info.wait = waits_read(s->c.waits, a->request.tag, a->wait_from, a->wait_until);
	if (!e->info.wait) {
		park_free(park, (uintptr_t)a->request.process, e->block, entry_bytes(e));
		return false;
	}
	entry_copy(e, e->block);
	e->info.process = process_ref(a->request.process);
	s->c.account->received++;
	s->c.account->queued++;
	s->enqueued_bytes += e->info.stack_len;
	return true;
}
