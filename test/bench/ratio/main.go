// Command ratio measures what a call costs the function's server process beside
// what it costs a process that gives the same answer from memory: the floor of
// the protocol. The ratio of the two says how much is ours, on any machine.
//
// The function collects its garbage less often than Go does by default, so the
// floor is measured with both settings; the largest sizes of the processes tell
// what that costs.
//
// Calls alternate in small batches, so that whatever else the machine does falls
// on both. CPU time is the process's own, with its garbage collection.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/389ds/function-directoryservice/test/bench/shape"
)

const module = "github.com/389ds/function-directoryservice"

func main() {
	calls := flag.Int("calls", 3000, "calls of each process and shape")
	warmup := flag.Int("warmup", 500, "calls before these")
	batch := flag.Int("batch", 50, "calls in a row of one process")
	flag.Parse()
	if err := run(*calls, *warmup, *batch); err != nil {
		log.Fatal(err)
	}
}

func run(calls, warmup, batch int) (err error) {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ours, echo := filepath.Join(dir, "directoryservice"), filepath.Join(dir, "echo")
	for out, pkg := range map[string]string{ours: "/cmd/directoryservice", echo: "/test/bench/echo"} {
		build := exec.Command("go", "build", "-ldflags", "-X main.agentImage="+shape.AgentImage, "-o", out, module+pkg)
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("go build %s: %w", pkg, err)
		}
	}

	first, err := shape.First()
	if err != nil {
		return err
	}
	steady, err := shape.Steady(shape.Suffixes)
	if err != nil {
		return err
	}
	lean, err := steady.Lean()
	if err != nil {
		return err
	}
	many, err := shape.Steady(shape.ManySuffixes)
	if err != nil {
		return err
	}
	for _, s := range []shape.Shape{first, steady, lean, many} {
		if err := compare(s, ours, echo, dir, calls, warmup, batch); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return nil
}

// compare starts both processes anew for one shape and prints what they cost.
func compare(s shape.Shape, ours, echo, dir string, calls, warmup, batch int) error {
	file := filepath.Join(dir, "response")
	b, err := proto.Marshal(s.Response)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		return err
	}
	a, err := start(func(address string) *exec.Cmd {
		return exec.Command(ours, "serve", "--insecure", "--address", address)
	})
	if err != nil {
		return err
	}
	defer a.stop()
	e, err := start(func(address string) *exec.Cmd { return exec.Command(echo, address, file) })
	if err != nil {
		return err
	}
	defer e.stop()
	// As cmd/directoryservice sets it.
	e2, err := start(func(address string) *exec.Cmd {
		c := exec.Command(echo, address, file)
		c.Env = append(os.Environ(), "GOGC=400")
		return c
	})
	if err != nil {
		return err
	}
	defer e2.stop()

	request, err := proto.Marshal(s.Request)
	if err != nil {
		return err
	}
	for _, p := range []*process{a, e, e2} {
		rsp := &fnv1.RunFunctionResponse{}
		wire, err := p.invoke(request)
		if err := errors.Join(err, proto.Unmarshal(wire, rsp)); err != nil {
			return err
		}
		if !proto.Equal(rsp, s.Response) {
			return fmt.Errorf("the answer of %s differs from what was recorded", p.cmd.Path)
		}
		if err := p.call(request, warmup); err != nil {
			return err
		}
		if err := p.reset(); err != nil {
			return err
		}
	}
	for done := 0; done < calls; done += batch {
		for _, p := range []*process{a, e, e2} {
			if err := p.call(request, min(batch, calls-done)); err != nil {
				return err
			}
		}
	}

	fmt.Printf("%s: %d bytes in, %d bytes out, %d calls of each\n", s.Name, len(request), len(b), calls)
	var own float64
	for _, p := range []struct {
		name string
		*process
	}{{"ours", a}, {"echo", e}, {"echo, GOGC=400", e2}} {
		cpu, err := p.cpu()
		if err != nil {
			return err
		}
		size, err := p.peak()
		if err != nil {
			return err
		}
		perCall := float64((cpu - p.before).Microseconds()) / 1000 / float64(calls)
		if p.process == a {
			own = perCall
		}
		fmt.Printf("  %-15s server CPU per call %5.2f ms, ratio %.2f, p50 latency %s, peak size %s\n", p.name, perCall, own/perCall, p.p50(), size)
	}
	return nil
}

// wire leaves messages as they are: the client shares the machine with the servers,
// and would cost as much as they do.
type wire struct{}

func (wire) Name() string { return "proto" }

func (wire) Marshal(v any) ([]byte, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("cannot send %T", v)
	}
	return b, nil
}

func (wire) Unmarshal(b []byte, v any) error {
	to, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("cannot receive %T", v)
	}
	*to = bytes.Clone(b) // The buffer is gRPC's and will be used again.
	return nil
}

// A process serves a function.
type process struct {
	cmd       *exec.Cmd
	conn      *grpc.ClientConn
	before    time.Duration
	latencies []time.Duration
}

func start(command func(address string) *exec.Cmd) (*process, error) {
	// A port that is free now; the processes take no other way to name one.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	p := &process{cmd: command(address)}
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.conn, err = grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *process) stop() {
	if p.conn != nil {
		_ = p.conn.Close()
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func (p *process) invoke(request []byte) (response []byte, err error) {
	err = p.conn.Invoke(context.Background(), fnv1.FunctionRunnerService_RunFunction_FullMethodName, request, &response,
		grpc.ForceCodec(wire{}), grpc.WaitForReady(true))
	return response, err
}

func (p *process) call(request []byte, n int) error {
	for range n {
		begin := time.Now()
		if _, err := p.invoke(request); err != nil {
			return err
		}
		p.latencies = append(p.latencies, time.Since(begin))
	}
	return nil
}

// peak is the largest resident size so far (proc(5), VmHWM).
func (p *process) peak() (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		if size, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return strings.TrimSpace(size), nil
		}
	}
	return "", errors.New("no VmHWM")
}

// reset forgets the warm-up.
func (p *process) reset() (err error) {
	p.latencies = nil
	p.before, err = p.cpu()
	return err
}

func (p *process) p50() time.Duration {
	slices.Sort(p.latencies)
	return p.latencies[len(p.latencies)/2].Round(10 * time.Microsecond)
}

// cpu is the user and system time of the process so far (proc(5), stat, fields 14
// and 15).
func (p *process) cpu() (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	// The command's name, field 2, may hold anything but ends at the last parenthesis.
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	var sum time.Duration
	for _, ticks := range fields[11:13] {
		// A tick is 10 ms on every Linux that Go runs on.
		d, err := time.ParseDuration(ticks + "0ms")
		if err != nil {
			return 0, err
		}
		sum += d
	}
	return sum, nil
}
