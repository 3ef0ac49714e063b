package compose

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/naming"
)

// VolumeTLS is the pods' volume with the Secret that holds the servers' certificate.
const VolumeTLS = "tls"

// VolumeDMPassword is the one with the Directory Manager's password.
const VolumeDMPassword = "dm-password"

// KeyOfCA is the key of a Secret with a certificate, and of the ConfigMap, under which
// the CA's certificate is.
const KeyOfCA = "ca.crt"

// tls adds what makes the servers' certificate (R52).
func tls(in Inputs, d Desired) error {
	ca, err := tlsCA(in)
	if err != nil {
		return err
	}
	if ca != nil {
		d[naming.KeyTLSCA] = Object{Object: ca}
	}
	leaf, err := tlsLeaf(in)
	if err != nil {
		return err
	}
	if leaf != nil {
		d[naming.KeyTLS] = Object{Object: leaf}
	}
	if in.Spec.TLS.Mode == v1alpha1.TLSModeCertManager {
		d[naming.KeyCertificate] = Object{Object: certificateRequest(in)}
	}
	return nil
}

// tlsCA is the Secret with the service's own CA; nil where there is none to compose. As
// the password (see dmPassword) it is made once, kept key by key, and immutable. No pod
// mounts it.
func tlsCA(in Inputs) (*corev1.Secret, error) {
	keep := in.TLS.KeepCA
	if keep == nil && !in.TLS.MakeCA {
		return nil, nil //nolint:nilnil // "none" is an answer here, not an error.
	}
	s := in.tlsSecret(in.Identity.TLSCA(), keep)
	s.Immutable = ptr.To(true)
	if keep != nil {
		return s, nil
	}
	subject := pkix.Name{CommonName: in.Identity.Name + " CA", Organization: []string{in.Identity.Namespace}}
	certificate, key, err := newCA(in.Random, subject, in.TLS.Now)
	if err != nil {
		return nil, err
	}
	s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey] = certificate, key
	return s, nil
}

// tlsLeaf is the Secret with the servers' certificate; nil where there is none to compose.
// It stays as observed until a new one is to be issued.
func tlsLeaf(in Inputs) (*corev1.Secret, error) {
	keep := in.TLS.Keep
	if keep == nil && !in.TLS.Issue {
		return nil, nil //nolint:nilnil // "none" is an answer here, not an error.
	}
	s := in.tlsSecret(in.Identity.OwnTLS(), keep)
	if !in.TLS.Issue {
		return s, nil
	}
	if keep != nil {
		// Decided upon an older one than there is, it would restart all servers again.
		s.ResourceVersion = keep.GetResourceVersion()
	}
	certificate, key, err := newLeaf(in.Random, in.TLS.CA, in.Identity.Name, DNSNames(in.Identity, in.Spec.TLS.DNSNames), in.TLS.Now)
	if err != nil {
		return nil, err
	}
	s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey], s.Data[KeyOfCA] = certificate, key, in.TLS.CA.pem()
	return s, nil
}

func (in Inputs) tlsSecret(name string, keep *corev1.Secret) *corev1.Secret {
	meta := in.meta(name)
	meta.Annotations = keepAnnotations()
	s := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: meta,
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{},
	}
	if keep != nil {
		if keep.Type != "" {
			s.Type = keep.Type
		}
		maps.Copy(s.Data, keep.Data)
		s.OwnerReferences = demoted(keep.GetOwnerReferences(), in.Owner)
	}
	return s
}

// DNSNames of the servers' certificate: every name of both Services, every pod's by a
// wildcard, or scaling would need a new certificate (R21), and those of the spec.
func DNSNames(id naming.Identity, more []string) []string {
	ns := "." + id.Namespace
	domains := []string{"", ns, ns + ".svc", ns + ".svc.cluster.local"}
	var out []string
	for _, name := range []string{id.Service(), id.ServiceInternal(), "*." + id.ServiceInternal()} {
		for _, d := range domains {
			out = append(out, name+d)
		}
	}
	for _, name := range slices.Sorted(slices.Values(more)) {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// MissingNames are those by which clients and the other servers reach a service and which
// a certificate lacks.
func MissingNames(c *x509.Certificate, id naming.Identity, replicas int32) []string {
	domain := "." + id.Namespace + ".svc"
	names := make([]string, 0, 1+max(replicas, 0))
	names = append(names, id.Service()+domain)
	for i := range replicas {
		names = append(names, id.Pod(i)+"."+id.ServiceInternal()+domain)
	}
	return slices.DeleteFunc(names, func(name string) bool { return c.VerifyHostname(name) == nil })
}

// MustIssue says that what is in the Secret of our own certificate has to be replaced. It
// is renewed with a third of its life left, which is time enough to mend what may fail.
func MustIssue(data map[string][]byte, ca *KeyPair, names []string, now time.Time) bool {
	have, err := ParseKeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return true
	}
	c := have.Certificate
	renewal := c.NotBefore.Add(c.NotAfter.Sub(c.NotBefore) / 3 * 2)
	return !now.Before(renewal) || !sameNames(c.DNSNames, names) ||
		c.CheckSignatureFrom(ca.Certificate) != nil || !bytes.Equal(data[KeyOfCA], ca.pem())
}

func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// Errors of a CA.
var (
	errNoCA    = errors.New("tls.crt is not the certificate of a CA")
	errExpired = errors.New("it has expired")
)

// ParseCA reads a CA that can sign now.
func ParseCA(data map[string][]byte, now time.Time) (*KeyPair, error) {
	ca, err := ParseKeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, err
	}
	c := ca.Certificate
	switch {
	case !c.BasicConstraintsValid || !c.IsCA || c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageCertSign == 0:
		return nil, errNoCA
	case now.After(c.NotAfter):
		return nil, errExpired
	}
	return ca, nil
}

// A Certificate asks cert-manager for one. These are the fields that are set: the module
// with cert-manager's own types would bring all that it is made of.
type Certificate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec CertificateSpec `json:"spec"`
}

// CertificateSpec of cert-manager.io/v1.
type CertificateSpec struct {
	SecretName string                `json:"secretName"`
	CommonName string                `json:"commonName"`
	DNSNames   []string              `json:"dnsNames"`
	IssuerRef  CertificateIssuer     `json:"issuerRef"`
	PrivateKey CertificatePrivateKey `json:"privateKey"`
	Usages     []string              `json:"usages"`
}

// CertificateIssuer of cert-manager.io/v1.
type CertificateIssuer struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	Group string `json:"group"`
}

// CertificatePrivateKey of cert-manager.io/v1.
type CertificatePrivateKey struct {
	Algorithm      string `json:"algorithm"`
	Size           int    `json:"size"`
	RotationPolicy string `json:"rotationPolicy"`
}

func certificateRequest(in Inputs) *Certificate {
	issuer := in.Spec.TLS.IssuerRef
	return &Certificate{
		TypeMeta:   metav1.TypeMeta{APIVersion: "cert-manager.io/v1", Kind: "Certificate"},
		ObjectMeta: in.meta(in.Identity.Certificate()),
		Spec: CertificateSpec{
			SecretName: in.Identity.IssuedTLS(),
			CommonName: in.Identity.Name,
			DNSNames:   DNSNames(in.Identity, in.Spec.TLS.DNSNames),
			IssuerRef:  CertificateIssuer{Name: issuer.Name, Kind: issuer.Kind, Group: issuer.Group},
			PrivateKey: CertificatePrivateKey{Algorithm: "ECDSA", Size: 256, RotationPolicy: "Always"},
			Usages:     []string{"digital signature", "server auth", "client auth"},
		},
	}
}

// needsCertificate says that a Certificate which the spec does not ask for any more must
// stay: pods refer to its Secret, or may come to again by a rollback. cert-manager can be
// told to delete the Secret with it.
func (in Inputs) needsCertificate() bool {
	issued := in.Identity.IssuedTLS()
	return in.Operating || in.TLS.Secret == issued || in.TLS.InUse == issued
}
