/* hand.h - a profile put together in memory, and its writers' output as text.
 *
 * hand_example():
 *   pid 100 "app"      tid 100   3 x (10) _start main work tiny(inlined in work)
 *                                1 x (20) _start main sys_read(kernel)
 *                                2 x ( 5) _start main recurse recurse
 *           "worker;1" tid 101   1 x ( 7) [cut] unsymbolized in libx.so
 *   pid 200 "other"    tid 200   1 x ( 1) _start main work tiny
 *                                1 x ( 2) no stack
 *                                1 skipped
 * count 9, weight 70. */
#pragma once

#include <errno.h>

#include "profile/profile-export.h"
#include "tests/unit/cmocka.h"

enum { HAND_MAX = 64 };

static inline void *hand_grow(void *array, size_t n, size_t size)
{
	void *more = n ? array : calloc(HAND_MAX, size);

	assert_non_null(more);
	assert_true(n < HAND_MAX);
	return more;
}
#define HAND_ADD(p, list, n) \
	((p)->list = hand_grow((p)->list, (p)->n, sizeof(*(p)->list)), &(p)->list[(p)->n++])

static inline uint32_t hand_string(struct profile *p, const char *text)
{
	uint32_t id = 0;

	if (text)
		assert_int_equal(string_table_add(&p->strings, text, strlen(text), &id, NULL), 0);
	return id;
}

static inline uint32_t hand_module(struct profile *p, const char *path, bool kernel)
{
	*HAND_ADD(p, modules, n_modules) =
		(struct profile_module){.path = hand_string(p, path), .kernel = kernel};
	return (uint32_t)p->n_modules - 1;
}

/* @inlined: a call inlined into @function, or NULL. */
static inline uint32_t hand_frame(struct profile *p, uint32_t module, uint64_t rel_pc,
				  const char *function, const char *inlined)
{
	uint32_t first = (uint32_t)p->n_lines;

	if (inlined)
		*HAND_ADD(p, lines, n_lines) = (struct profile_line){
			hand_string(p, inlined), hand_string(p, "tiny.h"), 7, 0};
	*HAND_ADD(p, lines, n_lines) =
		(struct profile_line){hand_string(p, function),
				      inlined ? hand_string(p, "app.c") : 0, inlined ? 42 : 0, 0};
	*HAND_ADD(p, frames, n_frames) =
		(struct profile_frame){module, rel_pc, first, (uint32_t)p->n_lines - first, false};
	return (uint32_t)p->n_frames - 1;
}

/* Frames innermost first. */
static inline uint32_t hand_stack(struct profile *p, const uint32_t *frames, uint32_t n)
{
	uint32_t up = UINT32_MAX;

	for (uint32_t i = n; i-- > 0; up = (uint32_t)p->n_nodes - 1)
		*HAND_ADD(p, nodes, n_nodes) = (struct profile_node){up, frames[i]};
	return up;
}
#define HAND_STACK(p, ...)                               \
	hand_stack((p), (const uint32_t[]){__VA_ARGS__}, \
		   (uint32_t)ARRAY_SIZE(((const uint32_t[]){__VA_ARGS__})))

/* A new entry, also where the pid has one: its next incarnation. */
static inline uint32_t hand_process(struct profile *p, uint32_t pid, const char *name)
{
	*HAND_ADD(p, processes, n_processes) =
		(struct profile_process){.pid = pid, .name = hand_string(p, name)};
	return (uint32_t)p->n_processes - 1;
}

static inline void hand_cgroup(struct profile *p, uint32_t process, const char *path)
{
	p->processes[process].cgroup = hand_string(p, path);
}

static inline uint32_t hand_thread(struct profile *p, uint32_t process, uint32_t tid,
				   const char *name)
{
	*HAND_ADD(p, threads, n_threads) =
		(struct profile_thread){process, tid, hand_string(p, name)};
	return (uint32_t)p->n_threads - 1;
}

/* The last entry of a pid, and of a tid in it, as the reader leaves them: unsymbolized ones are made.
 */
static inline uint32_t hand_last_process(struct profile *p, uint32_t pid)
{
	for (size_t i = p->n_processes; i-- > 0;)
		if (p->processes[i].pid == pid)
			return (uint32_t)i;
	return hand_process(p, pid, NULL);
}

static inline uint32_t hand_last_thread(struct profile *p, uint32_t process, uint32_t tid)
{
	for (size_t i = p->n_threads; i-- > 0;)
		if (p->threads[i].process == process && p->threads[i].tid == tid)
			return (uint32_t)i;
	return hand_thread(p, process, tid, NULL);
}

static inline struct profile_sample *hand_sample(struct profile *p, uint32_t pid, uint32_t tid,
						 uint32_t stack, uint64_t weight)
{
	uint32_t process = hand_last_process(p, pid), thread = hand_last_thread(p, process, tid);
	struct profile_sample *s = HAND_ADD(p, samples, n_samples);

	*s = (struct profile_sample){.time = 1000000000ull + p->n_samples * 500000000ull,
				     .weight = weight,
				     .thread = thread,
				     .stack = stack};
	return s;
}

static inline void hand_stat(struct profile *p, const char *name, double value)
{
	*HAND_ADD(p, stats, n_stats) = (struct profile_stat){hand_string(p, name), value};
}

static inline void hand_note(struct profile *p, const char *text)
{
	*HAND_ADD(p, notes, n_notes) = hand_string(p, text);
}

static inline struct profile hand_empty(void)
{
	struct profile p = {0};

	(void)snprintf(p.event_name, sizeof(p.event_name), "cpu-clock");
	(void)snprintf(p.weight_unit, sizeof(p.weight_unit), "ns");
	return p;
}

static inline struct profile hand_example(void)
{
	struct profile p = hand_empty();
	uint32_t kernel = hand_module(&p, "/kernel", true),
		 app = hand_module(&p, "/usr/bin/app", false);
	uint32_t libx = hand_module(&p, "/lib/libx.so", false), none = hand_module(&p, "", false);
	uint32_t start = hand_frame(&p, app, 0x10, "_start", NULL),
		 main_ = hand_frame(&p, app, 0x20, "main", NULL);
	uint32_t work = hand_frame(&p, app, 0x30, "work", "tiny"),
		 recurse = hand_frame(&p, app, 0x40, "recurse", NULL);
	uint32_t read = hand_frame(&p, kernel, 0, "sys_read", NULL),
		 unsymbolized = hand_frame(&p, libx, 0x1234, NULL, NULL);
	uint32_t cut = hand_frame(&p, none, 0, "[cut]", NULL);
	uint32_t a = HAND_STACK(&p, work, main_, start), b = HAND_STACK(&p, read, main_, start);
	uint32_t c = HAND_STACK(&p, recurse, recurse, main_, start),
		 d = HAND_STACK(&p, unsymbolized, cut), app_process;

	p.modules[app].build_id[0] = 0xde;
	p.modules[app].build_id[1] = 0x0d;
	p.modules[app].build_id_len = 2;
	app_process = hand_process(&p, 100, "app");
	hand_process(&p, 200, "other");
	hand_thread(&p, app_process, 100, NULL);
	hand_thread(&p, app_process, 101, "worker;1");
	hand_sample(&p, 100, 100, a, 10);
	hand_sample(&p, 100, 100, b, 20);
	hand_sample(&p, 100, 100, a, 10);
	hand_sample(&p, 100, 100, c, 5);
	hand_sample(&p, 100, 101, d, 7)->unwind_error = 2;
	hand_sample(&p, 200, 200, a, 1);
	hand_sample(&p, 100, 100, a, 10);
	hand_sample(&p, 100, 100, c, 5);
	hand_sample(&p, 200, 200, UINT32_MAX, 2);
	hand_sample(&p, 200, 200, UINT32_MAX, 9)->skipped_reason = 2;
	return p;
}

/* An @export onto a full disk fails by name. */
static inline void expect_full_disk(int (*export)(const struct profile *profile,
						  const struct export_options *options, FILE *out))
{
	struct profile p = hand_example();
	FILE *full = fopen("/dev/full", "we");

	if (full) {
		assert_int_equal(export(&p, NULL, full), -ENOSPC);
		(void)fclose(full);
	}
	profile_deinit(&p);
}

/* What a writer writes: new memory with a NUL behind. */
static inline char *hand_written(const struct profile *p, const struct export_options *options,
				 int (*write)(const struct profile *, const struct export_options *,
					      FILE *),
				 size_t *ret_len)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, ret_len);

	assert_non_null(out);
	assert_int_equal(write(p, options, out), 0);
	assert_int_equal(fclose(out), 0);
	return text;
}
