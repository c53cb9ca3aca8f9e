/* annotate.c - see annotate.h. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/annotate.h"
#include "cli/module-file.h"
#include "proc/open-file.h"
#include "profile/fold.h"
#include "symbols/demangle.h"
#include "symbols/jitdump.h"
#include "symbols/machine-code.h"

enum {
	CODE_BYTES = 1 << 20, /* of one function */
	LOOKUPS = 1 << 16,    /* of lines for instructions without a sample */
	LEVELS = 256,	      /* inlined calls of an address, as of a trace */
	NAME_BYTES = 1024,
};

/* Samples at one address. */
struct leaf {
	uint32_t module, frame;
	uint32_t call; /* the function's among the calls of the frame; 0: the innermost */
	uint64_t address, weight, count;
};

struct annotator {
	struct annotation *a;
	const struct profile *profile;
	const struct annotate_options *options;
	struct leaf *leaves; /* by address, of one module */
	size_t n;
	struct module_file file;
	struct uw_module *module; /* NULL: its file was not found */
	bool jit;		  /* the file is a jitdump */
	uint32_t lookups;
	size_t n_instructions;
	/* while a part is disassembled */
	struct annotate_part *part;
	size_t next, end; /* leaves of the part that are not placed yet */
};

/* ---- samples ---- */

static int by_address(const void *left, const void *right)
{
	const struct leaf *a = left, *b = right;

	if (a->module != b->module)
		return ascend(a->module, b->module);
	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	return ascend(a->call, b->call);
}

enum { NO_CALL = -1 };

/* The function's innermost call in @frame; NO_CALL: there is none. */
static int call_in(const struct fold *f, uint32_t frame, const uint8_t *match)
{
	uint32_t n = f->first_call[frame + 1] - f->first_call[frame];

	for (uint32_t i = 0; i < n; i++)
		if (match[fold_call_symbol(f->calls[f->first_call[frame] + i])])
			return (int)i;
	return NO_CALL;
}

static void count_in(struct annotate_figure *figure, uint64_t weight, uint64_t count)
{
	figure->weight += weight;
	figure->count += count;
}

/* Adds up what is at one address in one call; in place. */
static size_t merge_leaves(struct leaf *leaves, size_t n)
{
	size_t to = 0;

	qsort(leaves, n, sizeof(*leaves), by_address);
	for (size_t i = 1; i < n; i++)
		if (by_address(&leaves[to], &leaves[i])) {
			leaves[++to] = leaves[i];
		} else {
			leaves[to].weight += leaves[i].weight;
			leaves[to].count += leaves[i].count;
		}
	return n ? to + 1 : 0;
}

/* Keeps the module with the most samples of the function. */
static void choose_module(struct annotator *x)
{
	size_t best = 0, best_n = 0, n;
	uint64_t most = 0, all = 0;

	for (size_t i = 0; i < x->n; i += n) {
		uint64_t weight = 0;

		for (n = 0; i + n < x->n && x->leaves[i + n].module == x->leaves[i].module; n++) {
			weight += x->leaves[i + n].weight;
			all += x->leaves[i + n].count;
		}
		if (weight >= most) {
			most = weight;
			best = i;
			best_n = n;
		}
	}
	memmove(x->leaves, x->leaves + best, best_n * sizeof(*x->leaves));
	x->n = best_n;
	for (size_t i = 0; i < x->n; i++)
		count_in(x->leaves[i].call ? &x->a->inlined : &x->a->self, x->leaves[i].weight,
			 x->leaves[i].count);
	x->a->weight = x->a->self.weight + x->a->inlined.weight;
	x->a->count = x->a->self.count + x->a->inlined.count;
	x->a->elsewhere = all - x->a->count;
}

/* Leaves the functions of the module that was chosen. */
static void count_functions(struct annotator *x, const struct fold *f, uint8_t *match)
{
	for (uint32_t i = 0; i < f->n_symbols; i++) {
		match[i] &= f->symbols[i].module == x->leaves[0].module;
		x->a->n_functions += match[i];
	}
}

/* The samples with the function further out in their stacks. */
static int count_called(struct annotator *x, struct fold *f, const uint8_t *match)
{
	const struct profile *p = x->profile;
	_cleanup_(freep) uint8_t *has = NULL;
	struct annotate_figure all = {0};
	int r = fold_array(f, p->n_nodes, sizeof(*has), "different calls in its stacks", &has);

	if (r < 0)
		return trace(r);
	for (size_t i = 0; i < p->n_nodes; i++) /* a caller is before what it calls */
		has[i] = (p->nodes[i].up < i && has[p->nodes[i].up]) ||
			 call_in(f, p->nodes[i].frame, match) != NO_CALL;
	for (size_t i = 0; i < f->n_groups; i++)
		if (f->groups[i].stack < p->n_nodes && has[f->groups[i].stack])
			count_in(&all, f->groups[i].weight, f->groups[i].count);
	count_in(&x->a->called, all.weight - x->a->weight, all.count - x->a->count);
	return 0;
}

static int collect(struct annotator *x, struct fold *f)
{
	_cleanup_(freep) uint8_t *match = NULL;
	const struct profile *p = x->profile;
	int r = fold_find_function(f, x->options->function, &match);

	if (r < 0)
		return trace(r);
	x->leaves = calloc(f->n_groups + 1, sizeof(*x->leaves));
	if (!x->leaves)
		return fail(-ENOMEM);
	for (size_t i = 0; i < f->n_groups; i++) {
		const struct fold_group *g = &f->groups[i];
		uint32_t frame;
		int call;

		if (g->stack >= p->n_nodes || fold_is_error(f, g->stack))
			continue;
		frame = p->nodes[g->stack].frame;
		call = call_in(f, frame, match);
		if (call != NO_CALL)
			x->leaves[x->n++] =
				(struct leaf){p->frames[frame].module, frame,	  (uint32_t)call,
					      p->frames[frame].rel_pc, g->weight, g->count};
	}
	x->n = merge_leaves(x->leaves, x->n);
	choose_module(x);
	x->a->all_weight = f->weight;
	x->a->all_count = f->count;
	if (!x->n)
		return fail(-ENODATA);
	count_functions(x, f, match);
	return trace(count_called(x, f, match));
}

/* ---- texts and lines ---- */

static int add_text(struct annotation *a, const char *text, uint32_t *ret)
{
	return string_table_add(&a->texts, text, strlen(text), ret, NULL);
}

/* Where the calls of an address are, the innermost first. */
struct levels {
	struct annotation *a;
	struct level {
		uint32_t file, line; /* 0: unknown */
	} at[LEVELS];
	uint32_t n;
	int error;
};

static void add_level(struct levels *levels, const char *file, uint32_t line)
{
	struct level *to = &levels->at[levels->n];

	if (levels->n == LEVELS || levels->error < 0)
		return;
	*to = (struct level){.line = file ? line : 0};
	if (file)
		levels->error = add_text(levels->a, file, &to->file);
	levels->n++;
}

static void take_level(void *arg, const struct uw_line *line)
{
	add_level(arg, line->file, line->line);
}

/* By the file's DWARF; of sampled addresses by the trace, where it knows more. */
static int find_levels(struct annotator *x, uint64_t address, const struct leaf *leaf,
		       struct levels *levels)
{
	const struct profile_frame *frame = leaf ? &x->profile->frames[leaf->frame] : NULL;
	int r = 0;

	levels->a = x->a;
	levels->n = 0;
	levels->error = 0;
	if (x->module && !x->jit && (leaf || x->lookups++ < LOOKUPS))
		r = uw_module_lines(x->module, &x->file.source, address, take_level, levels);
	if (frame &&
	    (levels->n < frame->n_lines || (levels->n == frame->n_lines && !levels->at[0].line))) {
		levels->n = 0;
		for (uint32_t i = 0; i < frame->n_lines; i++) {
			const struct profile_line *line = &x->profile->lines[frame->first_line + i];

			add_level(levels,
				  line->file ? string_table_text(&x->profile->strings, line->file)
					     : NULL,
				  line->line);
		}
	}
	return r == -ENOMEM || levels->error < 0 ? fail(-ENOMEM) : 0;
}

/* Of the innermost call. */
static int find_line(struct annotator *x, uint64_t address, const struct leaf *leaf,
		     struct annotate_instruction *to)
{
	struct levels levels;
	int r = find_levels(x, address, leaf, &levels);

	if (r < 0)
		return trace(r);
	if (levels.n && levels.at[0].line) {
		to->file = levels.at[0].file;
		to->line = levels.at[0].line;
	}
	return 0;
}

/* ---- parts ---- */

static struct annotate_instruction *add_instruction(struct annotator *x, struct annotate_part *part)
{
	if (part->n == part->room && !array_grow(part->instructions, part->room, 64))
		return NULL;
	x->n_instructions++;
	part->instructions[part->n] = (struct annotate_instruction){.address = 0};
	return &part->instructions[part->n++];
}

/* The sampled addresses alone. */
static int add_leaves(struct annotator *x, struct annotate_part *part, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++) {
		const struct leaf *leaf = &x->leaves[i];
		bool again = i > from && leaf->address == leaf[-1].address;
		struct annotate_instruction *insn =
			again ? &part->instructions[part->n - 1] : add_instruction(x, part);

		if (!insn)
			return fail(-ENOMEM);
		insn->address = leaf->address;
		insn->weight += leaf->weight;
		insn->count += leaf->count;
		if (again)
			continue;
		if (find_line(x, insn->address, leaf, insn) < 0)
			return fail(-ENOMEM);
	}
	return 0;
}

enum { FULL = 1 };

static int take_instruction(void *arg, const struct uw_instruction *from)
{
	struct annotator *x = arg;
	const struct leaf *leaf = NULL;
	struct annotate_instruction *to;

	if (x->n_instructions == ANNOTATE_INSTRUCTIONS)
		return FULL;
	to = add_instruction(x, x->part);
	if (!to || add_text(x->a, from->text, &to->text) < 0)
		return fail(-ENOMEM);
	to->address = from->vaddr;
	for (; x->next < x->end && x->leaves[x->next].address < from->vaddr + from->size;
	     x->next++) {
		leaf = &x->leaves[x->next];
		to->weight += leaf->weight;
		to->count += leaf->count;
	}
	return find_line(x, from->vaddr, leaf, to);
}

/* The code of a part, with samples leaves [from, to).  Where it cannot be read, the addresses. */
static int disassemble(struct annotator *x, struct annotate_part *part, uint64_t size, size_t from,
		       size_t to)
{
	struct uw_code code = {.data = NULL};
	uint64_t last = x->leaves[to - 1].address - part->start + 1;
	int r;

	/* Without a size, or with one that is wrong: up to the last sample. */
	size = size >= last ? size : last + 15;
	r = size > CODE_BYTES ? -EFBIG
	    : x->jit	      ? jitdump_code(x->file.source.fd, part->start, &code)
			      : uw_code_load(&x->file.source, part->start, size, &code);
	if (r >= 0) {
		x->part = part;
		x->next = from;
		x->end = to;
		r = uw_code_each(&code, x->options->intel, take_instruction, x);
		uw_code_deinit(&code);
	}
	if (r == -ENOMEM)
		return trace(r);
	if (r == 0 && x->next >= to)
		return 0;
	x->a->note = r == -EOPNOTSUPP ? "libcapstone is not installed (or this perfwind was built "
					"without it, or the "
					"code is not x86-64 or aarch64)"
		     : r == -EFBIG || r == FULL ? "the function is too large"
						: "the code cannot be read";
	x->n_instructions -= part->n;
	part->n = 0;
	return add_leaves(x, part, from, to);
}

/* The samples of leaves [from, to) are in @symbol, or in none. */
static int add_part(struct annotator *x, const struct uw_symbol *symbol, size_t from, size_t to)
{
	struct annotation *a = x->a;
	struct annotate_part *part = &a->parts[a->n_parts];
	char name[NAME_BYTES];

	if (a->n_parts == ANNOTATE_PARTS) {
		for (size_t i = from; i < to; i++)
			a->left_out += x->leaves[i].count;
		return 0;
	}
	a->n_parts++;
	*part = (struct annotate_part){.start = symbol ? symbol->start : 0};
	for (size_t i = from; i < to; i++) {
		part->weight += x->leaves[i].weight;
		part->count += x->leaves[i].count;
	}
	if (!symbol)
		return add_leaves(x, part, from, to);
	uw_demangle(symbol->name, name, sizeof(name));
	if (add_text(a, name, &part->name) < 0)
		return fail(-ENOMEM);
	return disassemble(x, part, symbol->size, from, to);
}

static int by_weight(const void *left, const void *right)
{
	const struct annotate_part *a = left, *b = right;

	return (a->weight < b->weight) - (a->weight > b->weight);
}

static int add_parts(struct annotator *x)
{
	size_t n;
	int r = 0;

	for (size_t i = 0; i < x->n && r >= 0; i += n) {
		struct uw_symbol symbol;
		bool found =
			x->module && uw_module_symbol(x->module, x->leaves[i].address, &symbol);

		for (n = 1; i + n < x->n; n++) {
			struct uw_symbol other;
			bool too = x->module &&
				   uw_module_symbol(x->module, x->leaves[i + n].address, &other);

			if (too != found || (found && other.start != symbol.start))
				break;
		}
		r = add_part(x, found ? &symbol : NULL, i, i + n);
	}
	qsort(x->a->parts, x->a->n_parts, sizeof(x->a->parts[0]), by_weight);
	return r < 0 ? trace(r) : 0;
}

/* ---- the table of lines ---- */

static int by_place(const void *left, const void *right)
{
	const struct annotate_line *a = left, *b = right;

	return a->file != b->file ? ascend(a->file, b->file) : ascend(a->line, b->line);
}

static int by_line_weight(const void *left, const void *right)
{
	const struct annotate_line *a = left, *b = right;

	if (a->all.weight != b->all.weight)
		return (a->all.weight < b->all.weight) - (a->all.weight > b->all.weight);
	return by_place(left, right);
}

/* Adds up what is at one line. */
static void sum_lines(struct annotate_lines *lines)
{
	struct annotate_line *list = lines->list;
	size_t to = 0;

	qsort(list, lines->n, sizeof(*list), by_place);
	for (size_t i = 1; i < lines->n; i++)
		if (by_place(&list[to], &list[i])) {
			list[++to] = list[i];
		} else {
			count_in(&list[to].all, list[i].all.weight, list[i].all.count);
			count_in(&list[to].self, list[i].self.weight, list[i].self.count);
		}
	lines->n = lines->n ? to + 1 : 0;
	qsort(list, lines->n, sizeof(*list), by_line_weight);
}

static int add_lines(struct annotator *x)
{
	struct annotation *a = x->a;
	struct levels levels;

	a->lines.list = calloc(x->n + 1, sizeof(*a->lines.list));
	a->inlined_lines.list = calloc(x->n + 1, sizeof(*a->lines.list));
	if (!a->lines.list || !a->inlined_lines.list)
		return fail(-ENOMEM);
	for (size_t i = 0; i < x->n; i++) {
		const struct leaf *leaf = &x->leaves[i];
		struct annotate_line line = {.all = {leaf->weight, leaf->count}};
		uint32_t own = leaf->call;

		if (find_levels(x, leaf->address, leaf, &levels) < 0)
			return fail(-ENOMEM);
		/* A trace without inlined calls has the outermost ones of the DWARF. */
		own += levels.n -
		       (uint32_t)min_u64(levels.n, x->profile->frames[leaf->frame].n_lines);
		own = (uint32_t)min_u64(own, levels.n ? levels.n - 1 : 0);
		a->unsplit += own && !leaf->call ? leaf->count : 0;
		if (levels.n) {
			line.file = levels.at[own].file;
			line.line = levels.at[own].line;
		}
		if (!leaf->call)
			line.self = line.all;
		a->lines.list[a->lines.n++] = line;
		if (own)
			a->inlined_lines.list[a->inlined_lines.n++] = (struct annotate_line){
				.file = levels.at[0].file,
				.line = levels.at[0].line,
				.all = line.all,
			};
	}
	sum_lines(&a->lines);
	sum_lines(&a->inlined_lines);
	return 0;
}

/* ---- all of it ---- */

/* The jitdump of the process of "/tmp/perf-PID.map": where runtimes write it, if it is this user's. */
static int find_jitdump(const char *map)
{
	static const char *const folders[] = {".", "/tmp"};
	size_t digits;
	char path[64];

	if (strncmp(map, "/tmp/perf-", 10) != 0)
		return -ENOENT;
	digits = strspn(map + 10, "0123456789");
	for (size_t i = 0; digits && digits < 20 && i < ARRAY_SIZE(folders); i++) {
		struct stat st;
		int fd;

		(void)snprintf(path, sizeof(path), "%s/jit-%.*s.dump", folders[i], (int)digits,
			       map + 10);
		fd = procfs_open_regular(path, NULL, &st);
		if (fd >= 0 && st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH)))
			return fd;
		(void)fd_close(fd);
	}
	return -ENOENT;
}

/* Code that was made while the program ran: the runtime may have written it to a jitdump. */
static int open_jitdump(struct annotator *x, const char *map)
{
	const char *path = x->options->jitdump;
	struct stat st;
	int r;

	x->file.source.fd = path ? procfs_open_regular(path, NULL, &st) : find_jitdump(map);
	if (x->file.source.fd < 0) {
		x->a->note =
			path ? "the jitdump cannot be read"
			     : "the code was made while the program ran (JIT): a jitdump has it, "
			       "where the runtime writes one (--jitdump FILE)";
		return 0;
	}
	x->jit = true;
	r = uw_module_new(UW_MODULE_JIT, map, NULL, &x->module);
	if (r >= 0 && uw_module_load_symbols(x->module, &x->file.source) == -ENOMEM)
		r = -ENOMEM;
	return r < 0 ? trace(r) : 0;
}

/* UW_LANGUAGE_NONE: the module is not that of an interpreter. */
static enum uw_language language_of(const char *path)
{
	for (int i = UW_LANGUAGE_NONE + 1; i < UW_LANGUAGES; i++)
		if (!strcmp(path, uw_language_path((enum uw_language)i)))
			return (enum uw_language)i;
	return UW_LANGUAGE_NONE;
}

static void note_interpreter(struct annotation *a, enum uw_language language)
{
	a->interpreted = true;
	/* uw_script_frame() has the instruction. */
	a->note =
		language == UW_LANGUAGE_PHP || language == UW_LANGUAGE_RUBY
			? "an interpreter runs this function: the trace has the lines that ran, "
			  "and "
			  "no instructions"
			: "the trace has one line of this function, that of its definition "
			  "(below), "
			  "and not the lines that ran: an interpreter runs it, or a compiler made "
			  "its code while the program ran (report --callees FUNC shows what it "
			  "called)";
}

static int open_module(struct annotator *x)
{
	const struct profile *p = x->profile;
	const struct profile_module *m;
	enum uw_language language;
	int r;

	if (x->leaves[0].module >= p->n_modules) {
		x->a->note = "the trace has no module for it";
		return add_text(x->a, "", &x->a->module);
	}
	m = &p->modules[x->leaves[0].module];
	r = add_text(x->a, string_table_text(&p->strings, m->path), &x->a->module);
	if (r < 0)
		return trace(r);
	language = language_of(string_table_text(&p->strings, m->path));
	if (m->kernel)
		x->a->note = "a trace has no addresses of kernel code, which would show where the "
			     "kernel lies in memory (perf annotate with a vmlinux shows it)";
	else if (language != UW_LANGUAGE_NONE)
		note_interpreter(x->a, language);
	else if (!module_file_is_one(p, m))
		return open_jitdump(x, string_table_text(&p->strings, m->path));
	else if (module_file_open(&x->file, x->options->places, p, m) < 0)
		x->a->note = m->build_id_len
				     ? "no file with the module's build id was found here (--symfs)"
				     : "the module has no build id, so the file at its path may be "
				       "another "
				       "one: --symfs / takes it";
	else
		return module_file_symbols(&x->file, p, m, &x->module);
	return 0;
}

int annotate_init(struct annotation *a, const struct profile *profile,
		  const struct annotate_options *options)
{
	struct annotator x = {.a = a, .profile = profile, .options = options, .file.source.fd = -1};
	struct fold f;
	int r;

	*a = (struct annotation){.module = 0};
	r = fold_init(&f, profile, options->only);
	if (r < 0)
		return trace(r);
	r = collect(&x, &f);
	fold_deinit(&f);
	if (r >= 0)
		r = add_text(a, options->function, &a->function);
	if (r >= 0)
		r = open_module(&x);
	if (r >= 0)
		r = add_parts(&x);
	if (r >= 0)
		r = add_lines(&x);
	(void)uw_module_unref(x.module);
	module_file_close(&x.file);
	free(x.leaves);
	if (r < 0)
		annotate_deinit(a);
	return r < 0 ? trace(r) : 0;
}

void annotate_deinit(struct annotation *a)
{
	for (size_t i = 0; i < a->n_parts; i++)
		free(a->parts[i].instructions);
	free(a->lines.list);
	free(a->inlined_lines.list);
	string_table_deinit(&a->texts);
	*a = (struct annotation){.module = 0};
}
