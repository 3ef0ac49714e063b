package prepare

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMarks(t *testing.T) {
	w := newWorld(t)
	if _, known := Remembered(w.data); known {
		t.Error("of an empty volume something is known")
	}
	if err := MarkReady(w.data, "latest", nil); err == nil {
		t.Error("a word is no version")
	}
	ok(t, MarkReady(w.data, "389-Directory/3.1.2 B1", map[string]int{"a": 1}))
	s, err := loadState(w.data)
	ok(t, err)
	is(t, s.Ready.Version.String(), "3.1.2")
	counts, known := Remembered(w.data)
	is(t, known, true)
	is(t, counts, map[string]int{"a": 1})

	ok(t, MarkCounts(w.data, map[string]int{"a": 2}, true))
	ok(t, MarkCounts(w.data, nil, false))
	counts, _ = Remembered(w.data)
	is(t, counts, map[string]int{"a": 2})

	// A volume is not written to for nothing.
	before, err := os.Stat(filepath.Join(w.data, markers, stateFile))
	ok(t, err)
	ok(t, MarkReady(w.data, "3.1.2", nil))
	ok(t, MarkCounts(w.data, map[string]int{"a": 2}, false))
	after, err := os.Stat(filepath.Join(w.data, markers, stateFile))
	ok(t, err)
	is(t, os.SameFile(before, after), true)

	// What is known is not made up, and not taken for nothing.
	w.write("{", markers, stateFile)
	if _, err := w.prepare("3.1.2"); err == nil {
		t.Error("half of what is known is an error")
	}
	if err := MarkReady(w.data, "3.1.2", nil); err == nil {
		t.Error("half of what is known is an error")
	}
	if _, known := Remembered(w.data); known {
		t.Error("half of what is known was taken for known")
	}
}

// A second one on the volume waits, and gives up with its context.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	never := func() { t.Error("nobody has the lock, and it is waited for") }
	unlock, err := Lock(context.Background(), dir, never)
	ok(t, err)
	waited := 0
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := Lock(ctx, dir, func() { waited++ }); err == nil || waited != 1 {
		t.Errorf("two have one volume: %v, told %d times that it waits", err, waited)
	}
	unlock()
	again, err := Lock(context.Background(), dir, never)
	ok(t, err)
	again()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("the volume has got files: %v, %v", entries, err)
	}
}

// A server's cache is a file: it must fit on the volume.
func TestBoundCache(t *testing.T) {
	const gib = 1 << 30
	sized := func(autosize, split string) string {
		s := "nsslapd-backend-implement: bdb\n"
		if autosize != "" {
			s += "nsslapd-cache-autosize: " + autosize + "\n"
		}
		if split != "" {
			s += "nsslapd-cache-autosize-split: " + split + "\n"
		}
		return s
	}
	cases := map[string]struct {
		reason       string
		free, memory uint64
		old          string
		want         string
	}{
		"Fits":    {reason: "A cache that fits stays.", free: 8 * gib, memory: 24 * gib, old: sized("25", "25"), want: sized("25", "25")},
		"Bounded": {reason: "A quarter of what is free is enough.", free: gib, memory: 24 * gib, old: sized("25", "25"), want: sized("25", "4")},
		"Limited": {reason: "A container's limit bounds it, too.", free: gib, memory: 2 * gib, old: sized("25", "25"), want: sized("25", "25")},
		"Default": {reason: "A server that does not say has the default.", free: gib, memory: 24 * gib, old: sized("", ""), want: sized("", "4")},
		"Lower":   {reason: "A volume that fills up gets a lower bound.", free: gib / 2, memory: 24 * gib, old: sized("25", "4"), want: sized("25", "2")},
		"Full":    {reason: "There is always one percent.", free: 1000, memory: 24 * gib, old: sized("25", "25"), want: sized("25", "1")},
		"ByHand":  {reason: "A size that somebody has set is theirs.", free: gib, memory: 24 * gib, old: sized("0", "25"), want: sized("0", "25")},
		"Capped":  {reason: "No server takes more than 1.5 GiB.", free: 8 * gib, memory: 1000 * gib, old: sized("25", "25"), want: sized("25", "25")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ready("2.3.1")
			dse, dn := w.read("config/dse.ldif"), databaseDN
			if strings.Contains(tc.old, "autosize: ") {
				// Where servers really have it; what is above counts where they have not.
				dn = bdbDN
				dse += "\ndn: " + bdbDN + "\n" + tc.old
			} else {
				dse = strings.Replace(dse, "nsslapd-backend-implement: bdb\n", tc.old, 1)
			}
			w.write(dse, "config/dse.ldif")
			w.free, w.memory = tc.free, tc.memory
			for _, image := range []string{"2.3.1", "3.1.2"} {
				if _, err := w.prepare(image); err != nil {
					t.Fatal(err)
				}
				d := parseDSE([]byte(w.read("config/dse.ldif")))
				got := ""
				for _, l := range d.find(dn).lines {
					if strings.Contains(l.text, "cache") || strings.Contains(l.text, "implement") {
						got += l.raw
					}
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("\n%s\n%s: -want, +got:\n%s", tc.reason, image, diff)
				}
				// And it stays like that.
				before := w.tree()
				if _, err := w.prepare(image); err != nil {
					t.Fatal(err)
				}
				is(t, w.tree(), before)
			}
		})
	}
}

// What cannot be bounded is told.
func TestHint(t *testing.T) {
	for image, want := range map[string]bool{"2.3.1": true, "3.3.1": false} {
		w := newWorld(t)
		w.free = 1 << 30
		r, err := w.prepare(image)
		ok(t, err)
		if got := strings.Contains(r.Hint, "1689 MiB free") && strings.Contains(r.Hint, "there are 1024 MiB"); got != want {
			t.Errorf("%s: %q", image, r.Hint)
		}
		w.free = 2 << 30
		r, err = w.prepare(image)
		ok(t, err)
		is(t, r.Hint, "")
	}
	if memory() == 0 {
		t.Error("this machine has no memory")
	}
}

// Only what is ours is stopped.
func TestStray(t *testing.T) {
	w := newWorld(t)
	w.write("1\n", "run/slapd-localhost.pid")
	is(t, stray(w.data), []int(nil))
	w.write("x", "run/slapd-localhost.pid")
	is(t, stray(w.data), []int(nil))
	stopStray(w.data)
}
