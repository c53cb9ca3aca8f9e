/* diagnosis-look.c - see diagnosis.h: what can be found out by trying, else by reading.  Thread: main.
 * Events are opened on ourselves or on the first CPU and closed at once; nothing is left changed.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/error.h"
#include "base/peer.h"
#include "cli/diagnosis.h"
#include "perf/gate.h"
#include "perf/spec.h"
#include "perf/uapi.h"
#include "perf/probe.h"

enum {
	SECCOMP_FILTER = 2,
	STACK_BYTES = 65528,
	RING_WANTED = 16 << 20,	  /* 250 ms of these samples at 999 Hz */
	RINGS_WANTED = 256 << 20, /* of all CPUs, as perf/source.c has it */
};

static int try_event(uint32_t type, uint64_t config, bool kernel, bool machine)
{
	struct perf_event_attr attr = {
		.type = type,
		.size = sizeof(attr),
		.config = config,
		.disabled = 1,
		.exclude_kernel = !kernel,
		.exclude_hv = 1,
	};
	int fd = perf_event_open(&attr, machine ? -1 : 0, machine ? 0 : -1, -1,
				 PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return fd;
	fd_close(fd);
	return 0;
}

/* As a default recording has them, by its own code: what is locked counts for all rings together. */
static void look_at_rings(struct doctor_facts *f)
{
	struct perf_options options = {
		.leader = {.name = "cpu-clock",
			   .type = PERF_TYPE_SOFTWARE,
			   .config = PERF_COUNT_SW_CPU_CLOCK,
			   .weight = PERF_WEIGHT_TIME,
			   .code = FRAMES_USER},
		.frequency = min_u64(999, f->max_rate),
		.stack_bytes = STACK_BYTES,
		.clock = CLOCK_MONOTONIC,
		.tasks = true,
		.features = f->features,
	};
	_cleanup_(freep) uint32_t *cpus = NULL;
	struct perf_source *source = NULL;
	enum perf_gate gate;
	char error[256];

	if (perf_online_cpus(&cpus, &options.n_cpus) < 0)
		return;
	options.cpus = cpus;
	f->ring_wanted = RING_WANTED;
	while (f->ring_wanted * options.n_cpus >= RINGS_WANTED) /* sideband has some */
		f->ring_wanted /= 2;
	if (perf_source_new(&options, &source, &gate, error, sizeof(error)) >= 0 &&
	    perf_source_add_task(source, (pid_t)syscall(SYS_gettid), &gate, error, sizeof(error)) ==
		    0)
		f->ring_bytes = perf_source_options(source)->ring_bytes;
	(void)perf_source_free(source);
}

static void look_at_rights(struct doctor_facts *f)
{
	uint64_t has = gate_capabilities();

	f->root = geteuid() == 0 && !f->user_namespace;
	f->cap_admin = has & CAPS_BIT(CAP_SYS_ADMIN);
	f->cap_perfmon = has & (CAPS_BIT(CAP_PERFMON) | CAPS_BIT(CAP_SYS_ADMIN));
	f->cap_ptrace = has & CAPS_BIT(CAP_SYS_PTRACE);
	f->cap_syslog = has & CAPS_BIT(CAP_SYSLOG);
	f->cap_ipc_lock = has & CAPS_BIT(CAP_IPC_LOCK);
	f->seccomp = prctl(PR_GET_SECCOMP) == SECCOMP_FILTER;
}

/* Any text symbol will do; without the right all addresses read as 0. */
static bool kernel_addresses(void)
{
	char line[256];
	_cleanup_(file_closep) FILE *f = fopen("/proc/kallsyms", "re");

	for (int i = 0; f && i < 64 && fgets(line, sizeof(line), f); i++)
		if (strtoull(line, NULL, 16))
			return true;
	return false;
}

static int tracepoint(void)
{
	const struct perf_spec_env env = {.root = ""};
	struct perf_spec spec;
	char error[256];
	int r = perf_spec_of_tracepoint(&env, "sched:sched_switch", &spec, error, sizeof(error));

	if (r < 0)
		return r;
	r = try_event(spec.type, spec.config, true, false);
	perf_spec_deinit(&spec);
	return r;
}

static bool listens(const char *path, bool *ret_outside)
{
	_cleanup_(fd_closep) int fd = -1;
	struct ucred listener = {0};
	bool listens = unix_connect(path, SOCK_NONBLOCK, 0, &listener, &fd) >= 0;

	/* A process that has no id here is 0 (pid_namespaces(7)). */
	*ret_outside = listens && listener.pid == 0;
	return listens;
}

/* As the daemon would judge us: by the kernel's data about the other end of the socket. */
static void look_at_policy(struct doctor_facts *f)
{
	struct settings settings = settings_default;
	struct policy policy;
	struct policy_requester self;
	const struct passwd *pw = getpwuid(geteuid());
	const struct group *gr;
	int pair[2];

	(void)snprintf(f->user, sizeof(f->user), "%s", pw ? pw->pw_name : "USER");
	if (f->user_namespace) {
		(void)snprintf(f->settings_error, sizeof(f->settings_error),
			       "to a daemon outside of this user namespace you are another user");
		return;
	}
	if (settings_read(NULL, &settings, f->settings_error, sizeof(f->settings_error)) < 0)
		return;
	policy_of(&settings, &policy);
	gr = policy.all.n_groups ? getgrgid(policy.all.groups[0]) : NULL;
	(void)snprintf(f->group, sizeof(f->group), "%s", gr ? gr->gr_name : "");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return;
	if (policy_requester_of(pair[0], &self) >= 0) {
		f->scope = policy_scope(&policy, &self);
		policy_requester_deinit(&self);
	}
	fd_close(pair[0]);
	fd_close(pair[1]);
}

/* The check is that of ptrace (ptrace_may_access() in kernel/ptrace.c), which security modules take part in. */
static int read_first_process(void)
{
	_cleanup_(fd_closep) int fd = open("/proc/1/mem", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : 0;
}

/* Where systemd looks for what is installed: systemd.unit(5). */
static bool has_units(void)
{
	static const char *const folders[] = {"/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"};

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		char path[128];

		(void)snprintf(path, sizeof(path), "%s/systemd/system/perfwind-control.socket",
			       folders[i]);
		if (access(path, F_OK) == 0)
			return true;
	}
	return false;
}

void doctor_look(const char *control_socket, struct doctor_facts *f)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	struct rlimit limit = {0, 0};
	char error[256];

	*f = (struct doctor_facts){
		.pid_namespace = !gate_first_pid_namespace(),
		.user_namespace = !gate_first_user_namespace(),
	};
	look_at_rights(f);
	f->paranoid = (int)gate_sysctl("perf_event_paranoid", INT_MAX);
	f->kptr_restrict = (int)gate_sysctl("kptr_restrict", 0);
	f->ptrace_scope = (int)gate_sysctl("yama/ptrace_scope", -1);
	f->max_rate = (uint64_t)gate_sysctl("perf_event_max_sample_rate", 100000);
	f->own_user = try_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, false, false);
	f->own_kernel = try_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, true, false);
	f->machine = try_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, true, true);
	f->cycles = perf_spec_cycles();
	f->first_process = read_first_process();
	f->tracepoints = tracepoint();
	f->kernel_addresses = kernel_addresses();
	(void)getrlimit(RLIMIT_NOFILE, &limit);
	f->files = limit.rlim_max;
	(void)probe_features(&f->features, error, sizeof(error));
	probe_bpf(&f->features);
	look_at_rings(f);
	f->daemon = listens(control_socket, &f->daemon_outside);
	f->units = access("/run/systemd/system", F_OK) == 0 && has_units();
	f->service_user = getpwnam("perfwind") != NULL;
	look_at_policy(f);
	f->debug_files = access("/usr/lib/debug/.build-id", X_OK) == 0;
	f->debuginfod = urls && *urls;
}
