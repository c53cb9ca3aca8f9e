#!/bin/bash
# search.sh NAME SECONDS - builds tests/fuzz/fuzz-NAME.c with clang's libFuzzer and address and undefined
# sanitizers, and searches.  New inputs go to build-fuzz/corpus/NAME; a finding is written to the current folder.
set -eu
name=${1:?which fuzzer?} seconds=${2:-60}
cd "$(dirname "$0")/../.."
make -s O=build-fuzz CC=clang SAN=address,undefined CFLAGS="-O1 -g -fsanitize=fuzzer-no-link" \
	WARN= "build-fuzz/tests/fuzz/fuzz-$name.o" $(make -s O=build-fuzz print-fuzz-libs)
clang -fsanitize=fuzzer,address,undefined -pthread -o "build-fuzz/fuzz-$name" "build-fuzz/tests/fuzz/fuzz-$name.o" \
	-Wl,--start-group build-fuzz/lib/*.a -Wl,--end-group $(pkg-config --libs libunwind-generic libdw libelf libprotobuf-c liblzma zlib libzstd libdeflate) \
	-liberty -lm
mkdir -p "build-fuzz/corpus/$name"
exec "build-fuzz/fuzz-$name" -max_total_time="$seconds" -print_final_stats=1 "build-fuzz/corpus/$name" "tests/fuzz/corpus/$name"
