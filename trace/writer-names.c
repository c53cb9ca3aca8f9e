/* writer-names.c - what things are called: processes, threads, and the names of addresses that came
 * late.
 *
 * A name goes into its frame when it is known at the frame's first use.  One that comes later
 * stands in a ModuleSymbols packet, which readers match by path, build id and rel_pc; they count it
 * as an error when the frame is not in the trace, so a name of a frame that no stack has used yet
 * is kept with the frame instead. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "protos/wire.h"
#include "trace/writer-private.h"
#include "protos/trace.fields.h"

enum {
	MAX_CMDLINE = 4096,
	MAX_ARGS = 64,
	MAX_LINES = 64,
	MAX_TEXT = 16 << 10,
	SYMBOLS_PACKET = 64 << 10, /* a packet of names is ended here */
};
/* ---- processes ----
 * They are told when the trace hears of them, in BOOTTIME whatever clock the samples have. */
static int write_tree(struct writer *w, Pb__ProcessTree *tree, uint64_t boottime_ns)
{
	Pb__TracePacket packet = PB__TRACE_PACKET__INIT;

	packet.has_timestamp = packet.has_timestamp_clock_id = true;
	packet.timestamp = boottime_ns;
	packet.timestamp_clock_id = PB__BUILTIN_CLOCK__BUILTIN_CLOCK_BOOTTIME;
	packet.process_tree = tree;
	return writer_packet(w, &packet);
}

static void fill_thread(Pb__ProcessTree__Thread *thread, uint32_t pid, uint32_t tid,
			const char *comm)
{
	pb__process_tree__thread__init(thread);
	thread->has_tid = thread->has_tgid = true;
	thread->tid = (int32_t)tid;
	thread->tgid = (int32_t)pid;
	thread->name = (char *)comm;
}

/* Cuts @copy (with a NUL behind) into at most MAX_ARGS arguments. */
static size_t split_cmdline(char *copy, size_t len, char **args)
{
	size_t n = 0;

	while (len && !copy[len - 1])
		len--;
	for (size_t at = 0; at < len && n < MAX_ARGS; at += strlen(copy + at) + 1)
		args[n++] = copy + at;
	return n;
}

int writer_process(struct writer *w, const struct writer_process *p, uint64_t boottime_ns)
{
	Pb__ProcessTree__Process process = PB__PROCESS_TREE__PROCESS__INIT,
				 *processes[] = {&process};
	Pb__ProcessTree__Thread thread, *threads[] = {&thread};
	Pb__ProcessTree tree = PB__PROCESS_TREE__INIT;
	char copy[MAX_CMDLINE + 1], *args[MAX_ARGS];
	size_t n_args = 0;
	int r;

	if (p->cmdline && !p->kernel_thread) {
		size_t len = min_u64(p->cmdline_len, MAX_CMDLINE);

		memcpy(copy, p->cmdline, len);
		copy[len] = 0;
		n_args = split_cmdline(copy, len, args);
	}
	process.has_cmdline_is_comm = process.cmdline_is_comm = !n_args;
	if (!n_args)
		args[n_args++] = (char *)p->comm;
	process.has_pid = process.has_ppid = process.has_uid = true;
	process.pid = (int32_t)p->pid;
	process.ppid = (int32_t)p->ppid;
	process.uid = (int32_t)p->uid;
	process.has_perfwind_life = p->life != 0;
	process.perfwind_life = p->life;
	process.has_perfwind_cgroup = p->cgroup != NULL;
	if (p->cgroup) {
		process.perfwind_cgroup.data = (uint8_t *)p->cgroup;
		process.perfwind_cgroup.len = strlen(p->cgroup);
	}
	process.cmdline = args;
	process.n_cmdline = n_args;
	process.has_is_kthread = process.is_kthread = p->kernel_thread;
	fill_thread(&thread, p->pid, p->pid, p->comm);
	tree.processes = processes;
	tree.threads = threads;
	tree.n_processes = tree.n_threads = 1;
	r = write_tree(w, &tree, boottime_ns);
	return r < 0 ? trace(r) : 0;
}

int writer_thread(struct writer *w, uint32_t pid, uint32_t tid, const char *comm,
		  uint64_t boottime_ns)
{
	Pb__ProcessTree__Thread thread, *threads[] = {&thread};
	Pb__ProcessTree tree = PB__PROCESS_TREE__INIT;
	int r;

	fill_thread(&thread, pid, tid, comm);
	tree.threads = threads;
	tree.n_threads = 1;
	r = write_tree(w, &tree, boottime_ns);
	return r < 0 ? trace(r) : 0;
}

/* ---- late names ---- */
static size_t text_size(const char *text)
{
	return text ? strnlen(text, MAX_TEXT) : 0;
}

static size_t line_size(const struct writer_line *line)
{
	size_t file = text_size(line->file);

	return pack_bytes_size(LINE__FUNCTION_NAME, text_size(line->function)) +
	       (file ? pack_bytes_size(LINE__SOURCE_FILE_NAME, file) : 0) +
	       (line->line ? pack_number_size(LINE__LINE_NUMBER, line->line) : 0);
}

static int append_symbol(struct buffer *b, uint64_t rel_pc, const struct writer_line *lines,
			 size_t n)
{
	size_t body = pack_number_size(ADDRESS_SYMBOLS__ADDRESS, rel_pc);
	uint8_t *p;

	for (size_t i = 0; i < n; i++)
		body += pack_bytes_size(ADDRESS_SYMBOLS__LINES, line_size(&lines[i]));
	p = buffer_reserve(b, pack_bytes_size(MODULE_SYMBOLS__ADDRESS_SYMBOLS, body));
	if (!p)
		return fail(-ENOMEM);
	p = pack_number(pack_head(p, MODULE_SYMBOLS__ADDRESS_SYMBOLS, body),
			ADDRESS_SYMBOLS__ADDRESS, rel_pc);
	for (size_t i = 0; i < n; i++) {
		const struct writer_line *line = &lines[i];

		p = pack_head(p, ADDRESS_SYMBOLS__LINES, line_size(line));
		p = pack_bytes(p, LINE__FUNCTION_NAME, line->function, text_size(line->function));
		if (text_size(line->file))
			p = pack_bytes(p, LINE__SOURCE_FILE_NAME, line->file,
				       text_size(line->file));
		if (line->line)
			p = pack_number(p, LINE__LINE_NUMBER, line->line);
	}
	b->len = (size_t)(p - b->data);
	return 0;
}

/* The waiting symbols of one mapping as a packet.  It needs incremental state as its frames did: where
 * that is lost (a ring buffer), they are too. */
static int flush_mapping(struct writer *w, struct intern_mapping *m)
{
	const struct string_entry *path = &w->intern.places.entries[m->path - 1];
	const struct string_entry *build_id =
		m->build_id ? &w->intern.places.entries[m->build_id - 1] : NULL;
	const uint32_t flags = PB__TRACE_PACKET__SEQUENCE_FLAGS__SEQ_NEEDS_INCREMENTAL_STATE;
	uint32_t sequence = w->options.sequence_id;
	size_t body, len;
	uint8_t *p;
	int r;

	if (!m->symbols.len)
		return 0;
	body = pack_bytes_size(MODULE_SYMBOLS__PATH, path->len) + m->symbols.len;
	body += build_id ? pack_bytes_size(MODULE_SYMBOLS__BUILD_ID, build_id->len) : 0;
	len = pack_bytes_size(TRACE_PACKET__MODULE_SYMBOLS, body);
	len += pack_number_size(TRACE_PACKET__SEQUENCE_FLAGS, flags);
	len += sequence ? pack_number_size(TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID, sequence) : 0;
	p = writer_packet_begin(w, len);
	if (!p)
		return fail(-ENOMEM);
	if (sequence)
		p = pack_number(p, TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID, sequence);
	p = pack_number(p, TRACE_PACKET__SEQUENCE_FLAGS, flags);
	p = pack_bytes(pack_head(p, TRACE_PACKET__MODULE_SYMBOLS, body), MODULE_SYMBOLS__PATH,
		       path->data, path->len);
	if (build_id)
		p = pack_bytes(p, MODULE_SYMBOLS__BUILD_ID, build_id->data, build_id->len);
	memcpy(p, m->symbols.data, m->symbols.len);
	p += m->symbols.len;
	w->symbol_bytes -= m->symbols.len;
	m->symbols.len = 0;
	r = writer_packet_end(w, p);
	return r < 0 ? trace(r) : 0;
}

int writer_symbols_flush(struct writer *w)
{
	for (size_t i = 0; w->symbol_bytes && i < w->intern.n_mappings; i++) {
		int r = flush_mapping(w, &w->intern.mappings[i]);

		if (r < 0)
			return trace(r);
	}
	return 0;
}

int writer_symbol(struct writer *w, uint32_t mapping, uint64_t rel_pc,
		  const struct writer_line *lines, size_t n)
{
	struct intern_frame *frame;
	struct intern_mapping *m;
	size_t before;
	int r;

	if (!mapping || mapping > w->intern.n_mappings)
		return fail(-EINVAL);
	if (!n)
		return 0;
	frame = intern_find_frame(&w->intern, mapping, rel_pc);
	if (!frame)
		frame = intern_find_frame(&w->intern, mapping, rel_pc | WRITER_GUESSED);
	/* A frame that the tables have forgotten was in the trace; one that they never had was not.
	 */
	if (!frame && w->intern.frame_generation == 1)
		return 0;
	if (frame && !frame->name) {
		/* For its entry of the next generation: the function the address is in, its
		 * outermost line. */
		r = intern_name(&w->intern, lines[n - 1].function, &frame->name);
		if (r < 0)
			return trace(r);
	}
	if (frame && !frame->written)
		return 0;
	m = &w->intern.mappings[mapping - 1];
	before = m->symbols.len;
	r = append_symbol(&m->symbols, rel_pc, lines, min_u64(n, MAX_LINES));
	if (r < 0)
		return trace(r);
	w->symbol_bytes += m->symbols.len - before;
	if (m->symbols.len >= SYMBOLS_PACKET)
		r = flush_mapping(w, m);
	else if (w->symbol_bytes > w->max_symbol_bytes)
		r = writer_symbols_flush(w);
	return r < 0 ? trace(r) : 0;
}
