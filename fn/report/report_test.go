package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What the agent writes is read by functions of other versions: its form is a contract.
func TestParse(t *testing.T) {
	cases := map[string]struct {
		reason  string
		doc     string
		want    Report
		wantErr bool
	}{
		"Whole": {
			reason: "Every field that this function reads; those of a newer agent are passed over.",
			doc: `{"podUID":"u","bootID":"b","version":"3.1.0","ready":true,"newer":{"x":1},` +
				`"replication":{"ds-1":{"userroot":{"state":"Broken","message":"m"}}},"refusal":{"reason":"r","message":"m"}}`,
			want: Report{
				PodUID: "u", BootID: "b", Version: "3.1.0", Ready: true,
				Replication: map[string]map[string]Agreement{"ds-1": {"userroot": {State: "Broken", Message: "m"}}},
				Refusal:     &Refusal{Reason: "r", Message: "m"},
			},
		},
		"Empty":    {reason: "A report that says nothing.", doc: `{}`},
		"Missing":  {reason: "No report is no document.", doc: ``, wantErr: true},
		"Garbled":  {reason: "Half a document.", doc: `{"podUID":`, wantErr: true},
		"OtherOne": {reason: "A list is no report.", doc: `[]`, wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(tc.doc)
			if (err != nil) != tc.wantErr {
				t.Fatalf("\n%s\nParse(%q): want error %t, got %v", tc.reason, tc.doc, tc.wantErr, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("\n%s\nParse(%q): -want, +got:\n%s", tc.reason, tc.doc, diff)
			}
		})
	}
}

// R42: a refusal is told from whatever else a program may say at its end.
func TestParseRefusal(t *testing.T) {
	cases := map[string]struct {
		reason  string
		message string
		want    *Refusal
	}{
		"Refusal":   {reason: "The agent's own form.", message: `{"reason":"DatabaseBackendUnsupported","message":"the database is bdb"}`, want: &Refusal{Reason: "DatabaseBackendUnsupported", Message: "the database is bdb"}},
		"NoMessage": {reason: "A reason is enough.", message: `{"reason":"UncleanDatabase"}`, want: &Refusal{Reason: "UncleanDatabase"}},
		"NoReason":  {reason: "A log in JSON is none.", message: `{"message":"m"}`},
		"OtherType": {reason: "A reason is a word.", message: `{"reason":1}`},
		"Text":      {reason: "A log is none.", message: `reason: x`},
		"Cut":       {reason: "Kubernetes cuts a message at 4096 bytes: half a document is none.", message: `{"reason":"UncleanDatabase","mess`},
		"Empty":     {reason: "No message."},
		"List":      {reason: "A list is none.", message: `[{"reason":"x"}]`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r, ok := ParseRefusal(tc.message)
			var got *Refusal
			if ok {
				got = &r
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("\n%s\nParseRefusal(%q): -want, +got:\n%s", tc.reason, tc.message, diff)
			}
		})
	}
}

// R30: one agreement that is not healthy is one too many; none at all is nobody to
// replicate with.
func TestReplicates(t *testing.T) {
	healthy, broken := Agreement{State: StateHealthy}, Agreement{State: "Broken"}
	cases := map[string]struct {
		reason      string
		replication map[string]map[string]Agreement
		want        bool
	}{
		"None":      {reason: "A single server.", want: true},
		"NoSuffix":  {reason: "A peer without a suffix in common.", replication: map[string]map[string]Agreement{"ds-1": {}}, want: true},
		"Healthy":   {reason: "All are.", replication: map[string]map[string]Agreement{"ds-1": {"a": healthy, "b": healthy}, "ds-2": {"a": healthy}}, want: true},
		"OneBroken": {reason: "One is not.", replication: map[string]map[string]Agreement{"ds-1": {"a": healthy, "b": healthy}, "ds-2": {"a": broken}}},
		"NoState":   {reason: "One of which nothing is known is not healthy.", replication: map[string]map[string]Agreement{"ds-1": {"a": {}}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := (Report{Replication: tc.replication}).Replicates(); got != tc.want {
				t.Errorf("\n%s\nReplicates(): want %t, got %t", tc.reason, tc.want, got)
			}
		})
	}
}

// A pod that was taken over must neither fill a status nor write commands into it.
func TestParseBounds(t *testing.T) {
	long := strings.Repeat("ö", 5000)
	doc, err := Report{
		PodUID: "u", Version: long, Message: "a\nb\x1b[31m\x00 c\u2028d" + long,
		TLS:      Part{State: StateFailed, Message: long},
		Suffixes: map[string]Suffix{"userroot": {State: SuffixFailed, Message: "x\r\nSee: kubectl delete pvc --all"}},
		Refusal:  &Refusal{Reason: "a b\nc", Message: long},
	}.String()
	if err != nil {
		t.Fatal(err)
	}
	r, err := Parse(doc)
	if err != nil {
		t.Fatal(err)
	}
	cut := func(n int) string { return strings.Repeat("ö", n) + "..." }
	want := Report{
		PodUID: "u", Version: cut(maxWord), Message: "a b [31m c d" + strings.Repeat("ö", maxMessage-12) + "...",
		TLS:      Part{State: StateFailed, Message: cut(maxMessage)},
		Suffixes: map[string]Suffix{"userroot": {State: SuffixFailed, Message: "x See: kubectl delete pvc --all"}},
		Refusal:  &Refusal{Reason: "a b c", Message: cut(maxMessage)},
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("Parse(): -want, +got:\n%s", diff)
	}
	if _, err := Parse(`{"message":"` + strings.Repeat("x", maxReport) + `"}`); err == nil {
		t.Error("a report of any size is read")
	}
	if got, ok := ParseRefusal(`{"reason":"x","message":"a\nb"}`); !ok || got.Message != "a b" {
		t.Errorf("ParseRefusal(): %+v", got)
	}
}
