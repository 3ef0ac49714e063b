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
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

const (
	// ldapPort and ldapsPort are where the server listens; dscontainer has them
	// built in (389-ds-base, src/lib389/cli/dscontainer).
	ldapPort  = 3389
	ldapsPort = 3636
	// EnvDMPassword has the Directory Manager's password for scripts in the container. The
	// agent keeps it from dscontainer, which would set it at each start, over a newer one.
	EnvDMPassword = "DS_DM_PASSWORD"
	// agentPort serves the probes and metrics.
	agentPort = 8389

	// startupPeriodSeconds and readinessPeriodSeconds are short: the agent answers from
	// memory.
	startupPeriodSeconds   = 2
	readinessPeriodSeconds = 5
	livenessPeriodSeconds  = 10
	// startupGraceSeconds is what a first start takes before dscontainer begins to count:
	// it makes the server.
	startupGraceSeconds = 60
	// terminationGraceSeconds is what a server may take to write its caches to
	// disk before it is killed.
	terminationGraceSeconds = 120

	mountAgent      = "/opt/directoryservice"
	program         = mountAgent + "/directoryservice"
	mountConfig     = "/etc/directoryservice/config"
	mountDMPassword = "/etc/directoryservice/dm-password" //nolint:gosec // A path, not a credential.
	mountTLS        = "/etc/directoryservice/tls"
)

// podTemplate is the servers' pod. Only what a pod must be restarted for is in
// it: suffixes and the like go by the ConfigMap (R14).
func podTemplate(in PodInputs, r upgrade.Release) corev1.PodTemplateSpec {
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
			ServiceAccountName: in.Identity.StatefulSet(),
			// The agent reports in a ConfigMap.
			AutomountServiceAccountToken:  ptr.To(true),
			TerminationGracePeriodSeconds: ptr.To[int64](terminationGraceSeconds),
			SecurityContext:               podSecurityContext(s.PodSecurityContext),
			NodeSelector:                  s.NodeSelector,
			Tolerations:                   s.Tolerations,
			Affinity:                      s.Affinity,
			TopologySpreadConstraints:     topologySpread(in),
			PriorityClassName:             s.PriorityClassName,
			ImagePullSecrets:              imagePullSecrets(s.ImagePullSecrets),
			InitContainers:                []corev1.Container{agentContainer(in)},
			Containers:                    []corev1.Container{serverContainer(in, r)},
			Volumes:                       volumes(in),
		},
	}
}

// agentContainer brings the agent to the server's container, whose image does not have
// it. It has the server's resources: a pod needs the larger of both, and is of the same
// class of service as without it.
func agentContainer(in PodInputs) corev1.Container {
	c := corev1.Container{
		Name:            naming.AgentContainer,
		Image:           in.AgentImage,
		Args:            []string{"install", program},
		SecurityContext: securityContext(nil),
		VolumeMounts:    []corev1.VolumeMount{{Name: "agent", MountPath: mountAgent}},
		// Why it failed stands in the pod's status, for who may not read logs.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	if r := in.Spec.Resources; r != nil {
		c.Resources = *r
	}
	return c
}

// serverContainer runs the image's own entrypoint, `dscontainer -r`, below the agent.
func serverContainer(in PodInputs, r upgrade.Release) corev1.Container {
	s := in.Spec
	command := []string{program, "run", "--state=" + in.Identity.State()}
	if r.Version != "" {
		command = append(command, "--server-version="+r.Version)
	}
	c := corev1.Container{
		Name:            naming.Container,
		Image:           r.Image,
		ImagePullPolicy: s.ImagePullPolicy,
		Command:         append(command, "--", "dscontainer", "-r"),
		Env:             environment(in),
		Ports: []corev1.ContainerPort{
			{Name: "ldap", ContainerPort: ldapPort, Protocol: corev1.ProtocolTCP},
			{Name: "ldaps", ContainerPort: ldapsPort, Protocol: corev1.ProtocolTCP},
			{Name: "agent", ContainerPort: agentPort, Protocol: corev1.ProtocolTCP},
		},
		StartupProbe: probe("/startz", corev1.Probe{
			PeriodSeconds:    startupPeriodSeconds,
			FailureThreshold: (s.Startup.TimeoutSeconds + startupGraceSeconds + startupPeriodSeconds - 1) / startupPeriodSeconds,
		}),
		ReadinessProbe:  probe("/readyz", corev1.Probe{PeriodSeconds: readinessPeriodSeconds, FailureThreshold: 2}),
		LivenessProbe:   probe("/livez", corev1.Probe{PeriodSeconds: livenessPeriodSeconds, FailureThreshold: 3}),
		SecurityContext: securityContext(s.SecurityContext),
		VolumeMounts: []corev1.VolumeMount{
			{Name: naming.DataVolume, MountPath: "/data"},
			{Name: "tmp", MountPath: "/tmp"},
			{Name: "shm", MountPath: "/dev/shm"},
			{Name: "agent", MountPath: mountAgent, ReadOnly: true},
			{Name: "config", MountPath: mountConfig, ReadOnly: true},
			{Name: VolumeDMPassword, MountPath: mountDMPassword, ReadOnly: true},
			{Name: VolumeTLS, MountPath: mountTLS, ReadOnly: true},
		},
	}
	if s.Resources != nil {
		c.Resources = *s.Resources
	}
	return c
}

func environment(in PodInputs) []corev1.EnvVar {
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}}
	}
	const most = 5
	env := append(make([]corev1.EnvVar, 0, most),
		corev1.EnvVar{Name: "DS_STARTUP_TIMEOUT", Value: strconv.Itoa(int(in.Spec.Startup.TimeoutSeconds))},
		field("POD_NAME", "metadata.name"),
		field("POD_NAMESPACE", "metadata.namespace"),
		field("POD_UID", "metadata.uid"),
	)
	if in.Spec.DMPasswordMode == v1alpha1.DMPasswordModeEnv {
		env = append(env, corev1.EnvVar{Name: EnvDMPassword, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: in.Password.Name},
			Key:                  in.Password.Key,
		}}})
	}
	return env
}

// probe asks the agent.
func probe(path string, p corev1.Probe) *corev1.Probe {
	p.HTTPGet = &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("agent"), Scheme: corev1.URISchemeHTTP}
	p.TimeoutSeconds = 3
	return &p
}

func volumes(in PodInputs) []corev1.Volume {
	return []corev1.Volume{
		{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "shm", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
			Medium:    corev1.StorageMediumMemory,
			SizeLimit: ptr.To(resource.MustParse("64Mi")),
		}}},
		{Name: "agent", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: in.Identity.Config()},
		}}},
		{Name: VolumeDMPassword, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName:  in.Password.Name,
			DefaultMode: ptr.To[int32](0o440),
			Items:       []corev1.KeyToPath{{Key: in.Password.Key, Path: v1alpha1.DefaultDMPasswordKey}},
		}}},
		{Name: VolumeTLS, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName:  in.TLS,
			DefaultMode: ptr.To[int32](0o440),
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
func topologySpread(in PodInputs) []corev1.TopologySpreadConstraint {
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
