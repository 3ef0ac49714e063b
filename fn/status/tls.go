package status

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/report"
)

// A Server is a pod of the service, and what its agent reports of it.
type Server struct {
	Pod     string
	Ordinal int32
	// HasAgent says that an agent runs in the pod, or is to.
	HasAgent bool
	// Ready says that the pod is; Terminating, that it is being deleted.
	Ready, Terminating bool
	// Report of this very pod; nil where there is none yet.
	Report *report.Report
}

// What may be wrong with a Secret that should hold a certificate.
const (
	TLSKeyMissing = "KeyMissing"
	TLSInvalid    = "Invalid"
	TLSExpired    = "Expired"
)

// TLSMaterial is what is known of the servers' certificate.
type TLSMaterial struct {
	// Secret with the certificate that the spec asks for. InUse is the one that the pods
	// refer to: another one while Secret is not usable.
	Secret, InUse string
	// Generated says that the function makes the certificate.
	Generated bool
	// Arrived is false until Crossplane has looked Secret up; Exists says that it is there.
	Arrived, Exists bool
	// Reissued says that another certificate takes its place with this call.
	Reissued bool
	// Problem with what is in Secret, and its Detail; "" without.
	Problem, Detail string
	// ExpiresSoon says that little is left of the certificate's life.
	ExpiresSoon bool
	// MissingNames are those that the certificate should have and has not.
	MissingNames []string

	// CASecret is that of our own CA. CALost says that it is gone although there is a
	// certificate, so that there will be another CA.
	CASecret          string
	CAArrived, CALost bool
	CAProblem         string
	CAExpiresSoon     bool

	// NotAfter is when the certificate in InUse expires; zero where it is not known.
	NotAfter time.Time
	// Hash of what the pods have mounted, or get soon (config.TLSHash); "" where it is not
	// known, or is no certificate.
	Hash string
}

// tlsReady says whether the servers have the certificate that the spec asks for, and
// serve it (R52).
func tlsReady(in Inputs) Condition {
	m := in.TLS
	c := Condition{Type: TypeTLSReady, Status: metav1.ConditionUnknown}
	ns := in.Identity.Namespace
	blocks := func(reason, message string, args ...any) Condition {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reason, fmt.Sprintf(message, args...)
		c.Bad, c.Blocks = true, true
		return c
	}
	unknown := func(reason, message string, args ...any) Condition {
		c.Reason, c.Message = reason, fmt.Sprintf(message, args...)
		return c
	}
	again := fmt.Sprintf("kubectl -n %s delete secret ", ns)

	switch mode := in.Spec.TLS.Mode; {
	case m.Generated && !m.Exists && len(in.Problems) > 0:
		return unknown("Waiting", "The certificate is made once the spec is valid: see the condition SpecValid")
	case !m.Arrived, m.Generated && !m.CAArrived:
		return unknown("NotLookedUp", "The Secret %q was not looked up yet", m.Secret)
	case m.CAProblem != "" && m.Problem == "" && m.Exists:
		// The servers have a certificate, as long as it lasts.
		c := blocks("CAInvalid", "spec.tls.mode: the Secret %q cannot sign a new certificate: %s. %s", m.CASecret, m.CAProblem, replaceCA(in))
		c.Blocks = false
		return c
	case m.CAProblem != "":
		return blocks("CAInvalid", "spec.tls.mode: the Secret %q cannot sign a certificate: %s. %s", m.CASecret, m.CAProblem, replaceCA(in))
	case m.CALost && m.Problem == "":
		c := blocks("CALost", "spec.tls.mode: the Secret %q with the service's CA is gone, and a new CA is made; each server then restarts in its turn with a certificate of it. Give clients the new CA: kubectl -n %s get configmap %s -o jsonpath='{.data.ca\\.crt}'",
			m.CASecret, ns, in.Identity.Config())
		c.Blocks = false
		return c
	case m.Generated && (!m.Exists || m.Problem != ""):
		return unknown("Generating", "The Secret %q is being made", m.Secret)
	case !m.Exists && mode == v1alpha1.TLSModeCertManager:
		// Mostly it takes seconds.
		c := blocks("Issuing", "spec.tls.issuerRef: cert-manager has not made the Secret %q yet. See what it waits for: kubectl -n %s describe certificate.cert-manager.io %s", m.Secret, ns, in.Identity.Certificate())
		c.Bad, c.Blocks = false, false
		return c
	case !m.Exists:
		return blocks("SecretMissing", "spec.tls.secretRef.name: there is no Secret %q in the namespace %s. Create it: kubectl -n %s create secret generic %s --type=%s --from-file=%s=FILE --from-file=%s=FILE --from-file=ca.crt=FILE",
			m.Secret, ns, ns, m.Secret, corev1.SecretTypeTLS, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	case m.Problem != "":
		reason := m.Problem
		what := map[string]string{
			TLSKeyMissing: fmt.Sprintf("has no PEM document under the key %q", m.Detail),
			TLSInvalid:    "has no usable certificate: " + m.Detail,
			TLSExpired:    "has a certificate that has expired",
		}[reason]
		switch mode {
		case v1alpha1.TLSModeSecret:
			return blocks(reason, "spec.tls.secretRef: the Secret %q in the namespace %s %s. Put a new certificate and its key in: kubectl -n %s edit secret %s", m.Secret, ns, what, ns, m.Secret)
		case v1alpha1.TLSModeCertManager:
			return blocks(reason, "spec.tls.issuerRef: the Secret %q of cert-manager %s. See why: kubectl -n %s describe certificate.cert-manager.io %s", m.Secret, what, ns, in.Identity.Certificate())
		case v1alpha1.TLSModeSelfSigned:
		}
		return blocks(reason, "spec.tls.mode: the Secret %q was not made by the function, and %s. Delete it to have a certificate made: %s%s", m.Secret, what, again, m.Secret)
	}
	return tlsServed(in)
}

// replaceCA is how one gets another CA.
func replaceCA(in Inputs) string {
	return fmt.Sprintf("Delete it to have a new CA, which clients then need (key ca.crt of the ConfigMap %s): kubectl -n %s delete secret %s", in.Identity.Config(), in.Identity.Namespace, in.TLS.CASecret)
}

// tlsServed says whether the servers serve the certificate that is there.
func tlsServed(in Inputs) Condition {
	m := in.TLS
	c := Condition{Type: TypeTLSReady, Status: metav1.ConditionTrue}
	var failed, old, none []string
	agents, reports := 0, 0
	for _, s := range in.Servers {
		if s.HasAgent {
			agents++
		}
		if s.Report == nil {
			continue
		}
		reports++
		switch r := s.Report; {
		case r.TLS.State == report.StateFailed:
			failed = append(failed, fmt.Sprintf("pod %s: %s", s.Pod, r.TLS.Message))
		case m.Hash == "" || r.Applied.TLS == m.Hash:
		case r.Applied.TLS == "":
			none = append(none, s.Pod)
		default:
			old = append(old, s.Pod)
		}
	}
	switch {
	case len(failed) > 0:
		c.Status, c.Bad = metav1.ConditionFalse, true
		c.Reason, c.Message = "Failed", "spec.tls: the certificate cannot be served. "+firstOf(failed, "; ")+". "+in.logs()
	case m.Reissued:
		c.Status = metav1.ConditionUnknown
		c.Reason, c.Message = "Replacing", fmt.Sprintf("Another certificate is made in the Secret %q", m.Secret)
	case m.InUse != m.Secret:
		c.Status = metav1.ConditionUnknown
		c.Reason, c.Message = "Replacing", fmt.Sprintf("The servers have the Secret %q and get the Secret %q", m.InUse, m.Secret)
	case reports == 0 && agents == 0 && len(in.Servers) > 0:
		c.Status = metav1.ConditionUnknown
		c.Reason, c.Message = "NotReported", fmt.Sprintf("The certificate is in the Secret %q; the servers have pods of an earlier version of the function, which do not serve it. They get it with the next rollout, or now: see status.upgrade.pendingPodUpdate", m.Secret)
	case reports == 0:
		c.Status = metav1.ConditionUnknown
		c.Reason, c.Message = "NotReported", fmt.Sprintf("The certificate is in the Secret %q, and no server has told yet whether it serves it", m.Secret)
	case len(none) > 0:
		c.Status = metav1.ConditionUnknown
		c.Reason, c.Message = "Applying", "Servers do not serve a certificate yet: "+firstOf(none, ", ")
	case len(old) > 0:
		c.Reason, c.Message = "RestartPending", "Servers still serve an earlier certificate, and restart in their turn by themselves: "+firstOf(old, ", ")
	case m.CAExpiresSoon:
		c.Bad = true
		c.Reason, c.Message = "CAExpiresSoon", fmt.Sprintf("spec.tls.mode: the CA in the Secret %q expires soon. %s", m.CASecret, replaceCA(in))
	case len(m.MissingNames) > 0 && !m.Generated:
		c.Bad = true
		c.Reason, c.Message = "NamesMissing", fmt.Sprintf("spec.tls: the certificate in the Secret %q is not for %s: clients, and servers that replicate, refuse it under these names. %s", m.Secret, firstOf(m.MissingNames, ", "), in.mendTLS())
	case m.ExpiresSoon && m.Generated && len(in.Problems) > 0:
		c.Bad = true
		c.Reason, c.Message = "ExpiresSoon", fmt.Sprintf("spec: the certificate in the Secret %q expires soon, and is not renewed while the spec is invalid: see the condition SpecValid. Mend it: %s", m.Secret, in.edit())
	case m.ExpiresSoon && !m.Generated:
		c.Bad = true
		c.Reason, c.Message = "ExpiresSoon", fmt.Sprintf("spec.tls: the certificate in the Secret %q expires soon: see status.tls.notAfter. %s", m.Secret, in.mendTLS())
	default:
		c.Reason, c.Message = "Serving", fmt.Sprintf("The servers serve the certificate in the Secret %q", m.Secret)
	}
	return c
}

// mendTLS is the command for a certificate that the function does not make.
func (in Inputs) mendTLS() string {
	ns, secret := in.Identity.Namespace, in.TLS.Secret
	switch in.Spec.TLS.Mode {
	case v1alpha1.TLSModeCertManager:
		return fmt.Sprintf("See the Certificate: kubectl -n %s describe certificate.cert-manager.io %s", ns, in.Identity.Certificate())
	case v1alpha1.TLSModeSecret:
		return fmt.Sprintf("Put a new one in: kubectl -n %s edit secret %s", ns, secret)
	case v1alpha1.TLSModeSelfSigned:
	}
	return fmt.Sprintf("It was not made by the function: delete the Secret to have one made: kubectl -n %s delete secret %s", ns, secret)
}

// logs is where the agents tell more.
func (in Inputs) logs() string {
	return fmt.Sprintf("See: kubectl -n %s logs -l %s --prefix", in.Identity.Namespace, in.selector())
}

// tlsStatus for clients; nil where nothing is known.
func tlsStatus(m TLSMaterial) *v1alpha1.TLSStatus {
	if m.InUse == "" {
		return nil
	}
	st := &v1alpha1.TLSStatus{Secret: m.InUse}
	if !m.NotAfter.IsZero() {
		t := metav1.NewTime(m.NotAfter)
		st.NotAfter = &t
	}
	return st
}

// passwordFailed names the servers that do not have the Directory Manager's password;
// "" where there are none.
func passwordFailed(in Inputs) string {
	var out []string
	for _, s := range in.Servers {
		if s.Report != nil && s.Report.DMPassword.State == report.StateFailed {
			out = append(out, fmt.Sprintf("pod %s: %s", s.Pod, s.Report.DMPassword.Message))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return firstOf(out, "; ")
}

// allAgents says that every server has an agent, which applies without a restart what
// pods without one only read when they start.
func (in Inputs) allAgents() bool {
	for _, s := range in.Servers {
		if !s.HasAgent {
			return false
		}
	}
	return len(in.Servers) > 0
}
