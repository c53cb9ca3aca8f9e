/* fuzz-rules.c - any bytes as a file of rules.  What must hold: each refusal has its reason and its place. */
#include <string.h>

#include "base/util.h"
#include "watch/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct watch_rules rules;
	char error[512] = "", *text = malloc(size + 1);

	if (!text)
		return 0;
	if (size)
		memcpy(text, data, size);
	text[size] = 0;
	if (watch_rules_parse("f", text, &rules, error, sizeof(error)) < 0 &&
	    strncmp(error, "f:", 2) != 0)
		abort();
	for (size_t i = 0; i < rules.n; i++)
		if (!rules.rules[i].name[0] || rules.rules[i].below > rules.rules[i].above ||
		    !watch_rule_equal(&rules.rules[i], &rules.rules[i]))
			abort();
	watch_rules_deinit(&rules);
	free(text);
	return 0;
}
