package upgrade

import "fmt"

// Reasons of the condition UpgradeBlocked.
const (
	ReasonImageVersionMismatch = "ImageVersionMismatch"
	ReasonInvalidImage         = "InvalidImage"
	ReasonInvalidVersion       = "InvalidVersion"
	ReasonUpgradeUnsupported   = "UpgradeUnsupported"
	ReasonUnversioned          = "Unversioned"
	ReasonNotBlocked           = "NotBlocked"
)

// A Refusal says why the spec's image is not applied, and what mends that.
type Refusal struct {
	Reason  string
	Message string
}

// A Rollout is what the StatefulSet controller reports of the servers.
type Rollout struct {
	// Exists says whether there is a StatefulSet.
	Exists bool
	// Running is the release in its pod template.
	Running Release
	// Current says that the counts below speak of the present template
	// (status.observedGeneration equals metadata.generation).
	Current bool
	// Wanted is the number of pods the controller was told to have.
	Wanted int32
	// Pods that exist, that are Ready, and that were made from the present template.
	Pods, Ready, Updated int32
}

// Healthy says that every pod was made from the present template and that one of
// them, at least, is Ready: the release works.
func (r Rollout) Healthy() bool {
	return r.Exists && r.Running.Image != "" && r.Current && r.Ready > 0 && r.Updated == r.Pods
}

// A Decision is what the service runs.
type Decision struct {
	// Ledger as it must be written together with the image.
	Ledger Ledger
	// Run is the release for the pod template; nil where no StatefulSet may be
	// created.
	Run *Release
	// Target is what the spec asks for.
	Target Release
	// Blocked says why Run is not Target; nil where it is.
	Blocked *Refusal
}

// Decide keeps a service that has been healthy on the image it runs, and lets one
// that never was follow the spec (R39). An image that contradicts the version is
// refused before anything is created or changed (R25).
func Decide(ledger Ledger, target Release, refusal *Refusal, rollout Rollout) Decision {
	d := Keep(ledger, rollout)
	d.Target = target
	good := d.Ledger.Good

	switch {
	case good != nil && good.Image == target.Image && (good.Version == target.Version || refusal != nil && target.Version == ""):
		// The spec asks for what runs: nothing changes, whatever the catalog says.
	case refusal != nil:
		d.Blocked = refusal
	case good == nil && rollout.Ready > 0 && rollout.Running.Image != "" && rollout.Running.Image != target.Image:
		d.Blocked = unsupported(rollout.Running)
	case good == nil:
		d.Run = &target
	case good.Image == target.Image:
		// The same image; its version may be better known by now.
		updated := *good
		if target.Version != "" {
			updated.Version = target.Version
		}
		d.Ledger.Good = &updated
		d.Run = &updated
	default:
		d.Blocked = unsupported(*good)
	}
	return d
}

// Keep lets a service run what it runs, whatever the spec asks for.
func Keep(ledger Ledger, rollout Rollout) Decision {
	d := Decision{Ledger: ledger}
	if good := ledger.Good; good != nil && good.Image == "" {
		d.Ledger.Good = nil
	}
	if d.Ledger.Good == nil && rollout.Healthy() {
		good := rollout.Running
		d.Ledger.Good = &good
	}
	switch {
	case d.Ledger.Good != nil:
		d.Run = d.Ledger.Good
	case rollout.Running.Image != "":
		running := rollout.Running
		d.Run = &running
	}
	return d
}

func unsupported(stays Release) *Refusal {
	return &Refusal{
		Reason:  ReasonUpgradeUnsupported,
		Message: fmt.Sprintf("This version of the function does not change the image of a service that has run: it stays on %s", stays.describe()),
	}
}

func (r Release) describe() string {
	if r.Version == "" {
		return r.Image
	}
	return r.Version + " (" + r.Image + ")"
}
