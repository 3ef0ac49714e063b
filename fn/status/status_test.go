package status

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// inputs of a healthy service with one server, changed.
func inputs(changes ...func(in *Inputs)) Inputs {
	release := upgrade.Release{Version: "3.1.0", Image: "dirsrv:3.1.0"}
	in := Inputs{
		Identity:   naming.Identity{Name: "ds", Namespace: "team"},
		Generation: 7,
		Spec:       &v1alpha1.DirectoryServiceSpec{Image: "dirsrv:3.1.0", Version: "3.1.0"},
		Decision:   upgrade.Decision{Run: &release, Target: release, Ledger: upgrade.Ledger{Good: &release}},
		Rollout:    upgrade.Rollout{Exists: true, Running: release, Current: true, Wanted: 1, Pods: 1, Ready: 1, Updated: 1},
		Config:     config.Config{Suffixes: []config.Suffix{{Name: "userroot", DN: "dc=example,dc=com", CreateEntry: true}}},
		Credential: Credential{
			Ref:       v1alpha1.SecretKeyRef{Name: "ds-dm-password", Key: "dm-password"},
			InUse:     v1alpha1.SecretKeyRef{Name: "ds-dm-password", Key: "dm-password"},
			Generated: true, Arrived: true, Exists: true, Usable: true,
		},
		TLS: TLSMaterial{
			Secret: "ds-tls", InUse: "ds-tls", Generated: true, Arrived: true, Exists: true,
			CASecret: "ds-tls-ca", CAArrived: true, Hash: "h1",
		},
		Servers:       []Server{server(0, "h1")},
		Template:      claim("ds-data", "1Gi"),
		Claims:        []corev1.PersistentVolumeClaim{*claim("ds-data-ds-0", "1Gi")},
		ClaimsArrived: true,
		Pods:          []corev1.Pod{pod("ds-0", true)},
		PodsArrived:   true,
	}
	for _, change := range changes {
		change(&in)
	}
	in.Spec.Default()
	return in
}

func claim(name, size string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
}

func pod(name string, ready bool) corev1.Pod {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.PodStatus{
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: status}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "dirsrv", Started: ptr.To(true)}},
		},
	}
}

func waiting(name, reason string) corev1.Pod {
	p := pod(name, false)
	p.Status.ContainerStatuses[0] = corev1.ContainerStatus{
		Name:  "dirsrv",
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
	}
	return p
}

// Changes of a healthy service, by what happened.

func firstInstall(in *Inputs) {
	in.Decision.Ledger = upgrade.Ledger{}
	in.Rollout = upgrade.Rollout{}
	in.Template, in.Claims, in.Pods = nil, nil, nil
}

func invalid(in *Inputs) {
	in.Problems = []string{`spec.ports.ldaps: Invalid value: 636: must differ from spec.ports.ldap`}
}

func secretMissing(in *Inputs) {
	in.Spec.DMPasswordSecretRef = &v1alpha1.SecretKeyRef{Name: "mine", Key: "pw"}
	in.Credential = Credential{Ref: *in.Spec.DMPasswordSecretRef, Brought: true, Arrived: true}
}

func keyMissing(in *Inputs) {
	secretMissing(in)
	in.Credential.Exists = true
}

func blocked(in *Inputs) {
	in.Decision.Target = upgrade.Release{Version: "3.1.1", Image: "dirsrv:3.1.2"}
	in.Decision.Blocked = &upgrade.Refusal{Reason: upgrade.ReasonImageVersionMismatch, Message: "spec.image has the tag 3.1.2, and spec.version is 3.1.1"}
}

func unapproved(in *Inputs) {
	in.Decision.Target = upgrade.Release{Version: "4.0.0", Image: "dirsrv:4.0.0"}
	in.Decision.Blocked = &upgrade.Refusal{
		Reason: upgrade.ReasonApprovalRequired, Message: "3.1.0->4.0.0 is a major upgrade and waits for your approval",
		Annotate: []upgrade.Annotation{{Name: upgrade.ApprovedTransition, Value: "3.1.0->4.0.0"}, {Name: upgrade.BackupConfirmed, Value: "3.1.0->4.0.0"}},
	}
}

func shrunk(in *Inputs) {
	in.Template = claim("ds-data", "2Gi")
}

func otherClass(in *Inputs) {
	in.Spec.Storage.StorageClassName = ptr.To("fast")
}

func grown(in *Inputs) {
	in.Spec.Storage.Size = ptr.To(resource.MustParse("2Gi"))
}

func orphaned(in *Inputs) {
	in.Config.Suffixes = append(in.Config.Suffixes, config.Suffix{Name: "old", DN: "dc=old", Orphaned: true})
}

func severalServers(in *Inputs) {
	in.Spec.Replicas = ptr.To[int32](2)
	in.Rollout.Wanted, in.Rollout.Pods, in.Rollout.Ready, in.Rollout.Updated = 2, 2, 2, 2
	in.Claims = append(in.Claims, *claim("ds-data-ds-1", "1Gi"))
	in.Pods = append(in.Pods, pod("ds-1", true))
	in.FirstServerOnly = true
}

func down(in *Inputs) {
	in.Rollout.Ready = 0
	in.Pods = []corev1.Pod{waiting("ds-0", "CrashLoopBackOff")}
}

// R2, R32: the whole status of a service. `kubectl get dirsrv` shows fields of it.
func TestOf(t *testing.T) {
	cases := map[string]struct {
		reason  string
		changes []func(in *Inputs)
		want    v1alpha1.DirectoryServiceStatus
	}{
		"Running": {
			reason: "A healthy service.",
			want: v1alpha1.DirectoryServiceStatus{
				ObservedGeneration: 7,
				Phase:              v1alpha1.PhaseRunning,
				CurrentVersion:     "3.1.0", CurrentImage: "dirsrv:3.1.0",
				TargetVersion: "3.1.0", TargetImage: "dirsrv:3.1.0",
				Replicas: 1, ReadyReplicas: 1, UpdatedReplicas: 1,
				Selector:         "app.kubernetes.io/component=server,app.kubernetes.io/instance=ds,app.kubernetes.io/name=389-directory-server",
				Endpoints:        &v1alpha1.Endpoints{LDAP: "ldap://ds.team.svc:3389", LDAPS: "ldaps://ds.team.svc:3636"},
				DMPasswordSecret: &v1alpha1.SecretKeyRef{Name: "ds-dm-password", Key: "dm-password"},
				TLS:              &v1alpha1.TLSStatus{Secret: "ds-tls"},
				Servers:          []v1alpha1.ServerStatus{{Pod: "ds-0", Ready: true}},
				Suffixes:         []v1alpha1.SuffixStatus{{Name: "userroot", DN: "dc=example,dc=com", State: v1alpha1.SuffixDeclared}},
			},
		},
		"FirstCall": {
			reason:  "A service of which nothing exists has no current version, and is on its way to one.",
			changes: []func(in *Inputs){firstInstall},
			want: v1alpha1.DirectoryServiceStatus{
				ObservedGeneration: 7,
				Phase:              v1alpha1.PhaseInitializing,
				TargetVersion:      "3.1.0", TargetImage: "dirsrv:3.1.0",
				Selector:         "app.kubernetes.io/component=server,app.kubernetes.io/instance=ds,app.kubernetes.io/name=389-directory-server",
				Endpoints:        &v1alpha1.Endpoints{LDAP: "ldap://ds.team.svc:3389", LDAPS: "ldaps://ds.team.svc:3636"},
				DMPasswordSecret: &v1alpha1.SecretKeyRef{Name: "ds-dm-password", Key: "dm-password"},
				TLS:              &v1alpha1.TLSStatus{Secret: "ds-tls"},
				Servers:          []v1alpha1.ServerStatus{{Pod: "ds-0", Ready: true}},
				Suffixes:         []v1alpha1.SuffixStatus{{Name: "userroot", DN: "dc=example,dc=com", State: v1alpha1.SuffixDeclared}},
			},
		},
		"Everything": {
			reason: "Blocked, with other ports, a load balancer, an orphan and a Secret of the user's.",
			changes: []func(in *Inputs){blocked, orphaned, func(in *Inputs) {
				in.Spec.Ports = v1alpha1.Ports{LDAP: 389, LDAPS: 636}
				in.Credential.InUse = v1alpha1.SecretKeyRef{Name: "mine", Key: "pw"}
				in.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}, {Hostname: "lb.example.org", IP: "192.0.2.2"}, {}}
			}},
			want: v1alpha1.DirectoryServiceStatus{
				ObservedGeneration: 7,
				Phase:              v1alpha1.PhaseBlocked,
				CurrentVersion:     "3.1.0", CurrentImage: "dirsrv:3.1.0",
				TargetVersion: "3.1.1", TargetImage: "dirsrv:3.1.2",
				Replicas: 1, ReadyReplicas: 1, UpdatedReplicas: 1,
				Selector: "app.kubernetes.io/component=server,app.kubernetes.io/instance=ds,app.kubernetes.io/name=389-directory-server",
				Endpoints: &v1alpha1.Endpoints{
					LDAP: "ldap://ds.team.svc:389", LDAPS: "ldaps://ds.team.svc:636",
					External: []string{"192.0.2.1", "lb.example.org"},
				},
				DMPasswordSecret: &v1alpha1.SecretKeyRef{Name: "mine", Key: "pw"},
				TLS:              &v1alpha1.TLSStatus{Secret: "ds-tls"},
				Servers:          []v1alpha1.ServerStatus{{Pod: "ds-0", Ready: true}},
				Suffixes: []v1alpha1.SuffixStatus{
					{Name: "userroot", DN: "dc=example,dc=com", State: v1alpha1.SuffixDeclared},
					{Name: "old", DN: "dc=old", State: v1alpha1.SuffixOrphaned},
				},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Of(inputs(tc.changes...)).Status); diff != "" {
				t.Errorf("\n%s\nOf(): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// R32: what hurts clients comes before what waits for a person.
func TestPhase(t *testing.T) {
	cases := map[string]struct {
		reason  string
		changes []func(in *Inputs)
		want    v1alpha1.Phase
	}{
		"Running":                {reason: "All is well.", want: v1alpha1.PhaseRunning},
		"Initializing":           {reason: "Nothing was Ready yet.", changes: []func(in *Inputs){firstInstall}, want: v1alpha1.PhaseInitializing},
		"BadImage":               {reason: "A first install that fails has never run, so it is not degraded.", changes: []func(in *Inputs){firstInstall, down}, want: v1alpha1.PhaseInitializing},
		"BlockedFirstInstall":    {reason: "R25: a first install that cannot begin.", changes: []func(in *Inputs){firstInstall, blocked}, want: v1alpha1.PhaseBlocked},
		"SecretMissingAtFirst":   {reason: "R10: a first install waits for its Secret.", changes: []func(in *Inputs){firstInstall, secretMissing}, want: v1alpha1.PhaseBlocked},
		"Down":                   {reason: "It has run, and no server is Ready.", changes: []func(in *Inputs){down}, want: v1alpha1.PhaseDegraded},
		"DownAndBlocked":         {reason: "An outage is more urgent than a refused change.", changes: []func(in *Inputs){down, blocked}, want: v1alpha1.PhaseDegraded},
		"Blocked":                {reason: "R28: a refused change while all servers serve.", changes: []func(in *Inputs){blocked}, want: v1alpha1.PhaseBlocked},
		"Invalid":                {reason: "An invalid spec holds everything back.", changes: []func(in *Inputs){invalid}, want: v1alpha1.PhaseBlocked},
		"SecretGone":             {reason: "R10: the named Secret is gone.", changes: []func(in *Inputs){secretMissing}, want: v1alpha1.PhaseBlocked},
		"ShrinkRefused":          {reason: "R7: a refused shrink waits for a person.", changes: []func(in *Inputs){shrunk}, want: v1alpha1.PhaseBlocked},
		"GrowByHand":             {reason: "R7: a volume to grow holds nothing back.", changes: []func(in *Inputs){grown, noAgentImage}, want: v1alpha1.PhaseRunning},
		"Growing":                {reason: "R7: nor does one that grows.", changes: []func(in *Inputs){grown}, want: v1alpha1.PhaseRunning},
		"GrowFailed":             {reason: "R7: nor one that cannot.", changes: []func(in *Inputs){grown, growthRefused}, want: v1alpha1.PhaseRunning},
		"Orphaned":               {reason: "R6: an orphan holds nothing back.", changes: []func(in *Inputs){orphaned}, want: v1alpha1.PhaseRunning},
		"SeveralServers":         {reason: "R5: all servers are Ready.", changes: []func(in *Inputs){severalServers}, want: v1alpha1.PhaseRunning},
		"OneOfTwoDown":           {reason: "A server is missing.", changes: []func(in *Inputs){severalServers, func(in *Inputs) { in.Rollout.Ready = 1; in.Pods[1] = waiting("ds-1", "CrashLoopBackOff") }}, want: v1alpha1.PhaseDegraded},
		"OneOfTwoStarting":       {reason: "A server that starts for the first time is on its way, not missing.", changes: []func(in *Inputs){severalServers, func(in *Inputs) { in.Rollout.Ready = 1; in.Pods[1] = waiting("ds-1", "ContainerCreating") }}, want: v1alpha1.PhaseRunning},
		"OneOfTwoUnready":        {reason: "A server that has started and is not Ready is missing.", changes: []func(in *Inputs){severalServers, func(in *Inputs) { in.Rollout.Ready = 1; in.Pods[1] = pod("ds-1", false) }}, want: v1alpha1.PhaseDegraded},
		"ScalingNotYetSeen":      {reason: "R31: old counts do not make a service degraded.", changes: []func(in *Inputs){severalServers, func(in *Inputs) { in.Rollout.Current = false; in.Rollout.Ready = 1 }}, want: v1alpha1.PhaseRunning},
		"ScaledUpAndStatusStale": {reason: "The one server that serves is enough to be running while the second is made.", changes: []func(in *Inputs){func(in *Inputs) { in.Spec.Replicas = ptr.To[int32](2) }}, want: v1alpha1.PhaseRunning},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Of(inputs(tc.changes...)).Status.Phase; got != tc.want {
				t.Errorf("\n%s\nphase: want %s, got %s", tc.reason, tc.want, got)
			}
		})
	}
}

// Available says whether a client can use the service now: whatever else is bad.
func TestAvailable(t *testing.T) {
	deleting := pod("ds-0", true)
	deleting.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(0, 0)))

	cases := map[string]struct {
		reason  string
		changes []func(in *Inputs)
		want    bool
	}{
		"OneReady":            {reason: "One server serves.", want: true},
		"NoneReady":           {reason: "Nobody serves.", changes: []func(in *Inputs){down}},
		"Blocked":             {reason: "R28: a refused change stops no client.", changes: []func(in *Inputs){blocked, shrunk, orphaned}, want: true},
		"Invalid":             {reason: "An invalid spec stops no client.", changes: []func(in *Inputs){invalid}, want: true},
		"FirstOfTwoReady":     {reason: "R5: clients reach the first server, and it is Ready.", changes: []func(in *Inputs){severalServers, func(in *Inputs) { in.Rollout.Ready = 1; in.Pods[1] = pod("ds-1", false) }}, want: true},
		"FirstOfTwoDown":      {reason: "R5: clients reach the first server alone, and it is down.", changes: []func(in *Inputs){severalServers, func(in *Inputs) { in.Rollout.Ready = 1; in.Pods[0] = pod("ds-0", false) }}},
		"FirstOfTwoGone":      {reason: "R5: the first server does not even exist.", changes: []func(in *Inputs){severalServers, func(in *Inputs) { in.Rollout.Ready = 1; in.Pods = in.Pods[1:] }}},
		"FirstOfTwoDeleted":   {reason: "R5: a server that is being deleted serves nobody any more.", changes: []func(in *Inputs){severalServers, func(in *Inputs) { in.Pods[0] = deleting }}},
		"PodsNotLookedUp":     {reason: "Before the pods were looked up the StatefulSet's counts must do.", changes: []func(in *Inputs){severalServers, func(in *Inputs) { in.Pods, in.PodsArrived = nil, false }}, want: true},
		"NothingExists":       {reason: "Nobody serves yet.", changes: []func(in *Inputs){firstInstall}},
		"ReplicatedFirstDown": {reason: "Where clients reach every server, any will do.", changes: []func(in *Inputs){severalServers, func(in *Inputs) { in.FirstServerOnly = false; in.Rollout.Ready = 1; in.Pods[0] = pod("ds-0", false) }}, want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := Of(inputs(tc.changes...))
			if r.Available != tc.want {
				t.Errorf("\n%s\nAvailable: want %t, got %t", tc.reason, tc.want, r.Available)
			}
			want := metav1.ConditionFalse
			if tc.want {
				want = metav1.ConditionTrue
			}
			if c := condition(t, r, TypeAvailable); c.Status != want {
				t.Errorf("\n%s\nthe condition Available: want %s, got %s", tc.reason, want, c.Status)
			}
		})
	}
}

// Steady says that nothing changes by itself, so that Crossplane need not ask soon.
func TestSteady(t *testing.T) {
	cases := map[string]struct {
		reason  string
		changes []func(in *Inputs)
		want    bool
	}{
		"Running":             {reason: "Every server is Ready.", want: true},
		"Blocked":             {reason: "A refused change waits for a person.", changes: []func(in *Inputs){blocked, shrunk, orphaned, invalid}, want: true},
		"BlockedFirstInstall": {reason: "So does a service that cannot begin.", changes: []func(in *Inputs){firstInstall, blocked}, want: true},
		"FirstInstall":        {reason: "Servers are about to be made.", changes: []func(in *Inputs){firstInstall}},
		"Down":                {reason: "A server is to come back.", changes: []func(in *Inputs){down}},
		"OneOfTwoReady":       {reason: "The second server is to come.", changes: []func(in *Inputs){severalServers, func(in *Inputs) { in.Rollout.Ready = 1 }}},
		"OneOfTwoUpdated":     {reason: "The pods are being replaced.", changes: []func(in *Inputs){severalServers, func(in *Inputs) { in.Rollout.Updated = 1 }}},
		"OneTooMany":          {reason: "A server is on its way out.", changes: []func(in *Inputs){severalServers, func(in *Inputs) { in.Rollout.Wanted = 1 }}},
		"NotYetSeen":          {reason: "R31: old counts say nothing.", changes: []func(in *Inputs){func(in *Inputs) { in.Rollout.Current = false }}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Of(inputs(tc.changes...)).Steady; got != tc.want {
				t.Errorf("\n%s\nSteady: want %t, got %t", tc.reason, tc.want, got)
			}
		})
	}
}

func condition(t *testing.T, r Report, kind string) Condition {
	t.Helper()
	for _, c := range r.Conditions {
		if c.Type == kind {
			return c
		}
	}
	t.Fatalf("the report has no condition %s", kind)
	return Condition{}
}

// R34: no message moves by itself. The same facts with other counts, ages and
// restarts give the same conditions.
func TestMessagesStandStill(t *testing.T) {
	count := regexp.MustCompile(`\b[0-9]+ (of|out of|replicas?|pods?|servers?|times?|seconds?|minutes?)\b`)
	all := map[string]func(in *Inputs){
		"FirstInstall": firstInstall, "Invalid": invalid, "SecretMissing": secretMissing, "KeyMissing": keyMissing,
		"Blocked": blocked, "Shrunk": shrunk, "OtherClass": otherClass, "Grown": grown, "GrowFailed": func(in *Inputs) { grown(in); growthRefused(in) }, "Orphaned": orphaned,
		"SeveralServers": severalServers, "Down": down,
	}
	for name, change := range all {
		t.Run(name, func(t *testing.T) {
			later := func(in *Inputs) {
				in.Generation++
				for i := range in.Pods {
					in.Pods[i].CreationTimestamp = metav1.NewTime(time.Unix(int64(i), 0))
					in.Pods[i].Generation++
					for j := range in.Pods[i].Status.ContainerStatuses {
						in.Pods[i].Status.ContainerStatuses[j].RestartCount += 5
					}
					for j := range in.Pods[i].Status.Conditions {
						in.Pods[i].Status.Conditions[j].LastTransitionTime = metav1.NewTime(time.Unix(1, 0))
					}
				}
			}
			now := Of(inputs(change)).Conditions
			if diff := cmp.Diff(now, Of(inputs(change, later)).Conditions, cmp.AllowUnexported(Condition{})); diff != "" {
				t.Errorf("a condition moves by itself: -before, +later:\n%s", diff)
			}
			for _, c := range now {
				if s := count.FindString(c.Message); s != "" {
					t.Errorf("the message of %s counts (%q): %s", c.Type, s, c.Message)
				}
			}
		})
	}
}

// R16, R42: why a server is not Ready, in the words of the agent, which knows more than
// Kubernetes does.
func TestServers(t *testing.T) {
	refused := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: `{"reason":"VersionMismatch","message":"the image has 3.1.2"}`}}
	cases := map[string]struct {
		reason string
		change func(in *Inputs)
		want   v1alpha1.ServerStatus
		words  string
	}{
		"Ready":    {reason: "What runs.", change: func(in *Inputs) { in.Servers[0].Report.Version = "3.1.0" }, want: v1alpha1.ServerStatus{Pod: "ds-0", Version: "3.1.0", Ready: true}},
		"NoReport": {reason: "Nobody knows.", change: func(in *Inputs) { in.Servers[0].Report = nil }, want: v1alpha1.ServerStatus{Pod: "ds-0", Ready: true}},
		"NotReady": {reason: "The agent's reason.", change: func(in *Inputs) { in.Servers[0].Report.Message = "the server is starting" }, want: v1alpha1.ServerStatus{Pod: "ds-0", Message: "the server is starting"}, words: "pod ds-0: NotReady: the server is starting"},
		"Refused": {reason: "Its refusal.", change: func(in *Inputs) {
			in.Pods[0].Status.ContainerStatuses = []corev1.ContainerStatus{{LastTerminationState: refused}}
		}, want: v1alpha1.ServerStatus{Pod: "ds-0", Message: "VersionMismatch: the image has 3.1.2"}, words: "pod ds-0: VersionMismatch: the image has 3.1.2"},
		"Terminating": {reason: "What Kubernetes knows better.", change: func(in *Inputs) {
			in.Pods[0].DeletionTimestamp = &metav1.Time{}
			in.Servers[0].Report.Message = "the server is stopping"
		}, want: v1alpha1.ServerStatus{Pod: "ds-0", Message: "the server is stopping"}, words: "pod ds-0: Terminating"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := inputs(func(in *Inputs) {
				if name != "Ready" && name != "NoReport" {
					in.Pods[0], in.Servers[0].Ready, in.Rollout.Ready = pod("ds-0", false), false, 0
				}
				tc.change(in)
			})
			r := Of(in)
			if diff := cmp.Diff([]v1alpha1.ServerStatus{tc.want}, r.Status.Servers); diff != "" {
				t.Errorf("\n%s\nservers: -want, +got:\n%s", tc.reason, diff)
			}
			for _, c := range r.Conditions {
				if c.Type == TypeAvailable && !strings.Contains(c.Message, tc.words) {
					t.Errorf("\n%s\nAvailable lacks %q: %s", tc.reason, tc.words, c.Message)
				}
			}
		})
	}
}
