-- Challenges that run are few, however many there were: their index has no others.

DROP INDEX challenges_open;
CREATE INDEX challenges_open ON challenges (ended_ms, miner) WHERE ended_ms IS NULL;
