// work.go - main.worker > main.goWork > main.goInner; main.worker > main.goSort > sort.Strings > ...
package main

import (
	"os"
	"sort"
	"strconv"
	"time"
)

var sink uint64

//go:noinline
func goInner(n uint64) uint64 {
	x := n
	for i := uint64(0); i < n*100; i++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x
}

//go:noinline
func goWork(n uint64) { sink += goInner(n) + 1 }

//go:noinline
func goSort() {
	list := make([]string, 300)
	for i := range list {
		list[i] = strconv.Itoa(i * 7919 % 300)
	}
	sort.Strings(list)
	sink += uint64(len(list[0]))
}

func worker(done chan bool, end time.Time) {
	for time.Now().Before(end) {
		goWork(1000)
		goSort()
	}
	done <- true
}

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[1], 64)
	end := time.Now().Add(time.Duration(seconds * 1e9))
	done := make(chan bool)
	go worker(done, end)
	<-done
}
