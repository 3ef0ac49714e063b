package status

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

var (
	t0    = time.Date(2026, time.February, 3, 4, 5, 6, 0, time.UTC)
	older = upgrade.Release{Version: "3.0.0", Image: "dirsrv:3.0.0", Template: "aa-00"}
	good  = upgrade.Release{Version: "3.1.0", Image: "dirsrv:3.1.0", Template: "aa-bb"}
	newer = upgrade.Release{Version: "3.1.1", Image: "dirsrv:3.1.1", Template: "cc-dd"}
)

// wholeLedger has every field set.
func wholeLedger() upgrade.Ledger {
	return upgrade.Ledger{
		Good: &good,
		Operation: &upgrade.Operation{
			ID: "0a1b", Kind: upgrade.OperationRollback, From: newer, To: good, StartedAt: t0,
			Pod: "ds-1", PodSince: ptr.To(t0.Add(time.Minute)), Mend: true, Degraded: true,
			Reason: "CrashLoopBackOff", Message: "pod ds-1: CrashLoopBackOff",
		},
		Rejected:     &upgrade.Rejected{Release: newer, Reason: "CrashLoopBackOff", Message: "pod ds-1: CrashLoopBackOff", At: t0},
		RejectedPods: &upgrade.Rejected{Release: good, Reason: "ImagePullBackOff", Message: "no such host", At: t0.Add(time.Hour)},
		RollbackTo:   "3.0.0",
		Founded:      []string{"userroot"},
		History: []upgrade.HistoryEntry{
			{From: older, To: good, Result: upgrade.ResultSucceeded, Reason: "RolledBackManually", Message: "why", StartedAt: t0, CompletedAt: t0.Add(time.Hour)},
			{From: good, To: older, Result: upgrade.ResultRolledBack, StartedAt: t0, CompletedAt: t0},
		},
	}
}

// unset are the fields of a document that have their zero value.
func unset(v reflect.Value, path string) []string {
	switch {
	case v.IsZero():
		return []string{path}
	case v.Kind() == reflect.Pointer:
		return unset(v.Elem(), path)
	case v.Kind() == reflect.Slice:
		return unset(v.Index(0), path+"[0]")
	case v.Kind() != reflect.Struct || v.Type() == reflect.TypeFor[time.Time]():
		return nil
	}
	var out []string
	for i := range v.NumField() {
		out = append(out, unset(v.Field(i), path+"."+v.Type().Field(i).Name)...)
	}
	return out
}

// stored is a status as the API server gives it back.
func stored(t *testing.T, st v1alpha1.DirectoryServiceStatus) v1alpha1.DirectoryServiceStatus {
	t.Helper()
	b, err := json.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	back := v1alpha1.DirectoryServiceStatus{}
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	return back
}

// R32: the status is the ledger's spare copy, whole: what the function read of the one
// it reads of the other.
func TestProjection(t *testing.T) {
	if missing := unset(reflect.ValueOf(wholeLedger()), "ledger"); len(missing) > 0 {
		t.Fatalf("this test leaves out %v", missing)
	}
	without := func(change func(l *upgrade.Ledger)) upgrade.Ledger {
		l := wholeLedger()
		change(&l)
		return l
	}
	cases := map[string]struct {
		reason string
		ledger upgrade.Ledger
	}{
		"Whole": {reason: "Every field.", ledger: wholeLedger()},
		"Empty": {reason: "A new service.", ledger: upgrade.Ledger{}},
		"Unversioned": {reason: "R4: nobody knows the versions.", ledger: without(func(l *upgrade.Ledger) {
			l.Good, l.Operation.From.Version = &upgrade.Release{Image: "dirsrv:stable"}, ""
		})},
		"NoOperation":   {reason: "Nothing runs.", ledger: without(func(l *upgrade.Ledger) { l.Operation = nil })},
		"NoPodYet":      {reason: "Nobody's turn yet.", ledger: without(func(l *upgrade.Ledger) { l.Operation.Pod, l.Operation.PodSince = "", nil })},
		"PlainUpgrade":  {reason: "An operation without a reason.", ledger: without(func(l *upgrade.Ledger) { l.Operation.Reason, l.Operation.Message = "", "" })},
		"NothingFailed": {reason: "Nothing was rejected.", ledger: without(func(l *upgrade.Ledger) { l.Rejected, l.RejectedPods = nil, nil })},
		"NoHistory":     {reason: "Nothing has ended yet.", ledger: without(func(l *upgrade.Ledger) { l.History = nil })},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for what, change := range map[string]func(in *Inputs){
				"alone": func(*Inputs) {},
				// What else stands in status.upgrade is no operation, and spoils none.
				"with all else": func(in *Inputs) {
					in.Decision.Pending, in.Decision.Waiting = &newer, "waits"
					in.Decision.Plan = &upgrade.Plan{From: good, To: newer}
					in.Decision.PodUpdate = "aa-ee"
					in.Decision.Failure = &upgrade.Failure{Pod: "ds-1", Reason: "CrashLoopBackOff"}
				},
			} {
				st := Of(inputs(func(in *Inputs) { in.Decision.Ledger = tc.ledger }, change)).Status
				back := stored(t, st)
				if diff := cmp.Diff(tc.ledger, LedgerOf(&back)); diff != "" {
					t.Errorf("\n%s\n%s: LedgerOf(status): -want, +got:\n%s", tc.reason, what, diff)
				}
			}
		})
	}
}

// A status that is not whole, by an older function or by hand, gives no half operation.
func TestLedgerOfHalfAStatus(t *testing.T) {
	cases := map[string]struct {
		reason string
		spoil  func(u *v1alpha1.UpgradeStatus)
	}{
		"NoID":      {reason: "What waits is shown there too, without an operation.", spoil: func(u *v1alpha1.UpgradeStatus) { u.ID = "" }},
		"NoFrom":    {reason: "Nothing to go back to.", spoil: func(u *v1alpha1.UpgradeStatus) { u.From = nil }},
		"NoTo":      {reason: "Nowhere to go.", spoil: func(u *v1alpha1.UpgradeStatus) { u.To = nil }},
		"NoStarted": {reason: "Nobody knows since when.", spoil: func(u *v1alpha1.UpgradeStatus) { u.StartedAt = nil }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			st := Of(inputs(func(in *Inputs) { in.Decision.Ledger = wholeLedger() })).Status
			tc.spoil(st.Upgrade)
			if o := LedgerOf(&st).Operation; o != nil {
				t.Errorf("\n%s\nan operation is made of it: %+v", tc.reason, o)
			}
		})
	}
}

// The times of the ledger and of the status are the same, in UTC and whole seconds,
// wherever the status was read.
func TestProjectedTimes(t *testing.T) {
	elsewhere := time.FixedZone("elsewhere", 3*60*60)
	st := Of(inputs(func(in *Inputs) { in.Decision.Ledger = wholeLedger() })).Status
	st.Upgrade.StartedAt = ptr.To(metav1.NewTime(t0.In(elsewhere)))
	got, err := LedgerOf(&st).String()
	if err != nil {
		t.Fatal(err)
	}
	want, err := wholeLedger().String()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ledger: -want, +got:\n%s", diff)
	}
}

// A time that nobody knows is still one: the schema would refuse a null, and with it
// the whole status.
func TestProjectedZeroTimes(t *testing.T) {
	l := wholeLedger()
	l.Rejected.At, l.History[0].StartedAt = time.Time{}, time.Time{}
	st := Of(inputs(func(in *Inputs) { in.Decision.Ledger = l })).Status
	b, err := json.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(b, []byte("null")) {
		t.Errorf("the status has a null: %s", b)
	}
}
