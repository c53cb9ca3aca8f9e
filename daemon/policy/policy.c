/* policy.c - see policy.h.  Thread: main.
 * Decisions are functions of the kernel's data about the requester and about a process, and of the settings.  No
 * decision depends on data from a client. */
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
#include "session/pipeline/adapt.h"

/* ---- the requester ---- */

static int peer_groups(int fd, uint32_t **ret_groups, size_t *ret_n)
{
	socklen_t len = 64 * sizeof(gid_t);
	_cleanup_(freep) gid_t *groups = NULL;

	for (int i = 0; i < 4; i++) {
		/* With room for the primary group. */
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

int policy_requester_of(int fd, struct policy_requester *ret_requester)
{
	struct policy_requester requester = {0};
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int r;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return fail(-errno);
	r = peer_groups(fd, &requester.groups, &requester.n_groups);
	if (r < 0)
		return trace(r);
	requester.uid = cred.uid;
	requester.gid = cred.gid;
	requester.pid = (uint32_t)cred.pid;
	requester.groups[requester.n_groups++] = cred.gid;
	*ret_requester = requester;
	return 0;
}

void policy_requester_deinit(struct policy_requester *requester)
{
	free(requester->groups);
	*requester = (struct policy_requester){0};
}

/* ---- sandboxes ---- */

enum { LABEL_MAX = 4096 };

/* "unconfined", or "PROFILE (MODE)". */
static bool is_enforced(const char *label)
{
	const char *mode = strrchr(label, '(');

	return mode && strcmp(mode, "(complain)") != 0 && strcmp(mode, "(unconfined)") != 0;
}

/* The label of process @pid, 0: the daemon's own.  Empty: no AppArmor, or it cannot be read. */
static void read_label(const char *root, uint32_t pid, char label[LABEL_MAX])
{
	char path[PROCFS_PATH_MAX];
	_cleanup_(freep) char *text = NULL;
	size_t len;

	label[0] = 0;
	/* attr/apparmor is there since Linux 5.8; attr/current is the label of the first security module, of any kind. */
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

/* ---- names in the settings ---- */

/* A number, or the name of a user (or @group).  -ENOENT: there is none. */
static int id_of(const char *name, bool group, uint32_t *ret_id)
{
	const struct passwd *pw = NULL;
	const struct group *gr = NULL;
	uint64_t id = 0;

	errno = 0;
	if (parse_u64(name, 10, UINT32_MAX - 1, &id) == 0)
		*ret_id = (uint32_t)id;
	else if (group && (gr = getgrnam(name)))
		*ret_id = gr->gr_gid;
	else if (!group && (pw = getpwnam(name)))
		*ret_id = pw->pw_uid;
	else
		return is_shortage(-errno) ? fail(-errno) : -ENOENT;
	return 0;
}

size_t policy_next_word(const char **list)
{
	*list += strspn(*list, ", \t");
	return strcspn(*list, ", \t");
}

/* "NAME, NAME NAME": the ids of names that exist.  A name that lacked memory or a descriptor gives no user more rights. */
static size_t resolve(const char *list, bool groups, const char *key, bool logged,
		      uint32_t ids[POLICY_IDS])
{
	size_t n = 0;

	for (size_t len; (len = policy_next_word(&list)) && n < POLICY_IDS; list += len) {
		char name[64];
		int r;

		(void)snprintf(name, sizeof(name), "%.*s", (int)min_u64(len, 63), list);
		r = len < sizeof(name) ? id_of(name, groups, &ids[n]) : -ENOENT;
		n += r == 0;
		if (is_shortage(r))
			log_error("%s: '%s': %s", key, name, strerror(-r));
		else if (r < 0 && logged)
			log_info("%s: '%s' does not exist on this machine", key, name);
	}
	return n;
}

bool policy_has_word(const char *list, const char *word)
{
	for (size_t n; (n = policy_next_word(&list)); list += n)
		if (n == strlen(word) && !memcmp(list, word, n))
			return true;
	return false;
}

/* ---- one person, many users ----
 *
 *   NAME:FIRST:COUNT        a line of /etc/subuid; or the user's number
 *
 * The user of a range can be each id in it, by a user namespace or a set-user-ID program made there: 65,536 shares
 * of each limit, if they were counted apart.  So limits count the person.  Only limits: the owner of a process is
 * decided by the kernel's ids.  A range of root's (Docker's, LXD's) is one person, and that is not root. */

enum { SUBIDS_MAX_FILE = 1 << 20, SUBIDS_MAX_LINE = 256 };

static bool take_number(char **at, uint64_t *ret)
{
	char *word = strsep(at, ":");

	return word && parse_u64(word, 10, UINT32_MAX, ret) == 0;
}

static void parse_subids(struct policy *p, char *line)
{
	struct policy_subids *s = &p->subids[p->n_subids];
	char *name = strsep(&line, ":");
	uint64_t first, count;
	int r;

	if (!line || !take_number(&line, &first) || !take_number(&line, &count) || line || !count ||
	    count > UINT32_MAX - first)
		return;
	r = id_of(name, false, &s->person);
	if (is_shortage(r))
		log_error("%s: %s: limits count each user id of its ranges apart", name,
			  strerror(-r));
	if (r < 0)
		return;
	s->first = (uint32_t)first;
	s->last = (uint32_t)(first + count - 1);
	if (!s->person)
		s->person = s->first;
	p->n_subids++;
}

void policy_subids_parse(const char *text, struct policy *p)
{
	for (p->n_subids = 0; *text && p->n_subids < POLICY_SUBIDS;) {
		size_t len = strcspn(text, "\n");
		char line[SUBIDS_MAX_LINE];

		if (len < sizeof(line)) {
			memcpy(line, text, len);
			line[len] = 0;
			parse_subids(p, line);
		}
		text += len + (text[len] == '\n');
	}
}

void policy_subids_read(const char *path, struct policy *p)
{
	_cleanup_(freep) char *text = NULL;
	int r = read_file(path, SUBIDS_MAX_FILE, &text, NULL);

	p->n_subids = 0;
	if (r >= 0)
		policy_subids_parse(text, p);
	else if (r != -ENOENT)
		log_error("%s: %s: limits count each user id of its ranges apart", path,
			  strerror(-r));
}

uint32_t policy_person(const struct policy *p, uint32_t uid)
{
	for (size_t i = 0; i < p->n_subids; i++)
		if (uid >= p->subids[i].first && uid <= p->subids[i].last)
			return p->subids[i].person;
	return uid;
}

/* ---- settings to ids ---- */

/* The primary groups of users.  A user is left out where that lookup lacks memory or a descriptor: with any group more processes
 * would be shown. */
static void find_groups(struct policy_traced *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->ids.n_users; i++) {
		uint32_t uid = p->ids.users[i];
		const struct passwd *pw;

		errno = 0;
		pw = getpwuid(uid);
		if (!pw && is_shortage(-errno)) {
			log_error("traced-users: %u: %s", uid, strerror(errno));
			continue;
		}
		p->ids.users[n] = uid;
		p->user_gids[n++] = pw ? pw->pw_gid : POLICY_NO_GROUP;
	}
	p->ids.n_users = n;
}

void policy_traced_of(const struct settings *s, bool beyond_user, struct policy_traced *p)
{
	bool no_limit = !s->traced_set && !beyond_user;

	*p = (struct policy_traced){
		.everyone = no_limit || policy_has_word(s->traced_users, "*"),
		.kernel = no_limit || s->traced_kernel,
	};
	if (p->everyone)
		return;
	p->ids.n_users = resolve(s->traced_users, false, "traced-users", true, p->ids.users);
	find_groups(p);
	p->ids.n_groups = resolve(s->traced_groups, true, "traced-groups", true, p->ids.groups);
}

void policy_services_of(const struct settings *s, struct policy_ids *ids)
{
	*ids = (struct policy_ids){0};
	ids->n_users =
		resolve(s->traced_service_users, false, "traced-service-users",
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
		.user_max_cpu = s->user_max_cpu,
		.recording_max_cpu = s->recording_max_cpu,
	};
	p->all.n_users = resolve(s->all_users, false, "all-users", true, p->all.users);
	p->all.n_groups =
		resolve(s->all_groups, true, "all-groups",
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

enum policy_scope policy_scope(const struct policy *p, const struct policy_requester *requester)
{
	if (requester->uid == 0 || has(p->all.users, p->all.n_users, requester->uid))
		return POLICY_ALL;
	for (size_t i = 0; i < requester->n_groups; i++)
		if (has(p->all.groups, p->all.n_groups, requester->groups[i]))
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
			"'%.64s': the daemon places no probes; record as root, without the daemon",
			event);
		return false;
	}
	return true;
}

bool policy_event(enum policy_scope scope, const char *key, const struct perf_spec *spec,
		  char *error, size_t size)
{
	if (spec->probe_path) {
		(void)snprintf(error, size, "the daemon places no probes");
		return false;
	}
	if (scope == POLICY_ALL)
		return true;
	/* The kernel gives a user software and hardware events of the user's own processes; a tracepoint or the PMU of
	 * a device reports more than these processes. */
	if (spec->tracepoint[0] || spec->type == PERF_TYPE_TRACEPOINT ||
	    spec->type >= PERF_TYPE_MAX || spec->type == PERF_TYPE_BREAKPOINT) {
		(void)snprintf(error, size, "you may not record '%s': see %s in /etc/perfwind.conf",
			       spec->name, key);
		return false;
	}
	if (!(spec->code & FRAMES_USER)) {
		(void)snprintf(error, size,
			       "you may not record kernel code: see %s in /etc/perfwind.conf", key);
		return false;
	}
	return true;
}

uint64_t policy_rate(const struct perf_spec *spec, uint64_t frequency, uint64_t period)
{
	/* The maximum: a clock counts nanoseconds, at 1 GHz; a core has at most a few events a cycle. */
	uint64_t events = spec->weight == PERF_WEIGHT_TIME ? 1000000000 : 10000000000;

	return frequency ? frequency : events / max_u64(period, 1);
}

/* The kernel throttles neither tracepoints nor software events: their rate is that of the machine's activity, which
 * is not known beforehand. */
static bool has_no_rate(const struct session_options *so)
{
	uint32_t type = so->specs[0].type;

	return !so->frequency && so->specs[0].weight == PERF_WEIGHT_EVENTS &&
	       (type == PERF_TYPE_TRACEPOINT || type == PERF_TYPE_SOFTWARE);
}

uint64_t policy_session_rate(const struct session_options *so, uint64_t limit)
{
	uint64_t rate;

	if (so->poll_ms)
		return 1000 / so->poll_ms + 1;
	rate = policy_rate(&so->specs[0], so->frequency, so->period);
	return limit && has_no_rate(so) ? min_u64(rate, max_u64(limit / 4, 1)) : rate;
}

uint64_t policy_stack_bytes(const struct session_options *so)
{
	if (so->poll_ms || !(so->frames & FRAMES_USER) || so->engine == UW_ENGINE_FP)
		return 0;
	return so->stack_bytes ? so->stack_bytes : ADAPT_MAX;
}

/* ---- a process, as it is now ---- */

#define POLICY_ANY_USER UINT32_MAX /* no user has this id */

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

/* Also when they cannot be read. */
static bool has_capabilities(const char *text)
{
	const char *line = strstr(text, "\nCapPrm:");
	uint64_t caps;

	return !line || sscanf(line + strlen("\nCapPrm:"), "%lx", &caps) != 1 || caps;
}

/* The owner of a process, if it is the own process of one user (policy.h).  Only processes of user @of are read, any with
 * POLICY_ANY_USER: fstat() gives the owner of the file at a tenth of the cost. */
static bool target_read(const char *root, uint32_t pid, uint32_t of, struct target *t)
{
	char path[PROCFS_PATH_MAX];
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;

	*t = (struct target){0};
	if (procfs_path(path, root, pid, "status") < 0)
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	/* The file is root's when the process is not dumpable: fs/proc/base.c, task_dump_owner(). */
	return fd >= 0 && fstat(fd, &st) == 0 && (of == POLICY_ANY_USER || of == st.st_uid) &&
	       read_fd(fd, 65536, &t->text, NULL) >= 0 && one_id(t->text, "\nUid:", &t->uid) &&
	       t->uid == st.st_uid && one_id(t->text, "\nGid:", &t->gid) &&
	       (!t->uid || !has_capabilities(t->text));
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
	/* Root owns all processes of root. */
	return t->uid == uid && (!uid || t->gid == gid);
}

bool policy_owns(const char *root, const struct policy_requester *requester, uint32_t pid)
{
	struct target t;
	bool owns = target_read(root, pid, requester->uid, &t) &&
		    is_of(&t, requester->uid, requester->gid);

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
	shown = target_read(root, pid, POLICY_ANY_USER, &t) &&
		(is_of_named(&t, p) || (t.uid && in_groups(&t, &p->ids)));
	free(t.text);
	/* A kernel thread has root's ids. */
	if (shown ? t.uid != 0 : !p->kernel)
		return shown;
	if (procfs_status(root, pid, &status) < 0)
		return false;
	return status.kernel_thread ? p->kernel : shown;
}
