package snapshot

import (
	"errors"
	"strconv"
	"strings"
	"testing"
)

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
		{"an_old_visa_number_of_13_digits", `{"a":"4222222222222"}`, "a"},
		{"groups_with_spaces", `{"a":"4242 4242 4242 4242"}`, "a"},
		{"groups_with_dashes", `{"a":"4242-4242-4242-4242"}`, "a"},
		{"groups_with_narrow_spaces", "{\"a\":\"4242\u202f4242\u202f4242\u202f4242\"}", "a"},
		{"within_a_sentence", `{"notes":"paid 2 with 4242 4242 4242 4242 today"}`, "notes"},
		{"beside_letters", `{"id":"tok_4242424242424242"}`, "id"},
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
		t.Run("events_2.4_card_guard_"+tt.name, func(t *testing.T) {
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

// FuzzHoldsCardNumber hides a true card number behind any text.
func FuzzHoldsCardNumber(f *testing.F) {
	f.Add("ref ", uint64(424242424242424), "-")
	f.Add("1 2 ", uint64(0), " ")
	f.Fuzz(func(t *testing.T, before string, account uint64, separator string) {
		if before != "" && (isDigit(before[len(before)-1])) {
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
