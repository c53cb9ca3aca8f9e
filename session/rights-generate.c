/* rights-generate.c - writes the seccomp programs of perfwind, as C: runs when perfwind is built.  See rights-filter.h.
 *
 * libseccomp makes them, from the lists of rights-calls.c and the rules of this file; 2 to 4 ms that no start spends. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <sched.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/child.h"
#include "proc/procfs.h"
#include "session/rights-filter.h"

/* Any of these flags opens a file for writing, creates or truncates it (O_TMPFILE needs O_WRONLY or O_RDWR). */
#define WRITING (O_ACCMODE | O_CREAT | O_TRUNC)
#define NAMESPACES                                                                     \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
	 CLONE_NEWPID | CLONE_NEWNET)

static int add(scmp_filter_ctx ctx, uint32_t action, int call)
{
	return seccomp_rule_add_exact(ctx, action, call, 0);
}

static int allow_if(scmp_filter_ctx ctx, int call, struct scmp_arg_cmp argument)
{
	return seccomp_rule_add_exact(ctx, SCMP_ACT_ALLOW, call, 1, argument);
}

/* A command creates its output file when the first packet arrives. */
static int allow_opening(scmp_filter_ctx ctx, enum rights_list list)
{
	int r = 0;

	if (list == RIGHTS_COMMAND)
		return add(ctx, SCMP_ACT_ALLOW, SYS_openat);
	if (list != RIGHTS_GIVEN)
		r = allow_if(ctx, SYS_openat, SCMP_A2(SCMP_CMP_MASKED_EQ, WRITING, O_RDONLY));
	return r;
}

/* Root's helper processes become CHILD_USER, and no other user. */
static int allow_becoming(scmp_filter_ctx ctx)
{
	static const int ids_of_command[] = {SYS_setresgid, SYS_setresuid};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(ids_of_command) && r >= 0; i++)
		r = seccomp_rule_add_exact(
			ctx, SCMP_ACT_ALLOW, ids_of_command[i], 3, SCMP_A0(SCMP_CMP_EQ, CHILD_USER),
			SCMP_A1(SCMP_CMP_EQ, CHILD_USER), SCMP_A2(SCMP_CMP_EQ, CHILD_USER));
	return r;
}

/* A limit or priority of another process can end it (RLIMIT_CPU) or stop it, so a helper process may set its own only. */
static int allow_for_itself(scmp_filter_ctx ctx, enum rights_list list)
{
	int r = list == RIGHTS_GIVEN ? 0 : allow_if(ctx, SYS_prlimit64, SCMP_A0(SCMP_CMP_EQ, 0));

	if (r >= 0 && list == RIGHTS_ACCEPT)
		r = allow_if(ctx, SYS_sched_setscheduler, SCMP_A0(SCMP_CMP_EQ, 0));
	if (r >= 0 && list >= RIGHTS_OPEN)
		r = seccomp_rule_add_exact(ctx, SCMP_ACT_ALLOW, SYS_setpriority, 2,
					   SCMP_A0(SCMP_CMP_EQ, PRIO_PROCESS),
					   SCMP_A1(SCMP_CMP_EQ, 0));
	return r;
}

/* F_SETOWN and F_SETSIG with O_ASYNC send any signal to any process of the same user; TIOCSTI types into a terminal. */
static int allow_controls(scmp_filter_ctx ctx, enum rights_list list)
{
	static const unsigned of_descriptors[] = {F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL};
	static const unsigned of_files[] = {FIONREAD, FS_IOC_GETVERSION, PROCFS_QUERY};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(of_descriptors) && r >= 0; i++)
		r = allow_if(ctx, SYS_fcntl, SCMP_A1(SCMP_CMP_EQ, of_descriptors[i]));
	for (size_t i = 0; i < ARRAY_SIZE(of_files) && r >= 0 && list != RIGHTS_GIVEN; i++)
		r = allow_if(ctx, SYS_ioctl, SCMP_A1(SCMP_CMP_MASKED_EQ, UINT32_MAX, of_files[i]));
	/* Signal 0: does the process exist? */
	if (r >= 0 && list == RIGHTS_ACCEPT)
		r = allow_if(ctx, SYS_pidfd_send_signal, SCMP_A1(SCMP_CMP_EQ, 0));
	return r;
}

static bool is_of_helper(enum rights_list list)
{
	return list >= RIGHTS_ACCEPT;
}

static int allow_by_argument(scmp_filter_ctx ctx, enum rights_list list)
{
	/* No code is loaded after the start (load_libraries). */
	int r = allow_if(ctx, SYS_mmap, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));

	if (r >= 0)
		r = allow_if(ctx, SYS_mprotect, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	if (r >= 0)
		r = allow_opening(ctx, list);
	if (r >= 0)
		r = allow_for_itself(ctx, list);
	if (r >= 0 && is_of_helper(list))
		r = allow_controls(ctx, list);
	if (list >= RIGHTS_OPEN)
		return r;
	if (r >= 0 && list == RIGHTS_COMMAND)
		r = allow_becoming(ctx);
	if (r >= 0 && list != RIGHTS_ACCEPT)
		r = allow_if(ctx, SYS_socket, SCMP_A0(SCMP_CMP_EQ, AF_UNIX));
	/* No namespaces (the flags are argument 0, except on s390).  clone3() has its flags in memory, where no filter sees
	 * them. */
	return r < 0 ? r : allow_if(ctx, SYS_clone, SCMP_A0(SCMP_CMP_MASKED_EQ, NAMESPACES, 0));
}

/* Calls that are answered as if the kernel did not have them. */
static int add_absent(scmp_filter_ctx ctx, uint32_t action)
{
	int r = add(ctx, action, SYS_clone3);

	for (int i = 1; i <= RIGHTS_NEWER && r >= 0; i++)
		r = add(ctx, action, RIGHTS_NEWEST + i);
	return r;
}

static int begin(uint32_t otherwise, scmp_filter_ctx *ret_filter)
{
	*ret_filter = seccomp_init(otherwise);
	/* A tree of comparisons, for kernels that do not cache results (before 5.11). */
	if (*ret_filter)
		(void)seccomp_attr_set(*ret_filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	return *ret_filter ? seccomp_attr_set(*ret_filter, SCMP_FLTATR_ACT_BADARCH,
					      SCMP_ACT_KILL_PROCESS)
			   : -ENOMEM;
}

static int make_absent(scmp_filter_ctx *ret_filter)
{
	int r = begin(SCMP_ACT_ALLOW, ret_filter);

	if (r >= 0)
		r = add_absent(*ret_filter, SCMP_ACT_ERRNO(ENOSYS));
	return r;
}

/* @action for calls that libraries try and do without: libdw reads the path of a descriptor (realpath), and malloc() reads
 * /proc/sys/vm/overcommit_memory before it shrinks a heap (glibc, check_may_shrink_heap). */
static int add_tried(scmp_filter_ctx ctx, uint32_t action)
{
	int r = add(ctx, action, SYS_readlinkat);

	if (r >= 0)
		r = seccomp_rule_add_exact(ctx, action, SYS_openat, 1,
					   SCMP_A2(SCMP_CMP_EQ, O_RDONLY | O_CLOEXEC));

#if defined(__x86_64__)
	if (r >= 0)
		r = add(ctx, action, SYS_readlink);
#endif
	return r;
}

/* Loaded without SECCOMP_FILTER_FLAG_LOG: the kernel would write a line about each of these calls. */
static int make_tried(scmp_filter_ctx *ret_filter)
{
	int r = begin(SCMP_ACT_ALLOW, ret_filter);

	return r < 0 ? r : add_tried(*ret_filter, SCMP_ACT_ERRNO(EACCES));
}

static int make_listed(enum rights_list list, scmp_filter_ctx *ret_filter)
{
	int calls[RIGHTS_CALLS], r = begin(SCMP_ACT_ERRNO(EPERM), ret_filter);
	size_t n = rights_calls(list, calls);

	for (size_t i = 0; i < n && r >= 0; i++)
		r = add(*ret_filter, SCMP_ACT_ALLOW, calls[i]);
	if (r >= 0)
		r = allow_by_argument(*ret_filter, list);
	if (r >= 0)
		r = add_absent(*ret_filter, SCMP_ACT_ALLOW);
	if (r >= 0 && list == RIGHTS_GIVEN)
		r = add_tried(*ret_filter, SCMP_ACT_ALLOW);
	return r;
}

/* ---- as C ---- */

static int print(const char *name, scmp_filter_ctx filter)
{
	struct sock_filter insn;
	FILE *file = tmpfile();
	int r = file ? seccomp_export_bpf(filter, fileno(file)) : -errno;

	if (r >= 0 && fseek(file, 0, SEEK_SET) < 0)
		r = -errno;
	if (r >= 0)
		printf("static const struct sock_filter %s[] = {\n", name);
	while (r >= 0 && fread(&insn, sizeof(insn), 1, file) == 1)
		printf("\t{%#x, %u, %u, %#" PRIx32 "},\n", insn.code, insn.jt, insn.jf, insn.k);
	if (r >= 0)
		printf("};\n");
	if (file)
		(void)fclose(file);
	return r;
}

int main(void)
{
	static const char *const names[] = {"of_daemon", "of_command", "of_accept",
					    "of_open",	 "of_given",   "of_bpf"};
	scmp_filter_ctx filter = NULL;
	int r = make_absent(&filter);

	printf("/* Made by session/rights-generate.c. */\n");
	if (r >= 0)
		r = print("of_absent", filter);
	seccomp_release(filter);
	filter = NULL;
	if (r >= 0)
		r = make_tried(&filter);
	if (r >= 0)
		r = print("of_tried", filter);
	seccomp_release(filter);
	for (enum rights_list list = RIGHTS_DAEMON; list <= RIGHTS_BPF && r >= 0; list++) {
		filter = NULL;
		r = make_listed(list, &filter);
		if (r >= 0)
			r = print(names[list], filter);
		seccomp_release(filter);
	}
	if (r < 0)
		fprintf(stderr, "rights-generate: %s\n", strerror(-r));
	return r < 0 || fflush(stdout) != 0;
}
