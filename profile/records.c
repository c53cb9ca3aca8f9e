/* records.c - samples and tasks one by one, as text (str) and as fixed records to be mapped (bin): docs/snapshot-format.md.
 *
 * Kernel symbols: a trace has the name of a kernel frame and, with `record --collect addresses`, its address.  Offset and
 * size come from /proc/kallsyms of the machine that exports, where it has that name at that address: then it is
 * the kernel that was recorded, or equal to it there. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "profile/fold.h"
#include "profile/profile-export.h"
#include "profile/profile-text.h"
#include "symbols/kallsyms.h"

enum { FLUSH = 1 << 20, CPUS = UINT16_MAX + 1, MODE_USER = 2 };

struct records {
	const struct profile *profile;
	const struct profile_filter *only;
	struct fold fold;
	struct uw_kallsyms *kallsyms; /* NULL: none, or hidden */
	struct table task_by_pid;     /* index in tasks; the last one that was read */
	struct buffer out;
	FILE *file;
};

static void records_deinit(struct records *r)
{
	fold_deinit(&r->fold);
	(void)uw_kallsyms_free(r->kallsyms);
	table_deinit(&r->task_by_pid);
	buffer_deinit(&r->out);
}

static int records_init(struct records *r, const struct profile *p,
			const struct profile_filter *only, FILE *file)
{
	const struct profile_filter none = {.by_time = true}; /* nothing is grouped but names */
	_cleanup_(fd_closep) int fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
	int e;

	*r = (struct records){.profile = p, .only = only, .file = file};
	e = fold_init(&r->fold, p, &none);
	for (size_t i = 0; i < p->n_tasks && e >= 0; i++)
		e = table_put(&r->task_by_pid, p->tasks[i].pid, i);
	if (e >= 0 && fd >= 0)
		(void)uw_kallsyms_new(fd, &r->kallsyms); /* without: names alone */
	return e < 0 ? trace(e) : 0;
}

static int put_out(struct records *r, size_t keep)
{
	if (r->out.bad)
		return fail(-ENOMEM);
	if (r->out.len > keep) {
		(void)fwrite(r->out.data, 1, r->out.len, r->file);
		r->out.len = 0;
	}
	return 0;
}

static int16_t oom_of(const struct records *r, const struct profile_sample *s)
{
	uint64_t index;

	if (!table_get(&r->task_by_pid, profile_sample_pid(r->profile, s), &index))
		return PROFILE_TASK_NO_OOM;
	return r->profile->tasks[index].oom_score_adj;
}

static bool is_wanted(const struct records *r, const struct profile_sample *s)
{
	return !s->skipped_reason && (!r->only || profile_sample_wanted(r->profile, s, r->only));
}

/* The innermost frame; NULL: none. */
static const struct profile_frame *leaf_of(const struct records *r, const struct profile_sample *s)
{
	const struct profile *p = r->profile;

	if (s->stack >= p->n_nodes || fold_is_error(&r->fold, s->stack))
		return NULL;
	return &p->frames[p->nodes[s->stack].frame];
}

/* The address of a sample's innermost frame; UINT64_MAX: unknown.  Kernel addresses are recorded without their highest bit. */
static uint64_t pc_of(const struct profile_frame *f, bool user)
{
	if (!f || (!user && !f->rel_pc))
		return UINT64_MAX;
	return user ? profile_frame_address(f) : f->rel_pc | 1ull << 63;
}

/* ---- text ---- */

/* The symbol that has @name at @address: its start and size. */
static bool find_symbol(const struct records *r, const char *name, uint64_t address,
			uint64_t *ret_start, uint64_t *ret_size)
{
	size_t n = r->kallsyms ? uw_kallsyms_count(r->kallsyms) : 0, low;
	struct uw_kallsyms_symbol symbol, next;

	low = bisect(i, n, (uw_kallsyms_at(r->kallsyms, i, &symbol), symbol.start <= address));
	if (!low || low >= n)
		return false;
	uw_kallsyms_at(r->kallsyms, low - 1, &symbol);
	uw_kallsyms_at(r->kallsyms, low, &next);
	*ret_start = symbol.start;
	*ret_size = next.start - symbol.start;
	return !strcmp(symbol.name, name);
}

static void print_kernel(struct records *r, const struct profile_sample *s, uint64_t pc)
{
	uint32_t frame = r->profile->nodes[s->stack].frame;
	uint32_t symbol = fold_call_symbol(r->fold.calls[r->fold.first_call[frame]]);
	const char *name = fold_symbol_name(&r->fold, symbol);
	uint64_t start, size;

	text_clean(&r->out, name);
	if (pc == UINT64_MAX)
		return;
	if (find_symbol(r, name, pc, &start, &size))
		buffer_printf(&r->out, "+0x%" PRIx64 "/0x%" PRIx64, pc - start, size);
	buffer_printf(&r->out, "[0x%" PRIx64 "]", pc);
}

static int print_sample(struct records *r, const struct profile_sample *s)
{
	const struct profile_frame *f = leaf_of(r, s);
	bool user = s->cpu_mode == MODE_USER;
	int16_t oom = oom_of(r, s);

	buffer_append(&r->out, user ? "u " : "k ", 2);
	text_clean(&r->out, profile_thread_name(r->profile, s->thread));
	if (oom == PROFILE_TASK_NO_OOM)
		buffer_append(&r->out, " - ", 3);
	else
		buffer_printf(&r->out, " %d ", oom);
	if (!f)
		buffer_append(&r->out, "[unknown]", 9);
	else if (user)
		buffer_printf(&r->out, "[0x%" PRIx64 "]", profile_frame_address(f));
	else
		print_kernel(r, s, pc_of(f, false));
	buffer_append(&r->out, "\n", 1);
	return put_out(r, FLUSH);
}

/* By CPU, then by time: a sort by counting. */
static int print_cpus(struct records *r)
{
	const struct profile *p = r->profile;
	_cleanup_(freep) size_t *first = calloc(CPUS + 1, sizeof(*first));
	_cleanup_(freep) uint32_t *order = malloc((p->n_samples + 1) * sizeof(*order));
	int e = 0;

	if (!first || !order)
		return fail(-ENOMEM);
	for (size_t i = 0; i < p->n_samples; i++)
		first[p->samples[i].cpu + 1u] += is_wanted(r, &p->samples[i]);
	for (size_t cpu = 0; cpu < CPUS; cpu++)
		first[cpu + 1] += first[cpu];
	for (size_t i = 0; i < p->n_samples; i++)
		if (is_wanted(r, &p->samples[i]))
			order[first[p->samples[i].cpu]++] = (uint32_t)i;
	/* first[cpu] is now where the next CPU begins. */
	for (size_t cpu = 0, i = 0; cpu < CPUS && e >= 0; cpu++) {
		if (i < first[cpu])
			buffer_printf(&r->out, "cpu:%zu\n", cpu);
		for (; i < first[cpu] && e >= 0; i++)
			e = print_sample(r, &p->samples[order[i]]);
	}
	return e < 0 ? trace(e) : 0;
}

static void print_pair(struct records *r, const char *first, uint64_t a, const char *second,
		       uint64_t b)
{
	if (a != PROFILE_TASK_NONE)
		buffer_printf(&r->out, "%s:%" PRIu64 "%s", first, a,
			      second && b != PROFILE_TASK_NONE ? " " : "\n");
	if (second && b != PROFILE_TASK_NONE)
		buffer_printf(&r->out, "%s:%" PRIu64 "\n", second, b);
}

static int print_task(struct records *r, const struct profile_task *t)
{
	buffer_append(&r->out, "comm:", 5);
	text_clean(&r->out, t->comm ? string_table_text(&r->profile->strings, t->comm) : "-");
	buffer_printf(&r->out, " pid:%u\nstatus:%s\n", t->pid,
		      t->ended ? "PROCESS_EXIT" : "PROCESS_INSERT");
	print_pair(r, "utime", t->utime_ns, "stime", t->stime_ns);
	print_pair(r, "read_bytes", t->read_bytes, "write_bytes", t->write_bytes);
	print_pair(r, "cancelled_write_bytes", t->cancelled_write_bytes, NULL, 0);
	return put_out(r, FLUSH);
}

static int write_text(struct records *r)
{
	int e;

	buffer_append(&r->out, "perf\n", 5);
	e = print_cpus(r);
	buffer_append(&r->out, "task\n", 5);
	for (size_t i = 0; i < r->profile->n_tasks && e >= 0; i++)
		e = print_task(r, &r->profile->tasks[i]);
	if (e >= 0)
		e = put_out(r, 0);
	return e < 0 ? trace(e) : text_finish(r->file);
}

int export_str(const struct profile *profile, const struct export_options *options, FILE *out)
{
	struct records r;
	int e = records_init(&r, profile, options ? &options->only : NULL, out);

	if (e >= 0)
		e = write_text(&r);
	records_deinit(&r);
	return e < 0 ? trace(e) : 0;
}

/* ---- binary ---- */

enum { NAME_MAX_BYTES = 24, PERF_RECORD = 32, TASK_RECORD = 64, COMM_BYTES = 16 };
enum { FORMAT_NUMBER = 1, FORMAT_TEXT = 2 };

struct bin_field {
	char name[NAME_MAX_BYTES];
	uint8_t format, is_signed;
	uint16_t offset, size, zero;
};
struct bin_section {
	uint32_t kind, record_size;
	uint64_t n_records, offset;
	uint32_t n_fields, first_field;
};
struct bin_head {
	char magic[8];
	uint32_t byte_order, page_size, n_sections, n_fields;
	struct bin_section sections[2];
	struct bin_field fields[13];
};
struct perf_record {
	uint64_t pc;
	uint8_t is_user, zero;
	int16_t oom_score_adj;
	char comm[COMM_BYTES];
	uint32_t end;
};
struct task_record {
	uint8_t status, zero[3];
	int32_t pid;
	char comm[COMM_BYTES];
	uint64_t utime, stime, read_bytes, write_bytes, cancelled_write_bytes;
};
_Static_assert(sizeof(struct perf_record) == PERF_RECORD, "docs/snapshot-format.md");
_Static_assert(sizeof(struct task_record) == TASK_RECORD, "docs/snapshot-format.md");
_Static_assert(sizeof(struct bin_head) <= 4096, "one page");

#define FIELD(record, member, format_, signed_)                               \
	{                                                                     \
		.name = #member, .format = (format_), .is_signed = (signed_), \
		.offset = offsetof(struct record, member),                    \
		.size = sizeof(((struct record *)NULL)->member),              \
	}
static const struct bin_head bin_head = {
	.magic = "PWSNAP1",
	.byte_order = 0x01020304,
	.n_sections = 2,
	.n_fields = 12,
	.sections = {{.kind = 1, .record_size = PERF_RECORD, .n_fields = 4},
		     {.kind = 2, .record_size = TASK_RECORD, .n_fields = 8, .first_field = 4}},
	.fields = {FIELD(perf_record, pc, FORMAT_NUMBER, 0),
		   FIELD(perf_record, is_user, FORMAT_NUMBER, 0),
		   FIELD(perf_record, oom_score_adj, FORMAT_NUMBER, 1),
		   FIELD(perf_record, comm, FORMAT_TEXT, 0),
		   FIELD(task_record, status, FORMAT_NUMBER, 0),
		   FIELD(task_record, pid, FORMAT_NUMBER, 1),
		   FIELD(task_record, comm, FORMAT_TEXT, 0),
		   FIELD(task_record, utime, FORMAT_NUMBER, 0),
		   FIELD(task_record, stime, FORMAT_NUMBER, 0),
		   FIELD(task_record, read_bytes, FORMAT_NUMBER, 0),
		   FIELD(task_record, write_bytes, FORMAT_NUMBER, 0),
		   FIELD(task_record, cancelled_write_bytes, FORMAT_NUMBER, 0)},
};

static uint64_t whole_pages(uint64_t bytes, uint64_t page)
{
	return (bytes + page - 1) / page * page;
}

static void append_zeros(struct buffer *b, uint64_t n)
{
	static const uint8_t zeros[256];

	for (; n; n -= min_u64(n, sizeof(zeros)))
		buffer_append(b, zeros, min_u64(n, sizeof(zeros)));
}

static void append_perf(struct records *r, const struct profile_sample *s)
{
	const struct profile_frame *f = leaf_of(r, s);
	bool user = s->cpu_mode == MODE_USER;
	struct perf_record record = {
		.pc = pc_of(f, user),
		.is_user = user,
		.oom_score_adj = oom_of(r, s),
	};

	(void)snprintf(record.comm, sizeof(record.comm), "%s",
		       profile_thread_name(r->profile, s->thread));
	buffer_append(&r->out, &record, sizeof(record));
}

static void append_task(struct records *r, const struct profile_task *t)
{
	struct task_record record = {
		.status = t->ended,
		.pid = (int32_t)t->pid,
		.utime = t->utime_ns,
		.stime = t->stime_ns,
		.read_bytes = t->read_bytes,
		.write_bytes = t->write_bytes,
		.cancelled_write_bytes = t->cancelled_write_bytes,
	};

	if (t->comm)
		(void)snprintf(record.comm, sizeof(record.comm), "%s",
			       string_table_text(&r->profile->strings, t->comm));
	buffer_append(&r->out, &record, sizeof(record));
}

static int write_binary(struct records *r)
{
	const struct profile *p = r->profile;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), n = 0, size;
	struct bin_head head = bin_head;
	int e = 0;

	for (size_t i = 0; i < p->n_samples; i++)
		n += is_wanted(r, &p->samples[i]);
	size = n * PERF_RECORD;
	head.page_size = (uint32_t)page;
	head.sections[0].n_records = n;
	head.sections[0].offset = page;
	head.sections[1].n_records = p->n_tasks;
	head.sections[1].offset = page + whole_pages(size, page);
	buffer_append(&r->out, &head, sizeof(head));
	append_zeros(&r->out, page - sizeof(head));
	for (size_t i = 0; i < p->n_samples && e >= 0; i++) {
		if (is_wanted(r, &p->samples[i]))
			append_perf(r, &p->samples[i]);
		e = put_out(r, FLUSH);
	}
	append_zeros(&r->out, whole_pages(size, page) - size);
	for (size_t i = 0; i < p->n_tasks && e >= 0; i++) {
		append_task(r, &p->tasks[i]);
		e = put_out(r, FLUSH);
	}
	if (e >= 0)
		e = put_out(r, 0);
	return e < 0 ? trace(e) : text_finish(r->file);
}

int export_bin(const struct profile *profile, const struct export_options *options, FILE *out)
{
	struct records r;
	int e = records_init(&r, profile, options ? &options->only : NULL, out);

	if (e >= 0)
		e = write_binary(&r);
	records_deinit(&r);
	return e < 0 ? trace(e) : 0;
}
