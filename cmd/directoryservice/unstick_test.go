package main

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/compose"
	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// jobArgs are those of the composed Job.
func jobArgs(t *testing.T, change func(in *compose.Inputs)) []string {
	t.Helper()
	in := compose.Inputs{
		Identity:   naming.Identity{Name: "ds", Namespace: "team"},
		Spec:       &v1alpha1.DirectoryServiceSpec{},
		AgentImage: "function:v1",
		Observed:   map[string]struct{}{},
	}
	in.Spec.Default()
	change(&in)
	// The second call knows that the Role exists.
	for range 2 {
		d, err := compose.Service(in)
		if err != nil {
			t.Fatal(err)
		}
		for key, o := range d {
			in.Observed[key] = struct{}{}
			if job, ok := o.Object.(*batchv1.Job); ok {
				return job.Spec.Template.Spec.Containers[0].Args
			}
		}
	}
	t.Fatal("there is no Job")
	return nil
}

func TestCommands(t *testing.T) {
	type want struct {
		command string
		unstick unstickPod
		err     string
	}
	cases := map[string]struct {
		reason string
		args   []string
		want   want
	}{
		"Default": {
			reason: "Crossplane starts the image without a command.",
			want:   want{command: "serve"},
		},
		"DefaultWithFlags": {
			reason: "Nor does `crossplane composition render` give one.",
			args:   []string{"--insecure", "--debug"},
			want:   want{command: "serve"},
		},
		"Serve": {
			reason: "By its name.",
			args:   []string{"serve", "--insecure"},
			want:   want{command: "serve"},
		},
		"Unstick": {
			reason: "The program understands what the Job runs.",
			args: jobArgs(t, func(in *compose.Inputs) {
				in.Unstick = []upgrade.Condemned{{Pod: "ds-1", UID: "0a5f", Revision: "ds-bad"}}
			}),
			want: want{command: "unstick", unstick: unstickPod{Namespace: "team", Pod: "ds-1", UID: "0a5f", Revision: "ds-bad"}},
		},
		"UnstickIncomplete": {
			reason: "Without the UID any pod of that name would be deleted.",
			args:   []string{"unstick", "--namespace", "team", "--pod", "ds-1", "--revision", "ds-bad"},
			want:   want{err: "--uid"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := cli{}
			parser, err := kong.New(&c, kong.Vars{"version": version})
			if err != nil {
				t.Fatal(err)
			}
			ctx, err := parser.Parse(tc.args)
			if tc.want.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want.err) {
					t.Errorf("\n%s\nwant an error about %s, got %v", tc.reason, tc.want.err, err)
				}
				return
			}
			if err != nil {
				t.Fatalf("\n%s\n%v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, want{command: ctx.Command(), unstick: c.Unstick}, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
