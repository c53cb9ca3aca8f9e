/* test-config-lex.c - the words of the text format and where they stand. */
#include <errno.h>

#include "tests/unit/cmocka.h"

#include "config/config-text.h"

static void assert_token(struct lexer *l, enum token_kind kind, const char *text, unsigned line,
			 unsigned column)
{
	assert_int_equal(lexer_next(l), 0);
	assert_int_equal(l->token.kind, kind);
	assert_int_equal(l->token.len, strlen(text));
	assert_memory_equal(l->token.text, text, strlen(text));
	assert_int_equal(l->token.line, line);
	assert_int_equal(l->token.column, column);
}

static void test_tokens(void **state)
{
	static const char text[] = "a_1:{-0x1e-2 .5e+7f # 'x\n\n\t\"b # \\\" c\"<é";
	char error[64];
	struct lexer l;

	(void)state;
	lexer_init(&l, "f", text, strlen(text), error, sizeof(error));
	assert_token(&l, TOKEN_WORD, "a_1", 1, 1);
	assert_token(&l, TOKEN_SIGN, ":", 1, 4);
	assert_token(&l, TOKEN_SIGN, "{", 1, 5);
	assert_token(&l, TOKEN_SIGN, "-", 1, 6);
	/* hexadecimal has no exponent */
	assert_token(&l, TOKEN_NUMBER, "0x1e", 1, 7);
	assert_token(&l, TOKEN_SIGN, "-", 1, 11);
	assert_token(&l, TOKEN_NUMBER, "2", 1, 12);
	assert_token(&l, TOKEN_NUMBER, ".5e+7f", 1, 14);
	assert_token(&l, TOKEN_STRING, "\"b # \\\" c\"", 3, 2);
	assert_token(&l, TOKEN_SIGN, "<", 3, 12);
	assert_true(lexer_is(&l, '<'));
	assert_token(&l, TOKEN_SIGN, "\xc3", 3, 13);
	assert_token(&l, TOKEN_SIGN, "\xa9", 3, 14);
	assert_token(&l, TOKEN_END, "", 3, 15);
	assert_token(&l, TOKEN_END, "", 3, 15);
	assert_false(lexer_is(&l, 0));
}

static void test_errors(void **state)
{
	const struct token long_word = {
		.kind = TOKEN_WORD, .text = "0123456789012345678901234567890123456789", .len = 40};
	char error[32], name[300];
	struct lexer l;

	(void)state;
	lexer_init(&l, "f", "x \"", 3, error, sizeof(error));
	assert_token(&l, TOKEN_WORD, "x", 1, 1);
	assert_int_equal(lexer_next(&l), -EINVAL);
	assert_string_equal(error, "f:1:3: this string has no end o"); /* what fits */
	assert_string_equal(token_text(&long_word).text, "'01234567890123456789012345678901...'");
	/* a long name of a file leaves no room, and that is all */
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	l.name = name;
	assert_int_equal(lexer_error(&l, &l.token, "%s", "x"), -EINVAL);
	assert_int_equal(strlen(error), sizeof(error) - 1);
}

/* Quotes off, escapes resolved, behind what is there already. */
static void test_unquote(void **state)
{
	static const char text[] = "\"a\\n\\x41\\101\\\"\" 'b\"' \"\\q\"";
	_cleanup_(buffer_deinit) struct buffer b = {0};
	char error[64] = "";
	struct lexer l;

	(void)state;
	lexer_init(&l, "f", text, strlen(text), error, sizeof(error));
	assert_int_equal(lexer_next(&l), 0);
	assert_int_equal(l.token.kind, TOKEN_STRING);
	assert_int_equal(lexer_unquote(&l, &b), 0);
	assert_int_equal(b.len, 5);
	assert_memory_equal(b.data, "a\nAA\"", 5);
	assert_int_equal(lexer_next(&l), 0);
	assert_int_equal(lexer_unquote(&l, &b), 0);
	assert_int_equal(b.len, 7);
	assert_memory_equal(b.data + 5, "b\"", 2);
	assert_int_equal(lexer_next(&l), 0);
	assert_int_equal(lexer_unquote(&l, &b), -EINVAL); /* there is no \q */
	assert_true(*error);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tokens),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_unquote),
	};

	return cmocka_run_group_tests_name("lex", tests, NULL, NULL);
}
