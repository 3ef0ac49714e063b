//go:build ldap

package ldap

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/report"
	"github.com/389ds/function-directoryservice/test/kubeapi"
	"github.com/389ds/function-directoryservice/test/kubeapi/pki"
)

// A deployment is what the function would compose around one server: the documents that
// are mounted, and the ConfigMap that is reported in.
type deployment struct {
	api *kubeapi.API
	svc *service
	ca  *pki.Authority

	config   config.Config
	password string
	pair     pki.Pair
}

func newDeployment(t *testing.T, api *kubeapi.API) *deployment {
	t.Helper()
	d := &deployment{
		api: api, svc: newService(t, "ds", api), password: password,
		config: config.Config{Suffixes: []config.Suffix{{Name: "userroot", DN: suffixDN, CreateEntry: true}}},
	}
	var err error
	if d.ca, err = pki.NewAuthority("test CA"); err != nil {
		t.Fatal(err)
	}
	d.pair = d.issue(t)
	if api != nil {
		d.grant(t)
	}
	return d
}

// issue a certificate for the service and its pods.
func (d *deployment) issue(t *testing.T) pki.Pair {
	t.Helper()
	pair, err := d.ca.Issue(pki.Request{Subject: pkix.Name{CommonName: "ds"}, Names: []string{"ds.team.svc", "*.ds-internal.team.svc.cluster.local", "localhost"}})
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// roots that trust its CA.
func (d *deployment) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(d.ca.PEM)
	return pool
}

// grant what the function's Role does, and make the ConfigMap; tests of one API share them.
func (d *deployment) grant(t *testing.T) {
	t.Helper()
	ctx, namespace := context.Background(), "team"
	meta := metav1.ObjectMeta{Name: "ds", Namespace: namespace}
	c := d.api.Client
	made := func(_ any, err error) {
		t.Helper()
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	made(c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}))
	made(c.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}))
	made(c.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "ds-state"}}, metav1.CreateOptions{}))
	made(c.RbacV1().Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"ds-state"}, Verbs: []string{"get", "patch"},
	}}}, metav1.CreateOptions{}))
	made(c.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "ds"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "ds", Namespace: namespace}},
	}, metav1.CreateOptions{}))
}

// spec of the pod with that ordinal.
func (d *deployment) spec(t *testing.T, suite string, ordinal int) podSpec {
	t.Helper()
	s := podSpec{
		Service: d.svc, Ordinal: ordinal, Suite: suite,
		Mounts: map[string]map[string]string{
			"config": d.document(t), "dm-password": {"dm-password": d.password}, "tls": d.pair.Files(d.ca.PEM),
		},
		Env: map[string]string{
			"POD_NAME": "$(POD_NAME)", "POD_NAMESPACE": "$(POD_NAMESPACE)", "POD_UID": "$(POD_UID)", "DS_STARTUP_TIMEOUT": "60",
			// What the composed pods have too; it must reach nobody.
			"DS_DM_PASSWORD": "of the day when the pod was made",
		},
		Command: []string{agentPath, "run", "--state=ds-state", "--server-version=" + run.Versions[suite], "--", "dscontainer", "-r"},
	}
	if d.api != nil {
		s.ServiceAccount = "ds"
	}
	return s
}

func (d *deployment) document(t *testing.T) map[string]string {
	t.Helper()
	doc, err := d.config.String()
	must(t, err)
	return map[string]string{config.Key: doc}
}

// awaitReady waits for the readiness probe to pass.
func (p *pod) awaitReady(t *testing.T, within time.Duration) {
	t.Helper()
	eventually(t, within, p.name+" is Ready", func() error {
		if !p.Running() {
			t.Fatalf("%s has ended: %s", p.name, p.Log(t))
		}
		code, body, err := p.HTTP("/readyz")
		if err == nil && code != 200 {
			err = fmt.Errorf("%d %s", code, strings.TrimSpace(body))
		}
		return err
	})
}

// report of a pod as it stands in the ConfigMap.
func (d *deployment) report(t *testing.T, p *pod) report.Report {
	t.Helper()
	cm, err := d.api.Client.CoreV1().ConfigMaps("team").Get(context.Background(), "ds-state", metav1.GetOptions{})
	must(t, err)
	r := report.Report{}
	if doc := cm.Data[p.name]; doc != "" {
		must(t, json.Unmarshal([]byte(doc), &r))
	}
	return r
}

// awaitReport waits until the report of a pod is as it should be.
func (d *deployment) awaitReport(t *testing.T, p *pod, within time.Duration, what string, check func(report.Report) error) report.Report {
	t.Helper()
	var r report.Report
	eventually(t, within, p.name+" reports "+what, func() error {
		r = d.report(t, p)
		if r.PodUID != p.uid {
			return fmt.Errorf("the report is of the pod %q", r.PodUID)
		}
		if err := check(r); err != nil {
			return fmt.Errorf("%w: %+v", err, r)
		}
		return nil
	})
	return r
}

// mountConfig changes the document and mounts it.
func (d *deployment) mountConfig(t *testing.T, p *pod, change func(*config.Config)) {
	t.Helper()
	change(&d.config)
	p.Mount(t, "config", d.document(t))
}

// mountTLS mounts another certificate and returns its hash.
func (d *deployment) mountTLS(t *testing.T, p *pod, pair pki.Pair) string {
	t.Helper()
	d.pair = pair
	p.Mount(t, "tls", pair.Files(d.ca.PEM))
	return config.TLSHash(pair.Cert, d.ca.PEM)
}

// serverPID of the running ns-slapd.
func (p *pod) serverPID(t *testing.T) int {
	t.Helper()
	for _, proc := range p.Processes(t) {
		if proc.Name == "ns-slapd" {
			return proc.PID
		}
	}
	t.Fatalf("%s: no ns-slapd runs", p.name)
	return 0
}

// A probed pod's answers, asked for as often as possible; an answer is only kept where
// it differs from the one before.
type probed struct {
	stop func() map[string][]string
}

// probe a pod until stop is called, which returns what each path answered, in order: the
// status, and the body where that is not 200.
func (p *pod) probe(t *testing.T, paths ...string) probed {
	t.Helper()
	ended, done := make(chan struct{}), make(chan struct{})
	answers := map[string][]string{}
	go func() {
		defer close(done)
		for {
			for _, path := range paths {
				code, body, err := p.HTTP(path)
				answer := fmt.Sprint(code)
				switch {
				case err != nil:
					continue // nobody listens yet
				case code != 200:
					answer += " " + strings.TrimSpace(body)
				}
				if all := answers[path]; len(all) == 0 || all[len(all)-1] != answer {
					answers[path] = append(all, answer)
				}
			}
			select {
			case <-ended:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	stop := sync.OnceValue(func() map[string][]string {
		close(ended)
		<-done
		return answers
	})
	t.Cleanup(func() { stop() })
	return probed{stop: stop}
}
