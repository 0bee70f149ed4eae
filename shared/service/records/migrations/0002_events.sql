-- What happens, in order, for programs that follow it; who may use the API; and who is sent events.

ALTER TABLE store ADD COLUMN last_event BIGINT NOT NULL DEFAULT 0;

CREATE TABLE events (
    seq BIGINT NOT NULL PRIMARY KEY,
    id TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    kind TEXT NOT NULL,
    miner TEXT,
    challenge TEXT,
    document TEXT NOT NULL
);

CREATE TABLE api_tokens (
    id TEXT NOT NULL PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL CHECK (role IN ('read', 'operate', 'admin')),
    name TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    expires_ms BIGINT NOT NULL,
    revoked_ms BIGINT,
    last_used_ms BIGINT
);

CREATE TABLE webhooks (
    id TEXT NOT NULL PRIMARY KEY,
    source TEXT NOT NULL CHECK (source IN ('operator', 'settings')),
    target TEXT NOT NULL,
    url BLOB NOT NULL,
    secret BLOB NOT NULL,
    kinds TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    disabled_ms BIGINT,
    disabled_why TEXT
);

CREATE TABLE deliveries (
    webhook TEXT NOT NULL PRIMARY KEY REFERENCES webhooks (id),
    last_event BIGINT NOT NULL,
    delivered BIGINT NOT NULL,
    delivered_ms BIGINT,
    skipped BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    failing_ms BIGINT,
    next_ms BIGINT,
    last_error TEXT
);
