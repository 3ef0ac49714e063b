package status

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// R7: volumes grow, never shrink, and never change their class.
func TestStorageReady(t *testing.T) {
	size := func(s string) func(in *Inputs) {
		return func(in *Inputs) { in.Spec.Storage.Size = ptr.To(resource.MustParse(s)) }
	}
	class := func(wanted, have *string) func(in *Inputs) {
		return func(in *Inputs) {
			in.Spec.Storage.StorageClassName = wanted
			in.Template.Spec.StorageClassName = have
		}
	}
	claims := func(sizes ...string) func(in *Inputs) {
		return func(in *Inputs) {
			in.Claims = nil
			for i, s := range sizes {
				in.Claims = append(in.Claims, *claim(in.Identity.Claim(int32(i)), s))
			}
		}
	}
	cases := map[string]struct {
		reason  string
		changes []func(in *Inputs)
		status  metav1.ConditionStatus
		want    string
		blocks  bool
		words   []string
	}{
		"Ready": {
			reason: "Every volume is there and as large as wanted.",
			status: metav1.ConditionTrue, want: "Ready",
		},
		"OtherNotation": {
			reason:  "1024Mi are 1Gi.",
			changes: []func(in *Inputs){size("1024Mi")},
			status:  metav1.ConditionTrue, want: "Ready",
		},
		"GrownByHand": {
			reason:  "The claims were grown; that the template cannot is no matter.",
			changes: []func(in *Inputs){size("5Gi"), claims("5Gi")},
			status:  metav1.ConditionTrue, want: "Ready",
		},
		"GrowByHand": {
			reason:  "The claims that are too small, and the command that grows them.",
			changes: []func(in *Inputs){size("5Gi"), claims("5Gi", "1Gi", "2Gi"), noAgentImage},
			status:  metav1.ConditionFalse, want: "GrowByHand",
			words: []string{"spec.storage.size", `kubectl -n team patch pvc ds-data-ds-1 ds-data-ds-2 -p '{"spec":{"resources":{"requests":{"storage":"5Gi"}}}}'`},
		},
		"BelowTheTemplate": {
			reason:  "A new server's volume would be larger than the spec says.",
			changes: []func(in *Inputs){size("512Mi")},
			status:  metav1.ConditionFalse, want: "ShrinkRefused", blocks: true,
			words: []string{"spec.storage.size", "512Mi", "claim template", "1Gi or more"},
		},
		"BelowAClaim": {
			reason:  "A claim that was grown cannot shrink, although the template is small.",
			changes: []func(in *Inputs){size("2Gi"), claims("1Gi", "3Gi")},
			status:  metav1.ConditionFalse, want: "ShrinkRefused", blocks: true,
			words: []string{"spec.storage.size", "ds-data-ds-1", "3Gi or more"},
		},
		"BelowAClaimLeftBehind": {
			reason:  "R20: a service recreated over its volumes finds them as large as they were.",
			changes: []func(in *Inputs){claims("3Gi"), func(in *Inputs) { in.Template = nil }},
			status:  metav1.ConditionFalse, want: "ShrinkRefused", blocks: true,
			words: []string{"spec.storage.size", "ds-data-ds-0", "3Gi or more"},
		},
		"SameClass": {
			reason:  "The class that the volumes have.",
			changes: []func(in *Inputs){class(ptr.To("fast"), ptr.To("fast"))},
			status:  metav1.ConditionTrue, want: "Ready",
		},
		"ClassFromTheDefault": {
			reason:  "No class in the spec asks for no other one.",
			changes: []func(in *Inputs){class(nil, ptr.To("fast"))},
			status:  metav1.ConditionTrue, want: "Ready",
		},
		"OtherClass": {
			reason:  "Another class.",
			changes: []func(in *Inputs){class(ptr.To("fast"), ptr.To("slow"))},
			status:  metav1.ConditionFalse, want: "StorageClassImmutable", blocks: true,
			words: []string{"spec.storage.storageClassName", `"slow"`, `set it back to "slow"`},
		},
		"ClassAdded": {
			reason:  "A class where there was the cluster's default.",
			changes: []func(in *Inputs){class(ptr.To("fast"), nil)},
			status:  metav1.ConditionFalse, want: "StorageClassImmutable", blocks: true,
			words: []string{"spec.storage.storageClassName", "default class", "remove it"},
		},
		"NoVolumes": {
			reason:  "Nothing exists yet, which is nobody's fault.",
			changes: []func(in *Inputs){firstInstall},
			status:  metav1.ConditionFalse, want: "NoVolumes",
		},
		"NotLookedUp": {
			reason:  "Nobody has looked yet.",
			changes: []func(in *Inputs){func(in *Inputs) { in.Claims, in.ClaimsArrived = nil, false }},
			status:  metav1.ConditionFalse, want: "NoVolumes",
		},
		"Pending": {
			reason:  "A claim without a volume, and where to look.",
			changes: []func(in *Inputs){func(in *Inputs) { in.Claims[0].Status.Phase = corev1.ClaimPending }},
			status:  metav1.ConditionFalse, want: "VolumePending",
			words: []string{"ds-data-ds-0", "kubectl -n team describe pvc ds-data-ds-0"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := condition(t, Of(inputs(tc.changes...)), TypeStorageReady)
			if c.Status != tc.status || c.Reason != tc.want || c.Blocks != tc.blocks {
				t.Errorf("\n%s\nwant %s %s, blocks %t; got %s %s, blocks %t: %s", tc.reason, tc.status, tc.want, tc.blocks, c.Status, c.Reason, c.Blocks, c.Message)
			}
			for _, w := range tc.words {
				if !strings.Contains(c.Message, w) {
					t.Errorf("\n%s\nthe message lacks %q: %s", tc.reason, w, c.Message)
				}
			}
		})
	}
}
