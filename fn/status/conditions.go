package status

import (
	"cmp"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Types of the conditions (R33). Crossplane's own, Synced and Ready, are beside
// them on every XR and claim.
const (
	TypeSpecValid          = "SpecValid"
	TypeCredentialsReady   = "CredentialsReady"
	TypeTLSReady           = "TLSReady"
	TypeStorageReady       = "StorageReady"
	TypeUpgradeBlocked     = "UpgradeBlocked"
	TypeUpgradeInProgress  = "UpgradeInProgress"
	TypeUpgradeSucceeded   = "UpgradeSucceeded"
	TypeSuffixesReady      = "SuffixesReady"
	TypeSuffixOrphaned     = "SuffixOrphaned"
	TypeReplicationHealthy = "ReplicationHealthy"
	TypeAvailable          = "Available"
)

// A Condition of the service.
type Condition struct {
	Type    string
	Status  metav1.ConditionStatus
	Reason  string
	Message string

	// Bad says that a person has to do something.
	Bad bool
	// Blocks says that a bad condition holds something back until they do.
	Blocks bool
	// event is the reason of the event that tells of it, where it is not the type's.
	event string
}

func conditions(in Inputs, available bool) []Condition {
	return []Condition{
		specValid(in),
		credentialsReady(in),
		tlsReady(in),
		storageReady(in),
		upgradeBlocked(in),
		upgradeInProgress(in),
		upgradeSucceeded(in),
		suffixesReady(in),
		suffixOrphaned(in),
		replicationHealthy(in),
		availableCondition(in, available),
	}
}

func specValid(in Inputs) Condition {
	if len(in.Problems) == 0 {
		return Condition{Type: TypeSpecValid, Status: metav1.ConditionTrue, Reason: "Valid"}
	}
	until := "Nothing is changed"
	if in.Decision.Ledger.Operation != nil {
		until = "Nothing is changed but what the operation that runs needs,"
	}
	reason := "Invalid"
	if in.NoAgentImage && len(in.Problems) == 1 {
		reason = "AgentImageUnknown"
	}
	return Condition{
		Type:    TypeSpecValid,
		Status:  metav1.ConditionFalse,
		Reason:  reason,
		Message: until + " until this is mended: " + firstOf(in.Problems, "; "),
		Bad:     true,
		Blocks:  true,
	}
}

func credentialsReady(in Inputs) Condition {
	c := in.Credential
	cond := Condition{Type: TypeCredentialsReady, Status: metav1.ConditionFalse, Bad: true, Blocks: true}
	failed := passwordFailed(in)
	switch {
	case c.Usable && failed != "":
		cond.Reason, cond.Blocks, cond.event = "NotApplied", false, "PasswordNotApplied"
		cond.Message = fmt.Sprintf("spec.dmPasswordSecretRef: servers could not be given the password in the Secret %q, key %q. %s. %s", c.Ref.Name, c.Ref.Key, failed, in.logs())
	case c.Usable:
		return Condition{Type: TypeCredentialsReady, Status: metav1.ConditionTrue, Reason: "Ready", Message: fmt.Sprintf("The Directory Manager's password is in the Secret %q, key %q", c.Ref.Name, c.Ref.Key)}
	case c.Invalid:
		cond.Reason = "PasswordInvalid"
		cond.Message = fmt.Sprintf("The Secret %q in the namespace %s has no text in UTF-8 under the key %q, upon which 389 Directory Server crashes; servers keep the password that they have. Put another one in: kubectl -n %s edit secret %s",
			c.Ref.Name, in.Identity.Namespace, c.Ref.Key, in.Identity.Namespace, c.Ref.Name)
	case c.Lost && in.allAgents():
		cond.Reason, cond.Blocks = "PasswordLost", false
		cond.Message = fmt.Sprintf("The Secret %q with the generated password is gone; the servers get a new one by themselves, without a restart. Give it to whoever used the old one: kubectl -n %s get secret %s",
			c.Ref.Name, in.Identity.Namespace, c.Ref.Name)
	case c.Lost:
		cond.Reason, cond.Blocks = "PasswordLost", false
		cond.Message = fmt.Sprintf("The Secret %q with the generated password is gone, and a new password is generated. The servers have the old one until they restart: kubectl -n %s rollout restart statefulset %s",
			c.Ref.Name, in.Identity.Namespace, in.Identity.StatefulSet())
	case c.Generated && len(in.Problems) > 0:
		return Condition{Type: TypeCredentialsReady, Status: metav1.ConditionUnknown, Reason: "Waiting", Message: "The password is generated once the spec is valid: see the condition SpecValid"}
	case !c.Arrived:
		return Condition{Type: TypeCredentialsReady, Status: metav1.ConditionUnknown, Reason: "NotLookedUp", Message: fmt.Sprintf("The Secret %q was not looked up yet", c.Ref.Name)}
	case c.Generated:
		return Condition{Type: TypeCredentialsReady, Status: metav1.ConditionUnknown, Reason: "Generating", Message: fmt.Sprintf("The Secret %q is being generated", c.Ref.Name)}
	case !c.Exists:
		cond.Reason = "SecretMissing"
		cond.Message = fmt.Sprintf("spec.dmPasswordSecretRef.name: there is no Secret %q in the namespace %s. Create it: kubectl -n %s create secret generic %s --from-file=%s=FILE",
			c.Ref.Name, in.Identity.Namespace, in.Identity.Namespace, c.Ref.Name, c.Ref.Key)
	case !c.Brought:
		cond.Reason = "KeyMissing"
		cond.Message = fmt.Sprintf("The Secret %q in the namespace %s was not made by the function, and has nothing under the key %q. Add it, or delete that Secret to have a password generated: kubectl -n %s edit secret %s",
			c.Ref.Name, in.Identity.Namespace, c.Ref.Key, in.Identity.Namespace, c.Ref.Name)
	default:
		cond.Reason = "KeyMissing"
		cond.Message = fmt.Sprintf("spec.dmPasswordSecretRef.key: the Secret %q in the namespace %s has nothing under the key %q. Add it: kubectl -n %s edit secret %s",
			c.Ref.Name, in.Identity.Namespace, c.Ref.Key, in.Identity.Namespace, c.Ref.Name)
	}
	return cond
}

// mostListed bounds a message: an event may have 1 kB, a condition 32 kB.
const mostListed = 10

// firstOf a list, joined; of a long one it says how many more there are.
func firstOf(list []string, separator string) string {
	if len(list) <= mostListed {
		return strings.Join(list, separator)
	}
	return strings.Join(list[:mostListed], separator) + fmt.Sprintf("%sand %d more", separator, len(list)-mostListed)
}

func suffixOrphaned(in Inputs) Condition {
	var names []string
	for _, s := range in.Config.Suffixes {
		if s.Orphaned {
			names = append(names, fmt.Sprintf("%s (%s)", s.Name, s.DN))
		}
	}
	if len(names) == 0 {
		return Condition{Type: TypeSuffixOrphaned, Status: metav1.ConditionFalse, Reason: "NoOrphans"}
	}
	return Condition{
		Type:    TypeSuffixOrphaned,
		Status:  metav1.ConditionTrue,
		Reason:  "TakenOffTheSpec",
		Message: "Suffixes that spec.suffixes no longer lists, with data that were kept: " + firstOf(names, ", ") + ". To have them managed again put them back: " + in.edit(),
		Bad:     true,
	}
}

func replicationHealthy(in Inputs) Condition {
	if !in.FirstServerOnly {
		return Condition{Type: TypeReplicationHealthy, Status: metav1.ConditionTrue, Reason: "SingleServer", Message: "One server has nobody to replicate with"}
	}
	return Condition{
		Type:   TypeReplicationHealthy,
		Status: metav1.ConditionFalse,
		Reason: "NotReplicated",
		Message: fmt.Sprintf("spec.replicas: this version of the function does not set up replication between servers: the Service %s sends clients to %s alone, and the other servers hold nothing of its data. Have one server: kubectl -n %s scale dirsrv %s --replicas=1",
			in.Identity.Service(), in.Identity.Pod(0), in.Identity.Namespace, in.Identity.Name),
		Bad: true,
	}
}

func availableCondition(in Inputs, available bool) Condition {
	problems := podProblems(in)
	if available {
		return Condition{Type: TypeAvailable, Status: metav1.ConditionTrue, Reason: "Serving", Message: problems}
	}
	c := Condition{Type: TypeAvailable, Status: metav1.ConditionFalse, Reason: "NotServing", Message: problems}
	switch {
	case !in.Rollout.Exists && in.Decision.Blocked != nil:
		c.Message = "No server was started: see the condition UpgradeBlocked"
	case !in.Rollout.Exists && len(in.Problems) > 0:
		c.Message = "No server was started: see the condition SpecValid"
	case !in.Rollout.Exists && !in.Credential.Usable && !in.Credential.Generated:
		c.Message = "No server was started yet: see the condition CredentialsReady"
	case !in.Rollout.Exists && tlsReady(in).Status == metav1.ConditionFalse:
		c.Message = "No server was started yet: see the condition TLSReady"
	case in.PodsArrived && in.Rollout.Exists && int(in.Rollout.Wanted) > len(in.Pods):
		c.Message = strings.TrimPrefix(problems+". ", ". ") + fmt.Sprintf("Servers are missing. See why their pods are not created: kubectl -n %s describe statefulset %s", in.Identity.Namespace, in.Identity.StatefulSet())
	case problems == "":
		c.Message = "No server is Ready yet"
	}
	return c
}

// patch is the command that changes fields of the spec, given as JSON members.
func (in Inputs) patch(spec string) string {
	return fmt.Sprintf("kubectl -n %s patch dirsrv %s --type merge -p '{\"spec\":{%s}}'", in.Identity.Namespace, in.Identity.Name, spec)
}

// edit is the command for what a person has to choose.
func (in Inputs) edit() string {
	return fmt.Sprintf("kubectl -n %s edit dirsrv %s", in.Identity.Namespace, in.Identity.Name)
}

// shellQuote quotes a word for a POSIX shell.
func shellQuote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// An Event that a person should see.
type Event struct {
	Warning bool
	Reason  string
	Message string
}

// eventReasons of a condition that turned bad, and of one that was mended.
// "" is the condition's own reason.
var eventReasons = map[string]struct{ bad, good string }{
	TypeSpecValid:          {"SpecInvalid", "SpecValid"},
	TypeCredentialsReady:   {"CredentialsMissing", "CredentialsReady"},
	TypeTLSReady:           {"", "TLSReady"},
	TypeStorageReady:       {"", "StorageReady"},
	TypeUpgradeBlocked:     {"UpgradeBlocked", "UpgradeUnblocked"},
	TypeSuffixesReady:      {"", "SuffixesReady"},
	TypeSuffixOrphaned:     {"SuffixOrphaned", "SuffixReturned"},
	TypeReplicationHealthy: {"NotReplicated", "SingleServer"},
	// What goes well is told by the ledger's transitions.
	TypeUpgradeSucceeded: {"UpgradeFailed", ""},
}

// events are sent when a condition differs from the observed one (R34): there is
// no other memory, so a call that is repeated with the same request repeats them,
// and the next one does not.
func events(previous []metav1.Condition, now []Condition) []Event {
	before := make(map[string]metav1.Condition, len(previous))
	for _, c := range previous {
		before[c.Type] = c
	}
	var out []Event
	for _, c := range now {
		reasons, ok := eventReasons[c.Type]
		if !ok {
			continue
		}
		old, seen := before[c.Type]
		switch {
		case c.Bad && (!seen || old.Status != c.Status || old.Reason != c.Reason || old.Message != c.Message):
			out = append(out, Event{Warning: true, Reason: cmp.Or(c.event, reasons.bad, c.Reason), Message: c.Message})
		case (c.Type == TypeStorageReady || c.Type == TypeTLSReady || c.Type == TypeSuffixesReady) && c.Status == metav1.ConditionFalse:
			// Not bad yet, but not mended either.
		case !c.Bad && reasons.good != "" && seen && c.Status != metav1.ConditionUnknown && wasBad(c, old):
			message := c.Message
			if message == "" {
				message = fmt.Sprintf("The condition %s is %s again", c.Type, c.Status)
			}
			out = append(out, Event{Reason: reasons.good, Message: message})
		}
	}
	return out
}

// wasBad compares with a condition that is good now. Unknown is what Crossplane
// writes after an error; it says nothing.
func wasBad(now Condition, old metav1.Condition) bool {
	return old.Status != now.Status && old.Status != metav1.ConditionUnknown && !onTheWay[old.Reason]
}

// onTheWay are reasons of conditions that are False without being bad: at a first start,
// and whenever a pod is replaced. Nobody was told of them.
var onTheWay = map[string]bool{"NoVolumes": true, "VolumePending": true, "Creating": true, "Issuing": true}
