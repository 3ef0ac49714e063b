//go:build controlplane

package controlplane

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const loopback = "127.0.0.1"

// startKubernetes starts etcd, kube-apiserver and kube-controller-manager: no scheduler, no kubelet, so
// pods are made, and stay Pending until a test says otherwise.
func (cp *controlPlane) startKubernetes(t *testing.T) {
	t.Helper()
	ports := freePorts(t, 4)
	client := fmt.Sprintf("http://%s:%d", loopback, ports[0])
	peer := fmt.Sprintf("http://%s:%d", loopback, ports[1])
	cp.server = fmt.Sprintf("https://%s:%d", loopback, ports[2])

	pki := filepath.Join(cp.dir, "pki")
	ca, err := newAuthority("test-ca")
	must(t, err)
	cp.ca = ca.pem
	serving, err := ca.issue(pkix.Name{CommonName: "kube-apiserver"}, x509.ExtKeyUsageServerAuth, loopback, "localhost", "kubernetes.default.svc", "10.96.0.1")
	must(t, err)
	must(t, serving.write(pki, ca.pem))
	saKey := filepath.Join(pki, "service-account.key")
	must(t, writeServiceAccountKey(saKey))

	kubeconfig := func(name string, subject pkix.Name) string {
		p, err := ca.issue(subject, x509.ExtKeyUsageClientAuth)
		must(t, err)
		path := filepath.Join(cp.dir, name+".kubeconfig")
		must(t, writeKubeconfig(path, cp.server, ca.pem, clientcmdapi.AuthInfo{ClientCertificateData: p.cert, ClientKeyData: p.key}))
		return path
	}
	cp.kubeconfig = kubeconfig("admin", pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}})
	kcm := kubeconfig("kube-controller-manager", pkix.Name{CommonName: "system:kube-controller-manager"})

	cp.start(t, "etcd", nil, tool(t, "etcd"),
		"--data-dir="+filepath.Join(cp.dir, "etcd"),
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer,
		"--unsafe-no-fsync", "--log-level=warn")

	cp.start(t, "kube-apiserver", nil, tool(t, "kube-apiserver"),
		"--etcd-servers="+client,
		"--bind-address="+loopback, "--secure-port="+strconv.Itoa(ports[2]),
		"--endpoint-reconciler-type=none", // loopback cannot be an endpoint
		"--service-cluster-ip-range=10.96.0.0/16",
		"--tls-cert-file="+filepath.Join(pki, "tls.crt"), "--tls-private-key-file="+filepath.Join(pki, "tls.key"),
		"--client-ca-file="+filepath.Join(pki, "ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+saKey, "--service-account-signing-key-file="+saKey,
		"--authorization-mode=RBAC",
		// On in OpenShift: owning an object then needs the right to set its owner's finalizers.
		"--enable-admission-plugins=OwnerReferencesPermissionEnforcement")

	cfg, err := clientcmd.BuildConfigFromFlags("", cp.kubeconfig)
	must(t, err)
	cfg.QPS, cfg.Burst = 200, 400
	cp.config = cfg
	cp.kube, err = kubernetes.NewForConfig(cfg)
	must(t, err)
	cp.dynamic, err = dynamic.NewForConfig(cfg)
	must(t, err)
	cp.eventually(t, time.Minute, "kube-apiserver ready", func() string {
		if _, err := cp.kube.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(t.Context()); err != nil {
			return err.Error()
		}
		return ""
	})

	cp.controllers = cp.start(t, "kube-controller-manager", nil, tool(t, "kube-controller-manager"),
		"--kubeconfig="+kcm, "--authentication-kubeconfig="+kcm, "--authorization-kubeconfig="+kcm,
		"--bind-address="+loopback, "--secure-port="+strconv.Itoa(ports[3]),
		"--leader-elect=false", "--use-service-account-credentials=true",
		"--root-ca-file="+filepath.Join(pki, "ca.crt"), "--service-account-private-key-file="+saKey,
		"--kube-api-qps=200", "--kube-api-burst=400")
}

// freePorts asks the kernel for ports nobody uses.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", loopback+":0")
		must(t, err)
		// Closed at the end only, so that no port is given twice.
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return b
}
