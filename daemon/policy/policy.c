/* policy.c - see policy.h.  Thread: main.
 * Decisions are functions of data: what the kernel says of the asker and of a process, and the
 * settings.  A client's own words never are an input. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "daemon/policy/policy.h"
#include "proc/procfs.h"

/* ---- who asks ---- */

static int peer_groups(int fd, uint32_t **ret_groups, size_t *ret_n)
{
	socklen_t len = 64 * sizeof(gid_t);
	_cleanup_(freep) gid_t *groups = NULL;

	for (int i = 0; i < 4; i++) {
		/* Room for the primary group behind them. */
		gid_t *more = realloc(groups, len + sizeof(gid_t));

		if (!more)
			return fail(-ENOMEM);
		groups = more;
		if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len) == 0) {
			*ret_n = len / sizeof(gid_t);
			*ret_groups = take(groups);
			return 0;
		}
		if (errno != ERANGE || len > POLICY_GROUPS * sizeof(gid_t))
			return fail(-errno);
	}
	return fail(-ERANGE);
}

int asker_of(int fd, struct asker *ret_asker)
{
	struct asker asker = {0};
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int r;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return fail(-errno);
	r = peer_groups(fd, &asker.groups, &asker.n_groups);
	if (r < 0)
		return trace(r);
	asker.uid = cred.uid;
	asker.gid = cred.gid;
	asker.pid = (uint32_t)cred.pid;
	asker.groups[asker.n_groups++] = cred.gid;
	*ret_asker = asker;
	return 0;
}

void asker_deinit(struct asker *asker)
{
	free(asker->groups);
	*asker = (struct asker){0};
}

/* ---- is it in a sandbox? ---- */

enum { LABEL_MAX = 4096 };

/* "unconfined", or "PROFILE (MODE)". */
static bool is_enforced(const char *label)
{
	const char *mode = strrchr(label, '(');

	return mode && strcmp(mode, "(complain)") != 0 && strcmp(mode, "(unconfined)") != 0;
}

/* Of process @pid, 0: our own.  Empty: no AppArmor, or it cannot be read. */
static void read_label(const char *root, uint32_t pid, char label[LABEL_MAX])
{
	char path[PROCFS_PATH_MAX];
	_cleanup_(freep) char *text = NULL;
	size_t len;

	label[0] = 0;
	/* attr/apparmor is of Linux 5.8; attr/current is the label of whatever module is first. */
	if (!pid)
		(void)snprintf(path, sizeof(path), "%s/proc/self/attr/apparmor/current", root);
	if ((pid && procfs_path(path, root, pid, "attr/apparmor/current") < 0) ||
	    read_file(path, LABEL_MAX - 1, &text, &len) < 0)
		return;
	(void)snprintf(label, LABEL_MAX, "%.*s", (int)strcspn(text, "\n"), text);
}

static void label_of_peer(const char *root, int fd, uint32_t pid, char label[LABEL_MAX])
{
	socklen_t len = LABEL_MAX - 1;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERSEC, label, &len) == 0 && len < LABEL_MAX) {
		label[len] = 0;
		if (strchr(label, '(') || !strcmp(label, "unconfined"))
			return;
	}
	read_label(root, pid, label);
}

bool policy_confined(const char *root, int fd, uint32_t pid, char *why, size_t size)
{
	char label[LABEL_MAX], own[LABEL_MAX];

	read_label(root, 0, own);
	label_of_peer(root, fd, pid, label);
	if (*label ? !is_enforced(label) || !strcmp(label, own) : !*own)
		return false;
	(void)snprintf(why, size, "AppArmor profile %.100s", *label ? label : "unknown");
	return true;
}

bool policy_shares_sandbox(const char *root, uint32_t requester, const char *why, uint32_t pid)
{
	char childs[160];
	uint32_t parent;

	return procfs_parent(root, pid, &parent) == 0 && parent == requester &&
	       policy_confined(root, -1, pid, childs, sizeof(childs)) && !strcmp(childs, why);
}

/* ---- the settings' names ---- */

bool policy_user_id(const char *name, uint32_t *ret_id)
{
	const struct passwd *pw;
	uint64_t id;

	if (parse_u64(name, 10, UINT32_MAX - 1, &id) == 0) {
		*ret_id = (uint32_t)id;
		return true;
	}
	pw = getpwnam(name);
	if (pw)
		*ret_id = pw->pw_uid;
	return pw != NULL;
}

static bool group_id(const char *name, uint32_t *ret_id)
{
	const struct group *gr;
	uint64_t id;

	if (parse_u64(name, 10, UINT32_MAX - 1, &id) == 0) {
		*ret_id = (uint32_t)id;
		return true;
	}
	gr = getgrnam(name);
	if (gr)
		*ret_id = gr->gr_gid;
	return gr != NULL;
}

/* "NAME, NAME NAME": ids of those that there are. */
static size_t resolve(const char *list, bool (*look_up)(const char *, uint32_t *), const char *what,
		      bool told, uint32_t ids[POLICY_IDS])
{
	size_t n = 0;

	while (*(list += strspn(list, ", \t")) && n < POLICY_IDS) {
		size_t len = strcspn(list, ", \t");
		char name[64];

		(void)snprintf(name, sizeof(name), "%.*s", (int)min_u64(len, 63), list);
		if (len < sizeof(name) && look_up(name, &ids[n]))
			n++;
		else if (told)
			log_info("%s: there is no '%s' on this machine", what, name);
		list += len;
	}
	return n;
}

/* Is one of the words @word? */
static bool has_word(const char *list, const char *word)
{
	size_t len = strlen(word);

	while (*(list += strspn(list, ", \t"))) {
		size_t n = strcspn(list, ", \t");

		if (n == len && !memcmp(list, word, n))
			return true;
		list += n;
	}
	return false;
}

void policy_traced_of(const struct settings *s, bool lends, struct policy_traced *p)
{
	bool free_for_all = !s->traced_said && !lends;

	*p = (struct policy_traced){
		.everyone = free_for_all || has_word(s->traced_users, "*"),
		.kernel = free_for_all || s->traced_kernel,
	};
	if (p->everyone)
		return;
	p->ids.n_users =
		resolve(s->traced_users, policy_user_id, "traced-users", true, p->ids.users);
	for (size_t i = 0; i < p->ids.n_users; i++) {
		const struct passwd *pw = getpwuid(p->ids.users[i]);

		p->user_gids[i] = pw ? pw->pw_gid : POLICY_NO_GROUP;
	}
	p->ids.n_groups = resolve(s->traced_groups, group_id, "traced-groups", true, p->ids.groups);
}

void policy_services_of(const struct settings *s, struct policy_ids *ids)
{
	*ids = (struct policy_ids){0};
	ids->n_users =
		resolve(s->traced_service_users, policy_user_id, "traced-service-users",
			strcmp(s->traced_service_users, settings_default.traced_service_users) != 0,
			ids->users);
}

void policy_of(const struct settings *s, struct policy *p)
{
	*p = (struct policy){
		.own = s->own_processes,
		.recordings = s->max_recordings,
		.user_recordings = s->user_recordings,
		.user_rate = s->user_rate,
		.user_memory = s->user_memory,
		.user_processes = s->user_processes,
		.user_descriptors = s->user_descriptors,
	};
	p->all.n_users = resolve(s->all_users, policy_user_id, "all-users", true, p->all.users);
	p->all.n_groups =
		resolve(s->all_groups, group_id, "all-groups",
			strcmp(s->all_groups, settings_default.all_groups) != 0, p->all.groups);
	policy_subids_read("/etc/subuid", p);
}

/* ---- decisions ---- */

static bool has(const uint32_t *ids, size_t n, uint32_t id)
{
	for (size_t i = 0; i < n; i++)
		if (ids[i] == id)
			return true;
	return false;
}

enum policy_scope policy_scope(const struct policy *p, const struct asker *asker)
{
	if (asker->uid == 0 || has(p->all.users, p->all.n_users, asker->uid))
		return POLICY_ALL;
	for (size_t i = 0; i < asker->n_groups; i++)
		if (has(p->all.groups, p->all.n_groups, asker->groups[i]))
			return POLICY_ALL;
	return p->own ? POLICY_OWN : POLICY_NOTHING;
}

bool policy_trusts_service(const struct policy_ids *ids, uint32_t uid)
{
	return uid == 0 || uid == geteuid() || has(ids->users, ids->n_users, uid);
}

bool policy_event_words(const char *event, char *error, size_t size)
{
	if (strstr(event, "probe") || strstr(event, "..")) {
		(void)snprintf(
			error, size,
			"'%.64s': probes are not placed for others; record it yourself, as root",
			event);
		return false;
	}
	return true;
}

bool policy_event(enum policy_scope scope, const char *key, const struct perf_spec *spec,
		  char *error, size_t size)
{
	if (spec->probe_path) {
		(void)snprintf(error, size, "probes are not placed for others");
		return false;
	}
	if (scope == POLICY_ALL)
		return true;
	/* The kernel lets a user have these of own processes; what a tracepoint or the PMU of a
	 * device tells is not only theirs. */
	if (spec->tracepoint[0] || spec->type == PERF_TYPE_TRACEPOINT ||
	    spec->type >= PERF_TYPE_MAX || spec->type == PERF_TYPE_BREAKPOINT) {
		(void)snprintf(error, size,
			       "'%s' is not for everyone: who may record it stands in "
			       "/etc/perfwind.conf (%s)",
			       spec->name, key);
		return false;
	}
	if (spec->exclude_user) {
		(void)snprintf(error, size,
			       "kernel code is not for everyone: who may record it stands in "
			       "/etc/perfwind.conf (%s)",
			       key);
		return false;
	}
	return true;
}

uint64_t policy_rate(const struct perf_spec *spec, uint64_t frequency, uint64_t period)
{
	/* The most that can be: nanoseconds are counted at 1 GHz; of no counter is more known than
	 * that a core does some events a cycle. */
	uint64_t events = spec->weight == PERF_WEIGHT_TIME ? 1000000000 : 10000000000;

	return frequency ? frequency : events / max_u64(period, 1);
}

/* ---- a process, as it is now ---- */

#define POLICY_ANYONE UINT32_MAX /* no user has this id */

struct target {
	uint32_t uid, gid;
	char *text; /* /proc/PID/status */
};

/* The four numbers behind @name, if they are all the same. */
static bool one_id(const char *text, const char *name, uint32_t *ret_id)
{
	const char *line = strstr(text, name);
	unsigned ids[4];

	if (!line ||
	    sscanf(line + strlen(name), "%u%u%u%u", &ids[0], &ids[1], &ids[2], &ids[3]) != 4)
		return false;
	*ret_id = ids[0];
	return ids[1] == ids[0] && ids[2] == ids[0] && ids[3] == ids[0];
}

/* What cannot be read is one. */
static bool has_rights(const char *text)
{
	const char *line = strstr(text, "\nCapPrm:");
	uint64_t rights;

	return !line || sscanf(line + strlen("\nCapPrm:"), "%lx", &rights) != 1 || rights;
}

/* Is it somebody's own, and whose?  Only a process of @of is read, unless that is POLICY_ANYONE: the
 * owner of the file is known at a tenth of the cost. */
static bool target_read(const char *root, uint32_t pid, uint32_t of, struct target *t)
{
	char path[PROCFS_PATH_MAX];
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;

	*t = (struct target){0};
	if (procfs_path(path, root, pid, "status") < 0)
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	/* The file is root's when the process may not be looked into: fs/proc/base.c,
	 * task_dump_owner(). */
	return fd >= 0 && fstat(fd, &st) == 0 && (of == POLICY_ANYONE || of == st.st_uid) &&
	       read_fd(fd, 65536, &t->text, NULL) >= 0 && one_id(t->text, "\nUid:", &t->uid) &&
	       t->uid == st.st_uid && one_id(t->text, "\nGid:", &t->gid) &&
	       (!t->uid || !has_rights(t->text));
}

static bool in_groups(const struct target *t, const struct policy_ids *ids)
{
	const char *p = strstr(t->text, "\nGroups:");
	unsigned n;
	int len;

	if (has(ids->groups, ids->n_groups, t->gid))
		return true;
	if (!p)
		return false;
	for (p += strlen("\nGroups:"); p += strspn(p, " \t"), sscanf(p, "%u%n", &n, &len) == 1;
	     p += len)
		if (has(ids->groups, ids->n_groups, n))
			return true;
	return false;
}

static bool is_of(const struct target *t, uint32_t uid, uint32_t gid)
{
	/* Nothing of root's is kept from root. */
	return t->uid == uid && (!uid || t->gid == gid);
}

bool policy_owns(const char *root, const struct asker *asker, uint32_t pid)
{
	struct target t;
	bool owns = target_read(root, pid, asker->uid, &t) && is_of(&t, asker->uid, asker->gid);

	free(t.text);
	return owns;
}

static bool is_of_named(const struct target *t, const struct policy_traced *p)
{
	for (size_t i = 0; i < p->ids.n_users; i++) {
		bool known = p->user_gids[i] != POLICY_NO_GROUP;

		if (is_of(t, p->ids.users[i], known ? p->user_gids[i] : t->gid))
			return true;
	}
	return false;
}

bool policy_shows(const struct policy_traced *p, const char *root, uint32_t pid)
{
	struct procfs_status status;
	struct target t;
	bool shown;

	if (p->everyone)
		return true;
	if (!pid) /* the idle task */
		return p->kernel;
	shown = target_read(root, pid, POLICY_ANYONE, &t) &&
		(is_of_named(&t, p) || (t.uid && in_groups(&t, &p->ids)));
	free(t.text);
	/* A kernel thread is root's by its ids. */
	if (shown ? t.uid != 0 : !p->kernel)
		return shown;
	if (procfs_status(root, pid, &status) < 0)
		return false;
	return status.kernel_thread ? p->kernel : shown;
}
