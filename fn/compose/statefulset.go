package compose

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/fn/naming"
)

// statefulSet is the servers' StatefulSet (R13); nil where none exists and none
// may be created yet: without a release that may run, or without the password
// that its pods refer to.
func statefulSet(in Inputs) (*appsv1.StatefulSet, error) {
	if in.StatefulSet == nil && in.WaitToCreate {
		return nil, nil //nolint:nilnil // "none" is an answer here, not an error.
	}
	if in.Decision.Run == nil || !in.DMPassword.Usable && !in.DMPassword.Generate {
		return nil, nil //nolint:nilnil // "none" is an answer here, not an error.
	}
	ledger, err := in.Decision.Ledger.String()
	if err != nil {
		return nil, err
	}
	run := *in.Decision.Run
	meta := in.meta(in.Identity.StatefulSet())
	meta.Annotations = map[string]string{naming.AnnotationLedger: ledger}

	sts := &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: meta,
		Spec: appsv1.StatefulSetSpec{
			Replicas:    in.Spec.Replicas,
			ServiceName: in.Identity.ServiceInternal(),
			Selector:    &metav1.LabelSelector{MatchLabels: in.Identity.SelectorLabels()},
			// After an outage all servers must come back at once: in order, one
			// that cannot start would keep every other one down.
			PodManagementPolicy: appsv1.ParallelPodManagement,
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
				Type:          appsv1.RollingUpdateStatefulSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](0)},
			},
			// The data outlive the pods, the StatefulSet and the service (R7).
			PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
				WhenScaled:  appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			},
			Template:             podTemplate(in, run),
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{dataClaim(in)},
		},
	}
	keepImmutable(sts, in.StatefulSet)
	return sts, nil
}

// dataClaim is the template of each server's volume claim (R7). It carries its
// apiVersion and kind because the API server adds them: a GitOps engine would
// otherwise see a difference for ever (S5).
func dataClaim(in Inputs) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{Name: naming.DataVolume},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: in.Spec.Storage.StorageClassName,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: *in.Spec.Storage.Size},
			},
		},
	}
}

// keepImmutable returns the fields that the API server refuses to change
// (kubernetes pkg/apis/apps/validation, ValidateStatefulSetUpdate) as they are
// observed: asking for another value would fail every apply.
func keepImmutable(sts, observed *appsv1.StatefulSet) {
	if observed == nil {
		return
	}
	sts.Spec.VolumeClaimTemplates = observed.Spec.VolumeClaimTemplates
	sts.Spec.ServiceName = observed.Spec.ServiceName
	sts.Spec.PodManagementPolicy = observed.Spec.PodManagementPolicy
	sts.Spec.Selector = observed.Spec.Selector
}
