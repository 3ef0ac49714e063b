package compose

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// agentImage has the agent.
const agentImage = "function:1"

// inputs of a healthy service, changed.
func inputs(change func(in *Inputs)) Inputs {
	in := Inputs{
		Identity: naming.Identity{Name: "ds", Namespace: "team"},
		Spec:     &v1alpha1.DirectoryServiceSpec{},
		Decision: upgrade.Decision{
			Run:    &upgrade.Release{Version: "3.1.0", Image: "dirsrv:3.1.0"},
			Ledger: upgrade.Ledger{Good: &upgrade.Release{Version: "3.1.0", Image: "dirsrv:3.1.0"}},
		},
		Config:     config.Config{Suffixes: []config.Suffix{{Name: "userroot", DN: "dc=example,dc=com", CreateEntry: true}}},
		DMPassword: DMPassword{Usable: true, Keep: generated("the password")},
		TLS:        TLS{Secret: "ds-tls", Usable: true},
		Available:  true,
		Random:     strings.NewReader(strings.Repeat("random bytes for the tests ", 10)),
	}
	if change != nil {
		change(&in)
	}
	in.Spec.Default()
	in.DMPassword.Ref = in.Identity.DMPassword(in.Spec)
	var annotations map[string]string
	if in.StatefulSet != nil {
		annotations = in.StatefulSet.GetAnnotations()
	}
	in.Templates = mustTemplates(in, annotations)
	return in
}

// mustTemplates of a service; annotations are those of its StatefulSet.
func mustTemplates(in Inputs, annotations map[string]string) *Templates {
	pod := PodInputs{Identity: in.Identity, Spec: in.Spec, Own: in.Spec.PodSettings, Password: in.DMPassword.Ref, TLS: in.TLS.Secret, AgentImage: agentImage}
	if in.Decision.Run != nil {
		pod.Target = *in.Decision.Run
	}
	t, err := NewTemplates(pod, annotations)
	if err != nil {
		panic(err)
	}
	return t
}

// generated is a Secret that an earlier call made.
func generated(password string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "ds-dm-password", Namespace: "team", Labels: map[string]string{naming.LabelManagedBy: naming.ValueManagedBy}},
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{"dm-password": []byte(password)},
	}
}

// observe is what the API server keeps of a StatefulSet.
func observe(sts *appsv1.StatefulSet) *appsv1.StatefulSet {
	o := sts.DeepCopy()
	o.SetGeneration(1)
	for i := range o.Spec.VolumeClaimTemplates {
		o.Spec.VolumeClaimTemplates[i].Spec.VolumeMode = ptr.To(corev1.PersistentVolumeFilesystem)
		o.Spec.VolumeClaimTemplates[i].Status.Phase = corev1.ClaimPending
	}
	return o
}

func mustService(t *testing.T, in Inputs) Desired {
	t.Helper()
	d, err := Service(in)
	if err != nil {
		t.Fatalf("Service(): %v", err)
	}
	return d
}

// object is the composed object with that key, as its own type.
func object[T any](t *testing.T, d Desired, key string) T {
	t.Helper()
	o, ok := d[key].Object.(T)
	if !ok {
		t.Fatalf("the composed object %q is a %T", key, d[key].Object)
	}
	return o
}

func set(keys ...string) map[string]struct{} {
	s := make(map[string]struct{}, len(keys))
	for _, k := range keys {
		s[k] = struct{}{}
	}
	return s
}

// always are the objects of every service.
var always = []string{
	naming.KeyConfig, naming.KeyDMPassword, naming.KeyRole, naming.KeyService,
	naming.KeyServiceAccount, naming.KeyServiceInternal, naming.KeyState, naming.KeyStatefulSet,
}

// but those keys.
func but(all []string, keys ...string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(k string) bool { return slices.Contains(keys, k) })
}

// Which objects there are. A composed object that is observed and not returned is
// deleted, so nothing is left out but what the spec turns off.
func TestService(t *testing.T) {
	optional := []string{naming.KeyPodDisruptionBudget, naming.KeyNetworkPolicy, naming.KeyUsage}

	type want struct {
		composed []string
		held     []string
	}
	cases := map[string]struct {
		reason string
		in     Inputs
		want   want
	}{
		"Defaults": {
			reason: "One server, no network policy, no deletion protection.",
			in:     inputs(nil),
			want:   want{composed: always},
		},
		"Everything": {
			reason: "R18, R19, R20: what the spec turns on.",
			in: inputs(func(in *Inputs) {
				in.Spec.Replicas = ptr.To[int32](2)
				in.Spec.NetworkPolicy.Enabled = true
				in.Spec.DeletionProtection = true
			}),
			want: want{composed: append(slices.Clone(always), optional...)},
		},
		"TurnedOff": {
			reason: "R18, R19, R20: what the spec turns off goes; it is all that ever goes.",
			in:     inputs(func(in *Inputs) { in.Observed = set(append(but(always, naming.KeyRole), optional...)...) }),
			want:   want{composed: always},
		},
		"UnknownObserved": {
			reason: "An object of another version of the function is held, whatever it is.",
			in:     inputs(func(in *Inputs) { in.Observed = set("replication", "tls") }),
			want:   want{composed: always, held: []string{"replication", "tls"}},
		},
		"AgentsRole": {
			reason: "R16: the API server refuses a RoleBinding without its Role, so it follows.",
			in:     inputs(func(in *Inputs) { in.Observed = set(naming.KeyRole) }),
			want:   want{composed: append(slices.Clone(always), naming.KeyRoleBinding)},
		},
		"NoCertificateYet": {
			reason: "R52: the servers wait for their certificate.",
			in:     inputs(func(in *Inputs) { in.TLS = TLS{Secret: "mine"} }),
			want:   want{composed: but(always, naming.KeyStatefulSet)},
		},
		"CertificateLost": {
			reason: "R52: servers that exist stay as they are while it is missing.",
			in: inputs(func(in *Inputs) {
				in.TLS = TLS{Secret: "mine"}
				in.Observed = set(naming.KeyStatefulSet)
				in.StatefulSet = &appsv1.StatefulSet{}
			}),
			want: want{composed: but(always, naming.KeyStatefulSet), held: []string{naming.KeyStatefulSet}},
		},
		"NothingMayRun": {
			reason: "R25: without a release that may run no StatefulSet is created; all the rest is.",
			in:     inputs(func(in *Inputs) { in.Decision.Run = nil }),
			want:   want{composed: but(always, naming.KeyStatefulSet)},
		},
		"PasswordLost": {
			reason: "R10: while the Secret is missing what is observed stays as it is.",
			in: inputs(func(in *Inputs) {
				in.Spec.DMPasswordSecretRef = &v1alpha1.SecretKeyRef{Name: "mine"}
				in.DMPassword = DMPassword{}
				in.Observed = set(but(always, naming.KeyRole)...)
			}),
			want: want{
				composed: but(always, naming.KeyDMPassword, naming.KeyStatefulSet),
				held:     []string{naming.KeyDMPassword, naming.KeyStatefulSet},
			},
		},
		"PasswordNotThereYet": {
			reason: "R10: before the first start, the servers wait for the Secret that the spec names.",
			in: inputs(func(in *Inputs) {
				in.Spec.DMPasswordSecretRef = &v1alpha1.SecretKeyRef{Name: "mine"}
				in.DMPassword = DMPassword{}
			}),
			want: want{composed: but(always, naming.KeyDMPassword, naming.KeyStatefulSet)},
		},
		"PasswordNamed": {
			reason: "R10: where the spec names a Secret nothing is generated.",
			in: inputs(func(in *Inputs) {
				in.Spec.DMPasswordSecretRef = &v1alpha1.SecretKeyRef{Name: "mine"}
				in.DMPassword = DMPassword{Usable: true}
			}),
			want: want{composed: but(always, naming.KeyDMPassword)},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := want{}
			for key, o := range mustService(t, tc.in) {
				if o.Object == nil {
					got.held = append(got.held, key)
				} else {
					got.composed = append(got.composed, key)
				}
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(want{}), cmpopts.SortSlices(strings.Compare)); diff != "" {
				t.Errorf("\n%s\nService(): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// Whatever combination is observed and wanted: only the three objects that the
// spec turns off are ever left out.
func TestServiceLeavesNothingOut(t *testing.T) {
	all := append(slices.Clone(always), naming.KeyPodDisruptionBudget, naming.KeyNetworkPolicy, naming.KeyUsage, "unknown")
	flags := []func(in *Inputs){
		func(in *Inputs) { in.Spec.Replicas = ptr.To[int32](3) },
		func(in *Inputs) { in.Spec.NetworkPolicy.Enabled = true },
		func(in *Inputs) { in.Spec.DeletionProtection = true },
		func(in *Inputs) { in.Decision.Run = nil },
		func(in *Inputs) { in.DMPassword = DMPassword{} },
	}
	for bits := range 1 << len(flags) {
		in := inputs(func(in *Inputs) {
			in.Observed = set(all...)
			for i, f := range flags {
				if bits&(1<<i) != 0 {
					f(in)
				}
			}
		})
		off := map[string]bool{
			naming.KeyPodDisruptionBudget: *in.Spec.Replicas == 1,
			naming.KeyNetworkPolicy:       !in.Spec.NetworkPolicy.Enabled,
			naming.KeyUsage:               !in.Spec.DeletionProtection,
		}
		d := mustService(t, in)
		for _, key := range all {
			if _, kept := d[key]; kept == off[key] {
				t.Errorf("flags %05b: %q is returned: %t, turned off: %t", bits, key, kept, off[key])
			}
		}
	}
}

func TestHold(t *testing.T) {
	cases := map[string]struct {
		reason   string
		observed map[string]struct{}
		want     Desired
	}{
		"Nothing": {reason: "Nothing is created.", want: Desired{}},
		"Everything": {
			reason:   "Every observed object is returned as it is, also the ones that a spec can turn off.",
			observed: set("statefulset", "usage", "poddisruptionbudget", "networkpolicy", "unknown"),
			want:     Desired{"statefulset": Held(), "usage": Held(), "poddisruptionbudget": Held(), "networkpolicy": Held(), "unknown": Held()},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Hold(tc.observed)); diff != "" {
				t.Errorf("\n%s\nHold(): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// Only the StatefulSet tells whether the service works.
func TestReadiness(t *testing.T) {
	cases := map[string]struct {
		reason    string
		available bool
		want      []string
	}{
		"Available":   {reason: "A client can use the service: everything is Ready.", available: true},
		"Unavailable": {reason: "No client can use the service: the StatefulSet is not Ready.", want: []string{naming.KeyStatefulSet}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for key, o := range mustService(t, inputs(func(in *Inputs) { in.Available = tc.available })) {
				if o.NotReady {
					got = append(got, key)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("\n%s\nnot Ready: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// R15: the labels of every object, and of the pods. The pods' have no version: one
// that becomes known later would restart them.
func TestLabels(t *testing.T) {
	base := map[string]string{
		"app.kubernetes.io/name":       "389-directory-server",
		"app.kubernetes.io/instance":   "ds",
		"app.kubernetes.io/component":  "server",
		"app.kubernetes.io/part-of":    "directoryservice",
		"app.kubernetes.io/managed-by": "function-directoryservice",
	}
	with := func(version string) map[string]string {
		l := maps.Clone(base)
		l["app.kubernetes.io/version"] = version
		return l
	}
	cases := map[string]struct {
		reason  string
		version string
		want    map[string]string
	}{
		"Version":            {reason: "The six recommended labels.", version: "3.1.0", want: with("3.1.0")},
		"Unversioned":        {reason: "An unknown version has no label.", want: base},
		"EndsWithDash":       {reason: "A semantic version that is no label's value would have every object refused, so it is left out.", version: "3.1.0-rc-", want: base},
		"LongerThanALabel":   {reason: "A tag may be longer than a label's value.", version: "3.1.0-" + strings.Repeat("a", 80), want: base},
		"LongestOfTheSchema": {reason: "63 characters fit.", version: "3.1.0-" + strings.Repeat("a", 57), want: with("3.1.0-" + strings.Repeat("a", 57))},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := mustService(t, inputs(func(in *Inputs) {
				in.Decision.Run.Version = tc.version
				in.Spec.Replicas = ptr.To[int32](2)
				in.Spec.NetworkPolicy.Enabled = true
				in.Spec.DeletionProtection = true
			}))
			objects := map[string]map[string]string{
				"pod": object[*appsv1.StatefulSet](t, d, naming.KeyStatefulSet).Spec.Template.GetLabels(),
			}
			for key, o := range d {
				m, ok := o.Object.(metav1.Object)
				if !ok {
					t.Fatalf("the composed object %q is a %T", key, o.Object)
				}
				objects[key] = m.GetLabels()
				if m.GetNamespace() != "team" {
					t.Errorf("%q is in the namespace %q", key, m.GetNamespace())
				}
			}
			for key, labels := range objects {
				for k, v := range labels {
					if errs := validation.IsValidLabelValue(v); len(errs) > 0 {
						t.Errorf("\n%s\nthe label %s=%s of %q would be refused: %v", tc.reason, k, v, key, errs)
					}
				}
				want := tc.want
				if key == "pod" {
					want = base
				}
				if diff := cmp.Diff(want, labels); diff != "" {
					t.Errorf("\n%s\nlabels of %q: -want, +got:\n%s", tc.reason, key, diff)
				}
			}
		})
	}
}

// R34: equal inputs give equal objects.
func TestServiceIsDeterministic(t *testing.T) {
	compose := func() []byte {
		in := inputs(func(in *Inputs) {
			in.DMPassword = DMPassword{Generate: true}
			in.Spec.PodLabels = map[string]string{"a": "1", "b": "2", "c": "3"}
			in.Spec.NodeSelector = map[string]string{"d": "1", "e": "2", "f": "3"}
		})
		b, err := json.Marshal(mustService(t, in))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	first := compose()
	for range 20 {
		if again := compose(); !bytes.Equal(first, again) {
			t.Fatalf("another call, other objects: -first, +second:\n%s", cmp.Diff(string(first), string(again)))
		}
	}
}
