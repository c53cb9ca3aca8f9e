/* cxx-names.c - see cxx-names.h.
 *
 * clang gives each function its linkage name.  g++ gives none to a function that other units cannot refer to: static ones, those of
 * an anonymous namespace, lambdas of main() and of static functions, and what is instantiated with their types.  Where one is inlined
 * everywhere there is no symbol either, so the name is put together as the demangler would write it, from the DIEs around the
 * declaration, its template arguments and its parameters.  Where it has a symbol too, both are spelled alike:
 *
 *   namespace       space::                        no name: (anonymous namespace)::
 *   structure       S<int>::                       no name, but operator(): {lambda(int)#1}::
 *   function        run<main::{lambda(int)#2}>(main::{lambda(int)#2}, int)
 *
 * The number of a lambda: g++ counts the lambdas of a function as the source has them, from 13 on only those of one signature
 * (-fabi-version=18).  A lambda outside of functions belongs to its variable.  Else it has its line: {lambda:41}.
 *
 * The parent of a DIE is not in DWARF.  It is found from the unit inwards: of each scope on the path the places of its children are
 * listed once.  Siblings and references are what the file states: siblings must ascend, and the bytes that are walked over are
 * bounded for each name and each file. */
#include <dwarf.h>
#include <inttypes.h>
#include <string.h>

#include "base/util.h"
#include "symbols/cxx-names.h"
#include "symbols/demangle.h"

enum {
	SCOPES_MAX = 64,
	MODIFIERS_MAX = 16,
	DEPTH_MAX = 12,
	SIGNATURE_BYTES = 512,
	AUTOS_MAX = 8,
	NEAR_MAX = 32,	      /* DIEs between a lambda and its variable */
	NAME_LOOK = 1 << 20,  /* bytes of DIEs, for a name ... */
	FILE_LOOK = 1 << 28,  /* ... and for all of a file: about a second */
	DIE_LOOK = 16,	      /* a DIE, the children of which are skipped */
	BYTES_MAX = 16 << 20, /* of what is kept */
	CHILDREN_MAX = BYTES_MAX / sizeof(void *),
	ABI_18_SINCE = 13,	    /* of g++ */
	LANG_C_PLUS_PLUS_17 = 0x2a, /* libdw 0.188 lacks these */
	LANG_C_PLUS_PLUS_20 = 0x2b,
};

struct uw_children {
	size_t n;
	int typed;	  /* of a unit: 1: a type is among them, -1: none, 0: not looked for */
	const void *at[]; /* ascending */
};

struct autos;

struct naming {
	struct uw_names *names;
	struct uw_text text;
	uint64_t look_to;
	unsigned depth;
	bool failed; /* a bound was reached: rather the name alone than a part of its scopes */
	bool by_signature; /* lambdas are counted so */
};

static void drop_kept(struct uw_names *names)
{
	table_for_each (&names->names, slot)
		free((void *)(uintptr_t)slot->value);
	table_for_each (&names->children, slot)
		free((void *)(uintptr_t)slot->value);
	table_deinit(&names->names);
	table_deinit(&names->children);
	names->bytes = 0;
}

/* What is kept can be found again: FILE_LOOK bounds how often. */
static void make_room(struct uw_names *names, size_t bytes)
{
	if (names->bytes + bytes > BYTES_MAX)
		drop_kept(names);
}

void uw_names_deinit(struct uw_names *names)
{
	drop_kept(names);
	free(names->list);
	*names = (struct uw_names){0};
}

/* ---- DIEs ---- */

/* The DIE that stands where the source has the declaration: code out of line, inlined calls and LTO's units refer to it. */
static Dwarf_Die declaration_of(Dwarf_Die die)
{
	for (int i = 0; i < SCOPES_MAX; i++) {
		Dwarf_Attribute attr;
		Dwarf_Die to;

		if (!dwarf_formref_die(dwarf_attr(&die, DW_AT_abstract_origin, &attr), &to) &&
		    !dwarf_formref_die(dwarf_attr(&die, DW_AT_specification, &attr), &to))
			break;
		die = to;
	}
	return die;
}

/* The next one must stand behind @die. */
static bool next_sibling(struct uw_names *names, Dwarf_Die *die)
{
	bool skips = dwarf_hasattr(die, DW_AT_sibling);
	Dwarf_Off from = dwarf_dieoffset(die);

	if (dwarf_siblingof(die, die) != 0 || dwarf_dieoffset(die) <= from)
		return false;
	names->looked += skips ? DIE_LOOK : dwarf_dieoffset(die) - from;
	return true;
}

static bool may_look(struct naming *n)
{
	n->failed |= n->names->looked >= n->look_to;
	return !n->failed;
}

#define for_each_child(n, parent, die)                                         \
	for (bool next_ = may_look(n) && dwarf_child(parent, die) == 0; next_; \
	     next_ = may_look(n) && next_sibling((n)->names, die))

/* What the attribute refers to. */
static bool refers_to(Dwarf_Die *die, unsigned name, Dwarf_Die *ret_type)
{
	Dwarf_Attribute attr;

	return dwarf_formref_die(dwarf_attr(die, name, &attr), ret_type);
}

static void skip_const(Dwarf_Die *type)
{
	for (int i = 0; i < MODIFIERS_MAX && dwarf_tag(type) == DW_TAG_const_type; i++)
		if (!refers_to(type, DW_AT_type, type))
			return;
}

static bool has_flag(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attr;
	bool flag;

	return dwarf_formflag(dwarf_attr(die, name, &attr), &flag) == 0 && flag;
}

/* The whole type of @die: with -fdebug-types-section it lies in another unit. */
static Dwarf_Die definition_of(Dwarf_Die *die)
{
	Dwarf_Die whole;

	return refers_to(die, DW_AT_signature, &whole) ? whole : *die;
}

static bool is_class(Dwarf_Die *die)
{
	int tag = dwarf_tag(die);

	return tag == DW_TAG_class_type || tag == DW_TAG_structure_type || tag == DW_TAG_union_type;
}

/* ---- the DIEs around a DIE ---- */

static struct uw_children *list_children(struct naming *n, Dwarf_Die *scope)
{
	struct uw_names *names = n->names;
	struct uw_children *new;
	Dwarf_Die die;
	size_t bytes;

	names->n = 0;
	for_each_child (n, scope, &die) {
		if (names->n == CHILDREN_MAX)
			return NULL;
		if (names->n == names->room && !array_grow(names->list, names->room, 256))
			return NULL;
		names->list[names->n++] = die.addr;
	}
	if (n->failed)
		return NULL;
	bytes = sizeof(*new) + names->n * sizeof(*new->at);
	make_room(names, bytes + TABLE_ENTRY_BYTES);
	new = malloc(bytes);
	if (!new || table_put(&names->children, (uintptr_t)scope->addr, (uintptr_t) new) < 0) {
		free(new);
		return NULL;
	}
	names->bytes += bytes + TABLE_ENTRY_BYTES;
	new->n = names->n;
	new->typed = 0;
	if (new->n)
		memcpy(new->at, names->list, new->n * sizeof(*new->at));
	return new;
}

/* Listed once for all names, so at the cost of the file.  NULL: beyond the bounds. */
static struct uw_children *children_of(struct naming *n, Dwarf_Die *scope)
{
	struct uw_children *known = table_pointer(&n->names->children, (uintptr_t)scope->addr);
	uint64_t before = n->names->looked, look_to = n->look_to;

	if (known)
		return known;
	n->look_to = FILE_LOOK;
	known = list_children(n, scope);
	n->look_to = min_u64(look_to + n->names->looked - before, FILE_LOOK);
	return known;
}

/* The scopes around @die from the unit on, then itself.  0: not found. */
static size_t find_path(struct naming *n, Dwarf_Die *die, Dwarf_Die path[SCOPES_MAX])
{
	Dwarf *dwarf = dwarf_cu_getdwarf(die->cu);
	size_t len = 1;

	if (!dwarf_diecu(die, &path[0], NULL, NULL))
		return 0;
	for (; path[len - 1].addr != die->addr; len++) {
		const struct uw_children *c = children_of(n, &path[len - 1]);
		size_t low = c ? bisect(i, c->n, (uintptr_t)c->at[i] <= (uintptr_t)die->addr) : 0;

		if (!low || len == SCOPES_MAX ||
		    !dwarf_die_addr_die(dwarf, (void *)c->at[low - 1], &path[len]))
			return 0;
	}
	return len;
}

/* ---- text ---- */

static size_t room_of(const struct naming *n)
{
	return n->text.size - 1 - n->text.len;
}

/* A text may be a name of the file, as long as that states: it is read as far as there is room. */
static void put(struct naming *n, const char *text)
{
	size_t len = strnlen(text, room_of(n));

	(void)uw_text_add(&n->text, text, len);
	n->names->looked += len;
}

static void put_number(struct naming *n, uint64_t number, const char *suffix)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%" PRIu64 "%s", number, suffix);
	put(n, text);
}

static void put_demangled(struct naming *n, const char *name)
{
	char *to = n->text.to + n->text.len;

	uw_demangle(name, to, n->text.size - n->text.len);
	n->text.len += strlen(to);
}

static void put_space_behind(struct naming *n, char last)
{
	if (n->text.len && n->text.to[n->text.len - 1] == last)
		put(n, " ");
}

/* ---- types ---- */

static void put_type(struct naming *n, Dwarf_Die *type, struct autos *autos);
static void put_scoped(struct naming *n, Dwarf_Die *die);

/* The template arguments of a generic lambda, which stand for "auto" in its parameters. */
struct autos {
	Dwarf_Die args[AUTOS_MAX];
	unsigned n, next;
};

static bool put_auto(struct naming *n, Dwarf_Die *type, struct autos *autos)
{
	if (!autos || autos->next == autos->n || autos->args[autos->next].addr != type->addr)
		return false;
	put(n, "auto:");
	put_number(n, ++autos->next, "");
	return true;
}

/* A name of a type, or with names of types in it. */
static void put_typed(struct naming *n, const char *text)
{
	const char *at = text, *from = text, *name;

	while ((size_t)(at - from) < room_of(n) && *at) {
		size_t len = uw_cxx_integer_at(text, at, &name);

		if (!len) {
			at++;
			continue;
		}
		(void)uw_text_add(&n->text, from, (size_t)(at - from));
		put(n, name);
		from = at += len;
	}
	(void)uw_text_add(&n->text, from, (size_t)(at - from));
	n->names->looked += (uint64_t)(at - text);
}

static void put_param(struct naming *n, Dwarf_Die *param, struct autos *autos)
{
	Dwarf_Die type;

	if (dwarf_tag(param) == DW_TAG_unspecified_parameters) {
		put(n, "...");
	} else if (refers_to(param, DW_AT_type, &type)) {
		skip_const(&type); /* of the parameter itself: not a part of the signature */
		put_type(n, &type, autos);
	}
}

/* Returns whether there are some, here or @before. */
static bool put_param_list(struct naming *n, Dwarf_Die *die, struct autos *autos, bool before,
			   bool in_pack)
{
	Dwarf_Die param;

	for_each_child (n, die, &param) {
		int tag = dwarf_tag(&param);

		if (tag == DW_TAG_GNU_formal_parameter_pack && !in_pack) {
			before = put_param_list(n, &param, autos, before, true);
			continue;
		}
		if ((tag != DW_TAG_formal_parameter && tag != DW_TAG_unspecified_parameters) ||
		    has_flag(&param, DW_AT_artificial))
			continue;
		put(n, before ? ", " : "");
		put_param(n, &param, autos);
		before = true;
	}
	return before;
}

static bool is_type(Dwarf_Die *die)
{
	int tag = dwarf_tag(die);

	return is_class(die) || tag == DW_TAG_base_type || tag == DW_TAG_enumeration_type ||
	       tag == DW_TAG_pointer_type || tag == DW_TAG_imported_unit; /* of dwz: types */
}

/* Has the unit of @die types, so that its functions have their parameters?  Of -g1 (clang: -gmlt) it has not. */
static bool has_types(struct naming *n, Dwarf_Die *die)
{
	Dwarf *dwarf = dwarf_cu_getdwarf(die->cu);
	Dwarf_Die unit, child;
	struct uw_children *c = dwarf_diecu(die, &unit, NULL, NULL) ? children_of(n, &unit) : NULL;

	for (size_t i = 0; c && !c->typed && i < c->n; i++)
		if (dwarf_die_addr_die(dwarf, (void *)c->at[i], &child) && is_type(&child))
			c->typed = 1;
	if (c && !c->typed)
		c->typed = -1;
	return c && c->typed > 0;
}

/* Returns whether there are some. */
static bool put_params(struct naming *n, Dwarf_Die *function, struct autos *autos)
{
	bool some;

	put(n, "(");
	some = put_param_list(n, function, autos, false, false);
	put(n, ")");
	return some;
}

static void put_modifiers(struct naming *n, Dwarf_Die *modifiers, unsigned n_modifiers)
{
	Dwarf_Die type;

	while (n_modifiers--) {
		Dwarf_Die *die = &modifiers[n_modifiers];

		if (dwarf_tag(die) == DW_TAG_ptr_to_member_type &&
		    refers_to(die, DW_AT_containing_type, &type)) {
			put(n, n->text.len && n->text.to[n->text.len - 1] == '(' ? "" : " ");
			put_scoped(n, &type);
		}
		put(n, uw_cxx_modifier(die));
	}
}

static void put_bounds(struct naming *n, Dwarf_Die *array)
{
	Dwarf_Attribute attr;
	Dwarf_Word number;
	Dwarf_Die die;

	put(n, " ");
	for_each_child (n, array, &die) {
		put(n, "[");
		if (dwarf_formudata(dwarf_attr(&die, DW_AT_count, &attr), &number) == 0)
			put_number(n, number, "");
		else if (dwarf_formudata(dwarf_attr(&die, DW_AT_upper_bound, &attr), &number) == 0)
			put_number(n, number + 1, "");
		put(n, "]");
	}
}

/* int (&) [3], int (*)(char): what points to an array or a function stands inside. */
static void put_around(struct naming *n, Dwarf_Die *die, Dwarf_Die *modifiers, unsigned n_modifiers)
{
	Dwarf_Die type;

	if (refers_to(die, DW_AT_type, &type))
		put_type(n, &type, NULL);
	else
		put(n, "void");
	put(n, " ");
	if (n_modifiers) {
		put(n, "(");
		put_modifiers(n, modifiers, n_modifiers);
		put(n, ")");
	}
	if (dwarf_tag(die) == DW_TAG_subroutine_type)
		(void)put_params(n, die, NULL);
	else
		put_bounds(n, die);
}

/* libdw walks over a name to the attributes behind it, fast. */
static void charge(struct naming *n, Dwarf_Die *die)
{
	n->names->looked += DIE_LOOK + strnlen(dwarf_diename(die) ?: "", NAME_LOOK) / DIE_LOOK;
}

/* Pointers and the like follow the type that they are of: const of a pointer to a char in DWARF is char* const. */
static void put_type(struct naming *n, Dwarf_Die *type, struct autos *autos)
{
	Dwarf_Die modifiers[MODIFIERS_MAX], die = *type;
	unsigned n_modifiers = 0;
	bool is_auto, is_void = false;

	if (n->depth == DEPTH_MAX || !may_look(n)) {
		n->failed = true;
		return;
	}
	n->depth++;
	charge(n, &die);
	while (!(is_auto = put_auto(n, &die, autos)) && !is_void && uw_cxx_modifier(&die) &&
	       n_modifiers < MODIFIERS_MAX) {
		charge(n, &die);
		modifiers[n_modifiers++] = die;
		is_void = !refers_to(&die, DW_AT_type, &die);
	}
	n->failed |= n_modifiers == MODIFIERS_MAX;
	if (is_void)
		put(n, "void");
	if (!is_auto && !is_void)
		switch (dwarf_tag(&die)) {
		case DW_TAG_base_type:
			put_typed(n, dwarf_diename(&die) ?: "");
			break;
		case DW_TAG_array_type:
		case DW_TAG_subroutine_type:
			put_around(n, &die, modifiers, n_modifiers);
			n_modifiers = 0;
			break;
		default:
			put_scoped(n, &die);
		}
	put_modifiers(n, modifiers, n_modifiers);
	n->depth--;
}

/* ---- template arguments ---- */

/* Where they begin in a name of DWARF: behind the '<' of an operator. */
static const char *arguments_in(const char *name, size_t len)
{
	size_t skip = strncmp(name, "operator", 8) != 0 ? 0 : 8;

	while (skip && skip < len && strchr("<=>", name[skip]))
		skip++;
	return skip < len ? memchr(name + skip, '<', len - skip) : NULL;
}

/* A value as the demangler writes it; false: it cannot be known here. */
static bool put_value(struct naming *n, Dwarf_Die *argument)
{
	static const char *const suffixes[][2] = {{"int", ""},
						  {"unsigned int", "u"},
						  {"long int", "l"},
						  {"long unsigned int", "ul"},
						  {"long long int", "ll"},
						  {"long long unsigned int", "ull"}};
	Dwarf_Attribute attr;
	Dwarf_Sword value;
	Dwarf_Die type;
	const char *name;

	if (!refers_to(argument, DW_AT_type, &type) ||
	    dwarf_formsdata(dwarf_attr(argument, DW_AT_const_value, &attr), &value) != 0)
		return false;
	name = dwarf_diename(&type);
	if (name && !strcmp(name, "bool")) {
		put(n, value ? "true" : "false");
		return true;
	}
	for (size_t i = 0; name && i < ARRAY_SIZE(suffixes); i++) {
		if (strcmp(name, suffixes[i][0]) != 0)
			continue;
		put(n, value < 0 ? "-" : "");
		put_number(n, value < 0 ? -(uint64_t)value : (uint64_t)value, suffixes[i][1]);
		return true;
	}
	put(n, "(");
	put_type(n, &type, NULL);
	put(n, ")");
	put_number(n, (uint64_t)value, "");
	return true;
}

/* Adds the arguments of @die, or of a pack in it.  g++ repeats those of a generic lambda. */
static bool put_arguments(struct naming *n, Dwarf_Die *die, bool *first, bool in_pack)
{
	const char *first_name = NULL;
	Dwarf_Die argument, type;
	unsigned count = 0;

	for_each_child (n, die, &argument) {
		const char *name = dwarf_diename(&argument);
		int tag = dwarf_tag(&argument);

		if (tag == DW_TAG_GNU_template_parameter_pack) {
			if (in_pack || !put_arguments(n, &argument, first, true))
				return false;
			continue;
		}
		if (tag == DW_TAG_GNU_template_template_param)
			return false;
		if (tag != DW_TAG_template_type_parameter && tag != DW_TAG_template_value_parameter)
			continue;
		if (count++ && name && first_name && !strncmp(name, first_name, SIGNATURE_BYTES))
			break;
		first_name = first_name ?: name;
		put(n, *first ? "" : ", ");
		*first = false;
		if (tag == DW_TAG_template_value_parameter) {
			if (!put_value(n, &argument))
				return false;
		} else if (refers_to(&argument, DW_AT_type, &type)) {
			put_type(n, &type, NULL);
		} else {
			put(n, "void");
		}
	}
	return true;
}

/* The name of a function or class: its template arguments from their DIEs, if DWARF has them. */
static void put_own_name(struct naming *n, Dwarf_Die *die, const char *name)
{
	size_t before = n->text.len, len = strnlen(name, room_of(n));
	const char *arguments = arguments_in(name, len);
	bool first = true;

	n->names->looked += len;
	if (arguments) {
		while (arguments > name && arguments[-1] == ' ')
			arguments--;
		(void)uw_text_add(&n->text, name, (size_t)(arguments - name));
		put_space_behind(n, '<');
		put(n, "<");
		if (put_arguments(n, die, &first, false) && !first) {
			put_space_behind(n, '>');
			put(n, ">");
			return;
		}
		n->text.len = before;
	}
	put_typed(n, name); /* a declaration lacks them */
}

/* ---- lambdas ---- */

/* operator() of a closure type, one of its instances if it is generic. */
static bool call_of(struct naming *n, Dwarf_Die *closure, Dwarf_Die *ret_call)
{
	Dwarf_Die whole = definition_of(closure);

	if (!is_class(closure) || dwarf_diename(&whole))
		return false;
	for_each_child (n, &whole, ret_call) {
		const char *name =
			dwarf_tag(ret_call) == DW_TAG_subprogram ? dwarf_diename(ret_call) : NULL;

		if (name && !strncmp(name, "operator()", 10))
			return true;
	}
	return false;
}

/* false: arguments of a template that are not written "auto". */
static bool find_autos(struct naming *n, Dwarf_Die *call, struct autos *autos)
{
	char first[16] = "";
	Dwarf_Die die;

	for_each_child (n, call, &die) {
		const char *name = dwarf_diename(&die);
		int tag = dwarf_tag(&die);

		if (tag == DW_TAG_GNU_template_parameter_pack ||
		    tag == DW_TAG_template_value_parameter)
			return false;
		if (tag != DW_TAG_template_type_parameter)
			continue;
		if (!name || strncmp(name, "auto:", 5) != 0)
			return false;
		if (!strcmp(name, first))
			break;
		if (autos->n == AUTOS_MAX || !refers_to(&die, DW_AT_type, &autos->args[autos->n]))
			return false;
		if (!autos->n++)
			(void)snprintf(first, sizeof(first), "%s", name);
	}
	return true;
}

/* (int, auto:1&); false: it is not known. */
static bool put_signature(struct naming *n, Dwarf_Die *call)
{
	struct autos autos = {.n = 0};

	if (!find_autos(n, call, &autos))
		return false;
	(void)put_params(n, call, &autos);
	return autos.next == autos.n;
}

static bool signature_of(struct naming *n, Dwarf_Die *call, char to[SIGNATURE_BYTES])
{
	struct naming own = *n;
	bool known;

	own.text = (struct uw_text){.to = to, .size = SIGNATURE_BYTES};
	known = put_signature(&own, call);
	to[own.text.len] = 0;
	n->failed |= own.failed;
	n->look_to = own.look_to;
	return known;
}

static uint32_t number_of(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attr;
	Dwarf_Word value;

	return dwarf_formudata(dwarf_attr(die, name, &attr), &value) == 0
		       ? (uint32_t)min_u64(value, UINT32_MAX)
		       : 0;
}

static uint64_t place_of(Dwarf_Die *closure)
{
	Dwarf_Die whole = definition_of(closure);

	return (uint64_t)number_of(&whole, DW_AT_decl_line) << 32 |
	       number_of(&whole, DW_AT_decl_column);
}

static bool stands_before(Dwarf_Die *a, Dwarf_Die *b)
{
	uint64_t place_a = place_of(a), place_b = place_of(b);

	return place_a != place_b ? place_a < place_b : dwarf_dieoffset(a) < dwarf_dieoffset(b);
}

/* How many lambdas of the function that @scope is in stand before @closure. */
static unsigned count_before(struct naming *n, Dwarf_Die *scope, Dwarf_Die *closure,
			     const char *signature)
{
	char other[SIGNATURE_BYTES];
	Dwarf_Die die, call;
	unsigned count = 0;

	if (n->depth == DEPTH_MAX) {
		n->failed = true;
		return 0;
	}
	n->depth++;
	for_each_child (n, scope, &die) {
		if (dwarf_tag(&die) == DW_TAG_lexical_block)
			count += count_before(n, &die, closure, signature);
		else if (call_of(n, &die, &call) && stands_before(&die, closure))
			count += !n->by_signature ||
				 (signature_of(n, &call, other) && !strcmp(other, signature));
	}
	n->depth--;
	return count;
}

/* The variable that @closure initializes; it stands soon behind it. */
static const char *variable_of(struct naming *n, Dwarf_Die *closure)
{
	Dwarf_Die die = *closure, type;

	for (unsigned i = 0; i < NEAR_MAX && may_look(n) && next_sibling(n->names, &die); i++) {
		if (dwarf_tag(&die) != DW_TAG_variable || !refers_to(&die, DW_AT_type, &type))
			continue;
		skip_const(&type);
		if (type.addr == closure->addr)
			return dwarf_diename(&die);
	}
	return NULL;
}

/* @path: the scopes around the closure type, which is @call's. */
static void put_lambda(struct naming *n, Dwarf_Die *closure, Dwarf_Die *call, Dwarf_Die *path,
		       size_t len)
{
	char signature[SIGNATURE_BYTES];
	bool known = signature_of(n, call, signature);
	const char *variable = NULL;
	unsigned number = 1;

	while (len && dwarf_tag(&path[len - 1]) == DW_TAG_lexical_block)
		len--;
	if (known && len && dwarf_tag(&path[len - 1]) == DW_TAG_subprogram) {
		number += count_before(n, &path[len - 1], closure, signature);
	} else {
		variable = known ? variable_of(n, closure) : NULL;
		known = variable;
	}
	if (variable) {
		put(n, variable);
		put(n, "::");
	}
	put(n, known ? "{lambda" : "{lambda:");
	put(n, known ? signature : "");
	put(n, known ? "#" : "");
	put_number(n, known ? number : place_of(closure) >> 32, "}");
}

/* ---- functions and types with their scopes ---- */

static void put_function(struct naming *n, Dwarf_Die *die);

/* The linkage name of @die, or the one of the function that it is the code of. */
static const char *linkage_name(Dwarf_Die *die)
{
	Dwarf_Attribute attr;

	return dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &attr))
		       ?: dwarf_formstring(
				  dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attr));
}

/* A closure type by the linkage name of its operator(), if that has one. */
static bool put_by_linkage(struct naming *n, Dwarf_Die *call)
{
	static const char tail[] = "::operator()";
	const char *name = linkage_name(call);
	char *begin = n->text.to + n->text.len, *end = NULL;

	if (!name)
		return false;
	put_demangled(n, name);
	for (char *at = begin; (at = strstr(at, tail)); at++)
		end = at;
	n->text.len = (size_t)((end ?: begin) - n->text.to);
	return end;
}

/* One scope, @whole its definition, behind the @base bytes that were there before the outermost one. */
static void put_scope(struct naming *n, Dwarf_Die *scope, Dwarf_Die *whole, size_t base,
		      Dwarf_Die *path, size_t len)
{
	const char *name = dwarf_diename(scope);
	Dwarf_Die call;

	switch (dwarf_tag(scope)) {
	case DW_TAG_namespace:
		put(n, name ?: "(anonymous namespace)");
		return;
	case DW_TAG_subprogram: /* whole, as it may lie elsewhere than its declaration */
		n->text.len = base;
		put_function(n, scope);
		return;
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
		if (name) {
			put_own_name(n, whole, name);
		} else if (call_of(n, scope, &call)) {
			size_t before = n->text.len;

			n->text.len = base;
			if (put_by_linkage(n, &call))
				return;
			n->text.len = before;
			put_lambda(n, scope, &call, path, len);
		} else {
			put(n, "{unnamed type}");
		}
		return;
	default:
		put(n, name ?: "");
	}
}

/* Names of types recur in those of functions. */
static void keep_name(struct uw_names *names, Dwarf_Die *declared, const char *name, size_t len)
{
	char *copy;

	if (table_pointer(&names->names, (uintptr_t)declared->addr))
		return; /* it was met in itself */
	copy = strndup(name, len);
	make_room(names, len + 1 + TABLE_ENTRY_BYTES);
	if (!copy || table_put(&names->names, (uintptr_t)declared->addr, (uintptr_t)copy) < 0)
		free(copy);
	else
		names->bytes += len + 1 + TABLE_ENTRY_BYTES;
}

/* The scopes around @die, each with "::" behind it. */
static void put_scopes(struct naming *n, Dwarf_Die *die, Dwarf_Die *path, size_t *ret_len)
{
	size_t base = n->text.len, len = find_path(n, die, path);
	Dwarf_Die whole;

	n->failed |= !len;
	*ret_len = len ? len - 1 : 0;
	for (size_t i = 1; i + 1 < len && !n->failed; i++) {
		size_t before = n->text.len;

		if (dwarf_tag(&path[i]) == DW_TAG_lexical_block)
			continue;
		whole = definition_of(&path[i]);
		put_scope(n, &path[i], &whole, base, path, i);
		if (n->text.len > before || dwarf_tag(&path[i]) == DW_TAG_subprogram)
			put(n, "::");
	}
}

static void put_scoped(struct naming *n, Dwarf_Die *die)
{
	Dwarf_Die path[SCOPES_MAX], whole = definition_of(die), declared = declaration_of(whole);
	size_t base = n->text.len, len;
	const char *known;

	if (!dwarf_diename(&whole)) /* a closure type is known by its place in the function */
		declared = declaration_of(*die);
	known = table_pointer(&n->names->names, (uintptr_t)declared.addr);
	if (known) {
		put(n, known);
		return;
	}
	if (n->depth == DEPTH_MAX) {
		n->failed = true;
		return;
	}
	n->depth++;
	put_scopes(n, &declared, path, &len);
	if (!n->failed)
		put_scope(n, &declared, &whole, base, path, len);
	n->depth--;
	if (!n->failed && n->text.len < n->text.size - 1)
		keep_name(n->names, &declared, n->text.to + base, n->text.len - base);
}

/* Is it a method for constant objects? */
static bool is_const_method(struct naming *n, Dwarf_Die *function)
{
	Dwarf_Die die, type;

	for_each_child (n, function, &die) {
		if (dwarf_tag(&die) != DW_TAG_formal_parameter || !has_flag(&die, DW_AT_artificial))
			continue;
		if (!refers_to(&die, DW_AT_type, &type))
			return false;
		if (dwarf_tag(&type) == DW_TAG_const_type && !refers_to(&type, DW_AT_type, &type))
			return false;
		return dwarf_tag(&type) == DW_TAG_pointer_type &&
		       refers_to(&type, DW_AT_type, &type) && dwarf_tag(&type) == DW_TAG_const_type;
	}
	return false;
}

/* A function without linkage name that other units can refer to is one of C: its symbol is its name. */
static void put_function(struct naming *n, Dwarf_Die *die)
{
	Dwarf_Die path[SCOPES_MAX], declared = declaration_of(*die), defined = *die;
	const char *linkage = linkage_name(die), *name = dwarf_diename(&declared);
	size_t len, base;

	if (linkage) {
		put_demangled(n, linkage);
	} else if (!name || n->depth == DEPTH_MAX) {
		n->failed = true;
	} else if (has_flag(&declared, DW_AT_external)) {
		put(n, name);
	} else {
		n->depth++;
		/* the declaration may lack the parameters (-fdebug-types-section) */
		for (int i = 0;
		     i < SCOPES_MAX && refers_to(&defined, DW_AT_abstract_origin, &defined); i++)
			;
		put_scopes(n, &declared, path, &len);
		put_own_name(n, &defined, name);
		base = n->text.len;
		if (!put_params(n, &defined, NULL) && !has_types(n, &defined))
			n->text.len = base;
		put(n, is_const_method(n, &defined) ? " const" : "");
		n->depth--;
	}
}

/* ---- one name ---- */

static bool is_cplusplus(Dwarf_Die *unit)
{
	switch (dwarf_srclang(unit)) {
	case DW_LANG_C_plus_plus:
	case DW_LANG_C_plus_plus_03:
	case DW_LANG_C_plus_plus_11:
	case DW_LANG_C_plus_plus_14:
	case LANG_C_PLUS_PLUS_17:
	case LANG_C_PLUS_PLUS_20:
		return true;
	default:
		return false;
	}
}

/* "GNU C++17 12.2.0 -mtune=generic ..." */
static bool counts_by_signature(Dwarf_Die *unit)
{
	Dwarf_Attribute attr;
	const char *producer = dwarf_formstring(dwarf_attr(unit, DW_AT_producer, &attr));
	unsigned version;

	return !producer || sscanf(producer, "GNU C++%*u %u", &version) != 1 ||
	       version >= ABI_18_SINCE;
}

static void put_together(struct uw_names *names, Dwarf_Die *unit, Dwarf_Die *die, char *to,
			 size_t size)
{
	struct naming n = {
		.names = names,
		.text = {.to = to, .size = size},
		.look_to = min_u64(names->looked + NAME_LOOK, FILE_LOOK),
		.by_signature = counts_by_signature(unit),
	};
	Dwarf_Die declared;

	put_function(&n, die);
	to[n.text.len] = 0;
	if (n.failed) {
		declared = declaration_of(*die);
		(void)snprintf(to, size, "%.*s", (int)(size - 1), dwarf_diename(&declared) ?: "");
	}
}

/* Each name is put together once. */
void uw_names_get(struct uw_names *names, Dwarf_Die *die, char *to, size_t size)
{
	const char *linkage = linkage_name(die), *known;
	Dwarf_Die declared, unit;

	to[0] = 0;
	if (linkage) {
		uw_demangle(linkage, to, size);
		return;
	}
	declared = declaration_of(*die);
	if (!dwarf_diename(&declared))
		return;
	if (!dwarf_diecu(die, &unit, NULL, NULL) || !is_cplusplus(&unit)) {
		uw_demangle(dwarf_diename(&declared), to, size);
		return;
	}
	known = table_pointer(&names->names, (uintptr_t)declared.addr);
	if (known) {
		(void)snprintf(to, size, "%s", known);
		return;
	}
	put_together(names, &unit, die, to, size);
	keep_name(names, &declared, to, strlen(to));
}
