-- What a checkpoint interval costs and which would be best (seed 002, section 6): views with parameters, for any fleet; and each run's own figures.
-- Expected share of productive time after Kokolis et al. (arXiv 2410.21680): about (1 - N r (u + dt/2)) / (1 + w/dt), with N nodes, r failures per
-- node and minute, u minutes to restart, dt minutes between saves, w minutes that a save blocks. Best interval: Young sqrt(2 w M), Daly's first
-- order w less, with M = 1/(N r).

CREATE OR REPLACE VIEW {db}.expected_productive_share AS
SELECT
    {nodes:Float64} * {failures_per_1000_node_days:Float64} / 1000 / 1440 AS failures_per_minute,
    greatest(0., (1 - failures_per_minute * ({restart_minutes:Float64} + {interval_minutes:Float64} / 2)) / (1 + {save_minutes:Float64} / {interval_minutes:Float64})) AS productive_share;

CREATE OR REPLACE VIEW {db}.best_checkpoint_interval AS
SELECT
    1 / ({nodes:Float64} * {failures_per_1000_node_days:Float64} / 1000 / 1440) AS minutes_between_failures,
    sqrt(2 * {save_minutes:Float64} * minutes_between_failures) AS young_minutes,
    young_minutes - {save_minutes:Float64} AS daly_minutes;
