package compose

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/389ds/function-directoryservice/fn/naming"
)

// A Growth is what the volume claims of a service are to be grown to.
type Growth struct {
	// Claims of the servers that have a volume, by name, and of which at least one is
	// smaller than Size. They are all there: a list that got shorter with each claim
	// that has grown would be another Job each time.
	Claims []string
	// UIDs of the claims, in the same order.
	UIDs []string
	Size resource.Quantity
}

// resize adds, while a volume is smaller than the spec says, a Job that grows it and
// what lets it do so (R7): were Crossplane itself to apply a claim it would own it,
// and delete the data with the service. All of it goes when no volume is too small,
// and stays while it is not known which volumes there are.
func resize(in Inputs, d Desired) error {
	if in.ClaimsUnknown {
		return nil
	}
	var wanted []job
	if g := in.Grow; g != nil {
		args := []string{"--size", g.Size.String()}
		for _, c := range g.Claims {
			args = append(args, "--claim", c)
		}
		wanted = append(wanted, job{
			args: args,
			annotations: map[string]string{
				naming.AnnotationSize: g.Size.String(),
				// A claim that took the name of another has to be grown as well.
				naming.AnnotationClaims: strings.Join(g.UIDs, ","),
			},
			may: rbacv1.PolicyRule{
				APIGroups:     []string{corev1.GroupName},
				Resources:     []string{"persistentvolumeclaims"},
				ResourceNames: g.Claims,
				Verbs:         []string{"get", "patch"},
			},
		})
	}
	return jobs(in, d, naming.ValueComponentResize, wanted)
}
