package compose

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"time"
)

const (
	pemCertificate = "CERTIFICATE"
	pemKey         = "PRIVATE KEY"

	// lifeOfCA is long because a new one has to be given to every client.
	lifeOfCA   = 10 * 365 * 24 * time.Hour
	lifeOfLeaf = 90 * 24 * time.Hour
	// clockSkew between the function and whoever checks a new certificate.
	clockSkew = 5 * time.Minute
	// serialBytes of a serial number.
	serialBytes = 16
)

// A KeyPair is a certificate and its key.
type KeyPair struct {
	Certificate *x509.Certificate
	// Chain are the certificates that follow it.
	Chain []*x509.Certificate
	key   crypto.Signer
}

// Errors of a KeyPair. None tells what was in the Secret.
var (
	errNoCertificate = errors.New("tls.crt has no certificate in PEM")
	errNoKey         = errors.New("tls.key has no private key in PEM")
	errOtherKey      = errors.New("tls.key is not the key of the first certificate in tls.crt")
)

// ParseKeyPair reads a certificate and its key, in PEM.
func ParseKeyPair(certificate, key []byte) (*KeyPair, error) {
	certificates, err := parseCertificates(certificate)
	if err != nil {
		return nil, err
	}
	signer, err := parseKey(key)
	if err != nil {
		return nil, err
	}
	public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(certificates[0].PublicKey) {
		return nil, errOtherKey
	}
	return &KeyPair{Certificate: certificates[0], Chain: certificates[1:], key: signer}, nil
}

func parseCertificates(doc []byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for b, rest := pem.Decode(doc); b != nil; b, rest = pem.Decode(rest) {
		if b.Type != pemCertificate {
			continue
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, errNoCertificate
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, errNoCertificate
	}
	return out, nil
}

func parseKey(doc []byte) (crypto.Signer, error) {
	for b, rest := pem.Decode(doc); b != nil; b, rest = pem.Decode(rest) {
		var key any
		var err error
		switch b.Type {
		case pemKey:
			key, err = x509.ParsePKCS8PrivateKey(b.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(b.Bytes)
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(b.Bytes)
		default:
			continue
		}
		if signer, ok := key.(crypto.Signer); ok && err == nil {
			return signer, nil
		}
		return nil, errNoKey
	}
	return nil, errNoKey
}

// PublicCertificates are the certificates of a PEM document and nothing else: a key that
// somebody put beside them by mistake is not published. "" where there is none.
func PublicCertificates(doc []byte) string {
	certificates, err := parseCertificates(doc)
	if err != nil {
		return ""
	}
	var out bytes.Buffer
	for _, c := range certificates {
		out.Write(encodePEM(pemCertificate, c.Raw))
	}
	return out.String()
}

// CAOfChain is the CA at the end of the chain that a certificate comes with, in PEM; ""
// where it ends in none.
func CAOfChain(doc []byte) string {
	certificates, err := parseCertificates(doc)
	if err != nil || !certificates[len(certificates)-1].IsCA {
		return ""
	}
	return string(encodePEM(pemCertificate, certificates[len(certificates)-1].Raw))
}

// JoinCertificates of PEM documents, each once, in their order.
func JoinCertificates(docs ...string) string {
	var out bytes.Buffer
	var seen [][]byte
	for _, doc := range docs {
		certificates, err := parseCertificates([]byte(doc))
		if err != nil {
			continue
		}
		for _, c := range certificates {
			if !slices.ContainsFunc(seen, func(s []byte) bool { return bytes.Equal(s, c.Raw) }) {
				seen = append(seen, c.Raw)
				out.Write(encodePEM(pemCertificate, c.Raw))
			}
		}
	}
	return out.String()
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// newCA makes a CA that signs servers' certificates and no further CA.
func newCA(random io.Reader, subject pkix.Name, now time.Time) (certificate, key []byte, err error) {
	return issue(random, &x509.Certificate{
		Subject:               subject,
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(lifeOfCA),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}, nil)
}

// newLeaf makes a certificate for servers, which are clients of each other.
func newLeaf(random io.Reader, ca *KeyPair, commonName string, names []string, now time.Time) (certificate, key []byte, err error) {
	return issue(random, &x509.Certificate{
		Subject:               pkix.Name{CommonName: commonName},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(lifeOfLeaf),
		DNSNames:              names,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, ca)
}

// issue a certificate for a new key, signed by a CA or, without one, by itself. All its
// chance is in random: the signature is the deterministic one of RFC 6979, which is what
// no source of chance means to crypto/ecdsa.
func issue(random io.Reader, template *x509.Certificate, ca *KeyPair) (certificate, key []byte, err error) {
	failed := func(err error) ([]byte, []byte, error) {
		return nil, nil, fmt.Errorf("cannot make a certificate: %w", err)
	}
	own, err := newKey(random)
	if err != nil {
		return failed(err)
	}
	serial := make([]byte, serialBytes)
	if _, err := io.ReadFull(random, serial); err != nil {
		return failed(err)
	}
	// Positive, never zero, and of at most 20 octets (RFC 5280).
	serial[0] = serial[0]&0x7f | 0x40
	template.SerialNumber = new(big.Int).SetBytes(serial)

	parent, signer, source := template, crypto.Signer(own), io.Reader(nil)
	if ca != nil {
		parent, signer = ca.Certificate, ca.key
		if _, ok := ca.key.(*ecdsa.PrivateKey); !ok {
			// A CA that somebody brought; RSA blinds with it.
			source = rand.Reader
		}
	}
	der, err := x509.CreateCertificate(source, template, parent, own.Public(), signer)
	if err != nil {
		return failed(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		return failed(err)
	}
	return encodePEM(pemCertificate, der), encodePEM(pemKey, pkcs8), nil
}

// newKey draws until the number is below the order of the curve (FIPS 186-5, A.2.2). It
// is not left to crypto/ecdsa, which does not use the reader that it is given.
func newKey(random io.Reader) (*ecdsa.PrivateKey, error) {
	curve := elliptic.P256()
	b := make([]byte, curve.Params().BitSize/8)
	for range 100 {
		if _, err := io.ReadFull(random, b); err != nil {
			return nil, err
		}
		if key, err := ecdsa.ParseRawPrivateKey(curve, b); err == nil {
			return key, nil
		}
	}
	return nil, errors.New("the source of chance always gives the same")
}

// pem is the certificate and its chain.
func (p *KeyPair) pem() []byte {
	out := encodePEM(pemCertificate, p.Certificate.Raw)
	for _, c := range p.Chain {
		out = append(out, encodePEM(pemCertificate, c.Raw)...)
	}
	return out
}
