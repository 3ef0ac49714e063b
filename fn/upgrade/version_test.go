package upgrade

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// R4: a semantic version of three numbers, a leading v allowed, no build metadata.
func TestParseVersion(t *testing.T) {
	cases := map[string]struct {
		reason  string
		version string
		want    string
		wantErr bool
	}{
		"Plain":           {reason: "Three numbers are a version.", version: "3.1.0", want: "3.1.0"},
		"LeadingV":        {reason: "A leading v does not count.", version: "v3.1.0", want: "3.1.0"},
		"PreRelease":      {reason: "A pre-release is a version.", version: "3.1.0-rc.1", want: "3.1.0-rc.1"},
		"Zero":            {reason: "Zero is a number.", version: "0.0.0", want: "0.0.0"},
		"Empty":           {reason: "Nothing is no version.", version: "", wantErr: true},
		"Latest":          {reason: "A word is no version.", version: "latest", wantErr: true},
		"TwoNumbers":      {reason: "The third number is not made up.", version: "3.0", wantErr: true},
		"OneNumber":       {reason: "The second and third number are not made up.", version: "v3", wantErr: true},
		"FourNumbers":     {reason: "A fourth number has no meaning.", version: "3.1.0.1", wantErr: true},
		"BuildMetadata":   {reason: "No image tag can carry a +.", version: "3.1.0+x", wantErr: true},
		"LeadingZero":     {reason: "Numbers have no leading zeros.", version: "3.01.0", wantErr: true},
		"TwoVs":           {reason: "One leading v is allowed, not two.", version: "vv3.1.0", wantErr: true},
		"CapitalV":        {reason: "A capital V is not a leading v.", version: "V3.1.0", wantErr: true},
		"Spaces":          {reason: "A version has no spaces.", version: " 3.1.0", wantErr: true},
		"EmptyPreRelease": {reason: "A - must be followed by something.", version: "3.1.0-", wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ParseVersion(tc.version)
			if tc.wantErr {
				if err == nil {
					t.Fatalf("\n%s\nParseVersion(%q): want an error, got %s", tc.reason, tc.version, got)
				}
				return
			}
			if err != nil {
				t.Fatalf("\n%s\nParseVersion(%q): %v", tc.reason, tc.version, err)
			}
			if diff := cmp.Diff(tc.want, got.String()); diff != "" {
				t.Errorf("\n%s\nParseVersion(%q): -want, +got:\n%s", tc.reason, tc.version, diff)
			}
		})
	}
}

// R30, R42: what a server says it is.
func TestRuns(t *testing.T) {
	cases := map[string]struct {
		reason            string
		reported, version string
		want              bool
	}{
		"Same":          {reason: "The version.", reported: "3.1.2", version: "3.1.2", want: true},
		"Other":         {reason: "Another one.", reported: "3.1.1", version: "3.1.2"},
		"Longer":        {reason: "A number that begins so is another.", reported: "3.1.20", version: "3.1.2"},
		"Unknown":       {reason: "R4: nobody knows which it should be.", reported: "3.1.2", want: true},
		"Silent":        {reason: "A server that says nothing is none of any version.", version: "3.1.2"},
		"PreRelease":    {reason: "389 DS spells it so.", reported: "3.1.0.rc1", version: "3.1.0-rc.1", want: true},
		"PreReleaseCut": {reason: "Or not at all.", reported: "3.1.0", version: "3.1.0-rc.1", want: true},
		"LeadingV":      {reason: "R4: a v does not count.", reported: "v3.1.2", version: "3.1.2", want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := runs(tc.reported, tc.version); got != tc.want {
				t.Errorf("\n%s\nruns(%q, %q): want %t, got %t", tc.reason, tc.reported, tc.version, tc.want, got)
			}
		})
	}
}
