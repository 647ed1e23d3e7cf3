package cli

import (
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"tollhouse/cli/term"
	"tollhouse/store/storetest/must"
)

// A pod of docs/kubernetes.md, as far as it depends on tollhouse.
type (
	manifest struct {
		Kind     string
		Metadata struct{ Name string }
		Spec     struct {
			Template struct {
				Metadata struct{ Labels map[string]string }
				Spec     podSpec
			}
			Selector any
			Ports    []servicePort
			Strategy struct{ Type string }
			Rules    []struct {
				HTTP struct {
					Paths []struct {
						Backend struct {
							Service struct {
								Name string
								Port struct{ Name string }
							}
						}
					}
				}
			}
		}
	}
	servicePort struct {
		Name       string
		TargetPort string `yaml:"targetPort"`
	}
	podSpec struct {
		Grace      int `yaml:"terminationGracePeriodSeconds"`
		Containers []container
		Volumes    []struct {
			Name  string
			Claim struct {
				Name string `yaml:"claimName"`
			} `yaml:"persistentVolumeClaim"`
		}
	}
	container struct {
		Args []string
		Env  []struct{ Name, Value string }

		Ports []struct {
			Name string
			Port int `yaml:"containerPort"`
		}
		Startup   probe `yaml:"startupProbe"`
		Liveness  probe `yaml:"livenessProbe"`
		Readiness probe `yaml:"readinessProbe"`
		Mounts    []struct {
			Name string
			Path string `yaml:"mountPath"`
		} `yaml:"volumeMounts"`
	}
	probe struct {
		Get struct{ Path, Port string } `yaml:"httpGet"`
	}
)

// kubernetesPage returns the manifests of docs/kubernetes.md by kind and name. Each file of
// the page has to be YAML, without a key twice.
func kubernetesPage(t *testing.T) map[string]manifest {
	t.Helper()
	page := string(must.Get(os.ReadFile("../docs/kubernetes.md"))(t))
	files := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(files) < 4 {
		t.Fatalf("%d YAML files on the page", len(files))
	}
	all := map[string]manifest{}
	for _, file := range files {
		if strings.HasPrefix(file[1], "# part of a pod") {
			var part any
			if err := yaml.Unmarshal([]byte(file[1]), &part); err != nil || part == nil {
				t.Errorf("%v:\n%s", err, file[1])
			}
			continue
		}
		for d := yaml.NewDecoder(strings.NewReader(file[1])); ; {
			var m manifest
			err := d.Decode(&m)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || m.Kind == "" || m.Metadata.Name == "" {
				t.Fatalf("%v:\n%s", err, file[1])
			}
			all[m.Kind+" "+m.Metadata.Name] = m
		}
	}
	return all
}

// TestKubernetesPage: each file of the page is YAML, they fit each other, and the settings and
// probes are those of the server.
//
// Promise (Attacks on operations): volumes of Kubernetes (fsGroup, emptyDir, an arbitrary uid):
// opened modes are closed, another's mount gets a directory of ours; the page's files parse
func TestKubernetesPage(t *testing.T) {
	t.Parallel()
	page := kubernetesPage(t)
	pod := page["Deployment tollhouse"].Spec.Template.Spec
	if len(pod.Containers) != 1 || pod.Grace <= 35 || page["Deployment tollhouse"].Spec.Strategy.Type != "Recreate" {
		t.Fatalf("the Deployment is %+v", page["Deployment tollhouse"])
	}
	c := pod.Containers[0]
	if !slices.Equal(c.Args, []string{"serve"}) {
		t.Errorf("args %q", c.Args)
	}
	settings, environ := map[string]string{}, []string{}
	everyFlag((&program{}).rootCommand(), func(f *pflag.Flag) { settings[variableOf(f)] = "" })
	for _, e := range c.Env {
		if _, known := settings[e.Name]; !known {
			t.Errorf("%s is not a setting", e.Name)
		}
		settings[e.Name] = e.Value
		environ = append(environ, e.Name+"="+e.Value)
	}
	if stderr, code := runWith(t, environ, "config"); code != term.ExitOK || strings.Contains(stderr, "warning") {
		t.Errorf("config with the variables of the pod: exit %d, %s", code, stderr)
	}

	checkServers(t, page["Deployment tollhouse-servers"])
	ports := map[string]bool{}
	for _, p := range c.Ports {
		ports[p.Name] = true
	}
	for path, probes := range map[string][]probe{"/healthz": {c.Startup, c.Liveness}, "/readyz": {c.Readiness}} {
		for _, p := range probes {
			if p.Get.Path != path || p.Get.Port != "http" || !ports["http"] {
				t.Errorf("a probe asks %+v, want %s", p.Get, path)
			}
		}
	}
	if len(c.Mounts) != 1 || c.Mounts[0].Path != settings["TOLLHOUSE_DATA"] || len(pod.Volumes) != 1 || pod.Volumes[0].Name != c.Mounts[0].Name {
		t.Errorf("mounts %+v of volumes %+v, and the data is in %s", c.Mounts, pod.Volumes, settings["TOLLHOUSE_DATA"])
	}
	if claim := pod.Volumes[0].Claim.Name; page["PersistentVolumeClaim "+claim].Kind == "" {
		t.Errorf("the page has no claim %q", claim)
	}
	served := map[string]bool{}
	for name, m := range page {
		if m.Kind != "Service" {
			continue
		}
		if selector, _ := m.Spec.Selector.(map[string]any); selector["app"] != page["Deployment tollhouse"].Spec.Template.Metadata.Labels["app"] {
			t.Errorf("%s selects %v", name, m.Spec.Selector)
		}
		for _, p := range m.Spec.Ports {
			served[m.Metadata.Name+" "+p.Name] = true
			if !ports[p.TargetPort] {
				t.Errorf("%s leads to port %q, which the pod does not have", name, p.TargetPort)
			}
		}
	}
	for _, rule := range page["Ingress tollhouse"].Spec.Rules {
		for _, path := range rule.HTTP.Paths {
			if to := path.Backend.Service; !served[to.Name+" "+to.Port.Name] {
				t.Errorf("the Ingress leads to %+v, which no Service has", to)
			}
		}
	}
}

// checkServers: the servers on a database have no data directory, and their files are those of
// the volume.
func checkServers(t *testing.T, m manifest) {
	t.Helper()
	pod := m.Spec.Template.Spec
	if len(pod.Containers) != 1 || m.Spec.Strategy.Type != "RollingUpdate" || m.Spec.Template.Metadata.Labels["app"] != "tollhouse" || len(pod.Volumes) != 1 || pod.Volumes[0].Claim.Name != "" {
		t.Fatalf("the Deployment is %+v", m)
	}
	c := pod.Containers[0]
	var environ []string
	for _, e := range c.Env {
		environ = append(environ, e.Name+"="+e.Value)
		if inside := strings.HasPrefix(e.Value, c.Mounts[0].Path+"/"); inside != strings.HasSuffix(e.Name, "_FILE") || e.Name == "TOLLHOUSE_DATA" && e.Value != "" {
			t.Errorf("%s is %s, and the files are in %s", e.Name, e.Value, c.Mounts[0].Path)
		}
	}
	// The file is missing here, and nothing else is wrong.
	if stderr, code := runWith(t, environ, "account", "list"); code != term.ExitBusy || !strings.Contains(stderr, "/secrets/store of --store-file does not exist") {
		t.Errorf("account list with the variables of the pod: exit %d, %s", code, stderr)
	}
}
