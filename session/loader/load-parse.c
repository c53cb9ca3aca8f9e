/* load-parse.c - see load-parse.h: in place, and as pw-parse.
 *
 *   answer     struct wire_parsed; the module (symbols/module.c); lines (each u64 line, block function, block
 *              file; an empty file: none)
 */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/bytes.h"
#include "base/error.h"
#include "session/loader/load-parse-private.h"
#include "session/loader/load-role.h"

enum {
	LINES_MAX = 64,
	KNOWN_MAX = 4096, /* modules; past it all are forgotten, and read again on need */
};
#define ROOM (1ull << 29)

/* ---- in place ---- */

static void add_line(void *arg, const char *function, const char *file, uint32_t line)
{
	struct load_answer *a = arg;
	struct load_line *to = &a->lines[a->n_lines];

	if (a->n_lines == LINES_MAX)
		return;
	to->function = strdup(function);
	to->file = file ? strdup(file) : NULL;
	to->line = line;
	if (to->function)
		a->n_lines++;
	else
		free(take(to->file));
}

/* One module's DWARF at a time: it may be as large as all other memory together. */
static void open_lines_of(struct load_parser *p, struct uw_module *module)
{
	if (p->lined == module)
		return;
	if (p->lined) {
		uw_module_drop_lines(p->lined);
		(void)uw_module_unref(p->lined);
	}
	p->lined = module ? uw_module_ref(module) : NULL;
}

static int parse_lines(struct load_parser *p, struct load_parse *w)
{
	struct load_answer *a = w->answer;
	uint64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	int r;

	open_lines_of(p, w->module);
	a->lines = calloc(LINES_MAX, sizeof(*a->lines));
	if (!a->lines)
		return 0;
	r = uw_module_lines(w->module, w->source, w->vaddr, add_line, a);
	a->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
	return r < 0 ? r : 0;
}

void load_parse(struct load_parser *p, struct load_parse *w)
{
	w->error = 0;
	switch (w->kind) {
	case LOAD_PARSE_BUILD_ID:
		w->error = uw_source_build_id(w->source, &w->build_id);
		break;
	case LOAD_PARSE_UNWIND:
	case LOAD_PARSE_BOTH:
		w->error = uw_module_load_unwind(w->module, w->source);
		if (w->error >= 0 && w->kind == LOAD_PARSE_BOTH &&
		    uw_module_want_symbols(w->module))
			(void)uw_module_load_symbols(w->module, w->source);
		break;
	case LOAD_PARSE_SYMBOLS:
		(void)uw_module_want_symbols(w->module);
		w->error = uw_module_load_symbols(w->module, w->source);
		break;
	case LOAD_PARSE_LINES:
		w->error = parse_lines(p, w);
		break;
	case LOAD_PARSE_CLOSE:
		open_lines_of(p, NULL);
		break;
	case LOAD_PARSE_FORGET: /* in place there is nothing to forget */
		break;
	}
}

struct wire_parsed {
	int64_t error;
	uint64_t n_lines, cpu_ns;
};

/* ---- pw-parse ---- */

/* Reads and opens by asking pw-files. */
struct asked_source {
	struct uw_source source;
	struct uw_memory memory;
	struct helper_call *call;
};

struct kept {
	struct load_parser parser;
	struct asked_source asked;
	struct table known; /* serial there -> struct uw_module * here */
	struct table files; /* serial -> fd */
	int base, later;    /* nice values; the same: it stays as it is */
	int nice;
};

static ssize_t ask_for(struct helper_call *call, const struct wire_question *q,
		       const char *const *paths, size_t n_paths, struct wire_reply *reply,
		       int *ret_fd)
{
	uint8_t bytes[PARSE_ROOM];
	struct packer p = {.data = bytes, .room = sizeof(bytes)};
	ssize_t n;

	packer_put(&p, q, sizeof(*q));
	for (size_t i = 0; i < n_paths; i++)
		packer_put(&p, paths[i], strlen(paths[i]) + 1);
	*ret_fd = -1;
	if (p.bad)
		return fail(-EMSGSIZE);
	n = helper_ask_back(call, bytes, p.len, reply, sizeof(*reply), ret_fd);
	if (n < (ssize_t)sizeof(reply->result))
		return fail(-EBADMSG);
	return reply->result < 0 ? reply->result : n - (ssize_t)sizeof(reply->result);
}

int load_ask_open(struct helper_call *call, const char *const *paths, size_t n, size_t *ret_index)
{
	const struct wire_question q = {.ask = ASK_OPEN};
	struct wire_reply reply;
	int fd;
	ssize_t r = ask_for(call, &q, paths, n, &reply, &fd);

	if (r >= 0)
		*ret_index = (size_t)reply.result;
	return r < 0 ? (int)r : fd;
}

ssize_t load_ask_read(struct helper_call *call, uint64_t address, void *to, size_t len)
{
	struct wire_reply reply;
	size_t done = 0;

	while (done < len) {
		const struct wire_question q = {
			.ask = ASK_READ, .address = address + done, .len = len - done};
		int fd;
		ssize_t n = ask_for(call, &q, NULL, 0, &reply, &fd);

		if (n < 0 && !done)
			return n;
		if (n <= 0)
			break;
		n = (ssize_t)min_u64((uint64_t)n, len - done);
		memcpy((uint8_t *)to + done, reply.bytes, (size_t)n);
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static int ask_open(struct uw_source *source, const char *const *paths, size_t n, size_t *ret_index)
{
	return load_ask_open(container_of(source, struct asked_source, source)->call, paths, n,
			     ret_index);
}

static ssize_t ask_read(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	return load_ask_read(container_of(memory, struct asked_source, memory)->call, address, to,
			     len);
}

static void tell_build_id(struct helper_call *call, const struct uw_build_id *id)
{
	struct wire_question q;

	memset(&q, 0, sizeof(q));
	q.ask = TELL_BUILD_ID;
	q.build_id = *id;
	helper_tell_back(call, &q, sizeof(q));
}

static void *begin(const void *data)
{
	const struct load_role_arg *arg = data;
	struct kept *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	k->asked = (struct asked_source){
		.source = {.open_first = ask_open, .lone = true},
		.memory = {.read = ask_read},
	};
	k->base = k->nice = arg->nice;
	k->later = arg->nice_later;
	return k;
}

/* Names can wait: the profiled programs go first. */
static void make_way(struct kept *k, bool urgent)
{
	int wanted = urgent ? k->base : k->later;

	if (wanted != k->nice && setpriority(PRIO_PROCESS, 0, wanted) == 0)
		k->nice = wanted;
}

static void forget_file(struct kept *k, uint32_t serial)
{
	uint64_t fd;

	if (table_get(&k->files, serial, &fd)) {
		(void)fd_close((int)fd);
		(void)table_remove(&k->files, serial);
	}
}

/* The module's file, borrowed: what came now, or is kept; -1: none. */
static int file_of(struct kept *k, const struct wire_parse *wire, struct helper_call *call)
{
	uint64_t fd;

	if (call->fd >= 0) {
		forget_file(k, (uint32_t)wire->serial);
		if (table_put(&k->files, wire->serial, (uint64_t)call->fd) < 0)
			return call->fd;
		return take_fd(call->fd);
	}
	return wire->has_file && table_get(&k->files, wire->serial, &fd) ? (int)fd : -1;
}

static void forget_all(struct kept *k)
{
	open_lines_of(&k->parser, NULL);
	table_for_each (&k->known, slot) {
		(void)uw_module_unref((void *)(uintptr_t)slot->value);
	}
	table_clear(&k->known);
}

static struct uw_module *known_module(struct kept *k, const struct wire_parse *wire,
				      const char *path)
{
	struct uw_module *module = table_pointer(&k->known, wire->serial);

	if (module)
		return module;
	if (k->known.n_used >= KNOWN_MAX)
		forget_all(k);
	if (uw_module_new((enum uw_module_kind)wire->module_kind, path, &wire->build_id, &module) <
	    0)
		return NULL;
	if (table_put(&k->known, wire->serial, (uint64_t)(uintptr_t)module) < 0)
		return uw_module_unref(module);
	return module;
}

static void pack_lines(const struct load_answer *a, struct packer *p)
{
	for (size_t i = 0; i < a->n_lines; i++) {
		const struct load_line *line = &a->lines[i];

		packer_u64(p, line->line);
		packer_block(p, line->function, strlen(line->function));
		packer_block(p, line->file ? line->file : "", line->file ? strlen(line->file) : 0);
	}
}

static void pack_parsed(const struct load_parse *w, struct helper_call *call)
{
	struct packer p = {.data = call->answer, .room = call->room};
	struct wire_parsed wire = {
		.error = w->error, .n_lines = w->answer->n_lines, .cpu_ns = w->answer->cpu_ns};

	packer_put(&p, &wire, sizeof(wire));
	uw_module_pack(w->module, &p);
	pack_lines(w->answer, &p);
	if (p.bad) {
		p = (struct packer){.data = call->answer, .room = call->room};
		wire = (struct wire_parsed){.error = -EFBIG};
		packer_put(&p, &wire, sizeof(wire));
	}
	call->answer_len = p.len;
}

static void serve_module(struct kept *k, struct load_parse *w, struct helper_call *call)
{
	load_parse(&k->parser, w);
	pack_parsed(w, call);
	uw_module_drop_unwind(w->module); /* the asker has it now */
	uw_module_drop_symbols(w->module);
	load_answer_deinit(w->answer);
}

static void serve(void *kept, struct helper_call *call)
{
	struct kept *k = kept;
	const char *path = (const char *)call->request + sizeof(struct wire_parse);
	struct uw_source *source = &k->asked.source;
	struct load_answer answer = {0};
	struct load_parse work = {.source = source, .answer = &answer};
	struct wire_parse wire;

	if (call->request_len < sizeof(wire))
		return;
	memcpy(&wire, call->request, sizeof(wire));
	work.kind = (enum load_parse_kind)wire.kind;
	work.vaddr = wire.vaddr;
	k->asked.call = call;
	source->fd = file_of(k, &wire, call);
	source->memory = wire.has_memory ? &k->asked.memory : NULL;
	source->start = wire.start;
	source->end = wire.end;
	source->later = wire.later;
	make_way(k, wire.urgent);
	work.module = wire.has_module ? known_module(k, &wire, path) : NULL;
	if (work.module && wire.wants_separate)
		uw_module_want_separate(work.module);
	if (work.module) {
		serve_module(k, &work, call);
	} else if (work.kind == LOAD_PARSE_FORGET) {
		forget_file(k, (uint32_t)wire.serial);
	} else if (!wire.has_module) {
		load_parse(&k->parser, &work);
		if (work.kind == LOAD_PARSE_BUILD_ID && work.error >= 0)
			tell_build_id(call, &work.build_id);
	}
}

const struct helper_role load_parse_role = {
	.name = "pw-parse",
	.room = ROOM,
	.calls = CHILD_CALLS_GIVEN,
	.other_user = true,
	.begin = begin,
	.serve = serve,
};

/* ---- the asker ---- */

/* A block as new memory with a NUL behind; NULL when it is empty. */
static int unpack_text(struct cursor *from, char **ret_text)
{
	size_t len;
	const void *p = cursor_block(from, &len);

	if (!p)
		return fail(-EBADMSG);
	if (!len)
		return 0;
	*ret_text = malloc(len + 1);
	if (!*ret_text)
		return fail(-ENOMEM);
	memcpy(*ret_text, p, len);
	(*ret_text)[len] = 0;
	return 0;
}

static int unpack_lines(struct load_answer *a, struct cursor *from, uint64_t n)
{
	if (n > LINES_MAX)
		return fail(-EBADMSG);
	a->lines = n ? calloc(n, sizeof(*a->lines)) : NULL;
	if (n && !a->lines)
		return fail(-ENOMEM);
	for (uint64_t i = 0; i < n; i++) {
		struct load_line *line = &a->lines[a->n_lines++];
		int r;

		line->line = (uint32_t)cursor_u64(from);
		r = unpack_text(from, &line->function);
		if (r >= 0)
			r = unpack_text(from, &line->file);
		if (r >= 0 && !line->function)
			r = fail(-EBADMSG);
		if (r < 0)
			return trace(r);
	}
	return 0;
}

int load_parsed_unpack(struct load_answer *a, const uint8_t *data, size_t len, int consumed)
{
	_cleanup_(fd_closep) int file = consumed;
	struct cursor from = cursor_of(data, len);
	struct wire_parsed wire;
	const void *head = cursor_bytes(&from, sizeof(wire));
	int r;

	if (!head)
		return fail(-EBADMSG);
	memcpy(&wire, head, sizeof(wire));
	if (wire.error == -EFBIG) {
		a->error = -EFBIG;
		return 0;
	}
	a->cpu_ns = wire.cpu_ns;
	if (!a->error && wire.error < 0 && wire.error > -4096)
		a->error = (int)wire.error;
	r = uw_module_unpack(a->request.module, &from, take_fd(file));
	return r < 0 ? trace(r) : trace(unpack_lines(a, &from, wire.n_lines));
}
