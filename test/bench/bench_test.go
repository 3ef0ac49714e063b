package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/proto"

	"github.com/389ds/function-directoryservice/test/bench/shape"
)

func BenchmarkFirst(b *testing.B) {
	s, err := shape.First()
	call(b, s, err)
}

func BenchmarkSteady(b *testing.B) {
	s, err := shape.Steady(shape.Suffixes)
	call(b, s, err)
}

func BenchmarkSteadyManySuffixes(b *testing.B) {
	s, err := shape.Steady(shape.ManySuffixes)
	call(b, s, err)
}

func call(b *testing.B, s shape.Shape, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
	f := shape.Function()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.RunFunction(context.Background(), s.Request); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(proto.Size(s.Request)), "request-bytes")
	b.ReportMetric(float64(proto.Size(s.Response)), "response-bytes")
}

// BenchmarkManyServices calls for 1,000 services, ten times over. A function that
// keeps nothing has a heap after the last round that is as large as after the first.
func BenchmarkManyServices(b *testing.B) {
	const services, rounds = 1000, 10
	s, err := shape.Steady(shape.Suffixes)
	if err != nil {
		b.Fatal(err)
	}
	// What a service is like makes no difference here; less to parse does.
	if s, err = s.Lean(); err != nil {
		b.Fatal(err)
	}
	wire, err := proto.Marshal(s.Request)
	if err != nil {
		b.Fatal(err)
	}
	f := shape.Function()
	var first, last memory
	for b.Loop() {
		for round := range rounds {
			for i := range services {
				req := &fnv1.RunFunctionRequest{}
				// The names are equally long, so the message stays well-formed.
				name := fmt.Sprintf("bench-%04d", i)
				if err := proto.Unmarshal(bytes.ReplaceAll(wire, []byte(shape.Name), []byte(name)), req); err != nil {
					b.Fatal(err)
				}
				if _, err := f.RunFunction(context.Background(), req); err != nil {
					b.Fatal(err)
				}
			}
			last = measure(b)
			if round == 0 {
				first = last
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*rounds*services), "µs/call")
	b.ReportMetric(last.heap/1e6, "heap-MB")
	b.ReportMetric(last.heap/first.heap, "heap-last/first")
	b.ReportMetric(last.rss/1e6, "rss-MB")
	b.ReportMetric(last.rss/first.rss, "rss-last/first")
}

type memory struct{ heap, rss float64 }

func measure(b *testing.B) memory {
	b.Helper()
	runtime.GC()
	runtime.GC() // What lay in a sync.Pool goes with the second one.
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memory{heap: float64(m.HeapInuse), rss: rss(b)}
}

func rss(b *testing.B) float64 {
	b.Helper()
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatal(err)
	}
	pages, err := strconv.ParseFloat(strings.Fields(string(statm))[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	return pages * float64(os.Getpagesize())
}
