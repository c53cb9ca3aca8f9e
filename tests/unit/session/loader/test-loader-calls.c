/* test-loader-calls.c - each allocation and system call with which a loader, the cache of lines, an answer from /proc or one from a
 * helper process is made fails once: an error, or an answer that is whole.  What was kept on disk is right in any case. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cache-dir.h"
#include "session/loader/line-cache.h"
#include "session/loader/load-role.h"
#include "session/loader/loader.h"
#include "tests/unit/fake-root.h"
#include "tests/unit/fail-calls.h"
#include "tests/unit/unwinder/unwinder-fixture.h"

/* No call fails until resume(). */
static unsigned long suspend(void)
{
	unsigned long n = calls_fail_at;

	calls_fail_at = 0;
	return n;
}
static void resume(unsigned long n)
{
	calls_fail_at = n;
}

/* A helper process that is slow to end is left to end by itself. */
static void no_child_runs(void)
{
	siginfo_t info = {.si_pid = 0};

	for (int i = 0; i < 1000 && !info.si_pid; i++) {
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
			return;
		(void)poll(NULL, 0, info.si_pid ? 0 : 5);
	}
	assert_true(info.si_pid != 0);
}

/* ---- loaders ---- */

struct loaders {
	struct waker waker;
	struct loader *loader;
};

static int make_loader(void *arg)
{
	struct loaders *made = arg;
	unsigned long n = suspend();
	const struct loader_options options = {
		.root = "", .answers = &made->waker, .cache = cache_dir_open_in(root)};

	resume(n);
	return loader_new(&options, &made->loader);
}
static void end_loader(void *arg)
{
	struct loaders *made = arg;

	made->loader = loader_free(made->loader);
	no_child_runs();
}

static int make_inline(void *arg)
{
	return loader_new_inline("/dev/null", &((struct loaders *)arg)->loader);
}

static void test_loaders(void **state)
{
	struct loaders made = {.loader = NULL};
	const struct calls_made all[] = {{"loader", make_loader, end_loader, &made},
					 {"inline", make_inline, end_loader, &made}};

	(void)state;
	assert_int_equal(waker_init(&made.waker), 0);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		calls_sweep(&all[i]);
	waker_deinit(&made.waker);
}

/* ---- the cache of lines ---- */

static const struct load_file file = {1, 2, 3, 4, 5, 0};
static const struct uw_build_id id = {20, {0xab, 0xcd}};
enum { ADDRESSES = 3 };
static const uint64_t first_vaddrs[ADDRESSES] = {16, 33, 48}, next_vaddrs[ADDRESSES] = {16, 64, 2};

struct caches {
	struct uw_module *module;
	const uint64_t *vaddrs;
};

/* As pw-parse finds them: a function that is inlined in itself, but none at an odd address. */
static void look_up(struct load_answer *a)
{
	a->lines = calloc(2 * ADDRESSES, sizeof(*a->lines));
	assert_non_null(a->lines);
	for (uint32_t i = 0; i < a->request.n_vaddrs; i++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "f%lu", a->request.vaddrs[i]);
		for (int k = 0; k < 2 && a->request.vaddrs[i] % 2 == 0; k++)
			a->lines[a->n_lines++] =
				(struct load_line){i, strdup(name), strdup("/x.c"), 7,
						   k ? FRAME_NATIVE : FRAME_INLINED};
	}
	a->has_file = true;
	a->file = file;
}

/* Both lines of an address, or none; @known: the cache had to find it. */
static void check_lines(const struct load_answer *a, bool known)
{
	for (size_t i = 0; i < a->request.n_vaddrs; i++) {
		size_t n = 0;

		for (size_t k = 0; k < a->n_lines; k++) {
			char name[32];

			(void)snprintf(name, sizeof(name), "f%lu", a->request.vaddrs[i]);
			if (a->lines[k].address != i)
				continue;
			n++;
			assert_string_equal(a->lines[k].function, name);
			assert_string_equal(a->lines[k].file, "/x.c");
		}
		if (n != (a->request.vaddrs[i] % 2 ? 0 : 2) && (n || known))
			fail_msg("call %lu: address %lu has %zu lines", calls_fail_at,
				 a->request.vaddrs[i], n);
	}
}

/* One recording. */
static int record(const struct caches *c)
{
	struct load_answer unwind = {.request = {.kind = LOAD_UNWIND, .module = c->module},
				     .has_file = true,
				     .file = file};
	struct load_answer a = {
		.request = {.kind = LOAD_LINES, .module = c->module, .n_vaddrs = ADDRESSES}};
	unsigned long n = suspend();
	int dir = cache_dir_open_in(root), r;
	struct line_cache *cache;

	a.request.vaddrs = calloc(LOAD_VADDRS_MAX, sizeof(*a.request.vaddrs));
	assert_non_null(a.request.vaddrs);
	memcpy(a.request.vaddrs, c->vaddrs, ADDRESSES * sizeof(*c->vaddrs));
	resume(n);
	r = line_cache_new(dir, &cache);
	if (r >= 0) {
		line_cache_finish(cache, &unwind);
		line_cache_find(cache, &a.request);
		n = suspend();
		look_up(&a);
		resume(n);
		line_cache_finish(cache, &a);
		n = suspend();
		check_lines(&a, !n);
		resume(n);
		(void)line_cache_free(cache);
	}
	load_answer_deinit(&a);
	return r;
}

static void clear_cache(void)
{
	int dir = cache_dir_open_in(root);

	cache_dir_trim(dir, "", 0);
	(void)fd_close(dir);
}

/* Two recordings, of which the second knows an address of the first; then a third without failures. */
static int make_cache(void *arg)
{
	struct caches *c = arg;
	unsigned long n = suspend();
	int r;

	clear_cache();
	c->vaddrs = first_vaddrs;
	resume(n);
	r = record(c);
	c->vaddrs = next_vaddrs;
	if (r >= 0)
		r = record(c);
	n = suspend();
	assert_int_equal(record(c), 0);
	resume(n);
	return r;
}
static void end_nothing(void *arg)
{
	(void)arg;
}

static void test_cache(void **state)
{
	struct caches c;
	const struct calls_made of = {"lines", make_cache, end_nothing, &c};

	(void)state;
	assert_int_equal(uw_module_new(UW_MODULE_FILE, "/bin/x", &id, &c.module), 0);
	calls_sweep(&of);
	(void)uw_module_unref(c.module);
}

/* ---- lines out of DWARF ---- */

/* In place of libc's, of which no allocation fails here. */
char *strdup(const char *text)
{
	size_t len = strlen(text) + 1;
	char *copy = malloc(len);

	if (copy)
		memcpy(copy, text, len);
	return copy;
}

static const char program[] =
	"volatile int sink;\n"
	"static inline __attribute__((always_inline)) int leaf(int x) { return sink + x; }\n"
	"__attribute__((noinline)) int outer(int x) { return leaf(x) * leaf(x + 1); }\n"
	"int main(int n, char **a) { (void)a; return outer(n); }\n";

struct dwarfs {
	int fd;
	uint64_t vaddr; /* an inlined call's */
	size_t n_lines; /* of it; 0: not known yet */
};

static int load_lines(void *arg)
{
	struct dwarfs *d = arg;
	struct load_answer a = {.request.n_vaddrs = 1};
	struct uw_source source = {.fd = d->fd};
	struct load_parser parser = {0};
	struct load_parse work = {.kind = LOAD_PARSE_UNWIND, .source = &source, .answer = &a};
	int r = uw_module_new(UW_MODULE_FILE, "/a", NULL, &work.module);

	if (r < 0)
		return r;
	work.vaddrs = &d->vaddr;
	work.n_vaddrs = 1;
	for (work.kind = LOAD_PARSE_UNWIND; r >= 0; work.kind = LOAD_PARSE_LINES) {
		load_parse(&parser, &work);
		r = work.error;
		if (work.kind == LOAD_PARSE_LINES)
			break;
	}
	if (r >= 0 && d->n_lines && a.n_lines != d->n_lines)
		fail_msg("call %lu: %zu lines of %zu", calls_fail_at, a.n_lines, d->n_lines);
	if (r >= 0)
		d->n_lines = a.n_lines;
	load_parse(&parser, &(struct load_parse){.kind = LOAD_PARSE_CLOSE});
	(void)uw_module_unref(work.module);
	load_answer_deinit(&a);
	return r;
}

/* Where @name begins, by the names of a module. */
static uint64_t vaddr_of(int fd, const char *name)
{
	struct uw_source source = {.fd = fd};
	const struct uw_image *image;
	struct uw_module *m;
	uint64_t found = 0;
	struct uw_symbol s;

	assert_int_equal(uw_module_new(UW_MODULE_FILE, "/a", NULL, &m), 0);
	assert_true(uw_module_load_unwind(m, &source) >= 0 && uw_module_want_symbols(m));
	assert_true(uw_module_load_symbols(m, &source) >= 0);
	image = uw_module_image(m);
	for (size_t i = 0; i < image->n_segments; i++)
		for (uint64_t at = 0; image->segments[i].exec && at < image->segments[i].memsz;
		     at++)
			if (uw_module_symbol(m, image->segments[i].vaddr + at, &s) &&
			    !strcmp(s.name, name))
				found = s.start;
	(void)uw_module_unref(m);
	return found;
}

static void test_lines(void **state)
{
	struct dwarfs d = {.n_lines = 0};
	const struct calls_made of = {"dwarf", load_lines, end_nothing, &d};
	char path[256];

	(void)state;
	if (!have("gcc"))
		skip();
	put("/a.c", program);
	assert_true(shell("cd %s && gcc -O1 -g -o a a.c", root));
	(void)snprintf(path, sizeof(path), "%s/a", root);
	d.fd = open_or_die(path);
	d.vaddr = vaddr_of(d.fd, "outer");
	assert_true(d.vaddr != 0);
	calls_own = true;
	calls_sweep(&of);
	calls_own = false;
	assert_true(d.n_lines >= 1);
	print_message("%zu lines\n", d.n_lines);
	(void)close(d.fd);
}

/* ---- /proc, in place ---- */

struct served {
	struct load_request request;
	struct load_worker worker;
	struct load_answer answer;
};

static int serve(void *arg)
{
	struct served *s = arg;
	int r = load_worker_init(&s->worker, "");

	if (r < 0)
		return r;
	s->answer = (struct load_answer){.request = s->request};
	load_worker_serve(&s->worker, &s->answer);
	load_worker_deinit(&s->worker);
	r = s->answer.error;
	if (r >= 0) {
		if (s->request.kind == LOAD_THREADS)
			assert_int_equal(s->answer.n_threads, 1);
		if (s->request.kind == LOAD_PROCESS)
			assert_true(s->answer.maps_len > 0 && s->answer.status.pid);
		if (s->request.kind == LOAD_QUERY)
			assert_non_null(s->answer.mapping.path);
	} else {
		load_answer_deinit(&s->answer);
	}
	return r;
}
static void end_served(void *arg)
{
	load_answer_deinit(&((struct served *)arg)->answer);
}

static void test_served(void **state)
{
	static const struct {
		const char *name;
		enum load_kind kind;
	} kinds[] = {{"process", LOAD_PROCESS},
		     {"names", LOAD_NAMES},
		     {"threads", LOAD_THREADS},
		     {"query", LOAD_QUERY}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct served s = {.request = {.kind = kinds[i].kind,
					       .pid = (uint32_t)getpid(),
					       .vaddr = (uintptr_t)serve}};

		calls_sweep(&(struct calls_made){kinds[i].name, serve, end_served, &s});
	}
}

/* ---- answers of helper processes ---- */

struct answers {
	struct load_request request;
	struct load_reply reply; /* without its descriptor, */
	int fd;			 /* of which each gets a copy */
	struct load_answer answer;
};

static int unpack(void *arg)
{
	struct answers *u = arg;
	struct load_reply reply = u->reply;
	unsigned long n = suspend();
	int r = 0;

	reply.fd = u->fd < 0 ? -1 : fcntl(u->fd, F_DUPFD_CLOEXEC, 3);
	u->answer = (struct load_answer){.request = u->request};
	if (u->request.module)
		r = uw_module_new(UW_MODULE_FILE, uw_module_path(u->request.module), NULL,
				  &u->answer.request.module);
	assert_int_equal(r, 0);
	resume(n);
	r = load_answer_unpack(&u->answer, &reply, NULL);
	if (r < 0) {
		(void)uw_module_unref(u->answer.request.module);
		load_answer_deinit(&u->answer);
	}
	return r;
}
static void end_unpacked(void *arg)
{
	struct answers *u = arg;

	assert_int_equal(u->answer.error, 0);
	if (u->request.kind == LOAD_PROCESS)
		assert_true(u->answer.maps && u->answer.cmdline && u->answer.memory);
	if (u->request.kind == LOAD_UNWIND)
		assert_int_equal(uw_module_unwind_state(u->answer.request.module), UW_MODULE_READY);
	(void)uw_module_unref(u->answer.request.module);
	load_answer_deinit(&u->answer);
}

/* Of a helper process, which serves @request once. */
static void sweep_answer(const char *name, struct load_request request)
{
	static const struct load_devices none;
	struct answers u = {.request = request};
	uint8_t bytes[HELPER_REQUEST_MAX];
	ssize_t n = load_request_pack(&request, &none, bytes);
	struct helper *h;

	assert_true(n > 0);
	assert_int_equal(helper_new(&load_role, &(struct load_role_arg){.root = ""}, &h), 0);
	assert_int_equal(helper_ask(h, bytes, (size_t)n, -1), 0);
	assert_int_equal(helper_wait(h, 60 * NSEC_PER_SEC, &u.reply.data, &u.reply.len, &u.fd), 0);
	u.reply.parsed = helper_partner_answer(h, &u.reply.parsed_len);
	calls_sweep(&(struct calls_made){name, unpack, end_unpacked, &u});
	(void)fd_close(u.fd);
	(void)helper_free(h);
}

static void test_answers(void **state)
{
	struct load_request request = {.kind = LOAD_PROCESS, .pid = (uint32_t)getpid()};
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	(void)state;
	assert_true(n > 0);
	path[n] = 0;
	sweep_answer("answer of a process", request);
	request.kind = LOAD_UNWIND;
	assert_int_equal(uw_module_new(UW_MODULE_FILE, path, NULL, &request.module), 0);
	sweep_answer("answer of a module", request);
	(void)uw_module_unref(request.module);
}

static int remove_root(void **state)
{
	(void)state;
	return fake_root_remove();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_loaders), cmocka_unit_test(test_cache),
		cmocka_unit_test(test_lines),	cmocka_unit_test(test_served),
		cmocka_unit_test(test_answers),
	};

	fake_root_make();
	return cmocka_run_group_tests_name("loader-calls", tests, NULL, remove_root);
}
