package upgrade

import "time"

// A Condemned pod stands in the way of a rollout: it is of an outdated revision and
// not Ready, and the StatefulSet controller may leave it where it is. Whoever deletes
// it must find exactly this pod, and still not Ready.
type Condemned struct {
	Pod      string
	UID      string
	Revision string
	// Since is when it was last seen to change between Ready and not Ready.
	Since time.Time
}
