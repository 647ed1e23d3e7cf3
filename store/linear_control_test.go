package store_test

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"tollhouse/store/record"
)

// played is a call, its answer, and whether it began before the previous one had
// returned.
type played struct {
	asked
	answer
	meanwhile bool
}

func historyOf(calls []played) (history []porcupine.Operation) {
	tick := int64(0)
	for _, c := range calls {
		tick += 2
		op := porcupine.Operation{Input: c.asked, Call: tick, Output: c.answer, Return: tick + 1}
		if c.meanwhile {
			op.Call = history[len(history)-1].Call
		}
		history = append(history, op)
	}
	return history
}

// The parts of the control histories. Their clock starts at 1.
var (
	hour    = lives.AccessToken.Milliseconds()
	later   = 1 + (lives.RefreshGrace + tick).Milliseconds() // than the grace
	expired = 1 + lives.RefreshToken.Milliseconds()
	allowed = played{asked: asked{verb: verbAllow, now: 1, until: 1}}
	first   = played{asked: asked{verb: verbRedeem, now: 1, until: 1}, answer: answer{refresh: 1, access: 2, left: hour}}
	second  = refreshed(1, 1, answer{refresh: 3, access: 4, left: hour})
	used    = played{asked: asked{verb: verbUse, token: 4, ends: 1 + hour, now: 1, until: 1}, answer: answer{alive: true}}
	revoked = played{asked: asked{verb: verbRevoke, token: 3, now: 1, until: 1}}
	ended   = played{asked: asked{verb: verbEndUser}}
	restart = played{asked: asked{verb: verbRestart}}
)

func refreshed(token int, now int64, out answer) played {
	return played{asked: asked{verb: verbRefresh, token: token, ends: 1 + lives.RefreshToken.Milliseconds(), now: now, until: now}, answer: out}
}

func (p played) butMeanwhile() played { p.meanwhile = true; return p }
func (p played) butUnknown() played   { p.answer = answer{unknown: true}; return p }
func (p played) byStranger(refusal error) played {
	p.stranger, p.answer = true, answer{refusal: refusal}
	return p
}

// TestParallelHistoriesCanFail gives the checker histories that break a promise, which
// it must refuse, and similar ones that keep it.
func TestParallelHistoriesCanFail(t *testing.T) {
	t.Parallel()
	third := answer{refresh: 5, access: 6, left: hour}
	again := answer{refresh: 3, access: 4, left: hour, again: true}
	replayed, gone, old := answer{refusal: record.ErrReplayed}, answer{refusal: record.ErrRevoked}, answer{refusal: record.ErrExpired}
	cases := []struct {
		name  string
		calls []played
		keeps bool
	}{
		{"a_repeat_gives_the_identical_pair", []played{allowed, first, second, refreshed(1, 1, again)}, true},
		{"a_repeat_gives_a_second_live_token", []played{allowed, first, second, refreshed(1, 1, third)}, false},
		{"two_at_once_give_two_live_tokens", []played{allowed, first, second, refreshed(1, 1, third).butMeanwhile()}, false},
		{"a_token_is_rotated_twice_within_a_family", []played{allowed, first, second, refreshed(3, 1, third), refreshed(1, 1, again)}, false},
		{"a_code_is_redeemed_twice", []played{allowed, first, {asked: first.asked, answer: third}}, false},
		{"a_code_is_redeemed_twice_at_once", []played{allowed, first, {asked: first.asked, answer: third, meanwhile: true}}, false},

		{"a_revoked_family_is_refused", []played{allowed, first, second, revoked, refreshed(3, 1, gone)}, true},
		{"a_revoked_family_rotates", []played{allowed, first, second, revoked, refreshed(3, 1, third)}, false},
		{"a_revoked_family_acts", []played{allowed, first, second, revoked, used}, false},
		{"a_revoked_family_acts_before_it_is", []played{allowed, first, second, revoked, used.butMeanwhile()}, true},
		{"a_revoked_family_revives_in_a_restart", []played{allowed, first, second, revoked, restart, used}, false},
		{"a_user_s_tokens_act_after_their_end", []played{allowed, first, second, ended, used}, false},

		{"a_lost_answer_is_given_again", []played{allowed, first, second.butUnknown(), refreshed(1, 1, again)}, true},
		{"a_lost_answer_was_never_made", []played{allowed, first, second.butUnknown(), second}, true},
		{"a_lost_answer_is_replaced_after_the_grace", []played{allowed, first, second, refreshed(1, later, third)}, true},
		{"a_lost_answer_cannot_be_had_again", []played{allowed, first, second, refreshed(1, later, replayed)}, false},
		{"a_lost_answer_cannot_be_had_again_after_a_restart", []played{allowed, first, second.butUnknown(), restart, refreshed(1, 1, gone)}, false},
		{"an_acknowledged_rotation_is_undone_by_a_restart", []played{allowed, first, second, restart, second}, false},

		{"a_used_pair_makes_a_repeat_a_theft", []played{allowed, first, second, used, refreshed(1, later, replayed)}, true},
		{"a_used_pair_is_replaced", []played{allowed, first, second, used, refreshed(1, later, third)}, false},
		{"a_used_pair_is_replaced_once_its_note_was_lost", []played{allowed, first, second, used, restart, refreshed(1, later, third)}, true},
		{"a_pair_used_while_it_is_replaced_is_replaced", []played{allowed, first, second, used, refreshed(1, later, third).butMeanwhile()}, true},
		{"a_pair_used_while_it_is_replaced_is_a_theft", []played{allowed, first, second, used, refreshed(1, later, replayed).butMeanwhile()}, true},
		{"a_replaced_pair_acts", []played{allowed, first, second, refreshed(1, later, third), used}, false},

		{"a_replay_of_a_spent_token_ends_the_family", []played{allowed, first, second, refreshed(3, 1, third), refreshed(1, expired-1, replayed)}, true},
		{"a_replay_of_an_expired_token_changes_nothing", []played{allowed, first, second, refreshed(3, 1, third), refreshed(1, expired, old)}, true},
		{"a_replay_of_an_expired_token_ends_the_family", []played{allowed, first, second, refreshed(3, 1, third), refreshed(1, expired, replayed)}, false},
		{"a_used_pair_makes_no_theft_of_an_expired_token", []played{allowed, first, second, used, refreshed(1, expired, old)}, true},

		{"a_stranger_is_refused", []played{allowed, first, second.byStranger(record.ErrMismatch), second}, true},
		{"a_stranger_s_refresh_hurts_the_family", []played{allowed, first, second, second.byStranger(record.ErrMismatch), refreshed(3, 1, gone)}, false},
		{"a_stranger_s_redemption_burns_the_code", []played{allowed, first.byStranger(record.ErrMismatch), {asked: first.asked, answer: replayed}}, false},
		{"a_stranger_s_revocation_hurts_the_family", []played{allowed, first, second, revoked.byStranger(nil), refreshed(3, 1, gone)}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			history := withUses(historyOf(c.calls))
			want := porcupine.Illegal
			if c.keeps {
				want = porcupine.Ok
			}
			if got := porcupine.CheckOperationsTimeout(authorizations(), history, time.Minute); got != want {
				t.Errorf("the checker says %s, want %s:\n%s", got, want, describe(history))
			}
		})
	}
}
