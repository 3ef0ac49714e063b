//go:build controlplane

package controlplane

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/compose"
	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/report"
)

func nested(u *unstructured.Unstructured, fields ...string) (string, bool, error) {
	return unstructured.NestedString(u.Object, fields...)
}

// publicCA is what clients are given.
func (s service) publicCA(t *testing.T) []byte {
	t.Helper()
	m, err := s.cp.kube.CoreV1().ConfigMaps(s.namespace).Get(t.Context(), s.name+"-config", metav1.GetOptions{})
	must(t, err)
	return []byte(m.Data[compose.KeyOfCA])
}

// verify checks that a client which has the published CA trusts the certificate in a Secret, under every name by which
// one reaches a server.
func (s service) verify(t *testing.T, secret *corev1.Secret, replicas int) error {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(s.publicCA(t)) {
		return fmt.Errorf("no CA in the ConfigMap: %q", s.publicCA(t))
	}
	pair, err := compose.ParseKeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return err
	}
	names := []string{s.name + "." + s.namespace + ".svc", s.name + "." + s.namespace + ".svc.cluster.local", s.name}
	for i := range replicas {
		names = append(names, fmt.Sprintf("%s-%d.%s-internal.%s.svc", s.name, i, s.name, s.namespace))
	}
	for _, n := range names {
		if _, err := pair.Certificate.Verify(x509.VerifyOptions{DNSName: n, Roots: roots}); err != nil {
			return fmt.Errorf("%s: %w", n, err)
		}
	}
	return nil
}

func tlsHash(s *corev1.Secret) string {
	return config.TLSHash(s.Data[corev1.TLSCertKey], s.Data[compose.KeyOfCA])
}

// awaitServed waits until all servers serve another certificate than that, each restarted once for it and in its turn.
func (s service) awaitServed(t *testing.T, old *corev1.Secret, replicas int) *corev1.Secret {
	t.Helper()
	var now *corev1.Secret
	s.cp.eventually(t, 2*soon, s.namespace+": a new certificate is served", func() string {
		var err error
		now, err = s.cp.kube.CoreV1().Secrets(s.namespace).Get(t.Context(), old.Name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if tlsHash(now) == tlsHash(old) {
			return "the certificate is the old one"
		}
		reports := s.reports(t)
		for i := range replicas {
			if r := reports[fmt.Sprintf("%s-%d", s.name, i)]; !r.Ready || r.Applied.TLS != tlsHash(now) {
				return compact(reports)
			}
		}
		return ""
	})
	s.awaitReason(t, "TLSReady", "Serving")
	return now
}

// testSelfSigned: R52, with a CA of the service's own.
func testSelfSigned(t *testing.T, cp *controlPlane) {
	const replicas = 3
	s := cp.install(t, "tls", replicas, "", nil)
	s.awaitReason(t, "TLSReady", "Serving")
	before, told := s.snapshot(t), s.told(t)
	ca, leaf := cp.secret(t, s.namespace, "example-ds-tls-ca"), cp.secret(t, s.namespace, "example-ds-tls")
	if err := s.verify(t, leaf, replicas); err != nil {
		t.Errorf("a client with the published CA: %v", err)
	}
	if bytes.Contains(s.publicCA(t), []byte("PRIVATE")) || len(ca.Data[corev1.TLSPrivateKeyKey]) == 0 {
		t.Error("the CA's key is where it should not be, or nowhere")
	}
	if _, there := leaf.Data["ca.key"]; there || bytes.Equal(leaf.Data[corev1.TLSPrivateKeyKey], ca.Data[corev1.TLSPrivateKeyKey]) {
		t.Error("the servers have the CA's key")
	}
	if told.Restart != nil || len(s.kubelet.restartsSoFar()) != 0 {
		t.Errorf("a first start needs no restart: %s", compact(told))
	}
	if st := s.status(t); st.TLS == nil || st.TLS.Secret != leaf.Name || st.TLS.NotAfter == nil {
		t.Errorf("status.tls: %s", compact(st.TLS))
	}
	_, err := cp.kube.CoreV1().Secrets(s.namespace).Patch(t.Context(), ca.Name, types.MergePatchType, []byte(`{"data":{"tls.key":"eA=="}}`), metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) {
		t.Errorf("the CA can be changed: %v", err)
	}

	t.Run("CertificateDeleted", func(t *testing.T) {
		begin, done, boots := time.Now(), len(s.kubelet.restartsSoFar()), s.reports(t)
		s.deleteSecret(t, leaf)
		leaf = s.awaitServed(t, leaf, replicas)
		for pod, r := range s.reports(t) {
			if was := boots[pod]; r.PodUID != was.PodUID || r.BootID == was.BootID || r.Applied.Restart != tlsHash(leaf) {
				t.Errorf("%s: not the same pod after a restart of its server:\nbefore: %+v\nafter:  %+v", pod, was, r)
			}
		}
		s.checkTurns(t, begin, replicas, done)
		if err := s.verify(t, leaf, replicas); err != nil {
			t.Errorf("a client with the published CA: %v", err)
		}
		if diff := cmp.Diff(ca.Data, cp.secret(t, s.namespace, ca.Name).Data); diff != "" {
			t.Error("another CA")
		}
	})
	t.Run("CADeleted", func(t *testing.T) {
		begin, old, done := time.Now(), s.publicCA(t), len(s.kubelet.restartsSoFar())
		s.deleteSecret(t, ca)
		leaf = s.awaitServed(t, leaf, replicas)
		s.checkTurns(t, begin, replicas, done)
		s.checkEvents(t, "CALost", 1)
		cp.eventually(t, soon, "clients have the new CA alone", func() string {
			now := s.publicCA(t)
			if err := s.verify(t, leaf, replicas); err != nil {
				return err.Error()
			}
			if bytes.Contains(now, bytes.TrimSpace(old)) {
				return "the old CA is trusted still"
			}
			return ""
		})
		renewed := cp.secret(t, s.namespace, ca.Name)
		if bytes.Equal(ca.Data[corev1.TLSCertKey], renewed.Data[corev1.TLSCertKey]) || renewed.Immutable == nil || !*renewed.Immutable {
			t.Error("no new, immutable CA")
		}
	})

	s.awaitPhase(t, v1alpha1.PhaseRunning)
	s.checkUntouched(t, "R52: servers restart within their pods.", before)
	if deleted := s.kubelet.deleted(); len(deleted) != 0 {
		t.Errorf("pods were deleted: %+v", deleted)
	}
	cp.eventually(t, soon, "no permit is left", func() string { return cmp.Diff(told, s.told(t)) })
}

// deleteSecret deletes one by hand, until what takes its place is another one: where Crossplane works upon a cache that
// still has it, it applies what it knows, and the old one is back.
func (s service) deleteSecret(t *testing.T, old *corev1.Secret) {
	t.Helper()
	s.settle(t)
	s.cp.recorder.allow(s.namespace, "secrets", old.Name)
	var last types.UID
	s.cp.eventually(t, soon, s.namespace+": another "+old.Name, func() string {
		now, err := s.cp.kube.CoreV1().Secrets(s.namespace).Get(t.Context(), old.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return "it is gone"
		case err != nil:
			return err.Error()
		case cmp.Equal(old.Data, now.Data) && now.UID != last:
			last = now.UID
			s.shell(t, "kubectl delete secret "+old.Name)
			return "deleted"
		case cmp.Equal(old.Data, now.Data):
			return "it is the old one"
		}
		return ""
	})
}

// checkTurns checks that since then each server was permitted to restart, and did, once, the highest first, and that no
// two were down together. So many restarts had been done before.
func (s service) checkTurns(t *testing.T, since time.Time, replicas, done int) {
	t.Helper()
	var want []int32
	var pods []string
	for i := replicas - 1; i >= 0; i-- {
		want = append(want, int32(i))
	}
	for _, i := range want {
		pods = append(pods, fmt.Sprintf("%s-%d", s.name, i))
	}
	if diff := cmp.Diff(want, s.permits(t, since)); diff != "" {
		t.Errorf("permits: -want, +got:\n%s", diff)
	}
	if diff := cmp.Diff(pods, s.kubelet.restartsSoFar()[done:]); diff != "" {
		t.Errorf("restarts: -want, +got:\n%s", diff)
	}
	if down := s.kubelet.maxDown(); len(down) > 1 {
		t.Errorf("down at once: %s", down)
	}
	for _, c := range s.cp.recorder.since(s.namespace, since) {
		if c.resource != "configmaps" || c.name != s.name+"-state" || c.new == nil {
			continue
		}
		var down []string
		data, _, _ := unstructured.NestedStringMap(c.new.Object, "data")
		for pod, doc := range data {
			if r, err := report.Parse(doc); err != nil || !r.Ready {
				down = append(down, pod)
			}
		}
		if len(down) > 1 {
			t.Errorf("at %s their agents reported not Ready: %s", c.at.Format("15:04:05.000"), down)
		}
	}
}

// certificates is as much of cert-manager's API as the function uses: its schema prunes all else.
const certificates = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: certificates.cert-manager.io
  annotations: {api-approved.kubernetes.io: "unapproved, a part of cert-manager's own"}
spec:
  group: cert-manager.io
  scope: Namespaced
  names: {kind: Certificate, listKind: CertificateList, plural: certificates, singular: certificate}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [issuerRef, secretName]
            properties:
              secretName: {type: string}
              commonName: {type: string}
              dnsNames: {type: array, items: {type: string}}
              usages: {type: array, items: {type: string, enum: [signing, digital signature, key encipherment, server auth, client auth]}}
              issuerRef:
                type: object
                required: [name]
                properties:
                  name: {type: string}
                  kind: {type: string}
                  group: {type: string}
              privateKey:
                type: object
                properties:
                  algorithm: {type: string, enum: [RSA, ECDSA, Ed25519]}
                  size: {type: integer}
                  rotationPolicy: {type: string, enum: [Never, Always]}
          status:
            type: object
            x-kubernetes-preserve-unknown-fields: true
`

var certificatesOf = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificates"}

func tlsMode(spec string) string {
	return `kubectl patch dirsrv example-ds --type merge -p '{"spec":{"tls":` + spec + `}}'`
}

// bring makes a Secret with a certificate of that CA, as a person or cert-manager would.
func (s service) bring(t *testing.T, ca *authority, name string, names ...string) *corev1.Secret {
	t.Helper()
	p, err := ca.issue(pkix.Name{CommonName: s.name}, x509.ExtKeyUsageServerAuth, names...)
	must(t, err)
	made, err := s.cp.kube.CoreV1().Secrets(s.namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: p.cert, corev1.TLSPrivateKeyKey: p.key, compose.KeyOfCA: ca.pem},
	}, metav1.CreateOptions{})
	must(t, err)
	return made
}

// awaitMounted waits until the service runs with that Secret's certificate.
func (s service) awaitMounted(t *testing.T, secret *corev1.Secret) {
	t.Helper()
	s.cp.eventually(t, 2*soon, s.namespace+": "+secret.Name+" is served", func() string {
		reports := s.reports(t)
		if r := reports[s.name+"-0"]; r.Applied.TLS != tlsHash(secret) || !r.Ready {
			return compact(s.status(t)) + compact(reports)
		}
		return ""
	})
	s.awaitReason(t, "TLSReady", "Serving")
	s.awaitRunning(t, "3.1.0", 1)
	if st := s.status(t); st.TLS == nil || st.TLS.Secret != secret.Name {
		t.Errorf("status.tls: %s", compact(st.TLS))
	}
	if err := s.verify(t, secret, 1); err != nil {
		t.Errorf("a client with the published CA: %v", err)
	}
}

// testBroughtCertificates: R52, with certificates that others make. Each mode has a Secret of its own, and is waited for.
func testBroughtCertificates(t *testing.T, cp *controlPlane) {
	ca, err := newAuthority("brought")
	must(t, err)
	s := cp.deploy(t, "brought", 1, "3.1.0", "tls:\n  mode: Secret\n  secretRef:\n    name: from-outside\n", nil)
	names := []string{s.name + "." + s.namespace + ".svc", s.name + "." + s.namespace + ".svc.cluster.local", s.name, "*." + s.name + "-internal." + s.namespace + ".svc"}
	c := s.awaitReason(t, "TLSReady", "SecretMissing")
	if c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, `"from-outside"`) || !strings.Contains(c.Message, "kubectl") {
		t.Errorf("it does not tell what to do: %+v", c)
	}
	s.awaitPhase(t, v1alpha1.PhaseBlocked)
	s.settle(t)
	if set := s.statefulSet(t); set != nil {
		t.Fatalf("a StatefulSet without a certificate: %s", compact(set.Spec))
	}
	s.awaitMounted(t, s.bring(t, ca, "from-outside", names...))
	for _, name := range []string{"example-ds-tls", "example-ds-tls-ca"} {
		if _, err := cp.kube.CoreV1().Secrets(s.namespace).Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s was made nevertheless (%v)", name, err)
		}
	}
	if refs := cp.secret(t, s.namespace, "from-outside").OwnerReferences; len(refs) != 0 {
		t.Errorf("the user's Secret was adopted: %s", compact(refs))
	}

	// From then on every change waits for what it needs, and the servers go on with what they have.
	before := s.snapshot(t)
	s.shell(t, tlsMode(`{"secretRef":{"name":"not-there"}}`))
	s.awaitReason(t, "TLSReady", "SecretMissing")
	s.checkUntouched(t, "R52: a Secret that is missing takes no certificate away.", before)
	if c := condition(s.get(t), "Ready"); c.Status != metav1.ConditionTrue {
		t.Errorf("a service that works is not Ready: %+v", c)
	}

	cp.kubectl(t, certificates, "apply", "--server-side", "-f", "-")
	cp.kubectl(t, "", "wait", "--for=condition=Established", "--timeout=60s", "crd/certificates.cert-manager.io")
	s.shell(t, tlsMode(`{"mode":"CertManager","secretRef":null,"issuerRef":{"name":"our-issuer"},"dnsNames":["ldap.example.com"]}`))
	s.awaitReason(t, "TLSReady", "Issuing")
	requests := cp.dynamic.Resource(certificatesOf).Namespace(s.namespace)
	var request *unstructured.Unstructured
	cp.eventually(t, soon, "a Certificate", func() string {
		if request, err = requests.Get(t.Context(), "example-ds-tls", metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	var got compose.Certificate
	must(t, fromUnstructured(request, &got))
	want := compose.CertificateSpec{
		SecretName: "example-ds-tls-issued", CommonName: "example-ds", DNSNames: got.Spec.DNSNames,
		IssuerRef:  compose.CertificateIssuer{Name: "our-issuer", Kind: "Issuer", Group: "cert-manager.io"},
		PrivateKey: compose.CertificatePrivateKey{Algorithm: "ECDSA", Size: 256, RotationPolicy: "Always"},
		Usages:     []string{"digital signature", "server auth", "client auth"},
	}
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("Certificate: -want, +got:\n%s", diff)
	}
	s.checkUntouched(t, "R52: what is not issued yet changes no pod.", before)
	s.awaitMounted(t, s.bring(t, ca, "example-ds-tls-issued", got.Spec.DNSNames...))
	if lives := s.lives(); len(lives) != 1 {
		t.Errorf("one change of the pods, got %s", lives)
	}

	// cert-manager renews: the server restarts within its pod.
	before = s.snapshot(t)
	renewed := s.renew(t, ca, "example-ds-tls-issued", got.Spec.DNSNames...)
	s.awaitMounted(t, renewed)
	s.checkUntouched(t, "R52: a renewed certificate changes no pod.", before)
	if diff := cmp.Diff([]string{"example-ds-0"}, s.kubelet.restartsSoFar()); diff != "" {
		t.Errorf("restarts: -want, +got:\n%s", diff)
	}

	s.shell(t, tlsMode(`{"mode":"SelfSigned","issuerRef":null,"dnsNames":null}`))
	cp.eventually(t, 2*soon, "a certificate of our own", func() string {
		if _, err := cp.kube.CoreV1().Secrets(s.namespace).Get(t.Context(), "example-ds-tls", metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	s.awaitMounted(t, cp.secret(t, s.namespace, "example-ds-tls"))
	cp.eventually(t, soon, "no Certificate any more", func() string {
		if _, err := requests.Get(t.Context(), "example-ds-tls", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("it is there: %v", err)
		}
		return ""
	})
	for _, name := range []string{"from-outside", "example-ds-tls-issued"} {
		cp.secret(t, s.namespace, name) // is nobody's to delete
	}
}

// renew puts another certificate into a Secret.
func (s service) renew(t *testing.T, ca *authority, name string, names ...string) *corev1.Secret {
	t.Helper()
	p, err := ca.issue(pkix.Name{CommonName: s.name}, x509.ExtKeyUsageServerAuth, names...)
	must(t, err)
	secret := s.cp.secret(t, s.namespace, name)
	secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey] = p.cert, p.key
	secret, err = s.cp.kube.CoreV1().Secrets(s.namespace).Update(t.Context(), secret, metav1.UpdateOptions{})
	must(t, err)
	return secret
}
