/* at-sample.c - see at-sample.h.
 *
 * Requests to pw-bpf, each answered with one descriptor at most:
 *
 *   LOAD    makes the maps, loads the program
 *   GIVE    a map; one request each.  Main maps it.  pw-bpf keeps the maps for a program with more parts
 *   BEGIN   comes with the jump's array: puts the program there */
#include "perf/at-sample.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/error.h"
#include "base/helper.h"

/* ---- records of the program (at-sample.bpf.c), joined with their samples ----
 *
 *   ring ─► waiting, oldest first ─► records_find() by thread, stack pointer and time ─► records_take()
 *                                └─► records_expire(): no sample came
 *
 * The program runs in the interrupt that takes the sample, before that is published, so a record is there before its sample. */

enum { RECORDS_WAITING = 2048 };

struct sample_records {
	struct bpf_ring *ring; /* NULL: no record yet */
	int broken;
	struct bpf_ring_record waiting[RECORDS_WAITING]; /* in [first, first + n_waiting) */
	size_t first, n_waiting;
	uint64_t unused; /* no sample for it */
	int clock;	 /* of the samples */
	int64_t ahead;	 /* of it against the program's */
};

struct sample_key {
	uint32_t tid;
	uint64_t sp, time; /* time: the session's clock */
};

/* The inode is a constant: PROC_PID_INIT_INO, the kernel's include/linux/proc_ns.h. */
static bool in_first_pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) < 0 || st.st_ino == 0xeffffffc;
}

/* -EXDEV: this process has a pid namespace of its own, in which the program's thread ids are not known. */
static int records_init(struct sample_records *q)
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

/* Before the first sample: the clock of the session, CLOCK_MONOTONIC if it is not called. */
static void records_set_clock(struct sample_records *q, int clock)
{
	q->clock = clock;
	follow_clock(q);
}

static void records_deinit(struct sample_records *q)
{
	q->ring = bpf_ring_free(q->ring);
}

static struct bpf_ring_record *waiting_at(struct sample_records *q, size_t index)
{
	return &q->waiting[q->first + index];
}

static const struct at_sample_record *head_of(struct sample_records *q, size_t index)
{
	return waiting_at(q, index)->data;
}

static void drop(struct sample_records *q, size_t n)
{
	for (size_t i = 0; i < n; i++)
		bpf_ring_put(q->ring, waiting_at(q, i)->position);
	q->unused += n;
	q->first += n;
	q->n_waiting -= n;
}

/* Room for one more, without the oldest where there is none. */
static void make_room(struct sample_records *q)
{
	if (q->n_waiting == RECORDS_WAITING)
		drop(q, 1);
	if (q->first + q->n_waiting < RECORDS_WAITING)
		return;
	memmove(q->waiting, waiting_at(q, 0), q->n_waiting * sizeof(q->waiting[0]));
	q->first = 0;
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
		make_room(q);
		*waiting_at(q, q->n_waiting++) = record;
	}
}

/* Takes over what the ring has, then: the record of this sample from index @from on, with all that it announces: of those of the thread
 * with its stack pointer the nearest.  (The record of a sample that was dropped, as a double, waits, too.)  NULL: there is none. */
static const struct at_sample_record *records_find(struct sample_records *q,
						   const struct sample_key *key, size_t *from)
{
	const uint64_t near = 5 * NSEC_PER_MSEC; /* from its sample: either is stamped first */

	uint64_t time = key->time - (uint64_t)q->ahead, least = near + 1;
	const struct at_sample_record *nearest = NULL;

	read_ring(q);
	for (size_t i = *from; i < q->n_waiting; i++) {
		const struct at_sample_record *head = head_of(q, i);
		uint64_t apart = head->time < time ? time - head->time : head->time - time;

		if (head->time > time && apart > near)
			break; /* and so are those behind it */
		if (head->tid != key->tid || head->sp != key->sp || apart >= least ||
		    head->len > waiting_at(q, i)->len - sizeof(*head))
			continue;
		least = apart;
		nearest = head;
		*from = i;
	}
	return nearest;
}

/* Takes the record at @index out.  Returns its position, for bpf_ring_put(). */
static uint64_t records_take(struct sample_records *q, size_t index)
{
	uint64_t position = waiting_at(q, index)->position;

	/* Mostly it is the oldest. */
	memmove(waiting_at(q, 1), waiting_at(q, 0), index * sizeof(q->waiting[0]));
	q->first++;
	q->n_waiting--;
	return position;
}

/* Drops records from before @time (the session's clock).  Once a round: it follows the session's clock, too. */
static void records_expire(struct sample_records *q, uint64_t time)
{
	size_t n = 0;

	read_ring(q);
	follow_clock(q);
	time -= (uint64_t)q->ahead;
	while (n < q->n_waiting && head_of(q, n)->time < time)
		n++;
	if (n)
		drop(q, n);
}

/* ---- deep stacks ---- */

enum {
	DEEP_CALM = 8,	 /* stacks in a row that fit their copies: class 0 */
	DEEP_LOWER = 64, /* ... that fit a smaller class: the largest that one of them needed */
	DEEP_SLOW = 16,	 /* copies: two that had no time for their class within so many */
};

static const uint32_t deep_bytes[] = {0,
				      DEEP_KIB_1 << 10,
				      DEEP_KIB_2 << 10,
				      DEEP_KIB_3 << 10,
				      DEEP_KIB_4 << 10,
				      DEEP_KIB_5 << 10,
				      DEEP_KIB_6 << 10,
				      DEEP_MAX};
_Static_assert(DEEP_KIB_7 << 10 == DEEP_MAX, "the largest class");

struct deep_thread {
	uint32_t tid;
	uint8_t calm, lower; /* stacks in a row */
	uint8_t needed;	     /* the largest class that one of `lower` needed */
	uint8_t class;
	bool known; /* has a class of its own */
};

struct deep {
	struct sample_records records;
	struct bpf_memory memory;
	struct deep_table *table;    /* in it */
	struct deep_table own_table; /* before it */
	uint8_t first;		     /* class of a thread that was not seen yet */
	uint8_t most;		     /* the largest class that there is time for at a sample */
	struct deep_thread threads[DEEP_THREADS];
	uint64_t copied;
	uint64_t slow; /* `copied` at the last copy that had no time for its class; 0: none */
};

/* The ends of the copy are the same: it is the sample's. */
static bool is_of(const struct at_sample_record *head, const struct deep_sample *s,
		  struct deep_stack *ret)
{
	enum { COMPARED = 256 };
	uint32_t before = (uint32_t)(s->sp & (DEEP_PAGE - 1)), n;
	const uint8_t *stack = (const uint8_t *)(head + 1) + before;

	if (head->len < before || head->len - before <= s->copy_len)
		return false;
	n = (uint32_t)min_u64(s->copy_len, COMPARED);
	if (memcmp(stack, s->copy, n) ||
	    memcmp(stack + s->copy_len - n, s->copy + s->copy_len - n, n))
		return false;
	*ret = (struct deep_stack){
		.stack = stack,
		.len = head->len - before,
		.full = head->goes_on,
	};
	return true;
}

static uint8_t class_of(uint64_t used)
{
	uint8_t class = 1;

	while (class + 1u < ARRAY_SIZE(deep_bytes) && deep_bytes[class] < used)
		class ++;
	return class;
}

static void set_class(struct deep *d, struct deep_thread *t, uint8_t class)
{
	t->class = class;
	t->known = true;
	t->calm = t->lower = t->needed = 0;
	__atomic_store_n(&d->table->threads[t->tid % DEEP_THREADS], (uint64_t)t->tid << 32 | class,
			 __ATOMIC_RELAXED);
}

/* Was time short before, too?  One interrupt that took long is no measure of the next copy. */
static bool is_slow(struct deep *d)
{
	uint64_t last = d->slow;

	d->slow = d->copied;
	return last && d->copied - last <= DEEP_SLOW;
}

/* Raises the class of a thread at once, before its stack is unwound.  @room: bytes of its class; @len: copied.  Where time is
 * short the class has no more room than was used. */
static void outgrown(struct deep *d, uint32_t tid, uint32_t room, uint32_t len)
{
	struct deep_thread *t = &d->threads[tid % DEEP_THREADS];
	/* Each step that is too small cuts stacks off until the next. */
	uint8_t class = class_of(len < room ? len + 1ull : 2ull * len);

	if (t->tid != tid)
		*t = (struct deep_thread){.tid = tid};
	if (len < room) {
		if (!is_slow(d))
			return;
		d->most = class;
		set_class(d, t, class);
	} else if (room < DEEP_MAX) {
		d->most = (uint8_t)max_u64(d->most, class);
		if (!t->known || (t->class && deep_bytes[t->class] <= room))
			set_class(d, t, class);
	}
}

bool deep_find(struct deep *d, const struct deep_sample *s, struct deep_stack *ret)
{
	const struct sample_key key = {.tid = s->tid, .sp = s->sp, .time = s->time};
	const struct at_sample_record *head;

	for (size_t i = 0; (head = records_find(&d->records, &key, &i)); i++) {
		size_t room = waiting_at(&d->records, i)->len - sizeof(*head);

		if (!is_of(head, s, ret))
			continue;
		ret->position = records_take(&d->records, i);
		d->copied++;
		if (ret->full)
			outgrown(d, s->tid, (uint32_t)room, head->len);
		return true;
	}
	return false;
}

void deep_put(struct deep *d, uint64_t position)
{
	bpf_ring_put(d->records.ring, position);
}

int deep_expire(struct deep *d, uint64_t now)
{
	records_expire(&d->records, now - DEEP_KEEP_MS * NSEC_PER_MSEC);
	return d->records.broken;
}

/* ---- classes ---- */

void deep_learn(struct deep *d, uint32_t tid, uint64_t used, uint32_t room, bool whole)
{
	struct deep_thread *t = &d->threads[tid % DEEP_THREADS];
	uint8_t now, wanted;

	if (t->tid != tid)
		*t = (struct deep_thread){.tid = tid};
	now = t->known ? t->class : d->first;
	/* One that nearly fills its copies is about to grow beyond them. */
	if (whole && used <= room - room / 8) {
		if ((!t->known || now) && ++t->calm >= DEEP_CALM)
			set_class(d, t, 0);
		return;
	}
	t->calm = 0;
	/* a quarter more: the next stack may be deeper, and begins inside a page */
	wanted = class_of(max_u64(used, room) * 5 / 4 + DEEP_PAGE);
	if (!whole && now && wanted <= now && used >= deep_bytes[now] / 2)
		wanted = (uint8_t)(now + 1u);
	wanted = (uint8_t)min_u64(wanted, d->most);
	t->needed = (uint8_t)min_u64(max_u64(t->needed, wanted), d->most);
	if (!t->known || wanted > now || ++t->lower >= DEEP_LOWER)
		set_class(d, t, t->needed);
	else if (wanted == now)
		t->lower = t->needed = 0;
}

bool deep_copies(const struct deep *d, uint64_t used)
{
	/* A class that there was no time for was filled in part. */
	size_t class = d->most + 1u == ARRAY_SIZE(deep_bytes) ? d->most : d->most - 1u;

	return deep_fd(d) >= 0 && used <= deep_bytes[class];
}

void deep_set_room(struct deep *d, uint32_t bytes)
{
	d->first = class_of(4ull * bytes);
	__atomic_store_n(&d->table->room, bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&d->table->first, d->first, __ATOMIC_RELAXED);
}

void deep_set_rate(struct deep *d, uint64_t hz)
{
	enum { SHARE = 4 };

	__atomic_store_n(&d->table->most_ns, NSEC_PER_SEC / hz / SHARE, __ATOMIC_RELAXED);
}

void deep_count(const struct deep *d, struct deep_counts *ret_counts)
{
	*ret_counts = (struct deep_counts){
		.copied = d->copied,
		.lost = __atomic_load_n(&d->table->lost, __ATOMIC_RELAXED),
		.unused = d->records.unused,
	};
}

/* Copies nothing until deep_begin().  Errors: as records_init(), and -ENOMEM. */
static int deep_new(struct deep **ret_deep)
{
	struct deep *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return fail(-ENOMEM);
	d->memory.fd = -1;
	d->table = &d->own_table;
	d->most = ARRAY_SIZE(deep_bytes) - 1;
	r = records_init(&d->records);
	if (r < 0) {
		free(d);
		return trace(r);
	}
	deep_set_room(d, 65528);
	deep_set_rate(d, 1);
	*ret_deep = d;
	return 0;
}

/* Bytes of the ring, 16 to 64 MiB. */
static size_t deep_ring_bytes(size_t n_cpus)
{
	enum { PER_CPU = 4 << 20, LEAST = 16 << 20, MOST = 64 << 20 };

	return round_up_power_of_two(min_u64(max_u64(n_cpus * PER_CPU, LEAST), MOST));
}

/* Consumes the descriptors of the program's ring of @ring_bytes and of its table (struct deep_table). */
static int deep_begin(struct deep *d, int ring_fd, size_t ring_bytes, int table_fd)
{
	int r = bpf_memory_open(table_fd, sizeof(*d->table), &d->memory);

	if (r < 0) {
		(void)fd_close(ring_fd);
		return trace(r);
	}
	r = bpf_ring_open(ring_fd, ring_bytes, &d->records.ring);
	if (r < 0)
		return trace(r);
	d->table = d->memory.at;
	memcpy(d->table->threads, d->own_table.threads, sizeof(d->table->threads));
	deep_set_room(d, d->own_table.room);
	d->table->most_ns = d->own_table.most_ns;
	return 0;
}

static struct deep *deep_free(struct deep *d)
{
	if (!d)
		return NULL;
	if (d->records.ring) {
		struct deep_counts counts;

		deep_count(d, &counts);
		log_verbose("deep stacks: %lu copied at the sample, %lu without room in the ring, "
			    "%lu without a sample",
			    counts.copied, counts.lost, counts.unused);
	}
	records_deinit(&d->records);
	bpf_memory_deinit(&d->memory);
	free(d);
	return NULL;
}

static void deep_set_clock(struct deep *d, int clock)
{
	records_set_clock(&d->records, clock);
}

int deep_fd(const struct deep *d)
{
	return d->records.ring ? bpf_ring_fd(d->records.ring) : -1;
}

/* ---- the frames of CPython ---- */

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

size_t python_stacks_room(const struct python_stacks *s)
{
	return s->records.ring ? bpf_ring_room(s->records.ring) / sizeof(struct python_record)
			       : SIZE_MAX;
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
	p->code_type = t->code_type;
	__atomic_store_n(&p->key, (uint64_t)tgid << 32 | t->kind, __ATOMIC_RELEASE);
}

/* Copies nothing until python_stacks_begin().  Errors: as records_init(), and -ENOMEM. */
static int python_stacks_new(struct python_stacks **ret_stacks)
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

/* Bytes of the ring, 4 to 32 MiB. */
static size_t python_stacks_ring_bytes(size_t n_cpus)
{
	enum { PER_CPU = 1 << 20, LEAST = 4 << 20, MOST = 32 << 20 };

	return round_up_power_of_two(min_u64(max_u64(n_cpus * PER_CPU, LEAST), MOST));
}

/* Consumes the descriptors of the program's ring of @ring_bytes and of its table (struct python_table). */
static int python_stacks_begin(struct python_stacks *s, int ring_fd, size_t ring_bytes,
			       int table_fd)
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

int python_stacks_fd(const struct python_stacks *s)
{
	return s->records.ring ? bpf_ring_fd(s->records.ring) : -1;
}

static struct python_stacks *python_stacks_free(struct python_stacks *s)
{
	if (!s)
		return NULL;
	records_deinit(&s->records);
	bpf_memory_deinit(&s->memory);
	free(s);
	return NULL;
}

static void python_stacks_set_clock(struct python_stacks *s, int clock)
{
	records_set_clock(&s->records, clock);
}

/* ---- loading the program ---- */

enum map { DEEP_RING, DEEP_TABLE, PYTHON_RING, PYTHON_TABLE, MAPS };
_Static_assert((int)MAPS == AT_SAMPLE_MAPS, "all maps");
#define NONE                   \
	{                      \
		-1, -1, -1, -1 \
	}

/* The program that is wanted. */
struct plan {
	size_t bytes[MAPS]; /* 0: not wanted */
};

struct made {
	int maps[MAPS], program; /* -1: none */
};

enum { ROOM = 4096 }; /* at least sizeof(struct answer) */

enum step { STEP_LOAD = 1, STEP_GIVE, STEP_BEGIN = STEP_GIVE + MAPS };

struct request {
	uint32_t step;
	struct plan plan;
};

struct answer {
	int32_t result;
	char why[256];
};

static void made_deinit(struct made *made)
{
	for (size_t i = 0; i < MAPS; i++)
		made->maps[i] = fd_close(made->maps[i]);
	made->program = fd_close(made->program);
}

/* Those that were not made for an earlier program. */
static int make_maps(const struct plan *plan, struct made *made)
{
	for (size_t i = 0; i < MAPS; i++) {
		bool ring = i == DEEP_RING || i == PYTHON_RING;

		if (!plan->bytes[i] || made->maps[i] >= 0)
			continue;
		made->maps[i] =
			ring ? bpf_ring_map(plan->bytes[i]) : bpf_memory_map(plan->bytes[i]);
		if (made->maps[i] < 0)
			return fail(made->maps[i]);
	}
	return 0;
}

static int load(const struct made *made, const struct at_sample_settings *settings,
		const char *program, char *why, size_t why_size)
{
	const struct bpf_map_of maps[] = {
		{"deep_ring", made->maps[DEEP_RING]},
		{"deep_table", made->maps[DEEP_TABLE]},
		{"python_ring", made->maps[PYTHON_RING]},
		{"python_table", made->maps[PYTHON_TABLE]},
	};

	return bpf_program_new(program, settings, sizeof(*settings), maps, ARRAY_SIZE(maps), why,
			       why_size);
}

/* Samples of kernel code need BTF and a newer kernel; so do the loops of Python's frames. */
static int load_best(const struct plan *plan, struct made *made, char *why, size_t why_size)
{
	struct at_sample_settings settings = {
		.deep = plan->bytes[DEEP_RING] != 0,
		.python = plan->bytes[PYTHON_RING] != 0,
		.deep_ring_bytes = (uint32_t)plan->bytes[DEEP_RING],
	};
	static const char *const programs[] = {"at_sample", "at_sample_deep"};
	int r = -EINVAL;

	for (size_t i = !settings.python; i < ARRAY_SIZE(programs) && (i == 0 || settings.deep);
	     i++) {
		for (int in_kernel = 1; in_kernel >= 0; in_kernel--) {
			settings.in_kernel = (uint8_t)in_kernel;
			r = load(made, &settings, programs[i], why, why_size);
			if (r >= 0)
				made->program = r;
			if (r >= 0 && i > 0) {
				made->maps[PYTHON_RING] = fd_close(made->maps[PYTHON_RING]);
				made->maps[PYTHON_TABLE] = fd_close(made->maps[PYTHON_TABLE]);
			}
			if (r >= 0 || (r != -EINVAL && r != -EACCES && r != -ENOTSUP))
				return r;
		}
	}
	return r;
}

/* < 0: a line in @why. */
static int make(const struct plan *plan, struct made *made, char *why, size_t why_size)
{
	int r = make_maps(plan, made);

	if (r < 0)
		(void)snprintf(why, why_size, "no BPF program at samples: %s", strerror(-r));
	else
		r = load_best(plan, made, why, why_size);
	return r < 0 ? r : 0;
}

/* ---- pw-bpf ---- */

static void *begin_loading(const void *arg)
{
	struct made *made = malloc(sizeof(*made));

	(void)arg;
	if (made)
		*made = (struct made){.maps = NONE, .program = -1};
	return made;
}

static void serve(void *kept, struct helper_call *call)
{
	struct made *made = kept;
	struct answer answer = {.result = 0};
	struct request request;

	if (call->request_len != sizeof(request) || call->room < sizeof(answer))
		return;
	memcpy(&request, call->request, sizeof(request));
	if (request.step == STEP_LOAD) {
		answer.result = make(&request.plan, made, answer.why, sizeof(answer.why));
	} else if (request.step < STEP_BEGIN) {
		call->answer_fd = fcntl(made->maps[request.step - STEP_GIVE], F_DUPFD_CLOEXEC, 0);
	} else {
		answer.result = bpf_array_put(call->fd, made->program);
		made->program = fd_close(made->program);
		(void)snprintf(answer.why, sizeof(answer.why),
			       "the events' array does not take it: %s", strerror(-answer.result));
	}
	memcpy(call->answer, &answer, sizeof(answer));
	call->answer_len = sizeof(answer);
}

/* RESOURCE: before 5.11 maps count as locked memory, and libbpf raises the limit.  Some containers grant SYS_ADMIN alone. */
static uint64_t rights_to_load(void)
{
	const uint64_t bpf = CAPS_BIT(CAP_BPF) | CAPS_BIT(CAP_PERFMON);
	struct caps caps;

	if (caps_get(&caps) < 0 || (caps.effective & bpf) == bpf)
		return bpf | CAPS_BIT(CAP_SYS_RESOURCE);
	return bpf | CAPS_BIT(CAP_SYS_RESOURCE) | CAPS_BIT(CAP_SYS_ADMIN);
}

static int make_later(struct at_sample *a)
{
	const struct helper_role role = {
		.name = "pw-bpf",
		.room = ROOM,
		.rights = rights_to_load(),
		.calls = CHILD_CALLS_BPF,
		.begin = begin_loading,
		.serve = serve,
	};

	a->array_fd = bpf_array_new();
	if (a->array_fd >= 0)
		a->program_fd = bpf_jump_new(a->array_fd);
	if (a->array_fd < 0 || a->program_fd < 0)
		return fail(a->array_fd < 0 ? a->array_fd : a->program_fd);
	return trace(helper_new(&role, NULL, &a->helper));
}

static uint32_t all_parts(const struct at_sample *a)
{
	return (a->deep ? AT_SAMPLE_DEEP : 0) | (a->python ? AT_SAMPLE_PYTHON : 0);
}

static struct plan plan_of(uint32_t parts)
{
	size_t n_cpus = (size_t)max_u64(1, (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	struct plan plan = {.bytes = {0}};

	if (parts & AT_SAMPLE_DEEP) {
		plan.bytes[DEEP_RING] = deep_ring_bytes(n_cpus);
		plan.bytes[DEEP_TABLE] = sizeof(struct deep_table);
	}
	if (parts & AT_SAMPLE_PYTHON) {
		plan.bytes[PYTHON_RING] = python_stacks_ring_bytes(n_cpus);
		plan.bytes[PYTHON_TABLE] = sizeof(struct python_table);
	}
	return plan;
}

/* Maps what was made.  Without loops in programs there are no maps for Python. */
static int map_all(struct at_sample *a, const struct plan *plan)
{
	int *m = a->maps, ring, table, r = 0;

	if (a->deep && m[DEEP_RING] >= 0) {
		ring = take_fd(m[DEEP_RING]);
		table = take_fd(m[DEEP_TABLE]);
		r = deep_begin(a->deep, ring, plan->bytes[DEEP_RING], table);
	}
	if (r >= 0 && a->python && m[PYTHON_RING] >= 0) {
		ring = take_fd(m[PYTHON_RING]);
		table = take_fd(m[PYTHON_TABLE]);
		r = python_stacks_begin(a->python, ring, plan->bytes[PYTHON_RING], table);
	}
	return trace(r);
}

static int make_now(struct at_sample *a, char *why, size_t why_size)
{
	struct plan plan = plan_of(all_parts(a));
	struct made made = {.maps = NONE, .program = -1};
	int r = make(&plan, &made, why, why_size);

	if (r < 0) {
		made_deinit(&made);
		return r;
	}
	memcpy(a->maps, made.maps, sizeof(a->maps));
	a->program_fd = made.program;
	if (a->maps[PYTHON_RING] < 0)
		a->python = python_stacks_free(a->python);
	return map_all(a, &plan);
}

/* ---- life cycle ---- */

static struct at_sample *sample_alloc(void)
{
	struct at_sample *a = calloc(1, sizeof(*a));

	if (a)
		*a = (struct at_sample){.program_fd = -1, .array_fd = -1, .maps = NONE};
	return a;
}

int at_sample_new(const struct at_sample_options *o, struct at_sample **ret_sample, char *why,
		  size_t why_size)
{
	struct at_sample *a;
	int r;

	*why = 0;
	*ret_sample = NULL;
	if (!o->deep && !o->python)
		return 0;
	if (!o->features->has[FEATURE_BPF]) {
		(void)snprintf(why, why_size, "%s", feature_words(FEATURE_BPF, false));
		return 0;
	}
	a = sample_alloc();
	if (!a)
		return fail(-ENOMEM);
	r = o->deep ? deep_new(&a->deep) : 0;
	if (r >= 0 && o->python)
		r = python_stacks_new(&a->python);
	if (r >= 0)
		r = o->later ? make_later(a) : make_now(a, why, why_size);
	if (r < 0) {
		if (!*why)
			(void)snprintf(why, why_size, "no BPF program at samples: %s",
				       strerror(-r));
		(void)at_sample_free(a);
		return r == -ENOMEM ? fail(r) : 0;
	}
	*why = 0;
	*ret_sample = a;
	return 0;
}

void at_sample_set_clock(struct at_sample *a, int clock)
{
	if (a->deep)
		deep_set_clock(a->deep, clock);
	if (a->python)
		python_stacks_set_clock(a->python, clock);
}

struct at_sample *at_sample_free(struct at_sample *a)
{
	if (!a)
		return NULL;
	a->helper = helper_free(a->helper);
	for (size_t i = 0; i < MAPS; i++)
		a->maps[i] = fd_close(a->maps[i]);
	a->program_fd = fd_close(a->program_fd);
	a->array_fd = fd_close(a->array_fd);
	a->deep = deep_free(a->deep);
	a->python = python_stacks_free(a->python);
	free(a);
	return NULL;
}

/* ---- later ---- */

static int ask(struct at_sample *a, uint32_t step)
{
	struct request request = {.step = step, .plan = plan_of(a->asked)};

	a->step = step;
	return trace(helper_ask(a->helper, &request, sizeof(request),
				step == STEP_BEGIN ? a->array_fd : -1));
}

static int refused(struct at_sample *a, const char *why)
{
	log_verbose("no BPF program at samples: %s", why);
	a->helper = helper_free(a->helper);
	return AT_SAMPLE_REFUSED;
}

int at_sample_want(struct at_sample *a, uint32_t parts)
{
	a->wanted |= parts & AT_SAMPLE_PYTHON ? all_parts(a) : parts & all_parts(a);
	if (!a->helper || a->step || a->wanted == a->asked)
		return -1;
	a->asked = a->wanted;
	if (ask(a, STEP_LOAD) < 0) {
		(void)refused(a, "pw-bpf has ended");
		return -1;
	}
	return helper_fd(a->helper);
}

/* < 0: a line in @answer. */
static int take_answer(struct at_sample *a, int map, struct answer *answer)
{
	_cleanup_(fd_closep) int fd = -1;
	const uint8_t *bytes;
	size_t len;
	int r = helper_answer(a->helper, &bytes, &len, &fd);

	*answer = (struct answer){.why = "pw-bpf has ended"};
	if (r != 0)
		return r;
	if (len != sizeof(*answer))
		return fail(-EBADMSG);
	memcpy(answer, bytes, sizeof(*answer));
	answer->why[sizeof(answer->why) - 1] = 0;
	if (answer->result >= 0 && map >= 0)
		a->maps[map] = take_fd(fd);
	return answer->result < 0 ? answer->result : 0;
}

/* The program has begun. */
static int begun(struct at_sample *a)
{
	a->step = 0;
	if (a->asked == all_parts(a))
		a->helper = helper_free(a->helper);
	log_verbose("the BPF program runs at samples");
	return 0;
}

/* The first step from @step on that is needed: maps of an earlier program are here. */
static uint32_t step_from(const struct at_sample *a, uint32_t step, const struct plan *plan)
{
	for (; step < STEP_BEGIN; step++) {
		uint32_t map = step - STEP_GIVE;
		bool of_python = map == PYTHON_RING || map == PYTHON_TABLE;

		if (plan->bytes[map] &&
		    !(of_python ? a->python->records.ring : a->deep->records.ring))
			break;
	}
	return step;
}

int at_sample_answer(struct at_sample *a)
{
	int map = a->step >= STEP_GIVE && a->step < STEP_BEGIN ? (int)a->step - STEP_GIVE : -1;
	struct plan plan = plan_of(a->asked);
	struct answer answer;
	uint32_t next;
	int r;

	if (!a->helper)
		return AT_SAMPLE_REFUSED;
	r = take_answer(a, map, &answer);
	if (r == HELPER_WAITING)
		return AT_SAMPLE_WAITS;
	if (r < 0)
		return refused(a, answer.why);
	if (a->step == STEP_BEGIN)
		return begun(a);
	next = step_from(a, a->step + 1, &plan);
	r = next == STEP_BEGIN ? map_all(a, &plan) : 0;
	if (r >= 0)
		r = ask(a, next);
	return r < 0 ? refused(a, strerror(-r)) : AT_SAMPLE_WAITS;
}
