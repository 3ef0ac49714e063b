package compose

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/naming"
)

const (
	// ldapPort and ldapsPort are where the server listens; dscontainer has them
	// built in (389-ds-base, src/lib389/cli/dscontainer).
	ldapPort  = 3389
	ldapsPort = 3636
	// EnvDMPassword has dscontainer set the Directory Manager's password at each
	// start of the server.
	EnvDMPassword = "DS_DM_PASSWORD"
	// agentPort serves health and metrics.
	agentPort = 8389

	probePeriodSeconds = 5
	// terminationGraceSeconds is what a server may take to write its caches to
	// disk before it is killed.
	terminationGraceSeconds = 120

	mountConfig     = "/etc/directoryservice/config"
	mountDMPassword = "/etc/directoryservice/dm-password" //nolint:gosec // A path, not a credential.
)

// podTemplate is the servers' pod. Only what a pod must be restarted for is in
// it: suffixes and the like go by the ConfigMap (R14).
func podTemplate(in podInputs, image string) corev1.PodTemplateSpec {
	s := in.Spec
	// No version label: pods would restart when the version of their image
	// becomes known.
	labels := in.Identity.Labels("")
	for k, v := range s.PodLabels {
		if _, own := labels[k]; !own && k != naming.LabelVersion {
			labels[k] = v
		}
	}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: s.PodAnnotations},
		Spec: corev1.PodSpec{
			ServiceAccountName:            in.Identity.StatefulSet(),
			AutomountServiceAccountToken:  ptr.To(false),
			TerminationGracePeriodSeconds: ptr.To[int64](terminationGraceSeconds),
			SecurityContext:               podSecurityContext(s.PodSecurityContext),
			NodeSelector:                  s.NodeSelector,
			Tolerations:                   s.Tolerations,
			Affinity:                      s.Affinity,
			TopologySpreadConstraints:     topologySpread(in),
			PriorityClassName:             s.PriorityClassName,
			ImagePullSecrets:              imagePullSecrets(s.ImagePullSecrets),
			Containers:                    []corev1.Container{serverContainer(in, image)},
			Volumes:                       volumes(in),
		},
	}
}

// serverContainer runs the image's own entrypoint, `dscontainer -r`.
func serverContainer(in podInputs, image string) corev1.Container {
	s := in.Spec
	password := in.Password
	c := corev1.Container{
		Name:            naming.Container,
		Image:           image,
		ImagePullPolicy: s.ImagePullPolicy,
		Env: []corev1.EnvVar{
			{Name: EnvDMPassword, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: password.Name},
				Key:                  password.Key,
			}}},
			{Name: "DS_STARTUP_TIMEOUT", Value: strconv.Itoa(int(s.Startup.TimeoutSeconds))},
		},
		Ports: []corev1.ContainerPort{
			{Name: "ldap", ContainerPort: ldapPort, Protocol: corev1.ProtocolTCP},
			{Name: "ldaps", ContainerPort: ldapsPort, Protocol: corev1.ProtocolTCP},
		},
		StartupProbe: ldapProbe(corev1.Probe{
			PeriodSeconds: probePeriodSeconds,
			// The server gets its time, and one period of grace for dscontainer
			// to report a failure itself.
			FailureThreshold: (s.Startup.TimeoutSeconds+probePeriodSeconds-1)/probePeriodSeconds + 1,
		}),
		ReadinessProbe:  ldapProbe(corev1.Probe{PeriodSeconds: probePeriodSeconds, FailureThreshold: 3}),
		LivenessProbe:   ldapProbe(corev1.Probe{PeriodSeconds: 2 * probePeriodSeconds, FailureThreshold: 6}),
		SecurityContext: securityContext(s.SecurityContext),
		VolumeMounts: []corev1.VolumeMount{
			{Name: naming.DataVolume, MountPath: "/data"},
			{Name: "tmp", MountPath: "/tmp"},
			{Name: "shm", MountPath: "/dev/shm"},
			{Name: "config", MountPath: mountConfig, ReadOnly: true},
			{Name: "dm-password", MountPath: mountDMPassword, ReadOnly: true},
		},
	}
	if s.Resources != nil {
		c.Resources = *s.Resources
	}
	return c
}

// ldapProbe asks whether the server accepts connections.
func ldapProbe(p corev1.Probe) *corev1.Probe {
	p.TCPSocket = &corev1.TCPSocketAction{Port: intstr.FromString("ldap")}
	p.TimeoutSeconds = 3
	return &p
}

func volumes(in podInputs) []corev1.Volume {
	password := in.Password
	return []corev1.Volume{
		{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "shm", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
			Medium:    corev1.StorageMediumMemory,
			SizeLimit: ptr.To(resource.MustParse("64Mi")),
		}}},
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: in.Identity.Config()},
		}}},
		{Name: "dm-password", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName:  password.Name,
			DefaultMode: ptr.To[int32](0o440),
			Items:       []corev1.KeyToPath{{Key: password.Key, Path: v1alpha1.DefaultDMPasswordKey}},
		}}},
	}
}

// podSecurityContext meets Pod Security `restricted`; the user's fields win.
func podSecurityContext(user *corev1.PodSecurityContext) *corev1.PodSecurityContext {
	c := &corev1.PodSecurityContext{}
	if user != nil {
		c = user.DeepCopy()
	}
	c.RunAsUser = ptr.To(naming.ServerUser)
	c.RunAsGroup = ptr.To(naming.ServerUser)
	setDefault(&c.RunAsNonRoot, true)
	setDefault(&c.FSGroup, naming.ServerUser)
	// Without it the kubelet would walk a large database at every start.
	setDefault(&c.FSGroupChangePolicy, corev1.FSGroupChangeOnRootMismatch)
	setDefault(&c.SeccompProfile, corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault})
	return c
}

func securityContext(user *corev1.SecurityContext) *corev1.SecurityContext {
	c := &corev1.SecurityContext{}
	if user != nil {
		c = user.DeepCopy()
	}
	setDefault(&c.Capabilities, corev1.Capabilities{})
	if c.Capabilities.Drop == nil {
		c.Capabilities.Drop = []corev1.Capability{"ALL"}
	}
	// Kubernetes refuses to forbid escalation to a container that has it already.
	if !ptr.Deref(c.Privileged, false) && !slices.Contains(c.Capabilities.Add, "SYS_ADMIN") {
		setDefault(&c.AllowPrivilegeEscalation, false)
	}
	setDefault(&c.ReadOnlyRootFilesystem, true)
	return c
}

func setDefault[T any](p **T, v T) {
	if *p == nil {
		*p = &v
	}
}

// topologySpread spreads the servers over nodes unless the user says otherwise.
func topologySpread(in podInputs) []corev1.TopologySpreadConstraint {
	selector := &metav1.LabelSelector{MatchLabels: in.Identity.SelectorLabels()}
	if len(in.Spec.TopologySpreadConstraints) == 0 {
		return []corev1.TopologySpreadConstraint{{
			MaxSkew:           1,
			TopologyKey:       corev1.LabelHostname,
			WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector:     selector,
		}}
	}
	out := make([]corev1.TopologySpreadConstraint, len(in.Spec.TopologySpreadConstraints))
	for i, c := range in.Spec.TopologySpreadConstraints {
		if c.LabelSelector == nil {
			c.LabelSelector = selector
		}
		out[i] = c
	}
	return out
}

func imagePullSecrets(refs []v1alpha1.LocalSecretRef) []corev1.LocalObjectReference {
	out := make([]corev1.LocalObjectReference, 0, len(refs))
	for _, r := range refs {
		out = append(out, corev1.LocalObjectReference{Name: r.Name})
	}
	return out
}
