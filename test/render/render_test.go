package render

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
)

var update = flag.Bool("update", false, "write want.yaml instead of comparing with it")

func allCases(t *testing.T) []Case {
	t.Helper()
	cases, err := Cases(".")
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// TestGolden holds every case against its want.yaml, in-process.
func TestGolden(t *testing.T) {
	for _, c := range allCases(t) {
		t.Run(c.Name, func(t *testing.T) {
			docs, err := c.InProcess()
			if err != nil {
				t.Fatal(err)
			}
			got, err := Marshal(docs)
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(c.File("want.yaml"), got, 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(c.File("want.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s: -want.yaml, +got (`make golden` rewrites it):\n%s", c.Dir, diff)
			}
		})
	}
}

// TestDeterministic holds S3 and the rule of the same bytes: the same request
// twice, with the observed Secret, gives the same response.
func TestDeterministic(t *testing.T) {
	for _, c := range allCases(t) {
		_, first, err := c.Run()
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		_, second, err := c.Run()
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		opts := proto.MarshalOptions{Deterministic: true}
		a, _ := opts.Marshal(first)
		b, _ := opts.Marshal(second)
		if string(a) != string(b) {
			t.Errorf("%s: two runs of one request differ", c.Name)
		}
	}
}

// TestNothingVanishes: every observed object is in the response, but for those
// that the spec turns off.
func TestNothingVanishes(t *testing.T) {
	gone := map[string]map[string]bool{
		"scaled-down": {"poddisruptionbudget": true},
	}
	for _, c := range allCases(t) {
		req, rsp, err := c.Run()
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		for key := range req.GetObserved().GetResources() {
			_, kept := rsp.GetDesired().GetResources()[key]
			if kept == gone[c.Name][key] {
				t.Errorf("%s: observed %q: kept %v, want %v", c.Name, key, kept, !kept)
			}
		}
	}
}
