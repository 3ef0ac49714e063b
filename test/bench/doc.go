// Package bench measures what a call of the function costs. Nothing in it passes
// or fails by time: machines differ.
//
//	go test -run '^$' -bench . ./test/bench/...    calls inside one process, and the heap over 1,000 services
//	go run ./test/bench/ratio                      the served binary beside an echo, the floor of the protocol
package bench
