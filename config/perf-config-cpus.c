/* perf-config-cpus.c - the CPUs of a config: those asked for by number and by kind that are online.
 * See perf-config.h. */
#include <errno.h>
#include <string.h>

#include "config/perf-config-private.h"

enum { CPUINFO_MAX = 16 << 20, CPUID_SIZE = 64 };

/* The identity of an ARM core as configs write it: implementer, part, variant, revision in hex, end
 * to end. Keys of /proc/cpuinfo: arch/arm64/kernel/cpuinfo.c. */
static const char *const cpuid_keys[] = {"CPU implementer", "CPU part", "CPU variant",
					 "CPU revision"};

struct cpuid {
	bool in_block, has[ARRAY_SIZE(cpuid_keys)];
	uint64_t cpu, parts[ARRAY_SIZE(cpuid_keys)];
};

/* "" where the machine does not tell; the parts that follow one that is missing do not count. */
static void cpuid_text(const struct cpuid *id, char text[static CPUID_SIZE])
{
	size_t len = 0;

	text[0] = 0;
	if (!id->has[0] || !id->has[1])
		return;
	for (size_t i = 0; i < ARRAY_SIZE(cpuid_keys) && id->has[i]; i++)
		len += (size_t)snprintf(text + len, CPUID_SIZE - len, "%llx",
					(unsigned long long)id->parts[i]);
}

/* One line "KEY : VALUE" of /proc/cpuinfo. */
static void cpuid_line(struct cpuid *id, char *line)
{
	char *colon = strchr(line, ':'), *value;
	size_t key_len;

	if (!colon)
		return;
	key_len = (size_t)(colon - line);
	while (key_len && (line[key_len - 1] == ' ' || line[key_len - 1] == '\t'))
		key_len--;
	line[key_len] = 0;
	value = colon + 1 + strspn(colon + 1, " \t");
	if (!strcmp(line, "processor")) {
		*id = (struct cpuid){0};
		id->in_block = parse_u64(value, 10, UINT32_MAX, &id->cpu) == 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(cpuid_keys); i++)
		if (!strcmp(line, cpuid_keys[i]))
			id->has[i] = parse_u64(value, 0, UINT32_MAX, &id->parts[i]) == 0;
}

static bool cpuid_wanted(const Pb__PerfEventConfig *m, const struct cpuid *id)
{
	char text[CPUID_SIZE];

	cpuid_text(id, text);
	for (size_t i = 0; *text && i < m->n_cpuid; i++)
		if (!strncmp(text, m->cpuid[i], strlen(m->cpuid[i])))
			return true;
	return false;
}

/* Leaves in @cpus those whose identity begins with one of message->cpuid. */
static int keep_by_cpuid(struct perf_config_job *job, uint32_t *cpus, size_t *n)
{
	_cleanup_(freep) char *text = NULL;
	_cleanup_(freep) bool *keep = calloc(*n, sizeof(*keep));
	char path[4096], *at, *next;
	struct cpuid id = {0};
	size_t kept = 0;
	int r;

	(void)snprintf(path, sizeof(path), "%s/proc/cpuinfo", job->env->root);
	r = keep ? read_file(path, CPUINFO_MAX, &text, NULL) : fail(-ENOMEM);
	if (r < 0)
		return perf_config_refuse(job, r, "cpuid", "%s: %s", path, strerror(-r));
	for (at = text; at; at = next) {
		next = strchr(at, '\n');
		if (next)
			*next++ = 0;
		cpuid_line(&id, at);
		/* what was told of it so far; the last word counts */
		for (size_t i = 0; id.in_block && i < *n; i++)
			if (cpus[i] == id.cpu)
				keep[i] = cpuid_wanted(job->config->message, &id);
	}
	for (size_t i = 0; i < *n; i++)
		if (keep[i])
			cpus[kept++] = cpus[i];
	*n = kept;
	return 0;
}

static void keep_targets(const Pb__PerfEventConfig *m, uint32_t *cpus, size_t *n)
{
	size_t kept = 0;

	for (size_t i = 0; i < *n; i++)
		for (size_t j = 0; j < m->n_target_cpu; j++)
			if (cpus[i] == m->target_cpu[j]) {
				cpus[kept++] = cpus[i];
				break;
			}
	*n = kept;
}

int perf_config_cpus(struct perf_config_job *job)
{
	struct perf_config *c = job->config;
	const Pb__PerfEventConfig *m = c->message;
	size_t n, n_online;
	int r = perf_online_cpus(&c->cpus, &n);

	if (r < 0)
		return trace(r);
	n_online = n;
	if (m->n_target_cpu)
		keep_targets(m, c->cpus, &n);
	if (!n)
		return perf_config_refuse(job, -ENODEV, "target_cpu",
					  "none of these CPUs is online (%zu are)", n_online);
	if (m->n_cpuid) {
		r = keep_by_cpuid(job, c->cpus, &n);
		if (r < 0)
			return trace(r);
	}
	if (!n)
		return perf_config_refuse(job, -ENODEV, "cpuid",
					  "no CPU of this machine has such an identity (they are "
					  "known on ARM only)");
	c->options.cpus = c->cpus;
	c->options.n_cpus = n;
	return 0;
}
