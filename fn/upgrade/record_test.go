package upgrade

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
)

// R32: how each kind of operation ends in the history, newest first.
func TestHistory(t *testing.T) {
	then := func(acts ...act) act {
		return func(c *cluster) {
			for _, a := range acts {
				a(c)
				c.next()
				c.pass(time.Minute)
			}
		}
	}
	gone := func(c *cluster) { c.in.Rollout, c.in.Pods = Rollout{}, nil }
	nothing := func(*cluster) {}

	cases := map[string]struct {
		reason string
		do     act
		want   []string
	}{
		"Nothing": {reason: "A service that was never changed.", do: nothing},
		"Upgraded": {
			reason: "Success has no reason.",
			do:     then(spec("3.1.1"), up("ds-0")),
			want:   []string{"3.1.0->3.1.1 Succeeded after 1m0s"},
		},
		"RolledBack": {
			reason: "From runs again; the time is that of the whole.",
			do:     then(spec("3.1.1"), fail("ds-0", "CrashLoopBackOff"), nothing, up("ds-0")),
			want:   []string{"3.1.0->3.1.1 RolledBack CrashLoopBackOff (pod ds-0: CrashLoopBackOff (container dirsrv)) after 3m0s"},
		},
		"Aborted": {
			reason: "R38: a person changed their mind.",
			do:     then(spec("3.1.1"), spec("3.1.0"), nothing, up("ds-0")),
			want:   []string{"3.1.0->3.1.1 RolledBack Aborted after 3m0s"},
		},
		"RolledBackByHand": {
			reason: "R37: a rollback that a person asked for is a change like any other, with a reason.",
			do:     then(spec("3.1.1"), up("ds-0"), rollbackTo("3.1.0"), up("ds-0")),
			want:   []string{"3.1.1->3.1.0 Succeeded RolledBackManually after 1m0s", "3.1.0->3.1.1 Succeeded after 1m0s"},
		},
		"RolledBackByHandDuring": {
			reason: "R37: while it runs it takes the change back.",
			do:     then(spec("3.1.1"), rollbackTo("3.1.0"), nothing, up("ds-0")),
			want:   []string{"3.1.0->3.1.1 RolledBack RolledBackManually after 3m0s"},
		},
		"RollbackByHandFailed": {
			reason: "R37: the rollback itself was taken back.",
			do:     then(spec("3.1.1"), up("ds-0"), rollbackTo("3.1.0"), fail("ds-0", "ImagePullBackOff"), nothing, up("ds-0")),
			want:   []string{"3.1.1->3.1.0 RolledBack ImagePullBackOff (pod ds-0: ImagePullBackOff (container dirsrv)) after 3m0s", "3.1.0->3.1.1 Succeeded after 1m0s"},
		},
		"RollbackFailedAndLeft": {
			reason: "R35: neither the change nor the way back.",
			do: then(spec("3.1.1"), fail("ds-0", "CrashLoopBackOff"), nothing,
				all(fail("ds-0", "RunContainerError"), spec("3.1.2"), allowDegraded("3.1.0->3.1.2")), nothing, up("ds-0")),
			want: []string{"3.1.0->3.1.2 Succeeded after 2m0s", "3.1.0->3.1.1 Failed RollbackFailed (pod ds-0: RunContainerError (container dirsrv)) after 3m0s"},
		},
		"StatefulSetDeleted": {
			reason: "Nobody knows how it would have ended.",
			do:     then(spec("3.1.1"), gone),
			want:   []string{"3.1.0->3.1.1 Superseded StatefulSetDeleted after 1m0s"},
		},
		"StatefulSetDeletedGoingBack": {
			reason: "The change is what the entry is about, also where it was being taken back.",
			do:     then(spec("3.1.1"), fail("ds-0", "CrashLoopBackOff"), gone),
			want:   []string{"3.1.0->3.1.1 Superseded StatefulSetDeleted after 2m0s"},
		},
		"PodUpdate": {
			reason: "R44: other pods of the same release.",
			do:     then(settings("other resources"), up("ds-0")),
			want:   []string{"3.1.0->3.1.0 Succeeded after 1m0s"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := running(1)
			tc.do(c)
			var got []string
			for _, e := range c.in.Ledger.History {
				s := fmt.Sprintf("%s %s %s", TransitionOf(e.From, e.To), e.Result, e.Reason)
				if e.Message != "" {
					s += " (" + e.Message + ")"
				}
				got = append(got, strings.TrimSpace(s)+" after "+e.CompletedAt.Sub(e.StartedAt).String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("\n%s\nhistory: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// R32: ten entries are kept, the newest first.
func TestHistoryIsCapped(t *testing.T) {
	c := running(1)
	for i := range 15 {
		spec(fmt.Sprintf("3.1.%d", i+1))(c)
		c.next()
		up("ds-0")(c)
		c.next()
	}
	h := c.in.Ledger.History
	if len(h) != 10 || h[0].To.Version != "3.1.15" || h[9].To.Version != "3.1.6" {
		t.Errorf("want the ten from 3.1.15 to 3.1.6, got %d: %+v", len(h), h)
	}
	// R37: what fell out of the history is not recorded any more.
	rollbackTo("3.1.2")(c)
	if d := c.next(); d.Blocked == nil || d.Blocked.Reason != ReasonInvalidRollback {
		t.Errorf("want %s, got %s", ReasonInvalidRollback, show(d))
	}
}

// R36, R42: what is recorded of a failure: the pod's own reason, the agent's before
// Kubernetes', and in a length that an annotation bears.
func TestRejected(t *testing.T) {
	cases := map[string]struct {
		reason string
		do     act
		want   Rejected
	}{
		"Kubernetes": {
			reason: "The reason of the container, and what Kubernetes says.",
			do: observed(func(in *Inputs) {
				in.Pods[0].Waiting, in.Pods[0].Container, in.Pods[0].Message = "ImagePullBackOff", "container dirsrv", "no such host"
			}),
			want: Rejected{Reason: "ImagePullBackOff", Message: "pod ds-0: ImagePullBackOff (container dirsrv): no such host"},
		},
		"Agent": {
			reason: "R42: the agent's refusal comes before the crash loop that follows from it.",
			do: observed(func(in *Inputs) {
				in.Pods[0].Waiting, in.Pods[0].Refusal = "CrashLoopBackOff", &Refusal{Reason: "DatabaseBackendUnsupported", Message: "the database is bdb"}
			}),
			want: Rejected{Reason: "DatabaseBackendUnsupported", Message: "pod ds-0: DatabaseBackendUnsupported: the database is bdb"},
		},
		"Deadline": {
			reason: "R40: the field that says how long.",
			do:     after(DefaultProgressDeadline),
			want:   Rejected{Reason: ReasonProgressDeadlineExceeded, Message: "pod ds-0: ProgressDeadlineExceeded: it has not become Ready within spec.upgrade.progressDeadlineSeconds"},
		},
		"LongMessage": {
			reason: "A log in a termination message is cut, between characters.",
			do: observed(func(in *Inputs) {
				in.Pods[0].Waiting, in.Pods[0].Message = "CrashLoopBackOff", strings.Repeat("ö", 4096)
			}),
			want: Rejected{Reason: "CrashLoopBackOff", Message: "pod ds-0: CrashLoopBackOff: " + strings.Repeat("ö", 600) + "..."},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := running(1)
			spec("3.1.1")(c)
			began := c.next()
			tc.do(c)
			d := c.next()
			want := tc.want
			want.Release, want.At = began.Ledger.Operation.To, c.in.Now
			if diff := cmp.Diff(&want, d.Ledger.Rejected); diff != "" {
				t.Errorf("\n%s\nrejected: -want, +got:\n%s", tc.reason, diff)
			}
			o := d.Ledger.Operation
			if o.Reason != want.Reason || o.Message != want.Message || !o.StartedAt.Equal(began.Ledger.Operation.StartedAt) {
				t.Errorf("\n%s\nthe rollback does not carry it: %+v", tc.reason, o)
			}
			if d.Blocked == nil || !d.Blocked.Restart || !strings.Contains(d.Blocked.Message, want.Reason) {
				t.Errorf("\n%s\nblocked: %+v", tc.reason, d.Blocked)
			}
		})
	}
}

// R25, R30: a pod that is Ready is rejected for what its agent says.
func TestRejectedByTheAgent(t *testing.T) {
	cases := map[string]struct {
		reason string
		report *Report
		want   Rejected
	}{
		"OtherVersion": {
			reason: "The image contains another version than its tag says.",
			report: &Report{Version: "3.1.2", Ready: true, Replicates: true},
			want:   Rejected{Reason: ReasonVersionMismatch, Message: "pod ds-0: VersionMismatch: it is Ready, and the operation still waits for ds-0 to run 3.1.1: it runs 3.1.2"},
		},
		"NotReplicating": {
			reason: "It never came to replicate.",
			report: &Report{Version: "3.1.1", Ready: true},
			want:   Rejected{Reason: ReasonProgressDeadlineExceeded, Message: "pod ds-0: ProgressDeadlineExceeded: it is Ready, and the operation still waits for ds-0 to replicate"},
		},
		"NoReport": {
			reason: "The agent never said anything.",
			want:   Rejected{Reason: ReasonProgressDeadlineExceeded, Message: "pod ds-0: ProgressDeadlineExceeded: it is Ready, and the operation still waits for the agent in ds-0 to report that its server is ready"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := withAgents(1)
			spec("3.1.1")(c)
			c.next()
			up("ds-0")(c)
			c.pod("ds-0").Report = tc.report
			c.next()
			c.pass(DefaultProgressDeadline)
			got := c.next().Ledger.Rejected
			if got == nil || got.Reason != tc.want.Reason || got.Message != tc.want.Message {
				t.Errorf("\n%s\nrejected: want %+v, got %+v", tc.reason, tc.want, got)
			}
		})
	}
}

// R29, R35: what a pod may be deleted for, and what not.
func TestPodStuck(t *testing.T) {
	cases := map[string]struct {
		reason string
		pod    Pod
		want   string
	}{
		"Starting":    {reason: "It has had less than its time.", pod: Pod{Created: t0.Add(time.Second)}},
		"Late":        {reason: "It has had its time.", pod: Pod{Created: t0}, want: ReasonProgressDeadlineExceeded},
		"LostLately":  {reason: "An old pod that has not been Ready for a moment has its time from then.", pod: Pod{Created: t0.Add(-time.Hour), Since: t0.Add(time.Second)}},
		"LostForLong": {reason: "But no more.", pod: Pod{Created: t0.Add(-time.Hour), Since: t0}, want: ReasonProgressDeadlineExceeded},
		"Failing":     {reason: "What cannot start need not be waited for.", pod: Pod{Created: t0.Add(time.Minute), Waiting: "CrashLoopBackOff"}, want: "CrashLoopBackOff"},
		"Ready":       {reason: "What works is not stuck, however old.", pod: Pod{Ready: true}},
		"Terminating": {reason: "What goes is gone soon.", pod: Pod{Terminating: true, Waiting: "CrashLoopBackOff"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			if f := tc.pod.stuck(Inputs{Now: t0.Add(DefaultProgressDeadline)}); f != nil {
				got = f.Reason
			}
			if got != tc.want {
				t.Errorf("\n%s\nstuck(): want %q, got %q", tc.reason, tc.want, got)
			}
		})
	}
}

// R35: the way back is the good release, template and all, and the operations have
// ids of their own.
func TestRollbackIsToTheGoodTemplate(t *testing.T) {
	c := running(1)
	good := *c.in.Ledger.Good
	function("a newer function")(c)
	spec("3.1.1")(c)
	began := c.next()
	fail("ds-0", "CrashLoopBackOff")(c)
	function("an even newer function")(c)
	back := c.next()
	if diff := cmp.Diff(&good, back.Run); diff != "" {
		t.Errorf("runs: -good, +got:\n%s", diff)
	}
	if began.Ledger.Operation.ID == back.Ledger.Operation.ID {
		t.Errorf("the upgrade and its rollback are both %s", back.Ledger.Operation.ID)
	}
}

// R34: an operation that the status tells of, and that the StatefulSet never carried
// because its apply was refused, is begun again as the same: it is no news.
func TestBegunBefore(t *testing.T) {
	first := running(2)
	spec("3.1.1")(first)
	began := Next(first.in).Ledger.Operation
	cases := map[string]struct {
		reason string
		change act
		same   bool
	}{
		"Same":        {reason: "The same operation, a minute later.", change: after(time.Minute), same: true},
		"OtherTarget": {reason: "The spec has changed since.", change: spec("3.1.2")},
		"OtherServers": {reason: "Another pod's turn: it counts anew.", change: all(after(time.Minute), scale(1), observed(func(in *Inputs) {
			in.Pods, in.Rollout.Wanted, in.Rollout.Pods, in.Rollout.Ready, in.Rollout.Updated = in.Pods[1:], 1, 1, 1, 1
		}))},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := running(2)
			spec("3.1.1")(c)
			c.in.Begun = began
			tc.change(c)
			got := Next(c.in).Ledger.Operation
			if got == nil {
				t.Fatalf("\n%s\nnothing begins: %s", tc.reason, show(Next(c.in)))
			}
			if same := cmp.Diff(began, got) == ""; same != tc.same {
				t.Errorf("\n%s\nthe same operation: want %t: -before, +now:\n%s", tc.reason, tc.same, cmp.Diff(began, got))
			}
		})
	}
}

// What a refusal says, and the annotations that mend it (R33).
func TestRefusals(t *testing.T) {
	pair := "3.1.0->4.0.0"
	cases := map[string]struct {
		reason string
		do     act
		want   Refusal
	}{
		"ApprovalRequired": {
			reason: "The class in words, and both annotations.",
			do:     spec("4.0.0"),
			want: Refusal{
				Reason:   ReasonApprovalRequired,
				Message:  "3.1.0->4.0.0 is a major upgrade and waits for your approval",
				Annotate: []Annotation{{ApprovedTransition, pair}, {BackupConfirmed, pair}},
			},
		},
		"HalfApproved": {
			reason: "Only what is missing.",
			do:     all(spec("4.0.0"), ask(func(r *Requests) { r.ApprovedTransition = pair })),
			want: Refusal{
				Reason:   ReasonApprovalRequired,
				Message:  "3.1.0->4.0.0 is a major upgrade and waits for your approval",
				Annotate: []Annotation{{BackupConfirmed, pair}},
			},
		},
		"ServiceUnhealthy": {
			reason: "R29: which pod it waits for.",
			do:     all(spec("3.1.1"), down("ds-1")),
			want: Refusal{
				Reason:   ReasonServiceUnhealthy,
				Message:  "3.1.0->3.1.1 begins once every server is Ready: it waits for ds-1 to be Ready",
				Annotate: []Annotation{{AllowDegraded, "3.1.0->3.1.1"}},
			},
		},
		"Outdated": {
			reason: "R29: the controller is not done with the last change.",
			do: all(spec("3.1.1"), observed(func(in *Inputs) {
				in.Pods[1].Revision = "an older one"
			})),
			want: Refusal{
				Reason:   ReasonServiceUnhealthy,
				Message:  "3.1.0->3.1.1 begins once every server is Ready: it waits for ds-0 to be replaced",
				Annotate: []Annotation{{AllowDegraded, "3.1.0->3.1.1"}},
			},
		},
		"Missing": {
			reason: "R29: a pod does not even exist.",
			do:     all(spec("3.1.1"), observed(func(in *Inputs) { in.Pods = in.Pods[1:] })),
			want: Refusal{
				Reason:   ReasonServiceUnhealthy,
				Message:  "3.1.0->3.1.1 begins once every server is Ready: it waits for pods to be created",
				Annotate: []Annotation{{AllowDegraded, "3.1.0->3.1.1"}},
			},
		},
		"CountsDiffer": {
			reason: "R31: the StatefulSet's counts must agree with the pods.",
			do:     all(spec("3.1.1"), observed(func(in *Inputs) { in.Rollout.Ready = 1 })),
			want: Refusal{
				Reason:   ReasonServiceUnhealthy,
				Message:  "3.1.0->3.1.1 begins once every server is Ready: it waits for the StatefulSet controller to report every server updated and Ready",
				Annotate: []Annotation{{AllowDegraded, "3.1.0->3.1.1"}},
			},
		},
		"RevisionNotSettled": {
			reason: "R35: a pod below the partition would be made from another revision than the good one.",
			do:     all(spec("3.1.1"), observed(func(in *Inputs) { in.Rollout.CurrentRevision = "an older one" })),
			want: Refusal{
				Reason:   ReasonServiceUnhealthy,
				Message:  "3.1.0->3.1.1 begins once every server is Ready: it waits for the StatefulSet controller to report every server updated and Ready",
				Annotate: []Annotation{{AllowDegraded, "3.1.0->3.1.1"}},
			},
		},
		"Paused": {
			reason: "R40: the field that holds it.",
			do:     all(spec("3.1.1"), paused(true)),
			want:   Refusal{Reason: ReasonPaused, Message: "spec.upgrade.paused holds the change of the pods"},
		},
		"InvalidRollback": {
			reason: "R37: which versions there are to go back to.",
			do:     rollbackTo("3.0.0"),
			want:   Refusal{Reason: ReasonInvalidRollback, Request: RollbackTo, Message: "rollback-to=3.0.0: this service has not run that version; it has run 3.1.0"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := running(2)
			tc.do(c)
			d := Next(c.in)
			if diff := cmp.Diff(&tc.want, d.Blocked); diff != "" {
				t.Errorf("\n%s\nblocked: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// R28: what a change that waits would do.
func TestPlan(t *testing.T) {
	steps := []string{"wait until every server is Ready", "replace ds-1, and wait until it is Ready", "replace ds-0, and wait until it is Ready"}
	cases := map[string]struct {
		reason string
		do     act
		want   *Plan
	}{
		"Nothing": {reason: "Nothing waits.", do: func(*cluster) {}},
		"Began":   {reason: "What runs is no plan any more.", do: spec("3.1.1")},
		"Gated": {
			reason: "What is missing, and the pods in their order.",
			do:     spec("4.0.0"),
			want: &Plan{
				From: release("3.1.0"), To: release("4.0.0"), Class: ClassMajorUp,
				Needs: []string{"approved-transition=3.1.0->4.0.0", "backup-confirmed=3.1.0->4.0.0"}, Steps: steps,
			},
		},
		"Paused": {
			reason: "Nothing is missing but the time.",
			do:     all(paused(true), spec("3.2.0")),
			want:   &Plan{From: release("3.1.0"), To: release("3.2.0"), Class: ClassMinorUp, Steps: steps},
		},
		"PausedPods": {
			reason: "R44: other pods of the same release are of a class of their own.",
			do:     all(paused(true), settings("other resources")),
			want:   &Plan{From: release("3.1.0"), To: release("3.1.0"), Class: ClassPodUpdate, Steps: steps},
		},
		"PodsUnknown": {
			reason: "Before the pods were looked up they have no names.",
			do:     all(spec("4.0.0"), observed(func(in *Inputs) { in.Pods, in.Arrived = nil, false })),
			want: &Plan{
				From: release("3.1.0"), To: release("4.0.0"), Class: ClassMajorUp,
				Needs: []string{"approved-transition=3.1.0->4.0.0", "backup-confirmed=3.1.0->4.0.0"},
				Steps: []string{"wait until every server is Ready", "replace pod 1, and wait until it is Ready", "replace pod 0, and wait until it is Ready"},
			},
		},
		"AfterTheOperation": {
			reason: "R38: what waits is seen from where the operation goes.",
			do: func(c *cluster) {
				spec("3.1.1")(c)
				c.next()
				spec("4.0.0")(c)
			},
			want: &Plan{
				From: release("3.1.1"), To: release("4.0.0"), Class: ClassMajorUp,
				Needs: []string{"approved-transition=3.1.1->4.0.0", "backup-confirmed=3.1.1->4.0.0"}, Steps: steps,
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := running(2)
			tc.do(c)
			got := Next(c.in).Plan
			if got != nil {
				got.From.Template, got.To.Template = "", ""
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("\n%s\nplan: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// R31: which counts prove a release.
func TestHealthy(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(r *Rollout)
		want   bool
	}{
		"AllReady":  {reason: "Every pod is new and Ready.", change: func(*Rollout) {}, want: true},
		"OneReady":  {reason: "One Ready pod proves the release.", change: func(r *Rollout) { r.Ready = 1 }, want: true},
		"NoneReady": {reason: "Without a Ready pod nothing is proven.", change: func(r *Rollout) { r.Ready = 0 }},
		"Stale":     {reason: "Counts of an older template prove nothing.", change: func(r *Rollout) { r.Current = false }},
		"Mixed":     {reason: "The Ready pod may be one of the old template.", change: func(r *Rollout) { r.Ready, r.Updated = 1, 1 }},
		"Missing":   {reason: "What does not exist is not healthy.", change: func(r *Rollout) { r.Exists = false }},
		"Foreign":   {reason: "A StatefulSet without the server's container runs no release.", change: func(r *Rollout) { r.Running = Release{} }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := Rollout{Exists: true, Running: release("3.1.0"), Current: true, Pods: 2, Ready: 2, Updated: 2}
			tc.change(&r)
			if got := r.Healthy(); got != tc.want {
				t.Errorf("\n%s\nHealthy(): want %t, got %t", tc.reason, tc.want, got)
			}
		})
	}
}

// R35, R42: what shows by itself that a pod cannot become Ready.
func TestPodFailure(t *testing.T) {
	refusal := &Refusal{Reason: "VersionMismatch", Message: "the image contains 3.1.2"}
	cases := map[string]struct {
		reason string
		pod    Pod
		want   *Failure
	}{
		"Starting":      {reason: "A start is no failure.", pod: Pod{Waiting: ""}},
		"Unknown":       {reason: "Nor is a reason that nobody knows: the deadline will tell.", pod: Pod{Waiting: "SomethingNew"}},
		"CrashLoop":     {reason: "The server does not stay up.", pod: Pod{Waiting: "CrashLoopBackOff", Container: "container dirsrv", Message: "exit code 1"}, want: &Failure{Pod: "ds-0", Reason: "CrashLoopBackOff", Container: "container dirsrv", Message: "exit code 1"}},
		"Pull":          {reason: "R39: there is no such image.", pod: Pod{Waiting: "ImagePullBackOff"}, want: &Failure{Pod: "ds-0", Reason: "ImagePullBackOff"}},
		"InvalidName":   {reason: "Nor can there be.", pod: Pod{Waiting: "InvalidImageName"}, want: &Failure{Pod: "ds-0", Reason: "InvalidImageName"}},
		"NeverPull":     {reason: "It may not be pulled.", pod: Pod{Waiting: "ErrImageNeverPull"}, want: &Failure{Pod: "ds-0", Reason: "ErrImageNeverPull"}},
		"Config":        {reason: "A Secret or ConfigMap is missing.", pod: Pod{Waiting: "CreateContainerConfigError"}, want: &Failure{Pod: "ds-0", Reason: "CreateContainerConfigError"}},
		"Create":        {reason: "The runtime refuses.", pod: Pod{Waiting: "CreateContainerError"}, want: &Failure{Pod: "ds-0", Reason: "CreateContainerError"}},
		"Run":           {reason: "There is no such program.", pod: Pod{Waiting: "RunContainerError"}, want: &Failure{Pod: "ds-0", Reason: "RunContainerError"}},
		"Refused":       {reason: "The agent's word comes first.", pod: Pod{Waiting: "CrashLoopBackOff", Refusal: refusal}, want: &Failure{Pod: "ds-0", Reason: "VersionMismatch", Message: "the image contains 3.1.2", Refused: true}},
		"Ready":         {reason: "A Ready pod has not failed, whatever it said before.", pod: Pod{Ready: true, Waiting: "CrashLoopBackOff", Refusal: refusal}},
		"Terminating":   {reason: "A pod that is going is no pod of this release any more.", pod: Pod{Terminating: true, Waiting: "CrashLoopBackOff", Refusal: refusal}},
		"ErrImagePull":  {reason: "Who reads the pods has made one reason of the two.", pod: Pod{Waiting: "ErrImagePull"}},
		"Unschedulable": {reason: "A node may come; the deadline will tell.", pod: Pod{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.pod.Name = "ds-0"
			if diff := cmp.Diff(tc.want, tc.pod.failure()); diff != "" {
				t.Errorf("\n%s\nfailure(): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// Holding: an operation is recovered from the status where the annotation is lost, and
// goes on.
func TestRecoverOperation(t *testing.T) {
	c := running(2)
	spec("3.1.1")(c)
	c.next()
	up("ds-1")(c)
	began := c.in.Ledger

	for name, annotation := range map[string]string{"Lost": "", "Garbled": `{"good":`} {
		t.Run(name, func(t *testing.T) {
			in := c.in
			in.Ledger = Recover(annotation, began)
			if diff := cmp.Diff(Next(c.in), Next(in)); diff != "" {
				t.Errorf("decisions: -kept, +recovered:\n%s", diff)
			}
		})
	}
}

// An ordinal is what follows the last dash: the name of a service may have others.
func TestOrdinal(t *testing.T) {
	cases := map[string]struct {
		reason string
		pod    string
		want   *int32
	}{
		"First":    {reason: "The first pod.", pod: "ds-0", want: ptr.To[int32](0)},
		"Dashes":   {reason: "A name with dashes and numbers.", pod: "my-ds-3-12", want: ptr.To[int32](12)},
		"None":     {reason: "No pod yet.", pod: ""},
		"NoNumber": {reason: "Not a pod of a StatefulSet.", pod: "ds-x"},
		"NoName":   {reason: "Nor this.", pod: "-1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n, ok := ordinal(tc.pod)
			if ok != (tc.want != nil) || ok && n != *tc.want {
				t.Errorf("\n%s\nordinal(%q): want %v, got %d, %t", tc.reason, tc.pod, tc.want, n, ok)
			}
		})
	}
}
