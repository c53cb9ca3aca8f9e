/* cxx-words.c - how types are spelled: see cxx-names.h. */
#include <dwarf.h>
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

const char *uw_cxx_modifier(Dwarf_Die *die)
{
	switch (dwarf_tag(die)) {
	case DW_TAG_pointer_type:
		return "*";
	case DW_TAG_reference_type:
		return "&";
	case DW_TAG_rvalue_reference_type:
		return "&&";
	case DW_TAG_const_type:
		return " const";
	case DW_TAG_volatile_type:
		return " volatile";
	case DW_TAG_restrict_type:
		return " __restrict";
	case DW_TAG_ptr_to_member_type:
		return "::*";
	case DW_TAG_typedef:
		return "";
	default:
		return NULL;
	}
}
