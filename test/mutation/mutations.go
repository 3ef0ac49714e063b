package main

// mutations, one for each rule at least.
var mutations = []mutation{
	// Gates.
	{
		name: "gate dropped", file: "gate.go",
		old: "if len(missing) == 0 {", new: "if len(missing) >= 0 {",
		why: "no image runs that was not approved",
	},
	{
		name: "gate minor down", file: "class.go",
		old: "case ClassMinorDown, ClassMajorUp, ClassMajorDown:\n\t\treturn true", new: "case ClassMajorUp, ClassMajorDown:\n\t\treturn true",
		why: "the gating table is law",
	},
	{
		name: "gate half", file: "gate.go",
		old: "if !t.named(r.BackupConfirmed) {", new: "if false {",
		why: "both annotations are asked for",
	},
	{
		name: "gate from any", file: "gate.go",
		old: "return ok && normalise(strings.TrimSpace(from)) == normalise(t.From) &&", new: "return ok && from != \"\" &&",
		why: "approval is for the present version alone (R26)",
	},
	{
		name: "gate manual rollback", file: "next.go",
		old: "if r := gate(good, to, in.Requests); r != nil {\n\t\t\tr.Request", new: "if r := gate(good, to, in.Requests); false {\n\t\t\tr.Request",
		why: "rollback-to passes the same gates (R37)",
	},
	{
		name: "refusal ignored", file: "next.go",
		old: "case in.Refusal != nil:\n\t\td.Blocked = in.Refusal\n\t\ttarget = *good", new: "case false:",
		why: "an image that contradicts the version is not applied (R25)",
	},
	{
		name: "unhealthy ignored", file: "next.go",
		old: "case ok, t.named(in.Requests.AllowDegraded):", new: "case ok, true:",
		why: "an upgrade begins on a healthy service (R29)",
	},
	{
		name: "paused ignored, begin", file: "next.go",
		old: "if in.Policy.Paused {\n\t\treturn pausedRefusal(), \"\"", new: "if false {\n\t\treturn pausedRefusal(), \"\"",
		why: "paused holds (R40)",
	},
	{
		name: "paused ignored, step", file: "advance.go",
		old: "case in.Policy.Paused:\n\t\td.Waiting", new: "case false:\n\t\td.Waiting",
		why: "paused holds between pods (R40)",
	},
	{
		name: "advice wrong", file: "next.go",
		old: "Annotate: annotations([]string{AllowDegraded}, t.String()),\n\t}, \"\"", new: "Annotate: annotations([]string{AllowDegraded}, t.To+\"->\"+t.From),\n\t}, \"\"",
		why: "whoever follows the advice gets on (R33)",
	},

	// One pod at a time.
	{
		name: "partition jumps", file: "next.go",
		old: "d.Partition = d.partition(o)", new: "d.Partition = 0",
		why: "one pod at a time (R30)",
	},
	{
		name: "order reversed", file: "rollout.go",
		old: "return cmp.Compare(b.Ordinal, a.Ordinal)", new: "return cmp.Compare(a.Ordinal, b.Ordinal)",
		why: "from the highest ordinal down (R30)",
	},
	{
		name: "mend skipped", file: "next.go",
		old: "o.Mend = o.Degraded\n", new: "o.Mend = false\n",
		why: "what is down is replaced before what is Ready",
	},
	{
		name: "not Ready ignored", file: "rollout.go",
		old: "if p.Terminating || !p.Ready {\n\t\t\treturn false, fmt", new: "if false {\n\t\t\treturn false, fmt",
		why: "the next pod waits for all others (R30)",
	},
	{
		name: "missing ignored", file: "rollout.go",
		old: "if s.missing > 0 {\n\t\treturn false, \"waits for pods to be created\"", new: "if false {\n\t\treturn false, \"waits for pods to be created\"",
		why: "a pod that is not there is down",
	},
	{
		name: "condemned Ready", file: "rollout.go",
		old: "if s.outdated(p) && !p.Ready && !p.Terminating {", new: "if s.outdated(p) && !p.Terminating {",
		why: "nothing that is Ready is deleted",
	},
	{
		name: "condemned updated", file: "rollout.go",
		old: "if s.outdated(p) && !p.Ready && !p.Terminating {", new: "if !p.Ready && !p.Terminating {",
		why: "a pod of the new revision gets its time",
	},
	{
		name: "caches disagree", file: "advance.go",
		old: "case r.Ready != r.Wanted || r.Pods != r.Wanted || int(r.Updated) != s.updated():", new: "case false:",
		why: "pods from an older cache than the StatefulSet let none go",
	},
	{
		name: "agent ignored", file: "rollout.go",
		old: "if !p.HasAgent {\n\t\treturn true, \"\"", new: "if true {\n\t\treturn true, \"\"",
		why: "the server reports its version, and replicates (R30)",
	},
	{
		name: "minReady ignored", file: "rollout.go",
		old: "if wait := in.Policy.MinReady; wait > 0 &&", new: "if wait := in.Policy.MinReady; false &&",
		why: "minReadySeconds holds (R40)",
	},

	// Holding.
	{
		name: "arrived ignored", file: "advance.go",
		old: "case !in.Arrived:", new: "case false:",
		why: "nothing is decided before the pods are known",
	},
	{
		name: "current ignored, advance", file: "advance.go",
		old: "case !in.Rollout.Current || in.Rollout.Running.Template != o.To.Template", new: "case in.Rollout.Running.Template != o.To.Template",
		why: "stale counts decide nothing (R31)",
	},
	{
		name: "current ignored, begin", file: "next.go",
		old: "case !r.Current:", new: "case false:",
		why: "nothing begins upon a stale status",
	},
	{
		name: "current ignored, condemned", file: "next.go",
		old: "if !d.in.Arrived || !d.in.Rollout.Current || d.Run == nil ||", new: "if !d.in.Arrived || d.Run == nil ||",
		why: "which pod is outdated is known while the status is current",
	},
	{
		name: "held ignored", file: "next.go",
		old: "if in.Held {\n\t\td.keep()\n\t\treturn", new: "if false {\n\t\td.keep()\n\t\treturn",
		why: "a spec that cannot be acted upon begins nothing",
	},
	{
		name: "healthy too early", file: "rollout.go",
		old: "r.Current && r.Ready > 0 && r.Updated == r.Pods", new: "r.Ready > 0",
		why: "good is what was seen healthy",
	},
	{
		name: "complete too early", file: "advance.go",
		old: "if in.Replicas != r.Wanted || r.Ready != r.Wanted || r.Updated != r.Wanted || r.Pods != r.Wanted {", new: "if false {",
		why: "success is judged on the controller's counts as well (R31)",
	},
	{
		name: "complete with outdated", file: "advance.go",
		old: "case ready && next == nil:", new: "case ready:",
		why: "success is all replicas updated (R31)",
	},

	// Failing and returning.
	{
		name: "no deadline", file: "rollout.go",
		old: "if in.Now.Before(since.Add(in.Policy.deadline())) {", new: "if true {",
		why: "what never becomes Ready is taken back (R35)",
	},
	{
		name: "no failure", file: "rollout.go",
		old: "case failing[p.Waiting]:", new: "case false:",
		why: "what cannot start is taken back at once (R35)",
	},
	{
		name: "deadline of the controller", file: "rollout.go",
		old: "if ok || !own && s.outdated(p) {", new: "if ok && !s.outdated(p) || !own && s.outdated(p) {",
		why: "nothing fails that was not tried",
	},
	{
		name: "deadline not renewed", file: "advance.go",
		old: "o.Mend, o.Pod = false, \"\"", new: "o.Mend = false",
		why: "a pod's time begins when it is let go",
	},
	{
		name: "rollback to target", file: "advance.go",
		old: "back := *d.available(*l.Good)", new: "back := *d.available(o.To)",
		why: "a failed operation goes back to the last good release",
	},
	{
		name: "abort ignored", file: "advance.go",
		old: "if in.Held || o.Returns(l.Good) {\n\t\treturn false\n\t}", new: "if true {\n\t\treturn false\n\t}",
		why: "naming again what it came from is an abort (R38)",
	},
	{
		name: "keepFailed ignored", file: "advance.go",
		old: "case in.Policy.KeepFailed:", new: "case false:",
		why: "automaticRollback: false keeps it (R40)",
	},
	{
		name: "old pod stuck", file: "advance.go",
		old: "if f != nil {\n\t\tallowed :=", new: "if false {\n\t\tallowed :=",
		why: "an old pod that cannot come back does not hold an upgrade for ever",
	},
	{
		name: "first waits for ever", file: "next.go",
		old: "if !in.Arrived || !in.Rollout.Current {\n\t\treturn true\n\t}", new: "if in.Rollout.Ready > 0 {\n\t\treturn true\n\t}",
		why: "what was never healthy may be left (R39)",
	},
	{
		name: "leave impossible", file: "advance.go",
		old: "if in.Held {\n\t\treturn false\n\t}\n\tif rb := in.Requests", new: "if true {\n\t\treturn false\n\t}\n\tif rb := in.Requests",
		why: "a rollback that fails can be left",
	},

	// Once.
	{
		name: "rejected forgotten", file: "next.go",
		old: "r != nil && in.Refusal == nil && !r.samePair(in.Target) {", new: "r != nil {",
		why: "a rejected target is not tried again by itself (R36)",
	},
	{
		name: "rejected pods forgotten", file: "next.go",
		old: "r != nil && (l.Good == nil || !r.samePair(*l.Good) || !sameInputs(in.Template(*l.Good), r.Template)) {", new: "r != nil {",
		why: "rejected pods are not tried again by themselves",
	},
	{
		name: "rejected kept", file: "next.go",
		old: "r != nil && in.Refusal == nil && !r.samePair(in.Target) {", new: "r != nil && false {",
		why: "another target in between lets it be tried again (R36)",
	},
	{
		name: "rejection not recorded", file: "advance.go",
		old: "\t\t\tl.Rejected = r\n", new: "",
		why: "what failed is rejected (R36)",
	},
	{
		name: "rejection ignored", file: "next.go",
		old: "case d.rejects(target):", new: "case false:",
		why: "a rejected target is not tried again by itself (R36)",
	},
	{
		name: "rollback-to not consumed", file: "next.go",
		old: "\tl.RollbackTo = version\n", new: "",
		why: "a rollback request is done once (R37)",
	},
	{
		name: "rollback-to without a pin", file: "next.go",
		old: "if !target.samePair(to) && !d.rejectsPair(target) {", new: "if false {",
		why: "taking the request away does not upgrade again (R37)",
	},

	// Pods stay (R44), and the ledger.
	{
		name: "template always made", file: "next.go",
		old: "if r.Template == \"\" || !d.in.Stored(r.Template) {", new: "if true {",
		why: "a newer function restarts no server (R44)",
	},
	{
		name: "pod update by itself", file: "next.go",
		old: "if !in.Policy.AutomaticPodUpdates && in.Requests.ApplyPodUpdate != made {", new: "if false {",
		why: "a newer function restarts no server (R44)",
	},
	{
		name: "pod update never", file: "next.go",
		old: "if !in.Policy.AutomaticPodUpdates && in.Requests.ApplyPodUpdate != made {", new: "if !in.Policy.AutomaticPodUpdates {",
		why: "apply-pod-update applies it",
	},
	{
		name: "inputs changed", file: "ledger.go",
		old: "g := *l.Good\n\t\tc.Good = &g", new: "c.Good = l.Good",
		why: "the inputs stay as they were",
	},
	{
		name: "history endless", file: "ledger.go",
		old: "const maxHistory = 10", new: "const maxHistory = 1000",
		why: "the ledger is bounded (R32)",
	},
	{
		name: "history not kept", file: "ledger.go",
		old: "l.History = append([]HistoryEntry{e}, l.History...)", new: "_ = e",
		why: "every operation that ended is recorded (R32)",
	},
	{
		name: "status not used", file: "ledger.go",
		old: "if err != nil || annotation == \"\" {\n\t\tl = projected", new: "if err != nil || annotation == \"\" {\n\t\tl = Ledger{}",
		why: "a ledger that is lost is rebuilt from the status",
	},
}
