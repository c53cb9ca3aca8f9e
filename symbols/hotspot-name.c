/* hotspot-name.c - see hotspot-private.h.  Names of Java methods, and the methods that a compiler inlined.
 *
 *   nmethod   [PcDesc: pc, scope] ...          of each call and safepoint, ascending; pc: behind it
 *   scope     caller's scope, Method, bci      numbers of 1 to 5 bytes (utilities/unsigned5.hpp) */
#include <string.h>

#include "symbols/hotspot-private.h"

/* A Symbol: a length and that many bytes of modified UTF-8.  Returns the length, 0: none. */
static size_t symbol_text(struct hotspot *vm, uint64_t symbol, char *to, size_t room)
{
	size_t len = vm_get(vm, symbol, VM_SYMBOL_LENGTH);

	len = min_u64(len, room);
	if (!symbol || !len || !vm_read(vm, symbol + vm->offset[VM_SYMBOL_BODY], to, len))
		return 0;
	for (size_t i = 0; i < len; i++)
		if ((uint8_t)to[i] < ' ' || to[i] == 0x7f)
			return 0;
	return len;
}

/* "java/util/HashMap" as source code has it.  A hidden class has its address behind its name, which differs in each
 * run: "Main$$Lambda$14+0x0000000800c03000". */
static size_t as_written(char *name, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if ((name[i] == '/' || name[i] == '+') && i + 2 < len && name[i + 1] == '0' &&
		    name[i + 2] == 'x')
			return i;
		if (name[i] == '/')
			name[i] = '.';
	}
	return len;
}

size_t vm_method_name(struct hotspot *vm, uint64_t method, char *to, size_t room)
{
	uint64_t code = method ? vm_pointer(vm, method, VM_METHOD_CONST) : 0;
	uint64_t pool = code ? vm_pointer(vm, code, VM_CONST_POOL) : 0;
	uint64_t index = code ? vm_get(vm, code, VM_CONST_NAME) : 0, name = 0, klass;
	size_t len, more;

	if (!pool || room < 2 * VM_TEXT_MAX + 2 ||
	    !vm_read(vm, pool + vm->pool_size + 8 * index, &name, sizeof(name)))
		return 0;
	klass = vm_pointer(vm, pool, VM_POOL_HOLDER);
	len = klass ? symbol_text(vm, vm_pointer(vm, klass, VM_KLASS_NAME), to, VM_TEXT_MAX) : 0;
	if (!len)
		return 0;
	len = as_written(to, len);
	to[len++] = '.';
	more = symbol_text(vm, name, to + len, VM_TEXT_MAX);
	if (!more)
		return 0;
	len += more;
	to[len] = 0;
	return len;
}

enum frame_kind vm_tier(struct hotspot *vm, uint64_t blob)
{
	uint64_t level = vm_get(vm, blob, VM_NMETHOD_LEVEL);

	return level >= 1 && level <= 3 ? FRAME_JAVA_C1 : level == 4 ? FRAME_JAVA_C2 : FRAME_NATIVE;
}

/* ---- inlined methods ---- */

enum { PC_DESC = 16, NUMBER_MAX = 5 };

struct vm_pc_desc {
	int32_t pc, scope, objects, flags;
};
_Static_assert(sizeof(struct vm_pc_desc) == PC_DESC, "as in code/pcDesc.hpp");

/* UNSIGNED5: a byte below 192 is the last one; from JDK 20 on each byte is one more. */
static bool read_number(struct hotspot *vm, uint64_t *at, uint64_t *ret_value)
{
	uint8_t less = vm->dense_numbers ? 1 : 0, low = (uint8_t)(192 - less), byte;
	uint64_t value = 0;

	for (unsigned i = 0; i < NUMBER_MAX; i++) {
		if (!vm_read(vm, (*at)++, &byte, 1) || byte < less)
			return false;
		byte = (uint8_t)(byte - less);
		value += (uint64_t)byte << (6 * i);
		if (byte < low)
			break;
	}
	*ret_value = (uint32_t)value;
	return true;
}

/* The records before and behind the code at @pc. */
struct vm_pc_descs {
	uint64_t before, behind; /* scopes; 0: none */
	bool exact;		 /* @pc is a call: that of `behind` */
};

static bool find_scopes(struct hotspot *vm, uint64_t blob, uint64_t pc, struct vm_pc_descs *ret)
{
	uint64_t first = blob + vm_get(vm, blob, VM_NMETHOD_PCS);
	uint64_t end = blob + vm_get(vm, blob, VM_NMETHOD_DEPENDENCIES);
	uint64_t low = 0, high = end > first ? (end - first) / PC_DESC : 0, n = high;
	struct vm_pc_desc desc;

	while (low < high) {
		uint64_t mid = low + (high - low) / 2;

		if (!vm_read(vm, first + mid * PC_DESC, &desc, sizeof(desc)))
			return false;
		if (desc.pc > 0 && (uint64_t)desc.pc > pc)
			high = mid;
		else
			low = mid + 1;
	}
	*ret = (struct vm_pc_descs){0};
	/* The first and the last one are marks. */
	if (low > 1 && vm_read(vm, first + (low - 1) * PC_DESC, &desc, sizeof(desc)) &&
	    desc.scope > 0)
		ret->before = (uint64_t)desc.scope;
	if (low + 1 < n && vm_read(vm, first + low * PC_DESC, &desc, sizeof(desc)) &&
	    desc.scope > 0) {
		ret->behind = (uint64_t)desc.scope;
		ret->exact = (uint64_t)desc.pc == pc + 1;
	}
	return true;
}

/* The Method of number @index, from 1. */
static uint64_t metadata_at(struct hotspot *vm, uint64_t blob, uint64_t index)
{
	uint64_t at = blob + vm_get(vm, blob, VM_NMETHOD_METADATA), method = 0;

	return index && vm_read(vm, at + 8 * (index - 1), &method, sizeof(method)) ? method : 0;
}

/* The methods of @scope, innermost first; 0: the memory is not what it was, other code is there by now. */
static size_t read_scope(struct hotspot *vm, uint64_t blob, uint64_t scope, uint64_t *methods,
			 size_t max)
{
	uint64_t scopes = vm_pointer(vm, blob, VM_NMETHOD_SCOPES_DATA), number;
	size_t n = 0;

	if (!scopes)
		return 0;
	while (scope && n < max) {
		uint64_t at = scopes + scope;

		if (!read_number(vm, &at, &scope) || !read_number(vm, &at, &number))
			return 0;
		methods[n] = metadata_at(vm, blob, number);
		if (!methods[n])
			return 0;
		n++;
	}
	return !scope && n && methods[n - 1] == vm_pointer(vm, blob, VM_NMETHOD_METHOD) ? n : 0;
}

size_t vm_inlined(struct hotspot *vm, const struct vm_blob *b, uint64_t address, uint64_t *methods,
		  size_t max)
{
	uint64_t others[VM_INLINED_MAX];
	struct vm_pc_descs found;
	size_t n, n_others, same = 0;

	if (max > VM_INLINED_MAX || !vm->width[VM_NMETHOD_PCS] ||
	    !vm->width[VM_NMETHOD_DEPENDENCIES] || !vm->width[VM_NMETHOD_METADATA] ||
	    !find_scopes(vm, b->blob, address - b->start, &found) || !found.behind)
		return 0;
	n = read_scope(vm, b->blob, found.behind, methods, max);
	if (!n || found.exact)
		return n;
	/* Between two calls: the methods that both are in.  Which others the code there belongs to is not recorded. */
	n_others = found.before ? read_scope(vm, b->blob, found.before, others, VM_INLINED_MAX) : 0;
	while (same < n && same < n_others && methods[n - 1 - same] == others[n_others - 1 - same])
		same++;
	same = same ? same : 1;
	memmove(methods, methods + n - same, same * sizeof(*methods));
	return same;
}
