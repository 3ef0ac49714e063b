package agent

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// serverNickname is what dscontainer calls the server's certificate in the NSS database.
const serverNickname = "Server-Cert"

// tidyTrust makes the server's NSS database fit what is installed, while no server
// runs. dscontainer only ever adds to it: a CA that was replaced would stay trusted for
// ever. And it deletes the former certificate of the server first, so that one which is
// not there, because a start was interrupted just then, would fail every later start.
func (a *agent) tidyTrust(ctx context.Context) error {
	db := filepath.Join(a.Data, "config")
	pin, certificate := filepath.Join(db, "pwdfile.txt"), filepath.Join(a.Data, "tls", "server.crt")
	for _, path := range []string{filepath.Join(db, "cert9.db"), pin, certificate} {
		if _, err := os.Stat(path); err != nil {
			return nil //nolint:nilerr // Without it dscontainer does nothing about TLS, or makes it.
		}
	}
	out, err := a.certutil(ctx, "-L", "-d", db)
	if err != nil {
		return err
	}
	served := false
	for _, nickname := range nicknames(out) {
		if nickname == serverNickname {
			served = true
		}
		// Its nickname is the path of the file that it came from.
		if !strings.HasPrefix(nickname, filepath.Join(a.Data, "tls", "ca")+"/") {
			continue
		}
		if _, err := os.Stat(nickname); !os.IsNotExist(err) {
			continue
		}
		if _, err := a.certutil(ctx, "-D", "-d", db, "-n", nickname, "-f", pin); err != nil {
			return err
		}
		a.Log.Info("A CA is no longer trusted", "file", nickname)
	}
	if served {
		return nil
	}
	_, err = a.certutil(ctx, "-A", "-d", db, "-n", serverNickname, "-t", ",,", "-a", "-i", certificate, "-f", pin)
	return err
}

func (a *agent) certutil(ctx context.Context, args ...string) ([]byte, error) {
	out, code, err := a.children.command(ctx, "certutil", args...)
	if err == nil && code != 0 {
		err = fmt.Errorf("cannot run certutil %s: exit code %d: %s", args[0], code, bytes.TrimSpace(out))
	}
	return out, err
}

// nicknames in what `certutil -L` prints: a heading, and then a nickname and its trust
// in each line.
func nicknames(out []byte) []string {
	var all []string
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		line := strings.TrimRight(lines.Text(), " ")
		i := strings.LastIndexByte(line, ' ')
		if i < 0 || strings.Count(line[i:], ",") != 2 || strings.Contains(line[i:], "/") {
			continue
		}
		all = append(all, strings.TrimRight(line[:i], " "))
	}
	return all
}
