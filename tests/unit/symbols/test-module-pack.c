/* test-module-pack.c - a module as bytes and back: this program, loaded, packed and unpacked into another
 * module, must unwind and name as the first; bytes that are cut or changed never do harm. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "tests/unit/cmocka.h"
#include "symbols/parts.h"
#include "symbols/symbols.h"

enum { ROOM = 64 << 20 };

static struct uw_module *new_module(enum uw_module_kind kind, const struct uw_build_id *id)
{
	struct uw_module *m;

	assert_int_equal(uw_module_new(kind, "/a/program", id, &m), 0);
	return m;
}

static struct uw_module *loaded_self(void)
{
	struct uw_source source = {.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
	struct uw_module *m = new_module(UW_MODULE_FILE, NULL);

	assert_int_equal(uw_module_load_unwind(m, &source), 0);
	assert_int_equal(uw_module_load_symbols(m, &source), 0);
	(void)close(source.fd);
	return m;
}

static struct packer packed(const struct uw_module *m)
{
	struct packer p = {.data = malloc(ROOM), .room = ROOM};

	assert_non_null(p.data);
	uw_module_pack(m, &p);
	assert_false(p.bad);
	return p;
}

static int unpack(struct uw_module *m, const void *data, size_t len)
{
	struct cursor from = cursor_of(data, len);

	return uw_module_unpack(m, &from, -1);
}

static void same_section(const struct uw_section *a, const struct uw_section *b)
{
	assert_int_equal(a->size, b->size);
	assert_int_equal(a->vaddr, b->vaddr);
	if (a->size)
		assert_memory_equal(a->data, b->data, a->size);
}

static void test_same(void **state)
{
	struct uw_module *a = loaded_self(), *b = new_module(UW_MODULE_FILE, NULL);
	struct packer p = (a->image->has_separate = true, packed(a));
	const struct uw_image *x, *y;
	struct uw_symbol s, t;
	uint64_t vaddr;

	(void)state;
	assert_int_equal(unpack(b, p.data, p.len), 0);
	x = uw_module_image(a);
	y = uw_module_image(b);
	assert_non_null(x);
	assert_non_null(y);
	same_section(&x->eh_frame_hdr, &y->eh_frame_hdr);
	same_section(&x->eh_frame, &y->eh_frame);
	same_section(&x->debug_frame, &y->debug_frame);
	assert_int_equal(x->table.n, y->table.n);
	assert_int_equal(x->arch, y->arch);
	assert_true(y->has_separate);
	assert_int_equal(uw_module_load_bias(a), uw_module_load_bias(b));
	assert_memory_equal(uw_module_build_id(a), uw_module_build_id(b),
			    sizeof(struct uw_build_id));
	assert_int_equal(uw_module_bytes(a), uw_module_bytes(b));
	assert_true(uw_module_has_symbols(b));
	vaddr = x->segments[0].vaddr;
	for (size_t i = 0; i < x->n_segments; i++)
		vaddr = x->segments[i].exec ? x->segments[i].vaddr : vaddr;
	for (size_t i = 0; i < 4096; i += 16) {
		bool found = uw_module_symbol(a, vaddr + i, &s);

		assert_int_equal(uw_module_symbol(b, vaddr + i, &t), found);
		if (found)
			assert_string_equal(s.name, t.name);
	}
	(void)uw_module_unref(a);
	(void)uw_module_unref(b);
	free(p.data);
}

/* One half alone, none, and a module that is not an ELF image. */
static void test_halves(void **state)
{
	struct uw_source source = {.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
	struct uw_module *a = new_module(UW_MODULE_FILE, NULL);
	struct uw_module *b = new_module(UW_MODULE_FILE, NULL);
	struct uw_module *jit = new_module(UW_MODULE_JIT, NULL);
	struct packer p = packed(a);

	(void)state;
	assert_int_equal(unpack(b, p.data, p.len), 0);
	assert_int_equal(uw_module_unwind_state(b), UW_MODULE_NEW);
	free(p.data);
	assert_int_equal(uw_module_load_symbols(a, &source), 0);
	p = packed(a);
	assert_int_equal(unpack(b, p.data, p.len), 0);
	assert_int_equal(uw_module_unwind_state(b), UW_MODULE_NEW);
	assert_int_equal(uw_module_symbol_state(b), UW_MODULE_READY);
	free(p.data);
	assert_int_equal(uw_module_load_unwind(jit, &source), 0);
	p = packed(jit);
	(void)uw_module_unref(b);
	b = new_module(UW_MODULE_JIT, NULL);
	assert_int_equal(unpack(b, p.data, p.len), 0);
	assert_int_equal(uw_module_unwind_state(b), UW_MODULE_READY);
	free(p.data);
	(void)uw_module_unref(a);
	(void)uw_module_unref(b);
	(void)uw_module_unref(jit);
	(void)close(source.fd);
}

/* The image of another build id than the mapping's is refused, as from a file. */
static void test_stale(void **state)
{
	const struct uw_build_id other = {.len = 2, .bytes = {1, 2}};
	struct uw_module *a = loaded_self(), *b = new_module(UW_MODULE_FILE, &other);
	struct packer p = packed(a);

	(void)state;
	assert_int_equal(unpack(b, p.data, p.len), -ESTALE);
	assert_int_equal(uw_module_unwind_state(b), UW_MODULE_NEW);
	(void)uw_module_unref(a);
	(void)uw_module_unref(b);
	free(p.data);
}

static void test_damaged(void **state)
{
	struct uw_module *a = loaded_self();
	struct packer p = packed(a);

	(void)state;
	for (size_t i = 0; i < 400; i++) {
		struct uw_module *b = new_module(UW_MODULE_FILE, NULL);
		size_t len = i < 200 ? i : p.len * (i - 200) / 200;
		uint8_t *copy = malloc(len + 1); /* its end is where a sanitizer sees it */

		assert_non_null(copy);
		memcpy(copy, p.data, len);
		assert_true(unpack(b, copy, len) < 0);
		(void)uw_module_unref(b);
		free(copy);
	}
	for (size_t i = 0; i < 512; i++) { /* lengths and counts that lie */
		struct uw_module *b = new_module(UW_MODULE_FILE, NULL);
		uint8_t before = p.data[i];
		struct uw_symbol s;

		p.data[i] = 0xff;
		if (unpack(b, p.data, p.len) == 0)
			(void)uw_module_symbol(b, 0x1000, &s);
		p.data[i] = before;
		(void)uw_module_unref(b);
	}
	(void)uw_module_unref(a);
	free(p.data);
}

/* Symbols that a lookup could not rest on: not ascending, or without a name. */
static void test_disorder(void **state)
{
	struct uw_symbols *s;

	(void)state;
	for (int how = 0; how < 4; how++) {
		struct {
			uint64_t start;
			uint32_t size, name;
		} entries[2] = {{0x1000, 8, 0}, {how == 1 ? 0x1000 : 0x2000, 8, 2}};
		static const char pool[] = "a\0b";
		uint8_t bytes[256];
		struct packer p = {.data = bytes, .room = sizeof(bytes)};
		struct cursor from;

		entries[1].name = how == 2 ? 1 : how == 3 ? 4 : 2;
		packer_u64(&p, 1);
		packer_block(&p, entries, sizeof(entries));
		packer_block(&p, pool, sizeof(pool));
		packer_block(&p, NULL, 0);
		packer_u64(&p, 0); /* no code of a JIT compiler */
		from = cursor_of(bytes, p.len);
		assert_int_equal(uw_symbols_unpack(&from, &s), how ? -EBADMSG : 0);
		if (!how)
			(void)uw_symbols_free(s);
	}
}

/* Data that does not fit is reported, and no byte is written behind the room. */
static void test_no_room(void **state)
{
	struct uw_module *a = loaded_self();
	uint8_t bytes[100];
	struct packer p = {.data = bytes, .room = 64};

	(void)state;
	memset(bytes, 7, sizeof(bytes));
	uw_module_pack(a, &p);
	assert_true(p.bad);
	assert_true(p.len <= 64);
	for (size_t i = 64; i < sizeof(bytes); i++)
		assert_int_equal(bytes[i], 7);
	(void)uw_module_unref(a);
}

/* Why a module cannot be read, until it can. */
static void test_unresponsive(void **state)
{
	struct uw_module *a = loaded_self(), *b = new_module(UW_MODULE_FILE, NULL);
	struct packer p = packed(a);

	(void)state;
	assert_false(uw_module_unresponsive(b));
	uw_module_set_unresponsive(b);
	assert_true(uw_module_unresponsive(b));
	assert_int_equal(uw_module_unwind_state(b), UW_MODULE_UNREADABLE);
	uw_module_drop_unwind(b);
	assert_int_equal(unpack(b, p.data, p.len), 0);
	assert_false(uw_module_unresponsive(b));
	(void)uw_module_unref(a);
	(void)uw_module_unref(b);
	free(p.data);
}

/* An interpreter's layout from a process that a target has taken over: the engine reads a fixed number of bytes. */
static const struct uw_python python = {.version = 0x30c,
					.offsets = {.code = 64,
						    .previous = 64,
						    .owner = 71,
						    .is_entry = 71,
						    .filename = 200,
						    .qualname = 200,
						    .line = 204},
					.frame = 15,
					.next = 15};
static const struct uw_script script = {.version = 0x802,
					.offsets = {.frame_bytes = 80,
						    .instruction = 72,
						    .function = 72,
						    .previous = 72,
						    .flags = 72,
						    .unit = 1},
					.frame = 15,
					.next = 15,
					.saved_frame = 248,
					.saved_next = 248};

static int with_layouts(const struct uw_python *p, const struct uw_script *s)
{
	struct uw_module *a = loaded_self(), *b = new_module(UW_MODULE_FILE, NULL);
	struct packer bytes;
	int r;

	a->image->python = *p;
	a->image->script = *s;
	bytes = packed(a);
	r = unpack(b, bytes.data, bytes.len);
	assert_true(r < 0 || uw_module_image(b)->script.version == s->version);
	(void)uw_module_unref(a);
	(void)uw_module_unref(b);
	free(bytes.data);
	return r;
}

static void test_layouts(void **state)
{
	struct uw_python pythons[] = {python, python, python, python, python,
				      python, python, python, python};
	struct uw_script scripts[] = {script, script, script, script, script, script,
				      script, script, script, script, script};
	size_t i = 0;

	(void)state;
	assert_int_equal(with_layouts(&python, &script), 0);
	pythons[i++].offsets.code = UW_PYTHON_FRAME - 7;
	pythons[i++].offsets.previous = UINT16_MAX;
	pythons[i++].offsets.owner = UW_PYTHON_FRAME;
	pythons[i++].offsets.is_entry = UW_PYTHON_FRAME;
	pythons[i++].offsets.filename = UW_PYTHON_CODE - 7;
	pythons[i++].offsets.qualname = UINT16_MAX;
	pythons[i++].offsets.line = UW_PYTHON_CODE - 3;
	pythons[i++].frame = 16;
	pythons[i++].next = 255;
	assert_int_equal(i, ARRAY_SIZE(pythons));
	for (i = 0; i < ARRAY_SIZE(pythons); i++)
		assert_int_equal(with_layouts(&pythons[i], &script), -EBADMSG);
	i = 0;
	scripts[i++].offsets.frame_bytes = 88;
	scripts[i++].offsets.frame_bytes = 72; /* shorter than its parts */
	scripts[i++].offsets.frame_bytes = 7;
	scripts[i++].offsets.instruction = 73;
	scripts[i++].offsets.function = 73;
	scripts[i++].offsets.previous = UINT16_MAX;
	scripts[i++].offsets.flags = 73;
	scripts[i++].offsets.unit = 0;
	scripts[i++].frame = 16;
	scripts[i++].next = 255;
	scripts[i++].saved_frame = 249;
	assert_int_equal(i, ARRAY_SIZE(scripts));
	for (i = 0; i < ARRAY_SIZE(scripts); i++)
		assert_int_equal(with_layouts(&python, &scripts[i]), -EBADMSG);
}

static void test_v8_layout(void **state)
{
	const struct uw_script v8 = {.v8 = {.version = 0xb03,
					    .fp_context = -8,
					    .fp_function = -16,
					    .fp_bytecode = -256}};
	struct uw_script wrong[] = {v8, v8, v8, v8, v8, v8};
	size_t i = 0;

	(void)state;
	assert_int_equal(with_layouts(&python, &v8), 0);
	wrong[i++].v8.fp_context = 0;
	wrong[i++].v8.fp_function = 16;
	wrong[i++].v8.fp_function = -264;
	wrong[i++].v8.fp_bytecode = INT16_MIN;
	wrong[i++].v8.shared = -8;
	wrong[i++].v8.locals = -1;
	assert_int_equal(i, ARRAY_SIZE(wrong));
	for (i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(with_layouts(&python, &wrong[i]), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same),	     cmocka_unit_test(test_halves),
		cmocka_unit_test(test_stale),	     cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_disorder),     cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_unresponsive), cmocka_unit_test(test_layouts),
		cmocka_unit_test(test_v8_layout),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
