package validate

import (
	"strings"
	"testing"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
)

// R52: what a schema that an XR did not meet would have refused, and what it cannot know.
func TestTLS(t *testing.T) {
	secret := &v1alpha1.LocalSecretRef{Name: "mine"}
	issuer := &v1alpha1.IssuerRef{Name: "ca"}
	cases := map[string]struct {
		reason string
		tls    v1alpha1.TLS
		want   []want
	}{
		"Default":      {reason: "Nothing has to be set."},
		"Secret":       {reason: "A Secret of the user's.", tls: v1alpha1.TLS{Mode: v1alpha1.TLSModeSecret, SecretRef: secret}},
		"CertManager":  {reason: "An issuer.", tls: v1alpha1.TLS{Mode: v1alpha1.TLSModeCertManager, IssuerRef: issuer}},
		"Names":        {reason: "Further names, of which one is a wildcard.", tls: v1alpha1.TLS{DNSNames: []string{"ldap.example.org", "*.example.org"}}},
		"UnknownMode":  {reason: "Nobody knows what it means.", tls: v1alpha1.TLS{Mode: "None"}, want: []want{{"spec.tls.mode", []string{"SelfSigned"}}}},
		"NoSecret":     {reason: "There is no Secret.", tls: v1alpha1.TLS{Mode: v1alpha1.TLSModeSecret}, want: []want{{"spec.tls.secretRef", nil}}},
		"NoIssuer":     {reason: "There is no issuer.", tls: v1alpha1.TLS{Mode: v1alpha1.TLSModeCertManager}, want: []want{{"spec.tls.issuerRef", nil}}},
		"OtherRef":     {reason: "What the mode does not use would be without effect.", tls: v1alpha1.TLS{SecretRef: secret, IssuerRef: issuer}, want: []want{{"spec.tls.issuerRef", []string{"CertManager"}}, {"spec.tls.secretRef", []string{"Secret"}}}},
		"NamelessRefs": {reason: "A reference to nothing.", tls: v1alpha1.TLS{Mode: v1alpha1.TLSModeSecret, SecretRef: &v1alpha1.LocalSecretRef{}}, want: []want{{"spec.tls.secretRef.name", nil}}},
		"NamelessIss":  {reason: "The same.", tls: v1alpha1.TLS{Mode: v1alpha1.TLSModeCertManager, IssuerRef: &v1alpha1.IssuerRef{}}, want: []want{{"spec.tls.issuerRef.name", nil}}},
		"BadNames":     {reason: "Names that no Secret has.", tls: v1alpha1.TLS{Mode: v1alpha1.TLSModeSecret, SecretRef: &v1alpha1.LocalSecretRef{Name: "A B"}}, want: []want{{"spec.tls.secretRef.name", nil}}},
		"OwnCA":        {reason: "R52: the CA's key is mounted in no server.", tls: v1alpha1.TLS{Mode: v1alpha1.TLSModeSecret, SecretRef: &v1alpha1.LocalSecretRef{Name: "ds-tls-ca"}}, want: []want{{"spec.tls.secretRef.name", []string{"CA"}}}},
		"BadDNSName":   {reason: "What no certificate could hold.", tls: v1alpha1.TLS{DNSNames: []string{"é.example.org"}}, want: []want{{"spec.tls.dnsNames[0]", nil}}},
		"LongLabel":    {reason: "No DNS name has such a part.", tls: v1alpha1.TLS{DNSNames: []string{"a", strings.Repeat("a", 64) + ".org"}}, want: []want{{"spec.tls.dnsNames[1]", []string{"63"}}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			check(t, tc.reason, Service("ds", spec(func(s *v1alpha1.DirectoryServiceSpec) { s.TLS = tc.tls }), nil), tc.want)
		})
	}
}
