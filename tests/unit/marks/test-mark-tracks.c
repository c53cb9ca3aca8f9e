/* test-mark-tracks.c - marks as packets, decoded by protobuf-c; and programs that write what no reader can use: the slices of
 * each track stay nested and closed (the oracle counts them as trace_processor does). */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "marks/mark-text.h"
#include "marks/mark-tracks.h"
#include "protos/trace.pb-c.h"
#include "tests/unit/cmocka.h"

struct fixture {
	struct sink *sink;
	struct writer *writer;
	struct mark_tracks *tracks;
	Pb__Trace *trace;
	uint64_t now;
};

static struct fixture fixture_new(void)
{
	const struct writer_options options = {
		.leader = {.counter = 1}, .period = 1, .clock = CLOCK_MONOTONIC, .sequence_id = 2};
	struct fixture f = {.now = 1000};

	assert_int_equal(sink_memory_new(&f.sink), 0);
	assert_int_equal(writer_new(&options, f.sink, &f.writer), 0);
	assert_int_equal(writer_start(f.writer), 0);
	assert_int_equal(mark_tracks_new(f.writer, &f.tracks), 0);
	sink_memory_clear(f.sink);
	return f;
}

static void fixture_free(struct fixture *f)
{
	if (f->trace)
		pb__trace__free_unpacked(f->trace, NULL);
	mark_tracks_free(f->tracks);
	writer_free(f->writer);
	sink_free(f->sink);
}

static const Pb__Trace *decode(struct fixture *f)
{
	size_t len;
	const void *data = sink_memory_data(f->sink, &len);

	if (f->trace)
		pb__trace__free_unpacked(f->trace, NULL);
	f->trace = pb__trace__unpack(NULL, len, data);
	assert_non_null(f->trace);
	sink_memory_clear(f->sink);
	return f->trace;
}

static void write_mark(struct fixture *f, int32_t pid, int32_t tid, const char *text)
{
	struct mark m;

	assert_true(mark_text_parse(text, strlen(text), &m) <= MARK_TEXT_OTHER);
	m.pid = pid;
	m.tid = tid;
	m.time_ns = f->now++;
	assert_int_equal(mark_tracks_add(f->tracks, &m), 0);
}

static const Pb__TrackEvent *event_of(const Pb__Trace *t, size_t i, int type, uint64_t time)
{
	assert_true(i < t->n_packet);
	assert_non_null(t->packet[i]->track_event);
	assert_int_equal(t->packet[i]->track_event->type, type);
	assert_int_equal(t->packet[i]->timestamp, time);
	return t->packet[i]->track_event;
}

static void test_thread(void **state)
{
	struct fixture f = fixture_new();
	const Pb__Trace *t;
	uint64_t track;

	(void)state;
	write_mark(&f, 7, 8, "B|7|outer");
	write_mark(&f, 7, 8, "B|7|inner");
	write_mark(&f, 7, 8, "I|7|now");
	write_mark(&f, 7, 8, "E|7");
	write_mark(&f, 7, 8, "E");
	t = decode(&f);
	assert_int_equal(t->n_packet, 6);
	assert_int_equal(t->packet[0]->track_descriptor->thread->pid, 7);
	assert_int_equal(t->packet[0]->track_descriptor->thread->tid, 8);
	track = t->packet[0]->track_descriptor->uuid;
	assert_string_equal(event_of(t, 1, 1, 1000)->name, "outer");
	assert_string_equal(event_of(t, 2, 1, 1001)->name, "inner");
	assert_string_equal(event_of(t, 3, 3, 1002)->name, "now");
	for (size_t i = 1; i < 6; i++)
		assert_int_equal(t->packet[i]->track_event->track_uuid, track);
	(void)event_of(t, 4, 2, 1003);
	(void)event_of(t, 5, 2, 1004);
	assert_int_equal(mark_tracks_finish(f.tracks, 5000), 0);
	assert_int_equal(decode(&f)->n_packet, 0);
	assert_int_equal(mark_tracks_counts(f.tracks)->marks, 5);
	assert_int_equal(mark_tracks_counts(f.tracks)->begin_alone, 0);
	fixture_free(&f);
}

static void test_process(void **state)
{
	struct fixture f = fixture_new();
	const Pb__Trace *t;

	(void)state;
	write_mark(&f, 7, 8, "C|7|queue|-5");
	t = decode(&f);
	assert_int_equal(t->n_packet, 3);
	assert_int_equal(t->packet[0]->track_descriptor->process->pid, 7);
	assert_int_equal(t->packet[1]->track_descriptor->parent_uuid,
			 t->packet[0]->track_descriptor->uuid);
	assert_string_equal(t->packet[1]->track_descriptor->name, "queue");
	assert_non_null(t->packet[1]->track_descriptor->counter);
	assert_int_equal(event_of(t, 2, 4, 1000)->counter_value, -5);
	assert_int_equal(t->packet[2]->track_event->track_uuid,
			 t->packet[1]->track_descriptor->uuid);

	/* two that overlap, on tracks of one name; the third takes the place of the first */
	write_mark(&f, 7, 8, "S|7|load|1");
	write_mark(&f, 7, 9, "S|7|load|2");
	write_mark(&f, 7, 9, "F|7|load|1");
	write_mark(&f, 7, 8, "S|7|load|3");
	t = decode(&f);
	assert_int_equal(t->n_packet, 6); /* two descriptors */
	assert_string_equal(t->packet[0]->track_descriptor->name, "load");
	assert_null(t->packet[0]->track_descriptor->counter);
	assert_true(t->packet[0]->track_descriptor->uuid != t->packet[2]->track_descriptor->uuid);
	assert_int_equal(event_of(t, 4, 2, 1003)->track_uuid, t->packet[0]->track_descriptor->uuid);
	assert_int_equal(event_of(t, 5, 1, 1004)->track_uuid, t->packet[0]->track_descriptor->uuid);

	write_mark(&f, 7, 8, "G|7|frames|first|1");
	write_mark(&f, 7, 8, "N|7|frames|janky");
	write_mark(&f, 7, 8, "H|7|frames|1");
	t = decode(&f);
	assert_int_equal(t->n_packet, 4);
	assert_string_equal(t->packet[0]->track_descriptor->name, "frames");
	assert_string_equal(event_of(t, 1, 1, 1005)->name, "first");
	assert_string_equal(event_of(t, 2, 3, 1006)->name, "janky");
	(void)event_of(t, 3, 2, 1007);

	assert_int_equal(mark_tracks_exit(f.tracks, 7, 7, true, 6000), 0);
	assert_int_equal(decode(&f)->n_packet, 2); /* load 2 and load 3 */
	assert_int_equal(mark_tracks_counts(f.tracks)->begin_alone, 2);
	fixture_free(&f);
}

static void test_damaged(void **state)
{
	struct fixture f = fixture_new();
	const struct mark_counts *c = mark_tracks_counts(f.tracks);
	const Pb__Trace *t;

	(void)state;
	write_mark(&f, 7, 8, "E|7"); /* of nothing */
	write_mark(&f, 7, 8, "F|7|x|1");
	write_mark(&f, 7, 8, "H|7|x|1");
	assert_int_equal(decode(&f)->n_packet, 0);
	assert_int_equal(c->end_alone, 3);

	/* another process is named: the writer's track all the same */
	write_mark(&f, 7, 8, "B|1|forged");
	t = decode(&f);
	assert_int_equal(t->packet[0]->track_descriptor->thread->tid, 8);
	assert_int_equal(c->other_pid, 1);
	write_mark(&f, 9, 9, "E|7"); /* ... and cannot be ended from elsewhere */
	assert_int_equal(c->end_alone, 4);

	/* without an end */
	assert_int_equal(mark_tracks_exit(f.tracks, 7, 8, false, 3000), 0);
	t = decode(&f);
	assert_int_equal(t->n_packet, 1);
	assert_int_equal(event_of(t, 0, 2, 3000)->n_debug_annotations, 1);
	assert_int_equal(c->begin_alone, 1);

	/* names of any bytes */
	write_mark(&f, 7, 8,
		   "I|7|a\tb\x7f"
		   "c\x01");
	t = decode(&f);
	assert_string_equal(event_of(t, 0, 3, f.now - 1)->name, "a b c ");
	write_mark(&f, 7, 8, "I|7|");
	assert_string_equal(event_of(decode(&f), 0, 3, f.now - 1)->name, "[unnamed]");
	fixture_free(&f);
}

/* Noise of three threads of two processes: for each track what is open never is below 0, and ends at 0. */
static void check_nested(const Pb__Trace *t)
{
	struct {
		uint64_t uuid;
		int depth;
	} tracks[4096] = {0};

	for (size_t i = 0; i < t->n_packet; i++) {
		const Pb__TrackEvent *e = t->packet[i]->track_event;
		size_t k = 0;

		if (!e || (e->type != 1 && e->type != 2))
			continue;
		while (tracks[k].uuid && tracks[k].uuid != e->track_uuid)
			assert_true(++k < 4096);
		tracks[k].uuid = e->track_uuid;
		tracks[k].depth += e->type == 1 ? 1 : -1;
		assert_true(tracks[k].depth >= 0 && tracks[k].depth <= MARK_DEPTH_MAX);
	}
	for (size_t k = 0; k < 4096; k++)
		assert_int_equal(tracks[k].depth, 0);
}

static void test_noise(void **state)
{
	static const char *const texts[] = {"B|7|a",	  "E|7",      "S|7|s|%u", "F|7|s|%u",
					    "G|7|t|n|%u", "H|7|t|%u", "I|7|i",	  "C|7|c|%u"};
	struct fixture f = fixture_new();

	(void)state;
	for (uint64_t i = 0; i < 20000; i++) {
		uint64_t random = hash_u64(i);
		char text[64];
		int32_t thread = (int32_t)(random >> 8 & 3);

		(void)snprintf(text, sizeof(text), texts[random & 7],
			       (unsigned)(random >> 16 & 511));
		/* the last 500 only begin: over the depth */
		write_mark(&f, 10 + thread / 2, 10 + thread, i > 19500 ? "B|7|deep" : text);
	}
	assert_true(mark_tracks_counts(f.tracks)->too_many > 0);
	assert_true(mark_tracks_counts(f.tracks)->end_alone > 0);
	assert_int_equal(mark_tracks_finish(f.tracks, f.now), 0);
	check_nested(decode(&f));
	assert_int_equal(mark_tracks_finish(f.tracks, f.now), 0);
	assert_int_equal(decode(&f)->n_packet, 0);
	fixture_free(&f);
}

/* One process cannot take all open slices with cookies, nor all threads. */
static void test_bounds(void **state)
{
	struct fixture f = fixture_new();
	const struct mark_counts *c = mark_tracks_counts(f.tracks);
	char text[64];

	(void)state;
	for (unsigned i = 0; i < MARK_ASYNC_MAX; i++) {
		(void)snprintf(text, sizeof(text), "S|7|s%u|1", i);
		write_mark(&f, 7, 8, text);
	}
	assert_int_equal(c->too_many, MARK_ASYNC_MAX - MARK_ASYNC_MAX / 4);
	write_mark(&f, 9, 9, "S|9|other|1");
	assert_int_equal(c->too_many, MARK_ASYNC_MAX - MARK_ASYNC_MAX / 4);
	for (int32_t i = 1; i <= MARK_TRACKS_MAX + 3; i++)
		write_mark(&f, 7, i, "B|7|x");
	assert_int_equal(c->too_many, MARK_ASYNC_MAX - MARK_ASYNC_MAX / 4 + 3);
	assert_int_equal(mark_tracks_exit(f.tracks, 7, 5, false, f.now), 0);
	write_mark(&f, 7, MARK_TRACKS_MAX + 9, "B|7|x"); /* the free place */
	assert_int_equal(c->too_many, MARK_ASYNC_MAX - MARK_ASYNC_MAX / 4 + 3);
	fixture_free(&f);
}

static void test_functions(void **state)
{
	struct fixture f = fixture_new();
	struct mark m = {.kind = MARK_BEGIN, .pid = 7, .tid = 7, .time_ns = 5, .address = 0x401000};
	const Pb__Trace *t;

	(void)state;
	assert_int_equal(mark_tracks_add(f.tracks, &m), 0);
	m.kind = MARK_END;
	m.left = true;
	assert_int_equal(mark_tracks_add(f.tracks, &m), 0);
	t = decode(&f);
	assert_string_equal(event_of(t, 1, 1, 5)->name, "0x401000");
	assert_string_equal(event_of(t, 2, 2, 5)->debug_annotations[0]->string_value,
			    "by an exception or longjmp");
	assert_int_equal(mark_tracks_counts(f.tracks)->left, 1);
	fixture_free(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_thread),	cmocka_unit_test(test_process),
		cmocka_unit_test(test_damaged), cmocka_unit_test(test_noise),
		cmocka_unit_test(test_bounds),	cmocka_unit_test(test_functions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
