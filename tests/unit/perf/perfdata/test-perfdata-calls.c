/* test-perfdata-calls.c - each allocation and system call with which a file of perf is read and made, and a pair of tracepoints is
 * made, fails once. */
#include <inttypes.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include "tests/unit/fail-calls.h"

#include "perf/pair.h"
#include "perf/perfdata/perfdata-out.h"
#include "perf/perfdata/perfdata.h"

static int make_out(void *arg)
{
	int fd = memfd_create("test",
			      MFD_CLOEXEC); /* of this test: where it fails nothing was consumed */

	return fd < 0 ? -errno : perfdata_out_new(fd, arg);
}
static void end_out(void *arg)
{
	(void)perfdata_out_free(*(struct perfdata_out **)arg);
}

struct pairs {
	struct pair_options options;
	struct pair *pair;
};
static int make_pair(void *arg)
{
	struct pairs *made = arg;
	char error[512] = "";
	int r = pair_new(&made->options, &made->pair, error, sizeof(error));

	if (r < 0 && !error[0])
		fail_msg("call %lu: %d without a line", calls_fail_at, r);
	return r;
}
static void end_pair(void *arg)
{
	(void)pair_free(((struct pairs *)arg)->pair);
}

/* Records and mappings of a file; the same number each time. */
struct inputs {
	int fd;
	struct perfdata_limits limits;
	uint64_t records, mappings; /* 0: not known yet */
	struct perfdata *perfdata;
};
static void count_mapping(void *arg, const struct record_event *mapping)
{
	(void)mapping;
	++*(uint64_t *)arg;
}
static int make_input(void *arg)
{
	struct inputs *made = arg;
	struct perfdata_item item;
	char error[512] = "";
	uint64_t n = 0, mappings = 0;
	int r;

	assert_int_equal(lseek(made->fd, 0, SEEK_SET), 0);
	r = perfdata_new(made->fd, &made->limits, &made->perfdata, error, sizeof(error));
	if (r < 0 && !error[0])
		fail_msg("call %lu: %d without a line", calls_fail_at, r);
	if (r < 0)
		return r;
	while ((r = perfdata_next(made->perfdata, &item)) == 0) {
		perfdata_put(made->perfdata, item.block);
		n++;
	}
	if (r >= 0)
		r = perfdata_scan(made->perfdata, count_mapping, &mappings);
	if (r >= 0 && made->records && (n != made->records || mappings != made->mappings))
		fail_msg("call %lu: %" PRIu64 " records of %" PRIu64 ", %" PRIu64
			 " mappings of %" PRIu64 "; damage: %s",
			 calls_fail_at, n, made->records, mappings, made->mappings,
			 perfdata_counts(made->perfdata)->damage);
	if (r < 0) {
		made->perfdata = perfdata_free(made->perfdata);
		return r;
	}
	made->records = n;
	made->mappings = mappings;
	return 0;
}
static void end_input(void *arg)
{
	(void)perfdata_free(((struct inputs *)arg)->perfdata);
}

/* Files that the fuzzer begins with (tests/fuzz/corpus/perfdata), also read ahead by a thread. */
static void test_inputs(void **state)
{
	static const char *const files[] = {"file-dwarf", "file-copies", "pipe", "packed"};

	(void)state;
	for (size_t i = 0; i < 2 * ARRAY_SIZE(files); i++) {
		struct inputs inputs = {.limits = {.ahead = i % 2 ? 1 : 0, .piece = 4096}};
		char path[128], name[64];

		(void)snprintf(path, sizeof(path), "tests/fuzz/corpus/perfdata/%s", files[i / 2]);
		(void)snprintf(name, sizeof(name), "%s%s", files[i / 2], i % 2 ? " ahead" : "");
		inputs.fd = open(path, O_RDONLY | O_CLOEXEC);
		assert_true(inputs.fd >= 0);
		calls_sweep(&(struct calls_made){name, make_input, end_input, &inputs});
		(void)close(inputs.fd);
	}
}

static void test_out(void **state)
{
	struct perfdata_out *out;
	const struct calls_made of = {"file of perf", make_out, end_out, &out};

	(void)state;
	calls_sweep(&of);
}

static void test_pair(void **state)
{
	static const uint32_t cpu;
	struct pairs pairs = {.options = {.root = "",
					  .from = {"sched:sched_waking", "pid"},
					  .to = {"sched:sched_switch", "next_pid"},
					  .cpus = &cpu,
					  .n_cpus = 1}};
	const struct calls_made of = {"pair", make_pair, end_pair, &pairs};

	(void)state;
	if (make_pair(&pairs) < 0)
		skip(); /* no tracepoints here, or for this user */
	end_pair(&pairs);
	calls_sweep(&of);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_inputs),
					   cmocka_unit_test(test_out), cmocka_unit_test(test_pair)};

	/* A tracefs of its own, whatever the machine has mounted. */
	if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("nodev", "/sys/kernel/tracing", "tracefs", 0, NULL) != 0)
		print_message("no tracefs of its own: %s\n", strerror(errno));
	return cmocka_run_group_tests_name("perfdata-calls", tests, NULL, NULL);
}
