/* test-line-cache.c - lines of earlier recordings: what is known is not asked again, of the same file only; damaged files. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <string.h>
#include <unistd.h>

#include "base/cache-dir.h"
#include "session/loader/line-cache.h"
#include "tests/unit/fake-root.h"

static const struct load_file first_file = {1, 2, 3, 4, 5, 0}, second_file = {1, 2, 3, 4, 6, 0};
static const struct uw_build_id id = {20, {0xab, 0xcd}};

static struct line_cache *new_cache(void)
{
	struct line_cache *c = NULL;
	int dir = cache_dir_open_in(root);

	assert_true(dir >= 0);
	assert_int_equal(line_cache_new(dir, &c), 0);
	return c;
}

/* A session's module of @file. */
static struct uw_module *new_module(struct line_cache *c, const struct load_file *file)
{
	struct load_answer a = {.request.kind = LOAD_UNWIND, .has_file = file};

	assert_int_equal(uw_module_new(UW_MODULE_FILE, "/bin/x", &id, &a.request.module), 0);
	if (file)
		a.file = *file;
	line_cache_finish(c, &a);
	return a.request.module;
}

static struct load_request request_of(struct uw_module *m, size_t n, const uint64_t *vaddrs)
{
	struct load_request q = {.kind = LOAD_LINES, .module = m, .n_vaddrs = n};

	q.vaddrs = calloc(LOAD_VADDRS_MAX, sizeof(*q.vaddrs));
	assert_non_null(q.vaddrs);
	memcpy(q.vaddrs, vaddrs, n * sizeof(*vaddrs));
	return q;
}

/* As pw-parse finds them: an odd address has no lines, others a function and what is inlined in it. */
static void look_up(struct load_answer *a, const struct load_file *file)
{
	a->lines = calloc(2 * a->request.n_vaddrs + 1, sizeof(*a->lines));
	for (size_t i = 0; i < a->request.n_vaddrs; i++) {
		uint64_t vaddr = a->request.vaddrs[i];
		char name[32];

		if (vaddr % 2)
			continue;
		(void)snprintf(name, sizeof(name), "f%lu", vaddr);
		a->lines[a->n_lines++] =
			(struct load_line){(uint32_t)i, strdup("inlined"), NULL, 0, FRAME_INLINED};
		a->lines[a->n_lines++] =
			(struct load_line){(uint32_t)i, strdup(name), strdup("/src/x.c"),
					   (uint32_t)vaddr, FRAME_NATIVE};
	}
	a->has_file = file;
	if (file)
		a->file = *file;
}

/* How many addresses had to be looked up; the answer is right in any case. */
static size_t ask(struct line_cache *c, struct uw_module *m, const struct load_file *file, size_t n,
		  const uint64_t *vaddrs)
{
	struct load_answer a = {.request = request_of(m, n, vaddrs)};
	size_t asked, expected = 0, last = 0;

	line_cache_find(c, &a.request);
	asked = a.request.n_vaddrs;
	assert_int_equal(asked + a.request.n_known, n);
	look_up(&a, file);
	line_cache_finish(c, &a);
	assert_int_equal(a.request.n_vaddrs, n);
	assert_int_equal(a.request.n_known, 0);
	for (size_t i = 0; i < n; i++)
		expected += vaddrs[i] % 2 ? 0 : 2;
	assert_int_equal(a.n_lines, expected);
	for (size_t i = 0; i < a.n_lines; i += 2) {
		uint64_t vaddr = a.request.vaddrs[a.lines[i].address];
		char name[32];

		assert_true(a.lines[i].address >= last && a.lines[i].address < n);
		last = a.lines[i].address;
		(void)snprintf(name, sizeof(name), "f%lu", vaddr);
		assert_string_equal(a.lines[i].function, "inlined");
		assert_null(a.lines[i].file);
		assert_int_equal(a.lines[i].kind, FRAME_INLINED);
		assert_int_equal(a.lines[i + 1].address, last);
		assert_string_equal(a.lines[i + 1].function, name);
		assert_string_equal(a.lines[i + 1].file, "/src/x.c");
		assert_int_equal(a.lines[i + 1].line, vaddr);
	}
	load_answer_deinit(&a);
	return asked;
}

static const uint64_t few[] = {16, 33, 48}, more[] = {48, 64, 16, 33, 2};

static void test_second_run(void **state)
{
	struct line_cache *c = new_cache();
	struct uw_module *m = new_module(c, &first_file);

	(void)state;
	assert_int_equal(ask(c, m, &first_file, 3, few), 3);
	uw_module_unref(m);
	line_cache_free(c);
	c = new_cache();
	m = new_module(c, &first_file);
	assert_int_equal(ask(c, m, &first_file, 3, few), 0);
	assert_int_equal(ask(c, m, &first_file, 5, more), 2);
	uw_module_unref(m);
	line_cache_free(c);
	c = new_cache();
	m = new_module(c, &first_file);
	assert_int_equal(ask(c, m, &first_file, 5, more), 0);
	uw_module_unref(m);
	line_cache_free(c);
}

static void clear(void)
{
	int dir = cache_dir_open_in(root);

	cache_dir_trim(dir, "", 0);
	fd_close(dir);
}

/* The same build id in another file; a file that is not known; debug information of another maker. */
static void test_other_files(void **state)
{
	struct uw_module *m, *other, *unknown;
	struct line_cache *c;

	(void)state;
	clear();
	c = new_cache();
	m = new_module(c, &first_file);
	other = new_module(c, &second_file);
	unknown = new_module(c, NULL);
	assert_int_equal(ask(c, m, &first_file, 3, few), 3);
	assert_int_equal(ask(c, other, &second_file, 3, few), 3);
	assert_int_equal(ask(c, m, &first_file, 3, few), 0);
	assert_int_equal(ask(c, unknown, &first_file, 3, few), 3);
	assert_int_equal(ask(c, other, NULL, 1, (const uint64_t[]){100}), 1);
	assert_int_equal(ask(c, other, &first_file, 1, (const uint64_t[]){102}), 1);
	uw_module_unref(m);
	uw_module_unref(other);
	uw_module_unref(unknown);
	line_cache_free(c);
	c = new_cache();
	other = new_module(c, &second_file);
	/* neither was kept */
	assert_int_equal(ask(c, other, NULL, 2, (const uint64_t[]){100, 102}), 2);
	uw_module_unref(other);
	line_cache_free(c);
}

/* ---- damage ---- */

static void path_of_file(char *path, size_t size)
{
	glob_t found;

	(void)snprintf(path, size, "%s/perfwind/lines-*", root);
	assert_int_equal(glob(path, 0, NULL, &found), 0);
	assert_int_equal(found.gl_pathc, 1);
	(void)snprintf(path, size, "%s", found.gl_pathv[0]);
	globfree(&found);
}

/* What one run leaves. */
static uint8_t *content(size_t *ret_len)
{
	char path[256], *data;
	struct line_cache *c;
	struct uw_module *m;

	clear();
	c = new_cache();
	m = new_module(c, &first_file);
	(void)ask(c, m, &first_file, 5, more);
	uw_module_unref(m);
	line_cache_free(c);
	path_of_file(path, sizeof(path));
	assert_int_equal(read_file(path, 1 << 20, &data, ret_len), 0);
	return (uint8_t *)data;
}

/* Lines hold around an address, and other lines of its function came with them: neither is main's, both are known later. */
static void test_spans(void **state)
{
	const struct load_span spans[] = {{0x1000, 0x1008}, {0, 0}, {0x1008, 0x1010}};
	static const char *const names[] = {"f", "g", "h"};
	struct load_answer a = {.n_spans = 3, .has_file = true, .file = first_file};
	struct line_cache *c;
	struct uw_module *m;

	(void)state;
	clear();
	c = new_cache();
	m = new_module(c, &first_file);
	a.request = request_of(m, 2, (const uint64_t[]){0x1004, 0x2000});
	a.spans = calloc(3, sizeof(*a.spans));
	a.lines = calloc(3, sizeof(*a.lines));
	assert_true(a.spans && a.lines);
	memcpy(a.spans, spans, sizeof(spans));
	for (; a.n_lines < 3; a.n_lines++)
		a.lines[a.n_lines] = (struct load_line){.address = (uint32_t)a.n_lines,
							.function = strdup(names[a.n_lines])};
	line_cache_find(c, &a.request);
	line_cache_finish(c, &a);
	assert_int_equal(a.n_lines, 2);
	load_answer_deinit(&a);
	line_cache_free(c);
	c = new_cache();
	uw_module_unref(m);
	m = new_module(c, &first_file);
	a = (struct load_answer){
		.request = request_of(m, 5,
				      (const uint64_t[]){0x1000, 0x100f, 0x1010, 0x2000, 0x2001})};
	line_cache_find(c, &a.request);
	assert_int_equal(a.request.n_vaddrs, 2);
	line_cache_finish(c, &a);
	assert_int_equal(a.n_lines, 3);
	for (size_t i = 0; i < 3; i++) {
		uint64_t vaddr = a.request.vaddrs[a.lines[i].address];

		assert_string_equal(a.lines[i].function, vaddr == 0x1000   ? "f"
							 : vaddr == 0x100f ? "h"
									   : "g");
	}
	load_answer_deinit(&a);
	uw_module_unref(m);
	line_cache_free(c);
}

static uint8_t *copy_of(const uint8_t *data, size_t len)
{
	uint8_t *copy = malloc(len + 1);

	assert_non_null(copy);
	memcpy(copy, data, len);
	return copy;
}

static void test_damaged(void **state)
{
	struct load_line lines[64];
	struct line_file *f;
	size_t len;
	_cleanup_(freep) uint8_t *data = content(&len);

	(void)state;
	assert_int_equal(line_file_new(copy_of(data, len), len, &first_file, &id, &f), 0);
	assert_int_equal(line_file_find(f, 33, lines), 0);
	assert_int_equal(line_file_find(f, 34, lines), -1);
	assert_int_equal(line_file_find(f, 64, lines), 2);
	assert_string_equal(lines[1].function, "f64");
	line_file_free(f);
	assert_int_equal(line_file_new(copy_of(data, len), len, &second_file, &id, &f), -ESTALE);
	for (size_t n = 0; n < len; n++)
		assert_true(line_file_new(copy_of(data, n), n, &first_file, &id, &f) < 0);
	for (size_t i = 0; i < len * 8; i++) {
		uint8_t *damaged = copy_of(data, len);

		damaged[i / 8] ^= (uint8_t)(1u << i % 8);
		if (line_file_new(damaged, len, &first_file, &id, &f) < 0)
			continue;
		for (size_t k = 0; k < ARRAY_SIZE(more); k++) {
			int n = line_file_find(f, more[k], lines);

			assert_true(n <= 64);
			for (int j = 0; j < n; j++)
				assert_true(strlen(lines[j].function) < 4096);
		}
		line_file_free(f);
	}
}

/* A damaged file is as none, and is replaced. */
static void test_replaced(void **state)
{
	size_t len;
	_cleanup_(freep) uint8_t *data = content(&len);
	struct line_cache *c;
	struct uw_module *m;
	char path[256];

	(void)state;
	path_of_file(path, sizeof(path));
	assert_int_equal(truncate(path, (off_t)len - 1), 0);
	for (int run = 0; run < 2; run++) {
		c = new_cache();
		m = new_module(c, &first_file);
		assert_int_equal(ask(c, m, &first_file, 5, more), run ? 0 : 5);
		uw_module_unref(m);
		line_cache_free(c);
	}
}

static int remove_root(void **state)
{
	(void)state;
	return fake_root_remove();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_second_run), cmocka_unit_test(test_other_files),
		cmocka_unit_test(test_spans),	   cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_replaced),
	};

	fake_root_make();
	return cmocka_run_group_tests(tests, NULL, remove_root);
}
