/* pprof.c - the gzipped profile.proto.  Thread: main.
 *
 * Each message of the profile lives in one array of its kind; the pointer arrays that protobuf-c
 * wants are made from them at the end.  Locations are the trace's frames (id = index + 1), with
 * their inlined lines; addresses are ELF virtual addresses, so each mapping begins at 0.  Markers
 * are locations without a mapping. Kernel frames share address 0 (addresses of the kernel are never
 * written) and differ by name. */
#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "daemon/base/error.h"
#include "profile/export.h"
#include "profile/fold.h"
#include "profile/summary.h"
#include "profile/text.h"
#include "protos/profile.pb-c.h"

enum { N_VALUES = 2, N_LABELS = 5 };

struct pprof {
	struct fold fold;
	struct string_table strings; /* id = index in string_table; 0 is "" */
	struct table function_by_key;
	Pprof__Profile message;
	Pprof__Mapping *mappings;
	Pprof__Location *locations;
	Pprof__Function *functions;
	Pprof__Line *lines;
	Pprof__Sample *samples;
	Pprof__Label *labels;
	uint64_t *location_ids;
	int64_t *values;
	Pprof__ValueType types[N_VALUES], period_type, *type_list[N_VALUES];
	/* What the message points to. */
	Pprof__Mapping **mapping_list;
	Pprof__Location **location_list;
	Pprof__Function **function_list;
	Pprof__Line **line_list;
	Pprof__Sample **sample_list;
	Pprof__Label **label_list;
	char **string_list;
	size_t n_functions, n_lines;
	int error; /* the first failure of add_string() */
};

static void pprof_deinit(struct pprof *p)
{
	void *const memory[] = {
		p->mappings,	 p->locations,	   p->functions,     p->lines,
		p->samples,	 p->labels,	   p->location_ids,  p->values,
		p->mapping_list, p->location_list, p->function_list, p->line_list,
		p->sample_list,	 p->label_list,	   p->string_list,
	};

	for (size_t i = 0; i < ARRAY_SIZE(memory); i++)
		free(memory[i]);
	fold_deinit(&p->fold);
	string_table_deinit(&p->strings);
	table_deinit(&p->function_by_key);
}

/* The index of a string.  proto3 strings must be UTF-8: what is not is replaced. */
static int64_t add_string(struct pprof *p, const char *text)
{
	_cleanup_(buffer_deinit) struct buffer clean = {0};
	uint32_t id;
	int r;

	if (!*text)
		return 0;
	text_clean(&clean, text);
	r = clean.bad ? -ENOMEM : string_table_add(&p->strings, clean.data, clean.len, &id, NULL);
	if (r < 0) {
		p->error = fail(r);
		return 0;
	}
	return id;
}

static void *array(struct pprof *p, size_t n, size_t size)
{
	void *memory = calloc(n + 1, size);

	if (!memory)
		p->error = fail(-ENOMEM);
	return memory;
}

/* Everything whose number is known beforehand. */
static int allocate(struct pprof *p)
{
	const struct profile *profile = p->fold.profile;
	size_t n_calls = p->fold.first_call[profile->n_frames], n_ids = 0;
	size_t n_locations =
		profile->n_frames + p->fold.n_symbols; /* markers stand behind the frames */
	size_t n_groups = p->fold.n_groups;

	for (size_t i = 0; i < n_groups; i++)
		n_ids += 1 + (p->fold.groups[i].stack == UINT32_MAX
				      ? 0
				      : profile->stacks[p->fold.groups[i].stack].n);
	p->mappings = array(p, profile->n_modules, sizeof(*p->mappings));
	p->mapping_list = array(p, profile->n_modules, sizeof(*p->mapping_list));
	p->locations = array(p, n_locations, sizeof(*p->locations));
	p->location_list = array(p, n_locations, sizeof(*p->location_list));
	p->functions = array(p, n_calls + p->fold.n_symbols, sizeof(*p->functions));
	p->function_list = array(p, n_calls + p->fold.n_symbols, sizeof(*p->function_list));
	p->lines = array(p, n_calls + p->fold.n_symbols, sizeof(*p->lines));
	p->line_list = array(p, n_calls + p->fold.n_symbols, sizeof(*p->line_list));
	p->samples = array(p, n_groups, sizeof(*p->samples));
	p->sample_list = array(p, n_groups, sizeof(*p->sample_list));
	p->labels = array(p, n_groups * N_LABELS, sizeof(*p->labels));
	p->label_list = array(p, n_groups * N_LABELS, sizeof(*p->label_list));
	p->values = array(p, n_groups * N_VALUES, sizeof(*p->values));
	p->location_ids = array(p, n_ids, sizeof(*p->location_ids));
	return p->error;
}

/* The id of the function: one a name, module and file. */
static uint64_t add_function(struct pprof *p, uint32_t symbol, int64_t file)
{
	uint64_t key = (uint64_t)symbol << 32 | (uint32_t)file, found;
	Pprof__Function *f;
	int r;

	if (table_get(&p->function_by_key, key, &found))
		return found;
	r = table_put(&p->function_by_key, key, p->n_functions + 1);
	if (r < 0) {
		p->error = trace(r);
		return 0;
	}
	f = &p->functions[p->n_functions];
	pprof__function__init(f);
	f->id = p->n_functions + 1;
	f->name = f->system_name = add_string(p, fold_symbol_name(&p->fold, symbol));
	f->filename = file;
	p->function_list[p->n_functions++] = f;
	return f->id;
}

static void add_line(struct pprof *p, Pprof__Location *location, uint32_t symbol, int64_t file,
		     int64_t number)
{
	Pprof__Line *line = &p->lines[p->n_lines];

	pprof__line__init(line);
	line->function_id = add_function(p, symbol, file);
	line->line = number;
	if (!location->n_line)
		location->line = &p->line_list[p->n_lines];
	location->n_line++;
	p->line_list[p->n_lines++] = line;
}

static Pprof__Location *add_location(struct pprof *p, size_t index)
{
	Pprof__Location *location = &p->locations[index];

	pprof__location__init(location);
	location->id = index + 1;
	p->location_list[p->message.n_location++] = location;
	return location;
}

static void add_frame(struct pprof *p, uint32_t index)
{
	const struct profile *profile = p->fold.profile;
	const struct profile_frame *frame = &profile->frames[index];
	Pprof__Location *location = add_location(p, index);
	Pprof__Mapping *m = frame->module < profile->n_modules ? &p->mappings[frame->module] : NULL;

	location->address = frame->rel_pc;
	location->mapping_id = m ? m->id : 0;
	for (uint32_t k = 0; k < frame->n_lines; k++) {
		const struct profile_line *line = &profile->lines[frame->first_line + k];
		uint32_t call = p->fold.calls[p->fold.first_call[index] + k];

		add_line(p, location, fold_call_symbol(call),
			 line->file
				 ? add_string(p, string_table_text(&profile->strings, line->file))
				 : 0,
			 line->line);
		if (m) {
			m->has_functions |= line->function != 0;
			m->has_filenames |= line->file != 0;
			m->has_line_numbers |= line->line != 0;
			m->has_inline_frames |= frame->n_lines > 1;
		}
	}
	/* Readers that look an address up in its mapping want it inside. */
	if (m)
		m->memory_limit =
			max_u64(m->memory_limit,
				(frame->rel_pc | 0xfff) + (frame->rel_pc < UINT64_MAX - 0xfff));
}

static void add_mapping(struct pprof *p, size_t index)
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
	/* Readers look for names on their machine when there are none: only a build id tells them
	 * where. */
	m->has_functions = !module->build_id_len;
	m->build_id = add_string(p, hex);
	if (module->kernel)
		m->filename = add_string(p, "[kernel.kallsyms]");
	else if (module->path)
		m->filename = add_string(p, string_table_text(&profile->strings, module->path));
	p->mapping_list[p->message.n_mapping++] = m;
}

static void add_label(struct pprof *p, Pprof__Sample *sample, size_t index, const char *key,
		      const char *text, int64_t number)
{
	Pprof__Label *label = &p->labels[index];

	pprof__label__init(label);
	label->key = add_string(p, key);
	label->str = text ? add_string(p, text) : 0;
	label->num = number;
	p->label_list[index] = label;
	if (!sample->n_label)
		sample->label = &p->label_list[index];
	sample->n_label++;
}

/* @at: first free location id.  Returns the next. */
static size_t add_sample(struct pprof *p, size_t index, size_t at)
{
	const struct profile *profile = p->fold.profile;
	const struct fold_group *g = &p->fold.groups[index];
	Pprof__Sample *s = &p->samples[index];
	const char *cgroup = fold_process_cgroup(&p->fold, g->process);
	char name[32];

	pprof__sample__init(s);
	s->location_id = &p->location_ids[at];
	if (g->stack != UINT32_MAX) {
		const struct profile_stack *stack = &profile->stacks[g->stack];
		uint32_t n = stack->n - (p->fold.error_of[g->stack] != UINT32_MAX);

		for (uint32_t k = 0; k < n; k++)
			s->location_id[s->n_location_id++] =
				(uint64_t)profile->stack_frames[stack->first + k] + 1;
	}
	if (g->marker != UINT32_MAX)
		s->location_id[s->n_location_id++] = profile->n_frames + g->marker + 1;
	s->value = &p->values[index * N_VALUES];
	s->n_value = N_VALUES;
	s->value[0] = (int64_t)g->count;
	s->value[1] = (int64_t)min_u64(g->weight, INT64_MAX);
	index *= N_LABELS;
	add_label(p, s, index, "process", fold_process_name(&p->fold, g->process, name), 0);
	add_label(p, s, index + 1, "thread", fold_thread_name(&p->fold, g->thread, name), 0);
	add_label(p, s, index + 2, "pid", NULL, profile->processes[g->process].pid);
	add_label(p, s, index + 3, "tid", NULL, profile->threads[g->thread].tid);
	if (*cgroup)
		add_label(p, s, index + 4, "cgroup", cgroup, 0);
	return at + s->n_location_id;
}

/* Readers take the first mapping for the program: of those that are no library the one in most
 * samples. */
static void main_mapping_first(struct pprof *p)
{
	const struct profile *profile = p->fold.profile;
	_cleanup_(freep) uint64_t *counts = array(p, profile->n_modules, sizeof(*counts));
	_cleanup_(freep) size_t *seen = array(p, profile->n_modules, sizeof(*seen));
	size_t best = 0;

	if (!counts || !seen)
		return;
	for (size_t i = 0; i < p->fold.n_groups; i++) {
		const struct fold_group *g = &p->fold.groups[i];
		uint32_t n = g->stack == UINT32_MAX ? 0 : profile->stacks[g->stack].n;

		for (uint32_t k = 0; k < n; k++) {
			uint32_t frame = profile->stack_frames[profile->stacks[g->stack].first + k];
			uint32_t module = profile->frames[frame].module;

			if (module >= profile->n_modules || seen[module] == i + 1)
				continue;
			seen[module] = i + 1;
			counts[module] += g->count;
		}
	}
	for (size_t i = 0; i < profile->n_modules; i++) {
		const struct profile_module *m = &profile->modules[i];
		const char *path = m->path ? string_table_text(&profile->strings, m->path) : "";

		if (m->kernel || *path != '/' || strstr(path, ".so"))
			counts[i] = 0;
		if (counts[i] > counts[best] || !counts[best])
			best = i;
	}
	if (profile->n_modules && counts[best]) {
		Pprof__Mapping *other = p->mapping_list[0];

		p->mapping_list[0] = p->mapping_list[best];
		p->mapping_list[best] = other;
	}
}

static void add_types(struct pprof *p)
{
	const struct profile *profile = p->fold.profile;
	bool time = !strcmp(profile->weight_unit, "ns");
	const char *event = time ? "cpu" : *profile->event_name ? profile->event_name : "events";
	const char *const names[N_VALUES][2] = {{"samples", "count"},
						{event, time ? "nanoseconds" : "count"}};

	for (size_t i = 0; i < N_VALUES; i++) {
		pprof__value_type__init(&p->types[i]);
		p->types[i].type = add_string(p, names[i][0]);
		p->types[i].unit = add_string(p, names[i][1]);
		p->type_list[i] = &p->types[i];
	}
	p->period_type = p->types[1];
	p->message.sample_type = p->type_list;
	p->message.n_sample_type = N_VALUES;
	p->message.period_type = &p->period_type;
	/* The mean: a frequency has no period of its own. */
	p->message.period = p->fold.count ? (int64_t)(p->fold.weight / p->fold.count) : 0;
	p->message.default_sample_type = p->types[1].type;
	p->message.duration_nanos = (int64_t)(summary_duration(profile) * 1e9);
}

static void add_all(struct pprof *p)
{
	const struct profile *profile = p->fold.profile;
	size_t at = 0;

	for (size_t i = 0; i < profile->n_modules; i++)
		add_mapping(p, i);
	for (uint32_t i = 0; i < profile->n_frames; i++)
		add_frame(p, i);
	for (uint32_t i = 0; i < p->fold.n_symbols; i++)
		if (p->fold.symbols[i].kind == FOLD_MARKER)
			add_line(p, add_location(p, profile->n_frames + i), i, 0, 0);
	for (size_t i = 0; i < p->fold.n_groups; i++) {
		at = add_sample(p, i, at);
		p->sample_list[i] = &p->samples[i];
	}
	main_mapping_first(p);
	add_types(p);
}

static int finish_message(struct pprof *p)
{
	static char empty[] = "";
	Pprof__Profile *m = &p->message;

	p->string_list = array(p, (size_t)p->strings.n_entries + 1, sizeof(*p->string_list));
	if (p->error)
		return p->error;
	p->string_list[0] = empty;
	for (uint32_t id = 1; id <= p->strings.n_entries; id++)
		p->string_list[id] = p->strings.entries[id - 1].data;
	m->string_table = p->string_list;
	m->n_string_table = (size_t)p->strings.n_entries + 1;
	m->mapping = p->mapping_list;
	m->location = p->location_list;
	m->function = p->function_list;
	m->n_function = p->n_functions;
	m->sample = p->sample_list;
	m->n_sample = p->fold.n_groups;
	return 0;
}

static int write_gzip(const uint8_t *data, size_t len, FILE *out)
{
	z_stream z = {.next_in = (uint8_t *)(uintptr_t)data};
	uint8_t chunk[16384] = {0};
	int r, status = 0;

	/* 15 + 16: the largest window, and a gzip header. */
	if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) !=
	    Z_OK)
		return fail(-ENOMEM);
	do {
		if (!z.avail_in) {
			z.avail_in = (uInt)min_u64(len, 1u << 30);
			len -= z.avail_in;
		}
		z.next_out = chunk;
		z.avail_out = sizeof(chunk);
		r = deflate(&z, len ? Z_NO_FLUSH : Z_FINISH);
		if (fwrite(chunk, 1, sizeof(chunk) - z.avail_out, out) !=
		    sizeof(chunk) - z.avail_out)
			status = export_finish(out);
	} while (!status && r != Z_STREAM_END);
	(void)deflateEnd(&z);
	return status;
}

int export_pprof(const struct profile *profile, const struct export_options *options, FILE *out)
{
	_cleanup_(pprof_deinit) struct pprof p = {0};
	_cleanup_(freep) uint8_t *packed = NULL;
	size_t len;
	int r;

	pprof__profile__init(&p.message);
	r = fold_init(&p.fold, profile, options ? &options->only : NULL);
	if (r == 0)
		r = allocate(&p);
	if (r < 0)
		return trace(r);
	add_all(&p);
	r = p.error ? p.error : finish_message(&p);
	if (r < 0)
		return trace(r);
	len = pprof__profile__get_packed_size(&p.message);
	packed = malloc(len + 1);
	if (!packed)
		return fail(-ENOMEM);
	len = pprof__profile__pack(&p.message, packed);
	r = write_gzip(packed, len, out);
	if (r < 0)
		return trace(r);
	return export_finish(out);
}
