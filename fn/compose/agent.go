package compose

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/fn/naming"
)

// reporting adds what the agents report in, and what lets them.
func reporting(in Inputs, d Desired) {
	d[naming.KeyServiceAccount] = Object{Object: serviceAccount(in)}
	d[naming.KeyState] = Object{Object: stateConfigMap(in)}
	d[naming.KeyRole] = Object{Object: agentRole(in)}
	// The API server refuses a RoleBinding whose Role does not exist, and Crossplane
	// applies in no order and stops at an error.
	if _, exists := in.Observed[naming.KeyRole]; exists {
		d[naming.KeyRoleBinding] = Object{Object: agentRoleBinding(in)}
	}
}

// serviceAccount of the servers (R17). The token is mounted by their pods' own wish.
func serviceAccount(in Inputs) *corev1.ServiceAccount {
	meta := in.meta(in.Identity.StatefulSet())
	meta.Annotations = maps.Clone(in.Spec.ServiceAccountAnnotations)
	return &corev1.ServiceAccount{
		TypeMeta:                     metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta:                   meta,
		AutomountServiceAccountToken: ptr.To(false),
	}
}

// stateConfigMap has no data of ours: each agent owns its own key of it.
func stateConfigMap(in Inputs) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: in.meta(in.Identity.State()),
	}
}

// agentRole lets the agents write that one object.
func agentRole(in Inputs) *rbacv1.Role {
	return &rbacv1.Role{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"},
		ObjectMeta: in.meta(in.Identity.StatefulSet()),
		Rules: []rbacv1.PolicyRule{{
			APIGroups:     []string{corev1.GroupName},
			Resources:     []string{"configmaps"},
			ResourceNames: []string{in.Identity.State()},
			Verbs:         []string{"get", "patch"},
		}},
	}
}

func agentRoleBinding(in Inputs) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding"},
		ObjectMeta: in.meta(in.Identity.StatefulSet()),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: in.Identity.StatefulSet()},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: in.Identity.StatefulSet(), Namespace: in.Identity.Namespace}},
	}
}
