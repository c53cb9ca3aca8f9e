/* fuzz-python.c - the memory of a process with CPython with changes: the input is a list of them.
 *
 *   [minor u8] then changes: [when u8][offset u16][value u64]     when: 0 from the start, else at that read
 *
 * Names have an end, and the layout stays within what the engine accepts. */
#include <string.h>

#include "tests/unit/unwinder/python-fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CHANGE = 11, CHANGES_MAX = 64 };

struct changing {
	struct uw_memory memory;
	struct py_process process;
	const uint8_t *changes;
	size_t n;
};

static void apply(struct changing *c, size_t i)
{
	const uint8_t *change = c->changes + i * CHANGE;
	uint32_t offset = change[1] | (uint32_t)change[2] << 8;

	memcpy(c->process.bytes + offset % (PY_BYTES - 8), change + 3, 8);
}

static ssize_t changing_read(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	struct changing *c = container_of(memory, struct changing, memory);

	for (size_t i = 0; i < c->n; i++)
		if (c->changes[i * CHANGE] == c->process.reads % 255 + 1)
			apply(c, i);
	return py_read(&c->process.memory, address, to, len);
}

static void count_line(void *arg, const struct uw_line *line)
{
	*(size_t *)arg += strlen(line->function) + (line->file ? strlen(line->file) : 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct changing c;
	const struct uw_python *layout;
	struct python *python;
	uint64_t codes[3], file;
	size_t len = 0;

	if (!size)
		return 0;
	py_process_init(&c.process, 11 + data[0] % 3);
	file = py_string(&c.process, "/x/work.py", false);
	codes[0] = py_code(&c.process, py_string(&c.process, "main", false), file, 1);
	codes[1] = py_code(&c.process, py_string(&c.process, "wide", true), file, 2);
	codes[2] = PY_BASE + (size > 3 ? data[3] * 64u : 0);
	c.memory.read = changing_read;
	c.changes = data + 1;
	c.n = min_u64((size - 1) / CHANGE, CHANGES_MAX);
	for (size_t i = 0; i < c.n; i++)
		if (!c.changes[i * CHANGE])
			apply(&c, i);
	if (python_new(&c.memory, PY_BASE, &python) < 0)
		return 0;
	layout = python_layout(python);
	if (layout->eval_end < layout->eval_start || layout->frame > 15 || layout->next > 15)
		abort();
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		(void)python_lines(python, &c.memory, codes[i], count_line, &len);
	(void)python_free(python);
	return len > 3 * 2 * (4 * 512 + 1) ? abort(), 0 : 0;
}
