-- Rows by the miner that they name: strangers are removed, and records joined, without a walk over whole tables.

CREATE INDEX device_results_by_miner ON device_results (miner);
CREATE INDEX device_events_by_other_miner ON device_events (other_miner) WHERE other_miner IS NOT NULL;
CREATE INDEX findings_by_other_miner ON findings (other_miner) WHERE other_miner IS NOT NULL;
CREATE INDEX tokens_by_user ON tokens (used_by) WHERE used_by IS NOT NULL;
CREATE INDEX rounds_open ON rounds (validator) WHERE ended_ms IS NULL;
DROP INDEX sessions_open;
CREATE INDEX sessions_open ON sessions (disconnected_ms, miner) WHERE disconnected_ms IS NULL;
