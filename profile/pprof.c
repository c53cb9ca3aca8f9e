/* pprof.c - the gzipped profile.proto.  Thread: main.
 *
 * Messages are packed one by one and deflated at once: all of a big profile's are gigabytes.  What
 * refers to others comes with or behind them; the strings, which everything refers to, are the end.
 * Locations are the trace's frames (id = index + 1), with their inlined lines; addresses are ELF
 * virtual addresses, so each mapping begins at 0.  Markers are locations without a mapping. Kernel
 * frames share address 0 (addresses of the kernel are never written) and differ by name. */
#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "base/error.h"
#include "profile/profile-export.h"
#include "profile/fold.h"
#include "profile/summary.h"
#include "profile/profile-text.h"
#include "protos/profile.pb-c.h"
#include "protos/wire.h"
#include "protos/profile.fields.h"

enum { N_VALUES = 2, N_LABELS = 5, PIECE = 64 << 10, STRING_BYTES = 64 };
#define MAX_PACKED (2ull << 30) /* of a trace below 100 MiB */
struct pprof {
	struct fold fold;
	struct string_table strings; /* id = index in string_table; 0 is "" */
	struct pprof_function {
		uint32_t symbol, file; /* one a name, module and file */
	} * functions;
	struct hash_index function_index;
	size_t functions_room;
	Pprof__Mapping *mappings;
	uint64_t *ids; /* of the sample that is being written */
	z_stream z;
	bool z_open;
	FILE *out;
	struct buffer packed; /* not yet in z */
	uint64_t written;     /* bytes, before they are deflated */
	int error;	      /* the first failure */
};

static void pprof_deinit(struct pprof *p)
{
	if (p->z_open)
		(void)deflateEnd(&p->z);
	free(p->functions);
	free(p->mappings);
	free(p->ids);
	fold_deinit(&p->fold);
	string_table_deinit(&p->strings);
	hash_index_deinit(&p->function_index);
	buffer_deinit(&p->packed);
}

static void failed(struct pprof *p, int r)
{
	if (r < 0 && !p->error)
		p->error = trace(r);
}

/* ---- the stream ---- */

/* Deflates what is packed, when it is much or @last. */
static void flush(struct pprof *p, bool last)
{
	uint8_t piece[16384] = {0};
	int r = Z_OK;

	if (p->packed.bad)
		failed(p, fail(-ENOMEM));
	if (p->error || (p->packed.len < PIECE && !last))
		return;
	p->z.next_in = p->packed.data;
	p->z.avail_in = (uInt)p->packed.len;
	do {
		p->z.next_out = piece;
		p->z.avail_out = sizeof(piece);
		r = deflate(&p->z, last ? Z_FINISH : Z_NO_FLUSH);
		if (fwrite(piece, 1, sizeof(piece) - p->z.avail_out, p->out) !=
		    sizeof(piece) - p->z.avail_out)
			failed(p, text_finish(p->out));
	} while (!p->error && (last ? r != Z_STREAM_END : !p->z.avail_out));
	p->written += p->packed.len;
	p->packed.len = 0;
	failed(p, fold_limit(&p->fold, p->written, MAX_PACKED, "bytes of messages"));
}

static void put_message(struct pprof *p, unsigned field, const ProtobufCMessage *message)
{
	size_t len = protobuf_c_message_get_packed_size(message);
	uint8_t *to;

	buffer_varint(&p->packed, field << 3 | WIRE_BYTES);
	buffer_varint(&p->packed, len);
	to = buffer_reserve(&p->packed, len);
	if (to)
		p->packed.len += protobuf_c_message_pack(message, to);
	flush(p, false);
}

static int open_stream(struct pprof *p)
{
	/* 15 + 16: the largest window, and a gzip header. */
	if (deflateInit2(&p->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		return fail(-ENOMEM);
	p->z_open = true;
	return 0;
}

/* ---- strings ---- */

/* The index of a string.  proto3 strings must be UTF-8: what is not is replaced. */
static int64_t add_string(struct pprof *p, const char *text)
{
	_cleanup_(buffer_deinit) struct buffer clean = {0};
	bool is_new = false;
	uint32_t id = 0;
	int r;

	if (!*text)
		return 0;
	text_clean(&clean, text);
	r = clean.bad ? -ENOMEM
		      : string_table_add(&p->strings, clean.data, clean.len, &id, &is_new);
	if (r >= 0 && is_new)
		r = fold_hold(&p->fold, (int64_t)clean.len + STRING_BYTES, "names");
	failed(p, r);
	return id;
}

static void put_strings(struct pprof *p)
{
	for (uint32_t id = 0; id <= p->strings.n_entries && !p->error; id++) {
		size_t len = id ? p->strings.entries[id - 1].len : 0;

		buffer_varint(&p->packed, PPROF__PROFILE__STRING_TABLE << 3 | WIRE_BYTES);
		buffer_varint(&p->packed, len);
		if (len)
			buffer_append(&p->packed, p->strings.entries[id - 1].data, len);
		flush(p, false);
	}
}

/* ---- functions and locations ---- */

static uint64_t hash_function(const struct pprof *p, const struct pprof_function *f)
{
	return hash_u64(((uint64_t)f->symbol << 32 | f->file) ^ p->fold.seed);
}

static uint64_t hash_of_function(const void *owner, uint32_t number)
{
	const struct pprof *p = owner;

	return hash_function(p, &p->functions[number]);
}

static int new_function(struct pprof *p, const struct pprof_function *f)
{
	size_t n = p->function_index.n_used;
	int r = fold_hold(&p->fold, sizeof(*f) + 11 /* of the index, at most */, "functions");

	if (r >= 0 && n == p->functions_room && !array_grow(p->functions, p->functions_room, 256))
		return fail(-ENOMEM);
	if (r >= 0)
		r = hash_index_add(&p->function_index, hash_function(p, f), hash_of_function, p);
	if (r < 0)
		return trace(r);
	p->functions[n] = *f;
	return 0;
}

/* The id of the function, which is written when it is new. */
static uint64_t put_function(struct pprof *p, uint32_t symbol, int64_t file)
{
	const struct pprof_function wanted = {symbol, (uint32_t)file};
	Pprof__Function message = PPROF__FUNCTION__INIT;

	hash_index_for_each(&p->function_index, hash_function(p, &wanted), i)
	{
		if (p->functions[i].symbol == wanted.symbol && p->functions[i].file == wanted.file)
			return i + 1;
	}
	failed(p, new_function(p, &wanted));
	message.id = p->function_index.n_used;
	message.name = message.system_name = add_string(p, fold_symbol_name(&p->fold, symbol));
	message.filename = file;
	put_message(p, PPROF__PROFILE__FUNCTION, &message.base);
	return message.id;
}

/* A location's lines are made one by one: a frame may have hundreds. */
static void pack_line(struct pprof *p, struct buffer *location, uint32_t symbol, int64_t file,
		      int64_t number)
{
	Pprof__Line line = PPROF__LINE__INIT;
	size_t len;
	uint8_t *to;

	line.function_id = put_function(p, symbol, file);
	line.line = number;
	len = pprof__line__get_packed_size(&line);
	buffer_varint(location, PPROF__LOCATION__LINE << 3 | WIRE_BYTES);
	buffer_varint(location, len);
	to = buffer_reserve(location, len);
	if (to)
		location->len += pprof__line__pack(&line, to);
}

static void put_location(struct pprof *p, Pprof__Location *location, const struct buffer *lines)
{
	size_t len = pprof__location__get_packed_size(location);
	uint8_t *to;

	buffer_varint(&p->packed, PPROF__PROFILE__LOCATION << 3 | WIRE_BYTES);
	buffer_varint(&p->packed, len + lines->len);
	to = buffer_reserve(&p->packed, len);
	if (to)
		p->packed.len += pprof__location__pack(location, to);
	buffer_append(&p->packed, lines->data, lines->len);
	p->packed.bad |= lines->bad;
	flush(p, false);
}

static void put_frame(struct pprof *p, uint32_t index, struct buffer *lines)
{
	const struct profile *profile = p->fold.profile;
	const struct profile_frame *frame = &profile->frames[index];
	Pprof__Location location = PPROF__LOCATION__INIT;

	location.id = (uint64_t)index + 1;
	location.address = frame->rel_pc;
	location.mapping_id = frame->module < profile->n_modules ? (uint64_t)frame->module + 1 : 0;
	lines->len = 0;
	for (uint32_t k = 0; k < frame->n_lines; k++) {
		const struct profile_line *line = &profile->lines[frame->first_line + k];
		uint32_t call = p->fold.calls[p->fold.first_call[index] + k];

		pack_line(p, lines, fold_call_symbol(call),
			  line->file
				  ? add_string(p, string_table_text(&profile->strings, line->file))
				  : 0,
			  line->line);
	}
	put_location(p, &location, lines);
}

/* Frames, and behind them the markers. */
static void put_locations(struct pprof *p)
{
	_cleanup_(buffer_deinit) struct buffer lines = {0};
	size_t n = p->fold.profile->n_frames;

	for (uint32_t i = 0; i < n && !p->error; i++)
		put_frame(p, i, &lines);
	for (uint32_t i = 0; i < p->fold.n_symbols && !p->error; i++) {
		Pprof__Location location = PPROF__LOCATION__INIT;

		if (p->fold.symbols[i].kind != FOLD_MARKER)
			continue;
		location.id = n + i + 1;
		lines.len = 0;
		pack_line(p, &lines, i, 0, 0);
		put_location(p, &location, &lines);
	}
}

/* ---- mappings ---- */

static void make_mapping(struct pprof *p, size_t index)
{
	const struct profile *profile = p->fold.profile;
	const struct profile_module *module = &profile->modules[index];
	Pprof__Mapping *m = &p->mappings[index];
	char hex[2 * sizeof(module->build_id) + 1] = "";

	for (size_t i = 0; i < module->build_id_len && i < sizeof(module->build_id); i++)
		(void)snprintf(hex + 2 * i, 3, "%02x", module->build_id[i]);
	pprof__mapping__init(m);
	m->id = index + 1;
	m->memory_limit = 0x1000;
	/* Readers look for names on their machine when there are none: only a build id shows them where. */
	m->has_functions = !module->build_id_len;
	m->build_id = add_string(p, hex);
	if (module->kernel)
		m->filename = add_string(p, "[kernel.kallsyms]");
	else if (module->path)
		m->filename = add_string(p, string_table_text(&profile->strings, module->path));
}

/* What its frames have of a mapping. */
static void add_frame(struct pprof *p, const struct profile_frame *frame)
{
	const struct profile *profile = p->fold.profile;
	Pprof__Mapping *m;

	if (frame->module >= profile->n_modules)
		return;
	m = &p->mappings[frame->module];
	for (uint32_t k = 0; k < frame->n_lines; k++) {
		const struct profile_line *line = &profile->lines[frame->first_line + k];

		m->has_functions |= line->function != 0;
		m->has_filenames |= line->file != 0;
		m->has_line_numbers |= line->line != 0;
		m->has_inline_frames |= frame->n_lines > 1;
	}
	/* Readers that look an address up in its mapping want it inside. */
	m->memory_limit = max_u64(m->memory_limit,
				  (frame->rel_pc | 0xfff) + (frame->rel_pc < UINT64_MAX - 0xfff));
}

static void *array(struct pprof *p, size_t n, size_t size)
{
	void *memory;

	failed(p, fold_hold(&p->fold, (int64_t)((n + 1) * size), "mappings"));
	memory = p->error ? NULL : calloc(n + 1, size);
	if (!memory)
		failed(p, -ENOMEM);
	return memory;
}

/* Of how many samples each mapping is. */
static void count_mappings(const struct pprof *p, uint64_t *counts, size_t *seen)
{
	const struct profile *profile = p->fold.profile;

	for (size_t i = 0; i < p->fold.n_groups; i++) {
		const struct fold_group *g = &p->fold.groups[i];

		for (uint32_t at = g->stack; at != UINT32_MAX; at = profile->nodes[at].up) {
			uint32_t module = profile->frames[profile->nodes[at].frame].module;

			if (module >= profile->n_modules || seen[module] == i + 1)
				continue;
			seen[module] = i + 1;
			counts[module] += g->count;
		}
	}
}

/* Readers take the first mapping for the program: of those that are not a library the one in most
 * samples.  UINT32_MAX: none. */
static size_t main_mapping(struct pprof *p)
{
	const struct profile *profile = p->fold.profile;
	_cleanup_(freep) uint64_t *counts = array(p, profile->n_modules, sizeof(*counts));
	_cleanup_(freep) size_t *seen = array(p, profile->n_modules, sizeof(*seen));
	size_t best = 0;

	if (p->error)
		return 0;
	count_mappings(p, counts, seen);
	for (size_t i = 0; i < profile->n_modules; i++) {
		const struct profile_module *m = &profile->modules[i];
		const char *path = m->path ? string_table_text(&profile->strings, m->path) : "";

		if (m->kernel || *path != '/' || strstr(path, ".so"))
			counts[i] = 0;
		if (counts[i] > counts[best] || !counts[best])
			best = i;
	}
	return profile->n_modules && counts[best] ? best : 0;
}

static void put_mappings(struct pprof *p)
{
	const struct profile *profile = p->fold.profile;
	size_t first;

	p->mappings = array(p, profile->n_modules, sizeof(*p->mappings));
	for (size_t i = 0; i < profile->n_modules && !p->error; i++)
		make_mapping(p, i);
	for (size_t i = 0; i < profile->n_frames && !p->error; i++)
		add_frame(p, &profile->frames[i]);
	first = main_mapping(p);
	for (size_t i = 0; i < profile->n_modules && !p->error; i++) {
		size_t index = !i ? first : i == first ? 0 : i; /* they change places */

		put_message(p, PPROF__PROFILE__MAPPING, &p->mappings[index].base);
	}
}

/* ---- samples ---- */

static void add_label(struct pprof *p, Pprof__Sample *sample, const char *key, const char *text,
		      int64_t number)
{
	Pprof__Label *label = sample->label[sample->n_label++];

	pprof__label__init(label);
	label->key = add_string(p, key);
	label->str = text ? add_string(p, text) : 0;
	label->num = number;
}

static void add_ids(struct pprof *p, Pprof__Sample *s, const struct fold_group *g)
{
	const struct profile *profile = p->fold.profile;

	s->location_id = p->ids;
	for (uint32_t at = g->stack; at != UINT32_MAX && !fold_is_error(&p->fold, at);
	     at = profile->nodes[at].up)
		p->ids[s->n_location_id++] = (uint64_t)profile->nodes[at].frame + 1;
	if (g->marker != UINT32_MAX)
		p->ids[s->n_location_id++] = profile->n_frames + g->marker + 1;
}

/* Path of a process's cgroup, "" when it is unknown. */
static const char *cgroup_of(const struct fold *f, uint32_t process)
{
	uint32_t cgroup = f->profile->processes[process].cgroup;

	return cgroup ? string_table_text(&f->profile->strings, cgroup) : "";
}

static void put_sample(struct pprof *p, const struct fold_group *g)
{
	const struct profile *profile = p->fold.profile;
	Pprof__Sample s = PPROF__SAMPLE__INIT;
	Pprof__Label labels[N_LABELS], *list[N_LABELS];
	int64_t values[N_VALUES] = {(int64_t)g->count, (int64_t)min_u64(g->weight, INT64_MAX)};
	uint32_t process = fold_process(&p->fold, g);
	const char *cgroup = cgroup_of(&p->fold, process);
	char name[32];

	for (size_t i = 0; i < N_LABELS; i++)
		list[i] = &labels[i];
	add_ids(p, &s, g);
	s.value = values;
	s.n_value = N_VALUES;
	s.label = list;
	add_label(p, &s, "process", fold_process_name(&p->fold, process, name), 0);
	add_label(p, &s, "thread", fold_thread_name(&p->fold, g->thread, name), 0);
	add_label(p, &s, "pid", NULL, profile->processes[process].pid);
	add_label(p, &s, "tid", NULL, profile->threads[g->thread].tid);
	if (*cgroup)
		add_label(p, &s, "cgroup", cgroup, 0);
	put_message(p, PPROF__PROFILE__SAMPLE, &s.base);
}

static void put_samples(struct pprof *p)
{
	p->ids = array(p, p->fold.max_depth + 1, sizeof(*p->ids)); /* no frame is without a call */
	for (size_t i = 0; i < p->fold.n_groups && !p->error; i++)
		put_sample(p, &p->fold.groups[i]);
}

/* All that there is one of. */
static void put_head(struct pprof *p)
{
	const struct profile *profile = p->fold.profile;
	bool time = !strcmp(profile->weight_unit, "ns");
	const char *event = time ? "cpu" : *profile->event_name ? profile->event_name : "events";
	const char *const names[N_VALUES][2] = {{"samples", "count"},
						{event, time ? "nanoseconds" : "count"}};
	Pprof__ValueType types[N_VALUES], *list[N_VALUES];
	Pprof__Profile message = PPROF__PROFILE__INIT;
	uint8_t *to;

	for (size_t i = 0; i < N_VALUES; i++) {
		pprof__value_type__init(&types[i]);
		types[i].type = add_string(p, names[i][0]);
		types[i].unit = add_string(p, names[i][1]);
		list[i] = &types[i];
	}
	message.sample_type = list;
	message.n_sample_type = N_VALUES;
	message.period_type = &types[1];
	/* The mean: a frequency has no period of its own. */
	message.period = p->fold.count ? (int64_t)(p->fold.weight / p->fold.count) : 0;
	message.default_sample_type = types[1].type;
	message.duration_nanos = (int64_t)(summary_duration(profile) * 1e9);
	to = buffer_reserve(&p->packed, pprof__profile__get_packed_size(&message));
	if (to)
		p->packed.len += pprof__profile__pack(&message, to);
}

int export_pprof(const struct profile *profile, const struct export_options *options, FILE *out)
{
	_cleanup_(pprof_deinit) struct pprof p = {.out = out};
	int r;

	r = fold_init(&p.fold, profile, options ? &options->only : NULL);
	if (r == 0)
		r = open_stream(&p);
	if (r < 0)
		return trace(r);
	put_head(&p);
	put_samples(&p);
	put_mappings(&p);
	put_locations(&p);
	put_strings(&p);
	flush(&p, true);
	return p.error ? p.error : text_finish(out);
}
