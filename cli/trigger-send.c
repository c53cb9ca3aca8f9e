/* trigger-send.c - see trigger-send.h. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/trigger-send.h"
#include "cli/trigger-socket.h"
#include "base/error.h"
#include "daemon/producer/activate.h"
#include "daemon/producer/producer.h"

struct sending {
	const char *name;
	bool accepted;
	bool elsewhere; /* a session waits for other triggers */
};

static const char *reason(int answer)
{
	return answer == TRIGGER_LIMITED   ? "max_per_24_h is reached"
	       : answer == TRIGGER_SKIPPED ? "skipped, by skip_probability"
	       : answer == TRIGGER_BUSY	   ? "it makes as many snapshots as it can already"
	       : answer == -ETIMEDOUT	   ? "no answer"
	       : answer == -EPERM	   ? "it belongs to another user"
	       : answer < 0		   ? strerror(-answer)
					   : "the answer is of another version";
}

static void send_to(void *arg, uint32_t uid, uint32_t pid)
{
	struct sending *sending = arg;
	int answer = trigger_socket_send(uid, pid, sending->name);

	sending->elsewhere |= answer == TRIGGER_UNKNOWN;
	if (answer == TRIGGER_UNKNOWN || answer == -ESRCH)
		return;
	if (answer == TRIGGER_ACCEPTED) {
		log_info("trigger %s: accepted by the trace session of process %u", sending->name,
			 pid);
		sending->accepted = true;
		return;
	}
	log_info("trigger %s: process %u: %s", sending->name, pid, reason(answer));
}

/* Did a session accept it?  A service that took it counts as one. */
static bool send_to_sessions(const char *name, bool by_service)
{
	struct sending sending = {.name = name};
	int r = trigger_socket_find(send_to, &sending);

	if (r < 0)
		log_error("trigger: /proc/net/unix: %s", strerror(-r));
	if (sending.accepted || by_service)
		return true;
	if (r && !sending.elsewhere) /* why not is printed */
		log_error("trigger %s: no trace session of yours accepted it", name);
	else
		log_error("trigger %s: %s; hint: perfwind trace --background -c CONFIG, with a "
			  "trigger_config that has triggers { name: \"%s\" }",
			  name,
			  sending.elsewhere ? "your trace sessions wait for other triggers"
					    : "no trace session of yours waits for triggers",
			  name);
	return false;
}

/* Did the service take them?  Without one there is nothing to report. */
static bool send_to_service(const char *const *names, size_t n)
{
	const char *socket = producer_socket_name(geteuid() == 0);
	int r = activate_triggers(socket, names, n);

	if (r == 0)
		log_info("the tracing service at %s took the trigger%s; it does not report whether "
			 "a session waits for %s",
			 socket, n == 1 ? "" : "s", n == 1 ? "it" : "them");
	else if (r == -EACCES || r == -EPERM)
		log_error("the tracing service at %s refuses triggers of this user", socket);
	else if (r == -EOPNOTSUPP)
		log_error("the tracing service at %s takes no triggers", socket);
	else if (r != -ENOENT && r != -ECONNREFUSED && r != -ENOTDIR)
		log_error("the tracing service at %s: %s", socket, strerror(-r));
	return r == 0;
}

int trigger_send(const char *const *names, size_t n)
{
	bool by_service = send_to_service(names, n);
	int status = 0;

	for (size_t i = 0; i < n; i++)
		status |= !send_to_sessions(names[i], by_service);
	return status;
}
