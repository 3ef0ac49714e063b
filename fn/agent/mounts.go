package agent

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/389ds/function-directoryservice/fn/certificate"
	"github.com/389ds/function-directoryservice/fn/config"
)

// Folders of the mounted documents, below Options.Mounts.
const (
	mountConfig     = "config"
	mountDMPassword = "dm-password"
	mountTLS        = "tls"
)

// Files in them.
const (
	fileDMPassword  = "dm-password"
	fileCertificate = "tls.crt"
	fileKey         = "tls.key"
	fileCA          = "ca.crt"
)

// A wish is what the mounted files ask for.
type wish struct {
	config config.Config
	// hash of the document that config was read from.
	hash     string
	password string
	tls      material

	// configErr and passwordErr say why there is none. They are for a person.
	configErr, passwordErr error
}

// material is a certificate with its key and its CA.
type material struct {
	// hash of what is mounted, also where it is not usable; "" where there is none.
	hash string
	// leaf and pair are usable; nil where err is set, or where nothing is mounted.
	leaf *x509.Certificate

	certificate, key []byte
	authorities      [][]byte
	err              error
}

// read what is mounted. Each document is judged alone: a mistake in one Secret must not
// keep the rest from being applied.
func read(dir string) wish {
	w := wish{tls: readMaterial(filepath.Join(dir, mountTLS))}
	w.config, w.hash, w.configErr = readConfig(filepath.Join(dir, mountConfig, config.Key))
	w.password, w.passwordErr = readPassword(filepath.Join(dir, mountDMPassword, fileDMPassword))
	return w
}

func readConfig(path string) (config.Config, string, error) {
	doc, err := os.ReadFile(path)
	if err != nil {
		return config.Config{}, "", fmt.Errorf("cannot read the mounted ConfigMap: %w", err)
	}
	c, err := config.Parse(string(doc))
	if err != nil {
		return config.Config{}, "", err //nolint:wrapcheck // It says what is wrong with which document.
	}
	return c, config.Hash(string(doc)), nil
}

func readPassword(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("cannot read the mounted password of the Directory Manager: %w", err)
	}
	password, err := config.ReadPassword(b)
	if err != nil {
		return "", fmt.Errorf("the mounted password of the Directory Manager: %w: put another one into the Secret", err)
	}
	return password, nil
}

// or is the wish with what the former one had where it has none.
func (w wish) or(former wish) wish {
	if w.configErr != nil {
		w.config, w.hash = former.config, former.hash
	}
	if w.passwordErr != nil {
		w.password = former.password
	}
	return w
}

// same says that two wishes ask for the same, and complain of the same.
func (w wish) same(o wish) bool {
	return w.hash == o.hash && w.password == o.password && w.tls.hash == o.tls.hash &&
		text(w.configErr) == text(o.configErr) && text(w.passwordErr) == text(o.passwordErr) && text(w.tls.err) == text(o.tls.err)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func readMaterial(dir string) material {
	m := material{}
	// The kubelet replaces all files at once by this link: they have to be of one time.
	if now, err := filepath.EvalSymlinks(filepath.Join(dir, "..data")); err == nil {
		dir = now
	}
	document, err := os.ReadFile(filepath.Join(dir, fileCertificate))
	if errors.Is(err, os.ErrNotExist) {
		return m
	}
	if err != nil {
		m.err = fmt.Errorf("cannot read the mounted certificate: %w", err)
		return m
	}
	ca, err := os.ReadFile(filepath.Join(dir, fileCA))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		m.err = fmt.Errorf("cannot read the mounted CA: %w", err)
		return m
	}
	m.hash = config.TLSHash(document, ca)
	key, err := os.ReadFile(filepath.Join(dir, fileKey))
	if err != nil {
		m.err = fmt.Errorf("cannot read the mounted key: %w", err)
		return m
	}
	usable, err := certificate.Read(document, key, ca)
	if err != nil {
		m.err = err
		return m
	}
	m.leaf, m.certificate, m.key, m.authorities = usable.Leaf, usable.Certificate, usable.Key, usable.Authorities
	return m
}

// install puts the material where dscontainer takes it from at each start of the server
// (389-ds-base, dscontainer: /data/tls/server.key, server.crt and ca/*.crt).
func (m material) install(data string) error {
	dir := filepath.Join(data, "tls")
	ca := filepath.Join(dir, "ca")
	if err := os.MkdirAll(ca, 0o700); err != nil {
		return fmt.Errorf("cannot make the folder of the certificate: %w", err)
	}
	files := map[string][]byte{
		filepath.Join(dir, "server.crt"): m.certificate,
		filepath.Join(dir, "server.key"): m.key,
	}
	for _, a := range m.authorities {
		// The name becomes the certificate's nickname in the server's NSS database.
		files[filepath.Join(ca, config.Hash(string(a))+".crt")] = a
	}
	// All or nothing, as far as a full volume goes: what was there still fits together.
	var staged []string
	for path, b := range files {
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, b) {
			continue
		}
		staged = append(staged, path)
		if err := stage(path, b); err != nil {
			for _, path := range staged {
				_ = os.Remove(path + stagedSuffix)
			}
			return err
		}
	}
	for _, path := range staged {
		if err := os.Rename(path+stagedSuffix, path); err != nil {
			return fmt.Errorf("cannot write %s: %w", path, err)
		}
	}
	// A CA of an earlier time would be trusted for ever.
	for _, pattern := range []string{filepath.Join(ca, "*"), filepath.Join(dir, "*"+stagedSuffix)} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return fmt.Errorf("cannot list the CAs: %w", err)
		}
		for _, path := range found {
			if _, wanted := files[path]; wanted {
				continue
			}
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("cannot remove an old CA: %w", err)
			}
		}
	}
	return nil
}

const stagedSuffix = ".tmp"

// stage a file of the volume beside its place.
func stage(path string, b []byte) error {
	f, err := os.OpenFile(path+stagedSuffix, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return nil
}
