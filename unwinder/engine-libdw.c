/* engine-libdw.c - elfutils' libdwfl as an engine: an oracle, and selectable.  Thread: the
 * engine's; elfutils handles are never shared between threads.
 *
 *     process (space key)   one Dwfl, kept.  A module is reported when a stack first enters it, and
 *                           only once it is READY, because libdwfl remembers a failure permanently.
 *     module                one Elf for all processes, read by pread() from the image's descriptor.
 *                           It is never mapped: a target that truncates its file would kill us.
 *                           A module without a file (the vDSO) is read once, from the memory of the
 *                           first process that is unwound through it and has memory to read.
 *     stack                 one "thread" of the Dwfl; registers and memory come from the snapshot
 *
 * libdwfl would look for separate debug files, also through debuginfod on the network:
 * libdw_find_debuginfo() prevents that.  An ELF header of our own gives the Dwfl its architecture,
 * so that it can be attached before it has modules. */
#include <errno.h>
#include <string.h>

#include <elfutils/libdwfl.h>
#include <gelf.h>

#include "base/error.h"
#include "base/table.h"
#include "symbols/image.h"
#include "unwinder/oracle.h"
#include "unwinder/regs.h"
#include "unwinder/space.h"

enum { MEMORY_IMAGE_MAX = 1 << 20, THREAD = 1 };

struct libdw_elf {
	Elf *elf; /* NULL: cannot be had */
	uint64_t low,
		high; /* vaddrs: the first segment's start by its alignment, the last one's end */
	void *bytes;  /* owned: a memory module's image */
};

struct libdw_elfs {
	struct table by_serial; /* module serial -> struct libdw_elf */
};

struct libdw_engine {
	struct uw_engine engine;
	struct oracle_spaces spaces;
	struct libdw_elfs elfs;
	Elf *machines[UW_ARCH_AARCH64 + 1]; /* an ELF header alone, of each architecture */
	uint64_t frames;
	/* Of the stack being unwound. */
	struct uw_view view;
	struct oracle_space *slot;
	struct uw_result *res;
	uint64_t last_pc, last_at; /* of the last frame: its address, and where its unwind
				      information is looked up */
	bool interrupted;	   /* the last frame was a signal trampoline */
	bool activation;	   /* the last frame's address counts itself */
	bool guess; /* the caller of the last frame is found without unwind information */
	const struct uw_map *report; /* met, and not yet reported to the Dwfl */
	int error;
};

/* ---- the modules' files as libelf handles ---- */

static void libdw_elf_free(struct libdw_elf *image)
{
	if (image->elf)
		elf_end(image->elf);
	free(image->bytes);
	free(image);
}

/* Address range of the segments. */
static void libdw_elf_range(struct libdw_elf *image)
{
	size_t n_phdrs;
	bool first = true;

	if (elf_kind(image->elf) != ELF_K_ELF || elf_getphdrnum(image->elf, &n_phdrs) < 0)
		return;
	for (size_t i = 0; i < n_phdrs; i++) {
		GElf_Phdr phdr;

		if (!gelf_getphdr(image->elf, (int)i, &phdr) || phdr.p_type != PT_LOAD)
			continue;
		/* libdwfl takes a module's start for this address of its first segment. */
		if (first)
			image->low = phdr.p_align ? phdr.p_vaddr & -phdr.p_align : phdr.p_vaddr;
		image->high = max_u64(image->high, phdr.p_vaddr + phdr.p_memsz);
		first = false;
	}
}

/* libelf reports it only by its message. */
static bool elf_no_memory(void)
{
	int error = elf_errno();

	return error && !strcmp(elf_errmsg(error), "out of memory");
}

/* 0 also when there is no ELF image to be had: then image->elf is NULL. */
static int libdw_elf_open(struct libdw_elf *image, const struct uw_map *map,
			  const struct uw_space *space)
{
	int fd = uw_module_image(map->module)->fd;
	size_t len = (size_t)min_u64(map->end - map->start, MEMORY_IMAGE_MAX);

	if (fd >= 0) {
		image->elf = elf_begin(fd, ELF_C_READ, NULL);
	} else if (space->memory && !map->offset) {
		image->bytes = malloc(len);
		if (!image->bytes)
			return fail(-ENOMEM);
		if (space->memory->read(space->memory, map->start, image->bytes, len) ==
		    (ssize_t)len)
			image->elf = elf_memory(image->bytes, len);
	}
	if (!image->elf)
		return elf_no_memory() ? fail(-ENOMEM) : 0;
	libdw_elf_range(image);
	if (image->high <= image->low) {
		elf_end(image->elf);
		image->elf = NULL;
	}
	return 0;
}

/* Borrowed until the module is forgotten.  @map's module is READY.  -ENOMEM. */
static int libdw_elfs_get(struct libdw_elfs *elfs, const struct uw_map *map,
			  const struct uw_space *space, struct libdw_elf **ret_image)
{
	uint32_t serial = uw_module_serial(map->module);
	struct libdw_elf *image = table_pointer(&elfs->by_serial, serial);
	int r;

	if (!image) {
		image = calloc(1, sizeof(*image));
		if (!image)
			return fail(-ENOMEM);
		r = libdw_elf_open(image, map, space);
		if (r >= 0)
			r = table_put(&elfs->by_serial, serial, (uint64_t)(uintptr_t)image);
		if (r < 0) {
			libdw_elf_free(image);
			return trace(r);
		}
	}
	*ret_image = image;
	return 0;
}

/* NULL: all.  After the Dwfls that use them. */
static void libdw_elfs_forget(struct libdw_elfs *elfs, const struct uw_module *module)
{
	uint32_t serial = module ? uw_module_serial(module) : 0;
	struct libdw_elf *image = module ? table_pointer(&elfs->by_serial, serial) : NULL;

	if (image) {
		libdw_elf_free(image);
		(void)table_remove(&elfs->by_serial, serial);
	}
	if (module)
		return;
	table_for_each (&elfs->by_serial, slot)
		libdw_elf_free((struct libdw_elf *)(uintptr_t)slot->value);
	table_clear(&elfs->by_serial);
}

static void libdw_elfs_deinit(struct libdw_elfs *elfs)
{
	libdw_elfs_forget(elfs, NULL);
	table_deinit(&elfs->by_serial);
}

/* ---- modules of a Dwfl ---- */

static int libdw_find_elf(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
			  char **file_name, Elf **ret_elf)
{
	struct libdw_elf *image = *userdata;

	(void)module, (void)name, (void)base, (void)file_name;
	*ret_elf = image && image->elf ? elf_begin(-1, ELF_C_READ, image->elf)
				       : NULL; /* one more reference */
	return -1;
}

static int libdw_find_debuginfo(Dwfl_Module *module, void **userdata, const char *name,
				Dwarf_Addr base, const char *file, const char *link, GElf_Word crc,
				char **ret_name)
{
	(void)module, (void)userdata, (void)name, (void)base, (void)file, (void)link, (void)crc,
		(void)ret_name;
	return -1;
}

static const Dwfl_Callbacks libdw_callbacks = {
	.find_elf = libdw_find_elf,
	.find_debuginfo = libdw_find_debuginfo,
};

/* Reports the module in e->report to the Dwfl. */
static int libdw_report(struct libdw_engine *e)
{
	const struct uw_map *map = take(e->report);
	uint64_t bias = map->start - uw_map_vaddr(map, map->start);
	Dwfl *dwfl = e->slot->handle;
	Dwfl_Module *module;
	struct libdw_elf *image = NULL;
	void **userdata;
	int r = libdw_elfs_get(&e->elfs, map, e->view.snapshot->space, &image);

	if (r < 0)
		return trace(r);
	if (!image->elf)
		return 0;
	dwfl_report_begin_add(dwfl);
	module = dwfl_report_module(dwfl, uw_module_path(map->module), image->low + bias,
				    image->high + bias);
	if (module && dwfl_module_info(module, &userdata, NULL, NULL, NULL, NULL, NULL, NULL))
		*userdata = image;
	(void)dwfl_report_end(dwfl, NULL, NULL);
	return module ? 0 : fail(-ENOMEM);
}

/* ---- the thread that stands for a stack ---- */

static pid_t libdw_next_thread(Dwfl *dwfl, void *arg, void **thread_arg)
{
	(void)dwfl, (void)arg, (void)thread_arg;
	return 0;
}

static bool libdw_get_thread(Dwfl *dwfl, pid_t tid, void *arg, void **thread_arg)
{
	(void)dwfl, (void)tid;
	*thread_arg = arg;
	return true;
}

/* Before 0.192 libdwfl does not support pointer authentication, and later only with the mask that
 * ptrace reads from a live process.  A word that is an address of code apart from a signature is
 * taken for one. */
static uint64_t libdw_unsigned(const struct uw_snapshot *s, uint64_t word)
{
	uint64_t mask = uw_machine_pac_mask(uw_machine_of(s->arch), s->space, uw_snapshot_sp(s));

	return word & mask && uw_space_find(s->space, word & ~mask) ? word & ~mask : word;
}

static bool libdw_memory_read(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *word, void *arg)
{
	struct libdw_engine *e = arg;

	(void)dwfl;
	if (!uw_view_word(&e->view, address, word))
		return false;
	*word = libdw_unsigned(e->view.snapshot, *word);
	return true;
}

static bool libdw_registers(Dwfl_Thread *thread, void *arg)
{
	const struct uw_snapshot *snapshot = ((const struct libdw_engine *)arg)->view.snapshot;
	Dwarf_Word regs[DWARF_REGS];

	if (snapshot->arch == UW_ARCH_AARCH64) {
		/* x0..x30 and sp are DWARF's 0..31; the pc is given apart. */
		for (size_t i = 0; i <= UW_ARM64_SP; i++)
			regs[i] = snapshot->regs[i];
		regs[UW_ARM64_LR] = libdw_unsigned(snapshot, regs[UW_ARM64_LR]);
		dwfl_thread_state_register_pc(thread, snapshot->regs[UW_ARM64_PC]);
		return dwfl_thread_state_registers(thread, 0, UW_ARM64_SP + 1, regs);
	}
	for (size_t i = 0; i < DWARF_X86_COUNT; i++)
		regs[i] = snapshot->regs[machine_x86_64.perf[i]];
	return dwfl_thread_state_registers(thread, 0, DWARF_X86_COUNT, regs);
}

static const Dwfl_Thread_Callbacks libdw_thread_callbacks = {
	.next_thread = libdw_next_thread,
	.get_thread = libdw_get_thread,
	.memory_read = libdw_memory_read,
	.set_initial_registers = libdw_registers,
};

/* The row for @pc; the caller frees it.  NULL: none. */
static Dwarf_Frame *libdw_row(struct libdw_engine *e, uint64_t pc)
{
	Dwfl_Module *module = dwfl_addrmodule(e->slot->handle, pc);
	Dwarf_Addr bias = 0;
	Dwarf_CFI *cfi = module ? dwfl_module_eh_cfi(module, &bias) : NULL;
	Dwarf_Frame *frame = NULL;

	return cfi && !dwarf_cfi_addrframe(cfi, pc - bias, &frame) ? frame : NULL;
}

/* Is the pc in a signal trampoline? Only used where libdwfl reports that an address counts itself.
 */
static bool libdw_trampoline(struct libdw_engine *e, uint64_t pc)
{
	Dwarf_Frame *row = libdw_row(e, pc);
	bool signal = false;

	if (!row || dwarf_frame_info(row, NULL, NULL, &signal) < 0)
		signal = false;
	free(row);
	return signal;
}

/* Is the return address undefined at @pc?  Only used where the walk ended and some word had not
 * been there. */
static bool libdw_root(struct libdw_engine *e, uint64_t pc)
{
	Dwarf_Frame *row = libdw_row(e, pc);
	bool signal, undefined = false;
	Dwarf_Op memory[3], *ops;
	size_t n_ops;
	int ra = row ? dwarf_frame_info(row, NULL, NULL, &signal) : -1;

	/* dwarf_frame_register(): no operations, and the caller's own buffer, means undefined */
	if (ra >= 0 && !dwarf_frame_register(row, ra, memory, &ops, &n_ops))
		undefined = !n_ops && ops == memory;
	free(row);
	return undefined;
}

enum libdw_walk { WALK_ON, WALK_LAST, WALK_NO_FRAME };

/* Can the walk step from @pc?  WALK_LAST: no, @res has the reason; WALK_NO_FRAME: and it is not a
 * frame either. */
static enum libdw_walk libdw_check(struct libdw_engine *e, uint64_t pc)
{
	const struct uw_space *space = e->view.snapshot->space;
	struct oracle_module *module;
	int r = oracle_module_at(e->slot, space, pc, e->res, &module);

	if (r < 0) {
		e->error = r;
		return WALK_NO_FRAME;
	}
	if (r == ORACLE_NEW) {
		e->report = uw_space_find(space, pc);
		return WALK_NO_FRAME;
	}
	e->guess = r == ORACLE_NO_INFO;
	if (r != ORACLE_STOP)
		return WALK_ON;
	/* A return address that leads nowhere is not a frame. */
	return e->res->reason == UW_NO_MODULE && e->res->n_frames ? WALK_NO_FRAME : WALK_LAST;
}

/* Does the address count itself (true), or is it a return address?  Steps from @state. */
static bool libdw_activation(struct libdw_engine *e, Dwfl_Frame *state)
{
	bool activation = false;
	Dwarf_Addr pc;

	if (!e->res->n_frames)
		return true;
	if (!dwfl_frame_pc(state, &pc, &activation))
		return false;
	/* libdwfl reports true for a trampoline and for the frame that it interrupted. The
	 * innermost frame is not reported. */
	if (activation && e->res->n_frames == 1)
		e->interrupted = libdw_trampoline(e, uw_frame_pc(e->res->frames[0]));
	return activation;
}

static int libdw_frame(Dwfl_Frame *state, void *arg)
{
	struct libdw_engine *e = arg;
	struct uw_result *res = e->res;
	bool activation = !res->n_frames, guessed = e->guess;
	enum libdw_walk walk;
	uint64_t flags = 0;
	Dwarf_Addr pc;

	if (!dwfl_frame_pc(state, &pc, NULL)) {
		uw_result_end(res, UW_FAILED, UW_BAD_CFI, e->last_pc);
		return DWARF_CB_ABORT;
	}
	if (res->n_frames == res->max_frames) {
		uw_result_end(res, UW_CUT, UW_TOO_DEEP, pc);
		return DWARF_CB_ABORT;
	}
	/* Before libdwfl steps from here: it remembers a failure permanently. */
	walk = libdw_check(e, pc - (res->n_frames && !e->interrupted));
	if (walk == WALK_NO_FRAME)
		return DWARF_CB_ABORT;
	e->last_pc = pc;
	if (walk == WALK_ON)
		activation = libdw_activation(e, state);
	if (e->interrupted)
		flags = UW_FRAME_SIGNAL;
	else if (!activation)
		flags = UW_FRAME_CALLER | (guessed ? UW_FRAME_GUESSED : 0);
	e->last_at = pc - (flags & UW_FRAME_CALLER ? 1 : 0);
	e->interrupted = activation && !e->interrupted && res->n_frames && libdw_trampoline(e, pc);
	res->frames[res->n_frames++] = (pc & (UW_FRAME_CALLER - 1)) | flags;
	return walk == WALK_ON ? DWARF_CB_OK : DWARF_CB_ABORT;
}

/* ---- one stack ---- */

static void libdw_drop(void *handle)
{
	dwfl_end(handle);
}

static int libdw_slot_init(struct libdw_engine *e)
{
	Dwfl *dwfl = dwfl_begin(&libdw_callbacks);

	if (!dwfl)
		return fail(-ENOMEM);
	dwfl_report_begin(dwfl);
	if (dwfl_report_end(dwfl, NULL, NULL) ||
	    !dwfl_attach_state(dwfl, e->machines[e->view.snapshot->arch], THREAD,
			       &libdw_thread_callbacks, e)) {
		dwfl_end(dwfl);
		return fail(-ENOMEM);
	}
	e->slot->handle = dwfl;
	return 0;
}

static void libdw_end(struct libdw_engine *e, int r)
{
	/* A return address that could not be read is the same to libdwfl as one that is undefined:
	 * the end, r 0.  A register that could not be read fails only when a later frame stands on
	 * it, so any earlier miss counts. */
	if (r <= 0 && e->view.missed && (r < 0 || !libdw_root(e, e->last_at)))
		uw_result_out_of_copy(e->view.snapshot, e->res, e->view.missed_at);
	else if (!r)
		uw_result_end(e->res, UW_WHOLE, UW_OK, 0);
	else if (r < 0)
		uw_result_end(e->res, UW_FAILED, UW_NO_UNWIND_INFO, e->last_pc);
	/* else the callback has set the reason */
}

/* libdwfl reports it only by its message.  It keeps what it has met: the module would have no
 * unwind information for good. */
static bool libdw_no_memory(void)
{
	int error = dwfl_errno();

	return error && !strcmp(dwfl_errmsg(error), "out of memory");
}

static int libdw_walk(struct libdw_engine *e, const struct uw_snapshot *snapshot,
		      struct uw_result *res)
{
	int r;

	e->slot = oracle_spaces_get(&e->spaces, snapshot->space);
	e->view = (struct uw_view){.snapshot = snapshot, .regions = &e->slot->regions};
	e->res = res;
	e->error = 0;
	if (!e->slot->handle) {
		r = libdw_slot_init(e);
		if (r < 0)
			return trace(r);
	}
	do {
		if (e->report) {
			r = libdw_report(e);
			if (r < 0)
				return trace(r);
		}
		res->n_frames = 0;
		e->interrupted = e->guess = false;
		r = dwfl_getthread_frames(e->slot->handle, THREAD, libdw_frame, e);
	} while (e->report); /* each time for another mapping of the space */
	if (e->error)
		return trace(e->error);
	if (r < 0 && libdw_no_memory())
		return fail(-ENOMEM);
	libdw_end(e, r);
	e->frames += res->n_frames;
	return 0;
}

static int libdw_unwind_one(struct libdw_engine *e, const struct uw_snapshot *snapshot,
			    struct uw_result *res)
{
	int r;

	if (!uw_result_begin(snapshot, res))
		return 0;
	r = libdw_walk(e, snapshot, res);
	if (r < 0) {
		oracle_space_drop(&e->spaces, e->slot);
		return trace(r);
	}
	return 0;
}

/* ---- the table's entries ---- */

static int libdw_unwind(struct uw_engine *engine, const struct uw_snapshot *snapshots, size_t n,
			struct uw_result *results)
{
	for (size_t i = 0; i < n; i++) {
		int r = libdw_unwind_one((struct libdw_engine *)engine, &snapshots[i], &results[i]);

		if (r < 0)
			return trace(r);
	}
	return 0;
}

/* After the Dwfls that use them. */
static void libdw_forget(struct uw_engine *engine, const struct uw_module *module)
{
	struct libdw_engine *e = (struct libdw_engine *)engine;

	oracle_spaces_forget(&e->spaces, module);
	libdw_elfs_forget(&e->elfs, module);
}

static void libdw_free(struct uw_engine *engine)
{
	struct libdw_engine *e = (struct libdw_engine *)engine;

	oracle_spaces_deinit(&e->spaces);
	libdw_elfs_deinit(&e->elfs);
	for (size_t i = 0; i < ARRAY_SIZE(e->machines); i++)
		if (e->machines[i])
			elf_end(e->machines[i]);
	free(e);
}

static void libdw_stats(const struct uw_engine *engine, struct uw_engine_stats *ret_stats)
{
	ret_stats->frames = ((const struct libdw_engine *)engine)->frames;
}

static int libdw_new(struct uw_engine **ret_engine)
{
	/* elf_memory() never writes to it, though its parameter is not const. */
	static Elf64_Ehdr headers[UW_ARCH_AARCH64 + 1] = {
#define HEADER(machine)                                                                  \
	{                                                                                \
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, \
			    EV_CURRENT},                                                 \
		.e_type = ET_EXEC,                                                       \
		.e_machine = (machine),                                                  \
		.e_version = EV_CURRENT,                                                 \
		.e_ehsize = sizeof(Elf64_Ehdr),                                          \
	}
		[UW_ARCH_X86_64] = HEADER(EM_X86_64),
		[UW_ARCH_AARCH64] = HEADER(EM_AARCH64),
#undef HEADER
	};
	struct libdw_engine *e = calloc(1, sizeof(*e));

	if (!e)
		return fail(-ENOMEM);
	e->engine.ops = &uw_libdw_ops;
	e->spaces.drop = libdw_drop;
	(void)elf_version(EV_CURRENT);
	for (size_t i = UW_ARCH_X86_64; i <= UW_ARCH_AARCH64; i++) {
		e->machines[i] = elf_memory((char *)&headers[i], sizeof(headers[i]));
		if (!e->machines[i]) {
			libdw_free(&e->engine);
			return fail(-ENOMEM);
		}
	}
	*ret_engine = &e->engine;
	return 0;
}

const struct uw_engine_ops uw_libdw_ops = {
	.new = libdw_new,
	.free = libdw_free,
	.unwind = libdw_unwind,
	.forget = libdw_forget,
	.stats = libdw_stats,
};
