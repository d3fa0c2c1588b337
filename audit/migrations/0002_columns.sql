-- Columns that views need and that stood only in the payload.

ALTER TABLE {db}.signals
    ADD COLUMN IF NOT EXISTS unit String COMMENT 'reset unit of the chip, or the unit that was repaired',
    ADD COLUMN IF NOT EXISTS incident String COMMENT 'incident a repair belongs to';

ALTER TABLE {db}.facts
    ADD COLUMN IF NOT EXISTS released_by String COMMENT 'who took our taint off by hand';

ALTER TABLE {db}.mailbox
    ADD COLUMN IF NOT EXISTS until DateTime64(6, 'UTC') COMMENT 'when a pause ends by itself, 1970: never';
