//go:build controlplane

package controlplane

import (
	"bufio"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sharedDir holds what is built once for both flavours.
var sharedDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "fds-controlplane-build-")
	if err != nil {
		panic(err)
	}
	sharedDir = dir
	// The tests of a group mostly wait; the machine has fewer cores than that.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// testCase is what a flavour has to pass.
type testCase struct {
	name   string
	reason string
	run    func(t *testing.T, cp *controlPlane)
	// alone says that nothing else may go on meanwhile: function runs are counted, or Kubernetes' controllers stopped.
	alone bool
	// once says that one flavour is enough: nothing in it depends on which.
	once bool
}

func (tc testCase) in(f flavour) bool { return !tc.once || f.name == flavours[0].name }

var suite = []testCase{
	{
		name:   "no hot loop",
		reason: "One change has one answer.",
		run:    testRuns,
		alone:  true,
	},
	{
		name:   "R44 function update restarts nothing",
		reason: "A thousand services survive their platform's update: servers get its pods when somebody says so.",
		run:    testFunctionUpdateRestartsNothing,
		alone:  true,
		once:   true,
	},
	{
		name:   "kubelet",
		reason: "The stand-in for the kubelet does what the upgrades below take for granted.",
		run:    testKubelet,
	},
	{
		name:   "R1 R12 R13 R14 R18 examples",
		reason: "The documented objects are accepted byte for byte and become a StatefulSet and all that it needs, in the user's namespace.",
		run:    testExamples,
	},
	{
		name:   "R3 R4 R5 R6 schema",
		reason: "What cannot work is refused by the API server, before anything is stored.",
		run:    testSchema,
	},
	{
		name:   "R2 R21 scale",
		reason: "kubectl get shows what matters first; kubectl scale changes the number of replicas alone.",
		run:    testScale,
	},
	{
		name:   "R31 R32 R33 running",
		reason: "A service is Ready when its pods are, not before, and says what it runs.",
		run:    testRunning,
	},
	{
		name:   "R14 R17 edits",
		reason: "An edit of the spec arrives where it belongs, and restarts pods only where it must.",
		run:    testEdits,
	},
	{
		name:   "drift",
		reason: "A composed object that somebody changed by hand becomes what the spec says again.",
		run:    testDrift,
	},
	{
		name:   "R25 R28 blocked",
		reason: "A version that is not the image's touches no pod, and taking it back heals.",
		run:    testBlocked,
	},
	{
		name:   "R25 blocked from the start",
		reason: "A mismatch in a new service is refused before there is a StatefulSet.",
		run:    testBlockedFromTheStart,
	},
	{
		name:   "R10 S4 credentials",
		reason: "A Secret that the user names is waited for and picked up without an edit.",
		run:    testNamedSecret,
	},
	{
		name:   "R9 S3 recreated before garbage collection",
		reason: "A service deleted and applied again at once keeps its generated password: its volumes know no other.",
		run:    testRecreatedAtOnce,
		alone:  true,
	},
	{
		name:   "R7 R20 deletion",
		reason: "Deleting a service deletes its children and keeps its volumes; applied again it runs over them.",
		run:    testDeletion,
	},
	{
		name:   "R30 R31 R32 R34 upgrade",
		reason: "Pods are replaced one at a time, highest first, and success is judged by what runs.",
		run:    testUpgrade,
	},
	{
		name:   "R26 R27 R33 approval",
		reason: "A major upgrade waits for two annotations, and its condition tells the command that sets them.",
		run:    testUpgradeApproval,
	},
	{
		name:   "R35 R36 failed upgrade",
		reason: "An image that cannot run is left again by itself, over the same volumes, and not tried again.",
		run:    testUpgradeFails,
	},
	{
		name:   "R30 R35 stuck in the middle",
		reason: "The stuck pod is replaced first; one that is Ready is not taken down for it.",
		run:    testUpgradeStuckInTheMiddle,
	},
	{
		name:   "R37 manual rollback",
		reason: "An annotation goes back without an edit of the spec, and nothing comes of taking it away.",
		run:    testManualRollback,
	},
	{
		name:   "R40 progress deadline",
		reason: "A server that runs and never becomes Ready is a failure too, in time.",
		run:    testUpgradeDeadline,
	},
	{
		name:   "R21 R38 scaled during an upgrade",
		reason: "The number of replicas still applies while an upgrade runs.",
		run:    testUpgradeScaled,
	},
	{
		name:   "R31 StatefulSet deleted during an upgrade",
		reason: "It is made again from what is known to be good, and the upgrade comes to its end.",
		run:    testUpgradeStatefulSetDeleted,
	},
	{
		name:   "R39 first image corrected",
		reason: "What was never healthy anywhere may be left for any other version.",
		run:    testFirstImageCorrected,
	},
	{
		name:   "R35 resources too small",
		reason: "A change of the pods that is no upgrade is taken back like one.",
		run:    testResourcesTooSmall,
	},
	{
		name:   "R24 upgrade in two patches",
		reason: "Version and image may come one after the other.",
		run:    testUpgradeInTwoPatches,
	},
	{
		name:   "R29 unhealthy",
		reason: "An upgrade waits for a service that misses a server.",
		run:    testUpgradeUnhealthy,
	},
	{
		name:   "R7 storage",
		reason: "A size that the volumes cannot get is refused by a condition; nothing is touched.",
		run:    testStorage,
	},
	{
		name:   "R7 grow",
		reason: "A larger size is every volume's, also that of a server which comes later; where it cannot be had, that is told.",
		run:    testGrow,
	},
	{
		name:   "R6 R16 S11 reports",
		reason: "What the servers have is reported, over rights for that and nothing else; losing the reports loses nothing.",
		run:    testReports,
	},
	{
		name:   "R20 founded",
		reason: "A root entry is created once, however often the service is; again only when a person says so.",
		run:    testFounded,
	},
	{
		name:   "R52 self-signed",
		reason: "A new certificate is served by one server after the other, without a new pod.",
		run:    testSelfSigned,
	},
	{
		name:   "R52 certificates of others",
		reason: "A certificate that is brought, or issued by cert-manager, is waited for; meanwhile the servers have theirs.",
		run:    testBroughtCertificates,
		once:   true,
	},
	{
		name:   "R30 reports gate upgrades",
		reason: "That a pod is Ready is not enough: its server has to be the version that was asked for.",
		run:    testReportGates,
		once:   true,
	},
	{
		name:   "R42 refused",
		reason: "A server that is not started says why; the upgrade goes back at once, and a way back that would lose data is a person's to go.",
		run:    testRefusal,
		once:   true,
	},
	{
		name:   "R20 deletion protection",
		reason: "Protection is a Usage of the user's object, there while it is wanted.",
		run:    testDeletionProtection,
	},
}

func TestControlPlane(t *testing.T) {
	for _, f := range flavours {
		t.Run(f.name, func(t *testing.T) {
			cp := startControlPlane(t, f)
			for _, tc := range suite {
				if tc.alone && tc.in(f) {
					t.Run(tc.name, func(t *testing.T) {
						t.Log(tc.reason)
						tc.run(t, cp)
					})
				}
			}
			t.Run("together", func(t *testing.T) {
				for _, tc := range suite {
					if !tc.alone && tc.in(f) {
						t.Run(tc.name, func(t *testing.T) {
							t.Parallel()
							t.Log(tc.reason)
							tc.run(t, cp)
						})
					}
				}
			})
			t.Run("quiet", cp.testQuiet)
			// These look back at all that happened, so they come last.
			t.Run("S11 nothing forbidden", cp.testNothingForbidden)
			t.Run("no circuit opened", cp.testNoCircuitOpened)
			t.Run("R7 nothing vanished", cp.testNothingVanished)
			t.Run("R52 no certificate replaced", cp.testNoCertificateReplaced)
		})
	}
}

// testNothingVanished: a PVC, a Secret or any composed object goes only when somebody meant it.
func (cp *controlPlane) testNothingVanished(t *testing.T) {
	for _, c := range cp.recorder.vanished() {
		t.Errorf("%s, and no test meant that", c)
	}
}

// testNoCertificateReplaced: every server restarts for another certificate, so there is one only where somebody meant it.
func (cp *controlPlane) testNoCertificateReplaced(t *testing.T) {
	for _, c := range cp.recorder.reissued() {
		t.Errorf("%s: %s, and no test meant that", c, strings.Join(paths(c.old.Object, c.new.Object, ""), ", "))
	}
}

// testNothingForbidden: our ClusterRole, Crossplane's own and what its RBAC manager grants are enough.
func (cp *controlPlane) testNothingForbidden(t *testing.T) {
	events, err := cp.kube.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if len(events.Items) == 0 {
		t.Error("Crossplane sent no events at all: this test would not see any")
	}
	for _, e := range events.Items {
		// Kubernetes' own controllers are not meant: a StatefulSet may meet its ServiceAccount a moment too early.
		if e.InvolvedObject.GroupVersionKind().Group != "apps" && strings.Contains(e.Message, "forbidden") && !strings.Contains(e.Message, cannotGrow) {
			t.Errorf("event %s on %s %s/%s: %s", e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Namespace, e.InvolvedObject.Name, e.Message)
		}
	}
	for _, line := range cp.grepCrossplane(t, "forbidden") {
		if !strings.Contains(line, cannotGrow) {
			t.Error(line)
		}
	}
}

// testNoCircuitOpened: Crossplane stops listening to a service that wakes it too often.
func (cp *controlPlane) testNoCircuitOpened(t *testing.T) {
	for _, line := range cp.grepCrossplane(t, "Circuit breaker is open") {
		t.Error(line)
	}
}

// grepCrossplane returns the lines of Crossplane's log with that text.
func (cp *controlPlane) grepCrossplane(t *testing.T, text string) []string {
	t.Helper()
	log, err := os.Open(filepath.Join(cp.logs, "crossplane.log"))
	must(t, err)
	defer log.Close()
	s := bufio.NewScanner(log)
	s.Buffer(nil, 16<<20)
	var found []string
	lines := 0
	for ; s.Scan(); lines++ {
		if strings.Contains(s.Text(), text) {
			found = append(found, s.Text())
		}
	}
	must(t, s.Err())
	if lines == 0 {
		t.Error("Crossplane logged nothing: this test would not see anything")
	}
	return found
}
