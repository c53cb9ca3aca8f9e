/* hotspot-name.c - see hotspot-private.h.  Names of Java methods. */
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
