// Command render prints what Crossplane would make of one DirectoryService: it
// serves the function on loopback and runs the real Crossplane CLI with the real
// core as its engine. No cluster, no Docker.
//
// It reads its arguments from the environment, as `make render` passes them on.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	function "github.com/crossplane/function-sdk-go"
	"github.com/crossplane/function-sdk-go/logging"
	"sigs.k8s.io/yaml"

	"github.com/389ds/function-directoryservice/fn"
)

const usage = `usage: make render XR=FILE [OBSERVED=FILE] [REQUIRED=FILE] [FLAVOUR=namespaced|claim] [COMPOSITION=FILE]

XR           a DirectoryService as a user applies it, or an XDirectoryService
OBSERVED     composed objects that exist, each with the annotation crossplane.io/composition-resource-name
REQUIRED     other objects that exist: Secrets, Pods, PersistentVolumeClaims
FLAVOUR      claim: the DirectoryService is a claim (default: namespaced)
COMPOSITION  default: compositions/FLAVOUR.yaml
`

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

	work, err := os.MkdirTemp("", "render")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)

	target, err := serve()
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
	args := []string{
		"composition", "render", filepath.Join(work, "xr.yaml"), composition, filepath.Join(work, "functions.yaml"),
		"--crossplane-binary=" + core,
		// Applies the schema's defaults, and tells the engine the kind of XR.
		"--xrd=" + filepath.Join("apis", flavour, "definition.yaml"),
		"--include-function-results", "--include-full-xr", "--timeout=2m",
	}
	for flag, file := range map[string]string{"--observed-resources": os.Getenv("OBSERVED"), "--required-resources": os.Getenv("REQUIRED")} {
		if file != "" {
			args = append(args, flag+"="+file)
		}
	}
	cmd := exec.CommandContext(context.Background(), cli, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// readXR reads what a user applies and makes an XR of it: Crossplane makes the XR
// of a claim itself, but the renderer takes only XRs.
func readXR(file, flavour string) ([]byte, string, error) {
	raw, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return nil, "", err
	}
	o := map[string]any{}
	if err := yaml.UnmarshalStrict(raw, &o); err != nil {
		return nil, "", fmt.Errorf("cannot parse %s (it must hold one document): %w", file, err)
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
	case flavour == "" || flavour == "namespaced":
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
	default:
		return nil, "", fmt.Errorf("FLAVOUR is namespaced or claim, not %q", flavour)
	}
	out, err := yaml.Marshal(o)
	return out, flavour, err
}

// serve the function on loopback and return its address.
func serve() (string, error) {
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
		failed <- function.Serve(&fn.Function{Log: logging.NewNopLogger(), Random: rand.Reader},
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
