// Package validate finds in a spec what the schema of the XRD cannot: each error
// names the field and says what to do about it.
package validate

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/go-ldap/ldap/v3"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/naming"
)

// maxNameLength leaves room for what is appended to the name: the StatefulSet
// controller labels each pod with `<name>-<hash of 10>`, at most 63 characters.
const maxNameLength = 52

// maxReplicas is the most suppliers a service may have.
const maxReplicas = 20

var (
	serviceName = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	suffixName  = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]*$`)

	// rootEntryTypes are the attributes from which a root entry can be made.
	rootEntryTypes = map[string]bool{"dc": true, "o": true, "ou": true, "c": true, "cn": true}
	// serverTrees are trees of the server's own.
	serverTrees = map[string]bool{"cn=config": true, "cn=schema": true, "cn=monitor": true, "cn=changelog": true}
	// reservedBackends are the server's own entries below cn=ldbm database.
	reservedBackends = map[string]bool{"config": true, "monitor": true, "changelog": true, "bdb": true, "mdb": true, "database": true}
	// ownLabels of a pod cannot be set by the user: they select the servers.
	ownLabels = []string{naming.LabelName, naming.LabelInstance, naming.LabelComponent, naming.LabelPartOf, naming.LabelManagedBy, naming.LabelVersion}
)

// Service checks a defaulted spec. recorded are the suffixes that the servers
// were given before.
func Service(name string, spec *v1alpha1.DirectoryServiceSpec, recorded []config.Suffix) field.ErrorList {
	var errs field.ErrorList
	if len(name) > maxNameLength || !serviceName.MatchString(name) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), name, fmt.Sprintf("must be a DNS label that begins with a letter and has at most %d characters, since pods, Services and volumes are named after it: create the service under another name", maxNameLength)))
	}
	if strings.HasSuffix(name, "-internal") {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), name, "must not end in -internal: another service's headless Service may have that name. Create the service under another name"))
	}
	p := field.NewPath("spec")
	if spec.Image == "" {
		errs = append(errs, field.Required(p.Child("image"), "name the directory server's image, for example quay.io/389ds/dirsrv:3.1.0"))
	}
	if r := *spec.Replicas; r < 1 || r > maxReplicas {
		errs = append(errs, field.Invalid(p.Child("replicas"), r, fmt.Sprintf("must be 1 to %d", maxReplicas)))
	}
	if spec.Storage.Size.Sign() <= 0 {
		errs = append(errs, field.Invalid(p.Child("storage", "size"), spec.Storage.Size.String(), "must be more than nothing, for example 10Gi"))
	}
	if spec.Startup.TimeoutSeconds < 0 {
		errs = append(errs, field.Invalid(p.Child("startup", "timeoutSeconds"), spec.Startup.TimeoutSeconds, "must be positive"))
	}
	errs = append(errs, subdomain(p.Child("storage", "storageClassName"), ptr.Deref(spec.Storage.StorageClassName, ""))...)
	if ref := spec.DMPasswordSecretRef; ref != nil {
		errs = append(errs, subdomain(p.Child("dmPasswordSecretRef", "name"), ref.Name)...)
		if ref.Name == (naming.Identity{Name: name}).TLSCA() {
			errs = append(errs, field.Invalid(p.Child("dmPasswordSecretRef", "name"), ref.Name, "is the Secret with the service's CA, whose key no server may have: name another one"))
		}
	}
	errs = append(errs, certificate(p.Child("tls"), naming.Identity{Name: name}, &spec.TLS)...)
	errs = append(errs, ports(p.Child("ports"), spec.Ports)...)
	errs = append(errs, clientService(p.Child("service"), &spec.Service)...)
	errs = append(errs, peers(p.Child("networkPolicy", "clients"), spec.NetworkPolicy.Clients)...)
	errs = append(errs, peers(p.Child("networkPolicy", "monitoring"), spec.NetworkPolicy.Monitoring)...)
	errs = append(errs, suffixes(p.Child("suffixes"), spec.Suffixes, recorded)...)
	errs = append(errs, PodSettings(p, &spec.PodSettings)...)
	return sorted(errs)
}

// sorted errors: some checks walk maps, and equal specs must give equal messages.
func sorted(errs field.ErrorList) field.ErrorList {
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errs
}

func ports(p *field.Path, ports v1alpha1.Ports) field.ErrorList {
	var errs field.ErrorList
	for name, port := range map[string]int32{"ldap": ports.LDAP, "ldaps": ports.LDAPS} {
		if port < 1 || port > 65535 {
			errs = append(errs, field.Invalid(p.Child(name), port, "must be 1 to 65535"))
		}
	}
	if ports.LDAP == ports.LDAPS {
		errs = append(errs, field.Invalid(p.Child("ldaps"), ports.LDAPS, "must differ from spec.ports.ldap"))
	}
	return errs
}

func suffixes(p *field.Path, suffixes []v1alpha1.Suffix, recorded []config.Suffix) field.ErrorList {
	var errs field.ErrorList
	before := make(map[string]config.Suffix, len(recorded))
	for _, s := range recorded {
		before[strings.ToLower(s.Name)] = s
	}
	listed := make(map[string]bool, len(suffixes))
	for _, s := range suffixes {
		listed[strings.ToLower(s.Name)] = true
	}
	names := make(map[string]string, len(suffixes))
	dns := make(map[string]string, len(suffixes))
	// The servers still hold the suffixes that were taken off the list.
	kept := make(map[string]string, len(recorded))
	for _, s := range recorded {
		if dn, err := ldap.ParseDN(s.DN); err == nil && !listed[strings.ToLower(s.Name)] {
			kept[normalDN(dn)] = s.Name
		}
	}
	for i, s := range suffixes {
		p := p.Index(i)
		key := strings.ToLower(s.Name)
		switch other, taken := names[key]; {
		case !suffixName.MatchString(s.Name):
			errs = append(errs, field.Invalid(p.Child("name"), s.Name, "must begin with a letter and contain only letters, digits, - and _"))
		case reservedBackends[key]:
			errs = append(errs, field.Invalid(p.Child("name"), s.Name, "is an entry of the server's own below cn=ldbm database: choose another name"))
		case taken:
			errs = append(errs, field.Invalid(p.Child("name"), s.Name, fmt.Sprintf("is the name of another suffix (%s): the server compares names without regard to case", other)))
		}
		names[key] = s.Name

		parsed, err := ldap.ParseDN(s.DN)
		if err != nil || len(parsed.RDNs) == 0 {
			errs = append(errs, field.Invalid(p.Child("dn"), s.DN, "is not a distinguished name (RFC 4514) such as dc=example,dc=com"))
			continue
		}
		if why := unfit(s.DN, parsed); why != "" {
			errs = append(errs, field.Invalid(p.Child("dn"), s.DN, why))
			continue
		}
		dn := normalDN(parsed)
		if other, taken := dns[dn]; taken {
			errs = append(errs, field.Invalid(p.Child("dn"), s.DN, fmt.Sprintf("is the DN of the suffix %s already: remove one of the two", other)))
		}
		if orphan, ok := kept[dn]; ok {
			errs = append(errs, field.Invalid(p.Child("dn"), s.DN, fmt.Sprintf("is the DN of the suffix %s, which was taken off the list and whose data were kept: put it back under the name %s, or choose another DN", orphan, orphan)))
		}
		dns[dn] = s.Name
		if inServerTree(dn) {
			errs = append(errs, field.Invalid(p.Child("dn"), s.DN, "is a tree of the server's own: choose another suffix"))
		}
		first := parsed.RDNs[0].Attributes[0]
		switch t := strings.ToLower(first.Type); {
		case !*s.CreateEntry:
		case len(parsed.RDNs[0].Attributes) > 1:
			errs = append(errs, field.Invalid(p.Child("dn"), s.DN, "no root entry can be made from an RDN of several attributes: use one, or set createEntry: false and create the entry yourself"))
		case !rootEntryTypes[t]:
			errs = append(errs, field.Invalid(p.Child("dn"), s.DN, fmt.Sprintf("no root entry can be made from the attribute %q: use dc, o, ou, c or cn, or set createEntry: false and create the entry yourself", t)))
		case t == "c" && !country.MatchString(first.Value):
			errs = append(errs, field.Invalid(p.Child("dn"), s.DN, "c is a country of two letters (ISO 3166), such as c=de"))
		}
		if old, ok := before[key]; ok && old.DN != s.DN && !sameDN(old.DN, dn) {
			errs = append(errs, field.Invalid(p.Child("dn"), s.DN, fmt.Sprintf("the suffix %s has the DN %q, which cannot change: put it back, or give the new DN a suffix with another name", old.Name, old.DN)))
		}
	}
	return errs
}

// country as the syntax Country String has it (RFC 4517, 3.3.4).
var country = regexp.MustCompile(`^[A-Za-z]{2}$`)

// inServerTree says that a normal DN is one of the server's own trees, or below one.
func inServerTree(dn string) bool {
	for tree := range serverTrees {
		if dn == tree || strings.HasSuffix(dn, ","+tree) {
			return true
		}
	}
	return false
}

// PodSettings checks what Kubernetes would refuse in a pod, so that the error
// names the field of the spec.
func PodSettings(p *field.Path, s *v1alpha1.PodSettings) field.ErrorList {
	errs := metav1validation.ValidateLabels(s.PodLabels, p.Child("podLabels"))
	for _, l := range ownLabels {
		if v, ok := s.PodLabels[l]; ok {
			errs = append(errs, field.Invalid(p.Child("podLabels").Key(l), v, "is set by the function: choose another label"))
		}
	}
	errs = append(errs, metav1validation.ValidateLabels(s.NodeSelector, p.Child("nodeSelector"))...)
	errs = append(errs, apivalidation.ValidateAnnotations(s.PodAnnotations, p.Child("podAnnotations"))...)
	errs = append(errs, apivalidation.ValidateAnnotations(s.ServiceAccountAnnotations, p.Child("serviceAccountAnnotations"))...)
	if c := s.PodSecurityContext; c != nil {
		errs = append(errs, user(p.Child("podSecurityContext"), c.RunAsUser, c.RunAsGroup)...)
	}
	if c := s.SecurityContext; c != nil {
		errs = append(errs, user(p.Child("securityContext"), c.RunAsUser, c.RunAsGroup)...)
	}
	errs = append(errs, resources(p.Child("resources"), s.Resources)...)
	errs = append(errs, tolerations(p.Child("tolerations"), s.Tolerations)...)
	errs = append(errs, topologySpread(p.Child("topologySpreadConstraints"), s.TopologySpreadConstraints)...)
	errs = append(errs, subdomain(p.Child("priorityClassName"), s.PriorityClassName)...)
	for i, r := range s.ImagePullSecrets {
		errs = append(errs, subdomain(p.Child("imagePullSecrets").Index(i).Child("name"), r.Name)...)
	}
	return sorted(errs)
}

func user(p *field.Path, uid, gid *int64) field.ErrorList {
	var errs field.ErrorList
	for name, id := range map[string]*int64{"runAsUser": uid, "runAsGroup": gid} {
		if id != nil && *id != naming.ServerUser {
			errs = append(errs, field.Invalid(p.Child(name), *id, "must be 389, the directory server's own user: another one could not read an existing database"))
		}
	}
	return errs
}
