package status

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// This file projects the ledger onto the status, whole, and reads it back: the
// status is the ledger's spare copy.

// project the ledger onto the status.
func project(st *v1alpha1.DirectoryServiceStatus, l upgrade.Ledger) {
	if good := l.Good; good != nil {
		st.CurrentVersion, st.CurrentImage, st.CurrentTemplate = good.Version, good.Image, good.Template
	}
	if o := l.Operation; o != nil {
		u := upgradeStatus(st)
		u.ID, u.Kind = o.ID, string(o.Kind)
		u.From, u.To = release(o.From), release(o.To)
		u.StartedAt = at(o.StartedAt)
		u.Pod = o.Pod
		if o.PodSince != nil {
			u.PodSince = at(*o.PodSince)
		}
		u.Mending, u.Degraded = o.Mend, o.Degraded
		u.Reason, u.Cause = o.Reason, o.Message
	}
	st.Rejected, st.RejectedPods = rejected(l.Rejected), rejected(l.RejectedPods)
	st.RollbackTo = l.RollbackTo
	for _, e := range l.History {
		st.History = append(st.History, v1alpha1.HistoryStatus{
			From: *release(e.From), To: *release(e.To), Result: string(e.Result), Reason: e.Reason, Message: e.Message,
			StartedAt: *at(e.StartedAt), CompletedAt: *at(e.CompletedAt),
		})
	}
}

// LedgerOf a status: what project made it from.
func LedgerOf(st *v1alpha1.DirectoryServiceStatus) upgrade.Ledger {
	l := upgrade.Ledger{RollbackTo: st.RollbackTo}
	if st.CurrentImage != "" {
		l.Good = &upgrade.Release{Version: st.CurrentVersion, Image: st.CurrentImage, Template: st.CurrentTemplate}
	}
	if u := st.Upgrade; u != nil && u.ID != "" && u.From != nil && u.To != nil && u.StartedAt != nil {
		o := &upgrade.Operation{
			ID: u.ID, Kind: upgrade.OperationKind(u.Kind), From: releaseOf(*u.From), To: releaseOf(*u.To), StartedAt: u.StartedAt.UTC(),
			Pod: u.Pod, Mend: u.Mending, Degraded: u.Degraded, Reason: u.Reason, Message: u.Cause,
		}
		if u.PodSince != nil {
			t := u.PodSince.UTC()
			o.PodSince = &t
		}
		l.Operation = o
	}
	for _, s := range st.Suffixes {
		if s.Founded {
			l.Founded = append(l.Founded, s.Name)
		}
	}
	slices.Sort(l.Founded)
	l.Rejected, l.RejectedPods = rejectedOf(st.Rejected), rejectedOf(st.RejectedPods)
	for _, e := range st.History {
		l.History = append(l.History, upgrade.HistoryEntry{
			From: releaseOf(e.From), To: releaseOf(e.To), Result: upgrade.Result(e.Result), Reason: e.Reason, Message: e.Message,
			StartedAt: e.StartedAt.UTC(), CompletedAt: e.CompletedAt.UTC(),
		})
	}
	return l
}

// upgradeStatus is made where there is something to say.
func upgradeStatus(st *v1alpha1.DirectoryServiceStatus) *v1alpha1.UpgradeStatus {
	if st.Upgrade == nil {
		st.Upgrade = &v1alpha1.UpgradeStatus{}
	}
	return st.Upgrade
}

func rejected(r *upgrade.Rejected) *v1alpha1.RejectedStatus {
	if r == nil {
		return nil
	}
	return &v1alpha1.RejectedStatus{ReleaseStatus: *release(r.Release), Reason: r.Reason, Message: r.Message, At: *at(r.At)}
}

func rejectedOf(r *v1alpha1.RejectedStatus) *upgrade.Rejected {
	if r == nil {
		return nil
	}
	return &upgrade.Rejected{Release: releaseOf(r.ReleaseStatus), Reason: r.Reason, Message: r.Message, At: r.At.UTC()}
}

func release(r upgrade.Release) *v1alpha1.ReleaseStatus {
	return &v1alpha1.ReleaseStatus{Version: r.Version, Image: r.Image, Template: r.Template}
}

func releaseOf(r v1alpha1.ReleaseStatus) upgrade.Release {
	return upgrade.Release{Version: r.Version, Image: r.Image, Template: r.Template}
}

func at(t time.Time) *metav1.Time {
	if t.IsZero() {
		// The zero time would be null, which the schema refuses along with all the rest.
		t = time.Unix(0, 0)
	}
	m := metav1.NewTime(t.UTC().Truncate(time.Second))
	return &m
}
