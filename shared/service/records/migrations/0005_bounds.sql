-- What is asked by a round, a reason or a device is found by an index, whatever the number of verdicts.

CREATE INDEX challenges_by_round ON challenges (round) WHERE round IS NOT NULL;

DROP INDEX device_results_by_model;
CREATE INDEX device_results_by_device ON device_results (model, precision, work_held, miner, device_id, at_ms);

-- The time of the verdict, in the first of its reasons with a code: a list by code has each verdict once, in order.
ALTER TABLE reasons ADD COLUMN first_ms BIGINT;
UPDATE reasons SET first_ms = (SELECT v.at_ms FROM verdicts v WHERE v.challenge = reasons.challenge)
    WHERE position = (SELECT MIN(o.position) FROM reasons o
    WHERE o.challenge = reasons.challenge AND o.code = reasons.code);
DROP INDEX reasons_by_code;
CREATE INDEX reasons_by_code ON reasons (code, first_ms, challenge);

CREATE INDEX findings_by_time ON findings (at_ms, id);

-- The token of the API that a token was made with: it ends with that.
ALTER TABLE api_tokens ADD COLUMN parent TEXT;
