/* test-load-role.c - load-role.h: what a helper process answers must be what load_worker_serve()
 * answers in place. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/bytes.h"
#include "session/loader/load-role.h"
#include "tests/unit/cmocka.h"
#include "symbols/image.h"

struct pair {
	struct helper *helper;
	struct load_worker worker;
};

static int set_up(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	assert_int_equal(load_worker_init(&p->worker, ""), 0);
	assert_int_equal(helper_new(&load_role, &(struct load_role_arg){.root = "", .copies = true},
				    &p->helper),
			 0);
	*state = p;
	return 0;
}

static int tear_down(void **state)
{
	struct pair *p = *state;

	load_worker_deinit(&p->worker);
	(void)helper_free(p->helper);
	free(p);
	return 0;
}

/* What load_role.begin() gave in this process.  volatile: it is never read, and must not be optimised away. */
static void *volatile test_kept;

static void remote(struct pair *p, const struct load_request *request,
		   const struct load_devices *devices, struct load_answer *a)
{
	static const struct load_devices none;
	uint8_t bytes[HELPER_REQUEST_MAX];
	struct load_reply reply;
	ssize_t n = load_request_pack(request, devices ? devices : &none, bytes);

	assert_true(n > 0);
	assert_int_equal(helper_ask(p->helper, bytes, (size_t)n, -1), 0);
	assert_int_equal(
		helper_wait(p->helper, 60 * NSEC_PER_SEC, &reply.data, &reply.len, &reply.fd), 0);
	reply.parsed = helper_partner_answer(p->helper, &reply.parsed_len);
	*a = (struct load_answer){.request = *request};
	assert_int_equal(load_answer_unpack(a, &reply, NULL), 0);
	helper_done(p->helper);
}

static void local(struct pair *p, const struct load_request *request, struct load_answer *a)
{
	*a = (struct load_answer){.request = *request};
	load_worker_serve(&p->worker, a);
}

static void test_process(void **state)
{
	struct load_request request = {.kind = LOAD_PROCESS, .pid = (uint32_t)getpid()};
	static const char word[] = "a word in memory";
	struct load_answer a, b;
	char back[sizeof(word)];

	remote(*state, &request, NULL, &a);
	local(*state, &request, &b);
	assert_int_equal(a.error, 0);
	assert_int_equal(a.status.pid, b.status.pid);
	assert_int_equal(a.status.ppid, b.status.ppid);
	assert_int_equal(a.status.start_ticks, b.status.start_ticks);
	assert_string_equal(a.status.comm, b.status.comm);
	assert_int_equal(a.cmdline_len, b.cmdline_len);
	assert_memory_equal(a.cmdline, b.cmdline, a.cmdline_len);
	if (b.cgroup) /* a kernel may have none */
		assert_string_equal(a.cgroup, b.cgroup);
	else
		assert_null(a.cgroup);
	assert_non_null(strstr(a.maps, "test-load-role"));
	assert_int_equal(strlen(a.maps), a.maps_len);
	assert_int_equal(a.n_threads, b.n_threads);
	assert_int_equal(a.threads[0].tid, b.threads[0].tid);
	assert_non_null(a.memory); /* its descriptor was opened there */
	assert_int_equal(a.memory->read(a.memory, (uintptr_t)word, back, sizeof(back)),
			 sizeof(back));
	assert_string_equal(back, word);
	load_answer_deinit(&a);
	load_answer_deinit(&b);
	request.kind = LOAD_THREADS;
	remote(*state, &request, NULL, &a);
	assert_int_equal(a.n_threads, 1);
	load_answer_deinit(&a);
	request.pid = 0x3ffffff; /* over any pid_max */
	request.kind = LOAD_PROCESS;
	remote(*state, &request, NULL, &a);
	assert_int_equal(a.error, -ESRCH);
	assert_null(a.maps);
	load_answer_deinit(&a);
}

static struct uw_module *self_module(void)
{
	struct uw_module *m;
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	assert_true(n > 0);
	path[n] = 0;
	assert_int_equal(uw_module_new(UW_MODULE_FILE, path, NULL, &m), 0);
	return m;
}

static uint64_t vaddr_of(const struct uw_module *module, const char *name)
{
	const struct uw_image *image = uw_module_image(module);
	struct uw_symbol s;

	for (size_t i = 0; i < image->n_segments; i++)
		for (uint64_t at = 0; image->segments[i].exec && at < image->segments[i].memsz;
		     at++)
			if (uw_module_symbol(module, image->segments[i].vaddr + at, &s) &&
			    !strcmp(s.name, name))
				return s.start;
	return 0;
}

static void test_module(void **state)
{
	struct pair *p = *state;
	struct load_request request = {.kind = LOAD_UNWIND, .pid = (uint32_t)getpid()};
	struct uw_module *m = request.module = self_module();
	struct load_answer a;
	bool own = false;
	uint64_t main_at;

	remote(p, &request, NULL, &a);
	assert_int_equal(a.error, 0);
	assert_int_equal(uw_module_unwind_state(m), UW_MODULE_READY);
	assert_int_equal(uw_module_symbol_state(m), UW_MODULE_NEW);
	assert_true(uw_module_image(m)->fd >= 0); /* the copy that was asked for */
	load_answer_deinit(&a);
	request.kind = LOAD_SYMBOLS;
	remote(p, &request, NULL, &a);
	assert_int_equal(uw_module_symbol_state(m), UW_MODULE_READY);
	load_answer_deinit(&a);
	main_at = vaddr_of(m, "main");
	assert_true(main_at != 0);
	request.kind = LOAD_LINES;
	request.vaddrs = calloc(2, sizeof(*request.vaddrs));
	request.n_vaddrs = 2; /* the first one is nowhere */
	request.vaddrs[1] = main_at;
	request.spans = true;
	remote(p, &request, NULL, &a);
	assert_true(a.n_lines > 0);
	/* no unit has the first one */
	assert_true(a.n_spans >= 2 && !a.spans[0].low && a.spans[0].high <= main_at);
	assert_true(a.spans[0].high > 1 && a.lines[0].address == 1);
	assert_true(a.spans[1].low <= main_at && a.spans[1].high > main_at);
	assert_true(a.n_spans > 3); /* the rest of main(), each part once */
	for (size_t i = 3; i < a.n_spans; i++)
		assert_int_equal(a.spans[i].low, a.spans[i - 1].high);
	for (size_t i = 0; i < a.n_lines; i++)
		own |= a.lines[i].address == 1 && !strcmp(a.lines[i].function, "main") &&
		       a.lines[i].file && strstr(a.lines[i].file, "test-load-role.c") &&
		       a.lines[i].line;
	assert_true(own);
	/* The rest of main() is looked up once. */
	request.vaddrs = a.request.vaddrs;
	a.request.vaddrs = NULL;
	load_answer_deinit(&a);
	request.vaddrs[1] = main_at;
	remote(p, &request, NULL, &a);
	assert_int_equal(a.n_spans, 2);
	assert_true(a.n_lines > 0);
	load_answer_deinit(&a);
	request.vaddrs = NULL;
	request.n_vaddrs = 0;
	request.spans = false;
	/* again, after ours were dropped: what is kept there does not stand in the way */
	uw_module_drop_unwind(m);
	request.kind = LOAD_UNWIND;
	remote(p, &request, NULL, &a);
	assert_int_equal(uw_module_unwind_state(m), UW_MODULE_READY);
	load_answer_deinit(&a);
	(void)uw_module_unref(m);
}

/* A device that is slept over is not touched. */
/* The module of Python's functions has no file: that of a process that has ended is not looked for in ours, and is not
 * reported as out of reach (-EXDEV). */
static void test_python_ended(void **state)
{
	struct pair *p = *state;
	struct load_request request = {.kind = LOAD_SYMBOLS, .pid = UINT32_MAX >> 1};
	struct load_answer a;

	assert_int_equal(uw_module_new(UW_MODULE_JIT, UW_PYTHON_PATH, NULL, &request.module), 0);
	local(p, &request, &a);
	assert_int_equal(a.error, -ENOENT);
	load_answer_deinit(&a);
	uw_module_unref(request.module);
}

static void test_devices(void **state)
{
	struct pair *p = *state;
	struct load_request request = {.kind = LOAD_UNWIND, .pid = (uint32_t)getpid()};
	struct load_devices devices = {0};
	struct load_answer a;
	struct stat st;

	request.module = self_module();
	assert_int_equal(stat(uw_module_path(request.module), &st), 0);
	devices.held[devices.n_held++] = st.st_dev;
	remote(p, &request, &devices, &a);
	assert_int_equal(a.error, -EAGAIN);
	assert_int_equal(uw_module_unwind_state(request.module), UW_MODULE_NEW);
	load_answer_deinit(&a);
	devices.refused[devices.n_refused++] = st.st_dev;
	remote(p, &request, &devices, &a);
	assert_int_equal(a.error, -EBUSY);
	load_answer_deinit(&a);
	remote(p, &request, NULL, &a);
	assert_int_equal(a.error, 0);
	load_answer_deinit(&a);
	(void)uw_module_unref(request.module);
}

/* Answers cut anywhere, and with each byte of the head changed, are refused or harmless. */
static void test_damaged(void **state)
{
	struct pair *p = *state;
	const struct load_request request = {.kind = LOAD_PROCESS, .pid = (uint32_t)getpid()};
	static const struct load_devices none;
	uint8_t bytes[HELPER_REQUEST_MAX], *copy;
	const uint8_t *data;
	struct load_reply reply = {.fd = -1};
	struct load_answer a;
	size_t len;
	int fd;
	ssize_t n = load_request_pack(&request, &none, bytes);

	assert_int_equal(helper_ask(p->helper, bytes, (size_t)n, -1), 0);
	assert_int_equal(helper_wait(p->helper, 60 * NSEC_PER_SEC, &data, &len, &fd), 0);
	(void)close(fd);
	for (size_t cut = 0; cut < len; cut += cut < 600 ? 1 : 97) {
		copy = malloc(cut + 1);
		assert_non_null(copy);
		memcpy(copy, data, cut);
		a = (struct load_answer){.request = request};
		reply.data = copy;
		reply.len = cut;
		assert_true(load_answer_unpack(&a, &reply, NULL) < 0);
		load_answer_deinit(&a);
		free(copy);
	}
	copy = malloc(len);
	assert_non_null(copy);
	for (size_t i = 0; i < min_u64(len, 600); i++) {
		memcpy(copy, data, len);
		copy[i] = 0xff;
		a = (struct load_answer){.request = request};
		reply.data = copy;
		reply.len = len;
		(void)load_answer_unpack(&a, &reply, NULL);
		load_answer_deinit(&a);
	}
	free(copy);
}

/* The role's own code in this process: an answer that does not fit is marked, and what is not a request has none. */
static void test_in_place(void **state)
{
	static const struct load_devices none;
	const struct load_request request = {.kind = LOAD_PROCESS, .pid = (uint32_t)getpid()};
	_Atomic uint64_t mark = 0;
	uint8_t bytes[HELPER_REQUEST_MAX], answer[1 << 10];
	struct helper_call call = {.request = bytes,
				   .fd = -1,
				   .answer = answer,
				   .room = sizeof(answer),
				   .answer_fd = -1,
				   .partner = -1,
				   .mark = &mark};
	void *kept = load_role.begin(&(struct load_role_arg){.root = "", .copies = true});
	struct load_reply reply = {.data = answer, .fd = -1};
	struct load_answer a = {.request = request};

	(void)state;
	assert_non_null(kept);
	call.request_len = (size_t)load_request_pack(&request, &none, bytes);
	load_role.serve(kept, &call);
	if (call.answer_fd >= 0)
		(void)close(call.answer_fd);
	assert_true(call.answer_len > 0 && call.answer_len <= call.room);
	reply.len = call.answer_len;
	assert_int_equal(load_answer_unpack(&a, &reply, NULL), 0);
	assert_int_equal(a.error, -EFBIG);
	assert_null(a.maps);
	load_answer_deinit(&a);

	call.answer_len = 0;
	call.request_len = 5;
	load_role.serve(kept, &call);
	assert_int_equal(call.answer_len, 0);
	test_kept = kept; /* as in its process, for as long as that runs */
}

/* A module that does not fit into the window of pw-parse. */
static void test_too_large(void **state)
{
	struct helper_role parse = load_parse_role, role = load_role;
	struct pair p = {0};
	struct load_request request = {.kind = LOAD_UNWIND, .pid = (uint32_t)getpid()};
	struct load_answer a;

	(void)state;
	parse.room = 4096;
	role.partner = &parse;
	assert_int_equal(helper_new(&role, &(struct load_role_arg){.root = ""}, &p.helper), 0);
	request.module = self_module();
	remote(&p, &request, NULL, &a);
	assert_int_equal(a.error, -EFBIG);
	assert_int_equal(uw_module_unwind_state(request.module), UW_MODULE_NEW);
	load_answer_deinit(&a);
	(void)uw_module_unref(request.module);
	(void)helper_free(p.helper);
}

/* ---- what pw-parse keeps ---- */

enum { DUMPS = 12, DUMP_CODES = 200000, RECORD = 16 + 40 + 8 };

static void put_dump(int fd)
{
	struct buffer b = {.len = 0};
	uint32_t head[10] = {0x4a695444, 1, sizeof(head)};

	buffer_append(&b, head, sizeof(head));
	for (uint64_t i = 0; i < DUMP_CODES; i++) {
		uint64_t fields[6] = {1000 + i, 0, i * 64, i * 64, 64, i};
		uint32_t prefix[2] = {0, RECORD};
		char name[9];

		(void)snprintf(name, sizeof(name), "%07u", (unsigned)i % 10000000);
		buffer_append(&b, prefix, sizeof(prefix));
		buffer_append(&b, fields, sizeof(fields));
		buffer_append(&b, name, 8);
	}
	assert_int_equal(write(fd, b.data, b.len), b.len);
	buffer_deinit(&b);
}

static size_t resident_bytes(int pid)
{
	char path[64];
	size_t size, resident;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/statm", pid);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%zu %zu", &size, &resident), 2);
	(void)fclose(f);
	return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* Programs with large jitdumps come and go: the readers of those that were longest unused are forgotten. */
static void test_many_dumps(void **state)
{
	struct pair *p = *state;
	struct load_request request = {.kind = LOAD_UNWIND, .pid = (uint32_t)getpid()};
	struct uw_module *modules[DUMPS];
	char paths[DUMPS][sizeof("/tmp/test-dump-XXXXXX")];
	void *maps[DUMPS];
	struct load_answer a;
	struct uw_symbol symbol;
	size_t most = 0;

	for (size_t i = 0; i < DUMPS; i++) {
		struct uw_file_id id = {0};
		struct stat st;
		int fd;

		memcpy(paths[i], "/tmp/test-dump-XXXXXX", sizeof(paths[i]));
		fd = mkstemp(paths[i]);
		assert_true(fd >= 0);
		put_dump(fd);
		assert_int_equal(fstat(fd, &st), 0);
		id.inode = st.st_ino;
		id.major = major(st.st_dev);
		id.minor = minor(st.st_dev);
		maps[i] = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
		assert_true(maps[i] != MAP_FAILED);
		assert_int_equal(uw_module_new(UW_MODULE_JIT, "/tmp/perf-1.map", NULL, &modules[i]),
				 0);
		assert_int_equal(uw_module_set_jitdump(modules[i], paths[i], (uintptr_t)maps[i],
						       (uintptr_t)maps[i] + 4096, &id),
				 0);
		request.module = modules[i];
		remote(p, &request, NULL, &a);
		assert_int_equal(a.error, 0);
		load_answer_deinit(&a);
		assert_true(uw_module_symbol(modules[i], 64 * (DUMP_CODES - 1), &symbol));
		uw_module_drop_symbols(modules[i]);
		most = max_u64(most, resident_bytes(helper_partner_pid(p->helper)));
		(void)close(fd);
	}
	assert_true(most > 16 << 20);
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) /* malloc() counts */
	assert_true(most < 224 << 20);
#endif
	/* One that was forgotten is read again. */
	request.module = modules[0];
	request.kind = LOAD_SYMBOLS;
	remote(p, &request, NULL, &a);
	load_answer_deinit(&a);
	assert_true(uw_module_symbol(modules[0], 64 * (DUMP_CODES - 1), &symbol));
	for (size_t i = 0; i < DUMPS; i++) {
		(void)uw_module_unref(modules[i]);
		(void)munmap(maps[i], 4096);
		(void)unlink(paths[i]);
	}
	print_message("%zu MiB at most\n", most >> 20);
}

/* ---- a pw-parse that a file has taken over ---- */

/* What it asks for, from before it is made. */
static char asked[8][4096 + 64];
static uint64_t asked_address;

static void take_over(void *kept, struct helper_call *call)
{
	int32_t results[ARRAY_SIZE(asked) + 1];
	char word[8];

	(void)kept;
	for (size_t i = 0; i < ARRAY_SIZE(asked); i++) {
		const char *const paths[] = {asked[i]};
		size_t index;
		int fd = load_ask_open(call, paths, 1, &index);

		results[i] = fd < 0 ? fd : 0;
		if (fd >= 0)
			(void)close(fd);
	}
	results[ARRAY_SIZE(asked)] =
		(int32_t)load_ask_read(call, asked_address, word, sizeof(word));
	memcpy(call->answer, results, sizeof(results));
	call->answer_len = sizeof(results);
}

static int ask_hostile(const struct load_request *request, int32_t results[ARRAY_SIZE(asked) + 1])
{
	static const struct load_devices none;
	static const struct helper_role hostile = {
		.name = "hostile", .room = 4096, .calls = CHILD_CALLS_GIVEN, .serve = take_over};
	struct helper_role role = load_role;
	uint8_t bytes[HELPER_REQUEST_MAX];
	ssize_t n = load_request_pack(request, &none, bytes);
	const uint8_t *data;
	struct helper *h;
	size_t len;
	int fd, r;

	role.partner = &hostile;
	assert_int_equal(helper_new(&role, &(struct load_role_arg){.root = ""}, &h), 0);
	assert_int_equal(helper_ask(h, bytes, (size_t)n, -1), 0);
	r = helper_wait(h, 60 * NSEC_PER_SEC, &data, &len, &fd);
	if (r == 0) {
		(void)fd_close(fd);
		data = helper_partner_answer(h, &len);
		assert_int_equal(len, (ARRAY_SIZE(asked) + 1) * sizeof(*results));
		memcpy(results, data, len);
	}
	(void)helper_free(h);
	return r;
}

/* It gets debug files of the current module, and nothing of other files and of memory, readable or not. */
static void test_taken_over(void **state)
{
	struct load_request request = {.kind = LOAD_UNWIND, .pid = (uint32_t)getpid()};
	int32_t results[ARRAY_SIZE(asked) + 1];
	char folder[4096], *name;
	FILE *f;

	(void)state;
	request.module = self_module();
	(void)snprintf(folder, sizeof(folder), "%s", uw_module_path(request.module));
	name = strrchr(folder, '/');
	*name++ = 0;
	(void)snprintf(asked[0], sizeof(asked[0]), "%s/%s", folder, name);
	(void)snprintf(asked[1], sizeof(asked[1]), "/etc/passwd");
	(void)snprintf(asked[2], sizeof(asked[2]), "/proc/self/exe");
	(void)snprintf(asked[3], sizeof(asked[3]), "%s/../stage/%s", folder, name);
	(void)snprintf(asked[4], sizeof(asked[4]), "/usr/lib/debug/.dwz/../../../../etc/passwd");
	(void)snprintf(asked[5], sizeof(asked[5]), "/usr/lib/debug%s/../%s", folder, name);
	(void)snprintf(asked[6], sizeof(asked[6]), "%s/%s.text", folder, name);
	(void)snprintf(asked[7], sizeof(asked[7]), "%s", "");
	f = fopen(asked[6], "we");
	assert_non_null(f);
	assert_true(fputs("root:x:0:0\n", f) >= 0 && fclose(f) == 0);
	asked_address = (uint64_t)(uintptr_t)asked;
	assert_int_equal(ask_hostile(&request, results), 0);
	assert_int_equal(unlink(asked[6]), 0);
	assert_int_equal(results[0], 0);
	for (size_t i = 1; i < 6; i++)
		assert_int_equal(results[i], -EACCES);
	assert_int_equal(results[6], -ENOEXEC); /* in its place, and no ELF image */
	assert_int_equal(results[7], -EACCES);
	assert_int_equal(results[8], -EACCES);
	/* where it is asked for no more than a build id, and to close a file, questions are its end */
	request.id.build_id.len = UW_BUILD_ID_MAX;
	assert_int_equal(ask_hostile(&request, results), -EPIPE);
	(void)uw_module_unref(request.module);
}

/* Of a module that is read out of memory its image is given, and nothing else of the process. */
static void test_taken_over_memory(void **state)
{
	struct load_request request = {.kind = LOAD_UNWIND, .pid = (uint32_t)getpid()};
	static uint64_t on_heap;
	int32_t results[ARRAY_SIZE(asked) + 1];
	uint64_t *heap = malloc(sizeof(*heap));

	(void)state;
	assert_non_null(heap);
	on_heap = (uint64_t)(uintptr_t)heap;
	assert_int_equal(uw_module_new(UW_MODULE_MEMORY, "/not/a/file", NULL, &request.module), 0);
	request.start = (uint64_t)(uintptr_t)take_over & ~4095ull;
	request.end = request.start + 4096;
	asked_address = request.start;
	assert_int_equal(ask_hostile(&request, results), 0);
	assert_int_equal(results[8], 8);
	asked_address = request.end;
	assert_int_equal(ask_hostile(&request, results), 0);
	assert_int_equal(results[8], -EACCES);
	asked_address = on_heap;
	assert_int_equal(ask_hostile(&request, results), 0);
	assert_int_equal(results[8], -EACCES);
	(void)uw_module_unref(request.module);
	free(heap);
}

static void test_debug_paths(void **state)
{
	static const struct {
		const char *module, *path;
		bool is;
	} cases[] = {
		{"/usr/bin/a", "/usr/lib/debug/.build-id/ab/cdef0123.debug", true},
		{"/usr/bin/a", "/usr/lib/debug/.build-id/ab/cdef0123", false},
		{"/usr/bin/a", "/usr/lib/debug/.build-id/ab/../x.debug", false},
		{"/usr/bin/a", "/usr/lib/debug/.build-id/abc/def.debug", false},
		{"/usr/bin/a", "/usr/lib/debug/.build-id/ab/cd.debug/x", false},
		{"/usr/bin/a", "/usr/bin/a.debug", true},
		{"/usr/bin/a", "/usr/bin/.debug/a.debug", true},
		{"/usr/bin/a", "/usr/lib/debug/usr/bin/a.debug", true},
		{"/usr/bin/a", "/usr/bin/x/a.debug", false},
		{"/usr/bin/a", "/usr/bin/..", false},
		{"/usr/bin/a", "/usr/bin/", false},
		{"/usr/bin/a", "/usr/lib/debug/usr/bin/../a", false},
		{"/usr/bin/a", "/etc/shadow", false},
		{"/usr/bin/a", "", false},
		{"/usr/bin/a", "a.debug", false},
		{"a", "a.debug", false},
		{"[vdso]", "/etc/shadow", false},
		{"/a", "/b", true},
		{"/usr/bin/a", "/usr/lib/debug/.dwz/x86_64-linux-gnu/b.debug", true},
		{"/usr/bin/a", "/usr/lib/debug/.dwz/", false},
		{"/usr/bin/a", "/usr/lib/debug/.dwz/x/../../b", false},
		{"/usr/bin/a", "/usr/lib/debug/.dwz/../b", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (load_is_debug_path(cases[i].module, cases[i].path) != cases[i].is)
			fail_msg("%s for %s", cases[i].path, cases[i].module);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_process, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_module, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_python_ended, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_devices, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_damaged, set_up, tear_down),
		cmocka_unit_test(test_too_large),
		cmocka_unit_test_setup_teardown(test_many_dumps, set_up, tear_down),
		cmocka_unit_test(test_taken_over),
		cmocka_unit_test(test_taken_over_memory),
		cmocka_unit_test(test_debug_paths),
		cmocka_unit_test(test_in_place), /* the last: it gives rights up */
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
