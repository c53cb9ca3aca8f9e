/* engine-libunwind.c - libunwind as an engine: an oracle, and selectable.  Thread: the engine's.
 *
 * Remote unwinding with accessors of our own: registers and stack come from the snapshot, unwind
 * sections from our copies, and the search table of .eh_frame_hdr leads to the FDE (REMOTE_TABLE).
 * Nothing is read from a live process. Instruction bytes are read by pread(), where libunwind
 * checks whether a pc without unwind information is a signal trampoline or a PLT entry.
 *
 * libunwind's rule cache is keyed by pc alone, so each process (space key) has an address space of
 * its own; with one for all, the cache would have to be flushed whenever the process changes.  The
 * cache has 1,024 entries; the size is set twice because the first call on a fresh address space
 * resets it to the default (1.6.2, src/dwarf/Gparser.c, dwarf_flush_rs_cache: no memory yet). Where
 * the library was built with a cache for each thread, that one cache would serve all address spaces
 * at once and mix them up: this build refuses unw_set_cache_size(), and then the policy stays
 * global (one cache for each address space).
 */
#include <errno.h>
#include <unistd.h>

#include "base/error.h"
#include "unwinder/oracle.h"
#include "unwinder/regs.h"

#ifdef __x86_64__
#include <libunwind-x86_64.h>

/* Exported by libunwind-x86_64, declared in none of its headers (1.6.2, include/dwarf.h). */
int UNW_OBJ(dwarf_search_unwind_table)(unw_addr_space_t as, unw_word_t ip, unw_dyn_info_t *di,
				       unw_proc_info_t *pi, int need_unwind_info, void *arg);

enum { CACHE_ENTRIES = 1024, TRAMPOLINES = 4096 };

struct libunwind_engine {
	struct uw_engine engine;
	struct oracle_spaces spaces;
	uint64_t frames, misses;
	/* Of the stack being unwound: the accessors' argument is the engine. */
	struct uw_view view;
	struct oracle_space *slot;
	struct uw_result *res;
	bool stopped;			      /* by oracle_module_at(), see @res */
	bool no_info;			      /* the last pc had no unwind information */
	const struct oracle_module *searched; /* while its unwind information is read */
	int error;
	/* Is the code at a pc a signal trampoline?  Key and pc, direct-mapped: the answer needs two
	 * reads of code. */
	struct trampoline {
		uint64_t pc;
		uint32_t key;
		bool known, yes;
	} trampolines[TRAMPOLINES];
};

/* ---- accessors ---- */

static int libunwind_proc_info(unw_addr_space_t as, unw_word_t ip, unw_proc_info_t *pi,
			       int need_unwind_info, void *arg)
{
	struct libunwind_engine *e = arg;
	struct oracle_module *module;
	unw_dyn_info_t di = {
		.format = UNW_INFO_FORMAT_REMOTE_TABLE, .start_ip = ip, .end_ip = ip + 1};
	int r = oracle_module_at(e->slot, e->view.snapshot->space, ip, e->res, &module);

	e->misses++;
	if (r < 0) {
		e->error = r;
		return -UNW_ENOMEM;
	}
	if (r == ORACLE_STOP) {
		e->stopped = true;
		return -UNW_ESTOPUNWIND;
	}
	if (r == ORACLE_NEW) {
		r = oracle_table_init(e->slot, module);
		if (r < 0) {
			e->error = r;
			return -UNW_ENOMEM;
		}
	}
	if (r == ORACLE_NO_INFO || !module->n_table) {
		e->no_info = true;
		return -UNW_ENOINFO;
	}
	di.u.rti.segbase = module->table_base;
	di.u.rti.table_data = module->table;
	di.u.rti.table_len = module->n_table; /* in words: an entry is two int32 */
	e->searched = module;
	r = UNW_OBJ(dwarf_search_unwind_table)(as, ip, &di, pi, need_unwind_info, arg);
	e->searched = NULL;
	e->no_info = r == -UNW_ENOINFO;
	return r;
}

static void libunwind_put_unwind_info(unw_addr_space_t as, unw_proc_info_t *pi, void *arg)
{
	(void)as, (void)pi, (void)arg; /* libunwind gives it back to its own pool */
}

static int libunwind_dyn_info(unw_addr_space_t as, unw_word_t *address, void *arg)
{
	(void)as, (void)address, (void)arg;
	return -UNW_ENOINFO;
}

/* An FDE may name its personality by a pointer in the module's data, which libunwind follows though
 * no unwinding needs it: any value does. */
static bool libunwind_personality(const struct libunwind_engine *e, uint64_t address,
				  uint64_t *ret_word)
{
	const struct uw_image *image = e->searched ? e->searched->image : NULL;
	uint64_t vaddr = e->searched ? address - e->searched->bias : 0;

	for (size_t i = 0; image && i < image->n_segments; i++) {
		if (vaddr >= image->segments[i].vaddr &&
		    vaddr - image->segments[i].vaddr < image->segments[i].memsz) {
			*ret_word = 0;
			return true;
		}
	}
	return false;
}

/* Instruction bytes, from the file.  A mapping without one (JIT) reads as zeroes: mapped, and no
 * PLT. */
static bool libunwind_code(struct libunwind_engine *e, uint64_t address, uint64_t *ret_word)
{
	const struct uw_map *map = uw_space_find(e->view.snapshot->space, address);
	const struct uw_image *image = map && map->module ? uw_module_image(map->module) : NULL;
	uint64_t word = 0;

	if (!map)
		return false;
	if (image && image->fd >= 0 &&
	    pread(image->fd, &word, sizeof(word), (off_t)(map->offset + (address - map->start))) <
		    0)
		word = 0;
	*ret_word = word;
	return true;
}

static int libunwind_access_mem(unw_addr_space_t as, unw_word_t address, unw_word_t *word,
				int write, void *arg)
{
	struct libunwind_engine *e = arg;

	(void)as;
	if (write)
		return -UNW_EINVAL;
	if (uw_view_word(&e->view, address, word))
		return 0;
	if (!libunwind_personality(e, address, word) && !libunwind_code(e, address, word))
		return -UNW_EINVAL;
	e->view.missed = false;
	return 0;
}

static int libunwind_access_reg(unw_addr_space_t as, unw_regnum_t reg, unw_word_t *value, int write,
				void *arg)
{
	struct libunwind_engine *e = arg;

	(void)as;
	if (write || reg < 0 || reg > UNW_X86_64_RIP)
		return -UNW_EBADREG;
	*value =
		e->view.snapshot
			->regs[machine_x86_64.perf[reg]]; /* libunwind numbers them as DWARF does */
	return 0;
}

static int libunwind_access_fpreg(unw_addr_space_t as, unw_regnum_t reg, unw_fpreg_t *value,
				  int write, void *arg)
{
	(void)as, (void)reg, (void)value, (void)write, (void)arg;
	return -UNW_EBADREG;
}

static int libunwind_resume(unw_addr_space_t as, unw_cursor_t *cursor, void *arg)
{
	(void)as, (void)cursor, (void)arg;
	return -UNW_EINVAL;
}

/* unw_create_addr_space() copies it. */
static unw_accessors_t libunwind_accessors = {
	.find_proc_info = libunwind_proc_info,
	.put_unwind_info = libunwind_put_unwind_info,
	.get_dyn_info_list_addr = libunwind_dyn_info,
	.access_mem = libunwind_access_mem,
	.access_reg = libunwind_access_reg,
	.access_fpreg = libunwind_access_fpreg,
	.resume = libunwind_resume,
};

/* ---- one stack ---- */

static void libunwind_drop(void *handle)
{
	unw_destroy_addr_space(handle);
}

static int libunwind_slot_init(struct oracle_space *slot)
{
	unw_addr_space_t as = unw_create_addr_space(&libunwind_accessors, 0);
	int r;

	if (!as)
		return fail(-ENOMEM);
	r = unw_set_cache_size(as, CACHE_ENTRIES, 0);
	if (r == -UNW_ENOMEM) {
		libunwind_drop(as);
		return fail(-ENOMEM);
	}
	if (r < 0 || unw_set_cache_size(as, CACHE_ENTRIES, 0) < 0)
		(void)unw_set_caching_policy(as, UNW_CACHE_GLOBAL);
	else
		(void)unw_set_caching_policy(as, UNW_CACHE_PER_THREAD);
	slot->handle = as;
	return 0;
}

/* unw_is_signal_frame() knows only while a rule is not yet cached (1.6.2), so look at the code:
 * mov $SYS_rt_sigreturn, %rax; syscall, as every C library has it. */
static bool libunwind_trampoline(struct libunwind_engine *e, uint64_t pc)
{
	struct trampoline *t = &e->trampolines[hash_u64(pc + e->slot->key) & (TRAMPOLINES - 1)];
	uint64_t first = 0, last = 0;

	if (!e->slot->key || !t->known || t->pc != pc || t->key != e->slot->key) {
		*t = (struct trampoline){.pc = pc, .key = e->slot->key, .known = true};
		t->yes = libunwind_code(e, pc, &first) && first == 0x0f0000000fc0c748 &&
			 libunwind_code(e, pc + 8, &last) && (last & 0xff) == 0x05;
	}
	return t->yes;
}

/* After a step that found no next frame. */
static void libunwind_end(struct libunwind_engine *e, int r)
{
	struct uw_result *res = e->res;
	uint64_t pc = uw_frame_pc(res->frames[res->n_frames - 1]);

	if (r == -UNW_ENOMEM && !e->error)
		e->error = -ENOMEM;
	if (e->stopped) {
		/* A return address that leads nowhere is not a frame. */
		if (res->reason == UW_NO_MODULE && res->n_frames > 1)
			res->n_frames--;
		return;
	}
	if (r >= 0 && !e->no_info)
		uw_result_end(res, UW_WHOLE, UW_OK, 0);
	else if (e->view.missed)
		uw_result_out_of_copy(e->view.snapshot, res, e->view.missed_at);
	else if (e->no_info)
		uw_result_end(res, UW_FAILED, UW_NO_UNWIND_INFO, pc);
	else if (r == -UNW_EBADFRAME)
		uw_result_end(res, UW_FAILED, UW_NO_PROGRESS, pc);
	else
		uw_result_end(res, UW_FAILED, UW_BAD_CFI, pc);
}

static void libunwind_walk(struct libunwind_engine *e, unw_cursor_t *cursor)
{
	struct uw_result *res = e->res;
	uint64_t flags = 0;
	unw_word_t pc;
	int r;

	for (;;) {
		bool trampoline;

		if (unw_get_reg(cursor, UNW_REG_IP, &pc) < 0 || (!pc && res->n_frames)) {
			uw_result_end(res, UW_WHOLE, UW_OK, 0);
			return;
		}
		if (res->n_frames == res->max_frames) {
			uw_result_end(res, UW_CUT, UW_TOO_DEEP, pc);
			return;
		}
		trampoline = libunwind_trampoline(e, pc);
		if (trampoline)
			flags &= ~UW_FRAME_CALLER;
		res->frames[res->n_frames++] = (pc & (UW_FRAME_CALLER - 1)) | flags;
		e->view.missed = e->no_info = false;
		r = unw_step(cursor);
		if (r <= 0)
			break;
		if (trampoline)
			flags = UW_FRAME_SIGNAL;
		else
			flags = UW_FRAME_CALLER | (e->no_info ? UW_FRAME_GUESSED : 0);
	}
	libunwind_end(e, r);
}

static int libunwind_unwind_one(struct libunwind_engine *e, const struct uw_snapshot *snapshot,
				struct uw_result *res)
{
	unw_cursor_t cursor;

	if (!uw_result_begin(snapshot, res))
		return 0;
	if (snapshot->arch != UW_ARCH_X86_64) {
		uw_result_end(res, UW_FAILED, UW_ABI, 0);
		return 0;
	}
	e->slot = oracle_spaces_get(&e->spaces, snapshot->space);
	if (!e->slot->handle) {
		int r = libunwind_slot_init(e->slot);

		if (r < 0)
			return trace(r);
	}
	e->view = (struct uw_view){.snapshot = snapshot, .regions = &e->slot->regions};
	e->res = res;
	e->stopped = e->no_info = false;
	e->error = 0;
	if (unw_init_remote(&cursor, e->slot->handle, e) < 0) {
		uw_result_end(res, UW_FAILED, UW_NO_USER_STATE, 0);
		return 0;
	}
	libunwind_walk(e, &cursor);
	e->frames += res->n_frames;
	if (!e->error)
		return 0;
	/* A step that gets no memory for its cache returns with the cache locked (1.6.2,
	 * Gparser.c): the next step would wait permanently. */
	oracle_space_drop(&e->spaces, e->slot);
	return trace(e->error);
}

/* ---- the table's entries ---- */

static int libunwind_unwind(struct uw_engine *engine, const struct uw_snapshot *snapshots, size_t n,
			    struct uw_result *results)
{
	for (size_t i = 0; i < n; i++) {
		int r = libunwind_unwind_one((struct libunwind_engine *)engine, &snapshots[i],
					     &results[i]);

		if (r < 0)
			return trace(r);
	}
	return 0;
}

static void libunwind_forget(struct uw_engine *engine, const struct uw_module *module)
{
	struct libunwind_engine *e = (struct libunwind_engine *)engine;

	oracle_spaces_forget(&e->spaces, module);
	memset(e->trampolines, 0, sizeof(e->trampolines));
}

static void libunwind_free(struct uw_engine *engine)
{
	struct libunwind_engine *e = (struct libunwind_engine *)engine;

	oracle_spaces_deinit(&e->spaces);
	free(e);
}

static void libunwind_stats(const struct uw_engine *engine, struct uw_engine_stats *ret_stats)
{
	const struct libunwind_engine *e = (const struct libunwind_engine *)engine;

	ret_stats->frames = e->frames;
	ret_stats->cache_misses = e->misses;
	ret_stats->cache_hits = e->frames > e->misses ? e->frames - e->misses : 0;
}

static int libunwind_new(struct uw_engine **ret_engine)
{
	struct libunwind_engine *e = calloc(1, sizeof(*e));

	if (!e)
		return fail(-ENOMEM);
	e->engine.ops = &uw_libunwind_ops;
	e->spaces.drop = libunwind_drop;
	*ret_engine = &e->engine;
	return 0;
}

const struct uw_engine_ops uw_libunwind_ops = {
	.new = libunwind_new,
	.free = libunwind_free,
	.unwind = libunwind_unwind,
	.forget = libunwind_forget,
	.stats = libunwind_stats,
};

#else /* libunwind is built for one machine; elsewhere it is not offered. */

static int libunwind_new(struct uw_engine **ret_engine)
{
	(void)ret_engine;
	return fail(-EOPNOTSUPP);
}

const struct uw_engine_ops uw_libunwind_ops = {.new = libunwind_new};
#endif
