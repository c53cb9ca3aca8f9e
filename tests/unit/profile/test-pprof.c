/* test-pprof.c - unpacked again and looked at message by message. */
#include <errno.h>
#include <zlib.h>

#include "protos/profile.pb-c.h"
#include "tests/unit/profile/hand.h"

static Pprof__Profile *exported(const struct profile *p)
{
	static uint8_t plain[1 << 20];
	z_stream z = {.next_out = plain, .avail_out = sizeof(plain)};
	Pprof__Profile *m;
	size_t len;
	char *packed = hand_written(p, NULL, export_pprof, &len);

	z.next_in = (uint8_t *)packed;
	z.avail_in = (uInt)len;
	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	assert_int_equal(z.avail_in, 0);
	m = pprof__profile__unpack(NULL, z.total_out, plain);
	assert_non_null(m);
	(void)inflateEnd(&z);
	free(packed);
	return m;
}

static const char *string(const Pprof__Profile *m, int64_t index)
{
	assert_in_range(index, 0, m->n_string_table - 1);
	return m->string_table[index];
}

static const Pprof__Function *function(const Pprof__Profile *m, uint64_t id)
{
	for (size_t i = 0; i < m->n_function; i++)
		if (m->function[i]->id == id)
			return m->function[i];
	fail_msg("no function %lu", (unsigned long)id);
	return NULL;
}

static const Pprof__Mapping *mapping(const Pprof__Profile *m, uint64_t id)
{
	for (size_t i = 0; i < m->n_mapping; i++)
		if (m->mapping[i]->id == id)
			return m->mapping[i];
	fail_msg("no mapping %lu", (unsigned long)id);
	return NULL;
}

static const Pprof__Location *location(const Pprof__Profile *m, uint64_t id)
{
	for (size_t i = 0; i < m->n_location; i++)
		if (m->location[i]->id == id)
			return m->location[i];
	fail_msg("no location %lu", (unsigned long)id);
	return NULL;
}

/* "tiny,work;main;_start", innermost first; inlined lines by commas. */
static const char *stack_text(const Pprof__Profile *m, const Pprof__Sample *s)
{
	static char text[512];
	size_t at = 0;

	*text = 0;
	for (size_t i = 0; i < s->n_location_id; i++) {
		const Pprof__Location *l = location(m, s->location_id[i]);

		for (size_t k = 0; k < l->n_line; k++)
			at += (size_t)snprintf(
				text + at, sizeof(text) - at, "%s%s",
				k   ? ","
				: i ? ";"
				    : "",
				string(m, function(m, l->line[k]->function_id)->name));
	}
	return text;
}

static const Pprof__Sample *sample(const Pprof__Profile *m, const char *stack, int64_t pid)
{
	for (size_t i = 0; i < m->n_sample; i++)
		if (!strcmp(stack_text(m, m->sample[i]), stack) &&
		    m->sample[i]->label[2]->num == pid)
			return m->sample[i];
	fail_msg("no sample %s", stack);
	return NULL;
}

static void assert_sample(const Pprof__Profile *m, const char *stack, int64_t pid, int64_t count,
			  int64_t weight)
{
	const Pprof__Sample *s = sample(m, stack, pid);

	assert_int_equal(s->n_value, 2);
	assert_int_equal(s->value[0], count);
	assert_int_equal(s->value[1], weight);
}

static void samples_are_grouped(void **state)
{
	struct profile p = hand_example();
	const Pprof__Sample *s;
	Pprof__Profile *m;

	(void)state;
	hand_cgroup(&p, 1, "/box\xff");
	m = exported(&p);
	assert_int_equal(m->n_sample, 6);
	assert_sample(m, "tiny,work;main;_start", 100, 3, 30);
	assert_sample(m, "sys_read;main;_start", 100, 1, 20);
	assert_sample(m, "recurse;recurse;main;_start", 100, 2, 10);
	assert_sample(m, "[libx.so];[cut]", 100, 1, 7);
	assert_sample(m, "tiny,work;main;_start", 200, 1, 1);
	assert_sample(m, "[no stack]", 200, 1, 2);
	s = sample(m, "[libx.so];[cut]", 100);
	assert_int_equal(s->n_label, 4);
	assert_string_equal(string(m, s->label[0]->key), "process");
	assert_string_equal(string(m, s->label[0]->str), "app");
	assert_string_equal(string(m, s->label[1]->key), "thread");
	assert_string_equal(string(m, s->label[1]->str), "worker;1");
	assert_string_equal(string(m, s->label[2]->key), "pid");
	assert_string_equal(string(m, s->label[3]->key), "tid");
	assert_int_equal(s->label[3]->num, 101);
	s = sample(m, "tiny,work;main;_start", 200);
	assert_int_equal(s->n_label, 5);
	assert_string_equal(string(m, s->label[4]->key), "cgroup");
	assert_string_equal(string(m, s->label[4]->str), "/box\xef\xbf\xbd");
	pprof__profile__free_unpacked(m, NULL);
	profile_deinit(&p);
}

static void head_describes_the_values(void **state)
{
	struct profile p = hand_example();
	Pprof__Profile *m = exported(&p);

	(void)state;
	assert_string_equal(m->string_table[0], "");
	assert_int_equal(m->n_sample_type, 2);
	assert_string_equal(string(m, m->sample_type[0]->type), "samples");
	assert_string_equal(string(m, m->sample_type[0]->unit), "count");
	assert_string_equal(string(m, m->sample_type[1]->type), "cpu");
	assert_string_equal(string(m, m->sample_type[1]->unit), "nanoseconds");
	assert_string_equal(string(m, m->period_type->type), "cpu");
	assert_int_equal(m->period, 70 / 9);
	assert_string_equal(string(m, m->default_sample_type), "cpu");
	assert_int_equal(m->duration_nanos, 4500000000); /* ten samples, half a second apart */
	pprof__profile__free_unpacked(m, NULL);

	(void)snprintf(p.event_name, sizeof(p.event_name), "cache-misses");
	(void)snprintf(p.weight_unit, sizeof(p.weight_unit), "events");
	hand_stat(&p, "duration_s", 2.5);
	m = exported(&p);
	assert_string_equal(string(m, m->sample_type[1]->type), "cache-misses");
	assert_string_equal(string(m, m->sample_type[1]->unit), "count");
	assert_int_equal(m->duration_nanos, 2500000000);
	pprof__profile__free_unpacked(m, NULL);
	profile_deinit(&p);
}

static void mappings_and_lines(void **state)
{
	struct profile p = hand_example();
	Pprof__Profile *m = exported(&p);
	const Pprof__Location *work;
	const Pprof__Mapping *app;

	(void)state;
	/* The program comes first, whatever the trace began with. */
	assert_string_equal(string(m, m->mapping[0]->filename), "/usr/bin/app");
	work = location(m, sample(m, "tiny,work;main;_start", 200)->location_id[0]);
	assert_int_equal(work->address, 0x30);
	app = mapping(m, work->mapping_id);
	assert_string_equal(string(m, app->filename), "/usr/bin/app");
	assert_string_equal(string(m, app->build_id), "de0d");
	assert_int_equal(app->memory_start, 0);
	assert_int_equal(app->memory_limit, 0x1000);
	assert_true(app->has_functions && app->has_filenames && app->has_line_numbers &&
		    app->has_inline_frames);
	assert_int_equal(work->line[0]->line, 7);
	assert_string_equal(string(m, function(m, work->line[0]->function_id)->filename), "tiny.h");
	assert_int_equal(work->line[1]->line, 42);
	assert_string_equal(string(m, function(m, work->line[1]->function_id)->filename), "app.c");
	app = mapping(
		m, location(m, sample(m, "sys_read;main;_start", 100)->location_id[0])->mapping_id);
	assert_string_equal(string(m, app->filename), "[kernel.kallsyms]");
	app = mapping(m,
		      location(m, sample(m, "[libx.so];[cut]", 100)->location_id[0])->mapping_id);
	assert_string_equal(string(m, app->filename), "/lib/libx.so");
	assert_int_equal(app->memory_limit, 0x2000);
	assert_true(app->has_functions); /* nothing to look it up by */
	pprof__profile__free_unpacked(m, NULL);
	profile_deinit(&p);
}

/* The highest address, a build id of all its room, names that are not UTF-8, weights beyond int64.
 */
static void edges(void **state)
{
	struct profile p = hand_empty();
	uint32_t mod = hand_module(&p, "/a\xff", false);
	uint32_t f = hand_frame(&p, mod, UINT64_MAX, "f\xc3(", NULL);
	Pprof__Profile *m;
	const Pprof__Sample *s;

	(void)state;
	memset(p.modules[mod].build_id, 0xab, 64);
	p.modules[mod].build_id_len = 64;
	hand_sample(&p, UINT32_MAX, UINT32_MAX, HAND_STACK(&p, f), UINT64_MAX);
	m = exported(&p);
	s = m->sample[0];
	assert_string_equal(stack_text(m, s), "f\xef\xbf\xbd(");
	assert_int_equal(s->value[1], INT64_MAX);
	assert_int_equal(s->label[2]->num, UINT32_MAX);
	assert_string_equal(string(m, s->label[0]->str), "pid 4294967295");
	assert_int_equal(m->mapping[0]->memory_limit, UINT64_MAX);
	assert_true(m->mapping[0]->has_functions); /* named here */
	assert_int_equal(strlen(string(m, m->mapping[0]->build_id)), 128);
	assert_string_equal(string(m, m->mapping[0]->filename), "/a\xef\xbf\xbd");
	pprof__profile__free_unpacked(m, NULL);
	profile_deinit(&p);
}

static void unsymbolized_modules_can_be_looked_up_by_build_id(void **state)
{
	struct profile p = hand_empty();
	uint32_t mod = hand_module(&p, "/a", false);
	Pprof__Profile *m;

	(void)state;
	p.modules[mod].build_id[0] = 1;
	p.modules[mod].build_id_len = 1;
	hand_sample(&p, 1, 1, HAND_STACK(&p, hand_frame(&p, mod, 1, NULL, NULL)), 1);
	m = exported(&p);
	assert_false(m->mapping[0]->has_functions);
	pprof__profile__free_unpacked(m, NULL);
	profile_deinit(&p);
}

static void an_empty_profile_is_valid(void **state)
{
	struct profile p = hand_empty();
	Pprof__Profile *m = exported(&p);
	FILE *full = fopen("/dev/full", "we");

	(void)state;
	assert_int_equal(m->n_sample, 0);
	assert_int_equal(m->n_sample_type, 2);
	pprof__profile__free_unpacked(m, NULL);
	if (full) {
		assert_int_equal(export_pprof(&p, NULL, full), -ENOSPC);
		(void)fclose(full);
	}
	profile_deinit(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples_are_grouped),
		cmocka_unit_test(head_describes_the_values),
		cmocka_unit_test(mappings_and_lines),
		cmocka_unit_test(edges),
		cmocka_unit_test(unsymbolized_modules_can_be_looked_up_by_build_id),
		cmocka_unit_test(an_empty_profile_is_valid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
