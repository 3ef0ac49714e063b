// Package certificate judges what a server is to serve: one rule for the function, which
// hands it to the servers, and for the agent, which has to have it served. Each part of it
// is a way in which 389 Directory Server, or dscontainer, ends at every start.
package certificate

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
)

// Material is a certificate that a server can serve.
type Material struct {
	// Leaf is the certificate, and Certificate the PEM document of it alone.
	Leaf        *x509.Certificate
	Certificate []byte
	// Key in PEM.
	Key []byte
	// Authorities are the CAs of its chain and of ca.crt, each a PEM document.
	Authorities [][]byte
}

// ErrNoCA says that there is no CA: without one dscontainer configures no LDAPS.
var ErrNoCA = errors.New("there is no CA, neither in ca.crt nor behind the certificate in tls.crt: without one 389 Directory Server does not serve LDAPS. Put the CA under ca.crt")

// Read tls.crt, tls.key and ca.crt, in PEM. The error says what is wrong and how to mend it; it
// shows nothing of the key.
func Read(certificate, key, ca []byte) (*Material, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("the certificate and key cannot be used: %w. Put a PEM certificate and its own key into tls.crt and tls.key", err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("cannot parse the certificate in tls.crt: %w", err)
	}
	if len(leaf.Subject.Names) == 0 {
		return nil, errors.New("the certificate has no subject, and 389 Directory Server crashes with such a one when it starts: have it issued with a common name (cert-manager: spec.commonName)")
	}
	if named := len(leaf.ExtKeyUsage) + len(leaf.UnknownExtKeyUsage); named > 0 &&
		!slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth) && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny) {
		return nil, errors.New("the certificate is not for servers: have it issued with the extended key usage serverAuth (cert-manager: usages, server auth)")
	}
	// dscontainer takes one certificate a file. The rest of the chain has to be known to
	// the server as well, or it would send the leaf alone.
	own := Split(certificate)
	authorities, err := authoritiesOf(leaf, slices.Concat(own[1:], Split(ca)))
	if err != nil {
		return nil, err
	}
	return &Material{Leaf: leaf, Certificate: own[0], Key: key, Authorities: authorities}, nil
}

// authoritiesOf a leaf: what dscontainer would not take for a CA is left out, for it
// ends with an error there, at every start. So it does, from the second start on, when
// the server's certificate shares its subject with a CA: NSS has one nickname a subject,
// and dscontainer then does not find "Server-Cert".
func authoritiesOf(leaf *x509.Certificate, chain [][]byte) ([][]byte, error) {
	var out [][]byte
	signed := false
	for _, doc := range chain {
		b, _ := pem.Decode(doc)
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, fmt.Errorf("cannot parse a certificate of the chain in tls.crt, or in ca.crt: %w", err)
		}
		// As lib389 does it (utils.py, cert_is_ca).
		if !c.BasicConstraintsValid || !c.IsCA || c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageCertSign == 0 || c.Equal(leaf) {
			continue
		}
		if bytes.Equal(c.RawSubject, leaf.RawSubject) {
			return nil, fmt.Errorf("the certificate has the subject of its CA (%s), which 389 Directory Server cannot tell apart: have it issued with a subject of its own", c.Subject)
		}
		signed = signed || leaf.CheckSignatureFrom(c) == nil
		out = append(out, doc)
	}
	switch {
	case signed:
		return out, nil
	case len(out) > 0:
		return nil, errors.New("the certificate was not signed by any CA in ca.crt or in its chain, so that no client could trust it: put its own CA under ca.crt")
	case leaf.CheckSignature(leaf.SignatureAlgorithm, leaf.RawTBSCertificate, leaf.Signature) == nil:
		return nil, errors.New("the certificate is self-signed, which 389 Directory Server does not serve without a CA: have it signed by a CA, and put that under ca.crt")
	}
	return nil, ErrNoCA
}

// Split a PEM document into its certificates, each a document of its own.
func Split(doc []byte) [][]byte {
	var out [][]byte
	for {
		var b *pem.Block
		if b, doc = pem.Decode(doc); b == nil {
			return out
		}
		if b.Type == "CERTIFICATE" {
			out = append(out, pem.EncodeToMemory(&pem.Block{Type: b.Type, Bytes: b.Bytes}))
		}
	}
}
