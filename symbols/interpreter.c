/* interpreter.c - see interpreter.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "symbols/interpreter.h"
#include "symbols/parts.h"
#include "symbols/php.h"
#include "symbols/python.h"
#include "symbols/ruby.h"
#include "symbols/script-sign.h"
#include "symbols/symbols.h"
#include "symbols/v8.h"

enum { PAGES = 64, PAST_NAMES = 1024 };

/* A function of PHP or Ruby that had a name: its memory may have another one when the next place in it is asked for. */
struct past_name {
	uint64_t function;
	uint32_t sign;
	char *name, *file; /* file: NULL: not known */
};

struct interpreter {
	struct python *python;	 /* NULL: another language */
	struct uw_script script; /* PHP, Ruby, Node.js */
	struct php_declared declared;
	struct v8_lines *lines;
	struct past_name *past; /* PAST_NAMES, the oldest are replaced; NULL: none yet */
	uint32_t n_past;
};

/* ---- languages ---- */

/* What the names of its program and its library begin with, and what may follow. */
static const struct language {
	const char *path, *program, *library;
	const char *
		behind; /* the program: one of these bytes, or a word of its own behind a hyphen, or the end */
} languages[UW_LANGUAGES] = {
	[UW_LANGUAGE_PYTHON] = {UW_PYTHON_PATH, "python3", "libpython3.", ". "},
	[UW_LANGUAGE_PHP] = {UW_PHP_PATH, "php", "libphp", "0123456789. "},
	[UW_LANGUAGE_RUBY] = {UW_RUBY_PATH, "ruby", "libruby", "0123456789. "},
	[UW_LANGUAGE_JS] = {UW_JS_PATH, "node", "libnode.so", "0123456789 "},
};

const char *uw_language_path(enum uw_language language)
{
	return languages[language].path;
}

enum uw_language uw_module_language(const struct uw_module *module)
{
	return module->language;
}

enum uw_language interpreter_language(const char *path)
{
	for (int i = UW_LANGUAGE_NONE + 1; i < UW_LANGUAGES; i++)
		if (!strcmp(path, languages[i].path))
			return (enum uw_language)i;
	return UW_LANGUAGE_NONE;
}

static bool begins(const char *name, const char *with)
{
	return !strncmp(name, with, strlen(with));
}

/* php, php8.2, php-fpm8.2, php-cgi; not php-config or phpize.  node, nodejs. */
static bool is_program(const struct language *l, const char *name)
{
	size_t len = strlen(l->program);

	if (!begins(name, l->program))
		return false;
	if (begins(name + len, "-fpm") || begins(name + len, "-cgi"))
		len += 4;
	if (begins(name + len, "js"))
		len += 2;
	return !name[len] || strchr(l->behind, name[len]);
}

enum uw_language uw_path_language(const char *path)
{
	const char *name = strrchr(path, '/');

	name = name ? name + 1 : path;
	for (int i = UW_LANGUAGE_NONE + 1; i < UW_LANGUAGES; i++) {
		const struct language *l = &languages[i];

		if (begins(name, l->library) || is_program(l, name))
			return (enum uw_language)i;
	}
	return UW_LANGUAGE_NONE;
}

/* ---- the halves ---- */

static int script_new(enum uw_language language, struct uw_memory *memory, uint64_t image,
		      struct uw_script *ret_script)
{
	struct vm_memory m;
	int r = vm_memory_begin(&m, memory, PAGES);

	if (r < 0)
		return trace(r);
	r = language == UW_LANGUAGE_PHP	 ? php_new(&m, image, ret_script)
	    : language == UW_LANGUAGE_JS ? v8_new(&m, image, ret_script)
					 : ruby_new(&m, image, ret_script);
	vm_memory_end(&m);
	return trace(r);
}

/* Finds the interpreter at the first call. */
static int interpreter_of(struct uw_module *module, struct uw_memory *memory, uint64_t image)
{
	struct interpreter *in;
	int r;

	if (module->interpreter)
		return 0;
	in = calloc(1, sizeof(*in));
	if (!in)
		return fail(-ENOMEM);
	if (module->language == UW_LANGUAGE_PYTHON)
		r = python_new(memory, image, &in->python);
	else
		r = script_new(module->language, memory, image, &in->script);
	if (r < 0)
		in = interpreter_free(in);
	module->interpreter = in;
	return r < 0 ? trace(r) : 0;
}

/* Names are asked for one by one: there is no list of functions. */
int interpreter_load(struct uw_module *module, struct uw_memory *memory, uint64_t image,
		     struct uw_image **ret_image, struct uw_symbols **ret_symbols)
{
	_cleanup_(uw_image_freep) struct uw_image *empty = NULL;
	struct uw_symbols_builder none = {0};
	int r = interpreter_of(module, memory, image);

	if (r >= 0)
		r = uw_image_new_empty(&empty);
	if (r >= 0)
		r = uw_symbols_build(&none, ret_symbols);
	uw_symbols_builder_deinit(&none);
	if (r < 0)
		return trace(r);
	if (module->interpreter->python)
		empty->python = *python_layout(module->interpreter->python);
	empty->script = module->interpreter->script;
	*ret_image = take(empty);
	return 0;
}

/* ---- names of functions that may be gone ---- */

static void past_note(struct interpreter *in, struct vm_memory *m, bool ruby, uint64_t place,
		      const struct script_text *text)
{
	uint64_t function = uw_script_function(place);
	struct script_sign now;
	struct past_name *to;

	if (!uw_script_is_signed(place) || !script_sign(m, &in->script, ruby, function, &now))
		return;
	if (!uw_script_has_sign(place, now.sign)) { /* a closure's, with another class */
		php_declare(m, &in->script, &in->declared, place);
		return;
	}
	for (uint32_t i = 0; i < min_u64(in->n_past, PAST_NAMES); i++)
		if (in->past[i].function == function && in->past[i].sign == now.sign)
			return;
	if (!ruby)
		php_declare(m, &in->script, &in->declared, place);
	if (!in->past)
		in->past = calloc(PAST_NAMES, sizeof(*in->past));
	if (!in->past)
		return;
	to = &in->past[in->n_past++ % PAST_NAMES];
	free(to->name);
	free(to->file);
	*to = (struct past_name){
		.function = function,
		.sign = now.sign,
		.name = strdup(text->function),
		.file = *text->file ? strdup(text->file) : NULL,
	};
}

/* The name of the function that @place is in, as it was.  false: not known. */
static bool past_text(const struct interpreter *in, uint64_t place, struct script_text *ret_text)
{
	uint64_t function = uw_script_function(place);

	if (!uw_script_is_signed(place))
		return false;
	for (uint32_t i = 0; i < min_u64(in->n_past, PAST_NAMES); i++) {
		const struct past_name *p = &in->past[i];

		if (p->function != function || !p->name || !uw_script_has_sign(place, p->sign))
			continue;
		*ret_text = (struct script_text){.line = 0};
		(void)snprintf(ret_text->function, sizeof(ret_text->function), "%s", p->name);
		(void)snprintf(ret_text->file, sizeof(ret_text->file), "%s",
			       p->file ? p->file : "");
		return true;
	}
	return false;
}

static bool script_text(enum uw_language language, struct vm_memory *m, struct interpreter *in,
			uint64_t image, uint64_t address, struct script_text *ret_text)
{
	bool found;

	switch (language) {
	case UW_LANGUAGE_PHP:
		found = php_text(m, &in->script, &in->declared, address, ret_text);
		break;
	case UW_LANGUAGE_JS:
		return v8_text(m, &in->script.v8, &in->lines, address, ret_text);
	default:
		found = ruby_text(m, &in->script, image, address, ret_text);
	}
	if (found)
		past_note(in, m, language == UW_LANGUAGE_RUBY, address, ret_text);
	return found || past_text(in, address, ret_text);
}

int interpreter_lines(struct uw_module *module, struct uw_memory *memory, uint64_t image,
		      uint64_t address, void (*add)(void *arg, const struct uw_line *line),
		      void *arg)
{
	static const enum frame_kind kinds[UW_LANGUAGES] = {
		[UW_LANGUAGE_PHP] = FRAME_PHP,
		[UW_LANGUAGE_RUBY] = FRAME_RUBY,
		[UW_LANGUAGE_JS] = FRAME_JS,
	};
	int r = interpreter_of(module, memory, image);
	struct script_text text = {.line = 0};
	struct vm_memory m;
	bool found;

	if (r < 0)
		return trace(r);
	if (module->language == UW_LANGUAGE_PYTHON)
		return trace(python_lines(module->interpreter->python, memory, address, add, arg));
	r = vm_memory_begin(&m, memory, PAGES);
	if (r < 0)
		return trace(r);
	found = script_text(module->language, &m, module->interpreter, image, address, &text);
	vm_memory_end(&m);
	if (!found)
		return 0;
	add(arg, &(struct uw_line){.function = text.function,
				   .file = *text.file ? text.file : NULL,
				   .line = text.line <= INT32_MAX ? text.line : 0,
				   .kind = kinds[module->language]});
	return 1;
}

struct interpreter *interpreter_free(struct interpreter *interpreter)
{
	if (interpreter) {
		(void)python_free(interpreter->python);
		(void)v8_lines_free(interpreter->lines);
		for (uint32_t i = 0; interpreter->past && i < PAST_NAMES; i++) {
			free(interpreter->past[i].name);
			free(interpreter->past[i].file);
		}
		free(interpreter->past);
	}
	free(interpreter);
	return NULL;
}
