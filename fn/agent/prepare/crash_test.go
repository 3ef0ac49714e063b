package prepare

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// killed is what a process that is killed panics with.
type killed struct{ at string }

// killedAt runs an attempt that ends at its n-th step, and says where; "" where it came
// to its end.
func (w *world) killedAt(n int, attempt func() error) (at string, err error) {
	defer func() {
		w.step = nil
		if p := recover(); p != nil {
			k, ok := p.(killed)
			if !ok {
				panic(p)
			}
			at = k.at
		}
	}()
	steps := 0
	w.step = func(what string) {
		if steps++; steps == n {
			panic(killed{at: strings.ReplaceAll(what, w.data, "")})
		}
	}
	return "", attempt()
}

// A transition is one start that may be killed anywhere.
type transition struct {
	reason string
	volume func(*world)
	image  string
	change []func(*Options)
	// good is the image that was Ready before, to which the way back is open.
	good string
}

var transitions = map[string]transition{
	"First": {
		reason: "On an empty volume.",
		volume: func(*world) {},
		image:  "2.3.1",
	},
	"FirstInterrupted": {
		reason: "Over half a server.",
		volume: func(w *world) {
			_, _ = w.prepare("2.3.1")
			w.create("2.3.1")
			_ = w.disk().remove(w.data + "/config/container.inf")
		},
		image: "2.3.1",
	},
	"Up": {
		reason: "The configuration is kept, the environment removed.",
		volume: func(w *world) { w.ready("2.3.1") },
		image:  "3.1.2", good: "2.3.1",
	},
	"UpFromElsewhere": {
		reason: "On a volume of which nothing is known.",
		volume: func(w *world) {
			w.create("2.3.1")
			_ = w.start("2.3.1")
			w.stop()
		},
		image: "3.1.2", good: "2.3.1",
	},
	"FailedUpgradeBack": {
		reason: "The configuration is put back.",
		volume: func(w *world) {
			w.ready("2.3.1")
			w.fails("3.1.2")
		},
		image: "2.3.1", good: "2.3.1",
	},
	"FailedUpgradeOn": {
		reason: "The configuration is put back, for a third version.",
		volume: func(w *world) {
			w.ready("2.3.1")
			w.fails("3.1.2")
		},
		image: "3.1.3", good: "2.3.1",
	},
	"Back": {
		reason: "The configuration of the newer version is kept, that of the older put back.",
		volume: func(w *world) {
			w.ready("2.3.1")
			w.ready("3.1.2")
		},
		image: "2.3.1", good: "3.1.2",
	},
	"Migration": {
		reason: "The database is migrated.",
		volume: func(w *world) { w.ready("2.3.1") },
		image:  "3.3.1", change: []func(*Options){migrateIt}, good: "2.3.1",
	},
	"MigrationTidy": {
		reason: "The database is migrated by a tool that leaves the mark of a clean stop.",
		volume: func(w *world) {
			w.tidy = true
			w.ready("2.3.1")
		},
		image: "3.3.1", change: []func(*Options){migrateIt}, good: "2.3.1",
	},
	"MigrationAfterAFailure": {
		reason: "A migrated database is dropped and migrated again.",
		volume: func(w *world) {
			w.ready("2.3.1")
			w.fails("3.3.1", migrateIt)
		},
		image: "3.3.2", change: []func(*Options){migrateIt}, good: "2.3.1",
	},
	"MigratedBack": {
		reason: "A migrated database that nobody used is dropped.",
		volume: func(w *world) {
			w.ready("2.3.1")
			w.fails("3.3.1", migrateIt)
		},
		image: "2.3.1", good: "2.3.1",
	},
	"BackKeepsLMDB": {
		reason: "The configuration is made to open the present database.",
		volume: func(w *world) {
			w.ready("2.3.1")
			w.ready("3.1.2")
			w.ready("3.3.1", migrateIt)
			w.write("userroot 7\nother 2\n", "db/data.mdb")
		},
		image: "3.1.2", good: "3.3.1",
	},
	"BackConfirmed": {
		reason: "The old database is opened again.",
		volume: func(w *world) {
			w.ready("2.3.1")
			w.ready("3.3.1", migrateIt)
			w.write("userroot 7\nother 2\n", "db/data.mdb")
		},
		image: "2.3.1", change: []func(*Options){confirm("3.3.1->2.3.1")}, good: "3.3.1",
	},
	"Indexes": {
		reason: "The configuration is changed by a tool that writes over it.",
		volume: func(w *world) { w.ready("3.1.2") },
		image:  "3.3.1", good: "3.1.2",
	},
}

func (w *world) disk() disk { return disk{} }

// outcome is what counts of a volume that was prepared: every file but what is kept and
// known, and what is known without the numbers of what is kept.
func (w *world) outcome() map[string]string {
	out := w.tree(markers)
	s, err := loadState(w.data)
	if err != nil {
		w.t.Fatal(err)
	}
	out["known"] = fmt.Sprintf("%v %v %v %v %v %v %v", s.Ready, s.Writer, s.First, s.Indexed, s.Counts, s.Restored, slices.Sorted(maps.Keys(s.Snapshots)))
	for v, dir := range s.Snapshots {
		out["kept of "+v] = w.tree()[markers+"/"+dir+"/dse.ldif"]
	}
	for x := s.Switched; x != nil; x = x.Before {
		out["known"] += fmt.Sprintf(" switched to %s, %v", x.To, x.Ready)
	}
	if s.Pending != nil {
		out["known"] += " pending"
	}
	var kept []string
	for path := range w.tree() {
		if rest, ok := strings.CutPrefix(path, markers+"/"); ok && !strings.Contains(rest, "/") {
			kept = append(kept, strings.TrimRight(rest, "0123456789"))
		}
	}
	slices.Sort(kept)
	out["kept"] = strings.Join(kept, " ")
	return out
}

// R42: wherever the process is killed, the next start ends where one that was not killed
// would have.
func TestKilledAnywhere(t *testing.T) {
	for name, tc := range transitions {
		t.Run(name, func(t *testing.T) {
			volume := newWorld(t)
			tc.volume(volume)
			undisturbed := volume.clone(t)
			if _, err := undisturbed.prepare(tc.image, tc.change...); err != nil {
				t.Fatal(err)
			}
			want := undisturbed.outcome()
			for n := 1; ; n++ {
				w := volume.clone(t)
				attempt := func() error {
					_, err := w.prepare(tc.image, tc.change...)
					return err
				}
				at, err := w.killedAt(n, attempt)
				if err != nil {
					t.Fatal(err)
				}
				if at == "" {
					if n < 5 {
						t.Errorf("only %d steps", n)
					}
					t.Logf("%s Killed at each of %d steps.", tc.reason, n-1)
					break
				}
				if _, err := w.prepare(tc.image, tc.change...); err != nil {
					t.Fatalf("killed at step %d, %s: %v", n, at, err)
				}
				if diff := cmp.Diff(want, w.outcome()); diff != "" {
					t.Fatalf("killed at step %d, %s: -want, +got:\n%s", n, at, diff)
				}
			}
		})
	}
}

// R42: killed twice, at any two steps, it still ends where it should.
func TestKilledTwice(t *testing.T) {
	for _, name := range []string{"Migration", "MigrationAfterAFailure", "BackKeepsLMDB"} {
		tc := transitions[name]
		t.Run(name, func(t *testing.T) {
			volume := newWorld(t)
			tc.volume(volume)
			undisturbed := volume.clone(t)
			if _, err := undisturbed.prepare(tc.image, tc.change...); err != nil {
				t.Fatal(err)
			}
			want := undisturbed.outcome()
			// Strides without a common divisor meet every step and a spread of pairs.
			for n := 1; ; n++ {
				w := volume.clone(t)
				attempt := func() error {
					_, err := w.prepare(tc.image, tc.change...)
					return err
				}
				first, err := w.killedAt(n, attempt)
				if first == "" || err != nil {
					break
				}
				second, err := w.killedAt(1+n*7%41, attempt)
				if err == nil {
					_, err = w.prepare(tc.image, tc.change...)
				}
				if err != nil {
					t.Fatalf("killed at %s, then at %s: %v", first, second, err)
				}
				if diff := cmp.Diff(want, w.outcome()); diff != "" {
					t.Fatalf("killed at %s, then at %s: -want, +got:\n%s", first, second, diff)
				}
			}
		})
	}
}

// R35, R42: wherever the start of another version is killed, and whether or not that server
// ran for a while, the version that was Ready before finds its own configuration and its own
// data.
func TestKilledAndRolledBack(t *testing.T) {
	for name, tc := range transitions {
		if tc.good == "" || strings.HasPrefix(name, "BackConfirmed") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			volume := newWorld(t)
			tc.volume(volume)
			want := volume.clone(t)
			if _, err := want.prepare(tc.good, tc.change...); err != nil {
				t.Fatal(err)
			}
			dse, counts := want.read("config/dse.ldif"), want.counts()
			for n, done := 1, false; !done; n++ {
				w := volume.clone(t)
				at, err := w.killedAt(n, func() error {
					_, err := w.prepare(tc.image, tc.change...)
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				if done = at == ""; done {
					_ = w.start(tc.image)
				}
				if _, err := w.prepare(tc.good, tc.change...); err != nil {
					t.Fatalf("killed at step %d, %s: %v", n, at, err)
				}
				if diff := cmp.Diff(dse, w.read("config/dse.ldif")); diff != "" {
					t.Fatalf("killed at step %d, %s: the configuration of %s: -want, +got:\n%s", n, at, tc.good, diff)
				}
				if diff := cmp.Diff(counts, w.counts()); diff != "" {
					t.Fatalf("killed at step %d, %s: entries: -want, +got:\n%s", n, at, diff)
				}
				if err := w.start(tc.good); err != nil {
					t.Fatalf("killed at step %d, %s: %s does not start: %v", n, at, tc.good, err)
				}
			}
		})
	}
}
