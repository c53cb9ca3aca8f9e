/* bench-source.c - what a session costs as a data source: own CPU a sample, with the share of each
 * thread.  One process is sampled on all CPUs (scope by pid) or everything is.
 *
 * bench-source PID|all SECONDS HZ: a line of JSON. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "perf/probe.h"
#include "session/session.h"

struct bench {
	struct loop loop;
	struct session *session;
	uint32_t pid;
	bool done;
	struct loop_timer end;
};

static void done(void *arg)
{
	((struct bench *)arg)->done = true;
}

static bool wanted(void *arg, uint32_t pid, const char *cmdline, size_t len)
{
	(void)cmdline;
	(void)len;
	return pid == ((const struct bench *)arg)->pid;
}

static int ended(struct loop_timer *timer)
{
	session_stop(container_of(timer, struct bench, end)->session);
	return 0;
}

/* A sink that keeps nothing: what is measured is the session. */
static int take_all(struct sink *sink, const void *data, size_t len)
{
	(void)data;
	sink->bytes += len;
	return 0;
}

static int no_flush(struct sink *sink)
{
	(void)sink;
	return 0;
}

static double cpu_s(struct rusage *ret)
{
	(void)getrusage(RUSAGE_SELF, ret);
	return (double)(ret->ru_utime.tv_sec + ret->ru_stime.tv_sec) +
	       (double)(ret->ru_utime.tv_usec + ret->ru_stime.tv_usec) / 1e6;
}

static void print(struct bench *b, double start, double running, double stopped)
{
	struct session_summary s;
	struct rusage ru;
	double all = cpu_s(&ru);

	(void)session_summary(b->session, &s);
	printf("{\"samples\": %lu, \"skipped\": %lu, \"lost\": %lu, \"whole\": %lu, "
	       "\"us_per_sample\": %.2f, \"run_us_per_sample\": %.2f, \"start_ms\": %.1f, "
	       "\"stop_ms\": %.1f, \"bytes_per_sample\": %.1f, \"switches\": %ld, \"faults\": %ld, "
	       "\"rss_mb\": %ld}\n",
	       s.account.emitted, account_skipped(&s.account), s.counts.lost_samples,
	       s.account.whole, all * 1e6 / (double)s.account.emitted,
	       (stopped - running) * 1e6 / (double)s.account.emitted, (running - start) * 1e3,
	       (all - stopped) * 1e3, (double)s.bytes / (double)s.account.emitted, ru.ru_nvcsw,
	       ru.ru_minflt, ru.ru_maxrss >> 10);
}

static int run(struct bench *b, uint32_t seconds)
{
	struct rusage ru;
	double start = cpu_s(&ru), running, stopped = 0;
	int r = session_start(b->session);

	running = cpu_s(&ru);
	if (r >= 0)
		r = loop_timer_add(&b->loop, &b->end, seconds * NSEC_PER_SEC, 0, ended);
	while (r >= 0 && !b->done) {
		r = loop_run_once(&b->loop, -1);
		if (!stopped && session_state(b->session) != SESSION_RUNNING)
			stopped = cpu_s(&ru);
	}
	print(b, start, running, stopped);
	return r;
}

int main(int argc, char **argv)
{
	struct bench b = {0};
	struct perf_spec spec;
	struct sink sink = {.write = take_all, .flush = no_flush};
	struct session_options options = {
		.machine = true,
		.specs = &spec,
		.n_specs = 1,
		.clock = CLOCK_MONOTONIC_RAW,
		.frames = FRAMES_ALL,
		.code = FRAMES_ALL,
		.engine = UW_ENGINE_NATIVE,
		.proc_root = "",
		.producer = true,
		.wanted_arg = &b,
		.done = done,
		.done_arg = &b,
	};
	uint64_t pid = 0, seconds, hz;
	char error[512];
	int r;

	if (argc != 4 || parse_u64(argv[2], 10, 3600, &seconds) < 0 ||
	    parse_u64(argv[3], 10, 100000, &hz) < 0 ||
	    (strcmp(argv[1], "all") && parse_u64(argv[1], 10, 1 << 22, &pid) < 0)) {
		fprintf(stderr, "usage: bench-source PID|all SECONDS HZ\n");
		return 2;
	}
	b.pid = (uint32_t)pid;
	options.wanted = pid ? wanted : NULL;
	options.frequency = hz;
	(void)perf_spec_of_counter(1, &spec);
	r = probe_features(&options.features, error, sizeof(error));
	if (r >= 0)
		r = loop_init(&b.loop);
	if (r >= 0)
		r = session_new(&options, &sink, &b.loop, &b.session, error, sizeof(error));
	if (r < 0) {
		fprintf(stderr, "bench-source: %s\n", error);
		return 1;
	}
	r = run(&b, (uint32_t)seconds);
	(void)session_free(b.session);
	return r < 0;
}
