/* code-aarch64.c - see code.h.  Encodings: Arm Architecture Reference Manual for A-profile, C4.1,
 * C6.2.
 *
 * Instructions are 4 bytes, so code can be read backwards.  Where x30 may be the return address or
 * left over from a call, the nearest of these before the pc decides: a function that stores x29 and
 * x30 has a frame record from there on; one whose beginning is met first has none. */
#include <string.h>

#include "unwinder/code.h"

enum {
	INSN_RET = 0xd65f03c0,
	INSN_RETAA = 0xd65f0bff,
	INSN_RETAB = 0xd65f0fff,
	INSN_PACIASP = 0xd503233f,
	INSN_PACIBSP = 0xd503237f,
	INSN_AUTIASP = 0xd50323bf,
	INSN_AUTIBSP = 0xd50323ff,
	INSN_BTI_C = 0xd503245f,
	INSN_MOV_X29_SP = 0x910003fd,
	INSN_STP_X29_X30_16 = 0xa9bf7bfd, /* stp x29, x30, [sp, #-16]! */
	INSN_LDP_X29_X30_16 = 0xa8c17bfd, /* ldp x29, x30, [sp], #16 */
	INSN_STP_X16_X30_16 = 0xa9bf7bf0, /* stp x16, x30, [sp, #-16]!: the first PLT entry */
	INSN_BR_X17 = 0xd61f0220,
	INSN_MOV_X8_139 = 0xd2801168, /* rt_sigreturn's number */
	INSN_SVC_0 = 0xd4000001,
};

static uint32_t insn(const uint8_t *at)
{
	uint32_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

/* bl; blr; blraa, blrab and their forms without a modifier. */
static bool is_call(uint32_t i)
{
	return (i & 0xfc000000) == 0x94000000 || (i & 0xfffffc1f) == 0xd63f0000 ||
	       (i & 0xfefff800) == 0xd63f0800;
}

/* stp x29, x30, [sp, #n] and [sp, #n]! */
static bool is_record_stored(uint32_t i)
{
	return (i & 0xffc07fff) == 0xa9007bfd || (i & 0xffc07fff) == 0xa9807bfd;
}

/* ldp x29, x30, [sp, #n] and [sp], #n */
static bool is_record_loaded(uint32_t i)
{
	return (i & 0xffc07fff) == 0xa9407bfd || (i & 0xffc07fff) == 0xa8c07bfd;
}

static bool is_ret(uint32_t i)
{
	return i == INSN_RET || i == INSN_RETAA || i == INSN_RETAB;
}

static bool is_begin(uint32_t i)
{
	return i == INSN_PACIASP || i == INSN_PACIBSP || i == INSN_BTI_C;
}

bool code_ends_in_call_aarch64(const uint8_t *code, size_t len)
{
	return len >= 4 && is_call(insn(code + len - 4));
}

/* The instructions before the pc, from the last one on. */
static enum rule_form form_scan(const uint8_t *code, size_t before)
{
	for (size_t at = before; at >= 4; at -= 4) {
		uint32_t i = insn(code + at - 4);

		if (is_record_stored(i))
			return RULE_FORM_FP;
		/* Of an epilogue only an authentication stands behind the load. */
		if (is_begin(i) || (before - at <= 4 && is_record_loaded(i)))
			return RULE_FORM_ENTRY;
		if (is_ret(i) && at >= 8) {
			uint32_t last = insn(code + at - 8);

			/* Behind a function without a frame, its own early return mostly. */
			if (!is_record_loaded(last) && last != INSN_AUTIASP && last != INSN_AUTIBSP)
				return RULE_FORM_ENTRY;
			break;
		}
	}
	return RULE_FORM_FP;
}

/* adrp x16; ldr x17, [x16, #n]; add x16, x16, #n; br x17: a stub, anywhere in it. */
static bool is_stub(const uint8_t *at, size_t left)
{
	for (size_t i = 0; i + 4 <= left && i <= 12; i += 4) {
		uint32_t word = insn(at + i);

		if (word == INSN_BR_X17)
			return true;
		if ((word & 0x9f00001f) != 0x90000010 && (word & 0xffc003ff) != 0xf9400211 &&
		    (word & 0xffc003ff) != 0x91000210)
			return false;
	}
	return false;
}

enum rule_form code_form_aarch64(const uint8_t *code, size_t before, size_t len)
{
	const uint8_t *at = code + before;
	size_t left = len - before;
	uint32_t this = left >= 4 ? insn(at) : 0, next = left >= 8 ? insn(at + 4) : 0,
		 last = before >= 4 ? insn(at - 4) : 0;

	if ((this == INSN_MOV_X8_139 && next == INSN_SVC_0) ||
	    (this == INSN_SVC_0 && last == INSN_MOV_X8_139))
		return RULE_FORM_SIGRETURN;
	if (this == INSN_LDP_X29_X30_16 && is_ret(next))
		return RULE_FORM_PUSHED;
	if (last == INSN_STP_X29_X30_16 && this == INSN_MOV_X29_SP)
		return RULE_FORM_PUSHED;
	if (is_stub(at, left)) {
		/* The first entry pushes before it begins as the others do. */
		for (size_t n = 4; n <= 16 && n <= before; n += 4)
			if (insn(at - n) == INSN_STP_X16_X30_16)
				return RULE_FORM_PLT;
		return RULE_FORM_ENTRY;
	}
	if (is_record_stored(this) || is_ret(this) || is_begin(this) || this == INSN_STP_X16_X30_16)
		return RULE_FORM_ENTRY;
	return form_scan(code, before);
}
