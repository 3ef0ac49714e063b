package main

import (
	"context"
	"os/signal"
	"syscall"

	function "github.com/crossplane/function-sdk-go"
	"github.com/crossplane/function-sdk-go/errors"
	"github.com/crossplane/function-sdk-go/logging"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// inJob does a Job's work, until the Job's pod is deleted.
func inJob(work func(context.Context, typedcorev1.CoreV1Interface, logging.Logger) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log, err := function.NewLogger(false)
	if err != nil {
		return errors.Wrap(err, "cannot create logger")
	}
	client, err := apiClient()
	if err != nil {
		return err
	}
	return work(ctx, client, log)
}
