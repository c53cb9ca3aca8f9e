// cgo.go - a goroutine that calls C: main.goWork > runtime.asmcgocall, on the thread's own stack > cgo_leaf.
package main

// #include <stdint.h>
// uint64_t cgo_leaf(uint64_t rounds)
// {
// 	uint64_t x = rounds + 1;
//
// 	for (uint64_t i = 0; i < rounds; i++)
// 		x = x * 6364136223846793005ull + 1442695040888963407ull;
// 	return x;
// }
import "C"
import (
	"os"
	"strconv"
	"time"
)

var sink uint64

func goWork(end time.Time) {
	for time.Now().Before(end) {
		sink += uint64(C.cgo_leaf(100000))
	}
}

func main() {
	seconds, err := strconv.ParseFloat(os.Args[1], 64)
	if err != nil {
		os.Exit(1)
	}
	goWork(time.Now().Add(time.Duration(seconds * 1e9)))
}
