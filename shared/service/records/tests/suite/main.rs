//! One suite against both real databases: SQLite in a file, and a PostgreSQL server of this process.
#![cfg(unix)]

mod examples;
mod store;

mod api_tokens;
mod backup;
mod bounds;
mod challenges;
mod child;
mod conclude;
mod copy;
mod export;
mod leases;
mod logged;
mod memory;
mod miners;
mod opening;
mod outbox;
mod queue;
mod series;
mod tokens;
mod trouble;
mod verdicts;
mod webhooks;

/// Runs each test against both databases, as `sqlite::…` and `postgres::…`.
macro_rules! suite {
    ($($module:ident: $($test:ident),+;)+) => {
        mod sqlite {$( mod $module {$(
            #[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                crate::$module::$test(&crate::store::TestStore::sqlite()).await;
            }
        )+} )+}
        mod postgres {$( mod $module {$(
            #[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                crate::$module::$test(&crate::store::TestStore::postgres()).await;
            }
        )+} )+}
    };
}

suite! {
    api_tokens: a_token_has_its_role_until_it_is_revoked, a_token_ends_and_is_nowhere_in_the_store,
        a_token_ends_with_the_one_that_made_it, a_token_that_is_being_made_ends_with_its_maker, a_token_that_ended_long_ago_is_removed, a_use_is_noted_once_a_minute,
        tokens_are_listed_in_pages;
    bounds: devices_that_are_made_up_are_bounded, sessions_of_a_miner_are_bounded,
        strangers_are_removed_with_all_that_is_known_of_them, a_stranger_stays_that_is_being_decided_about,
        work_that_held_makes_no_stranger_whatever_the_outcome,
        evidence_of_strangers_is_told_from_that_of_others, old_verdicts_are_removed_unless_something_rests_on_them,
        old_rounds_are_removed_with_their_members, rounds_that_are_cut_short_end;
    challenges: the_next_challenge_survives_a_restart, device_time_is_summed, challenges_of_lost_validators_are_found;
    conclude: a_verdict_is_there_whole_or_not_at_all, the_same_verdict_again_changes_nothing,
        another_verdict_of_the_challenge_is_refused, a_conclusion_that_fails_leaves_nothing,
        many_at_once_are_written_together_and_one_that_is_refused_stops_none,
        many_of_one_miner_at_once_leave_the_newest_in_its_row;
    child: no_acknowledged_verdict_is_lost_when_the_writer_is_killed;
    export: every_table_and_column_is_described, json_lines_have_every_row,
        an_export_is_one_moment, an_export_needs_little_memory,
        nothing_is_overwritten;
    leases: one_of_many_gets_a_lease, a_lease_ends_by_itself_and_is_taken_over, what_is_lost_is_not_renewed,
        a_clock_that_goes_back_prolongs_nothing;
    logged: verdicts_are_logged_in_order_and_once;
    memory: what_a_verdict_shows_is_remembered_by_every_validator, only_challenges_that_named_positions_count,
        the_memory_of_keys_that_turn_out_one_miners_is_joined,
        a_joined_key_sheds_nothing_that_devices_showed, a_store_of_before_is_remembered,
        an_unknown_key_before_a_known_one_stays_out, the_keys_of_a_miner_are_bounded;
    miners: a_miner_is_the_chain_of_its_keys, two_records_become_one_with_the_stricter_status,
        a_new_key_sheds_nothing_of_a_record, a_finding_is_noted_once_until_it_is_old,
        every_decision_says_who_and_when, what_an_operator_said_stands_against_what_was_known_before, devices_come_and_go_and_lie_elsewhere, filters_leave_out, labels_are_bounded_however_many_are_set_at_once,
        a_page_of_few_is_found_among_many;
    opening: a_store_that_was_there_is_not_new, many_open_an_empty_store_at_once,
        a_newer_store_is_refused_and_not_touched;
    outbox: everything_that_happens_is_told_with_it, what_is_repeated_or_refused_is_not_told,
        a_reader_misses_nothing_that_others_write, whoever_waits_is_woken, old_events_and_too_many_are_removed,
        an_event_of_a_wrong_clock_removes_no_others, an_action_is_found_whatever_the_clocks, an_event_of_a_newer_release_is_passed_over,
        sessions_that_end_with_their_validator_are_told,
        sessions_of_a_validator_that_was_not_lost_are_opened_anew;
    queue: each_job_goes_to_one_worker, a_lost_worker_loses_its_job_and_its_result, a_job_that_kills_workers_fails,
        a_job_waits_for_a_worker_with_memory;
    series: devices_are_shown_over_time, the_fleet_is_counted, lists_have_pages;
    trouble: a_value_that_is_refused_is_no_trouble;
    tokens: a_token_lets_one_in_of_many, a_token_can_be_shown_again_by_its_user, what_is_no_token_is_refused,
        a_token_is_taken_back_and_ends_with_the_one_that_made_it,
        a_token_that_expired_long_ago_is_removed_unless_it_was_used;
    verdicts: pages_have_each_verdict_once, filters_find_what_they_name, receipts_of_a_miner_are_listed,
        ids_are_found_by_their_beginning,
        samples_are_the_newest_of_each_device, a_page_of_rounds_is_one_question,
        no_operator_pushes_others_out_of_the_samples, the_document_is_what_json_prints, history_has_everything_newest_first;
    webhooks: a_webhook_begins_with_what_happens_next, a_delivery_goes_forward_only,
        a_disabled_webhook_is_enabled_where_it_was,
        kinds_of_another_release_are_passed_over,
        there_are_only_so_many;
}
