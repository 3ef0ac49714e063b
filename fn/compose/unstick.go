package compose

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

const (
	// unstickUser is the user `nonroot` of the function's image.
	unstickUser int64 = 65532
	// unstickRetries outlast a working day: the kubelet waits longer and longer before
	// it starts the program again, up to five minutes.
	unstickRetries int32 = 100
	// unstickHashBytes tell the Jobs of one service apart.
	unstickHashBytes = 5
)

// unstick adds, for each pod that is to be deleted, a Job that does it and what lets
// it do so (R35): a function itself only composes. All else of that kind goes, held
// or not, unless it is not known yet which pods there are. None of it is ever
// unready: whether the servers work, their StatefulSet tells.
func unstick(in Inputs, d Desired) error {
	if in.PodsUnknown {
		return nil
	}
	maps.DeleteFunc(d, func(key string, _ Object) bool { return naming.IsUnstick(key) })
	if in.AgentImage == "" {
		return nil
	}
	servers := corev1.PodSpec{}
	if len(in.Unstick) > 0 && in.Decision.Run != nil {
		t, err := in.Templates.get(*in.Decision.Run)
		if err != nil {
			return err
		}
		servers = t.Spec
	}
	for _, pod := range in.Unstick {
		template := unstickTemplate(in, servers, pod)
		hash, err := hashOf(template)
		if err != nil {
			return err
		}
		meta := metav1.ObjectMeta{
			Name:      in.Identity.Unstick(hash),
			Namespace: in.Identity.Namespace,
			Labels:    in.Identity.UnstickLabels(),
		}
		d[naming.KeyUnstickServiceAccount(hash)] = Object{Object: unstickServiceAccount(meta)}
		d[naming.KeyUnstickRole(hash)] = Object{Object: unstickRole(meta, pod)}
		// Crossplane applies objects in no order and stops at an error, and the API
		// server refuses a RoleBinding whose Role does not exist: it would read there
		// what is granted. The Job waits too, so as not to begin with failures.
		if _, exists := in.Observed[naming.KeyUnstickRole(hash)]; exists {
			d[naming.KeyUnstickRoleBinding(hash)] = Object{Object: unstickRoleBinding(meta)}
			d[naming.KeyUnstick(hash)] = Object{Object: unstickJob(meta, template)}
		}
	}
	return nil
}

// hashOf all that a Job runs. A Job's pod template cannot be changed: any other
// image, toleration and so on is another Job.
func hashOf(template corev1.PodTemplateSpec) (string, error) {
	b, err := json.Marshal(template)
	if err != nil {
		return "", fmt.Errorf("cannot hash the pod template of a Job: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:unstickHashBytes]), nil
}

// unstickTemplate is the Job's pod: the function's own program, which looks again
// before it deletes. It meets Pod Security `restricted`. The ServiceAccount comes
// later: its name has the hash of the rest.
func unstickTemplate(in Inputs, servers corev1.PodSpec, pod upgrade.Condemned) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels: in.Identity.UnstickLabels(),
			// A pod that was Ready for a moment is another case than before: the Job that
			// found it Ready has ended.
			Annotations: map[string]string{naming.AnnotationNotReadySince: pod.Since.UTC().Format(time.RFC3339)},
		},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: ptr.To(true),
			// The kubelet starts it again in the same pod: failures leave no pods behind.
			RestartPolicy: corev1.RestartPolicyOnFailure,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsUser:      ptr.To(unstickUser),
				RunAsGroup:     ptr.To(unstickUser),
				RunAsNonRoot:   ptr.To(true),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			// It may run where the servers may, and pull with the same credentials; the
			// servers that the release is for, since the spec may be what is wrong.
			NodeSelector:     servers.NodeSelector,
			Tolerations:      servers.Tolerations,
			ImagePullSecrets: servers.ImagePullSecrets,
			Containers: []corev1.Container{{
				Name:  "unstick",
				Image: in.AgentImage,
				Args: []string{
					"unstick",
					"--namespace", in.Identity.Namespace,
					"--pod", pod.Pod,
					"--uid", pod.UID,
					"--revision", pod.Revision,
				},
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{
						corev1.ResourceCPU:    resource.MustParse("10m"),
						corev1.ResourceMemory: resource.MustParse("32Mi"),
					},
					Limits: corev1.ResourceList{
						corev1.ResourceCPU:    resource.MustParse("250m"),
						corev1.ResourceMemory: resource.MustParse("128Mi"),
					},
				},
				SecurityContext: securityContext(nil),
				// Why it failed stands in the pod's status, for who may not read logs.
				TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			}},
		},
	}
}

func unstickServiceAccount(meta metav1.ObjectMeta) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: meta,
	}
}

// unstickRole allows what the Job does, to that one pod.
func unstickRole(meta metav1.ObjectMeta, pod upgrade.Condemned) *rbacv1.Role {
	return &rbacv1.Role{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"},
		ObjectMeta: meta,
		Rules: []rbacv1.PolicyRule{{
			APIGroups:     []string{corev1.GroupName},
			Resources:     []string{"pods"},
			ResourceNames: []string{pod.Pod},
			Verbs:         []string{"get", "delete"},
		}},
	}
}

func unstickRoleBinding(meta metav1.ObjectMeta) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding"},
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: meta.Name, Namespace: meta.Namespace}},
	}
}

// unstickJob has no time to live: Crossplane deletes it when its pod is not condemned
// any more, and would until then make it anew.
func unstickJob(meta metav1.ObjectMeta, template corev1.PodTemplateSpec) *batchv1.Job {
	template.Spec.ServiceAccountName = meta.Name
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: meta,
		Spec: batchv1.JobSpec{
			BackoffLimit: ptr.To(unstickRetries),
			Template:     template,
		},
	}
}
