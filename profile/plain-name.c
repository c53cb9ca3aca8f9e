/* plain-name.c - see plain-name.h.  Names are foreign: what is not balanced ends the name. */
#include <stdbool.h>
#include <string.h>

#include "profile/plain-name.h"

#define ANONYMOUS "(anonymous namespace)::"

struct plain {
	char *to;
	size_t n, size;
	bool open_brace, open_abi; /* one is not closed: not looked for again */
};

static void put(struct plain *p, const char *text, size_t len)
{
	for (size_t i = 0; i < len && p->n + 1 < p->size; i++)
		p->to[p->n++] = text[i];
}

/* The bytes from a bracket to the one that closes it; 0: none does.  "->" closes nothing. */
static size_t bracketed(const char *at, char open, char close)
{
	size_t depth = 0;

	for (size_t i = 0; at[i]; i++) {
		if (at[i] == open)
			depth++;
		else if (at[i] == close && !(close == '>' && i && at[i - 1] == '-') && !--depth)
			return i + 1;
	}
	return 0;
}

/* The same; not looked for again once one is not closed, so that all of a name takes linear time. */
static size_t bracketed_unless(bool *never, const char *at, char open, char close)
{
	size_t n = *never ? 0 : bracketed(at, open, close);

	*never = !n;
	return n;
}

static bool begins_part(const struct plain *p)
{
	return !p->n || p->to[p->n - 1] == ':';
}

/* "operator" and its signs: the most that are an operator, as "<" of arguments may follow. */
static size_t operator_bytes(const char *at)
{
	static const char *const signs[] = {
		"<=>", "<<=", ">>=", "->*", "()", "[]", "->", "<<", ">>", "<=", ">=", "==", "!=",
		"&&",  "||",  "++",  "--",  "+=", "-=", "*=", "/=", "%=", "^=", "&=", "|=", "<",
		">",   "=",   "!",   "+",   "-",  "*",	"/",  "%",  "^",  "&",	"|",  "~",  ",",
	};
	size_t word = strlen("operator");

	if (strncmp(at, "operator", word) != 0)
		return 0;
	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
		if (!strncmp(at + word, signs[i], strlen(signs[i])))
			return word + strlen(signs[i]);
	return 0;
}

/* The bytes of template arguments, with a blank before them; 0: they do not end. */
static size_t arguments(const char *at)
{
	size_t blank = *at == ' ', n = bracketed(at + blank, '<', '>');

	return n ? blank + n : 0;
}

/* The bytes of parameters and of what qualifies their function; 0: the name ends here. */
static size_t parameters(const char *at)
{
	static const char *const qualifiers[] = {" const", " volatile", " &&", " &", " noexcept"};
	size_t n = bracketed(at, '(', ')');

	for (size_t i = 0; n && i < sizeof(qualifiers) / sizeof(qualifiers[0]); i++)
		if (!strncmp(at + n, qualifiers[i], strlen(qualifiers[i])))
			n += strlen(qualifiers[i]);
	return n && !strncmp(at + n, "::", 2) ? n : 0;
}

/* The bytes that are left out from @at on. */
static size_t left_out(struct plain *p, const char *at)
{
	if (!strncmp(at, ANONYMOUS, strlen(ANONYMOUS)))
		return strlen(ANONYMOUS);
	if (*at == '(')
		return parameters(at);
	if (*at == '<' || !strncmp(at, " <", 2))
		return arguments(at);
	return !strncmp(at, "[abi:", 5) ? bracketed_unless(&p->open_abi, at, '[', ']') : 0;
}

void plain_name(const char *name, char *to, size_t size)
{
	struct plain p = {.to = to, .size = size};

	while (*name && strncmp(name, " [", 2) != 0) {
		size_t kept = begins_part(&p) ? operator_bytes(name) : 0, out;

		/* A lambda, with its own parameters, and "<lambda(int)>". */
		if (*name == '{')
			kept = bracketed_unless(&p.open_brace, name, '{', '}');
		else if (p.n && *name == '<' && begins_part(&p))
			kept = bracketed(name, '<', '>');
		out = kept ? 0 : left_out(&p, name);
		if (!kept && !out && strchr("(<", *name))
			break;
		kept = kept || out ? kept : 1;
		put(&p, name, kept);
		name += kept + out;
	}
	to[p.n] = 0;
}

int plain_name_fits(const char *name, size_t len, const char *wanted, const char *separators)
{
	size_t n = strlen(wanted), at;

	if (!n || n > len || memcmp(name + len - n, wanted, n) != 0)
		return 0;
	at = len - n;
	if (!at)
		return 2;
	return (at >= 2 && name[at - 1] == ':' && name[at - 2] == ':') ||
	       strchr(separators, name[at - 1]);
}
