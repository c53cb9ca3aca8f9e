/* rules.c - see rules.h: one table has all keys. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/nearest.h"
#include "watch/rules.h"

enum { MAX_FILE = 256 << 10, LINE = 1024 };

#define SECONDS(n) ((uint64_t)(n)*NSEC_PER_SEC)
#define HOUR SECONDS(3600)

const char *const watch_when_names[] = {
	[WATCH_PROCESS_CPU] = "process-cpu",
	[WATCH_CGROUP_CPU] = "cgroup-cpu",
	[WATCH_MACHINE_CPU] = "machine-cpu",
	[WATCH_PSI_CPU] = "psi-cpu",
	[WATCH_PSI_MEMORY] = "psi-memory",
	[WATCH_PSI_IO] = "psi-io",
	[WATCH_LOAD] = "load",
	[WATCH_MEMORY_GROWTH] = "memory-growth",
	[WATCH_RUN_QUEUE] = "run-queue",
	[WATCH_COUNTER] = "counter",
	[WATCH_HIT] = "hit",
	[WATCH_DURATION] = "duration",
	[WATCH_SIGNAL] = "signal",
	[WATCH_LATENCY] = "latency",
	[WATCH_MARK] = "mark",
	[WATCH_WHENS] = NULL,
};

const char *watch_when_unit(enum watch_when when)
{
	switch (when) {
	case WATCH_LOAD:
		return "tasks";
	case WATCH_MEMORY_GROWTH:
		return "MiB/min";
	case WATCH_COUNTER:
		return "events/s";
	case WATCH_HIT:
		return "events";
	case WATCH_DURATION:
		return "s";
	case WATCH_SIGNAL:
		return "processes";
	case WATCH_LATENCY:
		return "ms";
	case WATCH_MARK:
		return "marks";
	default:
		return "%";
	}
}

/* What a rule of each kind must name. */
static const struct {
	bool process, cgroup, event, command, mark;
	double above; /* default; 0: none */
	uint64_t hold_ns;
} needs[WATCH_WHENS] = {
	[WATCH_PROCESS_CPU] = {.process = true, .above = 80, .hold_ns = SECONDS(60)},
	[WATCH_CGROUP_CPU] = {.cgroup = true, .above = 80, .hold_ns = SECONDS(60)},
	[WATCH_MACHINE_CPU] = {.hold_ns = SECONDS(60)},
	[WATCH_PSI_CPU] = {.hold_ns = SECONDS(10)},
	[WATCH_PSI_MEMORY] = {.hold_ns = SECONDS(10)},
	[WATCH_PSI_IO] = {.hold_ns = SECONDS(10)},
	[WATCH_LOAD] = {.hold_ns = SECONDS(10)},
	[WATCH_MEMORY_GROWTH] = {.process = true},
	[WATCH_RUN_QUEUE] = {.process = true, .hold_ns = SECONDS(10)},
	[WATCH_COUNTER] = {.event = true, .hold_ns = SECONDS(10)},
	[WATCH_HIT] = {.event = true, .above = 1},
	[WATCH_DURATION] = {.command = true},
	[WATCH_SIGNAL] = {.above = 1},
	[WATCH_MARK] = {.mark = true, .above = 1},
};

enum kind { TEXT, DURATION, SIZE, NUMBER, COUNT, WHEN };
struct key {
	const char *name;
	enum kind kind;
	size_t offset, room; /* room: of a text */
	uint64_t min, max;   /* ns, bytes or a count */
};

#define OF(member) .offset = offsetof(struct watch_rules, member)
#define OF_TEXT(member) OF(member), .room = sizeof(((struct watch_rules *)0)->member)
static const struct key watch_keys[] = {
	{"folder", TEXT, OF_TEXT(folder)},
	{"record", TEXT, OF_TEXT(record)},
	{"exec", TEXT, OF_TEXT(execute)},
	{"memory", SIZE, OF(memory), .min = 1 << 20, .max = 64ull << 30},
	{"disk", SIZE, OF(disk), .min = 1 << 20, .max = 1ull << 50},
	{"poll", DURATION, OF(calm_poll_ns), .min = 10 * NSEC_PER_MSEC, .max = HOUR},
	{"busy-poll", DURATION, OF(busy_poll_ns), .min = 10 * NSEC_PER_MSEC, .max = HOUR},
	{0},
};
#undef OF
#undef OF_TEXT
#define OF(member) .offset = offsetof(struct watch_rule, member)
#define OF_TEXT(member) OF(member), .room = sizeof(((struct watch_rule *)0)->member)
static const struct key rule_keys[] = {
	{"when", WHEN, OF(when)},
	{"process", TEXT, OF_TEXT(process)},
	{"cgroup", TEXT, OF_TEXT(cgroup)},
	{"event", TEXT, OF_TEXT(event)},
	{"command", TEXT, OF_TEXT(command)},
	{"from", TEXT, OF_TEXT(from)},
	{"to", TEXT, OF_TEXT(to)},
	{"key", TEXT, OF_TEXT(key)},
	{"mark", TEXT, OF_TEXT(mark)},
	{"above", NUMBER, OF(above)},
	{"below", NUMBER, OF(below)},
	{"threads-above", NUMBER, OF(threads)},
	{"for", DURATION, OF(hold_ns), .max = 24 * HOUR},
	{"calm", DURATION, OF(calm_ns), .max = 24 * HOUR},
	{"before", DURATION, OF(before_ns), .max = 24 * HOUR},
	{"after", DURATION, OF(after_ns), .max = HOUR},
	{"longest", DURATION, OF(longest_ns), .min = NSEC_PER_SEC, .max = 24 * HOUR},
	{"cooldown", DURATION, OF(cooldown_ns), .max = 240 * HOUR},
	{"each", DURATION, OF(each_ns), .min = 100 * NSEC_PER_MSEC, .max = 24 * HOUR},
	{"per-day", COUNT, OF(per_day), .min = 1, .max = 100000},
	{0},
};
#undef OF
#undef OF_TEXT

struct parser {
	const char *name;
	unsigned line;
	const char *start; /* of the line */
	struct watch_rules *to;
	struct watch_rule *rule; /* the section; NULL: none yet */
	bool in_watch;
	uint32_t given; /* bits: of the rule's keys */
	char *error;
	size_t error_size;
};

static int _printf_(3, 4) complain(struct parser *p, const char *at, const char *format, ...)
{
	va_list args;
	int n = snprintf(p->error, p->error_size, "%s:%u:%td: ", p->name, p->line,
			 at - p->start + 1);

	if (n < 0 || (size_t)n >= p->error_size)
		return fail(-EINVAL);
	va_start(args, format);
	(void)vsnprintf(p->error + n, p->error_size - (size_t)n, format, args);
	va_end(args);
	return fail(-EINVAL);
}

static void append_nearest(struct parser *p, const char *wanted, const struct key *keys,
			   const char *const *names)
{
	struct nearest nearest = {.wanted = wanted};

	for (; keys && keys->name; keys++)
		nearest_offer(&nearest, keys->name);
	for (; names && *names; names++)
		nearest_offer(&nearest, *names);
	nearest_append(&nearest, p->error, p->error_size);
}

/* ---- values ---- */

/* A number and a unit of @units (name, factor; ends with NULL). */
struct unit {
	const char *name;
	double factor;
};

static bool parse_amount(const char *value, const struct unit *units, double *ret)
{
	char *end;
	double number = isdigit((unsigned char)*value) ? strtod(value, &end) : -1;

	if (number < 0 || !isfinite(number))
		return false;
	while (*end == ' ')
		end++;
	for (; units->name; units++) {
		if (!strcmp(end, units->name)) {
			*ret = number * units->factor;
			return *ret < 1e19;
		}
	}
	return false;
}

static const struct unit durations[] = {{"ms", 1e6}, {"s", 1e9}, {"min", 60e9}, {"h", 3600e9}, {0}};
static const struct unit sizes[] = {
	{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1ull << 40}, {0}};
static const struct unit plain[] = {{"", 1}, {"%", 1}, {0}};
static const struct unit counts[] = {{"", 1}, {0}};

static int set_amount(struct parser *p, const struct key *key, char *to, const char *value)
{
	static const struct {
		const struct unit *units;
		const char *example;
	} of[] = {
		[DURATION] = {durations, "a duration like 300ms, 10s, 5min or 2h"},
		[SIZE] = {sizes, "a size like 512K, 64M or 1G"},
		[NUMBER] = {plain, "a number, as in 80 or 80%"},
		[COUNT] = {counts, "a whole number"},
	};
	double amount;

	if (!parse_amount(value, of[key->kind].units, &amount) ||
	    (key->kind == COUNT && amount != floor(amount)))
		return complain(p, value, "%s takes %s, not '%.64s'", key->name,
				of[key->kind].example, value);
	if (key->kind != NUMBER && (amount < (double)key->min || amount > (double)key->max))
		return complain(
			p, value, "%s: %.64s is out of range (%.12g to %.12g %s)", key->name, value,
			(double)key->min / of[key->kind].units[key->kind == DURATION].factor,
			(double)key->max / of[key->kind].units[key->kind == DURATION].factor,
			of[key->kind].units[key->kind == DURATION].name);
	if (key->kind == NUMBER)
		*(double *)(void *)(to + key->offset) = amount;
	else if (key->kind == COUNT)
		*(uint32_t *)(void *)(to + key->offset) = (uint32_t)amount;
	else
		*(uint64_t *)(void *)(to + key->offset) = (uint64_t)amount;
	return 0;
}

static int set_value(struct parser *p, const struct key *key, char *to, const char *value)
{
	if (!*value)
		return complain(p, value, "%s has no value", key->name);
	if (key->kind == TEXT) {
		if (strlen(value) >= key->room)
			return complain(p, value, "%s is longer than %zu bytes", key->name,
					key->room - 1);
		memcpy(to + key->offset, value, strlen(value) + 1);
		if (p->rule) {
			p->rule->text_line = p->line;
			p->rule->text_column = (uint32_t)(value - p->start) + 1;
		}
		return 0;
	}
	if (key->kind == WHEN) {
		for (unsigned i = 0; i < WATCH_WHENS; i++) {
			if (!strcmp(value, watch_when_names[i])) {
				*(enum watch_when *)(void *)(to + key->offset) = (enum watch_when)i;
				return 0;
			}
		}
		(void)complain(p, value, "'%.64s' cannot be watched", value);
		append_nearest(p, value, NULL, watch_when_names);
		return fail(-EINVAL);
	}
	return set_amount(p, key, to, value);
}

/* ---- sections ---- */

static bool given(const struct parser *p, const char *name)
{
	for (size_t i = 0; rule_keys[i].name; i++)
		if (!strcmp(rule_keys[i].name, name))
			return p->given >> i & 1;
	return false;
}

/* The section that ends is whole and makes sense. */
static int end_rule(struct parser *p)
{
	struct watch_rule *rule = p->rule;
	const char *missing = NULL;
	unsigned line = p->line;

	p->rule = NULL;
	if (!rule)
		return 0;
	p->line = rule->line; /* of a complaint */
	if (!given(p, "when"))
		missing = "when";
	else if (needs[rule->when].process && !rule->process[0])
		missing = "process";
	else if (needs[rule->when].cgroup && !rule->cgroup[0])
		missing = "cgroup";
	else if (needs[rule->when].event && !rule->event[0])
		missing = "event";
	else if (needs[rule->when].command && !rule->command[0])
		missing = "command";
	else if (needs[rule->when].mark && !rule->mark[0])
		missing = "mark";
	else if (!given(p, "above") && needs[rule->when].above <= 0)
		missing = "above";
	else if ((given(p, "from") || given(p, "to")) && !given(p, "key"))
		missing = "key"; /* the default's fields are of the default's events */
	if (missing)
		return complain(p, p->start, "[rule %s] has no '%s'", rule->name, missing);
	if (!given(p, "above"))
		rule->above = needs[rule->when].above;
	if (!given(p, "below"))
		rule->below = rule->above;
	if (!given(p, "for"))
		rule->hold_ns = needs[rule->when].hold_ns;
	if (rule->below > rule->above)
		return complain(p, p->start, "[rule %s]: below (%g) is more than above (%g)",
				rule->name, rule->below, rule->above);
	p->line = line;
	return 0;
}

static int begin_rule(struct parser *p, const char *name, size_t len)
{
	struct watch_rule *rules, *rule;

	if (!len || len >= WATCH_NAME)
		return complain(p, name, "a rule has a name of 1 to %d characters", WATCH_NAME - 1);
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)name[i]) && name[i] != '-' && name[i] != '_')
			return complain(p, name + i,
					"a rule's name consists of letters, digits, '-' and '_'");
	for (size_t i = 0; i < p->to->n; i++)
		if (strlen(p->to->rules[i].name) == len && !memcmp(p->to->rules[i].name, name, len))
			return complain(p, name, "rule '%s' exists already, in line %u",
					p->to->rules[i].name, p->to->rules[i].line);
	if (p->to->n == WATCH_RULES)
		return complain(p, name, "more than %d rules", WATCH_RULES);
	rules = reallocarray(p->to->rules, p->to->n + 1, sizeof(*rules));
	if (!rules)
		return fail(-ENOMEM);
	p->to->rules = rules;
	rule = &rules[p->to->n++];
	*rule = (struct watch_rule){.line = p->line,
				    .threads = 15,
				    .calm_ns = SECONDS(3),
				    .before_ns = SECONDS(30),
				    .after_ns = SECONDS(5),
				    .longest_ns = SECONDS(600),
				    .cooldown_ns = SECONDS(600),
				    .each_ns = SECONDS(60),
				    .per_day = 24,
				    .from = "sched:sched_waking",
				    .to = "sched:sched_switch",
				    .key = "pid:next_pid"};
	memcpy(rule->name, name, len);
	p->rule = rule;
	p->given = 0;
	return 0;
}

static int begin_section(struct parser *p, const char *text, size_t len)
{
	int r;

	if (len < 2 || text[len - 1] != ']')
		return complain(p, text, "a section ends with ']'");
	r = end_rule(p);
	if (r < 0)
		return trace(r);
	p->in_watch = len == 7 && !memcmp(text, "[watch]", 7);
	if (p->in_watch)
		return 0;
	if (len > 6 && !memcmp(text, "[rule ", 6)) {
		for (text += 6, len -= 7; len && *text == ' '; text++)
			len--;
		return begin_rule(p, text, len);
	}
	return complain(p, text, "unknown section '%.*s'; there are [watch] and [rule NAME]",
			(int)(len > 64 ? 64 : len), text);
}

/* ---- lines ---- */

static int parse_key(struct parser *p, char *key, char *value)
{
	const struct key *keys = p->rule ? rule_keys : watch_keys, *k = keys;
	char *to = p->rule ? (char *)p->rule : (char *)p->to;

	if (!p->rule && !p->in_watch)
		return complain(p, key, "a line before the first section ([watch] or [rule NAME])");
	while (k->name && strcmp(k->name, key))
		k++;
	if (!k->name) {
		(void)complain(p, key, "unknown key '%.64s'", key);
		append_nearest(p, key, keys, NULL);
		return fail(-EINVAL);
	}
	if (p->rule) {
		if (p->given >> (k - keys) & 1)
			return complain(p, key, "%s is given twice in [rule %s]", key,
					p->rule->name);
		p->given |= 1u << (k - keys);
	}
	return set_value(p, k, to, value);
}

static int parse_line(struct parser *p, char *line)
{
	char *end = line + strcspn(line, "#"), *equals, *value;

	while (end > line && isspace((unsigned char)end[-1]))
		end--;
	*end = 0;
	while (isspace((unsigned char)*line))
		line++;
	if (!*line)
		return 0;
	if (*line == '[')
		return begin_section(p, line, (size_t)(end - line));
	equals = strchr(line, '=');
	if (!equals)
		return complain(p, line, "'%.64s' is not KEY = VALUE", line);
	for (value = equals + 1; isspace((unsigned char)*value);)
		value++;
	for (end = equals; end > line && isspace((unsigned char)end[-1]);)
		end--;
	*end = 0;
	return parse_key(p, line, value);
}

static int parse_lines(struct parser *p, const char *text)
{
	char line[LINE];

	for (unsigned n = 1; *text; n++) {
		size_t len = strcspn(text, "\n");
		int r;

		p->line = n;
		p->start = line;
		if (len >= sizeof(line))
			return complain(p, line, "the line is longer than %d bytes", LINE - 1);
		memcpy(line, text, len);
		line[len] = 0;
		r = parse_line(p, line);
		if (r < 0)
			return trace(r);
		text += len + (text[len] == '\n');
	}
	p->start = line;
	return end_rule(p);
}

int watch_rules_parse(const char *name, const char *text, struct watch_rules *ret, char *error,
		      size_t error_size)
{
	struct watch_rules rules = {.record = "-a -F 49",
				    .memory = 64 << 20,
				    .disk = 1 << 30,
				    .calm_poll_ns = NSEC_PER_SEC,
				    .busy_poll_ns = 300 * NSEC_PER_MSEC};
	struct parser p = {.name = name, .to = &rules, .error = error, .error_size = error_size};
	int r = parse_lines(&p, text);

	if (r >= 0 && !rules.n) {
		(void)snprintf(error, error_size, "%s: no [rule NAME] in it", name);
		r = fail(-EINVAL);
	}
	*ret = (struct watch_rules){0};
	if (r == -ENOMEM)
		(void)snprintf(error, error_size, "%s: out of memory", name);
	if (r < 0) {
		watch_rules_deinit(&rules);
		return trace(r);
	}
	*ret = rules;
	return 0;
}

bool watch_is_own(const struct stat *st)
{
	bool sticky = S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX);
	bool by_group = (st->st_mode & S_IWGRP) && st->st_gid != 0 && st->st_gid != getegid();

	return (st->st_uid == 0 || st->st_uid == geteuid()) &&
	       (sticky || !(by_group || (st->st_mode & S_IWOTH)));
}

int watch_rules_read(const char *path, struct watch_rules *ret, char *error, size_t error_size)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_(freep) char *text = NULL;
	struct stat st;
	size_t len;
	int r = fd < 0 || fstat(fd, &st) < 0 ? -errno : 0;

	*ret = (struct watch_rules){0};
	if (r >= 0 && !watch_is_own(&st)) {
		(void)snprintf(error, error_size,
			       "%s: another user can write it, and rules run programs (hint: "
			       "chown and chmod go-w)",
			       path);
		return fail(-EPERM);
	}
	if (r >= 0)
		r = read_fd(fd, MAX_FILE, &text, &len);
	if (r >= 0)
		return watch_rules_parse(path, text, ret, error, error_size);
	(void)snprintf(error, error_size, "%s: %s", path, strerror(-r));
	return trace(r);
}

void watch_rules_deinit(struct watch_rules *rules)
{
	free(rules->rules);
	*rules = (struct watch_rules){0};
}

bool watch_rule_equal(const struct watch_rule *a, const struct watch_rule *b)
{
	return !strcmp(a->name, b->name) && !strcmp(a->process, b->process) &&
	       !strcmp(a->cgroup, b->cgroup) && !strcmp(a->event, b->event) &&
	       !strcmp(a->command, b->command) && !strcmp(a->from, b->from) &&
	       !strcmp(a->to, b->to) && !strcmp(a->key, b->key) && !strcmp(a->mark, b->mark) &&
	       a->when == b->when && a->above == b->above && a->below == b->below &&
	       a->threads == b->threads && a->hold_ns == b->hold_ns && a->calm_ns == b->calm_ns &&
	       a->before_ns == b->before_ns && a->after_ns == b->after_ns &&
	       a->longest_ns == b->longest_ns && a->cooldown_ns == b->cooldown_ns &&
	       a->each_ns == b->each_ns && a->per_day == b->per_day;
}
