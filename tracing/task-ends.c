/* task-ends.c - see task-ends.h.
 *
 *   GETFAMILY "TASKSTATS" ─► its number ─► REGISTER_CPUMASK "0-N" ─► at each end of a thread:
 *   nlmsghdr │ genlmsghdr │ AGGR_PID { PID, STATS }
 *
 * With the last thread of a process comes AGGR_TGID too, in which the kernel fills in delays only: it is not used.  The row of a
 * process has the values of its main thread, other threads have rows of their own. */
#include <errno.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/taskstats.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "tracing/task-ends.h"
#include "tracing/task-table.h"

enum {
	DATAGRAM_MAX = 16 << 10,
	DATAGRAMS_A_TURN = 256,
	SOCKET_BYTES = 4 << 20,
	TYPE_BITS = 0x3fff, /* NLA_TYPE_MASK */
};

struct task_ends {
	struct loop *loop;
	struct loop_source source;
	struct sink *const *to;
	uint16_t family;
	uint64_t lost;
	uint8_t data[DATAGRAM_MAX];
};

/* ---- attributes ---- */

/* NLA_ALIGN() */
static size_t padded(size_t len)
{
	return (len + NLA_ALIGNTO - 1) / NLA_ALIGNTO * NLA_ALIGNTO;
}

/* The next attribute; false: no more, or damaged. */
static bool next_attribute(struct cursor *c, uint16_t *ret_type, struct cursor *ret_payload)
{
	struct nlattr head;
	const void *p;
	size_t len, padding;

	if (cursor_left(c) < sizeof(head))
		return false;
	memcpy(&head, cursor_bytes(c, sizeof(head)), sizeof(head));
	if (head.nla_len < sizeof(head))
		return false;
	len = head.nla_len - sizeof(head);
	p = cursor_bytes(c, len);
	if (!p)
		return false;
	padding = padded(len) - len;
	(void)cursor_bytes(c, min_u64(padding, cursor_left(c)));
	*ret_type = (uint16_t)(head.nla_type & TYPE_BITS);
	*ret_payload = cursor_of(p, len);
	return true;
}

/* The attributes behind the heads of a message of @family; false: it is another one. */
static bool message_of(struct cursor *datagram, uint16_t family, struct cursor *ret)
{
	struct nlmsghdr head;
	const void *p;

	if (cursor_left(datagram) < sizeof(head))
		return false;
	memcpy(&head, cursor_bytes(datagram, sizeof(head)), sizeof(head));
	if (head.nlmsg_len < sizeof(head) + sizeof(struct genlmsghdr) || head.nlmsg_type != family)
		return false;
	p = cursor_bytes(datagram, head.nlmsg_len - sizeof(head));
	if (!p)
		return false;
	*ret = cursor_of((const uint8_t *)p + sizeof(struct genlmsghdr),
			 head.nlmsg_len - sizeof(head) - sizeof(struct genlmsghdr));
	return true;
}

/* ---- ends ---- */

/* { PID, STATS }: a kernel of another version has a shorter or longer struct; missing fields are 0. */
static bool take_stats(struct cursor c, struct taskstats *ret)
{
	struct cursor payload;
	bool found = false;
	uint16_t type;

	while (next_attribute(&c, &type, &payload)) {
		if (type != TASKSTATS_TYPE_STATS)
			continue;
		memset(ret, 0, sizeof(*ret));
		memcpy(ret, payload.p, min_u64(sizeof(*ret), cursor_left(&payload)));
		found = cursor_left(&payload) >=
			offsetof(struct taskstats, cancelled_write_bytes) + sizeof(uint64_t);
	}
	return found;
}

static void fill_row(const struct taskstats *s, struct task_row *ret)
{
	*ret = (struct task_row){
		.pid = s->ac_pid,
		.ppid = s->ac_ppid,
		.has = TASK_COMM | TASK_PPID | TASK_CPU | TASK_IO,
		.utime_ns = s->ac_utime * 1000,
		.stime_ns = s->ac_stime * 1000,
		.read_bytes = s->read_bytes,
		.write_bytes = s->write_bytes,
		.cancelled_bytes = s->cancelled_write_bytes,
		.ended = true,
	};
	_Static_assert(TS_COMM_LEN >= sizeof(ret->comm), "the kernel's names");
	memcpy(ret->comm, s->ac_comm, sizeof(ret->comm) - 1);
	if (s->cpu_count) { /* 0: the kernel does not count */
		ret->wait_ns = s->cpu_delay_total;
		ret->has |= TASK_WAIT;
	}
	if (s->hiwater_rss) { /* 0: a kernel thread */
		ret->peak_rss_kb = s->hiwater_rss;
		ret->has |= TASK_PEAK_RSS;
	}
}

static int write_end(const struct taskstats *s, struct sink *to)
{
	struct task_row row;

	fill_row(s, &row);
	return task_row_write(s->ac_tgid, &row, to);
}

int task_ends_take(const void *data, size_t len, uint16_t family, struct sink *to)
{
	struct cursor datagram = cursor_of(data, len), attributes, payload;
	struct taskstats stats;
	bool found = false;
	uint16_t type;

	if (!message_of(&datagram, family, &attributes))
		return 0;
	while (next_attribute(&attributes, &type, &payload))
		if (type == TASKSTATS_TYPE_AGGR_PID)
			found = take_stats(payload, &stats);
	return found ? write_end(&stats, to) : 0;
}

/* Gives up the turn after DATAGRAMS_A_TURN: samples wait meanwhile. */
static int ready(struct loop_source *source, uint32_t events)
{
	struct task_ends *e = container_of(source, struct task_ends, source);
	int r = 0;

	(void)events;
	for (int i = 0; i < DATAGRAMS_A_TURN && r >= 0; i++) {
		ssize_t n = recv(source->fd, e->data, sizeof(e->data), MSG_DONTWAIT);

		if (n < 0 && errno == ENOBUFS)
			e->lost++;
		else if (n < 0)
			break;
		else if (*e->to)
			r = task_ends_take(e->data, (size_t)n, e->family, *e->to);
	}
	return r < 0 ? trace(r) : 0;
}

/* ---- the socket ---- */

struct request {
	struct nlmsghdr head;
	struct genlmsghdr generic;
	struct nlattr attribute;
	char text[64];
};

/* Sends a command with one attribute, a text, and receives the answer into e->data. */
static ssize_t ask(struct task_ends *e, uint16_t type, uint8_t command, uint16_t attribute,
		   const char *text)
{
	struct request request = {
		.head = {.nlmsg_type = type, .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
		.generic = {.cmd = command, .version = 1},
		.attribute = {.nla_type = attribute},
	};
	size_t len = strlen(text) + 1;

	if (len > sizeof(request.text))
		return fail(-EMSGSIZE);
	memcpy(request.text, text, len);
	request.attribute.nla_len = (uint16_t)(sizeof(request.attribute) + len);
	request.head.nlmsg_len = (uint32_t)(offsetof(struct request, text) + padded(len));
	if (send(e->source.fd, &request, request.head.nlmsg_len, 0) < 0)
		return fail(-errno);
	return recv(e->source.fd, e->data, sizeof(e->data), 0);
}

/* The error of an answer: 0, or -errno. */
static int error_of(const struct task_ends *e, ssize_t n)
{
	struct nlmsghdr head;
	int32_t error;

	if (n < (ssize_t)sizeof(head))
		return n < 0 ? -errno : -EBADMSG;
	memcpy(&head, e->data, sizeof(head));
	if (head.nlmsg_type != NLMSG_ERROR)
		return 0;
	if (n < (ssize_t)(sizeof(head) + sizeof(error)))
		return -EBADMSG;
	memcpy(&error, e->data + sizeof(head), sizeof(error));
	return error;
}

static int find_family(struct task_ends *e)
{
	ssize_t n = ask(e, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME,
			TASKSTATS_GENL_NAME);
	int r = error_of(e, n);
	struct cursor datagram, attributes, payload;
	uint16_t type;

	if (r < 0)
		return fail(r);
	datagram = cursor_of(e->data, (size_t)n);
	if (!message_of(&datagram, GENL_ID_CTRL, &attributes))
		return fail(-EBADMSG);
	while (next_attribute(&attributes, &type, &payload))
		if (type == CTRL_ATTR_FAMILY_ID)
			e->family = cursor_u16(&payload);
	/* The acknowledgement. */
	(void)recv(e->source.fd, e->data, sizeof(e->data), MSG_DONTWAIT);
	return e->family ? 0 : fail(-ENOENT);
}

static int register_cpus(struct task_ends *e)
{
	_cleanup_(freep) char *cpus = NULL;
	int r = read_file("/sys/devices/system/cpu/possible", 4096, &cpus, NULL);

	if (r < 0)
		return trace(r);
	cpus[strcspn(cpus, "\n")] = 0;
	r = error_of(
		e, ask(e, e->family, TASKSTATS_CMD_GET, TASKSTATS_CMD_ATTR_REGISTER_CPUMASK, cpus));
	return r < 0 ? fail(r) : 0;
}

int task_ends_new(struct loop *loop, struct sink *const *to, struct task_ends **ret_ends)
{
	/* Connected to the kernel: another process with CAP_NET_ADMIN cannot send here. */
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	const struct timeval limit = {.tv_sec = 1};
	const int bytes = SOCKET_BYTES;
	struct task_ends *e = calloc(1, sizeof(*e));
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC), r;

	if (!e || fd < 0) {
		r = e ? -errno : -ENOMEM;
		(void)fd_close(fd);
		free(e);
		return fail(r);
	}
	e->to = to;
	e->loop = loop;
	e->source.fd = fd;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	r = connect(fd, (const struct sockaddr *)&kernel, sizeof(kernel)) < 0 ? fail(-errno)
									      : find_family(e);
	if (r >= 0)
		r = register_cpus(e);
	if (r >= 0)
		r = loop_add(loop, &e->source, fd, EPOLLIN, ready);
	if (r < 0) {
		(void)task_ends_free(e);
		return trace(r);
	}
	*ret_ends = e;
	return 0;
}

struct task_ends *task_ends_free(struct task_ends *e)
{
	int fd;

	if (!e)
		return NULL;
	fd = e->source.fd;
	loop_remove(e->loop, &e->source);
	(void)fd_close(fd);
	free(e);
	return NULL;
}

uint64_t task_ends_lost(const struct task_ends *e)
{
	return e->lost;
}
