//go:build controlplane

package controlplane

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

const functionName = "function-directoryservice"

// built is what the flavours share: the function and its package.
type built struct {
	binary, xpkg string
	registry     string // address of the registry that each flavour starts
	image        string // of the package, which is also that of the function's own pods
}

var (
	buildOnce sync.Once
	build     built
	buildErr  error
)

// buildFunction builds the function and its package, once for both flavours.
func buildFunction(t *testing.T) built {
	t.Helper()
	cli := tool(t, "crossplane")
	dir := sharedDir
	buildOnce.Do(func() {
		build = built{binary: filepath.Join(dir, "directoryservice"), xpkg: filepath.Join(dir, "function.xpkg")}
		build.registry = fmt.Sprintf("%s:%d", loopback, freePorts(t, 1)[0])
		build.image = build.registry + "/389ds/" + functionName + ":v0.0.0"
		err := build.compile(t, build.binary)
		_, xerr := run(inRoot(t), nil, nil, cli, "xpkg", "build", "-f", inRoot(t, "package", "function"), "-o", build.xpkg)
		buildErr = errors.Join(err, xerr)
	})
	must(t, buildErr)
	return build
}

// compile builds the program as a release is: it knows its own image.
func (b built) compile(t *testing.T, binary string, flags ...string) error {
	t.Helper()
	args := append([]string{"build", "-ldflags", "-X main.agentImage=" + b.image, "-o", binary}, flags...)
	_, err := run(inRoot(t), nil, nil, "go", append(args, "./cmd/directoryservice")...)
	return err
}

// installFunction pushes the package to a registry, has Crossplane install it, and runs the function where Crossplane
// would have made a Deployment of it.
func (cp *controlPlane) installFunction(t *testing.T, b built) {
	t.Helper()
	ports := freePorts(t, 2)
	at := func(i int) string { return fmt.Sprintf("%s:%d", loopback, ports[i]) }

	cp.start(t, "registry", nil, tool(t, "crane"), "registry", "serve", "--address", b.registry)
	cp.eventually(t, 20*time.Second, "package pushed", func() string {
		if _, err := run(cp.dir, nil, nil, tool(t, "crossplane"), "xpkg", "push", "-f", b.xpkg, b.image); err != nil {
			return err.Error()
		}
		return ""
	})

	cp.address, cp.metrics = at(0), "http://"+at(1)+"/metrics"
	cp.runFunction(t, b.binary)

	// S11: the one file that a user installs, and nothing else.
	install := filepath.Join(cp.dir, "install.yaml")
	if out, err := run(cp.dir, nil, nil, inRoot(t, "hack/installer.sh"), cp.name, b.image, install); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cp.kubectl(t, "", "apply", "--server-side", "-f", install)

	// What Crossplane's runtime controllers would write into the revision's status.
	revisions := cp.dynamic.Resource(schema.GroupVersionResource{Group: "pkg.crossplane.io", Version: "v1", Resource: "functionrevisions"})
	endpoint := fmt.Sprintf(`{"status":{"endpoint":"dns:///%s","tlsServerSecretName":%q}}`, cp.address, serverSecret)
	cp.eventually(t, time.Minute, "the function's revision", func() string {
		l, err := revisions.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(l.Items) != 1 {
			return fmt.Sprintf("want one revision: %v, %v", l, err)
		}
		if _, err := revisions.Patch(t.Context(), l.Items[0].GetName(), types.MergePatchType, []byte(endpoint), metav1.PatchOptions{}, "status"); err != nil {
			return err.Error()
		}
		if c := condition(&l.Items[0], "RevisionHealthy"); c.Status != metav1.ConditionTrue {
			return fmt.Sprintf("RevisionHealthy: %+v", c)
		}
		return ""
	})
}

// runFunction starts the function, in the place of one that ran before.
func (cp *controlPlane) runFunction(t *testing.T, binary string) {
	t.Helper()
	if cp.function != nil {
		cp.function.stop()
	}
	metrics := strings.TrimSuffix(strings.TrimPrefix(cp.metrics, "http://"), "/metrics")
	cp.function = cp.start(t, "function", []string{"TLS_SERVER_CERTS_DIR=" + filepath.Join(cp.dir, "tls-server")}, binary,
		"serve", "--debug", "--address="+cp.address, "--metrics-address="+metrics)
	cp.eventually(t, 20*time.Second, "the function listens", func() string {
		c, err := net.Dial("tcp", cp.address)
		if err != nil {
			return err.Error()
		}
		_ = c.Close()
		return ""
	})
}

// runs counts how often Crossplane has called the function.
func (cp *controlPlane) runs(t *testing.T) int {
	t.Helper()
	rsp, err := http.Get(cp.metrics)
	must(t, err)
	defer rsp.Body.Close()
	body, err := io.ReadAll(rsp.Body)
	must(t, err)
	sum, found := 0, false
	for s := bufio.NewScanner(bytes.NewReader(body)); s.Scan(); {
		line := s.Text()
		if !strings.HasPrefix(line, "grpc_server_handled_total{") || !strings.Contains(line, `grpc_method="RunFunction"`) {
			continue
		}
		n, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		must(t, err)
		sum, found = sum+int(n), true
	}
	if !found {
		t.Fatalf("no count of RunFunction at %s:\n%s", cp.metrics, body)
	}
	return sum
}
