package prepare

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const (
	// share of what is free on the volume that a Berkeley DB's cache may take.
	share = 4
	// A server takes these percentages of its memory for all caches, and of that for this
	// one, where nothing else is configured; and never more than 1.5 GiB.
	defaultAutosize, defaultSplit = 25, 25
	mostCache                     = 1536 << 20
	percent                       = 100
)

// cache of a Berkeley DB, as a server sizes it by the memory that it sees.
func cache(memory, autosize, split uint64) uint64 {
	return min(memory/percent*autosize/percent*split, mostCache)
}

// boundCache keeps a Berkeley DB's cache from filling the volume. It is a file, of up to
// 1.5 GiB by the memory of the node or container: a server does not start where less is
// free ("at least 1737729382 bytes space is needed for db region files"), and one of 3.x
// writes all of it at its start. On a node of 16 GiB a volume of 1 GiB would not do.
// The entry cache, which is in memory and matters more, gets what this one does not.
func (r *run) boundCache() error {
	if r.plan.kind != bdb {
		return nil
	}
	path := filepath.Join(r.Data, "config")
	d, err := readDSE(path)
	if err != nil || d == nil {
		return err
	}
	e := d.find(bdbDN)
	if e == nil || e.value(autosizeAttribute) == "" {
		e = d.find(databaseDN)
	}
	if e == nil || e.value(autosizeAttribute) == "0" {
		// Somebody has set a size.
		return nil
	}
	free, err := r.free(r.Data)
	if err != nil {
		return err
	}
	for _, path := range r.environment() {
		free += used(path)
	}
	autosize, split := setting(e, autosizeAttribute, defaultAutosize), setting(e, splitAttribute, defaultSplit)
	if cache(r.memory(), autosize, split) <= free/share {
		return nil
	}
	bound := uint64(1)
	for bound+1 < split && cache(r.memory(), autosize, bound+1) <= free/share {
		bound++
	}
	if bound >= split {
		return nil
	}
	r.Log.Info("Bounded the database's cache, which would fill the volume", "free", free, splitAttribute, bound)
	e.set(splitAttribute, strconv.FormatUint(bound, 10))
	return r.disk.write(filepath.Join(path, "dse.ldif"), d.bytes())
}

const (
	bdbDN             = "cn=bdb," + databaseDN
	autosizeAttribute = "nsslapd-cache-autosize"
	splitAttribute    = "nsslapd-cache-autosize-split"
)

// setting of a percentage.
func setting(e *entry, attribute string, otherwise uint64) uint64 {
	n, err := strconv.ParseUint(e.value(attribute), 10, 64)
	if err != nil || n == 0 || n > percent {
		return otherwise
	}
	return n
}

// hint at what will keep a server from being made: its configuration, which could bound the
// cache, is written by what starts it.
func (r *run) hint() string {
	if r.image.bdb != readWrite || !r.image.version.less(version{3, 0, 0}) {
		// From 3.0 on new servers have LMDB.
		return ""
	}
	free, err := r.free(r.Data)
	wants := cache(r.memory(), defaultAutosize, defaultSplit)
	if wants += wants / 10; err != nil || wants <= free {
		return ""
	}
	const mib = 1 << 20
	return fmt.Sprintf("%s does not start with less than %d MiB free on the volume, by the memory that it sees, and there are %d MiB. Give the container a limit of memory, in spec.resources, or the volume more, in spec.storage.size", r.image.version, wants/mib, free/mib)
}

// memory that a server sees: the node's, or its container's limit.
func memory() uint64 {
	out := uint64(0)
	for _, source := range []struct {
		path, prefix string
		unit         uint64
	}{
		{"/proc/meminfo", "MemTotal:", 1 << 10},
		{"/sys/fs/cgroup/memory.max", "", 1},
		{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "", 1},
	} {
		content, err := os.ReadFile(source.path)
		if err != nil {
			continue
		}
		// "max", where there is no limit, is no number.
		words := strings.Fields(strings.TrimPrefix(string(content), source.prefix))
		if len(words) == 0 {
			continue
		}
		n, err := strconv.ParseUint(words[0], 10, 64)
		if n *= source.unit; err == nil && (out == 0 || n < out) {
			out = n
		}
	}
	return out
}

// free bytes of a file system.
func free(path string) (uint64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(path, &fs); err != nil {
		return 0, fmt.Errorf("cannot tell what is free on the volume: %w", err)
	}
	return fs.Bavail * uint64(fs.Bsize), nil //nolint:gosec // A block has a size.
}

// used bytes of a file, which may be sparse.
func used(path string) uint64 {
	var s syscall.Stat_t
	if syscall.Stat(path, &s) != nil || s.Blocks < 0 {
		return 0
	}
	const block = 512
	return uint64(s.Blocks) * block
}

// checkIndexes has the order of the indexes compared with what the configuration says of
// it, once for each build: an index that is sorted otherwise misses entries, and on
// databases from before 3.3 it is. Reindexing does not mend it, dsctl does.
func (r *run) checkIndexes(ctx context.Context) error {
	s := r.state
	if s.Indexed == r.image.build || !r.image.checksIndexes() {
		return nil
	}
	out, code, err := r.Command(ctx, r.image.dsctl, "localhost", "index-check")
	if err != nil {
		return err
	}
	const mismatch = 1
	if code == mismatch {
		// dsctl does not replace the configuration, it writes over it.
		dir := s.name("index")
		if err := r.disk.copyTree(filepath.Join(r.Data, "config"), r.marker(dir)); err != nil {
			return err
		}
		s.Pending = &pending{Kind: indexing, Dir: dir}
		if err := r.disk.save(r.Data, s); err != nil {
			return err
		}
		out, code, err = r.Command(ctx, r.image.dsctl, "localhost", "index-check", "--fix")
		if err != nil {
			return err
		}
		if code == 0 {
			r.Log.Info("Mended what the configuration says of the order of the indexes")
			s.Pending = nil
		} else if err := r.undo(); err != nil {
			return err
		}
	}
	if code != 0 {
		// Servers before have run like this; it is tried again at the next start.
		r.Log.Info("Cannot check the order of the indexes", "status", code, "output", lastLines(out))
		return nil
	}
	s.Indexed = r.image.build
	if err := r.disk.save(r.Data, s); err != nil {
		return err
	}
	return r.disk.remove(glob(r.Data, markers, "index-*")...)
}
