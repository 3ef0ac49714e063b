package resize

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crossplane/function-sdk-go/logging"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/389ds/function-directoryservice/fn/retry"
)

const (
	zero = "ds-data-ds-0"
	one  = "ds-data-ds-1"
)

// claim of that size.
func claim(name, size string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team", UID: "uid", ResourceVersion: "7"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
		},
	}
}

// A refusal is what the API server answers instead of doing as it is told.
type refusal struct {
	verb string
	// claim that it is about; "" means any.
	claim string
	err   error
	// times that it is refused; 0 means always.
	times int
	// then is how large the claim has become meanwhile.
	then string
}

func (r refusal) install(t *testing.T, client *fake.Clientset) {
	t.Helper()
	n := 0
	client.PrependReactor(r.verb, "persistentvolumeclaims", func(a clienttesting.Action) (bool, runtime.Object, error) {
		name := a.(interface{ GetName() string }).GetName()
		if r.claim != "" && r.claim != name {
			return false, nil, nil
		}
		if n++; r.times > 0 && n > r.times {
			return false, nil, nil
		}
		if r.then != "" {
			if err := client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), claim(name, r.then), "team"); err != nil {
				t.Error(err)
			}
		}
		return true, nil, r.err
	})
}

// R7: each claim gets the size, and none ever less than it has.
func TestGrow(t *testing.T) {
	claims := schema.GroupResource{Resource: "persistentvolumeclaims"}
	forbidden := apierrors.NewForbidden(claims, zero, errors.New("only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"))
	conflict := apierrors.NewConflict(claims, zero, errors.New("the object has been modified"))
	gone := apierrors.NewNotFound(claims, zero)
	refused := &url.Error{Op: "Get", URL: "https://10.96.0.1:443", Err: syscall.ECONNREFUSED}
	grown := `{"metadata":{"resourceVersion":"7","uid":"uid"},"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`

	type want struct {
		sizes   map[string]string
		patches []string
		err     string
	}
	cases := map[string]struct {
		reason   string
		claims   []*corev1.PersistentVolumeClaim
		refusals []refusal
		want     want
	}{
		"Grown": {
			reason: "All of them, and of each exactly what was looked at.",
			claims: []*corev1.PersistentVolumeClaim{claim(zero, "1Gi"), claim(one, "1Gi")},
			want:   want{sizes: map[string]string{zero: "2Gi", one: "2Gi"}, patches: []string{grown, grown}},
		},
		"LargeEnough": {
			reason: "Whoever has more keeps it.",
			claims: []*corev1.PersistentVolumeClaim{claim(zero, "3Gi"), claim(one, "2048Mi")},
			want:   want{sizes: map[string]string{zero: "3Gi", one: "2Gi"}},
		},
		"Gone": {
			reason: "A claim that somebody deleted needs nothing.",
			claims: []*corev1.PersistentVolumeClaim{claim(one, "1Gi")},
			want:   want{sizes: map[string]string{one: "2Gi"}, patches: []string{grown}},
		},
		"GoneMeanwhile": {
			reason:   "Nor does one that somebody deleted between look and change.",
			claims:   []*corev1.PersistentVolumeClaim{claim(zero, "1Gi"), claim(one, "2Gi")},
			refusals: []refusal{{verb: "patch", err: gone}},
			want:     want{sizes: map[string]string{zero: "1Gi", one: "2Gi"}, patches: []string{grown}},
		},
		"GrownMeanwhile": {
			reason:   "What somebody made larger between look and change is not made smaller again.",
			claims:   []*corev1.PersistentVolumeClaim{claim(zero, "1Gi"), claim(one, "2Gi")},
			refusals: []refusal{{verb: "patch", err: conflict, times: 1, then: "5Gi"}},
			want:     want{sizes: map[string]string{zero: "5Gi", one: "2Gi"}, patches: []string{grown}},
		},
		"Refused": {
			reason:   "What the API server says, without a word of what was tried; the others are grown nevertheless.",
			claims:   []*corev1.PersistentVolumeClaim{claim(zero, "1Gi"), claim(one, "1Gi")},
			refusals: []refusal{{verb: "patch", claim: zero, err: forbidden}},
			want: want{
				sizes: map[string]string{zero: "1Gi", one: "2Gi"},
				err:   "cannot grow ds-data-ds-0: " + forbidden.Error(),
			},
		},
		"BothRefused": {
			reason:   "The words of one, and the names of all.",
			claims:   []*corev1.PersistentVolumeClaim{claim(zero, "1Gi"), claim(one, "1Gi")},
			refusals: []refusal{{verb: "patch", err: forbidden}},
			want: want{
				sizes: map[string]string{zero: "1Gi", one: "1Gi"},
				err:   "cannot grow ds-data-ds-0, ds-data-ds-1: " + forbidden.Error(),
			},
		},
		"NotGrantedYet": {
			reason:   "The RoleBinding may come a moment later than the Job.",
			claims:   []*corev1.PersistentVolumeClaim{claim(zero, "1Gi"), claim(one, "2Gi")},
			refusals: []refusal{{verb: "get", err: forbidden, times: 3}},
			want:     want{sizes: map[string]string{zero: "2Gi", one: "2Gi"}, patches: []string{grown}},
		},
		"NotThereYet": {
			reason:   "A pod's network may be later than its program.",
			claims:   []*corev1.PersistentVolumeClaim{claim(zero, "1Gi"), claim(one, "2Gi")},
			refusals: []refusal{{verb: "get", err: refused, times: 5}},
			want:     want{sizes: map[string]string{zero: "2Gi", one: "2Gi"}, patches: []string{grown}},
		},
		"NeverThere": {
			reason:   "R34: an error of the network has other words each time, and a condition quotes them.",
			claims:   []*corev1.PersistentVolumeClaim{claim(zero, "1Gi"), claim(one, "1Gi")},
			refusals: []refusal{{verb: "get", err: refused}},
			want: want{
				sizes: map[string]string{zero: "1Gi", one: "1Gi"},
				err:   "cannot grow ds-data-ds-0, ds-data-ds-1: no answer from the API server: the log says more",
			},
		},
		"Trouble": {
			reason:   "The last answer counts, and not that time ran out.",
			claims:   []*corev1.PersistentVolumeClaim{claim(zero, "1Gi"), claim(one, "2Gi")},
			refusals: []refusal{{verb: "patch", err: apierrors.NewInternalError(errors.New("etcd is away"))}},
			want: want{
				sizes: map[string]string{zero: "1Gi", one: "2Gi"},
				err:   "cannot grow ds-data-ds-0: Internal error occurred: etcd is away",
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			// Without a bubble's clock the waiting would take minutes.
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset()
				for _, c := range tc.claims {
					if err := client.Tracker().Add(c); err != nil {
						t.Fatal(err)
					}
				}
				for _, r := range tc.refusals {
					r.install(t, client)
				}
				start := time.Now()
				err := Grow(t.Context(), client.CoreV1().PersistentVolumeClaims("team"), []string{zero, one}, resource.MustParse("2Gi"), logging.NewNopLogger())
				said := ""
				if err != nil {
					said = err.Error()
				}
				if diff := cmp.Diff(tc.want.err, said); diff != "" {
					t.Errorf("\n%s\nerror: -want, +got:\n%s", tc.reason, diff)
				}
				if d := time.Since(start); d > retry.Patience {
					t.Errorf("\n%s\nit took %s", tc.reason, d)
				}

				var patches []string
				for _, a := range client.Actions() {
					if p, ok := a.(clienttesting.PatchAction); ok {
						patches = append(patches, string(p.GetPatch()))
					}
				}
				// A refusal is tried again, however often.
				if tc.want.err == "" {
					if diff := cmp.Diff(tc.want.patches, patches); diff != "" {
						t.Errorf("\n%s\npatches: -want, +got:\n%s", tc.reason, diff)
					}
				}
				got := map[string]string{}
				list, err := client.CoreV1().PersistentVolumeClaims("team").List(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range list.Items {
					got[c.GetName()] = c.Spec.Resources.Requests.Storage().String()
					if !slices.Equal(c.Spec.AccessModes, claim(zero, "1Gi").Spec.AccessModes) {
						t.Errorf("\n%s\n%s has other access modes: %v", tc.reason, c.GetName(), c.Spec.AccessModes)
					}
				}
				if diff := cmp.Diff(tc.want.sizes, got, cmp.Comparer(sameSize)); diff != "" {
					t.Errorf("\n%s\nsizes: -want, +got:\n%s", tc.reason, diff)
				}
			})
		})
	}
}

func sameSize(a, b string) bool {
	x, y := resource.MustParse(a), resource.MustParse(b)
	return x.Cmp(y) == 0
}

// R7: a Job that is deleted ends, although it waits.
func TestGrowCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(claim(zero, "1Gi"))
		refusal{verb: "get", err: apierrors.NewInternalError(errors.New("no"))}.install(t, client)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		err := Grow(ctx, client.CoreV1().PersistentVolumeClaims("team"), []string{zero, one}, resource.MustParse("2Gi"), logging.NewNopLogger())
		if err == nil || !strings.Contains(err.Error(), zero) {
			t.Errorf("want an error that names the claim, got %v", err)
		}
		if d := time.Since(start); d != time.Minute {
			t.Errorf("it took %s", d)
		}
	})
}
