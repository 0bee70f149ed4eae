-- The records of a validator. One text for SQLite and PostgreSQL; only BLOB is BYTEA there. docs/records.md describes
-- each table. Keys, ids and digests are lower-case hexadecimal; *_ms are milliseconds since 1970; labels and documents
-- are JSON; flags are 0 or 1.

CREATE TABLE store (
    id BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    created_ms BIGINT NOT NULL,
    written_ms BIGINT NOT NULL
);

CREATE TABLE validators (
    key TEXT NOT NULL PRIMARY KEY,
    instance TEXT NOT NULL,
    address TEXT NOT NULL,
    started_ms BIGINT NOT NULL,
    heartbeat_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL
);

CREATE TABLE miners (
    id TEXT NOT NULL PRIMARY KEY,
    key TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'suspended', 'revoked')),
    labels TEXT NOT NULL,
    state TEXT NOT NULL,
    standing TEXT,
    first_seen_ms BIGINT NOT NULL,
    last_seen_ms BIGINT NOT NULL,
    address TEXT NOT NULL,
    software TEXT NOT NULL,
    due_ms BIGINT,
    due_kind TEXT,
    last_challenge TEXT,
    last_outcome TEXT,
    last_verdict_ms BIGINT
);
CREATE INDEX miners_by_due ON miners (due_ms);

CREATE TABLE miner_keys (
    key TEXT NOT NULL PRIMARY KEY,
    miner TEXT NOT NULL REFERENCES miners (id),
    position BIGINT NOT NULL,
    since_ms BIGINT NOT NULL
);
CREATE INDEX miner_keys_by_miner ON miner_keys (miner, position);

CREATE TABLE sessions (
    id TEXT NOT NULL PRIMARY KEY,
    miner TEXT NOT NULL REFERENCES miners (id),
    key TEXT NOT NULL,
    validator TEXT NOT NULL,
    instance TEXT NOT NULL,
    address TEXT NOT NULL,
    software TEXT NOT NULL,
    inventory TEXT NOT NULL,
    connected_ms BIGINT NOT NULL,
    disconnected_ms BIGINT,
    why TEXT
);
CREATE INDEX sessions_by_miner ON sessions (miner, connected_ms);
CREATE INDEX sessions_open ON sessions (disconnected_ms, validator);

CREATE TABLE devices (
    miner TEXT NOT NULL REFERENCES miners (id),
    device_id TEXT NOT NULL,
    name TEXT NOT NULL,
    model TEXT NOT NULL,
    memory_bytes BIGINT NOT NULL,
    claims TEXT NOT NULL,
    first_seen_ms BIGINT NOT NULL,
    last_seen_ms BIGINT NOT NULL,
    gone_ms BIGINT,
    last_challenge TEXT,
    last_pass_ms BIGINT,
    PRIMARY KEY (miner, device_id)
);
CREATE INDEX devices_by_id ON devices (device_id);

CREATE TABLE device_events (
    id TEXT NOT NULL PRIMARY KEY,
    miner TEXT NOT NULL REFERENCES miners (id),
    device_id TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    what TEXT NOT NULL,
    other_miner TEXT,
    session TEXT,
    detail TEXT NOT NULL
);
CREATE INDEX device_events_by_miner ON device_events (miner, at_ms);
CREATE INDEX device_events_by_device ON device_events (device_id, at_ms);

CREATE TABLE rounds (
    id TEXT NOT NULL PRIMARY KEY,
    grp TEXT NOT NULL,
    asked TEXT NOT NULL,
    validator TEXT NOT NULL,
    begun_ms BIGINT NOT NULL,
    ended_ms BIGINT,
    detail TEXT NOT NULL
);
CREATE INDEX rounds_by_time ON rounds (begun_ms);

CREATE TABLE round_members (
    round TEXT NOT NULL REFERENCES rounds (id),
    miner TEXT NOT NULL REFERENCES miners (id),
    state TEXT NOT NULL,
    challenge TEXT,
    at_ms BIGINT NOT NULL,
    detail TEXT NOT NULL,
    PRIMARY KEY (round, miner)
);
CREATE INDEX round_members_by_miner ON round_members (miner, at_ms);

CREATE TABLE challenges (
    id TEXT NOT NULL PRIMARY KEY,
    miner TEXT NOT NULL REFERENCES miners (id),
    key TEXT NOT NULL,
    validator TEXT NOT NULL,
    instance TEXT NOT NULL,
    session TEXT NOT NULL,
    grp TEXT NOT NULL,
    kind TEXT NOT NULL,
    asked TEXT NOT NULL,
    round TEXT,
    begun_ms BIGINT NOT NULL,
    ended_ms BIGINT,
    device_ms BIGINT NOT NULL
);
CREATE INDEX challenges_by_miner ON challenges (miner, begun_ms);
CREATE INDEX challenges_open ON challenges (ended_ms, validator);

CREATE TABLE commitments (
    challenge TEXT NOT NULL PRIMARY KEY REFERENCES challenges (id),
    checksum TEXT NOT NULL,
    signature TEXT NOT NULL,
    probe_checksum TEXT,
    probe_signature TEXT
);

CREATE TABLE verdicts (
    challenge TEXT NOT NULL PRIMARY KEY REFERENCES challenges (id),
    miner TEXT NOT NULL REFERENCES miners (id),
    key TEXT NOT NULL,
    validator TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('pass', 'fail', 'inconclusive')),
    mode TEXT,
    n BIGINT NOT NULL,
    iterations BIGINT NOT NULL,
    iterations_checked BIGINT NOT NULL,
    bytes_held BIGINT NOT NULL,
    tops DOUBLE PRECISION NOT NULL,
    seconds DOUBLE PRECISION NOT NULL,
    probe_gb_per_s DOUBLE PRECISION NOT NULL,
    probe_seconds DOUBLE PRECISION NOT NULL,
    operator TEXT NOT NULL,
    document TEXT NOT NULL
);
CREATE INDEX verdicts_by_time ON verdicts (at_ms, challenge);
CREATE INDEX verdicts_by_miner ON verdicts (miner, at_ms);
CREATE INDEX verdicts_by_outcome ON verdicts (outcome, at_ms);

CREATE TABLE reasons (
    challenge TEXT NOT NULL REFERENCES verdicts (challenge),
    position BIGINT NOT NULL,
    code TEXT NOT NULL,
    class TEXT NOT NULL,
    device_id TEXT,
    detail TEXT NOT NULL,
    PRIMARY KEY (challenge, position)
);
CREATE INDEX reasons_by_code ON reasons (code);

CREATE TABLE device_results (
    challenge TEXT NOT NULL REFERENCES verdicts (challenge),
    device_id TEXT NOT NULL,
    miner TEXT NOT NULL REFERENCES miners (id),
    model TEXT NOT NULL,
    operator TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    n BIGINT NOT NULL,
    work_held BIGINT NOT NULL,
    matrices BIGINT NOT NULL,
    bytes_held BIGINT NOT NULL,
    tops DOUBLE PRECISION NOT NULL,
    seconds DOUBLE PRECISION NOT NULL,
    probe_bytes BIGINT NOT NULL,
    probe_gb_per_s DOUBLE PRECISION NOT NULL,
    probe_seconds DOUBLE PRECISION NOT NULL,
    hidden_share DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (challenge, device_id)
);
CREATE INDEX device_results_by_model ON device_results (model, work_held, at_ms);

CREATE TABLE telemetry (
    challenge TEXT NOT NULL REFERENCES verdicts (challenge),
    device_id TEXT NOT NULL,
    samples BIGINT NOT NULL,
    document TEXT NOT NULL,
    PRIMARY KEY (challenge, device_id)
);

CREATE TABLE evidence (
    challenge TEXT NOT NULL PRIMARY KEY REFERENCES verdicts (challenge),
    digest TEXT NOT NULL,
    bytes BIGINT NOT NULL,
    stored_bytes BIGINT NOT NULL,
    why TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    dropped_ms BIGINT
);
CREATE INDEX evidence_by_digest ON evidence (digest);
CREATE INDEX evidence_kept ON evidence (dropped_ms, at_ms);

CREATE TABLE transitions (
    id TEXT NOT NULL PRIMARY KEY,
    miner TEXT NOT NULL REFERENCES miners (id),
    at_ms BIGINT NOT NULL,
    from_state TEXT NOT NULL,
    to_state TEXT NOT NULL,
    why TEXT NOT NULL,
    detail TEXT NOT NULL,
    challenge TEXT
);
CREATE INDEX transitions_by_miner ON transitions (miner, at_ms);

CREATE TABLE findings (
    id TEXT NOT NULL PRIMARY KEY,
    miner TEXT NOT NULL REFERENCES miners (id),
    at_ms BIGINT NOT NULL,
    code TEXT NOT NULL,
    other_miner TEXT,
    device_id TEXT,
    detail TEXT NOT NULL,
    enforced BIGINT NOT NULL,
    challenge TEXT
);
CREATE INDEX findings_by_miner ON findings (miner, at_ms);
CREATE INDEX findings_by_challenge ON findings (challenge);

CREATE TABLE receipts (
    id TEXT NOT NULL PRIMARY KEY,
    challenge TEXT NOT NULL REFERENCES verdicts (challenge),
    miner TEXT NOT NULL REFERENCES miners (id),
    key_id TEXT NOT NULL,
    issued_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL,
    nonce TEXT,
    token TEXT NOT NULL
);
CREATE INDEX receipts_by_challenge ON receipts (challenge);
CREATE INDEX receipts_by_miner ON receipts (miner, issued_ms);

CREATE TABLE actions (
    id TEXT NOT NULL PRIMARY KEY,
    at_ms BIGINT NOT NULL,
    actor TEXT NOT NULL,
    uid BIGINT,
    action TEXT NOT NULL,
    miner TEXT,
    detail TEXT NOT NULL
);
CREATE INDEX actions_by_time ON actions (at_ms);
CREATE INDEX actions_by_miner ON actions (miner, at_ms);

CREATE TABLE tokens (
    hash TEXT NOT NULL PRIMARY KEY,
    labels TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    expires_ms BIGINT NOT NULL,
    used_ms BIGINT,
    used_by TEXT
);

CREATE TABLE leases (
    subject TEXT NOT NULL PRIMARY KEY,
    holder TEXT NOT NULL,
    since_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL
);
CREATE INDEX leases_by_holder ON leases (holder);

CREATE TABLE workers (
    id TEXT NOT NULL PRIMARY KEY,
    address TEXT NOT NULL,
    capacity TEXT NOT NULL,
    heartbeat_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL
);

CREATE TABLE jobs (
    id TEXT NOT NULL PRIMARY KEY,
    challenge TEXT NOT NULL,
    submitted_by TEXT NOT NULL,
    submitted_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL,
    needs_bytes BIGINT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'running', 'done', 'failed')),
    attempts BIGINT NOT NULL,
    worker TEXT,
    lease_ms BIGINT,
    ended_ms BIGINT,
    result TEXT,
    document BLOB NOT NULL
);
CREATE INDEX jobs_by_state ON jobs (state, submitted_ms);
CREATE INDEX jobs_by_challenge ON jobs (challenge);
