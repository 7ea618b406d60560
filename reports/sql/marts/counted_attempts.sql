-- Grain: one cell that was tried (experiment × arm × instance × repeat), with the attempt that counts:
-- the latest that infrastructure did not end or, where there is none, the latest.
with attempts as (
    select * exclude (repo, difficulty) from staging.attempts
),

tried_again as (
    select * from marts.cells_tried_again
),

-- Only these are sorted: most cells have one attempt, and sorting a million is slow.
ranked as (
    select
        attempts.*,
        row_number() over (
            partition by experiment, arm, instance_id, repeat
            order by is_unfinished, started_at_utc desc nulls last, attempt_id desc
        ) as rank
    from attempts
    semi join tried_again using (experiment, arm, instance_id, repeat)
),

superseded as (
    select
        experiment,
        arm,
        instance_id,
        repeat,
        count(*) as superseded_attempts,
        sum(cost_usd) as superseded_cost_usd,
        count(*) filter (not is_cost_complete) as superseded_incomplete
    from ranked
    where rank > 1
    group by all
),

final as (
    select
        attempts.*,
        0 as superseded_attempts,
        null::double as superseded_cost_usd,
        0 as superseded_incomplete
    from attempts
    anti join tried_again using (experiment, arm, instance_id, repeat)

    union all by name

    select
        ranked.* exclude (rank),
        superseded_attempts,
        superseded_cost_usd,
        superseded_incomplete
    from ranked
    inner join superseded using (experiment, arm, instance_id, repeat)
    where rank = 1
)

select * from final
