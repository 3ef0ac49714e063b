// Command render prints what Crossplane would make of one DirectoryService: it
// serves the function on loopback and runs the real Crossplane CLI with the real
// core as its engine. No cluster, no Docker.
//
// It reads its arguments from the environment, as `make render` passes them on.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	function "github.com/crossplane/function-sdk-go"
	"github.com/crossplane/function-sdk-go/logging"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/389ds/function-directoryservice/fn"
)

const usage = `usage: make render XR=FILE [OBSERVED=FILE] [REQUIRED=FILE] [FLAVOUR=namespaced|claim] [COMPOSITION=FILE] [NOW=TIME] [CALLS=NUMBER]

XR           a DirectoryService as a user applies it, or an XDirectoryService
OBSERVED     composed objects that exist, each with the annotation crossplane.io/composition-resource-name
REQUIRED     other objects that exist: Secrets, Pods, PersistentVolumeClaims
FLAVOUR      claim: the DirectoryService is a claim (default: namespaced)
COMPOSITION  default: compositions/FLAVOUR.yaml
NOW          what the function's clock shows, such as 2026-07-01T12:00:00Z (default: the time)
CALLS        how often the function is called, each time with the objects that it composed before, as Crossplane does.
             No pod comes to be in between. Default: 1 with OBSERVED; without, until nothing new comes of it
`

// mostCalls until nothing new comes of them. A first install takes four.
const mostCalls = 10

// agentImage stands for the function's own image, which its Jobs run: an installation
// has the one that it was built for.
const agentImage = "registry.example.com/function-directoryservice:v0.1.0"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}

func run() error {
	xrFile, flavour := os.Getenv("XR"), os.Getenv("FLAVOUR")
	if xrFile == "" {
		fmt.Fprint(os.Stderr, usage)
		return errors.New("XR is missing")
	}
	xr, flavour, err := readXR(xrFile, flavour)
	if err != nil {
		return err
	}
	composition := os.Getenv("COMPOSITION")
	if composition == "" {
		composition = filepath.Join("compositions", flavour+".yaml")
	}
	for _, f := range []string{composition, os.Getenv("OBSERVED"), os.Getenv("REQUIRED")} {
		if _, err := os.Stat(f); f != "" && err != nil {
			return err
		}
	}

	work, err := os.MkdirTemp("", "render")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)

	now, err := clock(os.Getenv("NOW"))
	if err != nil {
		return err
	}
	calls, err := callsOf(os.Getenv("CALLS"), os.Getenv("OBSERVED"))
	if err != nil {
		return err
	}
	image := agentImage
	if own, ok := os.LookupEnv("AGENT_IMAGE"); ok {
		// A test's: an installation that does not know it has an empty one.
		image = own
	}
	target, err := serve(&fn.Function{Log: logging.NewNopLogger(), Random: rand.Reader, Now: now, AgentImage: image})
	if err != nil {
		return err
	}
	functions := fmt.Sprintf(`apiVersion: pkg.crossplane.io/v1
kind: Function
metadata:
  name: function-directoryservice
  annotations:
    render.crossplane.io/runtime: Development
    render.crossplane.io/runtime-development-target: %s
spec:
  package: function-directoryservice
`, target)
	files := map[string][]byte{"xr.yaml": xr, "functions.yaml": []byte(functions)}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(work, name), content, 0o600); err != nil {
			return err
		}
	}

	cli, err := tool("crossplane")
	if err != nil {
		return err
	}
	core, err := tool("crossplane-core")
	if err != nil {
		return err
	}
	definition := filepath.Join("apis", flavour, "definition.yaml")
	// The renderer takes unknown fields and wrong values; the API server would not.
	// The empty image keeps the CLI from pulling Crossplane's own CRDs.
	validate := exec.CommandContext(context.Background(), cli, "resource", "validate", "--crossplane-image=", "--cache-dir="+filepath.Join(work, "cache"), definition, filepath.Join(work, "xr.yaml"))
	if out, err := validate.CombinedOutput(); err != nil {
		return fmt.Errorf("%s is not valid:\n%s", xrFile, out)
	}

	r := renderer{
		cli: cli, work: work,
		args: []string{
			"composition", "render", filepath.Join(work, "xr.yaml"), composition, filepath.Join(work, "functions.yaml"),
			"--crossplane-binary=" + core,
			// Applies the schema's defaults, and tells the engine the kind of XR.
			"--xrd=" + definition,
			"--include-function-results", "--timeout=2m",
		},
		observed: os.Getenv("OBSERVED"),
	}
	if file := os.Getenv("REQUIRED"); file != "" {
		r.args = append(r.args, "--required-resources="+file)
	}
	out, err := r.play(xr, calls)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(out)
	return err
}

// callsOf the function; 0 for as many as it takes until nothing new comes. Between the
// calls on a moment of a service that exists Kubernetes would act, so there is one.
func callsOf(calls, observed string) (int, error) {
	if calls == "" && observed != "" {
		return 1, nil
	}
	if calls == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(calls)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("CALLS is a number such as 1, not %q", calls)
	}
	return n, nil
}

// A renderer calls Crossplane's CLI.
type renderer struct {
	cli, work string
	args      []string
	// observed is the file with the composed objects that exist; "" where there are none.
	observed string
}

// play so many calls, or until two give the same, and return what came of the last one,
// with the events of all.
func (r *renderer) play(xr []byte, calls int) ([]byte, error) {
	var events [][]byte
	before := ""
	for n := 1; ; n++ {
		out, err := r.call()
		if err != nil {
			return nil, err
		}
		if out, err = withWholeXR(out, xr); err != nil {
			return nil, err
		}
		objects, told, err := split(out)
		if err != nil {
			return nil, err
		}
		for _, e := range told {
			// Crossplane tells in each call what it did.
			if !slices.ContainsFunc(events, func(o []byte) bool { return bytes.Equal(o, e) }) {
				events = append(events, e)
			}
		}
		next, status, err := withStatus(xr, objects[0])
		if err != nil {
			return nil, err
		}
		now := transitionTime.ReplaceAllString(string(bytes.Join(append([][]byte{status}, objects[1:]...), nil)), "")
		if n == calls || calls == 0 && now == before {
			if calls == 0 {
				fmt.Fprintf(os.Stderr, "render: this is what %d calls of the function come to, with no cluster: no pod runs. CALLS=1 shows the first call alone.\n", n)
			}
			return join(append(objects, events...)), nil
		}
		if n == mostCalls && calls == 0 {
			return nil, fmt.Errorf("after %d calls there is still something new", n)
		}
		before = now
		// The next call begins with the XR and the objects as this one left them.
		r.observed = filepath.Join(r.work, "observed.yaml")
		if err := os.WriteFile(filepath.Join(r.work, "xr.yaml"), next, 0o600); err != nil {
			return nil, err
		}
		if err := os.WriteFile(r.observed, join(objects[1:]), 0o600); err != nil {
			return nil, err
		}
	}
}

func (r *renderer) call() ([]byte, error) {
	args := r.args
	if r.observed != "" {
		args = append(slices.Clone(args), "--observed-resources="+r.observed)
	}
	cmd := exec.CommandContext(context.Background(), r.cli, args...)
	cmd.Stderr = os.Stderr
	return cmd.Output()
}

// withStatus is the XR with the status that it was rendered with, and that alone.
func withStatus(xr, rendered []byte) (with, status []byte, err error) {
	from, o := map[string]any{}, map[string]any{}
	if err := yaml.Unmarshal(rendered, &from); err != nil {
		return nil, nil, err
	}
	if err := yaml.Unmarshal(xr, &o); err != nil {
		return nil, nil, err
	}
	o["status"] = from["status"]
	if status, err = yaml.Marshal(from["status"]); err != nil {
		return nil, nil, err
	}
	with, err = yaml.Marshal(o)
	return with, status, err
}

// transitionTime of a condition: the CLI gives each the time of the call.
var transitionTime = regexp.MustCompile(`lastTransitionTime: .*`)

// split what the CLI prints into the objects, the XR first, and the events.
func split(out []byte) (objects, events [][]byte, err error) {
	d := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(out)))
	for {
		doc, err := d.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		o := map[string]any{}
		if err := yaml.Unmarshal(doc, &o); err != nil {
			return nil, nil, err
		}
		switch {
		case len(o) == 0:
		case o["kind"] == "Result":
			events = append(events, doc)
		default:
			objects = append(objects, doc)
		}
	}
	if len(objects) == 0 {
		return nil, nil, errors.New("the CLI printed no XR")
	}
	return objects, events, nil
}

func join(docs [][]byte) []byte {
	var out bytes.Buffer
	for _, d := range docs {
		out.WriteString("---\n")
		out.Write(bytes.TrimSuffix(bytes.TrimPrefix(d, []byte("---\n")), []byte("\n")))
		out.WriteString("\n")
	}
	return out.Bytes()
}

// withWholeXR is the output with what the user wrote in its first document, the XR:
// the CLI prints its status and references alone. The CLI's own flag for that would
// keep what was in the status before and is not any more.
func withWholeXR(out, xr []byte) ([]byte, error) {
	const separator = "\n---\n"
	first, rest, more := bytes.Cut(out, []byte(separator))
	rendered, whole := map[string]any{}, map[string]any{}
	if err := yaml.Unmarshal(first, &rendered); err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(xr, &whole); err != nil {
		return nil, err
	}
	delete(whole, "status")
	merge(whole, rendered)
	b, err := yaml.Marshal(whole)
	if err != nil {
		return nil, err
	}
	b = append([]byte("---\n"), b...)
	if more {
		b = append(append(bytes.TrimSuffix(b, []byte("\n")), separator...), rest...)
	}
	return b, nil
}

// merge maps into maps.
func merge(into, from map[string]any) {
	for k, v := range from {
		old, isMap := into[k].(map[string]any)
		if m, both := v.(map[string]any); isMap && both {
			merge(old, m)
		} else {
			into[k] = v
		}
	}
}

// readXR reads what a user applies and makes an XR of it: Crossplane makes the XR
// of a claim itself, but the renderer takes only XRs.
func readXR(file, flavour string) ([]byte, string, error) {
	raw, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return nil, "", err
	}
	if flavour != "" && flavour != "namespaced" && flavour != "claim" {
		return nil, "", fmt.Errorf("FLAVOUR is namespaced or claim, not %q", flavour)
	}
	o, err := oneDocument(raw)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", file, err)
	}
	meta, _ := o["metadata"].(map[string]any)
	spec, _ := o["spec"].(map[string]any)
	if meta == nil || spec == nil {
		return nil, "", fmt.Errorf("%s has no metadata or no spec", file)
	}
	if _, ok := meta["namespace"]; !ok && o["kind"] == "DirectoryService" {
		meta["namespace"] = "default"
	}

	switch {
	case o["kind"] == "XDirectoryService":
		flavour = "claim"
	case o["kind"] != "DirectoryService":
		return nil, "", fmt.Errorf("%s holds a %v, not a DirectoryService", file, o["kind"])
	case flavour == "":
		flavour = "namespaced"
	case flavour == "claim":
		labels, _ := meta["labels"].(map[string]any)
		if labels == nil {
			labels = map[string]any{}
		}
		labels["crossplane.io/claim-name"], labels["crossplane.io/claim-namespace"] = meta["name"], meta["namespace"]
		spec["claimRef"] = map[string]any{"apiVersion": o["apiVersion"], "kind": o["kind"], "name": meta["name"], "namespace": meta["namespace"]}
		o["kind"] = "XDirectoryService"
		meta["labels"], meta["name"] = labels, fmt.Sprint(meta["name"], "-xxxxx")
		delete(meta, "namespace")
	}
	out, err := yaml.Marshal(o)
	return out, flavour, err
}

// oneDocument of a YAML file, which must hold no other.
func oneDocument(raw []byte) (map[string]any, error) {
	var found map[string]any
	r := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(raw)))
	for {
		doc, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		o := map[string]any{}
		if err := yaml.UnmarshalStrict(doc, &o); err != nil {
			return nil, err
		}
		switch {
		case len(o) == 0:
		case found != nil:
			return nil, errors.New("it holds more than one document: put each DirectoryService into a file of its own, and other objects into REQUIRED")
		default:
			found = o
		}
	}
	if found == nil {
		return nil, errors.New("it holds no document")
	}
	return found, nil
}

// clock that stands at a time; nil, the real one, where none is given.
func clock(at string) (func() time.Time, error) {
	if at == "" {
		return nil, nil //nolint:nilnil // The function's own default.
	}
	now, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return nil, fmt.Errorf("NOW is a time such as 2026-07-01T12:00:00Z, not %q", at)
	}
	return func() time.Time { return now }, nil
}

// serve the function on loopback and return its address.
func serve(f *fn.Function) (string, error) {
	// The SDK listens by itself and tells nobody the port it got, so a free one
	// is looked for first.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return "", err
	}
	failed := make(chan error, 1)
	go func() {
		failed <- function.Serve(f,
			function.Listen("tcp", address), function.Insecure(true), function.WithMetricsServer(""))
	}()
	for range 100 {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			return address, c.Close()
		}
		select {
		case err := <-failed:
			return "", err
		case <-time.After(20 * time.Millisecond):
		}
	}
	return "", errors.New("the function does not listen at " + address)
}

// tool is the path of a pinned tool, built at its first use.
func tool(name string) (string, error) {
	cmd := exec.CommandContext(context.Background(), "hack/tools/build.sh", name)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("cannot build %s: %w", name, err)
	}
	return strings.TrimSpace(string(out)), nil
}
