package validate

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/naming"
)

// certificate checks where the servers' certificate comes from (R52). The schema says
// most of it; an XR that is rendered in a pipeline has not met it.
func certificate(p *field.Path, id naming.Identity, t *v1alpha1.TLS) field.ErrorList {
	var errs field.ErrorList
	switch t.Mode {
	case v1alpha1.TLSModeSelfSigned, v1alpha1.TLSModeSecret, v1alpha1.TLSModeCertManager:
	default:
		errs = append(errs, field.NotSupported(p.Child("mode"), t.Mode, []v1alpha1.TLSMode{v1alpha1.TLSModeSelfSigned, v1alpha1.TLSModeSecret, v1alpha1.TLSModeCertManager}))
	}
	if t.Mode == v1alpha1.TLSModeSecret && t.SecretRef == nil {
		errs = append(errs, field.Required(p.Child("secretRef"), "name the Secret with the certificate, or choose another mode"))
	}
	if t.Mode == v1alpha1.TLSModeCertManager && t.IssuerRef == nil {
		errs = append(errs, field.Required(p.Child("issuerRef"), "name cert-manager's issuer, or choose another mode"))
	}
	if ref := t.SecretRef; ref != nil {
		p := p.Child("secretRef")
		if t.Mode != v1alpha1.TLSModeSecret {
			errs = append(errs, field.Forbidden(p, fmt.Sprintf("is for the mode Secret, and the mode is %s: remove it, or change the mode", t.Mode)))
		}
		if ref.Name == "" {
			errs = append(errs, field.Required(p.Child("name"), "name the Secret with the certificate"))
		}
		errs = append(errs, subdomain(p.Child("name"), ref.Name)...)
		if ref.Name == id.TLSCA() {
			errs = append(errs, field.Invalid(p.Child("name"), ref.Name, "is the Secret with the service's CA, whose key no server may have: name another one"))
		}
	}
	if ref := t.IssuerRef; ref != nil {
		p := p.Child("issuerRef")
		if t.Mode != v1alpha1.TLSModeCertManager {
			errs = append(errs, field.Forbidden(p, fmt.Sprintf("is for the mode CertManager, and the mode is %s: remove it, or change the mode", t.Mode)))
		}
		if ref.Name == "" {
			errs = append(errs, field.Required(p.Child("name"), "name cert-manager's issuer"))
		}
		errs = append(errs, subdomain(p.Child("name"), ref.Name)...)
	}
	for i, name := range t.DNSNames {
		p := p.Child("dnsNames").Index(i)
		host := strings.TrimPrefix(name, "*.")
		errs = append(errs, problems(p, name, validation.IsDNS1123Subdomain(host))...)
		for label := range strings.SplitSeq(host, ".") {
			if len(label) > validation.DNS1123LabelMaxLength {
				errs = append(errs, field.Invalid(p, name, fmt.Sprintf("has a part of more than %d characters between two dots, which no DNS name has", validation.DNS1123LabelMaxLength)))
			}
		}
	}
	return errs
}
