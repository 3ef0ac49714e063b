package fn

import (
	"slices"

	"github.com/389ds/function-directoryservice/fn/config"
	"github.com/389ds/function-directoryservice/fn/status"
)

// restartPermit lets one server restart in its pod: the one with the highest ordinal that
// does not serve the certificate with that hash yet (R52), or that says it needs a restart
// for something else, and only while every other one is Ready. The kubelets refresh a
// Secret for all pods at about the same time; without a permit all servers would restart
// then.
//
// The server that is down because it restarts keeps its permit, for it is the only one
// that need not be Ready.
func restartPermit(servers []status.Server, replicas int32, hash string) *config.Restart {
	last, lacks := int32(-1), ""
	for _, s := range servers {
		if s.Ordinal >= replicas || s.Ordinal <= last || s.Terminating || s.Report == nil {
			continue
		}
		if hash != "" && s.Report.Applied.TLS != hash {
			last, lacks = s.Ordinal, hash
		} else if s.Report.Restart != "" {
			last, lacks = s.Ordinal, s.Report.Restart
		}
	}
	if last < 0 {
		return nil
	}
	for i := range replicas {
		if i != last && !slices.ContainsFunc(servers, func(s status.Server) bool {
			return s.Ordinal == i && s.Ready && s.Report != nil && s.Report.Ready
		}) {
			return nil
		}
	}
	return &config.Restart{Ordinal: last, Hash: lacks}
}
