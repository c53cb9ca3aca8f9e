// cgo.go - work on the thread's own stack, with the Go functions that called for it.  A part is one of:
//
//	c     main.north > C: north_leaf        main.south > main.southMiddle > C: south_leaf
//	north the first of these alone
//	back  main.back > C: back_leaf > main.goBack > main.backInner
//	gc    main.collect > runtime.GC, runtime.makeslice
package main

// #include <stdint.h>
// uint64_t goBack(uint64_t rounds);
// static __attribute__((noinline)) uint64_t north_leaf(uint64_t rounds)
// {
// 	uint64_t x = rounds + 1;
//
// 	for (uint64_t i = 0; i < rounds; i++)
// 		x = x * 6364136223846793005ull + 1442695040888963407ull;
// 	return x;
// }
// static __attribute__((noinline)) uint64_t south_leaf(uint64_t rounds)
// {
// 	uint64_t x = rounds + 3;
//
// 	for (uint64_t i = 0; i < rounds; i++)
// 		x = x * 6364136223846793005ull + 1442695040888963409ull;
// 	return x;
// }
// static __attribute__((noinline)) uint64_t back_leaf(uint64_t rounds)
// {
// 	return goBack(rounds) + 1;
// }
import "C"
import (
	"os"
	"runtime"
	"strconv"
	"time"
)

const rounds = 20000

var sink uint64
var heap [][]byte

//go:noinline
func north() { sink += uint64(C.north_leaf(rounds)) }

//go:noinline
func southMiddle() { sink += uint64(C.south_leaf(rounds)) }

//go:noinline
func south() { southMiddle(); sink++ }

//go:noinline
func back() { sink += uint64(C.back_leaf(rounds)) }

//go:noinline
func backInner(n uint64) uint64 {
	x := n
	for i := uint64(0); i < n; i++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x
}

//export goBack
func goBack(n C.uint64_t) C.uint64_t { return C.uint64_t(backInner(uint64(n))) + 1 }

//go:noinline
func collect() {
	heap = nil
	for i := 0; i < 2000; i++ {
		heap = append(heap, make([]byte, 10000))
	}
	runtime.GC()
}

func main() {
	parts := map[string][]func(){"c": {north, south}, "north": {north}, "back": {back}, "gc": {collect}}
	seconds, err := strconv.ParseFloat(os.Args[1], 64)
	if err != nil {
		os.Exit(1)
	}
	end := time.Now().Add(time.Duration(seconds * 1e9))
	for time.Now().Before(end) {
		for _, f := range parts[os.Args[2]] {
			f()
		}
	}
}
