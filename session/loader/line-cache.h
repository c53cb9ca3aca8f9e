/* line-cache.h - inlined calls and lines of earlier recordings, so that no DWARF is opened again for them.  Thread: loader.
 *
 *   request ─► line_cache_find(): known addresses are set aside ─► pw-parse looks the others up
 *           ─► line_cache_finish(): known lines join the answer, new ones are kept ─► a file of the user's cache folder
 *
 * One file for each module, by build id and by the file that the module was loaded from: device, inode, size, times and
 * owner.  A build id alone is what the file of a target claims, and lines of a hostile file must not be shown for another
 * one.  Lines from a separate debug file are kept only if it is on the same device and belongs to the same owner or root,
 * because a target can have its own /usr/lib/debug. */
#pragma once

#include "session/loader/load-request.h"

struct line_cache;
/* Consumes @dir, a folder of base/cache-dir.h. */
int line_cache_new(int dir, struct line_cache **ret_cache);
/* Writes what is new. */
struct line_cache *line_cache_free(struct line_cache *cache);

/* Moves the addresses of a LOAD_LINES request that are known behind the others: request->n_known. */
void line_cache_find(struct line_cache *cache, struct load_request *request);
/* Takes what is new in an answer, also the lines of other addresses (load_answer.spans), and completes it.  LOAD_UNWIND: notes the file; others: nothing. */
void line_cache_finish(struct line_cache *cache, struct load_answer *answer);

/* ---- the content of a file, here for tests ---- */
enum { LINE_FILE_BYTES = 16 << 20 };
struct line_file;
/* Consumes @data (of malloc), which is checked as foreign bytes: -EBADMSG.  -ESTALE: of another module. */
int line_file_new(uint8_t *data, size_t len, const struct load_file *file,
		  const struct uw_build_id *id, struct line_file **ret_file);
struct line_file *line_file_free(struct line_file *file);
/* The lines that hold at an address, innermost first: how many, 0 too; -1: not known.  Text is borrowed; 64 at most. */
int line_file_find(const struct line_file *file, uint64_t vaddr, struct load_line ret_lines[64]);
