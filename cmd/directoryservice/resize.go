package main

import (
	"context"

	"github.com/crossplane/function-sdk-go/errors"
	"github.com/crossplane/function-sdk-go/logging"
	"k8s.io/apimachinery/pkg/api/resource"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/389ds/function-directoryservice/fn/resize"
)

// resizeClaims is what the Job runs that package compose makes.
type resizeClaims struct {
	Namespace string   `help:"Namespace of the volume claims."                                   required:""`
	Size      string   `help:"Size that each of them gets; one that is larger stays as it is."   required:""`
	Claim     []string `help:"Name of a volume claim; may be given several times."               required:""`
}

// Run grows the claims.
func (c *resizeClaims) Run() error {
	size, err := resource.ParseQuantity(c.Size)
	if err != nil {
		return errors.Wrapf(err, "cannot read --size=%s", c.Size)
	}
	return inJob(func(ctx context.Context, client typedcorev1.CoreV1Interface, log logging.Logger) error {
		return resize.Grow(ctx, client.PersistentVolumeClaims(c.Namespace), c.Claim, size, log)
	})
}
