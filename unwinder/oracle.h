/* oracle.h - what the engines over libunwind and libdw share: one kept object of the library for
 * each process (space key), bounded, the least recently used dropped.  Private to unwinder/.
 * Thread: the engine's.
 *
 * Spaces with the same non-zero key agree wherever both have a mapping (unwinder.h), so an object
 * that knows the modules of one may learn those of the other.  Key 0 promises nothing: such an
 * object serves one space only, which it holds a reference on so that the pointer stays a name. */
#pragma once

#include "symbols/image.h"
#include "unwinder/memory.h"

enum { ORACLE_SPACES = 64 };

struct oracle_module {
	const struct uw_module *module;
	const struct uw_image *image;
	uint64_t bias; /* address = vaddr + bias */
	/* libunwind: the binary search table, as addresses; 0 entries: none */
	uint64_t table, table_base;
	size_t n_table;
	void *made_table; /* owned: ours, where the module has none (oracle-table.c) */
};

struct oracle_space {
	uint32_t key;
	struct uw_space *held; /* key 0 */
	uint64_t used;
	struct oracle_module *modules;
	size_t n_modules;
	struct uw_regions regions;
	void *handle; /* the library's object; NULL: the slot is free */
};

struct oracle_spaces {
	struct oracle_space slots[ORACLE_SPACES];
	uint64_t tick;
	size_t last;
	void (*drop)(void *handle);
};

void oracle_spaces_deinit(struct oracle_spaces *spaces);
/* Makes @slot as free as at first: after a failure, as its library's object may have kept half of
 * something. */
void oracle_space_drop(struct oracle_spaces *spaces, struct oracle_space *slot);
/* The slot of @space; when its handle is NULL it is new and the caller sets the handle. */
struct oracle_space *oracle_spaces_get(struct oracle_spaces *spaces, struct uw_space *space);
/* Drops what knows @module (NULL: everything). */
void oracle_spaces_forget(struct oracle_spaces *spaces, const struct uw_module *module);

/* What stands at @pc. */
enum oracle_at {
	ORACLE_READY,	/* *ret_module */
	ORACLE_NO_INFO, /* a mapping without a module, or JIT code: only a guess can help */
	ORACLE_STOP,	/* @res says why: PENDING, or FAILED */
	ORACLE_NEW,	/* as READY, and met for the first time in this slot */
};
/* < 0: -ENOMEM. */
int oracle_module_at(struct oracle_space *slot, const struct uw_space *space, uint64_t pc,
		     struct uw_result *res, struct oracle_module **ret_module);

/* Finds or makes the search table of a module just met; n_table stays 0 where there is no unwind
 * information. */
int oracle_table_init(struct oracle_space *slot, struct oracle_module *module);
