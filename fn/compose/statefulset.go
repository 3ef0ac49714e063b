package compose

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// statefulSet is the servers' StatefulSet (R13); nil where none exists and none
// may be created yet: without a release that may run, or without the password and
// the certificate that its pods refer to.
func statefulSet(in Inputs) (*appsv1.StatefulSet, error) {
	if in.StatefulSet == nil && in.WaitToCreate {
		return nil, nil //nolint:nilnil // "none" is an answer here, not an error.
	}
	if in.Decision.Run == nil || !in.DMPassword.Usable && !in.DMPassword.Generate {
		return nil, nil //nolint:nilnil // "none" is an answer here, not an error.
	}
	if !in.TLS.Ready() && (in.StatefulSet == nil || !in.Operating) {
		return nil, nil //nolint:nilnil // "none" is an answer here, not an error.
	}
	ledger, err := in.Decision.Ledger.String()
	if err != nil {
		return nil, err
	}
	run := *in.Decision.Run
	meta := in.meta(in.Identity.StatefulSet())
	meta.Annotations, err = in.Templates.annotations(run, in.Decision.Ledger.Good)
	if err != nil {
		return nil, err
	}
	meta.Annotations[naming.AnnotationLedger] = ledger
	meta.ResourceVersion = in.lock(meta.Annotations)
	template, err := in.Templates.get(run)
	if err != nil {
		return nil, err
	}

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
			UpdateStrategy:      updateStrategy(in.Decision),
			MinReadySeconds:     in.Spec.Upgrade.MinReadySeconds,
			// The data outlive the pods, the StatefulSet and the service (R7).
			PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
				WhenScaled:  appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			},
			Template:             template,
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{dataClaim(in)},
		},
	}
	keepImmutable(sts, in.StatefulSet)
	return sts, nil
}

// lock is the resourceVersion upon which something was decided, an operation or what
// the annotations remember. Crossplane reads from a cache that may be older than its
// own last apply, and server-side apply asks for nothing: a step decided on an older
// StatefulSet would overwrite a newer one. With it the API server answers 409, upon
// which Crossplane calls again.
func (in Inputs) lock(annotations map[string]string) string {
	if in.StatefulSet == nil {
		return ""
	}
	decided := in.Operating
	for _, a := range []string{naming.AnnotationLedger, naming.AnnotationTemplate, naming.AnnotationGoodTemplate} {
		decided = decided || annotations[a] != in.StatefulSet.GetAnnotations()[a]
	}
	if !decided {
		return ""
	}
	return in.StatefulSet.GetResourceVersion()
}

// updateStrategy is by partition, so that the function, and not the controller,
// decides when the next pod is replaced; and OnDelete while pods that are not Ready
// are replaced before all others.
func updateStrategy(d upgrade.Decision) appsv1.StatefulSetUpdateStrategy {
	if d.OnDelete {
		return appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
	}
	return appsv1.StatefulSetUpdateStrategy{
		Type:          appsv1.RollingUpdateStatefulSetStrategyType,
		RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To(d.Partition)},
	}
}

// HoldRollout returns every observed object as it is, but lets an operation that
// runs go on: what is wrong with the spec must not keep a failed upgrade from being
// rolled back.
func HoldRollout(in Inputs) (Desired, error) {
	d := Hold(in.Observed)
	if _, ok := d[naming.KeyState]; ok && in.Reported {
		// Its data are the agents': applied along with the rest they would become ours, and
		// an older report overwrite a newer one.
		d[naming.KeyState] = Object{Object: stateConfigMap(in)}
	}
	if err := unstick(in, d); err != nil {
		return nil, err
	}
	run := in.Decision.Run
	if in.StatefulSet == nil || run == nil || !in.Operating || !in.Templates.Stored(run.Template) {
		return d, nil
	}
	c, err := in.Templates.carriedSpec(run.Template)
	if err != nil {
		return nil, err
	}
	ledger, err := in.Decision.Ledger.String()
	if err != nil {
		return nil, err
	}
	observed := in.StatefulSet
	sts := &appsv1.StatefulSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        observed.GetName(),
			Namespace:   observed.GetNamespace(),
			Labels:      observed.GetLabels(),
			Annotations: maps.Clone(observed.GetAnnotations()),

			ResourceVersion: observed.GetResourceVersion(),
		},
		Spec: *observed.Spec.DeepCopy(),
	}
	carried, err := in.Templates.annotations(*run, in.Decision.Ledger.Good)
	if err != nil {
		return nil, err
	}
	delete(sts.Annotations, naming.AnnotationGoodTemplate)
	maps.Copy(sts.Annotations, carried)
	sts.Annotations[naming.AnnotationLedger] = ledger
	sts.Spec.Template = c
	sts.Spec.UpdateStrategy = updateStrategy(in.Decision)
	d[naming.KeyStatefulSet] = Object{
		Object:   sts,
		Fields:   [][2]string{{"metadata", "annotations"}, {"metadata", "resourceVersion"}, {"spec", "template"}, {"spec", "updateStrategy"}},
		NotReady: !in.Available,
	}
	return d, nil
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
