package docs

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store/snapshot"
	"tollhouse/views"
)

// reference is the API description, read for the pages at /docs.
type reference struct {
	tags []referenceTag
}

type referenceTag struct {
	slug       string
	shown      views.DocsTag
	operations []referenceOperation
}

type referenceOperation struct {
	shown         views.DocsOperation
	method, path  string
	needsToken    bool
	form, request snapshot.Value // example of a form, or of a JSON body
	requestType   string         // media type of request
}

// readReference reads one of our own documents.
func readReference(document []byte) *reference {
	d := docsDocument{api.Parsed(document)}
	ref := &reference{}
	tags, _ := d.root.Member("tags")
	for _, t := range tags.Elements() {
		name := textAt(t, "name")
		tag := referenceTag{slug: strings.ToLower(name)}
		answers := map[string]views.Link{}
		tag.shown = views.DocsTag{Name: name, Href: web.DocsPath + "/" + tag.slug, Words: textAt(t, "description")}
		for _, section := range []string{"paths", "x-tollhouse-pages"} {
			for _, item := range api.MemberAt(d.root, section).Members() {
				for _, method := range item.Value.Members() {
					if tagged, _ := method.Value.Member("tags"); len(tagged.Elements()) > 0 && tagged.Elements()[0].Text() == name {
						tag.operations = append(tag.operations, d.operation(tag.shown.Href, item, method, answers))
					}
				}
			}
		}
		ref.tags = append(ref.tags, tag)
	}
	return ref
}

// docsDocument is the description, with its references.
type docsDocument struct{ root snapshot.Value }

// resolved follows a reference.
func (d docsDocument) resolved(v snapshot.Value) snapshot.Value {
	if ref := textAt(v, "$ref"); ref != "" {
		return d.resolved(api.MemberAt(d.root, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...))
	}
	return v
}

func textAt(v snapshot.Value, path ...string) string { return api.MemberAt(v, path...).Text() }

// operation reads an operation. An answer that the page has shown before is a link to it.
func (d docsDocument) operation(page string, item, method snapshot.Member, answers map[string]views.Link) referenceOperation {
	o := referenceOperation{method: strings.ToUpper(method.Name), path: item.Name}
	id := textAt(method.Value, "operationId")
	o.shown = views.DocsOperation{
		ID: id, Name: o.method + " " + o.path, Href: page + "#" + id,
		Summary: textAt(method.Value, "summary"), Words: textAt(method.Value, "description"),
	}
	for _, of := range []snapshot.Value{item.Value, method.Value} {
		for _, p := range api.MemberAt(of, "parameters").Elements() {
			p = d.resolved(p)
			schema, _ := p.Member("schema")
			o.shown.Parameters = append(o.shown.Parameters, views.DocsMember{
				Name: textAt(p, "name"), Where: textAt(p, "in"), Form: d.form(schema), Needed: textAt(p, "required") == "true", Words: textAt(p, "description"),
			})
		}
	}
	o.needsToken = strings.Contains(api.MemberAt(method.Value, "security").String(), `"bearer"`)
	for i, media := range api.MemberAt(d.resolved(api.MemberAt(method.Value, "requestBody")), "content").Members() {
		if i == 0 {
			o.shown.Body = d.members(api.MemberAt(media.Value, "schema"), "", 2)
		}
		example, _ := media.Value.Member("example")
		switch {
		case media.Name == "application/x-www-form-urlencoded":
			o.form, o.request = example, snapshot.Value{}
		case i == 0:
			o.request, o.requestType = example, media.Name
		}
	}
	for _, answer := range api.MemberAt(method.Value, "responses").Members() {
		response := d.resolved(answer.Value)
		media := api.MemberAt(response, "content", web.AsJSON)
		schema := api.MemberAt(media, "schema")
		status := views.DocsStatus{Status: answer.Name, Words: textAt(response, "description")}
		name := textAt(schema, "$ref")
		if before, known := answers[name]; known && answer.Name < "300" && before.Href != "#"+id {
			o.shown.AnswerLike = before
		} else if answer.Name < "300" && len(o.shown.Answer) == 0 {
			o.shown.Answer = d.members(schema, "", 2)
			if name != "" {
				answers[name] = views.Link{Label: o.shown.Name, Href: "#" + id}
			}
			if example, ok := media.Member("example"); ok {
				o.shown.Sample = sampleOf(example)
			}
		}
		if answer.Name >= "400" {
			status.Codes = d.errorCodes(schema)
		}
		o.shown.Statuses = append(o.shown.Statuses, status)
	}
	return o
}

// errorCodes lists the values of the member error.
func (d docsDocument) errorCodes(schema snapshot.Value) string {
	var codes []string
	schema = d.resolved(schema)
	for _, part := range append([]snapshot.Value{schema}, api.MemberAt(schema, "allOf").Elements()...) {
		for _, code := range api.MemberAt(d.resolved(part), "properties", "error", "enum").Elements() {
			codes = append(codes, "`"+code.Text()+"`")
		}
	}
	if codes == nil {
		return ""
	}
	return strings.Join(codes, ", ") + "."
}

// members lists the members of an object, and down to depth those of its members.
func (d docsDocument) members(schema snapshot.Value, prefix string, depth int) (list []views.DocsMember) {
	schema = d.resolved(schema)
	needed, _ := schema.Member("required")
	for _, property := range api.MemberAt(schema, "properties").Members() {
		name := prefix + property.Name
		of := d.resolved(property.Value)
		words := textAt(property.Value, "description")
		if words == "" {
			words = textAt(of, "description")
		}
		isNeeded := slices.ContainsFunc(needed.Elements(), func(v snapshot.Value) bool { return v.Text() == property.Name })
		list = append(list, views.DocsMember{Name: name, Form: d.form(of), Words: words, Needed: isNeeded})
		if depth == 1 {
			continue
		}
		if items, isList := of.Member("items"); isList {
			of, name = items, name+"[]"
		}
		list = append(list, d.members(of, name+".", depth-1)...)
	}
	return list
}

// form says what values a schema allows, such as "integer, 1 to 1000, default 50".
func (d docsDocument) form(schema snapshot.Value) string {
	schema = d.resolved(schema)
	if values, ok := schema.Member("enum"); ok {
		var all []string
		for _, v := range values.Elements() {
			all = append(all, v.Text())
		}
		return withDefault(strings.Join(all, " or "), schema)
	}
	form := textAt(schema, "type")
	if items, ok := schema.Member("items"); ok {
		return "list of " + d.form(items)
	}
	low, high := textAt(schema, "minimum"), textAt(schema, "maximum")
	if low != "" && high != "" {
		form += ", " + low + " to " + high
	}
	return withDefault(form, schema)
}

func withDefault(form string, schema snapshot.Value) string {
	if usual := textAt(schema, "default"); usual != "" {
		return form + ", default " + usual
	}
	return form
}

// sampleOf returns an example to read, with short lists.
func sampleOf(example snapshot.Value) string {
	var indented bytes.Buffer
	if err := json.Indent(&indented, shortened(example).Append(nil), "", "  "); err != nil {
		panic("docs: " + err.Error())
	}
	return indented.String()
}

func shortened(v snapshot.Value) snapshot.Value {
	switch v.Kind() {
	case snapshot.Array:
		var items []snapshot.Value
		for _, item := range v.Elements()[:min(len(v.Elements()), sampleItemsMax)] {
			items = append(items, shortened(item))
		}
		return snapshot.ArrayOf(items...)
	case snapshot.Object:
		var members []snapshot.Member
		for _, m := range v.Members() {
			members = append(members, snapshot.Member{Name: m.Name, Value: shortened(m.Value)})
		}
		return snapshot.ObjectOf(members...)
	}
	return v
}
