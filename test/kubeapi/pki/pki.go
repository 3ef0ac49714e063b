//go:build controlplane || ldap

package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// An Authority signs certificates.
type Authority struct {
	// PEM is its certificate.
	PEM []byte

	cert *x509.Certificate
	key  crypto.Signer
}

// A Pair is a certificate and its key, PEM.
type Pair struct{ Cert, Key []byte }

// A Request says what certificate is wanted; its zero values are a server's that is valid for a day.
type Request struct {
	// Subject is the first of Names when it is zero: a 389 Directory Server dies of a certificate without one.
	Subject pkix.Name
	// NoSubject leaves it out.
	NoSubject bool
	// Usage is what it is for; the zero value is a server's authentication.
	Usage []x509.ExtKeyUsage
	// Names are DNS names and IP addresses.
	Names []string
	// NotAfter is when it expires.
	NotAfter time.Time
}

// NewAuthority makes a CA.
func NewAuthority(name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	c := template(pkix.Name{CommonName: name})
	c.IsCA, c.BasicConstraintsValid = true, true
	c.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &Authority{cert: cert, key: key, PEM: Encode("CERTIFICATE", der)}, nil
}

// Pool trusts this CA alone.
func (a *Authority) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// Issue signs a new key.
func (a *Authority) Issue(r Request) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	if r.Subject.CommonName == "" && len(r.Names) > 0 && !r.NoSubject {
		r.Subject.CommonName = r.Names[0]
	}
	c := template(r.Subject)
	c.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	if r.Usage != nil {
		c.ExtKeyUsage = r.Usage
	}
	if !r.NotAfter.IsZero() {
		c.NotAfter = r.NotAfter
	}
	for _, n := range r.Names {
		if ip := net.ParseIP(n); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, n)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, err
	}
	kder, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Cert: Encode("CERTIFICATE", der), Key: Encode("PRIVATE KEY", kder)}, nil
}

// Files are the keys of a TLS Secret: tls.crt, tls.key and ca.crt.
func (p Pair) Files(ca []byte) map[string]string {
	return map[string]string{"tls.crt": string(p.Cert), "tls.key": string(p.Key), "ca.crt": string(ca)}
}

// Write puts a TLS Secret's files into a directory.
func (p Pair) Write(dir string, ca []byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var errs []error
	for name, content := range p.Files(ca) {
		errs = append(errs, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return errors.Join(errs...)
}

// Encode is one PEM block.
func Encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func template(subject pkix.Name) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	now := time.Now()
	return &x509.Certificate{SerialNumber: serial, Subject: subject, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour)}
}
