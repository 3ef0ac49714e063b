package compose

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	mathrand "math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/naming"
)

var (
	tlsNow = time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)
	tlsID  = naming.Identity{Name: "ds", Namespace: "team"}
)

// tlsInputs are all that the certificate is made of.
func tlsInputs(t TLS) Inputs {
	t.Secret = "ds-tls"
	if t.Now.IsZero() {
		t.Now = tlsNow
	}
	seed := [32]byte{7}
	if t.Issue {
		seed[0]++ // Or the certificate would have the CA's key.
	}
	in := Inputs{Identity: tlsID, Spec: &v1alpha1.DirectoryServiceSpec{}, TLS: t, Random: mathrand.NewChaCha8(seed)}
	in.Spec.Default()
	return in
}

func mustTLS(t *testing.T, in Inputs) Desired {
	t.Helper()
	d := Desired{}
	if err := tls(in, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// madeCA is one that an earlier call made, as Secret and as signer.
func madeCA(t *testing.T) (*corev1.Secret, *KeyPair) {
	t.Helper()
	s := object[*corev1.Secret](t, mustTLS(t, tlsInputs(TLS{MakeCA: true})), naming.KeyTLSCA)
	ca, err := ParseCA(s.Data, tlsNow)
	if err != nil {
		t.Fatal(err)
	}
	return s, ca
}

func madeLeaf(t *testing.T, ca *KeyPair, more ...string) *corev1.Secret {
	t.Helper()
	in := tlsInputs(TLS{Issue: true, CA: ca})
	in.Spec.TLS.DNSNames = more
	return object[*corev1.Secret](t, mustTLS(t, in), naming.KeyTLS)
}

func leafOf(t *testing.T, s *corev1.Secret) *x509.Certificate {
	t.Helper()
	p, err := ParseKeyPair(s.Data["tls.crt"], s.Data["tls.key"])
	if err != nil {
		t.Fatal(err)
	}
	return p.Certificate
}

// R52: a CA of the service's own, which signs servers and no further CA.
func TestTLSCA(t *testing.T) {
	s, ca := madeCA(t)
	c := ca.Certificate
	got := map[string]any{
		"name": s.GetName(), "type": s.Type, "immutable": s.Immutable, "cn": c.Subject.CommonName, "o": c.Subject.Organization,
		"ca": c.IsCA, "path": c.MaxPathLenZero, "usage": c.KeyUsage, "until": c.NotAfter, "self": c.CheckSignatureFrom(c) == nil,
		"annotations": s.GetAnnotations(), "keys": len(s.Data),
	}
	want := map[string]any{
		"name": "ds-tls-ca", "type": corev1.SecretTypeTLS, "immutable": ptr.To(true), "cn": "ds CA", "o": []string{"team"},
		"ca": true, "path": true, "usage": x509.KeyUsageCertSign | x509.KeyUsageCRLSign, "until": tlsNow.Add(10 * 365 * 24 * time.Hour), "self": true,
		"annotations": keepAnnotations(), "keys": 2,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if k, ok := c.PublicKey.(*ecdsa.PublicKey); !ok || k.Curve != elliptic.P256() {
		t.Errorf("the key is a %T", c.PublicKey)
	}
}

// R52: the certificate is that of a server and of a client, since servers replicate.
func TestTLSLeaf(t *testing.T) {
	caSecret, ca := madeCA(t)
	s := madeLeaf(t, ca, "ldap.example.org", "alias.example.org")
	c := leafOf(t, s)

	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.Data["ca.crt"])
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		if _, err := c.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: tlsNow, KeyUsages: []x509.ExtKeyUsage{use}}); err != nil {
			t.Errorf("it does not verify for use %d: %v", use, err)
		}
	}
	got := map[string]any{
		"name": s.GetName(), "type": s.Type, "immutable": s.Immutable, "cn": c.Subject.CommonName, "ca": c.IsCA,
		"from": c.NotBefore.Before(tlsNow), "life": c.NotAfter.Sub(tlsNow), "annotations": s.GetAnnotations(), "keys": len(s.Data),
		"last": c.DNSNames[len(c.DNSNames)-2:], "root": bytes.Equal(s.Data["ca.crt"], caSecret.Data["tls.crt"]),
	}
	want := map[string]any{
		"name": "ds-tls", "type": corev1.SecretTypeTLS, "immutable": (*bool)(nil), "cn": "ds", "ca": false,
		"from": true, "life": 90 * 24 * time.Hour, "annotations": keepAnnotations(), "keys": 3,
		"last": []string{"alias.example.org", "ldap.example.org"}, "root": true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// R52, R21: it is for every Service and every pod, by every name; and scaling needs no
// other one.
func TestTLSNames(t *testing.T) {
	_, ca := madeCA(t)
	c := leafOf(t, madeLeaf(t, ca))
	hosts := []string{"ds", "ds-internal", "ds-0.ds-internal", "ds-1.ds-internal", "ds-19.ds-internal"}
	for _, host := range hosts {
		for _, domain := range []string{"", ".team", ".team.svc", ".team.svc.cluster.local"} {
			if err := c.VerifyHostname(host + domain); err != nil {
				t.Errorf("%s: %v", host+domain, err)
			}
		}
	}
	for _, host := range []string{"other", "ds.other.svc", "a.b.ds-internal.team.svc", "ds-0.ds-internal.other.svc"} {
		if c.VerifyHostname(host) == nil {
			t.Errorf("it is for %s as well", host)
		}
	}
	if missing := MissingNames(c, tlsID, 20); len(missing) > 0 {
		t.Errorf("names are missing: %v", missing)
	}
	want := []string{"ds.other.svc", "ds-0.ds-internal.other.svc", "ds-1.ds-internal.other.svc"}
	if diff := cmp.Diff(want, MissingNames(c, naming.Identity{Name: "ds", Namespace: "other"}, 2)); diff != "" {
		t.Errorf("missing names: -want, +got:\n%s", diff)
	}
	if diff := cmp.Diff(DNSNames(tlsID, []string{"b", "a", "ds.team.svc"}), DNSNames(tlsID, []string{"a", "ds.team.svc", "b"})); diff != "" {
		t.Errorf("the order of the spec counts:\n%s", diff)
	}
}

// The longest name and namespace fit into a certificate.
func TestTLSLongNames(t *testing.T) {
	_, ca := madeCA(t)
	in := tlsInputs(TLS{Issue: true, CA: ca})
	in.Identity = naming.Identity{Name: strings.Repeat("a", 52), Namespace: strings.Repeat("b", 63)}
	c := leafOf(t, object[*corev1.Secret](t, mustTLS(t, in), naming.KeyTLS))
	if missing := MissingNames(c, in.Identity, 20); len(missing) > 0 {
		t.Errorf("names are missing: %v", missing)
	}
	in.TLS = TLS{MakeCA: true, Now: tlsNow}
	mustTLS(t, in)
}

// R9, R52: what was made stays, key by key; and so it does where the spec wants another
// mode by now.
func TestTLSIsKept(t *testing.T) {
	caSecret, ca := madeCA(t)
	leaf := madeLeaf(t, ca)
	for _, s := range []*corev1.Secret{caSecret, leaf} {
		s.Data["added-by-hand"] = []byte("x")
		s.OwnerReferences = []metav1.OwnerReference{{UID: "old", Controller: ptr.To(true)}}
	}
	before := []*corev1.Secret{caSecret.DeepCopy(), leaf.DeepCopy()}
	for _, mode := range []v1alpha1.TLSMode{v1alpha1.TLSModeSelfSigned, v1alpha1.TLSModeSecret, v1alpha1.TLSModeCertManager} {
		in := tlsInputs(TLS{KeepCA: caSecret, Keep: leaf, CA: ca})
		in.Spec.TLS = v1alpha1.TLS{Mode: mode, IssuerRef: &v1alpha1.IssuerRef{Name: "x"}}
		in.Random = strings.NewReader("")
		d := mustTLS(t, in)
		for i, key := range []string{naming.KeyTLSCA, naming.KeyTLS} {
			got := object[*corev1.Secret](t, d, key)
			if diff := cmp.Diff(before[i].Data, got.Data); diff != "" {
				t.Errorf("%s, %s: the data changed: -before, +after:\n%s", mode, key, diff)
			}
			want := []metav1.OwnerReference{{UID: "old", Controller: ptr.To(false)}}
			if diff := cmp.Diff(want, got.OwnerReferences); diff != "" {
				t.Errorf("%s, %s: R20: owners: -want, +got:\n%s", mode, key, diff)
			}
			if got.ResourceVersion != "" {
				t.Errorf("%s, %s: nothing was decided, and the resourceVersion is %s", mode, key, got.ResourceVersion)
			}
		}
	}
	if diff := cmp.Diff(before, []*corev1.Secret{caSecret, leaf}); diff != "" {
		t.Errorf("the observed Secrets were changed:\n%s", diff)
	}
	if d := mustTLS(t, tlsInputs(TLS{})); len(d) > 0 {
		t.Errorf("something is made before anybody has looked: %v", d)
	}
}

// R52: a new certificate leaves other keys as they are, and is for the Secret that was seen.
func TestTLSRenewal(t *testing.T) {
	_, ca := madeCA(t)
	keep := madeLeaf(t, ca)
	keep.Data["added-by-hand"] = []byte("x")
	keep.ResourceVersion = "17"
	got := object[*corev1.Secret](t, mustTLS(t, tlsInputs(TLS{Keep: keep, Issue: true, CA: ca, Now: tlsNow.Add(time.Hour)})), naming.KeyTLS)
	if bytes.Equal(got.Data["tls.crt"], keep.Data["tls.crt"]) || string(got.Data["added-by-hand"]) != "x" {
		t.Error("the certificate is the old one, or another key is lost")
	}
	if got.ResourceVersion != "17" {
		t.Errorf("the resourceVersion is %q", got.ResourceVersion)
	}
}

// R52: when a certificate is replaced, and above all when it is not.
func TestMustIssue(t *testing.T) {
	caSecret, ca := madeCA(t)
	names := DNSNames(tlsID, []string{"ldap.example.org"})
	fresh := madeLeaf(t, ca, "ldap.example.org").Data
	in := tlsInputs(TLS{MakeCA: true})
	in.Random = mathrand.NewChaCha8([32]byte{9})
	other, err := ParseCA(object[*corev1.Secret](t, mustTLS(t, in), naming.KeyTLSCA).Data, tlsNow)
	if err != nil {
		t.Fatal(err)
	}
	with := func(key string, value []byte) map[string][]byte {
		d := map[string][]byte{}
		for k, v := range fresh {
			d[k] = v
		}
		d[key] = value
		return d
	}
	life := lifeOfLeaf + clockSkew
	begins := tlsNow.Add(-clockSkew)

	cases := map[string]struct {
		reason string
		data   map[string][]byte
		ca     *KeyPair
		names  []string
		now    time.Time
		want   bool
	}{
		"Fresh":        {reason: "It is as it should be.", data: fresh, ca: ca, names: names, now: tlsNow},
		"TwoThirds":    {reason: "A third of its life is left.", data: fresh, ca: ca, names: names, now: begins.Add(life / 3 * 2), want: true},
		"JustBefore":   {reason: "A little more than a third is left.", data: fresh, ca: ca, names: names, now: begins.Add(life / 3 * 2).Add(-time.Second)},
		"Expired":      {reason: "Nothing is left.", data: fresh, ca: ca, names: names, now: begins.Add(2 * life), want: true},
		"ClockBack":    {reason: "A clock that was put right makes no difference.", data: fresh, ca: ca, names: names, now: tlsNow.Add(-time.Hour)},
		"OtherOrder":   {reason: "The order of names is nothing.", data: fresh, ca: ca, names: append([]string{"ldap.example.org"}, DNSNames(tlsID, nil)...), now: tlsNow},
		"NameAdded":    {reason: "A name is missing.", data: fresh, ca: ca, names: append(names, "new.example.org"), now: tlsNow, want: true},
		"NameTakenOff": {reason: "A name that the spec takes off must not be served any longer.", data: fresh, ca: ca, names: DNSNames(tlsID, nil), now: tlsNow, want: true},
		"OtherCA":      {reason: "The CA was replaced.", data: fresh, ca: other, names: names, now: tlsNow, want: true},
		"NoCert":       {reason: "It is lost.", data: with("tls.crt", nil), ca: ca, names: names, now: tlsNow, want: true},
		"Broken":       {reason: "It is damaged.", data: with("tls.crt", []byte("x")), ca: ca, names: names, now: tlsNow, want: true},
		"NoKey":        {reason: "The key is lost.", data: with("tls.key", nil), ca: ca, names: names, now: tlsNow, want: true},
		"OtherKey":     {reason: "The key is another one.", data: with("tls.key", caSecret.Data["tls.key"]), ca: ca, names: names, now: tlsNow, want: true},
		"NoRoot":       {reason: "Nobody could verify it.", data: with("ca.crt", nil), ca: ca, names: names, now: tlsNow, want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := MustIssue(tc.data, tc.ca, tc.names, tc.now); got != tc.want {
				t.Errorf("\n%s\nwant %v, got %v", tc.reason, tc.want, got)
			}
		})
	}
}

// R52: what cannot sign is not signed with.
func TestParseCA(t *testing.T) {
	caSecret, ca := madeCA(t)
	leaf := madeLeaf(t, ca)
	cases := map[string]struct {
		reason string
		data   map[string][]byte
		now    time.Time
		want   string
	}{
		"Good":    {reason: "Our own.", data: caSecret.Data, now: tlsNow},
		"Leaf":    {reason: "A server's certificate signs nothing.", data: leaf.Data, now: tlsNow, want: "not the certificate of a CA"},
		"Empty":   {reason: "There is nothing.", now: tlsNow, want: "tls.crt"},
		"NoKey":   {reason: "It signs nothing without its key.", data: map[string][]byte{"tls.crt": caSecret.Data["tls.crt"]}, now: tlsNow, want: "tls.key"},
		"Expired": {reason: "Nobody would accept what it signs.", data: caSecret.Data, now: tlsNow.Add(lifeOfCA + time.Second), want: "expired"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := ParseCA(tc.data, tc.now)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("\n%s\nwant %q, got %v", tc.reason, tc.want, err)
			}
		})
	}
}

// R52: a CA that somebody brought may have another kind of key.
func TestParseKeys(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ec, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	doc := append([]byte("# a comment\n"), pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte("x")})...)
	doc = append(doc, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: ec})...)
	if got, err := parseKey(doc); err != nil || !key.Equal(got) {
		t.Errorf("the key of OpenSSL is not read: %v", err)
	}
	for _, doc := range []string{"", "x", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		if _, err := parseKey([]byte(doc)); err == nil {
			t.Errorf("%q is a key", doc)
		}
	}
}

// R34: the same chance and clock give the same bytes; other chance, other ones.
func TestTLSIsRepeatable(t *testing.T) {
	caSecret, ca := madeCA(t)
	again, _ := madeCA(t)
	if diff := cmp.Diff(caSecret.Data, again.Data); diff != "" {
		t.Error("the same chance makes another CA")
	}
	if diff := cmp.Diff(madeLeaf(t, ca).Data, madeLeaf(t, ca).Data); diff != "" {
		t.Error("the same chance makes another certificate")
	}
	seen := map[string]bool{}
	for range 20 {
		in := tlsInputs(TLS{Issue: true, CA: ca})
		in.Random = rand.Reader
		c := leafOf(t, object[*corev1.Secret](t, mustTLS(t, in), naming.KeyTLS))
		if seen[c.SerialNumber.String()] || c.SerialNumber.Sign() <= 0 || c.SerialNumber.BitLen() > 127 {
			t.Errorf("the serial number %s came twice, or is none", c.SerialNumber)
		}
		seen[c.SerialNumber.String()] = true
	}
}

// Without chance there is no key, and none that is always the same.
func TestTLSWithoutRandomness(t *testing.T) {
	for name, random := range map[string]io.Reader{"Short": strings.NewReader("x"), "Zeros": bytes.NewReader(make([]byte, 1<<16))} {
		in := tlsInputs(TLS{MakeCA: true})
		in.Random = random
		if err := tls(in, Desired{}); err == nil || !strings.Contains(err.Error(), "cannot make a certificate") {
			t.Errorf("%s: want an error, got %v", name, err)
		}
	}
}

// R52: only certificates are published, whatever else was put beside them.
func TestPublicCertificates(t *testing.T) {
	caSecret, ca := madeCA(t)
	root := string(caSecret.Data["tls.crt"])
	leaf := madeLeaf(t, ca)
	mixed := append(bytes.Clone(caSecret.Data["tls.key"]), caSecret.Data["tls.crt"]...)
	cases := map[string]struct {
		reason string
		got    string
		want   string
	}{
		"One":        {reason: "As it is.", got: PublicCertificates([]byte(root)), want: root},
		"WithKey":    {reason: "A key stays where it is.", got: PublicCertificates(mixed), want: root},
		"OnlyKey":    {reason: "So does one alone.", got: PublicCertificates(caSecret.Data["tls.key"])},
		"Comments":   {reason: "Nobody knows what is in a comment.", got: PublicCertificates([]byte("password: x\n" + root + "y")), want: root},
		"Nothing":    {reason: "There is nothing.", got: PublicCertificates(nil)},
		"JoinedOnce": {reason: "Each once.", got: JoinCertificates(root, string(leaf.Data["tls.crt"])+root, "x"), want: root + string(leaf.Data["tls.crt"])},
		"Chain":      {reason: "The CA at the end of a chain.", got: CAOfChain(append(bytes.Clone(leaf.Data["tls.crt"]), root...)), want: root},
		"NoChain":    {reason: "A certificate alone has none.", got: CAOfChain(leaf.Data["tls.crt"])},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.got); diff != "" {
				t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// R52: what cert-manager is asked for, and into a Secret that is not ours.
func TestCertificate(t *testing.T) {
	in := tlsInputs(TLS{})
	in.Spec.TLS = v1alpha1.TLS{Mode: v1alpha1.TLSModeCertManager, IssuerRef: &v1alpha1.IssuerRef{Name: "ca", Kind: "ClusterIssuer", Group: "cert-manager.io"}, DNSNames: []string{"ldap.example.org"}}
	got := object[*Certificate](t, mustTLS(t, in), naming.KeyCertificate)
	want := &Certificate{
		TypeMeta:   metav1.TypeMeta{APIVersion: "cert-manager.io/v1", Kind: "Certificate"},
		ObjectMeta: metav1.ObjectMeta{Name: "ds-tls", Namespace: "team", Labels: tlsID.Labels("")},
		Spec: CertificateSpec{
			SecretName: "ds-tls-issued",
			CommonName: "ds",
			DNSNames:   DNSNames(tlsID, []string{"ldap.example.org"}),
			IssuerRef:  CertificateIssuer{Name: "ca", Kind: "ClusterIssuer", Group: "cert-manager.io"},
			PrivateKey: CertificatePrivateKey{Algorithm: "ECDSA", Size: 256, RotationPolicy: "Always"},
			Usages:     []string{"digital signature", "server auth", "client auth"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// R52: a Certificate that the spec turned off goes once nothing can come to need its
// Secret any more.
func TestCertificateIsKept(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(in *Inputs)
		want   bool
	}{
		"Gone":      {reason: "The pods have another Secret."},
		"InUse":     {reason: "The pods refer to its Secret.", change: func(in *Inputs) { in.TLS.InUse = "ds-tls-issued" }, want: true},
		"Stays":     {reason: "They go on with it.", change: func(in *Inputs) { in.TLS.Secret = "ds-tls-issued" }, want: true},
		"Operating": {reason: "A rollback may come.", change: func(in *Inputs) { in.Operating = true }, want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := mustService(t, inputs(func(in *Inputs) {
				in.Observed = set(naming.KeyCertificate)
				in.TLS.Secret, in.TLS.InUse = "ds-tls", "ds-tls"
				if tc.change != nil {
					tc.change(in)
				}
			}))
			if _, ok := d[naming.KeyCertificate]; ok != tc.want {
				t.Errorf("\n%s\nit is kept: %v", tc.reason, ok)
			}
		})
	}
}

// R52: what clients need is where anybody may read it, and nothing else is.
func TestConfigMapForClients(t *testing.T) {
	in := tlsInputs(TLS{Public: "PEM\n"})
	cm, err := configMap(in)
	if err != nil {
		t.Fatal(err)
	}
	if cm.Data["ca.crt"] != "PEM\n" || len(cm.Data) != 2 {
		t.Errorf("the data are %v", cm.Data)
	}
}
