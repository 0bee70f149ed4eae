-- What verdicts rest on of a miner's past: how its challenges ended that named positions, and what its devices showed.

ALTER TABLE verdicts ADD COLUMN ended TEXT;
UPDATE verdicts SET ended = 'other' WHERE mode IS NOT NULL;
UPDATE verdicts SET ended = 'abandoned'
    WHERE challenge IN (SELECT r.challenge FROM reasons r WHERE r.code IN ('abandoned', 'abandoned_repeatedly'));
UPDATE verdicts SET ended = 'not_reading'
    WHERE challenge IN (SELECT r.challenge FROM reasons r WHERE r.code = 'not_reading');
CREATE INDEX verdicts_by_end ON verdicts (miner, at_ms, challenge, ended) WHERE ended IS NOT NULL;

CREATE TABLE shown (
    miner TEXT NOT NULL REFERENCES miners (id),
    device_id TEXT NOT NULL,
    precision BIGINT NOT NULL,
    name TEXT NOT NULL,
    bytes BIGINT NOT NULL,
    macs_per_s DOUBLE PRECISION NOT NULL,
    tops DOUBLE PRECISION NOT NULL,
    probe_bytes_per_s DOUBLE PRECISION NOT NULL,
    linked_bytes_per_s DOUBLE PRECISION NOT NULL,
    at_ms BIGINT NOT NULL,
    PRIMARY KEY (miner, device_id, precision)
);
INSERT INTO shown (miner, device_id, precision, name, bytes, macs_per_s, tops, probe_bytes_per_s, linked_bytes_per_s,
    at_ms)
SELECT d.miner, d.device_id, d.precision, d.model, d.most_bytes, d.tops * 500000000000, d.tops,
    d.probe_gb_per_s * 1000000000, 0, d.at_ms
FROM (SELECT r.miner, r.device_id, r.precision, r.model, r.tops, r.probe_gb_per_s, r.at_ms,
        MAX(r.matrices * r.n * r.n) OVER (PARTITION BY r.miner, r.device_id, r.precision) AS most_bytes,
        ROW_NUMBER() OVER (PARTITION BY r.miner, r.device_id, r.precision ORDER BY r.at_ms DESC, r.challenge) AS nth
    FROM device_results r
    WHERE r.work_held = 1 AND NOT EXISTS (SELECT 1 FROM actions a
        WHERE a.miner = r.miner AND a.action = 'forget' AND a.at_ms > r.at_ms)) d
WHERE d.nth = 1;
