package snapshot

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// Promise (§2.4): card numbers and unmasked secrets are refused by path; the guard can warn or be
// off
func TestSensitive(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, wantPath string }{
		{"a_visa_number", `{"card":{"note":"4242424242424242"}}`, "card.note"},
		{"a_mastercard_number", `{"a":"5555555555554444"}`, "a"},
		{"a_mastercard_number_of_the_2_range", `{"a":"2223003122003222"}`, "a"},
		{"an_american_express_number", `{"a":"378282246310005"}`, "a"},
		{"a_discover_number", `{"a":"6011111111111117"}`, "a"},
		{"a_diners_number", `{"a":"30569309025904"}`, "a"},
		{"a_jcb_number", `{"a":"3530111333300000"}`, "a"},
		{"a_unionpay_number", `{"a":"6200000000000005"}`, "a"},
		{"a_visa_number_of_19_digits", `{"a":"4000000000000000006"}`, "a"},
		{"a_diners_number_of_16_digits", `{"a":"3056930009020004"}`, "a"},
		{"a_maestro_number", `{"a":"6771798021000008"}`, "a"},
		{"a_maestro_number_of_12_digits", `{"a":"501800000009"}`, "a"},
		{"a_unionpay_number_of_the_81_range", `{"a":"8171999927660000"}`, "a"},
		{"an_old_visa_number_of_13_digits_is_no_card", `{"a":"4222222222222"}`, ""},
		{"a_mastercard_number_of_19_digits_is_no_card", `{"a":"5555555555554444004"}`, ""},
		{"an_american_express_number_of_16_digits_is_no_card", `{"a":"3782822463100008"}`, ""},
		{"groups_with_spaces", `{"a":"4242 4242 4242 4242"}`, "a"},
		{"groups_with_dashes", `{"a":"4242-4242-4242-4242"}`, "a"},
		{"groups_with_narrow_spaces", "{\"a\":\"4242\u202f4242\u202f4242\u202f4242\"}", "a"},
		{"within_a_sentence", `{"notes":"paid 2 with 4242 4242 4242 4242 today"}`, "notes"},
		{"behind_an_underscore", `{"id":"tok_4242424242424242"}`, "id"},
		{"behind_a_letter_is_no_card", `{"id":"tok4242424242424242"}`, ""},
		{"before_a_letter_is_no_card", `{"id":"4242424242424242é"}`, ""},
		{"groups_before_a_letter_are_no_card", `{"id":"4242-4242-4242-4242a"}`, ""},
		{"between_ideographs", `{"a":"卡号4242424242424242已付"}`, "a"},
		{"behind_a_plus_sign_is_no_card", `{"a":"+4242424242424242"}`, ""},
		{"behind_a_country_code", `{"a":"+1 4242 4242 4242 4242"}`, "a"},
		{"a_mobile_number_with_a_country_code", `{"a":"+49 151 1234 5678"}`, ""},
		{"a_fraction_is_no_card", `{"a":"0.4242424242424242","b":0.4242424242424242}`, ""},
		{"groups_behind_a_point", `{"a":"1.4242 4242 4242 4242"}`, "a"},
		{"groups_with_dots", `{"a":"4242.4242.4242.4242"}`, "a"},
		{"groups_with_soft_hyphens", "{\"a\":\"4242\u00ad4242\u00ad4242\u00ad4242\"}", "a"},
		{"full_width_digits", `{"a":"４２４２４２４２４２４２４２４２"}`, "a"},
		{"arabic_digits", `{"a":"٤٢٤٢ ٤٢٤٢ ٤٢٤٢ ٤٢٤٢"}`, "a"},
		{"in_a_phone_member_is_no_card", `{"phone":"4242424242424242","Home_Phone_2":"4242424242424242","mobile":4242424242424242,"fax number":["4242424242424242"]}`, ""},
		{"a_member_like_a_phone", `{"phonecard":"4242424242424242"}`, "phonecard"},
		{"as_the_name_of_a_member", `{"cards":{"4242424242424242":true}}`, "cards"},
		{"a_number_with_an_exponent", `{"pan":4.242424242424242e15}`, "pan"},
		{"a_number_with_another_exponent", `{"pan":42424242424242420e-1}`, "pan"},
		{"a_number_with_a_fraction", `{"pan":4242424242424242.5}`, "pan"},
		{"a_number_without_quotes", `{"pan":4242424242424242}`, "pan"},
		{"within_an_array", `{"lines":[{"memo":"x"},{"memo":"4242424242424242"}]}`, "lines[1].memo"},
		{"a_wrong_check_digit_is_no_card", `{"a":"4242424242424241"}`, ""},
		{"another_prefix_is_no_card", `{"a":"1234567812345670"}`, ""},
		{"a_masked_number_is_no_card", `{"a":"424242******4242"}`, ""},
		{"twenty_digits_are_no_card", `{"a":"42424242424242424242"}`, ""},
		{"twelve_digits_are_no_card", `{"a":"424242424242"}`, ""},
		{"two_separators_part_the_groups", `{"a":"4242--4242--4242--4242"}`, ""},
		{"a_time_in_milliseconds", `{"a":1773070200000}`, ""},
		{"a_security_code", `{"cvv":"123"}`, "cvv"},
		{"a_security_code_as_a_number", `{"cvc":123}`, "cvc"},
		{"a_masked_security_code", `{"cvv":"***"}`, ""},
		{"a_security_code_of_x", `{"cvv":"xxx"}`, ""},
		{"an_empty_security_code", `{"cvv":""}`, ""},
		{"a_password", `{"login":{"password":"hunter2"}}`, "login.password"},
		{"a_password_with_an_x", `{"password":"xylophone"}`, "password"},
		{"a_masked_password", `{"password":"•••••"}`, ""},
		{"a_secret", `{"secret":"abc"}`, "secret"},
		{"a_flag_named_as_a_secret", `{"password":true}`, ""},
		{"an_account_number", `{"accountNumber":"000123456789"}`, "accountNumber"},
		{"an_account_number_in_another_spelling", `{"Account_Number":"000123456789"}`, "Account_Number"},
		{"the_last_four_of_an_account_number", `{"accountNumber":"6789"}`, ""},
		{"a_masked_account_number", `{"accountNumber":"xxxxx6789"}`, ""},
		{"a_social_security_number", `{"ssn":"078-05-1120"}`, "ssn"},
		{"a_list_of_secrets", `{"ssn":["078-05-1120"]}`, "ssn[0]"},
		{"a_name_that_only_begins_like_a_secret", `{"secretary":"Odile"}`, ""},
	}
	for _, tt := range tests {
		t.Run("card_guard_"+tt.name, func(t *testing.T) {
			t.Parallel()
			err := FindSensitive(mustParse(t, tt.in))
			var e *Error
			if errors.As(err, &e) != (tt.wantPath != "") {
				t.Fatalf("FindSensitive(%s) = %v, want path %q", tt.in, err, tt.wantPath)
			}
			if e != nil && (e.Path != tt.wantPath || e.Fault != SensitiveField) {
				t.Errorf("FindSensitive(%s) = %d at %q, want %q", tt.in, e.Fault, e.Path, tt.wantPath)
			}
			if e != nil && strings.Contains(e.Reason, "4242") {
				t.Errorf("the reason repeats the value: %s", e.Reason)
			}
		})
	}
}

// FuzzHoldsCardNumber puts a real card number after any text.
func FuzzHoldsCardNumber(f *testing.F) {
	f.Add("ref ", uint64(424242424242424), "-")
	f.Add("1 2 ", uint64(0), " ")
	f.Fuzz(func(t *testing.T, before string, account uint64, separator string) {
		if r, _ := utf8.DecodeLastRuneInString(before); unicode.IsDigit(r) || unicode.IsLetter(r) || strings.ContainsRune("+.", r) {
			return
		}
		digits := []byte("4" + pad(account%1e14, 14))
		for i := range digits {
			digits[i] -= '0'
		}
		for check := range byte(10) {
			if passesLuhn(append(digits, check)) {
				digits = append(digits, check)
				break
			}
		}
		for i := range digits {
			digits[i] += '0'
		}
		number := string(digits)
		if separator == " " || separator == "-" {
			number = number[:4] + separator + number[4:8] + separator + number[8:12] + separator + number[12:]
		}
		if !holdsCardNumber(before + number) {
			t.Errorf("the guard does not see %q", before+number)
		}
	})
}

func pad(n uint64, width int) string {
	text := strconv.FormatUint(n, 10)
	return strings.Repeat("0", width-len(text)) + text
}
