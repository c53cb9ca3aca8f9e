/* wait-reason.c - see wait-reason.h.  Functions of Linux 5.4 to 6.18 at which a task sleeps, or the
 * nearest caller with an unchanged name. */
#include "session/pipeline/wait-reason.h"

#include <string.h>
#include <sys/syscall.h>

static const char *const frames[WAIT_REASONS] = {
	[WAIT_NONE] = "",
	[WAIT_OTHER] = "[waiting]",
	[WAIT_SLEEP] = "[sleep]",
	[WAIT_DISK] = "[disk]",
	[WAIT_LOCK] = "[lock]",
	[WAIT_PIPE] = "[pipe or socket]",
	[WAIT_POLL] = "[poll]",
	[WAIT_CHILD] = "[child]",
	[WAIT_FAULT] = "[page fault]",
	[WAIT_PREEMPTED] = "[preempted]",
	[WAIT_RUNNABLE] = "[runnable]",
	[WAIT_RUNNING] = WAIT_RUNNING_FRAME,
	[WAIT_UNKNOWN] = "[records lost]",
};

const char *wait_reason_frame(enum wait_reason reason)
{
	return reason < WAIT_REASONS ? frames[reason] : "";
}

/* Beginnings of names. */
static const struct {
	const char *start;
	enum wait_reason reason;
} functions_known[] = {
	{"do_nanosleep", WAIT_SLEEP},
	{"hrtimer_nanosleep", WAIT_SLEEP},
	{"msleep", WAIT_SLEEP},
	{"usleep_range", WAIT_SLEEP},
	{"futex_", WAIT_LOCK},
	{"do_futex", WAIT_LOCK},
	{"__futex_", WAIT_LOCK},
	{"rwsem_", WAIT_LOCK},
	{"down_", WAIT_LOCK},
	{"__down", WAIT_LOCK},
	{"mutex_lock", WAIT_LOCK},
	{"__mutex_lock", WAIT_LOCK},
	{"percpu_rwsem_wait", WAIT_LOCK},
	{"flock_lock_inode_wait", WAIT_LOCK},
	{"locks_lock_inode_wait", WAIT_LOCK},
	{"do_lock_file_wait", WAIT_LOCK},
	{"do_semtimedop", WAIT_LOCK},
	{"__do_semtimedop", WAIT_LOCK},
	{"ep_poll", WAIT_POLL},
	{"do_epoll_wait", WAIT_POLL},
	{"do_poll", WAIT_POLL},
	{"do_sys_poll", WAIT_POLL},
	{"do_select", WAIT_POLL},
	{"poll_schedule_timeout", WAIT_POLL},
	{"pipe_", WAIT_PIPE},
	{"anon_pipe_", WAIT_PIPE},
	{"fifo_open", WAIT_PIPE},
	{"wait_for_partner", WAIT_PIPE},
	{"sk_wait_data", WAIT_PIPE},
	{"sk_stream_wait", WAIT_PIPE},
	{"sock_", WAIT_PIPE},
	{"unix_", WAIT_PIPE},
	{"tcp_", WAIT_PIPE},
	{"udp_", WAIT_PIPE},
	{"inet_", WAIT_PIPE},
	{"__skb_", WAIT_PIPE},
	{"skb_", WAIT_PIPE},
	{"do_wait", WAIT_CHILD},
	{"kernel_wait4", WAIT_CHILD},
	{"io_schedule", WAIT_DISK},
	{"bit_wait_io", WAIT_DISK},
	{"folio_wait", WAIT_DISK},
	{"wait_on_page", WAIT_DISK},
	{"submit_bio_wait", WAIT_DISK},
	{"blk", WAIT_DISK},
	{"balance_dirty_pages", WAIT_DISK},
	{"file_write_and_wait", WAIT_DISK},
	{"filemap_", WAIT_DISK},
	{"jbd2_", WAIT_DISK},
	{"ext4_", WAIT_DISK},
	{"xfs_", WAIT_DISK},
	{"btrfs_", WAIT_DISK},
	{"f2fs_", WAIT_DISK},
	{"nfs", WAIT_DISK},
	{"rpc_wait", WAIT_DISK},
	{"fuse_", WAIT_DISK},
	{"__fuse_", WAIT_DISK},
	{"request_wait_answer", WAIT_DISK},
	{"p9_client_rpc", WAIT_DISK},
	{"vfs_fsync", WAIT_DISK},
};

/* Somewhere in the stack: the wait serves a page fault. */
static const char *const faults[] = {"handle_mm_fault", "do_user_addr_fault", "exc_page_fault",
				     "do_page_fault", "do_mem_abort"};

static bool begins(const char *name, const char *start)
{
	return strncmp(name, start, strlen(start)) == 0;
}

enum wait_reason wait_reason_of_function(enum wait_reason so_far, const char *function)
{
	if (!function || so_far == WAIT_FAULT)
		return so_far;
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
		if (begins(function, faults[i]))
			return WAIT_FAULT;
	for (size_t i = 0; i < ARRAY_SIZE(functions_known) && so_far == WAIT_OTHER; i++)
		if (begins(function, functions_known[i].start))
			return functions_known[i].reason;
	return so_far;
}

/* Calls of which aarch64 has only the newer form are left out where their number is missing. */
enum wait_reason wait_reason_of_call(long number, enum wait_file file)
{
	switch (number) {
	case -1:
		return WAIT_FAULT;
	case SYS_nanosleep:
	case SYS_clock_nanosleep:
		return WAIT_SLEEP;
	case SYS_futex:
	case SYS_flock:
	case SYS_semtimedop:
	case SYS_semop:
		return WAIT_LOCK;
#ifdef SYS_poll
	case SYS_poll:
	case SYS_select:
	case SYS_epoll_wait:
#endif
	case SYS_ppoll:
	case SYS_pselect6:
	case SYS_epoll_pwait:
		return WAIT_POLL;
	case SYS_wait4:
	case SYS_waitid:
		return WAIT_CHILD;
	case SYS_accept:
	case SYS_accept4:
	case SYS_connect:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_recvmmsg:
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_sendmmsg:
	case SYS_splice:
	case SYS_tee:
		return WAIT_PIPE;
	case SYS_read:
	case SYS_write:
	case SYS_readv:
	case SYS_writev:
		return file == WAIT_FILE_PIPE ? WAIT_PIPE : WAIT_DISK;
	case SYS_pread64:
	case SYS_pwrite64:
	case SYS_preadv:
	case SYS_pwritev:
	case SYS_fsync:
	case SYS_fdatasync:
	case SYS_sync:
	case SYS_syncfs:
	case SYS_openat:
	case SYS_ftruncate:
	case SYS_fallocate:
	case SYS_unlinkat:
	case SYS_getdents64:
		return WAIT_DISK;
	default:
		return WAIT_OTHER;
	}
}
