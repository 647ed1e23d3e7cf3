package handlers

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store"
)

var hinted = regexp.MustCompile(`did you mean ([^?]*)\?`)

// The names are those of Django, Rails, Stripe, OData, Mongo, API Platform, GitHub, Google
// and of people who guess.
//
// Promise (§2.2): the hint for a time includes or excludes the same second as the name that was
// sent, or there is none
func TestAHintForATimeIncludesTheSecondThatTheNameIncludes(t *testing.T) {
	a := parallelAPI(t)
	token := a.token(t, "bob", "acct_a", store.ScopeUnstated)
	for want, names := range map[string]string{
		"createdAt[gte]": "createdAt_gte createdAt__gte createdAt[ge] createdAtGte createdAtGTE createdat[gte] createdAt.gte createdAt:gte createdAt-gte createdAt[gte createdAtgte] " +
			"created_at_gte created_at[gte] created__gte created[gte] created.gte created_gte createdGte gte_createdAt filter[createdAt][gte] createdAt[$gte] createdAt_gteq created_at_ge " +
			"createdAt[>=] createdAt> createdAt[from] createdAt_from createdFrom created_from created_since createdSince since from from_date fromDate date_from dateFrom start start_date startTime " +
			"start_at startAt time_min timeMin min_created_at created_at_min minDate createdAt[min] createdAt[after] created[after] created_at[after] begin created_on_or_after notBefore not_before " +
			"timestamp_gte timestamp[gte] date[gte] time_gte since_date sinceTime createdAt_greater_than_or_equal creatdAt[gte] createAt_gte createdAt[gte][] date>",
		"createdAt[gt]": "createdAt_gt createdAt__gt createdAtGt created_gt created[gt] created__gt createdat[gt] createdAt.gt gt created_at_gt createdAt[>] createdAt>5 createdAfter created_after " +
			"createdAtAfter created_at_after after_date afterDate createdAt[strictly_after] createdAt_greaterThan newer_than date_after creatdAt[gt]",
		"createdAt[lte]": "createdAt_lte createdAt__lte createdAt[le] createdAtLte created_lte created[lte] created_at__lte createdat[lte] createdAt.lte lte createdAt[<=] createdAt< " +
			"until to till end end_date endTime endAt date_to dateTo toDate created_to createdTo created_until createdUntil createdAt[until] createdAt[to] createdAt[max] created_at_max timeMax max_date " +
			"createdAt[before] created[before] not_after notAfter createdAt_on_or_before createdAt_lteq createdAt[$lte]",
		"createdAt[lt]": "createdAt_lt createdAt__lt _lt [lt] lt createdAtLt created_lt created[lt] createdat[lt] createdAt.lt createdAt[<] createdAt<5 createdBefore created_before createdAtBefore " +
			"beforeDate date_before createdAt[strictly_before] older_than createdAt_less_than",
		"createdAt[between]": "createdAt_between createdAt__range created[between] createdat[between] date_range dateRange between createdAt.between createdBetween createdAt[betwen]",
		"createdAt":          "created created_at createdat createdAt[] createdAt[eq] createdAt_eq date time timestamp createdOn creation_date createdAt[is] creatdAt cretedAt createdAt[",
		// Neither form would mean the same.
		"": "createdAt[ne] createdAt[not] createdAt_ne createdAt! createdAt[not_gte] createdAt_not_lt createdAt[in] createdAt[nin] createdAt[g] createdAt[like] created[week] token total format ge_ne createdAt[evil]",
	} {
		for name := range strings.FieldsSeq(names) {
			t.Run(url.PathEscape(name), func(t *testing.T) {
				t.Parallel()
				for _, accept := range []string{web.AsJSON, api.AsNDJSON, web.AsEventStream} {
					w := a.get("/api/events?"+url.QueryEscape(name)+"=1773066600", token, "Accept", accept)
					w.fault(t, http.StatusBadRequest, "unknown_parameter", name)
					got := ""
					if hint := hinted.FindStringSubmatch(w.Body.String()); hint != nil {
						got = hint[1]
					}
					if got != want {
						t.Errorf("%s leads to %q, want %q", name, got, want)
					}
				}
			})
		}
	}
	// Lists without times lead to none.
	for name := range strings.FieldsSeq("since from until to before createdAt createdAt[gte] created_after start end date") {
		for _, list := range []string{"/api/resources/plan", api.WebhooksPath, api.WebhooksPath + "/wep_1/deliveries"} {
			w := a.get(list+"?"+url.QueryEscape(name)+"=1773066600", token)
			w.fault(t, http.StatusBadRequest, "unknown_parameter", name)
			if hint := hinted.FindString(w.Body.String()); hint != "" {
				t.Errorf("%s?%s leads to %s", list, name, hint)
			}
		}
	}
}
