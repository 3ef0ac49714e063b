package upgrade

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func release(version string) Release {
	return Release{Version: version, Image: "dirsrv:" + version}
}

func ptrTo(r Release) *Release { return &r }

func healthy(r Release) Rollout {
	return Rollout{Exists: true, Running: r, Current: true, Pods: 2, Ready: 2, Updated: 2}
}

func failing(r Release) Rollout {
	return Rollout{Exists: true, Running: r, Current: true, Pods: 2, Updated: 2}
}

func TestHealthy(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(r *Rollout)
		want   bool
	}{
		"AllReady":  {reason: "Every pod is new and Ready.", change: func(*Rollout) {}, want: true},
		"OneReady":  {reason: "One Ready pod proves the release.", change: func(r *Rollout) { r.Ready = 1 }, want: true},
		"NoneReady": {reason: "Without a Ready pod nothing is proven.", change: func(r *Rollout) { r.Ready = 0 }},
		"Stale":     {reason: "Counts of an older template prove nothing (R31).", change: func(r *Rollout) { r.Current = false }},
		"Mixed":     {reason: "The Ready pod may be one of the old template.", change: func(r *Rollout) { r.Ready, r.Updated = 1, 1 }},
		"Missing":   {reason: "What does not exist is not healthy.", change: func(r *Rollout) { r.Exists = false }},
		"Foreign":   {reason: "A StatefulSet without the server's container runs no release.", change: func(r *Rollout) { r.Running = Release{} }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := healthy(release("3.1.0"))
			tc.change(&r)
			if got := r.Healthy(); got != tc.want {
				t.Errorf("\n%s\nHealthy(): want %t, got %t", tc.reason, tc.want, got)
			}
		})
	}
}

func TestDecide(t *testing.T) {
	v310, v311, v400 := release("3.1.0"), release("3.1.1"), release("4.0.0")
	refusal := &Refusal{Reason: ReasonImageVersionMismatch, Message: "tag and version differ"}

	type args struct {
		ledger  Ledger
		target  Release
		refusal *Refusal
		rollout Rollout
	}
	type want struct {
		run     *Release
		good    *Release
		blocked string
	}
	cases := map[string]struct {
		reason string
		args   args
		want   want
	}{
		"FirstInstall": {
			reason: "A new service runs what the spec says.",
			args:   args{target: v310},
			want:   want{run: &v310},
		},
		"FirstInstallRefused": {
			reason: "R25: a mismatch is refused before the StatefulSet is created.",
			args:   args{target: v310, refusal: refusal},
			want:   want{blocked: ReasonImageVersionMismatch},
		},
		"FirstInstallStarting": {
			reason: "A release is not good before a pod was Ready.",
			args:   args{target: v310, rollout: failing(v310)},
			want:   want{run: &v310},
		},
		"FirstInstallReady": {
			reason: "The first Ready pod makes the release good.",
			args:   args{target: v310, rollout: healthy(v310)},
			want:   want{run: &v310, good: &v310},
		},
		"BadImageCorrected": {
			reason: "R39: what was never healthy may be left for any other without approval, a major version down included.",
			args:   args{target: v310, rollout: failing(v400)},
			want:   want{run: &v310},
		},
		"BadImageThenMismatch": {
			reason: "R25, R28: a mismatch pins also a release that never was good.",
			args:   args{target: v310, refusal: refusal, rollout: failing(v400)},
			want:   want{run: &v400, blocked: ReasonImageVersionMismatch},
		},
		"ReadyAndChangedAtOnce": {
			reason: "What is healthy now is good, although the spec has moved on already.",
			args:   args{target: v311, rollout: healthy(v310)},
			want:   want{run: &v310, good: &v310, blocked: ReasonUpgradeUnsupported},
		},
		"Steady": {
			reason: "Nothing to do.",
			args:   args{ledger: Ledger{Good: &v310}, target: v310, rollout: healthy(v310)},
			want:   want{run: &v310, good: &v310},
		},
		"Changed": {
			reason: "A good image is never changed.",
			args:   args{ledger: Ledger{Good: &v310}, target: v311, rollout: healthy(v310)},
			want:   want{run: &v310, good: &v310, blocked: ReasonUpgradeUnsupported},
		},
		"Mismatch": {
			reason: "R25: a mismatch is refused before the StatefulSet is changed.",
			args:   args{ledger: Ledger{Good: &v310}, target: v311, refusal: refusal, rollout: healthy(v310)},
			want:   want{run: &v310, good: &v310, blocked: ReasonImageVersionMismatch},
		},
		"Reverted": {
			reason: "R28: revert the spec, and the block is gone.",
			args:   args{ledger: Ledger{Good: &v310}, target: v310, rollout: failing(v310)},
			want:   want{run: &v310, good: &v310},
		},
		"HandChanged": {
			reason: "An image that was put into the StatefulSet by hand passes no gate: the good one comes back.",
			args:   args{ledger: Ledger{Good: &v310}, target: v310, rollout: healthy(v311)},
			want:   want{run: &v310, good: &v310},
		},
		"StatefulSetGone": {
			reason: "R28: a deleted StatefulSet comes back with the good image, also while blocked.",
			args:   args{ledger: Ledger{Good: &v310}, target: v311},
			want:   want{run: &v310, good: &v310, blocked: ReasonUpgradeUnsupported},
		},
		"StatefulSetGoneAndMismatch": {
			reason: "R28: the same with a mismatch.",
			args:   args{ledger: Ledger{Good: &v310}, target: v311, refusal: refusal},
			want:   want{run: &v310, good: &v310, blocked: ReasonImageVersionMismatch},
		},
		"ForeignStatefulSet": {
			reason: "A StatefulSet without the server's container tells no release: nothing of it is good.",
			args:   args{target: v310, rollout: healthy(Release{})},
			want:   want{run: &v310},
		},
		"ForeignStatefulSetAndMismatch": {
			reason: "Nor does it run anything that could be kept: it is left as it is.",
			args:   args{target: v310, refusal: refusal, rollout: healthy(Release{})},
			want:   want{blocked: ReasonImageVersionMismatch},
		},
		"VersionLearnt": {
			reason: "A version that was unknown is recorded once the spec tells it; the image stays.",
			args:   args{ledger: Ledger{Good: &Release{Image: "dirsrv:3.1.0"}}, target: v310, rollout: healthy(v310)},
			want:   want{run: &v310, good: &v310},
		},
		"VersionForgotten": {
			reason: "The version of an image that runs stays known, although the catalog no longer lists the image: it is a label of the pods, which would restart.",
			args:   args{ledger: Ledger{Good: &v310}, target: Release{Image: v310.Image}, rollout: healthy(v310)},
			want:   want{run: &v310, good: &v310},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := Decide(tc.args.ledger, tc.args.target, tc.args.refusal, tc.args.rollout)
			got := want{run: d.Run, good: d.Ledger.Good}
			if d.Blocked != nil {
				got.blocked = d.Blocked.Reason
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("\n%s\nDecide(): -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.args.target, d.Target); diff != "" {
				t.Errorf("\n%s\nDecide(): -want target, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// A refused change says what stays (R28).
func TestDecideUnsupportedMessage(t *testing.T) {
	cases := map[string]struct {
		reason string
		good   Release
		want   string
	}{
		"Versioned":   {reason: "A known version is named with its image.", good: release("3.1.0"), want: "stays on 3.1.0 (dirsrv:3.1.0)"},
		"Unversioned": {reason: "An image of unknown version is named alone.", good: Release{Image: "dirsrv:stable"}, want: "stays on dirsrv:stable"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := Decide(Ledger{Good: &tc.good}, release("4.0.0"), nil, healthy(tc.good))
			if d.Blocked == nil || !strings.HasSuffix(d.Blocked.Message, tc.want) {
				t.Errorf("\n%s\nDecide(): want a refusal that ends with %q, got %v", tc.reason, tc.want, d.Blocked)
			}
		})
	}
}

// A server that is Ready keeps its image, also where the StatefulSet's counts are
// stale or the others never became Ready (R39: never healthy anywhere).
func TestDecideKeepsReadyServers(t *testing.T) {
	running, target := release("3.1.0"), release("3.2.0")
	cases := map[string]struct {
		reason  string
		rollout Rollout
		want    Release
		blocked bool
	}{
		"StaleCounts": {
			reason:  "The status speaks of an older template; the server is Ready all the same.",
			rollout: Rollout{Exists: true, Running: running, Wanted: 1, Pods: 1, Ready: 1, Updated: 1},
			want:    running, blocked: true,
		},
		"OneOfTwo": {
			reason:  "One of two works.",
			rollout: Rollout{Exists: true, Running: running, Current: true, Wanted: 2, Pods: 2, Ready: 1, Updated: 1},
			want:    running, blocked: true,
		},
		"None": {
			reason:  "A first install with a bad image may be corrected.",
			rollout: Rollout{Exists: true, Running: running, Current: true, Wanted: 2, Pods: 2, Updated: 2},
			want:    target,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := Decide(Ledger{}, target, nil, tc.rollout)
			if diff := cmp.Diff(&tc.want, d.Run); diff != "" {
				t.Errorf("\n%s\nRun: -want, +got:\n%s", tc.reason, diff)
			}
			if got := d.Blocked != nil; got != tc.blocked {
				t.Errorf("\n%s\nblocked: want %v, got %v", tc.reason, tc.blocked, got)
			}
		})
	}
}

// Whatever is observed and asked for: a good image is never changed (R28), a
// refused one never runs (R25), and what is blocked is what does not run.
func TestDecideInvariants(t *testing.T) {
	releases := []Release{release("3.1.0"), release("3.1.1"), {Image: "dirsrv:stable"}}
	goods := []*Release{nil}
	rollouts := []Rollout{{}}
	for _, r := range releases {
		goods = append(goods, ptrTo(r))
		rollouts = append(rollouts, healthy(r), failing(r))
	}
	refusals := []*Refusal{nil, {Reason: ReasonInvalidImage, Message: "no image"}}

	for _, good := range goods {
		for _, rollout := range rollouts {
			for _, target := range releases {
				for _, refusal := range refusals {
					in := Ledger{Good: good, Founded: []string{"userroot"}}
					d := Decide(in, target, refusal, rollout)
					call := fmt.Sprintf("Decide(good %v, target %v, refusal %v, rollout %+v)", good, target, refusal, rollout)

					if good != nil && (d.Run == nil || d.Run.Image != good.Image || d.Ledger.Good.Image != good.Image) {
						t.Errorf("%s: the good image is changed: runs %v, good %v", call, d.Run, d.Ledger.Good)
					}
					if d.Run != nil && d.Ledger.Good != nil && *d.Run != *d.Ledger.Good {
						t.Errorf("%s: runs %v, and the good release is %v", call, d.Run, d.Ledger.Good)
					}
					// What runs is never refused to itself, whatever the catalog says.
					asksForGood := d.Ledger.Good != nil && *d.Ledger.Good == target
					if refusal != nil && !asksForGood && (d.Blocked != refusal || (!rollout.Exists && good == nil && d.Run != nil)) {
						t.Errorf("%s: a refused image is not blocked: %v, runs %v", call, d.Blocked, d.Run)
					}
					if d.Blocked == nil && (d.Run == nil || d.Run.Image != target.Image) {
						t.Errorf("%s: not blocked, and does not run the target: %v", call, d.Run)
					}
					if diff := cmp.Diff(in.Founded, d.Ledger.Founded); diff != "" {
						t.Errorf("%s: another part of the ledger changes: -want, +got:\n%s", call, diff)
					}
					if again := Decide(d.Ledger, target, refusal, rollout); !cmp.Equal(d, again) {
						t.Errorf("%s: is not stable: -first, +second:\n%s", call, cmp.Diff(d, again))
					}
				}
			}
		}
	}
}
