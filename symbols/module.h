/* module.h - one ELF image (a file, or read from a process's memory): its unwind sections and its
 * symbols.
 *
 * Thread: load functions run in the process pw-parse (in place for an import), one module at a time.  The unwind
 * half is published by a store-release of the state and read by the unwinder thread; it is dropped
 * only by that thread (uw_engine_drop). The symbol half is published the same way, and read and
 * dropped by the main thread only.  Both halves are immutable once published.
 *
 * Files are never mapped: a target that truncates its binary would kill us by SIGBUS.  Needed
 * sections are read into our memory within bounds (libelf without mmap). */
#pragma once

#include "base/util.h"
#include "protos/frame-kind.h"

enum uw_arch { UW_ARCH_NONE, UW_ARCH_X86_64, UW_ARCH_AARCH64 };

#if defined(__x86_64__)
#define UW_ARCH_HOST UW_ARCH_X86_64
#elif defined(__aarch64__)
#define UW_ARCH_HOST UW_ARCH_AARCH64
#else
#define UW_ARCH_HOST UW_ARCH_NONE
#endif

struct uw_range {
	uint64_t address, len;
};
enum { UW_RANGES_MAX = 512, UW_RANGES_BYTES = 64 << 10 };

/* Reads @len bytes of a process at @address.  Returns the bytes read (0..len), or < 0. */
struct uw_memory {
	ssize_t (*read)(struct uw_memory *memory, uint64_t address, void *to, size_t len);
	/* At most UW_RANGES_MAX ranges of UW_RANGES_BYTES in all, one behind the other into @to; bytes that cannot be read are
	 * 0.  false: nothing was read.  NULL: not offered. */
	bool (*read_ranges)(struct uw_memory *memory, const struct uw_range *ranges, size_t n,
			    void *to);
	/* For the engine's thread: nothing is read (-EAGAIN) while `later` is set, and `wanted` is set where that was tried:
	 * the results are void then, and no engine keeps what it learned from them. */
	bool later, wanted;
	/* When the last read ended, CLOCK_MONOTONIC in ns: another process may have made it, and its reader may have waited for a
	 * CPU since.  0: not known. */
	uint64_t read_at;
	uint64_t n_reads; /* requests to another process so far */
};

/* Has a read been put off?  @memory may be NULL. */
static inline bool uw_memory_wanted(const struct uw_memory *memory)
{
	return memory && memory->wanted;
}

struct uw_module;

enum { UW_BUILD_ID_MAX = 20 };
struct uw_build_id {
	uint8_t len; /* 0: none known */
	uint8_t bytes[UW_BUILD_ID_MAX];
};

/* A mapped file. */
struct uw_file_id {
	struct uw_build_id build_id; /* len 0: not known */
	uint32_t major, minor;	     /* 0, 0: not known */
	uint64_t inode, generation;
};

/* How much of a jitdump was read. */
struct uw_extent {
	uint32_t codes, lines, pool; /* pool: bytes of texts */
};

/* Of a jitdump that is read again: the caller has its symbols as far as @known, and loads what follows; all where it has not so
 * much. */
struct uw_reading {
	struct uw_extent known;
	bool again;	 /* -EALREADY where there is no more */
	bool names_only; /* unwinding information is not wanted now */
};

enum uw_module_kind {
	UW_MODULE_FILE,
	UW_MODULE_MEMORY, /* vDSO, or a file that cannot be opened: read as ELF from the process's
			     memory */
	UW_MODULE_JIT,	  /* no ELF: frame pointers; names from a jitdump or a perf map.  Path is
			     the map's, or "[anon]" */
};

/* The jitdump of a JIT module: the program has it mapped, for profilers to see. */
struct uw_jitdump {
	uint64_t start, end;
	struct uw_file_id id;
	char path[];
};

/* Of one half.  NEW -> (caller) WANTED -> (loader) READY or UNREADABLE. */
enum uw_module_state { UW_MODULE_NEW, UW_MODULE_WANTED, UW_MODULE_READY, UW_MODULE_UNREADABLE };

/* New with one reference.  Copies @path; @id may be NULL. */
int uw_module_new(enum uw_module_kind kind, const char *path, const struct uw_build_id *id,
		  struct uw_module **ret_module);
struct uw_module *uw_module_ref(struct uw_module *module);
struct uw_module *uw_module_unref(struct uw_module *module);

enum uw_module_kind uw_module_kind(const struct uw_module *module);
const char *uw_module_path(const struct uw_module *module);
/* As given, or as found by loading.  len 0: none.  Main thread, after READY. */
const struct uw_build_id *uw_module_build_id(const struct uw_module *module);
/* Of a JIT module, the first time; a second jitdump is ignored.  Main thread.  -ENOMEM. */
int uw_module_set_jitdump(struct uw_module *module, const char *path, uint64_t start, uint64_t end,
			  const struct uw_file_id *id);
/* NULL: none is known.  Any thread. */
const struct uw_jitdump *uw_module_jitdump(const struct uw_module *module);
/* A small number, unique in the process and never reused. */
uint32_t uw_module_serial(const struct uw_module *module);
size_t uw_module_bytes(const struct uw_module *module); /* memory held, both halves */
/* Does its image keep a descriptor of the file?  Any thread. */
bool uw_module_keeps_file(const struct uw_module *module);
/* p_vaddr - p_offset of the first executable PT_LOAD: Perfetto's load_bias.  0 before loading. */
uint64_t uw_module_load_bias(const struct uw_module *module);
/* The ELF virtual address of a file offset, by the program headers; the offset itself where none
 * covers it or nothing is loaded yet. */
uint64_t uw_module_vaddr(const struct uw_module *module, uint64_t offset);
enum uw_module_state uw_module_unwind_state(const struct uw_module *module);
enum uw_module_state uw_module_symbol_state(const struct uw_module *module);
/* NEW -> WANTED; true when this call made the change (the caller then orders the load). */
bool uw_module_want_unwind(struct uw_module *module);
bool uw_module_want_symbols(struct uw_module *module);

/* CFI in a separate debug file. An engine that finds no CFI for an address, of a module with
 * `has_separate` in its image, sets this and ends PENDING. Its caller then drops the half by uw_engine_renew() and
 * orders a load; that load reads the debug file, and so do all later ones. Any thread. */
void uw_module_want_separate(struct uw_module *module);
bool uw_module_wants_separate(const struct uw_module *module);

/* ---- code of a Java VM (hotspot.h) ----
 *
 * A JIT module of a process with libjvm.so: both halves come from the VM.  Code is added while the process runs, so
 * the halves are read again and replaced whole, each by the thread that uses it. */
/* Its unwind half is waited for, as that of a file. */
void uw_module_expect_vm(struct uw_module *module);
bool uw_module_expects_vm(const struct uw_module *module);
/* Did the halves come from a VM?  Any thread. */
bool uw_module_is_vm(const struct uw_module *module);
/* Has its jitdump unwinding information?  Its unwind half is then that, and is replaced as the file grows.  Any thread. */
bool uw_module_has_jit_cfi(const struct uw_module *module);
/* true, once: it has some by now, which no engine has seen.  The unwinder's thread. */
bool uw_module_take_first_cfi(struct uw_module *module);
/* The halves that were loaded since, if any; names of a jitdump are added to those that are there.  Unwinder (uw_engine_adopt); main.
 * Symbols: 0: none; -EBADMSG, -ENOMEM: those that are there stay. */
enum { UW_MODULE_ADOPTED = 1 };
bool uw_module_adopt_unwind(struct uw_module *module);
int uw_module_adopt_symbols(struct uw_module *module);

/* ---- interpreters (interpreter.h) ----
 *
 * A JIT module with the path of a language stands for the functions that the interpreter of one process runs: an address in it
 * is that of a code object (PHP, Ruby: see uw_script_frame() of image.h).  Its image has the layout of the interpreter's
 * frames, its names come by uw_module_lines(). */
enum uw_language {
	UW_LANGUAGE_NONE,
	UW_LANGUAGE_PYTHON,
	UW_LANGUAGE_PHP,
	UW_LANGUAGE_RUBY,
	UW_LANGUAGE_JS,
	UW_LANGUAGES
};
#define UW_PYTHON_PATH "[python]"
#define UW_PHP_PATH "[php]"
#define UW_RUBY_PATH "[ruby]"
#define UW_JS_PATH "[js]"
/* The path of a language's module.  NULL for UW_LANGUAGE_NONE. */
const char *uw_language_path(enum uw_language language);
/* UW_LANGUAGE_NONE: the module is not that of an interpreter. */
enum uw_language uw_module_language(const struct uw_module *module);
/* The interpreter of which the file at @path is the library or program, by its name. */
enum uw_language uw_path_language(const char *path);

/* Notes of the unwinder's thread about reading it again. */
struct uw_renewal {
	uint64_t asked_at, not_before; /* CLOCK_MONOTONIC */
	uint32_t done;		       /* how often it was read again */
	bool asked;
};
struct uw_renewal *uw_module_renewal(struct uw_module *module);

/* ---- loader thread ---- */
/* Where an image comes from: an open file (borrowed, read by pread at any offset), or process
 * memory. */
struct tsc_conversion; /* base/tsc.h */
struct uw_source {
	int fd; /* -1: memory */
	struct uw_memory
		*memory; /* at [start, end): the image's first bytes, program headers included */
	uint64_t start, end;
	/* Of a JIT module: @fd is the memory of a process, and the image of its Java VM (libjvm.so), or of its
	 * interpreter, begins at this address.  0: none. */
	uint64_t vm;
	/* No duplicate of @fd is kept for engines that read the file: closing one asks its file
	 * system too. */
	bool no_duplicate;
	struct uw_reading reading;
	/* Its program runs on this machine: times of the processor's counter are known. */
	bool live;
	/* Not NULL: samples have the clock that this makes of the counter, and no other time of a jitdump is known.  Borrowed. */
	const struct tsc_conversion *conversion;
	/* The caller can load again: a separate debug file is read for CFI when a stack needs it
	 * (uw_module_want_separate), not at once. */
	bool later;
	/* Opens another file for separate debug information, as the target sees it; < 0 when there
	 * is none. NULL: open(2). */
	int (*open)(struct uw_source *source, const char *path);
	/* Opens the first of @n that can be opened and gives its number, where one request for all
	 * is cheaper. NULL: use open. */
	int (*open_first)(struct uw_source *source, const char *const *paths, size_t n,
			  size_t *ret_index);
};
/* Loads program headers, build id, .eh_frame_hdr/.eh_frame, .debug_frame, and sets the state to
 * READY or UNREADABLE (also returned: 0 or < 0; -ESTALE: not the image of the given build id, or
 * not the one that was loaded before a drop).  An image of another machine or of 32 bits is READY
 * without unwind information, arch NONE.  Segments and build id stay known after a drop. */
int uw_module_load_unwind(struct uw_module *module, struct uw_source *source);
/* Loads .symtab, .dynsym and .gnu_debugdata (and a separate debug file by build id or debuglink)
 * into one sorted index.  For JIT modules @source->fd is the jitdump or the perf map. */
int uw_module_load_symbols(struct uw_module *module, struct uw_source *source);
/* Without a load, because the file cannot be opened: sets both halves that are not READY to
 * UNREADABLE. */
void uw_module_set_unreadable(struct uw_module *module);
/* The same for the symbols alone: the other half may be loaded without them. */
void uw_module_set_no_symbols(struct uw_module *module);
/* Both, because the file did not answer in time; a later load may still succeed. */
void uw_module_set_unresponsive(struct uw_module *module);
/* Is this the reason why it cannot be unwound? Any thread. */
bool uw_module_unresponsive(const struct uw_module *module);

struct packer;
struct cursor;
/* The loaded parts, as bytes for a process of ours that has the same module: layout, and the halves
 * that are READY. */
void uw_module_pack(const struct uw_module *module, struct packer *to);
/* The reverse, with the result of a load: the halves in @from become READY.  Checked as foreign bytes:
 * -EBADMSG, -ENOMEM, or -ESTALE as for a load; a half that fails keeps its state.  Consumes @file: -1,
 * or a copy of the image's file for the engines that read it. */
int uw_module_unpack(struct uw_module *module, struct cursor *from, int file);

/* Reads only the build id of an ELF image.  0, or < 0; ret_id->len 0 when the file has none. */
int uw_source_build_id(struct uw_source *source, struct uw_build_id *ret_id);

/* ---- the thread that uses the half.  READY or UNREADABLE becomes NEW; WANTED is left alone ----
 */
void uw_module_drop_unwind(struct uw_module *module);  /* unwinder: state back to NEW */
void uw_module_drop_symbols(struct uw_module *module); /* main: state back to NEW */

/* The symbol that covers @vaddr: by its size, or up to the next symbol when it has none.  Names are
 * as in the file (mangled), borrowed while the half is READY.  false: none. */
struct uw_symbol {
	const char *name;
	uint64_t start, size;
	enum frame_kind kind; /* FRAME_NATIVE but in JIT modules */
	const char *file;     /* of a jitdump with lines: where @vaddr is; else NULL */
	uint32_t line;
};
bool uw_module_symbol(const struct uw_module *module, uint64_t vaddr, struct uw_symbol *ret_symbol);
/* The same of code that was at @vaddr at @time, CLOCK_MONOTONIC ns (UINT64_MAX: the latest): a JIT compiler uses memory again.
 * Known of a jitdump only. */
bool uw_module_symbol_at(const struct uw_module *module, uint64_t vaddr, uint64_t time,
			 struct uw_symbol *ret_symbol);
/* What they have of a jitdump, for uw_source.reading.known.  Main. */
struct uw_extent uw_module_extent(const struct uw_module *module);
/* Has a jitdump shown that memory is used again?  Main. */
bool uw_module_symbols_overlap(const struct uw_module *module);
/* Until when a jitdump was written at its last reading, CLOCK_MONOTONIC ns: the runtime keeps later records in its memory.  UINT64_MAX:
 * until the reading.  Main. */
uint64_t uw_module_symbols_until(const struct uw_module *module);
/* Are they of a jitdump with times of a clock of the processor (TSC)?  Main. */
bool uw_module_symbols_timeless(const struct uw_module *module);
/* No memory of code had other code from *ret_since to before *ret_until (CLOCK_MONOTONIC ns) than at @time, as far as a jitdump was
 * read.  Main. */
void uw_module_code_lasts(const struct uw_module *module, uint64_t time, uint64_t *ret_since,
			  uint64_t *ret_until);
/* Are there symbols at all beyond .dynsym? (for "modules without symbols") */
bool uw_module_has_symbols(const struct uw_module *module);

/* A call at an address. */
struct uw_line {
	const char *function; /* demangled */
	const char *file;     /* may be NULL */
	uint32_t line;	      /* 0: unknown */
	enum frame_kind kind; /* of its code; FRAME_NATIVE but in JIT modules */
};
/* Inlined calls and lines of one address, from DWARF; loader thread only.  Calls @add innermost first.  0: none found; > 0:
 * that many; -ENODATA: the module has no DWARF; do not ask again. */
int uw_module_lines(struct uw_module *module, struct uw_source *source, uint64_t vaddr,
		    void (*add)(void *arg, const struct uw_line *line), void *arg);
/* Addresses around @vaddr, [low, high), that have the same lines, in a part of their outermost function (function_high 0: there
 * is none).  After a uw_module_lines() >= 0 of @vaddr; loader thread.  false: not known. */
struct uw_span {
	uint64_t low, high, function_low, function_high;
};
bool uw_module_lines_span(struct uw_module *module, uint64_t vaddr, struct uw_span *ret_span);
/* Closes the DWARF that uw_module_lines() keeps open (counted in uw_module_bytes); loader thread.
 */
void uw_module_drop_lines(struct uw_module *module);
