package upgrade

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
)

// The ledger is read by later versions of the function, and by people: its form
// is a contract.
func TestLedger(t *testing.T) {
	at := time.Date(2026, time.February, 3, 4, 5, 6, 0, time.UTC)
	old := Release{Version: "3.1.0", Image: "dirsrv:3.1.0", Template: "aaa"}
	next := Release{Version: "3.1.1", Image: "dirsrv:3.1.1", Template: "bbb"}

	cases := map[string]struct {
		reason string
		ledger Ledger
		want   string
	}{
		"Empty": {
			reason: "Absent parts are left out.",
			want:   `{}`,
		},
		"Unversioned": {
			reason: "An unknown version and template are left out, the image never is.",
			ledger: Ledger{Good: &Release{Image: "dirsrv:stable"}},
			want:   `{"good":{"image":"dirsrv:stable"}}`,
		},
		"Operation": {
			reason: "An operation without a pod of its turn yet.",
			ledger: Ledger{Good: &old, Operation: &Operation{ID: "1", Kind: OperationRollback, From: next, To: old, StartedAt: at}},
			want: `{"good":{"version":"3.1.0","image":"dirsrv:3.1.0","template":"aaa"},` +
				`"operation":{"id":"1","kind":"Rollback",` +
				`"from":{"version":"3.1.1","image":"dirsrv:3.1.1","template":"bbb"},` +
				`"to":{"version":"3.1.0","image":"dirsrv:3.1.0","template":"aaa"},` +
				`"startedAt":"2026-02-03T04:05:06Z"}}`,
		},
		"Whole": {
			reason: "Every part there is.",
			ledger: Ledger{
				Good: &old,
				Operation: &Operation{
					ID: "1", Kind: OperationUpgrade, From: old, To: next,
					StartedAt: at, Pod: "ds-1", PodSince: ptr.To(at.Add(time.Minute)),
					Mend: true, Degraded: true, Reason: "Aborted", Message: "why",
				},
				Rejected:     &Rejected{Release: next, Reason: "ImagePullBackOff", At: at},
				RejectedPods: &Rejected{Release: old, Reason: "CrashLoopBackOff", Message: "pod ds-0", At: at},
				RollbackTo:   "3.0.0",
				Founded:      []string{"userroot", "other"},
				History: []HistoryEntry{
					{From: old, To: next, Result: ResultRolledBack, Reason: "NotReady", StartedAt: at, CompletedAt: at.Add(time.Hour)},
					{From: next, To: old, Result: ResultSucceeded, StartedAt: at, CompletedAt: at},
				},
			},
			want: `{"good":{"version":"3.1.0","image":"dirsrv:3.1.0","template":"aaa"},` +
				`"operation":{"id":"1","kind":"Upgrade",` +
				`"from":{"version":"3.1.0","image":"dirsrv:3.1.0","template":"aaa"},` +
				`"to":{"version":"3.1.1","image":"dirsrv:3.1.1","template":"bbb"},` +
				`"startedAt":"2026-02-03T04:05:06Z","pod":"ds-1","podSince":"2026-02-03T04:06:06Z",` +
				`"mend":true,"degraded":true,"reason":"Aborted","message":"why"},` +
				`"rejected":{"version":"3.1.1","image":"dirsrv:3.1.1","template":"bbb","reason":"ImagePullBackOff","at":"2026-02-03T04:05:06Z"},` +
				`"rejectedPods":{"version":"3.1.0","image":"dirsrv:3.1.0","template":"aaa","reason":"CrashLoopBackOff","message":"pod ds-0","at":"2026-02-03T04:05:06Z"},` +
				`"rollbackTo":"3.0.0","founded":["userroot","other"],` +
				`"history":[` +
				`{"from":{"version":"3.1.0","image":"dirsrv:3.1.0","template":"aaa"},` +
				`"to":{"version":"3.1.1","image":"dirsrv:3.1.1","template":"bbb"},` +
				`"result":"RolledBack","reason":"NotReady","startedAt":"2026-02-03T04:05:06Z","completedAt":"2026-02-03T05:05:06Z"},` +
				`{"from":{"version":"3.1.1","image":"dirsrv:3.1.1","template":"bbb"},` +
				`"to":{"version":"3.1.0","image":"dirsrv:3.1.0","template":"aaa"},` +
				`"result":"Succeeded","startedAt":"2026-02-03T04:05:06Z","completedAt":"2026-02-03T04:05:06Z"}]}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := tc.ledger.String()
			if err != nil {
				t.Fatalf("\n%s\nString(): %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("\n%s\nString(): -want, +got:\n%s", tc.reason, diff)
			}
			back, err := ParseLedger(got)
			if err != nil {
				t.Fatalf("\n%s\nParseLedger(%s): %v", tc.reason, got, err)
			}
			if diff := cmp.Diff(tc.ledger, back); diff != "" {
				t.Errorf("\n%s\nParseLedger(String()): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestParseLedger(t *testing.T) {
	cases := map[string]struct {
		reason     string
		annotation string
		want       Ledger
		wantErr    bool
	}{
		"Missing":      {reason: "A new StatefulSet has none."},
		"NoJSON":       {reason: "Garbage is an error.", annotation: "{", wantErr: true},
		"WrongType":    {reason: "JSON of another form is an error.", annotation: `{"good":"3.1.0"}`, wantErr: true},
		"NoObject":     {reason: "A list is no ledger.", annotation: `[]`, wantErr: true},
		"WrongTime":    {reason: "A time that is none is an error.", annotation: `{"rejected":{"image":"x","reason":"x","at":"yesterday"}}`, wantErr: true},
		"Null":         {reason: "null is nothing.", annotation: `null`},
		"UnknownField": {reason: "A newer function's field is passed over.", annotation: `{"good":{"image":"x"},"newer":1}`, want: Ledger{Good: &Release{Image: "x"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ParseLedger(tc.annotation)
			if (err != nil) != tc.wantErr {
				t.Fatalf("\n%s\nParseLedger(%q): want error %t, got %v", tc.reason, tc.annotation, tc.wantErr, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("\n%s\nParseLedger(%q): -want, +got:\n%s", tc.reason, tc.annotation, diff)
			}
		})
	}
}

// What the StatefulSet carries is the truth; the status is its spare copy.
func TestRecover(t *testing.T) {
	at := time.Date(2026, time.February, 3, 4, 5, 6, 0, time.UTC)
	good, newer := Release{Version: "3.1.0", Image: "dirsrv:3.1.0"}, Release{Version: "3.1.1", Image: "dirsrv:3.1.1"}
	running := &Operation{ID: "1", Kind: OperationUpgrade, From: good, To: newer, StartedAt: at, Pod: "ds-1", PodSince: &at}
	history := []HistoryEntry{{From: newer, To: good, Result: ResultSucceeded, StartedAt: at, CompletedAt: at}}
	projected := Ledger{Good: &good, Operation: running, RollbackTo: "3.0.0", History: history}
	annotation := `{"good":{"version":"3.1.1","image":"dirsrv:3.1.1"},"founded":["userroot"]}`

	cases := map[string]struct {
		reason     string
		annotation string
		projected  Ledger
		want       Ledger
	}{
		"Annotation": {
			reason:     "What the status says as well does not count, an operation included.",
			annotation: annotation,
			projected:  projected,
			want:       Ledger{Good: &newer, Founded: []string{"userroot"}},
		},
		"Lost": {
			reason:    "Where the StatefulSet is gone, the status remembers all of it.",
			projected: projected,
			want:      projected,
		},
		"Garbled": {
			reason:     "An unreadable annotation counts as lost, and stops nothing.",
			annotation: annotation[:len(annotation)/2],
			projected:  projected,
			want:       projected,
		},
		"GarbledHalfway": {
			reason:     "Nothing is taken from an annotation that cannot be read to its end.",
			annotation: strings.Replace(annotation, `["userroot"]`, `1`, 1),
			want:       Ledger{},
		},
		"NeverGood": {
			reason:     "A ledger without a good release keeps its other parts.",
			annotation: `{"founded":["userroot"]}`,
			projected:  projected,
			want:       Ledger{Good: &good, Founded: []string{"userroot"}},
		},
		"NothingKnown": {
			reason: "Where both are gone nothing is known.",
			want:   Ledger{},
		},
		"ProjectedWithoutImage": {
			reason:    "A version without its image is not a release to go back to; nor does an operation run that could not.",
			projected: Ledger{Good: &Release{Version: "3.1.0"}, Operation: running},
			want:      Ledger{},
		},
		"AnnotationWithoutImage": {
			reason:     "The same of the annotation: the status helps out.",
			annotation: `{"good":{"version":"3.1.1","image":""}}`,
			projected:  Ledger{Good: &good},
			want:       Ledger{Good: &good},
		},
		"OperationToNowhere": {
			reason:     "An operation that lacks an image is none.",
			annotation: `{"good":{"image":"dirsrv:3.1.0"},"operation":{"id":"1","kind":"Upgrade","from":{"image":"dirsrv:3.1.0"},"to":{"version":"3.1.1","image":""},"startedAt":"2026-02-03T04:05:06Z"}}`,
			want:       Ledger{Good: &Release{Image: "dirsrv:3.1.0"}},
		},
		"OperationFromNowhere": {
			reason:     "Both.",
			annotation: `{"good":{"image":"dirsrv:3.1.0"},"operation":{"id":"1","kind":"Upgrade","from":{"image":""},"to":{"image":"dirsrv:3.1.1"},"startedAt":"2026-02-03T04:05:06Z"}}`,
			want:       Ledger{Good: &Release{Image: "dirsrv:3.1.0"}},
		},
		"OperationWithoutGood": {
			reason:     "One that has nothing to go back to is none.",
			annotation: `{"operation":{"id":"1","kind":"Upgrade","from":{"image":"dirsrv:3.1.0"},"to":{"image":"dirsrv:3.1.1"},"startedAt":"2026-02-03T04:05:06Z"}}`,
			want:       Ledger{},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Recover(tc.annotation, tc.projected)); diff != "" {
				t.Errorf("\n%s\nRecover(%q): -want, +got:\n%s", tc.reason, tc.annotation, diff)
			}
		})
	}
}

// R44: a template's name tells what it was made of, and what it is.
func TestTemplateID(t *testing.T) {
	id := TemplateID([]byte("inputs"), []byte("rendering"))
	cases := map[string]struct {
		reason    string
		other     string
		inputs    bool
		rendering bool
	}{
		"Same":           {reason: "The same bytes have the same name.", other: TemplateID([]byte("inputs"), []byte("rendering")), inputs: true, rendering: true},
		"OtherRendering": {reason: "A newer function.", other: TemplateID([]byte("inputs"), []byte("another")), inputs: true},
		"OtherInputs":    {reason: "A default that the spec names now.", other: TemplateID([]byte("others"), []byte("rendering")), rendering: true},
		"Other":          {reason: "Another spec.", other: TemplateID([]byte("rendering"), []byte("inputs"))},
		"None":           {reason: "No template is none.", other: ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := sameInputs(id, tc.other); got != tc.inputs {
				t.Errorf("\n%s\nsameInputs(%q, %q): want %t, got %t", tc.reason, id, tc.other, tc.inputs, got)
			}
			if got := sameRendering(id, tc.other); got != tc.rendering {
				t.Errorf("\n%s\nsameRendering(%q, %q): want %t, got %t", tc.reason, id, tc.other, tc.rendering, got)
			}
			if got := NamesTemplate(tc.other, []byte("rendering")); got != tc.rendering {
				t.Errorf("\n%s\nNamesTemplate(%q): want %t, got %t", tc.reason, tc.other, tc.rendering, got)
			}
		})
	}
}
