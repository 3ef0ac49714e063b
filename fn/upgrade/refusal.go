package upgrade

// Reasons of the condition UpgradeBlocked.
const (
	ReasonImageVersionMismatch = "ImageVersionMismatch"
	ReasonInvalidImage         = "InvalidImage"
	ReasonInvalidVersion       = "InvalidVersion"
	ReasonApprovalRequired     = "ApprovalRequired"
	ReasonServiceUnhealthy     = "ServiceUnhealthy"
	ReasonTargetRejected       = "TargetRejected"
	ReasonPaused               = "Paused"
	ReasonInvalidRollback      = "InvalidRollback"
	ReasonUnversioned          = "Unversioned"
	ReasonNotBlocked           = "NotBlocked"
)

// Reasons of a rejected target, and of what ended an operation, beside those that
// Kubernetes and the servers give.
const (
	ReasonRolledBackManually       = "RolledBackManually"
	ReasonAborted                  = "Aborted"
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	ReasonVersionMismatch          = "VersionMismatch"
	ReasonStatefulSetDeleted       = "StatefulSetDeleted"
	ReasonRollbackFailed           = "RollbackFailed"
	ReasonStillTerminating         = "StillTerminating"
	ReasonPodMissing               = "PodMissing"
)

// A Refusal says why the spec's image is not applied, and what mends that.
type Refusal struct {
	Reason  string
	Message string
	// Annotate are the annotations that would have it applied.
	Annotate []Annotation
	// Request is the annotation that asks for what is refused; "" where it is the spec.
	Request string
	// Restart says that the spec has to name what runs, and then the target again,
	// to have it tried once more.
	Restart bool
}

// An Annotation on the service, its name without the API group.
type Annotation struct {
	Name, Value string
}
