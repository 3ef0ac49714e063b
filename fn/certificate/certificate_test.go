package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"
)

// issued is a certificate of a test.
type issued struct {
	cert     *x509.Certificate
	key      *ecdsa.PrivateKey
	doc, pin []byte
}

func issue(t *testing.T, by *issued, change func(c *x509.Certificate)) *issued {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "ds"}, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	change(c)
	parent, signer := c, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	i := &issued{key: key, doc: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
	if i.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	i.pin = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
	return i
}

func authority(name string) func(c *x509.Certificate) {
	return func(c *x509.Certificate) {
		c.Subject, c.IsCA, c.KeyUsage, c.ExtKeyUsage = pkix.Name{CommonName: name}, true, x509.KeyUsageCertSign, nil
	}
}

// R52: what cannot be served is refused before a server is started, or restarted, for it.
func TestRead(t *testing.T) {
	plain := func(*x509.Certificate) {}
	ca := issue(t, nil, authority("ca"))
	middle := issue(t, ca, authority("middle"))
	stranger := issue(t, nil, authority("stranger"))
	leaf, below := issue(t, ca, plain), issue(t, middle, plain)
	join := func(docs ...[]byte) []byte {
		return []byte(strings.Join(func() (out []string) {
			for _, d := range docs {
				out = append(out, string(d))
			}
			return out
		}(), ""))
	}

	cases := map[string]struct {
		reason       string
		crt, key, ca []byte
		authorities  int
		err          string
	}{
		"Signed":      {reason: "By the CA in ca.crt.", crt: leaf.doc, key: leaf.pin, ca: ca.doc, authorities: 1},
		"Chain":       {reason: "The server has to know the whole chain, or it would send the leaf alone.", crt: join(below.doc, middle.doc), key: below.pin, ca: ca.doc, authorities: 2},
		"ChainAlone":  {reason: "A chain brings its CA along.", crt: join(leaf.doc, ca.doc), key: leaf.pin, authorities: 1},
		"MoreThanCAs": {reason: "What is no CA makes dscontainer end, and is left out.", crt: leaf.doc, key: leaf.pin, ca: join(leaf.doc, ca.doc, below.doc), authorities: 1},
		"NoCA":        {reason: "Without one there is no LDAPS.", crt: leaf.doc, key: leaf.pin, err: "there is no CA"},
		"OtherCA":     {reason: "Clients that are told of it could trust nothing.", crt: leaf.doc, key: leaf.pin, ca: stranger.doc, err: "not signed by any CA"},
		"SelfSigned":  {reason: "389 DS does not serve it.", crt: stranger.doc, key: stranger.pin, ca: stranger.doc, err: "self-signed"},
		"SubjectOfCA": {reason: "NSS takes the two for one.", crt: func() []byte { return issue(t, ca, func(c *x509.Certificate) { c.Subject.CommonName = "ca" }).doc }(), err: "cannot be used"},
		"OtherKey":    {reason: "The key is another's.", crt: leaf.doc, key: below.pin, ca: ca.doc, err: "private key does not match"},
		"Garbage":     {reason: "No PEM at all.", crt: []byte("x"), key: []byte("y"), err: "cannot be used"},
		"BrokenCA":    {reason: "Half a CA.", crt: leaf.doc, key: leaf.pin, ca: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}), err: "cannot parse"},
	}
	subject := issue(t, ca, func(c *x509.Certificate) { c.Subject.CommonName = "ca" })
	empty := issue(t, ca, func(c *x509.Certificate) { c.Subject, c.DNSNames = pkix.Name{}, []string{"ds"} })
	client := issue(t, ca, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} })
	unnamed := issue(t, ca, func(c *x509.Certificate) { c.ExtKeyUsage = nil })
	for name, more := range map[string]struct {
		reason string
		of     *issued
		err    string
	}{
		"SubjectOfCA": {reason: "NSS takes the two for one.", of: subject, err: "has the subject of its CA"},
		"NoSubject":   {reason: "389 DS crashes.", of: empty, err: "has no subject"},
		"ClientOnly":  {reason: "Clients refuse it.", of: client, err: "not for servers"},
		"AnyUsage":    {reason: "No usage is any.", of: unnamed},
	} {
		tc := cases[name]
		tc.reason, tc.crt, tc.key, tc.ca, tc.err = more.reason, more.of.doc, more.of.pin, ca.doc, more.err
		if more.err == "" {
			tc.authorities = 1
		}
		cases[name] = tc
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m, err := Read(tc.crt, tc.key, tc.ca)
			switch {
			case tc.err == "" && err != nil, tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)):
				t.Errorf("\n%s\nRead(): want the error %q, got %v", tc.reason, tc.err, err)
			case err == nil && len(m.Authorities) != tc.authorities:
				t.Errorf("\n%s\nwant %d CAs, got %d", tc.reason, tc.authorities, len(m.Authorities))
			}
			if name == "NoCA" && !errors.Is(err, ErrNoCA) {
				t.Errorf("want ErrNoCA, got %v", err)
			}
		})
	}
}
