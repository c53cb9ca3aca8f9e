/* python-stack.c - see python-stack.h. */
#include "perf/python-stack.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "perf/sample-records.h"

struct python_stacks {
	struct sample_records records;
	struct bpf_memory memory;
	struct python_table *table;    /* in it */
	struct python_table own_table; /* before it */
};

bool python_stacks_find(struct python_stacks *s, uint32_t tid, uint64_t sp, uint64_t time,
			struct python_stack *ret)
{
	enum { FRAME_BYTES = PYTHON_STACK_WORDS * sizeof(uint64_t) };
	const struct sample_key key = {.tid = tid, .sp = sp, .time = time};
	const struct at_sample_record *head;

	for (size_t i = 0; (head = records_find(&s->records, &key, &i)); i++) {
		if (head->len % FRAME_BYTES)
			continue;
		*ret = (struct python_stack){(const uint64_t *)(head + 1), head->len / FRAME_BYTES,
					     records_take(&s->records, i)};
		return true;
	}
	return false;
}

void python_stacks_put(struct python_stacks *s, uint64_t position)
{
	bpf_ring_put(s->records.ring, position);
}

void python_stacks_expire(struct python_stacks *s, uint64_t now)
{
	records_expire(&s->records, now - PYTHON_STACK_KEEP_MS * NSEC_PER_MSEC);
}

void python_stacks_add(struct python_stacks *s, uint32_t tgid, const struct python_threads *t)
{
	struct python_process *p = &s->table->processes[tgid % PYTHON_PROCESSES];

	__atomic_store_n(&p->key, 0, __ATOMIC_SEQ_CST); /* no sample sees half of it */
	p->interpreter = t->interpreter;
	p->threads = t->threads;
	p->next = t->next;
	p->native = t->native;
	p->frame = t->frame;
	p->context = t->context;
	p->through = t->through;
	__atomic_store_n(&p->key, (uint64_t)tgid << 32 | t->kind, __ATOMIC_RELEASE);
}

/* ---- life cycle ---- */

int python_stacks_new(struct python_stacks **ret_stacks)
{
	struct python_stacks *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return fail(-ENOMEM);
	s->memory.fd = -1;
	s->table = &s->own_table;
	r = records_init(&s->records);
	if (r < 0) {
		free(s);
		return trace(r);
	}
	*ret_stacks = s;
	return 0;
}

size_t python_stacks_ring_bytes(size_t n_cpus)
{
	enum { PER_CPU = 1 << 20, LEAST = 4 << 20, MOST = 32 << 20 };

	return round_up_power_of_two(min_u64(max_u64(n_cpus * PER_CPU, LEAST), MOST));
}

int python_stacks_begin(struct python_stacks *s, int ring_fd, size_t ring_bytes, int table_fd)
{
	int r = bpf_memory_open(table_fd, sizeof(*s->table), &s->memory);

	if (r < 0) {
		(void)fd_close(ring_fd);
		return trace(r);
	}
	r = bpf_ring_open(ring_fd, ring_bytes, &s->records.ring);
	if (r < 0)
		return trace(r);
	s->table = s->memory.at;
	memcpy(s->table->processes, s->own_table.processes, sizeof(s->table->processes));
	return 0;
}

bool python_stacks_run(const struct python_stacks *s)
{
	return s->records.ring != NULL;
}

struct python_stacks *python_stacks_free(struct python_stacks *s)
{
	if (!s)
		return NULL;
	records_deinit(&s->records);
	bpf_memory_deinit(&s->memory);
	free(s);
	return NULL;
}

void python_stacks_set_clock(struct python_stacks *s, int clock)
{
	records_set_clock(&s->records, clock);
}
