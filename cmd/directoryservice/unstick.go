package main

import (
	"context"
	"os/signal"
	"syscall"
	"time"

	function "github.com/crossplane/function-sdk-go"
	"github.com/crossplane/function-sdk-go/errors"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/389ds/function-directoryservice/fn/unstick"
	"github.com/389ds/function-directoryservice/fn/upgrade"
)

// requestTimeout of one request to the API server.
const requestTimeout = 30 * time.Second

// unstickPod is what the Job runs that package compose makes.
type unstickPod struct {
	Namespace string `help:"Namespace of the pod."                                  required:""`
	Pod       string `help:"Name of the pod."                                       required:""`
	UID       string `help:"UID of the pod: one that took its name stays."          name:"uid"  required:""`
	Revision  string `help:"The pod's controller-revision-hash: any other stays."   required:""`
}

// Run reaches the API server as kubectl would, by $KUBECONFIG, or from within the
// cluster as the pod's ServiceAccount.
func (c *unstickPod) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log, err := function.NewLogger(false)
	if err != nil {
		return errors.Wrap(err, "cannot create logger")
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return errors.Wrap(err, "cannot find the API server")
	}
	config.Timeout = requestTimeout
	client, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return errors.Wrap(err, "cannot make a client of the API server")
	}
	return unstick.Delete(ctx, client.Pods(c.Namespace), upgrade.Condemned{Pod: c.Pod, UID: c.UID, Revision: c.Revision}, log)
}
