//go:build controlplane

package controlplane

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	authnv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
)

const (
	system       = "crossplane-system"
	rootCASecret = "crossplane-root-ca"
	clientSecret = "crossplane-tls-client"
	serverSecret = "function-directoryservice-tls-server"
)

// startCrossplane starts Crossplane and its RBAC manager as the chart does, each with the token of its own
// service account and so with the rights of its role.
func (cp *controlPlane) startCrossplane(t *testing.T) {
	t.Helper()
	core := tool(t, "crossplane-core")
	out, err := run(inRoot(t, "hack", "tools", "crossplane"), nil, nil, "go", "mod", "download", "-json", "github.com/crossplane/crossplane/v2")
	must(t, err)
	var module struct{ Dir string }
	must(t, json.Unmarshal(out, &module))

	cp.kubectl(t, string(mustRead(t, inRoot(t, "test", "controlplane", "testdata", "crossplane.yaml"))), "apply", "-f", "-")
	identity := "KUBECONFIG=" + cp.serviceAccount(t, "crossplane")

	cp.eventually(t, time.Minute, "core init", func() string {
		// Aggregation is a controller's work: for a moment the role is empty.
		_, err := run(cp.dir, []string{
			identity,
			"CRDS_PATH=" + filepath.Join(module.Dir, "cluster", "crds"),
			"ENABLE_WEBHOOKS=false",
			"TLS_CA_SECRET_NAME=" + rootCASecret,
			"TLS_CLIENT_SECRET_NAME=" + clientSecret,
		}, nil, core, "core", "init")
		if err != nil {
			return err.Error()
		}
		return ""
	})

	root := cp.secret(t, system, rootCASecret)
	ca, err := parseAuthority(root.Data["tls.crt"], root.Data["tls.key"])
	must(t, err)
	client := cp.secret(t, system, clientSecret)
	clientDir := filepath.Join(cp.dir, "tls-client")
	must(t, pair{cert: client.Data["tls.crt"], key: client.Data["tls.key"]}.write(clientDir, ca.pem))
	serving, err := ca.issue(pkix.Name{CommonName: "function-directoryservice"}, x509.ExtKeyUsageServerAuth, loopback)
	must(t, err)
	must(t, serving.write(filepath.Join(cp.dir, "tls-server"), ca.pem))
	_, err = cp.kube.CoreV1().Secrets(system).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: serverSecret},
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{"tls.crt": serving.cert, "tls.key": serving.key, "ca.crt": ca.pem},
	}, metav1.CreateOptions{})
	must(t, err)

	cache := filepath.Join(cp.dir, "xpkg") // Crossplane does not make it
	must(t, os.MkdirAll(cache, 0o755))
	ports := freePorts(t, 2)
	cp.crossplane = cp.start(t, "crossplane", []string{identity}, core, "core", "start", "--debug",
		"--package-runtime=External", // we run the function
		"--enable-webhooks=false",
		"--tls-client-certs-dir="+clientDir,
		"--xpkg-cache-dir="+cache,
		// With the default of 100 Crossplane stops listening to a service for minutes when a test does to it within
		// seconds what takes hours elsewhere; with this one it still does for a function that loops.
		"--circuit-breaker-burst=500",
		"--metrics-port="+strconv.Itoa(ports[0]), "--health-probe-port="+strconv.Itoa(ports[1]))

	// The RBAC manager cannot be told another port for its metrics.
	l, err := net.Listen("tcp", ":8080")
	if err != nil {
		t.Fatalf("Crossplane's RBAC manager needs port 8080: %v", err)
	}
	must(t, l.Close())
	cp.start(t, "rbac-manager", []string{"KUBECONFIG=" + cp.serviceAccount(t, "rbac-manager")}, core,
		"rbac", "start", "--provider-clusterrole=crossplane:allowed-provider-permissions")
}

// serviceAccount returns a kubeconfig with a token of that service account.
func (cp *controlPlane) serviceAccount(t *testing.T, name string) string {
	t.Helper()
	tr, err := cp.kube.CoreV1().ServiceAccounts(system).CreateToken(t.Context(), name, &authnv1.TokenRequest{}, metav1.CreateOptions{})
	must(t, err)
	path := filepath.Join(cp.dir, name+".kubeconfig")
	must(t, writeKubeconfig(path, cp.server, cp.ca, clientcmdapi.AuthInfo{Token: tr.Status.Token}))
	return path
}

// awaitAPI returns when Crossplane offers our kinds, and may compose for them.
func (cp *controlPlane) awaitAPI(t *testing.T) {
	t.Helper()
	cp.eventually(t, time.Minute, "the XRD established", func() string {
		conditions := []string{"Established"}
		if cp.claim {
			conditions = append(conditions, "Offered")
		}
		for _, c := range conditions {
			out, err := cp.tryKubectl(t, "", "get", "xrd", "-o", fmt.Sprintf(`jsonpath={.items[*].status.conditions[?(@.type==%q)].status}`, c))
			if err != nil || out != "True" {
				return fmt.Sprintf("%s=%q, %v", c, out, err)
			}
		}
		return ""
	})
	// The RBAC manager grants Crossplane our kinds, and the admission plugin learns of them every half minute.
	cfg := rest.CopyConfig(cp.config)
	cfg.Impersonate.UserName = "system:serviceaccount:" + system + ":crossplane"
	crossplane, err := kubernetes.NewForConfig(cfg)
	must(t, err)
	kind := "DirectoryService"
	if cp.claim {
		kind = "XDirectoryService"
	}
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "probe-", OwnerReferences: []metav1.OwnerReference{{
		APIVersion: directoryServices.GroupVersion().String(), Kind: kind, Name: "probe", UID: "probe", BlockOwnerDeletion: ptr.To(true),
	}}}}
	cp.eventually(t, time.Minute, "Crossplane may own objects", func() string {
		_, err := crossplane.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(t.Context(), owned, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err.Error()
		}
		return ""
	})
}
