//go:build controlplane

package controlplane

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte // its certificate
}

// pair is a certificate and its key, PEM.
type pair struct{ cert, key []byte }

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	c := template(pkix.Name{CommonName: name})
	c.IsCA, c.BasicConstraintsValid = true, true
	c.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key, pem: encode("CERTIFICATE", der)}, nil
}

// parseAuthority reads a CA somebody else made: Crossplane's.
func parseAuthority(certPEM, keyPEM []byte) (*authority, error) {
	cb, _ := pem.Decode(certPEM)
	kb, _ := pem.Decode(keyPEM)
	if cb == nil || kb == nil {
		return nil, errors.New("not PEM")
	}
	cert, err := x509.ParseCertificate(cb.Bytes)
	if err != nil {
		return nil, err
	}
	for _, parse := range []func([]byte) (crypto.Signer, error){
		func(b []byte) (crypto.Signer, error) { return x509.ParsePKCS1PrivateKey(b) },
		func(b []byte) (crypto.Signer, error) { return x509.ParseECPrivateKey(b) },
		func(b []byte) (crypto.Signer, error) {
			k, err := x509.ParsePKCS8PrivateKey(b)
			if err != nil {
				return nil, err
			}
			s, ok := k.(crypto.Signer)
			if !ok {
				return nil, fmt.Errorf("a %T cannot sign", k)
			}
			return s, nil
		},
	} {
		if key, err := parse(kb.Bytes); err == nil {
			return &authority{cert: cert, key: key, pem: certPEM}, nil
		}
	}
	return nil, fmt.Errorf("cannot read a key of type %q", kb.Type)
}

func (a *authority) issue(subject pkix.Name, usage x509.ExtKeyUsage, names ...string) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	c := template(subject)
	c.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment
	c.ExtKeyUsage = []x509.ExtKeyUsage{usage}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, n)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, key.Public(), a.key)
	if err != nil {
		return pair{}, err
	}
	kder, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return pair{}, err
	}
	return pair{cert: encode("CERTIFICATE", der), key: encode("EC PRIVATE KEY", kder)}, nil
}

// write puts tls.crt and tls.key (and ca.crt) where a TLS Secret would be mounted.
func (p pair) write(dir string, ca []byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "tls.crt"), p.cert, 0o600),
		os.WriteFile(filepath.Join(dir, "tls.key"), p.key, 0o600),
		os.WriteFile(filepath.Join(dir, "ca.crt"), ca, 0o600),
	)
}

// writeServiceAccountKey makes the key that signs tokens.
func writeServiceAccountKey(path string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	return os.WriteFile(path, encode("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)), 0o600)
}

// writeKubeconfig writes a kubeconfig for one user.
func writeKubeconfig(path, server string, ca []byte, user clientcmdapi.AuthInfo) error {
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"test": {Server: server, CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"test": &user},
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test", AuthInfo: "test"}},
		CurrentContext: "test",
	}, path)
}

func template(subject pkix.Name) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	now := time.Now()
	return &x509.Certificate{SerialNumber: serial, Subject: subject, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour)}
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
