package prepare

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	filePerm = 0o600
	dirPerm  = 0o700
	// unfinished ends the names of what is being written. Nobody reads such a file.
	unfinished = ".new"
)

// fsync is replaced by tests, which take a minute with it.
var fsync = (*os.File).Sync

// disk changes files in steps that each may be the last one of this process. Only
// renaming and removing have an effect that others see, and both are all or nothing.
type disk struct {
	// step is told before each step that leaves a volume which differs from the one
	// before; tests end the process there.
	step func(what string)
}

func (d disk) at(what string, path string) {
	if d.step != nil {
		d.step(what + " " + path)
	}
}

// write a file: the old content or the new one is there at any moment.
func (d disk) write(path string, content []byte) error {
	if err := d.create(path+unfinished, content, filePerm); err != nil {
		return err
	}
	return d.rename(path+unfinished, path)
}

// create a file that nobody reads yet.
func (d disk) create(path string, content []byte, perm fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return fmt.Errorf("cannot write: %w", err)
	}
	half := len(content) / 2
	_, err = f.Write(content[:half])
	d.at("half of", path)
	if err == nil {
		_, err = f.Write(content[half:])
	}
	// What an interrupted attempt left may have had another mode.
	err = errors.Join(err, f.Chmod(perm))
	if err = errors.Join(err, fsync(f), f.Close()); err != nil {
		return fmt.Errorf("cannot write: %w", err)
	}
	return nil
}

func (d disk) rename(from, to string) error {
	d.at("rename", to)
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("cannot rename: %w", err)
	}
	return d.sync(filepath.Dir(to))
}

// sync a directory: without it what was renamed or removed may come back after a
// power failure.
func (d disk) sync(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("cannot sync: %w", err)
	}
	if err := errors.Join(fsync(f), f.Close()); err != nil {
		return fmt.Errorf("cannot sync: %w", err)
	}
	return nil
}

// mkdir creates a directory below one that exists.
func (d disk) mkdir(path string) error {
	d.at("mkdir", path)
	switch err := os.Mkdir(path, dirPerm); {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return fmt.Errorf("cannot create a directory: %w", err)
	}
	return d.sync(filepath.Dir(path))
}

// remove the files that are there.
func (d disk) remove(paths ...string) error {
	dirs := map[string]bool{}
	for _, p := range paths {
		d.at("remove", p)
		switch err := os.RemoveAll(p); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return fmt.Errorf("cannot remove: %w", err)
		default:
			dirs[filepath.Dir(p)] = true
		}
	}
	for dir := range dirs {
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		if err := d.sync(dir); err != nil {
			return err
		}
	}
	return nil
}

// copyTree copies a directory's files and directories to a path that nothing refers to
// yet: an interrupted attempt may have left one there.
func (d disk) copyTree(from, to string) error {
	tmp := to + unfinished
	if err := d.remove(tmp, to); err != nil {
		return err
	}
	var dirs []string
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err //nolint:wrapcheck // Wrapped below.
		}
		target := filepath.Join(tmp, rel)
		switch {
		case e.IsDir():
			dirs = append(dirs, target)
			return os.Mkdir(target, dirPerm) //nolint:wrapcheck // Wrapped below.
		case e.Type().IsRegular() && !strings.HasSuffix(path, unfinished):
			return d.copyFile(path, target)
		}
		// Sockets and pipes hold nothing.
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot copy %s: %w", from, err)
	}
	for _, dir := range dirs {
		if err := d.sync(dir); err != nil {
			return err
		}
	}
	return d.rename(tmp, to)
}

func (d disk) copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("cannot read: %w", err)
	}
	perm := fs.FileMode(filePerm)
	if i, err := os.Stat(from); err == nil {
		perm = i.Mode().Perm()
	}
	return d.create(to, content, perm)
}

// glob returns the paths that match; a pattern of ours is never malformed.
func glob(elem ...string) []string {
	paths, _ := filepath.Glob(filepath.Join(elem...))
	return paths
}

func exists(elem ...string) bool {
	_, err := os.Stat(filepath.Join(elem...))
	return err == nil
}

// Lock a volume against another agent, of a pod that was declared dead and is not, or
// of a claim that two pods have: two servers must never open one database. It waits until
// the other one has ended; waits is called once where it has to. It is the directory itself that is locked, so
// that a volume which is refused gets no file; the lock ends with the process.
func Lock(ctx context.Context, dir string, waits func()) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot open the volume: %w", err)
	}
	const pause = 200 * time.Millisecond
	for told := false; ; told = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			// Closing unlocks.
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			// A file system without locks: there is one pod for a volume anyway.
			return func() { _ = f.Close() }, nil
		}
		if !told {
			waits()
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("cannot lock the volume, another server runs on it: %w", ctx.Err())
		case <-time.After(pause):
		}
	}
}
