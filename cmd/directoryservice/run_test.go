package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/compose"
	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// podOf a composed service.
func podOf(t *testing.T, r upgrade.Release) corev1.PodSpec {
	t.Helper()
	in := compose.Inputs{
		Identity:   naming.Identity{Name: "ds", Namespace: "team"},
		Spec:       &v1alpha1.DirectoryServiceSpec{Startup: v1alpha1.Startup{TimeoutSeconds: 90}},
		Decision:   upgrade.Decision{Run: &r, Ledger: upgrade.Ledger{Good: &r}},
		DMPassword: compose.DMPassword{Usable: true},
		TLS:        compose.TLS{Secret: "ds-tls", Usable: true},
		Observed:   map[string]struct{}{},
		AgentImage: "function:v1",
	}
	in.Spec.Default()
	in.DMPassword.Ref = in.Identity.DMPassword(in.Spec)
	var err error
	in.Templates, err = compose.NewTemplates(compose.PodInputs{
		Identity: in.Identity, Spec: in.Spec, Own: in.Spec.PodSettings, Target: r, Password: in.DMPassword.Ref, TLS: in.TLS.Secret, AgentImage: in.AgentImage,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := compose.Service(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range d {
		if s, ok := o.Object.(*appsv1.StatefulSet); ok {
			return s.Spec.Template.Spec
		}
	}
	t.Fatal("there is no StatefulSet")
	return corev1.PodSpec{}
}

// The program understands what the composed pods run.
func TestPodCommands(t *testing.T) {
	fields := map[string]string{"metadata.name": "ds-0", "metadata.namespace": "team", "metadata.uid": "0a5f"}
	cases := map[string]struct {
		reason  string
		release upgrade.Release
		want    run
	}{
		"Versioned": {
			reason:  "The agent refuses an image of any other version.",
			release: upgrade.Release{Version: "3.1.0", Image: "dirsrv:3.1.0"},
			want:    run{ServerVersion: "3.1.0"},
		},
		"Unversioned": {
			reason:  "It takes whatever is in the image.",
			release: upgrade.Release{Image: "dirsrv:latest"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := podOf(t, tc.release)
			parse := func(args []string) cli {
				t.Helper()
				c := cli{}
				parser, err := kong.New(&c, kong.Vars{"version": version})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := parser.Parse(args); err != nil {
					t.Fatalf("\n%s\n%v", tc.reason, err)
				}
				return c
			}
			server := pod.Containers[0]
			for _, e := range server.Env {
				value := e.Value
				if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
					value = fields[e.ValueFrom.FieldRef.FieldPath]
				}
				t.Setenv(e.Name, value)
			}

			tc.want.Pod, tc.want.UID, tc.want.Namespace, tc.want.State = "ds-0", "0a5f", "team", "ds-state"
			tc.want.StartTimeout, tc.want.Listen = 90, ":8389"
			got := parse(server.Command[1:]).Run
			if tc.want.Command = []string{"dscontainer", "-r"}; len(got.Command) > 0 && got.Command[0] == "--" {
				tc.want.Command = append([]string{"--"}, tc.want.Command...)
			}
			// Within it the server has to stop, and the agent to say so.
			if grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second; got.Grace <= 0 || got.Grace > grace-8*time.Second {
				t.Errorf("the server has %s to stop, and the pod %s", got.Grace, grace)
			}
			tc.want.Grace = got.Grace
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(install{To: server.Command[0]}, parse(pod.InitContainers[0].Args).Install); diff != "" {
				t.Errorf("\nthe program is installed where the server's container runs it\n-want, +got:\n%s", diff)
			}
		})
	}
}

func TestInstall(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	to := filepath.Join(dir, "directoryservice")
	// The second time as after a restart of the init container: over a program that may
	// be running.
	for range 2 {
		if err := (&install{To: to}).Run(); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(to)
		if err != nil {
			t.Fatal(err)
		}
		i, err := os.Stat(to)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, got) || i.Mode() != 0o755 {
			t.Errorf("want the program itself, for everybody to run: %d bytes of %d, %s", len(got), len(want), i.Mode())
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) != 1 {
			t.Errorf("want nothing else: %v", entries)
		}
	}
	if err := (&install{To: filepath.Join(dir, "none", "x")}).Run(); err == nil {
		t.Error("it could not be installed, and there is no error")
	}
}
