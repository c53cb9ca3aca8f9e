/* symbolize.c - see symbolize.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/child.h"
#include "base/error.h"
#include "cli/debuginfod.h"
#include "cli/module-file.h"
#include "cli/symbolize.h"
#include "symbols/demangle.h"
#include "proc/open-file.h"
#include "protos/trace.fields.h"
#include "protos/wire.h"
#include "symbols/module.h"
#include "trace/module-symbols.h"

enum { LINES_MAX = 64, NAME_MAX_LEN = 1024, PACKET_BYTES = 64 << 10 };
enum {
	FETCHED_ROOM = 64 << 20,
	FETCHED_MS = 120000
}; /* of a fetched file: bytes of packets; time to parse it */

/* A module of the trace and its file. */
struct subject {
	const struct profile *profile;
	const struct file_places *places;
	struct module_file file;
	struct uw_module *module;
	struct buffer symbols; /* not yet in a packet */
	int debug_fd;	       /* of a foreign file, in pw-parse; -1: none */
};

struct found_lines {
	struct writer_line lines[LINES_MAX];
	size_t n;
	bool failed; /* no memory: one is missing, or its file is */
};

static void collect(void *arg, const struct uw_line *line)
{
	struct found_lines *found = arg;
	struct writer_line *to = &found->lines[found->n];

	if (found->n == LINES_MAX)
		return;
	*to = (struct writer_line){.function = strdup(line->function), .line = line->line};
	to->file = line->file ? strdup(line->file) : NULL;
	found->failed |= !to->function || (line->file && !to->file);
	if (!to->function)
		free((char *)to->file);
	found->n += to->function != NULL;
}

static void found_deinit(struct found_lines *found)
{
	for (size_t i = 0; i < found->n; i++) {
		free((char *)found->lines[i].function);
		free((char *)found->lines[i].file);
	}
}

/* ---- frames ---- */

static const char *name_of(const struct profile *p, const struct profile_frame *frame)
{
	const struct profile_line *outermost = &p->lines[frame->first_line + frame->n_lines - 1];

	return outermost->function ? string_table_text(&p->strings, outermost->function) : NULL;
}

static bool is_complete(const struct profile *p, const struct profile_frame *frame)
{
	const struct profile_line *innermost = &p->lines[frame->first_line];

	return innermost->function && innermost->file;
}

static int add_frame(struct subject *s, const struct profile_frame *frame,
		     struct symbolize_result *result)
{
	const char *known = name_of(s->profile, frame);
	struct found_lines found = {.n = 0};
	char name[NAME_MAX_LEN];
	struct uw_symbol symbol;
	int r;

	r = uw_module_lines(s->module, &s->file.source, frame->rel_pc, collect, &found);
	if (!known && uw_module_symbol(s->module, frame->rel_pc, &symbol)) {
		uw_demangle(symbol.name, name, sizeof(name));
		known = name;
		result->named++;
	} else if (!known && found.n) {
		result->named++;
	} else if (!known) {
		result->unnamed++;
	}
	result->lined += found.n > 0;
	r = is_shortage(r) ? trace(r) : found.failed ? fail(-ENOMEM) : 0;
	if (r >= 0 && found.n) {
		const char *dwarf_name = found.lines[found.n - 1].function;

		if (known) /* a function has one name in a trace */
			found.lines[found.n - 1].function = known;
		r = module_symbols_add(&s->symbols, frame->rel_pc, found.lines, found.n);
		found.lines[found.n - 1].function = dwarf_name;
	} else if (r >= 0 && known == name) {
		r = module_symbols_add(&s->symbols, frame->rel_pc,
				       &(struct writer_line){.function = name}, 1);
	}
	found_deinit(&found);
	return r < 0 ? trace(r) : 0;
}

static int add_packet(struct subject *s, const struct profile_module *m, struct buffer *packets)
{
	int r = 0;

	if (s->symbols.len)
		r = module_symbols_packet(packets, string_table_text(&s->profile->strings, m->path),
					  m->build_id, m->build_id_len, &s->symbols);
	s->symbols.len = 0;
	return r < 0 ? trace(r) : 0;
}

static int add_frames(struct subject *s, const struct profile_module *m, struct buffer *packets,
		      struct symbolize_result *result)
{
	const struct profile *p = s->profile;
	size_t index = (size_t)(m - p->modules);
	int r = 0;

	for (size_t i = 0; i < p->n_frames && r >= 0; i++) {
		if (p->frames[i].module != index || is_complete(p, &p->frames[i]))
			continue;
		result->addresses++;
		r = add_frame(s, &p->frames[i], result);
		if (r >= 0 && s->symbols.len >= PACKET_BYTES)
			r = add_packet(s, m, packets);
	}
	return r < 0 ? trace(r) : add_packet(s, m, packets);
}

/* ---- modules ---- */

static bool lacks_something(const struct profile *p, size_t index)
{
	for (size_t i = 0; i < p->n_frames; i++)
		if (p->frames[i].module == index && p->frames[i].rel_pc &&
		    !is_complete(p, &p->frames[i]))
			return true;
	return false;
}

static void note_missing(struct symbolize_result *result, const struct profile_module *m,
			 const char *path, enum symbolize_why why)
{
	struct symbolize_missing *to;

	if (result->n_missing++ >= ARRAY_SIZE(result->missing))
		return;
	to = &result->missing[result->n_missing - 1];
	(void)snprintf(to->path, sizeof(to->path), "%s", path);
	for (size_t i = 0; i < m->build_id_len && i < UW_BUILD_ID_MAX; i++)
		(void)snprintf(to->build_id + 2 * i, 3, "%02x", m->build_id[i]);
	to->why = why;
}

static enum symbolize_why why_missing(const struct profile_module *m, const char *path)
{
	struct stat st;

	if (!m->build_id_len)
		return SYMBOLIZE_NO_BUILD_ID;
	return stat(path, &st) < 0 ? SYMBOLIZE_NO_FILE : SYMBOLIZE_OTHER_BUILD;
}

/* ---- a foreign file: of a debuginfod server, of an archive ---- */

/* In memory that pw-parse shares with us. */
struct fetched_answer {
	uint64_t len; /* of packets; 0: it is not a file that can be used */
	uint64_t addresses, named, lined;
	uint8_t packets[];
};

struct fetched {
	struct subject *subject;
	const struct profile_module *module;
	const struct uw_build_id *id;
	int fd, debug_fd; /* the file; its debug file, -1: none */
	struct fetched_answer *answer;
};

/* The one debug file that the process was given, by whatever path it is asked for: its build id is checked. */
static int open_given(struct uw_source *source, const char *path)
{
	const struct module_file *file = container_of(source, struct module_file, source);
	const struct subject *s = container_of(file, struct subject, file);
	int fd;

	if (s->debug_fd < 0 || !strstr(path, "/.build-id/"))
		return fail(-EACCES);
	fd = fcntl(s->debug_fd, F_DUPFD_CLOEXEC, 0);
	return fd < 0 ? fail(-errno) : fd;
}

/* In pw-parse. */
static void parse_fetched(void *arg)
{
	const struct fetched *f = arg;
	struct subject *s = f->subject;
	struct symbolize_result result = {0};
	struct uw_build_id found;
	struct buffer packets = {0};

	s->debug_fd = f->debug_fd;
	s->file.source = (struct uw_source){.fd = f->fd, .open = open_given, .no_duplicate = true};
	if (uw_source_build_id(&s->file.source, &found) < 0 || found.len != f->id->len ||
	    memcmp(found.bytes, f->id->bytes, found.len) != 0 ||
	    module_file_symbols(&s->file, s->profile, f->module, &s->module) < 0 ||
	    add_frames(s, f->module, &packets, &result) < 0 || packets.bad ||
	    packets.len > FETCHED_ROOM - sizeof(*f->answer))
		return;
	memcpy(f->answer->packets, packets.data, packets.len);
	f->answer->addresses = result.addresses;
	f->answer->named = result.named;
	f->answer->lined = result.lined;
	f->answer->len = packets.len;
}

/* Are the bytes packets with ModuleSymbols alone? */
static bool are_symbols(const uint8_t *data, size_t len)
{
	struct cursor c = cursor_of(data, len);
	struct wire_field packet, field;

	while (wire_next(&c, &packet)) {
		struct cursor inner = wire_message(&packet);

		if (!wire_is_bytes(&packet, TRACE__PACKET))
			return false;
		while (wire_next(&inner, &field))
			if (!wire_is_bytes(&field, TRACE_PACKET__MODULE_SYMBOLS))
				return false;
		if (inner.bad)
			return false;
	}
	return !c.bad;
}

/* Takes over what pw-parse answered; it has ended. */
static int take_fetched(const struct fetched_answer *a, struct buffer *packets,
			struct symbolize_result *result)
{
	size_t before = packets->len, len = a->len;

	if (!len || len > FETCHED_ROOM - sizeof(*a))
		return 0;
	buffer_append(packets, a->packets, len);
	if (packets->bad)
		return fail(-ENOMEM);
	if (!are_symbols(packets->data + before, len)) {
		packets->len = before;
		return 0;
	}
	result->found++;
	result->addresses += a->addresses;
	result->named += a->named;
	result->lined += a->lined;
	return 1;
}

/* 1: names came from the file; 0: it is of no use. */
static int symbolize_fetched(struct fetched *f, struct buffer *packets,
			     struct symbolize_result *result)
{
	const struct child child = {
		.name = "pw-parse",
		.keep = {f->fd, f->debug_fd},
		.calls = CHILD_CALLS_GIVEN,
		.other_user = true,
		.run = parse_fetched,
		.arg = f,
	};
	struct pollfd ended = {.events = POLLIN};
	pid_t pid;
	int r;

	f->answer = mmap(NULL, FETCHED_ROOM, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (f->answer == MAP_FAILED)
		return fail(-ENOMEM);
	r = child_start(&child, &pid);
	if (r >= 0) {
		ended.fd = (int)syscall(SYS_pidfd_open, pid, 0);
		(void)poll(&ended, 1, ended.fd < 0 ? 0 : FETCHED_MS);
		(void)fd_close(ended.fd);
		child_end(pid, child.name, 1000);
		r = take_fetched(f->answer, packets, result);
	}
	(void)munmap(f->answer, FETCHED_ROOM);
	return r < 0 ? trace(r) : r;
}

static struct uw_build_id id_of(const struct profile_module *m)
{
	struct uw_build_id id = {.len = 0};

	if (m->build_id_len > UW_BUILD_ID_MAX)
		return id;
	id.len = (uint8_t)m->build_id_len;
	memcpy(id.bytes, m->build_id, id.len);
	return id;
}

static int try_fetched(struct subject *s, const struct profile_module *m, struct buffer *packets,
		       struct symbolize_result *result)
{
	const struct uw_build_id id = id_of(m);
	_cleanup_(fd_closep) int fd =
		s->places->fetched ? debuginfod_open(s->places->fetched, &id) : -1;
	struct fetched f = {.subject = s, .module = m, .id = &id, .fd = fd, .debug_fd = -1};

	return fd < 0 ? 0 : symbolize_fetched(&f, packets, result);
}

static int try_archive(struct subject *s, const struct profile_module *m, struct buffer *packets,
		       struct symbolize_result *result)
{
	const struct uw_build_id id = id_of(m);
	_cleanup_(fd_closep) int fd = file_places_open_archived(s->places, &id, "elf");
	_cleanup_(fd_closep) int debug_fd = file_places_open_archived(s->places, &id, "debug");
	struct fetched f = {.subject = s, .module = m, .id = &id, .fd = fd, .debug_fd = debug_fd};

	return fd < 0 ? 0 : symbolize_fetched(&f, packets, result);
}

static bool has_debug_file(const struct file_places *places, const struct uw_build_id *id)
{
	_cleanup_(fd_closep) int fd = file_places_open_debug_id(places, id);

	return fd >= 0;
}

/* A module, and the weight of the samples under its frames that lack a name, or a line alone. */
struct lack {
	uint64_t unnamed, unlined;
	uint32_t module;
};

static int compare_lacks(const void *a, const void *b)
{
	const struct lack *x = a, *y = b;

	return ascend(y->unnamed, x->unnamed) ?:
	       ascend(y->unlined, x->unlined) ?:
	       ascend(x->module, y->module);
}

/* A caller comes before the nodes that it called. */
static void weigh(const struct profile *p, uint64_t *weights, struct lack *lacks)
{
	for (size_t i = 0; i < p->n_samples; i++)
		if (p->samples[i].stack < p->n_nodes)
			weights[p->samples[i].stack] += p->samples[i].weight;
	for (size_t i = p->n_nodes; i-- > 0;) {
		const struct profile_frame *frame = &p->frames[p->nodes[i].frame];

		if (p->nodes[i].up < i)
			weights[p->nodes[i].up] += weights[i];
		if (frame->module >= p->n_modules || is_complete(p, frame))
			continue;
		if (name_of(p, frame))
			lacks[frame->module].unlined += weights[i];
		else
			lacks[frame->module].unnamed += weights[i];
	}
}

size_t symbolize_missing(const struct profile *profile, const struct file_places *places,
			 struct uw_build_id *ids, size_t max)
{
	_cleanup_(freep) struct lack *lacks = calloc(profile->n_modules + 1, sizeof(*lacks));
	_cleanup_(freep) uint64_t *weights = calloc(profile->n_nodes + 1, sizeof(*weights));
	size_t n = 0;

	if (!lacks || !weights)
		return 0;
	for (size_t i = 0; i < profile->n_modules; i++)
		lacks[i].module = (uint32_t)i;
	weigh(profile, weights, lacks);
	qsort(lacks, profile->n_modules, sizeof(*lacks), compare_lacks);
	for (size_t i = 0; i < profile->n_modules && n < max; i++) {
		const struct profile_module *m = &profile->modules[lacks[i].module];
		struct uw_build_id id = id_of(m);

		if (id.len < 2 || !module_file_is_one(profile, m) ||
		    !lacks_something(profile, lacks[i].module) || has_debug_file(places, &id))
			continue;
		ids[n++] = id;
	}
	return n;
}

/* ---- all modules ---- */

static int symbolize_module(struct subject *s, const struct profile_module *m,
			    struct buffer *packets, struct symbolize_result *result)
{
	const char *path = string_table_text(&s->profile->strings, m->path);
	size_t unnamed = result->unnamed;
	int r;

	result->modules++;
	r = try_fetched(s, m, packets, result);
	if (!r)
		r = try_archive(s, m, packets, result);
	if (r)
		return r < 0 ? trace(r) : 0;
	if (module_file_open(&s->file, s->places, s->profile, m) < 0 &&
	    module_file_open_debug(&s->file, s->places, m) < 0) {
		note_missing(result, m, path, why_missing(m, path));
		return 0;
	}
	result->found++;
	r = module_file_symbols(&s->file, s->profile, m, &s->module);
	if (r >= 0)
		r = add_frames(s, m, packets, result);
	s->module = uw_module_unref(s->module);
	module_file_close(&s->file);
	if (result->unnamed > unnamed)
		note_missing(result, m, path, SYMBOLIZE_STRIPPED);
	return r < 0 ? trace(r) : 0;
}

int symbolize(const struct profile *profile, const struct file_places *places,
	      struct buffer *packets, struct symbolize_result *ret)
{
	struct subject s = {.profile = profile, .places = places};
	int r = 0;

	*ret = (struct symbolize_result){0};
	for (size_t i = 0; i < profile->n_modules && r >= 0; i++) {
		const struct profile_module *m = &profile->modules[i];

		if (!module_file_is_one(profile, m) || !lacks_something(profile, i))
			continue;
		r = symbolize_module(&s, m, packets, ret);
	}
	buffer_deinit(&s.symbols);
	return r < 0 ? trace(r) : 0;
}
