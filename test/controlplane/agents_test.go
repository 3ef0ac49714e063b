//go:build controlplane

package controlplane

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/report"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// setSuffixes is how the manual sets the list of suffixes.
func setSuffixes(names ...string) string {
	var list []string
	for _, n := range names {
		dn := "dc=" + n
		if n == "userroot" {
			dn = "dc=example,dc=com"
		}
		list = append(list, fmt.Sprintf(`{"name":%q,"dn":%q}`, n, dn))
	}
	return `kubectl patch dirsrv example-ds --type merge -p '{"spec":{"suffixes":[` + strings.Join(list, ",") + `]}}'`
}

// suffixes of the status: state, and whether each was founded.
func (s service) suffixes(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, x := range s.status(t).Suffixes {
		out[x.Name] = fmt.Sprintf("%s founded=%t", x.State, x.Founded)
	}
	return out
}

func (s service) awaitSuffixes(t *testing.T, want map[string]string) {
	t.Helper()
	s.cp.eventually(t, soon, s.namespace+": suffixes", func() string { return cmp.Diff(want, s.suffixes(t)) })
}

// awaitReason waits for that reason of a condition.
func (s service) awaitReason(t *testing.T, kind, reason string) metav1.Condition {
	t.Helper()
	var c metav1.Condition
	s.cp.eventually(t, 2*soon, s.namespace+": "+kind+" "+reason, func() string {
		u := s.get(t)
		if c = condition(u, kind); c.Reason != reason {
			return fmt.Sprintf("%+v; status: %s", c, compact(u.Object["status"]))
		}
		return ""
	})
	return c
}

// reports are those that the service's ConfigMap holds.
func (s service) reports(t *testing.T) map[string]report.Report {
	t.Helper()
	m, err := s.cp.kube.CoreV1().ConfigMaps(s.namespace).Get(t.Context(), s.name+"-state", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(t, err)
	out := map[string]report.Report{}
	for pod, doc := range m.Data {
		r, err := report.Parse(doc)
		must(t, err)
		out[pod] = r
	}
	return out
}

// told is the document that the servers were told.
func (s service) told(t *testing.T) config.Config {
	t.Helper()
	c, err := config.Parse(s.config(t))
	must(t, err)
	return c
}

// foundedByConfig says of each suffix whether the servers were told that it was founded.
func (s service) foundedByConfig(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, x := range s.told(t).Suffixes {
		out[x.Name] = x.Founded
	}
	return out
}

// testReports: what the agents report arrives, over rights that are enough for that and nothing else.
func testReports(t *testing.T, cp *controlPlane) {
	s := cp.install(t, "reports", 1, "", nil)
	s.awaitSuffixes(t, map[string]string{"userroot": "Ready founded=true"})
	before := s.snapshot(t)

	t.Run("Rights", func(t *testing.T) { s.checkAgentRights(t) })

	s.shell(t, setSuffixes("userroot", "second"))
	s.awaitSuffixes(t, map[string]string{"userroot": "Ready founded=true", "second": "Ready founded=true"})
	s.waitCondition(t, "SuffixesReady", metav1.ConditionTrue)
	cp.eventually(t, soon, "R20: the servers are told that it was founded", func() string {
		return cmp.Diff(map[string]bool{"userroot": true, "second": true}, s.foundedByConfig(t))
	})

	const why = "the backend third is there and holds another suffix (dc=else): give this suffix another name"
	s.kubelet.agents(imageOf("3.1.0"), func(r *agentRules) { r.failed = map[string]string{"third": why} })
	s.shell(t, setSuffixes("userroot", "second", "third"))
	c := s.awaitReason(t, "SuffixesReady", "SuffixFailed")
	if c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "third (dc=third)") || !strings.Contains(c.Message, why) {
		t.Errorf("R16: the condition of a suffix that cannot be made: %+v", c)
	}
	for kind, want := range map[string]metav1.ConditionStatus{"Ready": metav1.ConditionTrue, "Available": metav1.ConditionTrue} {
		if c := condition(s.get(t), kind); c.Status != want {
			t.Errorf("R16: a service that serves its other suffixes: %+v", c)
		}
	}
	s.checkEvents(t, "SuffixFailed", 1)
	s.awaitPhase(t, v1alpha1.PhaseRunning)
	s.kubelet.agents(imageOf("3.1.0"), nil)
	s.waitCondition(t, "SuffixesReady", metav1.ConditionTrue)
	s.awaitSuffixes(t, map[string]string{"userroot": "Ready founded=true", "second": "Ready founded=true", "third": "Ready founded=true"})
	s.checkUntouched(t, "R14: none of that restarts anything.", before)

	// The ConfigMap with the reports is nobody's memory.
	told, reports := s.config(t), s.reports(t)
	cp.recorder.allow(s.namespace, "configmaps", "example-ds-state")
	s.shell(t, "kubectl delete configmap example-ds-state")
	cp.eventually(t, 2*soon, s.namespace+": the reports are back", func() string { return cmp.Diff(reports, s.reports(t)) })
	s.waitCondition(t, "SuffixesReady", metav1.ConditionTrue)
	s.awaitReason(t, "TLSReady", "Serving")
	s.checkUntouched(t, "The reports were lost, and nothing else.", before)
	if diff := cmp.Diff(told, s.config(t)); diff != "" {
		t.Errorf("what the servers are told: -before, +after the reports were lost:\n%s", diff)
	}
	s.awaitRunning(t, "3.1.0", 1)
	if got := len(s.kubelet.restartsSoFar()); got != 0 {
		t.Errorf("%d servers restarted", got)
	}
}

// checkAgentRights checks what the token in a server's pod is good for (S11).
func (s service) checkAgentRights(t *testing.T) {
	t.Helper()
	pods := s.pods(t)
	client, err := s.cp.as(t.Context(), &pods[0])
	must(t, err)
	const state, cfg = "example-ds-state", "example-ds-config"
	maps := func(c kubernetes.Interface, namespace string) func(verb, name string) error {
		m := c.CoreV1().ConfigMaps(namespace)
		return func(verb, name string) (err error) {
			switch verb {
			case "get":
				_, err = m.Get(t.Context(), name, metav1.GetOptions{})
			case "list":
				_, err = m.List(t.Context(), metav1.ListOptions{})
			case "patch":
				_, err = m.Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"b"}}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
			case "delete":
				err = m.Delete(t.Context(), name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
			case "create":
				_, err = m.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			}
			return err
		}
	}
	secrets := client.CoreV1().Secrets(s.namespace)
	secret := func(verb, name string) (err error) {
		switch verb {
		case "get":
			_, err = secrets.Get(t.Context(), name, metav1.GetOptions{})
		case "list":
			_, err = secrets.List(t.Context(), metav1.ListOptions{})
		case "patch":
			_, err = secrets.Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"b"}}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		}
		return err
	}
	own, foreign := maps(client, s.namespace), maps(client, metav1.NamespaceDefault)
	for _, tc := range []struct {
		what, verb, name string
		try              func(verb, name string) error
		allowed          bool
	}{
		{"its reports", "get", state, own, true},
		{"its reports", "patch", state, own, true},
		{"its reports", "delete", state, own, false},
		{"its reports", "create", state, own, false},
		{"ConfigMaps", "list", "", own, false},
		{"another ConfigMap", "get", cfg, own, false},
		{"another ConfigMap", "patch", cfg, own, false},
		{"another namespace's", "get", state, foreign, false},
		{"a Secret", "get", "example-ds-tls", secret, false},
		{"a Secret", "get", "example-ds-tls-ca", secret, false},
		{"a Secret", "get", "example-ds-dm-password", secret, false},
		{"a Secret", "patch", "example-ds-tls", secret, false},
		{"Secrets", "list", "", secret, false},
	} {
		err := tc.try(tc.verb, tc.name)
		if tc.allowed && err != nil || !tc.allowed && !apierrors.IsForbidden(err) {
			t.Errorf("%s %s %s: allowed should be %t: %v", tc.verb, tc.what, tc.name, tc.allowed, err)
		}
	}
}

// testReportGates: a pod that is Ready is not enough.
func testReportGates(t *testing.T, cp *controlPlane) {
	t.Run("Silent", func(t *testing.T) {
		t.Parallel()
		s := cp.install(t, "silent", 3, "", func(k *servedNamespace) {
			k.agents(imageOf("3.1.1"), func(r *agentRules) { r.silent = true })
		})
		before := s.snapshot(t)
		s.shell(t, patchTo("3.1.1"))
		s.await(t, "it waits for a report", func(st v1alpha1.DirectoryServiceStatus) string {
			if st.Upgrade == nil || !strings.Contains(st.Upgrade.Message, "waits for the agent in example-ds-2 to report") || st.ReadyReplicas != 3 {
				return "not yet"
			}
			return ""
		})
		time.Sleep(5 * time.Second)
		if diff := cmp.Diff([]string{"example-ds-2 3.1.0"}, s.lives()); diff != "" {
			t.Errorf("R30: deleted while there is no report: -want, +got:\n%s", diff)
		}
		s.kubelet.agents(imageOf("3.1.1"), nil)
		s.checkUpgraded(t, "3.1.1", 3)
		s.checkVolumes(t, before)
	})
	for name, rule := range map[string]struct {
		change func(*agentRules)
		reason string
		says   string
	}{
		"version": {
			change: func(r *agentRules) { r.version = "3.0.9" },
			reason: upgrade.ReasonVersionMismatch,
			says:   "it runs 3.0.9",
		},
		"never": {
			change: func(r *agentRules) { r.silent = true },
			reason: upgrade.ReasonProgressDeadlineExceeded,
			says:   "waits for the agent in example-ds-0 to report",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := cp.install(t, "report-"+name, 1, "upgrade:\n  progressDeadlineSeconds: 10\n", func(k *servedNamespace) { k.agents(imageOf("3.1.1"), rule.change) })
			before := s.snapshot(t)
			s.shell(t, patchTo("3.1.1"))
			s.await(t, "it waits", func(st v1alpha1.DirectoryServiceStatus) string {
				if st.Upgrade == nil || !strings.Contains(st.Upgrade.Message, rule.says) || st.ReadyReplicas != 1 {
					return "not yet"
				}
				return ""
			})
			st := s.awaitRolledBack(t, 1, before)
			s.checkHistory(t, st, "3.1.0", "3.1.1", upgrade.ResultRolledBack)
			if got := st.Rejected.Reason; got != rule.reason {
				t.Errorf("rejected for %s: %s", got, st.Rejected.Message)
			}
		})
	}
}

// testRefusal: R42. An agent that refuses to start its server has touched nothing, and says why.
func testRefusal(t *testing.T, cp *controlPlane) {
	t.Run("Upgrade", func(t *testing.T) {
		t.Parallel()
		s := cp.install(t, "refused", 3, "", func(k *servedNamespace) { k.image(imageOf("3.1.1"), refusesVersion) })
		before := s.snapshot(t)
		s.shell(t, patchTo("3.1.1"))
		s.awaitReplaced(t, "example-ds-2")
		since := time.Now()
		s.await(t, "it goes back", func(st v1alpha1.DirectoryServiceStatus) string {
			if st.Rejected == nil {
				return "not yet"
			}
			return ""
		})
		// At once: neither the loop of crashes nor the deadline is waited for.
		took := time.Since(since)
		t.Logf("refused after %s", took.Round(100*time.Millisecond))
		st := s.awaitRolledBack(t, 3, before)
		s.checkHistory(t, st, "3.1.0", "3.1.1", upgrade.ResultRolledBack)
		want := refusals[refusesVersion]
		if h := st.History[0]; h.Reason != want.Reason || !strings.Contains(h.Message, want.Message) {
			t.Errorf("the history does not tell why: %s", compact(h))
		}
		if st.Rejected.Reason != want.Reason {
			t.Errorf("rejected for %s", st.Rejected.Reason)
		}
		s.checkEvents(t, "UpgradeFailed", 1)
		if all := compact(s.events(t, "UpgradeFailed")); !strings.Contains(all, want.Reason) || !strings.Contains(all, want.Message) {
			t.Errorf("the event does not tell why: %s", all)
		}
		if diff := cmp.Diff([]string{"example-ds-2 3.1.0", "example-ds-2 3.1.1"}, s.lives()); diff != "" {
			t.Errorf("deleted: -want, +got:\n%s", diff)
		}
	})
	t.Run("Rollback", func(t *testing.T) {
		t.Parallel()
		s := cp.install(t, "refused-back", 1, "", func(k *servedNamespace) { k.image(imageOf("3.1.1"), crashes) })
		before := s.snapshot(t)
		// Its volume would not be taken back, from now on.
		s.shell(t, patchTo("3.1.1"))
		s.awaitReplaced(t, "example-ds-0")
		s.kubelet.breakPod("example-ds-0", imageOf("3.1.0"), refusesRollback)
		want := refusals[refusesRollback]
		c := s.awaitReason(t, "UpgradeSucceeded", upgrade.ReasonRollbackFailed)
		s.awaitPhase(t, v1alpha1.PhaseDegraded)
		if !strings.Contains(c.Message, want.Reason) {
			t.Errorf("the condition does not tell why: %s", c.Message)
		}
		var message string
		s.await(t, "the agent's words", func(st v1alpha1.DirectoryServiceStatus) string {
			if len(st.Servers) == 1 {
				message = st.Servers[0].Message
			}
			if !strings.Contains(message, want.Reason) || !strings.Contains(message, want.Message) {
				return "servers: " + compact(st.Servers)
			}
			return ""
		})
		s.waitCondition(t, "Available", metav1.ConditionFalse, want.Message)

		// Nothing becomes of it by itself.
		lives, set := s.lives(), s.statefulSet(t)
		time.Sleep(15 * time.Second)
		if diff := cmp.Diff(lives, s.lives()); diff != "" {
			t.Errorf("it was tried again: -before, +after:\n%s", diff)
		}
		if diff := cmp.Diff(set.Spec, s.statefulSet(t).Spec); diff != "" {
			t.Errorf("StatefulSet: -before, +after:\n%s", diff)
		}
		if history := s.status(t).History; len(history) != 0 {
			t.Errorf("the operation is not over: %s", compact(history))
		}

		// The agent's own command reaches the agent.
		s.obey(t, message)
		cp.eventually(t, soon, "the agent is told", func() string {
			return cmp.Diff("3.1.1->3.1.0", s.told(t).BackupConfirmed)
		})
		s.kubelet.healPod("example-ds-0")
		st := s.awaitRolledBack(t, 1, before)
		s.checkHistory(t, st, "3.1.0", "3.1.1", upgrade.ResultRolledBack)
	})
}

// events of the user's object.
func (d directory) events(t *testing.T, reason string) []corev1.Event {
	t.Helper()
	l, err := d.cp.kube.CoreV1().Events(d.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + d.name + ",involvedObject.kind=DirectoryService,reason=" + reason})
	must(t, err)
	return l.Items
}

// testFounded: R20. A service that is made again over its volumes creates no root entry a second time.
func testFounded(t *testing.T, cp *controlPlane) {
	s := cp.install(t, "founded", 1, "", nil)
	s.shell(t, setSuffixes("userroot", "second"))
	s.awaitSuffixes(t, map[string]string{"userroot": "Ready founded=true", "second": "Ready founded=true"})
	before := volumes(t, s.directory)
	s.delete(t)

	manifest := strings.Replace(example(t, ""), "suffixes:\n", "suffixes:\n    - name: second\n      dn: dc=second\n", 1)
	begin := time.Now()
	s.directory = cp.applyForGood(t, s.namespace, manifest)
	s.awaitRunning(t, "3.1.0", 1)
	s.awaitSuffixes(t, map[string]string{"userroot": "Ready founded=true", "second": "Ready founded=true"})
	if diff := cmp.Diff(before, volumes(t, s.directory)); diff != "" {
		t.Errorf("volume claims: -before, +after:\n%s", diff)
	}
	// At every time, not only in the end: one moment would do.
	for _, c := range cp.recorder.since(s.namespace, begin) {
		if c.resource != "configmaps" || c.name != "example-ds-config" || c.new == nil {
			continue
		}
		doc, _, _ := nested(c.new, "data", config.Key)
		told, err := config.Parse(doc)
		must(t, err)
		for _, x := range told.Suffixes {
			if !x.Founded {
				t.Errorf("R20: at %s the servers were told that %s was never founded", c.at.Format("15:04:05.000"), x.Name)
			}
		}
	}
	for _, name := range []string{"userroot", "second"} {
		if n := cp.agents.founded(t, s.namespace, name); n != 1 {
			t.Errorf("R20: %s was founded %d times", name, n)
		}
	}

	// What is lost stays lost until a person says so.
	cp.agents.lose(t, &s.pods(t)[0], "second")
	cp.agents.wake(s.namespace)
	c := s.awaitReason(t, "SuffixesReady", "DataMissing")
	s.awaitSuffixes(t, map[string]string{"userroot": "Ready founded=true", "second": "Waiting founded=true"})
	s.checkEvents(t, "DataMissing", 1)
	if n := cp.agents.founded(t, s.namespace, "second"); n != 1 {
		t.Errorf("R20: it was founded %d times", n)
	}
	s.obey(t, c.Message)
	for name, want := range map[string]int{"second": 2, "userroot": 1} {
		cp.eventually(t, soon, "the suffixes that were founded", func() string {
			if n := cp.agents.founded(t, s.namespace, name); n != want {
				return fmt.Sprintf("%s was founded %d times, want %d", name, n, want)
			}
			return ""
		})
	}
	s.awaitSuffixes(t, map[string]string{"userroot": "Ready founded=true", "second": "Ready founded=true"})
	s.waitCondition(t, "SuffixesReady", metav1.ConditionTrue)
	cp.eventually(t, soon, "all are told founded", func() string {
		return cmp.Diff(map[string]bool{"userroot": true, "second": true}, s.foundedByConfig(t))
	})
	s.shell(t, "kubectl annotate dirsrv example-ds dirsrv.operator.port389.org/allow-refound-")
	s.awaitRunning(t, "3.1.0", 1)
}

// permits are those that the servers were given since then, one after the other: ordinals.
func (s service) permits(t *testing.T, since time.Time) []int32 {
	t.Helper()
	var out []int32
	last := config.Restart{Ordinal: -1}
	for _, c := range s.cp.recorder.since(s.namespace, since) {
		if c.resource != "configmaps" || c.name != s.name+"-config" || c.new == nil {
			continue
		}
		doc, _, _ := nested(c.new, "data", config.Key)
		told, err := config.Parse(doc)
		must(t, err)
		if r := told.Restart; r != nil && *r != last {
			out, last = append(out, r.Ordinal), *r
		}
	}
	return out
}
