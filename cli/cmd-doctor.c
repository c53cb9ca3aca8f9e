/* cmd-doctor.c - perfwind doctor: what can be seen here, what it costs where it cannot, and the hint.
 * Thread: main.  Its exit status indicates whether a default recording works. */
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/common-options.h"
#include "profile/profile-text.h"
#include "base/error.h"
#include "daemon/control/control-protocol.h"
#include "cli/diagnosis.h"

struct doctor_args {
	bool json;
	const char *socket;
};

#define AT(member) .offset = offsetof(struct doctor_args, member)
static const struct option_def defs[] = {
	OPTION_CONTROL_SOCKET(socket),
	FLAG("json", 0, json, "one JSON object on standard output"),
	{0},
};

static const struct options options = {
	.command = "doctor",
	.usage = "[OPTIONS]",
	.description = "Checks every gate that limits what perfwind can see on this machine, and "
		       "prints a hint for\neach that is not open.  Ends with 0 when `perfwind "
		       "record -- CMD` works, else with 1.",
	.defs = defs,
	.examples =
		"perfwind doctor\n\n"
		"# gates that are not open, for a script\n"
		"perfwind doctor --json | jq -r '.gates[] | select(.state != \"open\") | .hint'",
};

static const char *const states[] = {
	[DOCTOR_OPEN] = "open",
	[DOCTOR_PARTLY] = "partly",
	[DOCTOR_SHUT] = "shut",
};

static void print_text(const struct doctor_facts *facts)
{
	for (int i = 0; i < DOCTOR_GATES; i++) {
		struct doctor_finding f;

		doctor_judge(facts, i, &f);
		printf("%-7s %-13s %s\n", states[f.state], f.name, f.what);
		if (*f.cost)
			printf("%22sso:   %s\n", "", f.cost);
		if (*f.hint)
			printf("%22shint: %s\n", "", f.hint);
	}
	if (doctor_in_container(facts))
		printf("\nThis is a container: set sysctls on its host.\n");
	printf("\n%s\n", doctor_by_daemon(facts)
				 ? "A recording works, by the daemon: perfwind record -- CMD"
			 : doctor_can_record(facts) ? "A recording works: perfwind record -- CMD"
						    : "A recording does not work here yet.");
}

static void print_json(const struct doctor_facts *facts)
{
	printf("{\"works\": %s, \"container\": %s, \"gates\": [",
	       doctor_can_record(facts) ? "true" : "false",
	       doctor_in_container(facts) ? "true" : "false");
	for (int i = 0; i < DOCTOR_GATES; i++) {
		struct doctor_finding f;

		doctor_judge(facts, i, &f);
		printf("%s{\"name\": \"%s\", \"state\": \"%s\"", i ? ", " : "", f.name,
		       states[f.state]);
		text_json_print(stdout, ", \"what\": ", f.what);
		text_json_print(stdout, ", \"cost\": ", f.cost);
		text_json_print(stdout, ", \"hint\": ", f.hint);
		printf("}");
	}
	printf("]}\n");
}

static int doctor_run(int argc, char **argv)
{
	struct doctor_args args = {.socket = CONTROL_SOCKET};
	struct doctor_facts facts;
	int n, r = options_parse(&options, argc, argv, &args, &n);

	if (r)
		return options_exit_status(r);
	doctor_look(args.socket, &facts);
	if (args.json)
		print_json(&facts);
	else
		print_text(&facts);
	return !doctor_can_record(&facts);
}

const struct command command_doctor = {
	.name = "doctor",
	.summary = "what can be seen on this machine, and how to see more",
	.run = doctor_run,
	.options = &options,
};
