/* spec-names.c - see spec-names.h.
 * Cache events are made of three words, "L1-dcache" + "load" + "misses": config is cache | op << 8
 * | result << 16. Letters' case is ignored: LLC-loads, llc-loads. */
#include <string.h>
#include <strings.h>

#include "perf/spec-names.h"

/* Names of one event stand together, the usual one first.  counter: PerfEvents.Counter of
 * perf_events.proto. */
static const struct name {
	const char *name;
	uint32_t type;
	uint32_t config;
	int32_t counter;
} names[] = {
	{"cpu-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, 10},
	{"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, 10},
	{"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, 11},
	{"cache-references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES, 12},
	{"cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES, 13},
	{"branch-instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS, 14},
	{"branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS, 14},
	{"branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES, 15},
	{"bus-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BUS_CYCLES, 16},
	{"stalled-cycles-frontend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND, 17},
	{"idle-cycles-frontend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND, 17},
	{"stalled-cycles-backend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND, 18},
	{"idle-cycles-backend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND, 18},
	{"ref-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_REF_CPU_CYCLES, 19},
	{"cpu-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, 1},
	{"page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, 2},
	{"faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, 2},
	{"task-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, 3},
	{"context-switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, 4},
	{"cs", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, 4},
	{"cpu-migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, 5},
	{"migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, 5},
	{"minor-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN, 6},
	{"major-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ, 7},
	{"alignment-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_ALIGNMENT_FAULTS, 8},
	{"emulation-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_EMULATION_FAULTS, 9},
	{"dummy", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY, 20},
	{"bpf-output", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_BPF_OUTPUT, -1},
	{"cgroup-switches", PERF_TYPE_SOFTWARE, 11 /* PERF_COUNT_SW_CGROUP_SWITCHES, 5.13 */, -1},
};

static const struct word {
	const char *word;
	uint32_t value;
} caches[] =
	{
		{"L1-dcache", PERF_COUNT_HW_CACHE_L1D}, {"L1-icache", PERF_COUNT_HW_CACHE_L1I},
		{"LLC", PERF_COUNT_HW_CACHE_LL},	{"dTLB", PERF_COUNT_HW_CACHE_DTLB},
		{"iTLB", PERF_COUNT_HW_CACHE_ITLB},	{"branch", PERF_COUNT_HW_CACHE_BPU},
		{"node", PERF_COUNT_HW_CACHE_NODE},	{"L1d", PERF_COUNT_HW_CACHE_L1D},
		{"L1i", PERF_COUNT_HW_CACHE_L1I},
},
  ops[] = {
	  /* what the second and third word are together */
	  {"loads", PERF_COUNT_HW_CACHE_OP_READ << 8},
	  {"load-misses", PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_MISS << 16},
	  {"stores", PERF_COUNT_HW_CACHE_OP_WRITE << 8},
	  {"store-misses",
	   PERF_COUNT_HW_CACHE_OP_WRITE << 8 | PERF_COUNT_HW_CACHE_RESULT_MISS << 16},
	  {"prefetches", PERF_COUNT_HW_CACHE_OP_PREFETCH << 8},
	  {"prefetch-misses",
	   PERF_COUNT_HW_CACHE_OP_PREFETCH << 8 | PERF_COUNT_HW_CACHE_RESULT_MISS << 16},
};

bool spec_names_is_cycles(const char *name)
{
	return strcasecmp(name, "cycles") == 0 || strcasecmp(name, "cpu-cycles") == 0;
}

static void set_generic(const struct name *name, struct perf_spec *ret_spec)
{
	bool hardware = name->type == PERF_TYPE_HARDWARE;

	ret_spec->type = name->type;
	ret_spec->config = name->config;
	ret_spec->counter = name->counter;
	ret_spec->weight = PERF_WEIGHT_EVENTS;
	ret_spec->precise_ip = 0;
	if (hardware && name->config == PERF_COUNT_HW_CPU_CYCLES) {
		ret_spec->weight = PERF_WEIGHT_CYCLES;
		ret_spec->precise_ip = 3; /* the open goes down from here to what the machine has */
	}
	if (!hardware &&
	    (name->config == PERF_COUNT_SW_CPU_CLOCK || name->config == PERF_COUNT_SW_TASK_CLOCK))
		ret_spec->weight = PERF_WEIGHT_TIME;
}

static bool find_cache(const char *name, uint32_t *ret_config)
{
	for (size_t c = 0; c < ARRAY_SIZE(caches); c++) {
		size_t len = strlen(caches[c].word);

		if (strncasecmp(name, caches[c].word, len) != 0 || name[len] != '-')
			continue;
		for (size_t o = 0; o < ARRAY_SIZE(ops); o++)
			if (strcasecmp(name + len + 1, ops[o].word) == 0) {
				*ret_config = caches[c].value | ops[o].value;
				return true;
			}
	}
	return false;
}

bool spec_names_find(const char *name, struct perf_spec *ret_spec)
{
	uint32_t config;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcasecmp(names[i].name, name) == 0) {
			set_generic(&names[i], ret_spec);
			return true;
		}
	if (!find_cache(name, &config))
		return false;
	ret_spec->type = PERF_TYPE_HW_CACHE;
	ret_spec->config = config;
	ret_spec->counter = -1;
	ret_spec->weight = PERF_WEIGHT_EVENTS;
	ret_spec->precise_ip = 0;
	return true;
}

bool spec_names_find_counter(int32_t counter, struct perf_spec *ret_spec)
{
	if (counter < 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i].counter == counter) {
			set_generic(&names[i], ret_spec);
			(void)snprintf(ret_spec->name, sizeof(ret_spec->name), "%s", names[i].name);
			return true;
		}
	return false;
}

void spec_names_offer(struct nearest *nearest)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		nearest_offer(nearest, names[i].name);
	for (size_t c = 0; c < ARRAY_SIZE(caches); c++)
		for (size_t o = 0; o < ARRAY_SIZE(ops); o++) {
			char text[64];

			(void)snprintf(text, sizeof(text), "%s-%s", caches[c].word, ops[o].word);
			nearest_offer(nearest, text);
		}
}
