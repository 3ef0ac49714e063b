// Command mutation breaks the rules of package upgrade, one at a time, and asks whether
// TestHistories notices, or else another test of the package. A mutation that none
// notices is a rule that nothing proves.
//
//	go run ./test/mutation                 every mutation
//	go run ./test/mutation -only once      those whose name contains "once"
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const dir = "fn/upgrade"

// A mutation of one file: old stands in it exactly once.
type mutation struct {
	name, file, old, new string
	// why it must not go unnoticed.
	why string
}

type outcome string

const (
	killed   outcome = "killed"
	survived outcome = "SURVIVED"
	broken   outcome = "BROKEN"
)

func main() {
	histories := flag.Int("histories", 5000, "how many histories a mutation has to be noticed in")
	seed := flag.Int("seed", 1, "the first history")
	only := flag.String("only", "", "run those mutations whose name contains this")
	flag.Parse()

	if out, err := run("", *histories, *seed); err != nil {
		fmt.Fprintf(os.Stderr, "the package does not pass as it is: %v\n%s\n", err, out)
		os.Exit(1)
	}
	bad := 0
	for _, m := range mutations {
		if !strings.Contains(m.name, *only) {
			continue
		}
		began := time.Now()
		o, by := try(m, *histories, *seed)
		if o != killed {
			bad++
		}
		fmt.Printf("%-9s %-28s %5.0fs  %-60s %s\n", o, m.name, time.Since(began).Seconds(), m.why, by)
	}
	if bad > 0 {
		fmt.Fprintf(os.Stderr, "%d mutations were not noticed, or could not be made\n", bad)
		os.Exit(1)
	}
}

// try a mutation, without touching the checkout, and say which invariant noticed it.
func try(m mutation, histories, seed int) (outcome, string) {
	tmp, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return broken, err.Error()
	}
	defer func() { _ = os.RemoveAll(tmp) }()

	overlay, err := mutate(m, tmp)
	if err != nil {
		return broken, err.Error()
	}
	out, err := run(overlay, histories, seed)
	switch by := violated.FindSubmatch(out); {
	case err == nil:
		// What hardly ever happens by chance is told as a story.
		if out, err := stories(overlay); err != nil && failed.Match(out) {
			return killed, "by " + string(failed.FindSubmatch(out)[1])
		}
		return survived, ""
	case by != nil:
		return killed, "by " + string(by[1])
	default:
		return broken, string(out)
	}
}

// run the test alone, with or without a mutation.
func run(overlay string, histories, seed int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	args := []string{"test", "-count=1", "-run", "^TestHistories$"}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	args = append(args, "./"+dir, "-histories", strconv.Itoa(histories), "-seed", strconv.Itoa(seed))
	return exec.CommandContext(ctx, "go", args...).CombinedOutput()
}

// stories are the package's other tests.
func stories(overlay string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	return exec.CommandContext(ctx, "go", "test", "-count=1", "-skip", "^TestHistories$", "-overlay", overlay, "./"+dir).CombinedOutput()
}

var failed = regexp.MustCompile(`--- FAIL: (\S+)`)

var violated = regexp.MustCompile(`model_test\.go:\d+: ([a-z ]+) \(\d+ times\)`)

// mutate writes the broken file, and the overlay that puts it in the place of the other.
func mutate(m mutation, tmp string) (string, error) {
	path, err := filepath.Abs(filepath.Join(dir, m.file))
	if err != nil {
		return "", fmt.Errorf("cannot find %s: %w", m.file, err)
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("cannot read %s: %w", m.file, err)
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		return "", fmt.Errorf("%s has %d times %q", m.file, n, m.old)
	}
	changed := filepath.Join(tmp, m.file)
	if err := os.WriteFile(changed, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o600); err != nil {
		return "", fmt.Errorf("cannot write the mutation: %w", err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		return "", fmt.Errorf("cannot write the overlay: %w", err)
	}
	name := filepath.Join(tmp, "overlay.json")
	if err := os.WriteFile(name, overlay, 0o600); err != nil {
		return "", fmt.Errorf("cannot write the overlay: %w", err)
	}
	return name, nil
}
