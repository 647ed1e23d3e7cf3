package api

import (
	"slices"
	"strings"

	"tollhouse/handlers/web"
	"tollhouse/store/spelling"
)

// Other APIs spell the bounds of a time in many ways. A hint names the operator that
// includes or excludes the same second, or none: a caller who follows it must not lose or
// repeat the events of a second.

// timeFields are the names of our createdAt elsewhere, in lower-case letters alone.
var timeFields = []string{"createdat", "created", "createdon", "createddate", "creationdate", "createtime", "creationtime", "date", "datetime", "time", "timestamp", "ts", "at"}

// timeWords are the words for each operator, in lower-case letters alone.
var timeWords = map[string][]string{
	"createdAt[gte]":     {"gte", "ge", "geq", "gteq", "gtoreq", "greaterthanorequal", "greaterthanorequalto", "from", "since", "start", "begin", "min", "onorafter", "notbefore"},
	"createdAt[gt]":      {"gt", "greaterthan", "after", "strictlyafter", "laterthan", "newerthan"},
	"createdAt[lte]":     {"lte", "le", "leq", "lteq", "ltoreq", "lessthanorequal", "lessthanorequalto", "to", "until", "till", "end", "max", "onorbefore", "notafter"},
	"createdAt[lt]":      {"lt", "lessthan", "before", "strictlybefore", "earlierthan", "olderthan"},
	"createdAt[between]": {"between", "range"},
	"createdAt":          {"eq", "equal", "equals", "is"},
}

// timeSigns are replaced by words first. In API Platform [after] and [before] include
// their second, and [strictly_after] and [strictly_before] do not.
var timeSigns = strings.NewReplacer("[after]", "gte", "[before]", "lte", ">=", "gte", "<=", "lte")

// timeParam returns the parameter that a name from another API means, or "". isTime is
// true for every name that speaks of a time, also with an operator that we do not have.
func timeParam(name string) (param string, isTime bool) {
	text := timeSigns.Replace(strings.ToLower(name))
	if at := strings.IndexAny(text, "<>"); at >= 0 {
		word := map[string]string{"<": "lt", ">": "gt"}[text[at:at+1]]
		if at == len(text)-1 { // createdAt>=5: the query's own equals sign
			word += "e"
		}
		text = text[:at] + word
	}
	text = strings.Map(func(c rune) rune {
		if c < 'a' || c > 'z' {
			return -1
		}
		return c
	}, text)
	for _, around := range []string{"filter", "where"} {
		text = strings.TrimPrefix(text, around)
	}
	longest := 0
	for of, words := range timeWords {
		for _, word := range words {
			field, found := strings.CutSuffix(text, word)
			if !found {
				field, found = strings.CutPrefix(text, word)
			}
			isBound := field == "" && of != "createdAt"
			if found && len(word) > longest && (isBound || isTimeField(field)) {
				param, longest = of, len(word)
			}
		}
	}
	switch _, between := spelling.Nearest(strings.TrimPrefix(text, timeFields[0]), slices.Values(timeWords["createdAt[between]"][:1])); {
	case param != "" || strings.Contains(name, "!"): // != has no counterpart
	case isTimeField(text):
		param = "createdAt"
	case between:
		param = "createdAt[between]"
	}
	return param, param != "" || strings.HasPrefix(text, "created")
}

// isTimeField reports whether text is the name of a time, or createdAt with a mistake.
func isTimeField(text string) bool {
	if strings.HasPrefix(text, "created") || len(text) < len(timeFields[0])-1 || len(text) > len(timeFields[0]) {
		return slices.Contains(timeFields, text)
	}
	_, near := spelling.Nearest(text, slices.Values(timeFields[:1]))
	return near || slices.Contains(timeFields, text)
}

// unknownEventParam is [unknownParameter] for a list of events.
func unknownEventParam(name string) *web.Problem {
	if _, meant := eventParamsMeant[strings.ToLower(name)]; meant {
		return web.UnknownParameter(name, eventParamsMeant, EventParams)
	}
	param, isTime := timeParam(name)
	if param != "" {
		return web.UnknownParameter(name, map[string]string{strings.ToLower(name): param}, nil)
	}
	others := slices.DeleteFunc(slices.Clone(EventParams), func(known string) bool { return strings.HasPrefix(known, "createdAt") })
	if isTime {
		others = nil
	}
	return web.UnknownParameter(name, nil, others)
}
