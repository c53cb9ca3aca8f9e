/* profile.c - see profile.h: the file, what it seems to be, and how things are shown. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/error.h"
#include "profile/profile-reader.h"
#include "profile/profile-text.h"
#include "protos/trace.fields.h"
#include "protos/trace.pb-c.h"

/* ---- bounds ----
 *
 * How much a trace may hold, and what a reader reports of one that holds more.
 *
 * A trace of a few megabytes can unpack to gigabytes, and a gigabyte of small things can take ten of
 * memory.  So each kind of thing has a bound, and the bytes of all kinds together have one.  The
 * bounds are fixed for a trace below 100 MiB and grow with a larger one: a file that long is a long
 * recording.  They are some times of what the densest recordings hold (46 MB of g++ at 12 kHz: 1.2 M
 * samples, 5 M calls of stacks, 0.2 M frames); what they cost together stays below 512 MB. */

#define SMALL (100ull << 20) /* bytes of a trace that the bounds below are for */
#define READ_MEMORY (384ull << 20)
#define WRITE_MEMORY (456ull << 20)
#define INFLATED (2048ull << 20)

static const struct {
	const char *what;
	uint64_t max;
} bounds[HELD_KINDS] = {
	[HELD_PACKETS] = {"packets", 64 << 20},
	[HELD_SAMPLES] = {"samples", 8 << 20},
	[HELD_PROCESSES] = {"processes", 1 << 20},
	[HELD_THREADS] = {"threads", 1 << 20},
	[HELD_NODES] = {"different calls in its stacks", 24 << 20},
	[HELD_FRAMES] = {"frames", 2 << 20},
	[HELD_LINES] = {"source lines", 4 << 20},
	[HELD_MODULES] = {"mappings", 256 << 10},
	[HELD_NAMES] = {"names", 1 << 20},
	[HELD_TEXT] = {"bytes of names", 64 << 20},
	[HELD_DEMANGLED] = {"bytes of demangled names", 256 << 20},
	[HELD_INTERNED] = {"interned entries at a time", 8 << 20},
	[HELD_SEQUENCES] = {"sequences", 64 << 10},
	[HELD_SYMBOLS] = {"symbols of modules", 2 << 20},
	[HELD_STATS] = {"figures of the recorder", 64 << 10},
	[HELD_COUNTS] = {"statistics", 64 << 10},
	[HELD_CLOCKS] = {"readings of clocks", 1 << 20},
	[HELD_FOLLOWERS] = {"counts of followers", 24 << 20},
	[HELD_NUMBERS] = {"numbers of processes and threads", 4 << 20},
	[HELD_STREAMS] = {"CPUs of its sequences", 1 << 20},
	[HELD_TRACKS] = {"tracks", 256 << 10},
	[HELD_MARKS] = {"marks", 4 << 20},
};

static uint64_t scale_of(const struct reader *r)
{
	return max_u64(r->fed, SMALL);
}

static uint64_t scaled(const struct reader *r, uint64_t bound)
{
	return (uint64_t)((double)bound * ((double)scale_of(r) / (double)SMALL));
}

static struct profile_memory *memory_of(struct reader *r)
{
	return r->profile->memory;
}

/* "of a trace below 100 MiB", "of a trace of 412.0 MiB" */
static const char *of_a_trace(const struct reader *r, char to[64])
{
	char size[32];

	if (scale_of(r) == SMALL)
		(void)snprintf(to, 64, "of a trace below 100 MiB");
	else
		(void)snprintf(to, 64, "of a trace of %s", text_size(r->fed, size));
	return to;
}

static int too_large(struct reader *r, const char *what, uint64_t bound)
{
	struct profile_memory *memory = memory_of(r);
	char number[32], trace_size[64];

	(void)snprintf(memory->why, sizeof(memory->why), "more than %s %s: the bound %s",
		       text_count(bound, number), what, of_a_trace(r, trace_size));
	return fail(-E2BIG);
}

int reader_hold(struct reader *r, enum reader_kind kind, uint64_t n, uint64_t bytes)
{
	r->n_held[kind] += n;
	r->held += bytes;
	if (r->n_held[kind] > bounds[kind].max && r->n_held[kind] > scaled(r, bounds[kind].max))
		return too_large(r, bounds[kind].what, scaled(r, bounds[kind].max));
	if (r->held > READ_MEMORY && r->held > scaled(r, READ_MEMORY))
		return too_large(r, "MiB of memory for all that it holds",
				 scaled(r, READ_MEMORY) >> 20);
	return 0;
}

void reader_release(struct reader *r, enum reader_kind kind, uint64_t n, uint64_t bytes)
{
	r->n_held[kind] -= n;
	r->held -= bytes;
}

int reader_put(struct reader *r, enum reader_kind kind, struct table *t, uint64_t key,
	       uint64_t value)
{
	size_t n = t->n_used;
	int e = table_put(t, key, value);

	if (e >= 0 && t->n_used > n)
		e = reader_hold(r, kind, 1, TABLE_ENTRY_BYTES);
	return e < 0 ? trace(e) : 0;
}

static int count_inflated(struct reader *r, uint64_t bytes)
{
	r->inflated += bytes;
	if (r->inflated <= INFLATED || r->inflated <= scaled(r, INFLATED))
		return 0;
	return too_large(r, "MiB unpacked", scaled(r, INFLATED) >> 20);
}

/* Counts what the profile holds now, for its writers. */
static void reader_leave(struct reader *r)
{
	struct profile *p = r->profile;
	struct profile_memory *m = memory_of(r);

	m->scale = scale_of(r);
	m->limit = scaled(r, WRITE_MEMORY);
	m->held = p->n_nodes * sizeof(*p->nodes) + p->n_frames * sizeof(*p->frames) +
		  p->n_lines * sizeof(*p->lines) + p->n_modules * sizeof(*p->modules) +
		  p->n_marks * sizeof(*p->marks) + p->n_sections * sizeof(*p->sections) +
		  p->n_tracks * sizeof(*p->tracks) + p->n_processes * sizeof(*p->processes) +
		  p->n_threads * sizeof(*p->threads) +
		  max_u64(p->n_samples, p->n_all_samples) * sizeof(*p->samples) +
		  p->strings.n_entries * sizeof(*p->strings.entries) +
		  hash_index_bytes(p->strings.n_entries) + r->n_held[HELD_TEXT] +
		  p->strings.n_entries * 24ull; /* malloc's own */
}

/* ---- bytes ----
 *
 * Bytes of a trace, as they come, into packets.
 *
 * What comes is looked at where it is; only the packet that is not whole yet is kept.  A compressed
 * packet goes through a stream of its own, as it unpacks: neither is ever there as a whole. */

enum {
	HEAD_MAX = 20,	       /* bytes of two varints */
	MAX_PACKET = 32 << 20, /* writers keep below 1 MiB */
	INFLATED_PIECE = 128 << 10,
};

struct inflater {
	z_stream z;
	uint8_t piece[INFLATED_PIECE];
};

static void stream_deinit(struct reader *r)
{
	if (r->inflater)
		(void)inflateEnd(&r->inflater->z);
	free(take(r->inflater));
	buffer_deinit(&r->outer.held);
	buffer_deinit(&r->inner.held);
}

/* Where the packet at [data, data + left) has its body.  Nothing else than packets has ever stood
 * there; to be strict distinguishes foreign files from damaged ones.  READER_BROKEN: it is none; *ret_head 0:
 * more bytes are needed to know. */
static int packet_head(const uint8_t *data, size_t left, size_t *ret_head, uint64_t *ret_len)
{
	struct cursor c = cursor_of(data, left);
	uint64_t tag = cursor_uleb(&c), len = 0;

	*ret_head = 0;
	*ret_len = 0;
	if (!c.bad && tag != (TRACE__PACKET << 3 | WIRE_BYTES))
		return READER_BROKEN;
	if (!c.bad)
		len = cursor_uleb(&c);
	if (c.bad)
		return left < HEAD_MAX ? 0 : READER_BROKEN;
	*ret_head = left - cursor_left(&c);
	*ret_len = len;
	return 0;
}

static int inflate_packet(struct reader *r, const struct wire_field *f);

/* The whole packets of @data.  *ret_used: their bytes. */
static int take_packets(struct reader *r, struct packet_stream *s, const uint8_t *data, size_t len,
			size_t *ret_used)
{
	size_t used = 0, head;
	struct wire_field packed;
	uint64_t body;
	int e = 0;

	while (!e && used < len) {
		e = packet_head(data + used, len - used, &head, &body);
		if (e || !head)
			break;
		if (body > MAX_PACKET) { /* damage, or a bound: its end will show */
			s->skip = body > UINT64_MAX / 2 ? UINT64_MAX : head + body;
			break;
		}
		if (body > len - used - head)
			break;
		e = reader_packet(r, data + used + head, (size_t)body, &packed);
		if (!e && packed.data)
			e = inflate_packet(r, &packed);
		if (!e)
			used += head + (size_t)body;
	}
	s->good += used;
	*ret_used = used;
	return e < 0 ? trace(e) : e;
}

static int skip_bytes(struct reader *r, struct packet_stream *s, size_t len)
{
	s->skip -= min_u64(s->skip, len);
	return s->skip ? 0 : too_large(r, "MiB in one packet", MAX_PACKET >> 20);
}

static int stream_feed(struct reader *r, struct packet_stream *s, const uint8_t *data, size_t len)
{
	bool kept = s->held.len;
	size_t used;
	int e;

	if (s->skip)
		return skip_bytes(r, s, len);
	if (kept) {
		buffer_append(&s->held, data, len);
		if (s->held.bad)
			return fail(-ENOMEM);
		data = s->held.data;
		len = s->held.len;
	}
	e = take_packets(r, s, data, len, &used);
	if (e)
		return e < 0 ? trace(e) : e;
	if (s->skip) {
		s->held.len = 0;
		return skip_bytes(r, s, len - used);
	}
	if (kept) {
		if (used)
			memmove(s->held.data, s->held.data + used, len - used);
		s->held.len = len - used;
	} else {
		buffer_append(&s->held, data + used, len - used);
	}
	return s->held.bad ? fail(-ENOMEM) : 0;
}

/* Bytes are left of a packet that was cut. */
static bool stream_is_cut(const struct packet_stream *s)
{
	return s->held.len || s->skip;
}

static int feed(struct reader *r, const void *data, size_t len)
{
	int e;

	r->fed += len;
	e = stream_feed(r, &r->outer, len ? data : (const uint8_t *)"", len);
	return e < 0 ? trace(e) : e;
}

static int end_of_bytes(struct reader *r)
{
	return stream_is_cut(&r->outer) ? READER_BROKEN : 0;
}

/* ---- compressed packets ---- */

static int get_inflater(struct reader *r)
{
	if (r->inflater)
		return inflateReset(&r->inflater->z) == Z_OK ? 0 : fail(-EINVAL);
	r->inflater = calloc(1, sizeof(*r->inflater));
	if (!r->inflater)
		return fail(-ENOMEM);
	if (inflateInit(&r->inflater->z) == Z_OK)
		return 0;
	free(take(r->inflater));
	return fail(-ENOMEM);
}

static int inflate_pieces(struct reader *r, const struct wire_field *f)
{
	struct inflater *in = r->inflater;
	int status = Z_OK, e = 0;

	in->z.next_in = (uint8_t *)f->data;
	in->z.avail_in = (uInt)f->len; /* below MAX_PACKET */
	while (!e && status == Z_OK) {
		size_t n;

		in->z.next_out = in->piece;
		in->z.avail_out = sizeof(in->piece);
		status = inflate(&in->z, Z_NO_FLUSH);
		n = sizeof(in->piece) - in->z.avail_out;
		if (status == Z_MEM_ERROR)
			return fail(-ENOMEM);
		if (status == Z_OK && !n && !in->z.avail_in)
			status = Z_DATA_ERROR; /* cut */
		e = count_inflated(r, n);
		if (!e)
			e = stream_feed(r, &r->inner, in->piece, n);
	}
	if (e < 0)
		return trace(e);
	return e || status != Z_STREAM_END || stream_is_cut(&r->inner) ? READER_BROKEN : 0;
}

static int inflate_packet(struct reader *r, const struct wire_field *f)
{
	int e;

	if (r->in_compressed) /* packets inside packets inside ...: no writer makes that */
		return READER_BROKEN;
	e = get_inflater(r);
	if (e < 0)
		return trace(e);
	r->inner.held.len = 0;
	r->inner.skip = 0;
	r->in_compressed = true;
	e = inflate_pieces(r, f);
	r->in_compressed = false;
	return e < 0 ? trace(e) : e;
}

enum { PIECE = 256 << 10, KIND_BYTES = 512 };
#define MAX_FILE (16ull << 30)

/* ---- not a trace ---- */
static bool starts_with(const uint8_t *data, size_t len, const char *magic, size_t n)
{
	return len >= n && !memcmp(data, magic, n);
}

static bool is_text(const uint8_t *data, size_t len)
{
	size_t n = min_u64(len, 512);

	for (size_t i = 0; i < n; i++)
		if (data[i] < ' ' && !strchr("\t\n\r\f\033", data[i]))
			return false;
	return n && !memchr(data, 0, n);
}

/* What a file that is not a trace seems to be. */
static const char *foreign_kind(const uint8_t *data, size_t len)
{
	static const struct {
		const char *magic;
		size_t len;
		const char *kind;
	} kinds[] = {
		{"PERFILE2", 8, "a perf.data file of perf(1)"},
		{"2ELIFREP", 8, "a perf.data file of perf(1), of the other byte order"},
		{"\177ELF", 4, "an ELF file (a program or library)"},
		{"\x1f\x8b", 2, "gzip-compressed: unpack it first"},
		{"PK\3\4", 4, "a zip archive"},
		{"\x28\xb5\x2f\xfd", 4, "zstd-compressed: unpack it first"},
		{"\xfd"
		 "7zXZ",
		 5, "xz-compressed: unpack it first"},
		{"SIMPLEPERF", 10, "a simpleperf file"},
		{"{", 1, "JSON"},
		{"<", 1, "HTML or XML"},
	};

	if (!len)
		return "empty";
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (starts_with(data, len, kinds[i].magic, kinds[i].len))
			return kinds[i].kind;
	return is_text(data, len) ? "a text file" : "of a kind unknown here";
}

static int report_foreign(const uint8_t *data, size_t len, char *error, size_t error_size)
{
	(void)snprintf(error, error_size, "not a trace: it is %s", foreign_kind(data, len));
	return fail(-EBADMSG);
}

static void sequence_deinit(struct reader *r, struct sequence *s)
{
	sequence_forget(r, s);
	free(take(s->clocks));
	s->n_clocks = s->room_clocks = 0;
}

/* ---- reading ---- */
static void forget_tables(struct reader *r)
{
	for (size_t i = 0; i < r->n_sequences; i++)
		sequence_deinit(r, &r->sequences[i]);
	table_deinit(&r->sequence_by_id);
	hash_index_deinit(&r->modules);
	hash_index_deinit(&r->frames);
	reader_release(r, HELD_NODES, 0,
		       r->nodes.n_slots * sizeof(*r->nodes.slots) +
			       r->nodes.n_used * sizeof(*r->node_hash));
	free(take(r->node_hash));
	hash_index_deinit(&r->nodes);
	table_deinit(&r->process_by_sequence);
	table_deinit(&r->process_by_pid);
	table_deinit(&r->process_by_incarnation);
	table_deinit(&r->thread_by_key);
	table_deinit(&r->thread_by_name);
	table_deinit(&r->thread_by_tid);
	table_deinit(&r->track_by_uuid);
	free(take(r->track_waits));
	table_deinit(&r->stat_by_name);
	table_deinit(&r->stat_of_sequence);
	string_table_deinit(&r->mangled);
	free(take(r->demangled));
	free(take(r->incarnations));
	free(take(r->thread_sampled));
	stream_deinit(r);
}

static struct reader *reader_free(struct reader *r)
{
	if (!r)
		return NULL;
	forget_tables(r);
	free(r->sequences);
	free(r->raw);
	free(r->follower_counts);
	for (size_t i = 0; i < ARRAY_SIZE(r->clocks); i++)
		free(r->clocks[i].pairs);
	free(r->symbols);
	table_deinit(&r->note_by_text);
	table_deinit(&r->counts);
	table_deinit(&r->buffer_of_sequence);
	free(r->scratch);
	for (size_t i = 0; i < RECENT_STACKS; i++) {
		free(r->recent[i].frames);
		free(r->recent[i].nodes);
		free(r->recent[i].hashes);
	}
	if (r->profile)
		profile_deinit(r->profile);
	free(r->profile);
	free(r);
	return NULL;
}

static void reader_freep(struct reader **reader)
{
	*reader = reader_free(*reader);
}

static int reader_new(struct reader **ret_reader)
{
	_cleanup_(reader_freep) struct reader *r = calloc(1, sizeof(*r));

	if (!r)
		return fail(-ENOMEM);
	r->profile = calloc(1, sizeof(*r->profile));
	if (!r->profile)
		return fail(-ENOMEM);
	r->profile->memory = calloc(1, sizeof(*r->profile->memory));
	if (!r->profile->memory)
		return fail(-ENOMEM);
	r->primary_clock = CLOCK_ID_BOOTTIME;
	r->seed = hash_seed();
	*ret_reader = take(r);
	return 0;
}

/* Behind the last bytes; @e: the reader's result. */
static int finish(struct reader *r, int e, struct profile *ret_profile)
{
	struct profile *p = r->profile;

	if (!e)
		e = end_of_bytes(r);
	if (e < 0)
		return trace(e);
	if (e == READER_BROKEN)
		p->truncated_at = r->outer.good;
	/* What is made now may take their place. */
	forget_tables(r);
	e = reader_finish(r);
	if (e < 0)
		return trace(e);
	reader_leave(r);
	*ret_profile = *p;
	*p = (struct profile){0};
	return 0;
}

int profile_parse(const void *data, size_t len, struct profile *ret_profile, char *error,
		  size_t error_size)
{
	_cleanup_(reader_freep) struct reader *r = NULL;
	int e = reader_new(&r);

	if (e < 0)
		return trace(e);
	e = feed(r, data, len);
	if (e >= 0 && !r->outer.good)
		return report_foreign(data, len, error, error_size);
	e = e < 0 ? trace(e) : finish(r, e, ret_profile);
	if (e == -E2BIG)
		(void)snprintf(error, error_size, "%s", profile_strerror(r->profile, e));
	return e;
}

/* All of @fd, a piece at a time.  @head: its first bytes, which show what it is. */
static int read_pieces(struct reader *r, int fd, uint8_t head[KIND_BYTES], size_t *ret_head)
{
	_cleanup_(freep) uint8_t *piece = malloc(PIECE);
	ssize_t n = 1;
	int e = 0;

	*ret_head = 0;
	if (!piece)
		return fail(-ENOMEM);
	while (!e && n) {
		n = read(fd, piece, PIECE);
		if (n < 0 && errno == EINTR) {
			n = 1;
			continue;
		}
		if (n < 0)
			return fail(-errno);
		if (*ret_head < KIND_BYTES) {
			size_t more = min_u64((uint64_t)n, KIND_BYTES - *ret_head);

			memcpy(head + *ret_head, piece, more);
			*ret_head += more;
		}
		e = r->fed > MAX_FILE ? fail(-EFBIG) : feed(r, piece, (size_t)n);
	}
	return e < 0 ? trace(e) : e;
}

static int read_trace(int fd, struct profile *ret_profile, char *error, size_t error_size)
{
	_cleanup_(reader_freep) struct reader *r = NULL;
	uint8_t head[KIND_BYTES];
	size_t n_head;
	int e = reader_new(&r);

	if (e < 0)
		return trace(e);
	e = read_pieces(r, fd, head, &n_head);
	if (e >= 0 && !r->outer.good)
		return report_foreign(head, n_head, error, error_size);
	e = e < 0 ? trace(e) : finish(r, e, ret_profile);
	if (e < 0)
		(void)snprintf(error, error_size, "%s", profile_strerror(r->profile, e));
	return e;
}

int profile_read(const char *path, struct profile *ret_profile, char *error, size_t error_size)
{
	_cleanup_(fd_closep) int fd = -1;
	char why[256] = "";
	struct stat st;
	int e;

	fd = !strcmp(path, "-") ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
				: open(path, O_RDONLY | O_CLOEXEC);
	e = fd < 0 || fstat(fd, &st) < 0 ? -errno : S_ISDIR(st.st_mode) ? -EISDIR : 0;
	if (e == 0)
		e = read_trace(fd, ret_profile, why, sizeof(why));
	if (e < 0)
		(void)snprintf(error, error_size, "%s: %s", path, *why ? why : strerror(-e));
	return e < 0 ? trace(e) : 0;
}

const char *profile_strerror(const struct profile *p, int r)
{
	return (r == -E2BIG || r == -ENOENT) && p->memory && *p->memory->why ? p->memory->why
									     : strerror(-r);
}

void profile_deinit(struct profile *p)
{
	string_table_deinit(&p->strings);
	free(p->modules);
	free(p->frames);
	free(p->lines);
	free(p->nodes);
	free(p->all_samples ? p->all_samples : p->samples);
	free(p->events);
	free(p->threads);
	free(p->processes);
	free(p->tasks);
	free(p->tracks);
	free(p->marks);
	free(p->sections);
	free(p->stats);
	free(p->notes);
	free(p->counts);
	free(p->followers);
	free(p->memory);
	*p = (struct profile){0};
}

bool profile_stat_value(const struct profile *profile, const char *name, double *ret_value)
{
	for (size_t i = 0; i < profile->n_stats; i++) {
		const struct profile_stat *s = &profile->stats[i];

		if (s->name && !strcmp(string_table_text(&profile->strings, s->name), name) &&
		    isfinite(s->value)) {
			*ret_value = s->value;
			return true;
		}
	}
	return false;
}

/* ---- how things are shown ---- */
static const char *text_or(const struct profile *p, uint32_t id, const char *otherwise)
{
	return id ? string_table_text(&p->strings, id) : otherwise;
}

const char *profile_line_name(const struct profile *p, const struct profile_frame *frame,
			      uint32_t line, char *to, size_t size)
{
	uint32_t function = p->lines[frame->first_line + line].function;
	const char *path, *base;

	if (function && *text_or(p, function, "")) {
		(void)snprintf(to, size, "%s", text_or(p, function, ""));
		return to;
	}
	if (frame->module == UINT32_MAX) {
		(void)snprintf(to, size, "[unknown]");
		return to;
	}
	path = text_or(p, p->modules[frame->module].path, "[unknown]");
	base = strrchr(path, '/');
	base = base && base[1] ? base + 1 : path;
	if (frame->rel_pc)
		(void)snprintf(to, size, "%s+0x%" PRIx64, base, profile_frame_address(frame));
	else
		(void)snprintf(to, size, "%s", base);
	return to;
}

const char *profile_thread_name(const struct profile *p, uint32_t thread)
{
	return text_or(p, p->threads[thread].name, "?");
}

const char *profile_process_name(const struct profile *p, uint32_t process)
{
	return text_or(p, p->processes[process].name, "?");
}

static bool is_in_cgroup(const char *path, const char *cgroup)
{
	size_t len;

	path += *path == '/' && *cgroup && *cgroup != '/'; /* "user.slice" is "/user.slice" */
	len = strlen(cgroup);
	while (len && cgroup[len - 1] == '/')
		len--;
	return !strncmp(path, cgroup, len) && (path[len] == '/' || !path[len]);
}

bool profile_in_cgroup(const struct profile *p, uint32_t process,
		       const struct profile_filter *filter)
{
	const struct profile_process *it = &p->processes[process];

	return !filter->cgroup ||
	       (it->cgroup &&
		is_in_cgroup(string_table_text(&p->strings, it->cgroup), filter->cgroup));
}

static bool is_thread(const struct profile *p, uint32_t thread, const char *wanted)
{
	uint64_t tid;

	if (parse_u64(wanted, 10, UINT32_MAX, &tid) == 0 && p->threads[thread].tid == tid)
		return true;
	return !strcmp(text_or(p, p->threads[thread].name, ""), wanted);
}

/* A thread without a name has that of its process. */
static bool has_comm(const struct profile *p, uint32_t thread, const char *comm)
{
	return !strcmp(text_or(p, p->threads[thread].name, ""), comm) ||
	       !strcmp(profile_process_name(p, p->threads[thread].process), comm);
}

bool profile_sample_wanted(const struct profile *p, const struct profile_sample *s,
			   const struct profile_filter *f)
{
	uint32_t process = profile_sample_process(p, s);

	if (f->pid && p->processes[process].pid != f->pid)
		return false;
	if (f->cgroup && !profile_in_cgroup(p, process, f))
		return false;
	if (f->thread && !is_thread(p, s->thread, f->thread))
		return false;
	if (f->comm && !has_comm(p, s->thread, f->comm))
		return false;
	if (f->by_cpu && (s->cpu >= PROFILE_CPUS || !(f->cpus[s->cpu / 8] >> s->cpu % 8 & 1)))
		return false;
	if (f->during && !(s->in_mark & PROFILE_DURING))
		return false;
	if (f->outside && s->in_mark & PROFILE_INSIDE)
		return false;
	if (f->by_time) {
		uint64_t first = p->samples[0].time, at = s->time > first ? s->time - first : 0;

		return at >= f->from && at < f->to;
	}
	return true;
}

/* ---- recursion ---- */

/* Of the function of a frame's code, not of calls that were inlined into it; 0: no name. */
static uint32_t frame_function(const struct profile *p, uint32_t frame)
{
	const struct profile_frame *f = &p->frames[frame];

	return f->n_lines ? p->lines[f->first_line + f->n_lines - 1].function : 0;
}

static bool same_function(const struct profile *p, uint32_t a, uint32_t b)
{
	uint32_t function = frame_function(p, a);

	return function && p->frames[a].module == p->frames[b].module &&
	       function == frame_function(p, b);
}

/* A caller comes before its calls, so the way up from a node is without recursion already. */
void profile_collapse_recursion(struct profile *p)
{
	enum { FARTHEST = 4096 };

	for (uint32_t i = 0; i < p->n_nodes; i++) {
		uint32_t up = p->nodes[i].up;

		for (unsigned n = 0; up < p->n_nodes && n < FARTHEST; n++, up = p->nodes[up].up) {
			if (same_function(p, p->nodes[i].frame, p->nodes[up].frame)) {
				p->nodes[i].up = p->nodes[up].up;
				break;
			}
		}
	}
}
