//go:build !linux

package must

// FilesInMemory does nothing: this system has no file system in memory at a known path.
func FilesInMemory() {}
