-- The oldest schema whose programs can use the store, and the schema that each program that uses it knows.

CREATE TABLE compatibility (least_schema BIGINT NOT NULL);
INSERT INTO compatibility (least_schema) VALUES (9);
ALTER TABLE validators ADD COLUMN schema_version BIGINT NOT NULL DEFAULT 8;
ALTER TABLE workers ADD COLUMN schema_version BIGINT NOT NULL DEFAULT 8;
