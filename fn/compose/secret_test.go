package compose

import (
	"bytes"
	"crypto/rand"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
)

// R9: made once, and from then on returned as observed, key by key.
func TestDMPassword(t *testing.T) {
	const made = "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB" // of the bytes 1
	random := bytes.Repeat([]byte{1}, passwordLength)

	more := generated("the password")
	more.Data["added-by-hand"] = []byte("x")
	emptied := generated("")
	emptied.Data["other"] = []byte("x")
	typed := generated("the password")
	typed.Type = "example.org/password"

	cases := map[string]struct {
		reason   string
		ref      *v1alpha1.SecretKeyRef
		password DMPassword
		want     map[string][]byte
		wantType corev1.SecretType
	}{
		"First": {
			reason:   "None exists: one is generated.",
			password: DMPassword{Generate: true},
			want:     map[string][]byte{"dm-password": []byte(made)},
		},
		"Next": {
			reason:   "It exists: it is kept.",
			password: DMPassword{Usable: true, Keep: generated("the password")},
			want:     map[string][]byte{"dm-password": []byte("the password")},
		},
		"OtherKeys": {
			reason:   "Every key is kept.",
			password: DMPassword{Usable: true, Keep: more},
			want:     map[string][]byte{"dm-password": []byte("the password"), "added-by-hand": []byte("x")},
		},
		"KeyLost": {
			reason:   "A key without a value is made anew, the others are kept.",
			password: DMPassword{Generate: true, Keep: emptied},
			want:     map[string][]byte{"dm-password": []byte(made), "other": []byte("x")},
		},
		"Type": {
			reason:   "A Secret's type cannot change.",
			password: DMPassword{Usable: true, Keep: typed},
			want:     map[string][]byte{"dm-password": []byte("the password")},
			wantType: "example.org/password",
		},
		"NamedLater": {
			reason:   "R10: the generated password outlives a spec that names another Secret.",
			ref:      &v1alpha1.SecretKeyRef{Name: "mine"},
			password: DMPassword{Usable: true, Keep: generated("the password")},
			want:     map[string][]byte{"dm-password": []byte("the password")},
		},
		"NotLookedUp": {
			reason:   "Nothing is generated while nobody has looked whether there is one.",
			password: DMPassword{},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := mustService(t, inputs(func(in *Inputs) {
				in.Spec.DMPasswordSecretRef = tc.ref
				in.DMPassword = tc.password
				in.Random = bytes.NewReader(random)
			}))
			if tc.want == nil {
				if o, ok := d["dm-password"]; ok {
					t.Errorf("\n%s\nwant no Secret, got %v", tc.reason, o)
				}
				return
			}
			got := object[*corev1.Secret](t, d, "dm-password")
			if diff := cmp.Diff(tc.want, got.Data); diff != "" {
				t.Errorf("\n%s\ndata: -want, +got:\n%s", tc.reason, diff)
			}
			if tc.wantType == "" {
				tc.wantType = corev1.SecretTypeOpaque
			}
			if diff := cmp.Diff(tc.wantType, got.Type); diff != "" {
				t.Errorf("\n%s\ntype: -want, +got:\n%s", tc.reason, diff)
			}
			// A mistaken rewrite is refused by the API server.
			if diff := cmp.Diff(ptr.To(true), got.Immutable); diff != "" {
				t.Errorf("\n%s\nimmutable: -want, +got:\n%s", tc.reason, diff)
			}
			if got.GetName() != "ds-dm-password" {
				t.Errorf("\n%s\nthe name is %q", tc.reason, got.GetName())
			}
		})
	}
}

// S3: neither Argo CD nor Flux prunes a generated Secret.
func TestDMPasswordIsNotPruned(t *testing.T) {
	got := object[*corev1.Secret](t, mustService(t, inputs(nil)), "dm-password")
	want := map[string]string{
		"argocd.argoproj.io/compare-options": "IgnoreExtraneous",
		"argocd.argoproj.io/sync-options":    "Prune=false,Delete=false",
		"kustomize.toolkit.fluxcd.io/prune":  "disabled",
	}
	if diff := cmp.Diff(want, got.GetAnnotations()); diff != "" {
		t.Errorf("annotations: -want, +got:\n%s", diff)
	}
}

// R20: a service that is applied again before garbage collection has taken the old
// Secret keeps it: the dead XR is no longer its controller, and every other owner
// is left to the API server.
func TestDMPasswordOwners(t *testing.T) {
	ref := func(uid types.UID, controller *bool) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "example.org/v1", Kind: "XR", Name: "x", UID: uid, Controller: controller, BlockOwnerDeletion: ptr.To(true)}
	}
	demoted := ref("old", ptr.To(false))
	demoted.BlockOwnerDeletion = nil

	cases := map[string]struct {
		reason string
		owners []metav1.OwnerReference
		want   []metav1.OwnerReference
	}{
		"None":        {reason: "Crossplane adds its own."},
		"Ours":        {reason: "Crossplane's own reference to this XR is its own to keep.", owners: []metav1.OwnerReference{ref("new", ptr.To(true))}},
		"DeadXR":      {reason: "Two controllers would be refused.", owners: []metav1.OwnerReference{ref("old", ptr.To(true))}, want: []metav1.OwnerReference{demoted}},
		"Both":        {reason: "Only the other one is demoted.", owners: []metav1.OwnerReference{ref("new", ptr.To(true)), ref("old", ptr.To(true))}, want: []metav1.OwnerReference{demoted}},
		"PlainOwners": {reason: "An owner that is no controller disturbs nobody.", owners: []metav1.OwnerReference{ref("other", nil), ref("another", ptr.To(false))}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			keep := generated("the password")
			keep.OwnerReferences = tc.owners
			d := mustService(t, inputs(func(in *Inputs) {
				in.Owner = "new"
				in.DMPassword.Keep = keep
			}))
			got := object[*corev1.Secret](t, d, "dm-password").GetOwnerReferences()
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("\n%s\nowners: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// R9: the Secret is not even changed in memory, where the response still refers to it.
func TestDMPasswordLeavesTheObservedAlone(t *testing.T) {
	keep := generated("")
	mustService(t, inputs(func(in *Inputs) { in.DMPassword = DMPassword{Generate: true, Keep: keep} }))
	if diff := cmp.Diff(generated(""), keep); diff != "" {
		t.Errorf("the observed Secret was changed: -before, +after:\n%s", diff)
	}
}

func TestPassword(t *testing.T) {
	form := regexp.MustCompile(`^[A-Za-z0-9]{32}$`)
	seen := map[string]bool{}
	for range 100 {
		p, err := password(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if !form.Match(p) {
			t.Fatal("a password has another form than 32 letters and digits")
		}
		if seen[string(p)] {
			t.Fatal("a password came twice")
		}
		seen[string(p)] = true
	}

	// Every character is as likely as any other: all bytes once give each the
	// same number of times.
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	counts := map[rune]int{}
	source := bytes.NewReader(all)
	for source.Len() >= passwordLength {
		p, err := password(source)
		if err != nil {
			break
		}
		for _, c := range string(p) {
			counts[c]++
		}
	}
	for _, c := range passwordChars {
		// 248 usable bytes make 7 passwords of 32 and leave 24 over.
		if counts[c] < 3 || counts[c] > 4 {
			t.Errorf("the character %c came %d times of 4", c, counts[c])
		}
	}
}

// Without chance there is no password, and no other one is made up.
func TestPasswordWithoutRandomness(t *testing.T) {
	_, err := Service(inputs(func(in *Inputs) {
		in.DMPassword = DMPassword{Generate: true}
		in.Random = strings.NewReader("too short")
	}))
	if err == nil || !strings.Contains(err.Error(), "cannot generate a password") {
		t.Errorf("want an error that no password can be generated, got %v", err)
	}
}
