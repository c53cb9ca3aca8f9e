// restless.go - what restless.c does, by Go's runtime, which has a SIGURG handler of its own (preemption) and
// starts programs by vfork without the C library: restless SECONDS [LEAF].  Ends with 0 when every child ended with 7.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"time"
)

//go:noinline
func restlessLeaf(until time.Time) (n uint64) {
	for time.Now().Before(until) {
		for i := uint64(0); i < 100000; i++ {
			n += i * i
		}
	}
	return n
}

func main() {
	if len(os.Args) > 2 {
		restlessLeaf(time.Now().Add(5 * time.Millisecond))
		os.Exit(7)
	}
	seconds, _ := strconv.Atoi(os.Args[1])
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	var group sync.WaitGroup
	for worker := 0; worker < 3; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for time.Now().Before(end) {
				err := exec.Command(os.Args[0], "0", "leaf").Run()
				if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 7 {
					fmt.Fprintln(os.Stderr, "restless: a child:", err)
					os.Exit(1)
				}
				restlessLeaf(time.Now().Add(time.Millisecond))
				runtime.GC()
			}
		}()
	}
	group.Wait()
}
