package compose

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// R30, R35: the update strategy is what was decided.
func TestUpdateStrategy(t *testing.T) {
	cases := map[string]struct {
		reason   string
		decision upgrade.Decision
		want     appsv1.StatefulSetUpdateStrategy
	}{
		"Steady": {
			reason: "Outside of an operation the controller replaces what is outdated: a partition of 0, which is written out (S5).",
			want: appsv1.StatefulSetUpdateStrategy{
				Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](0)},
			},
		},
		"Partition": {
			reason:   "The pods below stay.",
			decision: upgrade.Decision{Partition: 2},
			want: appsv1.StatefulSetUpdateStrategy{
				Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](2)},
			},
		},
		"OnDelete": {
			reason:   "Nothing is replaced but what is deleted; the API server allows no partition then.",
			decision: upgrade.Decision{OnDelete: true, Partition: 2},
			want:     appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := mustStatefulSet(t, inputs(func(in *Inputs) {
				in.Decision.OnDelete, in.Decision.Partition = tc.decision.OnDelete, tc.decision.Partition
			}))
			if diff := cmp.Diff(tc.want, got.Spec.UpdateStrategy); diff != "" {
				t.Errorf("\n%s\nupdateStrategy: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// rollingOut is a service of two servers that goes from 3.1.0 to 3.1.1, as it is
// observed, and what is decided next.
func rollingOut(t *testing.T, change func(in *Inputs)) Inputs {
	t.Helper()
	good := upgrade.Release{Version: "3.1.0", Image: "dirsrv:3.1.0"}
	target := upgrade.Release{Version: "3.1.1", Image: "dirsrv:3.1.1"}
	steady := inputs(func(in *Inputs) { in.Spec.Replicas = ptr.To[int32](2) })
	good.Template, target.Template = steady.Templates.Name(good), steady.Templates.Name(target)
	o := &upgrade.Operation{ID: "1", Kind: upgrade.OperationUpgrade, From: good, To: target, Pod: "ds-1"}
	decided := func(in *Inputs) {
		in.Spec.Replicas = ptr.To[int32](2)
		in.Decision = upgrade.Decision{Run: &target, Partition: 1, Ledger: upgrade.Ledger{Good: &good, Operation: o}}
		in.Operating = true
	}
	// The good template is carried, then the target's beside it.
	before := observe(mustStatefulSet(t, steady))
	during := observe(mustStatefulSet(t, inputs(func(in *Inputs) {
		decided(in)
		in.StatefulSet = before
	})))
	during.Labels["somebody"], during.Annotations["else"] = "added", "this"
	return inputs(func(in *Inputs) {
		decided(in)
		in.StatefulSet = during
		in.Observed = set(append(slices.Clone(always), naming.KeyUsage)...)
		in.Reported = true
		if change != nil {
			change(in)
		}
	})
}

// goBack decides on the way back.
func goBack(in *Inputs) {
	good, failed := *in.Decision.Ledger.Good, *in.Decision.Run
	in.Decision = upgrade.Decision{
		Run: &good, OnDelete: true,
		Ledger: upgrade.Ledger{Good: &good, Operation: &upgrade.Operation{ID: "2", Kind: upgrade.OperationRollback, From: failed, To: good, Mend: true}},
	}
}

// R35: what is wrong with a spec keeps no operation from going on, and nothing else of
// that spec is acted upon.
func TestHoldRollout(t *testing.T) {
	cases := map[string]struct {
		reason string
		in     Inputs
		// rolls says that the StatefulSet is written, with that template and strategy.
		rolls     bool
		image     string
		onDelete  bool
		partition int32
		good      bool
	}{
		"Steady": {
			reason: "Without an operation every object stays as it is.",
			in:     rollingOut(t, func(in *Inputs) { in.Decision.Ledger.Operation, in.Operating = nil, false }),
		},
		"GoesOn": {
			reason: "The next pod's turn.",
			in:     rollingOut(t, func(in *Inputs) { in.Decision.Partition = 0 }),
			rolls:  true, image: "dirsrv:3.1.1", good: true,
		},
		"GoesBack": {
			reason: "The last known good template is carried, so it can be had whatever the spec says.",
			in:     rollingOut(t, goBack),
			rolls:  true, image: "dirsrv:3.1.0", onDelete: true,
		},
		"Ends": {
			reason: "The end of an operation has to be written, or it would never end.",
			in: rollingOut(t, func(in *Inputs) {
				in.Decision.Ledger = upgrade.Ledger{Good: in.Decision.Run}
				in.Decision.Partition = 0
			}),
			rolls: true, image: "dirsrv:3.1.1",
		},
		"SpecOfOthers": {
			reason: "What the spec says otherwise does not count.",
			in: rollingOut(t, func(in *Inputs) {
				in.Spec.Replicas = ptr.To[int32](7)
				in.Spec.NodeSelector = map[string]string{"no such": "label!"}
				in.Spec.Startup.TimeoutSeconds = 600
			}),
			rolls: true, image: "dirsrv:3.1.1", partition: 1, good: true,
		},
		"TemplateLost": {
			reason: "A template that could only be made of the spec is not had: everything stays.",
			in: rollingOut(t, func(in *Inputs) {
				goBack(in)
				delete(in.StatefulSet.Annotations, naming.AnnotationGoodTemplate)
			}),
		},
		"StatefulSetGone": {
			reason: "Nothing is created.",
			in:     rollingOut(t, func(in *Inputs) { in.StatefulSet = nil; delete(in.Observed, naming.KeyStatefulSet) }),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d, err := HoldRollout(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			keys := slices.Sorted(maps.Keys(d))
			if diff := cmp.Diff(slices.Sorted(maps.Keys(tc.in.Observed)), keys); diff != "" {
				t.Errorf("\n%s\nobjects: -observed, +desired:\n%s", tc.reason, diff)
			}
			// The agents' keys in it must not become ours.
			if cm := object[*corev1.ConfigMap](t, d, naming.KeyState); len(cm.Data) > 0 {
				t.Errorf("\n%s\nthe agents' reports are written: %v", tc.reason, cm.Data)
			}
			for _, key := range keys {
				if key != naming.KeyState && d[key].Object != nil && (key != naming.KeyStatefulSet || !tc.rolls) {
					t.Errorf("\n%s\n%q is written", tc.reason, key)
				}
			}
			if !tc.rolls {
				return
			}
			got, observed := object[*appsv1.StatefulSet](t, d, naming.KeyStatefulSet).DeepCopy(), tc.in.StatefulSet
			if image := got.Spec.Template.Spec.Containers[0].Image; image != tc.image {
				t.Errorf("\n%s\nit runs %s, want %s", tc.reason, image, tc.image)
			}
			u := got.Spec.UpdateStrategy
			if onDelete := u.Type == appsv1.OnDeleteStatefulSetStrategyType; onDelete != tc.onDelete || !onDelete && *u.RollingUpdate.Partition != tc.partition {
				t.Errorf("\n%s\nupdateStrategy: %+v", tc.reason, u)
			}
			l, err := upgrade.ParseLedger(got.GetAnnotations()[naming.AnnotationLedger])
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.in.Decision.Ledger, l); diff != "" {
				t.Errorf("\n%s\nledger: -want, +got:\n%s", tc.reason, diff)
			}
			next := mustTemplates(tc.in, got.GetAnnotations())
			if next.Present() != tc.in.Decision.Run.Template || !next.Stored(l.Good.Template) {
				t.Errorf("\n%s\nit carries %q, and the good one: %t", tc.reason, next.Present(), next.Stored(l.Good.Template))
			}
			if _, ok := got.GetAnnotations()[naming.AnnotationGoodTemplate]; ok != tc.good {
				t.Errorf("\n%s\npod-template-good: want %t, got %t", tc.reason, tc.good, ok)
			}
			if got.GetLabels()["somebody"] != "added" || got.GetAnnotations()["else"] != "this" {
				t.Errorf("\n%s\nwhat others added is gone: %v %v", tc.reason, got.GetLabels(), got.GetAnnotations())
			}
			// All else is as it is observed.
			got.Spec.Template, got.Spec.UpdateStrategy = observed.Spec.Template, observed.Spec.UpdateStrategy
			if diff := cmp.Diff(observed.Spec, got.Spec); diff != "" {
				t.Errorf("\n%s\nspec: -observed, +desired:\n%s", tc.reason, diff)
			}
		})
	}
}

// While an operation runs the StatefulSet is written only upon what was observed: a
// step that was decided on an older one is refused by the API server.
func TestLock(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(in *Inputs)
		want   string
	}{
		"Operating": {reason: "The resourceVersion that was observed.", want: "17"},
		"Steady":    {reason: "Outside of an operation nothing is lost by a write that is too early.", change: func(in *Inputs) { in.Operating = false }},
		"New":       {reason: "What does not exist has none.", change: func(in *Inputs) { in.StatefulSet = nil }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := rollingOut(t, func(in *Inputs) {
				in.StatefulSet.ResourceVersion = "17"
				if tc.change != nil {
					tc.change(in)
				}
			})
			if got := mustStatefulSet(t, in).GetResourceVersion(); got != tc.want {
				t.Errorf("\n%s\nresourceVersion: want %q, got %q", tc.reason, tc.want, got)
			}
			d, err := HoldRollout(in)
			if err != nil {
				t.Fatal(err)
			}
			if sts, ok := d[naming.KeyStatefulSet].Object.(*appsv1.StatefulSet); ok && sts.GetResourceVersion() != tc.want {
				t.Errorf("\n%s\nheld: resourceVersion: want %q, got %q", tc.reason, tc.want, sts.GetResourceVersion())
			}
		})
	}
}

// HoldRollout changes nothing that it was given.
func TestHoldRolloutKeepsItsInputs(t *testing.T) {
	in := rollingOut(t, goBack)
	before := in.StatefulSet.DeepCopy()
	if _, err := HoldRollout(in); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, in.StatefulSet); diff != "" {
		t.Errorf("-before, +after:\n%s", diff)
	}
}

// R35: stuck pods are deleted although the spec is wrong, and what deleted others goes.
func TestHoldRolloutUnsticks(t *testing.T) {
	stuck := func(in *Inputs) {
		goBack(in)
		in.AgentImage = "registry.example.com/function:v1"
		in.Unstick = []upgrade.Condemned{{Pod: "ds-1", UID: "0a5f", Revision: "ds-bad"}}
		in.Observed["unstick-other"] = struct{}{}
	}
	job := onlyJob(t, settled(t, rollingOut(t, stuck)))
	cases := map[string]struct {
		reason string
		change func(in *Inputs)
		want   []string
	}{
		"First":       {reason: "What the Job needs, before the Job.", want: []string{job + "-role", job + "-serviceaccount"}},
		"Then":        {reason: "The Job.", change: func(in *Inputs) { in.Observed[job+"-role"] = struct{}{} }, want: []string{job, job + "-role", job + "-rolebinding", job + "-serviceaccount"}},
		"PodsUnknown": {reason: "Before the pods were looked up what exists stays.", change: func(in *Inputs) { in.PodsUnknown = true }, want: []string{"unstick-other"}},
		"Over":        {reason: "Nothing is stuck any more.", change: func(in *Inputs) { in.Unstick = nil }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d, err := HoldRollout(rollingOut(t, func(in *Inputs) {
				stuck(in)
				if tc.change != nil {
					tc.change(in)
				}
			}))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, unstickKeys(d)); diff != "" {
				t.Errorf("\n%s\nkeys: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
