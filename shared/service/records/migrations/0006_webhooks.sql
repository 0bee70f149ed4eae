-- A webhook is one that an operator added: the one of the setting `on_event` is gone, and every one signs.

DELETE FROM deliveries WHERE webhook IN (SELECT w.id FROM webhooks w WHERE w.source = 'settings');
DELETE FROM webhooks WHERE source = 'settings';
ALTER TABLE webhooks DROP COLUMN source;
