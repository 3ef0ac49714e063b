package fn

import (
	"slices"
	"strings"
	"testing"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/google/go-cmp/cmp"

	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/observed"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// The tests of this file follow an upgrade through the function as a whole.

// steady is a settled service of two servers.
func steady() call {
	calls := settled(call{xr: seedXR(nil), input: object{}})
	return calls[len(calls)-1]
}

// spec of the call's XR.
func (c call) spec() object { return c.xr.(object)["spec"].(object) }

func (c call) annotate(name, value string) {
	c.xr.(object)["metadata"].(object)["annotations"] = object{naming.Annotation(name): value}
}

// statefulSet of an answer.
func statefulSet(rsp *fnv1.RunFunctionResponse) object {
	return rsp.GetDesired().GetResources()[naming.KeyStatefulSet].GetResource().AsMap()
}

// running is the image in the desired StatefulSet, and its update strategy.
func running(rsp *fnv1.RunFunctionResponse) string {
	spec := statefulSet(rsp)["spec"]
	image := dig(spec, "template", "spec", "containers").([]any)[0].(object)["image"].(string)
	if p, ok := dig(spec, "updateStrategy", "rollingUpdate", "partition").(float64); ok {
		return image + " partition " + string('0'+rune(p))
	}
	return image + " " + dig(spec, "updateStrategy", "type").(string)
}

func ledger(t *testing.T, rsp *fnv1.RunFunctionResponse) upgrade.Ledger {
	t.Helper()
	a, _ := dig(statefulSet(rsp), "metadata", "annotations", naming.AnnotationLedger).(string)
	l, err := upgrade.ParseLedger(a)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// events that a person sees, by their reasons.
func events(rsp *fnv1.RunFunctionResponse) []string {
	var out []string
	for _, r := range rsp.GetResults() {
		out = append(out, r.GetReason())
	}
	return out
}

func condition(t *testing.T, rsp *fnv1.RunFunctionResponse, kind string) *fnv1.Condition {
	t.Helper()
	i := slices.IndexFunc(rsp.GetConditions(), func(c *fnv1.Condition) bool { return c.GetType() == kind })
	if i < 0 {
		t.Fatalf("there is no condition %s", kind)
	}
	return rsp.GetConditions()[i]
}

// mustCheck answers, and holds the answer against what is true of every one.
func mustCheck(t *testing.T, c call) *fnv1.RunFunctionResponse {
	t.Helper()
	rsp, err := check(c.request())
	if err != nil {
		t.Fatal(err)
	}
	return rsp
}

// R30, R31, R34: a whole upgrade, one pod at a time, each event once, and then quiet.
func TestUpgrade(t *testing.T) {
	c := steady()
	c.spec()["image"], c.spec()["version"] = "quay.io/389ds/dirsrv:3.1.1", "3.1.1"
	var runs, told []string
	for range 6 {
		rsp := mustCheck(t, c)
		runs = append(runs, running(rsp))
		told = append(told, events(rsp)...)
		if l := ledger(t, rsp); l.Operation != nil && rsp.GetMeta().GetTtl().AsDuration() > 20*time.Second {
			t.Errorf("an operation runs, and the next call may be in %s", rsp.GetMeta().GetTtl().AsDuration())
		}
		c = live(c, rsp)
	}
	want := []string{
		"quay.io/389ds/dirsrv:3.1.1 partition 1", "quay.io/389ds/dirsrv:3.1.1 partition 0", "quay.io/389ds/dirsrv:3.1.1 partition 0",
		"quay.io/389ds/dirsrv:3.1.1 partition 0", "quay.io/389ds/dirsrv:3.1.1 partition 0", "quay.io/389ds/dirsrv:3.1.1 partition 0",
	}
	if diff := cmp.Diff(want, runs); diff != "" {
		t.Errorf("runs: -want, +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"UpgradeStarted", "PodUpgraded", "PodUpgraded", "UpgradeCompleted"}, told); diff != "" {
		t.Errorf("events: -want, +got:\n%s", diff)
	}
	if v := dig(c.xr, "status", "currentVersion"); v != "3.1.1" {
		t.Errorf("status.currentVersion is %v", v)
	}
}

// R35: a failed upgrade is rolled back while the spec is invalid, from the failure to
// the end, and nothing of the invalid spec is acted upon.
func TestRollbackWhileInvalid(t *testing.T) {
	calls := upgrading(steady())
	failed := calls[2]
	failed.spec()["ports"] = object{"ldap": 1.0, "ldaps": 1.0}
	failed.spec()["replicas"] = 5.0

	rsp := mustCheck(t, failed)
	if c := condition(t, rsp, "SpecValid"); c.GetStatus() != fnv1.Status_STATUS_CONDITION_FALSE {
		t.Fatalf("the spec is valid: %v", c)
	}
	if got := running(rsp); got != "quay.io/389ds/dirsrv:3.1.0 OnDelete" {
		t.Fatalf("it runs %s", got)
	}
	if got := events(rsp); !slices.Contains(got, "UpgradeFailed") || !slices.Contains(got, "RollbackStarted") {
		t.Errorf("events: %v", got)
	}
	if n := dig(statefulSet(rsp), "spec", "replicas"); n != 2.0 {
		t.Errorf("the servers are scaled to %v", n)
	}
	if o := ledger(t, rsp).Operation; o == nil || o.Kind != upgrade.OperationRollback || !strings.Contains(o.Message, "cannot open the database") {
		t.Errorf("operation: %+v", o)
	}

	// The failed pod is in the way: it is deleted.
	back := live(failed, rsp)
	pods := clone(failed.required).(object)[naming.RequirePods].([]any)
	back.required.(object)[naming.RequirePods] = pods
	st := dig(back.observed, naming.KeyStatefulSet, "status").(object)
	st["readyReplicas"], st["updatedReplicas"] = 1.0, 1.0
	// The servers of the good revision have not been touched.
	pods[0].(object)["metadata"].(object)["labels"] = object{"controller-revision-hash": st["updateRevision"]}
	rsp = mustCheck(t, back)
	unstick := func(rsp *fnv1.RunFunctionResponse) (keys []string) {
		for key := range rsp.GetDesired().GetResources() {
			if naming.IsUnstick(key) {
				keys = append(keys, key)
			}
		}
		return keys
	}
	if got := unstick(rsp); len(got) != 2 {
		t.Errorf("what deletes the stuck pod: %v", got)
	}
	if m := condition(t, rsp, "UpgradeInProgress").GetMessage(); !strings.Contains(m, "kubectl -n team delete pod my-ds-1") {
		t.Errorf("UpgradeInProgress: %s", m)
	}

	// It has come back, and the operation ends.
	ready := live(back, rsp)
	rsp = mustCheck(t, ready)
	if got := running(rsp); got != "quay.io/389ds/dirsrv:3.1.0 partition 0" {
		t.Errorf("it runs %s", got)
	}
	l := ledger(t, rsp)
	if l.Operation != nil || l.Rejected == nil || l.Rejected.Version != "3.1.1" || len(l.History) != 1 || l.History[0].Result != upgrade.ResultRolledBack {
		t.Errorf("ledger: %+v", l)
	}
	if got := events(rsp); !slices.Contains(got, "RollbackCompleted") {
		t.Errorf("events: %v", got)
	}
	if got := unstick(rsp); len(got) > 0 {
		t.Errorf("what deleted the stuck pod stays: %v", got)
	}

	// Afterwards nothing of an invalid spec is written.
	rsp = mustCheck(t, live(ready, rsp))
	if got := running(rsp); got != "quay.io/389ds/dirsrv:3.1.0 partition 0" || len(events(rsp)) > 0 {
		t.Errorf("it runs %s, and tells %v", got, events(rsp))
	}
}

// R26, R27, R33: the message's own command, run, unblocks.
func TestApproval(t *testing.T) {
	c := steady()
	c.spec()["image"], c.spec()["version"] = "quay.io/389ds/dirsrv:4.0.0", "4.0.0"
	rsp := mustCheck(t, c)
	if got := running(rsp); got != "quay.io/389ds/dirsrv:3.1.0 partition 0" {
		t.Errorf("it runs %s", got)
	}
	m := condition(t, rsp, "UpgradeBlocked").GetMessage()
	_, command, ok := strings.Cut(m, "kubectl -n team annotate dirsrv my-ds ")
	if !ok {
		t.Fatalf("there is no command: %s", m)
	}
	command, _, _ = strings.Cut(command, " --overwrite")
	annotations := object{}
	for _, a := range strings.Split(command, "' '") {
		k, v, _ := strings.Cut(strings.Trim(a, "'"), "=")
		annotations[k] = v
	}
	c.xr.(object)["metadata"].(object)["annotations"] = annotations
	if got := running(mustCheck(t, c)); got != "quay.io/389ds/dirsrv:4.0.0 partition 1" {
		t.Errorf("with %v it runs %s", annotations, got)
	}
}

// R37: a rollback by annotation, through the function.
func TestRollbackTo(t *testing.T) {
	c := steady()
	c.spec()["image"], c.spec()["version"] = "quay.io/389ds/dirsrv:3.1.1", "3.1.1"
	for range 4 {
		c = live(c, mustCheck(t, c))
	}
	c.annotate(upgrade.RollbackTo, "3.1.0")
	for range 4 {
		c = live(c, mustCheck(t, c))
	}
	rsp := mustCheck(t, c)
	if got := running(rsp); got != "quay.io/389ds/dirsrv:3.1.0 partition 0" || ledger(t, rsp).Operation != nil {
		t.Errorf("it runs %s: %+v", got, ledger(t, rsp).Operation)
	}
	if got := condition(t, rsp, "UpgradeBlocked").GetReason(); got != "TargetRejected" {
		t.Errorf("UpgradeBlocked is %s", got)
	}
}

// The ledger is lost in the middle of an upgrade: the status has it whole.
func TestLedgerLost(t *testing.T) {
	runs := upgrading(steady())[1]
	want := ledger(t, mustCheck(t, runs))
	delete(dig(runs.observed, naming.KeyStatefulSet, "metadata", "annotations").(object), naming.AnnotationLedger)
	if diff := cmp.Diff(want, ledger(t, mustCheck(t, runs))); diff != "" {
		t.Errorf("ledger: -kept, +recovered:\n%s", diff)
	}
}

// What a hand, or a webhook that knows a nearer registry, makes of the live template is
// neither what runs nor a reason to hold.
func TestLiveImageDoesNotCount(t *testing.T) {
	for name, c := range map[string]call{"Steady": steady(), "Upgrading": upgrading(steady())[1]} {
		t.Run(name, func(t *testing.T) {
			want := mustCheck(t, c)
			changed := c.clone()
			dig(changed.observed, naming.KeyStatefulSet, "spec", "template", "spec", "containers").([]any)[0].(object)["image"] = "near.example.com/dirsrv:3.1.0"
			got := mustCheck(t, changed)
			if diff := cmp.Diff(running(want), running(got)); diff != "" {
				t.Errorf("runs: -want, +got:\n%s", diff)
			}
			if diff := cmp.Diff(ledger(t, want), ledger(t, got)); diff != "" {
				t.Errorf("ledger: -want, +got:\n%s", diff)
			}
		})
	}
}

// R44: a StatefulSet of a function that carried no template yet keeps its pods, and is
// given the annotation.
func TestTemplateOfAnOlderFunction(t *testing.T) {
	c := steady()
	before := dig(c.observed, naming.KeyStatefulSet, "spec", "template")
	delete(dig(c.observed, naming.KeyStatefulSet, "metadata", "annotations").(object), naming.AnnotationTemplate)
	sts := statefulSet(mustCheck(t, c))
	if diff := cmp.Diff(before, dig(sts, "spec", "template")); diff != "" {
		t.Errorf("the pods change: -before, +after:\n%s", diff)
	}
	if dig(sts, "metadata", "annotations", naming.AnnotationTemplate) == nil {
		t.Error("the template is not carried")
	}
}

// R44: another default of the platform waits, its hash is shown, and the annotation with
// that hash applies it.
func TestApplyPodUpdate(t *testing.T) {
	c := steady()
	c.input = object{"apiVersion": "directoryservice.fn.crossplane.io/v1beta1", "kind": "Input", "defaults": object{"podLabels": object{"platform": "a"}}}
	rsp := mustCheck(t, c)
	pending := dig(rsp.GetDesired().GetComposite().GetResource().AsMap(), "status", "upgrade", "pendingPodUpdate")
	hash, _ := dig(pending, "hash").(string)
	if summary := dig(pending, "summary"); hash == "" || summary != "metadata.labels.platform" {
		t.Fatalf("pending: %v", pending)
	}
	labels := func(rsp *fnv1.RunFunctionResponse) any {
		return dig(statefulSet(rsp), "spec", "template", "metadata", "labels", "platform")
	}
	if l := labels(rsp); l != nil {
		t.Errorf("it is applied by itself: %v", l)
	}
	c.annotate(upgrade.ApplyPodUpdate, hash)
	if l := labels(mustCheck(t, c)); l != "a" {
		t.Errorf("it is not applied: %v", l)
	}
}

// R40: what deadlines count from is read of the pods that Crossplane sends.
func TestPodTimes(t *testing.T) {
	state, err := observed.From(steady().request())
	if err != nil {
		t.Fatal(err)
	}
	made, ready := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, time.January, 1, 0, 0, 30, 0, time.UTC)
	for _, p := range podsOf(state, seenAt) {
		if !p.Created.Equal(made) || !p.Since.Equal(ready) || p.UID == "" || p.Revision == "" {
			t.Errorf("%s: made %s, Ready since %s, UID %q, revision %q", p.Name, p.Created, p.Since, p.UID, p.Revision)
		}
	}
}

// While an operation runs the StatefulSet is written upon the version that was observed,
// valid spec or not; else it is not.
func TestStatefulSetIsLocked(t *testing.T) {
	calls := upgrading(steady())
	invalid := calls[2].clone()
	invalid.spec()["ports"] = object{"ldap": 1.0, "ldaps": 1.0}
	cases := map[string]struct {
		reason string
		call   call
		want   any
	}{
		"Steady":  {reason: "A lock would only get in the way.", call: steady()},
		"Begins":  {reason: "The first step.", call: calls[0], want: "17"},
		"Runs":    {reason: "The next.", call: calls[1], want: "17"},
		"Invalid": {reason: "R35: a rollback that goes on.", call: invalid, want: "17"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := dig(statefulSet(mustCheck(t, tc.call)), "metadata", "resourceVersion"); got != tc.want {
				t.Errorf("\n%s\nresourceVersion: want %v, got %v", tc.reason, tc.want, got)
			}
		})
	}
}

// R38, R40: what the function reads of the policy and the requests.
func TestPolicyAndRequests(t *testing.T) {
	read := func(change func(xr, spec object)) *observed.State {
		s, err := observed.From(call{xr: seedXR(change)}.request())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	defaults := read(nil)
	if diff := cmp.Diff(upgrade.Policy{ProgressDeadline: 10 * time.Minute}, policyOf(defaults)); diff != "" {
		t.Errorf("policy by default: -want, +got:\n%s", diff)
	}
	if diff := cmp.Diff(upgrade.Requests{}, requestsOf(defaults)); diff != "" {
		t.Errorf("requests by default: -want, +got:\n%s", diff)
	}
	all := read(func(xr, spec object) {
		spec["upgrade"] = object{"paused": true, "progressDeadlineSeconds": 60.0, "minReadySeconds": 5.0, "automaticRollback": false, "podUpdates": "Automatic"}
		xr["metadata"].(object)["annotations"] = object{
			"dirsrv.operator.port389.org/approved-transition": "a", "dirsrv.operator.port389.org/backup-confirmed": "b",
			"dirsrv.operator.port389.org/allow-degraded": "c", "dirsrv.operator.port389.org/rollback-to": "d",
			"dirsrv.operator.port389.org/apply-pod-update": "e", "approved-transition": "x",
		}
	})
	want := upgrade.Policy{Paused: true, ProgressDeadline: time.Minute, MinReady: 5 * time.Second, KeepFailed: true, AutomaticPodUpdates: true}
	if diff := cmp.Diff(want, policyOf(all)); diff != "" {
		t.Errorf("policy: -want, +got:\n%s", diff)
	}
	requests := upgrade.Requests{ApprovedTransition: "a", BackupConfirmed: "b", AllowDegraded: "c", RollbackTo: "d", ApplyPodUpdate: "e"}
	if diff := cmp.Diff(requests, requestsOf(all)); diff != "" {
		t.Errorf("requests: -want, +got:\n%s", diff)
	}
}
