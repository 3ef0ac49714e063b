package main

import (
	"context"

	"github.com/crossplane/function-sdk-go/logging"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/389ds/function-directoryservice/fn/unstick"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// unstickPod is what the Job runs that package compose makes.
type unstickPod struct {
	Namespace string `help:"Namespace of the pod."                                  required:""`
	Pod       string `help:"Name of the pod."                                       required:""`
	UID       string `help:"UID of the pod: one that took its name stays."          name:"uid"  required:""`
	Revision  string `help:"The pod's controller-revision-hash: any other stays."   required:""`
}

// Run deletes the pod.
func (c *unstickPod) Run() error {
	return inJob(func(ctx context.Context, client typedcorev1.CoreV1Interface, log logging.Logger) error {
		return unstick.Delete(ctx, client.Pods(c.Namespace), upgrade.Condemned{Pod: c.Pod, UID: c.UID, Revision: c.Revision}, log)
	})
}
