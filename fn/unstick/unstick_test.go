package unstick

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crossplane/function-sdk-go/logging"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/fn/retry"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

var condemned = upgrade.Condemned{Pod: "ds-1", UID: "uid-1", Revision: "ds-bad"}

// stuck is the condemned pod, changed.
func stuck(change func(p *corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "ds-1", Namespace: "team", UID: "uid-1", ResourceVersion: "7",
			Labels: map[string]string{"controller-revision-hash": "ds-bad"},
		},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}},
	}
	if change != nil {
		change(p)
	}
	return p
}

func becomeReady(p *corev1.Pod) {
	p.ResourceVersion = "8"
	p.Status.Conditions[0].Status = corev1.ConditionTrue
}

// A refusal is what the API server answers instead of doing as it is told.
type refusal struct {
	// verb that is refused.
	verb string
	err  error
	// times that it is refused; 0 means always.
	times int
	// then is what happened to the pod meanwhile.
	then func(p *corev1.Pod)
}

func (r refusal) install(t *testing.T, client *fake.Clientset) {
	t.Helper()
	n := 0
	client.PrependReactor(r.verb, "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if n++; r.times > 0 && n > r.times {
			return false, nil, nil
		}
		if r.then != nil {
			if err := client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), stuck(r.then), "team"); err != nil {
				t.Error(err)
			}
		}
		return true, nil, r.err
	})
}

func TestDelete(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	conflict := apierrors.NewConflict(pods, "ds-1", errors.New("the precondition failed"))
	forbidden := apierrors.NewForbidden(pods, "ds-1", errors.New("no"))
	invalid := apierrors.NewBadRequest("no")
	refused := &url.Error{Op: "Get", URL: "https://10.96.0.1:443", Err: syscall.ECONNREFUSED}

	// exactly the pod that was looked at, and no force.
	deleted := func(resourceVersion string) metav1.DeleteOptions {
		return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(stuck(nil).UID), ResourceVersion: &resourceVersion}}
	}

	type want struct {
		// deletes that were tried.
		deletes []metav1.DeleteOptions
		gone    bool
		log     string
		err     error
	}
	cases := map[string]struct {
		reason  string
		pod     *corev1.Pod
		refusal *refusal
		want    want
	}{
		"Stuck": {
			reason: "The condemned pod is deleted as it was seen, with its own grace period.",
			pod:    stuck(nil),
			want:   want{deletes: []metav1.DeleteOptions{deleted("7")}, gone: true, log: "Deleted the pod"},
		},
		"NeverReported": {
			reason: "A pod that no kubelet reported on has no condition: it is not Ready.",
			pod:    stuck(func(p *corev1.Pod) { p.Status = corev1.PodStatus{} }),
			want:   want{deletes: []metav1.DeleteOptions{deleted("7")}, gone: true, log: "Deleted the pod"},
		},
		"Unknown": {
			reason: "Ready means True, nothing else.",
			pod:    stuck(func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionUnknown }),
			want:   want{deletes: []metav1.DeleteOptions{deleted("7")}, gone: true, log: "Deleted the pod"},
		},
		"Ready": {
			reason: "A pod that became Ready serves clients.",
			pod:    stuck(becomeReady),
			want:   want{log: "Nothing to do: the pod is Ready"},
		},
		"Replaced": {
			reason: "A pod that took the name since is not condemned.",
			pod:    stuck(func(p *corev1.Pod) { p.UID = "uid-2" }),
			want:   want{log: "Nothing to do: the pod was replaced"},
		},
		"OtherRevision": {
			reason: "What is not of the outdated revision was not meant.",
			pod:    stuck(func(p *corev1.Pod) { p.Labels["controller-revision-hash"] = "ds-good" }),
			want:   want{log: "Nothing to do: the pod is of another revision"},
		},
		"Terminating": {
			reason: "A second deletion would change nothing.",
			pod:    stuck(func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) }),
			want:   want{log: "Nothing to do: the pod is being deleted"},
		},
		"Gone": {
			reason: "Somebody else was faster.",
			want:   want{gone: true, log: "Nothing to do: the pod is gone"},
		},
		"GoneMeanwhile": {
			reason:  "The same between look and deletion.",
			pod:     stuck(nil),
			refusal: &refusal{verb: "delete", err: apierrors.NewNotFound(pods, "ds-1")},
			want:    want{deletes: []metav1.DeleteOptions{deleted("7")}, log: "Nothing to do: the pod is gone"},
		},
		"ReadyMeanwhile": {
			reason:  "The API server refuses to delete what has changed; the second look sees a Ready pod.",
			pod:     stuck(nil),
			refusal: &refusal{verb: "delete", err: conflict, times: 1, then: becomeReady},
			want:    want{deletes: []metav1.DeleteOptions{deleted("7")}, log: "Nothing to do: the pod is Ready"},
		},
		"ReplacedMeanwhile": {
			reason:  "The second look sees another pod.",
			pod:     stuck(nil),
			refusal: &refusal{verb: "delete", err: conflict, times: 1, then: func(p *corev1.Pod) { p.UID = "uid-2" }},
			want:    want{deletes: []metav1.DeleteOptions{deleted("7")}, log: "Nothing to do: the pod was replaced"},
		},
		"ChangedMeanwhile": {
			reason:  "A change that leaves the pod stuck only means another try, of the pod as it is now.",
			pod:     stuck(nil),
			refusal: &refusal{verb: "delete", err: conflict, times: 1, then: func(p *corev1.Pod) { p.ResourceVersion = "8" }},
			want:    want{deletes: []metav1.DeleteOptions{deleted("7"), deleted("8")}, gone: true, log: "Deleted the pod"},
		},
		"GetForbidden": {
			reason:  "Without the right to look nothing is deleted, and after a while waiting helps nobody.",
			pod:     stuck(nil),
			refusal: &refusal{verb: "get", err: forbidden},
			want:    want{log: "Trying again", err: forbidden},
		},
		"GrantedLate": {
			reason:  "The RoleBinding is applied along with the Job, and may come after it.",
			pod:     stuck(nil),
			refusal: &refusal{verb: "get", err: forbidden, times: 3},
			want:    want{deletes: []metav1.DeleteOptions{deleted("7")}, gone: true, log: "Deleted the pod"},
		},
		"DeleteInvalid": {
			reason:  "What the API server says of the request itself stands.",
			pod:     stuck(nil),
			refusal: &refusal{verb: "delete", err: invalid},
			want:    want{deletes: []metav1.DeleteOptions{deleted("7")}, err: invalid},
		},
		"Unavailable": {
			reason:  "An API server in trouble is asked again.",
			pod:     stuck(nil),
			refusal: &refusal{verb: "get", err: apierrors.NewServiceUnavailable("etcd has no leader"), times: 3},
			want:    want{deletes: []metav1.DeleteOptions{deleted("7")}, gone: true, log: "Deleted the pod"},
		},
		"TooManyRequests": {
			reason:  "So is one with too much to do.",
			pod:     stuck(nil),
			refusal: &refusal{verb: "delete", err: apierrors.NewTooManyRequests("later", 1), times: 1},
			want:    want{deletes: []metav1.DeleteOptions{deleted("7"), deleted("7")}, gone: true, log: "Deleted the pod"},
		},
		"TimedOut": {
			reason:  "So is one that was too slow.",
			pod:     stuck(nil),
			refusal: &refusal{verb: "get", err: apierrors.NewTimeoutError("too slow", 1), times: 1},
			want:    want{deletes: []metav1.DeleteOptions{deleted("7")}, gone: true, log: "Deleted the pod"},
		},
		"DoneWithoutAnAnswer": {
			reason: "A deletion whose answer was lost is seen by the second look.",
			pod:    stuck(nil),
			refusal: &refusal{verb: "delete", err: refused, times: 1, then: func(p *corev1.Pod) {
				p.DeletionTimestamp = ptr.To(metav1.Now())
			}},
			want: want{deletes: []metav1.DeleteOptions{deleted("7")}, log: "Nothing to do: the pod is being deleted"},
		},
		"NotThereYet": {
			reason:  "A pod's network may be later than its program.",
			pod:     stuck(nil),
			refusal: &refusal{verb: "get", err: refused, times: 5},
			want:    want{deletes: []metav1.DeleteOptions{deleted("7")}, gone: true, log: "Deleted the pod"},
		},
		"NeverThere": {
			reason:  "At some time the Job has to fail, and says with what.",
			pod:     stuck(nil),
			refusal: &refusal{verb: "get", err: refused},
			want:    want{log: "Trying again", err: refused},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			// Without a bubble's clock the waiting would take minutes.
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset()
				if tc.pod != nil {
					client = fake.NewClientset(tc.pod)
				}
				if tc.refusal != nil {
					tc.refusal.install(t, client)
				}
				log := &recorder{}
				start := time.Now()
				err := Delete(t.Context(), client.CoreV1().Pods("team"), condemned, log)
				if !errors.Is(err, tc.want.err) || (err == nil) != (tc.want.err == nil) {
					t.Errorf("\n%s\nDelete(): want the error %v, got %v", tc.reason, tc.want.err, err)
				}
				if d := time.Since(start); d > retry.Patience {
					t.Errorf("\n%s\nit took %s", tc.reason, d)
				}
				if diff := cmp.Diff(tc.want.log, log.last); diff != "" {
					t.Errorf("\n%s\nlog: -want, +got:\n%s", tc.reason, diff)
				}

				var deletes []metav1.DeleteOptions
				for _, a := range client.Actions() {
					if d, ok := a.(clienttesting.DeleteActionImpl); ok {
						deletes = append(deletes, d.DeleteOptions)
					}
				}
				if diff := cmp.Diff(tc.want.deletes, deletes); diff != "" {
					t.Errorf("\n%s\ndeletions: -want, +got:\n%s", tc.reason, diff)
				}
				_, err = client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), "team", "ds-1")
				if gone := apierrors.IsNotFound(err); gone != tc.want.gone {
					t.Errorf("\n%s\nthe pod is gone: want %t, got %t", tc.reason, tc.want.gone, gone)
				}
			})
		})
	}
}

// A definite answer ends it at once; no answer, not before patience does.
func TestDeletePatience(t *testing.T) {
	cases := map[string]struct {
		reason string
		err    error
		want   time.Duration
	}{
		"Definite": {reason: "A bad request stays one.", err: apierrors.NewBadRequest("no")},
		"NoAnswer": {reason: "It is tried for as long as patience lasts.", err: &url.Error{Op: "Get", URL: "https://10.96.0.1:443", Err: syscall.ECONNREFUSED}, want: retry.Patience},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset(stuck(nil))
				refusal{verb: "get", err: tc.err}.install(t, client)
				start := time.Now()
				err := Delete(t.Context(), client.CoreV1().Pods("team"), condemned, logging.NewNopLogger())
				if !errors.Is(err, tc.err) {
					t.Errorf("\n%s\nDelete(): want the error %v, got %v", tc.reason, tc.err, err)
				}
				if diff := cmp.Diff(tc.want, time.Since(start)); diff != "" {
					t.Errorf("\n%s\nduration: -want, +got:\n%s", tc.reason, diff)
				}
			})
		})
	}
}

// A Job that is deleted ends, although it waits.
func TestDeleteCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(stuck(nil))
		refusal{verb: "get", err: apierrors.NewInternalError(errors.New("no"))}.install(t, client)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		err := Delete(ctx, client.CoreV1().Pods("team"), condemned, logging.NewNopLogger())
		if err == nil || !strings.Contains(err.Error(), "ds-1") {
			t.Errorf("want an error that names the pod, got %v", err)
		}
		if d := time.Since(start); d != time.Minute {
			t.Errorf("it took %s", d)
		}
	})
}

// recorder keeps the last line that was logged.
type recorder struct {
	logging.Logger
	last string
}

func (r *recorder) Info(msg string, _ ...any) { r.last = msg }
