package snapshot

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

// The rates of the card guard, over the same generated values each time. They are in
// docs/internals/performance.md:
//
//	go test ./store/snapshot -run TestCardGuardRates -v

const (
	ratedOfEach   = 100_000
	ratedShort    = ratedOfEach / 10
	harmlessFound = 1_000 // at most one in so many harmless values may be refused
)

func ratedCount() int {
	if testing.Short() {
		return ratedShort
	}
	return ratedOfEach
}

// cardScheme generates numbers: a prefix in one of the ranges, and any of the lengths.
type cardScheme struct {
	name   string
	series []series
}

type series struct {
	first, last int // prefixes of one length
	lengths     []int
}

var cardSchemes = []cardScheme{
	{"Visa", []series{{4, 4, []int{16, 16, 16, 19}}}},
	{"Mastercard", []series{{51, 55, []int{16}}, {2221, 2720, []int{16}}}},
	{"American Express", []series{{34, 34, []int{15}}, {37, 37, []int{15}}}},
	{"Diners", []series{{300, 305, []int{14, 16, 19}}, {3095, 3095, []int{14, 16, 19}}, {36, 36, []int{14, 16, 19}}, {38, 39, []int{14, 16, 19}}}},
	{"Discover", []series{{6011, 6011, []int{16, 17, 18, 19}}, {644, 649, []int{16, 17, 18, 19}}, {65, 65, []int{16, 17, 18, 19}}, {622126, 622925, []int{16, 17, 18, 19}}}},
	{"JCB", []series{{3528, 3589, []int{16, 17, 18, 19}}}},
	{"UnionPay", []series{{62, 62, []int{16, 17, 18, 19}}, {81, 81, []int{16, 17, 18, 19}}}},
	{"Maestro", []series{
		{5018, 5018, maestroLengths}, {5020, 5020, maestroLengths}, {5038, 5038, maestroLengths}, {5893, 5893, maestroLengths},
		{6304, 6304, maestroLengths}, {6759, 6759, maestroLengths}, {6761, 6763, maestroLengths},
		{67, 67, []int{16, 17, 18, 19}},
	}},
}

var maestroLengths = []int{12, 13, 14, 15, 16, 17, 18, 19}

func (s cardScheme) number(r *rand.Rand) string {
	from := s.series[r.IntN(len(s.series))]
	number := strconv.Itoa(from.first + r.IntN(from.last-from.first+1))
	number += digitsOf(r, from.lengths[r.IntN(len(from.lengths))]-len(number)-1)
	return number + checkDigit(number)
}

// checkDigit is computed differently than in the guard: from a table of doubled digits,
// and from the right.
func checkDigit(number string) string {
	sum := 0
	for i := range len(number) {
		d := int(number[len(number)-1-i] - '0')
		if i%2 == 0 {
			d = [...]int{0, 2, 4, 6, 8, 1, 3, 5, 7, 9}[d]
		}
		sum += d
	}
	return strconv.Itoa((10 - sum%10) % 10)
}

func digitsOf(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = '0' + byte(r.IntN(10))
	}
	return string(b)
}

// grouped puts a separator after every fourth digit, or as schemes with shorter numbers
// do.
func grouped(number, separator string) string {
	sizes := []int{4, 4, 4, 4, 3}
	if len(number) < 16 {
		sizes = []int{4, 6, 5}
	}
	var groups []string
	for _, size := range sizes {
		size = min(size, len(number))
		groups, number = append(groups, number[:size]), number[size:]
		if number == "" {
			break
		}
	}
	return strings.Join(groups, separator)
}

func widened(number string) string {
	return strings.Map(func(r rune) rune { return r - '0' + '０' }, number)
}

var spellings = []struct {
	name  string
	spell func(number string) Value
}{
	{"plain", Text},
	{"a number without quotes", unquoted},
	{"groups with spaces", func(n string) Value { return Text(grouped(n, " ")) }},
	{"groups with dashes", func(n string) Value { return Text(grouped(n, "-")) }},
	{"groups with dots", func(n string) Value { return Text(grouped(n, ".")) }},
	{"groups with no-break spaces", func(n string) Value { return Text(grouped(n, "\u00a0")) }},
	{"groups with thin spaces", func(n string) Value { return Text(grouped(n, "\u2009")) }},
	{"single digits with spaces", func(n string) Value { return Text(strings.Join(strings.Split(n, ""), " ")) }},
	{"full-width digits", func(n string) Value { return Text(widened(n)) }},
	{"in a sentence", func(n string) Value { return Text("Paid 12.50 on 9 March (card: " + n + "), see order 17.") }},
}

func unquoted(number string) Value { return Value{kind: Number, text: number} }

// phonePlan describes the numbers of a country: its code and the digits that follow.
type phonePlan struct {
	code     string
	min, max int
}

var phonePlans = []phonePlan{
	{"1", 10, 10}, {"7", 10, 10}, {"20", 9, 10}, {"27", 9, 9}, {"30", 10, 10}, {"31", 9, 9}, {"32", 8, 9}, {"33", 9, 9},
	{"34", 9, 9}, {"36", 8, 9}, {"39", 9, 11}, {"40", 9, 9}, {"41", 9, 9}, {"43", 10, 13}, {"44", 9, 10}, {"45", 8, 8},
	{"46", 7, 10}, {"47", 8, 8}, {"48", 9, 9}, {"49", 10, 11}, {"52", 10, 10}, {"55", 10, 11}, {"57", 10, 10}, {"61", 9, 9},
	{"62", 9, 12}, {"63", 10, 10}, {"81", 9, 10}, {"86", 11, 11}, {"91", 10, 10}, {"380", 9, 9},
}

func phone(r *rand.Rand) string {
	plan := phonePlans[r.IntN(len(phonePlans))]
	national := fmt.Sprint(1+r.IntN(9)) + digitsOf(r, plan.min+r.IntN(plan.max-plan.min+1)-1)
	spaced := national[:3] + " " + national[3:]
	if len(national) > 8 {
		spaced = national[:3] + " " + national[3:6] + " " + national[6:]
	}
	switch r.IntN(6) {
	case 0:
		return "+" + plan.code + national
	case 1:
		return "+" + plan.code + " " + spaced
	case 2:
		return "00" + plan.code + national
	case 3:
		return plan.code + national
	case 4:
		return plan.code + "-" + strings.ReplaceAll(spaced, " ", "-")
	}
	return "0" + spaced
}

func uuid(r *rand.Rand) string {
	n := hexOf(r, 32)
	version, variant := "4", fmt.Sprintf("%x", 8+r.IntN(4))
	if r.IntN(2) == 0 {
		version, n = "7", fmt.Sprintf("%012x", instant(r).UnixMilli())+n[12:]
	}
	text := n[:8] + "-" + n[8:12] + "-" + version + n[13:16] + "-" + variant + n[17:20] + "-" + n[20:]
	if r.IntN(4) == 0 {
		return strings.ReplaceAll(text, "-", "")
	}
	return text
}

func hexOf(r *rand.Rand, n int) string {
	b := make([]byte, n/2)
	for i := range b {
		b[i] = byte(r.IntN(256))
	}
	return hex.EncodeToString(b)
}

// instant is a time between 2001 and 2033.
func instant(r *rand.Rand) time.Time {
	return time.Unix(1_000_000_000+r.Int64N(1_000_000_000), r.Int64N(1e9)).UTC()
}

// order is an order number as shops and ledgers write them.
func order(r *rand.Rand) string {
	day := instant(r)
	switch r.IntN(12) {
	case 0:
		return fmt.Sprintf("ORD-%d-%s", day.Year(), digitsOf(r, 6))
	case 1:
		return "SO" + day.Format("20060102") + "-" + digitsOf(r, 4)
	case 2: // Amazon's, by country
		country := []string{"026", "028", "111", "112", "113", "114", "171", "202", "203", "204", "205", "206", "249", "250", "302", "303", "304", "305", "306", "402", "403", "404", "405", "406", "407", "408", "503", "701", "702"}
		return country[r.IntN(len(country))] + "-" + digitsOf(r, 7) + "-" + digitsOf(r, 7)
	case 3:
		return digitsOf(r, 2) + "-" + digitsOf(r, 5) + "-" + digitsOf(r, 5)
	case 4:
		return day.Format("20060102150405")
	case 5:
		return day.Format("20060102150405") + digitsOf(r, 4)
	case 6:
		return "45" + digitsOf(r, 8)
	case 7:
		return fmt.Sprint(1+r.IntN(9)) + digitsOf(r, 12) // as Shopify's
	case 8:
		return "INV" + digitsOf(r, 16)
	case 9:
		return digitsOf(r, 16) + "X"
	case 10:
		return digitsOf(r, 9+r.IntN(4))
	}
	return "#" + digitsOf(r, 4+r.IntN(6))
}

var harmless = []struct {
	name string
	make func(r *rand.Rand) Value
}{
	{"phone numbers of 30 countries", func(r *rand.Rand) Value { return Text(phone(r)) }},
	{"UUIDs", func(r *rand.Rand) Value { return Text(uuid(r)) }},
	{"hashes", func(r *rand.Rand) Value { return Text(hexOf(r, []int{32, 40, 64, 128}[r.IntN(4)])) }},
	{"times in milliseconds", func(r *rand.Rand) Value { return quotedAtTimes(r, instant(r).UnixMilli()) }},
	{"times in microseconds", func(r *rand.Rand) Value { return quotedAtTimes(r, instant(r).UnixMicro()) }},
	{"order numbers", func(r *rand.Rand) Value { return Text(order(r)) }},
	{"fractions", func(r *rand.Rand) Value { return unquoted(strconv.FormatFloat(r.Float64(), 'f', -1, 64)) }},
}

func quotedAtTimes(r *rand.Rand, n int64) Value {
	if r.IntN(2) == 0 {
		return Text(strconv.FormatInt(n, 10))
	}
	return unquoted(strconv.FormatInt(n, 10))
}

// TestCardGuardRates measures the guard's misses among card numbers, and its refusals
// among other values.
//
// Promise (Attacks on the events API): card numbers in every spelling, and what only resembles one
func TestCardGuardRates(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	for i, scheme := range cardSchemes {
		t.Run("no_number_is_missed_of_"+strings.ReplaceAll(scheme.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(14, uint64(i)))
			for range ratedCount() {
				number := scheme.number(r)
				for _, s := range spellings {
					if value := s.spell(number); !value.holdsCardNumber() {
						t.Fatalf("%s, %s: the guard does not see %s", scheme.name, s.name, value)
					}
				}
			}
			t.Logf("%-30s %7d numbers in %d spellings: none missed", scheme.name, ratedCount(), len(spellings))
		})
	}
	for i, family := range harmless {
		t.Run("few_are_refused_of_"+strings.ReplaceAll(family.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			refused, last := refusedOf(rand.New(rand.NewPCG(15, uint64(i))), family.make)
			t.Logf("%-30s %7d values: %d refused", family.name, ratedCount(), refused)
			if refused*harmlessFound > ratedCount() {
				t.Errorf("%d of %d %s are refused, one of them %s; want at most 1 in %d", refused, ratedCount(), family.name, last, harmlessFound)
			}
		})
	}
	for _, length := range []int{12, 13, 14, 15, 16, 17, 18, 19} { // lengths that card numbers have
		t.Run(fmt.Sprintf("references_of_%d_digits", length), func(t *testing.T) {
			t.Parallel()
			refused, _ := refusedOf(rand.New(rand.NewPCG(16, uint64(length))), func(r *rand.Rand) Value { return Text(digitsOf(r, length)) })
			t.Logf("%d random digits: %d of %d refused", length, refused, ratedCount())
			if refused*30 > ratedCount() {
				t.Errorf("%d of %d are refused, want fewer than 1 in 30: the ranges have 28 %% of all numbers, and a tenth of these a valid check digit", refused, ratedCount())
			}
		})
	}
}

func refusedOf(r *rand.Rand, made func(*rand.Rand) Value) (n int, last Value) {
	for range ratedCount() {
		if v := made(r); FindSensitive(v) != nil {
			n, last = n+1, v
		}
	}
	return n, last
}
