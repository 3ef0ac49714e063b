package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	function "github.com/crossplane/function-sdk-go"
	"github.com/crossplane/function-sdk-go/errors"

	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/389ds/function-directoryservice/fn/agent"
)

// run is PID 1 of a server's container: what package compose makes of the image's own
// entrypoint.
type run struct {
	ServerVersion string        `help:"Version of 389 Directory Server that the pod is for: any other is refused."`
	Pod           string        `env:"POD_NAME"           help:"Name of this pod."                                              required:""`
	UID           string        `env:"POD_UID"            help:"UID of this pod."                                               name:"uid"           required:""`
	Namespace     string        `env:"POD_NAMESPACE"      help:"Namespace of this pod."                                         required:""`
	State         string        `help:"Name of the ConfigMap to report in."                                                     required:""`
	StartTimeout  int           `default:"60"             env:"DS_STARTUP_TIMEOUT"                                              help:"Seconds that the server may take to start."`
	Grace         time.Duration `default:"110s"           help:"What the server may take to stop before it is killed."`
	Listen        string        `default:":8389"          help:"Address of the probes and metrics."`
	Command       []string      `arg:""                   help:"The image's own entrypoint: -- dscontainer -r"                  passthrough:""`
}

// memoryLimit is a goal, not a bound: the agent lives beside a server that needs the
// container's memory itself. GOMEMLIMIT overrides it.
const memoryLimit = 24 << 20

// forgetInit gives the pages of this program back that only its initialisation has
// touched: half of its memory, most of it tables of Kubernetes types. What is used again
// comes back from the page cache.
func forgetInit() {
	self, err := os.Executable()
	if err != nil {
		return
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(maps)) {
		// address-address perms offset dev inode path (proc_pid_maps(5))
		f := strings.Fields(line)
		if len(f) != 6 || f[5] != self || strings.Contains(f[1], "w") {
			continue
		}
		first, last, _ := strings.Cut(f[0], "-")
		from, err := strconv.ParseUint(first, 16, 64)
		if err != nil {
			continue
		}
		to, err := strconv.ParseUint(last, 16, 64)
		if err != nil {
			continue
		}
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, uintptr(from), uintptr(to-from), syscall.MADV_DONTNEED)
	}
}

// Run ends with the server: in peace after a signal, else with an error.
func (c *run) Run() error {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	forgetInit()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP)
	defer stop()
	log, err := function.NewLogger(false)
	if err != nil {
		return errors.Wrap(err, "cannot create logger")
	}
	command := c.Command
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	return agent.Run(ctx, agent.Options{
		Command:        command,
		ServerVersion:  c.ServerVersion,
		Pod:            c.Pod,
		UID:            c.UID,
		StartTimeout:   time.Duration(c.StartTimeout) * time.Second,
		Grace:          c.Grace,
		Data:           "/data",
		Root:           "/",
		Mounts:         "/etc/directoryservice",
		TerminationLog: "/dev/termination-log",
		Listen:         c.Listen,
		Reports:        c.reports,
		State:          c.State,
		Output:         os.Stdout,
		Log:            log,
	})
}

// reports is where the agent reports. A pod is in the cluster: no kubeconfig counts that lies
// on the volume, the server's home.
func (c *run) reports() (typedcorev1.ConfigMapInterface, error) {
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, errors.Wrap(err, "cannot find the API server")
	}
	config.Timeout = requestTimeout
	client, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, errors.Wrap(err, "cannot make a client of the API server")
	}
	return client.ConfigMaps(c.Namespace), nil
}
