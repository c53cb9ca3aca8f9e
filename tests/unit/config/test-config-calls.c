/* test-config-calls.c - each allocation and system call with which a binary config and the options of its data source are made fails
 * once: an error with a line.  Events are looked up below a root of the test.  (Text: test-config-nomem.c.) */
#include <errno.h>
#include <string.h>

#include "config/config.h"
#include "config/perf-config.h"
#include "tests/unit/fake-root.h"
#include "tests/unit/fail-calls.h"

static const char text[] =
	"buffers { size_kb: 4 } data_sources { config { name: 'linux.perf' perf_event_config { "
	"timebase { period: 1 tracepoint { name: 'sched:sched_switch' filter: 'prev_pid > 1' } } "
	"followers { raw_event { pmu_name: 'a_pmu' config: 1 } } cpuid: '41' "
	"callstack_sampling { scope { target_cmdline: 'a' process_shard_count: 2 } } } } }";

static struct config *in_text;

struct configs {
	struct config *config;
	struct perf_config *perf;
};

static int make_config(void *arg)
{
	const struct perf_config_env env = {.root = root};
	const struct buffer *wire = &in_text->wire;
	struct configs *made = arg;
	const Pb__DataSourceConfig *ds;
	char error[CONFIG_ERROR_SIZE] = "";
	int r = config_read("f", wire->data, wire->len, CONFIG_BINARY, &made->config, error,
			    sizeof(error));

	if (r >= 0) {
		ds = made->config->message->data_sources[0]->config;
		r = perf_config_new(&env, ds->perf_event_config, &made->perf, error, sizeof(error));
		if (r < 0)
			made->config = config_free(made->config);
	}
	if (r < 0 && !error[0])
		fail_msg("call %lu: %d without a line", calls_fail_at, r);
	return r;
}
static void end_config(void *arg)
{
	const struct configs *made = arg;
	const struct session_options *o = &made->perf->options;

	assert_true(o->n_specs == 2 && o->specs[0].config == 372 && o->specs[1].type == 8);
	assert_string_equal(o->specs[0].filter, "prev_pid > 1");
	assert_true(o->n_cpus == 1 && o->shard_count == 2 && o->wanted);
	(void)perf_config_free(made->perf);
	(void)config_free(made->config);
}

static void test_all(void **state)
{
	char error[CONFIG_ERROR_SIZE];
	struct configs made;

	(void)state;
	put("/sys/kernel/tracing/events/sched/sched_switch/id", "372\n");
	put("/sys/bus/event_source/devices/a_pmu/type", "8\n");
	put("/proc/cpuinfo", "processor : 0\nCPU implementer : 0x41\nCPU part : 0xd0c\n");
	if (config_read("f", text, strlen(text), CONFIG_TEXT, &in_text, error, sizeof(error)) < 0)
		fail_msg("%s", error);
	calls_sweep(&(struct calls_made){"config", make_config, end_config, &made});
	(void)config_free(in_text);
}

static int remove_root(void **state)
{
	(void)state;
	return fake_root_remove();
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};

	fake_root_make();
	return cmocka_run_group_tests_name("config-calls", tests, NULL, remove_root);
}
