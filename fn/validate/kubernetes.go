package validate

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/389ds/function-directoryservice/apis/v1alpha1"
)

// This file checks what the API server would refuse in the composed objects
// (kubernetes pkg/apis/{core,networking}/validation): Crossplane would say only
// that the object is not synced.

func resources(p *field.Path, r *corev1.ResourceRequirements) field.ErrorList {
	if r == nil {
		return nil
	}
	var errs field.ErrorList
	if len(r.Claims) > 0 {
		errs = append(errs, field.Forbidden(p.Child("claims"), "the pods have no resource claims: remove it"))
	}
	for list, quantities := range map[string]corev1.ResourceList{"requests": r.Requests, "limits": r.Limits} {
		for name, q := range quantities {
			p := p.Child(list).Key(string(name))
			errs = append(errs, problems(p, string(name), validation.IsQualifiedName(string(name)))...)
			if q.Sign() < 0 {
				errs = append(errs, field.Invalid(p, q.String(), "must not be negative"))
			}
		}
	}
	for name, request := range r.Requests {
		if limit, ok := r.Limits[name]; ok && request.Cmp(limit) > 0 {
			errs = append(errs, field.Invalid(p.Child("requests").Key(string(name)), request.String(), fmt.Sprintf("must not be more than the limit, %s", limit.String())))
		}
	}
	return errs
}

func tolerations(p *field.Path, list []corev1.Toleration) field.ErrorList {
	var errs field.ErrorList
	for i, t := range list {
		p := p.Index(i)
		if t.Key != "" {
			errs = append(errs, problems(p.Child("key"), t.Key, validation.IsQualifiedName(t.Key))...)
		} else if t.Operator != corev1.TolerationOpExists {
			errs = append(errs, field.Invalid(p.Child("operator"), t.Operator, "must be Exists where there is no key"))
		}
		if !slices.Contains([]corev1.TolerationOperator{"", corev1.TolerationOpEqual, corev1.TolerationOpExists}, t.Operator) {
			errs = append(errs, field.NotSupported(p.Child("operator"), t.Operator, []string{"Equal", "Exists"}))
		}
		if t.Operator == corev1.TolerationOpExists && t.Value != "" {
			errs = append(errs, field.Invalid(p.Child("value"), t.Value, "must be empty where the operator is Exists"))
		}
		if !slices.Contains([]corev1.TaintEffect{"", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}, t.Effect) {
			errs = append(errs, field.NotSupported(p.Child("effect"), t.Effect, []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}))
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			errs = append(errs, field.Invalid(p.Child("effect"), t.Effect, "must be NoExecute where tolerationSeconds is set"))
		}
	}
	return errs
}

func topologySpread(p *field.Path, list []corev1.TopologySpreadConstraint) field.ErrorList {
	var errs field.ErrorList
	for i, c := range list {
		p := p.Index(i)
		if c.MaxSkew < 1 {
			errs = append(errs, field.Invalid(p.Child("maxSkew"), c.MaxSkew, "must be 1 or more"))
		}
		errs = append(errs, problems(p.Child("topologyKey"), c.TopologyKey, validation.IsQualifiedName(c.TopologyKey))...)
		if !slices.Contains([]corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}, c.WhenUnsatisfiable) {
			errs = append(errs, field.NotSupported(p.Child("whenUnsatisfiable"), c.WhenUnsatisfiable, []string{"DoNotSchedule", "ScheduleAnyway"}))
		}
		if c.LabelSelector != nil {
			errs = append(errs, metav1validation.ValidateLabelSelector(c.LabelSelector, metav1validation.LabelSelectorValidationOptions{}, p.Child("labelSelector"))...)
		}
	}
	return errs
}

func clientService(p *field.Path, s *v1alpha1.ClientService) field.ErrorList {
	errs := apivalidation.ValidateAnnotations(s.Annotations, p.Child("annotations"))
	if c := s.LoadBalancerClass; c != nil {
		errs = append(errs, problems(p.Child("loadBalancerClass"), *c, validation.IsQualifiedName(*c))...)
	}
	for i, r := range s.LoadBalancerSourceRanges {
		errs = append(errs, cidr(p.Child("loadBalancerSourceRanges").Index(i), strings.TrimSpace(r))...)
	}
	return errs
}

// LoadBalancerClass cannot change while a Service is a load balancer
// (ValidateServiceUpdate).
func LoadBalancerClass(want *v1alpha1.ClientService, observed *corev1.ServiceSpec) field.ErrorList {
	have := observed.LoadBalancerClass
	if observed.Type != corev1.ServiceTypeLoadBalancer || want.Type != corev1.ServiceTypeLoadBalancer || have == nil {
		return nil
	}
	if want.LoadBalancerClass == nil || *want.LoadBalancerClass != *have {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "service", "loadBalancerClass"), want.LoadBalancerClass, fmt.Sprintf("cannot change from %s: set it back, or set spec.service.type to ClusterIP first, which releases the load balancer", *have))}
	}
	return nil
}

func peers(p *field.Path, list []networkingv1.NetworkPolicyPeer) field.ErrorList {
	var errs field.ErrorList
	for i, peer := range list {
		p := p.Index(i)
		selects := peer.PodSelector != nil || peer.NamespaceSelector != nil
		switch {
		case !selects && peer.IPBlock == nil:
			errs = append(errs, field.Required(p, "name a podSelector, a namespaceSelector or an ipBlock"))
		case selects && peer.IPBlock != nil:
			errs = append(errs, field.Forbidden(p.Child("ipBlock"), "must not be combined with selectors: make it a peer of its own"))
		}
		if peer.PodSelector != nil {
			errs = append(errs, metav1validation.ValidateLabelSelector(peer.PodSelector, metav1validation.LabelSelectorValidationOptions{}, p.Child("podSelector"))...)
		}
		if peer.NamespaceSelector != nil {
			errs = append(errs, metav1validation.ValidateLabelSelector(peer.NamespaceSelector, metav1validation.LabelSelectorValidationOptions{}, p.Child("namespaceSelector"))...)
		}
		if b := peer.IPBlock; b != nil {
			errs = append(errs, cidr(p.Child("ipBlock", "cidr"), b.CIDR)...)
			for i, e := range b.Except {
				errs = append(errs, cidr(p.Child("ipBlock", "except").Index(i), e)...)
			}
		}
	}
	return errs
}

func cidr(p *field.Path, s string) field.ErrorList {
	if _, err := netip.ParsePrefix(s); err != nil {
		return field.ErrorList{field.Invalid(p, s, "must be a CIDR such as 10.0.0.0/8")}
	}
	return nil
}

// subdomain is how most Kubernetes objects are named (RFC 1123); "" is none.
func subdomain(p *field.Path, name string) field.ErrorList {
	if name == "" {
		return nil
	}
	return problems(p, name, validation.IsDNS1123Subdomain(name))
}

func problems(p *field.Path, value string, messages []string) field.ErrorList {
	if len(messages) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(p, value, strings.Join(messages, "; "))}
}
