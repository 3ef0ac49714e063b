// Command directoryservice is the composition function's server, the agent in the
// servers' pods, and what the function's Jobs run.
package main

import (
	"crypto/rand"
	"os"
	"runtime/debug"

	"github.com/alecthomas/kong"
	function "github.com/crossplane/function-sdk-go"
	"github.com/crossplane/function-sdk-go/errors"

	"github.com/389ds/function-directoryservice/fn"
)

// Stamped at link time.
var (
	version = "dev"
	// agentImage is the image that this program is part of; empty where nobody knows it.
	agentImage string
)

type cli struct {
	Version kong.VersionFlag `help:"Print the version and quit."`

	Serve   serve        `cmd:"" default:"withargs" help:"Serve the composition function (the default)."`
	Run     run          `cmd:""                    help:"Run a directory server as PID 1 of its container: prepare its volume, supervise and configure it."`
	Install install      `cmd:""                    help:"Copy this program to a file: what the pods' init container runs."`
	Unstick unstickPod   `cmd:""                    help:"Delete a pod that is in the way of a rollout, unless it is Ready or was replaced: what the function's Jobs run."`
	Resize  resizeClaims `cmd:""                    help:"Grow volume claims: what the function's Jobs run."`
}

// serve has the flags and environment of function-template-go.
type serve struct {
	Debug bool `help:"Emit debug logs in addition to info logs." short:"d"`

	Network            string `default:"tcp"                                                                                   help:"Network on which to listen for gRPC connections."`
	Address            string `default:":9443"                                                                                 help:"Address at which to listen for gRPC connections."`
	TLSCertsDir        string `env:"TLS_SERVER_CERTS_DIR"                                                                      help:"Directory containing server certs (tls.key, tls.crt) and the CA used to verify client certificates (ca.crt)."`
	Insecure           bool   `help:"Run without mTLS credentials. If you supply this flag --tls-certs-dir will be ignored."`
	MaxRecvMessageSize int    `default:"4"                                                                                     help:"Maximum size of received messages in MB."`
	MetricsAddress     string `help:"Address at which to serve Prometheus metrics, for example :8080. Off by default."`
}

// gcPercent lets the heap grow to five times what is live before it is collected.
// Little is live, some 10 MB, and every call leaves garbage: with Go's default a
// sixth of the CPU would go into collections. GOGC overrides it.
const gcPercent = 400

// Run serves until the server fails.
func (c *serve) Run() error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	log, err := function.NewLogger(c.Debug)
	if err != nil {
		return errors.Wrap(err, "cannot create logger")
	}
	return errors.Wrap(function.Serve(&fn.Function{Log: log, Random: rand.Reader, AgentImage: agentImage},
		function.Listen(c.Network, c.Address),
		function.MTLSCertificates(c.TLSCertsDir),
		function.Insecure(c.Insecure),
		function.MaxRecvMessageSize(c.MaxRecvMessageSize*1024*1024),
		function.WithMetricsServer(c.MetricsAddress),
	), "cannot serve the function")
}

func main() {
	ctx := kong.Parse(&cli{},
		kong.Name("directoryservice"),
		kong.Description("A Crossplane composition function that runs 389 Directory Server."),
		kong.Vars{"version": version},
	)
	ctx.FatalIfErrorf(ctx.Run())
}
