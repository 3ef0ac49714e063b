package agent

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/389ds/function-directoryservice/fn/config"
)

// An issued certificate with its key.
type issued struct {
	cert     *x509.Certificate
	key      *ecdsa.PrivateKey
	pem, pin []byte
}

// issue a certificate, self-signed without an issuer.
func issue(t *testing.T, issuer *issued, template x509.Certificate) *issued {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := &template, key
	if issuer != nil {
		parent, signer = issuer.cert, issuer.key
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	out := &issued{key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
	if out.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	doc, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	out.pin = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: doc})
	return out
}

func authority(t *testing.T, issuer *issued, name string) *issued {
	t.Helper()
	return issue(t, issuer, x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
}

func server(name string) x509.Certificate {
	return x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{"ds"}, KeyUsage: x509.KeyUsageDigitalSignature}
}

// put files into a new folder.
func put(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// R11: each document is judged alone, and what cannot be read stays as it was.
func TestRead(t *testing.T) {
	const doc = `{"suffixes": [{"name": "a", "dn": "dc=a"}]}`
	good := config.Config{Suffixes: []config.Suffix{{Name: "a", DN: "dc=a"}}}
	former := wish{config: config.Config{BackupConfirmed: "former"}, hash: "former", password: "former"}
	type want struct {
		Config                   config.Config
		Hash, Password           string
		ConfigError, PasswordErr string
	}
	cases := map[string]struct {
		reason string
		files  map[string]string
		want   want
	}{
		"Good": {
			reason: "What is mounted.",
			files:  map[string]string{"config/config.json": doc, "dm-password/dm-password": "secret"},
			want:   want{Config: good, Hash: config.Hash(doc), Password: "secret"},
		},
		"LineBreak": {
			reason: "Editors leave one at the end, Windows' of two characters.",
			files:  map[string]string{"config/config.json": doc, "dm-password/dm-password": "secret\r\n"},
			want:   want{Config: good, Hash: config.Hash(doc), Password: "secret"},
		},
		"Spaces": {
			reason: "Spaces are part of a password, and so is a line break within.",
			files:  map[string]string{"config/config.json": doc, "dm-password/dm-password": " se\ncret "},
			want:   want{Config: good, Hash: config.Hash(doc), Password: " se\ncret "},
		},
		"NoConfig": {
			reason: "The former document goes on.",
			files:  map[string]string{"dm-password/dm-password": "secret"},
			want:   want{Config: former.config, Hash: "former", Password: "secret", ConfigError: "cannot read the mounted ConfigMap: "},
		},
		"GarbledConfig": {
			reason: "Half a document counts for nothing.",
			files:  map[string]string{"config/config.json": doc[:20], "dm-password/dm-password": "secret"},
			want:   want{Config: former.config, Hash: "former", Password: "secret", ConfigError: "cannot parse config.json: "},
		},
		"NoPassword": {
			reason: "The former password goes on.",
			files:  map[string]string{"config/config.json": doc},
			want:   want{Config: good, Hash: config.Hash(doc), Password: "former", PasswordErr: "cannot read the mounted password of the Directory Manager: "},
		},
		"EmptyPassword": {
			reason: "With it anybody could bind, as nobody.",
			files:  map[string]string{"config/config.json": doc, "dm-password/dm-password": "\n"},
			want:   want{Config: good, Hash: config.Hash(doc), Password: "former", PasswordErr: "the mounted password of the Directory Manager: there is no password: put another one into the Secret"},
		},
		"PasswordOfChance": {
			reason: "The server would crash when it hashes it, at every start.",
			files:  map[string]string{"config/config.json": doc, "dm-password/dm-password": "ab\xff\xfe"},
			want:   want{Config: good, Hash: config.Hash(doc), Password: "former", PasswordErr: "the mounted password of the Directory Manager: the password is not text in UTF-8"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := put(t, tc.files)
			w := read(dir)
			merged := w.or(former)
			got := want{Config: merged.config, Hash: merged.hash, Password: merged.password}
			for _, e := range []struct {
				err       error
				want, got *string
			}{{w.configErr, &tc.want.ConfigError, &got.ConfigError}, {w.passwordErr, &tc.want.PasswordErr, &got.PasswordErr}} {
				if *e.got = text(e.err); strings.HasPrefix(*e.got, *e.want) && *e.want != "" {
					*e.got = *e.want
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
			}
			if !merged.same(read(dir).or(former)) {
				t.Errorf("\n%s\nread twice it is not the same", tc.reason)
			}
			if merged.same(former) {
				t.Errorf("\n%s\nit is the same as before", tc.reason)
			}
		})
	}
}

// R52: what the server can serve, and what it cannot, with words for a person. The server
// or dscontainer ends itself at each start with a certificate that is refused here.
func TestReadMaterial(t *testing.T) {
	ca := authority(t, nil, "CA")
	intermediate := authority(t, ca, "intermediate")
	leaf, chained := issue(t, ca, server("ds")), issue(t, intermediate, server("ds"))
	self := issue(t, nil, server("ds"))
	selfCA := authority(t, nil, "ds")
	nameless := issue(t, ca, x509.Certificate{DNSNames: []string{"ds"}})
	twin := issue(t, ca, server("CA"))
	old := issue(t, nil, x509.Certificate{Subject: pkix.Name{CommonName: "no CA"}})

	files := func(c, key, ca []byte) map[string]string {
		return map[string]string{"tls.crt": string(c), "tls.key": string(key), "ca.crt": string(ca)}
	}
	join := func(docs ...[]byte) []byte { return bytes.Join(docs, []byte("some text\n")) }
	type want struct {
		Usable      bool
		Authorities []string
		Err         string
	}
	cases := map[string]struct {
		reason string
		files  map[string]string
		want   want
	}{
		"Nothing": {
			reason: "No certificate is no mistake.",
		},
		"Good": {
			reason: "A certificate and its CA.",
			files:  files(leaf.pem, leaf.pin, ca.pem),
			want:   want{Usable: true, Authorities: []string{string(ca.pem)}},
		},
		"Chain": {
			reason: "The server has to send the intermediate CA with it.",
			files:  files(join(chained.pem, intermediate.pem), chained.pin, ca.pem),
			want:   want{Usable: true, Authorities: []string{string(intermediate.pem), string(ca.pem)}},
		},
		"ChainAlone": {
			reason: "cert-manager's ACME issuers leave ca.crt out.",
			files:  map[string]string{"tls.crt": string(join(chained.pem, intermediate.pem)), "tls.key": string(chained.pin)},
			want:   want{Usable: true, Authorities: []string{string(intermediate.pem)}},
		},
		"LeafInCA": {
			reason: "dscontainer would end at a CA that is none.",
			files:  files(leaf.pem, leaf.pin, join(leaf.pem, old.pem, ca.pem)),
			want:   want{Usable: true, Authorities: []string{string(ca.pem)}},
		},
		"NoCA": {
			reason: "Without a CA dscontainer sets up no TLS.",
			files:  files(leaf.pem, leaf.pin, nil),
			want:   want{Err: "there is no CA, neither in ca.crt nor behind the certificate in tls.crt: without one 389 Directory Server does not serve LDAPS. Put the CA under ca.crt"},
		},
		"SelfSigned": {
			reason: "It is no CA.",
			files:  files(self.pem, self.pin, nil),
			want:   want{Err: "the certificate is self-signed, which 389 Directory Server does not serve without a CA: have it signed by a CA, and put that under ca.crt"},
		},
		"SelfSignedAsCA": {
			reason: "Imported as the CA, it is not found under the server's nickname.",
			files:  files(selfCA.pem, selfCA.pin, selfCA.pem),
			want:   want{Err: "the certificate is self-signed, which 389 Directory Server does not serve without a CA: have it signed by a CA, and put that under ca.crt"},
		},
		"SubjectOfCA": {
			reason: "NSS has one nickname a subject.",
			files:  files(twin.pem, twin.pin, ca.pem),
			want:   want{Err: "the certificate has the subject of its CA (CN=CA), which 389 Directory Server cannot tell apart: have it issued with a subject of its own"},
		},
		"NoSubject": {
			reason: "The server crashes.",
			files:  files(nameless.pem, nameless.pin, ca.pem),
			want:   want{Err: "the certificate has no subject, and 389 Directory Server crashes with such a one when it starts: have it issued with a common name (cert-manager: spec.commonName)"},
		},
		"OtherKey": {
			reason: "The kubelet replaces all keys at once; a person who edits a Secret may not.",
			files:  files(leaf.pem, chained.pin, ca.pem),
			want:   want{Err: "the certificate and key cannot be used: tls: private key does not match public key. Put a PEM certificate and its own key into tls.crt and tls.key"},
		},
		"NoKey": {
			reason: "It names the file.",
			files:  map[string]string{"tls.crt": string(leaf.pem), "ca.crt": string(ca.pem)},
			want:   want{Err: "cannot read the mounted key: "},
		},
		"Garbled": {
			reason: "No PEM.",
			files:  files([]byte("MII"), leaf.pin, ca.pem),
			want:   want{Err: "the certificate and key cannot be used: "},
		},
		"GarbledCA": {
			reason: "PEM, and no certificate.",
			files:  files(leaf.pem, leaf.pin, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})),
			want:   want{Err: "cannot parse a certificate of the chain in tls.crt, or in ca.crt: x509: malformed certificate"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := readMaterial(put(t, tc.files))
			got := want{Usable: m.leaf != nil, Err: text(m.err)}
			for _, a := range m.authorities {
				got.Authorities = append(got.Authorities, string(a))
			}
			if strings.HasSuffix(tc.want.Err, ": ") && strings.HasPrefix(got.Err, tc.want.Err) {
				got.Err = tc.want.Err
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
			}
			hash := ""
			if c, ok := tc.files["tls.crt"]; ok {
				// What is reported of it; the function computes the same from the Secret.
				hash = config.TLSHash([]byte(c), []byte(tc.files["ca.crt"]))
			}
			if m.hash != hash {
				t.Errorf("\n%s\nhash: want %q, got %q", tc.reason, hash, m.hash)
			}
		})
	}
}

// R52: dscontainer takes every file there for a CA.
func TestInstall(t *testing.T) {
	ca, other := authority(t, nil, "CA"), authority(t, nil, "other CA")
	first, second := issue(t, ca, server("ds")), issue(t, other, server("ds"))
	material := func(c, ca *issued) material {
		return material{certificate: c.pem, key: c.pin, authorities: [][]byte{ca.pem}}
	}
	name := func(ca *issued) string { return "ca/" + config.Hash(string(ca.pem)) + ".crt" }
	files := func(c, ca *issued) map[string]string {
		return map[string]string{"server.crt": string(c.pem), "server.key": string(c.pin), name(ca): string(ca.pem)}
	}
	look := func(t *testing.T, dir string) map[string]string {
		t.Helper()
		out := map[string]string{}
		err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			i, err := e.Info()
			if err != nil {
				return err
			}
			if want := os.FileMode(0o600); e.Type().IsRegular() && i.Mode() != want {
				t.Errorf("%s: mode %s, want %s", path, i.Mode(), want)
			}
			if e.IsDir() {
				if want := os.FileMode(0o700); i.Mode().Perm() != want {
					t.Errorf("%s: mode %s, want %s", path, i.Mode(), want)
				}
				return nil
			}
			b, err := os.ReadFile(path)
			rel, _ := filepath.Rel(dir, path)
			out[rel] = string(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}

	cases := map[string]struct {
		reason string
		before map[string]string
		fails  bool
		want   map[string]string
	}{
		"First":   {reason: "Nothing was there.", want: files(second, other)},
		"Same":    {reason: "Nothing is to be done.", before: files(second, other), want: files(second, other)},
		"Renewed": {reason: "All of the former is gone.", before: files(first, ca), want: files(second, other)},
		"Interrupted": {
			reason: "An install that broke off is finished.",
			before: map[string]string{"server.crt": string(first.pem), "server.key": string(second.pin), "server.key.tmp": "half", name(ca): string(ca.pem)},
			want:   files(second, other),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			dir := filepath.Join(data, "tls")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			for name, content := range tc.before {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := material(second, other).install(data); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, look(t, dir)); diff != "" {
				t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}

	t.Run("AllOrNothing", func(t *testing.T) {
		data := t.TempDir()
		dir := filepath.Join(data, "tls")
		if err := material(first, ca).install(data); err != nil {
			t.Fatal(err)
		}
		// The key cannot be written, as on a full volume.
		if err := os.Mkdir(filepath.Join(dir, "server.key.tmp"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := material(second, other).install(data); err == nil {
			t.Fatal("it could not be installed, and there is no error")
		}
		if diff := cmp.Diff(files(first, ca), look(t, dir)); diff != "" {
			t.Errorf("\nthe former still fits together\n-want, +got:\n%s", diff)
		}
	})
}

func TestNicknames(t *testing.T) {
	// certutil of NSS 3.87 and 3.120.
	const out = `
Certificate Nickname                                         Trust Attributes
                                                             SSL,S/MIME,JAR/XPI

Self-Signed-CA                                               CTu,u,u
Server-Cert                                                  u,u,u
/data/tls/ca/0123456789abcdef.crt                            C,,  
A nickname, with spaces                                      ,,   
`
	want := []string{"Self-Signed-CA", "Server-Cert", "/data/tls/ca/0123456789abcdef.crt", "A nickname, with spaces"}
	if diff := cmp.Diff(want, nicknames([]byte(out))); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}
