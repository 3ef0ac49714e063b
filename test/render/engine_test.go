//go:build engine

package render

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestEngine holds every case against its want.yaml through the real Crossplane
// CLI and core, by the command of `make render`.
func TestEngine(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	render := filepath.Join(t.TempDir(), "render")
	build := exec.Command("go", "build", "-o", render, "./hack/render")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, c := range allCases(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(c.File("want.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(render)
			cmd.Dir = root
			cmd.Env = append(os.Environ(), "CALLS=1", "AGENT_IMAGE="+c.AgentImage, "NOW="+c.Now.Format(time.RFC3339), "XR="+filepath.Join("test", "render", c.Dir, "xr.yaml"))
			for name, file := range map[string]string{"OBSERVED": "observed.yaml", "REQUIRED": "required.yaml", "COMPOSITION": "composition.yaml"} {
				if c.Has(file) {
					cmd.Env = append(cmd.Env, name+"="+filepath.Join("test", "render", c.Dir, file))
				}
			}
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, stderr.String())
			}
			docs, err := parse(out)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Marshal(c.Normal(docs))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("-want.yaml, +the engine's:\n%s", diff)
			}
		})
	}
}
