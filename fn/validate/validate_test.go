package validate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/config"
)

// spec is a valid one, changed.
func spec(change func(s *v1alpha1.DirectoryServiceSpec)) *v1alpha1.DirectoryServiceSpec {
	s := &v1alpha1.DirectoryServiceSpec{
		Image:    "quay.io/389ds/dirsrv:3.1.0",
		Version:  "3.1.0",
		Suffixes: []v1alpha1.Suffix{{Name: "userroot", DN: "dc=example,dc=com"}},
	}
	if change != nil {
		change(s)
	}
	s.Default()
	return s
}

// want is one error: the field it names, and words of it that tell what to do.
type want struct {
	field string
	words []string
}

func check(t *testing.T, reason string, errs field.ErrorList, wants []want) {
	t.Helper()
	var fields, wantFields []string
	for _, e := range errs {
		fields = append(fields, e.Field)
	}
	for _, w := range wants {
		wantFields = append(wantFields, w.field)
	}
	if diff := cmp.Diff(wantFields, fields); diff != "" {
		t.Fatalf("\n%s\n-want fields, +got:\n%s\n%v", reason, diff, errs)
	}
	for i, w := range wants {
		for _, word := range w.words {
			if !strings.Contains(errs[i].Error(), word) {
				t.Errorf("\n%s\nthe error lacks %q: %s", reason, word, errs[i].Error())
			}
		}
	}
}

func TestService(t *testing.T) {
	type args struct {
		name string
		spec *v1alpha1.DirectoryServiceSpec
	}
	cases := map[string]struct {
		reason string
		args   args
		want   []want
	}{
		"Valid": {
			reason: "A usual service.",
			args:   args{name: "example-ds", spec: spec(nil)},
		},
		"Minimal": {
			reason: "R3: an image is all that a service must name.",
			args:   args{name: "a", spec: spec(func(s *v1alpha1.DirectoryServiceSpec) { *s = v1alpha1.DirectoryServiceSpec{Image: "x"} })},
		},
		"LongestName": {
			reason: "52 characters leave room for what is appended.",
			args:   args{name: strings.Repeat("a", 52), spec: spec(nil)},
		},
		"NameTooLong": {
			reason: "With 53 characters the pods' labels would not fit.",
			args:   args{name: strings.Repeat("a", 53), spec: spec(nil)},
			want:   []want{{field: "metadata.name", words: []string{"at most 52 characters", "another name"}}},
		},
		"NameWithDot": {
			reason: "A Service's name has no dots.",
			args:   args{name: "example.ds", spec: spec(nil)},
			want:   []want{{field: "metadata.name", words: []string{"DNS label"}}},
		},
		"NameBeginsWithDigit": {
			reason: "A Service's name begins with a letter.",
			args:   args{name: "389-ds", spec: spec(nil)},
			want:   []want{{field: "metadata.name", words: []string{"begins with a letter"}}},
		},
		"NoName": {
			reason: "An XR without a claim has no name of a service.",
			args:   args{spec: spec(nil)},
			want:   []want{{field: "metadata.name", words: []string{"DNS label"}}},
		},
		"NoImage": {
			reason: "R3: an image is required.",
			args:   args{name: "ds", spec: spec(func(s *v1alpha1.DirectoryServiceSpec) { s.Image = "" })},
			want:   []want{{field: "spec.image", words: []string{"for example quay.io/389ds/dirsrv:3.1.0"}}},
		},
		"NoReplicas": {
			reason: "R5: a service has a server.",
			args:   args{name: "ds", spec: spec(func(s *v1alpha1.DirectoryServiceSpec) { s.Replicas = ptr.To[int32](0) })},
			want:   []want{{field: "spec.replicas", words: []string{"1 to 20"}}},
		},
		"MostReplicas": {
			reason: "R5: 20 servers are the most.",
			args:   args{name: "ds", spec: spec(func(s *v1alpha1.DirectoryServiceSpec) { s.Replicas = ptr.To[int32](20) })},
		},
		"TooManyReplicas": {
			reason: "R5: 21 servers are too many.",
			args:   args{name: "ds", spec: spec(func(s *v1alpha1.DirectoryServiceSpec) { s.Replicas = ptr.To[int32](21) })},
			want:   []want{{field: "spec.replicas", words: []string{"1 to 20"}}},
		},
		"NoStorage": {
			reason: "R7: a volume has a size.",
			args:   args{name: "ds", spec: spec(func(s *v1alpha1.DirectoryServiceSpec) { s.Storage.Size = ptr.To(resource.MustParse("0")) })},
			want:   []want{{field: "spec.storage.size", words: []string{"for example 10Gi"}}},
		},
		"NegativeStorage": {
			reason: "R7: a volume's size is positive.",
			args:   args{name: "ds", spec: spec(func(s *v1alpha1.DirectoryServiceSpec) { s.Storage.Size = ptr.To(resource.MustParse("-1Gi")) })},
			want:   []want{{field: "spec.storage.size", words: []string{"-1Gi"}}},
		},
		"NegativeTimeout": {
			reason: "Time goes forward.",
			args:   args{name: "ds", spec: spec(func(s *v1alpha1.DirectoryServiceSpec) { s.Startup.TimeoutSeconds = -1 })},
			want:   []want{{field: "spec.startup.timeoutSeconds", words: []string{"positive"}}},
		},
		"EqualPorts": {
			reason: "R8: one Service cannot have one port twice.",
			args:   args{name: "ds", spec: spec(func(s *v1alpha1.DirectoryServiceSpec) { s.Ports = v1alpha1.Ports{LDAP: 636, LDAPS: 636} })},
			want:   []want{{field: "spec.ports.ldaps", words: []string{"must differ from spec.ports.ldap"}}},
		},
		"PortsSwapped": {
			reason: "R8: any two different ports will do.",
			args:   args{name: "ds", spec: spec(func(s *v1alpha1.DirectoryServiceSpec) { s.Ports = v1alpha1.Ports{LDAP: 3636, LDAPS: 3389} })},
		},
		"PortsOutOfRange": {
			reason: "R8: ports are 1 to 65535.",
			args:   args{name: "ds", spec: spec(func(s *v1alpha1.DirectoryServiceSpec) { s.Ports = v1alpha1.Ports{LDAP: -1, LDAPS: 65536} })},
			want: []want{
				{field: "spec.ports.ldap", words: []string{"1 to 65535"}},
				{field: "spec.ports.ldaps", words: []string{"1 to 65535"}},
			},
		},
		"ServiceAnnotation": {
			reason: "What Kubernetes would refuse in the Service is named by the field of the spec.",
			args:   args{name: "ds", spec: spec(func(s *v1alpha1.DirectoryServiceSpec) { s.Service.Annotations = map[string]string{"a b": ""} })},
			want:   []want{{field: "spec.service.annotations"}},
		},
		"Several": {
			reason: "All errors are told at once.",
			args: args{name: "Ds", spec: spec(func(s *v1alpha1.DirectoryServiceSpec) {
				s.Image = ""
				s.Suffixes[0].DN = "example"
			})},
			want: []want{{field: "metadata.name"}, {field: "spec.image"}, {field: "spec.suffixes[0].dn"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			check(t, tc.reason, Service(tc.args.name, tc.args.spec, nil), tc.want)
		})
	}
}

// R6: names, DNs, and what was recorded before.
func TestSuffixes(t *testing.T) {
	cases := map[string]struct {
		reason   string
		suffixes []v1alpha1.Suffix
		recorded []config.Suffix
		want     []want
	}{
		"None": {
			reason: "A service may have no suffix.",
		},
		"Several": {
			reason: "Different names and DNs, also one below another.",
			suffixes: []v1alpha1.Suffix{
				{Name: "userroot", DN: "dc=example,dc=com"},
				{Name: "people", DN: "ou=people,dc=example,dc=com"},
				{Name: "o-1_x", DN: "o=Example Inc"},
			},
		},
		"NameBeginsWithDigit": {
			reason:   "A backend's name begins with a letter.",
			suffixes: []v1alpha1.Suffix{{Name: "1a", DN: "dc=a"}},
			want:     []want{{field: "spec.suffixes[0].name", words: []string{"begin with a letter"}}},
		},
		"NameWithSpace": {
			reason:   "A backend's name is part of a DN and of a path.",
			suffixes: []v1alpha1.Suffix{{Name: "a b", DN: "dc=a"}},
			want:     []want{{field: "spec.suffixes[0].name", words: []string{"letters, digits, - and _"}}},
		},
		"NameEmpty": {
			reason:   "A backend has a name.",
			suffixes: []v1alpha1.Suffix{{DN: "dc=a"}},
			want:     []want{{field: "spec.suffixes[0].name"}},
		},
		"NameWithNewline": {
			reason:   "A line break at the end is not overlooked.",
			suffixes: []v1alpha1.Suffix{{Name: "a\n", DN: "dc=a"}},
			want:     []want{{field: "spec.suffixes[0].name"}},
		},
		"NameReserved": {
			reason:   "The server has entries of these names itself, in any case.",
			suffixes: []v1alpha1.Suffix{{Name: "config", DN: "dc=a"}, {Name: "Monitor", DN: "dc=b"}},
			want: []want{
				{field: "spec.suffixes[0].name", words: []string{"choose another name"}},
				{field: "spec.suffixes[1].name", words: []string{"choose another name"}},
			},
		},
		"NameTwice": {
			reason:   "The server compares names without regard to case.",
			suffixes: []v1alpha1.Suffix{{Name: "userroot", DN: "dc=a"}, {Name: "userRoot", DN: "dc=b"}},
			want:     []want{{field: "spec.suffixes[1].name", words: []string{"another suffix (userroot)"}}},
		},
		"DNEmpty": {
			reason:   "The root DSE is no suffix.",
			suffixes: []v1alpha1.Suffix{{Name: "a", DN: ""}},
			want:     []want{{field: "spec.suffixes[0].dn", words: []string{"such as dc=example,dc=com"}}},
		},
		"DNInvalid": {
			reason:   "A DN follows RFC 4514.",
			suffixes: []v1alpha1.Suffix{{Name: "a", DN: "example.com"}},
			want:     []want{{field: "spec.suffixes[0].dn", words: []string{"distinguished name", "such as dc=example,dc=com"}}},
		},
		"DNTwice": {
			reason:   "Two backends cannot hold one suffix; case and spaces do not count.",
			suffixes: []v1alpha1.Suffix{{Name: "a", DN: "dc=example,dc=com"}, {Name: "b", DN: "DC=Example, DC=COM"}},
			want:     []want{{field: "spec.suffixes[1].dn", words: []string{"suffix a already", "remove one"}}},
		},
		"DNReserved": {
			reason:   "The server's own trees cannot be suffixes.",
			suffixes: []v1alpha1.Suffix{{Name: "a", DN: "CN=Config"}, {Name: "b", DN: "cn=schema"}, {Name: "c", DN: "cn=monitor"}, {Name: "d", DN: "cn=changelog"}},
			want: []want{
				{field: "spec.suffixes[0].dn", words: []string{"choose another suffix"}},
				{field: "spec.suffixes[1].dn", words: []string{"choose another suffix"}},
				{field: "spec.suffixes[2].dn", words: []string{"choose another suffix"}},
				{field: "spec.suffixes[3].dn", words: []string{"choose another suffix"}},
			},
		},
		"RootEntryImpossible": {
			reason:   "Nobody knows which object class such an entry has.",
			suffixes: []v1alpha1.Suffix{{Name: "a", DN: "l=Berlin"}},
			want:     []want{{field: "spec.suffixes[0].dn", words: []string{`"l"`, "dc, o, ou, c or cn", "createEntry: false"}}},
		},
		"NoCountry": {
			reason:   "The backend would be made, and its root entry never.",
			suffixes: []v1alpha1.Suffix{{Name: "a", DN: "c=deutschland"}},
			want:     []want{{field: "spec.suffixes[0].dn", words: []string{"two letters"}}},
		},
		"RootEntryByTheUser": {
			reason:   "Without createEntry any attribute will do.",
			suffixes: []v1alpha1.Suffix{{Name: "a", DN: "l=Berlin", CreateEntry: ptr.To(false)}},
		},
		"DNSpeltDifferently": {
			reason:   "Another spelling of the recorded DN changes nothing.",
			suffixes: []v1alpha1.Suffix{{Name: "userRoot", DN: "DC=example, DC=com"}},
			recorded: []config.Suffix{{Name: "userroot", DN: "dc=example,dc=com"}},
		},
		"DNChanged": {
			reason:   "The entries below the suffix would not move along.",
			suffixes: []v1alpha1.Suffix{{Name: "userRoot", DN: "dc=example,dc=org"}},
			recorded: []config.Suffix{{Name: "userroot", DN: "dc=example,dc=com"}},
			want:     []want{{field: "spec.suffixes[0].dn", words: []string{`"dc=example,dc=com"`, "cannot change", "put it back", "another name"}}},
		},
		"OrphanReturns": {
			reason:   "A suffix that was taken off may come back as it was.",
			suffixes: []v1alpha1.Suffix{{Name: "a", DN: "dc=a"}},
			recorded: []config.Suffix{{Name: "a", DN: "dc=a", Orphaned: true}},
		},
		"OrphansDN": {
			reason:   "The data of a suffix that was taken off are kept, so its DN is not free for another backend.",
			suffixes: []v1alpha1.Suffix{{Name: "b", DN: "DC=A"}},
			recorded: []config.Suffix{{Name: "a", DN: "dc=a", Orphaned: true}},
			want:     []want{{field: "spec.suffixes[0].dn", words: []string{"suffix a"}}},
		},
		"Renamed": {
			reason:   "The same when the name changes in one step.",
			suffixes: []v1alpha1.Suffix{{Name: "b", DN: "dc=a"}},
			recorded: []config.Suffix{{Name: "a", DN: "dc=a"}},
			want:     []want{{field: "spec.suffixes[0].dn", words: []string{"suffix a"}}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := spec(func(s *v1alpha1.DirectoryServiceSpec) { s.Suffixes = tc.suffixes })
			check(t, tc.reason, Service("ds", s, tc.recorded), tc.want)
		})
	}
}

// R15, R16b, R17: what Kubernetes would refuse in a pod, and what is the
// function's own.
func TestPodSettings(t *testing.T) {
	cases := map[string]struct {
		reason   string
		settings v1alpha1.PodSettings
		want     []want
	}{
		"Valid": {
			reason: "Usual settings.",
			settings: v1alpha1.PodSettings{
				NodeSelector:       map[string]string{"disk": "ssd"},
				PodLabels:          map[string]string{"team": "directory"},
				PodAnnotations:     map[string]string{"example.org/a": "any text"},
				PodSecurityContext: &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](389), FSGroup: ptr.To[int64](1000)},
				SecurityContext:    &corev1.SecurityContext{RunAsGroup: ptr.To[int64](389)},
				Resources: &corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")},
					Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1024Mi")},
				},
			},
		},
		"LabelInvalid": {
			reason:   "A label's value is short and plain.",
			settings: v1alpha1.PodSettings{PodLabels: map[string]string{"team": "a team"}},
			want:     []want{{field: "spec.podLabels"}},
		},
		"LabelOfTheSelector": {
			reason:   "R15: the selector's labels are never the user's.",
			settings: v1alpha1.PodSettings{PodLabels: map[string]string{"app.kubernetes.io/name": "x"}},
			want:     []want{{field: "spec.podLabels[app.kubernetes.io/name]", words: []string{"choose another label"}}},
		},
		"LabelOfTheVersion": {
			reason:   "R15: nor are the other labels of the function.",
			settings: v1alpha1.PodSettings{PodLabels: map[string]string{"app.kubernetes.io/version": "1"}},
			want:     []want{{field: "spec.podLabels[app.kubernetes.io/version]", words: []string{"choose another label"}}},
		},
		"NodeSelectorInvalid": {
			reason:   "A node selector is made of labels.",
			settings: v1alpha1.PodSettings{NodeSelector: map[string]string{"a b": "x"}},
			want:     []want{{field: "spec.nodeSelector"}},
		},
		"PodAnnotationInvalid": {
			reason:   "An annotation's name is a qualified name.",
			settings: v1alpha1.PodSettings{PodAnnotations: map[string]string{"a/b/c": "x"}},
			want:     []want{{field: "spec.podAnnotations"}},
		},
		"ServiceAccountAnnotationInvalid": {
			reason:   "The same of the ServiceAccount.",
			settings: v1alpha1.PodSettings{ServiceAccountAnnotations: map[string]string{"a/b/c": "x"}},
			want:     []want{{field: "spec.serviceAccountAnnotations"}},
		},
		"PodUser": {
			reason:   "R16b: another user could not read the database.",
			settings: v1alpha1.PodSettings{PodSecurityContext: &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](0)}},
			want:     []want{{field: "spec.podSecurityContext.runAsUser", words: []string{"must be 389"}}},
		},
		"ContainerGroup": {
			reason:   "R16b: nor could another group, of the container alone.",
			settings: v1alpha1.PodSettings{SecurityContext: &corev1.SecurityContext{RunAsGroup: ptr.To[int64](1)}},
			want:     []want{{field: "spec.securityContext.runAsGroup", words: []string{"must be 389"}}},
		},
		"RequestsOverLimits": {
			reason: "The API server would refuse the pod, long after the spec was accepted.",
			settings: v1alpha1.PodSettings{Resources: &corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
			}},
			want: []want{{field: "spec.resources.requests[memory]", words: []string{"2Gi", "not be more than the limit, 1Gi"}}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			check(t, tc.reason, PodSettings(field.NewPath("spec"), &tc.settings), tc.want)
		})
	}
}

// R34: the errors become the message of a condition. In another order they would
// be another message, and its event sent again in every call.
func TestServiceIsDeterministic(t *testing.T) {
	many := map[string]string{"a b": "x", "c d": "x", "e f": "x", "g h": "x"}
	cases := map[string]struct {
		reason string
		change func(s *v1alpha1.DirectoryServiceSpec)
	}{
		"Ports": {
			reason: "Two ports.",
			change: func(s *v1alpha1.DirectoryServiceSpec) { s.Ports = v1alpha1.Ports{LDAP: -1, LDAPS: -2} },
		},
		"PodLabels": {
			reason: "Several labels.",
			change: func(s *v1alpha1.DirectoryServiceSpec) { s.PodLabels = many },
		},
		"PodAnnotations": {
			reason: "Several annotations.",
			change: func(s *v1alpha1.DirectoryServiceSpec) { s.PodAnnotations = many },
		},
		"Users": {
			reason: "A user and a group.",
			change: func(s *v1alpha1.DirectoryServiceSpec) {
				s.SecurityContext = &corev1.SecurityContext{RunAsUser: ptr.To[int64](1), RunAsGroup: ptr.To[int64](1)}
			},
		},
		"Resources": {
			reason: "Several resources.",
			change: func(s *v1alpha1.DirectoryServiceSpec) {
				one, two := resource.MustParse("1"), resource.MustParse("2")
				s.Resources = &corev1.ResourceRequirements{
					Requests: corev1.ResourceList{"cpu": two, "memory": two, "ephemeral-storage": two},
					Limits:   corev1.ResourceList{"cpu": one, "memory": one, "ephemeral-storage": one},
				}
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := spec(tc.change)
			first := Service("ds", s, nil)
			if len(first) < 2 {
				t.Fatalf("\n%s\nwant several errors, got %v", tc.reason, first)
			}
			// One order in a hundred calls is no chance.
			for range 100 {
				if diff := cmp.Diff(first.ToAggregate().Error(), Service("ds", s, nil).ToAggregate().Error()); diff != "" {
					t.Fatalf("\n%s\nanother call, another message:\n%s", tc.reason, diff)
				}
			}
		})
	}
}
