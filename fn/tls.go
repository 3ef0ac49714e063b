package fn

import (
	"cmp"
	"crypto/x509"
	"errors"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/certificate"
	"github.com/389ds/function-directoryservice/fn/compose"
	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/observed"
	"github.com/389ds/function-directoryservice/fn/status"
)

// tlsOf tells what exists of the servers' certificate, and what is to be made (R52). As
// with the password (see dmPassword), a CA is made only where Crossplane has looked its
// Secret up and found none.
func tlsOf(state *observed.State, now time.Time) (compose.TLS, status.TLSMaterial) {
	id, spec := state.Identity, &state.Service.Spec
	t := compose.TLS{Secret: id.TLS(spec), InUse: tlsInUse(state.StatefulSet), Now: now, Keep: state.GeneratedTLS, KeepCA: state.GeneratedTLSCA}
	m := status.TLSMaterial{Secret: t.Secret, Arrived: state.TLS.Arrived}
	own := id.OwnTLS()

	secret := state.TLS.Value
	foreign := false
	if t.Secret == own {
		if t.Keep == nil && secret != nil && id.Owns(secret.GetLabels()) {
			t.Keep = secret
		}
		if t.Keep != nil {
			secret, m.Arrived = t.Keep, true
		}
		// A Secret of that name which somebody else made is used, not taken over.
		foreign = t.Keep == nil && secret != nil
	}
	m.Exists = secret != nil
	m.Generated = spec.TLS.Mode == v1alpha1.TLSModeSelfSigned && !foreign
	material := readTLS(&m, secret, now)
	t.Usable = material != nil && m.Problem == ""

	switch {
	case m.Generated:
		readCA(state, &t, &m, now)
		t.Issue = m.Arrived && t.CA != nil && (secret == nil || mustIssue(state, secret, t.CA, now))
		m.Reissued = t.Issue && m.Exists
		m.CALost = t.MakeCA && secret != nil
	case t.InUse == own && !t.Usable && t.Keep != nil && t.KeepCA != nil:
		// The servers go on with our own certificate until the one that the spec asks for
		// is there, and meanwhile it must not expire.
		if ca, err := compose.ParseCA(t.KeepCA.Data, now); err == nil {
			t.CA = ca
			t.Issue = mustIssue(state, t.Keep, ca, now)
		}
	}
	if t.InUse != "" && !t.Usable && (!m.Generated || !t.Issue) {
		// The pods go on with the Secret that they have.
		t.Secret, t.Usable = t.InUse, true
	}

	m.InUse = cmp.Or(t.InUse, t.Secret)
	if data := tlsData(state, t, m.InUse); data != nil {
		m.NotAfter = notAfter(data)
	}
	if data := tlsData(state, t, t.Secret); data != nil {
		t.Public = publicCA(data)
	}
	if data := tlsData(state, t, t.InUse); data != nil {
		// No server is to restart for what it could not serve.
		usable, err := certificate.Read(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey], data[compose.KeyOfCA])
		if err == nil && !now.After(usable.Leaf.NotAfter) {
			m.Hash = config.TLSHash(data[corev1.TLSCertKey], data[compose.KeyOfCA])
		}
	}
	if material != nil {
		m.MissingNames = compose.MissingNames(material, id, min(*spec.Replicas, mostNamed))
	}
	return t, m
}

// readTLS of a Secret: nil where there is no certificate with its key in it.
func readTLS(m *status.TLSMaterial, secret *corev1.Secret, now time.Time) *x509.Certificate {
	if secret == nil {
		return nil
	}
	for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		if !hasKey(secret, key) {
			m.Problem, m.Detail = status.TLSKeyMissing, key
			return nil
		}
	}
	usable, err := certificate.Read(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey], secret.Data[compose.KeyOfCA])
	switch {
	case errors.Is(err, certificate.ErrNoCA):
		m.Problem, m.Detail = status.TLSKeyMissing, compose.KeyOfCA
		return nil
	case err != nil:
		m.Problem, m.Detail = status.TLSInvalid, err.Error()
		return nil
	}
	c := usable.Leaf
	switch {
	case now.After(c.NotAfter):
		m.Problem = status.TLSExpired
	case now.Before(c.NotBefore):
		m.Problem, m.Detail = status.TLSInvalid, "it is not valid before "+c.NotBefore.UTC().Format(time.RFC3339)
	}
	m.ExpiresSoon = now.After(c.NotAfter.Add(-min(warnBefore, c.NotAfter.Sub(c.NotBefore)/5)))
	return c
}

// mostNamed bounds the pods whose names are looked for in a certificate.
const mostNamed = 20

// warnBefore a certificate expires that is not renewed here, unless it lives a short time
// only.
const warnBefore = 30 * 24 * time.Hour

// warnBeforeCA is longer: every client needs the new one.
const warnBeforeCA = 365 * 24 * time.Hour

func readCA(state *observed.State, t *compose.TLS, m *status.TLSMaterial, now time.Time) {
	answer := state.TLSCA
	if t.KeepCA == nil && answer.Value != nil && state.Identity.Owns(answer.Value.GetLabels()) {
		t.KeepCA = answer.Value
	}
	secret := answer.Value
	if t.KeepCA != nil {
		secret = t.KeepCA
	}
	m.CASecret = state.Identity.TLSCA()
	if secret == nil {
		t.MakeCA = answer.Arrived
		m.CAArrived = answer.Arrived
		return
	}
	m.CAArrived = true
	ca, err := compose.ParseCA(secret.Data, now)
	if err != nil {
		m.CAProblem = err.Error()
		return
	}
	t.CA = ca
	c := ca.Certificate
	m.CAExpiresSoon = now.After(c.NotAfter.Add(-min(warnBeforeCA, c.NotAfter.Sub(c.NotBefore)/5)))
}

func mustIssue(state *observed.State, secret *corev1.Secret, ca *compose.KeyPair, now time.Time) bool {
	return compose.MustIssue(secret.Data, ca, compose.DNSNames(state.Identity, state.Service.Spec.TLS.DNSNames), now)
}

// tlsInUse is the Secret with the certificate that the pods refer to; "" without.
func tlsInUse(sts *appsv1.StatefulSet) string {
	name, _ := secretVolume(sts, compose.VolumeTLS)
	return name
}

// secretVolume of the pods: the Secret and the first key of it that they refer to.
func secretVolume(sts *appsv1.StatefulSet, volume string) (name, key string) {
	if sts == nil {
		return "", ""
	}
	for _, v := range sts.Spec.Template.Spec.Volumes {
		if v.Name != volume || v.Secret == nil {
			continue
		}
		if len(v.Secret.Items) > 0 {
			key = v.Secret.Items[0].Key
		}
		return v.Secret.SecretName, key
	}
	return "", ""
}

// tlsData is what is known of the Secret with that name; nil where nothing is.
func tlsData(state *observed.State, t compose.TLS, name string) map[string][]byte {
	switch {
	case name == "":
	case name == state.Identity.OwnTLS() && t.Keep != nil:
		return t.Keep.Data
	case state.TLS.Value != nil && state.TLS.Value.GetName() == name:
		return state.TLS.Value.Data
	}
	return nil
}

func notAfter(data map[string][]byte) time.Time {
	pair, err := compose.ParseKeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return time.Time{}
	}
	return pair.Certificate.NotAfter.UTC()
}

// publicCA is what clients need to trust the servers.
func publicCA(data map[string][]byte) string {
	if ca := compose.PublicCertificates(data[compose.KeyOfCA]); ca != "" {
		return ca
	}
	return compose.CAOfChain(data[corev1.TLSCertKey])
}

// published are the CA's certificates for clients: beside those that are right the ones
// that were, while servers may still serve a certificate of theirs, or while the Secret
// is gone.
func published(state *observed.State, public string, changing bool) string {
	before := ""
	if state.Config != nil {
		before = compose.PublicCertificates([]byte(state.Config.Data[compose.KeyOfCA]))
	}
	switch {
	case public == "":
		return before
	case changing:
		return compose.JoinCertificates(public, before)
	}
	return public
}

// applyTLS tells the servers, and clients, what the certificate asks of them. It comes
// after all that is decided: no server restarts by a permit while an operation replaces
// pods.
func applyTLS(in *compose.Inputs, state *observed.State, m status.TLSMaterial, servers []status.Server) {
	replicas := int32(0)
	if state.StatefulSet != nil {
		replicas = ptr.Deref(state.StatefulSet.Spec.Replicas, 1)
	}
	operating := in.Operating || in.Decision.Pending != nil
	if !operating {
		in.Config.Restart = restartPermit(servers, replicas, m.Hash)
	}
	old := slices.ContainsFunc(servers, func(s status.Server) bool {
		return s.Report != nil && s.Report.Applied.TLS != "" && m.Hash != "" && s.Report.Applied.TLS != m.Hash
	})
	in.TLS.Public = published(state, in.TLS.Public, operating || old)
}
