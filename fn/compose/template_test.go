package compose

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/naming"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// carrying are the annotations of a StatefulSet that carries a template which another
// function made of the same spec and the image dirsrv:3.1.0, and its name.
func carrying(t *testing.T, in Inputs, change func(p *corev1.PodTemplateSpec)) (name string, annotations map[string]string) {
	t.Helper()
	run := upgrade.Release{Version: "3.1.0", Image: "dirsrv:3.1.0"}
	m, err := in.Templates.make(run)
	if err != nil {
		t.Fatal(err)
	}
	spec := *m.spec.DeepCopy()
	change(&spec)
	doc, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	name = upgrade.TemplateID(append(slices.Clone(in.Templates.inputs), run.Image...), doc)
	a, err := encodeTemplate(name, doc)
	if err != nil {
		t.Fatal(err)
	}
	return name, map[string]string{naming.AnnotationTemplate: a}
}

func otherGrace(p *corev1.PodTemplateSpec) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](7) }

// R44: what one call writes, the next one reads, byte for byte.
func TestTemplatesRoundTrip(t *testing.T) {
	in := inputs(everySetting)
	run := upgrade.Release{Version: "3.1.0", Image: "dirsrv:3.1.0"}
	run.Template = in.Templates.Name(run)
	written, err := in.Templates.annotations(run, &run)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := written[naming.AnnotationGoodTemplate]; ok {
		t.Errorf("the good template is carried twice: %v", slices.Sorted(maps.Keys(written)))
	}

	next := mustTemplates(in, written)
	if !next.Stored(run.Template) || next.Present() != run.Template || next.Name(run) != run.Template {
		t.Errorf("stored %t, present %q, made %q, want %q", next.Stored(run.Template), next.Present(), next.Name(run), run.Template)
	}
	again, err := next.annotations(run, &run)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(written, again); diff != "" {
		t.Errorf("annotations: -written, +again:\n%s", diff)
	}
	want, err := in.Templates.get(run)
	if err != nil {
		t.Fatal(err)
	}
	got, err := next.carriedSpec(run.Template)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("template: -made, +carried:\n%s", diff)
	}
	if d := next.Difference(run); d != "" {
		t.Errorf("a template differs from itself in %s", d)
	}
}

func everySetting(in *Inputs) {
	in.Spec.PodSettings = v1alpha1.PodSettings{
		Resources:        &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1024Mi"), corev1.ResourceCPU: resource.MustParse("0.5")}},
		NodeSelector:     map[string]string{"a": "1", "b": "2", "c": "3"},
		PodLabels:        map[string]string{"d": "1", "e": "2", "f": "3"},
		PodAnnotations:   map[string]string{"g": "<&>", "h": "ö"},
		Tolerations:      []corev1.Toleration{{Key: "x", TolerationSeconds: ptr.To[int64](1 << 40)}},
		ImagePullSecrets: []v1alpha1.LocalSecretRef{{Name: "registry"}},
	}
}

// R44: a carried template is what runs, whatever this function would make, and its
// annotation stays as it is.
func TestCarriedTemplateIsReturned(t *testing.T) {
	in := inputs(nil)
	name, annotations := carrying(t, in, otherGrace)
	got := mustStatefulSet(t, inputs(func(in *Inputs) {
		in.StatefulSet = &appsv1.StatefulSet{}
		in.StatefulSet.SetAnnotations(annotations)
		in.Decision.Run.Template, in.Decision.Ledger.Good.Template = name, name
	}))
	if g := *got.Spec.Template.Spec.TerminationGracePeriodSeconds; g != 7 {
		t.Errorf("the template is made anew: %d", g)
	}
	if diff := cmp.Diff(annotations[naming.AnnotationTemplate], got.GetAnnotations()[naming.AnnotationTemplate]); diff != "" {
		t.Errorf("the annotation is written anew: -carried, +got:\n%s", diff)
	}
	if _, ok := got.GetAnnotations()[naming.AnnotationGoodTemplate]; ok {
		t.Error("the good template is carried twice")
	}
}

// Never the live template: what somebody changed by hand has passed no gate.
func TestLiveTemplateIsNotRead(t *testing.T) {
	observed := observe(mustStatefulSet(t, inputs(nil)))
	want := observed.Spec.Template
	observed.Spec.Template = *want.DeepCopy()
	observed.Spec.Template.Spec.Containers[0].Image = "somebody/elses:1"
	got := mustStatefulSet(t, inputs(func(in *Inputs) {
		in.StatefulSet = observed
		in.Decision.Run.Template = mustTemplates(*in, observed.GetAnnotations()).Present()
	}))
	if diff := cmp.Diff(want, got.Spec.Template); diff != "" {
		t.Errorf("template: -want, +got:\n%s", diff)
	}
}

// R35: both templates can be had while they differ, and the good one comes back byte
// for byte.
func TestGoodTemplateIsCarried(t *testing.T) {
	in := inputs(nil)
	good, annotations := carrying(t, in, otherGrace)
	templates := mustTemplates(in, annotations)
	target := upgrade.Release{Version: "3.1.1", Image: "dirsrv:3.1.1"}
	target.Template = templates.Name(target)
	back := upgrade.Release{Version: "3.1.0", Image: "dirsrv:3.1.0", Template: good}

	during, err := templates.annotations(target, &back)
	if err != nil {
		t.Fatal(err)
	}
	if during[naming.AnnotationGoodTemplate] != annotations[naming.AnnotationTemplate] {
		t.Error("the good template is not carried as it was")
	}
	templates = mustTemplates(in, during)
	if !templates.Stored(good) || !templates.Stored(target.Template) || templates.Present() != target.Template {
		t.Errorf("stored %t and %t, present %q", templates.Stored(good), templates.Stored(target.Template), templates.Present())
	}
	after, err := templates.annotations(back, &back)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(annotations, after); diff != "" {
		t.Errorf("annotations after the way back: -want, +got:\n%s", diff)
	}
	if _, err := templates.annotations(target, nil); err != nil {
		t.Errorf("a service that was never good: %v", err)
	}
}

// An annotation that is lost or was changed is no template: it is made again.
func TestSpoiltTemplate(t *testing.T) {
	in := inputs(nil)
	name, annotations := carrying(t, in, otherGrace)
	whole := annotations[naming.AnnotationTemplate]
	_, other := carrying(t, in, func(p *corev1.PodTemplateSpec) { p.Spec.HostNetwork = true })
	_, packed, _ := strings.Cut(other[naming.AnnotationTemplate], ".")
	bomb, err := encodeTemplate(name, bytes.Repeat([]byte(" "), 2*maxTemplate))
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		reason     string
		annotation string
	}{
		"Missing":       {reason: "An older function wrote none."},
		"Empty":         {reason: "Nothing but the dot.", annotation: "."},
		"NameAlone":     {reason: "The document is gone.", annotation: name},
		"NoDocument":    {reason: "The document is empty.", annotation: name + "."},
		"Cut":           {reason: "The end is gone.", annotation: whole[:len(whole)-10]},
		"NotBase64":     {reason: "Somebody wrote into it.", annotation: whole[:len(whole)/2] + "!" + whole[len(whole)/2:]},
		"NotPacked":     {reason: "Base64 of something else.", annotation: name + ".aGVsbG8="},
		"OtherDocument": {reason: "A name that does not match its document: nobody smuggles a template in.", annotation: name + "." + packed},
		"OtherName":     {reason: "The same the other way round.", annotation: "0123456789ab-0123456789ab." + packed},
		"NoRendering":   {reason: "A name that tells no rendering.", annotation: "0123456789ab." + packed},
		"Bomb":          {reason: "What unpacks to more than any object may have is not read.", annotation: bomb},
	}
	for n, tc := range cases {
		t.Run(n, func(t *testing.T) {
			templates := mustTemplates(in, map[string]string{naming.AnnotationTemplate: tc.annotation})
			if templates.Stored(name) || templates.Present() != "" || len(templates.carried) > 0 {
				t.Errorf("\n%s\nstored %t, present %q", tc.reason, templates.Stored(name), templates.Present())
			}
			run := upgrade.Release{Version: "3.1.0", Image: "dirsrv:3.1.0", Template: name}
			spec, err := templates.get(run)
			if err != nil {
				t.Fatal(err)
			}
			if g := *spec.Spec.TerminationGracePeriodSeconds; g != terminationGraceSeconds {
				t.Errorf("\n%s\nthe template is %+v", tc.reason, spec)
			}
			written, err := templates.annotations(run, &run)
			if err != nil {
				t.Fatal(err)
			}
			if again := mustTemplates(in, written); again.Present() != templates.Name(run) {
				t.Errorf("\n%s\nwritten as %q, which this function calls %q", tc.reason, again.Present(), templates.Name(run))
			}
		})
	}
}

// R44: which fields differ, by the names that people know.
func TestDifference(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(p *corev1.PodTemplateSpec)
		want   string
	}{
		"Nothing": {reason: "The same template.", change: func(*corev1.PodTemplateSpec) {}},
		"Field":   {reason: "One field.", change: otherGrace, want: "spec.terminationGracePeriodSeconds"},
		"InNamedList": {
			reason: "Containers, variables and volumes go by their names, not by their places.",
			change: func(p *corev1.PodTemplateSpec) {
				p.Spec.Containers[0].Env[0].Value = "1"
				slices.Reverse(p.Spec.Volumes)
			},
			want: "spec.containers.dirsrv.env.DS_STARTUP_TIMEOUT.value",
		},
		"Added": {
			reason: "What is only in one of them.",
			change: func(p *corev1.PodTemplateSpec) {
				p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: "older"})
				p.Annotations = map[string]string{"a": "b"}
			},
			want: "metadata.annotations, spec.initContainers.older",
		},
		"UnnamedList": {
			reason: "A list without names is one field.",
			change: func(p *corev1.PodTemplateSpec) { p.Spec.TopologySpreadConstraints[0].MaxSkew = 3 },
			want:   "spec.topologySpreadConstraints",
		},
		"Many": {
			reason: "A long list is cut: it is part of a status.",
			change: func(p *corev1.PodTemplateSpec) {
				p.Labels = map[string]string{}
				for _, k := range strings.Split("abcdefghijkl", "") {
					p.Labels[k] = k
				}
			},
			want: "metadata.labels.a, metadata.labels.app.kubernetes.io/component, metadata.labels.app.kubernetes.io/instance, metadata.labels.app.kubernetes.io/managed-by, " +
				"metadata.labels.app.kubernetes.io/name, metadata.labels.app.kubernetes.io/part-of, metadata.labels.b, metadata.labels.c, metadata.labels.d, metadata.labels.e, and 7 more",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := inputs(nil)
			carried, annotations := carrying(t, in, tc.change)
			if diff := cmp.Diff(tc.want, mustTemplates(in, annotations).Difference(upgrade.Release{Version: "3.1.0", Image: "dirsrv:3.1.0", Template: carried})); diff != "" {
				t.Errorf("\n%s\nDifference(): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
	t.Run("Lost", func(t *testing.T) {
		if got := inputs(nil).Templates.Difference(upgrade.Release{Version: "3.1.0", Image: "dirsrv:3.1.0", Template: "lost"}); got != "" {
			t.Errorf("a template that is lost differs in %s", got)
		}
	})
}

// R14, R21, R44: the name of the pod template against each class of change. Its first
// part is what the user asked for, its second what this function makes of it.
func TestTemplateName(t *testing.T) {
	const (
		nothing = iota
		rendering
		both
		inputsAlone
	)
	own := v1alpha1.PodSettings{}
	cases := map[string]struct {
		reason string
		change func(s *v1alpha1.DirectoryServiceSpec)
		// platform changes what is not the spec's own.
		platform bool
		want     int
	}{
		"Suffixes": {reason: "R14: suffixes go by the ConfigMap.", change: func(s *v1alpha1.DirectoryServiceSpec) { s.Suffixes = []v1alpha1.Suffix{{Name: "b", DN: "dc=b"}} }},
		"Replicas": {reason: "R21: scaling changes .spec.replicas alone.", change: func(s *v1alpha1.DirectoryServiceSpec) { s.Replicas = ptr.To[int32](5) }},
		"Ports":    {reason: "R8: the ports are those of the Services.", change: func(s *v1alpha1.DirectoryServiceSpec) { s.Ports = v1alpha1.Ports{LDAP: 389, LDAPS: 636} }},
		"Service":  {reason: "R12: the Service is in front of the pods.", change: func(s *v1alpha1.DirectoryServiceSpec) { s.Service.Type = corev1.ServiceTypeLoadBalancer }},
		"NetworkPolicy": {reason: "R19: the policy is around them.", change: func(s *v1alpha1.DirectoryServiceSpec) {
			s.NetworkPolicy = v1alpha1.NetworkPolicy{Enabled: true, Clients: []networkingv1.NetworkPolicyPeer{{}}}
		}},
		"StorageSize":               {reason: "R7: volumes grow under running servers.", change: func(s *v1alpha1.DirectoryServiceSpec) { s.Storage.Size = ptr.To(resource.MustParse("5Gi")) }},
		"StorageClass":              {reason: "R7: nor is the class a pod's.", change: func(s *v1alpha1.DirectoryServiceSpec) { s.Storage.StorageClassName = ptr.To("fast") }},
		"DeletionProtection":        {reason: "R20: the protection is of the XR.", change: func(s *v1alpha1.DirectoryServiceSpec) { s.DeletionProtection = true }},
		"ServiceAccountAnnotations": {reason: "R17: the ServiceAccount is an object of its own.", change: func(s *v1alpha1.DirectoryServiceSpec) { s.ServiceAccountAnnotations = map[string]string{"a": "b"} }},
		"Paused":                    {reason: "R40: how an upgrade goes is no upgrade.", change: func(s *v1alpha1.DirectoryServiceSpec) { s.Upgrade.Paused = true }},
		"Deadline":                  {reason: "R40: the same.", change: func(s *v1alpha1.DirectoryServiceSpec) { s.Upgrade.ProgressDeadlineSeconds = 60 }},
		"MinReadySeconds":           {reason: "R40: the same.", change: func(s *v1alpha1.DirectoryServiceSpec) { s.Upgrade.MinReadySeconds = 60 }},
		"AutomaticRollback":         {reason: "R40: the same.", change: func(s *v1alpha1.DirectoryServiceSpec) { s.Upgrade.AutomaticRollback = ptr.To(false) }},
		"PodUpdates":                {reason: "R44: the same.", change: func(s *v1alpha1.DirectoryServiceSpec) { s.Upgrade.PodUpdates = "Automatic" }},
		"Version":                   {reason: "R4: a version that becomes known restarts nothing: the agent is told with the next change.", change: func(s *v1alpha1.DirectoryServiceSpec) { s.Version = "3.1.0" }, want: rendering},
		"DatabaseMigration":         {reason: "R42: the agent reads it from the ConfigMap.", change: func(s *v1alpha1.DirectoryServiceSpec) { s.Upgrade.DatabaseMigration = "Automatic" }},
		"DNSNames":                  {reason: "R52: another certificate is served by a restart in the pod.", change: func(s *v1alpha1.DirectoryServiceSpec) { s.TLS.DNSNames = []string{"ldap.example.com"} }},
		"TLSMode": {reason: "R52: another Secret is another volume.", change: func(s *v1alpha1.DirectoryServiceSpec) {
			s.TLS = v1alpha1.TLS{Mode: v1alpha1.TLSModeSecret, SecretRef: &v1alpha1.LocalSecretRef{Name: "mine"}}
		}, want: both},
		"PasswordMode":  {reason: "R11: a variable is in the pod.", change: func(s *v1alpha1.DirectoryServiceSpec) { s.DMPasswordMode = "file" }, want: both},
		"DefaultedMode": {reason: "A default that is written down changes nothing.", change: func(s *v1alpha1.DirectoryServiceSpec) { s.DMPasswordMode = "env" }},

		"Image":       {reason: "Another image is another server.", change: func(s *v1alpha1.DirectoryServiceSpec) { s.Image = "mirror/dirsrv:3.1.0" }, want: both},
		"PasswordRef": {reason: "R10: another Secret is another volume.", change: func(s *v1alpha1.DirectoryServiceSpec) { s.DMPasswordSecretRef = &v1alpha1.SecretKeyRef{Name: "mine"} }, want: both},
		"PasswordKey": {reason: "R10: another key too.", change: func(s *v1alpha1.DirectoryServiceSpec) {
			s.DMPasswordSecretRef = &v1alpha1.SecretKeyRef{Name: "ds-dm-password", Key: "pw"}
		}, want: both},
		"SamePasswordRef": {reason: "R9: the Secret that is generated, by name.", change: func(s *v1alpha1.DirectoryServiceSpec) {
			s.DMPasswordSecretRef = &v1alpha1.SecretKeyRef{Name: "ds-dm-password"}
		}},
		"StartupTimeout":   {reason: "R16: it is in the server's environment and probe.", change: func(s *v1alpha1.DirectoryServiceSpec) { s.Startup.TimeoutSeconds = 600 }, want: both},
		"DefaultedTimeout": {reason: "A default that is written down changes nothing.", change: func(s *v1alpha1.DirectoryServiceSpec) { s.Startup.TimeoutSeconds = 60 }},
		"Resources": {reason: "R17: the container's.", change: settingsOf(func(s *v1alpha1.PodSettings) {
			s.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}
		}), want: both},
		"NodeSelector": {reason: "R17: a node is chosen when the pod is made.", change: settingsOf(func(s *v1alpha1.PodSettings) { s.NodeSelector = map[string]string{"disk": "ssd"} }), want: both},
		"Tolerations": {reason: "R17: the same.", change: settingsOf(func(s *v1alpha1.PodSettings) {
			s.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}), want: both},
		"Affinity": {reason: "R17: the same.", change: settingsOf(func(s *v1alpha1.PodSettings) { s.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}} }), want: both},
		"TopologySpread": {reason: "R17: the same.", change: settingsOf(func(s *v1alpha1.PodSettings) {
			s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: "zone"}}
		}), want: both},
		"PriorityClass":  {reason: "R17: the same.", change: settingsOf(func(s *v1alpha1.PodSettings) { s.PriorityClassName = "high" }), want: both},
		"PullSecrets":    {reason: "R17: of the pod.", change: settingsOf(func(s *v1alpha1.PodSettings) { s.ImagePullSecrets = []v1alpha1.LocalSecretRef{{Name: "a"}} }), want: both},
		"PullPolicy":     {reason: "R17: of the container.", change: settingsOf(func(s *v1alpha1.PodSettings) { s.ImagePullPolicy = corev1.PullAlways }), want: both},
		"PodLabels":      {reason: "R17: of the pod.", change: settingsOf(func(s *v1alpha1.PodSettings) { s.PodLabels = map[string]string{"a": "b"} }), want: both},
		"PodAnnotations": {reason: "The way to restart by hand.", change: settingsOf(func(s *v1alpha1.PodSettings) { s.PodAnnotations = map[string]string{"restarted": "now"} }), want: both},
		"PodSecurityContext": {reason: "R17: of the pod.", change: settingsOf(func(s *v1alpha1.PodSettings) {
			s.PodSecurityContext = &corev1.PodSecurityContext{FSGroup: ptr.To[int64](1)}
		}), want: both},
		"SecurityContext": {reason: "R17: of the container.", change: settingsOf(func(s *v1alpha1.PodSettings) {
			s.SecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: ptr.To(false)}
		}), want: both},
		"OwnLabel": {reason: "R15: a label that cannot be set changes what was asked for, and no pod.", change: settingsOf(func(s *v1alpha1.PodSettings) { s.PodLabels = map[string]string{naming.LabelVersion: "1"} }), want: inputsAlone},

		"PlatformsResources": {reason: "R44: another default of the platform is nothing that the user asked for.", platform: true, change: settingsOf(func(s *v1alpha1.PodSettings) {
			s.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}
		}), want: rendering},
		"PlatformsLabels": {reason: "R44: nor are its labels.", platform: true, change: settingsOf(func(s *v1alpha1.PodSettings) { s.PodLabels = map[string]string{"platform": "a"} }), want: rendering},
	}
	name := func(change func(s *v1alpha1.DirectoryServiceSpec), platform bool) (inputs, rendering string) {
		spec := &v1alpha1.DirectoryServiceSpec{Image: "dirsrv:3.1.0", PodSettings: own}
		if change != nil {
			change(spec)
		}
		spec.Default()
		asked := spec.PodSettings
		if platform {
			asked = own
		}
		id := naming.Identity{Name: "ds", Namespace: "team"}
		target := upgrade.Release{Version: spec.Version, Image: spec.Image}
		templates, err := NewTemplates(PodInputs{Identity: id, Spec: spec, Own: asked, Target: target, Password: id.DMPassword(spec), TLS: id.TLS(spec), AgentImage: agentImage}, nil)
		if err != nil {
			t.Fatal(err)
		}
		inputs, rendering, _ = strings.Cut(templates.Name(target), "-")
		return inputs, rendering
	}
	wasInputs, wasRendering := name(nil, false)
	for n, tc := range cases {
		t.Run(n, func(t *testing.T) {
			i, r := name(tc.change, tc.platform)
			got := nothing
			switch {
			case i != wasInputs && r != wasRendering:
				got = both
			case i != wasInputs:
				got = inputsAlone
			case r != wasRendering:
				got = rendering
			}
			if got != tc.want {
				t.Errorf("\n%s\nwhat changes (%d nothing, %d the rendering, %d both, %d the inputs alone): want %d, got %d", tc.reason, nothing, rendering, both, inputsAlone, tc.want, got)
			}
		})
	}
}

func settingsOf(change func(s *v1alpha1.PodSettings)) func(s *v1alpha1.DirectoryServiceSpec) {
	return func(s *v1alpha1.DirectoryServiceSpec) { change(&s.PodSettings) }
}

// R34: equal inputs give equal templates, to the byte.
func TestTemplatesAreDeterministic(t *testing.T) {
	made := func() string {
		in := inputs(everySetting)
		run := upgrade.Release{Image: "dirsrv:3.1.0"}
		run.Template = in.Templates.Name(run)
		a, err := in.Templates.annotations(run, &upgrade.Release{Image: "dirsrv:3.0.0", Template: in.Templates.Name(upgrade.Release{Image: "dirsrv:3.0.0"})})
		if err != nil {
			t.Fatal(err)
		}
		return a[naming.AnnotationTemplate] + " " + a[naming.AnnotationGoodTemplate]
	}
	first := made()
	for range 20 {
		if again := made(); again != first {
			t.Fatalf("another call, another template: -first, +second:\n%s", cmp.Diff(first, again))
		}
	}
}
