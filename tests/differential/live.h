/* live.h - a stopped process as an address space: its mappings, its files, its memory.
 * Thread: the one that traces it. */
#pragma once

#include <sys/types.h>

#include "base/table.h"
#include "symbols/module.h"
#include "unwinder/unwinder.h"

struct live_area { /* any mapping; executable ones are in the space as well */
	uint64_t start, end;
};

struct live {
	struct uw_memory memory;
	pid_t pid;
	int mem; /* /proc/PID/mem */
	struct uw_space *space;
	uint32_t key;
	struct live_area *areas;
	size_t n_areas;
	struct string_table paths;
	struct uw_module **modules; /* by path id - 1 */
	bool no_files;		    /* modules are read out of the process's memory */
};

/* @pid is stopped, and ours to trace. */
int live_init(struct live *live, pid_t pid);
void live_deinit(struct live *live);
/* Reads the mappings again: after exec, and after whatever may have changed them. */
int live_refresh(struct live *live);
/* The mapping that holds @address, or NULL.  Borrowed until the next refresh. */
const struct live_area *live_area(const struct live *live, uint64_t address);
/* Bytes read, 0 when there are none. */
size_t live_read(struct live *live, uint64_t address, void *to, size_t len);
/* "module+0xvaddr symbol". */
void live_describe(struct live *live, uint64_t frame, char *to, size_t size);
