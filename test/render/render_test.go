package render

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/respond"
)

var update = flag.Bool("update", false, "write want.yaml instead of comparing with it")

// readCases are all cases; nobody changes them.
var readCases = sync.OnceValues(func() ([]Case, error) {
	cases, err := Cases(".")
	if err != nil {
		return nil, err
	}
	more, err := Cases(examples)
	return append(cases, more...), err
})

func allCases(t *testing.T) []Case {
	t.Helper()
	cases, err := readCases()
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
				if err := os.WriteFile(c.File("want.yaml"), got, 0o644); err != nil {
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

// TestSteady: of a service that is as it should be the function says what is known
// already, and composes what exists.
func TestSteady(t *testing.T) {
	for _, dir := range []string{"steady", examples + "/before", examples + "/pending-pod-update"} {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			c, err := readCase(dir)
			if err != nil {
				t.Fatal(err)
			}
			_, rsp, err := c.Run()
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rsp.GetResults() {
				t.Errorf("event %s: %s", r.GetReason(), r.GetMessage())
			}
			if got := rsp.GetMeta().GetTtl().AsDuration(); got != respond.SteadyTTL {
				t.Errorf("called again after %s", got)
			}
			if rsp.GetDesired().GetComposite().GetReady() != fnv1.Ready_READY_TRUE {
				t.Error("not Ready")
			}
			known := map[string]Object{}
			for _, o := range c.Observed {
				known[text(o, "metadata", "annotations", keyAnnotation)] = o
			}
			for key, r := range rsp.GetDesired().GetResources() {
				for _, d := range unlike(key, fromStruct(r.GetResource()), known[key]) {
					t.Error(d)
				}
				delete(known, key)
			}
			for key := range known {
				t.Errorf("%s is not composed", key)
			}

			xr := fromStruct(rsp.GetDesired().GetComposite().GetResource())
			before, _ := get(c.XR, "status").(Object)
			for _, cond := range rsp.GetConditions() {
				known := false
				for _, b := range before["conditions"].([]any) {
					known = known || text(b, "type") == cond.GetType() && text(b, "status") == conditionStatus[cond.GetStatus()] &&
						text(b, "reason") == cond.GetReason() && text(b, "message") == cond.GetMessage()
				}
				if !known {
					t.Errorf("another condition: %v", cond)
				}
				if cond.GetType() == "UpgradeBlocked" && cond.GetStatus() != fnv1.Status_STATUS_CONDITION_FALSE {
					t.Errorf("blocked: %v", cond)
				}
			}
			delete(before, "conditions")
			if diff := cmp.Diff(before, xr["status"]); diff != "" {
				t.Errorf("the status: -known, +got:\n%s", diff)
			}
		})
	}
}

// unlike are the paths at which a desired document is not in an observed one.
func unlike(path string, desired, observed any) []string {
	var out []string
	switch d := desired.(type) {
	case Object:
		o, _ := observed.(Object)
		for k := range d {
			out = append(out, unlike(path+"."+k, d[k], o[k])...)
		}
	case []any:
		o, _ := observed.([]any)
		if len(d) != len(o) {
			return []string{fmt.Sprintf("%s: want %v, observed %v", path, desired, observed)}
		}
		for i := range d {
			out = append(out, unlike(fmt.Sprintf("%s[%d]", path, i), d[i], o[i])...)
		}
	default:
		if desired != observed {
			out = append(out, fmt.Sprintf("%s: want %v, observed %v", path, desired, observed))
		}
	}
	return out
}

// TestExamples: the README beside the stages of an upgrade names each of them.
func TestExamples(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(examples, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	words := []string{"NOW=" + Now.Format(time.RFC3339)}
	for _, c := range allCases(t) {
		if strings.HasPrefix(c.Dir, examples) {
			words = append(words, "`stage "+c.Name+"`")
		}
	}
	for _, w := range words {
		if !strings.Contains(string(readme), w) {
			t.Errorf("examples/upgrade/README.md does not have %s", w)
		}
	}
}

// TestNothingVanishes: every observed object is in the response, but for those
// that the spec turns off, or that have done their work.
func TestNothingVanishes(t *testing.T) {
	gone := func(c Case, key string) bool {
		switch c.Name {
		case "scaled-down":
			return key == naming.KeyPodDisruptionBudget
		case "stuck-pod-replaced":
			return naming.IsUnstick(key)
		case "storage-growing":
			return naming.IsResize(key)
		}
		return false
	}
	for _, c := range allCases(t) {
		req, rsp, err := c.Run()
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		for key := range req.GetObserved().GetResources() {
			_, kept := rsp.GetDesired().GetResources()[key]
			if kept == gone(c, key) {
				t.Errorf("%s: observed %q: kept %v, want %v", c.Name, key, kept, !kept)
			}
		}
	}
}
