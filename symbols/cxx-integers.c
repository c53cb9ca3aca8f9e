/* cxx-integers.c - see cxx-names.h. */
#include <string.h>

#include "base/util.h"
#include "symbols/cxx-names.h"

static bool is_word(char ch)
{
	return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
	       ch == '_';
}

size_t uw_cxx_integer_at(const char *text, const char *at, const char **ret_name)
{
	static const char *const names[][2] = {
		{"long long unsigned int", "unsigned long long"},
		{"long unsigned int", "unsigned long"},
		{"short unsigned int", "unsigned short"},
		{"__int128 unsigned", "unsigned __int128"},
		{"long long int", "long long"},
		{"long int", "long"},
		{"short int", "short"},
	};

	if (at > text && is_word(at[-1]))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		size_t len = strlen(names[i][0]);

		if (strncmp(at, names[i][0], len) != 0 || is_word(at[len]))
			continue;
		*ret_name = names[i][1];
		return len;
	}
	return 0;
}
