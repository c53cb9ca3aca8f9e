/* bpf.c - see bpf.h: instructions, the program, and words.  bpf-ring.c: rings.
 *
 * The programs are a hundred instructions, written here: a build needs no compiler for BPF.  libbpf loads them. */
#include "perf/bpf.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef HAVE_LIBBPF
#include <bpf/bpf.h>
#include <bpf/btf.h>
#endif

#include "base/error.h"
#include "perf/bpf-parts.h"

/* ---- instructions ---- */

void bpf_emit(struct bpf_code *c, struct bpf_insn insn)
{
	if (c->n == BPF_CODE_MAX) {
		c->overflow = true;
		return;
	}
	c->insns[c->n++] = insn;
}

static void emit(struct bpf_code *c, int code, int dst, int src, int16_t offset, int32_t imm)
{
	bpf_emit(c, (struct bpf_insn){.code = (uint8_t)code,
				      .dst_reg = (uint8_t)(dst & 15),
				      .src_reg = (uint8_t)(src & 15),
				      .off = offset,
				      .imm = imm});
}

void bpf_move(struct bpf_code *c, int dst, int src)
{
	emit(c, BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0);
}

void bpf_set(struct bpf_code *c, int dst, int32_t imm)
{
	emit(c, BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, imm);
}

static void set_wide(struct bpf_code *c, int dst, int src, uint64_t imm)
{
	emit(c, BPF_LD | BPF_DW | BPF_IMM, dst, src, 0, (int32_t)(uint32_t)imm);
	emit(c, 0, 0, 0, 0, (int32_t)(uint32_t)(imm >> 32));
}

void bpf_set64(struct bpf_code *c, int dst, uint64_t imm)
{
	set_wide(c, dst, 0, imm);
}

void bpf_map(struct bpf_code *c, int dst, int fd)
{
	set_wide(c, dst, BPF_PSEUDO_MAP_FD, (uint32_t)fd);
}

void bpf_math(struct bpf_code *c, int op, int dst, int32_t imm)
{
	emit(c, BPF_ALU64 | op | BPF_K, dst, 0, 0, imm);
}

void bpf_math_reg(struct bpf_code *c, int op, int dst, int src)
{
	emit(c, BPF_ALU64 | op | BPF_X, dst, src, 0, 0);
}

void bpf_load(struct bpf_code *c, int size, int dst, int src, int16_t offset)
{
	emit(c, BPF_LDX | size | BPF_MEM, dst, src, offset, 0);
}

void bpf_store(struct bpf_code *c, int size, int dst, int16_t offset, int src)
{
	emit(c, BPF_STX | size | BPF_MEM, dst, src, offset, 0);
}

void bpf_store_imm(struct bpf_code *c, int size, int dst, int16_t offset, int32_t imm)
{
	emit(c, BPF_ST | size | BPF_MEM, dst, 0, offset, imm);
}

void bpf_add_atomic(struct bpf_code *c, int dst, int16_t offset, int src)
{
	/* BPF_XADD of older headers, BPF_ATOMIC of newer ones: the same bits */
	emit(c, BPF_STX | BPF_DW | 0xc0, dst, src, offset, 0);
}

void bpf_call(struct bpf_code *c, enum bpf_helper helper)
{
	emit(c, BPF_JMP | BPF_CALL, 0, 0, 0, (int32_t)helper);
}

int bpf_label(struct bpf_code *c)
{
	if (c->n_labels == BPF_LABEL_MAX) {
		c->overflow = true;
		return 0;
	}
	return (int)c->n_labels++;
}

void bpf_here(struct bpf_code *c, int label)
{
	c->place[label] = (uint16_t)(c->n + 1);
}

static void jump(struct bpf_code *c, int code, int dst, int src, int32_t imm, int label)
{
	if (c->n < BPF_CODE_MAX)
		c->label_of[c->n] = (uint16_t)(label + 1);
	emit(c, code, dst, src, 0, imm);
}

void bpf_jump(struct bpf_code *c, int op, int dst, int32_t imm, int label)
{
	jump(c, BPF_JMP | op | BPF_K, op == BPF_JA ? 0 : dst, 0, op == BPF_JA ? 0 : imm, label);
}

void bpf_jump_reg(struct bpf_code *c, int op, int dst, int src, int label)
{
	jump(c, BPF_JMP | op | BPF_X, dst, src, 0, label);
}

void bpf_repeat(struct bpf_code *c, int32_t turns, void (*body)(struct bpf_code *, const void *),
		const void *arg)
{
	bpf_set(c, 1, turns);
	if (c->n_bodies == BPF_BODIES_MAX) {
		c->overflow = true;
		return;
	}
	c->bodies[c->n_bodies++] =
		(struct bpf_body){.emit = body, .arg = arg, .at = (uint16_t)c->n};
	set_wide(c, 2, BPF_PSEUDO_FUNC, 0);
	bpf_move(c, 3, 10);
	bpf_set(c, 4, 0);
	bpf_call(c, BPF_CALL_LOOP);
}

void bpf_return(struct bpf_code *c, int32_t value)
{
	bpf_set(c, 0, value);
	emit(c, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

static void write_bodies(struct bpf_code *c)
{
	for (size_t i = 0; i < c->n_bodies; i++) {
		struct bpf_body *body = &c->bodies[i];

		body->start = (uint16_t)c->n;
		body->emit(c, body->arg);
		c->insns[body->at].imm = body->start - body->at - 1;
	}
}

int bpf_code_link(struct bpf_code *c)
{
	if (c->overflow)
		return fail(-E2BIG);
	for (size_t i = 0; i < c->n; i++) {
		size_t label = c->label_of[i], place = label ? c->place[label - 1] : 0;

		if (!label)
			continue;
		if (!place)
			return fail(-EINVAL);
		c->insns[i].off = (int16_t)((int)place - 1 - (int)i - 1);
	}
	return 0;
}

/* ---- pieces of programs ---- */

/* struct pt_regs as a program sees it (asm/ptrace.h). */
#if defined(__x86_64__)
enum { REGS_PC = 16 * 8, REGS_SP = 19 * 8, REGS_MODE = 17 * 8, MODE_MASK = 3, MODE_USER = 3 };
#elif defined(__aarch64__)
enum { REGS_PC = 32 * 8, REGS_SP = 31 * 8, REGS_MODE = 33 * 8, MODE_MASK = 15, MODE_USER = 0 };
#else
#error "where are the registers of this machine?"
#endif

void bpf_user_regs(struct bpf_code *c, int pc, int sp, bool in_kernel, int none)
{
	int kernel = in_kernel ? bpf_label(c) : none, done = bpf_label(c);

	bpf_load(c, BPF_DW, 1, 6, REGS_MODE);
	bpf_math(c, BPF_AND, 1, MODE_MASK);
	bpf_jump(c, BPF_JNE, 1, MODE_USER, kernel);
	bpf_load(c, BPF_DW, pc, 6, REGS_PC);
	bpf_load(c, BPF_DW, sp, 6, REGS_SP);
	if (in_kernel) {
		bpf_jump(c, BPF_JA, 0, 0, done);
		bpf_here(c, kernel);
		bpf_call(c, BPF_CALL_TASK_BTF);
		bpf_move(c, 1, 0);
		bpf_call(c, BPF_CALL_TASK_REGS);
		/* 16 bits: newer kernels have a union of that size there */
		bpf_load(c, BPF_H, 1, 0, REGS_MODE);
		bpf_math(c, BPF_AND, 1, MODE_MASK);
		bpf_jump(c, BPF_JNE, 1, MODE_USER, none);
		bpf_load(c, BPF_DW, pc, 0, REGS_PC);
		bpf_load(c, BPF_DW, sp, 0, REGS_SP);
	}
	bpf_here(c, done);
}

static void lookup_word(struct bpf_code *c, const struct bpf_words *words, int none)
{
	bpf_move(c, 2, 10);
	bpf_math(c, BPF_ADD, 2, -8);
	bpf_map(c, 1, words->fd);
	bpf_call(c, BPF_CALL_MAP_LOOKUP);
	bpf_jump(c, BPF_JEQ, 0, 0, none);
}

void bpf_word(struct bpf_code *c, const struct bpf_words *words, uint32_t index, int none)
{
	bpf_store_imm(c, BPF_W, 10, -8, (int32_t)index);
	lookup_word(c, words, none);
}

void bpf_word_reg(struct bpf_code *c, const struct bpf_words *words, int index, int none)
{
	bpf_store(c, BPF_W, 10, -8, index);
	lookup_word(c, words, none);
}

/* ---- libbpf: loads programs and makes maps ---- */

#ifdef HAVE_LIBBPF
int bpf_map_new(uint32_t type, uint32_t key, uint32_t value, uint32_t entries, uint32_t flags)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = flags);

	/* Below 0 it is an answer for the probe, too: not yet a failure. */
	return bpf_map_create(type, "perfwind", key, value, entries, &options);
}

/* The types of the program's functions: the kernel takes a loop's body only with them.  Returns a descriptor. */
static int load_types(const struct bpf_code *c, struct bpf_func_info *ret_info)
{
	struct btf *btf = btf__new_empty();
	int number, pointer, of_program, of_body, r = -ENOMEM;

	if (!btf)
		return -errno;
	number = btf__add_int(btf, "long", 8, BTF_INT_SIGNED);
	pointer = btf__add_ptr(btf, 0);
	of_program = btf__add_func_proto(btf, number);
	if (number > 0 && pointer > 0 && of_program > 0 &&
	    btf__add_func_param(btf, "context", pointer) == 0) {
		of_body = btf__add_func_proto(btf, number);
		if (of_body > 0 && btf__add_func_param(btf, "turn", number) == 0 &&
		    btf__add_func_param(btf, "frame", pointer) == 0)
			r = 0;
	}
	ret_info[0] = (struct bpf_func_info){
		.type_id = (uint32_t)btf__add_func(btf, "perfwind", BTF_FUNC_GLOBAL, of_program)};
	for (size_t i = 0; r >= 0 && i < c->n_bodies; i++)
		ret_info[i + 1] = (struct bpf_func_info){
			.insn_off = c->bodies[i].start,
			.type_id = (uint32_t)btf__add_func(btf, "body", BTF_FUNC_STATIC, of_body)};
	if (r >= 0)
		r = btf__load_into_kernel(btf);
	if (r >= 0)
		r = fcntl(btf__fd(btf), F_DUPFD_CLOEXEC, 0);
	btf__free(btf);
	return r;
}

/* The kernel lends bpf_probe_read_user() and others only to programs that may be used under the GPL, too. */
static int load(const struct bpf_code *c, char *log, uint32_t log_size)
{
	struct bpf_func_info info[1 + BPF_BODIES_MAX];
	_cleanup_(fd_closep) int types = -1;
	LIBBPF_OPTS(bpf_prog_load_opts, options, .log_buf = log, .log_size = log_size,
		    .log_level = log != NULL);

	if (c->n_bodies) {
		types = load_types(c, info);
		if (types < 0)
			return types;
		options.prog_btf_fd = (uint32_t)types;
		options.func_info = info;
		options.func_info_cnt = (uint32_t)c->n_bodies + 1;
		options.func_info_rec_size = sizeof(info[0]);
	}
	return bpf_prog_load(BPF_PROG_TYPE_PERF_EVENT, "perfwind", "Dual BSD/GPL", c->insns, c->n,
			     &options);
}
#else
int bpf_map_new(uint32_t type, uint32_t key, uint32_t value, uint32_t entries, uint32_t flags)
{
	(void)type, (void)key, (void)value, (void)entries, (void)flags;
	return -ENOPKG;
}

static int load(const struct bpf_code *c, char *log, uint32_t log_size)
{
	(void)c, (void)log, (void)log_size;
	return -ENOPKG;
}
#endif

/* ---- the program ---- */

static int write_parts(const struct bpf_part *parts, size_t n, bool in_kernel, struct bpf_code *c)
{
	memset(c, 0, sizeof(*c));
	bpf_move(c, 6, 1);
	for (size_t i = 0; i < n; i++)
		parts[i].emit(c, parts[i].arg, in_kernel);
	bpf_return(c, 1); /* 0 would drop the sample */
	write_bodies(c);
	return bpf_code_link(c);
}

static const char *refusal(int r)
{
	switch (-r) {
	case EPERM:
	case EACCES:
		return "the kernel permits BPF programs to root, or with CAP_BPF and CAP_PERFMON";
	case ENOPKG:
		return "perfwind was built without libbpf";
	case ENOSYS:
		return "this kernel or container has no bpf()";
	default:
		return strerror(-r);
	}
}

/* The verifier's reason: the last line but the one that counts instructions. */
static void last_reason(char *log, char *why, size_t size)
{
	char *line = log, *reason = log;

	for (char *next; *line; line = next) {
		next = strchr(line, '\n');
		if (!next)
			break;
		*next++ = 0;
		if (*line && strncmp(line, "processed ", 10))
			reason = line;
	}
	(void)snprintf(why, size, "the kernel's verifier refuses it: %s", reason);
}

int bpf_program_new(const struct bpf_part *parts, size_t n, char *why, size_t why_size)
{
	enum { LOG_BYTES = 1 << 20 };
	struct bpf_code *c = malloc(sizeof(*c));
	char *log = NULL;
	int r = c ? write_parts(parts, n, true, c) : -ENOMEM;

	if (r >= 0)
		r = load(c, NULL, 0);
	/* Without BTF or its helpers: user code only. */
	if (r == -EINVAL || r == -EACCES || r == -ENOTSUP) {
		int second = write_parts(parts, n, false, c);

		r = second < 0 ? second : load(c, NULL, 0);
	}
	if (r < 0) {
		(void)snprintf(why, why_size, "%s", refusal(r));
		log = c && (r == -EINVAL || r == -EACCES) ? calloc(1, LOG_BYTES) : NULL;
		if (log && load(c, log, LOG_BYTES - 1) < 0 && *log)
			last_reason(log, why, why_size);
	}
	free(log);
	free(c);
	return r < 0 ? fail(r) : r;
}

int bpf_try(void)
{
	_cleanup_(fd_closep) int ring = -1, program = -1;
	struct bpf_code *c = malloc(sizeof(*c));
	int r = c ? write_parts(NULL, 0, false, c) : -ENOMEM;

	if (r >= 0)
		r = program = load(c, NULL, 0);
	if (r >= 0)
		r = ring =
			bpf_map_new(BPF_MAP_TYPE_RINGBUF, 0, 0, (uint32_t)sysconf(_SC_PAGESIZE), 0);
	free(c);
	return r < 0 ? r : 0;
}

/* ---- words ---- */

int bpf_words_new(size_t n, struct bpf_words *ret_words)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = n * sizeof(uint64_t);
	_cleanup_(fd_closep) int fd = -1;
	void *at;

	bytes = (bytes + page - 1) / page * page;
	fd = bpf_map_new(BPF_MAP_TYPE_ARRAY, sizeof(uint32_t), sizeof(uint64_t), (uint32_t)n,
			 BPF_F_MMAPABLE);
	if (fd < 0)
		return fail(fd);
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return fail(-errno);
	(void)madvise(at, bytes, MADV_DONTFORK); /* no helper process has it */
	*ret_words = (struct bpf_words){.fd = take_fd(fd), .at = at, .n = n, .mapped = bytes};
	return 0;
}

void bpf_words_deinit(struct bpf_words *w)
{
	if (w->at)
		(void)munmap((void *)w->at, w->mapped);
	w->at = NULL;
	w->fd = fd_close(w->fd);
}
