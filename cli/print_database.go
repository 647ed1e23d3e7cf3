package cli

import (
	"path/filepath"
	"regexp"
	"strings"

	"tollhouse/cli/term"
	"tollhouse/store/kv/pgkv"
)

// databaseFiles are the files that a server on a database is given, for the installation files
// in printed/, whose lines about the data directory make room for them.
type databaseFiles struct {
	store, key string
	schema     string
	insecure   bool
}

// plainPath matches a path that YAML and Dockerfiles need no quotes for.
var plainPath = regexp.MustCompile(`^[A-Za-z0-9_./+-]+$`)

// databaseFiles returns what the global flags ask for, or nil without a database. absolute says
// that the paths must be.
func (p *program) databaseFiles(absolute bool) (*databaseFiles, error) {
	switch {
	case !p.store.Given():
		return nil, nil
	case p.store.URL != "":
		return nil, term.Usage("write the URL into a file, and name that with --store-file", "a printed file does not contain the URL of --store")
	case p.keyFile == "":
		return nil, term.Usage("add --key-file FILE", "a server on a database needs a key file")
	}
	for flag, path := range map[string]string{"--store-file": p.store.File, "--key-file": p.keyFile} {
		if !plainPath.MatchString(path) || absolute && !filepath.IsAbs(path) {
			return nil, term.Usage("give a path such as /etc/tollhouse/store", "%s %q is not an absolute path of plain characters", flag, path)
		}
	}
	if err := new(pgkv.Address).UseSchema(p.store.Schema); err != nil {
		return nil, term.Usage("choose a name such as "+pgkv.SchemaDefault, "--store-schema %q: %w", p.store.Schema, err)
	}
	return &databaseFiles{p.store.File, p.keyFile, p.store.Schema, p.store.Insecure}, nil
}

func (f *databaseFiles) unit() string {
	data := "--store-file " + f.store
	if f.schema != pgkv.SchemaDefault {
		data += " --store-schema " + f.schema
	}
	if f.insecure {
		data += " --insecure-store"
	}
	return strings.NewReplacer(
		"--home-dir /var/lib/tollhouse", "--home-dir /nonexistent",
		"#   systemctl daemon-reload", "#   chgrp tollhouse "+f.store+" "+f.key+"; chmod 640 "+f.store+" "+f.key+"\n#   systemctl daemon-reload",
		"tollhouse status --data /var/lib/tollhouse", "tollhouse status "+data,
		"time-sync.target\n", "time-sync.target postgresql.service\n",
		"serve --data /var/lib/tollhouse", "serve "+data+" --key-file "+f.key,
		"# A start on a slow disk may take long, and a stop drains requests for 20 seconds.\n# The server notifies the watchdog after each successful read of its store.\n",
		"# A stop drains requests for 20 seconds. The server notifies the watchdog after each\n# look at its database, also while that is away.\n",
		"TimeoutStartSec=10min\n", "TimeoutStartSec=2min\n",
		"StateDirectory=tollhouse\nStateDirectoryMode=0700\n# Backups may be written here, if the directory exists.\nReadWritePaths=-/var/backups/tollhouse\n", "",
		"# Must exceed 1.5 × --memory, the most that a server under attack holds. Raise both\n# together: TOLLHOUSE_MEMORY is 256 MiB by default.\n", "# The most that a server under attack holds is less.\n",
	).Replace(systemdUnit)
}

// variables are those of a container, whose image names a data directory.
func (f *databaseFiles) variables(store, key string) (all [][2]string) {
	all = [][2]string{{"TOLLHOUSE_STORE_FILE", store}, {"TOLLHOUSE_KEY_FILE", key}}
	if f.schema != pgkv.SchemaDefault {
		all = append(all, [2]string{"TOLLHOUSE_STORE_SCHEMA", f.schema})
	}
	if f.insecure {
		all = append(all, [2]string{"TOLLHOUSE_INSECURE_STORE", "true"})
	}
	return all
}

func (f *databaseFiles) dockerfile(text string) string {
	env := ""
	for _, v := range f.variables(f.store, f.key) {
		env += v[0] + "=" + v[1] + " "
	}
	return strings.NewReplacer(
		" && mkdir -m 0700 /out/data", "",
		"# Nothing but the server, its data, and whom", "# Nothing but the server, and whom",
		"COPY --from=build --chown=65532:65532 /out/data /data\n", "",
		"TOLLHOUSE_DATA=/data ", env,
		"VOLUME /data\n", "",
		`CMD ["/tollhouse", "health"]`, `CMD ["/tollhouse", "health", "--url", "http://127.0.0.1:8080"]`,
	).Replace(text)
}

func (f *databaseFiles) compose() string {
	env := "      TOLLHOUSE_DATA: \"\" # which the image names\n"
	for _, v := range f.variables("/run/secrets/store", "/run/secrets/key") {
		env += "      " + v[0] + ": \"" + v[1] + "\"\n"
	}
	return strings.NewReplacer(
		"#   TOLLHOUSE_PUBLIC_URL=https", "#   chgrp 65532 "+f.store+" "+f.key+"; chmod 640 "+f.store+" "+f.key+"\n#   TOLLHOUSE_PUBLIC_URL=https",
		"    environment:\n", "    environment:\n"+env,
		"    volumes:\n      - data:/data\n", "    secrets: [\"store\", \"key\"]\n    healthcheck:\n      test: [\"CMD\", \"/tollhouse\", \"health\", \"--url\", \"http://127.0.0.1:8080\"]\n      interval: 30s\n      timeout: 5s\n      start_period: 60s\n",
		"\nvolumes:\n  data:\n", "\nsecrets:\n  store:\n    file: "+relative(f.store)+"\n  key:\n    file: "+relative(f.key)+"\n",
	).Replace(composeFile)
}

// relative returns a path as compose files have it: beside the file it begins with ./.
func relative(path string) string {
	if filepath.IsAbs(path) || strings.HasPrefix(path, ".") {
		return path
	}
	return "./" + path
}
