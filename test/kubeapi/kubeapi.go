//go:build controlplane || ldap

package kubeapi

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/test/kubeapi/pki"
)

// Options of an API.
type Options struct {
	// Address at which kube-apiserver listens; 127.0.0.1 when empty.
	Address string
	// Logs is the directory of the two logs; one that goes with the test when empty.
	Logs string
}

// An API is a running etcd and kube-apiserver.
type API struct {
	// Host and Port are where pods reach it; URL is both.
	Host string
	Port int
	URL  string
	// CA signed its certificate, PEM.
	CA []byte
	// Config, Client and Kubeconfig (a file) are a cluster admin's.
	Config     *rest.Config
	Client     kubernetes.Interface
	Kubeconfig string

	args   []string // of kube-apiserver
	log    string
	path   string
	etcd   *process
	server *process
}

const loopback = "127.0.0.1"

// Start returns when the API answers. It ends with the test.
func Start(t *testing.T, o Options) *API {
	t.Helper()
	if o.Address == "" {
		o.Address = loopback
	}
	dir := t.TempDir()
	if o.Logs == "" {
		o.Logs = dir
	}
	etcdPorts := freePorts(t, loopback, 2)
	client := "http://" + net.JoinHostPort(loopback, strconv.Itoa(etcdPorts[0]))
	peer := "http://" + net.JoinHostPort(loopback, strconv.Itoa(etcdPorts[1]))
	a := &API{Host: o.Address, Port: freePorts(t, o.Address, 1)[0], log: filepath.Join(o.Logs, "kube-apiserver.log"), path: tool(t, "kube-apiserver")}
	a.URL = "https://" + net.JoinHostPort(a.Host, strconv.Itoa(a.Port))

	ca, err := pki.NewAuthority("test-ca")
	must(t, err)
	a.CA = ca.PEM
	serving, err := ca.Issue(pki.Request{Subject: pkix.Name{CommonName: "kube-apiserver"}, Names: []string{o.Address, loopback, "localhost", "kubernetes.default.svc"}})
	must(t, err)
	certs := filepath.Join(dir, "pki")
	must(t, serving.Write(certs, ca.PEM))
	tokens := filepath.Join(certs, "service-account.key")
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	must(t, os.WriteFile(tokens, pki.Encode("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)), 0o600))

	a.etcd, err = startProcess(filepath.Join(o.Logs, "etcd.log"), "etcd", tool(t, "etcd"),
		"--data-dir="+filepath.Join(dir, "etcd"),
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer,
		"--unsafe-no-fsync", "--log-level=warn")
	must(t, err)
	t.Cleanup(a.etcd.stop)

	a.args = []string{
		"--etcd-servers=" + client,
		"--bind-address=" + o.Address, "--secure-port=" + strconv.Itoa(a.Port),
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.96.0.0/16",
		"--tls-cert-file=" + filepath.Join(certs, "tls.crt"), "--tls-private-key-file=" + filepath.Join(certs, "tls.key"),
		"--client-ca-file=" + filepath.Join(certs, "ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + tokens, "--service-account-signing-key-file=" + tokens,
		"--authorization-mode=RBAC",
		// On in OpenShift: owning an object then needs the right to set its owner's finalizers.
		"--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
	}
	admin, err := ca.Issue(pki.Request{Subject: pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}, Usage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	must(t, err)
	a.Kubeconfig = filepath.Join(dir, "admin.kubeconfig")
	must(t, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"test": {Server: a.URL, CertificateAuthorityData: ca.PEM}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"test": {ClientCertificateData: admin.Cert, ClientKeyData: admin.Key}},
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test", AuthInfo: "test"}},
		CurrentContext: "test",
	}, a.Kubeconfig))
	a.Config, err = clientcmd.BuildConfigFromFlags("", a.Kubeconfig)
	must(t, err)
	a.Config.QPS, a.Config.Burst = 200, 400
	a.Client, err = kubernetes.NewForConfig(a.Config)
	must(t, err)

	t.Cleanup(func() {
		if a.server != nil {
			a.server.stop()
		}
		if t.Failed() && o.Logs != dir {
			t.Logf("logs of etcd and kube-apiserver: %s", o.Logs)
		}
	})
	a.StartServer(t)
	return a
}

// StopServer ends kube-apiserver, as in an outage: connections are refused until StartServer. What it stored stays.
func (a *API) StopServer(t *testing.T) {
	t.Helper()
	if a.server == nil {
		t.Fatal("kube-apiserver is stopped already")
	}
	a.server.stop()
	a.server = nil
}

// StartServer starts kube-apiserver again, at the same address, and returns when it answers.
func (a *API) StartServer(t *testing.T) {
	t.Helper()
	if a.server != nil {
		t.Fatal("kube-apiserver runs already")
	}
	var err error
	a.server, err = startProcess(a.log, "kube-apiserver", a.path, a.args...)
	must(t, err)
	deadline := time.Now().Add(time.Minute)
	for {
		// /readyz includes the roles that every cluster has.
		_, err := a.Client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(t.Context())
		if err == nil {
			return
		}
		if gone := errors.Join(a.etcd.ended(), a.server.ended()); gone != nil {
			t.Fatal(gone)
		}
		if time.Now().After(deadline) {
			t.Fatalf("kube-apiserver not ready after a minute: %v\n%s", err, a.server.tail())
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// Freeze lets kube-apiserver accept connections and answer none, until Thaw.
func (a *API) Freeze() { a.server.signal(syscall.SIGSTOP) }

// Thaw ends Freeze.
func (a *API) Thaw() { a.server.signal(syscall.SIGCONT) }

// Namespace makes a namespace, unless it is there.
func (a *API) Namespace(t *testing.T, name string) {
	t.Helper()
	_, err := a.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// ServiceAccount makes a service account, and its namespace, unless they are there.
func (a *API) ServiceAccount(t *testing.T, namespace, name string) {
	t.Helper()
	a.Namespace(t, namespace)
	_, err := a.Client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// Token is one of a service account, as a kubelet would mount it (but bound to no pod).
func (a *API) Token(t *testing.T, namespace, serviceAccount string) string {
	t.Helper()
	r, err := a.Client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), serviceAccount, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)},
	}, metav1.CreateOptions{})
	must(t, err)
	return r.Status.Token
}

// tool returns the path of a pinned tool.
func tool(t *testing.T, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	must(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("this test does not run in its repository")
		}
		dir = filepath.Dir(dir)
	}
	cmd := exec.Command(filepath.Join(dir, "hack", "tools", "build.sh"), name)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(fmt.Errorf("hack/tools/build.sh %s: %w: %s", name, err, complaint.String()))
	}
	return strings.TrimSpace(string(out))
}

// freePorts asks the kernel for ports nobody uses.
func freePorts(t *testing.T, address string, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
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
