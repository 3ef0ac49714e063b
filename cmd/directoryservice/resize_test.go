package main

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/389ds/function-directoryservice/fn/compose"
)

// R7: the program understands what the Job runs.
func TestResizeCommand(t *testing.T) {
	composed := jobArgs(t, func(in *compose.Inputs) {
		in.Grow = &compose.Growth{Claims: []string{"ds-data-ds-0", "ds-data-ds-1"}, UIDs: []string{"1", "2"}, Size: resource.MustParse("2Gi")}
	})
	cases := map[string]struct {
		reason string
		args   []string
		want   resizeClaims
		err    string
	}{
		"Composed": {
			reason: "What the Job runs.",
			args:   composed,
			want:   resizeClaims{Namespace: "team", Size: "2Gi", Claim: []string{"ds-data-ds-0", "ds-data-ds-1"}},
		},
		"NoClaim": {
			reason: "Nothing to do is a mistake.",
			args:   []string{"resize", "--namespace", "team", "--size", "2Gi"},
			err:    "--claim",
		},
		"NoSize": {
			reason: "There is no size that would be right for all.",
			args:   []string{"resize", "--namespace", "team", "--claim", "ds-data-ds-0"},
			err:    "--size",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := cli{}
			parser, err := kong.New(&c, kong.Vars{"version": version})
			if err != nil {
				t.Fatal(err)
			}
			_, err = parser.Parse(tc.args)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("\n%s\nwant an error about %q, got %v", tc.reason, tc.err, err)
			}
			if diff := cmp.Diff(tc.want, c.Resize); tc.err == "" && diff != "" {
				t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// R7: a size that is none is never asked for.
func TestResizeSize(t *testing.T) {
	c := resizeClaims{Namespace: "team", Size: "much", Claim: []string{"ds-data-ds-0"}}
	if err := c.Run(); err == nil || !strings.Contains(err.Error(), "--size=much") {
		t.Errorf("want an error about the size, got %v", err)
	}
}
