/* plain-name.h - the names of functions as a person types them.  Thread: any. */
#pragma once

#include <stddef.h>

/* A demangled name of C++, Rust or D without parameters, template arguments and "(anonymous namespace)::", into @to, cut at @size:
 * "ns::type::f" of "ns::type<int>::f<long>(int) const".  What is inside a function stays: "f::{lambda(int)#1}::operator()". */
void plain_name(const char *name, char *to, size_t size);
/* How well @wanted means the function @name, a plain name: 2 it is the name, 1 its last parts ("f", "type::f"), 0 not.  Parts are
 * separated by "::" and by each byte of @separators. */
int plain_name_fits(const char *name, size_t len, const char *wanted, const char *separators);
