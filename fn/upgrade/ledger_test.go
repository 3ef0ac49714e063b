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
				},
				Rejected:   &Rejected{Release: next, Reason: "ImagePullBackOff", At: at},
				RollbackTo: "3.0.0",
				Founded:    []string{"userroot", "other"},
				History: []HistoryEntry{
					{From: old, To: next, Result: ResultRolledBack, Reason: "NotReady", StartedAt: at, CompletedAt: at.Add(time.Hour)},
					{From: next, To: old, Result: ResultSucceeded, StartedAt: at, CompletedAt: at},
				},
			},
			want: `{"good":{"version":"3.1.0","image":"dirsrv:3.1.0","template":"aaa"},` +
				`"operation":{"id":"1","kind":"Upgrade",` +
				`"from":{"version":"3.1.0","image":"dirsrv:3.1.0","template":"aaa"},` +
				`"to":{"version":"3.1.1","image":"dirsrv:3.1.1","template":"bbb"},` +
				`"startedAt":"2026-02-03T04:05:06Z","pod":"ds-1","podSince":"2026-02-03T04:06:06Z"},` +
				`"rejected":{"version":"3.1.1","image":"dirsrv:3.1.1","template":"bbb","reason":"ImagePullBackOff","at":"2026-02-03T04:05:06Z"},` +
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

func TestRecover(t *testing.T) {
	status := Release{Version: "3.1.0", Image: "dirsrv:3.1.0"}
	good := &Release{Version: "3.1.1", Image: "dirsrv:3.1.1"}
	annotation := `{"good":{"version":"3.1.1","image":"dirsrv:3.1.1"},"founded":["userroot"]}`

	cases := map[string]struct {
		reason     string
		annotation string
		status     Release
		want       Ledger
	}{
		"Annotation": {
			reason:     "What the StatefulSet carries is the truth; status is a projection of it.",
			annotation: annotation,
			status:     status,
			want:       Ledger{Good: good, Founded: []string{"userroot"}},
		},
		"Lost": {
			reason: "Where the StatefulSet is gone, the status remembers.",
			status: status,
			want:   Ledger{Good: &status},
		},
		"Garbled": {
			reason:     "An unreadable annotation counts as lost, and stops nothing.",
			annotation: annotation[:len(annotation)/2],
			status:     status,
			want:       Ledger{Good: &status},
		},
		"GarbledHalfway": {
			reason:     "Nothing is taken from an annotation that cannot be read to its end.",
			annotation: strings.Replace(annotation, `["userroot"]`, `1`, 1),
			want:       Ledger{},
		},
		"NeverGood": {
			reason:     "A ledger without a good release keeps its other parts.",
			annotation: `{"founded":["userroot"]}`,
			status:     status,
			want:       Ledger{Good: &status, Founded: []string{"userroot"}},
		},
		"NothingKnown": {
			reason: "Where both are gone nothing is known.",
			want:   Ledger{},
		},
		"StatusWithoutImage": {
			reason: "A version without its image is not a release to go back to.",
			status: Release{Version: "3.1.0"},
			want:   Ledger{},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Recover(tc.annotation, tc.status)); diff != "" {
				t.Errorf("\n%s\nRecover(%q): -want, +got:\n%s", tc.reason, tc.annotation, diff)
			}
		})
	}
}
