package render

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/389ds/function-directoryservice/fn/naming"
)

const examples = "../../examples/upgrade"

// A story is how a service came to where a case begins.
type story struct {
	// dir of the case.
	dir string
	// claim says that the service is a claim's.
	claim bool
	tell  func(l *life)
}

// stories of all cases that begin with a service that exists.
var stories = []story{
	{dir: "steady", tell: settled},
	{dir: "degraded", tell: func(l *life) {
		settled(l)
		l.fate = all(crashes)
		l.pass(tick)
	}},
	{dir: "pod-cannot-pull", tell: func(l *life) {
		l.fate = all(cannotPull)
		l.settle()
	}},
	{dir: "first-image-corrected", tell: func(l *life) {
		l.fate = all(cannotPull)
		l.settle()
		l.version("3.1.2")
	}},
	{dir: "invalid-while-running", tell: func(l *life) {
		settled(l)
		l.spec("{replicas: 2, suffixes: [{name: userroot, dn: example}]}")
	}},
	{dir: "mismatch-while-running", tell: func(l *life) {
		settled(l)
		l.spec("{version: 3.1.1, resources: {requests: {memory: 2Gi}}}")
	}},
	{dir: "recreated", tell: func(l *life) {
		settled(l)
		l.recreate(naming.KeyDMPassword, naming.KeyTLS, naming.KeyTLSCA)
	}},
	{dir: "recreated-before-collection", tell: func(l *life) {
		settled(l)
		l.recreate(naming.KeyDMPassword, naming.KeyTLS, naming.KeyTLSCA, naming.KeyConfig, naming.KeyStatefulSet)
		l.version("2.0.0")
	}},
	{dir: "recreated-over-volumes", tell: func(l *life) {
		settled(l)
		l.recreate()
		l.step()
	}},
	{dir: "recreated-over-lost-volumes", tell: func(l *life) {
		settled(l)
		l.recreate()
		l.volumes[0] = &volume{suffixes: map[string]bool{}}
		l.settle()
	}},
	{dir: "scaled-up", tell: func(l *life) {
		settled(l)
		l.spec("replicas: 3")
	}},
	{dir: "scaled-down", tell: func(l *life) {
		servers(l, 2)
		l.spec("replicas: 1")
	}},
	{dir: "secret-brought", tell: func(l *life) {
		settled(l)
		l.spec("dmPasswordSecretRef: {name: brought}")
		l.others = append(l.others, Object{
			"apiVersion": "v1", "kind": "Secret", "metadata": Object{"name": "brought", "namespace": serviceNamespace},
			"data": Object{"dm-password": "YnJvdWdodA=="},
		})
	}},
	{dir: "secret-brought-later", tell: func(l *life) {
		settled(l)
		l.spec("dmPasswordSecretRef: {name: brought}")
	}},
	{dir: "secret-lost", tell: func(l *life) {
		settled(l)
		delete(l.composed, naming.KeyDMPassword)
	}},
	{dir: "storage-class-corrected", tell: func(l *life) {
		l.spec("storage: {storageClassName: tpyo}")
		l.fate = all(unschedulable)
		l.settle()
		l.spec("storage: {storageClassName: right}")
	}},
	{dir: "storage-grown", tell: func(l *life) {
		settled(l)
		l.spec("storage: {size: 2Gi}")
	}},
	{dir: "storage-growing", tell: func(l *life) {
		settled(l)
		l.spec("storage: {size: 2Gi}")
		l.until("the Job did its work", func() bool { return l.claims[0].Spec.Resources.Requests.Storage().String() == "2Gi" })
	}},
	{dir: "storage-cannot-grow", tell: func(l *life) {
		settled(l)
		l.claimsRefused = `persistentvolumeclaims "ds-data-example-ds-0" is forbidden: only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize`
		l.spec("storage: {size: 2Gi}")
		l.until("the Job fails", func() bool { return len(l.others) > 0 })
	}},
	{dir: "storage-shrunk", tell: func(l *life) {
		settled(l)
		l.spec("storage: {size: 500Mi}")
	}},
	{dir: "suffix-failed", tell: func(l *life) {
		settled(l)
		l.suffixFails = map[string]string{"people": "cannot create the backend: the server is unwilling to perform (53)"}
		l.spec("suffixes: [{name: userroot, dn: 'dc=example,dc=com'}, {name: people, dn: 'ou=people,dc=example,dc=com'}]")
		l.step()
	}},
	{dir: "suffix-lost", tell: func(l *life) {
		lost(l)
	}},
	{dir: "suffix-refounded", tell: func(l *life) {
		lost(l)
		l.settle()
		l.annotate("allow-refound", "userroot")
	}},
	{dir: "suffix-dn-changed", tell: func(l *life) {
		settled(l)
		l.spec("suffixes: [{name: userroot, dn: dc=other}]")
	}},
	{dir: "suffix-taken-off", tell: func(l *life) {
		settled(l)
		l.spec("suffixes: [{name: people, dn: ou=people}]")
	}},
	{dir: "second-call", tell: func(l *life) { l.step() }},
	{dir: "second-call-claim", claim: true, tell: func(l *life) { l.step() }},
	{dir: "second-call-two-servers", tell: func(l *life) {
		l.spec("{replicas: 2, storage: {size: 10Gi}, ports: {ldap: 3389, ldaps: 3636}}")
		l.step()
	}},
	{dir: "password-mode-file", tell: func(l *life) {
		settled(l)
		l.spec("dmPasswordMode: file")
	}},
	{dir: withoutImage, tell: settled},
	{dir: "every-field", tell: func(l *life) {
		l.given("every-field")
		l.certificate("corp-tls-issued")
		l.others = append(l.others, Object{
			"apiVersion": "v1", "kind": "Secret", "metadata": Object{"name": "corp-admin", "namespace": serviceNamespace},
			"data": Object{"password": "c2VjcmV0IDQy"},
		})
		l.step()
	}},
	{dir: "platform-input", tell: func(l *life) {
		const anImage = "quay.io/389ds/dirsrv@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
		l.platform("{imageCatalog: [{version: 3.1.0, image: '" + anImage + "'}], defaults: {storageClassName: platform, nodeSelector: {disk: any}, resources: {requests: {memory: 512Mi}}}}")
		l.spec("{image: '" + anImage + "', nodeSelector: {disk: ssd}}")
		l.step()
	}},
	{dir: "tls-secret-missing-while-running", tell: func(l *life) {
		settled(l)
		l.spec("tls: {mode: Secret, secretRef: {name: brought}}")
	}},
	{dir: "tls-secret-brought", tell: func(l *life) {
		settled(l)
		l.certificate("brought")
		l.spec("tls: {mode: Secret, secretRef: {name: brought}}")
	}},
	{dir: "tls-cert-manager-issued", tell: func(l *life) {
		l.spec("tls: {mode: CertManager, issuerRef: {name: corp}}")
		l.step()
		l.certificate(serviceName + "-tls-issued")
	}},
	{dir: "tls-ca-lost", tell: func(l *life) {
		settled(l)
		delete(l.composed, naming.KeyTLSCA)
	}},
	{dir: "tls-renewal-due", tell: func(l *life) {
		settled(l)
		l.pass(61 * 24 * time.Hour)
	}},
	{dir: "tls-renewal", tell: func(l *life) {
		servers(l, 2)
		l.pass(61 * 24 * time.Hour)
		l.step()
	}},
	{dir: "unknown-object-kept", tell: func(l *life) {
		settled(l)
		l.composed["made-by-another-version"] = Object{
			"apiVersion": "v1", "kind": "ConfigMap", "data": Object{"a": "b"},
			"metadata": Object{
				"name": "extra", "namespace": serviceNamespace, "labels": Object{"crossplane.io/composite": serviceName},
				"annotations": Object{keyAnnotation: "made-by-another-version"},
			},
		}
	}},

	{dir: "one-server-upgrade-started", tell: func(l *life) {
		settled(l)
		l.version("3.1.1")
	}},
	{dir: "one-server-upgrade-failed", tell: func(l *life) {
		settled(l)
		l.fate = fails("3.1.1", 0, crashes)
		l.version("3.1.1")
		l.until("crashed", func() bool { return down(l, image("3.1.1")) })
	}},
	{dir: "one-server-rolling-back", tell: func(l *life) {
		settled(l)
		l.fate = fails("3.1.1", 0, crashes)
		l.version("3.1.1")
		l.until("the Role is there", func() bool { return l.has("-role") })
	}},
	{dir: "version-mismatch", tell: func(l *life) {
		settled(l)
		l.fate = fails("3.1.1", 0, otherVersion)
		l.version("3.1.1")
		l.until("refused", func() bool { return down(l, image("3.1.1")) })
	}},
	{dir: "rollback-loses-writes", tell: func(l *life) {
		settled(l)
		l.fate = fails("3.1.1", 0, crashes)
		l.version("3.1.1")
		l.until("it goes back", func() bool { return l.phase() == "RollingBack" })
		l.fate = all(losesWrites)
		l.until("refused", func() bool { return down(l, image("3.1.0")) })
	}},
	{dir: "manual-rollback-loses-writes", tell: func(l *life) {
		settled(l)
		l.version("3.1.1")
		settled(l)
		l.fate = fails("3.1.0", 0, losesWrites)
		l.annotate("rollback-to", "3.1.0")
		l.until("refused", func() bool { return down(l, image("3.1.0")) })
	}},
	{dir: "stuck-pod-replaced", tell: func(l *life) {
		servers(l, 3)
		l.fate = fails("3.1.1", 1, cannotPull)
		l.version("3.1.1")
		l.until("the Job is there", func() bool { return l.has("-rolebinding") })
	}},
	{dir: "rollback-fails", tell: func(l *life) {
		settled(l)
		l.version("3.1.1")
		l.fate = all(crashes)
		l.until("it goes back", func() bool { return l.phase() == "RollingBack" })
		l.until("that fails too", func() bool { return down(l, image("3.1.0")) })
	}},
	{dir: "rollback-to-unknown", tell: func(l *life) {
		settled(l)
		l.annotate("rollback-to", "2.9.9")
	}},
	{dir: "upgrade-failed-and-kept", tell: func(l *life) {
		servers(l, 3)
		l.spec("upgrade: {automaticRollback: false}")
		l.fate = fails("3.1.1", 1, cannotPull)
		l.version("3.1.1")
		l.until("pod 1 fails", func() bool { return down(l, image("3.1.1")) })
	}},
	{dir: "pod-update-rejected", tell: func(l *life) {
		settled(l)
		l.spec("resources: {limits: {memory: 1Mi}}")
		l.fate = all(crashes)
		l.until("it goes back", func() bool { return l.phase() == "RollingBack" })
		l.fate = nil
		l.until("it is back", func() bool { return ready(l, "3.1.0") == 1 && l.updated() })
	}},
	{dir: "upgrade-blocked-claim", claim: true, tell: func(l *life) {
		settled(l)
		l.version("4.0.0")
	}},
	{dir: "upgrade-unhealthy", tell: func(l *life) {
		servers(l, 3)
		l.fate = fails("3.1.0", 1, crashes)
		l.pass(tick)
		l.settle()
		l.version("3.1.1")
	}},
	{dir: "invalid-while-upgrade-fails", tell: func(l *life) {
		servers(l, 3)
		l.fate = fails("3.1.1", 1, cannotPull)
		l.version("3.1.1")
		l.until("pod 1 fails", func() bool { return down(l, image("3.1.1")) })
		l.spec("suffixes: [{name: userroot, dn: example}]")
	}},
	{dir: "invalid-while-rolling-back", tell: func(l *life) {
		servers(l, 3)
		l.fate = fails("3.1.1", 1, cannotPull)
		l.version("3.1.1")
		l.until("the Role is there", func() bool { return l.has("-role") })
		l.spec("suffixes: [{name: userroot, dn: example}]")
	}},
	{dir: "ledger-lost-while-upgrading", tell: func(l *life) {
		servers(l, 3)
		l.version("3.1.1")
		l.until("one is replaced", func() bool { return ready(l, "3.1.1") == 1 })
		delete(get(l.composed[naming.KeyStatefulSet], "metadata", "annotations").(Object), naming.AnnotationLedger)
	}},
	{dir: "platform-defaults-changed", tell: func(l *life) {
		settled(l)
		l.platform("{defaults: {resources: {requests: {memory: 512Mi}}}}")
	}},

	{dir: examples + "/before", tell: func(l *life) { servers(l, 3) }},
	{dir: examples + "/started", tell: func(l *life) {
		servers(l, 3)
		l.version("3.1.1")
	}},
	{dir: examples + "/second-pod", tell: func(l *life) {
		servers(l, 3)
		l.version("3.1.1")
		l.until("one is replaced", func() bool { return ready(l, "3.1.1") == 1 })
	}},
	{dir: examples + "/paused", tell: func(l *life) {
		servers(l, 3)
		l.version("3.1.1")
		l.step()
		l.spec("upgrade: {paused: true}")
		l.until("one is replaced", func() bool { return ready(l, "3.1.1") == 1 })
	}},
	{dir: examples + "/completed", tell: func(l *life) {
		servers(l, 3)
		l.version("3.1.1")
		l.until("all are replaced", func() bool { return ready(l, "3.1.1") == 3 })
	}},
	{dir: examples + "/blocked", tell: func(l *life) {
		servers(l, 3)
		l.version("4.0.0")
	}},
	{dir: examples + "/approved", tell: func(l *life) {
		servers(l, 3)
		l.version("4.0.0")
		l.settle()
		l.annotate("approved-transition", "3.1.0->4.0.0")
		l.annotate("backup-confirmed", "3.1.0->4.0.0")
	}},
	{dir: examples + "/failed", tell: func(l *life) {
		servers(l, 3)
		l.fate = fails("3.1.1", 1, cannotPull)
		l.version("3.1.1")
		l.until("pod 1 fails", func() bool { return down(l, image("3.1.1")) })
	}},
	{dir: examples + "/rolling-back", tell: func(l *life) {
		servers(l, 3)
		l.fate = fails("3.1.1", 1, cannotPull)
		l.version("3.1.1")
		l.until("the Role is there", func() bool { return l.has("-role") })
	}},
	{dir: examples + "/rolled-back", tell: func(l *life) {
		servers(l, 3)
		l.fate = fails("3.1.1", 1, cannotPull)
		l.version("3.1.1")
		l.until("pod 1 fails", func() bool { return down(l, image("3.1.1")) })
		l.until("all are back", func() bool { return ready(l, "3.1.0") == 3 })
	}},
	{dir: examples + "/manual-rollback", tell: func(l *life) {
		servers(l, 3)
		l.version("3.1.1")
		settled(l)
		l.annotate("rollback-to", "3.1.0")
	}},
	{dir: examples + "/pending-pod-update", tell: func(l *life) {
		l.older = func(t *corev1.PodTemplateSpec) {
			// It had no agent.
			t.Spec.InitContainers, t.Spec.Containers[0].Command = nil, nil
		}
		servers(l, 3)
		l.older = nil
	}},
}

// settled: the service has run for an hour, with nothing left to do.
func settled(l *life) {
	l.settle()
	l.pass(time.Hour)
	l.settle()
}

// servers: as many have run for an hour.
func servers(l *life, n int) {
	l.spec("replicas: " + strconv.Itoa(n))
	settled(l)
}

// lost: the first server's volume was lost, and is made anew.
func lost(l *life) {
	settled(l)
	delete(l.claims, 0)
	delete(l.pods, 0)
	l.until("it starts", func() bool { return l.pods[0] != nil && l.fates[l.pods[0].UID] == starts })
}

// given has the service begin with what a case's own xr.yaml says: that is written by hand.
func (l *life) given(dir string) {
	docs, err := readDocuments(filepath.Join(dir, "xr.yaml"))
	l.must(err)
	l.xr["spec"] = docs[0]["spec"]
	l.xr["metadata"].(Object)["name"] = text(docs[0], "metadata", "name")
}

// certificate puts a Secret there with a certificate for the service that others made:
// the function, for a service of that name in another life.
func (l *life) certificate(name string) {
	other := newLife(l.t, l.now, false)
	other.xr["metadata"].(Object)["name"] = get(l.xr, "metadata", "name")
	other.calls = 100
	other.step()
	other.step()
	secret := Object{
		"apiVersion": "v1", "kind": "Secret", "type": string(corev1.SecretTypeTLS),
		"metadata": Object{"name": name, "namespace": serviceNamespace}, "data": other.composed[naming.KeyTLS]["data"],
	}
	l.stored(secret, nil)
	l.others = append(l.others, secret)
}

// all pods have that fate.
func all(f fate) func(int32, string) fate { return func(int32, string) fate { return f } }

// fails: one pod, with the image of a version, has that fate.
func fails(version string, ordinal int32, f fate) func(int32, string) fate {
	return func(i int32, of string) fate {
		if i == ordinal && of == image(version) {
			return f
		}
		return starts
	}
}

// down says that a pod with that image fails.
func down(l *life, image string) bool {
	for _, p := range l.pods {
		if c := p.Status.ContainerStatuses[0]; c.Image == image && c.State.Waiting != nil && c.State.Waiting.Reason != "ContainerCreating" && c.State.Waiting.Reason != "PodInitializing" {
			return true
		}
	}
	return false
}

// ready servers of a version.
func ready(l *life, version string) int {
	n := 0
	for _, p := range l.pods {
		if isReady(p) && p.Spec.Containers[0].Image == image(version) {
			n++
		}
	}
	return n
}

// updated says that every pod is of the present template.
func (l *life) updated() bool {
	sts := l.statefulSet()
	return sts.Status.ObservedGeneration == sts.Generation && sts.Status.UpdatedReplicas == sts.Status.Replicas
}

// platform sets the function's input.
func (l *life) platform(input string) {
	l.input = l.parse(input)
	l.input["apiVersion"], l.input["kind"] = "directoryservice.fn.crossplane.io/v1beta1", "Input"
}

// play a story so that it ends now. When it has to begin for that is where it began
// the last time, or it is played again.
func (s story) play(t testing.TB) *life {
	t.Helper()
	begin := Now
	if old, err := readDocuments(filepath.Join(s.dir, "xr.yaml")); err == nil && len(old) == 1 {
		if at, err := time.Parse(time.RFC3339, text(old[0], "metadata", "creationTimestamp")); err == nil {
			begin = at
		}
	}
	for range 2 {
		l := newLife(t, begin, s.claim)
		s.tell(l)
		if l.now.Equal(Now) {
			return l
		}
		begin = begin.Add(Now.Sub(l.now))
	}
	t.Fatalf("%s takes another time when it begins at another", s.dir)
	return nil
}

// files of the case that a life has come to.
func (l *life) files() map[string][]byte {
	c := l.moment()
	xr := clone(c.XR).(Object)
	meta := xr["metadata"].(Object)
	if len(meta["annotations"].(Object)) == 0 {
		delete(meta, "annotations")
	}
	docs := map[string][]Object{"xr.yaml": {xr}, "observed.yaml": c.Observed, "required.yaml": c.Required, "composition.yaml": nil}
	if c.Input != nil {
		docs["composition.yaml"] = []Object{{
			"apiVersion": "apiextensions.crossplane.io/v1",
			"kind":       "Composition",
			"metadata":   Object{"name": "directoryservices"},
			"spec": Object{
				"compositeTypeRef": Object{"apiVersion": c.XR["apiVersion"], "kind": c.XR["kind"]},
				"mode":             "Pipeline",
				"pipeline": []any{Object{
					"step": "compose", "functionRef": Object{"name": "function-directoryservice"}, "input": c.Input,
				}},
			},
		}}
	}
	files := map[string][]byte{}
	for name, list := range docs {
		if len(list) == 0 {
			files[name] = nil
			continue
		}
		b, err := Marshal(list)
		l.must(err)
		// Crossplane's CLI takes a comment before the first --- for a document.
		comment := "# Made by `make golden` (test/render/fixtures_test.go).\n"
		if madeCertificate.Match(b) {
			comment = "# Made by `make golden` (test/render/fixtures_test.go); so are the keys and certificates: nothing trusts them.\n"
		}
		files[name] = append([]byte(comment), bytes.TrimPrefix(b, []byte("---\n"))...)
	}
	return files
}

// madeCertificate is a document in PEM, alone or in base64, and madeHash names one, or
// what does. Keys, serial numbers and signatures are always the same (compose.newKey, RFC
// 6979), but the encoding of a certificate is that of the version of Go: 1.25 changed the
// identifiers of keys.
var (
	madeCertificate = regexp.MustCompile(`LS0tLS1CRUdJTi[A-Za-z0-9+/=]+|-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----`)
	madeHash        = regexp.MustCompile(`\b[0-9a-f]{16}\b`)
)

// portable is a text without what other versions of Go write otherwise.
func portable(s string) string {
	return madeHash.ReplaceAllString(madeCertificate.ReplaceAllString(unpacked(s), "CERTIFICATE"), "HASH")
}

// TestFixtures holds what the cases begin with against their stories.
func TestFixtures(t *testing.T) {
	told := map[string]bool{}
	for _, s := range stories {
		told[filepath.Clean(s.dir)] = true
		t.Run(filepath.Base(s.dir), func(t *testing.T) {
			for name, want := range s.play(t).files() {
				file := filepath.Join(s.dir, name)
				switch {
				case !*update:
				case want == nil:
					if err := os.RemoveAll(file); err != nil {
						t.Fatal(err)
					}
				default:
					if err := os.MkdirAll(s.dir, 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(file, want, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				got, err := os.ReadFile(file)
				if err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
				if diff := cmp.Diff(portable(string(want)), portable(string(got))); diff != "" {
					t.Errorf("%s: -its story's end, +got (`make golden` rewrites it):\n%s", file, diff)
				}
			}
		})
	}
	for _, c := range allCases(t) {
		if c.Has("observed.yaml") && !told[filepath.Clean(c.Dir)] {
			t.Errorf("%s: observed.yaml is of no story", c.Dir)
		}
	}
}
