-- The kind of work of a challenge, by its number in docs/WORK.md: until now all were INT8.

ALTER TABLE verdicts ADD COLUMN precision BIGINT NOT NULL DEFAULT 1;
ALTER TABLE device_results ADD COLUMN precision BIGINT NOT NULL DEFAULT 1;

DROP INDEX device_results_by_model;
CREATE INDEX device_results_by_model ON device_results (model, precision, work_held, at_ms);
