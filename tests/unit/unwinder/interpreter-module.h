/* interpreter-module.h - the module of an interpreter as a process that has parsed its file sends it. */
#pragma once

#include "base/bytes.h"
#include "symbols/image.h"
#include "symbols/module.h"
#include "unwinder/script-frames.h"

/* The next sample is so much later that reading has all its time. */
static inline void interpreter_rests(struct uw_engine *engine)
{
	struct native_script *s = container_of(engine, struct native, engine)->script;

	if (s)
		memset(&s->costs, 0, sizeof(s->costs));
}

/* @path: UW_PYTHON_PATH and its like.  @python, @script: its layout; NULL: none.  Returns new, or NULL. */
static inline struct uw_module *interpreter_module(const char *path, const struct uw_python *python,
						   const struct uw_script *script)
{
	static const struct uw_vm_code no_vm;
	static const struct uw_python no_python;
	static const struct uw_script no_script;
	struct uw_module *module;
	uint8_t bytes[1024];
	struct packer to = {.data = bytes, .room = sizeof(bytes)};
	struct cursor from;

	packer_u64(&to, 0);
	packer_u64(&to, 1);
	packer_u64(&to, UW_ARCH_NONE);
	packer_u64(&to, 0);
	for (size_t i = 0; i < 3; i++) {
		packer_u64(&to, 0);
		packer_block(&to, NULL, 0);
	}
	packer_block(&to, &no_vm, sizeof(no_vm));
	packer_block(&to, python ? python : &no_python, sizeof(*python));
	packer_block(&to, script ? script : &no_script, sizeof(*script));
	packer_u64(&to, 0);
	from = cursor_of(bytes, to.len);
	if (uw_module_new(UW_MODULE_JIT, path, NULL, &module) < 0)
		return NULL;
	if (uw_module_unpack(module, &from, -1) < 0)
		return uw_module_unref(module), NULL;
	return module;
}
