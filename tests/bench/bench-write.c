/* bench-write.c TRACE [REPEATS] - what writing costs: the samples of a trace go through the writer
 * again. Prints bytes and nanoseconds a sample, plain and compressed, and how many stacks were new.
 * With REPEATS the whole is written that often in a row by one warm writer; the first round is what
 * a recording of that length costs. */
#include <inttypes.h>
#include <time.h>

#include "trace/writer.h"
#include "profile/profile.h"

struct null_sink {
	struct sink sink;
};

static int null_write(struct sink *sink, const void *data, size_t len)
{
	(void)data;
	sink->bytes += len;
	return 0;
}

static int null_flush(struct sink *sink)
{
	(void)sink;
	return 0;
}

static void null_free(struct sink *sink)
{
	free(container_of(sink, struct null_sink, sink));
}

struct run {
	struct writer *writer;
	const struct profile *p;
	uint32_t *mappings, *frames, *ids;
	uint64_t count;
};

static void make_frames(struct run *run)
{
	const struct profile *p = run->p;

	for (size_t i = 0; i < p->n_modules; i++)
		if (writer_mapping(run->writer, string_table_text(&p->strings, p->modules[i].path),
				   p->modules[i].build_id, p->modules[i].build_id_len,
				   p->modules[i].load_bias, 0, &run->mappings[i]) < 0)
			abort();
}

static void make_frame(struct run *run, uint32_t index)
{
	const struct profile *p = run->p;
	const struct profile_frame *f = &p->frames[index];
	uint32_t function = p->lines[f->first_line].function;
	uint32_t mapping =
		f->module == UINT32_MAX ? WRITER_KERNEL_MAPPING : run->mappings[f->module];

	if (writer_frame(run->writer, mapping, f->rel_pc,
			 function ? string_table_text(&p->strings, function) : NULL,
			 &run->frames[index]) < 0)
		abort();
}

/* One round over all samples with a stack; seconds spent in the writer. */
static double round_of(struct run *run, uint64_t *ret_samples)
{
	const struct profile *p = run->p;
	uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	*ret_samples = 0;
	for (size_t i = 0; i < p->n_samples; i++) {
		const struct profile_sample *s = &p->samples[i];
		struct writer_sample sample = {.time = s->time,
					       .cpu = s->cpu,
					       .pid = profile_sample_pid(p, s),
					       .tid = profile_sample_tid(p, s),
					       .cpu_mode = s->cpu_mode};
		uint32_t n = 0;

		if (s->stack == UINT32_MAX)
			continue;
		for (uint32_t at = s->stack; at != UINT32_MAX; at = p->nodes[at].up) {
			uint32_t index = p->nodes[at].frame;

			if (!run->frames[index])
				make_frame(run, index);
			run->ids[n++] = run->frames[index];
		}
		run->count += s->weight;
		sample.count = run->count;
		if (writer_callstack(run->writer, run->ids, n, &sample.callstack) < 0 ||
		    writer_sample(run->writer, &sample) < 0)
			abort();
		++*ret_samples;
	}
	return (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - start) / 1e9;
}

static void bench(const struct profile *p, bool compress, unsigned repeats)
{
	const struct writer_options options = {.leader = {.counter = 1},
					       .frequency = 999,
					       .clock = CLOCK_BOOTTIME,
					       .sequence_id = 2,
					       .tool = "bench"};
	struct null_sink *null = calloc(1, sizeof(*null));
	struct run run = {.p = p};
	struct sink *sink = &null->sink;

	null->sink = (struct sink){.write = null_write, .flush = null_flush, .free = null_free};
	if (compress && sink_deflate_new(sink, &sink) < 0)
		abort();
	if (writer_new(&options, sink, &run.writer) < 0 || writer_start(run.writer) < 0)
		abort();
	run.mappings = calloc(p->n_modules + 1, sizeof(uint32_t));
	run.frames = calloc(p->n_frames + 1, sizeof(uint32_t));
	run.ids = calloc(p->n_nodes + 1, sizeof(uint32_t));
	make_frames(&run);
	for (unsigned i = 0; i < repeats; i++) {
		uint64_t samples, before = sink->bytes;
		double s = round_of(&run, &samples);

		(void)sink->flush(sink);
		printf("%-10s round %u: %8.0f ns a sample, %6.1f bytes a sample\n",
		       compress ? "compressed" : "plain", i + 1, s * 1e9 / (double)samples,
		       (double)(sink->bytes - before) / (double)samples);
	}
	writer_free(run.writer);
	sink_free(sink);
	free(run.mappings);
	free(run.frames);
	free(run.ids);
}

int main(int argc, char **argv)
{
	unsigned repeats = argc > 2 ? (unsigned)atol(argv[2]) : 2;
	struct profile p;
	char error[256];
	uint64_t with_stack = 0, frames = 0;

	if (argc < 2 || profile_read(argv[1], &p, error, sizeof(error)) < 0) {
		fprintf(stderr, "usage: bench-write TRACE [REPEATS]\n%s\n", argc < 2 ? "" : error);
		return 1;
	}
	for (size_t i = 0; i < p.n_samples; i++)
		if (p.samples[i].stack != UINT32_MAX) {
			with_stack++;
			frames += profile_stack_depth(&p, p.samples[i].stack);
		}
	printf("%" PRIu64
	       " samples with a stack of %.1f frames; %zu different calls in them, %zu frames\n",
	       with_stack, (double)frames / (double)with_stack, p.n_nodes, p.n_frames);
	bench(&p, false, repeats);
	bench(&p, true, repeats);
	profile_deinit(&p);
	return 0;
}
