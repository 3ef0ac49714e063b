package compose

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/naming"
)

// R17: every setting arrives where Kubernetes looks for it.
func TestPodSettings(t *testing.T) {
	affinity := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
	resources := &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
	}
	toleration := corev1.Toleration{Key: "directory", Operator: corev1.TolerationOpExists}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{
		"app.kubernetes.io/name":      "389-directory-server",
		"app.kubernetes.io/instance":  "ds",
		"app.kubernetes.io/component": "server",
	}}
	own := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "directory"}}

	cases := map[string]struct {
		reason   string
		settings v1alpha1.PodSettings
		get      func(p corev1.PodTemplateSpec) any
		want     any
	}{
		"Resources": {
			reason:   "Resources are the server's.",
			settings: v1alpha1.PodSettings{Resources: resources},
			get:      func(p corev1.PodTemplateSpec) any { return p.Spec.Containers[0].Resources },
			want:     *resources,
		},
		"NodeSelector": {
			reason:   "As it is.",
			settings: v1alpha1.PodSettings{NodeSelector: map[string]string{"disk": "ssd"}},
			get:      func(p corev1.PodTemplateSpec) any { return p.Spec.NodeSelector },
			want:     map[string]string{"disk": "ssd"},
		},
		"Tolerations": {
			reason:   "As they are.",
			settings: v1alpha1.PodSettings{Tolerations: []corev1.Toleration{toleration}},
			get:      func(p corev1.PodTemplateSpec) any { return p.Spec.Tolerations },
			want:     []corev1.Toleration{toleration},
		},
		"Affinity": {
			reason:   "As it is.",
			settings: v1alpha1.PodSettings{Affinity: affinity},
			get:      func(p corev1.PodTemplateSpec) any { return p.Spec.Affinity },
			want:     affinity,
		},
		"TopologySpreadByDefault": {
			reason: "Servers are spread over nodes, as far as that is possible.",
			get:    func(p corev1.PodTemplateSpec) any { return p.Spec.TopologySpreadConstraints },
			want: []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: "kubernetes.io/hostname", WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: selector,
			}},
		},
		"TopologySpread": {
			reason: "The user's constraints replace the default; without a selector they get that of the servers.",
			settings: v1alpha1.PodSettings{TopologySpreadConstraints: []corev1.TopologySpreadConstraint{
				{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule},
				{MaxSkew: 2, TopologyKey: "rack", WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: own},
			}},
			get: func(p corev1.PodTemplateSpec) any { return p.Spec.TopologySpreadConstraints },
			want: []corev1.TopologySpreadConstraint{
				{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector},
				{MaxSkew: 2, TopologyKey: "rack", WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: own},
			},
		},
		"PriorityClassName": {
			reason:   "As it is.",
			settings: v1alpha1.PodSettings{PriorityClassName: "high"},
			get:      func(p corev1.PodTemplateSpec) any { return p.Spec.PriorityClassName },
			want:     "high",
		},
		"ImagePullSecrets": {
			reason:   "By name.",
			settings: v1alpha1.PodSettings{ImagePullSecrets: []v1alpha1.LocalSecretRef{{Name: "a"}, {Name: "b"}}},
			get:      func(p corev1.PodTemplateSpec) any { return p.Spec.ImagePullSecrets },
			want:     []corev1.LocalObjectReference{{Name: "a"}, {Name: "b"}},
		},
		"ImagePullPolicy": {
			reason:   "Of the server's image.",
			settings: v1alpha1.PodSettings{ImagePullPolicy: corev1.PullAlways},
			get:      func(p corev1.PodTemplateSpec) any { return p.Spec.Containers[0].ImagePullPolicy },
			want:     corev1.PullAlways,
		},
		"PodLabels": {
			reason:   "R15: beside the function's own, which always win.",
			settings: v1alpha1.PodSettings{PodLabels: map[string]string{"team": "directory", "app.kubernetes.io/name": "x"}},
			get:      func(p corev1.PodTemplateSpec) any { return p.GetLabels() },
			want: map[string]string{
				"app.kubernetes.io/name":       "389-directory-server",
				"app.kubernetes.io/instance":   "ds",
				"app.kubernetes.io/component":  "server",
				"app.kubernetes.io/part-of":    "directoryservice",
				"app.kubernetes.io/managed-by": "function-directoryservice",
				"team":                         "directory",
			},
		},
		"PodAnnotations": {
			reason:   "As they are.",
			settings: v1alpha1.PodSettings{PodAnnotations: map[string]string{"a": "b"}},
			get:      func(p corev1.PodTemplateSpec) any { return p.GetAnnotations() },
			want:     map[string]string{"a": "b"},
		},
		"PodSecurityContextByDefault": {
			reason: "R16b: Pod Security `restricted`, user 389, and no walk through a large database at every start.",
			get:    func(p corev1.PodTemplateSpec) any { return p.Spec.SecurityContext },
			want: &corev1.PodSecurityContext{
				RunAsUser: ptr.To[int64](389), RunAsGroup: ptr.To[int64](389), RunAsNonRoot: ptr.To(true),
				FSGroup: ptr.To[int64](389), FSGroupChangePolicy: ptr.To(corev1.FSGroupChangeOnRootMismatch),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
		},
		"PodSecurityContext": {
			reason: "The user's fields win, but the server's user never changes (R16b).",
			settings: v1alpha1.PodSettings{PodSecurityContext: &corev1.PodSecurityContext{
				RunAsUser: ptr.To[int64](0), RunAsGroup: ptr.To[int64](0), RunAsNonRoot: ptr.To(false),
				FSGroup: ptr.To[int64](1000), FSGroupChangePolicy: ptr.To(corev1.FSGroupChangeAlways),
				SeccompProfile:     &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined},
				SupplementalGroups: []int64{1001},
			}},
			get: func(p corev1.PodTemplateSpec) any { return p.Spec.SecurityContext },
			want: &corev1.PodSecurityContext{
				RunAsUser: ptr.To[int64](389), RunAsGroup: ptr.To[int64](389), RunAsNonRoot: ptr.To(false),
				FSGroup: ptr.To[int64](1000), FSGroupChangePolicy: ptr.To(corev1.FSGroupChangeAlways),
				SeccompProfile:     &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined},
				SupplementalGroups: []int64{1001},
			},
		},
		"SecurityContextByDefault": {
			reason: "R16b: no escalation, no capability, a read-only root.",
			get:    func(p corev1.PodTemplateSpec) any { return p.Spec.Containers[0].SecurityContext },
			want: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		},
		"SecurityContext": {
			reason: "The user's fields win.",
			settings: v1alpha1.PodSettings{SecurityContext: &corev1.SecurityContext{
				ReadOnlyRootFilesystem: ptr.To(false),
				Capabilities:           &corev1.Capabilities{Add: []corev1.Capability{"NET_BIND_SERVICE"}},
			}},
			get: func(p corev1.PodTemplateSpec) any { return p.Spec.Containers[0].SecurityContext },
			want: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(false),
				Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_BIND_SERVICE"}, Drop: []corev1.Capability{"ALL"}},
			},
		},
		"Privileged": {
			reason:   "Kubernetes refuses to forbid escalation to a privileged container.",
			settings: v1alpha1.PodSettings{SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true)}},
			get: func(p corev1.PodTemplateSpec) any {
				return p.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation
			},
			want: (*bool)(nil),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.settings.DeepCopy()
			got := mustStatefulSet(t, inputs(func(in *Inputs) { in.Spec.PodSettings = tc.settings })).Spec.Template
			if diff := cmp.Diff(tc.want, tc.get(got)); diff != "" {
				t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(*before, tc.settings); diff != "" {
				t.Errorf("\n%s\nthe spec was changed: -before, +after:\n%s", tc.reason, diff)
			}
		})
	}
}

// R13, R16b: what the server needs and no more. The root is read-only, so every
// path that it writes to is a volume.
func TestServerContainer(t *testing.T) {
	pod := mustStatefulSet(t, inputs(nil)).Spec.Template.Spec
	if len(pod.Containers) != 1 || pod.Containers[0].Name != "dirsrv" {
		t.Fatalf("want the container dirsrv alone, got %v", pod.Containers)
	}
	c := pod.Containers[0]

	writable := map[string]string{}
	for _, m := range c.VolumeMounts {
		if !m.ReadOnly {
			writable[m.MountPath] = m.Name
		}
	}
	if diff := cmp.Diff(map[string]string{"/data": "ds-data", "/tmp": "tmp", "/dev/shm": "shm"}, writable); diff != "" {
		t.Errorf("writable paths: -want, +got:\n%s", diff)
	}
	// R8: the server's ports are built in.
	if diff := cmp.Diff([]corev1.ContainerPort{
		{Name: "ldap", ContainerPort: 3389, Protocol: corev1.ProtocolTCP},
		{Name: "ldaps", ContainerPort: 3636, Protocol: corev1.ProtocolTCP},
		{Name: "agent", ContainerPort: 8389, Protocol: corev1.ProtocolTCP},
	}, c.Ports); diff != "" {
		t.Errorf("ports: -want, +got:\n%s", diff)
	}
	if pod.AutomountServiceAccountToken == nil || !*pod.AutomountServiceAccountToken {
		t.Error("no token is mounted, and the agent cannot report")
	}
	if pod.ServiceAccountName != "ds" {
		t.Errorf("the ServiceAccount is %q", pod.ServiceAccountName)
	}
	// R16: the agent answers, a TCP connect tells nothing.
	for path, p := range map[string]*corev1.Probe{"/startz": c.StartupProbe, "/readyz": c.ReadinessProbe, "/livez": c.LivenessProbe} {
		if p == nil || p.HTTPGet == nil || p.HTTPGet.Path != path || p.HTTPGet.Port.StrVal != "agent" {
			t.Errorf("want a probe of %s, got %+v", path, p)
		}
	}
}

// R4, R42: the agent runs the image's own entrypoint, and is told which version the pod
// is for, where anybody knows it.
func TestServerCommand(t *testing.T) {
	cases := map[string]struct {
		reason  string
		version string
		want    []string
	}{
		"Versioned":   {reason: "Another version in the image is refused.", version: "3.1.0", want: []string{"/opt/directoryservice/directoryservice", "run", "--state=ds-state", "--server-version=3.1.0", "--", "dscontainer", "-r"}},
		"Unversioned": {reason: "Whatever is in the image is right.", want: []string{"/opt/directoryservice/directoryservice", "run", "--state=ds-state", "--", "dscontainer", "-r"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := mustStatefulSet(t, inputs(func(in *Inputs) { in.Decision.Run.Version = tc.version })).Spec.Template.Spec
			if diff := cmp.Diff(tc.want, pod.Containers[0].Command); diff != "" {
				t.Errorf("\n%s\ncommand: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// The agent comes from the function's image, and does not change a pod's class of
// service: it asks for what the server asks for.
func TestAgentContainer(t *testing.T) {
	resources := corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}
	pod := mustStatefulSet(t, inputs(func(in *Inputs) { in.Spec.Resources = &resources })).Spec.Template.Spec
	if len(pod.InitContainers) != 1 || pod.InitContainers[0].Name != naming.AgentContainer {
		t.Fatalf("want the init container %s alone, got %v", naming.AgentContainer, pod.InitContainers)
	}
	c := pod.InitContainers[0]
	if c.Image != agentImage {
		t.Errorf("the agent comes from %q", c.Image)
	}
	if diff := cmp.Diff([]string{"install", "/opt/directoryservice/directoryservice"}, c.Args); diff != "" {
		t.Errorf("arguments: -want, +got:\n%s", diff)
	}
	if diff := cmp.Diff(resources, c.Resources); diff != "" {
		t.Errorf("resources: -want, +got:\n%s", diff)
	}
}

// R11: in mode `file` the password is in no environment.
func TestPasswordMode(t *testing.T) {
	for mode, want := range map[v1alpha1.DMPasswordMode]bool{v1alpha1.DMPasswordModeEnv: true, v1alpha1.DMPasswordModeFile: false} {
		pod := mustStatefulSet(t, inputs(func(in *Inputs) { in.Spec.DMPasswordMode = mode })).Spec.Template.Spec
		got := slices.ContainsFunc(pod.Containers[0].Env, func(e corev1.EnvVar) bool {
			return e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil
		})
		if got != want {
			t.Errorf("mode %s: the environment has the password: %t", mode, got)
		}
	}
}

// R16: the startup probe gives the server its time, and not for ever.
func TestStartupTimeout(t *testing.T) {
	cases := map[string]struct {
		reason  string
		seconds int32
		env     string
	}{
		"Default":   {reason: "A minute by default.", env: "60"},
		"Large":     {reason: "A large database takes longer.", seconds: 3600, env: "3600"},
		"NoProduct": {reason: "A time between two probes is rounded up.", seconds: 61, env: "61"},
		"Longest":   {reason: "A day is the most the schema allows.", seconds: 86400, env: "86400"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := inputs(func(in *Inputs) { in.Spec.Startup.TimeoutSeconds = tc.seconds })
			c := mustStatefulSet(t, in).Spec.Template.Spec.Containers[0]
			env := map[string]string{}
			for _, e := range c.Env {
				env[e.Name] = e.Value
			}
			if diff := cmp.Diff(tc.env, env["DS_STARTUP_TIMEOUT"]); diff != "" {
				t.Errorf("\n%s\nDS_STARTUP_TIMEOUT: -want, +got:\n%s", tc.reason, diff)
			}
			p := c.StartupProbe
			budget := p.InitialDelaySeconds + p.PeriodSeconds*p.FailureThreshold
			if timeout := in.Spec.Startup.TimeoutSeconds + startupGraceSeconds; budget < timeout || budget > timeout+2*p.PeriodSeconds {
				t.Errorf("\n%s\nthe kubelet waits %d seconds for a server that may take %d", tc.reason, budget, timeout)
			}
		})
	}
}

// R9, R10: the pods refer to the password's Secret; its value is nowhere.
func TestPasswordReferences(t *testing.T) {
	cases := map[string]struct {
		reason string
		ref    *v1alpha1.SecretKeyRef
		want   v1alpha1.SecretKeyRef
	}{
		"Generated": {reason: "By default the generated Secret.", want: v1alpha1.SecretKeyRef{Name: "ds-dm-password", Key: "dm-password"}},
		"Named":     {reason: "The Secret and key that the spec names.", ref: &v1alpha1.SecretKeyRef{Name: "mine", Key: "pw"}, want: v1alpha1.SecretKeyRef{Name: "mine", Key: "pw"}},
		"NamedOnly": {reason: "The key has a default.", ref: &v1alpha1.SecretKeyRef{Name: "mine"}, want: v1alpha1.SecretKeyRef{Name: "mine", Key: "dm-password"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := mustStatefulSet(t, inputs(func(in *Inputs) { in.Spec.DMPasswordSecretRef = tc.ref })).Spec.Template.Spec
			var env, volume v1alpha1.SecretKeyRef
			for _, e := range pod.Containers[0].Env {
				if e.Name == "DS_DM_PASSWORD" {
					env = v1alpha1.SecretKeyRef{Name: e.ValueFrom.SecretKeyRef.Name, Key: e.ValueFrom.SecretKeyRef.Key}
				}
			}
			for _, v := range pod.Volumes {
				if v.Name == VolumeDMPassword {
					volume = v1alpha1.SecretKeyRef{Name: v.Secret.SecretName, Key: v.Secret.Items[0].Key}
					if v.Secret.Items[0].Path != "dm-password" {
						t.Errorf("\n%s\nthe file is %q", tc.reason, v.Secret.Items[0].Path)
					}
				}
			}
			if diff := cmp.Diff(tc.want, env); diff != "" {
				t.Errorf("\n%s\nDS_DM_PASSWORD: -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.want, volume); diff != "" {
				t.Errorf("\n%s\nvolume: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
