/* module-symbols.h - names, inlined calls and lines of addresses, as ModuleSymbols has them.
 * Thread: any. */
#pragma once

#include "base/bytes.h"
#include "trace/writer.h"

/* Appends the AddressSymbols of one address.  -ENOMEM. */
int module_symbols_add(struct buffer *b, uint64_t rel_pc, const struct writer_line *lines,
		       size_t n);
/* Appends a whole Trace.packet of a sequence of its own: the module, and @symbols as
 * module_symbols_add() made them.  -ENOMEM. */
int module_symbols_packet(struct buffer *b, const char *path, const uint8_t *build_id,
			  size_t build_id_len, const struct buffer *symbols);
