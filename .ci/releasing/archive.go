package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// file is one of an archive or an image. Those whose path ends in a slash are directories.
type file struct {
	path    string
	mode    fs.FileMode
	owner   int // user and group
	content []byte
}

// papers are the files next to the program, in every archive.
func (r *release) papers() ([]file, error) {
	files := []file{{path: "LICENSE-THIRD-PARTY", mode: 0o644, content: r.thirdParty}}
	for _, name := range []string{"LICENSE", "README.md"} {
		content, err := os.ReadFile(filepath.Join(r.source, name))
		if err != nil {
			return nil, err
		}
		files = append(files, file{path: name, mode: 0o644, content: content})
	}
	return files, nil
}

// writeArchive writes the program, its licences and the README: a zip for Windows, else a tar.gz.
func (r *release) writeArchive(p platform, binary string) error {
	content, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	files, err := r.papers()
	if err != nil {
		return err
	}
	files = append(files, file{path: filepath.Base(binary), mode: 0o755, content: content})
	name := "tollhouse_" + r.version + "_" + p.String()
	for i := range files {
		files[i].path = name + "/" + files[i].path
	}
	if p.os == "windows" {
		return r.write(name+".zip", func(w io.Writer) error { return writeZip(w, files, r.date) })
	}
	return r.write(name+".tar.gz", func(w io.Writer) error {
		packed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		if err := writeTar(packed, files, r.date); err != nil {
			return err
		}
		return packed.Close()
	})
}

// writeTar writes files that belong to root unless they say another owner.
func writeTar(w io.Writer, files []file, date time.Time) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		h := &tar.Header{Name: f.path, Mode: int64(f.mode), Uid: f.owner, Gid: f.owner, Size: int64(len(f.content)), ModTime: date, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if f.path[len(f.path)-1] == '/' {
			h.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.content); err != nil {
			return err
		}
	}
	return t.Close()
}

func writeZip(w io.Writer, files []file, date time.Time) error {
	z := zip.NewWriter(w)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.path, Method: zip.Deflate, Modified: date}
		h.SetMode(f.mode)
		to, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := to.Write(f.content); err != nil {
			return err
		}
	}
	return z.Close()
}

func zipped(content []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
