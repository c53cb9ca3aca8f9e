/* cmd-symbolize.c - `perfwind symbolize FILE`: names and lines for a trace, after debug files were
 * installed or on another machine.  Thread: main.
 *
 * The packets are appended, as Perfetto's traceconv does: readers apply them to all frames. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/child.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/cmd-symbolize.h"
#include "cli/command.h"
#include "cli/common-options.h"
#include "cli/module-file.h"
#include "cli/debug-package.h"
#include "cli/debuginfod.h"
#include "cli/own-session.h"
#include "cli/trace-input.h"
#include "perf/probe.h"
#include "proc/open-file.h"
#include "profile/profile-text.h"
#include "protos/trace.fields.h"
#include "protos/wire.h"
#include "symbols/demangle.h"
#include "symbols/module.h"
#include "trace/module-symbols.h"
#include "trace/sink.h"

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

struct symbolize_command {
	const char *output;
	struct file_places places;
	bool debuginfod;
	double debuginfod_time;
};

#define AT(member) .offset = offsetof(struct symbolize_command, member)
static const struct option_def defs[] = {
	TEXT("output", 'o', "FILE", output,
	     "write a copy with the names (default: they are appended to the trace)"),
	OPTION_PLACES(places),
	OPTION_DEBUGINFOD(debuginfod),
	TIME("debuginfod-time", 0, "s", "SECONDS", debuginfod_time, 0,
	     "the time for all files of --debuginfod (default: 60)"),
	{0},
};

static const struct options options = {
	.command = "symbolize",
	.usage = "[OPTIONS] [FILE]",
	.description =
		"Adds names, inlined calls and source lines to a trace, for frames that lack "
		"them: after\ndebug packages were installed, or on another machine.  A file "
		"must have the build id that\nthe trace has; one without a build id is "
		"taken from --symfs only.  FILE defaults to " DEFAULT_TRACE ".",
	.defs = defs,
	.examples = "# names of a library after its debug package was installed\n"
		    "apt install libssl3-dbgsym\n"
		    "perfwind symbolize perfwind.pftrace\n\n"
		    "# the same with debug files of a server\n"
		    "DEBUGINFOD_URLS=https://debuginfod.debian.net perfwind symbolize --debuginfod "
		    "perfwind.pftrace",
	.max_arguments = 1,
};

/* Appends to @path, or to a copy of it at @output. */
static int write_packets(const char *path, const char *output, const struct buffer *packets)
{
	_cleanup_(freep) char *data = NULL;
	struct sink *sink = NULL;
	size_t len = 0;
	int fd, r;

	if (!output) {
		fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
		r = fd < 0 ? -errno : sink_fd_new(fd, &sink);
	} else {
		r = read_file(path, SIZE_MAX / 2, &data, &len);
		if (r >= 0)
			r = sink_file_new(output, &sink);
		if (r >= 0)
			r = sink->write(sink, data, len);
	}
	if (r >= 0 && packets->len)
		r = sink->write(sink, packets->data, packets->len);
	if (r >= 0)
		r = sink->flush(sink);
	(void)sink_free(sink);
	if (r < 0)
		log_error("%s: %s%s", output ? output : path, strerror(-r),
			  !output && (r == -EACCES || r == -EROFS)
				  ? " (hint: -o FILE writes a copy with the names)"
				  : "");
	return r;
}

static void print_fetched(const struct debuginfod_result *result, size_t n)
{
	char text[96] = "";

	if (result->unanswered)
		(void)snprintf(text, sizeof(text),
			       "; no server answered for %zu (hint: check DEBUGINFOD_URLS)",
			       result->unanswered);
	log_info("debuginfod: %zu of %zu debug files%s%s", result->found, n, text,
		 result->asked < n ? "; the time was over (hint: --debuginfod-time)" : "");
}

/* Debug files that lack here, out of the servers of DEBUGINFOD_URLS.  Before the privileges for that go. */
static void fetch(struct symbolize_command *command, const struct profile *profile)
{
	static char folder[PATH_MAX];
	struct uw_build_id ids[DEBUGINFOD_FILES_MAX];
	size_t n = symbolize_missing(profile, &command->places, ids, ARRAY_SIZE(ids));
	struct debuginfod_result result;
	double given = command->debuginfod_time > 0 ? command->debuginfod_time : DEBUGINFOD_SECONDS;
	unsigned seconds = (unsigned)min_u64((uint64_t)given, 3600);
	int r;

	if (n)
		log_info("debuginfod: asking for %zu debug file%s, for at most %u s (Ctrl-C ends "
			 "it)",
			 n, n == 1 ? "" : "s", seconds);
	r = debuginfod_fetch(ids, n, seconds, &result);
	if (r == -ENOENT)
		log_error("--debuginfod: libdebuginfod.so.1 is not installed (hint: apt install "
			  "libdebuginfod1)");
	else if (r < 0)
		log_error("--debuginfod: %s", strerror(-r));
	if (r < 0)
		return;
	print_fetched(&result, n);
	debuginfod_folder(folder, sizeof(folder));
	command->places.fetched = folder;
}

/* What parses the files has a list of system calls and no file system. */
static void confine(void)
{
	struct features features = {.has = {false}};
	char error[256];

	if (probe_features(&features, error, sizeof(error)) < 0)
		log_verbose("%s", error);
	own_session_give_up(&features, false);
}

/* The modules that lack names still; @packages: of Debian; @asked: servers were asked for them. */
static void print_missing(const struct symbolize_result *result, const char *const *packages,
			  bool asked)
{
	static const char *const why[][2] = {
		/* before and behind the path */
		[SYMBOLIZE_NO_FILE] = {"not found: ", " (there is no file here)"},
		[SYMBOLIZE_OTHER_BUILD] = {"not found: ", " (the file there is of another build)"},
		[SYMBOLIZE_NO_BUILD_ID] = {"not found: ",
					   " (the trace has no build id of it: --symfs only)"},
		[SYMBOLIZE_STRIPPED] = {"no symbols: ", ""},
	};
	size_t shown = min_u64(result->n_missing, ARRAY_SIZE(result->missing)), others = 0;
	char n[32];

	for (size_t i = 0; i < shown; i++) {
		const struct symbolize_missing *missing = &result->missing[i];

		printf("  %s", why[missing->why][0]);
		text_print(stdout, missing->path);
		printf("%s", why[missing->why][1]);
		if (*packages[i])
			printf(" (hint: %s)", packages[i]);
		printf("\n");
		others += !*packages[i];
	}
	if (result->n_missing > shown)
		printf("  and %s more\n", text_count(result->n_missing - shown, n));
	if (others)
		printf("  hint: --symfs DIR with copies of the files at their paths, --debug-dir "
		       "DIR with their debug files,\n        %s--buildid-dir FILE of `perf "
		       "archive`%s\n",
		       asked ? "or " : "", asked ? "" : ", or --debuginfod");
}

/* @may_look: not where the process is confined. */
static void print_with_packages(const struct symbolize_result *result, bool may_look)
{
	enum { MISSING = ARRAY_SIZE(result->missing) };
	struct debug_package packages[MISSING] = {0};
	char texts[MISSING][128 + DEBUG_PACKAGE_NAME];
	const char *paths[MISSING], *ids[MISSING], *hints[MISSING];
	size_t shown = min_u64(result->n_missing, MISSING);

	for (size_t i = 0; i < shown; i++) {
		hints[i] = texts[i];
		texts[i][0] = 0;
		/* The owner of a path on this machine has nothing to do with another build. */
		paths[i] =
			result->missing[i].why == SYMBOLIZE_STRIPPED ? result->missing[i].path : "";
		ids[i] = result->missing[i].build_id;
	}
	if (may_look && shown)
		debug_packages("", paths, ids, shown, packages);
	for (size_t i = 0; i < shown; i++)
		if (packages[i].name[0])
			debug_package_command("", &packages[i], texts[i], sizeof(texts[i]));
	print_missing(result, hints, !may_look);
}

static void print_result(const struct symbolize_result *result, bool may_look)
{
	char a[32], b[32], c[32];

	printf("%s of %s modules found; of %s addresses ", text_count(result->found, a),
	       text_count(result->modules, b), text_count(result->addresses, c));
	printf("%s got names, %s inlined calls and lines\n", text_count(result->named, a),
	       text_count(result->lined, b));
	print_with_packages(result, may_look);
}

static int symbolize_run(int argc, char **argv)
{
	struct symbolize_command command = {.output = NULL};
	_cleanup_(archive_deinit) struct archive archive = {.keeper = 0};
	_cleanup_(buffer_deinit) struct buffer packets = {0};
	struct symbolize_result result;
	struct profile profile;
	char error[512];
	const char *path = DEFAULT_TRACE;
	int n, r = options_parse(&options, argc, argv, &command, &n);

	if (r != 0)
		return options_exit_status(r);
	if (n)
		path = argv[0];
	if (module_file_open_places(&command.places, &archive) < 0)
		return 2;
	command.debuginfod = debuginfod_wanted(command.debuginfod);
	if (command.debuginfod && debuginfod_refusal()) {
		log_error("--debuginfod: %s", debuginfod_refusal());
		return 2;
	}
	r = profile_read(path, &profile, error, sizeof(error));
	if (r < 0) {
		log_error("%s%s", error, trace_input_hint(path, r, false));
		return 1;
	}
	if (profile.truncated_at) {
		log_error("%s: damaged at byte %lu: appended names would not be read", path,
			  profile.truncated_at);
		r = -EBADMSG;
	} else {
		if (command.debuginfod) {
			fetch(&command, &profile);
			confine();
		}
		r = symbolize(&profile, &command.places, &packets, &result);
		if (r < 0)
			log_error("%s: %s", path, strerror(-r));
	}
	profile_deinit(&profile);
	if (r < 0 || write_packets(path, command.output, &packets) < 0)
		return 1;
	print_result(&result, !command.debuginfod);
	return 0;
}

const struct command command_symbolize = {
	.name = "symbolize",
	.summary = "add names and lines to a trace",
	.run = symbolize_run,
	.options = &options,
};
