/* fuzz-control.c - whatever a client sends to the control socket, up to the unpacked request.
 *
 * Input: a byte that is the size of the pieces (0: all at once), then the client's bytes.  Whatever
 * comes: memory stays within one message, and a request that is unpacked keeps to its bounds. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/ipc/control.h"

#define CHECK(ok) ((ok) ? (void)0 : abort()) /* assert() may be compiled out */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool take_all(struct control_stream *s)
{
	const uint8_t *message;
	uint32_t type;
	size_t len;
	int r;

	while ((r = control_next(s, &type, &message, &len)) == 0) {
		Pb__ControlRequest *q = control_request_unpack(message, len);
		Pb__ControlSummary *m = control_summary_unpack(message, len);

		CHECK(len <= CONTROL_REQUEST_MAX);
		CHECK(!q || (q->version == CONTROL_VERSION && q->n_pids <= CONTROL_PIDS_MAX));
		if (q)
			pb__control_request__free_unpacked(q, NULL);
		if (m)
			pb__control_summary__free_unpacked(m, NULL);
	}
	return r == CONTROL_NONE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct control_stream s;
	size_t piece;
	int fds[2];

	if (!size || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return 0;
	piece = *data ? *data : size;
	data++;
	size--;
	control_stream_init(&s, fds[0], CONTROL_REQUEST_MAX);
	while (size) {
		size_t n = piece < size ? piece : size;
		ssize_t sent = send(fds[1], data, n, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent <= 0)
			break;
		data += sent;
		size -= (size_t)sent;
		if (control_receive(&s) != 0 || !take_all(&s))
			break;
		CHECK(s.in.len <= 2 * (CONTROL_REQUEST_MAX + 8));
	}
	control_stream_deinit(&s);
	(void)close(fds[1]);
	return 0;
}
