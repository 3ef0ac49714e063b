package compose

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/fn/naming"
)

const (
	// jobUser is the user `nonroot` of the function's image.
	jobUser int64 = 65532
	// jobRetries outlast a working day: the kubelet waits longer and longer before it
	// starts the program again, up to five minutes.
	jobRetries int32 = 100
	// jobHashBytes tell the Jobs of one service apart.
	jobHashBytes = 5
)

// A job is what a Job of the function's own program does: a function itself only
// composes.
type job struct {
	// args of the command that has the name of the component.
	args []string
	// annotations tell a case from an earlier one: the Job that saw that has ended.
	annotations map[string]string
	// may is all that it may do.
	may rbacv1.PolicyRule
}

// jobs puts these in the place of all that there is of a component, held or not.
// None of it is ever unready: whether the servers work, their StatefulSet tells.
func jobs(in Inputs, d Desired, component string, wanted []job) error {
	maps.DeleteFunc(d, func(key string, _ Object) bool { return strings.HasPrefix(key, naming.KeyJob(component, "")) })
	if in.AgentImage == "" {
		return nil
	}
	servers := corev1.PodSpec{}
	if len(wanted) > 0 && in.Decision.Run != nil {
		t, err := in.Templates.get(*in.Decision.Run)
		if err != nil {
			return err
		}
		servers = t.Spec
	}
	for _, j := range wanted {
		template := jobTemplate(in, servers, component, j)
		hash, err := hashOf(template)
		if err != nil {
			return err
		}
		key := naming.KeyJob(component, hash)
		meta := metav1.ObjectMeta{
			Name:      in.Identity.Job(key),
			Namespace: in.Identity.Namespace,
			Labels:    in.Identity.JobLabels(component),
		}
		d[naming.KeyJobServiceAccount(key)] = Object{Object: jobServiceAccount(meta)}
		d[naming.KeyJobRole(key)] = Object{Object: jobRole(meta, j.may)}
		// Crossplane applies objects in no order and stops at an error, and the API
		// server refuses a RoleBinding whose Role does not exist: it would read there
		// what is granted. The Job waits too, so as not to begin with failures.
		if _, exists := in.Observed[naming.KeyJobRole(key)]; !exists {
			continue
		}
		d[naming.KeyJobRoleBinding(key)] = Object{Object: jobRoleBinding(meta)}
		if _, ended := in.EndedJobs[key]; !ended {
			d[key] = Object{Object: jobObject(meta, template)}
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
	return hex.EncodeToString(sum[:jobHashBytes]), nil
}

// jobTemplate is the Job's pod: the function's own program, which looks again before
// it acts. It meets Pod Security `restricted`. The ServiceAccount comes later: its
// name has the hash of the rest.
func jobTemplate(in Inputs, servers corev1.PodSpec, component string, j job) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      in.Identity.JobLabels(component),
			Annotations: j.annotations,
		},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: ptr.To(true),
			// The kubelet starts it again in the same pod: failures leave no pods behind.
			RestartPolicy: corev1.RestartPolicyOnFailure,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsUser:      ptr.To(jobUser),
				RunAsGroup:     ptr.To(jobUser),
				RunAsNonRoot:   ptr.To(true),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			// It may run where the servers may, and pull with the same credentials; the
			// servers that the release is for, since the spec may be what is wrong.
			NodeSelector:     servers.NodeSelector,
			Tolerations:      servers.Tolerations,
			ImagePullSecrets: servers.ImagePullSecrets,
			Containers: []corev1.Container{{
				Name:  component,
				Image: in.AgentImage,
				Args:  append([]string{component, "--namespace", in.Identity.Namespace}, j.args...),
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

func jobServiceAccount(meta metav1.ObjectMeta) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: meta,
	}
}

func jobRole(meta metav1.ObjectMeta, may rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"},
		ObjectMeta: meta,
		Rules:      []rbacv1.PolicyRule{may},
	}
}

func jobRoleBinding(meta metav1.ObjectMeta) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding"},
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: meta.Name, Namespace: meta.Namespace}},
	}
}

// jobObject has no time to live: Crossplane deletes it when there is nothing to do any
// more, and would until then make it anew.
func jobObject(meta metav1.ObjectMeta, template corev1.PodTemplateSpec) *batchv1.Job {
	template.Spec.ServiceAccountName = meta.Name
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: meta,
		Spec: batchv1.JobSpec{
			BackoffLimit: ptr.To(jobRetries),
			Template:     template,
		},
	}
}
