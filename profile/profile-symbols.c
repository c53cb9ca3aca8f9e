/* profile-symbols.c - ModuleSymbols: names and inlined calls of addresses, told apart from the
 * frames. Collected here, applied at the end (profile_finish.c): a frame may come before or after
 * its names. */
#include <errno.h>

#include "base/error.h"
#include "profile/profile-reader.h"
#include "protos/trace.fields.h"

enum {
	MAX_LINES = 256, /* inlined into one address */
};

static int read_line(struct reader *r, struct cursor c)
{
	struct profile_line line = {0};
	struct wire_field f;
	int e = 0;

	while (wire_next(&c, &f)) {
		if (wire_is_bytes(&f, LINE__FUNCTION_NAME))
			e = reader_function(r, f.data, f.len, &line.function);
		else if (wire_is_bytes(&f, LINE__SOURCE_FILE_NAME) && f.len)
			e = reader_string(r, f.data, f.len, &line.file);
		else if (wire_is(&f, LINE__LINE_NUMBER))
			line.line = (uint32_t)min_u64(f.value, UINT32_MAX);
		if (e < 0)
			return trace(e);
	}
	if (c.bad)
		return READER_BROKEN;
	e = reader_line(r, &line);
	return e < 0 ? trace(e) : 0;
}

static int read_address(struct reader *r, uint32_t module, struct cursor c)
{
	struct reader_symbol symbol = {.module = module,
				       .first_line = (uint32_t)r->profile->n_lines};
	struct wire_field f;
	int e;

	while (wire_next(&c, &f)) {
		if (wire_is(&f, ADDRESS_SYMBOLS__ADDRESS)) {
			symbol.address = f.value;
		} else if (wire_is_bytes(&f, ADDRESS_SYMBOLS__LINES) &&
			   symbol.n_lines < MAX_LINES) {
			e = read_line(r, wire_message(&f));
			if (e)
				return e < 0 ? trace(e) : e;
			symbol.n_lines++;
		}
	}
	if (c.bad)
		return READER_BROKEN;
	if (!symbol.n_lines)
		return 0;
	if (r->n_symbols >= UINT32_MAX)
		return fail(-E2BIG);
	e = reader_hold(r, HELD_SYMBOLS, 1, sizeof(symbol));
	if (e >= 0)
		e = ROOM_FOR_ONE(r->symbols, r->n_symbols, r->room_symbols);
	if (e < 0)
		return trace(e);
	symbol.order = (uint32_t)r->n_symbols;
	r->symbols[r->n_symbols++] = symbol;
	return 0;
}

int reader_module_symbols(struct reader *r, struct cursor c)
{
	struct wire_field f, path = {0}, build_id = {0};
	struct cursor again = c;
	size_t n_modules;
	uint32_t module;
	int e;

	while (wire_next(&c, &f)) {
		if (wire_is_bytes(&f, MODULE_SYMBOLS__PATH))
			path = f;
		else if (wire_is_bytes(&f, MODULE_SYMBOLS__BUILD_ID))
			build_id = f;
	}
	if (c.bad)
		return READER_BROKEN;
	n_modules = r->profile->n_modules;
	e = reader_module(r, (const char *)path.data, path.len, build_id.data, build_id.len, 0,
			  &module);
	/* Other readers take names only of what they know already. */
	if (e >= 0 && (module == UINT32_MAX || module >= n_modules))
		e = reader_count_add(r, STAT_stackprofile_invalid_mapping_id, -1, 1);
	if (e < 0)
		return trace(e);
	while (module != UINT32_MAX && wire_next(&again, &f)) {
		if (!wire_is_bytes(&f, MODULE_SYMBOLS__ADDRESS_SYMBOLS))
			continue;
		e = read_address(r, module, wire_message(&f));
		if (e)
			return e < 0 ? trace(e) : e;
	}
	return 0;
}
