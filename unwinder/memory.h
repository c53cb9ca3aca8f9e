/* memory.h - the memory of a process as one snapshot shows it: the stack copy, and our copies of
 * the modules' unwind sections.  Private to unwinder/.  Thread: the engine's.
 *
 * All engines read the stack by uw_stack_word() (engine.h), so that what is measured and compared
 * is the unwinding.  The oracles also read the unwind sections as if they were in the process:
 *
 *     regions   [eh_frame_hdr][eh_frame]      [eh_frame_hdr][eh_frame]  ...   ascending by start
 *     view      stack word, else region word, else the address is noted as missed
 */
#pragma once

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
