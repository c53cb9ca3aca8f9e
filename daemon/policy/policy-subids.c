/* policy-subids.c - one person, many users: the ranges of ids that /etc/subuid gives to users for their
 * containers.  Thread: main.
 *
 *   NAME:FIRST:COUNT        a line; or the user's number
 *
 * Whoever has a range can be each user of it, by a user namespace or a set-user-ID program made there:
 * 65,536 shares of what one may cost, if each were counted apart.  So limits count the person.  Only
 * limits: what is a process's own goes by the kernel's ids.  A range of root's (Docker's, LXD's) is
 * one person, and not root. */
#include <string.h>

#include "base/error.h"
#include "daemon/policy/policy.h"

enum { MAX_FILE = 1 << 20, MAX_LINE = 256 };

static bool take_number(char **at, uint64_t *ret)
{
	char *word = strsep(at, ":");

	return word && parse_u64(word, 10, UINT32_MAX, ret) == 0;
}

static void parse_line(struct policy *p, char *line)
{
	struct policy_subids *s = &p->subids[p->n_subids];
	char *name = strsep(&line, ":");
	uint64_t first, count;

	if (!line || !take_number(&line, &first) || !take_number(&line, &count) || line || !count ||
	    count > UINT32_MAX - first || !policy_user_id(name, &s->person))
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
		char line[MAX_LINE];

		if (len < sizeof(line)) {
			memcpy(line, text, len);
			line[len] = 0;
			parse_line(p, line);
		}
		text += len + (text[len] == '\n');
	}
}

void policy_subids_read(const char *path, struct policy *p)
{
	_cleanup_(freep) char *text = NULL;

	p->n_subids = 0;
	if (read_file(path, MAX_FILE, &text, NULL) >= 0)
		policy_subids_parse(text, p);
}

uint32_t policy_person(const struct policy *p, uint32_t uid)
{
	for (size_t i = 0; i < p->n_subids; i++)
		if (uid >= p->subids[i].first && uid <= p->subids[i].last)
			return p->subids[i].person;
	return uid;
}
