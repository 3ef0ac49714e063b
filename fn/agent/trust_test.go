package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crossplane/function-sdk-go/logging"
	"github.com/google/go-cmp/cmp"
)

// R52: a CA that was replaced is trusted no longer, and no interrupted start fails all
// later ones.
func TestTidyTrust(t *testing.T) {
	const served = "Server-Cert                                                  u,u,u\n"
	cases := map[string]struct {
		reason string
		// files of the volume; DATA stands for it below.
		files  []string
		listed string
		exit   string
		want   []string
		err    string
	}{
		"First": {
			reason: "There is no server yet.",
			files:  []string{"tls/server.crt"},
		},
		"NoTLS": {
			reason: "dscontainer leaves the database alone.",
			files:  []string{"config/cert9.db", "config/pwdfile.txt"},
		},
		"Fits": {
			reason: "All that is trusted is installed.",
			files:  []string{"config/cert9.db", "config/pwdfile.txt", "tls/server.crt", "tls/ca/a.crt"},
			listed: served + "DATA/tls/ca/a.crt                                            C,,  \nSelf-Signed-CA                                               CTu,u,u\n",
			want:   []string{"-L -d DATA/config"},
		},
		"OldCA": {
			reason: "Its file is gone.",
			files:  []string{"config/cert9.db", "config/pwdfile.txt", "tls/server.crt", "tls/ca/a.crt"},
			listed: served + "DATA/tls/ca/a.crt                                            C,,  \nDATA/tls/ca/b.crt                                            C,,  \n",
			want:   []string{"-L -d DATA/config", "-D -d DATA/config -n DATA/tls/ca/b.crt -f DATA/config/pwdfile.txt"},
		},
		"NotServed": {
			reason: "dscontainer would end because it cannot delete what is not there.",
			files:  []string{"config/cert9.db", "config/pwdfile.txt", "tls/server.crt"},
			want:   []string{"-L -d DATA/config", "-A -d DATA/config -n Server-Cert -t ,, -a -i DATA/tls/server.crt -f DATA/config/pwdfile.txt"},
		},
		"Fails": {
			reason: "It says what certutil does.",
			files:  []string{"config/cert9.db", "config/pwdfile.txt", "tls/server.crt"},
			listed: "SEC_ERROR_BAD_THING\n", exit: "255",
			want: []string{"-L -d DATA/config"},
			err:  "cannot run certutil -L: exit code 255: SEC_ERROR_BAD_THING",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			for _, f := range tc.files {
				path := filepath.Join(data, f)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			// A certutil that tells what it was asked.
			bin := put(t, map[string]string{"certutil": "#!/bin/sh\necho \"$*\" >>$DATA/asked\ncase $1 in -L) cat $DATA/listed;; esac\nexit ${CODE:-0}\n"})
			if err := os.Chmod(filepath.Join(bin, "certutil"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(data, "listed"), []byte(strings.ReplaceAll(tc.listed, "DATA", data)), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
			t.Setenv("DATA", data)
			t.Setenv("CODE", tc.exit)
			a := &agent{Options: Options{Data: data, Log: logging.NewNopLogger()}}
			if diff := cmp.Diff(tc.err, text(a.tidyTrust(t.Context()))); diff != "" {
				t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
			}
			asked, err := os.ReadFile(filepath.Join(data, "asked"))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			var got []string
			for line := range strings.Lines(strings.ReplaceAll(string(asked), data, "DATA")) {
				got = append(got, strings.TrimSpace(line))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
