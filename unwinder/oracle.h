/* oracle.h - what the engines over libunwind and libdw share.  Private to unwinder/.  Thread: the
 * engine's.
 *
 * Memory.  All engines read the stack by uw_stack_word() (engine.h), so that only the unwinding
 * differs between them.  The oracles also read our copies of the unwind sections, at the addresses
 * where the process has them:
 *
 *     regions   [eh_frame_hdr][eh_frame]      [eh_frame_hdr][eh_frame]  ...   ascending by start
 *     view      stack word, else region word, else the address is noted as missed
 *
 * Spaces.  Each process (space key) has one object of the library, kept until it is the least
 * recently used of ORACLE_SPACES.  Spaces with the same non-zero key agree wherever both have a
 * mapping (space.h), so an object that knows the modules of one may add the modules of the other.  Key 0
 * promises nothing: its object serves one space and holds a reference to it, so that the pointer
 * stays unique. */
#pragma once

#include "symbols/image.h"
#include "unwinder/engine.h"

struct uw_region {
	uint64_t start;
	const uint8_t *data; /* borrowed */
	size_t size;
};

struct uw_regions {
	struct uw_region *list;
	size_t n, room;
	size_t last; /* where the last word was found */
};

void uw_regions_deinit(struct uw_regions *regions);
/* -ENOMEM; -EINVAL when it is empty or wraps.  One that stands there already is not added again. */
int uw_regions_add(struct uw_regions *regions, uint64_t start, const void *data, size_t size);
/* The 8 bytes at @address.  libunwind reads whole aligned words around the bytes that it wants, so
 * a word that a region holds in part is given, with zeroes for what is outside.  false: no byte of
 * it is there. */
bool uw_regions_word(struct uw_regions *regions, uint64_t address, uint64_t *ret_word);

struct uw_view {
	const struct uw_snapshot *snapshot;
	struct uw_regions *regions;
	bool missed; /* a word was not there; set back by the engine */
	uint64_t missed_at;
};
/* Exact for the stack: all 8 bytes or false. */
bool uw_view_word(struct uw_view *view, uint64_t address, uint64_t *ret_word);

enum { ORACLE_SPACES = 64 };

struct oracle_module {
	const struct uw_module *module;
	const struct uw_image *image;
	uint64_t bias; /* address = vaddr + bias */
	/* libunwind: the binary search table, as addresses; 0 entries: none */
	uint64_t table, table_base;
	size_t n_table;
	void *made_table; /* owned: ours, where the module has none */
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
/* Drops the slots with @module (NULL: all). */
void oracle_spaces_forget(struct oracle_spaces *spaces, const struct uw_module *module);

/* The module at @pc. */
enum oracle_at {
	ORACLE_READY,	/* *ret_module */
	ORACLE_NO_INFO, /* a mapping without a module, or JIT code: only a guess can help */
	ORACLE_STOP,	/* see @res: PENDING, or FAILED */
	ORACLE_NEW,	/* as READY, and met for the first time in this slot */
};
/* < 0: -ENOMEM. */
int oracle_module_at(struct oracle_space *slot, const struct uw_space *space, uint64_t pc,
		     struct uw_result *res, struct oracle_module **ret_module);

/* Finds or makes the search table of a module just met; n_table stays 0 where there is no unwind
 * information. */
int oracle_table_init(struct oracle_space *slot, struct oracle_module *module);
