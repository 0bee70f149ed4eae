-- The place of a verdict in its validator's log: those without one are found by an index, in their order.

ALTER TABLE verdicts ADD COLUMN log_index BIGINT;
CREATE INDEX verdicts_unlogged ON verdicts (validator, at_ms, challenge) WHERE log_index IS NULL;
CREATE UNIQUE INDEX verdicts_logged ON verdicts (validator, log_index) WHERE log_index IS NOT NULL;
