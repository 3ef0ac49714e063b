package upgrade_test

// The StatefulSet controller of Kubernetes 1.28 to 1.36 with the policy Parallel
// (pkg/controller/statefulset/stateful_set_control.go), with and without the feature
// gate MaxUnavailableStatefulSet.

// available is podutil.IsPodAvailable without being terminated.
func (w *world) available(p *pod, minReady int32) bool {
	return p.exists && !p.terminating && p.ready && (minReady == 0 || w.now >= p.since+int64(minReady))
}

// controller is one sync: of the StatefulSet as the controller's cache has it, which
// may lag behind, while the counts go to the live one.
func (w *world) controller() {
	w.controllerSees = w.stss.seen(w.rng, w.controllerSees, !w.calm && w.chance(w.stale))
	seen, _ := w.stss.at(w.controllerSees)
	set := *seen
	if !set.exists || !w.sts.exists || set.uid != w.sts.uid {
		return
	}
	live := &w.sts
	update, current := set.content, live.current
	if current == none {
		current = update
	}

	// Counted before anything is created or deleted.
	var pods, ready, updated int32
	for i := range w.pods {
		p := &w.pods[i]
		if !p.exists {
			continue
		}
		pods++
		if p.ready {
			ready++
		}
		if !p.terminating && p.content == update {
			updated++
		}
	}

	ok := w.replicas(&set, update, current)
	if ok {
		for i := int(set.replicas); i < maxPods; i++ {
			if p := &w.pods[i]; p.exists && !p.terminating {
				w.logf("controller scales %s down", named.pods[i])
				w.terminate(i, byScaling)
			}
		}
		if !set.onDelete {
			w.update(&set, update)
		}
	}

	if !w.calm && w.chance(w.faulty) {
		return
	}
	if !set.onDelete && updated == set.replicas && ready == set.replicas && pods == set.replicas {
		current = update
	}
	if set.generation > live.observed {
		live.observed = set.generation
	}
	live.pods, live.ready, live.updated = pods, ready, updated
	live.current, live.updateContent = current, update
}

// replicas creates what is missing and deletes what has ended.
func (w *world) replicas(set *statefulSet, update, current content) bool {
	for i := range int(set.replicas) {
		p := &w.pods[i]
		switch {
		case p.exists && p.ended && !p.terminating:
			w.terminate(i, byChance)
		case !p.exists:
			if !w.calm && w.chance(w.faulty) {
				return false
			}
			c := update
			if !set.onDelete && int32(i) < set.partition {
				c = current
			}
			w.nextUID++
			w.pods[i] = pod{exists: true, uid: w.nextUID, content: c, created: w.now, since: w.now, byHand: set.byHand}
			w.logf("controller creates %s of %s", named.pods[i], c)
		}
	}
	return true
}

// update deletes one pod of an outdated revision, or none.
func (w *world) update(set *statefulSet, revision content) {
	if w.maxUnavailable {
		for i := range int(set.replicas) {
			if !w.available(&w.pods[i], set.minReady) {
				return
			}
		}
	}
	for i := int(set.replicas) - 1; i >= int(set.partition); i-- {
		p := &w.pods[i]
		if p.exists && p.content != revision && !p.terminating {
			w.replaced(set, i)
			return
		}
		if !w.maxUnavailable && !w.available(p, set.minReady) {
			return
		}
	}
}

// replaced: the controller deletes a pod because the template changed.
func (w *world) replaced(set *statefulSet, i int) {
	p := &w.pods[i]
	w.logf("controller replaces %s of %s", named.pods[i], p.content)
	w.stats.n[nReplaced]++
	g := set.grants[i]
	if p.ready && g.kind != grantPeople && !p.byHand && (g.kind == grantOperation || !w.tampered) {
		w.oneDown(set, i, g)
	}
	c := byUs
	if g.kind == grantPeople || p.byHand {
		c = byPeople
	}
	w.terminate(i, c)
}

// oneDown: when a pod that is Ready is replaced, no other one is down but by something
// that nobody could know when it was decided.
func (w *world) oneDown(set *statefulSet, i int, g grant) {
	for j := range int(min(set.replicas, w.sts.replicas)) {
		s := w.slots[j]
		if j == i || !s.down {
			continue
		}
		known := g.podsSeen
		if s.cause == byScaling {
			known = g.stsSeen
		}
		if s.cause == byUs || s.since <= known {
			w.fail("one down", "%s is Ready and is replaced, and %s is down by %s since step %d; decided in step %d upon pods as they were since step %d and a StatefulSet as it was since step %d",
				named.pods[i], named.pods[j], s.cause, s.since, g.step, g.podsSeen, g.stsSeen)
			return
		}
	}
}
